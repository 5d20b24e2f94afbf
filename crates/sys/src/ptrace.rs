//! Stops the threads of a process to read their registers, or traces a process from fault to fault.
//!
//! `PTRACE_SEIZE` sends no signal, and a released process continues undisturbed. A process can
//! trace its descendants without root.
//!
//! A traced process stops briefly when it starts a thread or a process and when a signal arrives,
//! and so do the processes that it starts. Each [`ThreadStop`] must be ended by [`ThreadStop::resume_thread`].

#![expect(unsafe_code, reason = "ptrace is not in any safe wrapper")]

use super::threads;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Code of a request of ptrace, whose type differs between C libraries.
#[cfg(not(target_env = "musl"))]
pub(crate) type RequestCode = libc::c_uint;
/// Code of a request of ptrace, whose type differs between C libraries.
#[cfg(target_env = "musl")]
pub(crate) type RequestCode = libc::c_int;

/// Interval between checks whether a thread has stopped.
const PAUSE: Duration = Duration::from_micros(200);
/// Kernel's identifier of the general registers, as in a core.
const GENERAL: usize = 1;
/// Options: trace all new threads and processes, and kill them when the tracer ends.
const FOLLOW: libc::c_int = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_EXITKILL;
/// Options for a program with a filter for system calls. They must be set before its first selected call: the kernel does
/// not make a selected call, unless its tracer asked for it. New threads and processes inherit the options.
const CALLS: libc::c_int =
    libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
/// Status of a stop at the end of a system call.
const CALL_END: i32 = libc::SIGTRAP | 0x80;

/// Facts about a machine that core files and stack readers need.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// Machine number in ELF files.
    pub elf: u16,
    /// Number of words of the general registers.
    pub words: usize,
    /// Index of the stack pointer.
    stack_pointer: usize,
}

/// The machine that this program runs on, if its registers are known.
pub const MACHINE: Option<Architecture> = if cfg!(target_arch = "x86_64") {
    Some(Architecture {
        elf: 62,
        words: 27,
        stack_pointer: 19,
    })
} else if cfg!(target_arch = "aarch64") {
    Some(Architecture {
        elf: 183,
        words: 34,
        stack_pointer: 31,
    })
} else {
    None
};

/// Whether threads can be controlled on this machine: held, stepped and watched.
pub(crate) const CAN_CONTROL_THREADS: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// A stopped process. Dropping this value releases the process.
pub struct StoppedProcess {
    /// Stopped threads; the first thread of the process comes first.
    pub threads: Vec<StoppedThread>,
}

/// A stopped thread.
pub struct StoppedThread {
    /// Thread id.
    pub tid: i32,
    /// General registers in the order of a core.
    pub registers: Vec<u64>,
    /// Stop to resume later; `None` for a thread that had stopped before, which is not released.
    stop: Option<ThreadStop>,
    /// The thread was traced before, and must remain traced.
    followed: bool,
}

/// Stop of a thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadStop {
    /// Thread id.
    pub tid: i32,
    /// Signal in the low byte, event above it.
    status: i32,
}

impl ThreadStop {
    /// Returns the signal that is about to be delivered, if the thread stopped for one.
    pub fn delivered_signal(self) -> Option<i32> {
        (self.status >> 8 == 0 && !self.is_at_call_end()).then_some(self.status)
    }

    /// Returns whether the thread stopped at the end of a system call.
    pub(crate) fn is_at_call_end(self) -> bool {
        self.status == CALL_END
    }

    /// Returns whether the thread is about to end. The stop lasts until the thread is continued, even if it is killed.
    pub fn is_at_end(self) -> bool {
        self.event() == libc::PTRACE_EVENT_EXIT
    }

    /// Returns the `PTRACE_EVENT` of the stop, or 0.
    pub(crate) fn event(self) -> i32 {
        self.status >> 8
    }

    /// Returns whether the whole process is stopped, as by `SIGSTOP` or Ctrl-Z, until SIGCONT.
    pub fn is_of_process(self) -> bool {
        let (event, signal) = (self.status >> 8, self.status & 0xff);
        event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP
    }

