//! Creates and writes the files of reports.

use super::error::ExperimentError;
use crate::report::{
    ExportError, ExportOptions, Format, PageOptions, Report, RunOfTrend, export_report,
    export_trend,
};
use crate::store::{self, RunFolder, default_root};
use crate::untrusted::Untrusted as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
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
    options: &ExportOptions,
    path: &Path,
) -> Result<(), ExperimentError> {
    let write = |file: File| {
        let mut out = BufWriter::new(file);
        write_report_to(format, folder, report, options, path, &mut out)
    };
    if format == Format::Html {
        write_private_file(path, write)?;
    } else {
        write(File::create(path).map_err(|error| cannot_open(path, error))?)?;
    }
    store::remember_report(path, &default_root());
    Ok(())
}

/// Writes a file that only its owner can read. Readers of an older file never see an incomplete one.
fn write_private_file(
    path: &Path,
    write: impl FnOnce(File) -> Result<(), ExperimentError>,
) -> Result<(), ExperimentError> {
    // A link stays a link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
        // A pipe or a device cannot be replaced.
        return write(File::create(path).map_err(|error| cannot_open(path, error))?);
    }
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = target.with_file_name(name);
    let mut new_file = File::options();
    let file = new_file.write(true).create_new(true).mode(0o600);
    let file = file
        .open(&temporary)
        .map_err(|error| cannot_open(path, error))?;
    let written = write(file)
        .and_then(|()| fs::rename(&temporary, &target).map_err(|error| cannot_open(path, error)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes a page about several runs to a file.
pub fn write_trend(
    runs: &[RunOfTrend<'_>],
    options: &PageOptions,
    path: &Path,
) -> Result<(), ExperimentError> {
    write_private_file(path, |file| {
        write_trend_to(runs, options, path, &mut BufWriter::new(file))
    })?;
    store::remember_report(path, &default_root());
    Ok(())
}

/// Writes a page about several runs to an output with this name. A closed pipe is not an error.
pub fn write_trend_to(
    runs: &[RunOfTrend<'_>],
    options: &PageOptions,
    name: &Path,
    out: &mut impl Write,
) -> Result<(), ExperimentError> {
    finish_output(export_trend(runs, options, out), name, out)
}

/// Writes a report to an output with this name. A closed pipe is not an error.
pub fn write_report_to(
    format: Format,
    folder: &RunFolder,
    report: &Report,
    options: &ExportOptions,
    name: &Path,
    out: &mut impl Write,
) -> Result<(), ExperimentError> {
    finish_output(
        export_report(format, folder, report, options, out),
        name,
        out,
    )
}

fn finish_output(
    exported: Result<(), ExportError>,
    name: &Path,
    out: &mut impl Write,
) -> Result<(), ExperimentError> {
    match exported.and_then(|()| Ok(out.flush()?)) {
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
