//! Tests the evidence of real crashes and hangs, from the exit status to the source line.

use super::support::{CommandOutput, LAST_RUN, PROVOKE, Running, Sandbox, send, wait_until};
use crate::autopsy::python::Extension;
use crate::needs::{kernel_log, needs, program, python_headers, root};
use provoke_sys::pidfd::Pidfd;
use provoke_sys::process::child_pids;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Compiles a program in the sandbox and returns its path.
pub(super) fn compile(sandbox: &Sandbox, name: &str, source: &str, flags: &[&str]) -> String {
    let file = sandbox.write(&format!("{name}.c"), source);
    let program = sandbox.path(name);
    let mut cc = Command::new("cc");
    cc.arg("-w").arg(file).args(flags).arg("-o").arg(&program);
    assert!(cc.status().unwrap().success());
    program.to_str().unwrap().to_owned()
}

/// Returns the titles of the measured signatures, and of the captured ones.
fn titles(report: &Value) -> (Vec<String>, Vec<String>) {
    let list = |signatures: &Value| -> Vec<String> {
        let mut all: Vec<String> = signatures
            .as_array()
            .into_iter()
            .flatten()
            .map(|seen| seen["title"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        all
    };
    let variant = &report["variants"][0];
    (
        list(&variant["signatures"]),
        list(&variant["captured"]["signatures"]),
    )
}

fn is_alive(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid).exists()
}

pub(super) const NULL: &str = r#"
    #include <stdlib.h>
    struct thing { long a, b, c; };
    __attribute__((noinline)) long conv(struct thing *p) { return p->c + 1; }
    __attribute__((noinline)) long forward(struct thing *p) { return conv(p) * 2; }
    int main(void) { return atoi(getenv("PROVOKE_TRIAL")) % 4 ? 0 : forward(0) + 1; }
"#;

#[test]
fn a_null_pointer_in_every_fourth_trial_has_one_signature_and_its_rate() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let (report, output) = sandbox.report(&["-n", "20", "--", &program]);
    let variant = &report["variants"][0];
    let [low, high] = [0, 1].map(|end| variant["rate"]["cp"][end].as_f64().unwrap());
    assert!(low < 0.25 && 0.25 < high, "{output}");
    assert_eq!(variant["failing_trials"].as_array().unwrap().len(), 5);
    let (_, caught) = titles(&report);
    let title = "SIGSEGV, null pointer + 0x10, in conv < forward < main";
    assert_eq!(caught, [title]);
    assert!(output.stdout.contains(title), "{output}");

    let explained = |trial: &Value| {
        let output = sandbox.provoke(&["explain", &format!("last#{trial}")]);
        output
            .stdout
            .contains("an extra trial after the measurement, for evidence; it is not counted")
    };
    let extra = &variant["captured"]["signatures"][0]["trials"][0];
    assert!(explained(extra) && !explained(&variant["failing_trials"][0]));

    // The kernel logs a limited number of crashes in five seconds, for all processes together. Logged crashes are known
    // to be the same; others may be.
    let caught = variant["captured"]["signatures"][0]["id"].as_str().unwrap();
    let mut ids = vec![caught];
    for seen in variant["signatures"].as_array().unwrap() {
        let exact = seen["depth"] == "kernel";
        let linked = &seen[if exact { "same_as" } else { "perhaps" }];
        assert_eq!(linked[0], caught, "{output}");
        ids.extend(exact.then(|| seen["id"].as_str().unwrap()));
    }
    // `--only` accepts either name.
    for id in ids {
        let only = format!("sig:{id}");
        let (report, output) = sandbox.report(&["-n", "8", "--only", &only, "--", &program]);
        assert_eq!(report["variants"][0]["failures"], 2, "{output}");
        assert_eq!(report["capture"], "on");
    }
    let (report, _) = sandbox.report(&["-n", "8", "--only", "sig:00000000", "--", &program]);
    let variant = &report["variants"][0];
    assert_eq!([&variant["failures"], &variant["other"]], [0, 2]);

    // For a run, `explain` shows the trial with the best evidence.
    for what in ["last#4", "last"] {
        let explanation = sandbox.provoke(&["explain", what]);
        let wanted = ["null pointer", "conv  ", "mov rax, [rdi+0x10]", "null.c:4"];
        assert!(
            wanted.iter().all(|word| explanation.stdout.contains(word)),
            "{explanation}"
        );
    }
}

/// Crashes in every trial: in the second one in another file than before.
const TWO_CRASHES: &str = r#"
    #include <stdlib.h>
    long later(long *p);
    __attribute__((noinline)) long conv(long *p) { return *p + 1; }
    int main(void) { return atoi(getenv("PROVOKE_TRIAL")) == 2 ? later(0) + 1 : conv(0) + 1; }
"#;

