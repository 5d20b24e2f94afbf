//! Trials on this machine: one slot process a lane.

use super::lane::Slot;
use super::{Answer, Executor, Halt};
use crate::model::{HookSeen, Lane, Observation, Plan, Text, Trial, VariantId};
use crate::oracle;
use crate::slot::wire::Recipe;
use crate::sys::{child, process, signals};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register};
use tokio::sync::{Mutex, watch};

/// Runs trials in slot processes, which are started when they are needed.
pub struct Local {
    shared: Arc<Shared>,
    lanes: Vec<Arc<Mutex<Option<Slot>>>>,
    /// The slot in which `setup` and `cleanup` run, and what they leave lives.
    steward: Mutex<Option<Slot>>,
}

struct Shared {
    binary: PathBuf,
    recipes: Vec<Recipe>,
    /// Slots that are up: whatever else is a child of ours was lost by one that is not.
    pids: Register<Vec<i32>>,
    complaints: Register<Vec<String>>,
}

impl Local {
    /// Makes an executor for a plan. `scratch` is where trials get their folders.
    pub fn new(plan: &Plan, scratch: &Path) -> io::Result<Self> {
        child::become_subreaper()?;
        let recipe = |variant: &crate::model::VariantPlan| Recipe {
            variant: variant.clone(),
            environment: plan.environment.clone(),
            prepare: plan.hooks.prepare.clone(),
            conclude: plan.hooks.conclude.clone(),
            limits: plan.limits.clone(),
            scratch: plan.scratch.then(|| scratch.to_owned()),
            grace: plan.grace,
            settle: plan.settle,
            leaks: plan.rules.leaks,
            patterns: oracle::patterns(&plan.rules),
        };
        let shared = Shared {
            binary: std::env::current_exe()?,
            recipes: plan.variants.iter().map(recipe).collect(),
            pids: Register::default(),
            complaints: Register::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            lanes: (0..plan.jobs).map(|_| Arc::default()).collect(),
            steward: Mutex::default(),
        })
    }

    /// Runs a command around the whole run; what it leaves behind lives until the end.
    pub async fn hook(&self, command: &Text) -> io::Result<Option<HookSeen>> {
        let mut steward = self.steward.lock().await;
        let slot = self.shared.up(&mut steward, "steward")?;
        slot.learn(VariantId(0), &self.shared.recipes[0]).await?;
        slot.hook(command).await
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
        complaints
    }
}

impl Executor for Local {
    fn run(&self, trial: Trial, mut halt: watch::Receiver<Halt>) -> Answer<Observation> {
        let (shared, lane) = (
            Arc::clone(&self.shared),
            Arc::clone(&self.lanes[trial.lane.index()]),
        );
        Box::pin(async move {
            let mut lane = lane.lock().await;
            match shared.run(&mut lane, &trial, &mut halt).await {
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

impl Shared {
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

    /// Buries a slot that answers no more, and kills what it left: its orphans are
    /// ours now. Returns what happened, in words.
    fn lose(&self, lane: &mut Option<Slot>, error: &io::Error) -> String {
        let Some(slot) = lane.take() else {
            return format!("its slot could not be started: {error}");
        };
        let pid = slot.pid();
        let how = slot.bury();
        let mut pids = self.pids.lock().expect("no panic");
        pids.retain(|known| *known != pid);
        let me = std::process::id().cast_signed();
        loop {
            let strays: Vec<i32> = process::children(me)
                .into_iter()
                .filter(|pid| !pids.contains(pid))
                .collect();
            if strays.is_empty() {
                return format!("its slot was lost ({how})");
            }
            for stray in strays {
                let all = process::descendants(stray).into_iter().chain([stray]);
                all.for_each(|pid| drop(signals::send(pid, rustix::process::Signal::KILL)));
                drop(child::wait(stray));
            }
        }
    }
}
