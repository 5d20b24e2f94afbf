//! Learns the lowest load level that fails.

use provoke_model::{Outcome, RampQuestion, Trial, TrialsPlan, VariantId};
use provoke_state::{Memory, State, TrialFacts};
use provoke_stats::ramp::{Forecast, Ramp};
use std::any::Any;
use std::sync::OnceLock;

/// The posterior of the lowest failing level.
#[derive(Debug)]
pub(super) struct RampMemory {
    question: RampQuestion,
    ramp: Ramp,
    forecast: KnownForecast,
}

/// The trials that the search still takes, once they were asked for: they are simulated, and the live line asks for them
/// several times per second.
#[derive(Debug, Default)]
pub(super) struct KnownForecast(pub(super) OnceLock<Option<Forecast>>);

impl RampMemory {
    /// Returns the memory before the first trial; `None` if a variant is not a load level.
    pub(super) fn new(trials: &TrialsPlan, question: &RampQuestion) -> Option<Self> {
        Some(Self {
            ramp: initial_posterior(trials, question)?,
            question: question.clone(),
            forecast: KnownForecast::default(),
        })
    }
}

impl Memory for RampMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        vec![&self.ramp, &self.forecast]
    }

    fn add_trial(&mut self, _: &State, trial: &Trial, facts: &TrialFacts) {
        let level = trial.variant.index();
        self.forecast = KnownForecast::default();
        match facts.outcome {
            Outcome::Pass => self.ramp.observe_life(level, false),
            Outcome::Fail(_) => self.ramp.observe_life(level, true),
            Outcome::Other(_) | Outcome::Inconclusive(_) => {}
        }
    }

    fn give_up(&mut self, _: &State, variant: VariantId) {
        self.ramp.mark_untestable(variant.index());
        self.forecast = KnownForecast::default();
    }

    fn restart(&mut self, state: &State) {
        if let Some(ramp) = initial_posterior(&state.trials, &self.question) {
            self.ramp = ramp;
            self.forecast = KnownForecast::default();
        }
    }
}

fn initial_posterior(trials: &TrialsPlan, question: &RampQuestion) -> Option<Ramp> {
    let levels: Option<Vec<u32>> = trials
        .variants
        .iter()
        .map(|variant| variant.clients)
        .collect();
    Some(Ramp::new(&levels?, f64::from(question.detect) / 1e6))
}
