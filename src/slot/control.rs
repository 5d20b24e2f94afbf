//! Connection to provoke: orders in, replies out.

use super::wire::{Order, Reply};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

/// Orders come on standard input and replies go to standard output, so that the
/// same slot can be driven through any pipe.
pub(super) struct Control {
    input: io::Stdin,
    output: io::Stdout,
    unread: Vec<u8>,
    buffer: Vec<u8>,
    closed: bool,
}

/// What came.
pub(super) enum Heard {
    Order(Order),
    /// Provoke is gone, or talks nonsense: either way nobody leads this slot any more.
    Closed,
    /// No whole line is there yet.
    Nothing,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            input: io::stdin(),
            output: io::stdout(),
            unread: Vec::new(),
            buffer: vec![0; 16 * 1024],
            closed: false,
        }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// True when provoke is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if an order was read together with the one before it, and not taken yet.
    pub(super) fn holds_order(&self) -> bool {
        self.unread.contains(&b'\n')
    }

    /// Returns an order if one has come; to be asked until nothing more has.
    pub(super) fn poll(&mut self) -> Heard {
        let mut fds = [PollFd::new(&self.input, PollFlags::IN)];
        if poll(&mut fds, Some(&rustix::fs::Timespec::default())).is_ok_and(|ready| ready > 0) {
            self.read();
        }
        self.take()
    }

    /// Reads what has come, waiting for it if need be.
    pub(super) fn read(&mut self) {
        match rustix::io::read(self.input.as_fd(), &mut self.buffer) {
            Ok(0) => self.closed = true,
            Ok(length) => self.unread.extend_from_slice(&self.buffer[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.closed = true,
        }
    }

    /// Returns the next order that has been read.
    pub(super) fn take(&mut self) -> Heard {
        let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') else {
            return if self.closed {
                Heard::Closed
            } else {
                Heard::Nothing
            };
        };
        let order = serde_json::from_slice(&self.unread[..end]);
        self.unread.drain(..=end);
        self.closed |= order.is_err();
        order.map_or(Heard::Closed, Heard::Order)
    }

    /// Answers; that nobody listens any more is found out when the next order is read.
    pub(super) fn send(&mut self, reply: &Reply) {
        if let Ok(mut line) = serde_json::to_vec(reply) {
            line.push(b'\n');
            let _ = self.output.write_all(&line);
            let _ = self.output.flush();
        }
    }
}
