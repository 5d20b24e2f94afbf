//! Reads dates and times of day, and computes the wall-clock time at which a trial starts.

use jiff::civil::{Date, Time};
use jiff::fmt::friendly::{Designator, Spacing, SpanPrinter};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};
use provoke_model::TrialsPlan;
use provoke_sys::spawn::find_program;
use provoke_sys::{tracee, user};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// Word for the present time of day.
const NOW: &str = "now";
/// Distance that changes nothing.
const NOTHING: &str = "+0";
/// Years in which a program may start.
const YEARS: std::ops::RangeInclusive<i16> = 1970..=9000;
/// Programs that trace others, which then cannot have the tracer that answers for the clock.
const TRACERS: [&str; 6] = ["gdb", "lldb", "ltrace", "rr", "strace", "uftrace"];

/// Another wall-clock time for the processes of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockShift {
    /// Value of the lever `date`.
    pub(super) date: Option<String>,
    /// Value of the lever `clock`.
    pub(super) time_of_day: Option<String>,
}

/// A value of the lever `date`.
enum StartDate {
    On(Date),
    After(Span),
}

impl ClockShift {
    /// Reads a date or a distance such as `+2y`. Returns it as it is stored.
    pub(super) fn parse_date(typed: &str) -> Result<String, String> {
        let stored = match start_date(typed)? {
            StartDate::On(date) => date.to_string(),
            StartDate::After(span) if span.is_zero() => NOTHING.to_owned(),
            StartDate::After(span) => {
                let printer = SpanPrinter::new()
                    .designator(Designator::Compact)
                    .spacing(Spacing::None);
                let sign = if span.is_negative() { '-' } else { '+' };
                format!("{sign}{}", printer.span_to_string(&span.abs()))
            }
        };
        let shift = Self {
            date: Some(stored.clone()),
            time_of_day: None,
        };
        shift.start_time(&Timestamp::now().to_zoned(TimeZone::UTC))?;
        Ok(stored)
    }

    /// Returns the date in UTC that a distance such as `+2y` means at a time, in seconds since 1970.
    pub(super) fn calendar_date(distance: &str, at: i64) -> Option<String> {
        let shift = Self {
            date: Some(distance.to_owned()),
            time_of_day: None,
        };
        let now = Timestamp::from_second(at).ok()?.to_zoned(TimeZone::UTC);
        let start_time = shift.start_time(&now).ok()?;
        Some(start_time.to_zoned(TimeZone::UTC).date().to_string())
    }

    /// Reads a time of day such as `23:59:58`. Returns it as it is stored.
    pub(super) fn parse_time_of_day(typed: &str) -> Result<String, String> {
        if typed == NOW {
            return Ok(NOW.to_owned());
        }
        let wrong = || format!("`{typed}` is not a time of day such as `23:59:58` or `07:30`");
        let numbers: Result<Vec<i8>, _> = typed.split(':').map(str::parse).collect();
        let time = match numbers.as_deref() {
            Ok([hour, minute]) => Time::new(*hour, *minute, 0, 0),
            Ok([hour, minute, second]) => Time::new(*hour, *minute, *second, 0),
            _ => return Err(wrong()),
        };
        time.map(|time| time.to_string()).map_err(|_| wrong())
    }

    /// Returns the nanoseconds by which the clock of the processes of a trial that starts now differs from that of the
    /// machine. The time zone has the form of the variable `TZ`; without it, it is that of the machine.
    pub fn nanoseconds_now(&self, time_zone: Option<&OsStr>) -> Result<i128, String> {
        let now = Timestamp::now();
        let start_time = self.start_time(&now.to_zoned(find_time_zone(time_zone)))?;
        Ok(start_time.as_nanosecond() - now.as_nanosecond())
    }

    /// Returns the time at which a trial starts.
    fn start_time(&self, now: &Zoned) -> Result<Timestamp, String> {
        let is_too_far = |_| "the clock cannot be set so far".to_owned();
        let mut start_time = match self.date.as_deref().map(start_date).transpose()? {
            None => now.clone(),
            Some(StartDate::On(date)) => now.with().date(date).build().map_err(is_too_far)?,
            Some(StartDate::After(span)) => now.checked_add(span).map_err(is_too_far)?,
        };
        if let Some(time) = self.time_of_day.as_deref().filter(|time| *time != NOW) {
            let time: Time = time
                .parse()
                .map_err(|error: jiff::Error| error.to_string())?;
            start_time = start_time.with().time(time).build().map_err(is_too_far)?;
        }
        if YEARS.contains(&start_time.year()) {
            Ok(start_time.timestamp())
        } else {
            let (first, last) = (YEARS.start(), YEARS.end());
            Err(format!("a trial can start in the years {first} to {last}"))
        }
    }
}

/// Reads a value of the lever `date`.
fn start_date(text: &str) -> Result<StartDate, String> {
    let wrong = || format!("`{text}` is not a date such as `2039-06-15`, `+2y` or `-30d`");
    let (is_later, distance) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(distance), _) => (true, distance),
        (None, Some(distance)) => (false, distance),
        (None, None) => {
            let date = text.parse().map_err(|_| wrong());
            return date.map(StartDate::On);
        }
    };
    let distance = distance.trim();
    if distance == "0" {
        return Ok(StartDate::After(Span::new()));
    }
    let is_plain = distance.starts_with(|first: char| first.is_ascii_digit());
    let span: Span = distance.parse().map_err(|_| wrong())?;
    if !is_plain || span.is_negative() {
        return Err(wrong());
    }
    Ok(StartDate::After(if is_later {
        span
    } else {
        span.negate()
    }))
}

