//! Reads the dynamic loader's list of mapped files from the memory in a core.
//!
//! Emulators write cores without the kernel's list of mapped files. The loader keeps a list for
//! debuggers, which the program's dynamic section points to.

use super::ExaminerSettings;
use super::bytes::{text_before_nul, u64_at};
use super::dump::Dump;
use super::elf::Layout;
use super::notes::{MappedFile, ParsedNotes};
use provoke_sys::files;
use std::path::Path;

/// In the auxiliary vector: address of the program headers of the program.
const AT_PHDR: u64 = 3;
/// In the auxiliary vector: address of the name with which the program was started.
const AT_EXECFN: u64 = 31;
/// In a dynamic section: address of the loader's list.
const DT_DEBUG: u64 = 21;
/// Limit of the list, because a list in corrupt memory may contain a cycle.
const MAX_FILES: usize = 1 << 12;
const MAX_ENTRIES: u64 = 256;
const LONGEST_PATH: usize = 4096;

/// Returns the mapped files, each with the ranges of its segments.
pub(super) fn mapped_files(
    notes: &ParsedNotes,
    dump: &Dump,
    settings: &ExaminerSettings,
) -> Vec<MappedFile> {
    let mut files = Vec::new();
    let Some((program, mut next)) = first_entry(notes, dump, settings) else {
        return files;
    };
    for number in 0..MAX_FILES {
        let Some([bias, name, dynamic, next_entry]) = read_words(dump, next) else {
            break;
        };
        let named = match number {
            0 => Some(program.clone()),
            _ => read_path(dump, name, settings),
        };
        let known_layout = named
            .as_deref()
            .and_then(|path| read_layout(settings, path));
        // Skip a file that was replaced on disk: its dynamic section usually has another address.
        let is_same = |layout: &Layout| {
            layout.dynamic.map(|address| address.wrapping_add(bias)) == Some(dynamic)
        };
        if let (Some(path), Some(layout)) = (named, known_layout.filter(is_same)) {
            files.extend(
                layout
                    .loaded_parts(bias)
                    .map(|(start, end, offset)| MappedFile {
                        start,
                        end,
                        offset,
                        path: path.clone(),
                    }),
            );
        }
        next = next_entry;
    }
    files.sort_by_key(|file| file.start);
    files
}

/// Returns the path of the program, and the address of the program's entry, which is the first of
/// the list.
fn first_entry(
    notes: &ParsedNotes,
    dump: &Dump,
    settings: &ExaminerSettings,
) -> Option<(String, u64)> {
    let program = read_path(dump, notes.auxv_value(AT_EXECFN)?, settings)?;
    let layout = match &settings.program {
        Some(elsewhere) => Layout::from_bytes(files::map_program(Path::new(elsewhere)).ok()?)?,
        None => read_layout(settings, &program)?,
    };
    let bias = notes.auxv_value(AT_PHDR)?.wrapping_sub(layout.headers?);
    let dynamic = layout.dynamic?.wrapping_add(bias);
    let mut entries = (0..MAX_ENTRIES).map_while(|number| {
        let [tag, value] = read_words(dump, dynamic.checked_add(16 * number)?)?;
        (tag != 0).then_some((tag, value))
    });
    let (_, debug) = entries.find(|(tag, _)| *tag == DT_DEBUG)?;
    let [_version, first] = read_words(dump, debug)?;
    Some((program, first))
}

fn read_layout(settings: &ExaminerSettings, path: &str) -> Option<Layout> {
    Layout::from_bytes(files::map_program(&settings.file_place(path)).ok()?)
}

fn read_words<const N: usize>(dump: &Dump, address: u64) -> Option<[u64; N]> {
    let mut words = [0; N];
    let mut bytes = vec![0; 8 * N];
    (address != 0 && dump.read_memory(address, &mut bytes) == bytes.len()).then_some(())?;
    for (number, word) in words.iter_mut().enumerate() {
        *word = u64_at(&bytes, 8 * number)?;
    }
    Some(words)
}

/// Returns the path at an address, made absolute as the process would have resolved it.
fn read_path(dump: &Dump, address: u64, settings: &ExaminerSettings) -> Option<String> {
    let mut bytes = vec![0; LONGEST_PATH];
    let size = dump.read_memory(address, &mut bytes);
    let path = text_before_nul(&bytes[..size]);
    let full_path = Path::new(&settings.folder).join(&path);
    let full_path = full_path.to_string_lossy().into_owned();
    (!path.is_empty()).then_some(full_path)
}
