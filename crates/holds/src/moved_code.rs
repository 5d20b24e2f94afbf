//! Lets a thread run an instruction at another place, so that the breakpoint at the instruction stays set for other threads.
//!
//! The moved code does what the instruction does, and jumps back behind it. So the thread does not have to stop again.

use crate::access::LONGEST;
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use provoke_sys::memory::Mapping;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Longest code of a moved instruction: a call is replaced by two instructions of 5 and 8 bytes and a jump.
const LONGEST_MOVED: u64 = 13 + LONGEST as u64;
/// Size of a place for moved code. Only pages with code use memory.
pub(crate) const AREA_SIZE: u64 = 1 << 20;
/// Distance from code within which relative addresses reach it.
const REACH: u64 = 1 << 30;
/// Distance from other mappings, which may grow.
const MARGIN: u64 = 64 << 20;
/// Lowest address at which an ordinary program may have memory.
const LOWEST: u64 = 1 << 16;
const PAGE: u64 = 4096;

/// The moved instructions of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct MovedCode {
    areas: Vec<CodeArea>,
    /// The places of moved instructions by their original addresses.
    places: BTreeMap<u64, u64>,
    /// The addresses of instructions that cannot be moved.
    unmovable: BTreeSet<u64>,
    /// The moved instructions by their places.
    instructions: BTreeMap<u64, MovedInstruction>,
}

/// A mapping for moved code.
#[derive(Clone, Debug)]
struct CodeArea {
    range: Range<u64>,
    /// Address of its unused part.
    free: u64,
}

/// A moved instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MovedInstruction {
    original: u64,
    place: u64,
    /// Address behind the original instruction.
    next: u64,
    /// The code that replaces it.
    pub(crate) code: Vec<u8>,
    /// Length of the part that must be undone if the thread stops before the jump.
    pushed: usize,
}

/// Where a thread that runs moved code would be without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OriginalPosition {
    pub(crate) instruction: u64,
    /// Number of bytes that moved code has pushed on the stack.
    pub(crate) pushed: u64,
    /// Whether the thread has not run the original instruction, at which it has arrived.
    pub(crate) is_before: bool,
}

impl MovedCode {
    /// Returns the place of an instruction that was moved before.
    pub(crate) fn known_place(&self, address: u64) -> Option<u64> {
        self.places.get(&address).copied()
    }

    /// Returns whether an instruction is known not to be movable.
    pub(crate) fn is_unmovable(&self, address: u64) -> bool {
        self.unmovable.contains(&address)
    }

    /// Returns a free place within reach of an address.
    pub(crate) fn free_place(&self, address: u64) -> Option<u64> {
        let has_room = |area: &&CodeArea| {
            area.free + LONGEST_MOVED <= area.range.end && area.free.abs_diff(address) < REACH
        };
        self.areas.iter().find(has_room).map(|area| area.free)
    }

    /// Adds a mapping for moved code.
    pub(crate) fn add_area(&mut self, start: u64) {
        self.areas.push(CodeArea {
            range: start..start + AREA_SIZE,
            free: start,
        });
    }

    /// Notes an instruction that was moved to a free place; returns the place.
    pub(crate) fn add_instruction(&mut self, moved: MovedInstruction) -> u64 {
        let place = moved.place;
        let mut areas = self.areas.iter_mut();
        if let Some(area) = areas.find(|area| area.free == place) {
            area.free += moved.code.len() as u64;
        }
        self.places.insert(moved.original, place);
        self.instructions.insert(place, moved);
        place
    }

    /// Notes that an instruction cannot be moved.
    pub(crate) fn add_unmovable(&mut self, address: u64) {
        self.unmovable.insert(address);
    }

    /// Keeps only the instructions at addresses that are known.
    pub(crate) fn retain(&mut self, is_known: impl Fn(&u64) -> bool) {
        self.places.retain(|address, _| is_known(address));
        self.unmovable.retain(is_known);
    }

