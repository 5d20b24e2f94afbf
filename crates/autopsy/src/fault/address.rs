//! Explains faults of memory accesses.

use super::super::fault_context::{FaultContext, MappedRange};
use super::super::instruction::{self, DecodedInstruction, MemoryAccess};
use super::{FaultCause, fault_of_class};
use iced_x86::{FlowControl, Instruction};
use provoke_model::{Fault, fault_class};

/// End of the range where nothing is mapped: an address below it is an offset from a null pointer.
const NEAR_ZERO: u64 = 64 * 1024;

/// Largest distance from the stack pointer at which an access is attributed to the stack.
///
/// The compiler probes large frames page by page, and their size is unknown.
const NEAR_STACK: u64 = 128 * 1024;

/// Number of calls beyond which a stack counts as deep.
const DEEP: u64 = 200;

/// Explains an access to a page that is not mapped or does not allow the access.
pub(super) fn explain_page_fault(
    scene: &FaultContext<'_>,
    decoded: Option<&DecodedInstruction>,
) -> Fault {
    let touched = touched_memory(scene, decoded);
    let is_lost = |touch: &&MemoryAccess| {
        near_zero(touch.address).is_some() || mapping_at(scene.mappings, touch.address).is_none()
    };
    let likely = touched.iter().find(is_lost).or(touched.first());
    let address = scene.address.or(likely.map(|touch| touch.address));
    let Some(address) = address else {
        return fault_of_class(fault_class::WILD, "the address is not known");
    };
    let (class, detail) = class_of_page(scene, address, &touched);
    Fault {
        class: class.to_owned(),
        detail,
        address: Some(address),
        ..Fault::default()
    }
}

fn touched_memory(
    scene: &FaultContext<'_>,
    decoded: Option<&DecodedInstruction>,
) -> Vec<MemoryAccess> {
    decoded
        .and_then(|instruction| instruction.instruction.as_ref())
        .map(|instruction| instruction::touched_by(instruction, &scene.registers))
        .unwrap_or_default()
}

fn class_of_page(
    scene: &FaultContext<'_>,
    address: u64,
    touched: &[MemoryAccess],
) -> (&'static str, String) {
    let rip = scene.registers.rip;
    let error = scene.trap.map(|(_, error)| error);
    let fetched = rip == address || error.is_some_and(|bits| bits & 0x10 != 0);
    if let Some(offset) = near_zero(address) {
        return if fetched {
            (fault_class::NULL_CALL, called_nothing(offset))
        } else {
            (fault_class::NULL, offset_words(offset))
        };
    }
    let mapping = mapping_at(scene.mappings, address);
    if fetched {
        return match mapping {
            Some(_) => (
                fault_class::DATA_CALL,
                format!(
                    "0x{address:x} is mapped, but not as code: a damaged function pointer or return address"
                ),
            ),
            None => (
                fault_class::WILD_CALL,
                format!(
                    "nothing is mapped at 0x{address:x}: a damaged function pointer or return address{}",
                    as_text(address)
                ),
            ),
        };
    }
    let forbidden =
        mapping.is_some_and(|range| !range.readable && !range.writable && !range.executable);
    if (mapping.is_none() || forbidden) && address.abs_diff(scene.registers.rsp) <= NEAR_STACK {
        return (fault_class::STACK_OVERFLOW, overflow_words(scene.depth));
    }
    let writes = match error {
        Some(bits) => bits & 2 != 0,
        None => touched
            .iter()
            .any(|touch| touch.writes && address.wrapping_sub(touch.address) < touch.size.max(1)),
    };
    let refused = scene.code == Some(2) || error.is_some_and(|bits| bits & 1 != 0);
    match mapping {
        Some(_) if forbidden => (
            fault_class::GUARD,
            "reserved memory that must not be accessed: past the end of a stack or a buffer".to_owned(),
        ),
        Some(range) if writes && !range.writable => (
            fault_class::READ_ONLY,
            "constants, code, or a file that is mapped for reading".to_owned(),
        ),
        None if refused && scene.mappings.is_empty() && writes => {
            (fault_class::READ_ONLY, "the memory is not writable".to_owned())
        }
        None if refused && scene.mappings.is_empty() => {
            (fault_class::PROTECTED, "the memory is not readable".to_owned())
        }
        Some(_) => (
            fault_class::PROTECTED,
            "the memory is accessible now: another thread changed the mapping, or a protection key forbids the access".to_owned(),
        ),
        None => (
            fault_class::WILD,
            format!("nothing is mapped at 0x{address:x}: a dangling or damaged pointer{}", as_text(address)),
        ),
    }
}

/// Returns the offset from zero if the address is near zero.
fn near_zero(address: u64) -> Option<i64> {
    let signed = address.cast_signed();
    (signed.unsigned_abs() < NEAR_ZERO).then_some(signed)
}

