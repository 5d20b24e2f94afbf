//! Writes files without the parts that a search left out.

use super::{io_error_at, tree};
use provoke_model::{EditPlan, FileChange, ReducedSource, SearchSpace, Text, VariantPlan};
use provoke_words::diagnostic::Diagnostic;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Returns the text of a source without some of its pieces.
pub(super) fn without_pieces(
    text: &[u8],
    source: &ReducedSource,
    pieces: &[u32],
) -> Result<Vec<u8>, Diagnostic> {
    if Text::from(OsStr::from_bytes(text)).content_digest() != source.digest {
        let message = format!("`{}` has changed since the search began", source.file);
        let hint = "start a new search: the result does not apply to the changed file";
        return Err(Diagnostic::usage(message).with_hint(hint));
    }
    let removed: BTreeSet<usize> = pieces.iter().map(|part| *part as usize).collect();
    Ok(provoke_source::keep_only(text, &source.pieces, &|part| {
        !removed.contains(&part)
    }))
}

/// A file before and after a search left out parts of it.
#[derive(Debug)]
pub struct ReducedFile {
    /// The user's own file.
    pub path: PathBuf,
    /// The patch that removes these parts.
    pub patch: Vec<u8>,
    new_content: Vec<u8>,
}

impl ReducedFile {
    /// Writes the reduced file.
    pub fn write_file(&self) -> Result<(), Diagnostic> {
        tree::replace_file(&self.path, &self.new_content).map_err(io_error_at(&self.path))
    }
}

/// Returns the files that a variant changes.
pub fn reduced_files(
    space: &SearchSpace,
    variant: &VariantPlan,
) -> Result<Vec<ReducedFile>, Diagnostic> {
    let root = variant.make.as_ref().and_then(|make| make.copy.as_ref());
    let Some(root) = root else {
        return Ok(Vec::new());
    };
    let mut files = Vec::new();
    for EditPlan { file, change } in &variant.edits {
        if let FileChange::LeaveOut { source, pieces } = change
            && let Some(source) = space.sources.get(*source as usize)
        {
            let path = Path::new(root.as_os_str()).join(file.as_os_str());
            let old = fs::read(&path).map_err(io_error_at(&path))?;
            let reduced = without_pieces(&old, source, pieces)?;
            let patch = provoke_source::unified_diff(&file.to_string(), &old, &reduced);
            files.push(ReducedFile {
                path,
                patch,
                new_content: reduced,
            });
        }
    }
    Ok(files)
}
