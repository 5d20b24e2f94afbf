//! Stops the threads of a process to read their registers, or traces a process from fault to fault.
//!
//! `PTRACE_SEIZE` sends no signal, and a process that is let go runs on as if nothing
//! had been. Works for descendants of whoever asks, also without being root.
//!
//! A traced process stops for a moment when it starts a thread or a process and when a signal arrives,
//! and so do the processes that it starts. Each [`Stop`] must be ended by [`Stop::resume`].

#![expect(unsafe_code, reason = "ptrace is not in any safe wrapper")]

use super::threads;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks whether a thread has stopped.
const PAUSE: Duration = Duration::from_micros(200);
/// The kernel's name for the general registers, as in a core.
const GENERAL: usize = 1;
/// All that is started is followed too, and nothing of it outlives us.
const FOLLOW: libc::c_int = libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_EXITKILL;

/// What a core file and a stack must know of the processor.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Its number in ELF files.
    pub elf: u16,
    /// How many words the general registers are.
    pub words: usize,
    /// Which of them is the stack pointer.
    stack_pointer: usize,
}

/// The machine that this program runs on, if it is one whose registers are known.
pub const MACHINE: Option<Machine> = if cfg!(target_arch = "x86_64") {
    Some(Machine {
        elf: 62,
        words: 27,
        stack_pointer: 19,
    })
} else if cfg!(target_arch = "aarch64") {
    Some(Machine {
        elf: 183,
        words: 34,
        stack_pointer: 31,
    })
} else {
    None
};

/// A process that is held still. Dropping it lets it go.
pub struct Held {
    /// Those of its threads that could be stopped, the first one first.
    pub threads: Vec<HeldThread>,
}

/// A thread that is held still.
pub struct HeldThread {
    /// Its number.
    pub tid: i32,
    /// Its general registers, as they stand in a core.
    pub registers: Vec<u64>,
    /// Why it stands still; nothing for the thread with the fault, which is not let go.
    stop: Option<Stop>,
    /// It was followed before, and will be afterwards.
    followed: bool,
}

/// A thread that has stopped.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Its number.
    pub tid: i32,
    /// A signal, and above it the event.
    status: i32,
}

impl Stop {
    /// The signal that is about to be delivered to it, if it has stopped for one.
    pub fn signal(self) -> Option<i32> {
        (self.status >> 8 == 0).then_some(self.status)
    }

    /// True when the whole process is stopped, as by `SIGSTOP` or Ctrl-Z, until it is told
    /// to go on.
    pub fn is_of_process(self) -> bool {
        let (event, signal) = (self.status >> 8, self.status & 0xff);
        event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP
    }

    /// Lets it go on as it would have without us.
    pub fn resume(self) {
        let (what, signal) = match self.signal() {
            Some(signal) => (libc::PTRACE_CONT, signal),
            None if self.is_of_process() => (libc::PTRACE_LISTEN, 0),
            None => (libc::PTRACE_CONT, 0),
        };
        // It may have been killed meanwhile.
        let _ = request(what, self.tid, 0, signal);
    }

    /// Returns what the kernel says of the signal, as it stands in a core.
    pub fn information(self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size_of::<libc::siginfo_t>()];
        // SAFETY: the kernel writes a siginfo, for which there is room, and any bytes are
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

/// Follows a child that has asked for a tracer (`PTRACE_TRACEME`) and executes a program.
/// It has not run one instruction of it yet.
///
/// Who has asked stops there, but cannot be followed in all that this file needs; so it is
/// let go into an ordinary stop, seized, and told to go on. Where that is refused it runs
/// on and is not followed.
pub fn follow(child: i32) -> io::Result<()> {
    let Some(_) = next_stop_of(child)? else {
        return Ok(());
    };
    request(libc::PTRACE_DETACH, child, 0, libc::SIGSTOP)?;
    let seized = request(libc::PTRACE_SEIZE, child, 0, FOLLOW);
    let go_on = || super::signals::send(child, rustix::process::Signal::CONT);
    if let Err(error) = seized {
        go_on()?;
        return Err(error);
    }
    // The stop; that it ends; the signal that ends it, of which the program learns nothing.
    let Some(stop) = next_stop_of(child)? else {
        return Ok(());
    };
    go_on()?;
    let mut next = Some(stop);
    while let Some(stop) = next {
        if stop.signal() == Some(libc::SIGCONT) {
            let _ = request(libc::PTRACE_CONT, child, 0, 0);
            break;
        }
        stop.resume();
        next = next_stop_of(child)?;
    }
    Ok(())
}

/// Waits until a child stops; nothing when it has ended instead. Its end is left to others.
fn next_stop_of(child: i32) -> io::Result<Option<Stop>> {
    let id = libc::id_t::try_from(child).map_err(io::Error::other)?;
    let either = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
    while !matches!(
        wait(libc::P_PID, id, either)?,
        Some((libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED, _))
    ) {
        if let Some((_, stop)) = wait(libc::P_PID, id, libc::WSTOPPED | libc::WNOHANG)? {
            return Ok(Some(stop));
        }
    }
    Ok(None)
}

impl HeldThread {
    /// Returns where its stack ends at present.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.registers.get(MACHINE?.stack_pointer).copied()
    }
}

