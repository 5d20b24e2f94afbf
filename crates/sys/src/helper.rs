//! Starts this program again as a helper of this process.

use super::call_filter::WallClock;
use super::spawn::{CStringArray, MachineAccess, Program, Spawner};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::BTreeSet;
use std::env;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Leads to the program of the process that opens it, even if its file was removed.
const RUNNING_PROGRAM: &str = "/proc/self/exe";

/// Pids of the helpers that are not reaped.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A helper process, which is reaped by [`Self::kill_and_wait`].
#[derive(Debug)]
pub struct HelperProcess {
    pid: Pid,
    is_reaped: bool,
    status: Option<ExitStatus>,
}

/// Returns the path of this program, or another one that leads to it if its file is gone.
pub fn existing_program(binary: &Path) -> &Path {
    if binary.exists() {
        binary
    } else {
        Path::new(RUNNING_PROGRAM)
    }
}

/// Returns the pids of the helpers of this process that are not reaped.
pub fn running_pids() -> BTreeSet<i32> {
    lock_running().clone()
}

fn lock_running() -> MutexGuard<'static, BTreeSet<i32>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HelperProcess {
    /// Starts a program with the environment, the directory and the stderr of this process. When the calling thread ends,
    /// a helper that is stopped continues.
    pub fn start(
        binary: &Path,
        arguments: &[&OsStr],
        stdin: BorrowedFd<'_>,
        stdout: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let has_nul = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let words = [binary.as_os_str()]
            .into_iter()
            .chain(arguments.iter().copied());
        let variables: Vec<_> = env::vars_os().collect();
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()]);
        let stderr = io::stderr();
        let program = Program {
            paths: &[CString::new(binary.as_os_str().as_bytes())?],
            argv: &CStringArray::join_parts(words.map(|word| [word.as_bytes()]))
                .map_err(has_nul)?,
            envp: &CStringArray::join_parts(variables).map_err(has_nul)?,
            cwd: c".",
            stdio: [stdin, stdout, stderr.as_fd()],
            limits: &[],
            steps: None,
            identity: None,
            traced_calls: &[],
            needs_tracer: false,
            wall_clock: WallClock::OfMachine,
            machine_access: MachineAccess::Inherited,
            signal_when_parent_ends: Signal::CONT,
        };
        // No other thread sees the new child without its pid in the list.
        let mut running = lock_running();
        let pid = Spawner::default().spawn_and_continue(&program);
        let pid = pid.map_err(|error| error.source)?;
        running.insert(pid);
        Ok(Self {
            pid: Pid::from_raw(pid).expect("a child has a pid"),
            is_reaped: false,
            status: None,
        })
    }

    /// Returns the pid, which stays reserved until the helper is reaped.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Returns whether the helper has ended, and reaps it.
    pub fn has_ended(&mut self) -> bool {
        self.wait(WaitOptions::NOHANG);
        self.is_reaped
    }

    /// Kills the helper if it has not ended; returns how it ended.
    pub fn kill_and_wait(&mut self) -> String {
        if !self.has_ended() {
            // Only a process that has ended cannot be killed.
            let _ = kill_process(self.pid, Signal::KILL);
            self.wait(WaitOptions::empty());
        }
        self.status
            .map_or("reaped elsewhere".to_owned(), |status| status.to_string())
    }

    /// Returns the signal that ended the helper, after it was reaped.
    pub fn end_signal(&self) -> Option<i32> {
        self.status?.signal()
    }

    fn wait(&mut self, options: WaitOptions) {
        if self.is_reaped {
            return;
        }
        let result = rustix::io::retry_on_intr(|| waitpid(Some(self.pid), options));
        self.is_reaped = !matches!(result, Ok(None));
        if self.is_reaped {
            lock_running().remove(&self.pid());
        }
        if let Ok(Some((_, status))) = result {
            self.status = Some(ExitStatus::from_raw(status.as_raw()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pidfd::Pidfd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn start_shell(script: &str) -> (HelperProcess, UnixStream) {
        let (own_end, helper_end) = UnixStream::pair().unwrap();
        let arguments = ["-c", script].map(OsStr::new);
        let fd = helper_end.as_fd();
        let helper = HelperProcess::start(Path::new("/bin/sh"), &arguments, fd, fd).unwrap();
        (helper, own_end)
    }

    #[test]
    fn a_helper_ends_when_its_connection_is_closed() {
        let (mut helper, connection) = start_shell("read line; exit 3");
        assert!(!helper.has_ended());
        drop(connection);
        let pidfd = Pidfd::of_process(helper.pid()).unwrap();
        assert!(pidfd.ends_within(Duration::from_secs(100)));
        assert!(helper.has_ended());
        assert_eq!(helper.kill_and_wait(), "exit status: 3");
    }

    #[test]
    fn a_helper_that_does_not_end_is_killed() {
        let (mut helper, _connection) = start_shell("read line");
        assert_eq!(helper.kill_and_wait(), "signal: 9 (SIGKILL)");
        assert_eq!(helper.kill_and_wait(), "signal: 9 (SIGKILL)");
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let fd = null.as_fd();
        let error = HelperProcess::start(Path::new("/nonexistent"), &[], fd, fd).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
