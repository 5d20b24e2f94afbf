//! Tests that every kind of ending is distinguished.

use super::support::{PROVOKE, Sandbox, processes_with};
use crate::needs::{needs, program, skip, success};
use serde_json::json;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a victim twice and returns its outcomes, the label of the first kind, and the exit code.
fn victim(args: &[&str]) -> (serde_json::Value, Option<String>, Option<i32>) {
    let sandbox = Sandbox::new();
    let all = [&["-n", "2", "-t", "30s", "--", PROVOKE, "victim"], args].concat();
    let (report, output) = sandbox.report(&all);
    let variant = &report["variants"][0];
    let label = variant["kinds"][0]["label"].as_str().map(str::to_owned);
    (variant["outcomes"].clone(), label, output.code)
}

#[test]
fn every_signal_has_its_own_outcome() {
    for (kind, name) in [
        ("segv", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("ill", "SIGILL"),
        ("fpe", "SIGFPE"),
        ("bus", "SIGBUS"),
        ("overflow", "SIGSEGV"),
        ("kill", "SIGKILL"),
        ("slow-death", "SIGSEGV"),
    ] {
        let (outcomes, label, code) = victim(&[kind]);
        assert_eq!(outcomes, json!({"pass": 0, name: 2}), "{kind}");
        assert_eq!(label, None, "{kind}: provoke saw the signal");
        assert_eq!(code, Some(1));
    }
    let (outcomes, ..) = victim(&["signal", "--signal", "USR1"]);
    assert_eq!(outcomes, json!({"pass": 0, "SIGUSR1": 2}));
}

#[test]
fn a_crash_reported_by_exit_code_has_the_outcome_of_its_signal() {
    let (outcomes, label, _) = victim(&["shell-segv"]);
    assert_eq!(outcomes, json!({"pass": 0, "SIGSEGV": 2}));
    assert_eq!(label.as_deref(), Some("exit 139, confirmed by the shell"));
    let (outcomes, label, _) = victim(&["python-segv"]);
    assert_eq!(outcomes, json!({"pass": 0, "SIGSEGV": 2}));
    assert_eq!(
        label.as_deref(),
        Some("inferred from exit 245, as Python reports it")
    );
    let (outcomes, label, _) = victim(&["exit", "--code", "139"]);
    assert_eq!(outcomes, json!({"pass": 0, "SIGSEGV": 2}));
    assert_eq!(label.as_deref(), Some("inferred from exit 139"));
}

#[test]
fn a_failure_without_a_stack_is_shown_with_the_last_line_of_stderr() {
    let sandbox = Sandbox::new();
    let script = "echo begin >&2; echo 'queue 7 is empty' >&2; exit $((PROVOKE_TRIAL % 2))";
    let output = sandbox.provoke(&["run", "-n", "2", "--", "sh", "-c", script]);
    let line = "last line of stderr: queue 7 is empty";
    assert!(output.stdout.contains(line), "{output}");
    let script = "echo 'queue 8 is empty' >&2; kill -SEGV $$";
    let output = sandbox.provoke(&[
        "run",
        "-n",
        "2",
        "--capture",
        "off",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let line = "last line of stderr: queue 8 is empty";
    assert!(output.stdout.contains(line), "{output}");
}

#[test]
fn exit_codes_are_counted_separately() {
    let sandbox = Sandbox::new();
    let (report, _) = sandbox.report(&["-n", "6", "--", "sh", "-c", "exit $((PROVOKE_TRIAL % 3))"]);
    let variant = &report["variants"][0];
    assert_eq!(
        variant["outcomes"],
        json!({"pass": 2, "exit 1": 2, "exit 2": 2})
    );
    assert_eq!(variant["failing_trials"], json!([1, 2, 4, 5]));
}

#[test]
fn a_core_dump_is_noted_if_the_kernel_writes_one() {
    let sandbox = Sandbox::new();
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let args = [
        "-n",
        "1",
        "--rlimit",
        "core=unlimited",
        "--",
        PROVOKE,
        "victim",
        "segv",
    ];
    let (report, _) = sandbox.report(&args);
    let label = &report["variants"][0]["kinds"][0]["label"];
    // A pattern may refer to a directory that is not writable; a plain name refers to the sandbox.
    if pattern.trim() == "core" {
        assert_eq!(label, "core dumped");
    }
    assert!(label == "core dumped" || label == "seen");
}

#[test]
fn a_hung_trial_is_terminated_and_then_killed() {
    for kind in ["hang", "spin", "hang-stubborn"] {
        let sandbox = Sandbox::new();
        let args = [
            "-n", "1", "-t", "300ms", "--grace", "200ms", "--", PROVOKE, "victim", kind,
        ];
        let (report, _) = sandbox.report(&args);
        assert_eq!(
            report["variants"][0]["outcomes"],
            json!({"pass": 0, "hang": 1}),
            "{kind}"
        );
        let events = sandbox.events();
        let finished = events
            .iter()
            .find_map(|event| event.get("trial_finished"))
            .unwrap();
        let ending = &finished["seen"]["actors"][0]["ending"]["timed_out"];
        assert_eq!(ending["killed"], kind == "hang-stubborn", "{kind}");
    }
}

#[test]
fn a_stopped_process_is_not_called_a_hang() {
    let sandbox = Sandbox::new();
    let args = [
        "-n", "1", "-t", "500ms", "--grace", "5s", "--", PROVOKE, "victim", "stop",
    ];
    let (report, _) = sandbox.report(&args);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 0, "stopped": 1})
    );
}

