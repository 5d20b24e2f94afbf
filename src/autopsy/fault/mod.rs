//! Explains the fault of the faulting instruction.
//!
//! The class of a fault must not depend on how it became known: from the signal's
//! information in a core, from the frame of a handler that passed the signal on, or, where
//! an emulator wrote the core, from nothing but the registers. So a fault is
//! first brought into one cause, and then explained.

mod address;
mod code;
#[cfg(test)]
mod tests;

use super::instruction;
use super::scene::Scene;
use crate::model::{Fault, class};

/// What the processor or the kernel objected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// A page was not there, or not to be used like this.
    Page,
    /// The processor's general objection: most often an address that cannot be one.
    General,
    /// An instruction that it does not know.
    Opcode,
    /// A quotient that does not exist.
    Division,
    /// A floating point exception.
    Float,
    /// The instruction of debuggers.
    Breakpoint,
    /// Another trap of debugging.
    Debug,
    /// An address that is not a multiple of what it should be.
    Alignment,
    /// Behind the end of a mapped file.
    File,
    /// The memory is broken.
    Hardware,
    /// An objection of the bus that is not known better.
    Bus,
    /// A system call that is not allowed.
    SystemCall,
    /// The program gave up.
    Abort,
    /// Some process sent the signal.
    Sent,
    /// The process itself did.
    Raised,
    /// None of these.
    Unknown,
}

/// `si_code`: the kernel sent the signal, without saying why.
const SI_KERNEL: i32 = 128;
/// `si_code`: sent by `tgkill`, which is what `raise` and `abort` use.
const SI_TKILL: i32 = -6;

/// Explains a fault.
pub fn explain(scene: &Scene<'_>) -> Fault {
    let cause = cause(scene);
    let rip = scene.registers.rip;
    let decoded = instruction::decode(scene.memory, rip);
    let decoded = decoded.as_ref();
    let mut fault = match cause {
        Cause::Page => address::page(scene, decoded),
        Cause::General => address::general(scene, decoded),
        Cause::Opcode => code::illegal(scene, decoded),
        Cause::Division => code::division(scene, decoded),
        Cause::Breakpoint => code::breakpoint(scene),
        Cause::Alignment => address::misaligned(scene.address),
        Cause::File => Fault {
            address: scene.address,
            ..said(
                class::SHORT_FILE,
                "the file behind this memory was truncated or could not be read, \
                 or shared memory or the disk is full",
            )
        },
        Cause::Hardware => said(
            class::HARDWARE,
            "the hardware reported a memory error: the program is not the cause",
        ),
        Cause::Float => said(class::FLOAT, float(scene.code)),
        Cause::Debug => said(class::TRAP, "a debugger trap without a debugger"),
        Cause::Bus => said(class::BUS, ""),
        Cause::SystemCall => said(
            class::SYSTEM_CALL,
            &format!(
                "system call {}: forbidden by a filter (seccomp)",
                scene.registers.rax
            ),
        ),
        Cause::Abort => said(class::ABORTED, ""),
        Cause::Sent => said(
            class::SENT,
            "kill() or a similar call, not an instruction that faulted",
        ),
        Cause::Raised => said(
            class::RAISED,
            "raise() or a similar call; or a signal handler of the program caught the fault and raised it again",
        ),
        Cause::Unknown => said(class::UNKNOWN, ""),
    };
    if is_sent(cause) {
        fault.sender = scene.sender;
    } else if fault.instruction.is_none() {
        let text = decoded
            .and_then(|it| it.instruction.as_ref())
            .map(instruction::text);
        fault.instruction = text;
    }
    fault
}

/// True for signals that some program sent: no instruction is to blame.
fn is_sent(cause: Cause) -> bool {
    matches!(cause, Cause::Sent | Cause::Raised | Cause::Abort)
}

fn said(class: &str, detail: &str) -> Fault {
    Fault {
        class: class.to_owned(),
        detail: detail.to_owned(),
        ..Fault::default()
    }
}

fn cause(scene: &Scene<'_>) -> Cause {
    // A signal frame knows it best: what the processor said, before any handler.
    match scene.trap.map(|(number, _)| number) {
        Some(14) if scene.signal == 7 => return Cause::File,
        Some(14) => return Cause::Page,
        Some(10..=13) => return Cause::General,
        Some(6) => return Cause::Opcode,
        // Division has a number that is also that of a frame that was never filled in.
        Some(0) if scene.signal == 8 => return Cause::Division,
        Some(1) => return Cause::Debug,
        Some(3) => return Cause::Breakpoint,
        Some(16 | 19) => return Cause::Float,
        Some(17) => return Cause::Alignment,
        Some(18) => return Cause::Hardware,
        _ => {}
    }
    match scene.code {
        Some(SI_TKILL) if scene.signal == 6 => Cause::Abort,
        Some(SI_TKILL) => Cause::Raised,
        Some(code) if code <= 0 => Cause::Sent,
        code => by_signal(scene, code),
    }
}

fn by_signal(scene: &Scene<'_>, code: Option<i32>) -> Cause {
    match (scene.signal, code) {
        (4, _) => Cause::Opcode,
        (5, Some(2 | 4 | 6)) => Cause::Debug,
        (5, _) => Cause::Breakpoint,
        (6, _) => Cause::Abort,
        (7, Some(1)) => Cause::Alignment,
        (7, Some(2)) => Cause::File,
        (7, Some(4 | 5)) => Cause::Hardware,
        // A bus error where the stack pointer is what cannot be an address.
        (7 | 11, Some(SI_KERNEL)) => Cause::General,
        (7, _) => Cause::Bus,
        (8, Some(3..)) => Cause::Float,
        (8, _) => Cause::Division,
        // Nobody wrote down the address: the registers tell which it was.
        (11, None) if scene.address.is_none() => address::objection(scene),
        (11, _) => Cause::Page,
        (31, _) => Cause::SystemCall,
        _ => Cause::Unknown,
    }
}

/// What `si_code` says of a floating point exception.
fn float(code: Option<i32>) -> &'static str {
    match code {
        Some(3) => "division by zero",
        Some(4) => "overflow",
        Some(5) => "underflow",
        Some(6) => "inexact result",
        Some(7) => "invalid operation",
        _ => "",
    }
}
