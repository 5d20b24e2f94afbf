//! Reads `/proc/PID/stat` and `/proc/PID/task/TID/stat`.

use std::fs;
use std::io;
use std::time::Duration;

/// A process or a thread, as its `stat` file describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) name: String,
    pub(super) state: char,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    /// User and system time.
    pub(super) cpu: Duration,
    pub(super) threads: u64,
    /// Clock ticks from boot to the start.
    pub(super) start: u64,
    pub(super) resident_kib: u64,
    /// Status as `wait` returns it; 0 without permission to read it.
    pub(super) exit_code: i32,
}

impl Stat {
    /// Reads the file of a process; `None` if the process is gone.
    pub(super) fn of_process(pid: i32) -> Option<Self> {
        Self::parse(&read_text(&format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads the file of a thread; `None` if the thread is gone.
    pub(super) fn of_thread(pid: i32, tid: i32) -> Option<Self> {
        Self::parse(&read_text(&format!("/proc/{pid}/task/{tid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may contain any character, including parentheses.
        let (_, after) = text.split_once('(')?;
        let (name, rest) = after.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The manual counts from 1, and the state is field 3.
        let field = |number: usize| fields.get(number - 3).copied();
        let integer = |number: usize| field(number)?.parse::<i32>().ok();
        let count = |number: usize| field(number)?.parse::<u64>().ok();
        let ticks = count(14)?.saturating_add(count(15)?);
        Some(Self {
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            parent: integer(4)?,
            group: integer(5)?,
            session: integer(6)?,
            cpu: Duration::from_millis(ticks.saturating_mul(1000) / ticks_per_second()),
            threads: count(20)?,
            start: count(22)?,
            resident_kib: count(24)?.saturating_mul(rustix::param::page_size() as u64) / 1024,
            exit_code: integer(52)?,
        })
    }

    /// Time from boot to the start.
    pub(super) fn start_time(&self) -> Duration {
        Duration::from_millis(self.start.saturating_mul(1000) / ticks_per_second())
    }
}

/// Reads a file about a process or a thread. The kernel truncates their names after 15 bytes, which may be
/// within a character.
pub(super) fn read_text(path: &str) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_contain_parentheses_and_spaces() {
        let text = "42 (a) R (b c) S 7 8 9 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 3 0 1234 1000 256 \
                    18446744073709551615 1 1 0 0 0 0 0 0 17663 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 139\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state), ("a) R (b c", 'S'));
        assert_eq!((stat.parent, stat.group, stat.session), (7, 8, 9));
        assert_eq!((stat.threads, stat.start, stat.exit_code), (3, 1234, 139));
        assert_eq!(stat.cpu, Duration::from_millis(42_000 / ticks_per_second()));
        let page_kib = rustix::param::page_size() as u64 / 1024;
        assert_eq!(stat.resident_kib, 256 * page_kib);
    }

    #[test]
    fn a_truncated_file_has_no_values() {
        assert_eq!(Stat::parse("42 (a) S 7 8"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn this_process_is_described() {
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = Stat::of_process(own).unwrap();
        assert_eq!(
            Some(stat.parent),
            rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get())
        );
        assert!(stat.threads > 0 && stat.resident_kib > 0 && stat.start > 0);
        assert!(Stat::of_thread(own, own).is_some());
    }
}