#[test]
fn output_rules_can_fail_and_pass_a_trial() {
    let sandbox = Sandbox::new();
    let line =
        "echo \"result $PROVOKE_TRIAL\"; echo flaky network >&2; exit $((PROVOKE_TRIAL == 3))";
    let rules = ["--fail-if-out", "result [24]$", "--ok-if-out", "^flaky"];
    let args = [&["-n", "5"], &rules[..], &["--", "sh", "-c", line]].concat();
    let (report, _) = sandbox.report(&args);
    let variant = &report["variants"][0];
    assert_eq!(variant["outcomes"], json!({"pass": 3, "output": 2}));
    assert_eq!(variant["failing_trials"], json!([2, 4]));
}

#[test]
fn an_output_rule_finds_a_line_in_megabytes_of_output() {
    let sandbox = Sandbox::new();
    let line = "yes | head -c 3000000; echo; echo needle; yes | head -c 3000000";
    let (report, _) =
        sandbox.report(&["-n", "1", "--fail-if-out", "needle", "--", "sh", "-c", line]);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 0, "output": 1})
    );
}

#[test]
fn output_patterns_that_are_too_large_together_are_refused() {
    let sandbox = Sandbox::new();
    let large: Vec<String> = (0..5).map(|n| format!("^\\w{{1,80}} number{n}")).collect();
    let flags = large.iter().flat_map(|pattern| ["--fail-if-out", pattern]);
    let args: Vec<&str> = ["run", "-n", "1"]
        .into_iter()
        .chain(flags)
        .chain(["--", "true"])
        .collect();
    let output = sandbox.provoke(&args);
    assert_eq!(output.code, Some(2), "{output}");
    assert!(
        output
            .stderr
            .contains("the output patterns together are too large"),
        "{output}"
    );
}

#[test]
fn other_failures_are_counted_separately() {
    let sandbox = Sandbox::new();
    let line = "case $PROVOKE_TRIAL in 1) kill -SEGV $$;; 2) exit 139;; 3) exit 7;; esac";
    let (report, _) = sandbox.report(&["-n", "6", "--only", "SEGV", "--", "sh", "-c", line]);
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["trials"], &variant["failures"], &variant["other"]),
        (&json!(5), &json!(2), &json!(1))
    );
    assert_eq!(
        variant["outcomes"],
        json!({"pass": 3, "SIGSEGV": 2, "exit 7": 1})
    );
}

#[test]
fn a_skipped_trial_is_inconclusive_and_not_counted() {
    let sandbox = Sandbox::new();
    let line = "[ $PROVOKE_TRIAL = 2 ] && exit 125; exit 0";
    let (report, output) = sandbox.report(&["-n", "4", "--", "sh", "-c", line]);
    let variant = &report["variants"][0];
    assert_eq!(
        (&variant["trials"], &variant["void"]),
        (&json!(4), &json!(1))
    );
    assert_eq!(variant["void_reasons"], json!({"skipped": 1}));
    assert_eq!(output.code, Some(0));
}

