//! `bisect`: which of the variants, in their order, is the first that fails?
//!
//! First the last one, which is bad, until it has failed a few times: how often it fails is what
//! every other step rests on. Then, with every free lane, the variant that tells most.

use super::{Policy, Step, StopRule, Verdict, nothing_counts};
use crate::model::{Bisect as Asked, Question, VariantId};
use crate::state::State;
use crate::stats::real;
use crate::stats::search::{Bisection, Costs, Slots, Stop, Verdict as Found};
use std::time::Duration;

/// Failures of the last variant before the search begins ...
const FAILURES: u64 = 3;
/// ... but where every trial fails, so many trials: it may well be that it always does.
const ALWAYS: u64 = 10;

/// What it costs to go on with another variant than the last, in trials: caches, and the reader's
/// eye.
const SWITCH: f64 = 2.0;

/// Searches the first variant that fails.
pub struct Bisect;

/// How far a search has come.
pub struct Search<'a> {
    /// What is known of the variants.
    pub known: &'a Bisection,
    /// When that is enough.
    pub stop: Stop,
}

impl<'a> Search<'a> {
    /// Returns how far it has come; nothing where another question was asked.
    pub fn of(state: &'a State) -> Option<Self> {
        Some(Self {
            known: state.search.as_ref()?,
            stop: Stop::guarded(state.plan.alpha.value()),
        })
    }

    /// Returns what it has come to.
    pub fn verdict(&self) -> Found {
        self.known.verdict(&self.stop)
    }
}

fn asked(state: &State) -> Option<&Asked> {
    match &state.plan.question {
        Question::Bisect(asked) => Some(asked),
        _ => None,
    }
}

fn newest(state: &State) -> VariantId {
    let last = state.plan.variants.len() - 1;
    VariantId(u32::try_from(last).unwrap_or(u32::MAX))
}

/// What is still to be learned of the last variant.
enum Reproduced {
    /// So many trials more, at least.
    NotYet(u64),
    /// It failed often enough.
    Yes,
    /// It did not fail often enough in so many trials, or cannot be tried.
    No,
}

fn reproduced(state: &State, asked: &Asked) -> Reproduced {
    let newest = newest(state);
    let tally = state.tally(newest);
    let (failures, trials) = (tally.failures, tally.trials());
    if failures >= FAILURES && (failures < trials || trials >= ALWAYS) {
        Reproduced::Yes
    } else if !state.is_testable(newest) || tally.ran() >= asked.reproduce && failures < FAILURES {
        Reproduced::No
    } else if failures == trials {
        Reproduced::NotYet(ALWAYS - trials)
    } else {
        Reproduced::NotYet(FAILURES - failures)
    }
}

impl Policy for Bisect {
    fn next(&self, state: &State) -> Step {
        let Some(asked) = asked(state) else {
            return Step::Done;
        };
        let newest = newest(state);
        let spent = state.budget_spent || is_spent(state);
        match reproduced(state, asked) {
            Reproduced::No => return Step::Done,
            Reproduced::NotYet(_) if spent => return Step::finish(state),
            Reproduced::NotYet(more) => {
                let under_way = state.underway(newest) - state.tally(newest).ran();
                return if under_way < more {
                    Step::Launch(newest)
                } else {
                    Step::Wait
                };
            }
            Reproduced::Yes => {}
        }
        let Some(search) = Search::of(state) else {
            return Step::Done;
        };
        if !matches!(search.verdict(), Found::Open(_)) {
            return Step::Done;
        }
        if spent {
            return Step::finish(state);
        }
        let ids = || state.tallies().map(|(id, _)| id);
        let in_flight = ids().flat_map(|id| {
            let count = state.underway(id) - state.tally(id).ran();
            std::iter::repeat_n(id.index(), usize::try_from(count).unwrap_or(0))
        });
        let in_flight: Vec<usize> = in_flight.collect();
        let tried = ids().filter(|id| state.launched(*id) > 0);
        let built: Vec<usize> = tried.map(VariantId::index).collect();
        let chosen = if in_flight.is_empty() {
            let costs = Costs {
                run: 1.0,
                switch: SWITCH,
                build: build_cost(state),
                current: state.last_launched.map(VariantId::index),
                built: &built,
            };
            let query = search.known.choose(&search.stop, &costs);
            query.map(|query| query.version)
        } else {
            let slots = Slots {
                free: 1,
                in_flight: &in_flight,
                built: &built,
                builds: 1,
                seed: state.plan.seed,
            };
            let chosen = search.known.choose_batch(&search.stop, &slots);
            chosen.first().copied()
        };
        match chosen.and_then(|index| u32::try_from(index).ok()) {
            Some(index) => Step::Launch(VariantId(index)),
            // What is under way may tell what no further trial can.
            None if state.unsettled() => Step::Wait,
            None => Step::Done,
        }
    }

    fn verdict(&self, state: &State) -> Verdict {
        let Some(asked) = asked(state) else {
            return Verdict::Undecided;
        };
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match (reproduced(state, asked), Search::of(state)) {
            (Reproduced::No, _) => Verdict::NotThere,
            (Reproduced::Yes, Some(search)) => match search.verdict() {
                Found::Known(_) => Verdict::Found,
                Found::AlreadyBad(_) | Found::NoneBad(_) => Verdict::NotThere,
                Found::Open(_) | Found::Impossible => Verdict::Undecided,
            },
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        match self.verdict(state) {
            Verdict::Found | Verdict::NotThere => StopRule::Decision,
            _ if is_spent(state) => StopRule::Spent,
            _ => StopRule::from_outside(state),
        }
    }

    fn left(&self, _: &State) -> Option<u64> {
        None
    }
}

/// Returns what it costs to make a variant, in trials.
fn build_cost(state: &State) -> f64 {
    let (made, took) = state.made;
    let trials: u64 = state.tallies().map(|(_, tally)| tally.trials()).sum();
    let exposure = state.tallies().map(|(_, tally)| tally.exposure);
    let trial = exposure.sum::<Duration>().as_secs_f64() / real(trials.max(1));
    if made == 0 || trial <= 0.0 {
        return 0.0;
    }
    took.as_secs_f64() / real(made) / trial
}

/// True when as many trials are run as were allowed, of all variants together.
fn is_spent(state: &State) -> bool {
    let ran: u64 = state.tallies().map(|(_, tally)| tally.ran()).sum();
    state.plan.stop.trials.is_some_and(|all| ran >= all)
}
