//! Prepares variants before their trials.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests show names that they made")
)]

mod artifact;
mod git;
mod reduced;
mod tree;
mod variant_folders;

pub use artifact::fingerprint_artifacts;
pub use git::{
    Commit, CommitHistory, commit_line, has_file, merged_ranges, order_commits, work_tree,
};
pub use reduced::{ReducedFile, reduced_files};
pub use variant_folders::{FolderGuard, FolderStage, ReservedFolder, VariantPreparer, is_complete};

use provoke_model::{
    EditPlan, FileChange, ReducedSource, SearchSpace, Text, TrialsPlan, VariantPlan,
};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};
use tree::{FileTree, TreeSize};

/// Maximum number of files in all copies together.
const MAX_FILES: u64 = 100_000;
/// Maximum size in bytes of all copies together.
const MAX_BYTES: u64 = 4 << 30;
/// Limits of a directory that is copied many times without being asked.
const FEW_FILES: u64 = 5_000;
const FEW_BYTES: u64 = 100 << 20;

/// A variant with changed files, and its position in the scenario.
struct EditedVariant<'a> {
    plan: &'a VariantPlan,
    position: Vec<String>,
}

impl<'a> EditedVariant<'a> {
    fn new(plan: &'a TrialsPlan, index: usize) -> Self {
        let variant = &plan.variants[index];
        // In a plain list its position is the same; with a matrix, the first level is the position.
        let listed = variant
            .levels
            .first()
            .map_or(index, |level| *level as usize);
        Self {
            plan: variant,
            position: vec!["variant".to_owned(), listed.to_string()],
        }
    }

    /// Returns all such variants of a plan.
    fn all_of_plan(plan: &'a TrialsPlan) -> impl Iterator<Item = (usize, Self)> {
        let variants = plan.variants.iter().enumerate();
        let edited = variants.filter(|(_, variant)| !variant.edits.is_empty());
        edited.map(|(index, _)| (index, Self::new(plan, index)))
    }

    fn refuse_variant(&self, problem: &str, position: &[&str], hint: &str) -> Diagnostic {
        let message = format!("the variant `{}`: {problem}", self.plan.name);
        let inner_position = position.iter().map(ToString::to_string);
        let full_position = self.position.iter().cloned().chain(inner_position);
        Diagnostic {
            position: full_position.collect(),
            ..Diagnostic::usage(message).with_hint(hint)
        }
    }

    /// Returns the directory to copy: the working directory of the main process.
    fn copied_root(&self) -> Result<PathBuf, Diagnostic> {
        let mut actors = self.plan.actors.iter();
        let main = actors.find(|actor| actor.role.decides_outcome());
        let cwd = main.map_or_else(|| ".".into(), |main| main.cwd.clone());
        fs::canonicalize(cwd.as_os_str())
            .and_then(|root| fs::read_dir(&root).map(|_| root))
            .map_err(|error| {
                self.refuse_variant(
                    &format!("cannot copy its working directory `{cwd}`: {error}"),
                    &["cwd"],
                    "a variant with `files` or `edit` runs in a copy of its `cwd`, created before any command runs",
                )
            })
    }

    /// Returns the changed files with their contents.
    fn new_contents(&self, root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, Diagnostic> {
        let mut contents: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let mut edits = 0;
        for EditPlan { file, change } in &self.plan.edits {
            let steps = Path::new(file.as_os_str()).components();
            let plain: PathBuf = steps.filter(|step| *step != Component::CurDir).collect();
            let (name, index) = (file.to_string(), edits.to_string());
            let position = match change {
                FileChange::Copy(_) => ["files", &name].to_vec(),
                FileChange::Replace { .. } => {
                    edits += 1;
                    ["edit", &index, "file"].to_vec()
                }
                FileChange::LeaveOut { .. } | FileChange::Remove => Vec::new(),
            };
            let path = self.path_below(root, &plain, &position)?;
            if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
                return Err(self.refuse_variant(
                    &format!("there is no file `{file}` in `{}`", root.to_safe()),
                    &position,
                    "`files` and `edit` name existing files, relative to the working directory",
                ));
            }
            let content = match change {
                FileChange::Copy(source) => fs::read(source.as_os_str()).map_err(|error| {
                    self.refuse_variant(
                        &format!("cannot read `{source}`: {error}"),
                        &position,
                        "`files` replaces the first file by the second, a path relative to the scenario file",
                    )
                })?,
                FileChange::Replace { find, with } => {
                    let text = match contents.get(&plain) {
                        Some(text) => text.clone(),
                        None => fs::read(&path).map_err(io_error_at(&path))?,
                    };
                    replace_all(&text, find.as_bytes(), with.as_bytes()).ok_or_else(|| {
                        self.refuse_variant(
                            &format!("`{file}` does not contain the text `{find}`"),
                            &["edit", &index, "find"],
                            "`find` must match exactly: check spaces, quotes and line ends",
                        )
                    })?
                }
                // Only a search leaves parts out.
                FileChange::LeaveOut { .. } | FileChange::Remove => continue,
            };
            contents.insert(plain, content);
        }
        Ok(contents)
    }