/// Runs a command in captured trials, one after the other.
fn captured_trials<'a>(trials: &'a str, script: &'a str) -> Vec<&'a str> {
    let flags = ["run", "-j", "1", "--seed", "1", "--capture", "on"];
    [&flags[..], &["-n", trials, "--", "sh", "-c", script]].concat()
}

/// Returns the cores of the trials that have ended.
fn observed_cores(sandbox: &Sandbox) -> Vec<Value> {
    let events = sandbox.events().into_iter();
    let cores = events.filter_map(|event| event.pointer("/trial_finished/seen/cores").cloned());
    cores
        .flat_map(|cores| cores.as_array().unwrap().clone())
        .collect()
}

/// Returns the process that reads the cores of a run.
fn examiner_of(running: &Running) -> i32 {
    let is_examiner = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.ends_with(b"\0examiner\0")
    };
    let mut examiners = child_pids(running.pid()).into_iter().filter(is_examiner);
    examiners.next().expect("a core was read")
}

#[test]
fn a_debug_file_that_is_overwritten_while_it_is_mapped_costs_only_an_explanation() {
    let sandbox = Sandbox::new();
    let later = "long later(long *p) { return *p + 2; }";
    let later = sandbox.write("later.c", later);
    let flags = ["-g", "-O1", later.to_str().unwrap()];
    let program = compile(&sandbox, "crash", TWO_CRASHES, &flags);
    for args in [
        ["--only-keep-debug", "crash", "crash.debug"].as_slice(),
        &["--strip-all", "--add-gnu-debuglink=crash.debug", "crash"],
    ] {
        let output = sandbox.program_command("objcopy", args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let script = format!("test $PROVOKE_TRIAL = 2 && : > crash.debug; exec {program}");
    let output = sandbox.provoke(&captured_trials("3", &script));
    assert!(output.stdout.contains("3 of 3 trials"), "{output}");
    let cores = observed_cores(&sandbox);
    assert_eq!(cores[0]["crash"]["frames"][0]["function"], "conv");
    assert_eq!(
        cores[1]["unread"],
        "its program or a library was overwritten while it was read"
    );
    assert!(std::path::Path::new(cores[1]["file"].as_str().unwrap()).exists());
    assert_eq!(cores[2]["crash"]["fault"]["class"], "null pointer");
    let explanation = sandbox.provoke(&["explain", "last#2"]);
    let reason = "(not read: its program or a library was overwritten while it was read)";
    assert!(explanation.stdout.contains(reason), "{explanation}");
}

#[test]
fn a_run_goes_on_if_the_process_that_reads_its_cores_is_killed() {
    let sandbox = Sandbox::new();
    let program = compile(
        &sandbox,
        "crash",
        TWO_CRASHES,
        &["-g", "-O1", "-Dlater=conv"],
    );
    let wait = "until test -e go; do sleep 0.01; done";
    let script = format!("test $PROVOKE_TRIAL = 2 && {wait}; exec {program}");
    let running = sandbox.start(&captured_trials("3", &script));
    wait_until("a trial has ended", || sandbox.ended_trials(LAST_RUN) == 1);
    let examiner = examiner_of(&running);
    let end = Pidfd::of_process(examiner).unwrap();
    send(examiner, Signal::KILL);
    wait_until("the process has ended", || end.has_ended());
    sandbox.write("go", "");
    let output = running.end();
    assert!(output.stdout.contains("3 of 3 trials"), "{output}");
    let cores = observed_cores(&sandbox);
    assert_eq!(cores.len(), 3);
    for core in cores {
        assert_eq!(core["crash"]["frames"][0]["function"], "conv", "{core}");
    }
}

#[test]
fn the_process_that_reads_cores_ends_with_its_run() {
    let sandbox = Sandbox::new();
    let program = compile(
        &sandbox,
        "crash",
        TWO_CRASHES,
        &["-g", "-O1", "-Dlater=conv"],
    );
    let script = format!("test $PROVOKE_TRIAL = 2 && exec sleep 1000; exec {program}");
    let command = sandbox.command(&captured_trials("2", &script));
    sandbox.kill_after(1, LAST_RUN, command);
    assert!(observed_cores(&sandbox)[0]["crash"].is_object());
}

#[test]
fn explain_shows_the_first_failure_of_a_run_without_evidence() {
    let sandbox = Sandbox::new();
    sandbox.report(&["-o", "plain", "-n", "1", "--seed", "1", "--", "false"]);
    sandbox.report(&["-o", "clean", "-n", "1", "--seed", "1", "--", "true"]);
    let output = sandbox.provoke(&["explain", "plain"]);
    insta::assert_snapshot!(output, @"
    #1: exit 1

    Details:
      exit 1: the program reported failure
      signature 1d7d2b19, from the exit status
    ------- stderr -------
    [exit status: Some(0)]
    ");
    let output = sandbox.provoke(&["explain", "clean"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: no trial of the run clean failed

    hint: `provoke list` shows which of the stored runs failed
    [exit status: Some(2)]
    ");
    let output = sandbox.provoke(&["explain", "nothing"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: found neither a core file nor a run `nothing`

    hint: no run is stored here: go to the directory in which it ran, set PROVOKE_HOME, or name the directory of `--out`
    [exit status: Some(2)]
    ");
}

const HEAP: &str = r#"
    #include <assert.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    __attribute__((noinline)) void close_handle(int how) {
        char *p = malloc(2000);
        malloc(16);
        if (how == 0) { free(p); free(p); }
        if (how == 1) free(p + 8);
        assert(how != 2);
    }
    int main(void) {
        freopen("/dev/null", "w", stderr);
        close_handle(atoi(getenv("PROVOKE_TRIAL")) % 3);
        return 0;
    }
"#;

#[test]
fn three_heap_bugs_in_one_function_have_three_signatures() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "heap", HEAP, &["-g", "-O0"]);
    for strip in [false, true] {
        if strip {
            assert!(
                Command::new("strip")
                    .arg(&program)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        let (report, output) = sandbox.report(&["-n", "6", "--capture", "on", "--", &program]);
        let (all, _) = titles(&report);
        let kinds = ["assertion", "double free", "bad free"];
        assert_eq!(all.len(), 3, "{output}");
        for kind in kinds {
            assert!(
                all.iter().any(|title| title.contains(kind)),
                "{kind}: {all:?}"
            );
        }
        let counts = report["variants"][0]["signatures"].as_array().unwrap();
        assert!(counts.iter().all(|seen| seen["count"] == 2), "{output}");
        assert!(
            output
                .stdout
                .contains("signatures come from a damaged heap"),
            "{output}"
        );
    }
}

const DAEMON: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(void) {
        int n = atoi(getenv("PROVOKE_TRIAL"));
        if (n % 3) return 0;
        const char *list = getenv("LIST");
        if (fork() == 0) {
            setsid();
            if (fork()) _exit(0);
            FILE *file = fopen(list, "a");
            fprintf(file, "%d\n", (int) getpid());
            fclose(file);
            clearenv();
            for (int fd = 3; fd < 64; fd++) close(fd);
            for (;;) pause();
        }
        return 1;
    }
"#;

#[test]
fn a_daemon_that_a_failing_trial_leaves_is_found_and_killed() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "daemon", DAEMON, &[]);
    let list = format!("LIST={}", sandbox.path("pids").display());
    let args = [
        "-n",
        "9",
        "--leak-grace",
        "100ms",
        "-e",
        &list,
        "--",
        &program,
    ];
    let (report, output) = sandbox.report(&args);
    let variant = &report["variants"][0];
    assert_eq!(variant["failing_trials"], serde_json::json!([3, 6, 9]));
    assert_eq!(variant["leaking_trials"], 3, "{output}");
    let pids = sandbox.read("pids");
    assert_eq!(pids.lines().count(), 3);
    for pid in pids.lines() {
        assert!(!is_alive(pid), "{pid} lives");
    }
}

const AVX2: &str = r#"
    #include <immintrin.h>
    #include <stdio.h>
    __attribute__((noinline, target("avx2"))) int search(const int *p) {
        __m256i sum = _mm256_add_epi32(_mm256_loadu_si256((void *) p), _mm256_loadu_si256((void *) (p + 8)));
        return _mm256_extract_epi32(sum, 0);
    }
    __attribute__((noinline)) int trap(void) { __builtin_trap(); }
    int main(int count, char **words) {
        int data[16] = {0};
        puts("index built ok");
        fflush(stdout);
        return count > 1 ? trap() : search(data);
    }
"#;

#[test]
fn a_missing_cpu_feature_is_named_and_a_deliberate_trap_is_distinguished() {
    needs!(program("qemu-x86_64"));
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "index", AVX2, &["-g", "-O1", "-static"]);
    // The emulated CPU has AVX, so that only the newer instruction is missing.
    let run = |more: &[&str]| {
        let emulator = ["qemu-x86_64", "-cpu", "SandyBridge", &program];
        let args = [&["-n", "1", "--capture", "on", "--"], &emulator[..], more].concat();
        sandbox.report(&args)
    };
    let (report, output) = run(&[]);
    let (titles_of_index, _) = titles(&report);
    assert!(
        titles_of_index[0].contains("needs AVX2"),
        "{titles_of_index:?} {output}"
    );
    let explanation = sandbox.provoke(&["explain", "last#1"]);
    assert!(explanation.stdout.contains("vpaddd"), "{explanation}");
    let folder = std::fs::read_dir(sandbox.path("provoke-out/last/trials/1")).unwrap();
    let mut files = folder.map(|entry| entry.unwrap().path().into_os_string());
    let core = files.find(|file| file.to_str().unwrap().contains("/core."));
    let core = core.unwrap().into_string().unwrap();
    for (model, expected) in [
        ("SandyBridge", "vpaddd needs AVX2; this CPU lacks it"),
        ("Haswell", "it needs AVX2, which this CPU has"),
        ("Unknown", "the processor `Unknown` is not known"),
    ] {
        let output = sandbox.provoke(&["explain", &core, "--cpu", model]);
        let text = [&*output.stdout, &*output.stderr].concat();
        assert!(text.contains(expected), "{output}");
    }
    assert!(
        sandbox
            .read("provoke-out/last/trials/1/stdout")
            .contains("index built ok")
    );

    let (report, output) = run(&["trap"]);
    let (titles_of_trap, _) = titles(&report);
    assert!(
        !titles_of_trap[0].contains("CPU"),
        "{titles_of_trap:?} {output}"
    );
    assert!(
        titles_of_trap[0].contains("deliberate trap"),
        "{titles_of_trap:?}"
    );
}

const SEARCH: &str = r#"
    #include <immintrin.h>
    __attribute__((target("avx2"))) int search(const int *p) {
        __m256i sum = _mm256_add_epi32(_mm256_loadu_si256((void *) p), _mm256_loadu_si256((void *) (p + 8)));
        return _mm256_extract_epi32(sum, 0);
    }
"#;
const SEARCHER: &str = r"
    int search(const int *p);
    int data[16];
    int main(void) { return search(data); }
";

#[test]
fn code_missing_in_an_emulator_core_is_found_by_the_loader_list() {
    needs!(program("qemu-x86_64"));
    let sandbox = Sandbox::new();
    // If code and the headers of the file share a segment, QEMU dumps neither.
    let one_segment = "-Wl,-z,noseparate-code";
    let library = compile(
        &sandbox,
        "libsearch.so",
        SEARCH,
        &[
            "-O1",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libsearch.so",
            one_segment,
        ],
    );
    let program = compile(
        &sandbox,
        "searcher",
        SEARCHER,
        &["-O1", one_segment, &library],
    );
    // Relative to the directory of the trial.
    let relative = std::path::Path::new(&program)
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    let (report, output) = sandbox.report(&[
        "-n",
        "1",
        "--capture",
        "on",
        "-e",
        "LD_LIBRARY_PATH=.",
        "--",
        "qemu-x86_64",
        "-cpu",
        "SandyBridge",
        relative,
    ]);
    let (titles, _) = titles(&report);
    assert!(titles[0].contains("needs AVX2"), "{titles:?} {output}");
    let explanation = sandbox.provoke(&["explain", "last#1"]).stdout;
    assert!(
        explanation.contains("search")
            && explanation.contains("searcher")
            && explanation.contains("main"),
        "{explanation}"
    );
    assert!(
        !explanation.contains("which files were mapped"),
        "{explanation}"
    );
}

const DEADLOCK: &str = r#"
    #include <pthread.h>
    #include <stdlib.h>
    static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
    static pthread_barrier_t both;
    __attribute__((noinline)) static void *deposit(void *x) {
        pthread_mutex_lock(&a); pthread_barrier_wait(&both); pthread_mutex_lock(&b);
        return x;
    }
    __attribute__((noinline)) static void *withdraw(void *x) {
        pthread_mutex_lock(&b); pthread_barrier_wait(&both); pthread_mutex_lock(&a);
        return x;
    }
    int main(void) {
        if (atoi(getenv("PROVOKE_TRIAL")) % 3) return 0;
        pthread_t one, other;
        pthread_barrier_init(&both, 0, 2);
        pthread_create(&one, 0, deposit, 0);
        pthread_create(&other, 0, withdraw, 0);
        pthread_join(one, 0);
        pthread_join(other, 0);
        return 0;
    }
"#;

#[test]
fn a_deadlock_is_named_by_its_two_waiting_functions() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "bank", DEADLOCK, &["-g", "-O1", "-pthread"]);
    // Long enough for the two threads to meet, even on a busy machine.
    let (report, output) = sandbox.report(&["-n", "6", "-t", "2s", "--", &program]);
    let (measured, _) = titles(&report);
    assert_eq!(
        measured,
        ["hang: deadlock, deposit <-> withdraw"],
        "{output}"
    );
    assert_eq!(
        report["variants"][0]["failing_trials"],
        serde_json::json!([3, 6])
    );
    let explanation = sandbox.provoke(&["explain", "last#3"]);
    assert!(
        explanation
            .stdout
            .contains("deposit waits at bank.c:7 for b, which withdraw holds"),
        "{explanation}"
    );
    for event in sandbox.events() {
        for actor in event["trial_finished"]["seen"]["actors"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let pid = actor["pid"].to_string();
            assert!(!is_alive(&pid), "{pid} lives");
        }
    }
}

#[test]
fn a_crash_in_an_extension_thread_has_the_same_signature_with_faulthandler() {
    needs!(python_headers());
    let sandbox = Sandbox::new();
    let extension = Extension::new();
    let interpreter = extension.interpreter.to_str().unwrap();
    let path = format!("PYTHONPATH={}", extension.folder().display());
    let run = |handler: &str| {
        let handler = format!("PYTHONFAULTHANDLER={handler}");
        let (report, output) = sandbox.report(&[
            "-n",
            "1",
            "--capture",
            "on",
            "-e",
            &path,
            "-e",
            &handler,
            "--",
            interpreter,
            "-c",
            "import boom; boom.in_thread()",
        ]);
        let seen = report["variants"][0]["signatures"][0].clone();
        let title = seen["title"].as_str().unwrap().to_owned();
        assert!(
            title.contains("boom.so!c_inner < worker"),
            "{title} {output}"
        );
        seen["id"].clone()
    };
    assert_eq!(run(""), run("1"));
}

#[test]
fn a_crash_of_a_child_is_a_failure_unless_ignored() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let line = format!("{program}; true");
    let (report, output) = sandbox.report(&["-n", "4", "--capture", "on", "--shell", &line]);
    let variant = &report["variants"][0];
    assert_eq!(
        variant["failing_trials"],
        serde_json::json!([4]),
        "{output}"
    );
    assert_eq!(variant["outcomes"]["SIGSEGV"], 1);
    let title = variant["signatures"][0]["title"].as_str().unwrap();
    assert!(
        title.contains("null pointer + 0x10, in null!conv"),
        "{title}"
    );
    let args = ["-n", "4", "--ignore-child-crashes", "--shell", &line];
    let (report, output) = sandbox.report(&args);
    assert_eq!(report["variants"][0]["failures"], 0, "{output}");
}

