//! Finds the memory that an instruction accesses.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register, UsedMemory,
};
use provoke_sys::tracee::{GeneralRegisters, WatchedAccess};

/// Longest instruction.
pub(crate) const LONGEST: usize = 15;

/// Returns whether an access may concern other threads: the stack of a thread rarely does.
pub(crate) fn is_shared(memory: &UsedMemory) -> bool {
    let stack = [Register::RSP, Register::RBP];
    !stack.contains(&memory.base())
        && memory.access() != OpAccess::None
        && memory.access() != OpAccess::NoMemAccess
}

/// Returns whether an access writes.
pub(crate) fn is_write(memory: &UsedMemory) -> bool {
    !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead)
}

/// Returns whether an instruction accesses memory atomically, as locks and atomic variables do.
pub(crate) fn is_atomic(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|index| instruction.op_kind(index) == OpKind::Memory);
    instruction.has_lock_prefix() || exchanges
}

/// Returns the memory that an instruction accesses with these registers, so that an access of another thread to it would
/// be a race: any access, or only a write if the instruction reads. Accesses of locks are not races.
pub(crate) fn accessed_memory(
    code: &[u8],
    address: u64,
    registers: &GeneralRegisters,
) -> Option<WatchedAccess> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if is_atomic(&instruction) {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let memory = info.used_memory().iter().find(|memory| is_shared(memory))?;
    let address = memory.virtual_address(0, |register, _, _| value_of(register, registers))?;
    let size = match memory.memory_size().size() {
        size @ (1 | 2 | 4) => size,
        _ => 8,
    };
    Some(WatchedAccess {
        address: address & !(size as u64 - 1),
        size: u8::try_from(size).ok()?,
        writes_only: !is_write(memory),
    })
}

fn value_of(register: Register, registers: &GeneralRegisters) -> Option<u64> {
    match register {
        Register::FS => Some(registers.segment_bases()[0]),
        Register::GS => Some(registers.segment_bases()[1]),
        // The other segments have no base.
        segment if segment.is_segment_register() => Some(0),
        register if register.is_gpr() => registers.numbered(register.full_register().number()),
        _ => None,
    }
}
