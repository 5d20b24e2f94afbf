//! Reads the baseline: counts such as `3/30`, or a run.

use super::baseline_run::ResolvedBaseline;
use super::default_baseline::find_default;
use super::earlier_runs;
use super::measured_variant::{BaselineFilter, measure_variant};
use provoke_journal::RunFolder;
use provoke_model::{MeasuredBaseline, VariantId};
use provoke_plan::Scenario;
use provoke_questions as questions;
use provoke_questions::PooledBaseline;
use provoke_state::State;
use provoke_stats as stats;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;

impl ResolvedBaseline {
    /// Reads the baseline that a scenario names, if it names one.
    pub fn of_scenario(scenario: &Scenario) -> Result<Option<Self>, Diagnostic> {
        let looked_for = match scenario.judge.only.0.as_slice() {
            _ if scenario.takes_any_failure() => BaselineFilter::Any,
            [] => BaselineFilter::AsThere,
            only => BaselineFilter::Only(only.iter().map(|only| only.0.clone()).collect()),
        };
        let question = questions::of_scenario(scenario);
        // The trials of a hunt are the baseline of trials with its holds.
        let named = scenario
            .baseline
            .baseline
            .as_ref()
            .or(scenario.trials.held.as_ref());
        let Some(text) = named else {
            return if question.finds_baseline(scenario) {
                find_default(scenario, &looked_for)
            } else {
                Ok(None)
            };
        };
        match parse_counts(text) {
            Some(_) if scenario.baseline.of.is_some() => Err(Diagnostic::of_field(
                "of",
                format!("the counts `{text}` have no variants"),
                "leave `of` out, or give a run as the baseline",
            )),
            Some(counts) => match question.refuse_counts() {
                Some(reason) => Err(Diagnostic::of_field(
                    "baseline",
                    format!("the counts `{text}` {reason}"),
                    "give a run with failures as the baseline, or leave it out",
                )),
                None => Ok(Some(Self {
                    measured: counts?,
                    ..Self::default()
                })),
            },
            None => Self::of_run(text, scenario, &looked_for).map(Some),
        }
    }

    /// Reads the baseline of a forecast: `K/N`, the run of this name, or without a text the newest run with failures that
    /// measured a rate. Only its counts are used; none of its commands are run.
    pub fn of_forecast(
        text: Option<&str>,
        of: Option<&str>,
        ignore_earlier_runs: bool,
    ) -> Result<Self, Diagnostic> {
        let mut scenario = Scenario {
            trust: true,
            ..Scenario::default()
        };
        scenario.baseline.baseline = text.map(str::to_owned);
        scenario.baseline.of = of.map(str::to_owned);
        scenario.count.ignore_earlier_runs = Some(ignore_earlier_runs);
        if text.is_some() {
            return Ok(Self::of_scenario(&scenario)?.unwrap_or_default());
        }
        find_default(&scenario, &BaselineFilter::AsThere)?.ok_or_else(|| {
            let message = "no failure rate is given, and no run stored here has failures";
            Diagnostic::usage(message).with_hint(
                "give counts or a rate: provoke plan --baseline 3/30, or provoke plan --rate 5%",
            )
        })
    }

    /// Describes the run that gave the rate, if no flag names it.
    pub fn describe_default(&self) -> Option<String> {
        let chosen = self.chosen.as_ref()?;
        let (run, command) = (chosen.run.to_safe(), chosen.command.to_safe());
        chosen.is_newest.then(|| {
            format!("measured by the newest `provoke run` with failures, {run}: {command}")
        })
    }
}

/// Reads `3/30`; returns `None` for text of any other form.
fn parse_counts(text: &str) -> Option<Result<MeasuredBaseline, Diagnostic>> {
    let (failures, trials) = text.split_once('/')?;
    let (failures, trials): (u64, u64) = (failures.parse().ok()?, trials.parse().ok()?);
    Some(if failures > trials || trials == 0 {
        let what = format!("`{text}` is not FAILURES/TRIALS");
        let hint = "write it as 3/30: 3 failures in 30 trials";
        Err(Diagnostic::of_field("baseline", what, hint))
    } else {
        Ok(MeasuredBaseline {
            failures,
            trials,
            ..MeasuredBaseline::default()
        })
    })
}

/// Returns the number of passing trials that a fix of a run needs if other runs of the same program count, too, as they
/// do in `confirm`.
pub fn pooled_baseline(state: &State, folder: &RunFolder) -> Option<PooledBaseline> {
    let [_] = state.trials.variants.as_slice() else {
        return None;
    };
    let alone = measure_variant(state, VariantId(0), &BaselineFilter::AsThere);
    if alone.failures == 0 || alone.one_life || state.is_probably_mistyped() {
        return None;
    }
    let base = earlier_runs::add_to(alone, state, VariantId(0), folder, &BaselineFilter::AsThere);
    let ((failures, trials), alpha) = (base.reference_counts(), state.goal.alpha.to_probability());
    let effect = base.design_effect();
    let least = stats::clean_runs_needed_effective(failures, trials, effect, alpha)?;
    let half = stats::clean_runs_to_exclude_half(failures, trials, effect, alpha)?;
    let required =
        questions::required_by_default(least, half, state.trials.jobs, base.pass_seconds());
    (base.runs.len() > 1).then_some(PooledBaseline {
        required,
        runs: base.runs.len() as u64,
    })
}