#[test]
fn keep_per_sig_limits_the_cores_of_each_signature() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let always = ["-e", "PROVOKE_TRIAL=4"];
    let args = ["-n", "5", "--capture", "on", "--keep-per-sig", "2"];
    sandbox.report(&[&args[..], &always, &["--", &program]].concat());
    let trials = sandbox.path("provoke-out/last/trials");
    let mut kept: Vec<String> = std::fs::read_dir(trials)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    assert_eq!(kept, ["1", "2"]);
    assert!(
        !sandbox.path("core").exists(),
        "those that are not kept are removed"
    );
    let explanation = sandbox.provoke(&["explain", "last#5"]);
    assert!(
        explanation.stdout.contains("the core was not kept"),
        "{explanation}"
    );
    assert!(explanation.stdout.contains("conv"), "{explanation}");
}

#[test]
fn a_core_of_another_process_is_not_used() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let foreign = format!("ulimit -c unlimited; PROVOKE_TRIAL=4 {program}; true");
    sandbox
        .program_command("sh", &["-c", &foreign])
        .status()
        .unwrap();
    assert!(sandbox.path("core").exists());
    let args = [
        "-n",
        "1",
        "--capture",
        "on",
        "--",
        "sh",
        "-c",
        "kill -SEGV $$",
    ];
    // The cores of the trial and of the other process are not confused.
    let (report, output) = sandbox.report(&args);
    let title = report["variants"][0]["signatures"][0]["title"]
        .as_str()
        .unwrap();
    assert!(!title.contains("conv"), "{title} {output}");
}

