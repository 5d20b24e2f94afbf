//! Describes a baseline: the failures before the fix, and the runs that measured them.

use super::of_goal;
use provoke_model::{
    BugFilter, CaptureMode, ConditionDifference, ExcludedRun, Failure, FailureKind, FailureName,
    Goal, KnownCrash, MeasuredBaseline, RunCounts, Signature, TrialsPlan,
};
use provoke_plan::{OnlyRule, Scenario};
use provoke_state::State;
use provoke_survey::differing_conditions;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of reasons in a line.
const FEW_REASONS: usize = 2;
/// Option for the case that earlier runs do not belong to the baseline.
pub(super) const IGNORE: &str = "--ignore-earlier-runs";

/// How often it failed before the fix.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BaselineReport {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The run of the baseline; null if only its counts are known.
    pub run: Option<String>,
    /// The variant used as the reference, if it is one of the compared variants.
    pub variant: Option<String>,
    /// Trials that count as one independent trial: above 1 if failures came in clumps.
    pub design_effect: f64,
    /// In how many clumps the failures came, if that caused a warning; null otherwise.
    pub clumps: Option<u64>,
    /// How the failure rate changed during the run, if that caused a warning; null otherwise.
    pub drift: Option<RateDriftReport>,
    /// The failures by signature.
    pub bugs: Vec<String>,
    /// All runs of the program that count, the named one first; empty if only the named run counts.
    pub runs: Vec<RunCounts>,
    /// Runs of the same command that do not count, and why.
    pub left_out: Vec<ExcludedRun>,
    /// How the named run differs from the others, if by more than chance; null otherwise.
    pub rates_differ: Option<RateMismatchReport>,
}

/// Returns the conditions that differ from the baseline.
pub(super) fn differing_from_baseline(
    state: &State,
    baseline: Option<&MeasuredBaseline>,
) -> Vec<ConditionDifference> {
    let conditions = baseline.and_then(|base| base.conditions.as_ref());
    conditions.map_or_else(Vec::new, |conditions| {
        differing_conditions(&state.trials, &state.origin.host, conditions)
    })
}

/// Returns whether a failure is one of the known bugs or, without any, the same as the first failure.
pub(super) fn is_searched_bug(
    known: Option<&KnownCrash>,
    first: Option<&(FailureKind, Signature)>,
    failure: &Failure,
) -> bool {
    match (known, first) {
        (Some(known), _) if !known.bugs.is_empty() => {
            known.bugs.iter().any(|bug| bug.may_be(failure))
        }
        (_, Some((kind, signature))) => FailureName { kind, signature }.is_same(failure.into()),
        _ => true,
    }
}

/// A baseline of several runs of the same program.
#[derive(Clone, Copy, Debug)]
pub struct PooledBaseline {
    /// The trials that must pass for a fix.
    pub required: RequiredPasses,
    /// Number of its runs.
    pub runs: u64,
}

/// The number of trials that must pass for a fix.
#[derive(Clone, Copy, Debug)]
pub struct RequiredPasses {
    /// The number.
    pub trials: u64,
    /// Whether they exclude a fix that only halves the rate as well.
    pub excludes_half: bool,
}

/// A change of the failure rate while a baseline was measured.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateDriftReport {
    /// Whether the failures came late rather than early.
    pub late: bool,
    /// The probability of such a change at a constant rate.
    pub p_value: f64,
    /// Failures in the half with fewer failures, which the fix is compared with.
    pub failures: u64,
    /// Trials of that half.
    pub trials: u64,
}

impl BaselineReport {
    pub(super) fn new(measured: &MeasuredBaseline, variant: Option<String>) -> Self {
        Self {
            failures: measured.failures,
            trials: measured.trials,
            run: measured.run.clone(),
            variant,
            design_effect: measured.design_effect(),
            clumps: measured.clumps,
            drift: measured.drift.map(|drift| RateDriftReport {
                late: drift.late,
                p_value: f64::from(drift.p_value) / 1e6,
                failures: drift.failures,
                trials: drift.trials,
            }),
            bugs: measured.bugs.iter().map(|bug| bug.title.clone()).collect(),
            runs: measured.runs.clone(),
            left_out: measured.left_out.clone(),
            rates_differ: RateMismatchReport::of_measured(measured),
        }
    }
}

/// The baseline run failed more or less often than the other runs of the program.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

