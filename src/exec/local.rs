//! Runs trials on this machine, with one slot process per parallel job.

mod making;

use super::around::Watch;
use super::door::Doors;
use super::evidence::Collector;
use super::lane::Slot;
use super::life::Lives;
use super::{Answer, Executor, Halt, Made};
use crate::load::Live;
use crate::model::{
    Capture, HookSeen, Lane, Observation, Owner, Plan, Ready, Text, Trial, VariantId, VariantPlan,
};
use crate::oracle;
use crate::prepare::Maker;
use crate::slot;
use crate::slot::wire::{Hook, Recipe};
use crate::sys::engine::Engine;
use crate::sys::engine::service::Service;
use crate::sys::{child, core_pattern, process, signals, user};
use crate::untrusted::Untrusted as _;
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Mutex, watch};

/// What a lost slot left is killed for so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time for everything that has no limit elsewhere: to look into a hang, to kill
/// what is left, to ask an engine of containers.
const TO_LOOK_AND_KILL: Duration = Duration::from_secs(120);

/// Runs trials in slot processes, which are started when they are needed.
pub struct Local {
    shared: Arc<Shared>,
    lanes: Vec<Arc<Mutex<Option<Slot>>>>,
    /// The slot in which `setup` and `cleanup` run, and what they leave lives.
    steward: Arc<Mutex<Option<Slot>>>,
    /// Where they run, if not where the first variant does.
    cwd: Option<Text>,
}

struct Shared {
    binary: PathBuf,
    /// What all recipes have in common.
    common: Recipe,
    recipes: Register<BTreeMap<VariantId, Arc<Recipe>>>,
    maker: Arc<Maker>,
    /// The slots in which variants are made, side by side.
    makers: Vec<Mutex<Option<Slot>>>,
    /// How long that may take.
    patience: Duration,
    /// Variants whose `setup` is done.
    set_up: Register<BTreeSet<VariantId>>,
    collector: Collector,
    /// Of services under load.
    lives: Option<Lives>,
    around: Watch,
    /// Where it is watched what trials have an engine make.
    doors: Option<Doors>,
    /// Held by a trial that may dump a core, where all cores have one name and would
    /// overwrite each other.
    one_dump: Option<Mutex<()>>,
    /// That of the engine, where it has no daemon.
    service: Register<Option<Service>>,
    /// It, and slots that are up: whatever else is a child of ours was lost by one that is not.
    pids: Register<Vec<i32>>,
    complaints: Register<Vec<String>>,
}

impl Local {
    /// Makes an executor for a plan. Below `trials` each trial has its folder.
    pub fn new(plan: &Plan, trials: &Path) -> io::Result<Self> {
        child::become_subreaper()?;
        let service = service(plan, trials);
        let doors = plan
            .watch_engine
            .then(|| Doors::open(plan.most_jobs(), trials));
        let doors = doors.transpose()?;
        let identity = plan.user.as_deref().map(|name| {
            let user = user::find(name).map(|user| user.identity());
            user.ok_or_else(|| io::Error::other(format!("there is no user `{}`", name.safe())))
        });
        let identity = identity.transpose()?;
        let common = Recipe {
            variant: VariantPlan::default(),
            environment: plan.environment.clone(),
            prepare: plan.hooks.prepare.clone(),
            conclude: plan.hooks.conclude.clone(),
            limits: plan.limits.clone(),
            memory: plan.memory,
            cores: plan.cores,
            capture: plan.capture == Capture::On && plan.no_cores.is_none(),
            trace: plan.capture == Capture::Trace,
            identity,
            scratch: plan.scratch.then(|| trials.as_os_str().into()),
            evidence: Some(trials.as_os_str().into()),
            children: !plan.rules.ignore_child_crashes,
            grace: plan.grace,
            settle: plan.settle,
            leaks: plan.rules.leaks,
            service: service.as_ref().map(|one| one.socket().as_os_str().into()),
            door: doors.as_ref().map(Doors::known),
            patterns: oracle::patterns(&plan.rules),
            ready: plan.load.as_ref().and_then(|load| match &load.ready {
                Ready::Log(line) => Some(line.clone()),
                _ => None,
            }),
        };
        let makers = plan.space.as_ref().map_or(0, |space| space.makers.max(1));
        let shared = Shared {
            binary: std::env::current_exe()?,
            common,
            recipes: Register::default(),
            maker: Arc::new(Maker::new(plan.space.as_ref())),
            makers: (0..makers).map(|_| Mutex::default()).collect(),
            patience: plan.make_limit,
            set_up: Register::default(),
            collector: Collector::new(trials),
            lives: plan.load.clone().map(|load| Lives {
                load: Arc::new(load),
                evidence: trials.to_owned(),
                live: Arc::default(),
            }),
            around: Watch::default(),
            doors,
            one_dump: core_pattern::overwrites().then(Mutex::default),
            pids: Register::new(service.iter().map(Service::pid).collect()),
            service: Register::new(service),
            complaints: Register::default(),
        };
        for (id, variant) in (0..).map(VariantId).zip(&plan.variants) {
            shared.learn(id, variant);
        }
        Ok(Self {
            shared: Arc::new(shared),
            lanes: (0..plan.most_jobs()).map(|_| Arc::default()).collect(),
            steward: Arc::default(),
            cwd: plan.hooks.cwd.clone(),
        })
    }

