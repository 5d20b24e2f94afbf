//! `date`: another date for the processes of trials.

use super::clock_shift::{ClockShift, check_machine};
use super::simple::{LEVER, SEARCH};
use super::{Lever, LeverSearch};

/// The date of the wall clock that the processes of a trial see: a date, or a distance from the present one. The clock
/// runs on from there, and each trial starts at the same date or distance. `+0` changes nothing, but is done in the
/// same way, so that it shows what the way itself does.
///
/// The clock of the machine does not change. provoke traces all processes, and answers their system calls that read the
/// wall clock; the vDSO, which would read it without a call, is hidden. So this also works for static programs, and for
/// programs that do not use the C library. Each question about the time takes about 20 µs instead of 30 ns, and
/// one about another clock takes 0.2 µs.
///
/// Times until which a program waits are moved in the other direction: of condition variables, semaphores, mutexes,
/// sleeps, timers and message queues. Not moved are the times of files, those in `/proc`, those of packets, `adjtimex`,
/// timeouts in an `io_uring`, 32-bit programs, and without root, programs that protect their memory. Servers that the
/// trial did not start have the time of the machine.
///
/// A process can have only one tracer. So debuggers, `strace` and programs that trace themselves, as LeakSanitizer
/// does, fail with `+0` as well, and without root, set-user-ID programs have no more privileges.
pub(super) static DATE: Lever = Lever {
    name: "date",
    about: "another date: 2039-06-15, +2y or -30d; the time of day stays",
    parse: |typed| ClockShift::parse_date(typed),
    explain_at: |value, started_at| {
        let is_distance = value.starts_with(['+', '-']);
        is_distance.then(|| ClockShift::calendar_date(value, started_at))?
    },
    fact_without: "that of the machine",
    instead_in_containers: Some(
        "run the command without a container, because the engine starts its processes",
    ),
    search: Some(LeverSearch {
        family: "date",
        // A certificate has usually expired, or is not valid yet, and 2038 is the last year of a 32-bit time. The
        // others are a leap day, and the last day of a month and of a year with 366 days.
        values: &[
            "+2y",
            "2039-06-15",
            "2015-06-15",
            "2028-02-29",
            "2028-12-31",
        ],
        sham: Some("+0"),
        ladder: &[
            "+1d", "+7d", "+30d", "+90d", "+180d", "+365d", "+600d", "+730d", "+2y",
        ],
        cause: "date: it depends on the date, as with a certificate, a leap day or a year in the code",
        ..SEARCH
    }),
    prepare: |_, _, trials| check_machine("date", trials),
    apply: |date, start| {
        start.clock.get_or_insert_default().date = Some(date.to_owned());
        Ok(())
    },
    ..LEVER
};
