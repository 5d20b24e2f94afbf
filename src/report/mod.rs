//! What a run says, for people and for other tools.
//!
//! [`Report`] is derived from the [`State`] and holds every number that is shown
//! anywhere: the terminal's summary, JSON, `JUnit` and Markdown all read it. Its
//! field names are a promise; `docs/report.md` describes them.

pub mod words;

use crate::model::{Host, Kind, Level, Plan, StopCause, TrialId, VariantId};
use crate::policy::{self, Policy, StopRule, Verdict};
use crate::state::{State, Tally, Times};
use crate::stats;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of the report's format.
pub const FORMAT: u32 = 1;

/// Everything that a run says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Version of this format; it changes when a field changes its meaning or goes.
    pub format: u32,
    /// The run's name.
    pub run: String,
    /// The command that was repeated, as it can be typed.
    pub command: String,
    /// The answer.
    pub verdict: Verdict,
    /// Why the trials came to an end; of several variants, the weakest reason.
    pub stop_rule: StopRule,
    /// The run has ended by its own rule. Otherwise it was broken off, or goes on.
    pub finished: bool,
    /// Every event was written down.
    pub journal_complete: bool,
    /// Confidence of the intervals, in per cent.
    pub confidence: f64,
    /// When the run was begun (RFC 3339, UTC).
    pub begun: String,
    /// Working time in seconds.
    pub seconds: f64,
    /// Trials side by side: neighbours change timing.
    pub jobs: u32,
    /// What all seeds of trials derive from.
    pub seed: u64,
    /// The machine.
    pub host: Host,
    /// What was run, each way of running it.
    pub variants: Vec<Variant>,
    /// Attempts that were interrupted or lost, and made up for under the same number.
    pub repeated_attempts: u64,
    /// Trials that ended after the question was answered, and are not counted.
    pub after_decision: u64,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What is known of one variant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Variant {
    /// Its name; empty when it is the only one.
    pub name: String,
    /// Its command, as it can be typed.
    pub command: String,
    /// Why its trials came to an end.
    pub stop_rule: StopRule,
    /// Trials that count: those that passed and those that showed the bug.
    pub trials: u64,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials that failed otherwise; they count as neither.
    pub other: u64,
    /// Trials that say nothing.
    pub void: u64,
    /// Trials by the name of their outcome, `pass` included.
    pub outcomes: BTreeMap<String, u64>,
    /// Void trials by reason.
    pub void_reasons: BTreeMap<String, u64>,
    /// Every kind of failure that was seen.
    pub kinds: Vec<KindSeen>,
    /// The failure rate.
    pub rate: Rate,
    /// The trials that showed the bug.
    pub failing_trials: Vec<u64>,
    /// Clean trials that would confirm a fix at this confidence; null without a failure.
    pub clean_runs_to_confirm: Option<u64>,
    /// How long trials took, by `pass` and `fail`.
    pub durations: BTreeMap<&'static str, Durations>,
    /// The failure rate on the axis of time.
    pub time_between_failures: Mtbf,
    /// Trials that left processes behind, whatever their outcome.
    pub leaking_trials: u64,
    /// Processes that were left behind and killed.
    pub leaked_processes: u64,
    /// Trials whose descendants outlived the main process for a moment only.
    pub settled_trials: u64,
    /// Trials in which a helper ended before the main process.
    pub helpers_ended_early: u64,
    /// Whether failures clump among trials side by side; null where that cannot be told.
    pub dependence: Option<Dependence>,
    /// Whether the rate changed in the course of the run; null where that cannot be told.
    pub trend: Option<Trend>,
}

/// One kind of failure.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KindSeen {
    /// The name it is counted under.
    pub outcome: String,
    /// How it is known, where several facts go by one name.
    pub label: Option<String>,
    /// What it means.
    pub words: String,
    /// Whether it is the bug looked for, or another failure.
    pub is_the_bug: bool,
    /// How often it was seen.
    pub count: u64,
    /// In which trials.
    pub trials: Vec<u64>,
}

