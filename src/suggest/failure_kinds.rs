//! Suggests the signatures of stored failures for a text that names no kind of failure.

use super::message::text_of;
use clap::error::{ContextKind, ErrorKind};
use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{Signature, SignatureId};
use provoke_questions as questions;
use provoke_state::State;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::SafeText;

/// How many of the newest runs are searched.
const SEARCHED_RUNS: usize = 20;
/// Maximum number of suggested signatures.
const SUGGESTED: usize = 3;

/// Explains that `--only KeyError` names no kind of failure, and suggests the stored failures with this text.
pub(super) fn explain_failure_kind(error: &clap::Error) -> Option<Diagnostic> {
    let flag = text_of(error, ContextKind::InvalidArg)?;
    let text = text_of(error, ContextKind::InvalidValue)?;
    if error.kind() != ErrorKind::ValueValidation || !flag.starts_with("--only ") {
        return None;
    }
    let mut found: Vec<(SignatureId, String)> = Vec::new();
    for folder in newest_runs() {
        let state = journal::read_run(&folder.journal_path(), questions::FOLD, |_, _| {});
        let tallies = state.iter().flat_map(State::all_tallies);
        let groups = tallies.flat_map(|(_, tally)| tally.groups.values());
        for signature in groups.map(|group| &group.signature) {
            if mentions(signature, &text) && !found.iter().any(|(id, _)| *id == signature.id) {
                found.push((signature.id, signature.title.clone()));
            }
        }
    }
    let lines: Vec<String> = found
        .iter()
        .take(SUGGESTED)
        .map(|(id, title)| format!("\n      --only sig:{id}   # {}", SafeText::from_line(title)))
        .collect();
    let message = format!("`{}` is not a kind of failure", SafeText::from_line(&text));
    (!lines.is_empty()).then(|| {
        let hint = format!("stored failures with this text:{}", lines.concat());
        Diagnostic::usage(message).with_hint(hint)
    })
}

/// Returns the newest runs, the newest first.
fn newest_runs() -> impl Iterator<Item = RunFolder> {
    let folders = RunFolder::all_runs(&default_root()).unwrap_or_default();
    folders.into_iter().rev().take(SEARCHED_RUNS)
}

fn mentions(signature: &Signature, text: &str) -> bool {
    let title = signature.title.to_lowercase();
    !text.is_empty() && title.contains(&text.to_lowercase())
}