#[test]
fn a_user_without_root_gets_the_same_signature() {
    needs!(root());
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let folder = sandbox.path("");
    assert!(
        Command::new("chown")
            .arg("-R")
            .arg("65534:65534")
            .arg(&folder)
            .status()
            .unwrap()
            .success()
    );
    let args = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        super::support::PROVOKE,
        "run",
        "--progress=none",
        "-n",
        "8",
        "--export-json",
        "report.json",
        "--",
        &program,
    ];
    let done = sandbox.program_command("setpriv", &args).output().unwrap();
    let report: Value = serde_json::from_str(&sandbox.read("report.json")).unwrap();
    let (_, caught) = titles(&report);
    let title = "SIGSEGV, null pointer + 0x10, in conv < forward < main";
    assert_eq!(caught, [title], "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn cores_of_parallel_trials_do_not_overwrite_each_other() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let always = ["-e", "PROVOKE_TRIAL=4", "--capture", "on"];
    let args = [&["-n", "12", "-j", "4"], &always[..], &["--", &program]].concat();
    let (report, output) = sandbox.report(&args);
    let signatures = report["variants"][0]["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 1, "{output}");
    assert_eq!(signatures[0]["depth"], "stack");
    assert_eq!(signatures[0]["count"], 12);
}

#[test]
fn an_existing_core_is_neither_overwritten_nor_used() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    sandbox.write("core", "somebody's");
    for capture in ["auto", "on"] {
        let (_, output) = sandbox.report(&["-n", "4", "--capture", capture, "--", &program]);
        assert_eq!(sandbox.read("core"), "somebody's");
        assert!(output.stdout.contains("is there already"), "{output}");
    }
}

