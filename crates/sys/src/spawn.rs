//! Starts a process with the least overhead.
//!
//! Like `posix_spawn`, this module uses `clone(CLONE_VM | CLONE_VFORK)`: the child shares the
//! parent's memory until `exec`, so no memory is copied, and the child can write an error number
//! where the parent reads it. `posix_spawn` itself cannot set limits or a parent-death signal, and
//! `fork` costs several times as much.

#![expect(
    unsafe_code,
    reason = "clone, and the few calls a child may make before exec"
)]

use super::call_filter::{CallFilter, WallClock};
use super::cgroup::JOIN_SELF;
use super::start_step::PreparedSteps;
use super::user::Credentials;
use super::{process, signals};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

/// Bytes of stack for the child until `exec`.
const STACK: usize = 64 * 1024;
/// Longest time that a child stays stopped before its `exec`, if it is continued.
const MAX_STOP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 500_000_000,
};

/// Program to start, with its parameters.
pub struct Program<'a> {
    /// Paths to try, in order.
    pub paths: &'a [CString],
    /// Arguments, beginning with the name.
    pub argv: &'a CStringArray,
    /// Environment, as `NAME=value`.
    pub envp: &'a CStringArray,
    /// Working directory.
    pub cwd: &'a CStr,
    /// Stdin, stdout and stderr.
    pub stdio: [BorrowedFd<'a>; 3],
    /// Limits in the form of `setrlimit`.
    pub limits: &'a [(u32, u64)],
    /// Other conditions of the program.
    pub steps: Option<&'a PreparedSteps>,
    /// User and groups of the program, if they differ from the present ones.
    pub identity: Option<&'a Credentials>,
    /// System calls that stop the program, if it is traced: numbers of x86-64.
    pub traced_calls: &'a [u64],
    /// Whether it is not started without a tracer that sees these calls.
    pub needs_tracer: bool,
    /// The wall clock that the program sees; another than that of the machine only if it is traced.
    pub wall_clock: WallClock,
    /// What the program may do to the machine.
    pub machine_access: MachineAccess,
    /// Signal that the program gets when the thread that starts it ends.
    pub signal_when_parent_ends: Signal,
}

/// What a program may do to the machine, if this process may do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineAccess {
    /// The same as this process.
    Inherited,
    /// The same, but it cannot set the clock of the machine, load kernel modules or reboot: the program gives up these
    /// capabilities for itself and for all programs that it executes.
    Restricted,
}

/// Capabilities without which a program cannot harm other programs of the machine by accident: `CAP_SYS_MODULE`,
/// `CAP_SYS_BOOT` and `CAP_SYS_TIME`.
const DROPPED_CAPABILITIES: [libc::c_int; 3] = [16, 22, 25];
/// Present version of the structures of `capset`.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// An array of C strings with its final null pointer, in one allocation.
pub struct CStringArray {
    pointers: Vec<*const libc::c_char>,
    // Target of the pointers; not changed after they are taken.
    _bytes: Vec<u8>,
}

impl CStringArray {
    /// Joins the parts of each string. Returns a string with a NUL byte as the error.
    pub fn join_parts<'a, const N: usize>(
        strings: impl IntoIterator<Item = [&'a [u8]; N]>,
    ) -> Result<Self, Vec<u8>> {
        let mut bytes = Vec::with_capacity(4096);
        let mut begins = Vec::with_capacity(64);
        for parts in strings {
            let begin = bytes.len();
            for part in parts {
                bytes.extend_from_slice(part);
            }
            if bytes[begin..].contains(&0) {
                return Err(bytes.split_off(begin));
            }
            bytes.push(0);
            begins.push(begin);
        }
        let pointers = begins
            .into_iter()
            .map(|begin| bytes[begin..].as_ptr().cast());
        Ok(Self {
            pointers: pointers.chain([ptr::null()]).collect(),
            _bytes: bytes,
        })
    }
}

/// Steps of the start at which a child may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnStep {
    /// Creation of the process.
    Clone,
    /// Setting a limit.
    Limit,
    /// Setting another condition; says what failed.
    Condition(&'static str),
    /// Changing the user.
    Identity,
    /// Tracing the program, because its conditions need a tracer.
    Trace,
    /// Entering the working directory.
    Chdir,
    /// Executing the program.
    Exec,
}

