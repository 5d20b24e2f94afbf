//! Runs trials on this machine, with one slot process per parallel job.

mod preparation;
mod trials;

pub use trials::longest_trial;

use super::case_reports::CaseReports;
use super::cwd_snapshot;
use super::evidence::CoreCollector;
use super::service::ServiceContext;
use super::setup_usage::UsageMonitor;
use super::slot_handle::{SlotHandle, StartedSlot};
use provoke_exec::{
    Executor, ExecutorFuture, PreparationResult, StopUrgency, TrialReporter, run_one_trial,
};
use provoke_judge as judge;
use provoke_levers::{TrialStart, names_secret};
use provoke_load::LoadProgress;
use provoke_model::{
    FailedHook, Observation, ReadyCondition, SlotId, Text, Trial, TrialConditions, TrialsPlan,
    VariantId, VariantPlan,
};
use provoke_prepare::{FolderGuard, VariantPreparer};
use provoke_slot::wire::{RunHook, VariantRecipe};
use provoke_sys::cgroup::DelegatedGroup;
use provoke_sys::engine::Engine;
use provoke_sys::engine::service::PodmanService;
use provoke_sys::held_folder::HeldFolder;
use provoke_sys::{cgroup, child, core_pattern, files, helper, process, signals};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, watch};

/// Time limit for killing the processes of a lost slot.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs trials in slot processes, which are started on demand.
pub struct LocalExecutor {
    shared: Arc<ExecutorContext>,
    slot_entries: Vec<Arc<Mutex<Option<SlotHandle>>>>,
    /// Slot that runs `setup` and `cleanup`, and contains the processes that they leave running.
    hook_slot: Arc<Mutex<Option<SlotHandle>>>,
    /// Working directory of the hooks, if it is not that of the first variant.
    cwd: Option<Text>,
}

struct ExecutorContext {
    /// Held until the end, so that a new slot gets a cgroup, too.
    _delegated_group: Option<Arc<DelegatedGroup>>,
    binary: PathBuf,
    /// Settings that all recipes share.
    common: VariantRecipe,
    /// The conditions of all variants.
    conditions: TrialConditions,
    recipes: Register<BTreeMap<VariantId, Arc<VariantRecipe>>>,
    maker: Arc<VariantPreparer>,
    /// Whether the directories of variants are built here; otherwise another provoke builds them in the same place.
    builds: bool,
    /// Slots that prepare variants in parallel.
    builders: Vec<Mutex<Option<SlotHandle>>>,
    /// Time limit for preparing a variant.
    patience: Duration,
    /// Variants whose `setup` has run.
    set_up: Register<BTreeSet<VariantId>>,
    collector: CoreCollector,
    /// Settings of services under load.
    load_context: Option<ServiceContext>,
    /// The reports of test runners about their cases.
    cases: Option<CaseReports>,
    usage: UsageMonitor,
    /// Held by a trial that may dump a core, if all cores have the same name and would overwrite
    /// each other.
    one_dump: Option<Mutex<()>>,
    /// API service of a container engine without a daemon.
    service: Register<Option<PodmanService>>,
    complaints: Register<Vec<String>>,
}

impl LocalExecutor {
    /// Creates an executor for a plan; each trial has a folder below `trials`.
    pub fn new(plan: &TrialsPlan, trials: &Path) -> io::Result<Self> {
        Self::with_builds(plan, trials, true)
    }

    /// Creates an executor for trials in directories that another provoke builds.
    pub fn without_builds(plan: &TrialsPlan, trials: &Path) -> io::Result<Self> {
        Self::with_builds(plan, trials, false)
    }

