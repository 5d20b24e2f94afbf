//! Leaves processes behind on demand. All of them end by themselves, so that a harness that misses one
//! does no lasting harm.
#![expect(unsafe_code, reason = "daemons are made of forks")]

use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

/// A process that sleeps and has a telling command line.
fn leftover(lifetime: Duration) -> io::Result<Command> {
    let mut command = crate::start_again()?;
    command
        .args(["leftover", "--linger"])
        .arg(format!("{}ms", lifetime.as_millis()))
        .stdin(Stdio::null());
    Ok(command)
}

fn announce(pid: u32) -> ExitCode {
    crate::print(&format!("left behind: pid {pid}"));
    ExitCode::SUCCESS
}

/// Leaves a child behind which has this process's stdout, stderr, group, session and environment.
pub(crate) fn child(lifetime: Duration) -> io::Result<ExitCode> {
    Ok(announce(leftover(lifetime)?.spawn()?.id()))
}

/// Leaves a daemon behind: forked twice, in a session of its own, without environment, streams or a place in the tree.
pub(crate) fn daemon(lifetime: Duration) -> io::Result<ExitCode> {
    let (mut reader, writer) = io::pipe()?;
    let mut command = leftover(lifetime)?;
    command
        .env_clear()
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: the closure makes async-signal-safe calls only, on its own data; the intermediate process leaves by
    // `_exit` and so runs nothing that belongs to its parent.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            match libc::fork() {
                -1 => return Err(io::Error::last_os_error()),
                0 => {}
                _ => libc::_exit(0),
            }
            let pid = libc::getpid().to_ne_bytes();
            match libc::write(writer.as_raw_fd(), pid.as_ptr().cast(), pid.len()) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        });
    }
    command.spawn()?.wait()?; // the intermediate process
    drop(command); // and with it the closure's end of the pipe
    let mut pid = [0; 4];
    reader.read_exact(&mut pid)?;
    Ok(announce(u32::from_ne_bytes(pid)))
}

/// Leaves a chain of `count` processes behind, each of which lives for a moment and forks the next.
pub(crate) fn fork_storm(count: u32) -> io::Result<ExitCode> {
    for generation in 0..count {
        // SAFETY: this process has one thread, so its copy may go on with any work.
        match unsafe { libc::fork() } {
            -1 if generation == 0 => return Err(io::Error::last_os_error()),
            0 => {}
            _ if generation == 0 => return Ok(ExitCode::SUCCESS),
            // SAFETY: ends this copy at once, without running what the first process registered for its own exit.
            _ => unsafe { libc::_exit(0) },
        }
        // SAFETY: a new session has no effect on memory, and the streams are not used again in the copies.
        unsafe {
            libc::setsid();
            if generation == 0 {
                (0..=2).for_each(|stream| {
                    libc::close(stream);
                });
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: as above.
    unsafe { libc::_exit(0) }
}
