//! Detects a command that fails in the same way every time: it is probably mistyped, or further trials show nothing new.

use provoke_model::{FailureKind, TrialId, VariantId};
use provoke_state::State;
use std::collections::BTreeMap;

/// Number of trials after which a run stops if all of them failed alike.
const FIRST: u64 = 5;

/// The only variant of such a run.
const VARIANT: VariantId = VariantId(0);

/// Returns whether enough trials are counted for the check.
pub(super) fn is_due(state: &State) -> bool {
    state.tally_of(VARIANT).counted_trials() >= FIRST
}

/// Message of a trial in which no thread could continue.
pub(super) const DEADLOCK: &str = "deadlock";

/// Returns a message for the user if all trials so far failed with one exit code and one message, or all in the same
/// deadlock.
///
/// Counted trials are a prefix in launch order, so that fast failures do not overtake slow passes.
pub(super) fn explain_alike_failures(
    state: &State,
    words: &BTreeMap<TrialId, String>,
) -> Option<String> {
    let tally = state.tally_of(VARIANT);
    let mut groups = tally.groups.values();
    let (group, second_group) = (groups.next()?, groups.next());
    let fails_always = tally.failures == tally.counted_trials() && second_group.is_none();
    let message = words.get(group.trials.first()?)?;
    let is_same = group
        .trials
        .iter()
        .all(|trial| words.get(trial) == Some(message));
    if !fails_always || !is_same {
        return None;
    }
    let trials = tally.counted_trials();
    let code = match group.kind {
        FailureKind::Exit { code } => code,
        FailureKind::Hang { .. } if message == DEADLOCK => {
            return Some(format!(
                "every trial ends in the same deadlock, so the run stopped after {trials} trials; --keep-going runs all trials"
            ));
        }
        _ => return None,
    };
    let exit = if message.is_empty() {
        format!("exit code {code}, no output")
    } else {
        format!("exit code {code}: {message}")
    };
    Some(format!(
        "every trial fails in the same way ({exit}): check the command. The run stopped after {trials} trials and is not used as a baseline; --keep-going runs all trials"
    ))
}