impl BaselineReport {
    /// Lists the runs of a baseline, if there are several.
    pub(super) fn say_runs(&self) -> Vec<String> {
        let counts = self.runs.split_first().map(|(named, others)| {
            let other_counts = (self.failures - named.failures, self.trials - named.trials);
            format!(
                "baseline: {} of {} failed in {}, {} of {} in {} of the same program ({IGNORE} ignores the others)",
                named.failures,
                named.trials,
                words::sanitize_line(&named.run),
                other_counts.0,
                other_counts.1,
                other_runs(others.len() as u64),
            )
        });
        counts.into_iter().chain(self.say_mismatches()).collect()
    }

    fn say_mismatches(&self) -> impl Iterator<Item = String> {
        self.rates_differ
            .iter()
            .map(RateMismatchReport::to_sentence)
    }

    /// Lists before the start which runs do not count; the result says which do.
    pub(super) fn runs_beforehand(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.say_mismatches().collect();
        lines.extend(excluded_runs(&self.left_out));
        lines
    }
}

/// Lists the runs of the same command that do not count, with the reasons.
pub(super) fn excluded_runs(excluded: &[ExcludedRun]) -> Option<String> {
    let mut counts_by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for excluded_run in excluded {
        *counts_by_reason.entry(&excluded_run.why).or_default() += 1;
    }
    let mut reasons: Vec<(&str, u64)> = counts_by_reason.into_iter().collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut reasons_text: Vec<String> = reasons
        .iter()
        .take(FEW_REASONS)
        .map(|(reason, count)| {
            let safe_reason = words::sanitize_line(reason);
            if reasons.len() == 1 {
                safe_reason
            } else {
                format!("{count} because {safe_reason}")
            }
        })
        .collect();
    if reasons.len() > FEW_REASONS {
        let more = (reasons.len() - FEW_REASONS) as u64;
        reasons_text.push(words::format_count(more, "other reason"));
    }
    (!excluded.is_empty()).then(|| {
        format!(
            "{} of this command {}: {}",
            words::format_count(excluded.len() as u64, "other run"),
            if excluded.len() == 1 {
                "does not count"
            } else {
                "do not count"
            },
            reasons_text.join("; ")
        )
    })
}

fn other_runs(count: u64) -> String {
    words::format_count(count, "other run")
}

/// Refuses a baseline without failures.
pub(super) fn check_baseline(
    scenario: &Scenario,
    measured: MeasuredBaseline,
) -> Result<MeasuredBaseline, Diagnostic> {
    if measured.failures > 0 {
        return Ok(measured);
    }
    let that_way = if scenario.judge.only.0.is_empty() {
        ""
    } else {
        " in the given way"
    };
    let message = match measured.trials {
        0 => "all trials of the baseline were inconclusive".to_owned(),
        trials => format!("none of the {trials} trials of the baseline failed{that_way}"),
    };
    let by_signature = |rule: &OnlyRule| matches!(rule.0, BugFilter::Signature(_));
    let hint = if scenario.judge.only.0.iter().any(by_signature) {
        "trials without a stack do not have the signature of a stack: name the kind of failure, such as --only SIGABRT"
    } else {
        "name a run with failures (`provoke list` shows them); without --baseline, the newest one counts"
    };
    Err(Diagnostic::of_field("baseline", message, hint))
}

/// Returns the failures that are the bug. If cores are off, all failures with the exit status of the bug count: no stack
/// distinguishes crashes, and to miss the bug would be worse.
pub fn bugs_without_cores(goal: &Goal, trials: &TrialsPlan) -> Vec<BugFilter> {
    let mut only = trials.rules.only.clone();
    let settings = &trials.settings;
    let dumps = matches!(settings.capture, CaptureMode::On | CaptureMode::Trace);
    if dumps && settings.no_cores.is_none() {
        return only;
    }
    let kind = of_goal(goal);
    let Some(base) = kind.baseline(goal).filter(|_| kind.tests_a_fix()) else {
        return only;
    };
    for bug in base.measured.bugs.iter().filter(|bug| bug.by_core) {
        for filter in &mut only {
            if matches!(filter, BugFilter::Signature(id) if bug.names.contains(id)) {
                *filter = BugFilter::Signature(bug.widest);
            }
        }
    }
    only.dedup();
    only
}
