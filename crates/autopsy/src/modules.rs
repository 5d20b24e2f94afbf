//! Finds the files that were mapped as code, and checks whether they are unchanged on disk.

use super::dump::Dump;
use super::elf::Layout;
use super::file_cache::FileCache;
use super::notes::{MappedFile, ParsedNotes};
use super::{ExaminerSettings, link_map};
use provoke_words::untrusted::Untrusted as _;

/// In the auxiliary vector: address of the vDSO.
const AT_SYSINFO_EHDR: u64 = 33;
/// In the auxiliary vector: address of the program's first instruction.
const AT_ENTRY: u64 = 9;
const PAGE: usize = 4096;
/// Limit of the size of the vDSO: it has two or three pages, but a hostile core may contain a
/// larger size.
const MAX_INLINE: u64 = 64 << 10;
const MAX_MODULES: usize = 1 << 14;

/// A file that was mapped as code.
pub(super) struct LoadedModule {
    pub(super) path: String,
    /// Path without its folder.
    pub(super) name: String,
    pub(super) base: u64,
    pub(super) parts: Vec<MappedFile>,
    /// Difference between an address in the process and the link-time address.
    bias: u64,
    pub(super) layout: Layout,
    /// Index of the file in the cache, or of its debug file if the file is gone.
    pub(super) book: Option<usize>,
}

impl LoadedModule {
    /// Returns the link-time address, which `objdump` and `nm` show.
    pub(super) fn link_offset(&self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }

    /// Returns the file offset of an address.
    pub(super) fn file_offset(&self, address: u64) -> Option<u64> {
        let mut parts = self.parts.iter();
        let file = parts.find(|part| (part.start..part.end).contains(&address))?;
        file.offset.checked_add(address - file.start)
    }

    /// Returns the address in the process of a link-time address.
    pub(super) fn process_address(&self, offset: u64) -> u64 {
        offset.wrapping_add(self.bias)
    }
}

/// All files with code in a process, ordered by address.
#[derive(Default)]
pub(super) struct LoadedModules {
    pub(super) list: Vec<LoadedModule>,
    /// Start, end and module index of every mapping, in order.
    ranges: Vec<(u64, u64, usize)>,
    /// Index of the program itself.
    pub(super) program: Option<usize>,
}

impl LoadedModules {
    /// Finds the files of a core, and adds their problems to the gaps.
    pub(super) fn of_core(
        notes: &ParsedNotes,
        dump: &Dump,
        file_cache: &mut FileCache,
        settings: &ExaminerSettings,
        gaps: &mut Vec<String>,
    ) -> Self {
        let mut modules = Self::default();
        let loaded;
        let files = if notes.files.is_empty() {
            loaded = link_map::mapped_files(notes, dump, settings);
            &loaded
        } else {
            &notes.files
        };
        if files.is_empty() {
            gaps.push("the core does not list the mapped files".to_owned());
        }
        // Code whose page is no longer executable crashes when it continues.
        let crashed_at = notes.threads.first().map(|thread| thread.registers.rip);
        let has_crashed = |parts: &[MappedFile]| {
            let mut parts = parts.iter();
            crashed_at.is_some_and(|at| parts.any(|part| (part.start..part.end).contains(&at)))
        };
        let code_files =
            group_by_file(files).filter(|parts| is_code(parts, dump) || has_crashed(parts));
        for parts in code_files.take(MAX_MODULES) {
            let module = make_module(parts, notes, dump, file_cache, settings, gaps);
            modules.list.extend(module);
        }
        modules
            .list
            .extend(kernels_own(notes, dump, file_cache, settings));
        for (number, module) in modules.list.iter().enumerate() {
            let ranges = module
                .parts
                .iter()
                .map(|file| (file.start, file.end, number));
            modules.ranges.extend(ranges);
        }
        modules.ranges.sort_unstable();
        let entry = notes.auxv_value(AT_ENTRY);
        modules.program = entry.and_then(|entry| modules.number_at(entry));
        modules
    }

    /// Returns the index of the module at an address.
    pub(super) fn number_at(&self, address: u64) -> Option<usize> {
        let index_behind = self.ranges.partition_point(|(start, ..)| *start <= address);
        let (_, end, number) = self.ranges.get(index_behind.checked_sub(1)?)?;
        (address < *end).then_some(*number)
    }
}

/// Groups mappings by file. A file that is mapped twice from its beginning makes two groups.
fn group_by_file(files: &[MappedFile]) -> impl Iterator<Item = &[MappedFile]> {
    let mut is_at_beginning = true;
    files.chunk_by(move |file, next| {
        is_at_beginning &= file.offset == 0;
        let is_same = file.path == next.path && (next.offset > 0 || is_at_beginning);
        is_at_beginning |= !is_same;
        is_same
    })
}

