//! `bisect`: which place of an ordered list is the first that fails?
//!
//! With every free lane the place is tried that tells most about it. Where the ends agree, a few
//! places between them are tried: histories often go from good to bad and back.

use super::search::{is_spent, makes, making_cost, reproduce, step, under_way};
use super::{Policy, Step, StopRule, Verdict, nothing_counts, search};
use crate::model::{Choice, VariantId};
use crate::state::{Reproduced, State};
use crate::stats::clean_runs_needed;
use crate::stats::search::{Bisection, Costs, Slots, Stop, Verdict as Found};

/// What it costs to go on with another place than the last, in trials: caches, and the reader's
/// eye.
const SWITCH: f64 = 2.0;

/// Eighths of the list at which is looked inside, where the ends agree.
const INSIDE: [usize; 7] = [4, 2, 6, 1, 3, 5, 7];

/// Searches the first place that fails.
pub struct Bisect;

/// How far a search has come.
pub struct Search<'a> {
    /// What is known of the places.
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

    /// Returns failures and trials of those that fail: the likeliest first one, and all after it.
    pub fn failing(&self) -> (u64, u64) {
        let first = self.known.likeliest().first;
        let all = self.known.tested().iter();
        let failing = all.filter(|one| one.version >= first);
        failing.fold((0, 0), |(k, n), one| (k + one.failures, n + one.runs))
    }

    /// Returns how many clean trials would be too many for one of those, but for this chance.
    pub fn clean_trials_needed(&self, alpha: f64) -> Option<u64> {
        let (failures, trials) = self.failing();
        clean_runs_needed(failures, trials, alpha)
    }

    /// Returns the places that tell most in so many lanes, of which so many may need to be made.
    fn choose(&self, state: &State, free: usize, builds: usize) -> Vec<usize> {
        let place = |id: VariantId| state.place(id);
        let in_flight: Vec<usize> = under_way(state).filter_map(place).collect();
        let ids = || state.tallies().map(|(id, _)| id);
        let ready = ids().filter(|id| state.is_ready(*id) && state.is_testable(*id));
        // Where nothing is made, one is as good as another.
        let built: Vec<usize> = ready.filter_map(place).collect();
        let costs = Costs {
            run: 1.0,
            switch: SWITCH,
            build: making_cost(state).unwrap_or(0.0),
            current: state.last_launched.and_then(place),
            built: &built,
        };
        let alone = || {
            let query = self.known.choose(&self.stop, &costs);
            query.map(|query| query.version)
        };
        if in_flight.is_empty() && free == 1 {
            return alone().into_iter().collect();
        }
        // Whether anything new is worth what it costs is the same for all lanes.
        let worth = |version: usize| !built.contains(&version);
        let builds = if costs.build > 0.0 && !alone().is_some_and(worth) {
            0
        } else {
            builds
        };
        let slots = Slots {
            free,
            in_flight: &in_flight,
            built: &built,
            builds,
            seed: state.plan.seed,
        };
        self.known.choose_batch(&self.stop, &slots)
    }
}

/// Returns what is still to be tried inside, where the ends agree: until one place does not, or all
/// of them do.
fn inside(state: &State, search: &Search) -> Option<Choice> {
    let newest = search.known.newest();
    let failing = state.tally(State::FAILING);
    let both_fail = failing.failures > 0;
    let alpha = state.plan.alpha.value();
    let enough = match (both_fail, state.plan.question.search()) {
        // As many clean trials as would be too few by chance alone.
        (true, _) => clean_runs_needed(failing.failures, failing.trials(), alpha)?,
        (false, asked) => asked?.reproduce / 8,
    };
    let places = INSIDE.map(|eighth| newest * eighth / 8);
    let within = places
        .into_iter()
        .filter(|place| (1..newest).contains(place));
    let mut open = None;
    for place in within {
        let (failures, trials) = search.known.counts(place);
        let id = state.at(place);
        if id.is_some_and(|id| !state.is_testable(id)) {
            continue;
        }
        let clean = failures == 0 && trials >= enough;
        if clean && both_fail || failures > 0 && !both_fail {
            return None;
        }
        let coming = id.map_or(0, |id| state.in_flight(id));
        if failures == 0 && trials + coming < enough && open.is_none() {
            open = at(place);
        }
    }
    open
}

