//! Tests trials in containers, with the engine of this machine.

use super::support::{CommandOutput, PROVOKE, Sandbox, wait_until};
use crate::needs::{needs, skip, success};
use rustix::process::Signal;
use serde_json::json;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A program with several kinds of failure. The images contain nothing else.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/wait.h>

static void serve(int port, int lives) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64)) exit(3);
    const char *answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    for (;;) {
        char output[4096];
        int one = accept(listener, 0, 0);
        if (read(one, output, sizeof output) > 0) {
            if (lives-- == 0) raise(SIGSEGV);
            write(one, answer, strlen(answer));
        }
        close(one);
    }
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "exit";
    int number = count > 2 ? atoi(words[2]) : 0;
    if (!strcmp(how, "raise")) raise(number);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "sleep")) { puts("asleep"); fflush(stdout); sleep(number); }
    if (!strcmp(how, "write")) { FILE *file = fopen("written", "w"); fputs(getenv("WORD"), file); fclose(file); return 0; }
    if (!strcmp(how, "deaf")) { signal(SIGTERM, SIG_IGN); for (;;) sleep(number); }
    if (!strcmp(how, "serve")) serve(number, atoi(words[3]));
    if (!strcmp(how, "child")) { if (!fork()) raise(number); sleep(1); wait(0); return 0; }
    if (!strcmp(how, "until")) while (access(words[2], F_OK)) usleep(10000);
    if (!strcmp(how, "user")) return getuid() == number ? 0 : 5;
    if (!strcmp(how, "eat")) for (;;) memset(malloc(1 << 20), 1, 1 << 20);
    if (!strcmp(how, "image")) return access("/broken", F_OK) ? 0 : 4;
    return how[0] == 'u' ? 0 : number;
}
"#;

/// Makes names unique: tests may be threads of one process.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

/// Images that are built for a test and removed after it.
struct Images {
    sandbox: Sandbox,
    engine: &'static str,
    name: String,
    /// Lock that is held until the end.
    _lock: File,
}

impl Images {
    /// Builds two images, `:good` and `:bad`; the second contains an additional file.
    fn new() -> Self {
        Self::with_engine("docker")
    }

    /// Does the same while no other test uses an engine, because each run removes objects of killed runs.
    fn new_exclusive() -> Self {
        Self::with_lock(lock_engines(File::lock), "docker")
    }

    fn with_engine(engine: &'static str) -> Self {
        Self::with_lock(lock_engines(File::lock_shared), engine)
    }

    fn with_lock(lock: File, engine: &'static str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.write("program.c", PROGRAM);
        sandbox.write("broken", "");
        run(sandbox.program_command("cc", &["-static", "-w", "-o", "program", "program.c"]));
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("provoke-test-{}-{number}", std::process::id());
        for (tag, files) in [("good", &["program"][..]), ("bad", &["program", "broken"])] {
            run(sandbox.program_command("tar", &[&["-cf", "image.tar"], files].concat()));
            let image = format!("{name}:{tag}");
            run(sandbox.program_command(engine, &["import", "image.tar", &image]));
        }
        Self {
            sandbox,
            engine,
            name,
            _lock: lock,
        }
    }

    /// Returns the outcomes and the label of trials of the program, with these options.
    fn outcomes(&self, options: &[&str], words: &[&str]) -> (serde_json::Value, Option<String>) {
        let image = format!("{}:good", self.name);
        let all = ["-n", "2", "--capture", "off", "--engine", self.engine];
        let all = [
            &all,
            &["--image", &image][..],
            options,
            &["--", "/program"],
            words,
        ]
        .concat();
        let (report, _) = self.sandbox.report(&all);
        let variant = &report["variants"][0];
        let label = variant["kinds"][0]["label"].as_str().map(str::to_owned);
        assert_eq!(self.remaining_containers(), "", "nothing is left");
        (variant["outcomes"].clone(), label)
    }

