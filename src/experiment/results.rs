//! Writes the log or the patch of a search.

use provoke_journal::RunFolder;
use provoke_model::{
    EditPlan, FileChange, LoadLimit, SearchSpace, Text, VariantChoices, VariantId, VariantPlan,
};
use provoke_plan::under_load;
use provoke_prepare as prepare;
use provoke_questions as questions;
use provoke_questions::Verdict;
use provoke_report::Report;
use provoke_state::State;
use provoke_sys::files;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Name of the scenario file with the requests that the failure needs.
const SMALLEST: &str = "smallest.toml";

/// A file that a search wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultFile {
    /// The log, with which the search can be continued.
    Log(PathBuf),
    /// A scenario file that sends only the requests that the failure needs.
    SmallestLoad(PathBuf),
    /// A patch that removes the unneeded parts of source files.
    Patch(PathBuf),
    /// A source file without its unneeded parts.
    Reduced(PathBuf),
    /// A list of unneeded files.
    UnneededFiles(PathBuf),
    /// This number of unneeded files was removed.
    Removed(u64),
}

/// Writes the files of a search into the directory of the run. `again` says that the run had ended before: then the user's
/// files may have changed since.
pub(super) fn write_results(
    state: &State,
    report: &Report,
    folder: &RunFolder,
    again: bool,
) -> Result<Vec<ResultFile>, Diagnostic> {
    let mut files = Vec::new();
    if let Some(log) = report.answer.as_ref().and_then(questions::search_log) {
        let path = folder.path().join("bisect.log");
        write_file(&path, log)?;
        files.push(ResultFile::Log(path));
    }
    if let (Verdict::Found, Some(space)) = (report.verdict, &state.trials.space)
        && matches!(space.choices, VariantChoices::Items(_))
        && !again
        && let [variant] = questions::of(state).kept_variants(state).as_slice()
    {
        files.extend(write_smallest_load(state, *variant, folder)?);
        let variant = state.trials.variant_plan(*variant);
        files.extend(remove_unneeded_files(space, variant, folder)?);
        let reduced = prepare::reduced_files(space, variant)?;
        let patch: Vec<u8> = reduced.iter().flat_map(|file| file.patch.clone()).collect();
        if space.apply {
            for file in &reduced {
                file.write_file()?;
                files.push(ResultFile::Reduced(file.path.clone()));
            }
        } else if !patch.is_empty() {
            let path = folder.path().join("reduced.patch");
            write_file(&path, patch)?;
            files.push(ResultFile::Patch(path));
        }
    }
    Ok(files)
}

/// Writes a scenario file with the load of a variant, if it sends requests.
fn write_smallest_load(
    state: &State,
    variant: VariantId,
    folder: &RunFolder,
) -> Result<Option<ResultFile>, Diagnostic> {
    let load = state.trials.load_of(state.trials.variant_plan(variant));
    let Some(load) = load.filter(|load| load.amount != LoadLimit::Requests(0)) else {
        return Ok(None);
    };
    let about = format!(
        "The requests that the failure of {} needs",
        state.origin.run
    );
    let Ok(text) = under_load(&state.goal, &state.trials, variant, &load, &about) else {
        return Ok(None);
    };
    let path = folder.path().join(SMALLEST);
    write_file(&path, text)?;
    Ok(Some(ResultFile::SmallestLoad(path)))
}

/// Removes the files that are not needed, or lists them.
fn remove_unneeded_files(
    space: &SearchSpace,
    variant: &VariantPlan,
    folder: &RunFolder,
) -> Result<Option<ResultFile>, Diagnostic> {
    let removed = |edit: &EditPlan| (edit.change == FileChange::Remove).then(|| edit.file.clone());
    let files: Vec<Text> = variant.edits.iter().filter_map(removed).collect();
    if files.is_empty() {
        return Ok(None);
    }
    let Some(root) = variant.make.as_ref().and_then(|make| make.copy.as_ref()) else {
        return Ok(None);
    };
    if space.apply {
        for file in &files {
            let path = Path::new(root.as_os_str()).join(file.as_os_str());
            fs::remove_file(&path).map_err(|error| cannot_write(&path, error))?;
        }
        return Ok(Some(ResultFile::Removed(files.len() as u64)));
    }
    let path = folder.path().join("unneeded.txt");
    let joined = Text::join_texts(&files, b"\n");
    write_file(&path, joined.as_bytes())?;
    Ok(Some(ResultFile::UnneededFiles(path)))
}

fn write_file(path: &Path, text: impl AsRef<[u8]>) -> Result<(), Diagnostic> {
    let written = files::create_private(path).and_then(|mut file| file.write_all(text.as_ref()));
    written.map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, error: io::Error) -> Diagnostic {
    Diagnostic::could_not(format!("cannot write `{}`", path.to_safe())).because(error)
}
