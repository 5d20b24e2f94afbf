//! Finds exported symbols of a program or a library in the memory of a process.

use super::reader::FieldReader;

/// A program or a library in the memory of a process.
pub(super) struct LoadedModule<'a> {
    memory: FieldReader<'a>,
    /// Difference between addresses in memory and in the file.
    bias: u64,
    symbols: u64,
    names: u64,
    hashes: u64,
}

/// Limits of what is read.
const SEGMENTS: u64 = 64;
const DYNAMIC_ENTRIES: u64 = 128;
const LONGEST_CHAIN: usize = 4096;

const DYNAMIC_SEGMENT: u32 = 2;
const DYNAMIC_SECTION_END: u64 = 0;
const NAMES: u64 = 5;
const SYMBOLS: u64 = 6;
const GNU_HASHES: u64 = 0x6fff_fef5;
const SYMBOL_SIZE: u64 = 24;

impl<'a> LoadedModule<'a> {
    /// Reads the headers of the 64-bit ELF file that is mapped at this address.
    pub(super) fn at_address(memory: FieldReader<'a>, base: u64) -> Option<Self> {
        let mut head = [0; 64];
        memory.bytes(base, 0, &mut head)?;
        let is_elf = head.starts_with(b"\x7fELF\x02\x01");
        let is_fixed = head[16] == 2;
        let segments = base.checked_add(u64::from_le_bytes(head[32..40].try_into().ok()?))?;
        let count = u64::from(u16::from_le_bytes([head[56], head[57]])).min(SEGMENTS);
        let bias = if is_fixed { 0 } else { base };
        if !is_elf {
            return None;
        }
        let dynamic = (0..count).find_map(|index| {
            let kind = memory.half(segments, index * 56)?;
            let address = memory.word(segments, index * 56 + 16)?;
            (kind == DYNAMIC_SEGMENT).then(|| bias.checked_add(address))?
        })?;
        let mut module = Self {
            memory,
            bias,
            symbols: 0,
            names: 0,
            hashes: 0,
        };
        for index in 0..DYNAMIC_ENTRIES {
            let tag = memory.word(dynamic, index * 16)?;
            let value = memory.word(dynamic, index * 16 + 8)?;
            // glibc adds the bias to these addresses in memory, other loaders do not.
            let address = if value < base {
                bias.checked_add(value)?
            } else {
                value
            };
            match tag {
                DYNAMIC_SECTION_END => break,
                NAMES => module.names = address,
                SYMBOLS => module.symbols = address,
                GNU_HASHES => module.hashes = address,
                _ => {}
            }
        }
        (module.hashes != 0).then_some(module)
    }

    /// Returns the address of an exported symbol.
    pub(super) fn find_symbol(&self, name: &str) -> Option<u64> {
        let head_field = |index: u64| self.memory.half(self.hashes, index * 4);
        let (buckets, first_symbol, filters) = (head_field(0)?, head_field(1)?, head_field(2)?);
        let hash = hash_of_name(name);
        let heads = self.hashes.checked_add(16 + u64::from(filters) * 8)?;
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let head = self.memory.half(heads, bucket * 4)?;
        let chains = heads.checked_add(u64::from(buckets) * 4)?;
        for index in (head.max(first_symbol)..u32::MAX).take(LONGEST_CHAIN) {
            let link = u64::from(index - first_symbol);
            let symbol_hash = self.memory.half(chains, link * 4)?;
            if symbol_hash | 1 == hash | 1
                && let Some(address) = self.address_of_symbol(index, name)
            {
                return Some(address);
            }
            if symbol_hash & 1 == 1 {
                return None;
            }
        }
        None
    }

    /// Returns the address of a symbol if it has this name.
    fn address_of_symbol(&self, index: u32, name: &str) -> Option<u64> {
        let symbol = u64::from(index) * SYMBOL_SIZE;
        let name_offset = self.memory.half(self.symbols, symbol)?;
        let value = self.memory.word(self.symbols, symbol + 8)?;
        let mut bytes = vec![0; name.len() + 1];
        self.memory
            .bytes(self.names, name_offset.into(), &mut bytes)?;
        let is_named = bytes.strip_suffix(&[0]) == Some(name.as_bytes());
        is_named.then(|| self.bias.checked_add(value))?
    }
}

fn hash_of_name(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(byte))
    })
}