/// A failure rate and how sure it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Rate {
    /// Failures by trials; null where that number would mislead: without a trial,
    /// without a failure, or when the run stopped at its first failure.
    pub point: Option<f64>,
    /// Clopper-Pearson interval: exact for a planned number of trials or failures.
    pub cp: [f64; 2],
    /// Confidence sequence: holds whenever and why ever one looks.
    pub cs: [f64; 2],
    /// What the rate is below, with all of the confidence on one side.
    pub upper_one_sided: f64,
    /// Which of the intervals the stop rule allows.
    pub basis: Basis,
    /// Trials that are worth one independent trial; above 1 the intervals are widened by it.
    pub design_effect: f64,
}

/// Which interval the stop rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The one for planned designs.
    Cp,
    /// The one that holds at any time.
    Cs,
}

/// How long trials took, in seconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Durations {
    /// Half took no longer.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// None took longer.
    pub max: f64,
}

/// Mean time between failures, in seconds of trial time.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Mtbf {
    /// All the time that counted trials took.
    pub exposure: f64,
    /// Time per failure; null without a failure, or when the run stopped at its first.
    pub mean: Option<f64>,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end; null when there is none.
    pub high: Option<f64>,
    /// What it is above, with all of the confidence on one side.
    pub low_one_sided: f64,
}

/// Whether failures clump among trials side by side.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Dependence {
    /// Groups of trials that ran side by side.
    pub batches: u64,
    /// The chance of so much clumping among independent trials.
    pub p_value: f64,
    /// Correlation within a group: 0 for independent trials.
    pub icc: Option<f64>,
    /// It is strong enough to be reported, and the intervals are widened for it.
    pub warns: bool,
}

/// Whether the rate changed in the course of the run.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Trend {
    /// Laplace's score: above 0 failures came late, below 0 early.
    pub u: f64,
    /// The chance of such a score at a constant rate.
    pub p_value: f64,
    /// It is strong enough to be reported.
    pub warns: bool,
}

impl Report {
    /// Derives the report from what is known.
    pub fn new(state: &State, policy: &dyn Policy, journal_complete: bool) -> Self {
        let variants: Vec<Variant> = state
            .tallies()
            .map(|(id, tally)| Variant::new(state, id, tally))
            .collect();
        let weakest = variants.iter().map(|variant| variant.stop_rule).max();
        Self {
            format: FORMAT,
            run: state.run.clone(),
            command: variants
                .first()
                .map(|variant| variant.command.clone())
                .unwrap_or_default(),
            verdict: policy.verdict(state),
            stop_rule: weakest.unwrap_or(StopRule::User),
            finished: state.finished,
            journal_complete,
            confidence: state.plan.alpha.confidence(),
            begun: jiff::Timestamp::from_second(state.begun)
                .unwrap_or_default()
                .to_string(),
            seconds: state.worked.as_secs_f64(),
            jobs: state.plan.jobs,
            seed: state.plan.seed,
            host: state.host.clone(),
            notes: notes(state, &variants, journal_complete),
            variants,
            repeated_attempts: state.repeated,
            after_decision: state.after_decision,
        }
    }
}

