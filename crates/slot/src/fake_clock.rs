//! Answers the questions of traced processes about the wall-clock time, which differs from that of the machine.
//!
//! A call that reads the time is answered in its stop, and not made. A call that waits until a time gets a copy of this
//! time by the clock of the machine, on the unused stack of its thread, and its register is restored when the call
//! ends. What the tracer cannot read or write, the kernel cannot either: it makes the call, and reports the error.

use provoke_sys::call_filter::is_creation;
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::time_calls as calls;
use provoke_sys::tracee::{self, CallEntry, StopReason};
use provoke_sys::vdso::hide_vdso;
use provoke_words::untrusted::Untrusted as _;
use rustix::time::{ClockId, DynamicClockId, clock_gettime_dynamic};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const REALTIME: DynamicClockId<'_> = DynamicClockId::Known(ClockId::Realtime);
/// Number of `CLOCK_TAI`.
const TAI: u64 = 11;
const NANOSECONDS: i128 = 1_000_000_000;
/// Bytes of a word.
const WORD: u64 = 8;
/// Seconds, nanoseconds.
const WORDS_OF_TIME: usize = 2;
/// An interval, and a time.
const WORDS_OF_TIMER: usize = 4;

/// The clock of the processes of a trial.
pub(super) struct FakeClock {
    /// Nanoseconds by which it differs from the clock of the machine.
    difference: i128,
    /// Arguments of calls that have not ended: position and value.
    replaced: BTreeMap<i32, (usize, u64)>,
    /// Why a program of the trial does not run as it would with another clock.
    complaint: Option<String>,
}

/// What the rest of the tracer has to do with a stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StopResult {
    /// Handle the stop, and continue the thread.
    Stopped,
    /// Nothing, because the thread continues.
    Continued,
}

/// Where a call has the time until which it waits.
struct Deadline {
    /// The argument with its address.
    position: usize,
    /// Number of words there, of which the last two are the time.
    words: usize,
}

impl FakeClock {
    /// Returns a clock that differs from that of the machine by these nanoseconds.
    pub(super) fn new(difference: i128) -> Self {
        Self {
            difference,
            replaced: BTreeMap::new(),
            complaint: None,
        }
    }

    /// Handles the stop of a thread before other parts of the tracer.
    pub(super) fn handle_stop(&mut self, stop: ThreadStop) -> StopResult {
        let tid = stop.tid;
        if stop.delivered_signal().is_some() {
            return StopResult::Stopped;
        }
        match tracee::reason_of_stop(stop) {
            Ok(StopReason::Executed) => self.program_executed(tid),
            Ok(StopReason::SystemCall) => return self.call_begins(tid),
            Ok(StopReason::CallEnded) => {
                if let Some((position, value)) = self.replaced.remove(&tid) {
                    let _ = tracee::restore_argument(tid, position, value);
                }
            }
            _ => {}
        }
        StopResult::Stopped
    }

    /// Forgets a thread that has ended.
    pub(super) fn thread_ended(&mut self, tid: i32) {
        self.replaced.remove(&tid);
    }

    /// Returns why a program of the trial does not run as it would with another clock, once.
    pub(super) fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    fn program_executed(&mut self, tid: i32) {
        self.replaced.remove(&tid);
        let program = PathBuf::from(format!("/proc/{tid}/exe"));
        let difference = if let Err(error) = hide_vdso(tid) {
            format!("has the time of the machine: {error}")
        } else if may_lack_privileges(tid, &program) {
            "has no privileges, because its clock is traced".to_owned()
        } else {
            return;
        };
        self.complaint.get_or_insert_with(|| {
            let name = fs::read_link(format!("/proc/{tid}/exe")).unwrap_or_default();
            format!("`{}` {difference}", name.to_safe())
        });
    }

    fn call_begins(&mut self, tid: i32) -> StopResult {
        let Some(call) = CallEntry::of_thread(tid) else {
            return StopResult::Stopped;
        };
        if is_creation(call.number) {
            let _ = tracee::keep_creation_traced(tid, call.number);
        } else if let Some(deadline) = deadline_of(tid, &call) {
            if let Ok(argument) = self.move_deadline(tid, &call, &deadline) {
                self.replaced.insert(tid, argument);
                let _ = tracee::continue_to_call_end(tid);
                return StopResult::Continued;
            }
        } else {
            let _ = self.answer_question(tid, &call);
        }
        StopResult::Stopped
    }

    /// Answers a call that reads the time.
    fn answer_question(&self, tid: i32, call: &CallEntry) -> io::Result<()> {
        let [first, second, ..] = call.arguments;
        match call.number {
            calls::CLOCK_GETTIME => {
                let (seconds, nanoseconds) = split_time(self.now(clock_of(first))?);
                write_words(tid, second, &[seconds, nanoseconds])?;
                call.answer(0)
            }
            calls::GETTIMEOFDAY => {
                let (seconds, nanoseconds) = split_time(self.now(REALTIME)?);
                if first != 0 {
                    write_words(tid, first, &[seconds, nanoseconds / 1000])?;
                }
                if second != 0 {
                    // The kernel has no time zone.
                    write_words(tid, second, &[0])?;
                }
                call.answer(0)
            }
            calls::TIME => {
                let (seconds, _) = split_time(self.now(REALTIME)?);
                if first != 0 {
                    write_words(tid, first, &[seconds])?;
                }
                call.answer(seconds)
            }
            _ => Ok(()),
        }
    }

    /// Returns the time that the processes see, in nanoseconds since 1970.
    fn now(&self, clock: DynamicClockId<'_>) -> io::Result<i128> {
        let time = clock_gettime_dynamic(clock)?;
        let nanoseconds = i128::from(time.tv_sec) * NANOSECONDS + i128::from(time.tv_nsec);
        Ok(nanoseconds + self.difference)
    }

