//! `bisect`: finds the first bad candidate of an ordered list.
//!
//! Each free slot runs the candidate that gives the most information. If the ends of the list agree, a
//! few candidates between them run as well: histories often go from good to bad and back.

use crate::search::{
    self, first_preparation, is_spent, needs_preparation, preparation_cost, raise_step,
    reproduction_step, step_for_choice, step_for_next, under_way, untried_variants,
};
use crate::{
    Policy, ReproductionProgress, Step, StopRule, Verdict, nothing_counts, reproduction_progress,
};
use provoke_model::{VariantChoice, VariantId};
use provoke_state::State;
use provoke_stats::search::{
    BatchOptions, Bisection, Channel, Costs, SearchVerdict as Found, StopConditions, bisect_runs,
};
use provoke_stats::{clean_runs_needed, fisher, real, whole};

/// Cost of a switch to another candidate, in trials: its files may not be in the file cache.
const SWITCH: f64 = 0.5;

/// Positions between the ends that are tried if the ends agree, in eighths of the list.
const INSIDE: [usize; 7] = [4, 2, 6, 1, 3, 5, 7];

/// A search is given up after this multiple of its mean number of trials at the rate of the bad end, with a background
/// of 1 % if one is possible; see [`MIN_LIMIT`].
const PATIENCE: f64 = 10.0;
const BACKGROUND: f64 = 0.01;
/// Minimum number of trials before a search is given up.
const MIN_LIMIT: u64 = 1000;

/// Number of failures that show that the good end fails as the bad one does, if good versions are assumed never to
/// fail.
const FAILURES: u64 = 3;

/// Searches the first bad candidate.
pub struct BisectPolicy;

/// Progress of a search.
pub struct BisectProgress<'a> {
    /// The posterior of the candidates.
    pub bisection: &'a Bisection,
    /// The conditions under which the search stops.
    pub stop: StopConditions,
}

impl<'a> BisectProgress<'a> {
    /// Returns the progress of the search; `None` for any other question.
    pub fn of_state(state: &'a State) -> Option<Self> {
        Some(Self {
            bisection: state.learned()?,
            stop: StopConditions::with_check(state.goal.alpha.to_probability()),
        })
    }

    /// Returns the present verdict.
    pub fn current_verdict(&self) -> Found {
        self.bisection.current_verdict(&self.stop)
    }

    /// Returns whether the good end failed as often as the bad one. If good versions are assumed never to fail, a
    /// single failure does not prove that: it may show that the assumption is wrong.
    fn ends_agree(&self) -> bool {
        let agree = matches!(self.current_verdict(), Found::AlreadyBad(_));
        let (failures, trials) = self.bisection.failures_and_runs(0);
        agree && (self.bisection.allows_background() || failures >= FAILURES || trials == 0)
    }

    /// Returns whether the good end failed, but not often enough to fail as the bad end does, and not rarely enough to be
    /// good.
    fn good_end_is_doubtful(&self, state: &State) -> bool {
        let (failures, trials) = self.bisection.failures_and_runs(0);
        let bad_end = self
            .bisection
            .failures_and_runs(self.bisection.newest_version());
        let is_rarer = || {
            fisher(bad_end.0, bad_end.1, failures, trials).greater
                <= state.goal.alpha.to_probability()
        };
        (1..FAILURES).contains(&failures) && !is_rarer()
    }

    /// Returns the candidate that the check of the answer tries next, and the number of trials.
    pub fn unchecked_candidate(&self) -> Option<(usize, u64)> {
        self.bisection.unchecked_version(&self.stop)
    }

    /// Returns the failures and trials of the bad candidates: the likeliest first bad one, and all after it.
    pub fn failing_counts(&self) -> (u64, u64) {
        let first = self.bisection.likeliest_group().first;
        let versions = self.bisection.tested_versions().iter();
        let failing = versions.filter(|version| version.version >= first);
        failing.fold((0, 0), |(k, n), version| {
            (k + version.failures, n + version.runs)
        })
    }