impl Held {
    /// Stops every thread of a process, or the first so many. One that does not stop
    /// in time, because it is stuck in the kernel, is left out; it stays seized, which
    /// only a process that is about to be killed can bear, or one that is followed.
    ///
    /// A thread that has stopped at a fault already comes first, and is not let go.
    pub fn new(pid: i32, fault: Option<Stop>, most: usize, until: Instant) -> io::Result<Self> {
        let Some(machine) = MACHINE else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let faulty = fault.map(|stop| HeldThread {
            tid: stop.tid,
            registers: Vec::new(),
            stop: None,
            followed: true,
        });
        let mut held = Self {
            threads: faulty.into_iter().collect(),
        };
        let mut known: Vec<i32> = held.threads.iter().map(|thread| thread.tid).collect();
        let mut refusal = None;
        loop {
            // A thread that still ran may have made another.
            let fresh = threads::of(pid).into_iter();
            let fresh: Vec<i32> = fresh
                .filter(|tid| !known.contains(tid))
                .take(most.saturating_sub(known.len()))
                .collect();
            if fresh.is_empty() {
                break;
            }
            known.extend(&fresh);
            let mut awaited = Vec::new();
            for tid in fresh {
                match seize(tid) {
                    Ok(followed) => awaited.push((tid, followed)),
                    Err(error) => refusal = Some(error),
                }
            }
            held.await_stops(pid, awaited, until);
        }
        for thread in &mut held.threads {
            thread.registers = registers(thread.tid, machine.words).unwrap_or_default();
        }
        held.threads
            .sort_by_key(|thread| known.iter().position(|tid| *tid == thread.tid));
        if held
            .threads
            .iter()
            .all(|thread| thread.registers.is_empty())
        {
            return Err(refusal.unwrap_or_else(|| io::ErrorKind::TimedOut.into()));
        }
        Ok(held)
    }

    fn await_stops(&mut self, pid: i32, mut awaited: Vec<(i32, bool)>, until: Instant) {
        loop {
            awaited.retain(|(tid, followed)| match stopped(*tid) {
                Ok(Some(stop)) => {
                    self.threads.push(HeldThread {
                        tid: *tid,
                        registers: Vec::new(),
                        stop: Some(stop),
                        followed: *followed,
                    });
                    false
                }
                Ok(None) => {
                    threads::glance(pid, *tid).is_some_and(|seen| !matches!(seen.state, 'Z' | 'X'))
                }
                Err(_) => false,
            });
            if awaited.is_empty() || Instant::now() >= until {
                return;
            }
            sleep(PAUSE);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for thread in &self.threads {
            let Some(stop) = thread.stop else { continue };
            if thread.followed {
                stop.resume();
            } else {
                // It may have been killed meanwhile.
                let signal = stop.signal().unwrap_or(0);
                let _ = request(libc::PTRACE_DETACH, thread.tid, 0, signal);
            }
        }
    }
}

/// Becomes the tracer of a thread and asks it to stop. True when we were its tracer before.
fn seize(tid: i32) -> io::Result<bool> {
    let seized = request(libc::PTRACE_SEIZE, tid, 0, 0);
    let interrupted = request(libc::PTRACE_INTERRUPT, tid, 0, 0);
    match seized {
        Ok(()) => interrupted.map(|()| false),
        Err(error) => interrupted.map(|()| true).map_err(|_| error),
    }
}

fn request(what: libc::c_uint, tid: i32, address: usize, data: i32) -> io::Result<()> {
    let data = usize::try_from(data).unwrap_or(0);
    // SAFETY: none of the requests made here has the kernel write to our memory.
    match unsafe { libc::ptrace(what, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Says whether a thread has stopped, and how it is let go.
///
/// Ends are not asked for, so that none is taken from whoever waits for it.
pub fn stopped(tid: i32) -> io::Result<Option<Stop>> {
    let id = libc::id_t::try_from(tid).map_err(io::Error::other)?;
    let stop = wait(libc::P_PID, id, libc::WSTOPPED | libc::WNOHANG)?;
    Ok(stop.map(|(_, stop)| stop))
}

/// Waits for what is asked for; returns of what kind it is, and what it is in full.
fn wait(which: libc::idtype_t, id: libc::id_t, how: i32) -> io::Result<Option<(i32, Stop)>> {
    loop {
        // SAFETY: an all-zero siginfo is valid, and the kernel fills it.
        let (answer, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let answer = libc::waitid(which, id, &raw mut info, how | libc::__WALL);
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
        return Ok((tid != 0).then_some((info.si_code, Stop { tid, status })));
    }
}

fn registers(tid: i32, words: usize) -> Option<Vec<u64>> {
    let mut registers = vec![0_u64; words];
    let mut piece = libc::iovec {
        iov_base: registers.as_mut_ptr().cast(),
        iov_len: size_of_val(&registers[..]),
    };
    // SAFETY: the kernel writes no more than the piece holds, and that is ours.
    let answer = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, tid, GENERAL, &raw mut piece) };
    // Of a process of the older, narrower kind there are fewer.
    (answer == 0 && piece.iov_len == size_of_val(&registers[..])).then_some(registers)
}
