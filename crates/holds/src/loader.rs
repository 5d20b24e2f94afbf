//! Finds the code of the dynamic loader in a process.

use crate::code::CodeCache;
use provoke_sys::memory::read_mappings;
use provoke_sys::threads::auxiliary_value;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;

/// Type of the address of the loader in the auxiliary vector.
const AT_BASE: u64 = 7;
/// Function that debuggers use to learn of loaded files; glibc and musl have it.
const LOAD_EVENT: &str = "_dl_debug_state";

/// Returns the addresses of the dynamic loader, whose system calls do not belong to the program.
///
/// The loader of musl is the C library as well, so there it is `None`, as for a static program.
pub(crate) fn find_loader_code(pid: i32) -> Option<Range<u64>> {
    let base = loader_base(pid)?;
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

/// Returns the address of the function that the loader calls after it has loaded or unloaded a file.
pub(crate) fn find_load_event(pid: i32, files: &mut CodeCache) -> Option<u64> {
    let base = loader_base(pid)?;
    let mappings = read_mappings(pid).ok()?;
    let loader = mappings
        .iter()
        .find(|mapping| mapping.is_of_file() && mapping.range.contains(&base))?;
    let address = files
        .file(pid, Path::new(&loader.name))?
        .symbol_address(LOAD_EVENT)?;
    Some(base.wrapping_add(address))
}

/// Returns the address of the loader in the memory of a process.
fn loader_base(pid: i32) -> Option<u64> {
    auxiliary_value(pid, AT_BASE).filter(|base| *base != 0)
}

fn is_musl(path: &OsStr) -> bool {
    path.to_string_lossy().contains("musl")
}
