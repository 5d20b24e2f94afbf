//! Names a failure of which only the exit status is known.

use super::{EvidenceName, frames};
use provoke_messages::normalise_line;
use provoke_model::{
    EvidenceDepth, FailureKind, Observation, ProcessObservation, RemainingProcesses, RequestResult,
};

pub(super) fn status_level(kind: &FailureKind, observation: &Observation) -> EvidenceName {
    let name = kind.name();
    if *kind == FailureKind::Leak {
        let leftovers = describe_left_behind(&observation.residue);
        let title = format!("leak: {leftovers}");
        return EvidenceName::new(
            EvidenceDepth::Status,
            format!("{name} | {leftovers}"),
            title,
        );
    }
    if *kind == FailureKind::Refused {
        let load = observation.load.as_ref();
        let errors = load.into_iter().flat_map(|load| &load.ends);
        let errors = errors.filter(|(result, _)| result.is_error());
        let result = errors.max_by_key(|(_, count)| **count);
        let title = result.map_or_else(|| name.clone(), |(result, _)| refusal_title(result));
        return EvidenceName::new(EvidenceDepth::Status, format!("{name} | {title}"), title);
    }
    if *kind == (FailureKind::Hang { stopped: false })
        && let Some(hang) = &observation.hang
        && hang.threads.is_empty()
        && hang.ended_before.is_zero()
    {
        return EvidenceName::new(EvidenceDepth::Status, &*name, "hang without a stack");
    }
    // If the ending does not show it, the processes that died in the tree are part of the name.
    let mut deaths: Vec<String> = match kind {
        FailureKind::Exit { .. } => describe_crashed_children(observation).collect(),
        _ => Vec::new(),
    };
    deaths.sort();
    deaths.dedup();
    if deaths.is_empty() {
        return EvidenceName::new(EvidenceDepth::Status, name.clone(), name);
    }
    let died = deaths.join(", ");
    EvidenceName::new(
        EvidenceDepth::Status,
        format!("{name} | {died}"),
        format!("{name} after {died}"),
    )
}

fn refusal_title(result: &RequestResult) -> String {
    match result {
        RequestResult::Refused => "connection refused".to_owned(),
        result => format!("refused: {result}"),
    }
}

fn describe_crashed_children(observation: &Observation) -> impl Iterator<Item = String> {
    observation.crashed_children.iter().filter_map(|casualty| {
        let signal = casualty.signal.filter(|signal| signal.is_crash())?;
        Some(match casualty.program.as_str() {
            "" => signal.to_string(),
            program => format!("{signal} of {}", frames::bare_module(program)),
        })
    })
}

/// Returns the commands of leaked processes. Processes that another leaked process started are left out.
fn describe_left_behind(residue: &RemainingProcesses) -> String {
    let processes = &residue.leaked;
    let root = |process: &&ProcessObservation| {
        processes
            .iter()
            .all(|other_process| other_process.pid != process.ppid)
    };
    let mut commands: Vec<String> = processes
        .iter()
        .filter(root)
        .map(normalized_command)
        .collect();
    commands.extend(
        residue
            .objects
            .iter()
            .filter_map(|object| object.get("sort").cloned()),
    );
    commands.sort();
    commands.dedup();
    commands.join(", ")
}

fn normalized_command(process: &ProcessObservation) -> String {
    let words: Vec<String> = process.command.iter().map(ToString::to_string).collect();
    normalise_line(&words.join(" "))
}