/// Finds a time zone as the C library does; UTC if it is unknown.
fn find_time_zone(variable: Option<&OsStr>) -> TimeZone {
    let Some(variable) = variable else {
        return read_time_zone(Path::new("/etc/localtime")).unwrap_or(TimeZone::UTC);
    };
    let name = variable.to_string_lossy();
    let name = name.strip_prefix(':').unwrap_or(&name);
    if name.is_empty() {
        return TimeZone::UTC;
    }
    // An absolute path replaces the folder.
    read_time_zone(&Path::new("/usr/share/zoneinfo").join(name))
        .or_else(|| TimeZone::posix(name).ok())
        .unwrap_or(TimeZone::UTC)
}

fn read_time_zone(file: &Path) -> Option<TimeZone> {
    let data = fs::read(file).ok()?;
    TimeZone::tzif(&file.to_string_lossy(), &data).ok()
}

/// Checks that this machine can give trials another wall-clock time.
pub(super) fn check_machine(lever: &str, trials: &TrialsPlan) -> Result<(), Diagnostic> {
    if !tracee::can_control_threads() {
        let message = format!("`{lever}` needs Linux on x86-64");
        return Err(Diagnostic::usage(message)
            .with_hint("leave it out: the system calls that read the clock are known there only"));
    }
    let mut variables = trials.environment.iter();
    let path = variables.find(|(name, _)| name.as_os_str() == "PATH");
    let path = path.map(|(_, value)| value.as_os_str());
    // Under a tracer without privileges, programs cannot gain any.
    let is_restricted = !user::is_root() || super::user_of(&trials.conditions).is_some();
    let mut actors = trials.variants.iter().flat_map(|variant| &variant.actors);
    let refusal = actors.find_map(|actor| {
        let name = actor.command.first()?.as_os_str();
        let cwd = Path::new(actor.cwd.as_os_str());
        let is_tracer = TRACERS
            .map(OsStr::new)
            .contains(&Path::new(name).file_name()?);
        let gains_privileges = || {
            let program = find_program(name, path, cwd);
            is_restricted && program.is_ok_and(|program| tracee::has_set_user_id(&program))
        };
        let difference = if is_tracer {
            "traces processes, too"
        } else if gains_privileges() {
            "has no privileges then"
        } else {
            return None;
        };
        let shown = name.to_safe();
        Some(format!(
            "`{lever}` traces each process, and `{shown}` {difference}"
        ))
    });
    refusal.map_or(Ok(()), |message| {
        let hint = "choose a command without it, because a process can have only one tracer";
        Err(Diagnostic::usage(message).with_hint(hint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(date: Option<&str>, time_of_day: Option<&str>, now: &str) -> String {
        let shift = ClockShift {
            date: date.map(str::to_owned),
            time_of_day: time_of_day.map(str::to_owned),
        };
        let now: Timestamp = now.parse().unwrap();
        let zone = find_time_zone(Some(OsStr::new("CET-1CEST,M3.5.0,M10.5.0/3")));
        let start_time = shift.start_time(&now.to_zoned(zone)).unwrap();
        start_time.to_string()
    }

    #[test]
    fn a_distance_has_a_calendar_date() {
        for (distance, date) in [("+600d", Some("1971-08-24")), ("-1y", None)] {
            let found = ClockShift::calendar_date(distance, 0);
            assert_eq!(found.as_deref(), date, "{distance}");
        }
    }

    #[test]
    fn a_date_keeps_the_local_time_of_day() {
        let started = |date| started(Some(date), None, "2026-11-28T23:30:00Z");
        assert_eq!(started("2039-06-15"), "2039-06-14T22:30:00Z");
        assert_eq!(started("+1y"), "2027-11-28T23:30:00Z");
        assert_eq!(started("-6mo"), "2026-05-28T22:30:00Z");
        assert_eq!(started("+0"), "2026-11-28T23:30:00Z");
    }

    #[test]
    fn a_time_of_day_keeps_the_local_date() {
        let started = |time| started(None, Some(time), "2026-11-28T23:30:00.25Z");
        assert_eq!(started("23:59:58"), "2026-11-29T22:59:58Z");
        assert_eq!(started("now"), "2026-11-28T23:30:00.25Z");
    }

    #[test]
    fn a_date_and_a_time_of_day_are_combined() {
        let started = |date| started(Some(date), Some("02:30:00"), "2026-11-28T12:00:00Z");
        assert_eq!(started("2039-06-15"), "2039-06-15T00:30:00Z");
        // Summer time begins, and the hour from 2 to 3 does not exist.
        assert_eq!(started("2027-03-28"), "2027-03-28T01:30:00Z");
    }

    #[test]
    fn an_unknown_time_zone_is_utc() {
        assert_eq!(
            find_time_zone(Some(OsStr::new("Nowhere/At all"))),
            TimeZone::UTC
        );
        assert_eq!(find_time_zone(Some(OsStr::new(""))), TimeZone::UTC);
    }
}
