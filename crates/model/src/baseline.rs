//! Failures before a fix, and the runs that measured them.

use super::{
    Conditions, EvidenceDepth, Failure, HoldPoint, KnownCrash, Signature, SignatureId, Text,
    is_default,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Failures before the fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// Measured counts.
    Measured(Box<MeasuredBaseline>),
    /// An assumed rate in millionths, which was not measured.
    Assumed(u32),
}

/// Failures and trials, and further facts about them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MeasuredBaseline {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// Number of trials, in thousandths, that are worth one independent trial because failures clump.
    #[serde(skip_serializing_if = "is_default")]
    pub design_effect: Option<u32>,
    /// Whether the failures are assumed to be independent nevertheless.
    #[serde(skip_serializing_if = "is_default")]
    pub assumed_independent: bool,
    /// Number of clumps of failures, if there was a warning.
    #[serde(skip_serializing_if = "is_default")]
    pub clumps: Option<u64>,
    /// The change of the rate during the run, if there was a warning.
    #[serde(skip_serializing_if = "is_default")]
    pub drift: Option<RateDrift>,
    /// Whether all trials used the same processes started by `setup`.
    #[serde(skip_serializing_if = "is_default")]
    pub one_life: bool,
    /// Duration of a passing trial, in microseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub pass_us: Option<u64>,
    /// The run that measured the counts, if a run of provoke did.
    #[serde(skip_serializing_if = "is_default")]
    pub run: Option<String>,
    /// The program of that run.
    #[serde(skip_serializing_if = "is_default")]
    pub program: Option<Text>,
    /// The bugs of these failures; empty if only their number is known.
    #[serde(skip_serializing_if = "is_default")]
    pub bugs: Vec<KnownBug>,
    /// Signatures of other failures of the run that are not the bug.
    #[serde(skip_serializing_if = "is_default")]
    pub others: Vec<SignatureId>,
    /// The functions at which the stacks of the bugs point.
    #[serde(skip)]
    pub functions: Vec<String>,
    /// The points at which failing trials of the run differ from others.
    #[serde(skip)]
    pub leading_points: Vec<HoldPoint>,
    /// Whether the run was interrupted, or was still running when it was read.
    #[serde(skip_serializing_if = "is_default")]
    pub unfinished: bool,
    /// The conditions of its trials, if the run recorded them.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Option<Conditions>,
    /// All runs that count, the named one first; empty if it counts alone.
    #[serde(skip_serializing_if = "is_default")]
    pub runs: Vec<RunCounts>,
    /// Runs of the same command that do not count.
    #[serde(skip_serializing_if = "is_default")]
    pub left_out: Vec<ExcludedRun>,
    /// The difference between the rates of the named run and the other runs, if it is significant.
    #[serde(skip_serializing_if = "is_default")]
    pub rates: Option<RateMismatch>,
}

/// The run named as a baseline failed more or less often than other runs of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateMismatch {
    /// Whether it failed more often; then all runs count. Otherwise it counts alone.
    pub more_often: bool,
    /// The named run.
    pub named: RunCounts,
    /// Number of other runs.
    pub others: u64,
    /// Failures of the other runs.
    pub failures: u64,
    /// Trials of the other runs.
    pub trials: u64,
    /// The probability of such a difference at one rate, in millionths.
    pub p_value: u32,
}

/// A change of the rate during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateDrift {
    /// Whether the failures came late rather than early.
    pub late: bool,
    /// The probability of such a change at a constant rate, in millionths.
    pub p_value: u32,
    /// Failures in the half with fewer of them.
    pub failures: u64,
    /// Trials of that half.
    pub trials: u64,
}

/// A known bug, and the signatures that identify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownBug {
    /// Title for the user.
    pub title: String,
    /// Its signatures from the best available evidence.
    pub names: Vec<SignatureId>,
    /// Whether these need cores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_core: bool,
    /// The signature from the exit status alone, which other bugs may share.
    pub widest: SignatureId,
    /// Its failures; 0 if they were not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failures: u64,
}

