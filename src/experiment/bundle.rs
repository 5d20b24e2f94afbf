//! `report --bundle`: writes a run into one archive to share.

use flate2::Compression;
use flate2::write::GzEncoder;
use provoke_journal::{RunFolder, Secrets, SharedData, copy_to_share};
use provoke_model::{STORY_FILE, parse_small_json};
use provoke_report::{ExportOptions, Exporter, JSON, MARKDOWN, MaskedRun, Report, export_report};
use provoke_sys::files;
use provoke_sys::private_folder::PrivateFolder;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Seek as _};
use std::path::{Path, PathBuf};

/// Maximum size of a shared file that is not a core.
const LARGEST: u64 = 64 << 20;

/// The reports in a bundle, for people and for programs.
const REPORTS: [&Exporter; 2] = [&MARKDOWN, &JSON];

type BundleError = Box<dyn Error + Send + Sync>;

type BundleArchive = tar::Builder<GzEncoder<File>>;

/// Writes a run into a compressed archive. Unpacked, it is the directory of a run that `report`, `list`, `explain` and
/// `diff` read. Secrets are masked, and data that are not `shared` are left out.
pub fn write_bundle(
    folder: &RunFolder,
    report: &Report,
    shared: SharedData,
    file: &Path,
) -> Result<(), Diagnostic> {
    let secrets = Secrets::of_run(&folder.journal_path())?;
    let write = |output| {
        let mut archive = tar::Builder::new(GzEncoder::new(output, Compression::default()));
        fill_archive(&mut archive, folder, report, shared, &secrets)?;
        Ok(archive.into_inner()?.finish()?.sync_all()?)
    };
    files::replace(file, write, BundleError::from).map_err(|error| {
        let message = format!("cannot write the bundle `{}`", file.to_safe());
        Diagnostic::could_not(message).because(error)
    })
}

fn fill_archive(
    archive: &mut BundleArchive,
    folder: &RunFolder,
    report: &Report,
    shared: SharedData,
    secrets: &Secrets,
) -> Result<(), BundleError> {
    let top = PathBuf::from(folder.run_name());
    append_journal(archive, folder, &top.join("events.jsonl"), shared)?;
    let run = MaskedRun::new(folder, report)?;
    for exporter in REPORTS {
        let mut text = Vec::new();
        let options = ExportOptions {
            environment: shared.environment,
            ..ExportOptions::default()
        };
        export_report(exporter, &run, &options, &mut text)?;
        let name = format!("report.{}", exporter.name);
        append_text(archive, &top.join(name), &text)?;
    }
    for trial in folder_entries(&folder.trials_path())? {
        let number = trial.file_name().unwrap_or_default().to_owned();
        if number
            .to_str()
            .is_none_or(|name| name.parse::<u64>().is_err())
        {
            continue;
        }
        let inside = top.join("trials").join(number);
        add_trial(archive, &trial, &inside, shared, secrets)?;
    }
    Ok(())
}

/// Adds the evidence of a trial.
fn add_trial(
    archive: &mut BundleArchive,
    trial: &Path,
    inside: &Path,
    shared: SharedData,
    secrets: &Secrets,
) -> Result<(), BundleError> {
    for path in folder_entries(trial)? {
        let name = path.file_name().unwrap_or_default();
        let inside = inside.join(name);
        let is_folder = files::metadata_itself(&path).is_ok_and(|metadata| metadata.is_dir());
        match EvidenceFileKind::of_file_name(name) {
            Some(EvidenceFileKind::Output) => add_text(archive, &path, &inside, secrets)?,
            Some(EvidenceFileKind::Story) => {
                // A truncated file is no longer valid JSON.
                let json = read_regular(&path).filter(|json| json.len() as u64 <= LARGEST);
                let story =
                    json.map(|json| secrets.parse_masked(&json, |json| parse_small_json(json)));
                // A file that cannot be read is left out.
                if let Some(Ok::<serde_json::Value, _>(story)) = story {
                    append_text(archive, &inside, &serde_json::to_vec(&story)?)?;
                }
            }
            Some(EvidenceFileKind::Request) if shared.requests && is_folder => {
                for file in folder_entries(&path)? {
                    let name = file.file_name().unwrap_or_default();
                    add_text(archive, &file, &inside.join(name), secrets)?;
                }
            }
            Some(EvidenceFileKind::Request) if shared.requests => {
                add_text(archive, &path, &inside, secrets)?;
            }
            Some(EvidenceFileKind::Core) if shared.cores => {
                if let Ok(mut core) = files::regular_itself(&path) {
                    archive.append_file(&inside, &mut core)?;
                }
            }
            Some(EvidenceFileKind::Request | EvidenceFileKind::Core) | None => {}
        }
    }
    Ok(())
}

/// A kind of evidence file. The trial's own directory is never shared, because it may contain anything.
#[derive(Clone, Copy)]
enum EvidenceFileKind {
    Output,
    Story,
    Core,
    Request,
}

impl EvidenceFileKind {
    fn of_file_name(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let end = name.rsplit('.').next().unwrap_or_default();
        match (name, end) {
            (STORY_FILE, _) => Some(Self::Story),
            ("in-flight.jsonl" | "window.jsonl" | "replay.toml" | "requests", _) => {
                Some(Self::Request)
            }
            (_, "stdout" | "stderr") => Some(Self::Output),
            (_, "core") => Some(Self::Core),
            _ if name.starts_with("core.") => Some(Self::Core),
            _ => None,
        }
    }
}

fn add_text(
    archive: &mut BundleArchive,
    path: &Path,
    inside: &Path,
    secrets: &Secrets,
) -> Result<(), BundleError> {
    match read_regular(path) {
        Some(mut text) => {
            if text.len() as u64 > LARGEST {
                text.truncate(usize::try_from(LARGEST).unwrap_or(usize::MAX));
                text.extend_from_slice(b"\n[provoke: further bytes are not kept here]\n");
            }
            append_text(archive, inside, &secrets.mask_text(&text))
        }
        None => Ok(()),
    }
}

/// Adds the journal. An archive needs its length first, so it is copied into a file.
fn append_journal(
    archive: &mut BundleArchive,
    folder: &RunFolder,
    inside: &Path,
    shared: SharedData,
) -> Result<(), BundleError> {
    let scratch = PrivateFolder::new("bundle")?;
    let mut copy = BufWriter::new(files::create_new(&scratch.path().join("events.jsonl"))?);
    copy_to_share(&folder.journal_path(), shared, &mut copy)?;
    let mut copy = copy.into_inner()?;
    let length = copy.stream_position()?;
    copy.rewind()?;
    append_data(archive, inside, length, &copy)
}

fn append_text(archive: &mut BundleArchive, inside: &Path, text: &[u8]) -> Result<(), BundleError> {
    append_data(archive, inside, text.len() as u64, text)
}

fn append_data(
    archive: &mut BundleArchive,
    inside: &Path,
    length: u64,
    data: impl io::Read,
) -> Result<(), BundleError> {
    let mut header = tar::Header::new_gnu();
    header.set_size(length);
    header.set_mode(0o600);
    Ok(archive.append_data(&mut header, inside, data)?)
}

/// Reads a regular file, up to one byte more than is shared.
fn read_regular(path: &Path) -> Option<Vec<u8>> {
    files::read_beginning_of_itself(path, LARGEST + 1).ok()
}

/// Returns the sorted entries of a directory; empty if it does not exist.
fn folder_entries(folder: &Path) -> Result<Vec<PathBuf>, BundleError> {
    match files::folder_entries(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => Ok(entries?),
    }
}
