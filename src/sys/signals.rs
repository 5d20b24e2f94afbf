//! Sends signals, and makes a descriptor that is readable when a child ends.

#![expect(
    unsafe_code,
    reason = "signalfd and the signal mask are not in any safe wrapper"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Sends a signal; that the process is gone already is no error.
pub fn send(pid: i32, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(());
    };
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns a descriptor that is readable when a child, own or adopted, has ended.
///
/// One descriptor for all of them: unlike a pidfd it also tells of orphans.
pub fn child_ends() -> io::Result<OwnedFd> {
    // SAFETY: the set is ours; signalfd returns a new descriptor or -1.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// True when this process has been told to ignore a signal, as `nohup` does.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: only asks; the action is ours and filled by the kernel.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Makes a limit on the size of files an error of the write, like a full disk, and no death.
pub fn survive_file_size_limit() {
    // SAFETY: no handler is installed; the signal is ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Restores the default action of the two signals that the C library keeps for itself (32 and 33).
///
/// It ignores them in a process that is started by `posix_spawn`, and the programs that such a
/// process starts would inherit that. Only for a process with a single thread, as the library uses
/// these signals between threads.
pub fn restore_internal() {
    // The kernel's structure of an action: handler, flags, restorer and mask, all zero here.
    let default = [0_u64; 4];
    for signal in [32, 33] {
        // SAFETY: the kernel reads the action, which is ours and large enough, and the size of a mask.
        // The wrapper of the C library refuses these signals.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                size_of::<u64>(),
            );
        }
    }
}
