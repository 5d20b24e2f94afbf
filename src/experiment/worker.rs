//! Worker: runs trials for a provoke on another machine, which started it and reads its stdout.

use super::core_limits::no_cores;
use super::engine;
use super::preflight::{check_commands, check_plan, fit_to_this_machine};
use crate::trace::WorkerTrace;
use provoke_exec::{Executor as _, StopUrgency};
use provoke_hosts::SILENCE;
use provoke_hosts::wire::{
    MAX_FILE_COUNT, MAX_FILES, MAX_LINE, SharedFile, WorkerGreeting, WorkerOrder, WorkerReply,
    WorkerTask,
};
use provoke_judge as judge;
use provoke_local::LocalExecutor;
use provoke_model::{
    FailedHook, KeepRule, Observation, Outcome, SlotId, Text, Trial, TrialId, TrialsPlan,
    VariantId, VariantPlan,
};
use provoke_survey as survey;
use provoke_sys::private_folder::PrivateFolder;
use provoke_sys::{cgroup, files, host, signals};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// Pause after which a message shows that the connection works.
const PULSE: Duration = Duration::from_secs(1);

/// Time in which the last files are sent.
const SEND_WITHIN: Duration = Duration::from_secs(120);
/// Time in which the last message is sent.
const CLOSE_WITHIN: Duration = Duration::from_secs(10);
/// File with the trace of the worker in the evidence of a trial.
const TRACE_FILE: &str = "worker.log";
/// Interval between checks whether it is sent.
const PAUSE: Duration = Duration::from_millis(2);

/// Something that is written to stdout.
enum Output {
    Reply(Box<WorkerReply>),
    /// The files of the last trial of a slot; they are removed afterwards.
    Files {
        slot: SlotId,
        folder: PathBuf,
        with_cores: bool,
    },
    /// Replies when everything before it is written.
    Written(std_mpsc::Sender<()>),
}

