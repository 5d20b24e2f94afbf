//! Streams the trials of a run from its journal, in bounded memory.
//!
//! There is one row for every trial that ended, in launch order. Only the last attempt of each trial is shown, with its
//! number; earlier attempts were interrupted or lost. A trial that was not retried yet, because the run was
//! interrupted, has no row. A row counts if the report counts its trial, even if the journal has grown since.

use super::row::{classify_outcome, decisive_actor};
use super::service_trial::end_lines;
use super::{ExportError, MaskedRun, TrialClass, TrialRow};
use jiff::{SignedDuration, Timestamp};
use provoke_journal::{EventReader, RunFolder};
use provoke_judge as judge;
use provoke_model::{
    Ending, Event, FailureKind, LoadObservation, Observation, Outcome, Plan, Signal, SlotId,
    Survey, Trial, TrialId, TrialPurpose,
};
use provoke_questions::Verdict;
use provoke_state as state;
use provoke_sys::files;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

/// What a run recorded before its trials, with the variants that a search chose.
#[derive(Default)]
pub(super) struct RecordedPlan {
    pub(super) plan: Option<Box<Plan>>,
    pub(super) survey: Survey,
}

/// Passes every trial of a run to `take`. Returns the plan and the environment of the run.
pub(super) fn for_each_row(
    run: &MaskedRun<'_>,
    mut take: impl FnMut(TrialRow) -> io::Result<()>,
) -> Result<RecordedPlan, ExportError> {
    let (folder, report) = (run.folder(), run.report());
    let mut reader = RowReader {
        kept_trials: kept_trials(folder),
        verdict: Some(report.verdict),
        last_counted: report.last_counted_trial,
        with_another_failure: report.with_another_failure.clone(),
        late: if report.after_decision > 0 {
            Some(TrialClass::AfterDecision)
        } else {
            None
        },
        ..RowReader::default()
    };
    let journal = folder.journal_path();
    let mut events = EventReader::open_masked(&journal)?;
    while let Some(event) = events.next_event()? {
        reader.add_event(event);
        while let Some(row) = reader.next_row() {
            take(row)?;
        }
    }
    while let Some(row) = reader.next_late() {
        take(row)?;
    }
    Ok(RecordedPlan {
        plan: reader.plan,
        survey: reader.survey,
    })
}

