//! `clock`: another time of day for the processes of trials.

use super::clock_shift::{ClockShift, check_machine};
use super::simple::SEARCH;
use super::{Lever, LeverSearch, TrialStart};
use provoke_model::TrialsPlan;
use provoke_words::diagnostic::Diagnostic;
use std::io;

/// The time of day at which a trial starts, in the time zone of its main process. The clock runs on from there. `now`
/// changes nothing, but is done in the same way. The lever `date` describes that way, and what it does not cover.
pub(super) struct Clock;

impl Lever for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn about(&self) -> &'static str {
        "the time of day at which a trial starts: 23:59:58; the date stays"
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        ClockShift::parse_time_of_day(typed)
    }

    fn fact_title(&self) -> &'static str {
        "time of day"
    }

    fn fact_without(&self) -> &'static str {
        "that of the machine"
    }

    fn instead_in_containers(&self) -> Option<&'static str> {
        Some("run the command without a container, because the engine starts its processes")
    }

    fn search(&self) -> Option<LeverSearch> {
        Some(LeverSearch {
            family: "time of day",
            // Midnight passes during the trial; an hour later is another day; an hour earlier is another day, and in
            // most time zones one of the last two has another date in UTC. The hour of a change to summer time would
            // need the date of the change, too.
            values: &["23:59:58", "23:30:00", "00:10:00"],
            sham: Some("now"),
            cause: "time of day: it depends on the time of day, as when midnight passes during a test",
            ..SEARCH
        })
    }

    fn prepare(&self, _: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
        check_machine("clock", trials)
    }

    fn apply(&self, time: &str, start: &mut TrialStart) -> io::Result<()> {
        start.clock.get_or_insert_default().time_of_day = Some(time.to_owned());
        Ok(())
    }
}
