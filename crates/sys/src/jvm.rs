//! Asks a Java virtual machine what its threads do, in the way `jstack` does.

use super::signals::send_signal;
use super::{memory, threads};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::Signal;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Maximum size of an answer.
const LONGEST: usize = 4 << 20;
/// Interval between two looks for the socket of the virtual machine.
const PAUSE: Duration = Duration::from_millis(5);
/// The request: version of the protocol, command, and three arguments. `-l` adds the owners of locks.
const REQUEST: &[u8] = b"1\0threaddump\0-l\0\0\0";

/// Returns whether a process runs a Java virtual machine.
pub fn is_virtual_machine(pid: i32) -> bool {
    memory::read_mappings(pid).is_ok_and(|mappings| {
        let mut files = mappings.iter().map(|mapping| Path::new(&mapping.name));
        files.any(|file| file.ends_with("libjvm.so"))
    })
}

/// Returns a description of all threads of a virtual machine, as it prints it for `jstack`.
///
/// The virtual machine opens a socket when it gets SIGQUIT and finds a file with its number. Both are removed.
pub fn describe_threads(pid: i32, deadline: Instant) -> io::Result<String> {
    if !threads::catches_signal(pid, Signal::QUIT) {
        return Err(io::Error::other("it does not handle SIGQUIT"));
    }
    let number = threads::number_in_container(pid, pid).unwrap_or(pid);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(CWD, format!("/proc/{pid}/root/tmp"), flags, Mode::empty())?;
    let socket = format!(".java_pid{number}");
    if let Ok(stream) = connect(pid, &folder, &socket) {
        return read_answer(stream, deadline);
    }
    let name = format!(".attach_pid{number}");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(&folder, &name, flags, Mode::RUSR)?;
    let _request = TemporaryFile(&folder, name);
    let owner = fs::metadata(format!("/proc/{pid}"))?;
    fchown(file, Some(owner.uid()), Some(owner.gid()))?;
    send_signal(pid, Signal::QUIT)?;
    loop {
        match connect(pid, &folder, &socket) {
            Ok(stream) => {
                let _socket = TemporaryFile(&folder, socket);
                return read_answer(stream, deadline);
            }
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) if Instant::now() < deadline => {
                sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file in a folder, which is removed when this is dropped.
struct TemporaryFile<'a>(&'a OwnedFd, String);

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        let _ = rustix::fs::unlinkat(self.0, &self.1, AtFlags::empty());
    }
}

/// Connects to the socket of a virtual machine. Another process behind it gets nothing.
fn connect(pid: i32, folder: &OwnedFd, socket: &str) -> Result<UnixStream, Errno> {
    let path = format!("/proc/self/fd/{}/{socket}", folder.as_raw_fd());
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
    let peer = sockopt::socket_peercred(&fd)?.pid;
    (peer.as_raw_nonzero().get() == pid)
        .then(|| UnixStream::from(fd))
        .ok_or(Errno::PERM)
}

/// Sends the request, and reads the answer until the end of the stream.
fn read_answer(mut stream: UnixStream, deadline: Instant) -> io::Result<String> {
    stream.write_all(REQUEST)?;
    stream.set_nonblocking(false)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while answer.len() < LONGEST {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(PAUSE)))?;
        match stream.read(&mut buffer)? {
            0 => return Ok(String::from_utf8_lossy(&answer).into_owned()),
            _ if left.is_zero() => break,
            length => answer.extend_from_slice(&buffer[..length]),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}
