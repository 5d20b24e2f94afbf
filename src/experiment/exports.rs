//! Creates and writes the files of reports.

use super::baseline::pooled_baseline;
use super::stored_runs::StoredReport;
use provoke_journal as journal;
use provoke_journal::{RunFolder, StoreError, default_root};
use provoke_report::{
    Annotation, AnnotationLevel, ExportError, ExportOptions, Exporter, MARKDOWN, MaskedRun,
    PageOptions, Report, RunOfTrend, RunOrder, export_annotations, export_pictures, export_report,
    export_short_summary, export_trend,
};
use provoke_state::State;
use provoke_sys::files;
use provoke_sys::held_folder::HeldFolder;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Name of a page in the directory of its run.
const PAGE: &str = "report.html";

/// Where a report is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportTarget {
    /// To stdout.
    Stdout,
    /// To a file.
    File(PathBuf),
    /// To the directory of the run.
    RunFolder,
}

/// The requested reports of a run.
#[derive(Clone, Debug, Default)]
pub struct RequestedReports {
    /// The formats, each with its target.
    pub formats: Vec<(&'static Exporter, ReportTarget)>,
    /// The directory for the pictures of a page as separate files.
    pub pictures: Option<PathBuf>,
}

impl RequestedReports {
    /// Returns whether no report is requested.
    pub fn is_empty(&self) -> bool {
        self.formats.is_empty() && self.pictures.is_none()
    }

    /// Returns whether a report in this format is requested.
    pub fn has_format(&self, wanted: &Exporter) -> bool {
        let mut formats = self.formats.iter();
        formats.any(|(exporter, _)| exporter.name == wanted.name)
    }

    /// Returns whether a page or its pictures are requested.
    pub fn has_pictures(&self) -> bool {
        self.pictures.is_some() || self.formats.iter().any(|(exporter, _)| exporter.is_page)
    }

    /// Returns the target of the page, if nothing else is requested.
    pub fn only_page(&self) -> Option<&ReportTarget> {
        match (self.formats.as_slice(), &self.pictures) {
            ([(exporter, target)], None) if exporter.is_page => Some(target),
            _ => None,
        }
    }

    /// Returns the formats that are written to stdout.
    pub fn formats_on_stdout(&self) -> impl Iterator<Item = &'static Exporter> {
        let formats = self.formats.iter();
        formats
            .filter_map(|(exporter, target)| (*target == ReportTarget::Stdout).then_some(*exporter))
    }

    /// Returns the files of the requested reports.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.formats.iter().filter_map(|(_, target)| match target {
            ReportTarget::File(path) => Some(path),
            ReportTarget::Stdout | ReportTarget::RunFolder => None,
        })
    }

    /// Creates the files of the requested reports, so that a wrong path is an error before the first trial.
    pub(super) fn create_files(&self) -> Result<(), Diagnostic> {
        for path in self.files() {
            // An existing report stays until a new one replaces it.
            let file = File::options().create(true).append(true).open(path);
            file.map_err(|error| cannot_open(path, error))?;
        }
        if let Some(folder) = &self.pictures {
            create_picture_folder(folder)?;
        }
        Ok(())
    }

    /// Writes the requested reports. Returns the names of the files and directories.
    pub fn write_reports(
        &self,
        folder: &RunFolder,
        state: &State,
        report: &Report,
        page: PageOptions,
    ) -> Result<Vec<PathBuf>, Diagnostic> {
        let options = ExportOptions {
            environment: true,
            page: PageOptions {
                pooled: if self.has_pictures() {
                    pooled_baseline(state, folder)
                } else {
                    None
                },
                ..page
            },
        };
        let run = MaskedRun::new(folder, report)?;
        let mut written = Vec::new();
        for (exporter, target) in &self.formats {
            let path = match target {
                ReportTarget::Stdout => {
                    let (name, mut stdout) = (Path::new("-"), io::stdout().lock());
                    let exported = export_report(exporter, &run, &options, &mut stdout);
                    finish_output(exported, name, &mut stdout)?;
                    continue;
                }
                ReportTarget::File(path) => path.clone(),
                ReportTarget::RunFolder => default_page(folder)?,
            };
            write_report(exporter, &run, &options, &path)?;
            written.push(path);
        }
        if let Some(directory) = &self.pictures {
            write_pictures(&run, &options.page, directory)?;
            written.push(directory.clone());
        }
        Ok(written)
    }
}