    /// Continues the thread as without tracing.
    pub fn resume_thread(self) {
        let (request, signal) = match self.delivered_signal() {
            Some(signal) => (libc::PTRACE_CONT, signal),
            None if self.is_of_process() => (libc::PTRACE_LISTEN, 0),
            None => (libc::PTRACE_CONT, 0),
        };
        // The thread may have been killed meanwhile.
        let _ = ptrace_request(request, self.tid, 0, signal);
    }

    /// Returns the `siginfo_t` of the signal, as in a core.
    pub fn signal_information(self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size_of::<libc::siginfo_t>()];
        // SAFETY: the kernel writes a siginfo, for which the buffer has room, and any bytes are
        // valid in it.
        let answer = unsafe {
            libc::ptrace(
                libc::PTRACE_GETSIGINFO,
                self.tid,
                0_usize,
                bytes.as_mut_ptr(),
            )
        };
        (answer == 0).then_some(bytes)
    }
}

/// Traces a child that has called `PTRACE_TRACEME` and executes a program, of which it has not run
/// any instruction yet. If calls are traced, the child has installed a filter that selects system calls. `prepare` is called
/// before the first instruction; if it fails, the child stays stopped. If calls are traced, the child stops once more
/// before its first instruction, and the caller receives that stop.
///
/// `PTRACE_TRACEME` lacks options that this module needs. So the stopped child is released into an
/// ordinary stop, seized, and continued. If seizing fails, the child runs without tracing.
pub fn follow_child(
    child: i32,
    traces_calls: bool,
    prepare: impl FnOnce(i32) -> io::Result<()>,
) -> io::Result<()> {
    let options = if traces_calls { FOLLOW | CALLS } else { FOLLOW };
    let Some(_) = next_stop_of(child)? else {
        return Ok(());
    };
    prepare(child)?;
    ptrace_request(libc::PTRACE_DETACH, child, 0, libc::SIGSTOP)?;
    let seized = ptrace_request(libc::PTRACE_SEIZE, child, 0, options);
    let go_on = || super::signals::send_signal(child, rustix::process::Signal::CONT);
    if let Err(error) = seized {
        go_on()?;
        return Err(error);
    }
    // Three stops follow: the ordinary stop, its end, and the signal that ends it, which is not
    // delivered to the program.
    let Some(stop) = next_stop_of(child)? else {
        return Ok(());
    };
    go_on()?;
    let mut next = Some(stop);
    while let Some(stop) = next {
        if stop.delivered_signal() == Some(libc::SIGCONT) {
            if traces_calls {
                // It stops once more before its first instruction, so that its tracer can prepare it.
                ptrace_request(libc::PTRACE_INTERRUPT, child, 0, 0)?;
            }
            let _ = ptrace_request(libc::PTRACE_CONT, child, 0, 0);
            break;
        }
        stop.resume_thread();
        next = next_stop_of(child)?;
    }
    Ok(())
}

/// Traces a running process from now on, through `exec`, and the threads and processes that it starts.
pub fn follow_process(pid: i32) -> io::Result<()> {
    let options = FOLLOW | libc::PTRACE_O_TRACEEXEC;
    ptrace_request(libc::PTRACE_SEIZE, pid, 0, options)
}

/// Waits until a child stops; returns `None` if it ends instead. The child is not reaped.
fn next_stop_of(child: i32) -> io::Result<Option<ThreadStop>> {
    let id = libc::id_t::try_from(child).map_err(io::Error::other)?;
    let either = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
    while !matches!(
        wait_for_stop(libc::P_PID, id, either)?,
        Some((libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _))
    ) {
        if let Some((_, stop)) = wait_for_stop(libc::P_PID, id, libc::WSTOPPED | libc::WNOHANG)? {
            return Ok(Some(stop));
        }
    }
    Ok(None)
}

impl StoppedThread {
    /// Returns the stack pointer.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.registers.get(MACHINE?.stack_pointer).copied()
    }
}