impl Variant {
    fn new(state: &State, id: VariantId, tally: &Tally) -> Self {
        let plan = &state.plan;
        let alpha = plan.alpha.value();
        let (failures, trials) = (tally.failures, tally.trials());
        let stop_rule = policy::stop_rule(state, tally);
        let dependence = tally.batches().dependence();
        let at_first = stop_rule == StopRule::KthFailure && failures == 1;
        let mtbf = stats::mtbf(failures, tally.exposure.as_secs_f64(), alpha);
        let mut failing_trials: Vec<u64> = tally
            .failed
            .values()
            .flatten()
            .map(|trial| trial.0)
            .collect();
        failing_trials.sort_unstable();
        Self {
            name: plan.variant(id).name.clone(),
            command: command_line(plan, id),
            stop_rule,
            trials,
            failures,
            other: tally.other,
            void: tally.void_total(),
            outcomes: outcomes(tally),
            void_reasons: tally
                .void
                .iter()
                .map(|(why, n)| (why.to_string(), *n))
                .collect(),
            kinds: kinds(tally),
            rate: Rate::new(tally, stop_rule, dependence, alpha),
            failing_trials,
            clean_runs_to_confirm: stats::clean_runs_needed(failures, trials, alpha),
            durations: [("pass", &tally.pass_times), ("fail", &tally.fail_times)]
                .into_iter()
                .filter_map(|(name, times)| Some((name, Durations::new(times)?)))
                .collect(),
            time_between_failures: Mtbf {
                exposure: tally.exposure.as_secs_f64(),
                mean: mtbf.estimate.filter(|_| !at_first),
                low: mtbf.low,
                high: mtbf.high,
                low_one_sided: mtbf.low_one_sided,
            },
            leaking_trials: tally.leaks.0,
            leaked_processes: tally.leaks.1,
            settled_trials: tally.settled,
            helpers_ended_early: tally.helpers_ended_early,
            dependence: dependence.map(|found| Dependence {
                batches: found.batches,
                p_value: found.p_value,
                icc: found.icc,
                warns: found.warns(),
            }),
            trend: trend(tally, stop_rule),
        }
    }
}

impl Rate {
    fn new(
        tally: &Tally,
        stop_rule: StopRule,
        dependence: Option<stats::Dependence>,
        alpha: f64,
    ) -> Self {
        let (k, n) = (tally.failures, tally.trials());
        let effect = dependence.filter(stats::Dependence::warns);
        let effect = effect.map_or(1.0, |found| found.design_effect);
        let at_first = stop_rule == StopRule::KthFailure && k == 1;
        let planned = matches!(stop_rule, StopRule::PlannedN | StopRule::KthFailure);
        let ends = |interval: stats::Interval| [interval.lo, interval.hi];
        Self {
            point: (k > 0 && !at_first).then(|| k as f64 / n as f64),
            cp: ends(stats::clopper_pearson_effective(k, n, effect, alpha)),
            cs: ends(stats::confidence_sequence_effective(k, n, effect, alpha)),
            upper_one_sided: stats::upper_one_sided(k, n, alpha),
            basis: if planned { Basis::Cp } else { Basis::Cs },
            design_effect: effect,
        }
    }

    /// Returns the two-sided interval that the stop rule allows.
    pub fn interval(&self) -> [f64; 2] {
        match self.basis {
            Basis::Cp => self.cp,
            Basis::Cs => self.cs,
        }
    }
}

impl Durations {
    fn new(times: &Times) -> Option<Self> {
        let seconds = |share| times.quantile(share).map(|time| time.as_secs_f64());
        Some(Self {
            p50: seconds(0.5)?,
            p90: seconds(0.9)?,
            max: times.max()?.as_secs_f64(),
        })
    }
}

/// Looks for a change of the rate. The failure that ended the run is at its end by
/// that rule alone, so it is left out.
fn trend(tally: &Tally, stop_rule: StopRule) -> Option<Trend> {
    let trials = tally.trials();
    let ended_it = stop_rule == StopRule::KthFailure && tally.ended_in_failure;
    let failures = tally.failures - u64::from(ended_it);
    let positions = tally.failure_positions - if ended_it { trials } else { 0 };
    // Trial i of n stands at i - 1/2.
    let mean = positions as f64 / failures.max(1) as f64 - 0.5;
    stats::laplace(failures, mean, trials as f64).map(|trend| Trend {
        u: trend.u,
        p_value: trend.p_value,
        warns: trend.warns(),
    })
}