/// Returns the numbers of the trials with kept evidence.
pub(super) fn kept_trials(folder: &RunFolder) -> Vec<u64> {
    let entries = files::folder_entries(&folder.trials_path()).unwrap_or_default();
    let mut numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| entry.file_name()?.to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Maximum number of rows that wait for the end of the journal.
const MOST_OPEN: usize = 1 << 16;

#[derive(Default)]
struct RowReader {
    plan: Option<Box<Plan>>,
    survey: Survey,
    verdict: Option<Verdict>,
    kept_trials: Vec<u64>,
    last_counted: u64,
    /// Trials that counted as the bug when they ended, but show another failure.
    with_another_failure: BTreeSet<u64>,
    late: Option<TrialClass>,
    /// Time at which the run was started or last resumed, and the working time until then.
    started: (i64, Duration),
    worked: Duration,
    /// Name of the host of each slot.
    hosts: BTreeMap<SlotId, String>,
    /// All trials from the first one without a row.
    open: BTreeMap<u64, UnfinishedRow>,
}

struct UnfinishedRow {
    trial: Trial,
    /// Name of the host of its slot.
    host: String,
    attempt: u32,
    /// How often the trial was lost.
    losses: u32,
    row: Option<TrialRow>,
    /// Whether the outcome is not known yet, because the trial will be retried.
    is_retry: bool,
}

impl RowReader {
    fn add_event(&mut self, event: Event) {
        match event {
            Event::RunStarted {
                plan, survey, at, ..
            } => {
                self.plan = Some(plan);
                self.survey = survey;
                self.started = (at, Duration::ZERO);
            }
            Event::TrialStarted(trial) => {
                let number = trial.id.0;
                let earlier = self.open.get(&number);
                let (attempt, losses) =
                    earlier.map_or((1, 0), |open| (open.attempt + 1, open.losses));
                let host = self.hosts.get(&trial.slot).cloned();
                let open = UnfinishedRow {
                    trial,
                    host: host.unwrap_or_default(),
                    attempt,
                    losses,
                    row: None,
                    is_retry: false,
                };
                self.open.insert(number, open);
            }
            Event::TrialFinished {
                trial,
                at: time,
                seen: observation,
                outcome,
            } => {
                self.worked = time;
                if let Some(mut open) = self.open.remove(&trial.0) {
                    open.is_retry = state::is_repeated(&outcome, &mut open.losses);
                    open.row = self.build_row(&open, time, *observation, &outcome);
                    self.open.insert(trial.0, open);
                }
            }
            Event::TrialWithdrawn(trial) => {
                self.open.remove(&trial.0);
            }
            Event::HostJoined { joined, at: time } => {
                self.worked = time;
                let slots = joined.slots();
                self.hosts
                    .extend(slots.map(|slot| (slot, joined.destination.clone())));
            }
            Event::HostsChanged { .. } => self.hosts.clear(),
            Event::LimitsChanged(limits) => self.close_after_decision(limits.answered_by),
            Event::RunResumed { at } => self.started = (at, self.worked),
            Event::BudgetSpent { at: time }
            | Event::RerunsStarted { at: time }
            | Event::CaptureStarted { at: time }
            | Event::VariantMade { at: time, .. }
            | Event::VariantUntestable { at: time, .. }
            | Event::HostMissing { at: time, .. }
            | Event::HostLost { at: time, .. }
            | Event::RunStopped { at: time, .. }
            | Event::RunFinished { at: time } => self.worked = time,
            // A choice of a search is part of its plan from then on.
            Event::VariantChosen(choice) => {
                if let Some(plan) = &mut self.plan
                    && let Some(space) = &plan.trials.space
                    && space.has_choice(&choice)
                {
                    let variant = space.variant_of_choice(&choice);
                    plan.trials.variants.push(variant);
                }
            }
            Event::SettingChosen(_)
            | Event::PreparationStarted(_)
            | Event::CasesNamed(_)
            | Event::Note { .. } => {}
        }
    }

    /// Marks the trials that ended after the question was answered for the first time.
    fn close_after_decision(&mut self, answered_by: Option<TrialId>) {
        let Some(last) = answered_by else { return };
        for (_, open) in self.open.range_mut(last.0 + 1..) {
            if !open.is_retry
                && let Some(row) = &mut open.row
            {
                row.class = TrialClass::AfterDecision;
            }
        }
    }

    /// Returns the next counted trial.
    fn next_row(&mut self) -> Option<TrialRow> {
        let first = self.open.first_entry()?;
        let counts = *first.key() <= self.last_counted;
        if !counts || first.get().is_retry {
            // A hostile journal may have any number of trials that do not count.
            let is_excess = !counts && self.open.len() > MOST_OPEN;
            return if is_excess { self.next_late() } else { None };
        }
        first.get().row.as_ref()?;
        first.remove().row
    }

    /// Returns the next uncounted trial, after the end of the journal.
    fn next_late(&mut self) -> Option<TrialRow> {
        while let Some((number, open)) = self.open.pop_first() {
            let counts = number <= self.last_counted;
            if open.is_retry && self.late.is_none() {
                continue;
            }
            let Some(mut row) = open.row else {
                continue;
            };
            if !counts {
                row.class = self.late.unwrap_or(TrialClass::Waiting);
            }
            return Some(row);
        }
        None
    }

    fn build_row(
        &self,
        open: &UnfinishedRow,
        time: Duration,
        mut observation: Observation,
        outcome: &Outcome,
    ) -> Option<TrialRow> {
        let trial = &open.trial;
        let variant = self
            .plan
            .as_ref()?
            .trials
            .variants
            .get(trial.variant.index())?;
        let decisive = decisive_actor(variant, &observation, outcome).cloned();
        let (name, class, mut detail) =
            classify_outcome(outcome, &mut observation, decisive.as_ref());
        let plan = self.plan.as_ref()?;
        let limits = provoke_levers::resource_limits(&plan.trials.conditions_of(variant));
        let failure = outcome.any_failure();
        let kind = failure.map(|failure| &failure.kind);
        if let Some(FailureKind::Signal {
            signal: Signal::KILL,
            ..
        }) = kind
            && let Some(killer) = judge::describe_killer(&observation, &limits)
        {
            detail = format!("{detail}; killed by: {killer}");
        }
        let is_known = observation.lost.is_none();
        let ending = decisive.as_ref().map(|main| &main.ending);
        let dead = match ending {
            Some(Ending::Signaled(signal, core)) => Some((signal.to_string(), *core)),
            _ => None,
        };
        let number = trial.id.0;
        let signature = failure.map(|failure| &failure.signature);
        let life = observation.load.as_deref();
        let death = life.and_then(|life| Some((life, life.death.as_ref()?)));
        Some(TrialRow {
            trial: number,
            variant: variant.display_label(),
            slot: trial.slot.0,
            slot_under_old_name: trial.slot.0,
            seed: trial.seed,
            attempt: open.attempt,
            started: if is_known {
                self.time_of_day(time.saturating_sub(observation.elapsed))
            } else {
                None
            },
            seconds: is_known.then_some(observation.elapsed.as_secs_f64()),
            outcome: name,
            class: self.class_of_trial(trial, class),
            signature: signature.map(|signature| signature.id.to_string()),
            title: signature.map(|signature| signature.title.clone()),
            depth: signature.map(|signature| signature.depth),
            detail,
            exit_code: match ending {
                Some(Ending::Exited(code)) => Some(*code),
                _ => None,
            },
            core_dumped: dead.as_ref().map(|(_, core)| *core),
            signal: dead.map(|(signal, _)| signal),
            cpu_seconds: observation
                .actors
                .iter()
                .map(|actor| actor.cpu)
                .sum::<Duration>()
                .as_secs_f64(),
            max_rss_kib: observation
                .actors
                .iter()
                .map(|actor| actor.max_rss)
                .max()
                .unwrap_or(0),
            leaked_processes: observation.residue.process_count(),
            stdout_bytes: observation.actors.iter().map(|actor| actor.written.0).sum(),
            stderr_bytes: observation.actors.iter().map(|actor| actor.written.1).sum(),
            stage: life.map(|life| life.stage),
            clients: life.map(|life| life.clients),
            requests: life.map(|life| life.sent),
            answers: life.map(|life| life.served),
            errors: life.map(LoadObservation::error_count),
            ends: life.map(|life| end_lines(&life.ends).join(", ")),
            served_before_death: death.map(|(life, death)| life.answered_until(death)),
            in_flight_at_death: death.map(|(_, death)| death.in_flight),
            last_words: decisive.map(|main| main.last_words).unwrap_or_default(),
            kept: self
                .kept_trials
                .binary_search(&number)
                .is_ok()
                .then(|| format!("trials/{number}")),
            host: open.host.clone(),
            verdict: self.verdict?,
            words: failure.map_or_else(String::new, |failure| failure.kind.meaning_words()),
            index: trial.variant.index(),
        })
    }

    /// Returns whether a trial counts, and as what, if its outcome is of this class.
    fn class_of_trial(&self, trial: &Trial, class: TrialClass) -> TrialClass {
        match trial.purpose {
            TrialPurpose::CaptureEvidence => TrialClass::Capture,
            TrialPurpose::ExploreSchedule => TrialClass::Held,
            TrialPurpose::RerunTest(_) => TrialClass::Alone,
            TrialPurpose::Measure if self.with_another_failure.contains(&trial.id.0) => {
                TrialClass::Other
            }
            TrialPurpose::Measure => class,
        }
    }

    /// Returns the time of day at which this working time was reached.
    fn time_of_day(&self, worked: Duration) -> Option<Timestamp> {
        let (started_at, worked_before) = self.started;
        let after = SignedDuration::try_from(worked.saturating_sub(worked_before)).ok()?;
        Timestamp::from_second(started_at)
            .ok()?
            .checked_add(after)
            .ok()
    }
}