impl StoppedProcess {
    /// Stops the threads of a process, up to `max`.
    ///
    /// A thread that does not stop in time, because it is stuck in the kernel, is left out. It
    /// stays seized, which is acceptable only for a process that is about to be killed or that is
    /// traced anyway.
    ///
    /// Threads that have stopped before, as at a fault, come first, and are not released.
    pub fn new(pid: i32, stopped: &[i32], max: usize, deadline: Instant) -> io::Result<Self> {
        Self::with_stops(pid, stopped, max, deadline, StopHandling::Release)
    }

    /// Stops the threads of a process that is traced, because one of its threads has stopped at a fault.
    ///
    /// Other threads may be at breakpoints or held, so their stops are left to the tracer, which continues them.
    pub fn at_fault(pid: i32, tid: i32, max: usize, deadline: Instant) -> io::Result<Self> {
        Self::with_stops(pid, &[tid], max, deadline, StopHandling::LeaveToTracer)
    }

    fn with_stops(
        pid: i32,
        stopped: &[i32],
        max: usize,
        deadline: Instant,
        handling: StopHandling,
    ) -> io::Result<Self> {
        let Some(machine) = MACHINE else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut stopped_process = Self {
            threads: Vec::new(),
        };
        for tid in stopped {
            stopped_process.add_stopped(*tid);
        }
        let mut known_tids = stopped.to_vec();
        let mut refusal = None;
        loop {
            // A thread that still ran may have started another.
            let fresh: Vec<i32> = threads::thread_ids(pid)
                .into_iter()
                .filter(|tid| !known_tids.contains(tid))
                .take(max.saturating_sub(known_tids.len()))
                .collect();
            if fresh.is_empty() {
                break;
            }
            known_tids.extend(&fresh);
            let mut awaited = Vec::new();
            for tid in fresh {
                if handling == StopHandling::LeaveToTracer && is_in_stop(tid) {
                    stopped_process.add_stopped(tid);
                    continue;
                }
                match seize_thread(tid) {
                    Ok(followed) => awaited.push((tid, followed)),
                    Err(error) => refusal = Some(error),
                }
            }
            stopped_process.await_stops(pid, awaited, deadline, handling);
        }
        for thread in &mut stopped_process.threads {
            thread.registers = read_registers(thread.tid, machine.words).unwrap_or_default();
        }
        stopped_process
            .threads
            .sort_by_key(|thread| known_tids.iter().position(|tid| *tid == thread.tid));
        if stopped_process
            .threads
            .iter()
            .all(|thread| thread.registers.is_empty())
        {
            return Err(refusal.unwrap_or_else(|| io::ErrorKind::TimedOut.into()));
        }
        Ok(stopped_process)
    }

    /// Adds a thread that is not released.
    fn add_stopped(&mut self, tid: i32) {
        self.threads.push(StoppedThread {
            tid,
            registers: Vec::new(),
            stop: None,
            followed: true,
        });
    }

    fn await_stops(
        &mut self,
        pid: i32,
        mut awaited: Vec<(i32, bool)>,
        deadline: Instant,
        handling: StopHandling,
    ) {
        loop {
            awaited.retain(|(tid, followed)| {
                if *followed && handling == StopHandling::LeaveToTracer {
                    let is_stopped = is_in_stop(*tid);
                    if is_stopped {
                        self.add_stopped(*tid);
                    }
                    return !is_stopped && is_alive(pid, *tid);
                }
                match stop_of_thread(*tid) {
                    Ok(Some(stop)) => {
                        self.threads.push(StoppedThread {
                            tid: *tid,
                            registers: Vec::new(),
                            stop: Some(stop),
                            followed: *followed,
                        });
                        false
                    }
                    Ok(None) => is_alive(pid, *tid),
                    Err(_) => false,
                }
            });
            if awaited.is_empty() || Instant::now() >= deadline {
                return;
            }
            sleep(PAUSE);
        }
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        for thread in &self.threads {
            let Some(stop) = thread.stop else { continue };
            if thread.followed {
                stop.resume_thread();
            } else {
                // The thread may have been killed meanwhile.
                let signal = stop.delivered_signal().unwrap_or(0);
                let _ = ptrace_request(libc::PTRACE_DETACH, thread.tid, 0, signal);
            }
        }
    }
}