fn offset_words(offset: i64) -> String {
    match offset {
        0 => "offset 0: the pointer itself is null".to_owned(),
        1..4096 => format!("offset 0x{offset:x}: a field of an object whose pointer is null"),
        4096.. => format!(
            "offset 0x{offset:x}: an element of an array whose pointer is null, or a field of a large object"
        ),
        ..0 => format!(
            "offset -0x{:x}: memory before an object whose pointer is null",
            offset.unsigned_abs()
        ),
    }
}

fn called_nothing(offset: i64) -> String {
    match offset {
        0 => "a function pointer is null, or a weak symbol was not linked".to_owned(),
        _ => {
            format!("a function pointer holds 0x{offset:x}: read from a missing or damaged table")
        }
    }
}

fn overflow_words(depth: u64) -> String {
    if depth > DEEP {
        format!("the calls are {depth} deep: recursion")
    } else {
        "a large local variable, or a small stack".to_owned()
    }
}

fn mapping_at(mappings: &[MappedRange], address: u64) -> Option<&MappedRange> {
    mappings
        .iter()
        .find(|range| (range.start..range.end).contains(&address))
}

/// Describes a pointer whose bytes are text, because a string was probably written over it.
fn as_text(address: u64) -> String {
    let bytes = address.to_le_bytes();
    let length = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    let text = &bytes[..length];
    if length >= 5
        && text
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ')
    {
        let text: String = text.iter().map(|byte| char::from(*byte)).collect();
        format!("; the pointer holds the text `{text}`")
    } else {
        String::new()
    }
}

/// Returns whether a value can be an address: it has 47 bits, or is in the kernel's half.
///
/// CPUs with 57-bit addresses give a program an address beyond 47 bits only on request.
fn is_canonical(address: u64) -> bool {
    let top = address.cast_signed() >> 47;
    top == 0 || top == -1
}

/// Explains a general protection fault, for which the CPU reports no address.
pub(super) fn explain_general_fault(
    scene: &FaultContext<'_>,
    decoded: Option<&DecodedInstruction>,
) -> Fault {
    if !is_canonical(scene.registers.rip) {
        return garbage_fault(fault_class::GARBAGE_CALL, scene.registers.rip);
    }
    let Some(instruction) =
        decoded.and_then(|decoded_instruction| decoded_instruction.instruction.as_ref())
    else {
        return fault_of_class(fault_class::GENERAL, "the instruction could not be read");
    };
    if let Some(target) = jump_target(scene, instruction).filter(|target| !is_canonical(*target)) {
        return garbage_fault(fault_class::GARBAGE_CALL, target);
    }
    let touched = instruction::touched_by(instruction, &scene.registers);
    if let Some(touch) = touched.iter().find(|touch| !is_canonical(touch.address)) {
        return garbage_fault(fault_class::GARBAGE, touch.address);
    }
    let odd = |touch: &&MemoryAccess| touch.size >= 16 && !touch.address.is_multiple_of(touch.size);
    if let Some(touch) = touched.iter().find(odd) {
        return misaligned_fault(Some(touch.address));
    }
    if instruction.is_privileged() {
        return fault_of_class(
            fault_class::PRIVILEGED,
            "only the kernel may execute it: perhaps a jump into data",
        );
    }
    fault_of_class(fault_class::GENERAL, "the CPU does not report the reason")
}

fn garbage_fault(class: &str, address: u64) -> Fault {
    Fault {
        address: Some(address),
        ..fault_of_class(
            class,
            &format!("0x{address:x} cannot be an address{}", as_text(address)),
        )
    }
}

pub(super) fn misaligned_fault(address: Option<u64>) -> Fault {
    let address_text = address.map_or("the address".to_owned(), |address| format!("0x{address:x}"));
    Fault {
        address,
        ..fault_of_class(
            fault_class::MISALIGNED,
            &format!("{address_text} is not aligned as the instruction requires"),
        )
    }
}

/// Returns the target of an indirect jump or call, or of a return.
fn jump_target(scene: &FaultContext<'_>, instruction: &Instruction) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::IndirectBranch | FlowControl::IndirectCall => {
            instruction::operand_value(instruction, 0, scene)
        }
        FlowControl::Return => {
            let mut bytes = [0; 8];
            let is_readable = scene.memory.read_memory(scene.registers.rsp, &mut bytes);
            is_readable.then(|| u64::from_le_bytes(bytes))
        }
        _ => None,
    }
}

/// Returns the probable cause of a fault of which only the registers are known.
pub(super) fn likely_cause(scene: &FaultContext<'_>) -> FaultCause {
    let decoded = instruction::decode_at(scene.memory, scene.registers.rip);
    let Some(instruction) = decoded.and_then(|decoded_instruction| decoded_instruction.instruction)
    else {
        return FaultCause::Page;
    };
    let touched = instruction::touched_by(&instruction, &scene.registers);
    let target = jump_target(scene, &instruction);
    let mut addresses = touched.iter().map(|touch| touch.address).chain(target);
    let impossible = addresses.any(|address| !is_canonical(address));
    if impossible || touched.is_empty() {
        FaultCause::General
    } else {
        FaultCause::Page
    }
}
