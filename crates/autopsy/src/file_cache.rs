//! Cache of the files that cores refer to, each opened and parsed once.

use super::ExaminerSettings;
use super::cfi::Cfi;
use super::debug;
use super::elf::{ElfObject, Layout};
use super::symbols::Symbols;
use provoke_model::encode_hex;
use provoke_sys::files;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Limit of distinct vDSOs: each kernel has one.
const MAX_INLINE: usize = 64;

/// A program or a library.
pub(super) struct CachedFile {
    pub(super) layout: Layout,
    /// Content of the file; empty if the file is gone and only its debug information exists.
    pub(super) bytes: &'static [u8],
    pub(super) cfi: Option<Cfi>,
    pub(super) symbols: Symbols,
}

/// Cache of the files of all cores.
#[derive(Default)]
pub(super) struct FileCache {
    books: Vec<CachedFile>,
    /// Book by the address of the mapped content, which identifies the state of the file.
    by_content: HashMap<usize, usize>,
    by_identity: HashMap<Vec<u8>, Option<usize>>,
    inline: HashMap<Vec<u8>, &'static [u8]>,
}

impl FileCache {
    pub(super) fn book_at(&self, number: usize) -> &CachedFile {
        &self.books[number]
    }

    pub(super) fn book_mut(&mut self, number: usize) -> &mut CachedFile {
        &mut self.books[number]
    }

    /// Returns the index of the file with this path.
    pub(super) fn find_file(&mut self, settings: &ExaminerSettings, path: &Path) -> Option<usize> {
        let bytes = files::map_program(path).ok()?;
        self.take_content(settings, path, bytes)
    }

    /// Adds the vDSO, which exists only in memory.
    pub(super) fn take_inline(
        &mut self,
        settings: &ExaminerSettings,
        bytes: &[u8],
    ) -> Option<usize> {
        if !self.inline.contains_key(bytes) {
            if self.inline.len() >= MAX_INLINE {
                return None;
            }
            let static_bytes: &'static [u8] = Box::leak(bytes.into());
            self.inline.insert(bytes.to_vec(), static_bytes);
        }
        self.take_content(settings, Path::new("[vdso]"), self.inline[bytes])
    }

    /// Finds the debug information of a program or library whose file is gone.
    pub(super) fn find_remains(
        &mut self,
        settings: &ExaminerSettings,
        layout: &Layout,
    ) -> Option<usize> {
        let id = layout.build_id.clone()?;
        if let Some(number) = self.by_identity.get(&id) {
            return *number;
        }
        let folders = debug_folders(settings);
        let debug_file = debug::find_debug_file(&folders, Path::new(""), None, Some(&id));
        let number = debug_file.map(|companion| {
            self.books.push(CachedFile {
                layout: layout.clone(),
                bytes: &[],
                cfi: None,
                symbols: Symbols::new(&folders, None, Some(companion)),
            });
            self.books.len() - 1
        });
        self.by_identity.insert(id, number);
        number
    }

    fn take_content(
        &mut self,
        settings: &ExaminerSettings,
        path: &Path,
        bytes: &'static [u8],
    ) -> Option<usize> {
        let key = bytes.as_ptr().addr();
        if let Some(number) = self.by_content.get(&key) {
            return Some(*number);
        }
        let elf = ElfObject::parse(bytes).ok()?;
        let layout = Layout::from_bytes(bytes)?;
        let folders = debug_folders(settings);
        let id = layout.build_id.as_deref();
        let companion = debug::find_debug_file(&folders, path, Some(&elf), id);
        self.books.push(CachedFile {
            cfi: Cfi::of_file(&elf, &layout, bytes),
            symbols: Symbols::new(&folders, Some(elf), companion),
            layout,
            bytes,
        });
        let number = self.books.len() - 1;
        self.by_content.insert(key, number);
        Some(number)
    }
}

/// Returns the folders of debug files; the folders of the program's system come first.
fn debug_folders(settings: &ExaminerSettings) -> Vec<PathBuf> {
    let dirs = || settings.debug_dirs.iter().map(Path::new);
    let inside = settings.root.iter().flat_map(|root| {
        dirs().map(move |dir| Path::new(root).join(dir.strip_prefix("/").unwrap_or(dir)))
    });
    inside.chain(dirs().map(Path::to_owned)).collect()
}

/// Formats the build id of a file.
pub(super) fn build_identity(layout: &Layout) -> Option<String> {
    layout.build_id.as_deref().map(encode_hex)
}