    /// Returns the original position of a thread with this instruction pointer, if it runs moved code.
    pub(crate) fn original_position(&self, pointer: u64) -> Option<OriginalPosition> {
        let (place, moved) = self.instructions.range(..=pointer).next_back()?;
        let offset = usize::try_from(pointer - place).ok()?;
        if offset >= moved.code.len() {
            return None;
        }
        let (instruction, pushed) = match offset {
            0 => (moved.original, 0),
            _ if offset <= moved.pushed => (moved.original, 8),
            _ => (moved.next, 0),
        };
        Some(OriginalPosition {
            instruction,
            pushed,
            is_before: instruction == moved.original,
        })
    }
}

impl MovedInstruction {
    /// Returns the code that does at `place` what an instruction does at `original`; `None` if there is none.
    pub(crate) fn new(bytes: &[u8], original: u64, place: u64) -> Option<Self> {
        let mut decoder = Decoder::with_ip(64, bytes, original, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() || instruction.mnemonic() == Mnemonic::Xbegin {
            return None;
        }
        let next = instruction.next_ip();
        let mut code = MovingEncoder {
            encoder: Encoder::new(64),
            place,
            code: Vec::new(),
        };
        let mut pushed = 0;
        match instruction.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall
                if instruction.mnemonic() == Mnemonic::Call =>
            {
                code.push_word(next);
                pushed = code.code.len();
                code.encode(&jump_of_call(&instruction)?)?;
            }
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::IndirectBranch => {
                let mut instruction = instruction;
                instruction.as_near_branch();
                code.encode(&instruction)?;
            }
            FlowControl::Interrupt | FlowControl::XbeginXabortXend => return None,
            _ if instruction.is_ip_rel_memory_operand() => code.encode(&instruction)?,
            _ => code.code.extend_from_slice(&bytes[..instruction.len()]),
        }
        let continues = !matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
        if continues && pushed == 0 {
            code.encode(&Instruction::with_branch(Code::Jmp_rel32_64, next).ok()?)?;
        }
        Some(Self {
            original,
            place,
            next,
            code: code.code,
            pushed,
        })
    }
}

/// Encodes instructions one behind the other.
struct MovingEncoder {
    encoder: Encoder,
    place: u64,
    code: Vec<u8>,
}

impl MovingEncoder {
    /// Appends an instruction, unless its relative addresses are out of reach.
    fn encode(&mut self, instruction: &Instruction) -> Option<()> {
        let address = self.place + self.code.len() as u64;
        self.encoder.encode(instruction, address).ok()?;
        self.code.extend(self.encoder.take_buffer());
        Some(())
    }

    /// Appends instructions that push a word and change no flag: `push` has only half a word as its operand.
    fn push_word(&mut self, word: u64) {
        let [a, b, c, d, high @ ..] = word.to_le_bytes();
        self.code.extend([0x68, a, b, c, d]);
        self.code.extend([0xc7, 0x44, 0x24, 0x04]);
        self.code.extend(high);
    }
}

/// Returns the jump to the function that a call calls, behind an instruction that has pushed a word.
fn jump_of_call(call: &Instruction) -> Option<Instruction> {
    match call.code() {
        Code::Call_rel32_64 => {
            Instruction::with_branch(Code::Jmp_rel32_64, call.near_branch_target()).ok()
        }
        Code::Call_rm64 => {
            let mut jump = *call;
            jump.set_code(Code::Jmp_rm64);
            let is_register = call.op0_kind() == OpKind::Register;
            let base = if is_register {
                call.op0_register()
            } else {
                call.memory_base()
            };
            match base {
                Register::RSP if is_register => return None,
                Register::ESP => return None,
                Register::RSP => {
                    jump.set_memory_displacement64(call.memory_displacement64().wrapping_add(8));
                    jump.set_memory_displ_size(8);
                }
                _ => {}
            }
            Some(jump)
        }
        _ => None,
    }
}