fn outcomes(tally: &Tally) -> BTreeMap<String, u64> {
    let mut outcomes = BTreeMap::from([("pass".to_owned(), tally.passes)]);
    for (kind, trials) in tally.failed.iter().chain(&tally.failed_otherwise) {
        *outcomes.entry(kind.name()).or_default() += trials.len() as u64;
    }
    outcomes
}

fn kinds(tally: &Tally) -> Vec<KindSeen> {
    let seen = |(kind, trials): (&Kind, &Vec<TrialId>), is_the_bug| KindSeen {
        outcome: kind.name(),
        label: kind.label(),
        words: kind.words(),
        is_the_bug,
        count: trials.len() as u64,
        trials: trials.iter().map(|trial| trial.0).collect(),
    };
    let mut kinds: Vec<KindSeen> = tally.failed.iter().map(|entry| seen(entry, true)).collect();
    kinds.extend(
        tally
            .failed_otherwise
            .iter()
            .map(|entry| seen(entry, false)),
    );
    kinds.sort_by_key(|kind| (!kind.is_the_bug, std::cmp::Reverse(kind.count)));
    kinds
}

fn notes(state: &State, variants: &[Variant], journal_complete: bool) -> Vec<String> {
    let mut notes = Vec::new();
    for variant in variants {
        let of = if variant.name.is_empty() {
            String::new()
        } else {
            format!("{}: ", variant.name)
        };
        if let Some(found) = variant.dependence.filter(|found| found.warns) {
            notes.push(format!(
                "{of}failures clump among trials that ran side by side (p = {:.2}): {:.1} trials are worth one independent trial, and the interval is widened for it",
                found.p_value.max(0.0005), variant.rate.design_effect,
            ));
        }
        if let Some(trend) = variant.trend.filter(|trend| trend.warns) {
            let (when, why) = if trend.u > 0.0 {
                ("later", "leak")
            } else {
                ("earlier", "warm-up")
            };
            notes.push(format!(
                "{of}failures came {when} than at a constant rate (a {why}?); the rate is an average"
            ));
        }
        if variant.helpers_ended_early > 0 {
            notes.push(format!(
                "{of}a helper ended before the main process in {} trials",
                variant.helpers_ended_early
            ));
        }
    }
    if let Some(StopCause::NothingCounts) = state.stopped {
        notes.push("given up: trial after trial said nothing".to_owned());
    }
    if !journal_complete {
        notes.push("the journal is incomplete: not everything could be written".to_owned());
    }
    for (level, text, count) in &state.notes {
        let times = if *count > 1 {
            format!(" ({count} times)")
        } else {
            String::new()
        };
        if *level == Level::Warning {
            notes.push(format!("{text}{times}"));
        }
    }
    notes
}

/// Returns the command of a variant as it can be typed.
pub fn command_line(plan: &Plan, variant: VariantId) -> String {
    let main = plan
        .variant(variant)
        .actors
        .iter()
        .find(|actor| actor.role == crate::model::Role::Main);
    main.map_or_else(String::new, |main| {
        let words = main.command.iter().map(|word| word.to_string());
        words
            .map(|word| shlex::try_quote(&word).map_or(word.clone(), Into::into))
            .collect::<Vec<_>>()
            .join(" ")
    })
}

/// TEMP
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "temporary")]
pub enum Format {
    Json,
    Jsonl,
    Csv,
    Junit,
    Md,
}
/// TEMP
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct ExportError(#[from] std::io::Error);
impl ExportError {
    /// TEMP
    pub fn is_broken_pipe(&self) -> bool {
        self.0.kind() == std::io::ErrorKind::BrokenPipe
    }
}
/// TEMP
pub fn export(
    _: Format,
    _: &crate::store::Folder,
    report: &Report,
    out: &mut dyn std::io::Write,
) -> Result<(), ExportError> {
    serde_json::to_writer_pretty(&mut *out, report).map_err(std::io::Error::from)?;
    Ok(())
}
