//! Finds the blocks of a function, at which the path of a thread is recorded.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use provoke_model::BlockKind;

/// The blocks of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionBlocks {
    /// The first instructions of the blocks, in the order of their addresses.
    pub starts: Vec<(u64, BlockKind)>,
    /// The addresses behind the calls, in their order.
    pub call_ends: Vec<u64>,
}

/// Returns the blocks of a function with this code.
pub(crate) fn find_blocks(code: &[u8], address: u64) -> FunctionBlocks {
    let instructions = decode_all(code, address);
    let end = instructions.last().map_or(address, Instruction::next_ip);
    let mut starts = vec![(address, BlockKind::Function)];
    let mut call_ends = Vec::new();
    let has_jump_table = instructions
        .iter()
        .any(|instruction| instruction.flow_control() == FlowControl::IndirectBranch);
    for instruction in &instructions {
        let next = instruction.next_ip();
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                starts.push((instruction.near_branch_target(), BlockKind::Taken));
                starts.push((next, BlockKind::NotTaken));
            }
            FlowControl::UnconditionalBranch => {
                starts.push((instruction.near_branch_target(), BlockKind::Other));
                if has_jump_table {
                    starts.push((next, BlockKind::Other));
                }
            }
            // The targets of a jump table are not known, but most begin where the block before does not continue.
            FlowControl::IndirectBranch | FlowControl::Return if has_jump_table => {
                starts.push((next, BlockKind::Other));
            }
            FlowControl::Call | FlowControl::IndirectCall
                if instruction.mnemonic() == Mnemonic::Call =>
            {
                starts.push((next, BlockKind::Return));
                call_ends.push(next);
            }
            _ => {}
        }
    }
    starts.retain(|(start, _)| {
        (address..end).contains(start) && is_executable_start(&instructions, *start)
    });
    starts.sort_unstable_by_key(|(start, kind)| (*start, precedence(*kind)));
    starts.dedup_by_key(|(start, _)| *start);
    FunctionBlocks { starts, call_ends }
}

fn decode_all(code: &[u8], address: u64) -> Vec<Instruction> {
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    decoder
        .into_iter()
        .take_while(|instruction| !instruction.is_invalid())
        .collect()
}

/// Returns whether an instruction begins at an address, and is not a breakpoint of the program.
fn is_executable_start(instructions: &[Instruction], address: u64) -> bool {
    let found = instructions.binary_search_by_key(&address, Instruction::ip);
    found.is_ok_and(|index| instructions[index].mnemonic() != Mnemonic::Int3)
}

/// Returns the rank of a kind: an address has the first one that applies.
fn precedence(kind: BlockKind) -> u8 {
    match kind {
        BlockKind::Function => 0,
        BlockKind::Return => 1,
        BlockKind::Taken => 2,
        BlockKind::NotTaken => 3,
        BlockKind::Other => 4,
    }
}

impl FunctionBlocks {
    /// Returns whether a call ends at an address.
    pub(crate) fn has_call_before(&self, address: u64) -> bool {
        self.call_ends.binary_search(&address).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_block_is_found() {
        let code = [
            0x85, 0xff, // 1000: test edi, edi
            0x74, 0x07, // 1002: je 100b
            0xe8, 0x00, 0x00, 0x00, 0x00, // 1004: call 1009
            0xeb, 0x02, // 1009: jmp 100d
            0x31, 0xc0, // 100b: xor eax, eax
            0xc3, // 100d: ret
        ];
        let blocks = find_blocks(&code, 0x1000);
        let expected = [
            (0x1000, BlockKind::Function),
            (0x1004, BlockKind::NotTaken),
            (0x1009, BlockKind::Return),
            (0x100b, BlockKind::Taken),
            (0x100d, BlockKind::Other),
        ];
        assert_eq!(blocks.starts, expected);
        assert!(blocks.has_call_before(0x1009) && !blocks.has_call_before(0x100b));
    }

    #[test]
    fn jumps_into_instructions_and_out_of_the_function_are_no_blocks() {
        let code = [
            0x74, 0x01, // 0: je 3, into the next instruction
            0x31, 0xc0, // 2: xor eax, eax
            0xeb, 0x70, // 4: jmp 76, behind the function
            0xcc, // 6: int3
        ];
        let blocks = find_blocks(&code, 0);
        let expected = [(0, BlockKind::Function), (2, BlockKind::NotTaken)];
        assert_eq!(blocks.starts, expected);
    }

    #[test]
    fn blocks_behind_jumps_are_found_if_there_is_a_jump_table() {
        let code = [
            0xff, 0xe0, // 0: jmp rax
            0x31, 0xc0, // 2: xor eax, eax
            0xc3, // 4: ret
            0x31, 0xc0, // 5: xor eax, eax
        ];
        let blocks = find_blocks(&code, 0);
        let expected = [
            (0, BlockKind::Function),
            (2, BlockKind::Other),
            (5, BlockKind::Other),
        ];
        assert_eq!(blocks.starts, expected);
    }
}
