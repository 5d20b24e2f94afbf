//! Learns which items can be left out.

use crate::search::{Reproduction, ReproductionProgress};
use provoke_model::{
    Failure, Goal, Outcome, SearchQuestion, SearchSpace, Subset, Trial, TrialsPlan, VariantChoice,
    VariantId,
};
use provoke_state::{Memory, State, TrialFacts};
use provoke_stats::search::{Count, ItemScreen, Reduction};
use std::any::Any;
use std::collections::BTreeMap;

/// Number of failures in a row that show that a set runs, unless all items together always fail.
const FAILURES_THAT_SHOW: u64 = 10;
/// Required failures of all items together, also if earlier runs count.
const FAILURES_AGAIN: u64 = 3;

/// First it learns which items the program does not run without, then which of the others the failure needs.
#[derive(Debug)]
pub(super) struct ReduceMemory {
    question: SearchQuestion,
    reproduction: Reproduction,
    /// Items that can be left out at all, once all items together have failed often enough.
    screen: Option<ItemScreen>,
    /// Failures in a row of the sets that are being screened.
    failures_in_a_row: BTreeMap<VariantId, u64>,
    /// The search for the smallest failing set, once the required items are known.
    reduction: Option<Reduction>,
}

impl ReduceMemory {
    /// Returns the memory before the first trial.
    pub(super) fn new(goal: &Goal, trials: &TrialsPlan, question: &SearchQuestion) -> Self {
        Self {
            question: question.clone(),
            reproduction: Reproduction::new(goal, trials, FAILURES_AGAIN),
            screen: None,
            failures_in_a_row: BTreeMap::new(),
            reduction: None,
        }
    }

    /// Returns whether a trial shows that the program runs without the items that were left out; `None` if it does not
    /// show it. A program that lacks an item may print an error and then show the bug as well, so a failure shows
    /// nothing until a program that lacks something would have ended otherwise.
    fn shows_that_it_runs(
        &mut self,
        state: &State,
        trial: &Trial,
        outcome: &Outcome,
    ) -> Option<bool> {
        match outcome {
            Outcome::Pass => Some(true),
            Outcome::Other(_) | Outcome::Inconclusive(_) => Some(false),
            Outcome::Fail(_) => {
                let in_a_row = self.failures_in_a_row.entry(trial.variant).or_default();
                *in_a_row += 1;
                let always_fails = state.tally_of(State::FAILING).passes == 0;
                (always_fails || *in_a_row >= FAILURES_THAT_SHOW).then_some(true)
            }
        }
    }

    /// Begins to search for items that can be left out, once all items together have failed often enough.
    fn begin_screen(&mut self, state: &State) {
        if self.reproduction.progress(state) == ReproductionProgress::Yes {
            let items = state.trials.space.as_ref().map_or(0, SearchSpace::len);
            self.screen = Some(ItemScreen::new(items));
        }
    }

    /// Updates the screen with a variant, and begins the reduction when the screen is over.
    fn update_screen(
        &mut self,
        state: &State,
        variant: VariantId,
        update: impl Fn(&mut ItemScreen, &[usize]),
    ) {
        let Some(screen) = &mut self.screen else {
            return;
        };
        if let Some(set) = state.kept_set(variant) {
            update(screen, &set);
        }
        if screen.is_over() && self.reduction.is_none() {
            let (earlier_failures, earlier_trials) = self.reproduction.counted_earlier(&state.goal);
            let tally = state.tally_of(State::FAILING);
            let baseline = Count {
                failures: tally.failures + earlier_failures,
                runs: tally.counted_trials() + earlier_trials,
            };
            let delta = state.goal.alpha.to_probability();
            let free = screen.free_items().to_vec();
            self.reduction = Some(Reduction::new(free, self.question.clean, baseline, delta));
        }
    }
}

impl Memory for ReduceMemory {
    fn parts(&self) -> Vec<&dyn Any> {
        let mut parts: Vec<&dyn Any> = vec![&self.reproduction];
        parts.extend(self.screen.as_ref().map(|screen| screen as &dyn Any));
        parts.extend(
            self.reduction
                .as_ref()
                .map(|reduction| reduction as &dyn Any),
        );
        parts
    }

    fn is_the_bug(&self, state: &State, failure: &Failure) -> bool {
        self.reproduction.is_searched(state, failure)
    }

    fn awaits_failure(&self) -> bool {
        self.reproduction.awaits_failure()
    }

    fn choose_failure(&mut self, state: &State) -> bool {
        self.reproduction.choose_failure(state)
    }

    fn add_trial(&mut self, state: &State, trial: &Trial, facts: &TrialFacts) {
        let outcome = &facts.outcome;
        let failed = match outcome {
            Outcome::Pass => Some(false),
            Outcome::Fail(_) => Some(true),
            Outcome::Other(_) | Outcome::Inconclusive(_) => None,
        };
        if failed.is_some() && trial.variant == State::FAILING {
            self.reproduction.decide_earlier(state);
        }
        match (&mut self.reduction, failed) {
            (Some(reduction), Some(failed)) => {
                if let Some(set) = state.kept_set(trial.variant) {
                    reduction.observe_run(&without_required(self.screen.as_ref(), set), failed);
                }
            }
            (Some(_), None) => {}
            (None, Some(_)) if self.screen.is_none() => self.begin_screen(state),
            (None, _) => {
                if let Some(runs) = self.shows_that_it_runs(state, trial, outcome) {
                    self.update_screen(state, trial.variant, |screen, set| {
                        screen.observe_run(set, runs);
                    });
                }
            }
        }
    }

    fn give_up(&mut self, state: &State, variant: VariantId) {
        let Some(set) = state.kept_set(variant) else {
            return;
        };
        match &mut self.reduction {
            Some(reduction) => {
                reduction.mark_untestable(&without_required(self.screen.as_ref(), set));
            }
            None => self.update_screen(state, variant, ItemScreen::mark_untestable),
        }
    }
}

/// Returns the items of a set that may be left out, without the required ones.
pub(super) fn without_required(screen: Option<&ItemScreen>, mut set: Vec<usize>) -> Vec<usize> {
    let required = screen.map_or(&[][..], ItemScreen::required_items);
    set.retain(|item| required.binary_search(item).is_err());
    set
}

/// Returns the choice of a set together with the required items.
pub(super) fn with_required(screen: Option<&ItemScreen>, mut set: Vec<usize>) -> VariantChoice {
    set.extend(screen.iter().flat_map(|screen| screen.required_items()));
    set.sort_unstable();
    set.dedup();
    let kept_items = set.into_iter().filter_map(|item| u32::try_from(item).ok());
    VariantChoice::Set(Subset(kept_items.collect()))
}