    fn with_builds(plan: &TrialsPlan, trials: &Path, builds: bool) -> io::Result<Self> {
        child::become_subreaper()?;
        let service = start_service(plan, trials);
        let mut common = VariantRecipe {
            variant: VariantPlan::default(),
            environment: plan.environment.clone(),
            prepare: plan.hooks.prepare.clone(),
            conclude: plan.hooks.conclude.clone(),
            start: TrialStart::new(&plan.conditions)?,
            cwd_snapshot: None,
            default_pids: cgroup::default_process_limit(plan.most_jobs()),
            settings: plan.settings.clone(),
            run: HeldFolder::above(trials)
                .map(|run| io::Result::Ok((run.path().into(), run.identity()?)))
                .transpose()?,
            scratch: plan.settings.scratch.then(|| trials.as_os_str().into()),
            evidence: Some(trials.as_os_str().into()),
            children: !plan.rules.ignore_child_crashes,
            leaks: plan.rules.leaks,
            service: service
                .as_ref()
                .map(|service| service.socket_path().as_os_str().into()),
            patterns: judge::output_patterns(&plan.rules),
            ready: plan.load.as_ref().and_then(|load| match &load.ready {
                ReadyCondition::Log(line) => Some(line.clone()),
                _ => None,
            }),
            cases: None,
        };
        let mut complaints = Vec::new();
        match cwd_snapshot::copy_before_trials(plan, trials) {
            Ok(snapshot) => common.cwd_snapshot = snapshot,
            Err(reason) => complaints.push(reason),
        }
        let cases = plan
            .cases
            .as_deref()
            .map(|cases| CaseReports::prepare(cases, plan, trials))
            .transpose()?;
        let parallel_builds = plan
            .space
            .as_ref()
            .map_or(0, |space| space.parallel_builds.max(1));
        let binary = std::env::current_exe()?;
        let shared = ExecutorContext {
            _delegated_group: cgroup::enter_delegated_group(),
            common,
            conditions: plan.conditions.clone(),
            recipes: Register::default(),
            maker: Arc::new(VariantPreparer::new(plan.space.as_ref())),
            builds,
            builders: (0..parallel_builds).map(|_| Mutex::default()).collect(),
            patience: plan.make_limit,
            set_up: Register::default(),
            collector: CoreCollector::new(trials, &binary),
            binary,
            load_context: plan.load.clone().map(|load| ServiceContext {
                load: Arc::new(load),
                space: plan.space.clone(),
                evidence: trials.to_owned(),
                live: Arc::default(),
            }),
            cases,
            usage: UsageMonitor::default(),
            one_dump: core_pattern::cores_overwrite_each_other().then(Mutex::default),
            service: Register::new(service),
            complaints: Register::new(complaints),
        };
        for (id, variant) in (0..).map(VariantId).zip(&plan.variants) {
            shared.learn_variant(id, variant);
        }
        Ok(Self {
            shared: Arc::new(shared),
            slot_entries: (0..plan.most_jobs()).map(|_| Arc::default()).collect(),
            hook_slot: Arc::default(),
            cwd: plan.hooks.cwd.clone(),
        })
    }
}

impl LocalExecutor {
    /// Uses a slot that was started before for the first job.
    pub fn with_started_slot(mut self, slot: StartedSlot) -> io::Result<Self> {
        let slot = SlotHandle::connect(slot)?;
        self.slot_entries[0] = Arc::new(Mutex::new(Some(slot)));
        Ok(self)
    }

    /// Builds the directory of a variant for trials elsewhere, without its `setup`.
    pub fn build_variant(
        &self,
        id: VariantId,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<PreparationResult> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.make_folder(id, &mut halt).await })
    }

    /// Prevents the removal of a variant's directory until the returned value is dropped.
    pub fn reserve_variant(&self, id: VariantId) -> Option<FolderGuard> {
        self.shared.maker.use_of(id)
    }

    /// Returns the live state of the load, if there is one.
    pub fn live_load(&self) -> Option<Arc<LoadProgress>> {
        let load_context = self.shared.load_context.as_ref();
        load_context.map(|load_context| Arc::clone(&load_context.live))
    }
}

impl Executor for LocalExecutor {
    fn learn_variant(&self, id: VariantId, variant: &VariantPlan) {
        self.shared.learn_variant(id, variant);
    }

