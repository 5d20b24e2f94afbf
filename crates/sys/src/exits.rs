//! Reads the kernel's events about processes below this one that crash.
//!
//! A parent learns how its child ended, and may hide it. The kernel's process connector reports the
//! end to every listener. Since Linux 6.6 it sends only the requested events, also to listeners
//! without root. On older kernels it sends every fork of the machine, so it is not used there.

use super::child::WaitStatus;
use super::host;
use rustix::io::Errno;
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with, sockopt};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// First kernel version that filters events.
const FIRST: (u32, u32) = (6, 6);
/// Buffer for the events of a trial and of parallel trials.
const ROOM: usize = 1 << 20;

/// Multicast group of process events.
const PROCESSES: u32 = 1;
const LISTEN: u32 = 1;
const NONZERO_EXIT: u32 = 0x2000_0000;
const COREDUMP: u32 = 0x4000_0000;
const EXIT: u32 = 0x8000_0000;
/// Bytes before an event: the netlink header and the connector header.
const BEFORE: usize = 16 + 20;

/// A subscription to these events.
pub struct ExitEvents(OwnedFd);

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// Thread id.
    pub tid: i32,
    /// Process id.
    pub pid: i32,
    /// Process id of the parent.
    pub parent: i32,
    /// Time by the clock of [`super::host::monotonic_now`].
    pub time: Duration,
    /// Type of the event.
    pub kind: ThreadEventKind,
}

/// Types of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadEventKind {
    /// The thread ended with a status other than 0.
    Ended(WaitStatus),
    /// The thread received a fatal signal, and a core may be dumped before it ends.
    Crashes,
}

impl ExitEvents {
    /// Subscribes to events; returns `None` if the kernel does not filter them, or if this process
    /// is in another pid namespace.
    pub fn open_socket() -> Option<Self> {
        if !host::sees_every_process() || host::kernel_version() < Some(FIRST) {
            return None;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(CONNECTOR)).ok()?;
        // A larger buffer than the limit needs root; a smaller one suffices.
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, ROOM);
        bind(&socket, &SocketAddrNetlink::new(0, PROCESSES)).ok()?;
        send(&socket, &subscription_message(), SendFlags::empty()).ok()?;
        Some(Self(socket))
    }

    /// Returns the next pending event.
    pub fn next_event(&self) -> Option<ThreadEvent> {
        let mut message = [0; 256];
        loop {
            match recv(&self.0, &mut message[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    if let Some(event) = parse_event(&message[..length]) {
                        return Some(event);
                    }
                }
                // Some events were lost because the buffer was full; the others follow.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

impl AsFd for ExitEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the subscription: netlink header, connector header, `struct proc_input`.
fn subscription_message() -> Vec<u8> {
    const LENGTH: u32 = 8;
    let total = 16 + 20 + LENGTH;
    let message_type = 3_u32; // message type; no flags
    let header = [total, message_type, 0, 0];
    let connector = [PROCESSES, 1, 0, 0, LENGTH];
    let input = [LISTEN, NONZERO_EXIT | COREDUMP];
    let words = header.iter().chain(&connector).chain(&input);
    words.flat_map(|word| word.to_ne_bytes()).collect()
}

fn parse_event(message: &[u8]) -> Option<ThreadEvent> {
    let word = |offset: usize| {
        let bytes = message.get(BEFORE + offset * 4..)?.first_chunk()?;
        Some(i32::from_ne_bytes(*bytes))
    };
    // Type, CPU and time precede the ids.
    let time_bytes = [word(2)?, word(3)?].map(i32::to_ne_bytes);
    let time = u64::from_ne_bytes(time_bytes.as_flattened().try_into().ok()?);
    let (tid, pid) = (word(4)?, word(5)?);
    let (kind, parent) = match word(0)?.cast_unsigned() {
        EXIT => (
            ThreadEventKind::Ended(WaitStatus::from_raw(word(6)?)),
            word(9)?,
        ),
        COREDUMP => (ThreadEventKind::Crashes, word(7)?),
        _ => return None,
    };
    Some(ThreadEvent {
        tid,
        pid,
        parent,
        time: Duration::from_nanos(time),
        kind,
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
    fn exit_and_crash_events_are_parsed() {
        let exit = message(&[EXIT, 0, 9, 9, 12, 11, 0x8b, 17, 6, 5]);
        let seen = parse_event(&exit).unwrap();
        assert_eq!((seen.tid, seen.pid, seen.parent), (12, 11, 5));
        assert_eq!(seen.time, Duration::from_nanos(9 << 32 | 9));
        assert_eq!(
            seen.kind,
            ThreadEventKind::Ended(WaitStatus::Signaled(11, true))
        );
        let crash = message(&[COREDUMP, 0, 9, 9, 12, 11, 6, 5]);
        let seen = parse_event(&crash).unwrap();
        assert_eq!((seen.parent, seen.kind), (5, ThreadEventKind::Crashes));
        let fork = message(&[1, 0, 9, 9, 12, 11, 6, 5]);
        assert_eq!(parse_event(&fork), None);
        assert_eq!(parse_event(&exit[..40]), None);
    }
}
