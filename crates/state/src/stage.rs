//! Stage of a run: what its trials are for now, and why none are added.

use provoke_model::{Event, StopCause};

/// The stage of a run. [`RunStage::after`] has all transitions but one: [`RunStage::decide`] ends the present trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunStage {
    activity: Activity,
    budget: Budget,
    /// Cause of an interruption, until the run is resumed.
    stop_cause: Option<StopCause>,
    end: End,
}

/// What the trials are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    /// They are measured.
    #[default]
    Measuring,
    /// The question is answered: trials that end now are not counted.
    Answered,
    /// Extra trials run failing cases alone.
    RerunningTests(Interlude),
    /// Extra trials capture evidence.
    CapturingEvidence(Interlude),
}

/// Extra trials after or during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interlude {
    measurement: Measurement,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Running,
    Complete,
}

/// The measurement that extra trials follow or interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measurement {
    Over,
    /// The user stopped it: it continues when the run is resumed.
    SetAside,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Budget {
    #[default]
    Left,
    Spent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Finished,
}

impl RunStage {
    /// Returns the stage after an event.
    #[must_use]
    pub fn after(self, event: &Event) -> Self {
        match event {
            Event::RerunsStarted { .. } => Self {
                activity: Activity::RerunningTests(self.begin_interlude()),
                ..self
            },
            Event::CaptureStarted { .. } => Self {
                activity: Activity::CapturingEvidence(self.begin_interlude()),
                ..self
            },
            Event::BudgetSpent { .. } => Self {
                budget: Budget::Spent,
                ..self
            },
            Event::RunStopped { why, .. } => Self {
                stop_cause: Some(*why),
                ..self.continue_measurement()
            },
            Event::RunResumed { .. } => Self {
                stop_cause: None,
                ..self.continue_measurement()
            },
            Event::LimitsChanged(_) => Self {
                stop_cause: self.stop_cause,
                ..Self::default()
            },
            Event::RunFinished { .. } => Self {
                end: End::Finished,
                ..self
            },
            _ => self,
        }
    }

    /// Ends the present trials if `is_decided`: the question is answered, or the extra trials are complete. Otherwise, they
    /// continue.
    #[must_use]
    pub fn decide(self, is_decided: bool) -> Self {
        let progress = if is_decided {
            Progress::Complete
        } else {
            Progress::Running
        };
        let activity = match self.activity {
            Activity::Measuring | Activity::Answered if is_decided => Activity::Answered,
            Activity::Measuring | Activity::Answered => Activity::Measuring,
            Activity::RerunningTests(interlude) => Activity::RerunningTests(Interlude {
                progress,
                ..interlude
            }),
            Activity::CapturingEvidence(interlude) => Activity::CapturingEvidence(Interlude {
                progress,
                ..interlude
            }),
        };
        Self { activity, ..self }
    }

    fn interlude(self) -> Option<Interlude> {
        match self.activity {
            Activity::RerunningTests(interlude) | Activity::CapturingEvidence(interlude) => {
                Some(interlude)
            }
            Activity::Measuring | Activity::Answered => None,
        }
    }

    fn begin_interlude(self) -> Interlude {
        let measurement = match self.interlude() {
            Some(interlude) => interlude.measurement,
            None if self.is_decided() || self.is_budget_spent() => Measurement::Over,
            None => Measurement::SetAside,
        };
        Interlude {
            measurement,
            progress: Progress::Running,
        }
    }

    /// Returns to a measurement that was set aside.
    fn continue_measurement(self) -> Self {
        let activity = if self.is_measurement_set_aside() {
            Activity::Measuring
        } else {
            self.activity
        };
        Self { activity, ..self }
    }

    /// Returns whether the question is answered, or the extra trials are complete: trials that end now are not counted.
    pub fn is_decided(self) -> bool {
        match self.interlude() {
            Some(interlude) => interlude.progress == Progress::Complete,
            None => self.activity == Activity::Answered,
        }
    }

