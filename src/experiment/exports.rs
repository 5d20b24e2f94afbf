//! Creates and writes the files of reports.

use super::error::ExperimentError;
use crate::report::{Format, Report, export_report};
use crate::store::{self, RunFolder, default_root};
use crate::untrusted::Untrusted as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Creates files for reports.
pub(super) fn create_files(files: &[PathBuf]) -> Result<(), ExperimentError> {
    for path in files {
        // An existing report stays until a new one replaces it.
        let file = File::options().create(true).append(true).open(path);
        file.map_err(|error| cannot_open(path, error))?;
    }
    Ok(())
}

/// Writes a report to a file.
pub fn write_report(
    format: Format,
    folder: &RunFolder,
    report: &Report,
    path: &Path,
) -> Result<(), ExperimentError> {
    let file = File::create(path).map_err(|error| cannot_open(path, error))?;
    store::remember_report(path, &default_root());
    write_report_to(format, folder, report, path, &mut BufWriter::new(file))
}

/// Writes a report to an output with this name. A closed pipe is not an error.
pub fn write_report_to(
    format: Format,
    folder: &RunFolder,
    report: &Report,
    name: &Path,
    out: &mut impl Write,
) -> Result<(), ExperimentError> {
    let result = export_report(format, folder, report, true, out).and_then(|()| Ok(out.flush()?));
    match result {
        Err(error) if error.is_broken_pipe() => Ok(()),
        result => result.map_err(|error| {
            let message = format!("cannot write the report to `{}`", name.to_safe());
            ExperimentError::could_not(message).because(error)
        }),
    }
}

fn cannot_open(path: &Path, error: io::Error) -> ExperimentError {
    ExperimentError::usage(format!("cannot write `{}`", path.to_safe())).because(error)
}
