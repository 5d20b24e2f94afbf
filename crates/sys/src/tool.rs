//! Runs a helper program to its end, and returns its output.

use super::{process, signals};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// Interval between checks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(2);
/// Longest time that a child stays stopped before its `exec`.
const MAX_STOP: Duration = Duration::from_millis(500);

/// Runs a program and returns the beginning of its stdout, up to `max` bytes. Returns an error if
/// the program fails, or takes too long and is killed.
///
/// Only this child is reaped; other children remain for the caller.
pub fn run_program(
    program: &Path,
    arguments: &[&OsStr],
    deadline: Instant,
    max: usize,
) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    run_command(command, deadline, max)
}

/// Runs a program like [`run_program`], but with an empty environment, so that its output depends only on
/// its arguments.
pub fn run_bare(
    program: &Path,
    arguments: &[&OsStr],
    deadline: Instant,
    max: usize,
) -> io::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    run_command(command, deadline, max)
}

fn run_command(mut command: Command, deadline: Instant, max: usize) -> io::Result<String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Children of the program are in its process group, which is killed with it.
        .process_group(0);
    dies_with_us(&mut command);
    let mut child = command.spawn()?;
    let output = read_output(&mut child, deadline, max);
    if child.try_wait().map_or(true, |status| status.is_none()) {
        kill_group(&child);
    }
    let status = child.wait()?;
    // A program that took too long was killed.
    let output = output?;
    if status.success() {
        Ok(output)
    } else {
        Err(io::Error::other(format!("it ended with {status}")))
    }
}

/// Makes the kernel kill the child when the thread that starts it ends.
pub(super) fn dies_with_us(command: &mut Command) {
    signal_when_parent_ends(command, Signal::KILL);
}

/// Makes the kernel send this signal to a child when the thread that starts it ends; this applies
/// even before the child's `exec`.
#[expect(unsafe_code, reason = "a call between fork and exec")]
pub fn signal_when_parent_ends(command: &mut Command, signal: Signal) {
    // SAFETY: the closure makes one system call, and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || {
            Ok(rustix::process::set_parent_process_death_signal(Some(
                signal,
            ))?)
        });
    }
}

/// Starts a child, and continues it if it is stopped before its `exec`: `spawn` waits for the
/// `exec`, and the caller does not know the pid before.
pub fn spawn_and_continue(command: &mut Command) -> io::Result<Child> {
    let spawner = rustix::thread::gettid().as_raw_nonzero().get();
    let (started, is_started) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while is_started.recv_timeout(MAX_STOP) == Err(RecvTimeoutError::Timeout) {
                continue_before_exec(spawner);
            }
        });
        let child = command.spawn();
        drop(started);
        child
    })
}

/// Continues stopped children of a thread of this process that have not yet called `exec`.
fn continue_before_exec(spawner: i32) {
    let own_command = fs::read("/proc/self/cmdline").ok();
    for pid in process::children_of_thread(std::process::id().cast_signed(), spawner) {
        let is_stopped = process::process_state(pid).is_some_and(|(state, _)| state == 'T');
        if is_stopped && fs::read(format!("/proc/{pid}/cmdline")).ok() == own_command {
            let _ = signals::send_signal(pid, Signal::CONT);
        }
    }
}

fn read_output(child: &mut Child, deadline: Instant, max: usize) -> io::Result<String> {
    let Some(mut stdout) = child.stdout.take() else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    rustix::io::ioctl_fionbio(&stdout, true)?;
    let mut output = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        // Test for the end before the last read, so that no output is missed.
        let has_ended = child.try_wait()?.is_some();
        loop {
            match stdout.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let room = max.saturating_sub(output.len());
                    output.extend_from_slice(&buffer[..length.min(room)]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if has_ended {
            return Ok(String::from_utf8_lossy(&output).into_owned());
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(PAUSE);
    }
}

/// Kills a child and its process group.
pub fn kill_group(child: &Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let group = Pid::from_raw(child.id().cast_signed());
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_script(script: &str, patience: Duration, most: usize) -> io::Result<String> {
        let arguments = ["-c", script].map(OsStr::new);
        let until = Instant::now() + patience;
        run_program(Path::new("/bin/sh"), &arguments, until, most)
    }

    const LONG: Duration = Duration::from_secs(100);

    #[test]
    fn output_of_a_tool_is_kept_up_to_a_limit() {
        assert_eq!(
            run_script("echo one; echo two >&2", LONG, 100).unwrap(),
            "one\n"
        );
        assert_eq!(run_script("yes | head -n 100000", LONG, 3).unwrap(), "y\ny");
    }

    #[test]
    #[expect(unsafe_code, reason = "a call between fork and exec")]
    fn a_child_that_is_stopped_before_its_exec_continues() {
        let mut command = Command::new("true");
        // SAFETY: the closure makes two system calls, and neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(|| {
                let own = rustix::process::getpid();
                Ok(rustix::process::kill_process(own, Signal::STOP)?)
            });
        }
        let mut child = spawn_and_continue(&mut command).unwrap();
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_bare_run_has_an_empty_environment() {
        let until = Instant::now() + LONG;
        let environment = run_bare(Path::new("/usr/bin/env"), &[], until, 100);
        assert_eq!(environment.unwrap(), "");
    }

    #[test]
    fn a_tool_that_fails_or_does_not_end_is_an_error() {
        assert!(run_script("echo one; exit 3", LONG, 100).is_err());
        let late = run_script("sleep 1000 & sleep 1000", Duration::from_millis(50), 100);
        assert!(late.is_err());
    }
}