#[test]
fn parallel_copies_are_one_trial_with_the_worst_outcome() {
    let sandbox = Sandbox::new();
    let line = "mkdir claim.$PROVOKE_TRIAL 2>/dev/null && kill -SEGV $$; sleep 0.05";
    let (report, _) = sandbox.report(&["-n", "3", "--copies", "4", "--", "sh", "-c", line]);
    assert_eq!(
        report["variants"][0]["outcomes"],
        json!({"pass": 0, "SIGSEGV": 3})
    );
    let kept = std::fs::read_dir(sandbox.path("provoke-out/last/trials/1")).unwrap();
    assert_eq!(kept.count(), 8, "stdout and stderr of four copies");
}

/// A temporary memory cgroup with a limit.
struct MemoryGroup(std::path::PathBuf);

impl MemoryGroup {
    fn new(bytes: &str) -> std::io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let path = own
            .lines()
            .find_map(|line| line.split_once(":memory:"))
            .map(|(_, path)| path);
        let (root, limit) = match path {
            Some(path) => (
                format!("/sys/fs/cgroup/memory{path}"),
                "memory.limit_in_bytes",
            ),
            None => ("/sys/fs/cgroup".to_owned(), "memory.max"),
        };
        // Tests run as parallel processes, or as threads of one process.
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let group = std::path::Path::new(&root).join(name);
        std::fs::create_dir(&group)?;
        let group = Self(group);
        std::fs::write(group.0.join(limit), bytes)?;
        // In cgroups v2 the controller must be enabled for child cgroups.
        let _ = std::fs::write(group.0.join("cgroup.subtree_control"), "+memory");
        Ok(group)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn an_oom_kill_is_distinguished_from_a_plain_sigkill() {
    let group = match MemoryGroup::new("100M") {
        Ok(group) => group,
        Err(error) => skip!("no memory group can be made: {error}"),
    };
    let sandbox = Sandbox::new();
    let line = format!(
        "case $PROVOKE_TRIAL in 1) exec {PROVOKE} victim oom;; 2) kill -9 $$;; 3) {PROVOKE} victim oom; true;; esac"
    );
    let join = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.0.display());
    let output = sandbox
        .program_command("sh", &[])
        .args([
            "-c",
            &join,
            "sh",
            PROVOKE,
            "run",
            "--progress=none",
            "-n",
            "4",
            "--export-json",
            "report.json",
        ])
        .args(["--", "sh", "-c", &line])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_str(&sandbox.read("report.json"))
        .unwrap_or_else(|error| panic!("{error}: {}", super::support::CommandOutput::from(output)));
    let variant = &report["variants"][0];
    assert_eq!(
        variant["outcomes"],
        json!({"pass": 1, "oom": 2, "SIGKILL": 1})
    );
    let words: Vec<_> = variant["kinds"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| {
            (
                kind["trials"][0].as_u64().unwrap(),
                kind["words"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert!(
        words.contains(&(1, "killed by the kernel because memory ran out".to_owned())),
        "{words:?}"
    );
    assert!(
        words.contains(&(
            3,
            "the kernel killed a child because memory ran out".to_owned()
        )),
        "{words:?}"
    );
}

/// Reads so much that `tail` needs 300 MB of memory.
const EAT: &str = "head -c 300M /dev/zero | tail -n 1 > /dev/null";

#[test]
fn an_oom_kill_is_recognized_in_a_cgroup_that_the_process_joined() {
    needs!(program("python3"));
    let group = match MemoryGroup::new("64M") {
        Ok(group) => group,
        Err(error) => skip!("no memory group can be made: {error}"),
    };
    let sandbox = Sandbox::new();
    let join = format!("echo $$ > {}/cgroup.procs", group.0.display());
    let line = format!(
        "case $PROVOKE_TRIAL in 1) {join}; {EAT}; true;; 2) {join}; exec python3 -c 'b = bytearray(300 << 20)';; esac"
    );
    let args = ["-n", "3", "--only", "oom", "--", "sh", "-c", &line];
    let (report, output) = sandbox.report(&args);
    let outcomes = &report["variants"][0]["outcomes"];
    assert_eq!(*outcomes, json!({"pass": 1, "oom": 2}), "{output}");
    let once = "2x    oom: killed by the kernel because memory ran out\n        trials 1, 2";
    assert!(output.stdout.contains(once), "{output}");
}

#[test]
fn a_memory_limit_oom_kills_a_trial() {
    if let Err(error) = MemoryGroup::new("64M") {
        skip!("no memory group can be made: {error}");
    }
    let sandbox = Sandbox::new();
    let args = ["-n", "3", "--memory", "100M", "--", "sh", "-c", EAT];
    let (report, output) = sandbox.report(&args);
    let outcomes = &report["variants"][0]["outcomes"];
    assert_eq!(*outcomes, json!({"pass": 0, "oom": 3}), "{output}");
    assert_eq!(
        report["repeated_attempts"], 0,
        "no slot was killed: {output}"
    );
    let file = format!("memory = '2G'\nruns = 2\nshell = '{EAT}'\n");
    let file = sandbox.write("s.toml", &file);
    let output = sandbox.provoke(&["scenario", file.to_str().unwrap(), "--progress=none"]);
    assert!(output.stdout.contains("0 of 2 trials failed"), "{output}");
    // Many small processes: each is smaller than the slot.
    let many = "for i in $(seq 400); do sleep 1 & done; wait";
    let args = ["-n", "1", "--memory", "40M", "--", "sh", "-c", many];
    let (report, output) = sandbox.report(&args);
    assert_eq!(
        report["repeated_attempts"], 0,
        "no slot was killed: {output}"
    );
}

#[test]
fn a_memory_limit_is_a_size_of_at_least_8_megabytes() {
    let sandbox = Sandbox::new();
    let output = sandbox.provoke(&["run", "--memory", "1M", "--", "true"]);
    insta::assert_snapshot!(output, @"
    ------- stderr -------
    error: invalid value '1M' for '--memory <SIZE>': a trial needs at least 8M of memory

    hint: `provoke run --help` describes the arguments
    [exit status: Some(2)]
    ");
    let output = sandbox.provoke(&["run", "--memory", "much", "--", "true"]);
    assert_eq!(output.code, Some(2), "{output}");
}

#[test]
fn a_memory_limit_that_cannot_be_set_is_an_error_before_the_start() {
    // Only mounts are changed, never their contents, so no other namespace is affected. The default propagation fails
    // in a chroot whose root is not a mount point.
    let unshare = ["-m", "--propagation", "unchanged"];
    needs!(success(&[&["unshare"], &unshare[..], &["true"]].concat()));
    let sandbox = Sandbox::new();
    let line = format!(
        "for m in $(grep -o '/sys/fs/cgroup[^ ]*' /proc/mounts | tac); do mount -o remount,bind,ro $m; done; exec {PROVOKE} run --memory 1G -n 1 -- true"
    );
    let output: super::support::CommandOutput = sandbox
        .program_command("unshare", &unshare)
        .args(["sh", "-c", &line])
        .output()
        .unwrap()
        .into();
    assert_eq!(output.code, Some(125), "{output}");
    let what = "cannot limit the memory of a trial: this control group cannot be written";
    assert!(output.stderr.contains(what), "{output}");
    assert!(output.stderr.contains("read-write"), "{output}");
    assert!(output.stderr.contains("--rlimit as=SIZE"), "{output}");
}

#[test]
fn a_tracer_finds_the_fault_behind_a_signal_handler() {
    let sandbox = Sandbox::new();
    let source = "#include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        int how;
        void handler(int signal) { if (how) abort(); _exit(3); }
        void fall(int *into) { *into = 1; }
        int main(int count, char **arguments) {
            how = count > 1;
            signal(SIGSEGV, handler);
            fall((int *)16);
        }";
    let source = sandbox.write("handled.c", source);
    let built = sandbox
        .program_command("cc", &["-g", "-O0", "-o", "handled"])
        .arg(source)
        .status();
    assert!(built.unwrap().success());
    for (command, outcome, before) in [
        ("exec ./handled", "exit 3", "exit 3 after handled's "),
        (
            "exec ./handled abort",
            "SIGABRT",
            "SIGABRT after handled's ",
        ),
        (
            "./handled abort; true",
            "SIGABRT",
            "SIGABRT after handled's ",
        ),
    ] {
        // Without this, a core could be captured.
        let command = format!("ulimit -Hc 0; {command}");
        let run = ["--capture", "trace", "-n", "2", "--", "sh", "-c", &command];
        let (report, output) = sandbox.report(&run);
        assert_eq!(output.code, Some(1), "{output}");
        let outcomes = &report["variants"][0]["outcomes"];
        assert_eq!(outcomes, &json!({"pass": 0, outcome: 2}));
        let title = report["variants"][0]["signatures"][0]["title"].to_string();
        assert!(title.contains(before), "{title}");
        assert!(title.contains("fall < main"), "{title}");
    }
}

/// Returns the titles of the failures of one trial each.
fn titles(sandbox: &Sandbox, commands: &[&[&str]]) -> Vec<String> {
    let title = |command: &&[&str]| {
        let (report, output) = sandbox.report(&[&["-n", "1", "--"], *command].concat());
        let signatures = &report["variants"][0]["signatures"];
        signatures[0]["title"]
            .as_str()
            .unwrap_or_else(|| panic!("{output}"))
            .to_owned()
    };
    commands.iter().map(title).collect()
}

#[test]
fn a_failed_test_suite_is_named_by_its_failed_tests() {
    needs!(program("python3"));
    let sandbox = Sandbox::new();
    sandbox.write(
        "suite.py",
        "import unittest, sys\nclass T(unittest.TestCase):\n  def test_a(self): self.assertNotEqual(sys.argv[-1], 'a')\n  \
         def test_b(self): self.assertNotIn(sys.argv[-1], 'b')\nunittest.main(argv=['x'])\n",
    );
    let titles = titles(
        &sandbox,
        &[&["python3", "suite.py", "a"], &["python3", "suite.py", "b"]],
    );
    assert_eq!(titles.len(), 2);
    assert!(titles[0].starts_with("exit 1: test_a ("), "{titles:?}");
    assert!(titles[1].starts_with("exit 1: test_b ("), "{titles:?}");
}

/// A program in each process of which runs another two.
const FORK_BOMB: &str = "f() { f | f & }; f";

#[test]
fn a_fork_bomb_is_killed_at_its_limit_and_the_next_trial_runs() {
    if !provoke_sys::cgroup::SlotGroup::can_limit_processes(40) {
        skip!("processes cannot be limited here");
    }
    let sandbox = Sandbox::new();
    let mark = format!("bomb{}", std::process::id());
    for background in ["", "; sleep 1000"] {
        let line = format!("[ $PROVOKE_TRIAL = 1 ] || exit 0; {FORK_BOMB}{background}");
        let args = ["-n", "2", "--pids", "40", "-t", "1s", "--grace", "100ms"];
        let args = [
            &args[..],
            &["--leak-grace", "100ms", "--", "bash", "-c", &line],
        ]
        .concat();
        let (report, output) = sandbox.report(&args);
        let variant = &report["variants"][0];
        let outcome = if background.is_empty() {
            "leak"
        } else {
            "hang"
        };
        assert_eq!(
            variant["outcomes"],
            json!({"pass": 1, outcome: 1}),
            "{output}"
        );
        assert_eq!(variant["trials_at_process_limit"], 1, "{output}");
        assert_eq!(report["repeated_attempts"], 0, "no slot was lost: {output}");
        let note = "in 1 trial the limit of processes and threads was reached";
        assert!(output.stdout.contains(note), "{output}");
        let survivors = processes_with(&mark);
        assert!(survivors.is_empty(), "{survivors:?}");
    }
}

#[test]
fn a_trial_starts_as_many_processes_as_its_limit_and_no_more() {
    if !provoke_sys::cgroup::SlotGroup::can_limit_processes(40) {
        skip!("processes cannot be limited here");
    }
    let sandbox = Sandbox::new();
    let line = "for i in $(seq $0); do sleep 60 & done 2> /dev/null; trap '' TERM; kill 0; wait";
    for (children, refused) in [("39", 0), ("40", 1)] {
        let args = ["-n", "1", "--pids", "40", "--", "sh", "-c", line, children];
        let (report, output) = sandbox.report(&args);
        let trials = &report["variants"][0]["trials_at_process_limit"];
        assert_eq!(*trials, refused, "{output}");
    }
    let file = sandbox.write("s.toml", "pids = 3\nruns = 1\nshell = 'ls | cat | cat'\n");
    let output = sandbox.provoke(&["scenario", file.to_str().unwrap(), "--progress=none"]);
    assert!(
        output.stdout.contains("the kernel refused to start more"),
        "{output}"
    );
}
