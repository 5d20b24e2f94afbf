//! Weighs commits by the stacks of an earlier run: a commit that changes a file of a stack is more likely the culprit.

use crate::experiment::observer::{ExperimentMessage, ExperimentObserver};
use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_model::{Event, Frame, Observation, Outcome};
use provoke_prepare::Commit;
use provoke_questions as questions;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::SafeText;
use std::collections::BTreeSet;
use std::path::Path;

/// Weight of a commit that changes a file of a stack; other commits have weight 1: as if a tenth of the commits
/// contained four fifths of the culprits. The search mixes these weights with uniform ones.
const ON_THE_STACK: u64 = 36;

/// Returns the weights of commits by the stacks of a run's failures.
pub(super) fn stack_weights(
    run: &str,
    commits: &[Commit],
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<u64>, Diagnostic> {
    let files = files_on_stacks(run)?;
    if files.is_empty() {
        let run = SafeText::from_line(run);
        let message = format!("no failure of the run {run} has a stack with source files");
        let hint =
            "build with debug information (-g) and run with --capture on; or leave `prior` out";
        return Err(Diagnostic::of_field("prior", message, hint));
    }
    let is_on_the_stack = |changed: &String| files.iter().any(|file| is_same(file, changed));
    let weight = |commit: &Commit| {
        if commit.files.iter().any(is_on_the_stack) {
            ON_THE_STACK
        } else {
            1
        }
    };
    let weights: Vec<u64> = commits.iter().map(weight).collect();
    let likely = weights.iter().filter(|weight| **weight > 1).count();
    observer.on_message(ExperimentMessage::Note(format!(
        "{likely} of {} commits change a file in the stacks of the run {}; they get a higher prior",
        commits.len(),
        SafeText::from_line(run),
    )));
    Ok(weights)
}

/// Returns the source files in the stacks of a run's failures.
fn files_on_stacks(run: &str) -> Result<BTreeSet<String>, Diagnostic> {
    let mut files = BTreeSet::new();
    let folder = RunFolder::find_run(run, &default_root());
    let read = folder.and_then(|folder| {
        journal::read_run(&folder.journal_path(), questions::FOLD, |event, _| {
            if let Event::TrialFinished {
                seen: observation,
                outcome: Outcome::Fail(_),
                ..
            } = event
            {
                let frames = crash_frames(observation);
                files.extend(frames.filter_map(|frame| Some(frame.line.as_ref()?.0.clone())));
            }
        })
    });
    match read {
        Ok(_) => Ok(files),
        Err(error) => {
            let hint = "give a run that failed, a file with `NAME WEIGHT` per line, or `size`";
            Err(Diagnostic::of_field("prior", error.to_string(), hint))
        }
    }
}

/// Returns the calls of the threads that crashed or hung.
fn crash_frames(observation: &Observation) -> impl Iterator<Item = &Frame> {
    let crashes = observation
        .cores
        .iter()
        .filter_map(|core| core.crash.as_ref())
        .flat_map(|crash| &crash.frames);
    let hangs = || observation.hang.iter();
    let threads = hangs().flat_map(|hang| &hang.threads);
    let goroutines = hangs().flat_map(|hang| &hang.goroutines);
    crashes
        .chain(threads.flat_map(|thread| thread.frames.iter().chain(&thread.calls)))
        .chain(goroutines.flat_map(|goroutine| &goroutine.calls))
}

/// Returns whether a file of a stack is a file of the repository: debug information has its full path, or its path
/// relative to the directory of compilation.
fn is_same(on_stack: &str, changed: &str) -> bool {
    let on_stack = Path::new(on_stack);
    let changed = Path::new(changed);
    on_stack.ends_with(changed) || !on_stack.is_absolute() && changed.ends_with(on_stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_of_a_stack_is_matched_by_the_end_of_its_path() {
        for (on_stack, changed, same) in [
            ("/build/app/src/conv.c", "src/conv.c", true),
            ("src/conv.c", "src/conv.c", true),
            ("conv.c", "src/conv.c", true),
            ("/build/app/src/conv.c", "lib/src/conv.c", false),
            ("/build/app/src/deconv.c", "src/conv.c", false),
            ("/build/app/src/conv.c", "src/conv.h", false),
        ] {
            assert_eq!(is_same(on_stack, changed), same, "{on_stack}, {changed}");
        }
    }
}