impl KnownBug {
    /// Returns whether two bugs share a name. If only the exit status of one is known, they count as the same: an
    /// interrupted run has no stacks, and must not count as if it had only passed.
    pub fn is_same(&self, other: &Self) -> bool {
        let is_only_status = |bug: &Self| bug.names == [bug.widest];
        let by_status = is_only_status(self) || is_only_status(other);
        by_status && self.widest == other.widest
            || self.names.iter().any(|name| other.names.contains(name))
    }

    /// Returns whether a failure with this signature is the bug.
    pub fn has_signature(&self, signature: &Signature) -> bool {
        let weaker = signature.also.iter().map(|(_, id)| *id);
        std::iter::once(signature.id)
            .chain(weaker)
            .any(|id| self.names.contains(&id))
    }

    /// Returns whether a failure is the bug, or ends as the bug does and lacks the evidence that would tell them apart: a
    /// crash or a hang whose stack was not captured.
    pub fn may_be(&self, failure: &Failure) -> bool {
        let signature = &failure.signature;
        let is_unknown_failure = !failure.kind.ends_by_itself()
            && (signature.depth < EvidenceDepth::Output
                || self.by_core && signature.depth < EvidenceDepth::Stack);
        let has_status = || {
            signature
                .names_at(EvidenceDepth::Status)
                .any(|id| id == self.widest)
        };
        self.has_signature(signature) || is_unknown_failure && has_status()
    }
}

impl Baseline {
    /// Returns the measured counts.
    pub fn as_measured(&self) -> Option<&MeasuredBaseline> {
        match self {
            Self::Measured(base) => Some(base),
            Self::Assumed(_) => None,
        }
    }
}

impl MeasuredBaseline {
    /// Returns its bugs, if a run measured them.
    pub fn into_known_crash(self) -> Option<Box<KnownCrash>> {
        let (run, bugs) = (self.run?, self.bugs);
        Some(Box::new(KnownCrash { run, bugs }))
    }

    /// Returns the duration of a passing trial, in seconds.
    pub fn pass_seconds(&self) -> Option<f64> {
        self.pass_us
            .map(|time| Duration::from_micros(time).as_secs_f64())
    }

    /// Returns the failures and trials of all bugs together: the counts of the half with fewer failures, if the rate changed.
    pub fn counts_of_all_bugs(&self) -> (u64, u64) {
        match self.drift {
            Some(drift) => (drift.failures, drift.trials),
            None => (self.failures, self.trials),
        }
    }

    /// Returns the failures and trials with which a fix is compared: those of the rarest of several bugs, because passing
    /// trials that exclude all bugs together may not exclude each of them.
    pub fn reference_counts(&self) -> (u64, u64) {
        let (failures, trials) = self.counts_of_all_bugs();
        let of_rarest = self
            .rarest_bug()
            .map(|bug| (bug.failures, self.trials_of_bugs()));
        let is_rarer = |&(rare_failures, rare_trials): &(u64, u64)| {
            u128::from(rare_failures) * u128::from(trials)
                < u128::from(failures) * u128::from(rare_trials)
        };
        of_rarest.filter(is_rarer).unwrap_or((failures, trials))
    }

    /// Returns the number of runs; 0 for plain counts.
    pub fn run_count(&self) -> u64 {
        match self.runs.len() {
            0 => u64::from(self.run.is_some()),
            several => several as u64,
        }
    }

    /// Returns whether the trials of this run count.
    pub fn has_run(&self, name: &str) -> bool {
        self.run.as_deref() == Some(name) || self.runs.iter().any(|counts| counts.run == name)
    }

    /// Returns how many trials are worth one independent trial.
    pub fn design_effect(&self) -> f64 {
        if self.assumed_independent {
            return 1.0;
        }
        f64::from(self.design_effect.unwrap_or(1000).max(1000)) / 1000.0
    }
}

/// Failures among the trials of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunCounts {
    /// The run.
    pub run: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// Files in the working directory in which this run and the present one differ.
    #[serde(default, skip_serializing_if = "is_default")]
    pub other_files: Vec<String>,
}

/// A run of the same command that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExcludedRun {
    /// The run.
    pub run: String,
    /// Why it does not count.
    pub why: String,
}
