//! Describes which earlier runs count, and which do not.

use super::super::words;
use super::BaselineReport;
use crate::model::{ExcludedRun, MeasuredBaseline, RunCounts};
use crate::state::{EarlierUse, State};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of reasons in a line.
const FEW_REASONS: usize = 2;
/// Option for the case that earlier runs do not belong to the baseline.
const IGNORE: &str = "--ignore-earlier-runs";

/// The baseline run failed more or less often than the other runs of the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RateMismatchReport {
    /// Whether the named run failed more often. Then all of them count; otherwise it counts alone.
    pub more_often: bool,
    /// The counts of the named run.
    pub named: RunCounts,
    /// How many other runs there are.
    pub others: u64,
    /// Failures of the others.
    pub failures: u64,
    /// Trials of the others.
    pub trials: u64,
    /// The probability of such a difference if the rate is the same.
    pub p_value: f64,
}

impl RateMismatchReport {
    pub(super) fn of_measured(measured: &MeasuredBaseline) -> Option<Self> {
        let differ = measured.rates.as_ref()?;
        Some(Self {
            more_often: differ.more_often,
            named: differ.named.clone(),
            others: differ.others,
            failures: differ.failures,
            trials: differ.trials,
            p_value: f64::from(differ.p_value) / 1e6,
        })
    }

    fn to_sentence(&self) -> String {
        let (often, meaning) = if self.more_often {
            (
                "more",
                "the baseline is all runs together, because a run with many failures may be an exception",
            )
        } else {
            ("less", "the baseline is this run alone")
        };
        format!(
            "{} failed {often} often ({} of {}) than {} ({} of {}, {}): {meaning}",
            words::sanitize_line(&self.named.run),
            self.named.failures,
            self.named.trials,
            other_runs(self.others),
            self.failures,
            self.trials,
            words::p_value(self.p_value),
        )
    }
}

/// What earlier runs measured of the bad end of a search, or of the set of all items.
#[derive(Clone, Debug, Serialize, JsonSchema)]
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
    pub(super) fn of_search(state: &State) -> Option<Self> {
        let asked = state.plan.question.as_search()?;
        let earlier = asked.earlier.as_ref()?;
        let why = match state.earlier_use {
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
            counted: why.is_none(),
            why,
            left_out: earlier.left_out.clone(),
        })
    }

    /// Describes whether the earlier trials of the bad end, or of all items, count.
    pub(super) fn describe_earlier_trials(&self, name: &str) -> Option<String> {
        if self.trials == 0 {
            return None;
        }
        let runs = words::format_count(self.runs.len() as u64, "earlier run");
        let seen = format!(
            "{} failed in {} of {} trials of {runs}",
            words::sanitize_line(name),
            self.failures,
            self.trials
        );
        Some(match &self.why {
            None => format!("{seen}: counted ({IGNORE} ignores them)"),
            Some(why) => format!("{seen}: not counted, {why}"),
        })
    }

    /// Lists the earlier runs before the start.
    pub(super) fn lines_before_start(&self, name: &str) -> Vec<String> {
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
        lines.extend(not_counted(&self.left_out));
        lines
    }
}

/// Returns the earlier trials of the failing variant, and how often it must fail again.
pub(super) fn reproduction_needed(state: &State) -> (Option<EarlierTrialsReport>, &'static str) {
    let times = match state.failures_needed() {
        1 => "once",
        _ => "three times",
    };
    (EarlierTrialsReport::of_search(state), times)
}

impl BaselineReport {
    /// Lists the runs of a baseline, if there are several.
    pub(super) fn say_runs(&self) -> Vec<String> {
        let differ = self
            .rates_differ
            .iter()
            .map(RateMismatchReport::to_sentence);
        let counts = self.runs.split_first().map(|(named, others)| {
            let all = (self.failures - named.failures, self.trials - named.trials);
            format!(
                "baseline: {} of {} failed in {}, {} of {} in {} of the same program ({IGNORE} ignores the others)",
                named.failures,
                named.trials,
                words::sanitize_line(&named.run),
                all.0,
                all.1,
                other_runs(others.len() as u64),
            )
        });
        counts.into_iter().chain(differ).collect()
    }

    /// Lists before the start which runs count and which do not.
    pub(super) fn runs_beforehand(&self) -> Vec<String> {
        let mut lines = self.say_runs();
        lines.extend(not_counted(&self.left_out));
        lines
    }
}

/// Lists the runs of the same command that do not count, with the reasons.
fn not_counted(left_out: &[ExcludedRun]) -> Option<String> {
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for one in left_out {
        *reasons.entry(&one.why).or_default() += 1;
    }
    let mut reasons: Vec<(&str, u64)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let told = reasons.iter().take(FEW_REASONS).map(|(why, count)| {
        let why = words::sanitize_line(why);
        match count {
            1 => why,
            count => format!("{why} ({count} runs)"),
        }
    });
    let mut told: Vec<String> = told.collect();
    if reasons.len() > FEW_REASONS {
        let more = (reasons.len() - FEW_REASONS) as u64;
        told.push(words::format_count(more, "other reason"));
    }
    (!left_out.is_empty()).then(|| {
        format!(
            "{} of this command {}: {}",
            words::format_count(left_out.len() as u64, "other run"),
            if left_out.len() == 1 {
                "does not count"
            } else {
                "do not count"
            },
            told.join("; ")
        )
    })
}

fn other_runs(count: u64) -> String {
    words::format_count(count, "other run")
}
