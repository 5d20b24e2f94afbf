//! Questions that a run answers, and baselines.

use super::{Conditions, SignatureId, VariantId, is_default};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the trials are run for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// How often does it fail?
    #[default]
    Rate,
    /// Is it fixed?
    Confirm(Confirm),
    /// Which variants fail, and do they differ?
    Compare(Compare),
    /// Which place of an ordered list is the first that fails?
    Bisect(Search),
    /// Which smallest set of things keeps the failure?
    Reduce(Search),
    /// At which concurrency does it fail?
    Ramp(Ramp),
    /// Which parts of a load does the crash need?
    Shrink(Shrink),
}

/// A search for less of a load that still kills.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrink {
    /// Lives of the whole without a death, after which it is given up that one comes.
    pub reproduce: u64,
}

/// A search for the lowest level of load that fails; the plan's variants are the levels, upwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ramp {
    /// The rate, in millionths of a life, from which on a level is said to fail.
    pub detect: u32,
    /// A level at twice the answer is tried as well: it may not be that more load fails more often.
    #[serde(default, skip_serializing_if = "is_default")]
    pub above: bool,
}

/// A search in the plan's space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Search {
    /// A good variant never fails: another failure is told from the bug.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clean: bool,
    /// Every failure is the bug, not only those that the variant showed which fails.
    #[serde(default, skip_serializing_if = "is_default")]
    pub any_failure: bool,
    /// The list began with what fails: what is searched is the last that does, before a fix.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fixed: bool,
    /// Trials of the variant that fails, after which it is given up that it ever does.
    pub reproduce: u64,
    /// After an answer, more boundaries are looked for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub all: bool,
    /// Clean trials of a place between two good ends that are enough, where that is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inside: Option<u64>,
    /// Before the search, look for a setting under which the failing variant fails more often.
    #[serde(default, skip_serializing_if = "is_default")]
    pub raise_rate: bool,
    /// Earlier runs of what fails do not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ignore_earlier: bool,
    /// What earlier runs saw of what fails; nothing without such runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier: Option<EarlierTrials>,
}

/// Trials of what fails that earlier runs made of the same program under the same conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EarlierTrials {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The kinds of these failures.
    pub kinds: Vec<String>,
    /// The runs of these trials.
    #[serde(skip_serializing_if = "is_default")]
    pub runs: Vec<RunCounts>,
    /// Runs of the same command that do not count.
    #[serde(skip_serializing_if = "is_default")]
    pub left_out: Vec<LeftOut>,
}

/// Failures among the trials of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunCounts {
    /// The run.
    pub run: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
}

/// A run of the same command that does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LeftOut {
    /// The run.
    pub run: String,
    /// Why it does not count.
    pub why: String,
}

impl Question {
    /// Returns the search, where it is one.
    pub fn search(&self) -> Option<&Search> {
        match self {
            Self::Bisect(search) | Self::Reduce(search) => Some(search),
            _ => None,
        }
    }
}

/// Is it fixed?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirm {
    /// How often it failed before the fix.
    pub baseline: Baseline,
    /// Conditions that differ from the baseline are taken not to change the rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accept_conditions: bool,
    /// Fixes that were tried against this baseline before.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier_attempts: u64,
    /// Whether a fix that only halves the rate must not pass either; nothing means that it must not if the additional
    /// trials take little time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exclude_half: Option<bool>,
    /// Trials do not influence each other, though what `setup` started lives through all of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub independent: bool,
    /// Exit statuses of the bug: a failure with one of these may be the bug under a name that the
    /// baseline does not know.
    #[serde(default, skip_serializing_if = "is_default")]
    pub doubts: Vec<SignatureId>,
}

/// How often it failed before the fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// This was measured.
    Measured(Box<Measured>),
    /// Nobody measured it: a rate in millionths that is taken for granted.
    Assumed(u32),
}

