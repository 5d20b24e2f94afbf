//! Sends orders to the worker of a host, and passes its replies on.

use super::SILENCE;
use super::connection::{WorkerReceiver, send_line};
use super::files::{path_below, relocate_cores};
use super::wire::{WorkerOrder, WorkerReply};
use provoke_exec::{PreparationResult, StopUrgency, TrialReporter, wait_for_raise};
use provoke_model::{FailedHook, Observation, SlotId, Text, Trial, TrialId, VariantId};
use provoke_sys::files;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
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
/// Time after the time limit of a trial in which its result must arrive: for examining a hang, killing processes, and
/// collecting evidence.
const RESULT_WITHIN: Duration = Duration::from_secs(180);
/// Limits of the messages about what failed on a host: their number, and the length of each in bytes.
const MAX_COMPLAINTS: usize = 100;
const MAX_COMPLAINT: usize = 4096;

/// A host with a worker.
pub(super) struct RemoteHost {
    name: String,
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
    /// Why the host counts as lost although it still sends messages.
    overdue: Option<String>,
    /// Whether the worker was told to end.
    is_closing: bool,
    slots: BTreeMap<SlotId, mpsc::UnboundedSender<LeaseReply>>,
    makings: BTreeMap<VariantId, oneshot::Sender<PreparationResult>>,
    hook: Option<oneshot::Sender<io::Result<Option<FailedHook>>>>,
    /// Where the files of the last trial of a slot go.
    kept: BTreeMap<SlotId, KeptFiles>,
    complaints: Vec<String>,
    /// Number of complaints that were dropped because there were too many.
    dropped_complaints: u64,
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