/// Error of a start.
#[derive(Debug, thiserror::Error)]
#[error("{}", match step {
    SpawnStep::Clone => "cannot create a process",
    SpawnStep::Limit => "cannot set a limit",
    SpawnStep::Condition(failure) => failure,
    SpawnStep::Identity => "cannot become another user",
    SpawnStep::Trace => "cannot trace it, as its conditions need",
    SpawnStep::Chdir => "cannot enter the working directory",
    SpawnStep::Exec => "cannot execute",
})]
pub struct SpawnError {
    /// Failed step.
    pub step: SpawnStep,
    /// Reason.
    pub source: io::Error,
}

/// Starts programs; owns the stack that their children borrow.
pub struct Spawner {
    stack: Vec<u128>, // 16-byte alignment, as required by the calling convention
    /// Files of the cgroups that the programs join.
    pub joined_groups: Vec<Arc<File>>,
}

struct Child<'a> {
    program: &'a Program<'a>,
    joined_groups: &'a [Arc<File>],
    mask: libc::sigset_t,
    failed: Option<(SpawnStep, i32)>,
    /// Whether to trace the child; `refused` is the kernel's error for that.
    follow: bool,
    refused: Option<i32>,
    /// Filter for its system calls; `unfiltered` is the kernel's error for that.
    filter: Option<&'a CallFilter>,
    unfiltered: Option<i32>,
}

/// How this thread waits until a child executes its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExecWait {
    /// The kernel suspends it.
    Suspended,
    /// It continues the child if that is stopped.
    Continuing,
}

/// Why the system calls of a program do not stop it.
#[derive(Debug, thiserror::Error)]
#[error("cannot select system calls: {0}")]
struct UnfilteredError(io::Error);

/// A started child, and the kernel's errors for what it could not request.
struct StartedChild {
    pid: i32,
    refused: Option<i32>,
    unfiltered: Option<i32>,
}

impl Default for Spawner {
    fn default() -> Self {
        Self {
            stack: vec![0; STACK / size_of::<u128>()],
            joined_groups: Vec::new(),
        }
    }
}

impl Spawner {
    /// Starts a program as the leader of a new session.
    pub fn spawn_program(&mut self, program: &Program<'_>) -> Result<i32, SpawnError> {
        let child = self.start_child(program, false, None, ExecWait::Suspended)?;
        Ok(child.pid)
    }

    /// Starts a program like [`Self::spawn_program`], and continues it if it is stopped before its `exec`, which would
    /// suspend this thread for ever.
    pub fn spawn_and_continue(&mut self, program: &Program<'_>) -> Result<i32, SpawnError> {
        let child = self.start_child(program, false, None, ExecWait::Continuing)?;
        Ok(child.pid)
    }

    /// Starts a program like [`Self::spawn_program`], and traces it from its first instruction on. If
    /// tracing is refused, the program runs nevertheless. If the selection of its system calls is refused, it is traced
    /// without it, and the error says so. A program that needs its tracer is not started then.
    pub fn spawn_followed(
        &mut self,
        program: &Program<'_>,
    ) -> Result<(i32, io::Result<()>), SpawnError> {
        let filter = CallFilter::new(program.traced_calls, program.wall_clock).transpose();
        let needs_tracer = program.needs_tracer;
        let tracer_error = |source| SpawnError {
            step: SpawnStep::Trace,
            source,
        };
        let (filter, unfiltered) = match filter {
            Ok(filter) => (filter, None),
            Err(error) if needs_tracer => return Err(tracer_error(error)),
            Err(error) => (None, Some(error)),
        };
        let child = self.start_child(program, true, filter.as_ref(), ExecWait::Suspended)?;
        if let Some(errno) = child.refused {
            return Ok((child.pid, Err(io::Error::from_raw_os_error(errno))));
        }
        let unfiltered = unfiltered.or(child.unfiltered.map(io::Error::from_raw_os_error));
        let traces_calls = filter.is_some() && unfiltered.is_none();
        let prepare = |tid| match program.wall_clock {
            WallClock::OfMachine => Ok(()),
            WallClock::OfTracer => super::vdso::hide_vdso(tid),
        };
        match super::ptrace::follow_child(child.pid, traces_calls, prepare) {
            Ok(()) => {
                let unfiltered = unfiltered.map(UnfilteredError).map(io::Error::other);
                Ok((child.pid, unfiltered.map_or(Ok(()), Err)))
            }
            Err(error) if traces_calls => {
                // Without its tracer, the selected calls of this child would fail. It has not run any instruction yet.
                let _ = super::signals::send_signal(child.pid, rustix::process::Signal::KILL);
                let _ = super::child::wait_for_child(child.pid);
                if needs_tracer {
                    return Err(tracer_error(error));
                }
                Ok((self.spawn_program(program)?, Err(error)))
            }
            Err(error) => Ok((child.pid, Err(error))),
        }
    }