    /// Returns how many clean trials a bad candidate passes with at most this probability.
    pub fn clean_trials_needed(&self, alpha: f64) -> Option<u64> {
        let (failures, trials) = self.failing_counts();
        clean_runs_needed(failures, trials, alpha)
    }

    /// Returns the candidates with the most information for the free slots; at most `builds` of them may need
    /// preparation.
    fn choose_candidates(&self, state: &State, free: usize, builds: usize) -> Vec<usize> {
        let place_of = |id: VariantId| state.place_of_variant(id);
        let in_flight: Vec<usize> = under_way(state).filter_map(place_of).collect();
        let ids = || state.all_tallies().map(|(id, _)| id);
        let ready = ids().filter(|id| state.is_ready(*id) && state.is_testable(*id));
        // Without preparation, all candidates cost the same.
        let built: Vec<usize> = ready.filter_map(place_of).collect();
        let costs = Costs {
            run: 1.0,
            switch: SWITCH,
            build: preparation_cost(state).unwrap_or(0.0),
            current: state.last_launched().and_then(place_of),
            built: &built,
        };
        let alone = || {
            let query = self.bisection.choose_query(&self.stop, &costs);
            query.map(|query| query.version)
        };
        if in_flight.is_empty() && free == 1 {
            return alone().into_iter().collect();
        }
        // Whether a new candidate is worth its cost is the same for all slots.
        let worth = |version: usize| !built.contains(&version);
        let builds = if costs.build > 0.0 && !alone().is_some_and(worth) {
            0
        } else {
            builds
        };
        let slots = BatchOptions {
            free,
            in_flight: &in_flight,
            built: &built,
            builds,
            seed: state.trials.seed,
        };
        self.bisection.choose_batch(&self.stop, &slots)
    }
}

/// Returns the approximate number of trials of a search among this many versions, at the measured rate of the bad end;
/// `None` until the bad end has failed.
fn average_trials(
    state: &State,
    search: &Bisection,
    version_count: usize,
    background: f64,
) -> Option<f64> {
    let (failures, trials) = search.failures_and_runs(search.newest_version());
    let p = real(failures) / real(trials.max(1));
    let clean = !search.allows_background();
    // A background is assumed to be at most a third of the rate.
    let q = if clean { 0.0 } else { background.min(p / 3.0) };
    let alpha = state.goal.alpha.to_probability();
    (failures > 0).then(|| bisect_runs(version_count as u64, &Channel { p, q }, clean, alpha))
}

/// Returns the approximate number of trials of a search along a list, at the measured rate of the bad end.
pub(crate) fn search_trials(state: &State) -> Option<u64> {
    let search = BisectProgress::of_state(state)?.bisection;
    average_trials(state, search, search.newest_version(), 0.0).map(whole)
}

/// Returns the approximate number of remaining trials.
pub(super) fn trials_left(state: &State) -> Option<u64> {
    let alpha = state.goal.alpha.to_probability();
    let search = BisectProgress::of_state(state)?.bisection;
    let open = search.credible_set(1.0 - alpha).len();
    average_trials(state, search, open, 0.0).map(whole)
}

/// Returns the number of trials after which a search is given up; `None` until the bad end has failed.
pub(super) fn default_limit(state: &State) -> Option<u64> {
    let search = BisectProgress::of_state(state)?.bisection;
    let average = average_trials(state, search, search.newest_version(), BACKGROUND)?;
    Some(whole(PATIENCE * average).max(MIN_LIMIT))
}

/// A list whose ends agree, and the candidates between them that are tried.
struct AgreeingEnds<'a> {
    search: &'a BisectProgress<'a>,
    /// Whether both ends fail; otherwise neither does.
    both_fail: bool,
    /// Number of trials that shows that a candidate is as the ends are.
    enough: u64,
    /// Failures and trials of the bad end.
    rare_end: (u64, u64),
    alpha: f64,
}

