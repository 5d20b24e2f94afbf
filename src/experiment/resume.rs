//! Opens a stored run, to continue it.

use super::begin::check_hosts;
use super::run::{Experiment, ExperimentSettings};
use super::stored_runs::read_state;
use provoke_journal::{Journal, RunFolder, default_root};
use provoke_model::{Event, HostPlan, ResumeLimits};
use provoke_plan::HostSettings;
use provoke_questions as questions;
use provoke_questions::Step;
use provoke_state::State;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use std::path::Path;
use std::time::Duration;

/// Limits of a resumed run, instead of those that it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewLimits {
    /// Number of trials of each variant in all.
    pub trials: Option<u64>,
    /// Working time in all.
    pub duration: Option<Duration>,
    /// Continue until a fix that merely halves the failure rate is ruled out.
    pub exclude_half: bool,
}

impl Experiment {
    /// Opens a stored run. `trust` accepts a run that belongs to another user or was copied.
    pub fn resume(
        name: &str,
        trust: bool,
        limits: NewLimits,
        mut on: HostSettings,
        settings: ExperimentSettings,
    ) -> Result<Self, Diagnostic> {
        let folder = RunFolder::find_run(name, &default_root())?.check_trust(trust)?;
        let mut journal = Journal::open_for_append(&folder.journal_path())?;
        let mut state = read_state(&folder)?;
        // If one change is refused, none is recorded.
        let mut changes = Vec::new();
        if let Some(limits) = limits.for_run(&state)? {
            let changed = Event::LimitsChanged(limits);
            state.apply_event(&changed, |_| false);
            check_open(&state, name)?;
            changes.push(changed);
        }
        if on != HostSettings::default() {
            on.read_lists(Path::new(""))?;
            let slots = state.trials.slots_per_host();
            let hosts = on.to_plan(slots)?;
            let jobs = hosts.as_ref().map_or(slots, HostPlan::jobs);
            let changed = Event::HostsChanged { hosts, jobs };
            state.apply_event(&changed, |_| false);
            check_hosts(&state.trials)?;
            changes.push(changed);
        }
        for change in &changes {
            journal.add_event(change)?;
        }
        if !state.stage.is_finished() {
            let resumed = Event::RunResumed {
                at: jiff::Timestamp::now().as_second(),
            };
            journal.add_event(&resumed)?;
            state.apply_event(&resumed, |_| false);
        }
        Ok(Self {
            state,
            folder,
            journal,
            settings,
            first_slot: None,
            announced: Vec::new(),
        })
    }
}

impl NewLimits {
    /// Returns the limits for a run, if any are set.
    fn for_run(self, state: &State) -> Result<Option<ResumeLimits>, Diagnostic> {
        if self == Self::default() {
            return Ok(None);
        }
        if self.exclude_half && !questions::of(state).tests_a_fix() {
            let message = "--exclude-half is for runs of `provoke confirm`";
            return Err(Diagnostic::usage(message));
        }
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Ok(Some(ResumeLimits {
            trials: self.trials,
            duration_us: self.duration.map(micros),
            exclude_half: self.exclude_half,
            answered_by: state.stage.is_decided().then_some(state.last_counted),
        }))
    }
}

/// Refuses limits that leave no trial to run.
fn check_open(state: &State, name: &str) -> Result<(), Diagnostic> {
    let time_is_up = state
        .stop
        .time_budget()
        .is_some_and(|limit| limit <= state.worked);
    if !time_is_up && questions::policy_of(state).next_step(state) != Step::Done {
        return Ok(());
    }
    let message = format!(
        "under these limits, the run {} is complete",
        state.origin.run
    );
    Err(Diagnostic::usage(message).with_hint(format!(
        "it has {} in {}, and -n and -d are totals; `provoke report {name}` shows the result",
        words::format_count(state.last_counted.0, "trial"),
        words::format_seconds(state.worked.as_secs_f64()),
    )))
}
