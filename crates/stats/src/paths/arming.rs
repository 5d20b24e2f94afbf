//! Tests whether arming a point changes the failure rate, in trials whose armed points were drawn at random.

use std::collections::BTreeMap;

use super::index::index;
use super::input::PathTrial;
use super::number_hash::{NumberMap, NumberSet};
use super::result::ArmingEffect;
use super::trial_set::TrialSet;
use crate::{fisher, holm};

/// The effects of arming.
#[derive(Debug)]
pub(super) struct ArmingTests {
    pub(super) failing: u64,
    pub(super) passing: u64,
    pub(super) tests: u64,
    pub(super) effects: Vec<ArmingEffect>,
}

/// Tests the points that were reached in some trial and armed in some, but not all, of the random ones.
///
/// The arms are drawn independently of everything else, so Fisher's test is exact even if the failure rate drifts.
pub(super) fn test_arming(trials: &[PathTrial], points: u32, error: f64) -> ArmingTests {
    let armed: Vec<(&PathTrial, &[bool])> = trials
        .iter()
        .filter_map(|trial| Some((trial, &trial.armed.as_ref()?[..])))
        .collect();
    let failing = TrialSet::new(armed.iter().map(|(trial, _)| trial.failed));
    let reached: NumberSet<u32> = trials
        .iter()
        .flat_map(|trial| trial.arrivals.iter().map(|arrival| arrival.point))
        .collect();
    let mut groups: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let mut sets: Vec<TrialSet> = Vec::new();
    let mut numbers: NumberMap<TrialSet, usize> = NumberMap::default();
    for point in (0..points).filter(|point| reached.contains(point)) {
        let is_armed = |armed: &[bool]| armed.get(index(point)).copied().unwrap_or(false);
        let set = TrialSet::new(armed.iter().map(|(_, armed)| is_armed(armed)));
        if set.len() == 0 || set.len() == armed.len() {
            continue;
        }
        let number = *numbers.entry(set.clone()).or_insert_with(|| {
            sets.push(set);
            sets.len() - 1
        });
        groups.entry(number).or_default().push(point);
    }
    let (failures, all) = (failing.len() as u64, armed.len() as u64);
    let effects = sets.iter().zip(groups.into_values()).map(|(set, points)| {
        let (armed_failures, armed_trials) = (set.count_common(&failing) as u64, set.len() as u64);
        let unarmed = (failures - armed_failures, all - armed_trials);
        ArmingEffect {
            points,
            raises: u128::from(armed_failures) * u128::from(unarmed.1)
                > u128::from(unarmed.0) * u128::from(armed_trials),
            armed: (armed_failures, armed_trials),
            unarmed,
            p: fisher(armed_failures, armed_trials, unarmed.0, unarmed.1).two_sided,
            adjusted_p: 1.0,
        }
    });
    let mut effects: Vec<ArmingEffect> = effects.collect();
    let p_values: Vec<f64> = effects.iter().map(|effect| effect.p).collect();
    for (effect, adjusted_p) in effects.iter_mut().zip(holm(&p_values)) {
        effect.adjusted_p = adjusted_p;
    }
    effects.retain(|effect| effect.adjusted_p <= error);
    effects.sort_by(|a, b| a.p.total_cmp(&b.p).then_with(|| a.points.cmp(&b.points)));
    ArmingTests {
        failing: failures,
        passing: all - failures,
        tests: p_values.len() as u64,
        effects,
    }
}
