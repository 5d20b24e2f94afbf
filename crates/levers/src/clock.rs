//! `clock`: another time of day for the processes of trials.

use super::clock_shift::{ClockShift, check_machine};
use super::simple::{LEVER, SEARCH};
use super::{Lever, LeverSearch};

/// The time of day at which a trial starts, in the time zone of its main process. The clock runs on from there. `now`
/// changes nothing, but is done in the same way. The lever `date` describes that way, and what it does not cover.
pub(super) static CLOCK: Lever = Lever {
    name: "clock",
    about: "the time of day at which a trial starts: 23:59:58; the date stays",
    parse: |typed| ClockShift::parse_time_of_day(typed),
    fact_title: Some("time of day"),
    fact_without: "that of the machine",
    instead_in_containers: Some(
        "run the command without a container, because the engine starts its processes",
    ),
    search: Some(LeverSearch {
        family: "time of day",
        // Midnight passes during the trial; an hour later is another day; an hour earlier is another day, and in
        // most time zones one of the last two has another date in UTC. The hour of a change to summer time would
        // need the date of the change, too.
        values: &["23:59:58", "23:30:00", "00:10:00"],
        sham: Some("now"),
        cause: "time of day: it depends on the time of day, as when midnight passes during a test",
        ..SEARCH
    }),
    prepare: |_, _, trials| check_machine("clock", trials),
    apply: |time, start| {
        start.clock.get_or_insert_default().time_of_day = Some(time.to_owned());
        Ok(())
    },
    ..LEVER
};