    /// Returns the containers of these images that still exist.
    fn remaining_containers(&self) -> String {
        let found = ["good", "bad"].map(|tag| {
            // podman prefixes an image without a registry with this one.
            let place = if self.engine == "podman" {
                "localhost/"
            } else {
                ""
            };
            let filter = format!("ancestor={place}{}:{tag}", self.name);
            let mut list = Command::new(self.engine);
            list.args(["ps", "-a", "-q", "--filter", &filter]);
            String::from_utf8(list.output().unwrap().stdout).unwrap()
        });
        found.concat()
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for tag in ["good", "bad", "shell"] {
            let image = format!("{}:{tag}", self.name);
            let mut remove = Command::new(self.engine);
            remove.args(["image", "rm", "--force", &image]);
            let _ = remove.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// Waits for the lock of the tests that use an engine, in any process.
fn lock_engines(lock: fn(&File) -> io::Result<()>) -> File {
    let file = std::env::temp_dir().join("provoke-tests-with-an-engine");
    let file = File::create(file).unwrap();
    lock(&file).unwrap();
    file
}

/// Returns why a container engine is not available.
fn engine(name: &str) -> Option<String> {
    success(&[name, "version"])
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_container_ends_like_its_program() {
    needs!(engine("docker"));
    let images = Images::new();
    assert_eq!(images.outcomes(&[], &["exit", "0"]).0, json!({"pass": 2}));
    let (outcomes, _) = images.outcomes(&[], &["exit", "3"]);
    assert_eq!(outcomes, json!({"pass": 0, "exit 3": 2}));
    // As PID 1 it could not die of this signal.
    let (outcomes, label) = images.outcomes(&[], &["abort"]);
    assert_eq!(outcomes, json!({"pass": 0, "SIGABRT": 2}));
    let label = label.unwrap();
    assert!(
        label.ends_with("in a container") || label.ends_with("of a container"),
        "{label}"
    );
}

#[test]
fn a_crashing_child_in_a_container_is_detected() {
    needs!(engine("docker"));
    let images = Images::new();
    let (outcomes, label) = images.outcomes(&[], &["child", "11"]);
    if label.is_none() {
        skip!("the kernel tells nothing of processes in containers here");
    }
    assert_eq!(outcomes, json!({"pass": 0, "SIGSEGV": 2}));
    let masked = "in a child; the command itself exited with 0";
    assert_eq!(label.as_deref(), Some(masked));
}

#[test]
fn a_core_is_copied_out_of_a_container() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if pattern.starts_with(['|', '/']) {
        skip!("the kernel dumps cores elsewhere here");
    }
    for mounts in [&[][..], &["--mount", "none"]] {
        let all = ["-n", "1", "--capture", "on", "--image", &image];
        let all = [&all, mounts, &["--", "/program", "raise", "11"]].concat();
        let (report, output) = images.sandbox.report(&all);
        let outcomes = &report["variants"][0]["outcomes"];
        assert_eq!(outcomes["SIGSEGV"], 1, "{outcomes} {}", output.stderr);
        let events = images.sandbox.events();
        let seen = events
            .iter()
            .find_map(|event| event["trial_finished"]["seen"].as_object())
            .unwrap();
        let core = seen
            .get("cores")
            .map_or_else(|| panic!("{mounts:?} {seen:?}"), |cores| &cores[0]);
        assert_eq!(core["crash"]["program"], "program", "{mounts:?} {core}");
        // The core is read with the program in the image, which does not exist at its path here.
        let frames = core["crash"]["frames"].as_array().unwrap();
        let is_main = |frame: &serde_json::Value| frame["function"] == "main";
        assert!(frames.iter().any(is_main), "{mounts:?} {core}");
    }
}

#[test]
fn a_container_at_its_memory_limit_is_oom_killed() {
    needs!(engine("docker"));
    let images = Images::new();
    let (outcomes, _) = images.outcomes(&["--container", "memory=32m"], &["eat"]);
    assert_eq!(outcomes, json!({"pass": 0, "oom": 2}));
}

#[test]
fn a_container_that_exceeds_its_timeout_is_a_hang_and_is_removed() {
    needs!(engine("docker"));
    let images = Images::new();
    let (outcomes, _) = images.outcomes(&["-t", "2s"], &["sleep", "1000"]);
    assert_eq!(outcomes["hang"], 2);
    let (outcomes, _) = images.outcomes(&["-t", "2s", "--grace", "1s"], &["deaf", "1000"]);
    assert_eq!(outcomes["hang"], 2);
}

#[test]
fn a_program_missing_in_the_image_makes_the_trial_inconclusive() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let output = images
        .sandbox
        .provoke(&["run", "-n", "1", "--image", &image, "--", "/nothing"]);
    assert_eq!(output.code, Some(125), "{}", output.stderr);
    assert!(
        output.stderr.contains("not started: in the container:"),
        "{}",
        output.stderr
    );
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn a_missing_image_is_an_error_that_lists_the_existing_images() {
    needs!(engine("docker"));
    let images = Images::new();
    let output = images
        .sandbox
        .provoke(&["run", "--image", "provoke-test:none", "--", "x"]);
    assert!(
        output
            .stderr
            .contains("the image `provoke-test:none` is not on this machine: there are")
    );
    assert!(
        output.stderr.contains("docker pull provoke-test:none"),
        "{}",
        output.stderr
    );
}

#[test]
fn a_run_in_a_container_without_an_engine_is_refused() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["run", "--image", "x", "--", "y"]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.contains("docker and podman are not in PATH"),
        "{output}"
    );
}

#[test]
fn a_container_has_the_working_directory_and_the_set_variables() {
    needs!(engine("docker"));
    let images = Images::new();
    let (outcomes, _) = images.outcomes(&["-e", "WORD=seen"], &["write"]);
    assert_eq!(outcomes, json!({"pass": 2}));
    assert_eq!(images.sandbox.read("written"), "seen");
}

#[test]
fn images_can_be_compared_as_variants() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:{{tag}}", images.name);
    let (report, output) = images.sandbox.run_with_report(
        "compare",
        &[
            "-n",
            "8",
            "--find",
            "different",
            "-L",
            "tag=good,bad",
            "--image",
            &image,
            "--",
            "/program",
            "image",
        ],
    );
    let outcome = |at: usize, name: &str| report["variants"][at]["outcomes"][name].as_u64();
    assert!(outcome(0, "pass") > Some(0), "{}", output.stderr);
    assert_eq!(outcome(0, "exit 4"), None);
    assert_eq!(outcome(1, "pass"), Some(0));
    assert!(outcome(1, "exit 4") > Some(0));
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn bisect_finds_the_first_bad_image_tag() {
    needs!(engine("docker"));
    let images = Images::new();
    let tags = format!("{}:good,bad", images.name);
    let output = images
        .sandbox
        .provoke(&["bisect", "--image", &tags, "--", "/program", "image"]);
    assert!(
        output.stdout.contains("bad"),
        "{}{}",
        output.stdout,
        output.stderr
    );
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn a_killed_provoke_leaves_no_container() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let running = images.sandbox.start(&[
        "run", "-n", "1", "--image", &image, "--", "/program", "sleep", "1000",
    ]);
    wait_until("a container", || !images.remaining_containers().is_empty());
    running.signal(Signal::KILL);
    wait_until("its end", || images.remaining_containers().is_empty());
}

#[test]
fn the_next_run_removes_containers_of_a_killed_run() {
    needs!(engine("docker"));
    let images = Images::new_exclusive();
    let image = format!("{}:good", images.name);
    let running = images.sandbox.start(&[
        "run", "-n", "1", "--image", &image, "--", "/program", "sleep", "1000",
    ]);
    wait_until("a container", || !images.remaining_containers().is_empty());
    running.die_with_slots();
    assert!(
        !images.remaining_containers().is_empty(),
        "nobody is there to remove it"
    );
    assert_eq!(images.outcomes(&[], &["exit", "0"]).0, json!({"pass": 2}));
}

#[test]
fn resuming_a_killed_run_removes_its_containers() {
    needs!(engine("docker"));
    let images = Images::new_exclusive();
    let image = format!("{}:good", images.name);
    let running = images.sandbox.start(&[
        "run",
        "-n",
        "2",
        "--capture",
        "off",
        "--image",
        &image,
        "--",
        "/program",
        "until",
        "go",
    ]);
    wait_until("a container", || !images.remaining_containers().is_empty());
    running.die_with_slots();
    assert!(
        !images.remaining_containers().is_empty(),
        "nobody is there to remove it"
    );
    images.sandbox.write("go", "");
    let output = images.sandbox.provoke(&["resume", "last"]);
    let swept = "note: removed a container that an earlier run left behind";
    assert!(output.stderr.contains(swept), "{output}");
    assert!(output.stdout.contains("0 of 2 trials failed"), "{output}");
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn an_interrupted_run_leaves_no_container() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let running = images.sandbox.start(&[
        "run", "-n", "1", "--image", &image, "--", "/program", "sleep", "1000",
    ]);
    wait_until("a container", || !images.remaining_containers().is_empty());
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(output.code, Some(130), "{output}");
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn a_container_that_a_trial_starts_is_not_a_leak() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let label = format!("made={}", images.name);
    let start = format!("docker run -d --label {label} {image} /program sleep 1000");
    let sweep = format!("docker ps -aq --filter label={label} | xargs -r docker rm -f -v");
    let (report, output) = images.sandbox.report(&["-n", "1", "--shell", &start]);
    assert_eq!(report["variants"][0]["outcomes"]["pass"], 1, "{output}");
    assert_ne!(images.remaining_containers(), "", "it is not provoke's");
    let all = ["-n", "1", "--conclude", &sweep, "--shell", &start];
    let (report, output) = images.sandbox.report(&all);
    assert_eq!(report["variants"][0]["outcomes"]["pass"], 1, "{output}");
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn tracing_a_program_in_a_container_is_refused_with_a_note() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let all = ["run", "-n", "1", "--capture", "trace", "--image", &image];
    let output = images
        .sandbox
        .provoke(&[&all, &["--", "/program"][..]].concat());
    let words = "`--capture trace` cannot follow a program into a container";
    assert!(output.stderr.contains(words), "{output}");
}

#[test]
fn replay_show_prints_a_docker_command_that_works() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let all = ["-n", "1", "--capture", "off", "--image", &image];
    let what = ["-e", "WORD=two words", "--container", "memory=64m"];
    let command = ["--", "/program", "write"];
    images.sandbox.report(&[&all[..], &what, &command].concat());
    let shown = images.sandbox.provoke(&["replay", "--show", "last#1"]);
    let line = shown.stdout.trim();
    for part in [
        "&& docker run --rm --init ",
        "--memory=64m",
        "'WORD=two words'",
    ] {
        assert!(line.contains(part), "{line}");
    }
    images.sandbox.write("written", "");
    run(images.sandbox.program_command("sh", &["-c", line]));
    assert_eq!(images.sandbox.read("written"), "two words");
    assert_eq!(images.remaining_containers(), "");
}

