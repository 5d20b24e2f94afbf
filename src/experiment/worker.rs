//! Worker: runs trials for a provoke on another machine, which started it and reads its stdout.

use super::cores::no_cores;
use super::engine;
use super::error::ExperimentError;
use super::preflight::{check_commands, check_plan};
use super::worker_folder::WorkerFolder;
use crate::exec::{Executor as _, LocalExecutor, StopUrgency};
use crate::model::{
    FailedHook, KeepRule, Observation, Outcome, Plan, SlotId, Text, Trial, TrialId, VariantId,
    VariantPlan,
};
use crate::oracle;
use crate::survey;
use crate::sys::{cgroup, signals};
use crate::workers::wire::{
    MAX_LINE, PROTOCOL, WorkerGreeting, WorkerOrder, WorkerReply, WorkerTask,
};
use crate::workers::{OwnBinary, SILENCE};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Pause after which a message shows that the connection works.
const PULSE: Duration = Duration::from_secs(1);

/// Time in which the last files are sent.
const SEND_WITHIN: Duration = Duration::from_secs(120);
/// Interval between checks whether they are sent.
const PAUSE: Duration = Duration::from_millis(2);

/// Something that is written to stdout.
enum Output {
    Reply(Box<WorkerReply>),
    /// The files of the last trial of a slot; they are removed afterwards.
    Files {
        lane: SlotId,
        folder: PathBuf,
        with_cores: bool,
    },
}

/// Runs trials until the connection is closed.
pub(super) fn serve() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let (output, writer) = start_writer();
    let task: WorkerTask = read_line(&mut input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    drop(input);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let folder = runtime.block_on(async {
        let mut worker = match Worker::begin(task, &output) {
            Ok(worker) => worker,
            Err(error) => {
                let hint = error.hint().map(|hint| hint.text);
                send(&output, WorkerReply::Refused(error.in_a_line(), hint));
                return None;
            }
        };
        worker.follow_orders(read_orders()).await;
        let folder = worker.close().await;
        send(&output, WorkerReply::Closed);
        Some(folder)
    });
    drop(output);
    // Files of trials may still be sent, unless the connection is blocked.
    let deadline = Instant::now() + SEND_WITHIN;
    while !writer.is_finished() && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
    drop(folder);
    Ok(())
}

fn send(output: &std_mpsc::Sender<Output>, reply: WorkerReply) {
    // Without a writer, the connection is closed, which ends the worker.
    let _ = output.send(Output::Reply(Box::new(reply)));
}

/// Starts the thread that writes to stdout. Even if all trials and their analysis keep the worker busy, it shows every
/// second that the connection works.
fn start_writer() -> (std_mpsc::Sender<Output>, thread::JoinHandle<()>) {
    let (sender, receiver) = std_mpsc::channel();
    let writer = thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        loop {
            let written = match receiver.recv_timeout(PULSE) {
                Ok(Output::Reply(reply)) => write_reply(&mut stdout, &reply),
                Ok(Output::Files {
                    lane,
                    folder,
                    with_cores,
                }) => write_files(&mut stdout, lane, &folder, with_cores),
                Err(std_mpsc::RecvTimeoutError::Timeout) => {
                    write_reply(&mut stdout, &WorkerReply::Alive)
                }
                Err(std_mpsc::RecvTimeoutError::Disconnected) => return,
            };
            if written.is_err() {
                return;
            }
        }
    });
    (sender, writer)
}

fn write_reply(out: &mut impl io::Write, reply: &WorkerReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    out.write_all(&line)?;
    out.flush()
}

/// Sends the files of a trial, and removes them.
fn write_files(
    out: &mut impl io::Write,
    lane: SlotId,
    folder: &Path,
    with_cores: bool,
) -> io::Result<()> {
    for path in files_below(folder) {
        if !with_cores && is_core(&path) {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        let (Ok(metadata), Ok(name)) = (file.metadata(), path.strip_prefix(folder)) else {
            continue;
        };
        let size = metadata.len();
        let path = name.into();
        write_reply(out, &WorkerReply::File { lane, path, size })?;
        let copied = io::copy(&mut file.take(size), out)?;
        // Nobody writes to the files of a trial that has ended, but a missing part would shift all messages.
        io::copy(&mut io::repeat(0).take(size - copied), out)?;
    }
    write_reply(out, &WorkerReply::Kept(lane))?;
    let _ = fs::remove_dir_all(folder);
    Ok(())
}

fn is_core(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("core."))
}

