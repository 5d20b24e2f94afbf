//! Tests whether two runs fail at different rates.

use super::Report;
use super::shared_failures::failures_of_runs;
use provoke_levers::fact_title;
use provoke_model::VariantId;
use provoke_questions::{AssumptionChecks, StopRule};
use provoke_state::State;
use provoke_stats::{self as stats, ComparedCounts};
use provoke_survey::{FailureDifference, variant_conditions};

/// A test whether two runs fail at different rates.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTest {
    /// Probability that failure rates differ this much by chance.
    pub p_value: f64,
    /// Number of trials that count as one, because failures clump in one of the runs; otherwise 1.
    pub design_effect: f64,
    /// Runs without a fixed number of trials, which their results may have ended.
    pub stopped: Vec<String>,
    runs: [ComparedCounts; 2],
}

impl RateTest {
    /// Returns the numbers of failures of the second run whose rate would differ at this level: the most below the rate of
    /// the first run, and the fewest above it.
    pub fn significant_failures(&self, level: f64) -> [Option<u64>; 2] {
        stats::significant_failures(self.runs, self.design_effect, level)
    }

    /// Returns the probability that the rates of one failure differ this much by chance.
    fn chance_of(&self, failures: [u64; 2]) -> f64 {
        let [mut left, mut right] = self.runs;
        [left.failures, right.failures] = failures;
        stats::chance_of_difference([left, right], self.design_effect)
    }
}

/// Counts the trials of each failure in two runs, and compares its rates if `test` could compare all failures together.
pub fn compare_failures(runs: [&State; 2], test: Option<&RateTest>) -> Vec<FailureDifference> {
    let reports = runs.map(|run| Report::new(run, true));
    let failures = failures_of_runs(reports.iter());
    let counts: Vec<[u64; 2]> = failures
        .iter()
        .map(|f| [f.counts[0], f.counts[1]])
        .collect();
    let chances = test.map(|test| {
        let of_each = counts.iter().map(|counts| test.chance_of(*counts));
        stats::holm(&of_each.collect::<Vec<f64>>())
    });
    let numbered = failures.iter().zip(counts).enumerate();
    let differences = numbered.map(|(index, (failure, [left, right]))| FailureDifference {
        signature: failure.id.to_owned(),
        title: failure.title.to_owned(),
        left,
        right,
        p_value: chances.as_ref().map(|chances| chances[index]),
    });
    differences.collect()
}

/// Tests whether two runs fail at different rates; or returns why the rates cannot be compared.
pub fn test_rates(one: &State, other_run: &State) -> Result<RateTest, String> {
    check_conditions(one, other_run)?;
    let runs = [measured_rate(one)?, measured_rate(other_run)?];
    if one.trials.rules != other_run.trials.rules {
        return Err("they count different failures, because their rules for failing (--only and the like) differ".to_owned());
    }
    let [effect, other_effect] = [one, other_run].map(|run| {
        AssumptionChecks::of_variant(run, VariantId(0))
            .clumping
            .design_effect()
    });
    let design_effect = effect.max(other_effect);
    let stopped = [one, other_run].into_iter().zip(runs);
    Ok(RateTest {
        p_value: stats::chance_of_difference(runs, design_effect),
        design_effect,
        stopped: stopped
            .filter(|(_, counts)| !counts.is_planned)
            .map(|(run, _)| run.origin.run.clone())
            .collect(),
        runs,
    })
}

/// Returns why the trials of two runs cannot be compared: one did not measure a rate, or their conditions differ.
pub fn check_conditions(one: &State, other_run: &State) -> Result<(), String> {
    measured_rate(one)?;
    measured_rate(other_run)?;
    let [conditions, other_conditions] =
        [one, other_run].map(|run| variant_conditions(&run.trials, VariantId(0), &run.origin.host));
    let differences = conditions
        .differences_from(&other_conditions, fact_title)
        .into_iter();
    let differing: Vec<String> = differences
        .filter(|difference| difference.can_change_rate)
        .map(|difference| difference.what)
        .collect();
    if !differing.is_empty() {
        return Err(format!(
            "the conditions of the runs differ: {}",
            differing.join(", ")
        ));
    }
    Ok(())
}

/// Returns the counts of a run that measured one rate.
fn measured_rate(run: &State) -> Result<ComparedCounts, String> {
    let measures = provoke_questions::of(run).only_measures() && run.trials.variants.len() == 1;
    let tally = run.tally_of(VariantId(0));
    let stop_rule = provoke_questions::policy_of(run).stop_rule(run, VariantId(0));
    match tally.counted_trials() {
        _ if measures && stop_rule == StopRule::Decision => Err(format!(
            "{} ended as soon as its results decided (--max-rate or --width), so its share of failures is biased",
            run.origin.run
        )),
        _ if !measures => Err(format!(
            "{} ended at an answer (`provoke {}`), so the share of its failures is not a failure rate",
            run.origin.run,
            provoke_questions::of(run).command()
        )),
        0 => Err(format!(
            "all trials of {} were inconclusive",
            run.origin.run
        )),
        trials => Ok(ComparedCounts {
            failures: tally.failures,
            trials,
            is_planned: stop_rule.is_planned(),
        }),
    }
}
