//! The victim misbehaves as it says, and leaves nothing that these tests do not find and end.

#[expect(dead_code, reason = "the tests of provoke need more")]
#[path = "../../../tests/it/limited.rs"]
mod limited;

use limited::PATIENCE;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions};

fn victim(args: &str) -> Command {
    // Inherited by everything started from here.
    rustix::process::setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_provoke-victim"));
    command.args(args.split_whitespace());
    command
        .env_remove("PROVOKE_TRIAL")
        .env_remove("PROVOKE_SEED")
        .stdin(Stdio::null());
    command
}

fn output(args: &str) -> Output {
    limited::output(&mut victim(args)).unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A victim that does not end by itself, with the first line it says on stderr; killed in the end.
struct Running {
    child: Child,
    stderr_line: String,
}

impl Running {
    fn start(args: &str) -> Self {
        let mut child = victim(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr_line = String::new();
        BufReader::new(child.stderr.take().unwrap())
            .read_line(&mut stderr_line)
            .unwrap();
        Self { child, stderr_line }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn send(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    fn wait(mut self) -> ExitStatus {
        limited::wait(&mut self.child)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        limited::wait_or_kill(PATIENCE, &mut self.child);
    }
}

/// The pid in a line such as "left behind: pid 123".
fn pid_in(line: &str) -> Pid {
    let number = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
    Pid::from_raw(number).unwrap()
}

/// A field of `/proc/PID/stat`, numbered as in proc(5).
fn stat(pid: Pid, field: usize) -> String {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.split(' ').nth(field - 3).unwrap().to_owned()
}

/// Waits for what must come sooner or later; only a broken victim makes this fail.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not within a minute: {what}");
}

/// Kills and reaps every process below this one.
struct Cleanup;

impl Drop for Cleanup {
    fn drop(&mut self) {
        while let Ok(found) = rustix::process::wait(WaitOptions::NOHANG) {
            for pid in children() {
                rustix::process::kill_process(pid, Signal::KILL).ok();
            }
            if found.is_none() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Runs `body` in a process of its own which becomes the parent of all orphans below it, and reaps them all.
fn as_subreaper(test: &str, body: impl FnOnce()) {
    if env::var_os("VICTIM_TEST_ALONE").is_none() {
        let inner = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env("VICTIM_TEST_ALONE", "1")
            .output()
            .unwrap();
        assert!(
            inner.status.success(),
            "{}{}",
            text(&inner.stdout),
            text(&inner.stderr)
        );
        assert!(
            text(&inner.stdout).contains("1 passed"),
            "no test is called {test}"
        );
        return;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let _cleanup = Cleanup;
    body();
}

fn children() -> Vec<Pid> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let list = fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
        children.extend(
            list.split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
        );
    }
    children
}

#[test]
fn crashes_end_with_the_real_signal_after_their_message() {
    for (args, signal, message) in [
        (
            "segv",
            libc::SIGSEGV,
            "victim: about to read address 0x10\n",
        ),
        ("abort", libc::SIGABRT, "victim: about to call abort()\n"),
        (
            "ill",
            libc::SIGILL,
            "victim: about to run an invalid instruction\n",
        ),
        ("fpe", libc::SIGFPE, "victim: about to divide by zero\n"),
        (
            "bus",
            libc::SIGBUS,
            "victim: about to read a mapped file past its end\n",
        ),
        (
            "overflow",
            libc::SIGSEGV,
            "victim: about to overflow the stack\n",
        ),
        (
            "kill",
            libc::SIGKILL,
            "victim: about to send itself SIGKILL\n",
        ),
        (
            "signal --signal SIGTERM",
            libc::SIGTERM,
            "victim: about to send itself SIGTERM\n",
        ),
        (
            "signal --signal pipe",
            libc::SIGPIPE,
            "victim: about to send itself SIGPIPE\n",
        ),
        (
            "signal --signal SEGV",
            libc::SIGSEGV,
            "victim: about to send itself SIGSEGV\n",
        ),
        (
            "signal --signal 40",
            40,
            "victim: about to send itself signal 40\n",
        ),
        ("kill --message boo", libc::SIGKILL, "boo\n"),
        ("kill --message=", libc::SIGKILL, ""),
    ] {
        let output = output(args);
        assert_eq!(output.status.signal(), Some(signal), "{args}: {output:?}");
        assert_eq!(text(&output.stderr), message, "{args}");
        assert_eq!(text(&output.stdout), "", "{args}");
    }
}

#[test]
fn exits_have_the_requested_code() {
    assert_eq!(output("exit").status.code(), Some(1));
    assert_eq!(output("exit --code 125").status.code(), Some(125));
    assert_eq!(
        output("signal --signal CHLD").status.code(),
        Some(0),
        "ignored by default, so survived"
    );
}

#[test]
fn wrappers_hide_the_crash_of_their_child() {
    for (kind, code) in [("shell-segv", 139), ("python-segv", 245), ("masked", 0)] {
        let output = output(kind);
        assert_eq!(output.status.code(), Some(code), "{kind}");
        assert!(
            text(&output.stderr).contains("victim: about to read address 0x10\n"),
            "{kind}: {output:?}"
        );
    }
}

#[test]
fn slow_death_crashes_after_all_output() {
    let output = output("slow-death --delay 5ms");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(
        text(&output.stdout).ends_with("step 5 of 5 done\n"),
        "{output:?}"
    );
    assert_eq!(
        text(&output.stderr),
        "victim: work done, now shutting down\n"
    );
}

#[test]
fn rate_zero_prints_ok() {
    for args in ["segv --rate 0", "oom --rate 0%", "leak-detached --rate 0"] {
        let output = output(args);
        assert_eq!(
            (
                output.status.code(),
                text(&output.stdout),
                text(&output.stderr)
            ),
            (Some(0), "ok\n", ""),
            "{args}"
        );
    }
}

#[test]
fn the_same_seed_fails_again() {
    let failing = (0..60).filter(|seed| {
        !output(&format!("exit --rate 10% --seed {seed}"))
            .status
            .success()
    });
    assert_eq!(failing.collect::<Vec<_>>(), [10, 18, 21, 41, 48]);
    let from_environment = victim("exit --rate 10%")
        .env("PROVOKE_SEED", "10")
        .output()
        .unwrap();
    assert_eq!(from_environment.status.code(), Some(1));
}

#[test]
fn listed_trials_fail_and_no_others() {
    let failing = (1..=10).filter(|trial: &i32| {
        let output = victim("exit --rate 0 --fail-on 3,7-8")
            .env("PROVOKE_TRIAL", trial.to_string())
            .output();
        !output.unwrap().status.success()
    });
    assert_eq!(failing.collect::<Vec<_>>(), [3, 7, 8]);
}

#[test]
fn listed_trials_without_a_trial_number_are_a_usage_error() {
    let output = output("segv --fail-on 3");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("PROVOKE_TRIAL is not set"),
        "{output:?}"
    );
}

#[test]
fn wrong_values_are_usage_errors() {
    for args in [
        "",
        "boom",
        "segv --rate 2",
        "segv --delay soon",
        "signal",
        "signal --signal 0",
        "noise --bytes lots",
    ] {
        assert_eq!(output(args).status.code(), Some(2), "{args}");
    }
}

#[test]
fn hang_ends_on_sigterm() {
    let running = Running::start("hang");
    assert_eq!(running.stderr_line, "victim: about to block for ever\n");
    eventually("hang sleeps", || stat(running.pid(), 3) == "S");
    running.send(Signal::TERM);
    assert_eq!(running.wait().signal(), Some(libc::SIGTERM));
}

#[test]
fn hang_stubborn_ends_only_on_sigkill() {
    let running = Running::start("hang-stubborn");
    let status =
        fs::read_to_string(format!("/proc/{}/status", running.pid().as_raw_pid())).unwrap();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    assert_eq!(
        ignored >> (libc::SIGTERM - 1) & 1,
        1,
        "SIGTERM is ignored by the time it speaks"
    );
    running.send(Signal::TERM);
    running.send(Signal::KILL);
    assert_eq!(running.wait().signal(), Some(libc::SIGKILL));
}

#[test]
fn spin_uses_cpu_time() {
    let running = Running::start("spin");
    eventually("a tenth of a second is used", || {
        stat(running.pid(), 14).parse::<u64>().unwrap() >= 10
    });
}

#[test]
fn stop_stops_itself_and_can_be_continued() {
    let running = Running::start("stop");
    let (_, status) = rustix::process::waitpid(Some(running.pid()), WaitOptions::UNTRACED)
        .unwrap()
        .unwrap();
    assert_eq!(status.stopping_signal(), Some(libc::SIGSTOP));
    running.send(Signal::CONT);
    assert_eq!(running.wait().code(), Some(0));
}

#[test]
fn leak_keeps_the_streams_open() {
    let mut child = victim("leak")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let leaked = pid_in(&line);
    assert_eq!(limited::wait(&mut child).code(), Some(0));
    let ours = fs::read_link(format!(
        "/proc/self/fd/{}",
        std::os::fd::AsRawFd::as_raw_fd(stdout.get_ref())
    ));
    let theirs = fs::read_link(format!("/proc/{}/fd/1", leaked.as_raw_pid()));
    rustix::process::kill_process(leaked, Signal::KILL).unwrap();
    stdout.read_line(&mut line).unwrap(); // the stream ends, so the leftover has
    assert_eq!(ours.unwrap(), theirs.unwrap());
}

#[test]
fn a_brief_leak_ends_by_itself() {
    let output = output("leak-brief --linger 20ms"); // returns at the end of the stream, which the leftover holds
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stdout).starts_with("left behind: pid "),
        "{output:?}"
    );
}

#[test]
fn a_detached_leak_has_no_parent_session_environment_or_streams() {
    as_subreaper(
        "a_detached_leak_has_no_parent_session_environment_or_streams",
        || {
            let output = output("leak-detached");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let leaked = pid_in(text(&output.stdout));
            assert_eq!(
                children(),
                [leaked],
                "it has no parent but the reaper of orphans"
            );
            let environment = fs::read(format!("/proc/{}/environ", leaked.as_raw_pid())).unwrap();
            assert_eq!(text(&environment), "");
            let session: i32 = stat(leaked, 6).parse().unwrap();
            assert_ne!(
                session,
                stat(rustix::process::getpid(), 6).parse::<i32>().unwrap()
            );
            assert_ne!(session, leaked.as_raw_pid(), "nor does it lead the session");
            for stream in 0..=2 {
                let target =
                    fs::read_link(format!("/proc/{}/fd/{stream}", leaked.as_raw_pid())).unwrap();
                assert_eq!(target.to_str(), Some("/dev/null"));
            }
        },
    );
}

#[test]
fn fork_storm_starts_exactly_the_requested_number_of_processes() {
    as_subreaper(
        "fork_storm_starts_exactly_the_requested_number_of_processes",
        || {
            assert_eq!(output("fork-storm --count 40").status.code(), Some(0));
            let mut reaped = 0;
            loop {
                match rustix::process::wait(WaitOptions::empty()) {
                    Ok(found) => {
                        let (_, status) = found.unwrap();
                        assert_eq!(status.exit_status(), Some(0));
                        reaped += 1;
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::CHILD) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(reaped, 40);
        },
    );
}

#[test]
fn oom_aborts_on_a_failed_allocation_under_an_address_space_limit() {
    victim("oom"); // for the core limit
    let output = Command::new("sh")
        .args([
            "-c",
            r#"ulimit -v 300000; exec "$0" oom --limit 1G"#,
            env!("CARGO_BIN_EXE_provoke-victim"),
        ])
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert!(
        text(&output.stdout).contains("holding 128 MiB\n"),
        "{output:?}"
    );
    assert!(
        text(&output.stderr).contains("memory allocation of 16777216 bytes failed"),
        "{output:?}"
    );
}

#[test]
fn oom_stops_at_its_own_limit() {
    let output = output("oom --yes --limit 16M");
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(
        text(&output.stderr).contains("--limit of 16 MiB reached"),
        "{output:?}"
    );
}

#[test]
fn noise_has_the_requested_length_on_both_streams() {
    let output = output("noise --bytes 200001 --message= --code 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(
        (output.stdout.len(), output.stderr.len()),
        (200_001, 200_001)
    );
    assert_eq!(output.stdout, output.stderr);
    assert!(std::str::from_utf8(&output.stdout).is_err());
}

#[test]
fn noise_ends_when_its_stdout_is_closed() {
    let mut child = victim("noise --bytes 1T")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap(); // and close it
    assert_eq!(limited::wait(&mut child).code(), Some(125));
}
