//! Measures comparisons of variants, with the policy, the state and the report of the command.

use std::fmt::Write as _;
use std::time::Duration;

use provoke_model::{Outcome, Plan};
use provoke_questions::{Answer, Verdict};
use provoke_report::Report;
use provoke_state::State;

use super::chance::Chance;
use super::shipped::trials;
use super::simulated;

/// Trials of each variant, if rates are compared and the question is how many it takes.
const MANY: u64 = 10_000;

/// Returns the plan of a comparison of this many variants.
fn plan(variants: usize, more: &str) -> Plan {
    let mut text = format!("ask = 'compare'\n{more}\n");
    for variant in 0..variants {
        writeln!(text, "[[variant]]\nname = '{variant}'").expect("text");
    }
    simulated::plan(&text)
}

/// Runs a comparison to its end.
fn compare(plan: &Plan, rates: &[f64], chance: &mut Chance) -> State {
    simulated::answer(plan, u64::MAX, |_, trial| {
        let outcome = if chance.fails(rates[trial.variant.0 as usize]) {
            simulated::failure(1)
        } else {
            Outcome::Pass
        };
        (outcome, Duration::ZERO)
    })
}

/// Returns whether a variant is said to be better than it is: clean although it fails at the floor, or failing less often
/// than a reference whose rate is not above its own.
fn is_wrong(state: &State, rates: &[f64], floor: Option<f64>) -> bool {
    let report = Report::new(state, true);
    let Some(Answer::Compare(answer)) = &report.answer else {
        panic!("a comparison has an answer");
    };
    let reference = answer.baseline.as_ref();
    let reference = reference.and_then(|base| base.variant.as_ref()?.parse::<usize>().ok());
    let least = floor.or_else(|| Some(rates[reference?]));
    answer.variants.iter().zip(rates).any(|(variant, rate)| {
        variant.standing.has_passed() && least.is_some_and(|least| *rate >= least)
    })
}

/// Shows how often equal variants are called different, and how many pairs show a difference.
fn differences(count: u64, only: &str) {
    let equal: [&[f64]; 8] = [
        &[0.5; 2], &[0.1; 2], &[0.03; 2], &[0.01; 2], &[0.5; 4], &[0.1; 4], &[0.03; 4], &[0.1; 10],
    ];
    let unequal: [&[f64]; 6] = [
        &[0.5, 0.0],
        &[0.1, 0.0],
        &[0.1, 0.01],
        &[0.5, 0.1],
        &[0.5, 0.3],
        &[0.03, 0.01],
    ];
    let unlimited = format!("runs = {MANY}");
    let equal = equal.map(|rates| (rates, ""));
    let unequal = unequal.map(|rates| (rates, unlimited.as_str()));
    for (rates, limit) in equal.into_iter().chain(unequal) {
        let name = format!("different, {rates:?}");
        if !name.contains(only) {
            continue;
        }
        let plan = plan(rates.len(), &format!("find = 'different'\n{limit}"));
        let mut told = 0;
        let mut pairs = Vec::new();
        for seed in 0..count {
            let state = compare(&plan, rates, &mut Chance::new(seed));
            told += u64::from(Report::new(&state, true).verdict == Verdict::Different);
            pairs.push(trials(&state) / rates.len() as u64);
        }
        pairs.sort_unstable();
        println!(
            "{name:<44} called different {:.3}  pairs {:.1}, q80 {} ({count})",
            told as f64 / count as f64,
            pairs.iter().sum::<u64>() as f64 / count as f64,
            pairs[pairs.len() * 4 / 5],
        );
    }
}

/// Shows how often a variant that fails is called better than the reference, or clean.
fn races(count: u64, only: &str) {
    let worlds: [&[f64]; 16] = [
        &[0.5, 0.5],
        &[0.1, 0.1],
        &[0.03, 0.03],
        &[0.1; 4],
        &[0.1; 8],
        &[0.03; 8],
        &[0.5, 0.03],
        &[0.3, 0.1],
        &[0.1, 0.06, 0.03],
        &[0.5, 0.1, 0.1, 0.0],
        &[1.0, 0.5, 0.02, 0.02],
        &[0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.0, 0.0],
        &[0.05, 0.05],
        &[0.05; 8],
        &[0.08, 0.06, 0.05],
        &[1.0, 0.05, 0.05],
    ];
    for rates in worlds {
        for floor in [None, Some(0.1), Some(0.05)] {
            let name = format!("failing, {rates:?}, floor {floor:?}");
            if !name.contains(only) {
                continue;
            }
            let option = floor.map_or(String::new(), |floor| format!("floor = {floor}"));
            let plan = plan(rates.len(), &format!("find = 'failing'\n{option}"));
            let (mut wrong, mut all) = (0, 0);
            for seed in 0..count {
                let state = compare(&plan, rates, &mut Chance::new(seed));
                wrong += u64::from(is_wrong(&state, rates, floor));
                all += trials(&state);
            }
            println!(
                "{name:<72} wrong {:.3}  trials {:.0} ({count})",
                wrong as f64 / count as f64,
                all as f64 / count as f64,
            );
        }
    }
}

/// Shows all cells; `only` keeps the rows with these words in their name.
pub(crate) fn comparisons(count: u64, only: &str) {
    differences(count, only);
    races(count, only);
}