    /// Starts a child. Only a child that is followed may have a filter.
    fn start_child(
        &mut self,
        program: &Program<'_>,
        follow: bool,
        filter: Option<&CallFilter>,
        exec_wait: ExecWait,
    ) -> Result<StartedChild, SpawnError> {
        let mut child = Child {
            program,
            joined_groups: &self.joined_groups,
            // SAFETY: all-zero is a valid sigset_t, and it is filled below.
            mask: unsafe { std::mem::zeroed() },
            failed: None,
            follow,
            refused: None,
            filter,
            unfiltered: None,
        };
        let clone_error = |source: io::Error| SpawnError {
            step: SpawnStep::Clone,
            source,
        };
        let mut flags = libc::CLONE_VM | libc::SIGCHLD;
        let connection = match exec_wait {
            ExecWait::Suspended => {
                flags |= libc::CLONE_VFORK;
                None
            }
            ExecWait::Continuing => {
                Some(pipe_with(PipeFlags::CLOEXEC).map_err(|error| clone_error(error.into()))?)
            }
        };
        // SAFETY: while the child runs on a separate stack, this thread is suspended (CLONE_VFORK), or
        // waits for the end of a pipe, which the kernel closes in the child after it has released this
        // memory. So the child may write to `child`, which outlives it. All signals are blocked, so no
        // signal handler of this process runs in the child.
        let pid = unsafe {
            let mut all_signals: libc::sigset_t = std::mem::zeroed();
            let mut old_mask: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all_signals);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const all_signals, &raw mut old_mask);
            libc::sigemptyset(&raw mut child.mask);
            let top = self.stack.as_mut_ptr_range().end;
            let pid = libc::clone(enter_child, top.cast(), flags, (&raw mut child).cast());
            let error = io::Error::last_os_error();
            if let Some((end, own_copy)) = connection
                && pid > 0
            {
                drop(own_copy);
                wait_for_exec(pid, &end);
            }
            libc::sigprocmask(libc::SIG_SETMASK, &raw const old_mask, ptr::null_mut());
            if pid < 0 {
                return Err(clone_error(error));
            }
            pid
        };
        match child.failed {
            None => Ok(StartedChild {
                pid,
                refused: child.refused,
                unfiltered: child.unfiltered,
            }),
            Some((step, errno)) => {
                // The child has exited or is about to exit; this function must reap it.
                let _ = super::child::wait_for_child(pid);
                Err(SpawnError {
                    step,
                    source: io::Error::from_raw_os_error(errno),
                })
            }
        }
    }
}

/// Waits until a child has closed its copy of the other end of a pipe, when it executes its program or ends. Continues a child
/// that is stopped before.
fn wait_for_exec(pid: i32, pipe: &OwnedFd) {
    loop {
        let mut fds = [PollFd::new(pipe, PollFlags::empty())];
        // Another error than an interruption is impossible: the descriptor is open.
        match poll(&mut fds, Some(&MAX_STOP)) {
            Ok(0) if is_stopped(pid) => {
                let _ = signals::send_signal(pid, Signal::CONT);
            }
            Ok(0) | Err(_) => {}
            Ok(_) => return,
        }
    }
}

fn is_stopped(pid: i32) -> bool {
    process::process_state(pid).is_some_and(|(state, _)| state == 'T')
}

