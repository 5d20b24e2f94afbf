//! Selects system calls of a program, so that its tracer sees them and all others cost nothing.
//!
//! The kernel answers a selected call with `ENOSYS` if no tracer asked for it. So the filter may be installed only in a
//! process whose tracer sets `PTRACE_O_TRACESECCOMP` before the next selected call, and no process may be created
//! without the tracer: the filter also selects the calls that could do so.

#![expect(
    unsafe_code,
    reason = "a filter is installed between clone and exec, with plain system calls"
)]

use super::ptrace::CAN_CONTROL_THREADS;
use super::time_calls::{self, ArgumentTest};
use std::io;

/// Numbers and names of the calls of x86-64 by which processes meet: files, pipes and sockets.
///
/// Not in the list: `futex`, because a program with contended locks makes thousands of these calls and instructions are
/// better points; `fcntl`, which mostly changes flags of a descriptor; `stat` and `access`, because the window after a
/// check ends before the next call.
const NAMED_CALLS: [(u64, &str); 41] = [
    (0, "read"),
    (1, "write"),
    (2, "open"),
    (3, "close"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (42, "connect"),
    (43, "accept"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (48, "shutdown"),
    (49, "bind"),
    (50, "listen"),
    (73, "flock"),
    (76, "truncate"),
    (77, "ftruncate"),
    (82, "rename"),
    (83, "mkdir"),
    (84, "rmdir"),
    (85, "creat"),
    (86, "link"),
    (87, "unlink"),
    (88, "symlink"),
    (257, "openat"),
    (258, "mkdirat"),
    (263, "unlinkat"),
    (264, "renameat"),
    (265, "linkat"),
    (266, "symlinkat"),
    (288, "accept4"),
    (295, "preadv"),
    (296, "pwritev"),
    (299, "recvmmsg"),
    (307, "sendmmsg"),
    (316, "renameat2"),
    (327, "preadv2"),
    (437, "openat2"),
];

/// The system calls before which threads can be held.
pub const TRACED_CALLS: [u64; NAMED_CALLS.len()] = {
    let mut numbers = [0; NAMED_CALLS.len()];
    let mut index = 0;
    while index < numbers.len() {
        numbers[index] = NAMED_CALLS[index].0;
        index += 1;
    }
    numbers
};

/// Returns the name of a call in [`TRACED_CALLS`].
pub fn call_name(number: u64) -> Option<&'static str> {
    let mut calls = NAMED_CALLS.iter();
    calls.find_map(|(call_number, name)| (*call_number == number).then_some(*name))
}

/// Numbers and names of the calls that are recorded in a path besides [`TRACED_CALLS`]: their results decide how a program
/// goes on.
const RECORDED_ONLY: [(u64, &str); 10] = [
    (7, "poll"),
    (21, "access"),
    (23, "select"),
    (232, "epoll_wait"),
    (262, "newfstatat"),
    (269, "faccessat"),
    (270, "pselect6"),
    (271, "ppoll"),
    (281, "epoll_pwait"),
    (439, "faccessat2"),
];

/// Returns the calls that are recorded in the path of a thread.
pub fn recorded_calls() -> impl Iterator<Item = u64> {
    let others = RECORDED_ONLY.iter().map(|(number, _)| *number);
    TRACED_CALLS.into_iter().chain(others)
}

/// Returns the name of a call that is recorded in the path of a thread.
pub fn recorded_call_name(number: u64) -> Option<&'static str> {
    let mut others = RECORDED_ONLY.iter();
    let other = || others.find_map(|(call, name)| (*call == number).then_some(*name));
    call_name(number).or_else(other)
}

/// The machine in the data of a filter.
pub(crate) const X86_64: u32 = 0xc000_003e;
// Offsets of the number of the call and the machine in the data of a filter.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const MACHINE: u32 = 4;
/// Creates a process; its flags are the first argument.
pub(crate) const CLONE: u64 = 56;
/// Creates a process; its flags are in memory, where a filter cannot read them.
pub const CLONE3: u64 = 435;
/// Traces another process, or asks to be traced.
pub const PTRACE: u64 = 101;
/// Creates a thread or a process without the tracer of its creator.
pub(crate) const UNTRACED: u64 = 0x0080_0000;

/// Returns whether a filter selects a call so that the tracer can keep new processes traced.
pub fn is_creation(call: u64) -> bool {
    matches!(call, CLONE | CLONE3)
}

/// The wall clock that a program sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WallClock {
    /// The clock of the machine.
    #[default]
    OfMachine,
    /// The answers of its tracer, without which it is not started.
    OfTracer,
}

/// Program of a filter.
pub(crate) struct CallFilter(Vec<libc::sock_filter>);

