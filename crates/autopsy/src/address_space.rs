//! Memory of the process, from the core and the mapped files.

use super::dump::{Dump, Segment};
use super::fault_context::{MappedRange, MemoryReader};
use super::file_cache::FileCache;
use super::modules::LoadedModules;

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