    fn make_variant(
        &self,
        id: VariantId,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<PreparationResult> {
        let (shared, hook_slot) = (Arc::clone(&self.shared), Arc::clone(&self.hook_slot));
        Box::pin(async move { shared.make_variant(&hook_slot, id, &mut halt).await })
    }

    fn make_room(&self) -> Vec<VariantId> {
        let (removed, old) = self.shared.maker.make_room();
        if !old.is_empty() {
            tokio::task::spawn_blocking(move || {
                for folder in old {
                    // The end of the run removes the remaining files.
                    let _ = files::remove_tree(&folder);
                }
            });
        }
        removed
    }

    fn run_trial(
        &self,
        trial: Trial,
        halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        run_one_trial(self, trial, halt)
    }

    fn run_trials(
        &self,
        trials: Vec<Trial>,
        mut halt: watch::Receiver<StopUrgency>,
        mut report: TrialReporter,
    ) -> ExecutorFuture<()> {
        // Reserve the folders first, so that they are not evicted.
        let variants: BTreeSet<VariantId> = trials.iter().map(|trial| trial.variant).collect();
        let folder_guards: Vec<_> = variants
            .iter()
            .filter_map(|variant| self.shared.maker.use_of(*variant))
            .collect();
        let shared = Arc::clone(&self.shared);
        let slot_entry = trials.first().map(|trial| trial.slot);
        let slot_entry = Arc::clone(&self.slot_entries[slot_entry.unwrap_or_default().index()]);
        Box::pin(async move {
            let mut slot_entry = slot_entry.lock().await;
            shared
                .run_trials(&mut slot_entry, &trials, &mut halt, &mut report)
                .await;
            drop(folder_guards);
        })
    }

    fn keep_output(&self, slot_entry: SlotId, folder: PathBuf, _: bool) -> ExecutorFuture<()> {
        let (shared, slot_entry) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.slot_entries[slot_entry.index()]),
        );
        Box::pin(async move {
            let mut slot_entry = slot_entry.lock().await;
            if let Some(slot) = &mut *slot_entry
                && let Err(error) = slot.keep_folder(folder).await
            {
                shared.reap_lost_slot(&mut slot_entry, &error);
            }
        })
    }

    fn run_hook(
        &self,
        variant: Option<VariantId>,
        command: &Text,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<io::Result<Option<FailedHook>>> {
        let (shared, hook_slot) = (Arc::clone(&self.shared), Arc::clone(&self.hook_slot));
        let hook = RunHook {
            variant: variant.unwrap_or_default(),
            own: variant.is_some(),
            has_log: false,
            command: command.clone(),
            cwd: if variant.is_none() {
                self.cwd.clone()
            } else {
                None
            },
        };
        Box::pin(async move { shared.run_in_hook_slot(&hook_slot, &hook, &mut halt).await })
    }

    fn set_up(&self) -> Vec<VariantId> {
        let set_up = self.shared.set_up.lock().expect("no panic");
        set_up.iter().copied().collect()
    }

    fn clean_up(&self, folder: &Path, kept: &[VariantId]) {
        self.shared.maker.clean_up(folder, kept);
    }

    fn close(&self) -> ExecutorFuture<Vec<String>> {
        let (shared, hook_slot) = (Arc::clone(&self.shared), Arc::clone(&self.hook_slot));
        let slot_entries = self.slot_entries.clone();
        Box::pin(async move {
            let mut slots = vec![hook_slot.lock().await.take()];
            for slot_entry in &slot_entries {
                slots.push(slot_entry.lock().await.take());
            }
            for builder in &shared.builders {
                slots.push(builder.lock().await.take());
            }
            let mut slots: Vec<SlotHandle> = slots.into_iter().flatten().collect();
            // All of them end at the same time.
            for slot in &mut slots {
                slot.close().await;
            }
            let mut complaints = std::mem::take(&mut *shared.complaints.lock().expect("no panic"));
            for slot in slots {
                complaints.extend(slot.wait_for_end().await);
            }
            let complaints = fold_complaints(complaints);
            if let Some(cases) = &shared.cases {
                cases.remove_shared_file();
            }
            if let Some((_, snapshot)) = &shared.common.cwd_snapshot {
                let _ = files::remove_tree(Path::new(snapshot.as_os_str()));
            }
            drop(shared.service.lock().expect("no panic").take());
            // A slot that crashed may have left orphans, which are now children of provoke.
            shared.kill_orphans();
            complaints
        })
    }
}

/// Starts the API service of the engine that runs the containers of a plan, if there are any.
fn start_service(plan: &TrialsPlan, trials: &Path) -> Option<PodmanService> {
    let template = plan.space.iter().map(|space| &space.template);
    let variants = plan.variants.iter().chain(template);
    let mut actors = variants.flat_map(|variant| &variant.actors);
    let container = actors.find_map(|actor| actor.container.as_ref())?;
    // Without the service, provoke queries the engine with its command line client.
    PodmanService::start_for_engine(&Engine::find_in_path(&container.engine)?, trials).ok()
}

/// Returns each distinct complaint once, with the number of its occurrences.
fn fold_complaints(complaints: Vec<String>) -> Vec<String> {
    let mut folded: Vec<(String, u64)> = Vec::new();
    for text in complaints {
        match folded
            .iter_mut()
            .find(|(known_text, _)| *known_text == text)
        {
            Some((_, times)) => *times += 1,
            None => folded.push((text, 1)),
        }
    }
    let lines = folded.into_iter().map(|(text, times)| match times {
        1 => text,
        times => format!("{text} ({times} times)"),
    });
    lines.collect()
}