    /// Runs a command around the whole run, for one variant or for all, until it ends or is
    /// halted; what it leaves behind lives until the end.
    pub async fn hook(
        &self,
        variant: Option<VariantId>,
        command: &Text,
        mut halt: watch::Receiver<Halt>,
    ) -> io::Result<Option<HookSeen>> {
        let hook = Hook {
            variant: variant.unwrap_or_default(),
            own: variant.is_some(),
            command: command.clone(),
            cwd: self.cwd.clone().filter(|_| variant.is_none()),
        };
        self.shared.steward(&self.steward, &hook, &mut halt).await
    }

    /// Returns how the load is going, where there is one.
    pub fn live(&self) -> Option<Arc<Live>> {
        let lives = self.shared.lives.as_ref();
        lives.map(|lives| Arc::clone(&lives.live))
    }

    /// Returns the variants of a search whose `setup` was run.
    pub fn set_up(&self) -> Vec<VariantId> {
        let set_up = self.shared.set_up.lock().expect("no panic");
        set_up.iter().copied().collect()
    }

    /// Removes the folders below this one that were made for variants, but for some.
    pub fn clean_up(&self, below: &Path, kept: &[VariantId]) {
        self.shared.maker.clean_up(below, kept);
    }

    /// Ends every slot, and with it whatever still lives below one. Returns what
    /// could not be done on the way.
    pub async fn close(&self) -> Vec<String> {
        let mut slots = vec![self.steward.lock().await.take()];
        for lane in &self.lanes {
            slots.push(lane.lock().await.take());
        }
        for maker in &self.shared.makers {
            slots.push(maker.lock().await.take());
        }
        let mut complaints = std::mem::take(&mut *self.shared.complaints.lock().expect("no panic"));
        for slot in slots.into_iter().flatten() {
            complaints.extend(slot.close().await);
        }
        let complaints = folded(complaints);
        drop(self.shared.service.lock().expect("no panic").take());
        // A slot that died on the way may have left something to us.
        self.shared.pids.lock().expect("no panic").clear();
        self.shared.sweep();
        complaints
    }
}

impl Executor for Local {
    fn learn(&self, id: VariantId, variant: &VariantPlan) {
        self.shared.learn(id, variant);
    }

    fn make(&self, id: VariantId, mut halt: watch::Receiver<Halt>) -> Answer<Made> {
        let (shared, steward) = (Arc::clone(&self.shared), Arc::clone(&self.steward));
        Box::pin(async move { shared.make(&steward, id, &mut halt).await })
    }

    fn make_room(&self) -> Vec<VariantId> {
        let (gone, old) = self.shared.maker.make_room();
        if !old.is_empty() {
            tokio::task::spawn_blocking(move || {
                for folder in old {
                    // What is left of it is removed at the end of the run.
                    let _ = fs::remove_dir_all(folder);
                }
            });
        }
        gone
    }

