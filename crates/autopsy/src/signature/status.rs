//! Names a failure of which only the exit status is known.

use super::{EvidenceName, frames};
use crate::messages::normalise_line;
use provoke_model::{
    EngineObjectKind, EvidenceDepth, FailureKind, Observation, ProcessObservation,
    RemainingProcesses,
};

pub(super) fn status_level(kind: &FailureKind, seen: &Observation) -> EvidenceName {
    let name = kind.name();
    if *kind == FailureKind::Leak {
        let left = describe_left_behind(&seen.residue);
        let title = format!("leak: {left}");
        return EvidenceName::new(EvidenceDepth::Status, format!("{name} | {left}"), title);
    }
    // If the ending does not show it, the processes that died in the tree are part of the name.
    let mut died: Vec<String> = match kind {
        FailureKind::Exit { .. } => describe_casualties(seen).collect(),
        _ => Vec::new(),
    };
    died.sort();
    died.dedup();
    if died.is_empty() {
        return EvidenceName::new(EvidenceDepth::Status, name.clone(), name);
    }
    let died = died.join(", ");
    EvidenceName::new(
        EvidenceDepth::Status,
        format!("{name} | {died}"),
        format!("{name} after {died}"),
    )
}

fn describe_casualties(seen: &Observation) -> impl Iterator<Item = String> {
    seen.casualties.iter().filter_map(|casualty| {
        let signal = casualty.signal.filter(|signal| signal.is_crash())?;
        Some(match casualty.program.as_str() {
            "" => signal.to_string(),
            program => format!("{signal} of {}", frames::bare_module(program)),
        })
    })
}

/// Returns the commands of leaked processes, without those that other leaked processes started, and
/// the leaked objects of an engine.
fn describe_left_behind(residue: &RemainingProcesses) -> String {
    let processes = &residue.leaked;
    let root =
        |process: &&ProcessObservation| processes.iter().all(|other| other.pid != process.ppid);
    let mut all: Vec<String> = processes
        .iter()
        .filter(root)
        .map(normalized_command)
        .collect();
    all.extend(residue.objects.iter().map(|object| match object.sort {
        // Containers are known by their image with its version, because their names are often
        // random.
        EngineObjectKind::Container => object.to_string(),
        EngineObjectKind::Volume | EngineObjectKind::Network => normalise_line(&object.to_string()),
    }));
    all.sort();
    all.dedup();
    all.join(", ")
}

fn normalized_command(process: &ProcessObservation) -> String {
    let words: Vec<String> = process.command.iter().map(ToString::to_string).collect();
    normalise_line(&words.join(" "))
}
