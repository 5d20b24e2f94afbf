//! Trials on this machine: one slot process a lane.

use super::around::Watch;
use super::evidence::Collector;
use super::lane::Slot;
use super::{Answer, Executor, Halt};
use crate::model::{Capture, HookSeen, Lane, Observation, Plan, Text, Trial, VariantId};
use crate::oracle;
use crate::slot::wire::{Hook, Recipe};
use crate::sys::{child, core_pattern, process, signals};
use rustix::process::Signal;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Mutex, OnceCell, watch};

/// What a lost slot left is killed for so long.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs trials in slot processes, which are started when they are needed.
pub struct Local {
    shared: Arc<Shared>,
    lanes: Vec<Arc<Mutex<Option<Slot>>>>,
    /// The slot in which `setup` and `cleanup` run, and what they leave lives.
    steward: Arc<Mutex<Option<Slot>>>,
    /// Of variants that are set up when they are first tried, whether that is done, and why not.
    made: Arc<Vec<OnceCell<Option<String>>>>,
    /// Where they run, if not where the first variant does.
    cwd: Option<Text>,
}

struct Shared {
    binary: PathBuf,
    recipes: Vec<Recipe>,
    collector: Collector,
    around: Watch,
    /// Held by a trial that may dump a core, where all cores have one name and would
    /// overwrite each other.
    one_dump: Option<Mutex<()>>,
    /// Slots that are up: whatever else is a child of ours was lost by one that is not.
    pids: Register<Vec<i32>>,
    complaints: Register<Vec<String>>,
}