/// Returns whether any mapping of the file is executable.
///
/// A mapping without a segment counts as executable: an emulator or debugger may leave out segments
/// that are in the files.
fn is_code(files: &[MappedFile], dump: &Dump) -> bool {
    let mut segments = files.iter().map(|file| dump.segment_at(file.start));
    segments.any(|segment| segment.is_none_or(super::dump::Segment::is_executable))
}

fn make_module(
    files: &[MappedFile],
    notes: &ParsedNotes,
    dump: &Dump,
    file_cache: &mut FileCache,
    settings: &ExaminerSettings,
    gaps: &mut Vec<String>,
) -> Option<LoadedModule> {
    let first = files.first()?;
    let base = first.start;
    let path = path_without_mark(&first.path);
    let name = name_of(path).to_owned();
    let remembered = remembered_layout(files, dump);
    let is_program = notes.auxv_value(AT_ENTRY).is_some_and(|entry| {
        files
            .iter()
            .any(|file| (file.start..file.end).contains(&entry))
    });
    let program_path = match &settings.program {
        Some(program) if is_program => program.into(),
        _ => settings.file_place(path),
    };
    let mut book = file_cache.find_file(settings, &program_path);
    let book_layout = book.map(|book| file_cache.book_at(book).layout.clone());
    let build_id = remembered
        .as_ref()
        .and_then(|layout| layout.build_id.as_ref());
    let layout = match (remembered.as_ref(), book_layout) {
        (_, Some(found)) if build_id.is_none_or(|id| found.build_id.as_ref() == Some(id)) => found,
        (Some(layout), found) => {
            book = file_cache.find_remains(settings, layout);
            gaps.push(match found {
                Some(_) => format!("`{name}` was replaced since the crash"),
                None => format!("`{name}` is missing: no file `{}`", program_path.to_safe()),
            });
            layout.clone()
        }
        (None, _) => {
            // The mapped file is not a program, or it is gone without a debug file.
            if dump.segment_at(base).is_some() && book.is_none() && !program_path.exists() {
                gaps.push(format!(
                    "`{name}` is missing: no program `{}`",
                    program_path.to_safe()
                ));
            }
            Layout::default()
        }
    };
    if book.is_none()
        && remembered.is_none()
        && (program_path.exists() || dump.segment_at(base).is_none())
    {
        return None;
    }
    Some(LoadedModule {
        bias: module_bias(files, &layout, dump).unwrap_or(base),
        path: path.to_owned(),
        name,
        base,
        parts: files.to_vec(),
        layout,
        book,
    })
}

/// Removes the kernel's mark of a file that had been deleted when the core was written.
fn path_without_mark(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Reads the layout from the beginning of the file, as the core contains it.
fn remembered_layout(files: &[MappedFile], dump: &Dump) -> Option<Layout> {
    let front = files.iter().find(|file| file.offset == 0)?;
    let mut page = [0; PAGE];
    let size = dump.read_memory(front.start, &mut page);
    Layout::from_bytes(page.get(..size)?)
}

fn module_bias(files: &[MappedFile], layout: &Layout, dump: &Dump) -> Option<u64> {
    let executable = |file: &MappedFile| {
        let segment = dump.segment_at(file.start);
        segment.is_some_and(super::dump::Segment::is_executable)
    };
    let code = files
        .iter()
        .find(|file| executable(file))
        .and_then(|file| layout.load_bias(file.start, file.offset, true));
    code.or_else(|| {
        let mut files_left = files.iter();
        files_left.find_map(|file| layout.load_bias(file.start, file.offset, false))
    })
}

/// Returns the vDSO, which the kernel maps into every process; the core contains it.
fn kernels_own(
    notes: &ParsedNotes,
    dump: &Dump,
    file_cache: &mut FileCache,
    settings: &ExaminerSettings,
) -> Option<LoadedModule> {
    let base = notes.auxv_value(AT_SYSINFO_EHDR)?;
    let segment = dump.segment_at(base)?;
    let size = segment.end.saturating_sub(base).min(MAX_INLINE);
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let length = dump.read_memory(base, &mut bytes);
    bytes.truncate(length);
    let book = file_cache.take_inline(settings, &bytes)?;
    let layout = file_cache.book_at(book).layout.clone();
    Some(LoadedModule {
        path: "[vdso]".to_owned(),
        name: "[vdso]".to_owned(),
        base,
        bias: layout.load_bias(base, 0, true).unwrap_or(base),
        parts: vec![MappedFile {
            start: base,
            end: segment.end,
            offset: 0,
            path: String::new(),
        }],
        layout,
        book: Some(book),
    })
}
