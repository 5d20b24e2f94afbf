//! Reads the message that the C library keeps in memory when it aborts.

use super::address_space::AddressSpace;
use super::bytes::{text_before_nul, u32_at};
use super::fault_context::MemoryReader as _;
use super::file_cache::FileCache;
use super::modules::LoadedModules;

const SYMBOL: &str = "__abort_msg";
const LONGEST: u32 = 4096;

/// Returns the address of the C library's pointer to its abort message.
pub(super) fn message_place(modules: &LoadedModules, shelf: &FileCache) -> Option<u64> {
    let library = |name: &str| name.starts_with("libc.so") || name.starts_with("libc-2");
    let mut libraries = modules.list.iter().filter(|module| library(&module.name));
    // A statically linked program contains the C library.
    let program = || modules.program.map(|number| &modules.list[number]);
    let module = libraries.next().or_else(program)?;
    let symbols = &shelf.book_at(module.book?).symbols;
    Some(module.process_address(symbols.address_of_name(SYMBOL)?))
}

/// Returns the abort message without its final newline.
pub(super) fn read_message(space: &AddressSpace<'_>, place: u64) -> Option<String> {
    let at = space.word_at(place).filter(|at| *at != 0)?;
    // The message begins with its total size; the text follows.
    let mut size = [0; 4];
    space.read_memory(at, &mut size).then_some(())?;
    let size = u32_at(&size, 0)?.checked_sub(4)?.min(LONGEST);
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    space
        .read_memory(at.checked_add(4)?, &mut bytes)
        .then_some(())?;
    let said = text_before_nul(&bytes).trim_end().to_owned();
    (!said.is_empty()).then_some(said)
}
