//! Makes what a variant needs before its trials.
//!
//! A variant that has files of its working folder otherwise runs in a copy of that folder; the
//! user's own files are never touched. The copies are made before the first line of the journal
//! is written, and the plan in it names them: whoever resumes the run or replays a trial of it
//! needs to know nothing else.

mod tree;

use crate::model::{Change, Edit, Plan, Role, Text, VariantPlan};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use tree::{Tree, Weight};

/// Files that all copies together may hold.
const MOST_FILES: u64 = 100_000;
/// Bytes that all copies together may hold.
const MOST_BYTES: u64 = 4 << 30;

/// Why a variant cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    /// What is asked for cannot be done.
    #[error("{what}")]
    Refused {
        /// What is wrong.
        what: String,
        /// The way out.
        hint: String,
    },
    /// The machine did not do it.
    #[error("cannot copy `{}`", path.display())]
    Io {
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Unready {
    /// Returns the way out, where there is one.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused { hint, .. } => Some(hint),
            Self::Io { .. } => None,
        }
    }
}

fn refuse(what: String, hint: &str) -> Unready {
    let hint = hint.to_owned();
    Unready::Refused { what, hint }
}

/// Checks that every variant can be made, as far as that can be known without making it. What
/// lies in a folder `apart` is not copied.
pub fn check(plan: &Plan, apart: &[&Path]) -> Result<(), Unready> {
    let mut copies: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for variant in edited(plan) {
        let root = root(variant)?;
        contents(&root, variant)?;
        *copies.entry(root).or_default() += 1;
    }
    let mut all = Weight::default();
    for (root, count) in copies {
        let left = Weight {
            files: (MOST_FILES - all.files) / count,
            bytes: (MOST_BYTES - all.bytes) / count,
        };
        match Tree::new(&root, apart).weigh(left)? {
            Some(one) => {
                all.files += one.files * count;
                all.bytes += one.bytes * count;
            }
            None => {
                let copies = if count == 1 { "a copy" } else { "copies" };
                return Err(refuse(
                    format!(
                        "{copies} of `{}`, one for each variant that changes files, would hold more than 100,000 files or 4 GiB",
                        root.display()
                    ),
                    "set `cwd` to a smaller folder: only the working folder is copied",
                ));
            }
        }
    }
    Ok(())
}

/// Makes a copy of its working folder for each variant that has files otherwise, below `folder`,
/// and lets the variant run there.
pub fn make(plan: &mut Plan, folder: &Path, apart: &[&Path]) -> Result<(), Unready> {
    let before = plan.variants.first().and_then(|first| first.actors.first());
    let before = before.map(|actor| actor.cwd.clone());
    for (index, variant) in plan.variants.iter_mut().enumerate() {
        if variant.edits.is_empty() {
            continue;
        }
        let root = root(variant)?;
        let contents = contents(&root, variant)?;
        let copy = folder.join(index.to_string());
        Tree::new(&root, apart).copy(&copy)?;
        for (file, content) in contents {
            let path = place(&copy, &file, variant)?;
            tree::replace(&path, &content).map_err(|source| Unready::Io { path, source })?;
        }
        move_to(variant, &root, &copy);
    }
    let now = plan.variants.first().and_then(|first| first.actors.first());
    // What is run for all runs in no variant's copy.
    if now.map(|actor| &actor.cwd) != before.as_ref() {
        plan.hooks.cwd = before;
    }
    Ok(())
}

fn edited(plan: &Plan) -> impl Iterator<Item = &VariantPlan> {
    let variants = plan.variants.iter();
    variants.filter(|variant| !variant.edits.is_empty())
}

