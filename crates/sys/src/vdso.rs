//! Hides the vDSO, which reads clocks without system calls, from a program that has just been executed.

use super::tracee::{GeneralRegisters, read_word, write_word};
use std::io;

/// Number of the stack pointer in machine code.
const STACK_POINTER: usize = 4;
/// Bytes of a word on the stack.
const WORD: u64 = 8;
/// Limit of the words that are searched: more than the arguments and the environment can have.
const MAX_WORDS: u64 = 1 << 22;
// Types of the entries of the auxiliary vector.
const END: u64 = 0;
const IGNORED: u64 = 1;
const ADDRESS_OF_VDSO: u64 = 33;

/// Removes the address of the vDSO from the stack of a stopped thread that has not run any instruction of its program.
/// The program then makes system calls instead.
pub fn hide_vdso(tid: i32) -> io::Result<()> {
    let registers = GeneralRegisters::of_thread(tid);
    let stack_pointer = registers.and_then(|registers| registers.numbered(STACK_POINTER));
    let stack_pointer = stack_pointer
        .ok_or_else(|| io::Error::other("a 32-bit program reads the time in another way"))?;
    // The number of arguments, the arguments, zero, the variables, zero, and the pairs of the auxiliary vector.
    let argument_count = read_word(tid, stack_pointer).map_err(|_| {
        io::Error::other("the memory of a program that may not be read is protected")
    })?;
    let variables = stack_pointer.saturating_add(argument_count.saturating_add(2) * WORD);
    let word_at = |index: u64| read_word(tid, variables + index * WORD);
    let mut index = 0;
    while word_at(index)? != END {
        index += 1;
        if index > MAX_WORDS {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    index += 1;
    loop {
        match word_at(index)? {
            END => return Ok(()),
            ADDRESS_OF_VDSO => return write_word(tid, variables + index * WORD, IGNORED),
            _ => index += 2,
        }
    }
}
