//! Describes a stored trial with all of its evidence.

use super::core_analysis::CoreAnalysis;
use super::known_difference::find_difference;
use super::stored_trial::StoredTrial;
use super::trial_evidence::{LARGEST, in_flight, last_output};
use provoke_judge as judge;
use provoke_model::{
    AccessingThread, Autopsy, Crash, EvidenceDepth, Failure, HoldPlan, HoldPoint,
    InconclusiveReason, Outcome, STORY_FILE, Signature, Text, parse_small_json,
};
use provoke_questions::HeldPlace;
use provoke_report::story::{BetterTrial, TrialDetails, trial_story};
use provoke_report::{FailureGroup, Report, group_failures};
use provoke_sys::{calls, files};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;
use std::path::Path;

/// Maximum number of other failures of a run that are listed.
const MAX_OTHERS: usize = 8;

impl StoredTrial {
    /// Returns the analyses of its cores: the stored ones, or new ones if another tool is requested.
    pub(super) fn autopsies(&self, analysis: &CoreAnalysis) -> Result<Vec<Autopsy>, Diagnostic> {
        let cores = self.observation.cores.iter();
        if !analysis.tools.is_empty() {
            // The run may have been moved since.
            let names = cores.filter_map(|core| Path::new(core.file.as_os_str()).file_name());
            return names
                .map(|name| analysis.examine_core(&self.directory().join(name)))
                .collect();
        }
        let written = files::read_itself(&self.directory().join(STORY_FILE), LARGEST)
            .ok()
            .and_then(|text| parse_small_json(&text).ok());
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
            trial: self.trial.id,
            variant: &self.state.trials.variant_plan(self.trial.variant).name,
            is_captured: self.trial.captures_evidence(),
            outcome: self.outcome.as_ref().expect("it has ended"),
            seeming_hang: self.seeming_hang().as_ref(),
            observation: &self.observation,
            holds: &self.schedule_lines(),
            conditions: &self.conditions(),
            load: self.state.trials.load.as_ref(),
            in_flight: &in_flight(&self.directory()),
            stories: autopsies,
            output: &last_output(&self.directory()),
            better: self.better_trial().as_ref(),
            others: &self.other_failures(),
            verbose,
            width,
        })
    }

    /// Returns the hang that a trial seems to be that was stopped by the user.
    fn seeming_hang(&self) -> Option<Failure> {
        let interrupted = Outcome::Inconclusive(InconclusiveReason::Interrupted);
        if self.outcome != Some(interrupted) {
            return None;
        }
        let variant = self.state.trials.variant_plan(self.trial.variant);
        judge::seeming_hang(variant, &self.observation)
    }

    /// Returns a trial of the same failure with better evidence.
    fn better_trial(&self) -> Option<BetterTrial> {
        let failure = self.outcome.as_ref()?.any_failure()?;
        let mine = (failure.signature.depth, failure.signature.id);
        // The name of a test that failed is also a name of a trial in which more tests failed.
        let has_more = |other: &Signature| {
            other.also.contains(&mine)
                && (mine.0 != EvidenceDepth::Output || other.depth > EvidenceDepth::Output)
        };
        self.ends.iter().find_map(|(trial, failure)| {
            let failure = failure
                .as_deref()
                .filter(|other| has_more(&other.signature))?;
            let trial_name = format!("{}#{}", self.run_name, trial.0);
            Some(BetterTrial {
                trial: *trial,
                failure: failure.clone(),
                command: format!("provoke explain {}", shell_word(trial_name.as_ref())),
            })
        })
    }

    /// Describes the other failures of the run with the commands that explain them, if this trial stands for the run.
    fn other_failures(&self) -> Vec<String> {
        let failure = self.outcome.as_ref().and_then(Outcome::any_failure);
        let Some(failure) = failure.filter(|_| self.stands_for_run) else {
            return Vec::new();
        };
        let id = failure.signature.id.to_string();
        let report = Report::new(&self.state, true);
        let groups = report.variants.iter().flat_map(group_failures);
        let others = groups.filter(|group| {
            group.signature.id != id
                && !group.signature.same_as.contains(&id)
                && !group
                    .measured_trials()
                    .any(|trial| trial == self.trial.id.0)
        });
        let describe = |group: FailureGroup<'_>| {
            let example = group.measured_trials().next()?;
            let name = format!("{}#{example}", self.run_name);
            Some(format!(
                "{}x {}: provoke explain {}",
                group.trial_count(),
                words::sanitize_line(&group.signature.title),
                shell_word(name.as_ref()),
            ))
        };
        others.filter_map(describe).take(MAX_OTHERS).collect()
    }

    /// Describes what is known about the schedule of a failing trial.
    fn schedule_lines(&self) -> Vec<String> {
        let mut lines = self.hold_lines();
        if self
            .outcome
            .as_ref()
            .and_then(Outcome::any_failure)
            .is_some()
        {
            lines.extend(find_difference(&self.state, self.trial.variant));
        }
        lines
    }

    /// Describes where its threads were held, and the data races that were seen meanwhile.
    fn hold_lines(&self) -> Vec<String> {
        let Some(observation) = self.observation.holds.as_deref() else {
            return Vec::new();
        };
        let answer = Report::new(&self.state, true).answer;
        let places = answer
            .as_ref()
            .map_or(&[][..], |answer| answer.text().held_places());
        let holds = self.trial.hold.as_deref().map_or(&[][..], HoldPlan::holds);
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
