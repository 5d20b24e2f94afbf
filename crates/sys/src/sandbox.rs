//! Restricts this process to reading files and writing to its stdout, for work on files whose content others control.

#![expect(
    unsafe_code,
    reason = "filters of system calls are not in any safe wrapper"
)]

use super::call_filter::{MACHINE, NUMBER, X86_64, answer, argument, load, step};
use super::limits::set_limit;
use super::ptrace::CAN_CONTROL_THREADS;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::sync::mpsc;
use std::thread;

/// Numbers of the calls of x86-64 that are always allowed: reading, memory, the locks of the C library, and the end.
const ALLOWED_CALLS: [u32; 32] = [
    0,   // read
    3,   // close
    4,   // stat
    5,   // fstat
    6,   // lstat
    7,   // poll
    8,   // lseek
    11,  // munmap
    12,  // brk
    13,  // rt_sigaction
    14,  // rt_sigprocmask
    15,  // rt_sigreturn
    17,  // pread64
    19,  // readv
    24,  // sched_yield
    25,  // mremap
    28,  // madvise
    39,  // getpid
    60,  // exit
    89,  // readlink
    131, // sigaltstack
    186, // gettid
    202, // futex
    219, // restart_syscall
    228, // clock_gettime
    231, // exit_group
    262, // newfstatat
    267, // readlinkat
    271, // ppoll
    295, // preadv
    318, // getrandom
    332, // statx
];

/// A call that is allowed if one of its arguments passes a test.
struct ConditionalCall {
    number: u32,
    /// Position of the argument, from 0.
    argument: u32,
    test: ArgumentTest,
}

enum ArgumentTest {
    Equals(u32),
    HasNone(u32),
}

/// Flags with which a file is created or can be changed.
const WRITE_FLAGS: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND)
        .cast_unsigned();
const EXECUTABLE: u32 = libc::PROT_EXEC.cast_unsigned();
const GET_FLAGS: u32 = libc::F_GETFD.cast_unsigned();
const STDOUT: u32 = libc::STDOUT_FILENO.cast_unsigned();

/// Limits the memory of this process, disables its core dumps, and makes all system calls fail that do not only read files,
/// write to stdout, or end this process.
///
/// The error means that the kernel refused the filter of system calls; the limits are in force nevertheless.
pub fn restrict_to_reading(memory: u64) -> io::Result<()> {
    lower_limit(Resource::Core, 0);
    lower_limit(Resource::Data, memory);
    if CAN_CONTROL_THREADS {
        install_filter(&filter_steps(std::process::id()))
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Ends this process as soon as the other end of its stdin is closed, whatever it does then.
pub fn exit_when_stdin_closes() -> io::Result<()> {
    let (started, is_started) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let _ = started.send(());
        let stdin = io::stdin();
        loop {
            // Without requested events, only the end of the connection is reported.
            let mut fds = [PollFd::new(&stdin, PollFlags::empty())];
            if poll(&mut fds, None).is_ok_and(|ready| ready > 0) {
                // SAFETY: the call ends this process, and runs none of its code.
                unsafe { libc::_exit(0) };
            }
        }
    })?;
    // A filter could disturb the start of the thread.
    is_started.recv().map_err(io::Error::other)
}

fn lower_limit(resource: Resource, value: u64) {
    let maximum = getrlimit(resource).maximum;
    let value = Some(maximum.map_or(value, |maximum| maximum.min(value)));
    set_limit(resource, value, value);
}