/// Failures among trials, and what else is known of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// So many trials, in thousandths, are worth one independent trial: failures clumped.
    #[serde(skip_serializing_if = "is_default")]
    pub design_effect: Option<u32>,
    /// In how many clumps the failures came, where that made a warning.
    #[serde(skip_serializing_if = "is_default")]
    pub clumps: Option<u64>,
    /// How the rate changed meanwhile, where that made a warning.
    #[serde(skip_serializing_if = "is_default")]
    pub drift: Option<Drift>,
    /// All trials met one life of what `setup` started.
    #[serde(skip_serializing_if = "is_default")]
    pub one_life: bool,
    /// How long a passing trial took, in microseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub pass_us: Option<u64>,
    /// The run that it was, where it was one of ours.
    #[serde(skip_serializing_if = "is_default")]
    pub run: Option<String>,
    /// Which failures these were; nothing when only their number is known.
    #[serde(skip_serializing_if = "is_default")]
    pub bugs: Vec<Bug>,
    /// Names of failures that it saw as well, and that are not the bug.
    #[serde(skip_serializing_if = "is_default")]
    pub others: Vec<SignatureId>,
    /// It was broken off, or went on when it was read.
    #[serde(skip_serializing_if = "is_default")]
    pub unfinished: bool,
    /// How its trials were run, where it was a run that says so.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Option<Conditions>,
    /// All runs that count, first the one that was named; nothing where it counts alone.
    #[serde(skip_serializing_if = "is_default")]
    pub runs: Vec<RunCounts>,
    /// Runs of the same command that do not count.
    #[serde(skip_serializing_if = "is_default")]
    pub left_out: Vec<LeftOut>,
    /// How the run that was named failed beside the others, if they differ by more than chance.
    #[serde(skip_serializing_if = "is_default")]
    pub rates: Option<RatesDiffer>,
}

/// The run that was named as a baseline failed more or less often than other runs of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RatesDiffer {
    /// More often: all of them count. Otherwise it counts alone.
    pub more_often: bool,
    /// The run that was named.
    pub named: RunCounts,
    /// How many others there are.
    pub others: u64,
    /// Their failures.
    pub failures: u64,
    /// Their trials.
    pub trials: u64,
    /// The chance of such a difference at one rate, in millionths.
    pub p_value: u32,
}

/// A change of the rate in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// Whether the failures came late rather than early.
    pub late: bool,
    /// The chance of such a change at a constant rate, in millionths.
    pub p_value: u32,
    /// Failures in the half with fewer of them.
    pub failures: u64,
    /// Trials of that half.
    pub trials: u64,
}

/// A failure that was seen before, and by which names it is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bug {
    /// What it is, for people.
    pub title: String,
    /// Its names from the best evidence that there is.
    pub names: Vec<SignatureId>,
    /// These are known from cores alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub by_core: bool,
    /// The name that rests on the exit status alone: many bugs may have it.
    pub widest: SignatureId,
}

/// Which variants fail, and do they differ?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compare {
    /// What is looked for.
    pub find: Find,
    /// What the others are compared with, where rates are.
    pub reference: VariantId,
    /// The other one is said to be a fix of the reference: does it hold?
    #[serde(default, skip_serializing_if = "is_default")]
    pub fixed: bool,
    /// How often those fail that do, where that is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub baseline: Option<Box<Measured>>,
    /// Conditions that differ from the baseline are taken not to change the rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accept_conditions: bool,
    /// A clean variant fails in fewer of its trials, in millionths.
    #[serde(default, skip_serializing_if = "is_default")]
    pub floor: Option<u32>,
}

/// What a comparison searches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Find {
    /// Which variants fail, and which fail less often or not at all.
    Failing,
    /// Which variants fail at another rate than the reference.
    Different,
}

/// Something that is set in several ways, each with each way of the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// The name of the setting.
    pub name: String,
    /// Its value.
    pub levels: Vec<String>,
}

impl Measured {
    /// Returns how long a passing trial took, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.pass_us
            .map(|time| Duration::from_micros(time).as_secs_f64())
    }

    /// Returns the failures and the trials that a fix is held against: the half with fewer failures,
    /// if the rate changed.
    pub fn counts(&self) -> (u64, u64) {
        match self.drift {
            Some(drift) => (drift.failures, drift.trials),
            None => (self.failures, self.trials),
        }
    }

    /// Returns how many runs it was; 0 for counts alone.
    pub fn run_count(&self) -> u64 {
        match self.runs.len() {
            0 => u64::from(self.run.is_some()),
            several => several as u64,
        }
    }

    /// True when the trials of this run count.
    pub fn has_run(&self, name: &str) -> bool {
        self.run.as_deref() == Some(name) || self.runs.iter().any(|one| one.run == name)
    }

    /// Returns how many trials are worth one independent trial.
    pub fn effect(&self) -> f64 {
        f64::from(self.design_effect.unwrap_or(1000).max(1000)) / 1000.0
    }
}
