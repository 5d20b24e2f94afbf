//! Finds the code of the dynamic loader in a process.

use provoke_sys::memory::read_mappings;
use std::ffi::OsStr;
use std::fs;
use std::ops::Range;

/// Type of the address of the loader in the auxiliary vector.
const AT_BASE: u64 = 7;

/// Returns the addresses of the dynamic loader, whose system calls do not belong to the program.
///
/// The loader of musl is the C library as well, so there it is `None`, as for a static program.
pub(crate) fn find_loader_code(pid: i32) -> Option<Range<u64>> {
    let vector = fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let base = vector.chunks_exact(16).find_map(|entry| {
        let kind = u64::from_ne_bytes(entry[..8].try_into().ok()?);
        let value = u64::from_ne_bytes(entry[8..].try_into().ok()?);
        (kind == AT_BASE).then_some(value)
    })?;
    let mappings = read_mappings(pid).ok()?;
    let first = mappings
        .iter()
        .find(|mapping| mapping.is_of_file() && mapping.range.contains(&base))?;
    if is_musl(&first.name) {
        return None;
    }
    let of_loader = mappings.iter().filter(|mapping| mapping.name == first.name);
    let end = of_loader.map(|mapping| mapping.range.end).max()?;
    Some(first.range.start..end)
}

fn is_musl(path: &OsStr) -> bool {
    path.to_string_lossy().contains("musl")
}
