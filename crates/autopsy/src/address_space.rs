//! Memory of the process, from the core and the mapped files.

use super::dump::{Dump, Segment};
use super::fault_context::{MappedRange, MemoryReader};
use super::file_cache::FileCache;
use super::modules::LoadedModules;

/// Length of the longest call without segment override.
const LONGEST_CALL: usize = 7;
/// Limit of the adjacent segments of a stack.
const MAX_PARTS: usize = 64;

pub(super) struct AddressSpace<'a> {
    pub(super) dump: &'a Dump,
    pub(super) modules: &'a LoadedModules,
    pub(super) file_cache: &'a FileCache,
}

impl AddressSpace<'_> {
    /// Returns the word at an address.
    pub(super) fn word_at(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read_memory(address, &mut word)
            .then(|| u64::from_le_bytes(word))
    }

    /// Returns whether the memory at this address may contain instructions.
    pub(super) fn is_code(&self, address: u64) -> bool {
        match self.dump.segment_at(address) {
            Some(segment) => segment.is_executable(),
            None => self.modules.number_at(address).is_some(),
        }
    }

    /// Returns whether the memory from a stack pointer to a frame above it is writable.
    pub(super) fn is_same_stack(&self, stack_pointer: u64, frame: u64) -> bool {
        let mut reached = stack_pointer;
        for _ in 0..MAX_PARTS {
            match self.dump.segment_at(reached) {
                Some(segment) if !segment.is_writable() => return false,
                Some(segment) if frame < segment.end => return frame >= stack_pointer,
                Some(segment) => reached = segment.end,
                None => return false,
            }
        }
        false
    }

    /// Returns whether the instruction before an address is a call, or is not known.
    pub(super) fn follows_call(&self, address: u64) -> bool {
        let mut code = [0; LONGEST_CALL];
        let start = address.wrapping_sub(LONGEST_CALL as u64);
        if !self.read_memory(start, &mut code) {
            return true;
        }
        let calls_register_or_memory =
            |pair: &[u8]| matches!(pair, [0xff, operands] if operands >> 3 & 7 == 2);
        code[2] == 0xe8 || code.windows(2).any(calls_register_or_memory)
    }

    /// Copies memory from the mapped file.
    ///
    /// The kernel leaves pages out of a core that the file contains. Only mappings that were not
    /// writable are certain to equal the file.
    fn in_file(&self, address: u64, buffer: &mut [u8]) -> usize {
        let writable = |segment: &Segment| segment.is_writable();
        if self.dump.segment_at(address).is_some_and(writable) {
            return 0;
        }
        self.file_bytes(address).map_or(0, |bytes| {
            let size = bytes.len().min(buffer.len());
            buffer[..size].copy_from_slice(&bytes[..size]);
            size
        })
    }

    fn file_bytes(&self, address: u64) -> Option<&[u8]> {
        let module = &self.modules.list[self.modules.number_at(address)?];
        let is_within = |start, end| (start..end).contains(&address);
        let mut parts = module.parts.iter();
        let file = parts.find(|part| is_within(part.start, part.end))?;
        let bytes = self.file_cache.book_at(module.book?).bytes;
        let offset = file.offset.checked_add(address - file.start)?;
        let end = file.offset.checked_add(file.end - file.start)?;
        let end = usize::try_from(end).ok()?.min(bytes.len());
        bytes.get(usize::try_from(offset).ok()?..end)
    }
}

impl MemoryReader for AddressSpace<'_> {
    fn read_memory(&self, mut address: u64, mut buffer: &mut [u8]) -> bool {
        while !buffer.is_empty() {
            let mut size = self.dump.read_memory(address, buffer);
            if size == 0 {
                size = self.in_file(address, buffer);
            }
            if size == 0 {
                return false;
            }
            buffer = &mut buffer[size..];
            match address.checked_add(size as u64) {
                Some(next) => address = next,
                None => return buffer.is_empty(),
            }
        }
        true
    }
}

/// Returns the mappings that the core lists.
pub(super) fn core_mappings(dump: &Dump) -> Vec<MappedRange> {
    let mapping = |segment: &Segment| MappedRange {
        start: segment.start,
        end: segment.end,
        readable: segment.is_readable(),
        writable: segment.is_writable(),
        executable: segment.is_executable(),
    };
    dump.segments.iter().map(mapping).collect()
}