/// Entry point of the child, which shares the parent's memory, so it only makes system calls.
extern "C" fn enter_child(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the pointer is the `Child` in `start_child`, which waits for the end of this function.
    let child: &mut Child<'_> = unsafe { &mut *child.cast() };
    let program = child.program;
    // SAFETY: plain system calls on values that the parent prepared.
    unsafe {
        libc::setsid();
        for (target, fd) in (0..).zip(&program.stdio) {
            libc::dup2(fd.as_raw_fd(), target);
        }
        for &(resource, value) in program.limits {
            let limit = libc::rlimit {
                rlim_cur: value,
                rlim_max: value,
            };
            // The type of its number differs between C libraries.
            if libc::setrlimit(resource as _, &raw const limit) != 0 {
                return fail_child(child, SpawnStep::Limit);
            }
        }
        for file in child.joined_groups {
            if libc::write(file.as_raw_fd(), JOIN_SELF.as_ptr().cast(), JOIN_SELF.len()) < 0 {
                return fail_child(child, SpawnStep::Limit);
            }
        }
        if let Some(steps) = program.steps
            && let Err(failure) = steps.run(program.cwd)
        {
            return fail_child(child, SpawnStep::Condition(failure));
        }
        if program.machine_access == MachineAccess::Restricted {
            give_up_capabilities();
        }
        if let Some(identity) = program.identity
            && !take_on(identity)
        {
            return fail_child(child, SpawnStep::Identity);
        }
        // The kernel clears this setting when a process changes its user.
        let signal = program.signal_when_parent_ends.as_raw();
        libc::prctl(libc::PR_SET_PDEATHSIG, signal);
        if libc::chdir(program.cwd.as_ptr()) != 0 {
            return fail_child(child, SpawnStep::Chdir);
        }
        // Rust ignores SIGPIPE; a trial gets the default action, as from a shell.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        // provoke ignores SIGXFSZ, so that it gets an error at the file size limit.
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const child.mask, ptr::null_mut());
        let needs_tracer = program.needs_tracer;
        if child.follow && libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != 0 {
            if needs_tracer {
                return fail_child(child, SpawnStep::Trace);
            }
            child.refused = Some(*libc::__errno_location());
        }
        // After this call, the child only executes the program.
        if child.refused.is_none()
            && let Some(filter) = child.filter
            && let Err(errno) = filter.install()
        {
            if needs_tracer {
                *libc::__errno_location() = errno;
                return fail_child(child, SpawnStep::Trace);
            }
            child.unfiltered = Some(errno);
        }
        let mut refused = false;
        for path in program.paths {
            libc::execve(
                path.as_ptr(),
                program.argv.pointers.as_ptr(),
                program.envp.pointers.as_ptr(),
            );
            match *libc::__errno_location() {
                libc::EACCES => refused = true,
                libc::ENOENT | libc::ENOTDIR => {}
                _ => return fail_child(child, SpawnStep::Exec),
            }
        }
        *libc::__errno_location() = if refused { libc::EACCES } else { libc::ENOENT };
    }
    fail_child(child, SpawnStep::Exec)
}

/// Gives up capabilities for the child and all programs that it executes. Ordinary users have none, so their errors do
/// not matter.
unsafe fn give_up_capabilities() {
    // The structures of `capset`: version and process, then for each 32 capabilities the effective, permitted and
    // inheritable ones.
    let header = [CAPABILITY_VERSION, 0];
    let mut sets = [0_u32; 6];
    // SAFETY: plain system calls on local variables of the size that the version asks for. They change the child only.
    unsafe {
        for capability in DROPPED_CAPABILITIES {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        // Inheritable capabilities would not be limited by that set.
        if libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) == 0 {
            let inheritable = sets[2];
            for capability in DROPPED_CAPABILITIES {
                sets[2] &= !(1 << capability);
            }
            if sets[2] != inheritable {
                libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr());
            }
        }
    }
}

