//! Compares all outputs with files in `tests/it/golden`, so that a change of any output is seen and reviewed.
//! `UPDATE_GOLDEN=1` writes the files.

use provoke::term;
use provoke_journal::RunFolder;
use provoke_model::{Event, Failure, FailureKind, Outcome, TrialId, VariantId};
use provoke_questions as questions;
use provoke_report::story::{BetterTrial, TrialDetails, trial_story};
use provoke_report::{
    AnnotationLevel, CaseSelection, EXPORTERS, LoadMeasurements, MaskedRun, RunListing,
    export_annotations, export_short_summary, forecast_duration, lines_before_start, next_commands,
};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use crate::answered::{RecordedRun, answered_questions, crash};
use crate::observed::requests_in_flight;

/// Number of described trials of each kind.
const STORIES_OF_KIND: u64 = 2;

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
    for measured in [
        LoadMeasurements::Answers(0.5),
        LoadMeasurements::ServiceRun(Duration::from_secs(70)),
    ] {
        if let Some(forecast) = forecast_duration(&before, Some(measured)) {
            let _ = writeln!(text, "forecast: {}", forecast.text);
        }
    }
    for progress in all_progress(run) {
        let _ = writeln!(text, "progress: {progress}");
    }
    let measured = run.state.tally_of(VariantId(0)).failures;
    let baseline = questions::measure_variant(&run.state, VariantId(0), measured);
    let _ = writeln!(text, "baseline: {baseline:?}");
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

/// Returns the different descriptions of the progress of a run, at up to 16 times and at its end.
fn all_progress(run: &RecordedRun) -> Vec<String> {
    let mut earlier = RecordedRun::begin(run.state.plan());
    let question = questions::of(&run.state);
    let mut shown = Vec::new();
    let distance = run.events.len() / 16 + 1;
    for (number, event) in run.events.iter().enumerate().skip(1) {
        earlier.state.apply_event(event, questions::is_done);
        if number % distance == 0 {
            shown.extend(question.progress(&earlier.state));
        }
    }
    shown.extend(question.progress(&run.state));
    shown.dedup();
    shown
}

/// Returns the descriptions of a few trials of each kind.
fn stories(run: &RecordedRun) -> String {
    let in_flight = requests_in_flight();
    let holds = ["a thread was held at /src/crash.c:20 <b>&".to_owned()];
    let hang = Failure {
        kind: FailureKind::Hang { stopped: true },
        ..crash()
    };
    let mut told: BTreeMap<String, u64> = BTreeMap::new();
    let mut text = String::new();
    for event in &run.events {
        let Event::TrialFinished {
            trial,
            seen,
            outcome,
            ..
        } = event
        else {
            continue;
        };
        let kind = match outcome.any_failure() {
            Some(failure) => failure.kind.name().clone(),
            None if *outcome == Outcome::Pass => "pass".to_owned(),
            None => "inconclusive".to_owned(),
        };
        let count = told.entry(kind).or_default();
        *count += 1;
        if *count > STORIES_OF_KIND {
            continue;
        }
        let is_even = (*count).is_multiple_of(2);
        let has_requests = run.state.trials.load.is_some() && outcome.any_failure().is_some();
        let better = outcome.any_failure().map(|failure| BetterTrial {
            trial: TrialId(trial.0 + 1),
            failure: failure.clone(),
            command: "provoke explain".to_owned(),
        });
        text += &trial_story(&TrialDetails {
            trial: *trial,
            variant: if is_even { "JOBS=2" } else { "" },
            is_captured: is_even,
            outcome,
            seeming_hang: Some(&hang).filter(|_| is_even && outcome.any_failure().is_none()),
            observation: seen,
            holds: if is_even { &holds } else { &[] },
            conditions: &run.state.trials.conditions,
            load: run.state.trials.load.as_ref(),
            in_flight: if has_requests { &in_flight } else { &[] },
            stories: &[],
            output: &["its last line".to_owned()],
            better: better.as_ref().filter(|_| is_even),
            others: &["3x hang: provoke explain last#9".to_owned()],
            width: if is_even { 60 } else { 100 },
            verbose: is_even,
        });
    }
    text
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
    let reports = EXPORTERS.iter().copied().map(|exporter| {
        let text = run.export(folder, exporter);
        (format!("report.{}", exporter.name), text)
    });
    let short = ("short.txt".to_owned(), short_outputs(run, folder));
    let terminal = ("terminal.txt".to_owned(), terminal_outputs(run));
    let stories = ("stories.txt".to_owned(), stories(run));
    reports.chain([short, terminal, stories]).collect()
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
        "jsonl" | "csv" | "junit-trials" => without_most_lines(&text),
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