impl Local {
    /// Makes an executor for a plan. Below `trials` each trial has its folder.
    pub fn new(plan: &Plan, trials: &Path) -> io::Result<Self> {
        child::become_subreaper()?;
        let instead =
            |own: &Option<Text>, general: &Option<Text>| own.as_ref().or(general.as_ref()).cloned();
        let recipe = |variant: &crate::model::VariantPlan| Recipe {
            variant: variant.clone(),
            environment: plan.environment.clone(),
            prepare: instead(&variant.hooks.prepare, &plan.hooks.prepare),
            conclude: instead(&variant.hooks.conclude, &plan.hooks.conclude),
            limits: plan.limits.clone(),
            cores: plan.cores,
            capture: plan.capture == Capture::On && plan.no_cores.is_none(),
            trace: plan.capture == Capture::Trace,
            scratch: plan.scratch.then(|| trials.as_os_str().into()),
            evidence: Some(trials.as_os_str().into()),
            children: !plan.rules.ignore_child_crashes,
            grace: plan.grace,
            settle: plan.settle,
            leaks: plan.rules.leaks,
            patterns: oracle::patterns(&plan.rules),
        };
        let shared = Shared {
            binary: std::env::current_exe()?,
            recipes: plan.variants.iter().map(recipe).collect(),
            collector: Collector::new(trials),
            around: Watch::default(),
            one_dump: core_pattern::overwrites().then(Mutex::default),
            pids: Register::default(),
            complaints: Register::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            lanes: (0..plan.jobs).map(|_| Arc::default()).collect(),
            steward: Arc::default(),
            made: Arc::new(
                plan.variants
                    .iter()
                    .filter(|_| plan.is_lazy())
                    .map(|_| OnceCell::new())
                    .collect(),
            ),
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

    /// Returns the variants that were set up when they were first tried.
    pub fn made(&self) -> Vec<VariantId> {
        let made = (0..).map(VariantId).zip(self.made.iter());
        made.filter(|(_, cell)| matches!(cell.get(), Some(None)))
            .map(|(id, _)| id)
            .collect()
    }

    /// Ends every slot, and with it whatever still lives below one. Returns what
    /// could not be done on the way.
    pub async fn close(&self) -> Vec<String> {
        let mut slots = vec![self.steward.lock().await.take()];
        for lane in &self.lanes {
            slots.push(lane.lock().await.take());
        }
        let mut complaints = std::mem::take(&mut *self.shared.complaints.lock().expect("no panic"));
        for slot in slots.into_iter().flatten() {
            complaints.extend(slot.close().await);
        }
        // Every lane may have found out the same.
        complaints.dedup();
        // A slot that died on the way may have left something to us.
        self.shared.pids.lock().expect("no panic").clear();
        self.shared.sweep();
        complaints
    }
}

impl Executor for Local {
    fn run(&self, trial: Trial, mut halt: watch::Receiver<Halt>) -> Answer<Observation> {
        let (shared, lane) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.lanes[trial.lane.index()]),
        );
        let (made, steward) = (Arc::clone(&self.made), Arc::clone(&self.steward));
        Box::pin(async move {
            let mut made_us = None;
            if let Some(cell) = made.get(trial.variant.index()) {
                let (ours, began) = (cell.get().is_none(), Instant::now());
                let making = shared.make(&steward, trial.variant, &mut halt);
                if let Some(why) = cell.get_or_init(|| making).await {
                    return Observation {
                        interrupted: *halt.borrow() != Halt::No,
                        unready: Some(why.clone()),
                        ..Observation::default()
                    };
                }
                let time = u64::try_from(began.elapsed().as_micros()).ok();
                made_us = time.filter(|_| ours);
            }
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
                seen.made_us = made_us;
            }
            match done {
                Ok(seen) if leaves_more(&seen) || shared.dumps(&trial) => {
                    Arc::clone(&shared).look_closer(trial, began, seen).await
                }
                Ok(seen) => seen,
                Err(error) => {
                    let lost = shared.lose(&mut lane, &error);
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

/// True for a trial of whose processes cores were written by us.
fn leaves_more(seen: &Observation) -> bool {
    let leaked = &seen.residue.leaked;
    let traced = !seen.cores.is_empty();
    traced || seen.hang.is_some() || leaked.iter().any(|process| process.core.is_some())
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

    /// Sets a variant up; returns why that failed.
    async fn make(
        &self,
        steward: &Mutex<Option<Slot>>,
        variant: VariantId,
        halt: &mut watch::Receiver<Halt>,
    ) -> Option<String> {
        let own = &self.recipes[variant.index()].variant.hooks;
        let hook = Hook {
            variant,
            own: true,
            command: own.setup.clone()?,
            cwd: own.cwd.clone(),
        };
        match self.steward(steward, &hook, halt).await {
            Ok(None) => None,
            Ok(Some(seen)) => {
                let last = seen.output.trim().lines().last();
                let last = last.map_or(String::new(), |last| format!(": {last}"));
                Some(format!("it could not be made: {}{last}", seen.ending))
            }
            Err(error) => Some(format!("it could not be made: {error}")),
        }
    }

    /// True when the kernel may dump cores of this trial.
    fn dumps(&self, trial: &Trial) -> bool {
        trial.capture || self.recipes[trial.variant.index()].capture
    }

    /// Takes what a trial left behind, before the next one of its lane begins.
    async fn look_closer(
        self: Arc<Self>,
        trial: Trial,
        began: SystemTime,
        mut seen: Observation,
    ) -> Observation {
        let dumped = self.dumps(&trial);
        let shared = Arc::clone(&self);
        let looked = tokio::task::spawn_blocking(move || {
            let variant = &shared.recipes[trial.variant.index()].variant;
            if dumped {
                shared
                    .collector
                    .collect(trial.id.0, variant, began, &mut seen);
            }
            shared.collector.examine(trial.id.0, variant, &mut seen);
            seen
        });
        // Only a bug of ours can fail this; the trial is lost, and no more.
        looked.await.unwrap_or_else(|error| Observation {
            lost: Some(error.to_string()),
            ..Observation::default()
        })
    }

    /// Returns the slot of a lane, started if need be.
    fn up<'a>(&self, lane: &'a mut Option<Slot>, name: &str) -> io::Result<&'a mut Slot> {
        if lane.is_none() {
            let name = format!("provoke-{}-{name}", std::process::id());
            let slot = Slot::start(&self.binary, &name)?;
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
        let slot = self.up(steward, "steward")?;
        let recipe = &self.recipes[hook.variant.index()];
        slot.learn(hook.variant, recipe).await?;
        slot.hook(hook, halt).await
    }

    async fn run(
        &self,
        lane: &mut Option<Slot>,
        trial: &Trial,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Observation> {
        let slot = self.up(lane, &trial.lane.0.to_string())?;
        slot.learn(trial.variant, &self.recipes[trial.variant.index()])
            .await?;
        let seen = slot.run(trial, halt).await?;
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
            return format!("its slot could not be started: {error}");
        };
        let how = slot.end();
        self.pids
            .lock()
            .expect("no panic")
            .retain(|known| *known != slot.pid());
        self.sweep();
        slot.remove_group();
        let complaints = slot.complaints.join("; ");
        let why = if complaints.is_empty() {
            error.to_string()
        } else {
            complaints
        };
        format!("its slot was lost: {why} ({how})")
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
