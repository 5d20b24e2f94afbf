//! Reads fields of structures in a memory whose contents are not trusted.

use crate::memory::MemoryReader;

/// Memory that is read by an address and an offset, which may be any numbers.
#[derive(Clone, Copy)]
pub(super) struct FieldReader<'a>(pub(super) &'a dyn MemoryReader);

impl FieldReader<'_> {
    /// Fills the buffer from an offset on.
    pub(super) fn bytes(self, address: u64, offset: u64, buffer: &mut [u8]) -> Option<()> {
        let start = address.checked_add(offset)?;
        self.0.read_memory(start, buffer).then_some(())
    }

    pub(super) fn word(self, address: u64, offset: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.bytes(address, offset, &mut word)?;
        Some(u64::from_le_bytes(word))
    }

    pub(super) fn half(self, address: u64, offset: u64) -> Option<u32> {
        let mut half = [0; 4];
        self.bytes(address, offset, &mut half)?;
        Some(u32::from_le_bytes(half))
    }

    pub(super) fn byte(self, address: u64, offset: u64) -> Option<u8> {
        let mut byte = [0];
        self.bytes(address, offset, &mut byte)?;
        Some(byte[0])
    }
}