    fn run(&self, trial: Trial, mut halt: watch::Receiver<Halt>) -> Answer<Observation> {
        // Before anything else can remove the folder.
        let used = self.shared.maker.use_of(trial.variant);
        let (shared, lane) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.lanes[trial.lane.index()]),
        );
        Box::pin(async move {
            let _used = used;
            let mut lane = lane.lock().await;
            let alone = shared.one_dump.as_ref().filter(|_| shared.dumps(&trial));
            let _alone = match alone {
                Some(alone) => Some(alone.lock().await),
                None => None,
            };
            let began = SystemTime::now();
            let mut done = shared.run(&mut lane, &trial, &mut halt).await;
            if let Ok(seen) = &mut done {
                seen.around = shared.around.look();
            }
            match done {
                Ok(seen) if leaves_more(&seen) || shared.dumps(&trial) => {
                    Arc::clone(&shared).look_closer(&trial, began, seen).await
                }
                Ok(seen) => seen,
                Err(error) => {
                    let lost = shared.lose(&mut lane, &error);
                    if let Some(doors) = &shared.doors {
                        doors.tidy(trial.lane);
                    }
                    Observation {
                        lost: Some(lost),
                        ..Observation::default()
                    }
                }
            }
        })
    }

    fn keep(&self, lane: Lane, folder: PathBuf) -> Answer<()> {
        let (shared, lane) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.lanes[lane.index()]),
        );
        Box::pin(async move {
            let mut lane = lane.lock().await;
            if let Some(slot) = &mut *lane
                && let Err(error) = slot.keep(folder).await
            {
                shared.lose(&mut lane, &error);
            }
        })
    }
}

/// Starts the service of the engine that runs the containers of a plan, if it has one.
fn service(plan: &Plan, trials: &Path) -> Option<Service> {
    let template = plan.space.iter().map(|space| &space.template);
    let variants = plan.variants.iter().chain(template);
    let mut actors = variants.flat_map(|variant| &variant.actors);
    let container = actors.find_map(|actor| actor.container.as_ref())?;
    // Without it, questions are asked by clients.
    Service::start(&Engine::find(&container.engine)?, trials).ok()
}

