//! Reads the kernel's events about processes below this one that crash.
//!
//! A parent learns how its child ended, and may hide it. The kernel's process connector reports the end
//! to every listener. Since Linux 6.6 it sends only the requested events, also to listeners without
//! root; on older kernels it sends every fork of the machine, so it is not used there.

use super::child::Status;
use super::host;
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with, sockopt};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The first kernel that filters.
const FIRST: (u32, u32) = (6, 6);
/// Room for the events of a trial and of its neighbours.
const ROOM: usize = 1 << 20;

/// The group of the connector that tells of processes.
const PROCESSES: u32 = 1;
const LISTEN: u32 = 1;
const NONZERO_EXIT: u32 = 0x2000_0000;
const COREDUMP: u32 = 0x4000_0000;
const EXIT: u32 = 0x8000_0000;
/// Bytes before what is said: the header of netlink, that of the connector.
const BEFORE: usize = 16 + 20;

/// A subscription to these events.
pub struct Exits(OwnedFd);

/// Something happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The thread.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// The parent of that.
    pub parent: i32,
    /// When, by the clock of [`super::host::now`].
    pub at: Duration,
    /// What happened.
    pub what: What,
}

/// What happens to threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It ended, but not with 0.
    Ended(Status),
    /// It got a signal of which it is about to die, and core may be dumped before.
    Crashes,
}

impl Exits {
    /// Subscribes; nothing where the kernel does not filter, or numbers processes
    /// otherwise than we do.
    pub fn open() -> Option<Self> {
        if !host::sees_every_process() || host::kernel_version() < Some(FIRST) {
            return None;
        }
        let how = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket = socket_with(AddressFamily::NETLINK, kind, how, Some(CONNECTOR)).ok()?;
        // More than its share needs root; less will do.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM);
        bind(&socket, &SocketAddrNetlink::new(0, PROCESSES)).ok()?;
        send(&socket, &subscription(), SendFlags::empty()).ok()?;
        Some(Self(socket))
    }

    /// Returns the next event that has come.
    pub fn next(&self) -> Option<Event> {
        let mut message = [0; 256];
        loop {
            match recv(&self.0, &mut message[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    if let Some(event) = event(&message[..length]) {
                        return Some(event);
                    }
                }
                // Some were lost for want of room; the others are there.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for Exits {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Header of netlink, that of the connector, `struct proc_input`.
fn subscription() -> Vec<u8> {
    const LENGTH: u32 = 8;
    let total = 16 + 20 + LENGTH;
    let done = 3_u32; // kind of message; no flags
    let header = [total, done, 0, 0];
    let connector = [PROCESSES, 1, 0, 0, LENGTH];
    let input = [LISTEN, NONZERO_EXIT | COREDUMP];
    let words = header.iter().chain(&connector).chain(&input);
    words.flat_map(|word| word.to_ne_bytes()).collect()
}

fn event(message: &[u8]) -> Option<Event> {
    let word = |at: usize| {
        let bytes = message.get(BEFORE + at * 4..)?.first_chunk()?;
        Some(i32::from_ne_bytes(*bytes))
    };
    // Kind, processor, and time come before.
    let time = [word(2)?, word(3)?].map(i32::to_ne_bytes);
    let time = u64::from_ne_bytes(time.as_flattened().try_into().ok()?);
    let (tid, pid) = (word(4)?, word(5)?);
    let (what, parent) = match word(0)?.cast_unsigned() {
        EXIT => (What::Ended(Status::from_raw(word(6)?)), word(9)?),
        COREDUMP => (What::Crashes, word(7)?),
        _ => return None,
    };
    Some(Event {
        tid,
        pid,
        parent,
        at: Duration::from_nanos(time),
        what,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(words: &[u32]) -> Vec<u8> {
        let words = words.iter().flat_map(|word| word.to_ne_bytes());
        std::iter::repeat_n(0, BEFORE).chain(words).collect()
    }

    #[test]
    fn events_are_taken_apart() {
        let exit = message(&[EXIT, 0, 9, 9, 12, 11, 0x8b, 17, 6, 5]);
        let seen = event(&exit).unwrap();
        assert_eq!((seen.tid, seen.pid, seen.parent), (12, 11, 5));
        assert_eq!(seen.at, Duration::from_nanos(9 << 32 | 9));
        assert_eq!(seen.what, What::Ended(Status::Signaled(11, true)));
        let crash = message(&[COREDUMP, 0, 9, 9, 12, 11, 6, 5]);
        let seen = event(&crash).unwrap();
        assert_eq!((seen.parent, seen.what), (5, What::Crashes));
        let fork = message(&[1, 0, 9, 9, 12, 11, 6, 5]);
        assert_eq!(event(&fork), None);
        assert_eq!(event(&exit[..40]), None);
    }
}