#[test]
fn a_container_can_run_as_another_user() {
    needs!(engine("docker"));
    let images = Images::new();
    let nobody = ["--container", "user=65534"];
    let (outcomes, _) = images.outcomes(&nobody, &["user", "65534"]);
    assert_eq!(outcomes, json!({"pass": 2}));
    let (outcomes, _) = images.outcomes(&nobody, &["abort"]);
    assert_eq!(outcomes, json!({"pass": 0, "SIGABRT": 2}));
    let hangs = [&nobody[..], &["-t", "2s"]].concat();
    let (outcomes, _) = images.outcomes(&hangs, &["sleep", "1000"]);
    assert_eq!(outcomes["hang"], 2);
}

#[test]
fn podman_gives_the_same_outcomes_as_docker() {
    needs!(engine("podman"));
    let images = Images::with_engine("podman");
    // The engine's default may exceed the limits of an ordinary user.
    let few = ["--rlimit", "nofile=1024,nproc=1000"];
    let image = format!("{}:good", images.name);
    let mut tried = images
        .sandbox
        .program_command("podman", &["run", "--rm", "--init"]);
    tried.args(["--network=none", "--ulimit", "nofile=1024"]);
    tried.args(["--ulimit", "nproc=1000", &image, "/program"]);
    let tried = tried.output().unwrap();
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        skip!("podman starts no container: {why}");
    }
    let outcomes = |options: &[&str], words: &[&str]| {
        let (outcomes, label) = images.outcomes(&[&few[..], options].concat(), words);
        (outcomes, label.unwrap_or_default())
    };
    assert_eq!(outcomes(&[], &["exit", "0"]).0, json!({"pass": 2}));
    let (three, _) = outcomes(&[], &["exit", "3"]);
    assert_eq!(three, json!({"pass": 0, "exit 3": 2}));
    let (abort, label) = outcomes(&[], &["abort"]);
    assert_eq!(abort, json!({"pass": 0, "SIGABRT": 2}), "{label}");
    assert!(label.contains("a container"), "{label}");
    let (hang, _) = outcomes(&["-t", "2s"], &["sleep", "1000"]);
    assert_eq!(hang["hang"], 2);
    if std::fs::File::open("/dev/kmsg").is_ok() {
        let (full, _) = outcomes(&["--container", "memory=32m"], &["eat"]);
        assert_eq!(full, json!({"pass": 0, "oom": 2}));
    }
    let all = ["run", "-n", "1", "--engine", "podman", "--image", &image];
    let nothing = [&all, &few[..], &["--", "/nothing"]].concat();
    let output = images.sandbox.provoke(&nothing);
    assert_eq!(output.code, Some(125), "{output}");
    let asleep = [&all, &few[..], &["--", "/program", "sleep", "1000"]].concat();
    let running = images.sandbox.start(&asleep);
    wait_until("a container", || !images.remaining_containers().is_empty());
    running.signal(Signal::KILL);
    wait_until("its end", || images.remaining_containers().is_empty());
}