/// Returns each complaint once, with how often it came.
fn folded(complaints: Vec<String>) -> Vec<String> {
    let mut folded: Vec<(String, u64)> = Vec::new();
    for text in complaints {
        match folded.iter_mut().find(|(known, _)| *known == text) {
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

/// Returns how long a slot may take for a trial, if everything takes as long as it may.
fn longest(trial: &Trial, recipe: &Recipe) -> Duration {
    let hooks = [&recipe.prepare, &recipe.conclude];
    let hooks = hooks.into_iter().flatten().count();
    let hooks = (slot::HOOK_TIMEOUT + recipe.grace) * u32::try_from(hooks).unwrap_or(0);
    let parts = [recipe.grace, recipe.settle, hooks, TO_LOOK_AND_KILL];
    parts
        .into_iter()
        .fold(trial.timeout, Duration::saturating_add)
}

/// True for a trial that left what is read after its end: cores that we wrote, or lines of the
/// kernel's log.
fn leaves_more(seen: &Observation) -> bool {
    let leaked = &seen.residue.leaked;
    let traced = !seen.cores.is_empty();
    traced
        || seen.hang.is_some()
        || !seen.kernel.is_empty()
        || leaked.iter().any(|process| process.core.is_some())
}

impl Shared {
    /// Runs a hook in the steward's slot.
    async fn steward(
        &self,
        steward: &Mutex<Option<Slot>>,
        hook: &Hook,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Option<HookSeen>> {
        let mut steward = steward.lock().await;
        let done = self.hook(&mut steward, hook, halt).await;
        let done = done.map_err(|error| io::Error::other(self.lose(&mut steward, &error)));
        self.around.below(steward.as_ref().map(Slot::pid));
        done
    }

    /// Does what takes long, and no waiting for others.
    async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        what: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, String> {
        let shared = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || what(&shared)).await;
        done.map_err(|error| error.to_string())
    }

    fn learn(&self, id: VariantId, variant: &VariantPlan) {
        let Recipe {
            prepare, conclude, ..
        } = self.common.clone();
        let recipe = Recipe {
            variant: variant.clone(),
            prepare: variant.hooks.prepare.clone().or(prepare),
            conclude: variant.hooks.conclude.clone().or(conclude),
            ..self.common.clone()
        };
        let mut recipes = self.recipes.lock().expect("no panic");
        recipes.insert(id, Arc::new(recipe));
    }

    fn recipe(&self, id: VariantId) -> Arc<Recipe> {
        Arc::clone(&self.recipes.lock().expect("no panic")[&id])
    }

    /// True when the kernel may dump cores of this trial.
    fn dumps(&self, trial: &Trial) -> bool {
        trial.capture || self.common.capture
    }

    /// Takes what a trial left behind, before the next one of its lane begins.
    async fn look_closer(
        self: Arc<Self>,
        trial: &Trial,
        began: SystemTime,
        mut seen: Observation,
    ) -> Observation {
        let dumped = self.dumps(trial);
        let (trial, recipe) = (trial.clone(), self.recipe(trial.variant));
        let looked = self.aside(move |shared| {
            let variant = &recipe.variant;
            if dumped {
                shared.collector.collect(&trial, variant, began, &mut seen);
            }
            shared.collector.examine(trial.id.0, variant, &mut seen);
            shared.collector.name_places(variant, began, &mut seen);
            seen
        });
        // Only a bug of ours can fail this; the trial is lost, and no more.
        looked.await.unwrap_or_else(|lost| Observation {
            lost: Some(lost),
            ..Observation::default()
        })
    }

    /// Returns the slot of a lane, started if need be.
    fn up<'a>(&self, lane: &'a mut Option<Slot>) -> io::Result<&'a mut Slot> {
        if lane.is_none() {
            let slot = Slot::start(&self.binary)?;
            self.pids.lock().expect("no panic").push(slot.pid());
            *lane = Some(slot);
        }
        Ok(lane.as_mut().expect("just filled"))
    }

    async fn hook(
        &self,
        steward: &mut Option<Slot>,
        hook: &Hook,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Option<HookSeen>> {
        let slot = self.up(steward)?;
        slot.learn(hook.variant, &self.recipe(hook.variant)).await?;
        slot.hook(hook, halt).await
    }

    async fn run(
        &self,
        lane: &mut Option<Slot>,
        trial: &Trial,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Observation> {
        let recipe = self.recipe(trial.variant);
        if let Some(lives) = self
            .lives
            .as_ref()
            .filter(|lives| lives.load.owner != Owner::Provoke)
        {
            return Ok(lives.attach(trial, &recipe.variant, halt).await);
        }
        if let Some(lives) = &self.lives
            && let Some(seen) = lives.in_the_way(trial, &recipe.variant).await
        {
            return Ok(seen);
        }
        let slot = self.up(lane)?;
        slot.learn(trial.variant, &recipe).await?;
        slot.answer_within(longest(trial, &recipe));
        slot.take_was_stopped();
        if let Some(doors) = &self.doors {
            doors.enter(trial);
        }
        let mut seen = match &self.lives {
            Some(lives) => lives.run(slot, trial, &recipe.variant, halt).await?,
            None => slot.run(trial, halt).await?,
        };
        if slot.take_was_stopped() {
            seen.lost = Some("its slot was stopped by a signal and continued".to_owned());
        }
        self.complaints
            .lock()
            .expect("no panic")
            .append(&mut slot.complaints);
        Ok(seen)
    }

    /// Buries a slot that answers no more, and kills what it left. Returns what
    /// happened, in words.
    fn lose(&self, lane: &mut Option<Slot>, error: &io::Error) -> String {
        let Some(mut slot) = lane.take() else {
            return format!("cannot start its slot: {error}");
        };
        let how = slot.end();
        self.pids
            .lock()
            .expect("no panic")
            .retain(|known| *known != slot.pid());
        self.sweep();
        for engine in self.engines() {
            engine.sweep(Some(slot.pid()));
        }
        let complaints = slot.complaints.join("; ");
        let why = if complaints.is_empty() {
            error.to_string()
        } else {
            complaints
        };
        format!("its slot was lost: {why} ({how})")
    }

    /// Returns the engines that run containers of the plan.
    fn engines(&self) -> Vec<Engine> {
        let recipes = self.recipes.lock().expect("no panic");
        let actors = recipes.values().flat_map(|recipe| &recipe.variant.actors);
        let containers = actors.filter_map(|actor| actor.container.as_ref());
        let names: BTreeSet<&str> = containers.map(|one| one.engine.as_str()).collect();
        names.into_iter().filter_map(Engine::find).collect()
    }

    /// Kills whatever is a child of ours and no slot: the orphans of a lost one. What
    /// cannot be killed is not waited for.
    fn sweep(&self) {
        let me = std::process::id().cast_signed();
        let pids = self.pids.lock().expect("no panic");
        let patience = Instant::now() + PATIENCE;
        while Instant::now() < patience {
            let strays = process::children(me)
                .into_iter()
                .filter(|pid| !pids.contains(pid));
            let strays: Vec<i32> = strays.collect();
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                let all = process::descendants(stray).into_iter().chain([stray]);
                all.for_each(|pid| drop(signals::send(pid, Signal::KILL)));
                child::reap_if_ended(stray);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
