//! Sends orders to the worker of a host, and passes its replies on.

use super::connection::{WorkerReceiver, send_line};
use super::files::{path_below, relocate_cores};
use super::limits::{ArrivedData, KILL_WITHIN, REPLY_WITHIN, ReplyLimits};
use super::wire::{WorkerOrder, WorkerReply};
use provoke_exec::{PreparationResult, StopUrgency, TrialReporter, wait_for_raise};
use provoke_model::{
    FailedHook, Observation, SlotId, Text, Trial, TrialId, VariantId, is_parsed_untrusted,
};
use provoke_sys::files;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex as Register, MutexGuard};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// Pause after which a message shows that the connection works.
const PULSE: Duration = Duration::from_secs(1);
/// Time in which a worker ends all processes, sends its last files and removes the others.
const CLOSE_WITHIN: Duration = Duration::from_secs(120);
/// Limit in bytes of the files of one trial.
const MAX_FILES: u64 = 2 << 30;
/// Limit of the number of files of one trial.
const MAX_FILE_COUNT: u32 = 1000;
/// A host that sends a larger file than this, which would be read and dropped, is lost.
const MAX_DROPPED: u64 = 64 << 30;
/// Limit in bytes of a result without its tests: no journal could hold a much longer one.
const MAX_RESULT: usize = 16 << 20;
/// Maximum number of messages about what failed on a host.
const MAX_COMPLAINTS: usize = 100;
/// Longest message or line of output from a host in bytes.
const MAX_TEXT: usize = 4096;

/// A host with a worker.
pub(super) struct RemoteHost {
    name: String,
    limits: Arc<Register<ReplyLimits>>,
    /// `None` after the end of the run.
    orders: Register<Option<mpsc::UnboundedSender<WorkerOrder>>>,
    waiting: Arc<Register<Waiting>>,
    reader: Register<Option<JoinHandle<()>>>,
}

/// A reply about the trials of a slot.
enum LeaseReply {
    Finished(TrialId, Box<Observation>),
    Idle,
}

/// Those who wait for replies.
#[derive(Default)]
struct Waiting {
    /// Why the host was lost.
    lost: Option<String>,
    /// Wakes the reader if the host counts as lost although it still sends messages.
    given_up: Arc<Notify>,
    /// Whether the worker was told to end.
    is_closing: bool,
    /// Whether the worker was told to kill what runs.
    is_urgent: bool,
    arrived: ArrivedData,
    slots: BTreeMap<SlotId, OrderedTrials>,
    makings: BTreeMap<VariantId, oneshot::Sender<PreparationResult>>,
    hook: Option<oneshot::Sender<io::Result<Option<FailedHook>>>>,
    /// Where the files of the last trial of a slot go.
    kept: BTreeMap<SlotId, KeptFiles>,
    complaints: Vec<String>,
    /// Number of complaints that were dropped because there were too many.
    dropped_complaints: u64,
}

/// The trials that a slot was ordered to run.
struct OrderedTrials {
    replies: mpsc::UnboundedSender<LeaseReply>,
    /// The trials without a result. A slot runs them in this order.
    open: VecDeque<TrialId>,
}

/// The files of a trial that are copied to this host.
struct KeptFiles {
    folder: PathBuf,
    /// How many bytes and how many files may still arrive.
    bytes_left: u64,
    files_left: u32,
}

impl Waiting {
    /// Ends all waiting.
    fn lose(&mut self, reason: String) {
        self.slots.clear();
        self.makings.clear();
        self.hook = None;
        self.kept.clear();
        self.lost.get_or_insert(reason);
    }

    /// Ends all waiting for a host that still sends messages, and its connection.
    fn give_up(&mut self, reason: &str) {
        tracing::warn!(target: "host", reason, "give up a host");
        self.lose(reason.to_owned());
        self.given_up.notify_one();
    }

    /// Records what failed on the host, up to a limit.
    fn complain(&mut self, mut text: String) {
        if self.complaints.len() >= MAX_COMPLAINTS {
            self.dropped_complaints += 1;
            return;
        }
        clip_text(&mut text);
        self.complaints.push(text);
    }