    /// Returns the path of a file below a directory. No symlink on the way may lead out of the directory, because
    /// provoke would then write to a file outside of the copy.
    fn path_below(
        &self,
        root: &Path,
        file: &Path,
        position: &[&str],
    ) -> Result<PathBuf, Diagnostic> {
        let path = root.join(file);
        let folder = path.parent().unwrap_or(root);
        let root = fs::canonicalize(root);
        match fs::canonicalize(folder) {
            Ok(folder) if root.is_ok_and(|root| !folder.starts_with(root)) => Err(self
                .refuse_variant(
                    &format!(
                        "`{}` is reached through a symlink that leaves the working directory",
                        file.to_safe()
                    ),
                    position,
                    "name the file itself, and set `cwd` to its directory",
                )),
            _ => Ok(path),
        }
    }
}

/// Checks as far as possible that every variant can be prepared, without preparing it. Files in the directories `apart`
/// are not copied.
pub fn check_plan(plan: &TrialsPlan, apart: &[&Path]) -> Result<(), Diagnostic> {
    let mut copies: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for (_, variant) in EditedVariant::all_of_plan(plan) {
        let root = variant.copied_root()?;
        variant.new_contents(&root)?;
        *copies.entry(root).or_default() += 1;
    }
    let mut total = TreeSize::default();
    for (root, count) in copies {
        let size_left = TreeSize {
            files: (MAX_FILES - total.files) / count,
            bytes: (MAX_BYTES - total.bytes) / count,
        };
        match FileTree::new(&root, apart).weigh_up_to(size_left)? {
            Some(size) => {
                total.files += size.files * count;
                total.bytes += size.bytes * count;
            }
            None => {
                let root = root.to_safe();
                let copies = match count {
                    1 => format!("a copy of `{root}`"),
                    count => format!(
                        "{count} copies of `{root}`, one for each variant that changes files,"
                    ),
                };
                return Err(refuse_at(
                    format!("{copies} would have more than 100,000 files or 4 GiB"),
                    &["cwd"],
                    "set `cwd` to a smaller directory: only the working directory is copied",
                ));
            }
        }
    }
    Ok(())
}

/// Copies a directory, except for the directories of runs and for others, if it is not too large.
pub fn copy_directory(root: &Path, target: &Path, except: &[&Path]) -> Result<(), Diagnostic> {
    check_weight(root)?;
    FileTree::new(root, except).copy_to(target)
}

/// Refuses a directory that is too large to be copied.
pub fn check_weight(root: &Path) -> Result<(), Diagnostic> {
    let max_size = TreeSize {
        files: MAX_FILES,
        bytes: MAX_BYTES,
    };
    if FileTree::new(root, &[]).weigh_up_to(max_size)?.is_some() {
        return Ok(());
    }
    let message = format!("`{}` has more than 100,000 files or 4 GiB", root.to_safe());
    let hint = "set `cwd` to a smaller directory: variants run in copies of it";
    Err(refuse_at(message, &["cwd"], hint))
}

/// Returns whether it takes little time to copy a directory many times.
pub fn is_small(root: &Path) -> bool {
    let max_size = TreeSize {
        files: FEW_FILES,
        bytes: FEW_BYTES,
    };
    let size = FileTree::new(root, &[]).weigh_up_to(max_size);
    size.is_ok_and(|size| size.is_some())
}

/// Returns the files below a directory, by their relative paths, sorted.
pub fn list_files(folder: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut files = FileTree::new(folder, &[]).list_files()?;
    files.sort();
    Ok(files)
}

/// Copies the working directory for each variant with changed files, below `folder`, and lets the variant run there.
pub fn make_variants(
    plan: &mut TrialsPlan,
    folder: &Path,
    apart: &[&Path],
) -> Result<(), Diagnostic> {
    if let Some(space) = &mut plan.space {
        return place_search_folders(space, &mut plan.variants, folder);
    }
    let cwd_before = plan
        .variants
        .first()
        .and_then(|first| first.actors.first())
        .map(|actor| actor.cwd.clone());
    let copies = make_copies(plan, folder, apart).inspect_err(|_| {
        // An incomplete copy is useless, and may be what fills the disk.
        let _ = fs::remove_dir_all(folder);
    })?;
    for (index, root, copy) in copies {
        move_to(&mut plan.variants[index], &root, &copy);
    }
    let first_actor = plan.variants.first().and_then(|first| first.actors.first());
    // The hooks for all variants do not run in the copy of one variant.
    if first_actor.map(|actor| &actor.cwd) != cwd_before.as_ref() {
        plan.hooks.cwd = cwd_before;
    }
    Ok(())
}