/// Returns the folder that is copied: that in which the main process runs.
fn root(variant: &VariantPlan) -> Result<PathBuf, Unready> {
    let main = variant.actors.iter().find(|actor| actor.role == Role::Main);
    let cwd = main.map_or_else(|| ".".into(), |main| main.cwd.clone());
    fs::canonicalize(cwd.as_os_str())
        .and_then(|root| fs::read_dir(&root).map(|_| root))
        .map_err(|error| {
            refuse(
                format!(
                    "the working folder `{cwd}` of the variant `{}` cannot be copied: {error}",
                    variant.name
                ),
                "a variant with `files` or `edit` runs in a copy of its `cwd`, which is made before any command is run",
            )
        })
}

/// Returns the files that a variant has otherwise, with what is in them.
fn contents(root: &Path, variant: &VariantPlan) -> Result<BTreeMap<PathBuf, Vec<u8>>, Unready> {
    let mut contents: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    for Edit { file, change } in &variant.edits {
        let name = Path::new(file.as_os_str());
        let steps = name.components();
        let plain: PathBuf = steps.filter(|step| *step != Component::CurDir).collect();
        let path = place(root, &plain, variant)?;
        let of = |what: String| format!("the variant `{}`: {what}", variant.name);
        let there = fs::metadata(&path).is_ok_and(|about| about.is_file());
        if !there {
            return Err(refuse(
                of(format!("there is no file `{file}` in `{}`", root.display())),
                "`files` and `edit` name files that are there, from the working folder",
            ));
        }
        let content = match change {
            Change::Copy(source) => fs::read(source.as_os_str()).map_err(|error| {
                refuse(
                    of(format!("cannot read `{source}`: {error}")),
                    "`files = { \"FILE\" = \"OTHER\" }`: the contents of OTHER, a path from the folder of the scenario file, take the place of those of FILE",
                )
            })?,
            Change::Replace { find, with } => {
                let text = match contents.get(&plain) {
                    Some(text) => text.clone(),
                    None => fs::read(&path).map_err(|source| Unready::Io { path, source })?,
                };
                replaced(&text, find.as_bytes(), with.as_bytes()).ok_or_else(|| {
                    refuse(
                        of(format!("`{file}` does not hold the text `{find}`")),
                        "`find` is taken letter by letter: look at spaces, quotes and ends of lines",
                    )
                })?
            }
        };
        contents.insert(plain, content);
    }
    Ok(contents)
}

/// Returns the path of a file below a folder. No symbolic link on the way may lead out of the
/// folder: what is written there would be somebody else's.
fn place(root: &Path, file: &Path, variant: &VariantPlan) -> Result<PathBuf, Unready> {
    let path = root.join(file);
    let folder = path.parent().unwrap_or(root);
    let root = fs::canonicalize(root);
    match fs::canonicalize(folder) {
        Ok(folder) if root.is_ok_and(|root| !folder.starts_with(root)) => Err(refuse(
            format!(
                "the variant `{}`: `{}` lies behind a symbolic link that leads out of the working folder",
                variant.name,
                file.display()
            ),
            "name the file itself, with `cwd` set to the folder that it is in",
        )),
        _ => Ok(path),
    }
}

/// Lets a variant run in the copy wherever it ran in the folder.
fn move_to(variant: &mut VariantPlan, root: &Path, copy: &Path) {
    let moved = |path: &Path| {
        let inside = path.strip_prefix(root).ok()?;
        // Without a slash at its end.
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
        let input = actor.stdin.as_ref().map(|file| Path::new(file.as_os_str()));
        let input = input.and_then(|file| {
            let folder = fs::canonicalize(file.parent()?).ok()?;
            moved(&folder.join(file.file_name()?))
        });
        actor.stdin = input.or(actor.stdin.take());
    }
}

/// Returns a text with every occurrence of a piece replaced; nothing when there is none.
fn replaced(text: &[u8], find: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let next = |rest: &[u8]| {
        rest.windows(find.len().max(1))
            .position(|here| here == find)
    };
    next(rest)?;
    while let Some(at) = next(rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + find.len()..];
    }
    out.extend_from_slice(rest);
    Some(out)
}

#[cfg(test)]
mod tests;
