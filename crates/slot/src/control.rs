//! Connection to provoke, which carries orders and replies.

use super::wire::{SlotOrder, SlotReply};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// Time that a reply may wait for further ones.
const SEND_AFTER: Duration = Duration::from_millis(10);

/// Orders arrive on stdin and replies go to stdout, so that a slot can be driven through any pipe.
pub(super) struct ControlConnection {
    input: io::Stdin,
    output: io::Stdout,
    unread: Vec<u8>,
    buffer: Vec<u8>,
    /// Replies that are sent together, and the time of the first.
    unsent: Vec<u8>,
    unsent_since: Instant,
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
            unsent: Vec::new(),
            unsent_since: Instant::now(),
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

    /// Sends a reply, after those that were added before. The next read detects a closed connection.
    pub(super) fn send_reply(&mut self, reply: &SlotReply) {
        self.add_reply(reply);
        self.send_replies();
    }

    /// Adds a reply to those that are sent together, and sends them if the first waits too long: each message wakes
    /// provoke, which costs more than a short trial should.
    pub(super) fn add_reply(&mut self, reply: &SlotReply) {
        if self.unsent.is_empty() {
            self.unsent_since = Instant::now();
        }
        let written = self.unsent.len();
        match serde_json::to_writer(&mut self.unsent, reply) {
            Ok(()) => self.unsent.push(b'\n'),
            Err(_) => self.unsent.truncate(written),
        }
        self.send_late_replies();
    }

    /// Returns the time after which the added replies must be sent, if there are any.
    pub(super) fn time_to_send(&self) -> Option<Duration> {
        (!self.unsent.is_empty()).then(|| SEND_AFTER.saturating_sub(self.unsent_since.elapsed()))
    }

    /// Sends the added replies if the first waits too long.
    pub(super) fn send_late_replies(&mut self) {
        if self.time_to_send().is_some_and(|time| time.is_zero()) {
            self.send_replies();
        }
    }

    /// Sends the added replies.
    pub(super) fn send_replies(&mut self) {
        let _ = self.output.write_all(&self.unsent);
        let _ = self.output.flush();
        self.unsent.clear();
    }
}
