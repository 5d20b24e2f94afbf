//! Controls the stopped threads of a traced process: their instruction pointers, single steps, breakpoint bytes and
//! watchpoints.
//!
//! Only x86-64 has all of it. On other machines, each function returns [`io::ErrorKind::Unsupported`].

#![expect(unsafe_code, reason = "ptrace is not in any safe wrapper")]

use super::call_filter;
use super::ptrace::{self, CAN_CONTROL_THREADS, RequestCode, ThreadStop};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// Offset of the instruction pointer in `struct user`.
const INSTRUCTION_POINTER: usize = 16 * 8;
/// Offset of the stack pointer in `struct user`.
const STACK_POINTER: usize = 19 * 8;
/// Offset of the number of the system call in `struct user`.
const CALL_NUMBER: usize = 15 * 8;
/// Offset of the first argument of a system call in `struct user`.
const FIRST_ARGUMENT: usize = 14 * 8;
/// Offsets of all arguments of a system call in `struct user`.
const ARGUMENTS: [usize; 6] = [FIRST_ARGUMENT, 13 * 8, 12 * 8, 7 * 8, 9 * 8, 8 * 8];
/// Offset of the result of a system call in `struct user`.
const CALL_RESULT: usize = 10 * 8;
/// Number of single steps that may be needed for a system call: stops of the whole process can come before it.
const MAX_STEPS: u32 = 4;
/// Number of a system call that is not made.
const NO_CALL: u64 = u64::MAX;
/// Bytes of the instruction that makes a system call.
const CALL_BYTES: u64 = 2;
/// Bytes below the stack pointer that a function may use by the calling convention.
const RED_ZONE: u64 = 128;
/// Bit of the mode of a file: its program runs as the owner of the file.
const SET_USER_ID: u32 = 0o4000;
/// Offset of the debug registers in `struct user`.
const DEBUG_REGISTERS: usize = 848;
/// The instruction that stops a thread.
pub const BREAKPOINT: u8 = 0xcc;
/// Debug register with the addresses that were hit.
const STATUS: usize = 6;
/// Debug register with the conditions.
const CONTROL: usize = 7;

/// Reason of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// A breakpoint byte; the instruction pointer is behind it.
    Breakpoint,
    /// A single step is complete.
    Stepped,
    /// A watchpoint: its number.
    Watchpoint(usize),
    /// The thread has created this thread or process, which is traced as well.
    Created(Creation),
    /// The process executes another program.
    Executed,
    /// The first stop of a new thread or process, or an answer to a request to stop.
    Attached,
    /// The whole process is stopped, as by Ctrl-Z.
    ProcessStopped,
    /// The thread is about to make one of the system calls that a filter selects.
    SystemCall,
    /// The thread is about to end; its registers are those of its last instruction.
    Ending,
    /// The system call to whose end the thread was continued is over.
    CallEnded,
    /// This signal is about to be delivered.
    Signal(i32),
}

/// Kind of a new thread or process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Creation {
    /// Its thread id.
    pub tid: i32,
    /// Whether it has its own memory.
    pub own_memory: bool,
    /// Whether the creator waits until it executes a program or ends.
    pub creator_waits: bool,
}

/// Size and direction of a watched access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedAccess {
    /// Address, a multiple of the size.
    pub address: u64,
    /// Number of bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether only writes count.
    pub writes_only: bool,
}

/// Returns the reason of a stop.
pub fn reason_of_stop(stop: ThreadStop) -> io::Result<StopReason> {
    if stop.is_at_call_end() {
        return Ok(StopReason::CallEnded);
    }
    let Some(signal) = stop.delivered_signal() else {
        return reason_of_event(stop);
    };
    if signal != libc::SIGTRAP {
        return Ok(StopReason::Signal(signal));
    }
    let code = signal_code(stop.tid)?;
    Ok(match code {
        // The kernel's code for int3.
        libc::SI_KERNEL => StopReason::Breakpoint,
        // The second code is for a step over a system call.
        libc::TRAP_TRACE | libc::TRAP_BRKPT => StopReason::Stepped,
        libc::TRAP_HWBKPT => {
            let hits = read_user(stop.tid, DEBUG_REGISTERS + 8 * STATUS)?;
            write_user(stop.tid, DEBUG_REGISTERS + 8 * STATUS, 0)?;
            match (0..4).find(|number| hits & (1 << number) != 0) {
                Some(number) => StopReason::Watchpoint(number),
                None => StopReason::Stepped,
            }
        }
        _ => StopReason::Signal(signal),
    })
}

