//! Tests whether two runs fail at different rates.

use provoke_model::VariantId;
use provoke_questions::StopRule;
use provoke_questions::state::State;
use provoke_stats as stats;
use provoke_survey::variant_conditions;

/// Returns the probability of a difference between the failure rates of two runs that is at least as large by chance,
/// by Fisher's exact test; or why the rates cannot be compared.
pub fn chance_of_difference(one: &State, other_run: &State) -> Result<f64, String> {
    let [(failures, trials), (other_failures, other_trials)] =
        [measured_rate(one)?, measured_rate(other_run)?];
    let [conditions, other_conditions] =
        [one, other_run].map(|run| variant_conditions(&run.plan, VariantId(0), &run.host));
    let differences = conditions.differences_from(&other_conditions).into_iter();
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
    Ok(stats::fisher(failures, trials, other_failures, other_trials).two_sided)
}

/// Returns the failures and trials of a run that measured one rate.
fn measured_rate(run: &State) -> Result<(u64, u64), String> {
    let measures = run.plan.question.is_rate() && run.plan.variants.len() == 1;
    let tally = run.tally_of(VariantId(0));
    let stop_rule = provoke_questions::policy_of_plan(&run.plan).stop_rule(run, VariantId(0));
    match tally.counted_trials() {
        _ if measures && stop_rule == StopRule::Decision => Err(format!(
            "{} ended as soon as its results decided (--max-rate or --width), so its share of failures is biased",
            run.run
        )),
        _ if !measures => Err(format!(
            "{} ended at an answer (`provoke {}`), so the share of its failures is not a failure rate",
            run.run,
            provoke_questions::of_plan(&run.plan).command()
        )),
        0 => Err(format!("all trials of {} were inconclusive", run.run)),
        trials => Ok((tally.failures, trials)),
    }
}