    /// Passes a reply on, and returns whether it was awaited. `folders` are the directories of trials there and here.
    fn pass_reply(&mut self, reply: WorkerReply, (there, here): &(PathBuf, PathBuf)) -> bool {
        // Someone who no longer waits needs no reply.
        match reply {
            WorkerReply::Finished(slot, trial, mut observation) => {
                // A result that was not ordered, or comes again, takes no memory.
                let Some(ordered) = self.slots.get_mut(&slot) else {
                    return false;
                };
                if ordered.open.front() != Some(&trial) {
                    return false;
                }
                if !is_storable(&mut observation) {
                    self.give_up("it sent a result that is too large");
                    return false;
                }
                ordered.open.pop_front();
                relocate_cores(&mut observation, trial, there, here);
                let hooks = [&mut observation.prepare, &mut observation.conclude];
                for failed in hooks.into_iter().flatten() {
                    clip_text(&mut failed.output);
                }
                for actor in &mut observation.actors {
                    clip_text(&mut actor.last_words);
                    actor.crash_message.as_mut().map(clip_text);
                }
                let finished = LeaseReply::Finished(trial, observation);
                ordered.replies.send(finished).is_ok()
            }
            WorkerReply::Idle(slot) => {
                let ordered = self.slots.remove(&slot);
                ordered.is_some_and(|ordered| ordered.replies.send(LeaseReply::Idle).is_ok())
            }
            WorkerReply::Made(variant, result) => {
                let sender = self.makings.remove(&variant);
                sender.is_some_and(|sender| sender.send(result).is_ok())
            }
            WorkerReply::Hooked(mut result) => {
                match &mut result {
                    Ok(Some(failed)) => clip_text(&mut failed.output),
                    Ok(None) => {}
                    Err(reason) => clip_text(reason),
                }
                let sender = self.hook.take();
                sender.is_some_and(|sender| sender.send(result.map_err(io::Error::other)).is_ok())
            }
            WorkerReply::Kept(slot) => self.kept.remove(&slot).is_some(),
            WorkerReply::Complaint(text) => {
                self.complain(text);
                false
            }
            WorkerReply::Ready(_)
            | WorkerReply::Refused(..)
            | WorkerReply::File { .. }
            | WorkerReply::Alive
            | WorkerReply::Closed => false,
        }
    }

    fn take_complaints(&mut self) -> Vec<String> {
        let mut complaints = std::mem::take(&mut self.complaints);
        if self.dropped_complaints > 0 {
            complaints.push(format!("{} more messages", self.dropped_complaints));
        }
        complaints
    }

    fn lost_reason(&self) -> String {
        let reason = self.lost.as_deref();
        reason.unwrap_or("the connection was closed").to_owned()
    }
}