impl<'a> AgreeingEnds<'a> {
    fn new(state: &State, search: &'a BisectProgress<'a>) -> Option<Self> {
        let both_fail = BisectPolicy::bad_end_fails(state);
        let alpha = state.goal.alpha.to_probability();
        let question = state.goal.question.as_bisect()?;
        let enough = if both_fail {
            // The number of clean trials that a bad candidate would hardly pass by chance.
            let (failures, trials) = search
                .bisection
                .failures_and_runs(search.bisection.newest_version());
            clean_runs_needed(failures, trials, alpha)?
        } else {
            question.inside.unwrap_or(question.search.reproduce / 8)
        };
        Some(Self {
            search,
            both_fail,
            enough,
            rare_end: search
                .bisection
                .failures_and_runs(search.bisection.newest_version()),
            alpha,
        })
    }

    fn inner_candidates(&self) -> impl Iterator<Item = usize> {
        let newest = self.search.bisection.newest_version();
        let candidates = INSIDE.map(move |eighth| newest * eighth / 8);
        let inner = candidates.into_iter();
        inner.filter(move |index| (1..newest).contains(index))
    }

    /// Returns the candidate that differs from the ends, if one was found.
    fn turns_at(&self) -> Option<usize> {
        self.inner_candidates().find(|index| {
            let (failures, trials) = self.search.bisection.failures_and_runs(*index);
            if self.both_fail {
                failures == 0 && trials >= self.enough
            } else {
                self.fails_more_often(failures, trials)
            }
        })
    }

    /// Returns whether a candidate fails more often than an end that fails rarely or never.
    fn fails_more_often(&self, failures: u64, trials: u64) -> bool {
        let (rare_failures, rare_trials) = self.rare_end;
        failures > 0
            && (rare_failures == 0
                || fisher(failures, trials, rare_failures, rare_trials).greater <= self.alpha)
    }

    /// Returns the next choice to try, until one candidate differs from the ends, or all agree.
    fn next_choice(&self, state: &State) -> Option<VariantChoice> {
        let mut open = self.inner_candidates().filter(|index| {
            let (failures, trials) = self.search.bisection.failures_and_runs(*index);
            let id = state.variant_at_place(*index);
            let testable = id.is_none_or(|id| state.is_testable(id));
            let coming = id.map_or(0, |id| state.in_flight(id));
            let open = failures == 0 || !self.both_fail;
            testable && open && trials + coming < self.enough
        });
        if self.turns_at().is_some() {
            return None;
        }
        open.next().and_then(choice_of_place)
    }
}

fn choice_of_place(index: usize) -> Option<VariantChoice> {
    u32::try_from(index).ok().map(VariantChoice::Place)
}

/// Tries the candidate that the check of the answer requires.
fn check_answer(state: &State, search: &BisectProgress) -> Option<Step> {
    let (index, missing) = search.unchecked_candidate()?;
    let coming = state
        .variant_at_place(index)
        .map_or(0, |id| state.in_flight(id));
    Some(match choice_of_place(index) {
        Some(choice) if coming < missing => step_for_choice(state, choice),
        _ => Step::Wait,
    })
}

/// Tries the good end until it has failed as often as the bad end must.
fn compare_ends(state: &State, search: &BisectProgress) -> Step {
    let failed = search.bisection.failures_and_runs(0).0;
    let coming = state
        .variant_at_place(0)
        .map_or(0, |id| state.in_flight(id));
    let testable = state
        .variant_at_place(0)
        .is_none_or(|id| state.is_testable(id));
    if !testable || is_spent(state) {
        return Step::wait_or_done(state);
    }
    match choice_of_place(0) {
        Some(choice) if failed + coming < FAILURES => step_for_choice(state, choice),
        _ => Step::Wait,
    }
}

