//! Connection to provoke, which carries orders and replies.

use super::wire::{SlotOrder, SlotReply};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

/// Orders arrive on stdin and replies go to stdout, so that a slot can be driven through any pipe.
pub(super) struct ControlConnection {
    input: io::Stdin,
    output: io::Stdout,
    unread: Vec<u8>,
    buffer: Vec<u8>,
    closed: bool,
}

/// Result of reading from the connection.
pub(super) enum ControlInput {
    Order(SlotOrder),
    /// provoke has ended or sent an invalid message, so this slot has no controller any longer.
    Closed,
    /// No complete line has arrived.
    Nothing,
}

impl ControlConnection {
    pub(super) fn new() -> Self {
        Self {
            input: io::stdin(),
            output: io::stdout(),
            unread: Vec::new(),
            buffer: vec![0; 16 * 1024],
            closed: false,
        }
    }

    pub(super) fn input_fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Returns whether provoke has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether another order has been read together with the previous one.
    pub(super) fn holds_order(&self) -> bool {
        self.unread.contains(&b'\n')
    }

    /// Returns an order if one has arrived; call it until it returns [`ControlInput::Nothing`].
    pub(super) fn poll_order(&mut self) -> ControlInput {
        let mut fds = [PollFd::new(&self.input, PollFlags::IN)];
        if poll(&mut fds, Some(&rustix::fs::Timespec::default())).is_ok_and(|ready| ready > 0) {
            self.read_input();
        }
        self.take_order()
    }

    /// Reads available data, and blocks if there is none.
    pub(super) fn read_input(&mut self) {
        match rustix::io::read(self.input.as_fd(), &mut self.buffer) {
            Ok(0) => self.closed = true,
            Ok(length) => self.unread.extend_from_slice(&self.buffer[..length]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.closed = true,
        }
    }

    /// Returns the next order that has been read.
    pub(super) fn take_order(&mut self) -> ControlInput {
        let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') else {
            return if self.closed {
                ControlInput::Closed
            } else {
                ControlInput::Nothing
            };
        };
        let order = serde_json::from_slice(&self.unread[..end]);
        self.unread.drain(..=end);
        self.closed |= order.is_err();
        order.map_or(ControlInput::Closed, ControlInput::Order)
    }

    /// Sends a reply. The next read detects a closed connection.
    pub(super) fn send_reply(&mut self, reply: &SlotReply) {
        if let Ok(mut line) = serde_json::to_vec(reply) {
            line.push(b'\n');
            let _ = self.output.write_all(&line);
            let _ = self.output.flush();
        }
    }
}
