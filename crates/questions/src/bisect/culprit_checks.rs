//! Checks whether the trials of the other candidates agree with the first bad one.

use super::BisectProgress;
use super::candidates::{candidates_of, is_fixed, own_counts};
use provoke_state::State;
use provoke_stats as stats;
use provoke_stats::search::SearchVerdict as Found;
use serde::Serialize;

/// Missing trials above this number are not mentioned.
const MAX_MISSING: u64 = 1000;

/// The first bad candidate and the one before it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LocalCheck {
    /// The first bad candidate.
    pub culprit: String,
    /// The candidate before it.
    pub before: String,
    /// The probability of such a difference by chance (Fisher, one-sided).
    pub p_value: f64,
    /// Whether that is significant.
    pub confirmed: bool,
    /// How many more passing trials of the candidate before would make it significant; 0 if it is.
    pub missing: u64,
}

/// A version before the first bad one that also fails, less often.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierFailingVersion {
    /// Its name.
    pub name: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// Whether it failed in a smaller share of its trials than the first bad one and those after it.
    pub less_often: bool,
    /// What that means.
    pub meaning: EarlierFailureMeaning,
}

/// What failures of an earlier version mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EarlierFailureMeaning {
    /// The good end fails less often, or not at all: the failures began at this version or before it.
    BeganEarlier,
    /// The good end also fails: good versions fail now and then.
    Background,
    /// The good end passed too few trials to decide between the two.
    NotKnown,
}

/// A bad end that fails more often than the culprit.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateRise {
    /// The culprit.
    pub culprit: String,
    /// Its trials that showed the bug.
    pub culprit_failures: u64,
    /// Its counted trials.
    pub culprit_trials: u64,
    /// The bad end.
    pub bad_end: String,
    /// Trials of the bad end that showed the bug.
    pub failures: u64,
    /// Counted trials of the bad end.
    pub trials: u64,
}

impl EarlierFailingVersion {
    /// Describes the earlier failing version.
    pub(super) fn to_sentence(&self, state: &State) -> String {
        let side = if is_fixed(state) { "after" } else { "before" };
        let rarer = if self.less_often { ", less often" } else { "" };
        format!(
            "{} {side} it also fails{rarer} ({} of {})",
            self.name, self.failures, self.trials
        )
    }
}

/// Returns why no single boundary explains the results. A candidate that failed at all does not count as good.
pub(super) fn describe_contradiction(state: &State, search: &BisectProgress) -> Option<String> {
    let candidates = candidates_of(state);
    // The bad end failed often enough, so its rate does not matter.
    let contradiction = search.bisection.find_contradiction()?;
    let first_contradiction =
        Some(contradiction).filter(|found| found.passes + 1 != candidates.len())?;
    let counted = |index: usize| {
        let (failures, trials) = search.bisection.failures_and_runs(index);
        format!("{} ({failures} of {trials})", candidates[index].name)
    };
    let (fails, passes) = (
        counted(first_contradiction.fails),
        counted(first_contradiction.passes),
    );
    let when = if is_fixed(state) { "earlier" } else { "later" };
    let (failures, _) = search
        .bisection
        .failures_and_runs(first_contradiction.passes);
    Some(if failures == 0 {
        format!("{fails} looks bad, and {passes}, which is {when}, good: the bug may come and go")
    } else {
        format!(
            "{passes}, which is {when}, fails more rarely than {fails}: bad versions may fail at different rates"
        )
    })
}

/// Returns the version before the culprit that failed most often.
pub(super) fn earlier_failing(
    state: &State,
    search: &BisectProgress,
) -> Option<EarlierFailingVersion> {
    let Found::Known(group) = search.current_verdict() else {
        return None;
    };
    let version = search.bisection.earlier_failing(&group)?;
    let (failures, trials) = (version.failures, version.runs);
    let alpha = state.goal.alpha.to_probability();
    let good = search.bisection.failures_and_runs(0);
    let differ = stats::fisher(failures, trials, good.0, good.1).greater <= alpha;
    let meaning = match good.0 {
        _ if differ => EarlierFailureMeaning::BeganEarlier,
        0 => EarlierFailureMeaning::NotKnown,
        _ => EarlierFailureMeaning::Background,
    };
    let (bad_failures, bad_trials) = search.failing_counts();
    Some(EarlierFailingVersion {
        name: candidates_of(state)[version.version].name.clone(),
        failures,
        trials,
        less_often: failures * bad_trials < bad_failures * trials,
        meaning,
    })
}

/// Returns the bad end, if it fails significantly more often than the culprit.
pub(super) fn rate_rise(state: &State, search: &BisectProgress) -> Option<RateRise> {
    let Found::Known(group) = search.current_verdict() else {
        return None;
    };
    let bisection = search.bisection;
    if !bisection.newest_fails_more_often(&search.stop, &group) {
        return None;
    }
    let name = |index: usize| candidates_of(state)[index].name.clone();
    let (culprit_failures, culprit_trials) = bisection.failures_and_runs(group.last);
    let (failures, trials) = bisection.failures_and_runs(bisection.newest_version());
    // The bad end ran until it had failed often enough, so its last failure must not count as evidence of its rate.
    let (fair_failures, fair_trials) = (failures.saturating_sub(1), trials.saturating_sub(1));
    let p_value =
        stats::fisher(fair_failures, fair_trials, culprit_failures, culprit_trials).greater;
    if p_value > state.goal.alpha.to_probability() / 2.0 {
        return None;
    }
    Some(RateRise {
        culprit: name(group.last),
        culprit_failures,
        culprit_trials,
        bad_end: name(bisection.newest_version()),
        failures,
        trials,
    })
}

/// Compares the culprit with the candidate before it, by their own trials.
pub(super) fn local_check(state: &State, search: &BisectProgress) -> Option<LocalCheck> {
    let Found::Known(group) = search.current_verdict() else {
        return None;
    };
    let place_before = group.first.checked_sub(1)?;
    let (k, n) = own_counts(state, search, group.last);
    let (bad_before, clean) = search.bisection.failures_and_runs(place_before);
    let p_value = stats::fisher(k, n, bad_before, clean).greater;
    let alpha = state.goal.alpha.to_probability();
    let is_significant =
        |more: u64| n > 0 && stats::fisher(k, n, bad_before, clean + more).greater <= alpha;
    let name = |index: usize| candidates_of(state)[index].name.clone();
    Some(LocalCheck {
        culprit: name(group.last),
        before: name(place_before),
        p_value,
        confirmed: is_significant(0),
        missing: (0..MAX_MISSING)
            .find(|more| is_significant(*more))
            .unwrap_or(MAX_MISSING),
    })
}
