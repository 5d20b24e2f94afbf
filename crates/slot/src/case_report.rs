//! Prepares the folder in which the test runner of a trial reports its cases.

use super::command::PlaceholderValues;
use super::give_to_trial;
use super::wire::{CaseRecipe, VariantRecipe};
use provoke_model::{CASES_FOLDER, Text, Trial};
use provoke_sys::files::{self, create_private};
use provoke_sys::held_folder::check_place;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of stdout that are copied for the reader of the cases.
const LONGEST_STDOUT: u64 = 256 << 20;

/// Creates the folder and its files. Returns the values of the trial with the variables of the runner.
pub(super) fn prepare_report(
    recipe: &VariantRecipe,
    trial: &Trial,
    values: PlaceholderValues,
) -> io::Result<PlaceholderValues> {
    let Some(cases) = &recipe.cases else {
        return Ok(values);
    };
    let folder = report_folder(cases, trial);
    // An earlier attempt whose slot was lost may have left files there.
    let _ = files::remove_tree(&folder);
    files::create_folders(&folder)?;
    check_place(&folder)?;
    let values = values.with_cases(&folder, &cases.variables);
    for (name, text) in &cases.files {
        let path = folder.join(name);
        let text = Text::from(text.as_str());
        create_private(&path)?.write_all(values.fill_marks(&text).as_bytes())?;
        give_to_trial(recipe, &path)?;
    }
    give_to_trial(recipe, &folder)?;
    Ok(values)
}

/// Returns the file to which the stdout of the runner is copied, if its cases are read from there.
pub(super) fn open_copy(recipe: &VariantRecipe, trial: &Trial) -> Option<(File, u64)> {
    let cases = recipe.cases.as_ref()?;
    let path = report_folder(cases, trial).join(cases.stdout.as_ref()?);
    Some((create_private(&path).ok()?, LONGEST_STDOUT))
}

fn report_folder(cases: &CaseRecipe, trial: &Trial) -> PathBuf {
    Path::new(cases.trials.as_os_str())
        .join(trial.id.0.to_string())
        .join(CASES_FOLDER)
}