/// Returns the path of the page in the directory of its run. Another user could have put a link there, and could replace
/// the page later.
fn default_page(folder: &RunFolder) -> Result<PathBuf, Diagnostic> {
    let path = folder.path().join(PAGE);
    let problem = match folder.foreign_owner() {
        Some(owner) => Some(format!("the directory of the run belongs to {owner}")),
        None if files::metadata_itself(&path).is_ok_and(|metadata| metadata.is_symlink()) => {
            Some(format!("`{}` is a link", path.to_safe()))
        }
        None => None,
    };
    match problem {
        None => Ok(path),
        Some(problem) => Err(
            Diagnostic::usage(format!("{problem}, so no page is written there"))
                .with_hint("name a file: --html=FILE"),
        ),
    }
}

/// Writes a report to a file.
fn write_report(
    exporter: &Exporter,
    run: &MaskedRun<'_>,
    options: &ExportOptions,
    path: &Path,
) -> Result<(), Diagnostic> {
    let write = |file: File| {
        let mut out = BufWriter::new(file);
        let exported = export_report(exporter, run, options, &mut out);
        finish_output(exported, path, &mut out)
    };
    if exporter.is_page {
        write_private_file(path, write)?;
    } else {
        write(File::create(path).map_err(|error| cannot_open(path, error))?)?;
    }
    journal::remember_report(path, &default_root());
    Ok(())
}

/// Writes the pictures of a page to a directory.
fn write_pictures(
    run: &MaskedRun<'_>,
    options: &PageOptions,
    directory: &Path,
) -> Result<(), Diagnostic> {
    create_picture_folder(directory)?;
    let pictures =
        export_pictures(run, options).map_err(|error| cannot_export(directory, error))?;
    for picture in pictures {
        let path = directory.join(picture.name);
        let write = |mut file: File| file.write_all(picture.svg.as_bytes());
        // The user names only the directory, so a link in it is replaced.
        files::replace(&path, write, |error| error).map_err(|error| cannot_open(&path, error))?;
        journal::remember_report(&path, &default_root());
    }
    Ok(())
}

fn create_picture_folder(directory: &Path) -> Result<(), Diagnostic> {
    fs::create_dir_all(directory).map_err(|error| {
        let message = format!("cannot create the directory `{}`", directory.to_safe());
        Diagnostic::usage(message).because(error)
    })
}

/// Writes a file that only its owner can read. Readers of an older file never see an incomplete one.
fn write_private_file(
    path: &Path,
    write: impl FnOnce(File) -> Result<(), Diagnostic>,
) -> Result<(), Diagnostic> {
    let mut target = path.to_owned();
    // A link that the user names stays a link.
    if HeldFolder::above(path).is_none() {
        target = fs::canonicalize(path).unwrap_or(target);
    }
    let found = files::metadata_itself(&target);
    if found.is_ok_and(|metadata| !metadata.is_file() && !metadata.is_symlink()) {
        // A pipe or a device cannot be replaced.
        return write(File::create(path).map_err(|error| cannot_open(path, error))?);
    }
    files::replace(&target, write, |error| cannot_open(path, error))
}

/// Writes a page about several runs in an order to a file, or to stdout.
pub fn write_trend(
    runs: &[StoredReport],
    order: RunOrder,
    options: &PageOptions,
    target: &ReportTarget,
) -> Result<Option<PathBuf>, Diagnostic> {
    let masked = runs.iter().map(|stored| {
        Ok(RunOfTrend {
            run: MaskedRun::new(&stored.folder, &stored.report)?,
            state: &stored.state,
        })
    });
    let runs: Vec<RunOfTrend<'_>> = masked.collect::<Result<_, StoreError>>()?;
    match target {
        ReportTarget::Stdout => {
            let (name, mut stdout) = (Path::new("-"), io::stdout().lock());
            finish_output(
                export_trend(&runs, order, options, &mut stdout),
                name,
                &mut stdout,
            )?;
            Ok(None)
        }
        ReportTarget::File(path) => {
            write_private_file(path, |file| {
                let mut out = BufWriter::new(file);
                finish_output(
                    export_trend(&runs, order, options, &mut out),
                    path,
                    &mut out,
                )
            })?;
            journal::remember_report(path, &default_root());
            Ok(Some(path.clone()))
        }
        ReportTarget::RunFolder => Err(Diagnostic::usage(
            "a page about several runs needs a file".to_owned(),
        )
        .with_hint("name it: --html=trend.html")),
    }
}

