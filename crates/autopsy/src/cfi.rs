//! Finds the caller of a function with the call frame information of its file.
//!
//! This module uses `gimli` directly: `framehop` tracks only the stack and frame pointers, and does
//! not find the caller of a function that computes its frame from another register, as the dynamic
//! loader and hand-written code do. `docs/design/unwinder.md` has the details.

use super::elf::{self, ElfObject, Layout};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameHdr, EhFrameOffset, Encoding, EndianSlice,
    EvaluationResult, Expression, FrameDescriptionEntry, LittleEndian, Location, ParsedEhFrameHdr,
    Pointer, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _, Value,
};

/// Bytes of a file that is never unmapped.
pub(super) type FileBytes = EndianSlice<'static, LittleEndian>;

/// Registers by their DWARF numbers; the last one is the return address.
pub(super) type RegisterBank = [u64; 17];
/// Frame pointer.
pub(super) const RBP: usize = 6;
/// Stack pointer.
pub(super) const RSP: usize = 7;
/// Return address of a caller, or address of the instruction itself.
pub(super) const RIP: usize = 16;

/// Limit of evaluation steps: real expressions need fewer, and a hostile expression may loop for
/// ever.
const MAX_STEPS: u32 = 1000;

/// The call frame information of one file.
pub(super) struct Cfi {
    frames: EhFrame<FileBytes>,
    size: usize,
    frames_at: u64,
    index: Option<ParsedEhFrameHdr<FileBytes>>,
    bases: BaseAddresses,
}

/// Rules that compute the caller's registers from those at an instruction.
#[derive(Clone, Debug)]
pub(super) struct UnwindRow {
    cfa: CfaRule<usize>,
    registers: Vec<(Register, RegisterRule<usize>)>,
    encoding: Encoding,
}

impl Cfi {
    /// Finds the call frame information in a file; returns `None` if the file has none.
    pub(super) fn of_file(elf: &ElfObject, layout: &Layout, bytes: &'static [u8]) -> Option<Self> {
        Self::from_index(layout, bytes).or_else(|| Self::from_section(elf))
    }