impl RemoteHost {
    /// Starts the tasks that send and receive. `folders` are the directories of trials there and here.
    pub(super) fn start(
        receiver: WorkerReceiver,
        writer: UnixStream,
        limits: Arc<Register<ReplyLimits>>,
        folders: (PathBuf, PathBuf),
        report_loss: impl FnOnce(String) + Send + 'static,
    ) -> Arc<Self> {
        let (orders, queue) = mpsc::unbounded_channel();
        let waiting = Arc::new(Register::new(Waiting::default()));
        let name = receiver.host.clone();
        tokio::spawn(send_orders(queue, writer));
        let replies = ReplyReader {
            receiver,
            waiting: Arc::clone(&waiting),
            folders,
        };
        let reader = tokio::spawn(replies.read_to_end(report_loss));
        Arc::new(Self {
            name,
            limits,
            orders: Register::new(Some(orders)),
            waiting,
            reader: Register::new(Some(reader)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    fn limits(&self) -> MutexGuard<'_, ReplyLimits> {
        lock(&self.limits)
    }

    /// Waits until a reply is overdue: for the limit, and for the time that needs what arrives meanwhile.
    async fn wait_until_overdue(&self, limit: Duration) {
        let began = Instant::now();
        let before = self.lock().arrived.longest_time();
        loop {
            let arrived = self.lock().arrived.longest_time().saturating_sub(before);
            match began.checked_add(limit.saturating_add(arrived)) {
                Some(overdue_at) if overdue_at > Instant::now() => sleep_until(overdue_at).await,
                Some(_) => return,
                None => std::future::pending().await,
            }
        }
    }

    /// Sends an order. A lost host does not get it.
    pub(super) fn send_order(&self, order: WorkerOrder) {
        tracing::trace!(target: "host", "send an order");
        if let Some(orders) = &*self.orders.lock().expect("no panic") {
            let _ = orders.send(order);
        }
    }

    /// Adds someone who waits for a reply, unless the host is lost, and sends the order.
    fn ask<T>(
        &self,
        order: WorkerOrder,
        wait: impl FnOnce(&mut Waiting, oneshot::Sender<T>),
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.lost.is_none() {
            wait(&mut waiting, sender);
            self.send_order(order);
        }
        receiver
    }

    /// Waits for a reply, and sends an order for each rise of urgency. Returns `None` if the host is lost, also because it did
    /// not reply within the first limit, or within the second one of an order to kill what runs.
    async fn wait_for<T>(
        &self,
        mut reply: oneshot::Receiver<T>,
        (limit, kill_limit): (Duration, Duration),
        mut halt: watch::Receiver<StopUrgency>,
        halt_order: impl Fn(StopUrgency) -> WorkerOrder,
    ) -> Option<T> {
        let mut urgency = StopUrgency::No;
        let mut overdue = pin!(self.wait_until_overdue(limit));
        loop {
            tokio::select! {
                reply = &mut reply => return reply.ok(),
                () = &mut overdue => {
                    self.lock().give_up("it did not reply in time");
                    return None;
                }
                level = wait_for_raise(&mut halt, urgency) => {
                    urgency = level;
                    self.send_order(halt_order(level));
                    if level == StopUrgency::Now {
                        overdue.set(self.wait_until_overdue(kill_limit));
                    }
                }
            }
        }
    }

    /// Returns why the host was lost.
    fn describe_loss(&self) -> String {
        let reason = self.lock().lost_reason();
        format!("the host `{}` was lost: {reason}", self.name)
    }

    pub(super) async fn run_trials(
        &self,
        slot: SlotId,
        trials: Vec<Trial>,
        mut halt: watch::Receiver<StopUrgency>,
        mut report: TrialReporter,
    ) {
        let mut open: VecDeque<(TrialId, Duration)> = {
            let limits = self.limits();
            let trials = trials.iter();
            trials
                .map(|trial| (trial.id, limits.of_trial(trial)))
                .collect()
        };
        let ordered = open.len();
        let limit_of_next = |open: &VecDeque<(TrialId, Duration)>| {
            open.front().map_or(REPLY_WITHIN, |(_, limit)| *limit)
        };
        let mut replies = self.begin_trials(slot, trials);
        let mut urgency = StopUrgency::No;
        let mut overdue = pin!(self.wait_until_overdue(limit_of_next(&open)));
        loop {
            tokio::select! {
                reply = replies.recv() => match reply {
                    // The trial would be ordered again for ever.
                    Some(LeaseReply::Finished(_, observation))
                        if observation.interrupted && urgency == StopUrgency::No =>
                    {
                        self.lock().give_up("it stopped a trial that it was ordered to run");
                        break;
                    }
                    Some(LeaseReply::Finished(id, observation)) => {
                        open.pop_front();
                        let limit = match urgency {
                            StopUrgency::Now => KILL_WITHIN,
                            _ => limit_of_next(&open),
                        };
                        overdue.set(self.wait_until_overdue(limit));
                        report(id, *observation);
                    }
                    Some(LeaseReply::Idle) if open.len() < ordered => return,
                    // The trials would be ordered again for ever.
                    Some(LeaseReply::Idle) => {
                        self.lock().give_up("it ran none of the trials that it was ordered to run");
                        break;
                    }
                    None => break,
                },
                level = wait_for_raise(&mut halt, urgency) => {
                    urgency = level;
                    self.send_order(WorkerOrder::Halt(slot, level));
                    if level == StopUrgency::Now {
                        self.lock().is_urgent = true;
                        overdue.set(self.wait_until_overdue(KILL_WITHIN));
                    }
                }
                () = &mut overdue => {
                    self.lock().give_up("it sent no result of a trial in time");
                    break;
                }
            }
        }
        if let Some((id, _)) = open.pop_front() {
            let lost = Some(self.describe_loss());
            report(
                id,
                Observation {
                    lost,
                    ..Observation::default()
                },
            );
        }
    }

    /// Orders trials, and returns the channel of their replies. It is closed if the host is lost, or was lost before.
    fn begin_trials(
        &self,
        slot: SlotId,
        trials: Vec<Trial>,
    ) -> mpsc::UnboundedReceiver<LeaseReply> {
        let (sender, replies) = mpsc::unbounded_channel();
        let mut waiting = self.lock();
        if waiting.lost.is_none() {
            let ordered = OrderedTrials {
                replies: sender,
                open: trials.iter().map(|trial| trial.id).collect(),
            };
            waiting.slots.insert(slot, ordered);
            self.send_order(WorkerOrder::Run(slot, trials));
        }
        replies
    }

    /// Prepares a variant; returns `None` if the host is lost.
    pub(super) async fn make_variant(
        &self,
        id: VariantId,
        halt: watch::Receiver<StopUrgency>,
    ) -> Option<PreparationResult> {
        let reply = self.ask(WorkerOrder::Make(id), |waiting, sender| {
            waiting.makings.insert(id, sender);
        });
        let limit = self.limits().of_preparation();
        self.wait_for(reply, (limit, limit), halt, |_| {
            WorkerOrder::StopPreparation
        })
        .await
    }

    /// Runs a hook. A lost host runs no trials, so it needs none.
    pub(super) async fn run_hook(
        &self,
        variant: Option<VariantId>,
        command: Text,
        halt: watch::Receiver<StopUrgency>,
    ) -> io::Result<Option<FailedHook>> {
        let reply = self.ask(WorkerOrder::Hook(variant, command), |waiting, sender| {
            waiting.hook = Some(sender);
        });
        let limit = self.limits().of_hook();
        let result = self
            .wait_for(reply, (limit, KILL_WITHIN), halt, WorkerOrder::HaltHook)
            .await;
        result.unwrap_or(Ok(None))
    }

    /// Copies the files of the last trial of a slot to a directory, without waiting for them.
    pub(super) fn keep_files(&self, slot: SlotId, folder: PathBuf, with_cores: bool) {
        let mut waiting = self.lock();
        if waiting.lost.is_none() {
            let kept = KeptFiles {
                folder,
                bytes_left: MAX_FILES,
                files_left: MAX_FILE_COUNT,
            };
            waiting.kept.insert(slot, kept);
            self.send_order(WorkerOrder::Keep { slot, with_cores });
        }
    }

    /// Ends the worker, and waits for its last files. Returns what failed there.
    pub(super) async fn close(&self) -> Vec<String> {
        let limit = {
            let mut waiting = self.lock();
            waiting.is_closing = true;
            if waiting.is_urgent {
                KILL_WITHIN
            } else {
                CLOSE_WITHIN
            }
        };
        drop(self.orders.lock().expect("no panic").take());
        let reader = self.reader.lock().expect("no panic").take();
        if let Some(mut reader) = reader {
            tokio::select! {
                _ = &mut reader => {}
                () = self.wait_until_overdue(limit) => reader.abort(),
            }
        }
        let complaints = self.lock().take_complaints();
        complaints
            .into_iter()
            .map(|text| format!("on `{}`: {text}", self.name))
            .collect()
    }
}

fn lock<T>(register: &Register<T>) -> MutexGuard<'_, T> {
    register.lock().expect("no panic")
}

/// Returns whether a journal can hold a result. Its tests have other limits.
fn is_storable(observation: &mut Observation) -> bool {
    let cases = observation.cases.take();
    let json = serde_json::to_vec(observation).unwrap_or_default();
    observation.cases = cases;
    // The judgement, which the journal holds as well, repeats parts of it.
    json.len() <= MAX_RESULT && is_parsed_untrusted(&json.repeat(2))
}

/// Shortens text of a host to its limit.
fn clip_text(text: &mut String) {
    let ends = (0..=MAX_TEXT.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
}

/// Sends orders, and a message every second without one. At the end, closes this direction of the connection.
async fn send_orders(mut orders: mpsc::UnboundedReceiver<WorkerOrder>, mut writer: UnixStream) {
    loop {
        let order = match timeout(PULSE, orders.recv()).await {
            Ok(Some(order)) => order,
            Ok(None) => break,
            Err(_) => WorkerOrder::Alive,
        };
        if send_line(&mut writer, &order).await.is_err() {
            // The receiving half reports the loss.
            break;
        }
    }
    let _ = writer.shutdown().await;
}

/// Reads the replies of a worker.
struct ReplyReader {
    receiver: WorkerReceiver,
    waiting: Arc<Register<Waiting>>,
    /// Directories of trials there and here.
    folders: (PathBuf, PathBuf),
}

impl ReplyReader {
    /// Passes the replies on until the worker has closed, or the host is lost. Reports the loss before the lost trials.
    async fn read_to_end(mut self, report_loss: impl FnOnce(String)) {
        let given_up = Arc::clone(&self.lock().given_up);
        let reason = tokio::select! {
            reason = self.read_replies() => reason,
            () = given_up.notified() => Some(self.lock().lost_reason()),
        };
        let Some(reason) = reason else {
            self.lock().lose("the run is over".to_owned());
            return;
        };
        report_loss(reason.clone());
        self.lock().lose(reason);
        // The end of the process can take a moment, in which the other hosts get their messages.
        tokio::task::spawn_blocking(move || drop(self.receiver));
    }

    /// Passes the replies on. Returns why the host was lost; `None` if the worker has closed at the end of the run.
    async fn read_replies(&mut self) -> Option<String> {
        loop {
            let waiting = &self.waiting;
            if lock(waiting).arrived.is_flood() {
                return Some("it sent too many messages".to_owned());
            }
            let add_part = |bytes| lock(waiting).arrived.add_part_of_message(bytes);
            match self.receiver.next_reply(add_part).await {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Some(error.to_string());
                }
                Err(error) => {
                    let message = self.receiver.last_message().await;
                    return Some(message.unwrap_or_else(|| match error.kind() {
                        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                        _ => error.to_string(),
                    }));
                }
                Ok(WorkerReply::Closed) if self.lock().is_closing => return None,
                Ok(WorkerReply::Closed) => return Some("its worker ended".to_owned()),
                Ok(WorkerReply::File { slot, path, size }) => {
                    {
                        let mut waiting = self.lock();
                        let is_expected = waiting.kept.contains_key(&slot);
                        waiting.arrived.end_message(is_expected);
                    }
                    let path = Path::new(path.as_os_str());
                    if let Err(error) = self.receive_file(slot, path, size).await {
                        return Some(error.to_string());
                    }
                }
                Ok(reply) => {
                    let mut waiting = self.lock();
                    let was_awaited = waiting.pass_reply(reply, &self.folders);
                    waiting.arrived.end_message(was_awaited);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Writes a file of a trial. A file that nobody wants, or that is too large, is read and dropped.
    async fn receive_file(&mut self, slot: SlotId, name: &Path, size: u64) -> io::Result<()> {
        if size > MAX_DROPPED {
            return Err(io::Error::other(format!("it sent a file of {size} bytes")));
        }
        let path = self.reserve_file(slot, name, size);
        let mut file = path.and_then(|path| {
            files::create_folders(path.parent()?).ok()?;
            // An earlier attempt may have left a file.
            files::create_private(&path).ok()
        });
        let mut left = size;
        while left > 0 {
            let bytes = self.receiver.read_bytes(left).await?;
            left -= bytes.len() as u64;
            if file.is_some() {
                lock(&self.waiting).arrived.add_part_of_file(bytes.len());
            }
            let written = file.as_mut().map(|file| file.write_all(bytes));
            if let Some(Err(error)) = written {
                file = None;
                self.lock()
                    .complain(format!("cannot write a file of a trial: {error}"));
            }
        }
        self.receiver.end_file();
        Ok(())
    }

    /// Returns the path of a file that is wanted and small enough.
    fn reserve_file(&self, slot: SlotId, name: &Path, size: u64) -> Option<PathBuf> {
        let mut waiting = self.lock();
        let kept = waiting.kept.get_mut(&slot)?;
        let (Some(bytes_left), Some(files_left)) = (
            kept.bytes_left.checked_sub(size),
            kept.files_left.checked_sub(1),
        ) else {
            waiting.complain("a trial has too many or too large files to be copied".to_owned());
            return None;
        };
        (kept.bytes_left, kept.files_left) = (bytes_left, files_left);
        path_below(&kept.folder, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{ActorObservation, TrialPurpose, TrialSettings};

    fn limits() -> Arc<Register<ReplyLimits>> {
        let limits = ReplyLimits::of_settings(TrialSettings::default());
        Arc::new(Register::new(limits))
    }

    /// Orders the trials 7 and 8 from a host that then sends these replies. Returns what is reported of them, and why the host
    /// was lost.
    async fn run_two_trials(
        waiting: Waiting,
        replies: Vec<WorkerReply>,
    ) -> (Vec<(TrialId, Observation)>, Option<String>) {
        let host = RemoteHost {
            name: "h1".to_owned(),
            limits: limits(),
            orders: Register::default(),
            waiting: Arc::new(Register::new(waiting)),
            reader: Register::default(),
        };
        let trials = [7, 8].map(|number| Trial {
            id: TrialId(number),
            variant: VariantId(0),
            slot: SlotId(0),
            seed: number,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        });
        let reported = Arc::new(Register::new(Vec::new()));
        let reports = Arc::clone(&reported);
        let report = Box::new(move |id, observation: Observation| {
            reports.lock().unwrap().push((id, observation));
        });
        let (_halt, halt) = watch::channel(StopUrgency::No);
        let running = host.run_trials(SlotId(0), trials.to_vec(), halt, report);
        let sending = async {
            for reply in replies {
                host.lock().pass_reply(reply, &Default::default());
            }
        };
        let a_day = Duration::from_secs(24 * 60 * 60);
        let both = async { tokio::join!(running, sending) };
        timeout(a_day, both).await.expect("it ends");
        let lost = host.lock().lost.clone();
        (std::mem::take(&mut *reported.lock().unwrap()), lost)
    }

    fn finished(slot: u32, trial: u64) -> WorkerReply {
        WorkerReply::Finished(SlotId(slot), TrialId(trial), Box::default())
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_was_lost_before_its_trials_loses_them() {
        let lost = Waiting {
            lost: Some("the connection was closed".to_owned()),
            ..Waiting::default()
        };
        let (reported, _) = run_two_trials(lost, Vec::new()).await;
        let [(TrialId(7), observation)] = &*reported else {
            panic!("{reported:?}");
        };
        let reason = "the host `h1` was lost: the connection was closed";
        assert_eq!(observation.lost.as_deref(), Some(reason));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_sends_no_result_is_lost() {
        let began = Instant::now();
        let (reported, lost) = run_two_trials(Waiting::default(), Vec::new()).await;
        let reason = "it sent no result of a trial in time";
        assert_eq!(lost.as_deref(), Some(reason));
        let of_trial = format!("the host `h1` was lost: {reason}");
        assert_eq!(reported.len(), 1);
        assert_eq!(reported[0].1.lost, Some(of_trial));
        // The time limit of the trial, both grace periods, two minutes to kill its processes, and three for the reply.
        assert_eq!(began.elapsed().as_secs(), 1 + 5 + 2 + 120 + 180);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_keeps_its_slot_after_all_results_is_lost() {
        let replies = vec![finished(0, 7), finished(0, 8)];
        let (reported, lost) = run_two_trials(Waiting::default(), replies).await;
        assert_eq!(lost.unwrap(), "it sent no result of a trial in time");
        let trials: Vec<u64> = reported.iter().map(|(id, _)| id.0).collect();
        assert_eq!(trials, [7, 8]);
        assert!(reported.iter().all(|(_, seen)| seen.lost.is_none()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_runs_none_of_its_trials_is_lost() {
        // Results of another slot are not results of these trials.
        let replies = vec![finished(1, 7), WorkerReply::Idle(SlotId(0))];
        let (reported, lost) = run_two_trials(Waiting::default(), replies).await;
        let reason = "it ran none of the trials that it was ordered to run";
        assert_eq!(lost.as_deref(), Some(reason));
        assert_eq!(reported.len(), 1);
        assert!(reported[0].1.lost.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_stops_a_trial_without_an_order_is_lost() {
        let stopped = Observation {
            interrupted: true,
            ..Observation::default()
        };
        let replies = vec![WorkerReply::Finished(
            SlotId(0),
            TrialId(7),
            Box::new(stopped),
        )];
        let (reported, lost) = run_two_trials(Waiting::default(), replies).await;
        let reason = "it stopped a trial that it was ordered to run";
        assert_eq!(lost.as_deref(), Some(reason));
        assert_eq!(reported.len(), 1);
        assert!(reported[0].1.lost.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_may_end_its_trials_after_the_first() {
        let replies = vec![finished(0, 7), WorkerReply::Idle(SlotId(0))];
        let (reported, lost) = run_two_trials(Waiting::default(), replies).await;
        assert_eq!(lost, None);
        assert_eq!(reported.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_reply_to_a_hook_is_lost() {
        let host = RemoteHost {
            name: "h1".to_owned(),
            limits: limits(),
            orders: Register::default(),
            waiting: Arc::default(),
            reader: Register::default(),
        };
        let (_halt, halt) = watch::channel(StopUrgency::No);
        let began = Instant::now();
        let result = host.run_hook(None, "true".into(), halt).await;
        assert!(matches!(result, Ok(None)));
        assert_eq!(began.elapsed().as_secs(), 600 + 5 + 180);
        let lost = host.lock().lost.clone();
        assert_eq!(lost.as_deref(), Some("it did not reply in time"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_kill_a_trial_or_a_hook_is_lost_soon() {
        let host = RemoteHost {
            name: "h1".to_owned(),
            limits: limits(),
            orders: Register::default(),
            waiting: Arc::default(),
            reader: Register::default(),
        };
        let (_halt, halt) = watch::channel(StopUrgency::Now);
        let trial = Trial {
            id: TrialId(7),
            variant: VariantId(0),
            slot: SlotId(0),
            seed: 7,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        };
        let began = Instant::now();
        let hook = host.run_hook(None, "true".into(), halt.clone());
        let trials = host.run_trials(SlotId(0), vec![trial], halt, Box::new(|_, _| {}));
        let (result, ()) = tokio::join!(hook, trials);
        assert!(matches!(result, Ok(None)));
        assert_eq!(began.elapsed(), KILL_WITHIN);
        assert!(host.lock().lost.is_some());
        host.close().await;
        assert_eq!(began.elapsed(), KILL_WITHIN);
    }

    /// Waits until a reply is overdue, while a message arrives in parts of 2 MiB, one a minute. It is one that the host was
    /// asked for, or not.
    async fn wait_for_message(is_wanted: bool) -> Duration {
        let host = RemoteHost {
            name: "h1".to_owned(),
            limits: limits(),
            orders: Register::default(),
            waiting: Arc::default(),
            reader: Register::default(),
        };
        let began = Instant::now();
        let arriving = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_secs(60)).await;
                host.lock().arrived.add_part_of_message(2 << 20);
            }
            host.lock().arrived.end_message(is_wanted);
        };
        let limit = Duration::from_secs(600);
        tokio::join!(host.wait_until_overdue(limit), arriving);
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_has_more_time_while_wanted_data_arrives() {
        // The lowest rate is 64 KiB per second.
        assert_eq!(wait_for_message(true).await.as_secs(), 600 + 10 * 32);
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_nobody_waits_for_give_no_time() {
        let limit = wait_for_message(false).await;
        assert!(limit.as_secs() < 600 + 10 * 32, "{limit:?}");
    }

    #[test]
    fn results_that_were_not_ordered_are_not_kept() {
        let mut waiting = Waiting::default();
        let (replies, mut passed) = mpsc::unbounded_channel();
        let open = VecDeque::from([TrialId(7)]);
        let ordered = OrderedTrials { replies, open };
        waiting.slots.insert(SlotId(0), ordered);
        for _ in 0..100 {
            for trial in [8, 7] {
                waiting.pass_reply(finished(0, trial), &Default::default());
            }
        }
        assert_eq!(passed.len(), 1);
        let reply = passed.try_recv();
        assert!(matches!(reply, Ok(LeaseReply::Finished(TrialId(7), _))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_whose_result_no_journal_can_hold_is_lost() {
        // In a journal, an empty actor becomes two objects.
        let many = Observation {
            actors: vec![ActorObservation::default(); 40_000],
            ..Observation::default()
        };
        let long = Observation {
            lost: Some("x".repeat(MAX_RESULT)),
            ..Observation::default()
        };
        for observation in [many, long] {
            let reply = WorkerReply::Finished(SlotId(0), TrialId(7), Box::new(observation));
            let (reported, lost) = run_two_trials(Waiting::default(), vec![reply]).await;
            assert_eq!(lost.as_deref(), Some("it sent a result that is too large"));
            assert_eq!(reported.len(), 1);
            assert!(reported[0].1.actors.is_empty());
        }
    }

    #[test]
    fn lines_of_output_are_limited_in_length() {
        let mut waiting = Waiting::default();
        let (replies, mut passed) = mpsc::unbounded_channel();
        let open = VecDeque::from([TrialId(7)]);
        let ordered = OrderedTrials { replies, open };
        waiting.slots.insert(SlotId(0), ordered);
        let long = "\u{e9}".repeat(10_000);
        let actor = ActorObservation {
            last_words: long.clone(),
            crash_message: Some(long),
            ..ActorObservation::default()
        };
        let hook = FailedHook {
            output: actor.last_words.clone(),
            ..FailedHook::default()
        };
        let observation = Box::new(Observation {
            actors: vec![actor],
            prepare: Some(hook),
            ..Observation::default()
        });
        let reply = WorkerReply::Finished(SlotId(0), TrialId(7), observation);
        waiting.pass_reply(reply, &Default::default());
        let Ok(LeaseReply::Finished(_, observation)) = passed.try_recv() else {
            panic!("no result");
        };
        let hook = observation.prepare.as_ref().unwrap();
        assert_eq!(hook.output.len(), MAX_TEXT);
        let actor = &observation.actors[0];
        assert_eq!(actor.last_words.len(), MAX_TEXT);
        assert_eq!(
            actor.crash_message.as_ref().map(String::len),
            Some(MAX_TEXT)
        );
    }

    #[test]
    fn messages_about_failures_are_limited_in_number_and_length() {
        let mut waiting = Waiting::default();
        for _ in 0..1000 {
            waiting.complain("\u{e9}".repeat(10_000));
        }
        let complaints = waiting.take_complaints();
        assert_eq!(complaints.len(), MAX_COMPLAINTS + 1);
        assert!(complaints.iter().all(|text| text.len() <= MAX_TEXT));
        assert_eq!(complaints.last().unwrap(), "900 more messages");
    }
}