/// Returns the regular files below a directory.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// Starts the thread that reads orders.
fn read_orders() -> mpsc::UnboundedReceiver<WorkerOrder> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Ok(Some(order)) = read_line(&mut input)
            && sender.send(order).is_ok()
        {}
    });
    receiver
}

fn read_line<T: serde::de::DeserializeOwned>(
    input: &mut io::StdinLock<'_>,
) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    input.take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

struct Worker {
    plan: Plan,
    folder: WorkerFolder,
    executor: Arc<LocalExecutor>,
    output: std_mpsc::Sender<Output>,
    /// Each returns its trial, if it runs one.
    tasks: JoinSet<Option<TrialId>>,
    halts: BTreeMap<TrialId, watch::Sender<StopUrgency>>,
    halt_making: watch::Sender<StopUrgency>,
    halt_hook: watch::Sender<StopUrgency>,
    /// The last trial of each slot, while its files are here.
    last_trials: BTreeMap<SlotId, TrialId>,
}

impl Worker {
    /// Checks the plan, and starts the executor.
    fn begin(task: WorkerTask, output: &std_mpsc::Sender<Output>) -> Result<Self, ExperimentError> {
        if task.protocol != PROTOCOL {
            return Err(ExperimentError::could_not(
                "another version of provoke started this worker",
            ));
        }
        signals::survive_file_size_limit();
        let mut plan = *task.plan;
        check_plan(&plan)?;
        engine::choose_engine(&mut plan)?;
        for note in engine::sweep_containers(&plan) {
            send(output, WorkerReply::Complaint(note));
        }
        cgroup::clean_up_after_dead_runs();
        if plan.hooks.setup.is_none() {
            let variants = (0..).map(VariantId).zip(&plan.variants);
            let checked =
                variants.filter(|(_, variant)| variant.hooks.setup.is_none() && !variant.is_made());
            for (id, _) in checked {
                check_commands(&plan, id)?;
            }
        }
        plan.no_cores = no_cores(&plan);
        let folder = WorkerFolder::create()?;
        let executor = LocalExecutor::new(&plan, &folder.trials_path())?;
        let greeting = WorkerGreeting {
            protocol: PROTOCOL,
            build: OwnBinary::open()?.digest,
            machine: survey::this_host(),
            survey: survey::survey_plan(&plan),
            trials: folder.trials_path().as_path().into(),
        };
        send(output, WorkerReply::Ready(Box::new(greeting)));
        Ok(Self {
            plan,
            folder,
            executor: Arc::new(executor),
            output: output.clone(),
            tasks: JoinSet::new(),
            halts: BTreeMap::new(),
            halt_making: watch::Sender::new(StopUrgency::No),
            halt_hook: watch::Sender::new(StopUrgency::No),
            last_trials: BTreeMap::new(),
        })
    }

    /// Follows orders until the connection is closed or silent.
    async fn follow_orders(&mut self, mut orders: mpsc::UnboundedReceiver<WorkerOrder>) {
        loop {
            tokio::select! {
                order = tokio::time::timeout(SILENCE, orders.recv()) => match order {
                    Ok(Some(order)) => self.follow_order(order),
                    Ok(None) | Err(_) => return,
                },
                Some(ended) = self.tasks.join_next() => {
                    if let Ok(Some(trial)) = ended {
                        self.halts.remove(&trial);
                    }
                }
            }
        }
    }