/// What happens to the stops of traced threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopHandling {
    /// They are received, and the threads continue in the end.
    Release,
    /// The tracer receives them later.
    LeaveToTracer,
}

/// Returns whether a traced thread is in a stop, received or not.
fn is_in_stop(tid: i32) -> bool {
    let mut message: libc::c_ulong = 0;
    // SAFETY: the kernel writes one word, which is a live local variable.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0_usize, &raw mut message) };
    answer == 0
}

fn is_alive(pid: i32, tid: i32) -> bool {
    threads::glance_at(pid, tid).is_some_and(|sample| !matches!(sample.state, 'Z' | 'X'))
}

/// Seizes a thread and asks it to stop. Returns whether this process was its tracer before.
fn seize_thread(tid: i32) -> io::Result<bool> {
    let seized = ptrace_request(libc::PTRACE_SEIZE, tid, 0, 0);
    let interrupted = ptrace_request(libc::PTRACE_INTERRUPT, tid, 0, 0);
    match seized {
        Ok(()) => interrupted.map(|()| false),
        Err(error) => interrupted.map(|()| true).map_err(|_| error),
    }
}

fn ptrace_request(request: RequestCode, tid: i32, address: usize, data: i32) -> io::Result<()> {
    let data = usize::try_from(data).unwrap_or(0);
    // SAFETY: with the requests of this module the kernel does not write to this process's memory.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns the stop of a thread, if it has stopped.
///
/// Ends of threads are not requested, so that they remain for other callers.
pub fn stop_of_thread(tid: i32) -> io::Result<Option<ThreadStop>> {
    let id = libc::id_t::try_from(tid).map_err(io::Error::other)?;
    let stop = wait_for_stop(libc::P_PID, id, libc::WSTOPPED | libc::WNOHANG)?;
    Ok(stop.map(|(_, stop)| stop))
}

/// Waits for the requested events; returns the type and the stop.
fn wait_for_stop(
    id_type: libc::idtype_t,
    id: libc::id_t,
    options: i32,
) -> io::Result<Option<(i32, ThreadStop)>> {
    loop {
        // SAFETY: an all-zero siginfo is valid, and the kernel fills it.
        let (answer, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let answer = libc::waitid(id_type, id, &raw mut info, options | libc::__WALL);
            (answer, info)
        };
        if answer != 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        // SAFETY: both are in every siginfo of waitid; zero if nothing has happened.
        let (tid, status) = unsafe { (info.si_pid(), info.si_status()) };
        return Ok((tid != 0).then_some((info.si_code, ThreadStop { tid, status })));
    }
}

/// Returns the general registers of a stopped thread in the order of a core.
pub(crate) fn read_registers(tid: i32, words: usize) -> Option<Vec<u64>> {
    let mut registers = vec![0_u64; words];
    let mut register_vector = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: size_of_val(&registers[..]),
    };
    // SAFETY: the kernel writes at most the length of `register_vector`, which is a live local buffer.
    let answer = unsafe {
        libc::ptrace(
            libc::PTRACE_GETREGSET,
            tid,
            GENERAL,
            &raw mut register_vector,
        )
    };
    // A 32-bit process has fewer registers.
    (answer == 0 && register_vector.iov_len == size_of_val(&registers[..])).then_some(registers)
}

/// Sets the general registers of a stopped thread.
pub(crate) fn write_registers(tid: i32, registers: &[u64]) -> io::Result<()> {
    let register_vector = libc::iovec {
        iov_base: registers.as_ptr().cast_mut().cast(),
        iov_len: size_of_val(registers),
    };
    // SAFETY: the kernel only reads the registers, which are live.
    let answer = unsafe {
        libc::ptrace(
            libc::PTRACE_SETREGSET,
            tid,
            GENERAL,
            &raw const register_vector,
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits until a thread stops; fails if it ends. Ends are not received.
pub(crate) fn wait_for_thread(tid: i32) -> io::Result<ThreadStop> {
    next_stop_of(tid)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}
