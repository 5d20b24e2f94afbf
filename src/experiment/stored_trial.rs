//! Reads a stored trial with all of its evidence.

use super::core_analysis::CoreAnalysis;
use super::trial_evidence::{LARGEST, in_flight, last_output};
use super::trial_reference::parse_trial;
use provoke_journal as journal;
use provoke_journal::{RunFolder, default_root};
use provoke_judge as judge;
use provoke_model::STORY_FILE;
use provoke_model::{
    AccessingThread, Autopsy, Crash, Event, EvidenceDepth, Failure, HoldPlan, HoldPoint,
    InconclusiveReason, Observation, Outcome, Signature, Text, TrialId, VariantId,
};
use provoke_questions as questions;
use provoke_questions::HeldPlace;
use provoke_report::Report;
use provoke_report::story::{BetterTrial, TrialDetails, trial_story};
use provoke_state::{Fold, State};
use provoke_sys::{calls, files};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;
use std::path::{Path, PathBuf};

/// Maximum number of trials that are listed.
const LISTED: usize = 12;

/// A stored trial.
#[derive(Debug)]
pub struct StoredTrial {
    /// Its number.
    id: TrialId,
    /// Whether it captured evidence after the measurement.
    is_captured: bool,
    /// What was seen.
    observation: Box<Observation>,
    /// Its outcome.
    outcome: Outcome,
    /// The state of its run.
    state: State,
    /// A trial of the same failure with better evidence.
    better: Option<BetterTrial>,
    variant: VariantId,
    hold: Option<Box<HoldPlan>>,
    journal: PathBuf,
    directory: PathBuf,
}

impl StoredTrial {
    /// Reads a trial by its reference, such as `last#17`.
    pub(super) fn read(name: &str) -> Result<Self, Diagnostic> {
        let (run, id) = parse_trial(name)?;
        let folder = RunFolder::find_run(run, &default_root())?;
        let mut failures: Vec<(TrialId, Failure)> = Vec::new();
        let mut finished: Vec<u64> = Vec::new();
        let mut newest: Option<(Box<Observation>, Outcome)> = None;
        let (mut variant, mut is_captured, mut hold) = (VariantId(0), false, None);
        let take = |event: &Event, _: &_| {
            if let Event::TrialStarted(trial) = event
                && trial.id == id
            {
                (variant, is_captured) = (trial.variant, trial.captures_evidence());
                hold.clone_from(&trial.hold);
            }
            let Event::TrialFinished {
                trial,
                seen: observation,
                outcome,
                ..
            } = event
            else {
                return;
            };
            finished.push(trial.0);
            if let Some(failure) = outcome.any_failure() {
                failures.push((*trial, failure.clone()));
            }
            if *trial == id {
                newest = Some((observation.clone(), outcome.clone()));
            }
        };
        let state = journal::read_run(&folder.journal_path(), Fold::OF_COUNTS, take)?;
        let (observation, outcome) = newest.ok_or_else(|| {
            let failed: Vec<u64> = failures.iter().map(|(trial, _)| trial.0).collect();
            no_trial(&state.origin.run, id, finished, failed)
        })?;
        let better = outcome.any_failure().and_then(|failure| {
            let mine = (failure.signature.depth, failure.signature.id);
            // The name of a test that failed is also a name of a trial in which more tests failed.
            let has_more = |other: &Signature| {
                other.also.contains(&mine)
                    && (mine.0 != EvidenceDepth::Output || other.depth > EvidenceDepth::Output)
            };
            let mut other_failures = failures.iter();
            let same = other_failures.find(|(_, other)| has_more(&other.signature));
            same.map(|(trial, failure)| {
                let trial_name = format!("{run}#{}", trial.0);
                BetterTrial {
                    trial: *trial,
                    failure: failure.clone(),
                    command: format!("provoke explain {}", shell_word(trial_name.as_ref())),
                }
            })
        });
        Ok(Self {
            id,
            is_captured,
            observation,
            outcome,
            state,
            better,
            variant,
            hold,
            journal: folder.journal_path(),
            directory: folder.trials_path().join(id.0.to_string()),
        })
    }