    fn follow_order(&mut self, order: WorkerOrder) {
        match order {
            WorkerOrder::Learn(id, variant) => self.learn_variant(id, *variant),
            WorkerOrder::Make(id) => self.make_variant(id),
            WorkerOrder::StopMaking => {
                self.halt_making.send_replace(StopUrgency::Now);
            }
            WorkerOrder::Run(trial) => self.run_trial(&trial),
            WorkerOrder::Halt(trial, level) => {
                if let Some(halt) = self.halts.get(&trial) {
                    halt.send_replace(level);
                }
            }
            WorkerOrder::Keep { lane, with_cores } => {
                let folder = self
                    .last_trials
                    .remove(&lane)
                    .map(|trial| self.trial_path(trial));
                let folder = folder.unwrap_or_else(|| self.folder.trials_path().join("none"));
                let _ = self.output.send(Output::Files {
                    lane,
                    folder,
                    with_cores,
                });
            }
            WorkerOrder::Hook(variant, command) => self.run_hook(variant, &command),
            WorkerOrder::HaltHook(level) => {
                self.halt_hook.send_replace(level);
            }
            WorkerOrder::Alive => {}
        }
    }

    fn trial_path(&self, trial: TrialId) -> PathBuf {
        self.folder.trials_path().join(trial.0.to_string())
    }

    fn learn_variant(&mut self, id: VariantId, variant: VariantPlan) {
        self.executor.learn_variant(id, &variant);
        match self.plan.variants.get_mut(id.index()) {
            Some(known) => *known = variant,
            None => self.plan.variants.push(variant),
        }
    }

    fn make_variant(&mut self, id: VariantId) {
        self.halt_making.send_replace(StopUrgency::No);
        let (executor, output) = (Arc::clone(&self.executor), self.output.clone());
        let making = executor.make_variant(id, self.halt_making.subscribe());
        self.tasks.spawn(async move {
            let made = making.await;
            let removed = executor.make_room();
            send(&output, WorkerReply::Made(id, made, removed));
            None
        });
    }

    fn run_hook(&mut self, variant: Option<VariantId>, command: &Text) {
        self.halt_hook.send_replace(StopUrgency::No);
        let output = self.output.clone();
        let running = self
            .executor
            .run_hook(variant, command, self.halt_hook.subscribe());
        self.tasks.spawn(async move {
            let result: io::Result<Option<FailedHook>> = running.await;
            let result = result.map_err(|error| error.to_string());
            send(&output, WorkerReply::Hooked(result));
            None
        });
    }

    fn run_trial(&mut self, trial: &Trial) {
        // A trial may be repeated in another slot.
        self.last_trials.retain(|_, last| *last != trial.id);
        // provoke did not want the files of the previous trial.
        if let Some(previous) = self.last_trials.insert(trial.lane, trial.id) {
            let _ = fs::remove_dir_all(self.trial_path(previous));
        }
        let halt = watch::Sender::new(StopUrgency::No);
        let (executor, output) = (Arc::clone(&self.executor), self.output.clone());
        let running = executor.run_trial(trial.clone(), halt.subscribe());
        let (id, lane) = (trial.id, trial.lane);
        self.halts.insert(id, halt);
        let (rules, folder) = (self.plan.rules.clone(), self.trial_path(id));
        let (variant, keep) = (
            self.plan.variant_plan(trial.variant).clone(),
            self.plan.keep,
        );
        self.tasks.spawn(async move {
            let observation: Observation = running.await;
            let outcome = oracle::judge_trial(&rules, &variant, &observation);
            if outcome != Outcome::Pass || keep == KeepRule::All {
                executor.keep_output(lane, folder, true).await;
            }
            send(&output, WorkerReply::Finished(id, Box::new(observation)));
            Some(id)
        });
    }

    /// Ends all processes. Returns the directory, whose files may still be sent.
    async fn close(mut self) -> WorkerFolder {
        self.halt_making.send_replace(StopUrgency::Now);
        self.halt_hook.send_replace(StopUrgency::Now);
        for halt in self.halts.values() {
            halt.send_replace(StopUrgency::Now);
        }
        while self.tasks.join_next().await.is_some() {}
        for complaint in self.executor.close().await {
            send(&self.output, WorkerReply::Complaint(complaint));
        }
        self.folder
    }
}
