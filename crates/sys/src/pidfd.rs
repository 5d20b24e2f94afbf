//! Waits for a process by a pidfd, even if the process is not a child.

use super::child::WaitStatus;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

/// `ioctl` that returns information about a process: available since Linux 6.13, with the exit
/// status since 6.15.
const GET_INFO: libc::c_ulong =
    3 << 30 | (size_of::<PidfdInfo>() as libc::c_ulong) << 16 | 0xff << 8 | 0x0b;
/// Bit that requests the exit status, or marks it as present.
const EXIT: u64 = 1 << 3;

/// A pidfd, which refers to one process even if its pid is reused.
#[derive(Debug)]
pub struct Pidfd(OwnedFd);

/// `struct pidfd_info` in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    group: u64,
    /// Ids of the process, its parent, users and groups.
    who: [u32; 11],
    exit_code: i32,
}

impl Pidfd {
    /// Opens a pidfd of a process.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Waits for the end of the process, for this time at most; returns whether it has ended.
    pub fn ends_within(&self, time: Duration) -> bool {
        let limit = Timespec::try_from(time).ok();
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, limit.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// Returns how the process ended, after its parent has reaped it; `None` before that, or if the
    /// kernel is too old.
    #[expect(unsafe_code, reason = "the kernel's own interface")]
    pub fn exit_status(&self) -> Option<WaitStatus> {
        let mut info = PidfdInfo {
            mask: EXIT,
            ..PidfdInfo::default()
        };
        // SAFETY: the request contains the size of `Info`, the kernel writes no more bytes than
        // that, and any bytes are a valid `Info`.
        let status =
            unsafe { libc::ioctl(self.0.as_raw_fd(), GET_INFO as libc::Ioctl, &raw mut info) };
        (status == 0 && info.mask & EXIT != 0).then(|| WaitStatus::from_raw(info.exit_code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_end_of_a_process_is_known_after_another_waited_for_it() {
        let mut child = Command::new("sh")
            .args(["-c", "kill -SEGV $$"])
            .spawn()
            .unwrap();
        let pidfd = Pidfd::of_process(child.id().cast_signed()).unwrap();
        child.wait().unwrap();
        assert!(pidfd.has_ended());
        // Old kernels do not return the status.
        if let Some(status) = pidfd.exit_status() {
            assert!(matches!(status, WaitStatus::Signaled(11, _)), "{status:?}");
        }
    }

    #[test]
    fn the_end_of_a_process_is_awaited_for_a_time() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pidfd = Pidfd::of_process(child.id().cast_signed()).unwrap();
        assert!(!pidfd.ends_within(Duration::from_millis(1)));
        drop(child.stdin.take());
        assert!(pidfd.ends_within(Duration::from_secs(100)));
        child.wait().unwrap();
    }

    #[test]
    fn a_missing_process_has_no_pidfd() {
        assert!(Pidfd::of_process(i32::MAX).is_err());
        assert!(Pidfd::of_process(0).is_err());
    }
}
