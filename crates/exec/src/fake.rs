//! Executor without processes, for tests: a function gives the outcomes, and time is virtual.

use super::{Executor, ExecutorFuture, StopUrgency};
use provoke_model::{Ending, Observation, SlotId, Trial};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Returns the observation of a trial, and its duration.
type FakeTrial = dyn Fn(&Trial) -> (Duration, Observation) + Send + Sync;

/// Executor for tests of the layers above processes, in virtual time.
pub struct FakeExecutor(Arc<FakeTrial>);

impl FakeExecutor {
    /// Creates an executor that returns the results of the script.
    pub fn new(script: impl Fn(&Trial) -> (Duration, Observation) + Send + Sync + 'static) -> Self {
        Self(Arc::new(script))
    }
}

impl Executor for FakeExecutor {
    fn run_trial(
        &self,
        trial: Trial,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        let script = Arc::clone(&self.0);
        Box::pin(async move {
            let (time, mut observation) = script(&trial);
            if time.is_zero() {
                return observation;
            }
            if observation.elapsed.is_zero() {
                observation.elapsed = time;
            }
            let started_at = tokio::time::Instant::now();
            let halted = tokio::select! {
                () = tokio::time::sleep(time) => return observation,
                halted = halt.wait_for(|halt| *halt != StopUrgency::No) => halted.map(|halt| *halt),
            };
            match halted {
                Ok(StopUrgency::TimedOut) => {
                    observation.elapsed = started_at.elapsed();
                    for actor in &mut observation.actors {
                        actor.ending = Ending::TimedOut {
                            state: 'S',
                            killed: false,
                        };
                    }
                }
                _ => observation.interrupted = true,
            }
            observation
        })
    }

    fn keep_output(&self, _: SlotId, _: PathBuf, _: bool) -> ExecutorFuture<()> {
        Box::pin(std::future::ready(()))
    }
}