#[test]
fn a_crash_without_a_stack_is_inconclusive_for_a_signature() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let args = [
        "-n",
        "4",
        "--only",
        "sig:0badcafe",
        "--capture",
        "off",
        "--",
        &program,
    ];
    let (report, output) = sandbox.report(&args);
    let variant = &report["variants"][0];
    assert_eq!([&variant["failures"], &variant["other"]], [0, 0]);
    assert_eq!(
        variant["void_reasons"]["not known which failure"], 1,
        "{output}"
    );
    assert_eq!(
        (report["verdict"].as_str(), output.code),
        (Some("undecided"), Some(3))
    );
    assert!(
        output.stdout.contains("; 1 more may be failures"),
        "{output}"
    );
}

const THROWS: &str = r#"
    #include <stdexcept>
    #include <thread>
    __attribute__((noinline)) void parse_header() { throw std::runtime_error("a"); }
    __attribute__((noinline)) void write_table() { throw std::runtime_error("b"); }
    int main(int, char **words) {
        switch (*words[1]) {
            case 'a': parse_header();
            case 'b': write_table();
            case 'c': std::thread([] { *(volatile int *)0 = 1; }).join();
            case 'd': std::thread([] { *(volatile int *)0 = 2; }).join();
        }
    }
"#;

#[test]
fn common_runtime_frames_do_not_merge_two_bugs() {
    needs!(program("g++"));
    let sandbox = Sandbox::new();
    let file = sandbox.write("throws.cc", THROWS);
    let program = sandbox.path("throws");
    let mut compiler = Command::new("g++");
    compiler
        .args(["-O2", "-pthread", "-w", "-o"])
        .arg(&program)
        .arg(file);
    assert!(compiler.status().unwrap().success());
    let ids = ["a", "b", "c", "d"].map(|bug| {
        let program = program.to_str().unwrap();
        let (report, _) = sandbox.report(&["-n", "1", "--capture", "on", "--", program, bug]);
        report["variants"][0]["signatures"][0].clone()
    });
    assert!(
        ids[0]["title"].as_str().unwrap().contains("parse_header"),
        "{ids:?}"
    );
    assert!(
        ids[1]["title"].as_str().unwrap().contains("write_table"),
        "{ids:?}"
    );
    assert_ne!(ids[2]["id"], ids[3]["id"], "{ids:?}");
}

