//! Writes the log or the patch of a search.

use super::error::CliError;
use crate::model::{EditPlan, FileChange, SearchSpace, Text, VariantPlan};
use crate::policy::{self, Verdict};
use crate::prepare;
use crate::report::{self, Report, words};
use crate::scenario::under_load;
use crate::state::State;
use crate::store::RunFolder;
use crate::term::{SuggestedCommand, relative_to_cwd};
use crate::untrusted::{Untrusted as _, shell_word};
use std::fs;
use std::path::Path;

/// Writes the files of a search into the directory of the run; returns their paths and purposes.
pub(super) fn write_results(
    state: &State,
    report: &Report,
    folder: &RunFolder,
) -> Result<Vec<SuggestedCommand>, CliError> {
    let mut lines = Vec::new();
    if let Some(log) = report::bisect_log(report) {
        let path = folder.path().join("bisect.log");
        fs::write(&path, log).map_err(|error| cannot_write(&path, error))?;
        lines.push(
            SuggestedCommand::new(
                "log of the search",
                relative_to_cwd(&path).to_safe().to_string(),
            )
            .with_remark("edit it, and continue with --log FILE"),
        );
    }
    if let (Verdict::Found, Some(known)) = (report.verdict, policy::ShrinkProgress::of_state(state))
        && let Some(load) = &state.plan.load
    {
        let about = format!("The reduced load of {}", state.run);
        let failing = state.plan.variant_plan(State::FAILING);
        let text = under_load(&state.plan, failing, &known.left.apply_to(load), &about);
        if let Ok(text) = text {
            let path = folder.path().join(report::answer::SMALLEST);
            fs::write(&path, text).map_err(|error| cannot_write(&path, error))?;
            let line = format!(
                "provoke load {}",
                shell_word(relative_to_cwd(&path).as_os_str())
            );
            lines.push(SuggestedCommand::new("send the smallest load", line));
        }
    }
    if let (Verdict::Found, Some(space)) = (report.verdict, &state.plan.space)
        && state.reduction.is_some()
        && let [variant] = report::answer::kept_variants(state).as_slice()
    {
        let variant = state.plan.variant_plan(*variant);
        lines.extend(write_removed_files(space, variant, folder)?);
        let reduced = prepare::reduced_files(space, variant)?;
        let patch: Vec<u8> = reduced.iter().flat_map(|one| one.patch.clone()).collect();
        if space.apply {
            for one in &reduced {
                one.write_file()?;
                lines.push(SuggestedCommand::new(
                    "reduced",
                    one.path.to_safe().to_string(),
                ));
            }
        } else if !patch.is_empty() {
            let path = folder.path().join("reduced.patch");
            fs::write(&path, patch).map_err(|error| cannot_write(&path, error))?;
            let line = format!(
                "patch -p1 < {}",
                shell_word(relative_to_cwd(&path).as_os_str())
            );
            lines.push(SuggestedCommand::new("remove the unneeded parts", line));
        }
    }
    Ok(lines)
}

/// Removes the files that are not needed, or lists them; returns the path of the list.
fn write_removed_files(
    space: &SearchSpace,
    variant: &VariantPlan,
    folder: &RunFolder,
) -> Result<Option<SuggestedCommand>, CliError> {
    let removed = |edit: &EditPlan| (edit.change == FileChange::Remove).then(|| edit.file.clone());
    let files: Vec<Text> = variant.edits.iter().filter_map(removed).collect();
    let root = variant.make.as_ref().and_then(|make| make.copy.as_ref());
    let Some(root) = root.filter(|_| !files.is_empty()) else {
        return Ok(None);
    };
    if space.apply {
        for file in &files {
            let path = Path::new(root.as_os_str()).join(file.as_os_str());
            fs::remove_file(&path).map_err(|error| cannot_write(&path, error))?;
        }
        let count = words::format_count(files.len() as u64, "file");
        return Ok(Some(SuggestedCommand::new(
            "removed",
            format!("{count} that are not needed"),
        )));
    }
    let path = folder.path().join("unneeded.txt");
    let all = Text::join_texts(&files, b"\n");
    fs::write(&path, all.as_bytes()).map_err(|error| cannot_write(&path, error))?;
    Ok(Some(SuggestedCommand::new(
        "files that are not needed",
        relative_to_cwd(&path).to_safe().to_string(),
    )))
}

fn cannot_write(path: &Path, error: std::io::Error) -> CliError {
    let what = format!("cannot write `{}`", path.to_safe());
    CliError::could_not(anyhow::Error::new(error).context(what))
}
