//! Lists the system calls of x86-64 that read the wall clock or wait for a time of it.
//!
//! Not in the list: `adjtimex`, which also returns the time, and timeouts in an `io_uring`, which a filter cannot see.

/// Reads a clock.
pub const CLOCK_GETTIME: u64 = 228;
/// Reads the time and the time zone of the kernel.
pub const GETTIMEOFDAY: u64 = 96;
/// Reads the time in seconds.
pub const TIME: u64 = 201;
/// Waits until a word of memory changes, or until a time.
pub const FUTEX: u64 = 202;
/// Sleeps for a time or until a time.
pub const CLOCK_NANOSLEEP: u64 = 230;
/// Sets a timer that sends a signal.
pub const TIMER_SETTIME: u64 = 223;
/// Sets a timer that is a file.
pub const TIMERFD_SETTIME: u64 = 286;
/// Sends a message, or waits until a time.
pub const MQ_TIMEDSEND: u64 = 242;
/// Receives a message, or waits until a time.
pub const MQ_TIMEDRECEIVE: u64 = 243;
/// Waits until one of several words of memory changes, or until a time.
pub const FUTEX_WAITV: u64 = 449;
/// Waits until a word of memory changes, or until a time.
pub const FUTEX_WAIT: u64 = 455;

/// The clocks that show the wall-clock time: `CLOCK_REALTIME`, `CLOCK_REALTIME_COARSE`, `CLOCK_REALTIME_ALARM` and
/// `CLOCK_TAI`.
pub const WALL_CLOCKS: [u32; 4] = [0, 5, 8, 11];
/// Operations of `futex` that wait until a time of the wall clock, without the flag for private memory: the one that
/// always does so, and three with `FUTEX_CLOCK_REALTIME`.
const FUTEX_WAITS: [u32; 4] = [0x6, 0x109, 0x10b, 0x10d];
/// All bits of an operation of `futex` except for `FUTEX_PRIVATE_FLAG`.
const FUTEX_OPERATION: u32 = !0x80;
/// `TIMER_ABSTIME` and `TFD_TIMER_ABSTIME`: the time is not a duration.
const ABSOLUTE: u32 = 1;

/// Test of an argument of a call, which a filter can make.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ArgumentTest {
    /// These bits of the lower half are one of the values.
    IsAmong {
        position: u32,
        mask: u32,
        values: &'static [u32],
    },
    /// It is not zero.
    IsNotNull { position: u32 },
}

const fn is_wall_clock(position: u32) -> ArgumentTest {
    ArgumentTest::IsAmong {
        position,
        mask: u32::MAX,
        values: &WALL_CLOCKS,
    }
}

const fn is_absolute(position: u32) -> ArgumentTest {
    ArgumentTest::IsAmong {
        position,
        mask: ABSOLUTE,
        values: &[ABSOLUTE],
    }
}

const fn is_given(position: u32) -> ArgumentTest {
    ArgumentTest::IsNotNull { position }
}

/// The calls that a tracer must see to answer for the wall clock, if their arguments pass all tests.
pub(crate) const SELECTED_CALLS: &[(u64, &[ArgumentTest])] = &[
    (CLOCK_GETTIME, &[is_wall_clock(0)]),
    (GETTIMEOFDAY, &[]),
    (TIME, &[]),
    (
        FUTEX,
        &[
            ArgumentTest::IsAmong {
                position: 1,
                mask: FUTEX_OPERATION,
                values: &FUTEX_WAITS,
            },
            // Without a timeout, this is each wait for a condition variable.
            is_given(3),
        ],
    ),
    (CLOCK_NANOSLEEP, &[is_wall_clock(0), is_absolute(1)]),
    (TIMER_SETTIME, &[is_absolute(1)]),
    (TIMERFD_SETTIME, &[is_absolute(1)]),
    (MQ_TIMEDSEND, &[is_given(4)]),
    (MQ_TIMEDRECEIVE, &[is_given(4)]),
    (FUTEX_WAITV, &[is_wall_clock(4), is_given(3)]),
    (FUTEX_WAIT, &[is_wall_clock(5), is_given(4)]),
];
