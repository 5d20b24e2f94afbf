//! Compares all outputs with files in `tests/it/golden`, so that a change of any output is seen and reviewed.
//! `UPDATE_GOLDEN=1` writes the files.

use provoke::term;
use provoke_journal::RunFolder;
use provoke_questions as questions;
use provoke_report::{
    AnnotationLevel, CaseSelection, EXPORTERS, MaskedRun, RunListing, export_annotations,
    export_short_summary, lines_before_start, next_commands,
};
use regex::Regex;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::answered::{RecordedRun, answered_questions};

/// A directory of golden files, which contains no others.
pub(crate) struct GoldenFolder {
    path: PathBuf,
    compared: BTreeSet<PathBuf>,
    differences: String,
}

impl GoldenFolder {
    pub(crate) fn open(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden");
        Self {
            path: root.join(name),
            compared: BTreeSet::new(),
            differences: String::new(),
        }
    }

    fn updates() -> bool {
        std::env::var_os("UPDATE_GOLDEN").is_some()
    }

    /// Compares a text with a file of the directory.
    pub(crate) fn compare(&mut self, name: &str, text: &str) {
        let path = self.path.join(name);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        self.compared.insert(path.clone());
        if expected == text {
            return;
        }
        if Self::updates() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            return;
        }
        let pairs = expected.lines().zip(text.lines()).enumerate();
        let (number, old, new) = pairs
            .map(|(index, (old, new))| (index + 1, old, new))
            .find(|(_, old, new)| old != new)
            .unwrap_or((0, "", "more lines, or fewer"));
        let name = path.display();
        let _ = writeln!(self.differences, "{name}:{number}\n- {old}\n+ {new}");
    }

    /// Asserts that all files were equal, and that there are no others.
    pub(crate) fn finish(self) {
        let mut differences = self.differences;
        for path in files_below(&self.path) {
            if self.compared.contains(&path) {
                continue;
            }
            if Self::updates() {
                fs::remove_file(&path).unwrap();
            } else {
                let _ = writeln!(differences, "{}: nothing makes this file", path.display());
            }
        }
        assert!(
            differences.is_empty(),
            "outputs differ (UPDATE_GOLDEN=1 writes the files):\n{differences}"
        );
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Returns the outputs that are neither a report in a format nor the first screen: the lines before the start, the
/// line of the answer, the row in the list of runs, the suggested commands, and what CI servers show.
fn short_outputs(run: &RecordedRun, folder: &RunFolder) -> String {
    let report = run.report();
    let masked = MaskedRun::new(folder, &report).unwrap();
    let mut text = term::format_verdict(&report);
    let listing = RunListing::new(&run.state);
    let _ = writeln!(text, "\nlist: {listing:?}");
    let before = RecordedRun::begin(run.state.plan()).state;
    for line in lines_before_start(&before) {
        let _ = writeln!(text, "before: {line}");
    }
    if let Some(progress) = questions::of(&run.state).progress(&run.state) {
        let _ = writeln!(text, "progress: {progress}");
    }
    for command in next_commands(&report, "last", None) {
        let _ = writeln!(
            text,
            "next: {}: {} ({:?})",
            command.purpose, command.line, command.remark
        );
    }
    let annotations = export_annotations(&masked, AnnotationLevel::Error, Path::new("/src"));
    for annotation in annotations {
        let _ = writeln!(text, "{}", annotation.workflow_command());
    }
    let mut summary = Vec::new();
    export_short_summary(&masked, &mut summary).unwrap();
    text + "\n" + str::from_utf8(&summary).unwrap()
}

/// Returns the first screen and the tests of the suite, in a narrow terminal and without one.
fn terminal_outputs(run: &RecordedRun) -> String {
    let report = run.report();
    let folder = "provoke-out/run".as_ref();
    let screens = [Some(72), None].map(|width| {
        let summary = term::format_summary(&report, folder, "last", None, Vec::new(), width);
        summary + &term::format_cases(&report, &CaseSelection::All, width)
    });
    screens.join("\n")
}

/// Returns all outputs of a run, with the names of their files.
pub(crate) fn all_outputs(run: &RecordedRun, folder: &RunFolder) -> Vec<(String, String)> {
    let reports = EXPORTERS.into_iter().map(|exporter| {
        let text = run.export(folder, exporter);
        (format!("report.{}", exporter.name()), text)
    });
    let short = ("short.txt".to_owned(), short_outputs(run, folder));
    let terminal = ("terminal.txt".to_owned(), terminal_outputs(run));
    reports.chain([short, terminal]).collect()
}

/// The FNV-1a hash of an empty text.
pub(crate) const EMPTY_DIGEST: u64 = 0xcbf2_9ce4_8422_2325;

/// Returns the FNV-1a hash of a text, continued from another one.
pub(crate) fn continue_digest(digest: u64, text: &str) -> u64 {
    text.bytes().fold(digest, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Removes the constant parts of a page, and most lines of a format with a line for each trial.
pub(crate) fn shorten_report(format: &str, text: String) -> String {
    match format {
        "html" => without_constant_parts(&text),
        "jsonl" | "csv" | "junit" => without_most_lines(&text),
        _ => text,
    }
}

/// Returns the first lines of a text, and the digest of the others.
fn without_most_lines(text: &str) -> String {
    const KEPT: usize = 25;
    let mut lines = text.split_inclusive('\n');
    let kept: String = lines.by_ref().take(KEPT).collect();
    let digest = lines.fold(EMPTY_DIGEST, continue_digest);
    format!("{kept}digest of the other lines: {digest:016x}\n")
}

/// Removes the styles and the scripts of a page, and starts a line at each element.
fn without_constant_parts(page: &str) -> String {
    static CONSTANT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("(?s)<style>.*?</style>|<script>.*?</script>").unwrap());
    CONSTANT.replace_all(page, "").replace("><", ">\n<")
}

#[test]
fn all_outputs_of_every_answer_are_golden() {
    let place = tempfile::tempdir().unwrap();
    for (name, run) in answered_questions() {
        let folder = run.write_folder(&place.path().join(name));
        let mut golden = GoldenFolder::open(&format!("answers/{name}"));
        for (file, text) in all_outputs(&run, &folder) {
            let format = file.strip_prefix("report.").unwrap_or_default();
            let text = shorten_report(format, text);
            golden.compare(&file, &text);
        }
        golden.finish();
    }
}
