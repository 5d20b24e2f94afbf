//! Explains the fault of the faulting instruction.
//!
//! The class of a fault must not depend on the source: the signal information in a core, the frame
//! of a handler that raised the signal again, or only the registers if an emulator wrote the core.
//! So each source is first converted to a `Cause`, and then the cause is explained.

mod address;
mod code;
#[cfg(test)]
mod tests;

use super::fault_context::FaultContext;
use super::instruction;
use provoke_model::{Fault, fault_class};

/// Cause that the CPU or the kernel reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultCause {
    /// A page is not mapped or does not allow the access.
    Page,
    /// A general protection fault, most often of a non-canonical address.
    General,
    /// An invalid instruction.
    Opcode,
    /// A division without a representable quotient.
    Division,
    /// A floating point exception.
    Float,
    /// A breakpoint instruction.
    Breakpoint,
    /// Another debug trap.
    Debug,
    /// A misaligned address.
    Alignment,
    /// An access behind the end of a mapped file.
    File,
    /// A memory error of the hardware.
    Hardware,
    /// A bus error of unknown cause.
    Bus,
    /// A forbidden system call.
    SystemCall,
    /// The program called `abort`.
    Abort,
    /// Another process sent the signal.
    Sent,
    /// The process sent the signal to itself.
    Raised,
    /// None of these causes.
    Unknown,
}

/// `si_code`: the kernel sent the signal and gave no reason.
const SI_KERNEL: i32 = 128;
/// `si_code`: sent by `tgkill`, which is what `raise` and `abort` use.
const SI_TKILL: i32 = -6;

pub fn explain_fault(scene: &FaultContext<'_>) -> Fault {
    let cause = fault_cause(scene);
    let rip = scene.registers.rip;
    let decoded = instruction::decode_at(scene.memory, rip);
    let decoded = decoded.as_ref();
    let mut fault = match cause {
        FaultCause::Page => address::explain_page_fault(scene, decoded),
        FaultCause::General => address::explain_general_fault(scene, decoded),
        FaultCause::Opcode => code::explain_illegal(scene, decoded),
        FaultCause::Division => code::explain_division(scene, decoded),
        FaultCause::Breakpoint => code::explain_breakpoint(scene),
        FaultCause::Alignment => address::misaligned_fault(scene.address),
        FaultCause::File => Fault {
            address: scene.address,
            ..fault_of_class(
                fault_class::SHORT_FILE,
                "the file behind this memory was truncated or could not be read, \
                 or shared memory or the disk is full",
            )
        },
        FaultCause::Hardware => fault_of_class(
            fault_class::HARDWARE,
            "the hardware reported a memory error: the program is not the cause",
        ),
        FaultCause::Float => fault_of_class(fault_class::FLOAT, float_error(scene.code)),
        FaultCause::Debug => {
            fault_of_class(fault_class::TRAP, "a debugger trap without a debugger")
        }
        FaultCause::Bus => fault_of_class(fault_class::BUS, ""),
        FaultCause::SystemCall => fault_of_class(
            fault_class::SYSTEM_CALL,
            &format!(
                "system call {}: forbidden by a filter (seccomp)",
                scene.registers.rax
            ),
        ),
        FaultCause::Abort => fault_of_class(fault_class::ABORTED, ""),
        FaultCause::Sent => fault_of_class(
            fault_class::SENT,
            "kill() or a similar call, not an instruction that faulted",
        ),
        FaultCause::Raised => fault_of_class(
            fault_class::RAISED,
            "raise() or a similar call; or a signal handler of the program caught the fault and raised it again",
        ),
        FaultCause::Unknown => fault_of_class(fault_class::UNKNOWN, ""),
    };
    if is_sent(cause) {
        fault.sender = scene.sender;
    } else if fault.instruction.is_none() {
        let text = decoded
            .and_then(|decoded_instruction| decoded_instruction.instruction.as_ref())
            .map(instruction::format_instruction);
        fault.instruction = text;
    }
    fault
}

/// Returns whether a program sent the signal, so that no instruction caused it.
fn is_sent(cause: FaultCause) -> bool {
    matches!(
        cause,
        FaultCause::Sent | FaultCause::Raised | FaultCause::Abort
    )
}

fn fault_of_class(class: &str, detail: &str) -> Fault {
    Fault {
        class: class.to_owned(),
        detail: detail.to_owned(),
        ..Fault::default()
    }
}

fn fault_cause(scene: &FaultContext<'_>) -> FaultCause {
    // The trap number in a signal frame is the best source: the CPU's report before any handler
    // ran.
    match scene.trap.map(|(number, _)| number) {
        Some(14) if scene.signal == 7 => return FaultCause::File,
        Some(14) => return FaultCause::Page,
        Some(10..=13) => return FaultCause::General,
        Some(6) => return FaultCause::Opcode,
        // Division has the trap number 0, which a frame without trap information also contains.
        Some(0) if scene.signal == 8 => return FaultCause::Division,
        Some(1) => return FaultCause::Debug,
        Some(3) => return FaultCause::Breakpoint,
        Some(16 | 19) => return FaultCause::Float,
        Some(17) => return FaultCause::Alignment,
        Some(18) => return FaultCause::Hardware,
        _ => {}
    }
    match scene.code {
        Some(SI_TKILL) if scene.signal == 6 => FaultCause::Abort,
        Some(SI_TKILL) => FaultCause::Raised,
        Some(code) if code <= 0 => FaultCause::Sent,
        code => by_signal(scene, code),
    }
}

fn by_signal(scene: &FaultContext<'_>, code: Option<i32>) -> FaultCause {
    match (scene.signal, code) {
        (4, _) => FaultCause::Opcode,
        (5, Some(2 | 4 | 6)) => FaultCause::Debug,
        (5, _) => FaultCause::Breakpoint,
        (6, _) => FaultCause::Abort,
        (7, Some(1)) => FaultCause::Alignment,
        (7, Some(2)) => FaultCause::File,
        (7, Some(4 | 5)) => FaultCause::Hardware,
        // The kernel reports a non-canonical stack pointer as a bus error.
        (7 | 11, Some(SI_KERNEL)) => FaultCause::General,
        (7, _) => FaultCause::Bus,
        (8, Some(3..)) => FaultCause::Float,
        (8, _) => FaultCause::Division,
        // The core does not contain the address, so derive it from the registers.
        (11, None) if scene.address.is_none() => address::likely_cause(scene),
        (11, _) => FaultCause::Page,
        (31, _) => FaultCause::SystemCall,
        _ => FaultCause::Unknown,
    }
}

/// Describes the `si_code` of a floating point exception.
fn float_error(code: Option<i32>) -> &'static str {
    match code {
        Some(3) => "division by zero",
        Some(4) => "overflow",
        Some(5) => "underflow",
        Some(6) => "inexact result",
        Some(7) => "invalid operation",
        _ => "",
    }
}
