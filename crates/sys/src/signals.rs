//! Sends signals, and makes a descriptor that is readable when a child ends.

#![expect(
    unsafe_code,
    reason = "signalfd and the signal mask are not in any safe wrapper"
)]

use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

/// Sends a signal; returns no error if the process is gone.
pub fn send_signal(pid: i32, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(pid) else {
        return Ok(());
    };
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns a descriptor that is readable when a child, including adopted ones, has ended.
///
/// One descriptor serves all children; unlike a pidfd it also reports orphans.
pub fn child_ends() -> io::Result<OwnedFd> {
    // SAFETY: the set is a live local variable; signalfd returns a new descriptor or -1.
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

/// Returns whether this process ignores a signal, for example because of `nohup`.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: the call only reads the action, into a live local variable.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// Ignores SIGXFSZ, so that exceeding the file size limit is a write error like a full disk.
pub fn survive_file_size_limit() {
    // SAFETY: no handler is installed; the signal is ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Restores the default action of the two signals that the C library uses internally (32 and 33).
///
/// A process started by `posix_spawn` ignores them, and its children would inherit that. Call this
/// only in a process with a single thread, because the library uses these signals between threads.
pub fn restore_internal() {
    // The kernel's structure of an action: handler, flags, restorer and mask, all zero.
    let default = [0_u64; 4];
    for signal in [32, 33] {
        // SAFETY: the kernel reads the action, which is large enough, and the size of a mask. The
        // wrapper of the C library refuses these signals.
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
