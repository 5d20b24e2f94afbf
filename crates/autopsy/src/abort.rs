//! Reads the message that the C library keeps in memory when it aborts.

use super::address_space::AddressSpace;
use super::bytes::{text_before_nul, u32_at};
use super::fault_context::MemoryReader as _;
use super::file_cache::FileCache;
use super::modules::LoadedModules;

const SYMBOL: &str = "__abort_msg";
const LONGEST: u32 = 4096;

/// Returns the address of the C library's pointer to its abort message.
pub(super) fn message_place(modules: &LoadedModules, file_cache: &FileCache) -> Option<u64> {
    let library = |name: &str| name.starts_with("libc.so") || name.starts_with("libc-2");
    let mut libraries = modules.list.iter().filter(|module| library(&module.name));
    // A statically linked program contains the C library.
    let program = || modules.program.map(|number| &modules.list[number]);
    let module = libraries.next().or_else(program)?;
    let symbols = &file_cache.book_at(module.book?).symbols;
    Some(module.process_address(symbols.address_of_name(SYMBOL)?))
}

/// Returns the abort message without its final newline.
pub(super) fn read_message(space: &AddressSpace<'_>, address: u64) -> Option<String> {
    let pointer = space.word_at(address).filter(|word| *word != 0)?;
    // The message begins with its total size; the text follows.
    let mut size_bytes = [0; 4];
    space.read_memory(pointer, &mut size_bytes).then_some(())?;
    let size = u32_at(&size_bytes, 0)?.checked_sub(4)?.min(LONGEST);
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    space
        .read_memory(pointer.checked_add(4)?, &mut bytes)
        .then_some(())?;
    let message = text_before_nul(&bytes).trim_end().to_owned();
    (!message.is_empty()).then_some(message)
}
