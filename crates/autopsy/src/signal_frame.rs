//! Reads the frame that the kernel writes on a stack when it calls a signal handler.

use super::address_space::AddressSpace;
use super::cfi::{RBP, RIP, RSP, RegisterBank};
use super::fault_context::{MemoryReader as _, Registers};

/// Code that signal handlers return to on x86-64: `mov $15, %rax; syscall`.
const TRAMPOLINE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// Offset of the registers in the context that the kernel saves, behind flags, link and stack.
const REGISTERS_AT: u64 = 40;
const REGISTERS: usize = 23;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// The state of a thread when a signal interrupted it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InterruptedState {
    pub(super) registers: Registers,
    /// CPU's last trap number, followed by error code and accessed address.
    pub(super) trap: u64,
    pub(super) error: u64,
    pub(super) address: u64,
}

/// Returns whether the code at this address is the return trampoline of signal handlers.
pub(super) fn is_trampoline(space: &AddressSpace<'_>, address: u64) -> bool {
    let mut bytes = [0; TRAMPOLINE.len()];
    space.is_code(address) && space.read_memory(address, &mut bytes) && bytes == TRAMPOLINE
}

/// Reads the context that the kernel saved at this stack address.
pub(super) fn read_interrupted(space: &AddressSpace<'_>, context: u64) -> Option<InterruptedState> {
    let mut words = [0; REGISTERS];
    for (number, word) in words.iter_mut().enumerate() {
        let offset = context.checked_add(REGISTERS_AT + 8 * number as u64)?;
        *word = space.word_at(offset)?;
    }
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, ..] = words;
    let [
        ..,
        rdx,
        rax,
        rcx,
        rsp,
        rip,
        flags,
        _,
        error,
        trap,
        _,
        address,
    ] = words;
    Some(InterruptedState {
        registers: Registers {
            rax,
            rbx,
            rcx,
            rdx,
            rsi,
            rdi,
            rbp,
            rsp,
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rip,
            flags,
            fs_base: 0,
            gs_base: 0,
        },
        trap,
        error,
        address,
    })
}

/// Returns the signal that the thread has just sent by a system call to itself or to its process,
/// if its instruction pointer is behind such a call.
pub(super) fn just_raised(space: &AddressSpace<'_>, registers: &Registers) -> Option<u64> {
    let mut code_before = [0; 2];
    let call = registers.rip.checked_sub(2)?;
    let is_call =
        space.is_code(call) && space.read_memory(call, &mut code_before) && code_before == SYSCALL;
    // `tgkill` has the signal in its third argument, `kill` and `tkill` in their second. The kernel
    // has replaced the number of the call with the result 0.
    let signal = |value: u64| (1..=64).contains(&value).then_some(value);
    (is_call && registers.rax == 0)
        .then(|| signal(registers.rdx).or_else(|| signal(registers.rsi)))
        .flatten()
}

/// Returns the general registers by their DWARF numbers.
pub(super) fn register_bank(registers: &Registers) -> RegisterBank {
    let mut bank = [0; 17];
    bank[..6].copy_from_slice(&[
        registers.rax,
        registers.rdx,
        registers.rcx,
        registers.rbx,
        registers.rsi,
        registers.rdi,
    ]);
    bank[RBP] = registers.rbp;
    bank[RSP] = registers.rsp;
    bank[8..16].copy_from_slice(&[
        registers.r8,
        registers.r9,
        registers.r10,
        registers.r11,
        registers.r12,
        registers.r13,
        registers.r14,
        registers.r15,
    ]);
    bank[RIP] = registers.rip;
    bank
}
