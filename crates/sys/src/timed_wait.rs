//! Reads from `/proc` how long a thread waits at most before it continues by itself.

use super::memory::ProcessMemory;
use super::stat;
use super::threads::{self, SystemCall};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::time::Duration;

/// A time limit in the arguments of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeLimit {
    /// Milliseconds; negative if the wait has no limit.
    Milliseconds(i32),
    /// Address of a `timespec` with a duration; 0 if the wait has no limit.
    Relative(u64),
    /// Address of a `timespec` with a time of this clock; 0 if the wait has no limit.
    Absolute(u64, ClockId),
}

/// Returns the longest time until a waiting thread continues by itself; `None` if it does not wait for a time.
pub fn longest_wait(tid: i32) -> Option<Duration> {
    let text = stat::read_text(&format!("/proc/{tid}/syscall")).ok()?;
    let limit = time_limit(threads::parse_call(&text)?)?;
    let (address, clock) = match limit {
        TimeLimit::Milliseconds(limit) => {
            return u64::try_from(limit).ok().map(Duration::from_millis);
        }
        TimeLimit::Relative(0) | TimeLimit::Absolute(0, _) => return None,
        TimeLimit::Relative(address) => (address, None),
        TimeLimit::Absolute(address, clock) => (address, Some(clock)),
    };
    let words = ProcessMemory::of_process(tid)
        .ok()?
        .read_words(address)
        .ok()?;
    let limit = duration_of_words(words)?;
    Some(match clock {
        None => limit,
        Some(clock) => limit.saturating_sub(duration_since_epoch(clock_gettime(clock))),
    })
}

/// Returns the time limit of a system call that waits.
fn time_limit(call: SystemCall) -> Option<TimeLimit> {
    let [first, second, third, fourth, fifth, _] = call.arguments;
    // The argument is an `int` in a wider word.
    let milliseconds =
        |argument: u64| TimeLimit::Milliseconds(((argument & 0xffff_ffff) as u32).cast_signed());
    Some(match call.number {
        libc::SYS_nanosleep => TimeLimit::Relative(first),
        libc::SYS_clock_nanosleep if second & ABSOLUTE == 0 => TimeLimit::Relative(third),
        libc::SYS_clock_nanosleep => TimeLimit::Absolute(third, clock_of(first == REALTIME)),
        libc::SYS_futex => {
            let flags = i32::try_from(second).ok()?;
            match flags & libc::FUTEX_CMD_MASK {
                libc::FUTEX_WAIT => TimeLimit::Relative(fourth),
                libc::FUTEX_WAIT_BITSET => {
                    let is_realtime = flags & libc::FUTEX_CLOCK_REALTIME != 0;
                    TimeLimit::Absolute(fourth, clock_of(is_realtime))
                }
                _ => return None,
            }
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => milliseconds(third),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => milliseconds(fourth),
        libc::SYS_epoll_pwait => milliseconds(fourth),
        libc::SYS_ppoll => TimeLimit::Relative(third),
        libc::SYS_pselect6 => TimeLimit::Relative(fifth),
        _ => return None,
    })
}

/// Flag of `clock_nanosleep`: the time is not a duration.
const ABSOLUTE: u64 = libc::TIMER_ABSTIME as u64;
const REALTIME: u64 = libc::CLOCK_REALTIME as u64;

fn clock_of(is_realtime: bool) -> ClockId {
    if is_realtime {
        ClockId::Realtime
    } else {
        ClockId::Monotonic
    }
}

/// Returns the duration in a `timespec`.
fn duration_of_words([seconds, nanoseconds]: [u64; 2]) -> Option<Duration> {
    let nanoseconds = u32::try_from(nanoseconds).ok()?;
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds))
}

fn duration_since_epoch(time: Timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_test_needs::{needs, program};
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    /// Runs a Python program that prints a line before it waits, and returns its longest wait.
    fn wait_of_program(program: &str) -> Option<Duration> {
        let mut child = Command::new("python3")
            .args(["-c", &format!("print('.', end='', flush=True); {program}")])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut byte = [0];
        child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
        let wait = poll_until_asleep(&mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        wait
    }

    fn poll_until_asleep(child: &mut Child) -> Option<Duration> {
        let tid = child.id().cast_signed();
        let is_asleep = || {
            let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).unwrap();
            let call = std::fs::read_to_string(format!("/proc/{tid}/syscall")).unwrap();
            // Nothing but the wait under test is a call with such a number.
            stat.contains(") S ") && !call.starts_with("running") && !call.starts_with("1 ")
        };
        while !is_asleep() {
            assert!(child.try_wait().unwrap().is_none(), "the program has ended");
            std::thread::yield_now();
        }
        longest_wait(tid)
    }

    #[test]
    fn the_remaining_time_of_a_sleep_is_found() {
        needs!(program("python3"));
        let wait = wait_of_program("import time; time.sleep(10)").unwrap();
        assert!(wait <= TEN_SECONDS, "{wait:?}");
        assert!(wait > Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn the_time_limit_of_a_poll_is_found() {
        needs!(program("python3"));
        let program = "import select; select.poll().poll(10000)";
        assert_eq!(wait_of_program(program), Some(TEN_SECONDS));
        let program = "import select; select.epoll().poll(10)";
        assert_eq!(wait_of_program(program), Some(TEN_SECONDS));
    }

    #[test]
    fn the_time_limit_of_a_lock_is_found() {
        needs!(program("python3"));
        let program =
            "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire(timeout=10)";
        let wait = wait_of_program(program).unwrap();
        assert!(wait <= TEN_SECONDS, "{wait:?}");
        assert!(wait > Duration::from_secs(1), "{wait:?}");
    }

    #[test]
    fn a_wait_without_a_limit_has_no_time() {
        needs!(program("python3"));
        assert_eq!(wait_of_program("import signal; signal.pause()"), None);
        let program = "import select; select.poll().poll()";
        assert_eq!(wait_of_program(program), None);
    }
}
