//! Finds the original fault of a signal that a handler raised again.
//!
//! Runtimes that print a message at a crash catch the signal and then raise it again, so the core
//! names the second signal and not the fault. The CPU's report of the fault is still on the stack,
//! where the kernel put it for the handler.

use super::address_space::AddressSpace;
use super::dump::Dump;
use super::fault_context::Registers;
use super::signal_frame::{InterruptedState, is_trampoline, just_raised, read_interrupted};
use super::unwind::AddressStack;

/// Bytes below the stack pointer that are searched: the kernel's frame with all vector registers is
/// smaller.
const REACH: u64 = 32 << 10;

const ILL: i32 = 4;
const TRAP: i32 = 5;
const ABRT: i32 = 6;
const BUS: i32 = 7;
const FPE: i32 = 8;
const SEGV: i32 = 11;

/// Original state of the thread at the crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct OriginalState {
    /// Number of places of the stack that belong to the handler.
    pub(super) skip: usize,
    pub(super) registers: Registers,
    /// The fault as the kernel would report it; `None` if the program raised the signal itself.
    pub(super) fault: Option<SignalCause>,
}

/// A fault in the form of the kernel's signal information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SignalCause {
    pub(super) signal: i32,
    pub(super) code: Option<i32>,
    pub(super) address: Option<u64>,
    pub(super) trap: (u64, u64),
}

/// Finds the state of the thread before the handler, for a signal that a process sent, most likely
/// to itself.
pub(super) fn find_origin(
    space: &AddressSpace<'_>,
    stack: &AddressStack,
    registers: &Registers,
    signal: i32,
) -> Option<OriginalState> {
    if just_raised(space, registers).is_none() {
        return find_returned(space, registers, signal);
    }
    let (skip, state) = stack.signals.first()?;
    let by_hand = just_raised(space, &state.registers) == u64::try_from(signal).ok();
    let fault = if by_hand {
        None
    } else {
        kernel_cause(space.dump, state, signal)
    };
    (by_hand || fault.is_some()).then_some(OriginalState {
        skip: *skip,
        registers: state.registers,
        fault,
    })
}

/// Finds the fault behind a handler that has already returned.
///
/// A signal that is raised in its own handler is delivered after the handler returns. The thread is
/// then back at the fault, and the kernel's frame is still in memory below its stack.
fn find_returned(
    space: &AddressSpace<'_>,
    registers: &Registers,
    signal: i32,
) -> Option<OriginalState> {
    let top = registers.rsp & !7;
    let mut checked = (0, false);
    let mut addresses = (1..REACH / 8).filter_map(|words| top.checked_sub(8 * words));
    let state = addresses.find_map(|address| {
        let word = space.word_at(address)?;
        if checked.0 != word {
            checked = (word, is_trampoline(space, word));
        }
        let state = checked.1.then(|| read_interrupted(space, address + 8))??;
        let is_same = state.registers.rip == registers.rip && state.registers.rsp == registers.rsp;
        is_same.then_some(state)
    })?;
    Some(OriginalState {
        skip: 0,
        registers: *registers,
        fault: Some(kernel_cause(space.dump, &state, signal)?),
    })
}

/// Returns the kernel's report of a trap, if the trap can have led to this signal.
fn kernel_cause(dump: &Dump, state: &InterruptedState, signal: i32) -> Option<SignalCause> {
    let page = || {
        let mapped = dump.segment_at(state.address).is_some();
        Some(if mapped || signal == BUS { 2 } else { 1 })
    };
    let at = Some(state.registers.rip);
    let (usual, code, address) = match state.trap {
        0 => (FPE, Some(1), at),
        1 | 3 => (TRAP, Some(128), None),
        6 => (ILL, Some(2), at),
        12 | 13 => (SEGV, Some(128), None),
        14 => (SEGV, page(), Some(state.address)),
        16 | 19 => (FPE, None, at),
        17 => (BUS, Some(1), None),
        _ => return None,
    };
    // Many crash handlers end in `abort`.
    let is_informative = matches!(state.trap, 6 | 13 | 14);
    let possible = signal == usual
        || signal == BUS && matches!(state.trap, 12..=14)
        || signal == ABRT && is_informative;
    possible.then_some(SignalCause {
        signal: if signal == ABRT { usual } else { signal },
        code,
        address,
        trap: (state.trap, state.error),
    })
}
