//! Reads the evidence of a failure from the directories of its trials: source lines, analysed cores, output.

use super::output::read_stream_end;
use super::rows::kept_trials;
use super::{FailureGroup, MaskedRun, source_line};
use provoke_journal::Secrets;
use provoke_model::{Autopsy, TrialId, parse_small_json};
use provoke_sys::files;
use std::path::Path;

/// File with the analysis of cores, in the directory of a trial.
const ANALYSIS: &str = "crash.json";
/// Maximum size of an analysis.
const LONGEST: u64 = 64 << 20;
/// Number of output lines that are shown.
const LINES: usize = 15;

/// The evidence of one failure; secrets are masked.
#[derive(Default)]
pub(super) struct FailureEvidence {
    /// The text of the source lines that can be read, with their numbers.
    pub(super) source: Vec<String>,
    /// The analysis of a core.
    pub(super) analysis: Option<Autopsy>,
    /// A trial, and the last lines of its output.
    pub(super) output: Option<(TrialId, String)>,
}

impl FailureEvidence {
    /// Reads the evidence of a group of failures from the directory of their run.
    pub(super) fn read_from(group: &FailureGroup<'_>, run: &MaskedRun<'_>) -> Self {
        let secrets = run.secrets();
        let source = (group.signature.sites.iter())
            .filter_map(|site| {
                let text = source_line(site)?;
                // The beginning of a secret in a line that was cut is not recognized.
                if text.ends_with('…') && !secrets.is_empty() {
                    return None;
                }
                let text = secrets.mask_text(text.as_bytes());
                let text = String::from_utf8_lossy(&text);
                Some(format!("{:>4} | {text}", site.line))
            })
            .collect();
        // Most of many trials have no directory.
        let kept = kept_trials(run.folder());
        let trials = || {
            let captured = group.signature.trials.iter().copied();
            captured
                .chain(group.measured_trials())
                .filter(|trial| kept.binary_search(trial).is_ok())
        };
        Self {
            source,
            analysis: trials().find_map(|trial| read_autopsy(&run.trial_folder(trial), secrets)),
            output: trials().find_map(|trial| {
                let text = last_output(&run.trial_folder(trial), secrets)?;
                Some((TrialId(trial), text))
            }),
        }
    }
}

/// Returns the analysis of the core of a trial that crashed.
fn read_autopsy(trial: &Path, secrets: &Secrets) -> Option<Autopsy> {
    // The program under test may have created a link or a pipe of this name.
    let json = files::read_itself(&trial.join(ANALYSIS), LONGEST).ok()?;
    let autopsies: Vec<Autopsy> = secrets
        .parse_masked(&json, |json| parse_small_json(json))
        .ok()?;
    autopsies
        .into_iter()
        .find(|autopsy| autopsy.crash.signal.is_some() && !autopsy.crash.frames.is_empty())
}

/// Returns the last lines that a trial wrote to stderr, or else to stdout.
fn last_output(trial: &Path, secrets: &Secrets) -> Option<String> {
    let text = ["stderr", "stdout"].iter().find_map(|name| {
        let text = read_stream_end(trial, name, secrets)?;
        (!text.trim().is_empty()).then_some(text)
    })?;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let first = lines.len().saturating_sub(LINES);
    Some(lines[first..].join("\n"))
}