#[test]
fn a_truncated_core_is_used_and_does_not_block_later_cores() {
    let sandbox = Sandbox::new();
    let line = "[ -e first ] && kill -SEGV $$; touch first; ulimit -f 0; kill -SEGV $$";
    let args = ["-n", "2", "--capture", "on", "--", "sh", "-c", line];
    let (_, output) = sandbox.report(&args);
    assert!(!sandbox.path("core").exists(), "{output}");
    let cut = sandbox.provoke(&["explain", "last#1"]);
    assert!(cut.stdout.contains("it is truncated"), "{cut}");
    let whole = sandbox.provoke(&["explain", "last#2"]);
    assert!(!whole.stdout.contains("it is truncated"), "{whole}");
}

const JUMP: &str = r#"
    static unsigned char code[] = {0xc3, 0x90};
    __attribute__((noinline)) void run(void (*f)(void)) { f(); __asm__ volatile(""); }
    int main(void) { run((void (*)(void)) code); return 0; }
"#;

#[test]
fn a_jump_into_data_is_named_by_its_symbol() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "nx", JUMP, &["-g", "-O1"]);
    let (report, output) = sandbox.report(&["-n", "1", "--capture", "on", "--", &program]);
    let (titles, _) = titles(&report);
    assert_eq!(
        titles,
        ["SIGSEGV, jump into data, in code < run < main"],
        "{output}"
    );
}

const WRITES: &str = r"
    int main(void) { *(volatile char *) ADDRESS = 1; return 0; }
";

