//! Describes the progress of a comparison.

use super::{RacePolicy, VariantVerdict, asked_rates, contrasts, evidence_threshold};
use provoke_state::State;
use provoke_words as words;

/// Maximum number of contrasts that are shown.
const CONTRASTS: usize = 4;

/// Describes the progress of a comparison.
pub(super) fn describe_progress(state: &State) -> Option<String> {
    match asked_rates(&state.goal) {
        Some(_) => Some(describe_evidence(state)),
        None => describe_race(state),
    }
}

/// Returns how many variants fail, passed often enough, and are not known.
fn describe_race(state: &State) -> Option<String> {
    let question = state.goal.question.as_compare()?;
    let standings = RacePolicy::all_standings(state);
    let count = |wanted| {
        standings
            .iter()
            .filter(|verdict| **verdict == wanted)
            .count()
    };
    let (fail, open) = (count(VariantVerdict::Fails), count(VariantVerdict::Open));
    let passed = standings
        .iter()
        .filter(|verdict| verdict.has_passed())
        .count();
    let word = match question.floor {
        Some(_) => "clean",
        None => "passing",
    };
    let needed =
        RacePolicy::needed_passes(state).map_or(String::new(), |n| format!(" (after {n})"));
    Some(format!(
        "{fail} failing   {passed} {word}{needed}   {open} undecided"
    ))
}

/// Returns the evidence of each contrast so far.
fn describe_evidence(state: &State) -> String {
    let enough = words::format_number(evidence_threshold(state).exp());
    let evidence: Vec<String> = contrasts(state)
        .iter()
        .map(|contrast| {
            let name = words::sanitize_line(&contrast.other_name);
            let evidence = words::format_number(contrast.evidence.ln_e_max().exp());
            format!("{name} {evidence}")
        })
        .take(CONTRASTS)
        .collect();
    format!("evidence ({enough} needed): {}", evidence.join(", "))
}