impl ExecutorContext {
    /// Runs a hook in the slot of `setup` and `cleanup`.
    async fn run_in_hook_slot(
        &self,
        hook_slot: &Mutex<Option<SlotHandle>>,
        hook: &RunHook,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> io::Result<Option<FailedHook>> {
        let mut hook_slot = hook_slot.lock().await;
        let result = self
            .run_hook(&mut hook_slot, hook, halt)
            .await
            .map_err(|error| io::Error::other(self.reap_lost_slot(&mut hook_slot, &error)));
        self.usage
            .set_hook_slot(hook_slot.as_ref().map(SlotHandle::pid));
        result
    }

    /// Runs blocking work on a separate thread.
    async fn spawn_blocking<T: Send + 'static>(
        self: &Arc<Self>,
        action: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, String> {
        let shared = Arc::clone(self);
        let result = tokio::task::spawn_blocking(move || action(&shared)).await;
        result.map_err(|error| error.to_string())
    }

    fn learn_variant(&self, id: VariantId, variant: &VariantPlan) {
        let VariantRecipe {
            prepare, conclude, ..
        } = self.common.clone();
        let start = match variant.conditions.all().next() {
            Some(_) => TrialStart::or_refusal(&self.conditions.with_others(&variant.conditions)),
            None => self.common.start.clone(),
        };
        let mut environment = self.common.environment.clone();
        if start.hides_secrets {
            environment.retain(|(name, _)| !names_secret(name));
        }
        let mut recipe = VariantRecipe {
            variant: variant.clone(),
            environment,
            start,
            prepare: variant.hooks.prepare.clone().or(prepare),
            conclude: variant.hooks.conclude.clone().or(conclude),
            ..self.common.clone()
        };
        if let Some(cases) = &self.cases {
            cases.adapt_recipe(&mut recipe);
        }
        let mut recipes = self.recipes.lock().expect("no panic");
        recipes.insert(id, Arc::new(recipe));
    }

    fn recipe_of(&self, id: VariantId) -> Arc<VariantRecipe> {
        Arc::clone(&self.recipes.lock().expect("no panic")[&id])
    }

    /// Returns the slot of a job for its next order, and starts it if there is none or it has ended.
    fn started_slot<'a>(
        &self,
        slot_entry: &'a mut Option<SlotHandle>,
    ) -> io::Result<&'a mut SlotHandle> {
        if slot_entry.as_mut().is_some_and(SlotHandle::has_ended) {
            // Something killed it between two orders, so no trial is lost.
            self.reap_slot(slot_entry.take());
        }
        match slot_entry {
            Some(slot) => Ok(slot),
            None => {
                let slot = SlotHandle::connect(StartedSlot::start_from(&self.binary)?)?;
                Ok(slot_entry.insert(slot))
            }
        }
    }

    async fn run_hook(
        &self,
        hook_slot: &mut Option<SlotHandle>,
        hook: &RunHook,
        halt: &mut watch::Receiver<StopUrgency>,
    ) -> io::Result<Option<FailedHook>> {
        let slot = self.started_slot(hook_slot)?;
        slot.learn_variant(hook.variant, || self.recipe_of(hook.variant))
            .await?;
        slot.run_hook(hook, halt).await
    }

    /// Reaps the slot that lost a trial. Returns a description.
    fn reap_lost_slot(&self, slot_entry: &mut Option<SlotHandle>, error: &io::Error) -> String {
        let Some((mut complaints, end_text)) = self.reap_slot(slot_entry.take()) else {
            return format!("cannot start its slot: {error}");
        };
        if complaints.is_empty() {
            complaints.push(error.to_string());
        }
        format!("its slot was lost: {} ({end_text})", complaints.join("; "))
    }

    /// Kills a slot with its remaining processes, and removes its containers. Returns its complaints, and how it ended.
    fn reap_slot(&self, slot: Option<SlotHandle>) -> Option<(Vec<String>, String)> {
        let mut slot = slot?;
        let end_text = slot.kill_and_wait();
        self.kill_orphans();
        cgroup::remove_cpu_group(slot.pid());
        for engine in self.plan_engines() {
            engine.remove_orphans(Some(slot.pid()));
        }
        Some((slot.complaints, end_text))
    }

    /// Returns the engines that run containers of the plan.
    fn plan_engines(&self) -> Vec<Engine> {
        let recipes = self.recipes.lock().expect("no panic");
        let actors = recipes.values().flat_map(|recipe| &recipe.variant.actors);
        let containers = actors.filter_map(|actor| actor.container.as_ref());
        let names: BTreeSet<&str> = containers
            .map(|container| container.engine.as_str())
            .collect();
        names.into_iter().filter_map(Engine::find_in_path).collect()
    }

    /// Kills all children of provoke that are neither helpers nor the API service: the orphans of a lost slot. Does not
    /// wait for processes that cannot be killed.
    fn kill_orphans(&self) {
        let own_pid = std::process::id().cast_signed();
        let service = self.service.lock().expect("no panic");
        let service_pid = service.as_ref().map(PodmanService::pid);
        let patience = Instant::now() + PATIENCE;
        while Instant::now() < patience {
            let children = process::child_pids(own_pid);
            let helpers = helper::running_pids();
            let strays: Vec<i32> = children
                .into_iter()
                .filter(|pid| !helpers.contains(pid) && Some(*pid) != service_pid)
                .collect();
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                let pids = process::descendant_pids(stray).into_iter().chain([stray]);
                pids.for_each(|pid| drop(signals::send_signal(pid, Signal::KILL)));
                child::reap_if_ended(stray);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
