//! Starts a slot process, and exchanges messages with it.

use provoke_exec::{StopUrgency, wait_for_raise};
use provoke_model::{FailedHook, Observation, TrialId, VariantId};
use provoke_slot::wire::{RunHook, SlotOrder, SlotReply, VariantRecipe};
use provoke_sys::cgroup::SlotGroup;
use provoke_sys::helper::{self, HelperProcess};
use provoke_sys::pidfd::Pidfd;
use provoke_sys::{process, signals};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// Interval between checks of a slot that sends no messages.
const LOOK: Duration = Duration::from_millis(200);
/// Time after which a slot that a debugger stopped is killed.
const MAX_TRACED: Duration = Duration::from_secs(1);
/// Time in which a slot kills its processes and removes its files.
const CLOSE_WITHIN: Duration = Duration::from_secs(60);
/// Time in which a slot writes the output of a trial.
const KEEP_WITHIN: Duration = Duration::from_secs(60);
/// Time in which a slot ends after it has closed the connection.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A slot process that has no task yet. It ends when this is dropped.
pub struct StartedSlot {
    process: HelperProcess,
    connection: std::os::unix::net::UnixStream,
    group: Option<SlotGroup>,
}

/// A running slot process.
pub(super) struct SlotHandle {
    process: HelperProcess,
    line: BufReader<UnixStream>,
    unread: Vec<u8>,
    knows: BTreeSet<VariantId>,
    /// Deadline of the slot's next answer.
    answer_until: Option<Instant>,
    /// When another process was first seen to hold it as a debugger.
    traced_since: Option<Instant>,
    /// Time of the next check, if the slot sends nothing until then.
    look_at: tokio::time::Instant,
    /// Whether the slot was stopped by a signal and continued.
    was_stopped: bool,
    /// Cgroup of the slot and its trials.
    group: Option<SlotGroup>,
    /// Descriptions of operations of the slot that failed.
    pub(super) complaints: Vec<String>,
}

impl StartedSlot {
    /// Starts a slot from this program.
    pub fn start() -> io::Result<Self> {
        Self::start_from(&std::env::current_exe()?)
    }

    /// Starts a slot from this program, whose file may be gone.
    pub(super) fn start_from(binary: &Path) -> io::Result<Self> {
        let binary = helper::existing_program(binary);
        let (own_end, slot_end) = std::os::unix::net::UnixStream::pair()?;
        own_end.set_nonblocking(true)?;
        let group = SlotGroup::try_create();
        let group_paths = group.iter().flat_map(SlotGroup::paths);
        let arguments: Vec<&OsStr> = [OsStr::new(provoke_slot::COMMAND)]
            .into_iter()
            .chain(group_paths.map(Path::as_os_str))
            .collect();
        // A slot that is stopped when provoke ends continues, sees the closed connection, and cleans up. Before its
        // `exec`, it also shares the locks of provoke.
        let process = HelperProcess::start(binary, &arguments, slot_end.as_fd(), slot_end.as_fd())?;
        tracing::debug!(target: "slot", pid = process.pid(), has_cgroup = group.is_some(), "started a slot");
        Ok(Self {
            process,
            connection: own_end,
            group,
        })
    }
}