#[test]
fn the_podman_service_ends_with_provoke() {
    needs!(engine("podman"));
    let images = Images::with_engine("podman");
    let image = format!("{}:good", images.name);
    let all = ["run", "-n", "1", "--engine", "podman", "--image", &image];
    let few = ["--rlimit", "nofile=1024,nproc=1000", "--", "/program"];
    let until = [&all[..], &few, &["until", "go"]].concat();
    let is_service = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains("system\0service")
    };
    for killed in [true, false] {
        let running = images.sandbox.start(&until);
        let service = || running.children().into_iter().find(is_service);
        wait_until("a service", || service().is_some());
        let service = service().unwrap();
        if killed {
            running.signal(Signal::KILL);
            wait_until("its end", || !is_service(&service));
        } else {
            images.sandbox.write("go", "");
            let output = running.end();
            assert!(!is_service(&service), "{output}");
        }
        wait_until("the end of the container", || {
            images.remaining_containers().is_empty()
        });
    }
}

#[test]
fn a_file_that_a_core_would_overwrite_is_unchanged() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let numbered = std::fs::read_to_string("/proc/sys/kernel/core_uses_pid").unwrap();
    if (pattern.trim(), numbered.trim()) != ("core", "0") {
        skip!("cores have other names here");
    }
    images.sandbox.write("core", "somebody's");
    let all = ["-n", "1", "--capture", "on", "--image", &image];
    let crash = ["--", "/program", "raise", "11"];
    let (report, output) = images.sandbox.report(&[&all[..], &crash].concat());
    let outcomes = &report["variants"][0]["outcomes"];
    assert_eq!(outcomes["SIGSEGV"], 1, "{outcomes} {output}");
    assert_eq!(images.sandbox.read("core"), "somebody's");
    assert!(
        output.to_string().contains("would be overwritten"),
        "{output}"
    );
}