fn reason_of_event(stop: ThreadStop) -> io::Result<StopReason> {
    let created = |own_memory, creator_waits| -> io::Result<StopReason> {
        let tid = i32::try_from(event_message(stop.tid)?).map_err(io::Error::other)?;
        Ok(StopReason::Created(Creation {
            tid,
            own_memory,
            creator_waits,
        }))
    };
    match stop.event() {
        libc::PTRACE_EVENT_CLONE => created(false, false),
        libc::PTRACE_EVENT_FORK => created(true, false),
        libc::PTRACE_EVENT_VFORK => created(false, true),
        libc::PTRACE_EVENT_EXEC => Ok(StopReason::Executed),
        libc::PTRACE_EVENT_EXIT => Ok(StopReason::Ending),
        libc::PTRACE_EVENT_SECCOMP => Ok(StopReason::SystemCall),
        _ if stop.is_of_process() => Ok(StopReason::ProcessStopped),
        _ => Ok(StopReason::Attached),
    }
}

/// Follows a stopped tracee through `exec`, and reports the system calls that a filter selects.
pub fn follow_more(tid: i32) -> io::Result<()> {
    set_options(tid, 0)
}

/// Follows a stopped tracee as [`follow_more`] does, and to the end of each thread.
pub fn follow_to_end(tid: i32) -> io::Result<()> {
    set_options(tid, libc::PTRACE_O_TRACEEXIT)
}

fn set_options(tid: i32, more_options: libc::c_int) -> io::Result<()> {
    let options = more_options
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACESECCOMP
        | libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_EXITKILL;
    let options = usize::try_from(options).map_err(io::Error::other)?;
    request(libc::PTRACE_SETOPTIONS, tid, 0, options)
}

/// Continues a stopped thread, and delivers a signal unless it is 0.
pub fn continue_thread(tid: i32, signal: i32) -> io::Result<()> {
    let signal = usize::try_from(signal).map_err(io::Error::other)?;
    request(libc::PTRACE_CONT, tid, 0, signal)
}

/// Continues a thread that is about to make a system call, until the call ends.
pub fn continue_to_call_end(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, 0)
}

/// Runs one instruction of a stopped thread.
pub fn step_thread(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_SINGLESTEP, tid, 0, 0)
}