    /// Records what failed on the host, up to a limit.
    fn complain(&mut self, mut text: String) {
        if self.complaints.len() >= MAX_COMPLAINTS {
            self.dropped_complaints += 1;
            return;
        }
        let ends = (0..=MAX_COMPLAINT.min(text.len())).rev();
        let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        self.complaints.push(text);
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
            orders: Register::new(Some(orders)),
            waiting,
            reader: Register::new(Some(reader)),
        })
    }

    /// Sends an order. A lost host does not get it.
    pub(super) fn send_order(&self, order: WorkerOrder) {
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
        let mut waiting = self.waiting.lock().expect("no panic");
        if waiting.lost.is_none() {
            wait(&mut waiting, sender);
            self.send_order(order);
        }
        receiver
    }

    /// Waits for a reply, and sends an order for each rise of urgency. Returns `None` if the host is lost.
    async fn wait_for<T>(
        &self,
        mut reply: oneshot::Receiver<T>,
        mut halt: watch::Receiver<StopUrgency>,
        halt_order: impl Fn(StopUrgency) -> WorkerOrder,
    ) -> Option<T> {
        let mut urgency = StopUrgency::No;
        loop {
            tokio::select! {
                reply = &mut reply => return reply.ok(),
                level = wait_for_raise(&mut halt, urgency) => {
                    urgency = level;
                    self.send_order(halt_order(level));
                }
            }
        }
    }

    /// Returns why the host was lost.
    fn describe_loss(&self) -> String {
        let reason = self.waiting.lock().expect("no panic").lost_reason();
        format!("the host `{}` was lost: {reason}", self.name)
    }

    pub(super) async fn run_trials(
        &self,
        lane: SlotId,
        trials: Vec<Trial>,
        mut halt: watch::Receiver<StopUrgency>,
        mut report: TrialReporter,
    ) {
        let mut open: VecDeque<(TrialId, Duration)> = trials
            .iter()
            .map(|trial| (trial.id, trial.timeout.saturating_add(RESULT_WITHIN)))
            .collect();
        let mut replies = self.begin_trials(lane, trials);
        let mut urgency = StopUrgency::No;
        let mut began = Instant::now();
        loop {
            let overdue_at = open
                .front()
                .and_then(|(_, limit)| began.checked_add(*limit));
            tokio::select! {
                reply = replies.recv() => match reply {
                    Some(LeaseReply::Finished(id, observation)) => {
                        // Another trial than the expected is not ours.
                        if open.front().is_some_and(|(expected, _)| *expected == id) {
                            open.pop_front();
                            began = Instant::now();
                            report(id, *observation);
                        }
                    }
                    Some(LeaseReply::Idle) => return,
                    None => break,
                },
                level = wait_for_raise(&mut halt, urgency) => {
                    urgency = level;
                    self.send_order(WorkerOrder::Halt(lane, level));
                }
                () = sleep_until(overdue_at.unwrap_or(began)), if overdue_at.is_some() => {
                    let mut waiting = self.waiting.lock().expect("no panic");
                    let reason = "it sent no result of a trial in time".to_owned();
                    waiting.overdue = Some(reason.clone());
                    waiting.lose(reason);
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
        lane: SlotId,
        trials: Vec<Trial>,
    ) -> mpsc::UnboundedReceiver<LeaseReply> {
        let (sender, replies) = mpsc::unbounded_channel();
        let mut waiting = self.waiting.lock().expect("no panic");
        if waiting.lost.is_none() {
            waiting.slots.insert(lane, sender);
            self.send_order(WorkerOrder::Run(lane, trials));
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
        self.wait_for(reply, halt, |_| WorkerOrder::StopMaking)
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
        let result = self.wait_for(reply, halt, WorkerOrder::HaltHook).await;
        result.unwrap_or(Ok(None))
    }

    /// Copies the files of the last trial of a slot to a directory, without waiting for them.
    pub(super) fn keep_files(&self, lane: SlotId, folder: PathBuf, with_cores: bool) {
        let mut waiting = self.waiting.lock().expect("no panic");
        if waiting.lost.is_none() {
            let kept = KeptFiles {
                folder,
                bytes_left: MAX_FILES,
                files_left: MAX_FILE_COUNT,
            };
            waiting.kept.insert(lane, kept);
            self.send_order(WorkerOrder::Keep { lane, with_cores });
        }
    }

    /// Ends the worker, and waits for its last files. Returns what failed there.
    pub(super) async fn close(&self) -> Vec<String> {
        self.waiting.lock().expect("no panic").is_closing = true;
        drop(self.orders.lock().expect("no panic").take());
        let reader = self.reader.lock().expect("no panic").take();
        if let Some(mut reader) = reader
            && timeout(CLOSE_WITHIN, &mut reader).await.is_err()
        {
            reader.abort();
        }
        let complaints = self.waiting.lock().expect("no panic").take_complaints();
        complaints
            .into_iter()
            .map(|text| format!("on `{}`: {text}", self.name))
            .collect()
    }
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
        let reason = loop {
            if let Some(reason) = self.lock().overdue.take() {
                break reason;
            }
            match timeout(SILENCE, self.receiver.next_reply()).await {
                Err(_) => break format!("no message for {} s", SILENCE.as_secs()),
                Ok(Err(error)) => {
                    let message = self.receiver.last_message().await;
                    break message.unwrap_or_else(|| match error.kind() {
                        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                        _ => error.to_string(),
                    });
                }
                Ok(Ok(WorkerReply::Closed)) => {
                    if !self.lock().is_closing {
                        break "its worker ended".to_owned();
                    }
                    self.lock().lose("the run is over".to_owned());
                    return;
                }
                Ok(Ok(WorkerReply::File { lane, path, size })) => {
                    let path = Path::new(path.as_os_str());
                    if let Err(error) = self.receive_file(lane, path, size).await {
                        break error.to_string();
                    }
                }
                Ok(Ok(reply)) => self.pass_reply(reply),
            }
        };
        report_loss(reason.clone());
        self.lock().lose(reason);
        // The end of the process can take a moment, in which the other hosts get their messages.
        tokio::task::spawn_blocking(move || drop(self.receiver));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no panic")
    }

    fn pass_reply(&self, reply: WorkerReply) {
        let mut waiting = self.lock();
        // Someone who no longer waits needs no reply.
        match reply {
            WorkerReply::Finished(lane, trial, mut observation) => {
                if let Some(sender) = waiting.slots.get(&lane) {
                    let (there, here) = &self.folders;
                    relocate_cores(&mut observation, trial, there, here);
                    let _ = sender.send(LeaseReply::Finished(trial, observation));
                }
            }
            WorkerReply::Idle(lane) => {
                if let Some(sender) = waiting.slots.remove(&lane) {
                    let _ = sender.send(LeaseReply::Idle);
                }
            }
            WorkerReply::Made(variant, result) => {
                if let Some(sender) = waiting.makings.remove(&variant) {
                    let _ = sender.send(result);
                }
            }
            WorkerReply::Hooked(result) => {
                if let Some(sender) = waiting.hook.take() {
                    let _ = sender.send(result.map_err(io::Error::other));
                }
            }
            WorkerReply::Kept(lane) => drop(waiting.kept.remove(&lane)),
            WorkerReply::Complaint(text) => waiting.complain(text),
            WorkerReply::Ready(_)
            | WorkerReply::Refused(..)
            | WorkerReply::File { .. }
            | WorkerReply::Alive
            | WorkerReply::Closed => {}
        }
    }

    /// Writes a file of a trial. A file that nobody wants, or that is too large, is read and dropped.
    async fn receive_file(&mut self, lane: SlotId, name: &Path, size: u64) -> io::Result<()> {
        if size > MAX_DROPPED {
            return Err(io::Error::other(format!("it sent a file of {size} bytes")));
        }
        let path = self.reserve_file(lane, name, size);
        let mut file = path.and_then(|path| {
            files::create_folders(path.parent()?).ok()?;
            // An earlier attempt may have left a file.
            files::create_private(&path).ok()
        });
        let mut left = size;
        while left > 0 {
            let bytes = timeout(SILENCE, self.receiver.read_bytes(left)).await??;
            left -= bytes.len() as u64;
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
    fn reserve_file(&self, lane: SlotId, name: &Path, size: u64) -> Option<PathBuf> {
        let mut waiting = self.lock();
        let kept = waiting.kept.get_mut(&lane)?;
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

    /// Orders two trials from a host that sends no result, and returns what is reported for the first.
    async fn loss_of_first_trial(waiting: Waiting) -> Option<String> {
        let host = RemoteHost {
            name: "h1".to_owned(),
            orders: Register::default(),
            waiting: Arc::new(Register::new(waiting)),
            reader: Register::default(),
        };
        let trials = [7, 8].map(|number| Trial {
            id: TrialId(number),
            variant: VariantId(0),
            lane: SlotId(0),
            seed: number,
            timeout: Duration::from_secs(1),
            capture: false,
            hold: None,
            explores: false,
            alone: None,
        });
        let (reports, mut reported) = mpsc::unbounded_channel();
        let report = Box::new(move |id, observation: Observation| {
            reports.send((id, observation.lost)).unwrap();
        });
        let (_halt, halt) = watch::channel(StopUrgency::No);
        let running = host.run_trials(SlotId(0), trials.to_vec(), halt, report);
        let a_day = Duration::from_secs(24 * 60 * 60);
        timeout(a_day, running).await.expect("it ends");
        let (id, lost) = reported.recv().await.expect("a report");
        assert_eq!(id, TrialId(7));
        assert_eq!(reported.recv().await, None);
        lost
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_was_lost_before_its_trials_loses_them() {
        let lost = loss_of_first_trial(Waiting {
            lost: Some("the connection was closed".to_owned()),
            ..Waiting::default()
        });
        let reason = "the host `h1` was lost: the connection was closed";
        assert_eq!(lost.await.as_deref(), Some(reason));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_sends_no_result_is_lost() {
        let began = Instant::now();
        let lost = loss_of_first_trial(Waiting::default()).await;
        let reason = "the host `h1` was lost: it sent no result of a trial in time";
        assert_eq!(lost.as_deref(), Some(reason));
        assert_eq!(began.elapsed().as_secs(), 181);
    }

    #[test]
    fn messages_about_failures_are_limited_in_number_and_length() {
        let mut waiting = Waiting::default();
        for _ in 0..1000 {
            waiting.complain("\u{e9}".repeat(10_000));
        }
        let complaints = waiting.take_complaints();
        assert_eq!(complaints.len(), MAX_COMPLAINTS + 1);
        assert!(complaints.iter().all(|text| text.len() <= MAX_COMPLAINT));
        assert_eq!(complaints.last().unwrap(), "900 more messages");
    }
}
