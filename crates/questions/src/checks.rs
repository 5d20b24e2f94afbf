//! Checks the assumptions of a failure rate: independent trials, and a constant rate.

use super::{StopRule, policy_of};
use provoke_model::{MeasuredBaseline, RateDrift, VariantId};
use provoke_state::{State, Tally};
use provoke_stats::{Batches, Clumping, Trend, find_clumps, laplace_trend, real};

/// Checks of the assumptions of a variant's failure rate.
#[derive(Clone, Copy, Debug)]
pub struct AssumptionChecks {
    /// Clumping of failures. Their order is tested only if the question is the rate: for other questions the outcomes
    /// of earlier trials determine which variant runs next.
    pub clumping: Clumping,
    /// A change of the rate that clumps do not explain.
    pub trend: Option<Trend>,
}

impl AssumptionChecks {
    /// Checks the trials of a variant.
    pub fn of_variant(state: &State, id: VariantId) -> Self {
        let tally = state.tally_of(id);
        let stop_rule = policy_of(state).stop_rule(state, id);
        let ended_by_failure = stop_rule == StopRule::KthFailure;
        let found_clumping = find_clumping(tally, ended_by_failure);
        // Otherwise the results themselves chose the end, and with it the order.
        let is_ordered = state.goal.question.is_rate() && stop_rule != StopRule::Decision;
        let clumping = Clumping {
            order: if is_ordered {
                found_clumping.order
            } else {
                None
            },
            ..found_clumping
        };
        let trend = if stop_rule == StopRule::Decision {
            None
        } else {
            find_trend(tally, ended_by_failure).map(|trend| match clumping.in_order() {
                Some(clumps) => trend.of_clumps(clumps.design_effect),
                None => trend,
            })
        };
        Self { clumping, trend }
    }
}

/// Returns a variant's trials as a baseline: `failures` of them are the bug, and `failures` and `passes` are counted.
pub fn measure_variant(state: &State, id: VariantId, failures: u64) -> MeasuredBaseline {
    let tally = state.tally_of(id);
    let AssumptionChecks { clumping, trend } = AssumptionChecks::of_variant(state, id);
    let effect = clumping.design_effect();
    // The halves are known only for all failures together.
    let trend = trend.filter(|trend| trend.warns() && failures == tally.failures);
    MeasuredBaseline {
        failures,
        trials: tally.passes + failures,
        design_effect: (effect > 1.0).then(|| ceil_parts(effect, 1e3)),
        clumps: clumping.in_order().map(|clumps| clumps.clumps),
        drift: trend.map(|trend| {
            let (failures, trials) = tally.quieter_half();
            RateDrift {
                late: trend.u > 0.0,
                p_value: ceil_parts(trend.p_value, 1e6),
                failures,
                trials,
            }
        }),
        ..MeasuredBaseline::default()
    }
}

/// Converts a value to an integer number of parts, rounded up: trials of one clump, or a probability.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "trials of one clump, or a probability, neither of which comes near the limit"
)]
pub fn ceil_parts(value: f64, of_one: f64) -> u32 {
    (value * of_one).ceil() as u32
}

/// Tests for clumps of failures. `ended_by_failure` means that the run stopped because its last trial failed, so that the
/// position of that failure was not random.
fn find_clumping(tally: &Tally, ended_by_failure: bool) -> Clumping {
    let ended_by_failure = ended_by_failure && tally.ended_in_failure;
    let mut batches = Batches::new();
    for ((runs, failures), count) in tally.complete_batches() {
        batches.add_batches(runs, failures, count);
    }
    let (runs, failures) = tally.last_batch();
    let last = u32::from(ended_by_failure && runs > 0);
    batches.add_batches(runs - last, failures - last, 1);
    Clumping {
        batches: batches.measure_dependence(),
        order: find_clumps(
            tally.failure_places(),
            tally.counted_trials(),
            ended_by_failure,
        ),
    }
}

/// Tests for a change of the rate. A failure that ended the run is left out, because its position follows from the stop
/// rule.
fn find_trend(tally: &Tally, ended_by_failure: bool) -> Option<Trend> {
    let omitted = usize::from(ended_by_failure && tally.ended_in_failure);
    let positions = tally.failure_places();
    let counted_positions = &positions[..positions.len() - omitted];
    let failures = counted_positions.len() as u64;
    // Trial i of n is at i - 1/2.
    let mean = real(counted_positions.iter().sum()) / real(failures.max(1)) - 0.5;
    laplace_trend(failures, mean, real(tally.counted_trials()))
}
