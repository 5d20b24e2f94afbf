//! Unwinds the stack of a thread, from the innermost instruction to the outermost call.

use super::address_space::AddressSpace;
use super::cfi::{RBP, RIP, RSP, RegisterBank, UnwindError, UnwindRow};
use super::fault_context::Registers;
use super::signal_frame::{InterruptedState, is_trampoline, read_interrupted, register_bank};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// Limit of frames: the usual stack of 8 MB holds half a million of the smallest frames, and a
/// deeper stack adds no information.
pub(super) const DEEPEST: usize = 600_000;

/// Limit of the instructions whose rules are cached: a hostile stack may contain millions of addresses.
const MAX_CACHED: usize = 1 << 16;
/// Limit of nested signal handlers on a stack.
const MAX_SIGNALS: usize = 1000;

/// Code address on a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CodeAddress {
    pub(super) address: u64,
    /// The address is the instruction itself, not the return address behind a call.
    pub(super) exact: bool,
}

impl CodeAddress {
    /// Returns an address within the executing instruction: the call, if the address is its return
    /// address.
    pub(super) fn instruction_address(self) -> u64 {
        self.address.wrapping_sub(u64::from(!self.exact))
    }
}

#[derive(Debug, Default)]
pub(super) struct AddressStack {
    /// Code addresses, innermost first.
    pub(super) addresses: Vec<CodeAddress>,
    /// Interruptions by signals: number of places further in, and the state at the interruption.
    pub(super) signals: Vec<(usize, InterruptedState)>,
    /// Reason why the stack ends before the outermost call, if it does.
    pub(super) cut: Option<String>,
}

/// Unwinds stacks, and caches the rules of each instruction.
pub(super) struct Unwinder<'a> {
    space: &'a AddressSpace<'a>,
    rows: RefCell<HashMap<u64, Option<Rc<UnwindRow>>>>,
    trampolines: RefCell<HashMap<u64, bool>>,
}

impl<'a> Unwinder<'a> {
    pub(super) fn new(space: &'a AddressSpace<'a>) -> Self {
        Self {
            space,
            rows: RefCell::default(),
            trampolines: RefCell::default(),
        }
    }

    /// Unwinds the stack of a thread from these registers, up to `max` calls.
    pub(super) fn follow_stack(&self, registers: &Registers, max: usize) -> AddressStack {
        let mut stack = AddressStack::default();
        let mut bank = register_bank(registers);
        let mut exact = true;
        loop {
            let address = CodeAddress {
                address: bank[RIP],
                exact,
            };
            if stack.addresses.len() >= max {
                stack.cut = Some(format!("only {max} calls are followed"));
                return stack;
            }
            stack.addresses.push(address);
            if self.is_trampoline(bank[RIP]) {
                let Some(state) = read_interrupted(self.space, bank[RSP]) else {
                    stack.cut = Some(missing_stack(bank[RSP]));
                    return stack;
                };
                // A handler may run on an alternate stack, so the stack pointer may jump anywhere.
                // But a state that occurs twice is a cycle.
                let is_known = |(_, other_state): &(usize, InterruptedState)| {
                    other_state.registers.rsp == state.registers.rsp
                };
                if stack.signals.iter().any(is_known) {
                    stack.cut = Some("the stack contains a cycle".to_owned());
                    return stack;
                }
                if stack.signals.len() >= MAX_SIGNALS {
                    stack.cut = Some(format!("only {MAX_SIGNALS} signals are followed"));
                    return stack;
                }
                // The restored instruction is exact, not a return address.
                if let Some(last) = stack.addresses.last_mut() {
                    last.exact = true;
                }
                bank = register_bank(&state.registers);
                exact = true;
                stack.signals.push((stack.addresses.len(), state));
                continue;
            }
            match self.find_caller(&bank, address) {
                Ok(Some(caller)) if caller[RIP] == 0 => return stack,
                Ok(Some(caller)) if caller[RSP] > bank[RSP] => bank = caller,
                Ok(Some(_)) => {
                    stack.cut = Some("the stack contains a cycle".to_owned());
                    return stack;
                }
                Ok(None) => return stack,
                Err(reason) => {
                    stack.cut = Some(reason);
                    return stack;
                }
            }
            exact = false;
        }
    }

    fn is_trampoline(&self, address: u64) -> bool {
        let mut cache = self.trampolines.borrow_mut();
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
        *cache
            .entry(address)
            .or_insert_with(|| is_trampoline(self.space, address))
    }

    fn find_caller(
        &self,
        bank: &RegisterBank,
        place: CodeAddress,
    ) -> Result<Option<RegisterBank>, String> {
        let instruction_address = place.instruction_address();
        let read = |address| self.space.word_at(address);
        let module = self
            .space
            .modules
            .number_at(instruction_address)
            .map(|number| &self.space.modules.list[number]);
        let cfi = module
            .and_then(|module| module.book)
            .and_then(|book| self.space.file_cache.book_at(book).cfi.as_ref());
        if let Some(cfi) = cfi
            && let Some(module) = module
            && let Some(row) = self.cached_row(instruction_address, || {
                cfi.row_at(module.link_offset(instruction_address))
            })
        {
            return match cfi.step_to_caller(&row, bank, &read) {
                Ok(caller) => Ok(caller),
                Err(UnwindError::Memory(address)) => Err(missing_stack(address)),
                Err(UnwindError::Rules) => Err("its unwind information is invalid".to_owned()),
            };
        }
        let caller = self.guess_caller(bank, place);
        // Generated code may use the frame pointer for something else.
        if let Some(caller) = caller
            && (module.is_some() || self.space.follows_call(caller[RIP]))
        {
            return Ok(Some(caller));
        }
        Err(match module {
            Some(module) => format!("no unwind information in `{}`", module.name),
            None => format!("{:#x} is in no file", place.address),
        })
    }

    fn cached_row(
        &self,
        address: u64,
        find: impl FnOnce() -> Option<UnwindRow>,
    ) -> Option<Rc<UnwindRow>> {
        let mut rows = self.rows.borrow_mut();
        if rows.len() >= MAX_CACHED {
            rows.clear();
        }
        let row = rows.entry(address).or_insert_with(|| find().map(Rc::new));
        row.clone()
    }

    /// Guesses the caller without unwind information: after a call to an invalid address, the
    /// return address is on top of the stack; otherwise the frame pointer may be valid.
    fn guess_caller(&self, bank: &RegisterBank, address: CodeAddress) -> Option<RegisterBank> {
        let on_top = || {
            let mut caller = *bank;
            caller[RIP] = self.space.word_at(bank[RSP])?;
            caller[RSP] = bank[RSP].checked_add(8)?;
            self.is_return_address(caller[RIP]).then_some(caller)
        };
        let by_pointer = || {
            let frame = bank[RBP];
            let mut caller = *bank;
            caller[RBP] = self.space.word_at(frame)?;
            caller[RIP] = self.space.word_at(frame.checked_add(8)?)?;
            caller[RSP] = frame.checked_add(16)?;
            let is_frame = self.space.is_same_stack(bank[RSP], frame);
            (is_frame && self.is_return_address(caller[RIP])).then_some(caller)
        };
        if address.exact && !self.space.is_code(address.address) {
            return on_top();
        }
        by_pointer().or_else(|| address.exact.then(on_top)?)
    }

    fn is_return_address(&self, address: u64) -> bool {
        address
            .checked_sub(1)
            .is_some_and(|call| self.space.is_code(call))
    }
}

fn missing_stack(address: u64) -> String {
    format!("the core does not contain the stack at {address:#x}")
}