/// Changes the user of the child.
///
/// The functions of the C library would change every thread that shares this memory, which includes
/// the parent; the system calls change only the child.
unsafe fn take_on(identity: &Credentials) -> bool {
    let groups = identity.groups.as_slice();
    // SAFETY: plain system calls on values that the parent prepared.
    unsafe {
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) == 0
            && libc::syscall(
                libc::SYS_setresgid,
                identity.gid,
                identity.gid,
                identity.gid,
            ) == 0
            && libc::syscall(
                libc::SYS_setresuid,
                identity.uid,
                identity.uid,
                identity.uid,
            ) == 0
            // The user must not inherit provoke's descriptors. Kernels before 5.11 do not know the
            // flag.
            && (libc::syscall(
                libc::SYS_close_range,
                3,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            ) == 0
                || matches!(*libc::__errno_location(), libc::ENOSYS | libc::EINVAL))
    }
}

fn fail_child(child: &mut Child<'_>, step: SpawnStep) -> libc::c_int {
    // SAFETY: errno is a plain thread-local integer, shared with the suspended parent.
    child.failed = Some((step, unsafe { *libc::__errno_location() }));
    127
}

/// Returns the paths of a program name: the name itself if it contains a slash, otherwise one path
/// per folder of `PATH`, like `execvp`.
pub fn path_candidates(name: &OsStr, path: Option<&OsStr>) -> Vec<CString> {
    let name = name.as_bytes();
    if name.contains(&b'/') || name.is_empty() {
        return CString::new(name).into_iter().collect();
    }
    let path = path.map_or(&b"/bin:/usr/bin"[..], |path| path.as_bytes());
    let folders = path.split(|byte| *byte == b':');
    let join = |folder: &[u8]| {
        let folder = if folder.is_empty() { b"." } else { folder };
        CString::new([folder, b"/", name].concat()).ok()
    };
    folders.filter_map(join).collect()
}

/// Finds the program of a name, as a child in this folder would.
pub fn find_program(
    name: &OsStr,
    path: Option<&OsStr>,
    cwd: &Path,
) -> Result<PathBuf, &'static str> {
    let mut refused = false;
    for candidate in path_candidates(name, path) {
        let file = cwd.join(OsStr::from_bytes(candidate.as_bytes()));
        if !file.is_file() {
            continue;
        }
        match rustix::fs::access(&file, rustix::fs::Access::EXEC_OK) {
            Ok(()) => return Ok(file),
            Err(_) => refused = true,
        }
    }
    Err(if refused {
        "it is not executable"
    } else {
        "no such program"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{WaitStatus, wait_for_child};
    use crate::process::children_of_thread;
    use std::os::fd::AsFd as _;

    /// Number of paths without a file that a child tries, so that it can be stopped meanwhile.
    const MISSING_PATHS: usize = 100_000;

    /// Waits for a child of a thread, and stops it.
    fn stop_child_of(tid: i32) {
        let own_pid = std::process::id().cast_signed();
        loop {
            if let Some(child) = children_of_thread(own_pid, tid).first() {
                return signals::send_signal(*child, Signal::STOP).unwrap();
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_that_is_stopped_before_its_exec_continues() {
        let mut paths = vec![c"/nonexistent".to_owned(); MISSING_PATHS];
        paths.push(c"/bin/true".to_owned());
        let null = std::fs::File::open("/dev/null").unwrap();
        let program = Program {
            paths: &paths,
            argv: &CStringArray::join_parts([[&b"true"[..]]]).unwrap(),
            envp: &CStringArray::join_parts::<1>([]).unwrap(),
            cwd: c"/",
            stdio: [null.as_fd(); 3],
            limits: &[],
            steps: None,
            identity: None,
            traced_calls: &[],
            needs_tracer: false,
            wall_clock: WallClock::OfMachine,
            machine_access: MachineAccess::Inherited,
            signal_when_parent_ends: Signal::KILL,
        };
        let own_tid = rustix::thread::gettid().as_raw_nonzero().get();
        let stopper = std::thread::spawn(move || stop_child_of(own_tid));
        let pid = Spawner::default().spawn_and_continue(&program).unwrap();
        stopper.join().unwrap();
        // The program itself is stopped if the signal came after the `exec`.
        signals::send_signal(pid, Signal::CONT).unwrap();
        let end = wait_for_child(pid).unwrap();
        assert_eq!(end.status, WaitStatus::Exited(0));
    }
}
