//! Decodes the instruction at a fault and the memory that it accesses.

use super::fault_context::{FaultContext, MemoryReader, Registers};
use iced_x86::{
    Decoder, DecoderOptions, Formatter as _, Instruction, InstructionInfoFactory, IntelFormatter,
    OpAccess, OpKind, Register,
};

/// Length of the longest instruction.
const LONGEST: usize = 15;

/// Size of a page: memory is known or unknown page by page.
const PAGE: u64 = 4096;

/// Memory that an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryAccess {
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) writes: bool,
}

/// The bytes of an instruction, and the decoded instruction.
pub(super) struct DecodedInstruction {
    /// `None` if the bytes are not a valid instruction.
    pub(super) instruction: Option<Instruction>,
    /// The bytes that could be read, up to the length of the longest instruction.
    pub(super) bytes: Vec<u8>,
}

/// Decodes the instruction at an address; returns `None` if the memory there is unknown.
pub(super) fn decode_at(memory: &dyn MemoryReader, address: u64) -> Option<DecodedInstruction> {
    let bytes = read_code(memory, address)?;
    // Some valid instructions of AMD processors are invalid on Intel's, and the reverse.
    let instruction = [DecoderOptions::NONE, DecoderOptions::AMD]
        .into_iter()
        .map(|options| Decoder::with_ip(64, &bytes, address, options).decode())
        .find(|instruction| !instruction.is_invalid());
    Some(DecodedInstruction { instruction, bytes })
}

/// Reads the bytes at an address, up to the length of the longest instruction.
fn read_code(memory: &dyn MemoryReader, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LONGEST];
    if memory.read_memory(address, &mut bytes) {
        return Some(bytes);
    }
    // The page may end before the longest instruction would.
    let remaining = usize::try_from(PAGE - address % PAGE).unwrap_or(LONGEST);
    bytes.truncate(remaining.min(LONGEST));
    memory.read_memory(address, &mut bytes).then_some(bytes)
}

/// Formats an instruction as assembly.
pub(super) fn format_instruction(instruction: &Instruction) -> String {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    let mut text = String::new();
    formatter.format(instruction, &mut text);
    text
}

/// Returns the memory that an instruction accesses, including the stack, as far as the registers
/// determine it.
pub(super) fn touched_by(instruction: &Instruction, registers: &Registers) -> Vec<MemoryAccess> {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    let touched = info
        .used_memory()
        .iter()
        .filter(|memory| !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess))
        .filter_map(|memory| {
            Some(MemoryAccess {
                address: memory.virtual_address(0, |name, _, _| register_value(registers, name))?,
                size: memory.memory_size().size() as u64,
                writes: matches!(
                    memory.access(),
                    OpAccess::Write
                        | OpAccess::CondWrite
                        | OpAccess::ReadWrite
                        | OpAccess::ReadCondWrite
                ),
            })
        });
    touched.collect()
}

/// Returns the value of an operand that is a register or known memory.
pub(super) fn operand_value(
    instruction: &Instruction,
    number: u32,
    scene: &FaultContext<'_>,
) -> Option<u64> {
    let (raw, size) = match instruction.op_kind(number) {
        OpKind::Register => {
            let name = instruction.op_register(number);
            (register_value(&scene.registers, name)?, name.size())
        }
        OpKind::Memory => {
            let address = instruction.virtual_address(number, 0, |name, _, _| {
                register_value(&scene.registers, name)
            })?;
            let size = instruction.memory_size().size();
            let mut bytes = [0; 8];
            let prefix = bytes.get_mut(..size)?;
            if !scene.memory.read_memory(address, prefix) {
                return None;
            }
            (u64::from_le_bytes(bytes), size)
        }
        OpKind::NearBranch64 => return Some(instruction.near_branch64()),
        _ => return None,
    };
    Some(match size {
        0 | 8.. => raw,
        size => raw & ((1 << (size * 8)) - 1),
    })
}

/// Returns the value of the general register with this name.
pub(super) fn register_value(registers: &Registers, name: Register) -> Option<u64> {
    let full = name.full_register();
    let full_value = match full {
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::RIP => registers.rip,
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(match name {
        Register::AH | Register::BH | Register::CH | Register::DH => full_value >> 8,
        _ => full_value,
    })
}