/// Asks a running thread to stop.
pub fn interrupt_thread(tid: i32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Returns the address of the next instruction of a stopped thread.
pub fn instruction_pointer(tid: i32) -> io::Result<u64> {
    read_user(tid, INSTRUCTION_POINTER)
}

/// Returns the number of the system call that a stopped thread is about to make.
pub fn system_call(tid: i32) -> io::Result<u64> {
    read_user(tid, CALL_NUMBER)
}

/// Returns the result of the system call that a stopped thread has ended: the negative number of an error if it failed.
pub fn call_result(tid: i32) -> io::Result<u64> {
    read_user(tid, CALL_RESULT)
}

/// Lets a stopped thread, which is about to create a thread or a process by this call, create it with its tracer: without
/// one, the calls that a filter selects fail.
pub fn keep_creation_traced(tid: i32, call: u64) -> io::Result<()> {
    let argument = read_user(tid, FIRST_ARGUMENT)?;
    if call == call_filter::CLONE {
        if argument & call_filter::UNTRACED != 0 {
            write_user(tid, FIRST_ARGUMENT, argument & !call_filter::UNTRACED)?;
        }
        return Ok(());
    }
    let flags = read_word(tid, argument)?;
    if flags & call_filter::UNTRACED != 0 {
        write_word(tid, argument, flags & !call_filter::UNTRACED)?;
    }
    Ok(())
}

/// A system call that a stopped thread is about to make.
#[derive(Clone, Copy, Debug)]
pub struct CallEntry {
    tid: i32,
    /// Number of the call.
    pub number: u64,
    /// All arguments, of which the call may use fewer.
    pub arguments: [u64; 6],
    registers: [u64; 27],
}

impl CallEntry {
    /// Reads the call of a thread that stopped because of it.
    pub fn of_thread(tid: i32) -> Option<Self> {
        let GeneralRegisters(words) = GeneralRegisters::of_thread(tid)?;
        Some(Self {
            tid,
            number: words[CALL_NUMBER / 8],
            arguments: ARGUMENTS.map(|offset| words[offset / 8]),
            registers: words,
        })
    }

    /// Returns the thread.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Lets the call return this result without being made.
    pub fn answer(&self, result: u64) -> io::Result<()> {
        write_user(self.tid, CALL_RESULT, result)?;
        write_user(self.tid, CALL_NUMBER, NO_CALL)
    }

    /// Gives the call another argument. At its end, [`restore_argument`] must restore the old one, because programs rely on
    /// the registers.
    pub fn replace_argument(&self, position: usize, value: u64) -> io::Result<()> {
        write_user(self.tid, ARGUMENTS[position], value)
    }

    /// Returns the address of unused memory on the stack of the thread.
    pub fn unused_stack(&self, words: u64) -> u64 {
        self.registers[STACK_POINTER / 8].saturating_sub(RED_ZONE + 8 * words) & !0xf
    }

    /// Lets the thread make another call instead. At its end, [`Self::make_now`] lets it make this one.
    pub fn make_first(&self, number: u64, arguments: [u64; 6]) -> io::Result<()> {
        let mut changed = self.registers;
        changed[CALL_NUMBER / 8] = number;
        for (offset, argument) in ARGUMENTS.iter().zip(arguments) {
            changed[offset / 8] = argument;
        }
        ptrace::write_registers(self.tid, &changed)
    }

    /// Lets the thread, which has ended another call instead of this one, make this one again.
    pub fn make_now(&self) -> io::Result<()> {
        let mut changed = self.registers;
        changed[INSTRUCTION_POINTER / 8] -= CALL_BYTES;
        changed[CALL_RESULT / 8] = self.number;
        // A signal that interrupted the other call must not restart it.
        changed[CALL_NUMBER / 8] = NO_CALL;
        ptrace::write_registers(self.tid, &changed)
    }
}

/// Restores an argument of a system call that has ended.
pub fn restore_argument(tid: i32, position: usize, value: u64) -> io::Result<()> {
    write_user(tid, ARGUMENTS[position], value)
}

/// Makes a stopped thread make a system call, with an instruction for it at this address, and returns the result. The thread
/// is not in a system call. Its signals wait meanwhile.
pub fn make_call(tid: i32, instruction: u64, number: u64, arguments: [u64; 6]) -> io::Result<u64> {
    let GeneralRegisters(registers) =
        GeneralRegisters::of_thread(tid).ok_or(io::ErrorKind::NotFound)?;
    let mut changed = registers;
    changed[INSTRUCTION_POINTER / 8] = instruction;
    changed[CALL_RESULT / 8] = number;
    for (offset, argument) in ARGUMENTS.iter().zip(arguments) {
        changed[offset / 8] = argument;
    }
    let old_mask = replace_signal_mask(tid, u64::MAX)?;
    let result = ptrace::write_registers(tid, &changed).and_then(|()| {
        for _ in 0..MAX_STEPS {
            step_thread(tid)?;
            ptrace::wait_for_thread(tid)?;
            if instruction_pointer(tid)? != instruction {
                return call_result(tid);
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    });
    ptrace::write_registers(tid, &registers)?;
    replace_signal_mask(tid, old_mask)?;
    let error = result?.cast_signed().wrapping_neg();
    match i32::try_from(error) {
        Ok(error @ 1..4096) => Err(io::Error::from_raw_os_error(error)),
        _ => Ok(error.wrapping_neg().cast_unsigned()),
    }
}

/// Sets the mask of blocked signals of a stopped thread; returns the old one.
fn replace_signal_mask(tid: i32, mask: u64) -> io::Result<u64> {
    let mut old_mask: u64 = 0;
    let size = size_of::<u64>();
    // SAFETY: the kernel writes and reads one word, which is a live local variable.
    let answers = unsafe {
        [
            libc::ptrace(libc::PTRACE_GETSIGMASK, tid, size, &raw mut old_mask),
            libc::ptrace(libc::PTRACE_SETSIGMASK, tid, size, &raw const mask),
        ]
    };
    if answers == [0, 0] {
        Ok(old_mask)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Maps memory for code in the process of a stopped thread, as [`make_call`] does, at an unused address.
pub fn map_code(tid: i32, instruction: u64, address: u64, size: u64) -> io::Result<u64> {
    let constants = [
        libc::PROT_READ | libc::PROT_EXEC,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
    ];
    let [protection, flags] = constants.map(|constant| u64::from(constant.cast_unsigned()));
    let number = libc::SYS_mmap.cast_unsigned();
    let arguments = [address, size, protection, flags, u64::MAX, 0];
    make_call(tid, instruction, number, arguments)
}

/// Returns whether the threads of a process can be controlled on this machine.
pub fn can_control_threads() -> bool {
    CAN_CONTROL_THREADS
}

/// Returns whether a program runs as the owner of its file, unless it is traced by an ordinary user.
pub fn has_set_user_id(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|metadata| metadata.mode() & SET_USER_ID != 0)
}

/// Sets the address of the next instruction of a stopped thread.
pub fn set_instruction_pointer(tid: i32, address: u64) -> io::Result<()> {
    write_user(tid, INSTRUCTION_POINTER, address)
}

/// Removes bytes from the stack of a stopped thread.
pub fn pop_bytes(tid: i32, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let pointer = read_user(tid, STACK_POINTER)?;
    write_user(tid, STACK_POINTER, pointer + bytes)
}

/// General registers of a stopped thread.
#[derive(Clone, Copy, Debug)]
pub struct GeneralRegisters([u64; 27]);

impl GeneralRegisters {
    /// Reads the registers of a stopped thread.
    pub fn of_thread(tid: i32) -> Option<Self> {
        let words = ptrace::read_registers(tid, 27)?;
        Some(Self(words.try_into().ok()?))
    }

    /// Returns a register by its number in machine code: rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 to r15.
    pub fn numbered(&self, number: usize) -> Option<u64> {
        const ORDER: [usize; 16] = [10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0];
        ORDER.get(number).map(|index| self.0[*index])
    }

    /// Returns the bases of the segments `fs` and `gs`.
    pub fn segment_bases(&self) -> [u64; 2] {
        [self.0[21], self.0[22]]
    }
}

/// Sets the first watchpoint of a stopped thread, or removes it.
pub fn watch(tid: i32, access: Option<WatchedAccess>) -> io::Result<()> {
    let Some(access) = access else {
        return write_user(tid, DEBUG_REGISTERS + 8 * CONTROL, 0);
    };
    // The condition and the length of the first watchpoint are in bits 16 to 19.
    let condition: u64 = if access.writes_only { 0b01 } else { 0b11 };
    let length: u64 = match access.size {
        1 => 0b00,
        2 => 0b01,
        8 => 0b10,
        _ => 0b11,
    };
    write_user(tid, DEBUG_REGISTERS, access.address)?;
    let control = 1 | condition << 16 | length << 18;
    write_user(tid, DEBUG_REGISTERS + 8 * CONTROL, control)
}

/// Traces a process, and sets a watchpoint in its first thread, to find out whether that is possible. The process is to
/// be killed afterwards.
pub fn try_to_watch(pid: i32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, pid, 0, 0)?;
    interrupt_thread(pid)?;
    let mut status = 0;
    // SAFETY: waits for a child of this process, and writes to a variable of this function.
    if unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let anywhere = WatchedAccess {
        address: 0x1000,
        size: 8,
        writes_only: true,
    };
    watch(pid, Some(anywhere))
}

/// Memory of a traced process that can be changed, even if the process may not change it.
#[derive(Debug)]
pub struct WritableMemory(File);

impl WritableMemory {
    /// Opens the memory of a traced process.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/mem");
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self(file))
    }

    /// Fills the buffer from an address on.
    pub fn read_bytes(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, address)
    }

    /// Replaces bytes. Pages of a file are copied first, so that the file does not change.
    pub fn write_bytes(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, address)
    }
}

