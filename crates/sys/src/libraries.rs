//! Reads the dynamic loader's list of libraries in the memory of another process.
//!
//! A debugger finds libraries by this list. So a core must contain the pages with the list, some of
//! which are on the heap.

use super::memory::ProcessMemory;
use std::collections::BTreeMap;
use std::ops::Range;

/// Limit of the list: a longer list is corrupt or a cycle.
const MAX_LIBRARIES: usize = 4096;
/// Bytes that are kept of a name.
const NAME: u64 = 256;

/// In the auxiliary vector: address of the program headers; the next constants are their number and
/// a type of header.
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const PT_DYNAMIC: u64 = 2;
const PT_PHDR: u64 = 6;
/// In the dynamic section: address of the list.
const DT_DEBUG: u64 = 21;

/// Returns the ranges of the list: the dynamic section of the program, the head, the entries, and
/// their names. The result ends at the first unreadable part.
pub fn library_ranges(memory: &ProcessMemory, auxv: &[u8]) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let _ = follow_list(memory, auxv, &mut ranges);
    ranges
}

fn follow_list(memory: &ProcessMemory, auxv: &[u8], ranges: &mut Vec<Range<u64>>) -> Option<()> {
    let auxv = parse_auxv(auxv);
    let (headers, count) = (*auxv.get(&AT_PHDR)?, *auxv.get(&AT_PHNUM)?);
    ranges.push(range_at(headers, count.saturating_mul(56)));
    let mut moved = None;
    let mut dynamic = None;
    for header_address in (headers..).step_by(56).take(usize::try_from(count).ok()?) {
        let [kind, _, address] = memory.read_words(header_address).ok()?;
        match kind & 0xffff_ffff {
            PT_PHDR => moved = Some(headers.wrapping_sub(address)),
            PT_DYNAMIC => dynamic = Some(address),
            _ => {}
        }
    }
    let dynamic = dynamic?.wrapping_add(moved.unwrap_or(0));
    let mut list = None;
    for address in (dynamic..).step_by(16).take(MAX_LIBRARIES) {
        let [tag, value] = memory.read_words(address).ok()?;
        ranges.push(range_at(address, 16));
        match tag {
            0 => break,
            DT_DEBUG => list = Some(value),
            _ => {}
        }
    }
    let list = list?;
    ranges.push(range_at(list, 40));
    let [_version, mut next] = memory.read_words(list).ok()?;
    for _ in 0..MAX_LIBRARIES {
        if next == 0 {
            break;
        }
        let [_address, name, section, following] = memory.read_words(next).ok()?;
        let parts = [(next, 64), (name, NAME), (section, 16)];
        ranges.extend(parts.map(|(start, size)| range_at(start, size)));
        next = following;
    }
    Some(())
}

fn range_at(start: u64, size: u64) -> Range<u64> {
    start..start.saturating_add(size)
}

/// Returns the values of an auxiliary vector by their keys.
pub(crate) fn parse_auxv(auxv: &[u8]) -> BTreeMap<u64, u64> {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    auxv.chunks_exact(16)
        .map(|pair| (word(&pair[..8]), word(&pair[8..])))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_own_process_are_found() {
        let pid = std::process::id().cast_signed();
        let auxv = std::fs::read("/proc/self/auxv").unwrap();
        let found = library_ranges(&ProcessMemory::of_process(pid).unwrap(), &auxv);
        assert!(found.len() > 10, "{found:x?}");
        assert!(library_ranges(&ProcessMemory::of_process(pid).unwrap(), &[]).is_empty());
    }
}
