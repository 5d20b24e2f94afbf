//! Holding every thread of a process still for a moment, and reading its registers.
//!
//! `PTRACE_SEIZE` sends no signal, and a process that is let go runs on as if nothing
//! had been. Works for descendants of whoever asks, also without being root.

#![expect(unsafe_code, reason = "ptrace is not in any safe wrapper")]

use super::threads;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two looks whether a thread has stopped.
const PAUSE: Duration = Duration::from_micros(200);
/// The kernel's name for the general registers, as in a core.
const GENERAL: usize = 1;

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
    /// A signal that was on its way to it; it gets it when it is let go.
    signal: i32,
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
    /// only a process that is about to be killed can bear.
    pub fn new(pid: i32, most: usize, until: Instant) -> io::Result<Self> {
        let Some(machine) = MACHINE else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut held = Self {
            threads: Vec::new(),
        };
        let mut known = Vec::new();
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
                    Ok(()) => awaited.push(tid),
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

    fn await_stops(&mut self, pid: i32, mut awaited: Vec<i32>, until: Instant) {
        loop {
            awaited.retain(|tid| match stopped(*tid) {
                Ok(Some(signal)) => {
                    self.threads.push(HeldThread {
                        tid: *tid,
                        registers: Vec::new(),
                        signal,
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
            // It may have been killed meanwhile.
            let _ = request(libc::PTRACE_DETACH, thread.tid, 0, thread.signal);
        }
    }
}

/// Becomes the tracer of a thread and asks it to stop.
fn seize(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, 0)?;
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

fn request(what: libc::c_uint, tid: i32, address: usize, data: i32) -> io::Result<()> {
    let data = usize::try_from(data).unwrap_or(0);
    // SAFETY: none of the requests made here has the kernel write to our memory.
    match unsafe { libc::ptrace(what, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Says whether a thread has stopped, and with what signal on its way to it, or 0.
///
/// Ends are not asked for, so that none is taken from whoever waits for it.
fn stopped(tid: i32) -> io::Result<Option<i32>> {
    let id = libc::id_t::try_from(tid).map_err(io::Error::other)?;
    // SAFETY: an all-zero siginfo is valid, and the kernel fills it.
    let (answer, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let how = libc::WSTOPPED | libc::WNOHANG | libc::__WALL;
        (libc::waitid(libc::P_PID, id, &raw mut info, how), info)
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both are in every siginfo of waitid; zero if nothing has happened.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    // Above the signal stands the event, of which there is none if the signal is real.
    Ok((pid != 0).then_some(if status >> 8 == 0 { status } else { 0 }))
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
