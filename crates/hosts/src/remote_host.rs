//! Sends orders to the worker of a host, and passes its replies on.

use super::awaited_replies::{AwaitedReplies, LeaseReply};
use super::connection::{WorkerReceiver, send_line};
use super::limits::{KILL_WITHIN, REPLY_WITHIN, ReplyLimits};
use super::reply_reader::ReplyReader;
use super::wire::WorkerOrder;
use provoke_exec::{PreparationResult, StopUrgency, TrialReporter, wait_for_raise};
use provoke_model::{FailedHook, Observation, SlotId, Text, Trial, TrialId, VariantId};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex as Register, MutexGuard};
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

/// A host with a worker.
pub(super) struct RemoteHost {
    name: String,
    limits: Arc<Register<ReplyLimits>>,
    /// `None` after the end of the run.
    orders: Register<Option<mpsc::UnboundedSender<WorkerOrder>>>,
    awaited: Arc<Register<AwaitedReplies>>,
    reader: Register<Option<JoinHandle<()>>>,
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
        let counts_cases = limits.lock().expect("no panic").counts_cases;
        let awaited = AwaitedReplies::new(counts_cases);
        let awaited = Arc::new(Register::new(awaited));
        let name = receiver.host.clone();
        tokio::spawn(send_orders(queue, writer));
        let replies = ReplyReader {
            receiver,
            awaited: Arc::clone(&awaited),
            folders,
        };
        let reader = tokio::spawn(replies.read_to_end(report_loss));
        Arc::new(Self {
            name,
            limits,
            orders: Register::new(Some(orders)),
            awaited,
            reader: Register::new(Some(reader)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, AwaitedReplies> {
        self.awaited.lock().expect("no panic")
    }

    fn limits(&self) -> MutexGuard<'_, ReplyLimits> {
        self.limits.lock().expect("no panic")
    }

    /// Waits until a reply is overdue: for the limit, and for the time that needs what arrives meanwhile.
    async fn wait_until_overdue(&self, limit: Duration) {
        let began = Instant::now();
        let before = self.lock().arrived.time_taken();
        loop {
            let arrived = {
                let awaited = self.lock();
                if awaited.is_urgent {
                    Duration::ZERO
                } else {
                    awaited.arrived.time_taken().saturating_sub(before)
                }
            };
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
        wait: impl FnOnce(&mut AwaitedReplies, oneshot::Sender<T>),
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        let mut awaited = self.lock();
        if awaited.lost.is_none() {
            wait(&mut awaited, sender);
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
        let mut awaited = self.lock();
        if awaited.lost.is_some() {
            return mpsc::unbounded_channel().1;
        }
        let replies = awaited.add_trials(slot, &trials);
        self.send_order(WorkerOrder::Run(slot, trials));
        replies
    }

    /// Prepares a variant; returns `None` if the host is lost.
    pub(super) async fn make_variant(
        &self,
        id: VariantId,
        halt: watch::Receiver<StopUrgency>,
    ) -> Option<PreparationResult> {
        let reply = self.ask(WorkerOrder::Make(id), |awaited, sender| {
            awaited.makings.insert(id, sender);
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
        let reply = self.ask(WorkerOrder::Hook(variant, command), |awaited, sender| {
            awaited.hook = Some(sender);
        });
        let limit = self.limits().of_hook();
        let result = self
            .wait_for(reply, (limit, KILL_WITHIN), halt, WorkerOrder::HaltHook)
            .await;
        result.unwrap_or(Ok(None))
    }

    /// Copies the files of the last trial of a slot to a directory, without awaited for them.
    pub(super) fn keep_files(&self, slot: SlotId, folder: PathBuf, with_cores: bool) {
        let mut awaited = self.lock();
        if awaited.lost.is_none() {
            awaited.add_files(slot, folder);
            self.send_order(WorkerOrder::Keep { slot, with_cores });
        }
    }

    /// Ends the worker, and waits for its last files. Returns what failed there.
    pub(super) async fn close(&self) -> Vec<String> {
        let limit = {
            let mut awaited = self.lock();
            awaited.is_closing = true;
            if awaited.is_urgent {
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

#[cfg(test)]
mod tests {
    use super::super::awaited_replies::MAX_RESULT;
    use super::super::awaited_replies::tests::{one_process, trial};
    use super::super::wire::WorkerReply;
    use super::*;
    use provoke_model::{ActorObservation, Hang, TrialSettings};

    fn host(awaited: AwaitedReplies) -> RemoteHost {
        RemoteHost {
            name: "h1".to_owned(),
            limits: limits(),
            orders: Register::default(),
            awaited: Arc::new(Register::new(awaited)),
            reader: Register::default(),
        }
    }

    fn limits() -> Arc<Register<ReplyLimits>> {
        let limits = ReplyLimits::of_settings(TrialSettings::default());
        Arc::new(Register::new(limits))
    }

    /// Orders the trials 7 and 8 from a host that then sends these replies. Returns what is reported of them, and why the host
    /// was lost.
    async fn run_two_trials(
        awaited: AwaitedReplies,
        replies: Vec<WorkerReply>,
    ) -> (Vec<(TrialId, Observation)>, Option<String>) {
        let host = host(awaited);
        let trials = [7, 8].map(trial);
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
        WorkerReply::Finished(SlotId(slot), TrialId(trial), one_process())
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_was_lost_before_its_trials_loses_them() {
        let mut lost = AwaitedReplies::default();
        lost.lose("the connection was closed".to_owned());
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
        let (reported, lost) = run_two_trials(AwaitedReplies::default(), Vec::new()).await;
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
        let (reported, lost) = run_two_trials(AwaitedReplies::default(), replies).await;
        assert_eq!(lost.unwrap(), "it sent no result of a trial in time");
        let trials: Vec<u64> = reported.iter().map(|(id, _)| id.0).collect();
        assert_eq!(trials, [7, 8]);
        assert!(reported.iter().all(|(_, seen)| seen.lost.is_none()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_runs_none_of_its_trials_is_lost() {
        // Results of another slot are not results of these trials.
        let replies = vec![finished(1, 7), WorkerReply::Idle(SlotId(0))];
        let (reported, lost) = run_two_trials(AwaitedReplies::default(), replies).await;
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
        let (reported, lost) = run_two_trials(AwaitedReplies::default(), replies).await;
        let reason = "it stopped a trial that it was ordered to run";
        assert_eq!(lost.as_deref(), Some(reason));
        assert_eq!(reported.len(), 1);
        assert!(reported[0].1.lost.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_may_end_its_trials_after_the_first() {
        let replies = vec![finished(0, 7), WorkerReply::Idle(SlotId(0))];
        let (reported, lost) = run_two_trials(AwaitedReplies::default(), replies).await;
        assert_eq!(lost, None);
        assert_eq!(reported.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_does_not_reply_to_a_hook_is_lost() {
        let host = host(AwaitedReplies::default());
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
        let host = host(AwaitedReplies::default());
        let (_halt, halt) = watch::channel(StopUrgency::Now);
        let began = Instant::now();
        let hook = host.run_hook(None, "true".into(), halt.clone());
        let trials = host.run_trials(SlotId(0), vec![trial(7)], halt, Box::new(|_, _| {}));
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
        let host = host(AwaitedReplies::default());
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

    #[tokio::test(start_paused = true)]
    async fn a_host_whose_result_no_journal_can_hold_is_lost() {
        // In a journal, an empty actor becomes two objects.
        let many = Observation {
            actors: vec![ActorObservation::default(); 40_000],
            ..Observation::default()
        };
        let long = Observation {
            hang: Some(Hang {
                programs: vec![(7, "x".repeat(MAX_RESULT))],
                ..Hang::default()
            }),
            ..*one_process()
        };
        for observation in [many, long] {
            let reply = WorkerReply::Finished(SlotId(0), TrialId(7), Box::new(observation));
            let (reported, lost) = run_two_trials(AwaitedReplies::default(), vec![reply]).await;
            assert_eq!(lost.as_deref(), Some("it sent a result that is too large"));
            assert_eq!(reported.len(), 1);
            assert!(reported[0].1.actors.is_empty());
        }
    }
}
