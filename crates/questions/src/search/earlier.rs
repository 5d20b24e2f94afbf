//! Describes which earlier runs of the failing variant count.

use super::{EarlierUse, Reproduction};
use crate::baseline::{IGNORE, excluded_runs};
use provoke_model::{EarlierTrials, ExcludedRun, FailingRate, Goal, RunCounts, TrialsPlan};
use provoke_state::State;
use provoke_words as words;
use serde::Serialize;

/// What earlier runs measured of the bad end of a search, or of the set of all items.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierTrialsReport {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The runs of these trials.
    pub runs: Vec<RunCounts>,
    /// Whether they count in this search.
    pub counted: bool,
    /// Why they do not; null if they do.
    pub why: Option<String>,
    /// Runs of the same command that do not count.
    pub left_out: Vec<ExcludedRun>,
}

impl EarlierTrialsReport {
    pub(crate) fn of_search(state: &State) -> Option<Self> {
        let question = state.goal.question.as_search()?;
        let earlier = question.earlier.as_ref()?;
        let reason = match Reproduction::of_state(state)?.earlier_use {
            EarlierUse::Counted => None,
            EarlierUse::Nothing => Some("no run qualifies".to_owned()),
            EarlierUse::Open => Some("the failure has not been reproduced yet".to_owned()),
            EarlierUse::RateDiffers(p_value) => Some(format!(
                "the failure rate has changed, {}",
                words::p_value(p_value)
            )),
            EarlierUse::KindDiffers => Some("the failure is of another kind now".to_owned()),
        };
        Some(Self {
            failures: earlier.failures,
            trials: earlier.trials,
            runs: earlier.runs.clone(),
            counted: reason.is_none(),
            why: reason,
            left_out: earlier.left_out.clone(),
        })
    }

    /// Describes whether the earlier trials of the bad end, or of all items, count.
    pub(crate) fn describe_earlier_trials(&self, name: &str) -> Option<String> {
        if self.trials == 0 {
            return None;
        }
        let runs = words::format_count(self.runs.len() as u64, "earlier run");
        let counts_text = format!(
            "{} failed in {} of {} trials of {runs}",
            words::sanitize_line(name),
            self.failures,
            self.trials
        );
        Some(match &self.why {
            None => format!("{counts_text}: counted ({IGNORE} ignores them)"),
            Some(reason) => format!("{counts_text}: not counted, {reason}"),
        })
    }

    /// Lists the earlier runs before the start.
    pub(crate) fn lines_before_start(&self, name: &str) -> Vec<String> {
        let mut lines = Vec::new();
        if self.trials > 0 {
            lines.push(format!(
                "{} failed in {} of {} trials of {}: counted while the failure rate is the same ({IGNORE} ignores them)",
                words::sanitize_line(name),
                self.failures,
                self.trials,
                words::format_count(self.runs.len() as u64, "earlier run"),
            ));
        }
        lines.extend(excluded_runs(&self.left_out));
        lines
    }
}

/// Returns the earlier trials of the failing variant, and how often it must fail again.
pub(crate) fn reproduction_needed(state: &State) -> (Option<EarlierTrialsReport>, &'static str) {
    let times = match Reproduction::of_state(state).map(Reproduction::failures_needed) {
        Some(1) => "once",
        _ => "three times",
    };
    (EarlierTrialsReport::of_search(state), times)
}

/// Returns whether trials of the bad end in earlier runs count for a search.
pub fn counts_earlier_trials(goal: &Goal, trials: &TrialsPlan) -> bool {
    // A log contains trials of an earlier run, which must not count twice.
    let is_logged = trials.space.as_ref().is_some_and(|space| {
        let mut known_facts = space.known.iter();
        known_facts.any(|facts| facts.place as usize + 1 == space.len() && facts.counts.is_some())
    });
    // A search under another setting has another rate.
    let search = goal.question.as_search();
    search.is_some_and(|search| search.failing_rate == FailingRate::EarlierRuns) && !is_logged
}

/// Adds the trials of earlier runs to a search.
pub fn set_earlier_trials(goal: &mut Goal, earlier: Option<EarlierTrials>) {
    if let Some(search) = goal.question.as_search_mut() {
        search.earlier = earlier;
    }
}