fn at(place: usize) -> Option<Choice> {
    u32::try_from(place).ok().map(Choice::Place)
}

/// Tries the good end as often as it would have to pass if it were bad and the answer right by
/// chance alone: what is first of those that fail is only first if that one does not.
fn verify(state: &State, search: &Search) -> Step {
    let enough = search.clean_trials_needed(state.plan.alpha.value());
    let (failed, passed) = search.known.counts(0);
    let coming = state.at(0).map_or(0, |id| state.in_flight(id));
    let testable = state.at(0).is_none_or(|id| state.is_testable(id));
    if !testable || failed > 0 || is_spent(state) || enough.is_none_or(|n| passed >= n) {
        return Step::finish(state);
    }
    match at(0) {
        Some(choice) if enough.is_some_and(|n| passed + coming < n) => step(state, choice),
        _ => Step::Wait,
    }
}

fn look_inside(state: &State, search: &Search) -> Step {
    match inside(state, search) {
        Some(choice) if !is_spent(state) => step(state, choice),
        _ if !state.making.is_empty() => Step::Wait,
        _ => Step::finish(state),
    }
}

impl Policy for Bisect {
    fn next(&self, state: &State) -> Step {
        let Some(search) = Search::of(state) else {
            return Step::Done;
        };
        let reproduced = reproduce(state);
        let passes = reproduced == Some(Step::Done)
            && state.is_testable(State::FAILING)
            && state.tally(State::FAILING).failures == 0;
        match (reproduced, search.verdict()) {
            (Some(Step::Done), _) if passes => return look_inside(state, &search),
            (Some(step), _) => return step,
            (None, Found::AlreadyBad(_)) => return look_inside(state, &search),
            (None, Found::Known(_)) => return verify(state, &search),
            (None, Found::Open(_)) => {}
            (None, _) => return Step::Done,
        }
        if is_spent(state) {
            return Step::finish(state);
        }
        // Whatever would tell most is tried, or made, or waited for: trials of what happens to be
        // made would tell little, and be in its way.
        match search
            .choose(state, 1, usize::MAX)
            .first()
            .and_then(|place| at(*place))
        {
            Some(choice) => step(state, choice),
            // What is under way may tell what no further trial can.
            None if state.unsettled() || !state.making.is_empty() => Step::Wait,
            None => Step::Done,
        }
    }

    /// Makes what is likely to be tried soon.
    fn ahead(&self, state: &State) -> Option<Step> {
        let ids = || state.tallies().map(|(id, _)| id);
        let untried = |id: &VariantId| state.is_ready(*id) && state.launched(*id) == 0;
        let stored = ids().filter(untried).count() + state.making.len();
        let makers = state.plan.space.as_ref()?.makers as usize;
        let over = is_spent(state) || state.reproduced() == Reproduced::No;
        if over || !makes(state) || stored >= makers || !state.is_ready(State::FAILING) {
            return None;
        }
        let search = Search::of(state)?;
        if !matches!(search.verdict(), Found::Open(_)) {
            return None;
        }
        let soon = search.choose(state, makers + 1, makers).into_iter();
        let choices = soon.filter_map(at);
        let steps = choices.map(|choice| step(state, choice));
        let mut steps = steps.filter(|step| matches!(step, Step::Choose(_) | Step::Make(_)));
        steps.next()
    }

    fn verdict(&self, state: &State) -> Verdict {
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match (state.reproduced(), Search::of(state)) {
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
        search::stop_rule(state, self.verdict(state))
    }

    fn left(&self, _: &State) -> Option<u64> {
        None
    }
}
