//! Crashes on demand: faults, signals, and exits by which wrappers hide or translate them.
#![expect(
    unsafe_code,
    reason = "a program that crashes for real has to do what safe code cannot"
)]

use std::hint::black_box;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::ptr;

use rustix::fs::MemfdFlags;
use rustix::process::Resource;

use crate::parse::SignalNumber;

/// Where a field of a structure lies when the pointer to the structure is null.
pub(crate) const BAD_ADDRESS: usize = 0x10;

/// Reads through a pointer that is all but null.
#[inline(never)]
pub(crate) fn segv() -> ! {
    let pointer = black_box(ptr::without_provenance::<u8>(BAD_ADDRESS));
    // SAFETY: none; the lowest page is never mapped and the read ends the process, which is what it is for.
    let value = unsafe { pointer.read_volatile() };
    gave_up(&format!("address {BAD_ADDRESS:#x} holds {value}"))
}

/// Runs an invalid instruction.
#[inline(never)]
pub(crate) fn ill() -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `ud2` is defined to raise the invalid-opcode exception and changes nothing.
    unsafe {
        std::arch::asm!("ud2", options(noreturn, nomem, nostack));
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        send_to_self(SignalNumber(libc::SIGILL));
        gave_up("SIGILL was survived")
    }
}

/// Divides an integer by zero in the processor, past the check that Rust puts before every division.
#[inline(never)]
pub(crate) fn fpe() -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the three registers it changes are declared; the instruction faults before it changes any.
    unsafe {
        std::arch::asm!("idiv {zero:e}", zero = in(reg) 0, inout("eax") 1 => _, inout("edx") 0 => _);
    }
    #[cfg(not(target_arch = "x86_64"))]
    send_to_self(SignalNumber(libc::SIGFPE));
    gave_up("SIGFPE was survived")
}

/// Reads from a mapped file after it was truncated. The file is in memory only, so nothing is left on disk.
#[inline(never)]
pub(crate) fn bus() -> io::Result<ExitCode> {
    const PAGE: usize = 4096;
    let file = rustix::fs::memfd_create("victim", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&file, PAGE as u64)?;
    // SAFETY: a new shared mapping at a place of the kernel's choice; it overlaps nothing.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            PAGE,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    rustix::fs::ftruncate(&file, 0)?;
    // SAFETY: the page is mapped, and never unmapped; that the file behind it is gone is the point.
    let value = unsafe { address.cast::<u8>().read_volatile() };
    gave_up(&format!("the truncated file holds {value}"))
}

/// Overflows the stack. The Rust runtime would print a message and call `abort`; most programs in the field die of
/// SIGSEGV, so this one does too.
#[inline(never)]
pub(crate) fn overflow() -> ! {
    const STACK: u64 = 8 << 20;
    let limits = rustix::process::getrlimit(Resource::Stack);
    if limits.current.is_none_or(|current| current > STACK) {
        // Without a bound the stack would eat the machine's memory first. Lowering a limit cannot fail.
        rustix::process::setrlimit(
            Resource::Stack,
            rustix::process::Rlimit {
                current: Some(STACK),
                ..limits
            },
        )
        .ok();
    }
    set_action(libc::SIGSEGV, libc::SIG_DFL);
    gave_up(&format!("the stack held {} frames", descend(0)))
}

#[expect(unconditional_recursion, reason = "until the stack is full")]
#[inline(never)]
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 32]);
    descend(depth + 1) + black_box(frame)[7]
}

/// Dies by a fault after `main` has returned, like a library that tidies up too late.
pub(crate) fn at_exit() -> io::Result<ExitCode> {
    extern "C" fn handler() {
        segv()
    }
    // SAFETY: the handler is a function of this program and does not unwind.
    match unsafe { libc::atexit(handler) } {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(io::Error::other("no room for an exit handler")),
    }
}

/// Sends a signal to this process with its default action, and exits with 0 if that was survived.
pub(crate) fn send_to_self(signal: SignalNumber) -> ExitCode {
    set_action(signal.0, libc::SIG_DFL);
    // SAFETY: the set is initialised by `sigemptyset` before it is read; a bad signal number is only refused.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal.0);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
        libc::raise(signal.0);
    }
    ExitCode::SUCCESS
}

pub(crate) fn ignore_sigterm() {
    set_action(libc::SIGTERM, libc::SIG_IGN);
}

/// Takes the place of this process by a shell whose child crashes and which then exits with 128 + 11.
pub(crate) fn shell_segv() -> io::Result<ExitCode> {
    let child = crate::start_again()?;
    Err(Command::new("sh")
        .args(["-c", r#""$0" "$@" segv; exit $?"#])
        .arg(child.get_program())
        .args(child.get_args())
        .exec())
}

/// Runs a child that crashes, then ends as if `code` were the whole story.
pub(crate) fn child_segv(code: u8) -> io::Result<ExitCode> {
    crate::start_again()?.arg("segv").status()?;
    Ok(ExitCode::from(code))
}

fn set_action(signal: i32, action: libc::sighandler_t) {
    // SAFETY: only ever `SIG_DFL` or `SIG_IGN`, so no code of ours can run in a handler.
    unsafe { libc::signal(signal, action) };
}

/// Ends a process that outlived its own crash, in a way no test takes for the crash.
fn gave_up(why: &str) -> ! {
    crate::say_error(&format!("still alive: {why}"));
    #[expect(clippy::exit, reason = "nothing sensible is left to return to")]
    std::process::exit(i32::from(crate::COULD_NOT))
}