/// Returns an unused address for moved code within reach of an address.
pub(crate) fn find_area(mappings: &[Mapping], address: u64) -> Option<u64> {
    let ends = mappings.iter().map(|mapping| mapping.range.end);
    let gaps = [LOWEST].into_iter().chain(ends).zip(mappings);
    gaps.filter_map(|(start, above)| {
        let room = above.range.start.checked_sub(start + AREA_SIZE)?;
        // The heap grows upwards and the stack downwards, so that the upper end of a gap is used, but not all of it.
        let margin = MARGIN.min(room / 2) / PAGE * PAGE;
        Some(above.range.start - AREA_SIZE - margin)
    })
    .filter(|area| area.abs_diff(address) < REACH - AREA_SIZE)
    .min_by_key(|area| area.abs_diff(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: u64 = 0x7000_0000_0000;
    const PLACE: u64 = ORIGINAL + 0x1000_0000;

    fn moved(bytes: &[u8]) -> Option<Vec<String>> {
        let moved = MovedInstruction::new(bytes, ORIGINAL, PLACE)?;
        assert!(moved.code.len() as u64 <= LONGEST_MOVED);
        let decoder = Decoder::with_ip(64, &moved.code, PLACE, DecoderOptions::NONE);
        Some(decoder.into_iter().map(|one| one.to_string()).collect())
    }

    #[test]
    fn moved_code_does_what_the_instruction_does() {
        let cases: [(&[u8], &[&str]); 11] = [
            (&[0x31, 0xc0], &["xor eax,eax", "jmp 0000700000000002h"]),
            // A relative address of data.
            (
                &[0x48, 0x8b, 0x05, 0x10, 0, 0, 0],
                &["mov rax,[700000000017h]", "jmp 0000700000000007h"],
            ),
            (
                &[0x74, 0x10],
                &["je near ptr 0000700000000012h", "jmp 0000700000000002h"],
            ),
            (&[0xeb, 0x10], &["jmp near ptr 0000700000000012h"]),
            (&[0xff, 0xe0], &["jmp rax"]),
            (
                &[0xff, 0x25, 0x10, 0, 0, 0],
                &["jmp qword ptr [700000000016h]"],
            ),
            (&[0xc3], &["ret"]),
            (
                &[0xe8, 0x10, 0, 0, 0],
                &[
                    "push 5",
                    "mov dword ptr [rsp+4],7000h",
                    "jmp near ptr 0000700000000015h",
                ],
            ),
            (
                &[0xff, 0xd0],
                &["push 2", "mov dword ptr [rsp+4],7000h", "jmp rax"],
            ),
            (
                &[0xff, 0x54, 0x24, 0x10],
                &[
                    "push 4",
                    "mov dword ptr [rsp+4],7000h",
                    "jmp qword ptr [rsp+18h]",
                ],
            ),
            (&[0x0f, 0x05], &["syscall", "jmp 0000700000000002h"]),
        ];
        for (bytes, expected) in cases {
            let text = moved(bytes).unwrap();
            let plain = |one: &String| one.replace("near ptr ", "");
            let text: Vec<String> = text.iter().map(plain).collect();
            let expected: Vec<String> = expected
                .iter()
                .map(|one| plain(&(*one).to_owned()))
                .collect();
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn instructions_with_short_reach_are_not_moved() {
        // loop, jrcxz, int3, call rsp
        for bytes in [&[0xe2, 0x10][..], &[0xe3, 0x10], &[0xcc], &[0xff, 0xd4]] {
            assert_eq!(moved(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn a_thread_in_moved_code_has_an_original_position() {
        let mut code = MovedCode::default();
        code.add_area(PLACE);
        let call = MovedInstruction::new(&[0xe8, 0x10, 0, 0, 0], ORIGINAL, PLACE).unwrap();
        code.add_instruction(call);
        let xor_place = code.free_place(ORIGINAL).unwrap();
        let xor = MovedInstruction::new(&[0x31, 0xc0], ORIGINAL + 5, xor_place).unwrap();
        code.add_instruction(xor);
        let position = |pointer| {
            let position = code.original_position(pointer)?;
            Some((position.instruction, position.pushed))
        };
        assert_eq!(position(PLACE), Some((ORIGINAL, 0)));
        assert_eq!(position(PLACE + 5), Some((ORIGINAL, 8)));
        assert_eq!(position(PLACE + 13), Some((ORIGINAL, 8)));
        assert_eq!(position(xor_place), Some((ORIGINAL + 5, 0)));
        assert_eq!(position(xor_place + 2), Some((ORIGINAL + 7, 0)));
        assert_eq!(position(code.free_place(ORIGINAL).unwrap()), None);
        assert_eq!(position(ORIGINAL), None);
        assert_eq!(code.free_place(ORIGINAL + 2 * REACH), None);
    }
}