    /// Returns the analyses of its cores: the stored ones, or new ones if another tool is requested.
    pub(super) fn autopsies(&self, analysis: &CoreAnalysis) -> Result<Vec<Autopsy>, Diagnostic> {
        let cores = self.observation.cores.iter();
        if !analysis.tools.is_empty() {
            // The run may have been moved since.
            let names = cores.filter_map(|core| Path::new(core.file.as_os_str()).file_name());
            return names
                .map(|name| analysis.examine_core(&self.directory.join(name)))
                .collect();
        }
        let written = files::read_itself(&self.directory.join(STORY_FILE), LARGEST)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        Ok(written.unwrap_or_else(|| {
            let short = cores.filter_map(|core| core.crash.as_deref());
            let named_autopsy = |crash: &Crash| Autopsy {
                crash: crash.clone(),
                gaps: vec![
                    "the core was not kept: this is what the journal holds of it".to_owned(),
                ],
                ..Autopsy::default()
            };
            short.map(named_autopsy).collect()
        }))
    }

    /// Describes the trial with these analyses of its cores.
    pub(super) fn to_story(&self, autopsies: &[Autopsy], verbose: bool, width: usize) -> String {
        trial_story(&TrialDetails {
            trial: self.id,
            is_captured: self.is_captured,
            outcome: &self.outcome,
            seeming_hang: self.seeming_hang().as_ref(),
            observation: &self.observation,
            holds: &self.hold_lines(),
            limits: &provoke_levers::resource_limits(&self.state.trials.conditions),
            load: self.state.trials.load.as_ref(),
            in_flight: &in_flight(&self.directory),
            stories: autopsies,
            output: &last_output(&self.directory),
            better: self.better.as_ref(),
            verbose,
            width,
        })
    }

    /// Returns the hang that a trial seems to be that was stopped by the user.
    fn seeming_hang(&self) -> Option<Failure> {
        let was_stopped = self.outcome == Outcome::Inconclusive(InconclusiveReason::Interrupted);
        if was_stopped {
            judge::seeming_hang(
                self.state.trials.variant_plan(self.variant),
                &self.observation,
            )
        } else {
            None
        }
    }

    /// Describes where its threads were held, and the data races that were seen meanwhile.
    fn hold_lines(&self) -> Vec<String> {
        let Some(observation) = self.observation.holds.as_deref() else {
            return Vec::new();
        };
        // The points of the program are known only with the memory of the question.
        let run = journal::read_run(&self.journal, questions::FOLD, |_, _| {});
        let answer = run.ok().and_then(|state| Report::new(&state, true).answer);
        let places = answer
            .as_ref()
            .map_or(&[][..], |answer| answer.text().held_places());
        let holds = self.hold.as_deref().map_or(&[][..], HoldPlan::holds);
        // Several holds may be at one point.
        let mut threads_at: Vec<(String, u32)> = Vec::new();
        for (hold, times) in holds.iter().zip(&observation.times) {
            let point = name_point(&hold.point, places);
            match threads_at.iter_mut().find(|(other, _)| *other == point) {
                Some((_, threads)) => *threads += times,
                None => threads_at.push((point, *times)),
            }
        }
        let held = threads_at.into_iter().filter(|(_, threads)| *threads > 0);
        let mut lines: Vec<String> = held
            .map(|(point, threads)| match threads {
                1 => format!("a thread was held {point}"),
                threads => format!("{threads} threads were held {point}"),
            })
            .collect();
        lines.extend(observation.races.iter().map(|race| {
            format!(
                "data race on {}: while {}, {}",
                words::format_count(u64::from(race.size), "byte"),
                describe_side(&race.held, true),
                describe_side(&race.other, false),
            )
        }));
        lines
    }
}