    /// Lets a call wait until the same time by the clock of the machine. Returns the argument to restore.
    fn move_deadline(
        &self,
        tid: i32,
        call: &CallEntry,
        deadline: &Deadline,
    ) -> io::Result<(usize, u64)> {
        let address = call.arguments[deadline.position];
        let mut words = vec![0; deadline.words];
        for (word, place) in words.iter_mut().zip(addresses_from(address)) {
            *word = tracee::read_word(tid, place)?;
        }
        if let [.., seconds, nanoseconds] = &mut words[..] {
            let is_disarmed =
                deadline.words == WORDS_OF_TIMER && (*seconds, *nanoseconds) == (0, 0);
            if is_disarmed || i128::from(*nanoseconds) >= NANOSECONDS {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let time = i128::from(seconds.cast_signed()) * NANOSECONDS + i128::from(*nanoseconds);
            // The kernel refuses times before 1970, which are over.
            let time = (time - self.difference).clamp(1, i128::from(i64::MAX) * NANOSECONDS);
            (*seconds, *nanoseconds) = split_time(time);
        }
        let copy = call.unused_stack(deadline.words as u64);
        write_words(tid, copy, &words)?;
        call.replace_argument(deadline.position, copy)?;
        Ok((deadline.position, address))
    }
}

/// Returns where a call has the time of the wall clock until which it waits, if it does.
fn deadline_of(tid: i32, call: &CallEntry) -> Option<Deadline> {
    let [first, ..] = call.arguments;
    let (position, words) = match call.number {
        calls::FUTEX | calls::FUTEX_WAITV => (3, WORDS_OF_TIME),
        calls::FUTEX_WAIT | calls::MQ_TIMEDSEND | calls::MQ_TIMEDRECEIVE => (4, WORDS_OF_TIME),
        calls::CLOCK_NANOSLEEP => (2, WORDS_OF_TIME),
        calls::TIMERFD_SETTIME if is_wall_clock(clock_of_file(tid, first)) => (2, WORDS_OF_TIMER),
        calls::TIMER_SETTIME if is_wall_clock(clock_of_timer(tid, first)) => (2, WORDS_OF_TIMER),
        _ => return None,
    };
    Some(Deadline { position, words })
}

fn is_wall_clock(clock: Option<u32>) -> bool {
    clock.is_some_and(|clock| calls::WALL_CLOCKS.contains(&clock))
}

/// Returns the clock of a timer that is a file.
fn clock_of_file(tid: i32, descriptor: u64) -> Option<u32> {
    // The argument is an `int` in a wider word.
    let descriptor = descriptor & u64::from(u32::MAX);
    let text = fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    number_after(text.lines(), "clockid:")
}

/// Returns the clock of a timer of a process.
fn clock_of_timer(tid: i32, timer: u64) -> Option<u32> {
    let timer = u32::try_from(timer & u64::from(u32::MAX)).ok()?;
    let text = fs::read_to_string(format!("/proc/{tid}/timers")).ok()?;
    let lines = text.lines();
    let lines = lines.skip_while(|line| number_after([*line], "ID:") != Some(timer));
    number_after(lines, "ClockID:")
}

/// Returns the number in the first line that begins with this name.
fn number_after<'a>(lines: impl IntoIterator<Item = &'a str>, name: &str) -> Option<u32> {
    let mut values = lines.into_iter().filter_map(|line| line.strip_prefix(name));
    values.next()?.trim().parse().ok()
}

/// Returns the clock of the machine with this number.
fn clock_of(number: u64) -> DynamicClockId<'static> {
    // The coarse clock shows the same time, but may be late by some milliseconds, so that a trial would begin before
    // its time.
    match number & u64::from(u32::MAX) {
        TAI => DynamicClockId::Tai,
        _ => REALTIME,
    }
}

/// Returns the seconds and nanoseconds of a time.
fn split_time(time: i128) -> (u64, u64) {
    let seconds = i64::try_from(time.div_euclid(NANOSECONDS)).unwrap_or(i64::MAX);
    let nanoseconds = u64::try_from(time.rem_euclid(NANOSECONDS)).unwrap_or_default();
    (seconds.cast_unsigned(), nanoseconds)
}

pub(super) fn write_words(tid: i32, address: u64, words: &[u64]) -> io::Result<()> {
    let mut places = words.iter().zip(addresses_from(address));
    places.try_for_each(|(word, place)| tracee::write_word(tid, place, *word))
}

/// Returns the addresses of words in a row.
fn addresses_from(address: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |index: u64| address.wrapping_add(index * WORD))
}

/// Returns whether a program that a process has just executed would have the privileges of another user if it were not
/// traced.
fn may_lack_privileges(tid: i32, program: &Path) -> bool {
    let is_restricted = || {
        let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
        number_after(status.lines(), "NoNewPrivs:") == Some(1)
    };
    tracee::has_set_user_id(program) && is_restricted()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_split_into_seconds_and_nanoseconds() {
        assert_eq!(split_time(1_500_000_000), (1, 500_000_000));
        let (seconds, nanoseconds) = split_time(-1);
        assert_eq!((seconds.cast_signed(), nanoseconds), (-1, 999_999_999));
    }

    #[test]
    fn the_clock_of_a_timer_follows_its_number() {
        let text = "ID: 0\nClockID: 1\nID: 1\nClockID: 0\n";
        let of_second = text
            .lines()
            .skip_while(|line| number_after([*line], "ID:") != Some(1));
        assert_eq!(number_after(of_second, "ClockID:"), Some(0));
    }
}