/// Maximum size of the file in which GitHub's runner collects the summary of a step. The runner drops a larger file.
const MAX_SUMMARY: usize = 1 << 20;

/// Appends the report in Markdown to the summary of a step of a CI job, or a few lines if the report is too long.
pub(super) fn append_step_summary(
    folder: &RunFolder,
    report: &Report,
    path: &Path,
) -> Result<(), Diagnostic> {
    let mut text = Vec::new();
    let run = MaskedRun::new(folder, report)?;
    // Everybody may be able to read the summary, so the values of environment variables are left out.
    let options = ExportOptions::default();
    finish_output(
        export_report(&MARKDOWN, &run, &options, &mut text),
        path,
        &mut io::sink(),
    )?;
    text.push(b'\n');
    if text.len() > room_in_summary(path)? {
        text.clear();
        finish_output(
            export_short_summary(&run, &mut text).map_err(ExportError::from),
            path,
            &mut io::sink(),
        )?;
    }
    append_to_summary(path, &text)
}

/// Returns how many bytes fit into the summary of a step.
fn room_in_summary(path: &Path) -> Result<usize, Diagnostic> {
    // A step may have replaced the file; opening a pipe would wait for its reader.
    let metadata = fs::metadata(path);
    if metadata
        .as_ref()
        .is_ok_and(|metadata| !metadata.is_file() && !is_null_device(path))
    {
        let message = format!("`{}` is not a file", path.to_safe());
        return Err(Diagnostic::could_not(message));
    }
    let used = metadata.map_or(0, |metadata| metadata.len());
    Ok(MAX_SUMMARY.saturating_sub(usize::try_from(used).unwrap_or(usize::MAX)))
}

/// Appends a text to the summary of a step.
pub(super) fn append_to_summary(path: &Path, text: &[u8]) -> Result<(), Diagnostic> {
    if text.len() > room_in_summary(path)? {
        let message = "the summary of this step has reached its maximum size of 1 MiB";
        return Err(Diagnostic::could_not(message));
    }
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|error| cannot_open(path, error))?;
    file.write_all(text)
        .map_err(|error| cannot_open(path, error))
}

fn is_null_device(path: &Path) -> bool {
    path == Path::new("/dev/null")
}

/// Returns annotations for a CI server: the verdict, and the most frequent failures at their source lines below `root`.
pub(super) fn annotate_report(
    folder: &RunFolder,
    report: &Report,
    verdict_level: AnnotationLevel,
    root: &Path,
) -> Result<Vec<Annotation>, Diagnostic> {
    let run = MaskedRun::new(folder, report)
        .map_err(|error| Diagnostic::could_not("cannot read the run").because(error))?;
    Ok(export_annotations(&run, verdict_level, root))
}

/// Writes the rest of an output with this name. A closed pipe is not an error.
fn finish_output(
    exported: Result<(), ExportError>,
    name: &Path,
    out: &mut impl Write,
) -> Result<(), Diagnostic> {
    match exported.and_then(|()| Ok(out.flush()?)) {
        Err(error) if error.is_broken_pipe() => Ok(()),
        result => result.map_err(|error| cannot_export(name, error)),
    }
}

fn cannot_export(name: &Path, error: ExportError) -> Diagnostic {
    let message = format!("cannot write the report to `{}`", name.to_safe());
    Diagnostic::could_not(message).because(error)
}

fn cannot_open(path: &Path, error: io::Error) -> Diagnostic {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let refused = Diagnostic::usage(format!("cannot write `{}`", path.to_safe())).because(error);
    match path.parent().filter(|_| is_missing) {
        Some(folder) => refused.with_hint(format!(
            "create the directory: mkdir -p {}",
            shell_word(folder.as_os_str())
        )),
        None => refused,
    }
}