impl CallFilter {
    /// Prepares a filter that selects these calls, and those about the wall clock if the tracer answers them; `None` if
    /// there are none.
    pub(crate) fn new(calls: &[u64], wall_clock: WallClock) -> Option<io::Result<Self>> {
        (!calls.is_empty() || wall_clock == WallClock::OfTracer).then(|| {
            if CAN_CONTROL_THREADS {
                Self::select_calls(calls, wall_clock)
            } else {
                Err(io::ErrorKind::Unsupported.into())
            }
        })
    }

    fn select_calls(calls: &[u64], wall_clock: WallClock) -> io::Result<Self> {
        let unless = |value, skipped| {
            let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
            step(code, value, 0, skipped)
        };
        let allow = || answer(libc::SECCOMP_RET_ALLOW);
        let trace = || answer(libc::SECCOMP_RET_TRACE);
        let mut steps = vec![
            load(MACHINE),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, X86_64, 1, 0),
            allow(),
            load(NUMBER),
        ];
        for call in calls.iter().chain([&CLONE3]) {
            let call = u32::try_from(*call).map_err(io::Error::other)?;
            steps.extend([unless(call, 1), trace()]);
        }
        if wall_clock == WallClock::OfTracer {
            for (call, tests) in time_calls::SELECTED_CALLS {
                let mut block: Vec<_> = tests.iter().flat_map(test_argument).collect();
                block.push(trace());
                let call = u32::try_from(*call).map_err(io::Error::other)?;
                let length = u8::try_from(block.len()).map_err(io::Error::other)?;
                steps.push(unless(call, length));
                steps.extend(block);
            }
        }
        let untraced = u32::try_from(UNTRACED).map_err(io::Error::other)?;
        let has_flag = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
        steps.extend([
            unless(u32::try_from(CLONE).map_err(io::Error::other)?, 3),
            load(argument(0)),
            step(has_flag, untraced, 0, 1),
            trace(),
            allow(),
        ]);
        if steps.len() > usize::try_from(libc::BPF_MAXINSNS).map_err(io::Error::other)? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self(steps))
    }

    /// Installs the filter in the calling process; the error is the kernel's error number. Without privileges, the
    /// process and its descendants can no longer gain any by executing a set-user-ID program.
    ///
    /// # Safety
    ///
    /// The caller is a traced child before its `exec`. This function only makes system calls.
    pub(crate) unsafe fn install(&self) -> Result<(), i32> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).unwrap_or(0),
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel only reads the program, which outlives the calls.
        unsafe {
            let set = || {
                libc::syscall(
                    libc::SYS_seccomp,
                    libc::SECCOMP_SET_MODE_FILTER,
                    // Without this flag, older kernels slow the program down.
                    libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                    &raw const program,
                )
            };
            if set() == 0 {
                return Ok(());
            }
            if *libc::__errno_location() == libc::EACCES
                && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && set() == 0
            {
                return Ok(());
            }
            Err(*libc::__errno_location())
        }
    }
}

/// Returns the steps that allow a call unless its argument passes a test.
fn test_argument(test: &ArgumentTest) -> Vec<libc::sock_filter> {
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut steps = Vec::new();
    match *test {
        ArgumentTest::IsAmong {
            position,
            mask,
            values,
        } => {
            steps.push(load(argument(position)));
            steps.push(step(
                libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
                mask,
                0,
                0,
            ));
            // Each jump leads behind the last step.
            for (value, jump) in values.iter().zip((1..=values.len()).rev()) {
                let jump = u8::try_from(jump).unwrap_or(u8::MAX);
                steps.push(step(equals, *value, jump, 0));
            }
        }
        ArgumentTest::IsNotNull { position } => steps.extend([
            load(argument(position)),
            step(equals, 0, 0, 3),
            load(argument(position) + 4),
            step(equals, 0, 0, 1),
        ]),
    }
    steps.push(answer(libc::SECCOMP_RET_ALLOW));
    steps
}

/// Returns the offset of the lower half of an argument in the data of a filter.
pub(crate) fn argument(position: u32) -> u32 {
    16 + 8 * position
}

/// Returns the step that loads the value at an offset in the data of a filter.
pub(crate) fn load(offset: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

/// Returns a step of a filter.
pub(crate) fn step(code: u32, value: u32, if_true: u8, if_false: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).unwrap_or(0),
        jt: if_true,
        jf: if_false,
        k: value,
    }
}

/// Returns the step that ends a filter with this action.
pub(crate) fn answer(action: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_traced_call_has_one_number() {
        assert!(TRACED_CALLS.is_sorted());
        assert!(TRACED_CALLS.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(call_name(257), Some("openat"));
        assert_eq!(call_name(1_000), None);
    }

    #[test]
    fn a_filter_with_too_many_calls_is_refused() {
        assert!(CallFilter::new(&[], WallClock::OfMachine).is_none());
        let all: Vec<u64> = (0..5_000).collect();
        let filter = CallFilter::new(&all, WallClock::OfMachine);
        assert!(filter.is_none_or(|filter| filter.is_err()));
    }
}