fn conditional_calls(pid: u32) -> [ConditionalCall; 9] {
    let call = |number, argument, test| ConditionalCall {
        number,
        argument,
        test,
    };
    [
        call(1, 0, ArgumentTest::Equals(STDOUT)),         // write
        call(20, 0, ArgumentTest::Equals(STDOUT)),        // writev
        call(2, 1, ArgumentTest::HasNone(WRITE_FLAGS)),   // open
        call(257, 2, ArgumentTest::HasNone(WRITE_FLAGS)), // openat
        // The standard library checks descriptors in debug builds.
        call(72, 1, ArgumentTest::Equals(GET_FLAGS)), // fcntl
        call(9, 2, ArgumentTest::HasNone(EXECUTABLE)), // mmap
        call(10, 2, ArgumentTest::HasNone(EXECUTABLE)), // mprotect
        // This process ends itself by a signal when it aborts. The first thread has the number of the process.
        call(200, 0, ArgumentTest::Equals(pid)), // tkill
        call(234, 0, ArgumentTest::Equals(pid)), // tgkill
    ]
}

fn filter_steps(pid: u32) -> Vec<libc::sock_filter> {
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let has_any = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let allow = || answer(libc::SECCOMP_RET_ALLOW);
    let refuse = || answer(libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned());
    let mut steps = vec![
        load(MACHINE),
        step(equals, X86_64, 1, 0),
        answer(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
    ];
    for number in ALLOWED_CALLS {
        steps.extend([step(equals, number, 0, 1), allow()]);
    }
    for call in conditional_calls(pid) {
        let test = match call.test {
            ArgumentTest::Equals(value) => step(equals, value, 0, 1),
            ArgumentTest::HasNone(flags) => step(has_any, flags, 1, 0),
        };
        steps.extend([
            step(equals, call.number, 0, 4),
            load(argument(call.argument)),
            test,
            allow(),
            refuse(),
        ]);
    }
    steps.push(refuse());
    steps
}

/// Installs a filter in all threads of this process.
fn install_filter(steps: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).map_err(io::Error::other)?,
        filter: steps.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel only reads the program, which outlives the calls.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_TSYNC,
            &raw const program,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    use rustix::net::{AddressFamily, SocketType, socket};
    use rustix::process::{Pid, getpid, test_kill_process};
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    const MEMORY: u64 = 64 << 20;

    /// Attempts several things; returns for each whether the system refused it.
    fn refusals(parent: Pid) -> [bool; 7] {
        let opened = |path: &str, flags| open(path, flags, Mode::empty()).map(drop);
        let mapped = |size, rights| {
            // SAFETY: the kernel chooses an unused address.
            let start =
                unsafe { mmap_anonymous(std::ptr::null_mut(), size, rights, MapFlags::PRIVATE) };
            start.map(drop)
        };
        let too_much = usize::try_from(2 * MEMORY).unwrap_or(usize::MAX);
        let is_refused =
            |result: Result<(), Errno>| matches!(result, Err(Errno::PERM | Errno::NOMEM));
        [
            opened("/proc/self/stat", OFlags::RDONLY),
            mapped(4096, ProtFlags::READ | ProtFlags::WRITE),
            opened("/dev/null", OFlags::WRONLY),
            mapped(4096, ProtFlags::READ | ProtFlags::EXEC),
            mapped(too_much, ProtFlags::READ | ProtFlags::WRITE),
            socket(AddressFamily::UNIX, SocketType::STREAM, None).map(drop),
            test_kill_process(parent),
        ]
        .map(is_refused)
    }

    #[test]
    fn a_restricted_process_can_read_files_and_write_to_stdout_only() {
        let parent = getpid();
        let mut command = Command::new("/bin/true");
        // SAFETY: this process has one thread besides the test's, which waits, so no lock is held.
        unsafe {
            command.pre_exec(move || {
                let installed = restrict_to_reading(MEMORY);
                let refusals =
                    refusals(parent).map(|is_refused| if is_refused { b'1' } else { b'0' });
                libc::write(libc::STDERR_FILENO, b"lost".as_ptr().cast(), 4);
                libc::write(
                    libc::STDOUT_FILENO,
                    refusals.as_ptr().cast(),
                    refusals.len(),
                );
                libc::_exit(if installed.is_ok() { 3 } else { 4 })
            });
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(3), "the kernel knows filters");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "0011111");
    }
}