/// Sets where the variants of a search are prepared.
fn place_search_folders(
    space: &mut SearchSpace,
    variants: &mut Vec<VariantPlan>,
    folder: &Path,
) -> Result<(), Diagnostic> {
    if let Some(make) = &mut space.template.make {
        let folder = if make.shared {
            variant_folders::cache_folder()
        } else {
            folder.to_owned()
        };
        fs::create_dir_all(&folder).map_err(io_error_at(&folder))?;
        make.folder = folder.as_path().into();
    }
    if let Some(root) = &space.repository {
        git::make_repository(Path::new(root.as_os_str()), folder)?;
    }
    *variants = vec![space.variant_of_choice(&space.first_choice())];
    Ok(())
}

fn io_error_at(path: &Path) -> impl FnOnce(io::Error) -> Diagnostic {
    let path = path.to_owned();
    move |error| {
        Diagnostic::could_not(format!("cannot make `{}`", path.to_safe()))
            .because(error)
            .with_hint("check free space and permissions; `cwd` sets the directory to copy, PROVOKE_HOME the place of copies, XDG_CACHE_HOME the place of environments")
    }
}

/// Creates the copies; returns the variant, the original and the path of each.
fn make_copies(
    plan: &TrialsPlan,
    folder: &Path,
    apart: &[&Path],
) -> Result<Vec<(usize, PathBuf, PathBuf)>, Diagnostic> {
    let mut copies = Vec::new();
    for (index, variant) in EditedVariant::all_of_plan(plan) {
        let root = variant.copied_root()?;
        let contents = variant.new_contents(&root)?;
        let copy = folder.join(index.to_string());
        FileTree::new(&root, apart).copy_to(&copy)?;
        for (file, content) in contents {
            let path = variant.path_below(&copy, &file, &[])?;
            tree::replace_file(&path, &content).map_err(io_error_at(&path))?;
        }
        copies.push((index, root, copy));
    }
    Ok(copies)
}

/// Makes a variant run in the copy instead of in the original directory.
fn move_to(variant: &mut VariantPlan, root: &Path, copy: &Path) {
    let moved = |path: &Path| {
        let inside = path.strip_prefix(root).ok()?;
        // Without a trailing slash.
        Some(Text::from(
            copy.components()
                .chain(inside.components())
                .collect::<PathBuf>(),
        ))
    };
    for actor in &mut variant.actors {
        let cwd = fs::canonicalize(actor.cwd.as_os_str()).ok();
        if let Some(cwd) = cwd.and_then(|cwd| moved(&cwd)) {
            actor.cwd = cwd;
        }
        let input = actor
            .stdin
            .as_ref()
            .map(|file| Path::new(file.as_os_str()))
            .and_then(|file| {
                let folder = fs::canonicalize(file.parent()?).ok()?;
                moved(&folder.join(file.file_name()?))
            });
        actor.stdin = input.or(actor.stdin.take());
    }
}

/// Returns the contents of a file after a change; `None` if it is removed.
fn apply_change(
    text: &[u8],
    change: &FileChange,
    sources: &[ReducedSource],
) -> Result<Option<Vec<u8>>, Diagnostic> {
    Ok(match change {
        FileChange::Copy(source) => {
            let path = PathBuf::from(source.as_os_str());
            Some(fs::read(&path).map_err(io_error_at(&path))?)
        }
        FileChange::Replace { find, with } => {
            let replaced = replace_all(text, find.as_bytes(), with.as_bytes());
            Some(replaced.unwrap_or_else(|| text.to_owned()))
        }
        FileChange::LeaveOut { source, pieces } => match sources.get(*source as usize) {
            Some(source) => Some(reduced::without_pieces(text, source, pieces)?),
            None => Some(text.to_owned()),
        },
        FileChange::Remove => None,
    })
}

/// Returns a text with every occurrence of `find` replaced; `None` if there is none.
fn replace_all(text: &[u8], find: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    let next = |rest: &[u8]| {
        rest.windows(find.len().max(1))
            .position(|window| window == find)
    };
    next(rest)?;
    while let Some(position) = next(rest) {
        replaced.extend_from_slice(&rest[..position]);
        replaced.extend_from_slice(with);
        rest = &rest[position + find.len()..];
    }
    replaced.extend_from_slice(rest);
    Some(replaced)
}

#[cfg(test)]
mod tests;