#[test]
fn a_user_without_root_gets_the_same_outcomes() {
    needs!(engine("docker"));
    let images = Images::new();
    let socket = std::fs::metadata("/var/run/docker.sock");
    let (Ok(socket), true) = (socket, rustix::process::geteuid().is_root()) else {
        skip!("only root becomes another user here");
    };
    // A user without rights except access to the daemon.
    let (user, group) = (65534, socket.gid());
    let folder = images.sandbox.path("");
    std::os::unix::fs::chown(&folder, Some(user), Some(group)).unwrap();
    let program = images.sandbox.path("provoke");
    std::fs::copy(PROVOKE, &program).unwrap();
    let image = format!("{}:good", images.name);
    let (user, group) = (user.to_string(), group.to_string());
    let become_nobody = ["--reuid", &user, "--regid", &group, "--clear-groups"];
    let program = program.to_str().unwrap();
    for (words, code, outcome) in [
        (&["user", &*user][..], 0, "0 of 2 trials failed"),
        (&["write"], 0, "0 of 2 trials failed"),
        (&["exit", "3"], 1, "exit 3 in 2 of 2 trials"),
        (&["abort"], 1, "SIGABRT in 2 of 2 trials"),
    ] {
        let all = ["run", "-n", "2", "--capture", "off", "-e", "WORD=seen"];
        let what = ["--image", &image, "--", "/program"];
        let all = [&become_nobody[..], &[program], &all, &what, words].concat();
        let mut command = images.sandbox.program_command("setpriv", &all);
        let output: CommandOutput = command.env("HOME", &folder).output().unwrap().into();
        assert_eq!(output.code, Some(code), "{words:?} {output}");
        assert!(output.stdout.contains(outcome), "{words:?} {output}");
        assert_eq!(images.remaining_containers(), "");
    }
    let written = std::fs::metadata(images.sandbox.path("written")).unwrap();
    assert_eq!(written.uid().to_string(), user, "it belongs to who ran it");
}

