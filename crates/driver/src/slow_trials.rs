//! Reports trials that run unusually long, and ends hung ones.

use super::{Driver, LoopState};
use provoke_exec::StopUrgency;
use provoke_model::{Event, NoteLevel, RequestPace, Timeout};
use std::time::Duration;

/// Maximum number of trials that are reported as slow; the live line names the slowest.
const SLOW_NOTES: u32 = 3;
/// A trial that reaches its timeout within this time is not reported.
const SOON: Duration = Duration::from_secs(1);

impl LoopState<'_, '_> {
    /// Reports trials that run unusually long, once each.
    pub(super) fn check_slow_trials(&mut self) {
        self.end_hung_trials();
        let state = &*self.driver.state;
        if self.slow_notes < SLOW_NOTES {
            let long = self.pace.late_after(state);
            let usual = match self.pace.known_to_be_late_after(state) {
                Some(_) => "takes longer than usual",
                None => "is still running",
            };
            let timeout = self.pace.hang_timeout(state);
            let mut slow = Vec::new();
            for lease in self.under_way.values_mut() {
                let elapsed = lease.since.elapsed();
                if let Some(trial) = lease.trials.front()
                    && !lease.called_slow
                    && elapsed > long
                    && elapsed + SOON < trial.timeout.min(timeout)
                {
                    lease.called_slow = true;
                    let hung_after = trial.timeout.min(timeout).as_secs_f64();
                    let load = state
                        .trials
                        .load_of(state.trials.variant_plan(trial.variant));
                    let is_first = self.slow_notes == 0 && slow.is_empty();
                    slow.push(if let Some(load) = load {
                        match load.pace {
                            RequestPace::Closed { clients } => {
                                let noun = if clients == 1 { "client" } else { "clients" };
                                format!("{} with {clients} {noun} {usual}", trial.id)
                            }
                            RequestPace::Open { .. } => format!("{} {usual}", trial.id),
                        }
                    } else if is_first {
                        format!(
                            "{} {usual} (timeout: {hung_after:.0} s; -t changes it); Ctrl-C ends the run and shows where it waits",
                            trial.id,
                        )
                    } else {
                        format!("{} {usual}", trial.id)
                    });
                }
            }
            for text in slow {
                self.slow_notes += 1;
                self.emit_event(&Event::Note {
                    level: NoteLevel::Info,
                    text,
                });
            }
        }
        let Driver { state, sinks, .. } = &mut *self.driver;
        for sink in sinks.iter_mut() {
            sink.on_tick(state);
        }
    }

    /// Ends trials that exceed a timeout which was not known when they were launched. A hunt gives each trial its own.
    fn end_hung_trials(&self) {
        let state = &*self.driver.state;
        if state.trials.settings.timeout != Timeout::Auto
            || state.trials.load.is_some()
            || self.driver.question.explores()
        {
            return;
        }
        let timeout = self.pace.hang_timeout(state);
        for lease in self.under_way.values() {
            // A slot ends a trial at the timeout that it got with it.
            let is_earlier = lease
                .trials
                .front()
                .is_some_and(|trial| timeout < trial.timeout);
            if lease.is_single() && is_earlier && lease.since.elapsed() > timeout {
                lease.raise_halt(StopUrgency::TimedOut);
            }
        }
    }

    /// Ends the trials that run unusually long, if the user stops the run: they may hang, and their stacks show where.
    pub(super) fn inspect_late_trials(&mut self) {
        if self.halt != StopUrgency::No {
            return;
        }
        let late = self.pace.late_after(self.driver.state);
        for lease in self.under_way.values() {
            if lease.since.elapsed() > late {
                lease.raise_halt(StopUrgency::Inspect);
            }
        }
    }
}