    /// Returns whether extra trials run: they capture evidence, or run failing cases alone.
    pub fn runs_extra_trials(self) -> bool {
        self.interlude().is_some()
    }

    /// Returns whether extra trials run failing cases alone.
    pub fn reruns_tests(self) -> bool {
        matches!(self.activity, Activity::RerunningTests(_))
    }

    /// Returns whether extra trials interrupt the measurement.
    pub fn is_measurement_set_aside(self) -> bool {
        let interlude = self.interlude();
        interlude.is_some_and(|interlude| interlude.measurement == Measurement::SetAside)
    }

    /// Returns whether the time budget is spent.
    pub fn is_budget_spent(self) -> bool {
        self.budget == Budget::Spent
    }

    /// Returns the cause of an interruption, until the run is resumed.
    pub fn stop_cause(self) -> Option<StopCause> {
        self.stop_cause
    }

    /// Returns whether the run is over.
    pub fn is_finished(self) -> bool {
        self.end == End::Finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::ResumeLimits;
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::time::Duration;

    fn name(stage: RunStage) -> String {
        let interlude = |what: &str, interlude: Interlude| {
            format!(
                "{what} ({}, {})",
                match interlude.measurement {
                    Measurement::Over => "measurement over",
                    Measurement::SetAside => "measurement set aside",
                },
                match interlude.progress {
                    Progress::Running => "running",
                    Progress::Complete => "complete",
                }
            )
        };
        let mut name = match stage.activity {
            Activity::Measuring => "measuring".to_owned(),
            Activity::Answered => "answered".to_owned(),
            Activity::RerunningTests(part) => interlude("rerunning", part),
            Activity::CapturingEvidence(part) => interlude("capturing", part),
        };
        if stage.is_budget_spent() {
            name += ", no budget";
        }
        if stage.stop_cause().is_some() {
            name += ", stopped";
        }
        if stage.is_finished() {
            name += ", finished";
        }
        name
    }

    #[test]
    fn the_transitions_from_each_stage_are_listed() {
        let at = Duration::ZERO;
        let why = StopCause::NothingCounts;
        let events = [
            ("budget spent", Event::BudgetSpent { at }),
            ("reruns", Event::RerunsStarted { at }),
            ("capture", Event::CaptureStarted { at }),
            ("stopped", Event::RunStopped { why, at }),
            ("resumed", Event::RunResumed { at: 0 }),
            ("new limits", Event::LimitsChanged(ResumeLimits::default())),
        ];
        let decisions = [("decided", true), ("not decided", false)];
        let mut text = String::new();
        let mut seen = BTreeSet::new();
        let mut stages = vec![RunStage::default()];
        while let Some(stage) = stages.pop() {
            if !seen.insert(name(stage)) {
                continue;
            }
            // The budget and a stop change no other transition of extra trials.
            if stage.runs_extra_trials()
                && (stage.is_budget_spent() || stage.stop_cause().is_some())
            {
                continue;
            }
            writeln!(text, "{}", name(stage)).unwrap();
            let by_event = events
                .iter()
                .map(|(what, event)| (*what, stage.after(event)));
            let by_decision = decisions.map(|(what, is_decided)| (what, stage.decide(is_decided)));
            for (what, next) in by_event.chain(by_decision) {
                if next != stage {
                    writeln!(text, "    {what} -> {}", name(next)).unwrap();
                    stages.push(next);
                }
            }
        }
        insta::assert_snapshot!(text);
    }

    #[test]
    fn extra_trials_that_follow_others_keep_the_measurement_set_aside() {
        let at = Duration::ZERO;
        let stage = RunStage::default()
            .after(&Event::RerunsStarted { at })
            .after(&Event::CaptureStarted { at });
        assert!(stage.is_measurement_set_aside());
        let resumed = stage.after(&Event::RunResumed { at: 0 });
        assert_eq!(resumed, RunStage::default());
    }
}