#[test]
fn a_service_in_a_container_is_put_under_load() {
    needs!(engine("docker"));
    let images = Images::new();
    let image = format!("{}:good", images.name);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let url = format!("http://127.0.0.1:{port}/");
    let by_proxy = ["--network", "bridge", "--ready", "/"];
    for (requests, outcome, network) in [
        ("1000000", "pass", &[][..]),
        ("60", "SIGSEGV", &[]),
        ("1000000", "pass", &by_proxy),
        ("80", "SIGSEGV", &by_proxy),
    ] {
        let all = [&url, "-n", "1", "--capture", "off", "--requests", "100"];
        let how = ["--clients", "2", "--image", &image];
        let what = ["--", "/program", "serve", &port, requests];
        let all = [&all, &how[..], network, &what].concat();
        let (report, output) = images.sandbox.run_with_report("load", &all);
        let outcomes = &report["variants"][0]["outcomes"];
        assert_eq!(outcomes[outcome], 1, "{outcomes} {}", output.stderr);
        assert_eq!(images.remaining_containers(), "");
    }
}

/// Writes an image with this program and a shell.
fn import_with_shell(sandbox: &Sandbox, program: &str, image: &str) {
    let root = sandbox.path("root");
    let line = format!(
        "mkdir -p root/bin && cp -L /bin/sh root/bin/ && cp {program} root/ && \
         for library in $(ldd /bin/sh | grep -o '/[^ ]*'); do \
         mkdir -p root$(dirname $library) && cp -L $library root$library; done && \
         tar -cf image.tar -C {} .",
        root.display()
    );
    run(sandbox.program_command("sh", &["-c", &line]));
    run(sandbox.program_command("docker", &["import", "image.tar", image]));
}

#[test]
fn hunt_holds_threads_in_a_container() {
    needs!(engine("docker"));
    let images = Images::new();
    let sandbox = &images.sandbox;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/holds/tests/racy/refcount.c");
    std::fs::copy(source, sandbox.path("racy.c")).unwrap();
    let flags = ["-static", "-g", "-O1", "-pthread", "-o", "racy", "racy.c"];
    run(sandbox.program_command("cc", &flags));
    let image = format!("{}:shell", images.name);
    import_with_shell(sandbox, "racy", &image);
    let held = ["--seed", "1", "-d", "60s", "--image", &image];
    let (report, output) = sandbox.run_with_report("hunt", &[&held[..], &["--", "/racy"]].concat());
    let answer = &report["answer"]["hunt"];
    assert_eq!(output.code, Some(1), "{output}");
    let held = &answer["held"];
    let [failures, trials] = ["failures", "trials"].map(|name| held[name].as_u64().unwrap());
    assert!(2 * failures > trials, "{output}");
    // The names of functions come from the files of the image.
    assert_eq!(answer["places"][0]["function"], "drop", "{output}");
    assert_eq!(images.remaining_containers(), "", "nothing is left");

    // Without a shell, the program cannot be kept back until it is traced.
    let image = format!("{}:good", images.name);
    let held = ["-d", "3s", "--image", &image, "--", "/program"];
    let (report, output) = sandbox.run_with_report("hunt", &held);
    let sentence = report["answer"]["hunt"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("no shell, /bin/sh, started"), "{output}");
    assert_eq!(images.remaining_containers(), "", "nothing is left");
}