impl SlotHandle {
    /// Connects to a slot, for messages in both directions.
    pub(super) fn connect(slot: StartedSlot) -> io::Result<Self> {
        Ok(Self {
            process: slot.process,
            line: BufReader::new(UnixStream::from_std(slot.connection)?),
            unread: Vec::new(),
            knows: BTreeSet::new(),
            answer_until: None,
            traced_since: None,
            look_at: tokio::time::Instant::now(),
            was_stopped: false,
            group: slot.group,
            complaints: Vec::new(),
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Returns whether the slot process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.process.has_ended()
    }

    pub(super) async fn learn_variant(
        &mut self,
        id: VariantId,
        recipe: impl FnOnce() -> Arc<VariantRecipe>,
    ) -> io::Result<()> {
        if self.knows.insert(id) {
            let recipe = VariantRecipe::clone(&recipe());
            self.send_order(&SlotOrder::Learn(id, Box::new(recipe)))
                .await?;
        }
        Ok(())
    }

    /// Sends the recipe of a variant for the next trial only.
    pub(super) async fn learn_once(
        &mut self,
        id: VariantId,
        recipe: VariantRecipe,
    ) -> io::Result<()> {
        self.knows.remove(&id);
        self.send_order(&SlotOrder::Learn(id, Box::new(recipe)))
            .await
    }

    /// Waits for the end of a trial that the slot was ordered to run; an error means that the slot is lost. `urgency` is
    /// how urgently the slot was already asked to stop.
    pub(super) async fn finish_trial(
        &mut self,
        trial: TrialId,
        halt: &mut watch::Receiver<StopUrgency>,
        urgency: &mut StopUrgency,
    ) -> io::Result<Observation> {
        loop {
            tokio::select! {
                reply = self.next_reply() => match reply? {
                    SlotReply::Finished(id, seen) if id == trial => return Ok(*seen),
                    _ => {}
                },
                level = wait_for_raise(halt, *urgency) => {
                    *urgency = level;
                    self.send_order(&stop_order(level)).await?;
                }
            }
        }
    }

    pub(super) async fn run_hook(
        &mut self,
        hook: &RunHook,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> io::Result<Option<FailedHook>> {
        self.send_order(&SlotOrder::Hook(hook.clone())).await?;
        let mut urgency = StopUrgency::No;
        loop {
            tokio::select! {
                reply = self.next_reply() => if let SlotReply::HookEnded(seen) = reply? {
                    return Ok(seen);
                },
                level = wait_for_raise(halt, urgency) => {
                    urgency = level;
                    self.send_order(&stop_order(level)).await?;
                }
            }
        }
    }

    pub(super) async fn keep_folder(&mut self, folder: PathBuf) -> io::Result<()> {
        self.send_order(&SlotOrder::Keep(folder.into_os_string().into()))
            .await?;
        self.answer_within(KEEP_WITHIN);
        while !matches!(self.next_reply().await?, SlotReply::OutputKept) {}
        Ok(())
    }

    /// Closes the connection: the slot kills its processes and ends.
    pub(super) async fn close(&mut self) {
        // An error means that the slot has already ended.
        let _ = self.line.get_mut().shutdown().await;
    }

    /// Waits for the end of a slot after [`SlotHandle::close`]; returns its complaints.
    pub(super) async fn wait_for_end(mut self) -> Vec<String> {
        self.answer_within(CLOSE_WITHIN);
        while self.next_reply().await.is_ok() {}
        let pidfd = Pidfd::of_process(self.pid());
        let deadline = Instant::now() + END_WITHIN;
        while !self.process.has_ended() && Instant::now() < deadline {
            self.continue_if_stopped();
            match &pidfd {
                Ok(pidfd) => drop(pidfd.ends_within(LOOK)),
                // The kernel is too old for a pidfd.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        self.kill_and_wait();
        self.complaints
    }

    /// Kills the slot; returns how it ended.
    pub(super) fn kill_and_wait(&mut self) -> String {
        tracing::debug!(target: "slot", pid = self.pid(), "kill the slot, unless it has ended");
        if let Some(group) = &self.group {
            group.forbid_forks();
        }
        self.process.kill_and_wait()
    }

    /// Sets the time limit of the slot's next answer.
    pub(super) fn answer_within(&mut self, time: Duration) {
        self.answer_until = Instant::now().checked_add(time);
    }

    /// Continues the slot if it was stopped by a signal, and kills it if another process, such as its trial, stopped it
    /// as a debugger: only that process could continue it.
    fn continue_if_stopped(&mut self) {
        let state = process::process_state(self.pid()).map(|(state, _)| state);
        let now = Instant::now();
        self.traced_since = match (state, self.traced_since) {
            (Some('t'), since) => since.or(Some(now)),
            _ => None,
        };
        if state == Some('T') {
            tracing::warn!(target: "slot", pid = self.pid(), "the slot was stopped, and continues");
            self.was_stopped = true;
            // A slot that cannot be continued is killed at its deadline.
            let _ = signals::send_signal(self.pid(), Signal::CONT);
        }
        if self.is_held_by_debugger() {
            tracing::warn!(target: "slot", pid = self.pid(), "a debugger holds the slot, which is killed");
            self.was_stopped = true;
            let _ = signals::send_signal(self.pid(), Signal::KILL);
        }
    }

    fn is_held_by_debugger(&self) -> bool {
        self.traced_since
            .is_some_and(|since| since.elapsed() > MAX_TRACED)
    }

    /// Returns whether the slot was stopped since the last call of [`SlotHandle::forget_stop`]; its measurements are then
    /// unreliable.
    pub(super) fn was_stopped(&self) -> bool {
        self.was_stopped
    }

    pub(super) fn forget_stop(&mut self) {
        self.was_stopped = false;
    }

    pub(super) async fn send_order(&mut self, order: &SlotOrder) -> io::Result<()> {
        tracing::trace!(target: "slot", pid = self.pid(), order = order.word(), "send an order");
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        let written = self.line.get_mut().write_all(&line).await;
        if written.is_err() {
            // The slot has ended; its last messages may contain the reason.
            while self.next_reply().await.is_ok() {}
        }
        written
    }

    /// Waits for the next reply, and continues a slot that was stopped.
    ///
    /// The future can be dropped: data that was read is kept.
    pub(super) async fn next_reply(&mut self) -> io::Result<SlotReply> {
        loop {
            tokio::select! {
                read = self.line.read_until(b'\n', &mut self.unread) => {
                    read?;
                }
                () = tokio::time::sleep_until(self.look_at) => {
                    self.look_at = tokio::time::Instant::now() + LOOK;
                    self.continue_if_stopped();
                    if self.is_held_by_debugger() {
                        let text = "another process stopped it as a debugger";
                        return Err(io::Error::other(text));
                    }
                    if self.answer_until.is_some_and(|until| Instant::now() > until) {
                        tracing::warn!(target: "slot", pid = self.pid(), "no answer in time");
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
                SlotReply::Ready => {}
                SlotReply::Complaint(text) => self.complaints.push(text),
                reply => return Ok(reply),
            }
        }
    }
}

/// Returns the order that ends the trial of a slot.
pub(super) fn stop_order(level: StopUrgency) -> SlotOrder {
    match level {
        StopUrgency::TimedOut => SlotOrder::StopService { hung: true },
        _ => SlotOrder::Stop {
            now: level == StopUrgency::Now,
            inspect: level == StopUrgency::Inspect,
        },
    }
}