fn look_inside(state: &State, search: &BisectProgress) -> Step {
    match AgreeingEnds::new(state, search).and_then(|ends| ends.next_choice(state)) {
        Some(choice) if !is_spent(state) => step_for_choice(state, choice),
        _ if !state.preparation.running.is_empty() => Step::Wait,
        _ => Step::wait_or_done(state),
    }
}

impl BisectPolicy {
    /// Returns whether the bad end fails often enough to search.
    pub fn bad_end_fails(state: &State) -> bool {
        reproduction_progress(state) == ReproductionProgress::Yes
    }

    /// Returns a candidate that differs from both ends, if the ends agree.
    pub fn turns_at(state: &State) -> Option<usize> {
        let search = BisectProgress::of_state(state)?;
        AgreeingEnds::new(state, &search)?.turns_at()
    }
}

impl Policy for BisectPolicy {
    fn next_step(&self, state: &State) -> Step {
        let Some(search) = BisectProgress::of_state(state) else {
            return Step::Done;
        };
        if let Some(step) = raise_step(state) {
            return step;
        }
        let reproduced = reproduction_step(state);
        let fails_too_rarely = reproduced == Some(Step::Done)
            && state.is_testable(State::FAILING)
            && reproduction_progress(state) == ReproductionProgress::No;
        match (reproduced, search.current_verdict()) {
            (Some(Step::Done), _) if fails_too_rarely => return look_inside(state, &search),
            (Some(step), _) => return step,
            (None, Found::AlreadyBad(_)) if search.ends_agree() => {
                return look_inside(state, &search);
            }
            (None, Found::AlreadyBad(_)) => return compare_ends(state, &search),
            (None, Found::Known(_)) if is_spent(state) => return Step::wait_or_done(state),
            (None, Found::Known(_)) if search.good_end_is_doubtful(state) => {
                return compare_ends(state, &search);
            }
            (None, Found::Known(_)) => {
                return check_answer(state, &search).unwrap_or_else(|| Step::wait_or_done(state));
            }
            (None, Found::Open(_)) => {}
            (None, _) => return Step::Done,
        }
        if is_spent(state) {
            return Step::wait_or_done(state);
        }
        // The candidate with the most information is tried, or prepared, or waited for: trials of candidates that
        // happen to be prepared would give little information, and delay it.
        let candidates = search.choose_candidates(state, 1, usize::MAX);
        let choice = candidates.first().and_then(|index| choice_of_place(*index));
        step_for_next(state, choice)
    }

    /// Prepares the candidate that will probably be tried next.
    fn step_ahead(&self, state: &State) -> Option<Step> {
        let stored = untried_variants(state) + state.preparation.running.len();
        let parallel_builds = state.trials.space.as_ref()?.parallel_builds as usize;
        let is_over = is_spent(state)
            || state.undecided_raise().is_some()
            || reproduction_progress(state) == ReproductionProgress::No;
        if is_over
            || !needs_preparation(state)
            || stored >= parallel_builds
            || !state.is_ready(State::FAILING)
        {
            return None;
        }
        let search = BisectProgress::of_state(state)?;
        if !matches!(search.current_verdict(), Found::Open(_)) {
            return None;
        }
        let soon = search.choose_candidates(state, parallel_builds + 1, parallel_builds);
        first_preparation(state, soon.into_iter().filter_map(choice_of_place))
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match (
            reproduction_progress(state),
            BisectProgress::of_state(state),
        ) {
            (ReproductionProgress::No, _) => Verdict::NotThere,
            (ReproductionProgress::Yes, Some(search)) => match search.current_verdict() {
                Found::Known(_) => Verdict::Found,
                Found::NoneBad(_) => Verdict::NotThere,
                Found::AlreadyBad(_) if search.ends_agree() => Verdict::NotThere,
                Found::AlreadyBad(_) | Found::Open(_) | Found::Impossible => Verdict::Undecided,
            },
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        search::stop_rule(state, self.verdict_of(state))
    }
}
