//! Checks the order of the events in a journal, with or without checksums.

use super::JournalDamage;
use provoke_model::{Event, InconclusiveReason, Outcome, TrialId};
use std::collections::BTreeSet;

/// Names of tests in one event: those that a trial planned, and those that it ran.
const MOST_NAMES: usize = 400_000;

/// Checks that no event is missing, repeated or out of order.
#[derive(Default)]
pub(super) struct EventSequence {
    /// The number of the last new trial.
    launched: u64,
    running: BTreeSet<TrialId>,
    /// Trials whose last attempt was interrupted or lost: only these may start again.
    to_repeat: BTreeSet<TrialId>,
    has_started: bool,
    /// Whether the run was finished, or stopped and not resumed.
    over: bool,
    finished: bool,
}

impl EventSequence {
    /// Checks the next event.
    pub(super) fn add_event(&mut self, event: &Event) -> Result<(), JournalDamage> {
        match event {
            Event::RunStarted { .. } if self.has_started => return Err(JournalDamage::SecondStart),
            Event::RunStarted { .. } => self.has_started = true,
            Event::CasesNamed(names) if names.len() > MOST_NAMES => {
                return Err(JournalDamage::TooManyCases);
            }
            Event::TrialStarted(trial) => self.start_trial(trial.id)?,
            Event::TrialFinished { trial, outcome, .. } => {
                if !self.running.remove(trial) {
                    return Err(JournalDamage::NeverStarted(*trial));
                }
                if matches!(
                    outcome,
                    Outcome::Inconclusive(
                        InconclusiveReason::Interrupted | InconclusiveReason::Lost
                    )
                ) {
                    self.to_repeat.insert(*trial);
                }
            }
            Event::TrialWithdrawn(trial) => {
                if !self.running.remove(trial) {
                    return Err(JournalDamage::NeverStarted(*trial));
                }
            }
            Event::LimitsChanged(_) => {
                if !self.over {
                    return Err(JournalDamage::AfterTheEnd);
                }
                self.finished = false;
            }
            Event::RunResumed { .. } => {
                if self.finished {
                    return Err(JournalDamage::AfterTheEnd);
                }
                self.over = false;
                self.to_repeat.append(&mut self.running);
            }
            Event::RunStopped { .. } | Event::RunFinished { .. } => {
                if let Some(trial) = self.running.first() {
                    return Err(JournalDamage::NeverEnded(*trial));
                }
                if self.over {
                    return Err(JournalDamage::AfterTheEnd);
                }
                self.over = true;
                self.finished = matches!(event, Event::RunFinished { .. });
            }
            Event::CasesNamed(_)
            | Event::VariantChosen(_)
            | Event::SettingChosen(_)
            | Event::PreparationStarted(_)
            | Event::VariantMade { .. }
            | Event::VariantUntestable { .. }
            | Event::RerunsStarted { .. }
            | Event::CaptureStarted { .. }
            | Event::BudgetSpent { .. }
            | Event::HostsChanged { .. }
            | Event::HostJoined { .. }
            | Event::HostMissing { .. }
            | Event::HostLost { .. }
            | Event::Note { .. } => {}
        }
        Ok(())
    }

    fn start_trial(&mut self, trial: TrialId) -> Result<(), JournalDamage> {
        if self.over {
            return Err(JournalDamage::AfterTheEnd);
        }
        if trial.0 == self.launched + 1 {
            self.launched += 1;
        } else if trial.0 == 0 || trial.0 > self.launched {
            return Err(JournalDamage::Skipped(TrialId(self.launched + 1)));
        } else if !self.to_repeat.remove(&trial) {
            return Err(JournalDamage::Repeated(trial));
        }
        self.running.insert(trial);
        Ok(())
    }
}