#[test]
fn crashes_of_two_programs_of_a_shell_have_two_signatures() {
    let sandbox = Sandbox::new();
    let write = |name: &str, address: &str| compile(&sandbox, name, WRITES, &[address]);
    let reader = write("reader", "-DADDRESS=0x30");
    let writer = write("writer", "-DADDRESS=8");
    let line = format!("if [ $((PROVOKE_TRIAL % 2)) = 0 ]; then {writer}; else {reader}; fi");
    let args = ["-n", "4", "--capture", "on", "--shell", &line];
    let (report, output) = sandbox.report(&args);
    let (titles, _) = titles(&report);
    let title = |offset: &str| format!("SIGSEGV, null pointer + {offset}!main");
    assert_eq!(
        titles,
        [title("0x30, in reader"), title("0x8, in writer")],
        "{output}"
    );
    // A build with another file name is still recognized as the same bug.
    std::fs::copy(&reader, sandbox.path("fixed")).unwrap();
    let fixed = sandbox.path("fixed");
    let line = fixed.to_str().unwrap();
    let asked = ["--baseline", "last", "--shell", line];
    let (report, output) = sandbox.run_with_report("confirm", &asked);
    assert_eq!(report["verdict"], "not_fixed", "{output}");
}

const RACE: &str = r#"
    #include <stdlib.h>
    struct thing { long a, b, c; };
    __attribute__((noinline)) long use(struct thing *p) { return p->c + 1; }
    __attribute__((noinline)) long forward(struct thing *p) { return use(p) * 2; }
    __attribute__((noinline)) long direct(struct thing *p) { return use(p) * 3; }
    int main(void) {
        int n = atoi(getenv("PROVOKE_TRIAL")) % 4;
        return n == 1 ? forward(0) : n == 2 ? direct(0) : n == 3 ? forward((void *) 0x123456000) : 0;
    }
"#;

#[test]
fn only_accepts_a_family_of_signatures() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "race", RACE, &["-g", "-O1"]);
    let (report, output) = sandbox.report(&["-n", "8", "--capture", "on", "--", &program]);
    let signatures = report["variants"][0]["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 3, "{output}");
    let family = &signatures[0]["families"][0];
    assert_eq!(family["title"], "SIGSEGV in use");
    assert!(
        output
            .stdout
            .contains("6 failures of 3 signatures are SIGSEGV in use"),
        "{output}"
    );
    let only = format!("sig:{}", family["id"].as_str().unwrap());
    let args = ["-n", "8", "--only", &only, "--", &program];
    let (report, output) = sandbox.report(&args);
    assert_eq!(report["variants"][0]["failures"], 6, "{output}");
    // Another signature of the family is the bug as well.
    let (report, output) =
        sandbox.run_with_report("confirm", &["--baseline", "last", "--", &program]);
    assert_eq!(report["verdict"], "not_fixed", "{output}");
}

