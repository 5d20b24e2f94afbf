//! Starts a slot process, and exchanges messages with it.

use super::Halt;
use crate::model::{HookSeen, Observation, Trial, VariantId};
use crate::slot;
use crate::slot::wire::{Hook, Order, Recipe, Reply};
use crate::sys::cgroup::SlotGroup;
use crate::sys::{process, signals, tool};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// How often a silent slot is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// A slot kills and removes what is left within this time.
const CLOSE_WITHIN: Duration = Duration::from_secs(60);
/// A slot that has closed its line ends within this time.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A slot that is up.
pub(super) struct Slot {
    child: Child,
    line: BufReader<UnixStream>,
    unread: Vec<u8>,
    knows: BTreeSet<VariantId>,
    /// The slot must answer until then.
    answer_until: Option<Instant>,
    /// When it is looked at next, if it stays silent until then.
    look_at: tokio::time::Instant,
    /// It was stopped by a signal, and continued, since this was last asked.
    was_stopped: bool,
    /// The memory group that the slot and its trials live in.
    _group: Option<SlotGroup>,
    /// What the slot could not do.
    pub(super) complaints: Vec<String>,
}

impl Slot {
    /// Starts a slot from this very binary.
    pub(super) fn start(binary: &Path) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (input, output) = (OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs));
        let group = SlotGroup::create();
        let mut command = Command::new(binary);
        command
            .arg(slot::COMMAND)
            .args(group.as_ref().map(SlotGroup::path))
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output));
        // If the slot is stopped when provoke dies, it goes on, sees the closed line and cleans up.
        // Before `exec` it also shares the locks of provoke.
        tool::signal_when_parent_ends(&mut command, Signal::CONT);
        let child = tool::spawn_and_continue(&mut command)?;
        Ok(Self {
            child,
            line: BufReader::new(UnixStream::from_std(ours)?),
            unread: Vec::new(),
            knows: BTreeSet::new(),
            answer_until: None,
            look_at: tokio::time::Instant::now(),
            was_stopped: false,
            _group: group,
            complaints: Vec::new(),
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(super) async fn learn(&mut self, id: VariantId, recipe: &Recipe) -> io::Result<()> {
        if self.knows.insert(id) {
            self.order(&Order::Learn(id, Box::new(recipe.clone())))
                .await?;
        }
        Ok(())
    }

    /// Runs a trial; an error means that the slot is lost.
    pub(super) async fn run(
        &mut self,
        trial: &Trial,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Observation> {
        self.order(&Order::Run(trial.clone())).await?;
        let mut told = Halt::No;
        loop {
            tokio::select! {
                reply = self.reply() => match reply? {
                    Reply::Finished(id, seen) if id == trial.id => return Ok(*seen),
                    _ => {}
                },
                level = raised(halt, told) => {
                    told = level;
                    self.order(&stop(level)).await?;
                }
            }
        }
    }

    pub(super) async fn hook(
        &mut self,
        hook: &Hook,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Option<HookSeen>> {
        self.order(&Order::Hook(hook.clone())).await?;
        let mut told = Halt::No;
        loop {
            tokio::select! {
                reply = self.reply() => if let Reply::Hooked(seen) = reply? {
                    return Ok(seen);
                },
                level = raised(halt, told) => {
                    told = level;
                    self.order(&stop(level)).await?;
                }
            }
        }
    }

    pub(super) async fn keep(&mut self, folder: PathBuf) -> io::Result<()> {
        self.order(&Order::Keep(folder.into_os_string().into()))
            .await
    }

    /// Lets the slot end: it kills what lives below it first.
    pub(super) async fn close(mut self) -> Vec<String> {
        let _ = self.line.get_mut().shutdown().await;
        self.answer_within(CLOSE_WITHIN);
        while self.reply().await.is_ok() {}
        let until = Instant::now() + END_WITHIN;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            self.wake();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end();
        self.complaints
    }

    /// Kills the slot; returns how it ended.
    pub(super) fn end(&mut self) -> String {
        let _ = self.child.kill();
        let ended = self.child.wait();
        ended.map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    /// Sets how long the slot may take for its next answer.
    pub(super) fn answer_within(&mut self, time: Duration) {
        self.answer_until = Instant::now().checked_add(time);
    }

    /// Lets the slot go on if it was stopped by a signal.
    fn wake(&mut self) {
        let state = process::state(self.pid());
        if state.is_some_and(|(state, _)| state == 'T') {
            self.was_stopped = true;
            // One that cannot be continued is killed when its time is over.
            let _ = signals::send(self.pid(), Signal::CONT);
        }
    }

    /// Says whether the slot was stopped since this was last asked: what it measured is then not sure.
    pub(super) fn take_was_stopped(&mut self) -> bool {
        std::mem::take(&mut self.was_stopped)
    }

    pub(super) async fn order(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        let written = self.line.get_mut().write_all(&line).await;
        if written.is_err() {
            // It has ended, and may have said why.
            while self.reply().await.is_ok() {}
        }
        written
    }

    /// Waits for the next reply, and continues a slot that was stopped meanwhile. May be dropped
    /// halfway: what was read stays.
    pub(super) async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            tokio::select! {
                read = self.line.read_until(b'\n', &mut self.unread) => {
                    read?;
                }
                () = tokio::time::sleep_until(self.look_at) => {
                    self.look_at = tokio::time::Instant::now() + LOOK;
                    self.wake();
                    if self.answer_until.is_some_and(|until| Instant::now() > until) {
                        let text = "it did not respond in time";
                        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                    }
                    continue;
                }
            }
            let Some(line) = self.unread.strip_suffix(b"\n") else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let reply = serde_json::from_slice(line)?;
            self.unread.clear();
            match reply {
                Reply::Ready => {}
                Reply::Complaint(text) => self.complaints.push(text),
                reply => return Ok(reply),
            }
        }
    }
}

/// Returns the order that ends the trial of a slot.
pub(super) fn stop(level: Halt) -> Order {
    match level {
        Halt::TimedOut => Order::Over { hung: true },
        _ => Order::Stop {
            now: level == Halt::Now,
            inspect: level == Halt::Inspect,
        },
    }
}

/// Waits until more is asked for than was told.
pub(super) async fn raised(halt: &mut watch::Receiver<Halt>, told: Halt) -> Halt {
    let level = halt
        .wait_for(|level| *level > told)
        .await
        .map(|level| *level);
    match level {
        Ok(level) => level,
        // Nobody can ask any more.
        Err(_) => std::future::pending().await,
    }
}