fn signal_code(tid: i32) -> io::Result<i32> {
    // SAFETY: all-zero is a valid siginfo, and the kernel writes one.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        match libc::ptrace(libc::PTRACE_GETSIGINFO, tid, 0_usize, &raw mut info) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(info.si_code),
        }
    }
}

fn event_message(tid: i32) -> io::Result<u64> {
    let mut message: u64 = 0;
    // SAFETY: the kernel writes one word.
    match unsafe { libc::ptrace(libc::PTRACE_GETEVENTMSG, tid, 0_usize, &raw mut message) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(message),
    }
}

/// Reads a word of the memory of a stopped thread.
pub fn read_word(tid: i32, address: u64) -> io::Result<u64> {
    let address = usize::try_from(address).map_err(io::Error::other)?;
    peek_word(libc::PTRACE_PEEKDATA, tid, address)
}

/// Writes a word to the memory of a stopped thread.
pub fn write_word(tid: i32, address: u64, word: u64) -> io::Result<()> {
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let word = usize::try_from(word).map_err(io::Error::other)?;
    request(libc::PTRACE_POKEDATA, tid, address, word)
}

fn read_user(tid: i32, offset: usize) -> io::Result<u64> {
    peek_word(libc::PTRACE_PEEKUSER, tid, offset)
}

fn peek_word(request_code: RequestCode, tid: i32, address: usize) -> io::Result<u64> {
    if !CAN_CONTROL_THREADS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: the request reads a word of the tracee and writes nothing here. Any word may be the result, so errno
    // decides.
    unsafe {
        *libc::__errno_location() = 0;
        let word = libc::ptrace(request_code, tid, address, 0_usize);
        match *libc::__errno_location() {
            0 => Ok(word.cast_unsigned()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn write_user(tid: i32, offset: usize, word: u64) -> io::Result<()> {
    if !CAN_CONTROL_THREADS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let word = usize::try_from(word).map_err(io::Error::other)?;
    request(libc::PTRACE_POKEUSER, tid, offset, word)
}

fn request(request_code: RequestCode, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: with the requests of this module the kernel does not write to this process's memory.
    match unsafe { libc::ptrace(request_code, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