/// Runs trials until the kernel logs a crash, because it logs only ten crashes in five seconds, of all
/// tests together. Returns the signature.
fn logged_signature(sandbox: &Sandbox, capture: &str, command: &[&str]) -> (Value, CommandOutput) {
    let mut found = None;
    wait_until("the kernel logs the crash", || {
        let args = ["-n", "4", "--capture", capture];
        let (report, output) = sandbox.report(&[&args, command].concat());
        let seen = report["variants"][0]["signatures"][0].clone();
        sleep(Duration::from_millis(300));
        found = (seen["depth"] == "kernel").then_some((seen, output));
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn an_address_in_the_kernel_log_is_resolved_to_its_function_and_line() {
    needs!(kernel_log());
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let (signature, output) = logged_signature(&sandbox, "off", &["--", &program]);
    let title = signature["title"].as_str().unwrap();
    assert!(
        title.starts_with("SIGSEGV, null pointer, in conv at null+0x"),
        "{output}"
    );
    assert!(output.stdout.contains("null.c:4 in conv"), "{output}");
}

#[test]
fn the_signature_of_a_captured_stack_names_the_measured_failures_of_a_baseline() {
    needs!(kernel_log());
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, "null", NULL, &["-g", "-O1"]);
    let (signature, output) = logged_signature(&sandbox, "auto", &["--", &program]);
    let caught = signature["same_as"][0].as_str().expect(&output.stdout);
    let only = format!("sig:{caught}");
    let confirmed = sandbox.provoke(&[
        "confirm",
        "--baseline",
        "last",
        "--only",
        &only,
        "--",
        "true",
    ]);
    assert_eq!(confirmed.code, Some(0), "{confirmed}");
    assert!(confirmed.stdout.contains("FIXED"), "{confirmed}");
}

/// Libraries without a soname, which the program requires by the path at which they were linked.
const LIBRARY: &str = "int FUNCTION(int *p) {\n  return *p;\n}\n";
const USER: &str = "int first(int *), second(int *); int main(int n, char **a) { return CALL; }";

#[test]
fn an_address_in_a_library_in_the_kernel_log_is_resolved_if_only_one_file_has_its_name() {
    needs!(kernel_log());
    let sandbox = Sandbox::new();
    let library = |folder: &str, name: &str, function: &str| {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
        let function = format!("-DFUNCTION={function}");
        let flags = ["-g", "-O1", "-shared", "-fPIC", &function];
        compile(&sandbox, &format!("{folder}/{name}"), LIBRARY, &flags);
        format!("{folder}/{name}")
    };
    let program = |name: &str, call: &str, libraries: &[&str]| {
        let mut cc = Command::new("cc");
        let source = sandbox.write("user.c", USER);
        cc.arg(format!("-DCALL={call}")).arg(source);
        cc.args(libraries).args(["-o", name]);
        let status = cc.current_dir(sandbox.path("")).status();
        assert!(status.unwrap().success());
    };
    let one = library("one", "libcrash.so.1.2", "first");
    program("user", "first(0)", &[&one]);
    let (named, output) = logged_signature(&sandbox, "off", &["--", "./user"]);
    let title = named["title"].as_str().unwrap();
    let start = "SIGSEGV, null pointer, in first at libcrash.so+0x";
    assert!(title.starts_with(start), "{output}");
    let place = "libcrash.so.1.2.c:2 in first";
    assert!(output.stdout.contains(place), "{output}");

    // Another file that the program may have loaded has the same name.
    let two = library("two", "libcrash.so.2", "second");
    program("ambiguous", "first(0) + second(0)", &[&one, &two]);
    // The file is not the one that was loaded.
    let modified = "touch -d '1 hour' one/libcrash.so.1.2; ./user";
    // The command may load another file.
    let searched = "LD_LIBRARY_PATH=. ./user";
    for command in [
        &["--", "./ambiguous"][..],
        &["--shell", searched],
        &["--shell", modified],
    ] {
        let (unnamed, output) = logged_signature(&sandbox, "off", command);
        let title = unnamed["title"].as_str().unwrap();
        assert!(title.contains("at libcrash.so+0x"), "{output}");
        assert!(!title.contains(" in first"), "{output}");
        assert!(!output.stdout.contains("libcrash.so.1.2.c"), "{output}");
        if command[0] == "--shell" {
            assert_eq!(unnamed["id"], named["id"], "{output}");
        }
    }
}

#[test]
fn a_crash_that_could_not_be_captured_is_reported_with_a_hint() {
    let sandbox = Sandbox::new();
    // It crashes once, and never again.
    let line = "[ -e once ] || { touch once; kill -SEGV $$; }";
    let (_, output) = sandbox.report(&["-n", "2", "--", "sh", "-c", line]);
    assert!(
        output
            .stdout
            .contains("--capture on dumps cores in every trial"),
        "{output}"
    );
}

/// Returns a core whose kernel noted this many mapped files with names of this length. Their names are not UTF-8 text.
fn core_with_files(count: u64, name_length: usize) -> Vec<u8> {
    let note = |kind: u32, body: &[u8]| {
        let size = u32::try_from(body.len()).unwrap();
        let words = [5, size, kind].map(u32::to_le_bytes);
        let mut note = [words.as_flattened(), b"CORE\0\0\0\0", body].concat();
        note.resize(note.len().next_multiple_of(4), 0);
        note
    };
    let mut files: Vec<u8> = [count, 4096].map(u64::to_le_bytes).concat();
    for number in 0..count {
        let start = (1 << 32) + (number << 16);
        files.extend([start, start + 4096, 0].map(u64::to_le_bytes).concat());
    }
    let name = [&vec![0xff; name_length][..], b"\0"].concat();
    files.extend(name.repeat(usize::try_from(count).unwrap()));
    let mut status = vec![0; 336];
    status[12] = 11;
    status[32] = 7;
    let notes = [note(1, &status), note(0x4649_4c45, &files)].concat();
    let mut core = b"\x7fELF\x02\x01\x01".to_vec();
    core.resize(16, 0);
    core.extend([4_u16, 62, 1, 0].map(u16::to_le_bytes).concat());
    core.extend([0, 64_u64, 0].map(u64::to_le_bytes).concat());
    core.extend(
        [0, 0, 64, 56, 1, 0, 0, 0_u16]
            .map(u16::to_le_bytes)
            .concat(),
    );
    core.extend([4, 4_u32].map(u32::to_le_bytes).concat());
    let segment = [120, 0, 0, notes.len() as u64, 0, 4];
    core.extend(segment.map(u64::to_le_bytes).concat());
    core.extend(notes);
    core
}

#[test]
fn a_core_with_long_notes_takes_little_memory() {
    let sandbox = Sandbox::new();
    for (count, name_length) in [(1 << 18, 205), (1 << 18, 30)] {
        fs::write(sandbox.path("core"), core_with_files(count, name_length)).unwrap();
        let limit = "ulimit -d 131072; exec \"$0\" explain core";
        let mut command = sandbox.program_command("sh", &["-c", limit, PROVOKE]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("SIGSEGV in 0x0"), "{text}");
    }
}