/// Runs trials until the connection is closed.
pub(super) fn serve() -> io::Result<()> {
    let trace = WorkerTrace::begin()?;
    let mut input = io::stdin().lock();
    let (output, writer) = start_writer(trace);
    let task: WorkerTask = read_line(&mut input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    drop(input);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let folder = runtime.block_on(async {
        let mut worker = match Worker::begin(task, &output) {
            Ok(worker) => worker,
            Err(error) => {
                let hint = error.hints.first().cloned();
                send(&output, WorkerReply::Refused(error.in_a_line(), hint));
                return None;
            }
        };
        worker.follow_orders(read_orders()).await;
        Some(worker.close().await)
    });
    // Files of trials may still be sent, unless the connection is blocked.
    let (sender, written) = std_mpsc::channel();
    let _ = output.send(Output::Written(sender));
    let _ = written.recv_timeout(SEND_WITHIN);
    // provoke may end the job of this process as soon as it receives the next message.
    if folder.is_some() {
        drop(folder);
        send(&output, WorkerReply::Closed);
    }
    drop(output);
    let deadline = Instant::now() + CLOSE_WITHIN;
    while !writer.is_finished() && Instant::now() < deadline {
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn send(output: &std_mpsc::Sender<Output>, reply: WorkerReply) {
    // Without a writer, the connection is closed, which ends the worker.
    let _ = output.send(Output::Reply(Box::new(reply)));
}

/// Starts the thread that writes to stdout. Even if all trials and their analysis keep the worker busy, it shows every
/// second that the connection works.
fn start_writer(
    mut trace: Option<WorkerTrace>,
) -> (std_mpsc::Sender<Output>, thread::JoinHandle<()>) {
    let (sender, receiver) = std_mpsc::channel();
    let writer = thread::spawn(move || {
        let mut stdout = io::stdout().lock();
        loop {
            let written = match receiver.recv_timeout(PULSE) {
                Ok(Output::Reply(reply)) => write_reply(&mut stdout, &reply),
                Ok(Output::Files {
                    slot,
                    folder,
                    with_cores,
                }) => write_files(&mut stdout, slot, &folder, with_cores, trace.as_mut()),
                Ok(Output::Written(sender)) => {
                    // The receiver may wait no longer.
                    let _ = sender.send(());
                    Ok(())
                }
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
    slot: SlotId,
    folder: &Path,
    with_cores: bool,
    trace: Option<&mut WorkerTrace>,
) -> io::Result<()> {
    let (mut bytes_left, mut files_left) = (MAX_FILES, MAX_FILE_COUNT);
    let mut is_complete = true;
    for path in files_below(folder) {
        if !with_cores && is_core(&path) {
            continue;
        }
        let Ok(file) = files::regular_itself(&path) else {
            continue;
        };
        let (Ok(metadata), Ok(name)) = (file.metadata(), path.strip_prefix(folder)) else {
            continue;
        };
        let size = metadata.len();
        if size > bytes_left || files_left == 0 {
            is_complete = false;
            continue;
        }
        (bytes_left, files_left) = (bytes_left - size, files_left - 1);
        let path = name.into();
        write_reply(out, &WorkerReply::File { slot, path, size })?;
        let copied = io::copy(&mut file.take(size), out)?;
        // Nobody writes to the files of a trial that has ended, but a missing part would shift all messages.
        io::copy(&mut io::repeat(0).take(size - copied), out)?;
    }
    if let Some(trace) = trace {
        let part = trace.take_part()?;
        let (path, size) = (TRACE_FILE.into(), part.len() as u64);
        write_reply(out, &WorkerReply::File { slot, path, size })?;
        out.write_all(&part)?;
    }
    if !is_complete {
        let text = "a trial has too many or too large files to be copied".to_owned();
        write_reply(out, &WorkerReply::Complaint(text))?;
    }
    write_reply(out, &WorkerReply::Kept(slot))?;
    let _ = files::remove_tree(folder);
    Ok(())
}

fn is_core(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("core."))
}

/// Returns the regular files below a directory.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in files::folder_entries(folder).into_iter().flatten() {
        match files::metadata_itself(&path) {
            Ok(metadata) if metadata.is_dir() => found.extend(files_below(&path)),
            Ok(metadata) if metadata.is_file() => found.push(path),
            _ => {}
        }
    }
    found
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
    plan: Arc<TrialsPlan>,
    folder: PrivateFolder,
    trials_path: PathBuf,
    executor: Arc<LocalExecutor>,
    output: std_mpsc::Sender<Output>,
    tasks: JoinSet<()>,
    /// Ends the trials of each slot.
    halts: BTreeMap<SlotId, watch::Sender<StopUrgency>>,
    stop_preparation: watch::Sender<StopUrgency>,
    halt_hook: watch::Sender<StopUrgency>,
    /// The last trial of each slot, while its files are here.
    last_trials: LastTrials,
}

type LastTrials = Arc<Mutex<BTreeMap<SlotId, TrialId>>>;

impl Worker {
    /// Checks the plan, and starts the executor.
    fn begin(task: WorkerTask, output: &std_mpsc::Sender<Output>) -> Result<Self, Diagnostic> {
        if let Some(file) = &task.shared_file
            && !file.is_seen()
        {
            return Err(refuse_unseen(file));
        }
        signals::survive_file_size_limit();
        let mut plan = *task.plan;
        check_plan(&plan)?;
        fit_to_this_machine(&mut plan)?;
        if let Some(note) = engine::sweep_containers(&plan) {
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
        plan.settings.no_cores = no_cores(&plan);
        let folder = PrivateFolder::new("worker")?;
        let trials_path = folder.path().join("trials");
        files::create_private_folder(&trials_path)?;
        let executor = LocalExecutor::without_builds(&plan, &trials_path)?;
        let greeting = WorkerGreeting {
            boot_id: host::boot_id(),
            machine: survey::this_host(),
            survey: survey::survey_plan(&plan),
            trials: trials_path.as_path().into(),
        };
        send(output, WorkerReply::Ready(Box::new(greeting)));
        Ok(Self {
            plan: Arc::new(plan),
            folder,
            trials_path,
            executor: Arc::new(executor),
            output: output.clone(),
            tasks: JoinSet::new(),
            halts: BTreeMap::new(),
            stop_preparation: watch::Sender::new(StopUrgency::No),
            halt_hook: watch::Sender::new(StopUrgency::No),
            last_trials: LastTrials::default(),
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
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    fn follow_order(&mut self, order: WorkerOrder) {
        match order {
            WorkerOrder::Learn(id, variant) => self.learn_variant(id, *variant),
            WorkerOrder::Make(id) => self.make_variant(id),
            WorkerOrder::StopPreparation => {
                self.stop_preparation.send_replace(StopUrgency::Now);
            }
            WorkerOrder::Run(slot, trials) => self.run_trials(slot, trials),
            WorkerOrder::Halt(slot, level) => {
                if let Some(halt) = self.halts.get(&slot) {
                    halt.send_replace(level);
                }
            }
            WorkerOrder::Keep { slot, with_cores } => {
                let mut last_trials = self.last_trials.lock().expect("no panic");
                let trial = last_trials.remove(&slot);
                let name = trial.map_or_else(|| "none".to_owned(), |trial| trial.0.to_string());
                let folder = self.trials_path.join(name);
                let _ = self.output.send(Output::Files {
                    slot,
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

    fn learn_variant(&mut self, id: VariantId, variant: VariantPlan) {
        self.executor.learn_variant(id, &variant);
        let variants = &mut Arc::make_mut(&mut self.plan).variants;
        match variants.get_mut(id.index()) {
            Some(known) => *known = variant,
            None => variants.push(variant),
        }
    }

    fn make_variant(&mut self, id: VariantId) {
        self.stop_preparation.send_replace(StopUrgency::No);
        let (executor, output) = (Arc::clone(&self.executor), self.output.clone());
        let preparing = executor.make_variant(id, self.stop_preparation.subscribe());
        self.tasks.spawn(async move {
            let made = preparing.await;
            send(&output, WorkerReply::Made(id, made));
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
        });
    }

    fn run_trials(&mut self, slot: SlotId, trials: Vec<Trial>) {
        let halt = watch::Sender::new(StopUrgency::No);
        let (sender, mut finished) = mpsc::unbounded_channel();
        let variants = trials.iter().map(|trial| (trial.id, trial.variant));
        let worker_slot = WorkerSlot {
            slot,
            plan: Arc::clone(&self.plan),
            variants: variants.collect(),
            executor: Arc::clone(&self.executor),
            trials_path: self.trials_path.clone(),
            last_trials: Arc::clone(&self.last_trials),
        };
        let report = move |id, observation| {
            // The receiver exists as long as the trials.
            let _ = sender.send((id, observation));
        };
        let running = self
            .executor
            .run_trials(trials, halt.subscribe(), Box::new(report));
        self.halts.insert(slot, halt);
        let output = self.output.clone();
        self.tasks.spawn(async move {
            let sending = async {
                while let Some((id, observation)) = finished.recv().await {
                    worker_slot.keep_files(id, &observation).await;
                    let reply = WorkerReply::Finished(slot, id, Box::new(observation));
                    send(&output, reply);
                }
            };
            tokio::join!(running, sending);
            send(&output, WorkerReply::Idle(slot));
        });
    }

    /// Ends all processes. Returns the directory, whose files may still be sent.
    async fn close(mut self) -> PrivateFolder {
        self.stop_preparation.send_replace(StopUrgency::Now);
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

/// Refuses trials in directories that this host does not see.
fn refuse_unseen(file: &SharedFile) -> Diagnostic {
    let path = Path::new(file.path.as_os_str());
    let run = path.ancestors().nth(2).unwrap_or(path);
    let error = format!(
        "it does not see `{}`, where provoke builds or changes the variants",
        run.to_safe()
    );
    let hint = "choose a directory that all hosts share with -o, or leave out --on";
    Diagnostic::could_not(error).with_hint(hint)
}

/// The trials of a slot while they run.
struct WorkerSlot {
    slot: SlotId,
    plan: Arc<TrialsPlan>,
    variants: BTreeMap<TrialId, VariantId>,
    executor: Arc<LocalExecutor>,
    trials_path: PathBuf,
    last_trials: LastTrials,
}

impl WorkerSlot {
    /// Writes the files of a finished trial if provoke may want them, and removes those of the previous one, which it did
    /// not want.
    async fn keep_files(&self, id: TrialId, observation: &Observation) {
        let folder_of = |id: TrialId| self.trials_path.join(id.0.to_string());
        let previous = {
            let mut last_trials = self.last_trials.lock().expect("no panic");
            // A trial may be repeated in another slot.
            last_trials.retain(|_, last| *last != id);
            last_trials.insert(self.slot, id)
        };
        if let Some(previous) = previous {
            let _ = files::remove_tree(&folder_of(previous));
        }
        let variant = self.variants.get(&id).copied().unwrap_or_default();
        let variant = self.plan.variant_plan(variant);
        let outcome = judge::judge_trial(&self.plan.rules, variant, observation);
        if outcome != Outcome::Pass || self.plan.settings.keep == KeepRule::All {
            self.executor
                .keep_output(self.slot, folder_of(id), true)
                .await;
        }
    }
}