    fn from_index(layout: &Layout, bytes: &'static [u8]) -> Option<Self> {
        let (index_address, size) = layout.unwind_index?;
        let content = layout.loaded_content(bytes, index_address)?;
        let content = content.get(..usize::try_from(size).ok()?.min(content.len()))?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index_address);
        let index = EhFrameHdr::new(content, LittleEndian)
            .parse(&bases, 8)
            .ok()?;
        let frames_at = match index.eh_frame_ptr() {
            Pointer::Direct(address) => address,
            Pointer::Indirect(_) => return None,
        };
        let frames = layout.loaded_content(bytes, frames_at)?;
        Some(Self::new(frames, frames_at, Some(index), bases))
    }

    fn from_section(elf: &ElfObject) -> Option<Self> {
        use object::{Object as _, ObjectSection as _};
        let address = elf.section_by_name(".eh_frame")?.address();
        let frames = elf::section_content(elf, ".eh_frame")?;
        Some(Self::new(frames, address, None, BaseAddresses::default()))
    }

    fn new(
        frames: &'static [u8],
        frames_at: u64,
        index: Option<ParsedEhFrameHdr<FileBytes>>,
        bases: BaseAddresses,
    ) -> Self {
        let size = frames.len();
        let mut frames = EhFrame::new(frames, LittleEndian);
        frames.set_address_size(8);
        Self {
            frames,
            size,
            frames_at,
            index: index.filter(|index| index.table().is_some()),
            bases: bases.set_eh_frame(frames_at),
        }
    }

    /// Returns the rules for the instruction at this link-time address.
    pub(super) fn row_at(&self, address: u64) -> Option<UnwindRow> {
        let entry = self.find_entry(address)?;
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&self.frames, &self.bases, &mut context, address)
            .ok()?;
        Some(UnwindRow {
            cfa: row.cfa().clone(),
            registers: row
                .registers()
                .map(|(register, rule)| (*register, rule.clone()))
                .collect(),
            encoding: entry.cie().encoding(),
        })
    }

    fn find_entry(&self, address: u64) -> Option<FrameDescriptionEntry<FileBytes>> {
        let entry = match self.index.as_ref().and_then(ParsedEhFrameHdr::table) {
            Some(table) => {
                let entry_address = table.lookup(address, &self.bases).ok()?.direct().ok()?;
                let offset = usize::try_from(entry_address.checked_sub(self.frames_at)?).ok()?;
                if offset >= self.size {
                    return None;
                }
                self.frames
                    .fde_from_offset(&self.bases, EhFrameOffset(offset), EhFrame::cie_from_offset)
                    .ok()?
            }
            None => self.scan_entries(address)?,
        };
        entry.contains(address).then_some(entry)
    }

    fn scan_entries(&self, address: u64) -> Option<FrameDescriptionEntry<FileBytes>> {
        let mut entries = self.frames.entries(&self.bases);
        while let Some(entry) = entries.next().ok()? {
            if let CieOrFde::Fde(partial) = entry
                && let Ok(parsed) = partial.parse(EhFrame::cie_from_offset)
                && parsed.contains(address)
            {
                return Some(parsed);
            }
        }
        None
    }

    /// Returns the registers of the caller, or `None` if the stack ends here.
    ///
    /// Returns [`UnwindError::Memory`] with an address if the memory at that address is needed but
    /// unknown.
    pub(super) fn step_to_caller(
        &self,
        row: &UnwindRow,
        bank: &RegisterBank,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Result<Option<RegisterBank>, UnwindError> {
        let frame = match &row.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                register_value(bank, *register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(code) => self.evaluate_expression(row, code, bank, None, read)?,
        };
        let fetch = |address| read(address).ok_or(UnwindError::Memory(address));
        let mut caller = *bank;
        caller[RSP] = frame;
        let mut returns = false;
        for (register, rule) in &row.registers {
            let number = usize::from(register.0);
            if number > RIP {
                continue; // skip vector registers: no rule depends on them
            }
            let value = match rule {
                RegisterRule::Undefined if number == RIP => return Ok(None),
                RegisterRule::Offset(offset) => fetch(frame.wrapping_add_signed(*offset))?,
                RegisterRule::ValOffset(offset) => frame.wrapping_add_signed(*offset),
                RegisterRule::Register(other_register) => register_value(bank, *other_register)?,
                RegisterRule::Expression(code) => {
                    fetch(self.evaluate_expression(row, code, bank, Some(frame), read)?)?
                }
                RegisterRule::ValExpression(code) => {
                    self.evaluate_expression(row, code, bank, Some(frame), read)?
                }
                RegisterRule::Constant(value) => *value,
                _ => continue,
            };
            returns |= number == RIP;
            caller[number] = value;
        }
        Ok(returns.then_some(caller))
    }

    fn evaluate_expression(
        &self,
        row: &UnwindRow,
        code: &UnwindExpression<usize>,
        bank: &RegisterBank,
        initial: Option<u64>,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Result<u64, UnwindError> {
        let code: Expression<FileBytes> = code.get(&self.frames).map_err(|_| UnwindError::Rules)?;
        let mut evaluation = code.evaluation(row.encoding);
        evaluation.set_max_iterations(MAX_STEPS);
        if let Some(value) = initial {
            evaluation.set_initial_value(value);
        }
        let mut state = evaluation.evaluate();
        loop {
            state = match state.map_err(|_| UnwindError::Rules)? {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let word = read(address).ok_or(UnwindError::Memory(address))?;
                    let bits = 64 - 8 * u32::from(size.clamp(1, 8));
                    evaluation.resume_with_memory(Value::Generic(word << bits >> bits))
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(register_value(bank, register)?))
                }
                _ => return Err(UnwindError::Rules),
            };
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Ok(address),
                _ => Err(UnwindError::Rules),
            },
            _ => Err(UnwindError::Rules),
        }
    }
}

/// Reason why no caller was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnwindError {
    /// The rules are invalid.
    Rules,
    /// The memory at this address is unknown.
    Memory(u64),
}

fn register_value(bank: &RegisterBank, register: Register) -> Result<u64, UnwindError> {
    bank.get(usize::from(register.0))
        .copied()
        .ok_or(UnwindError::Rules)
}