/// Returns `at race.c:46 in client()` for a point at which a thread was held.
fn name_point(point: &HoldPoint, places: &[HeldPlace]) -> String {
    let is_there = |held_place: &&HeldPlace| match point {
        HoldPoint::Code(code) => held_place.address == Some(code.address),
        HoldPoint::Line { line, .. } => held_place.line == Some(*line),
        HoldPoint::Call { .. } | HoldPoint::Start(_) => places.len() == 1,
    };
    if let Some(held_place) = places.iter().find(is_there) {
        return words::sanitize_line(&held_place.place);
    }
    let name = |path: &Text| {
        let path = path.to_string();
        words::sanitize_line(path.rsplit('/').next().unwrap_or_default())
    };
    match point {
        HoldPoint::Code(code) => format!("at {}+0x{:x}", name(&code.object), code.address),
        HoldPoint::Line { file, line } => format!("at {}:{line}", name(file)),
        HoldPoint::Call { call, .. } => {
            let name = i64::try_from(*call).map(calls::syscall_name);
            format!("before {}", name.unwrap_or_default())
        }
        HoldPoint::Start(_) => "when a thread or process was created".to_owned(),
    }
}

/// Returns `thread 2 was about to write in drop() at refcount.c:7`.
fn describe_side(side: &AccessingThread, is_held: bool) -> String {
    let verb = match (is_held, side.writes) {
        (true, true) => "was about to write",
        (true, false) => "was about to read",
        (false, true) => "wrote",
        (false, false) => "read",
    };
    let frame = side.stack.first();
    let function = frame.and_then(|frame| frame.function.as_deref());
    let function_text = function.map_or(String::new(), |name| {
        format!(" in {}", words::sanitize_line(name))
    });
    let line = frame.and_then(|frame| frame.line.as_ref());
    let location = line.map_or(String::new(), |(file, line)| {
        let file = file.rsplit('/').next().unwrap_or_default();
        format!(" at {}:{line}", words::sanitize_line(file))
    });
    // Threads are numbered from 1 in texts.
    format!("thread {} {verb}{function_text}{location}", side.thread + 1)
}

/// Returns the reference of the trial of a run with the best evidence of its failure.
pub(super) fn best_trial(folder: &RunFolder) -> Result<String, Diagnostic> {
    let state = journal::read_run(&folder.journal_path(), questions::FOLD, |_, _| {})?;
    let report = Report::new(&state, true);
    let path = folder.path().to_string_lossy();
    if let Some(trial) = report.known_best() {
        return Ok(format!("{path}#{trial}"));
    }
    // Of other trials, only the exit status and the leaks are known.
    let mut failing = report
        .variants
        .iter()
        .flat_map(|variant| &variant.failing_trials);
    let first = failing.next().map(|trial| format!("{path}#{trial}"));
    first.ok_or_else(|| {
        Diagnostic::usage(format!("no trial of the run {} failed", state.origin.run))
            .with_hint(hint_without_failures(&report))
    })
}

/// Suggests which run to explain instead of one without failures.
fn hint_without_failures(report: &Report) -> String {
    match report.confirmed_run().map(|run| shell_word(run.as_ref())) {
        Some(run) => format!("to explain a failure before the fix: provoke explain {run}"),
        None => "`provoke list` shows which of the stored runs failed".to_owned(),
    }
}

/// Reports that a run has no such trial, and lists its trials.
fn no_trial(run: &str, id: TrialId, mut finished: Vec<u64>, mut failed: Vec<u64>) -> Diagnostic {
    finished.sort_unstable();
    failed.sort_unstable();
    let trials = words::trial_list(&finished, LISTED);
    let message = format!("the run {run} has no finished trial {id}");
    Diagnostic::usage(message).with_hint(match (finished.as_slice(), failed.as_slice()) {
        ([], _) => "none of its trials finished".to_owned(),
        (_, []) => format!("its trials are {trials}; none of them failed"),
        (_, failed) => {
            let failed = words::trial_list(failed, LISTED);
            format!("its trials are {trials}; failed: {failed}")
        }
    })
}
