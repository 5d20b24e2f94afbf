//! Finds the parts of source files, and the files, that a reduction can leave out.

use super::into_refusal;
use crate::model::{Item, ItemKind, Preparation, ReducedSource, Text, VariantChoices};
use crate::prepare;
use crate::scenario::{PlanError, SearchSources};
use crate::source::{self, PartSize};
use crate::untrusted::Untrusted as _;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Makes variants run in copies of a directory.
fn copies_of(field: &str, folder: &Path) -> Result<(PathBuf, Preparation), PlanError> {
    let root = fs::canonicalize(folder).map_err(|error| {
        let what = format!(
            "cannot open the working directory `{}`: {error}",
            folder.to_safe()
        );
        PlanError::of_field("cwd", what, "choose another directory with --cwd")
    })?;
    prepare::check_weight(&root)
        .map_err(into_refusal)
        .map_err(|refusal| PlanError {
            at: vec![field.to_owned()],
            ..refusal
        })?;
    let make = Preparation {
        folder: "".into(),
        copy: Some(root.as_path().into()),
        script: None,
        cwd: root.as_path().into(),
        artifacts: Vec::new(),
        shared: false,
    };
    Ok((root, make))
}

fn in_copies(
    root: PathBuf,
    make: Preparation,
    things: Vec<Item>,
    sources: Vec<ReducedSource>,
) -> SearchSources {
    SearchSources {
        sources,
        make: Some(make),
        moved: Some((root, "{made}".to_owned())),
        ..SearchSources::from(VariantChoices::Things(things))
    }
}

/// Returns the path of a file relative to the copied directory.
fn path_below(field: &str, root: &Path, file: &Path) -> Result<PathBuf, PlanError> {
    let real = fs::canonicalize(file).map_err(|error| {
        let what = format!("cannot read `{}`: {error}", file.to_safe());
        PlanError::of_field(field, what, "give the path of an existing file")
    })?;
    let inside = real.strip_prefix(root).map(Path::to_owned);
    inside.map_err(|_| {
        let what = format!("`{}` is not in `{}`", file.to_safe(), root.to_safe());
        PlanError::of_field(field, what, "run in a directory that contains it: provoke copies the working directory and never changes the file itself")
    })
}

/// Returns the pieces of files.
pub(super) fn of_sources(
    field: &str,
    files: &[PathBuf],
    grain: PartSize,
    base: &Path,
    folder: &Path,
) -> Result<SearchSources, PlanError> {
    let (root, make) = copies_of(field, folder)?;
    let (mut things, mut sources) = (Vec::new(), Vec::new());
    for (number, said) in (0..).zip(files) {
        let file = base.join(said);
        let inside = path_below(field, &root, &file)?;
        let known = |source: &ReducedSource| Path::new(source.file.as_os_str()) == inside;
        if sources.iter().any(known) {
            let what = format!("`{}` is given twice", said.to_safe());
            return Err(PlanError::of_field(field, what, "give each file once"));
        }
        let text = fs::read(&file).map_err(|error| {
            let what = format!("cannot read `{}`: {error}", file.to_safe());
            PlanError::of_field(field, what, "give the path of a readable file")
        })?;
        let pieces = source::find_pieces(&file, &text, grain).map_err(|fault| {
            let place = match &fault {
                source::SourceError::Syntax { line, column, .. } => {
                    format!("{}:{line}:{column}", said.to_safe())
                }
                _ => said.to_safe().into_string(),
            };
            PlanError::of_field(field, format!("{place}: {fault}"), fault.hint())
        })?;
        for (index, piece) in (0..).zip(&pieces.pieces) {
            let at = match files {
                [_] => format!("line {}", piece.line),
                _ => format!("{}:{}", said.to_safe(), piece.line),
            };
            things.push(Item {
                name: piece.text.clone(),
                at: Some(at),
                what: ItemKind::Piece(number, index),
            });
        }
        sources.push(ReducedSource {
            file: inside.as_path().into(),
            digest: Text::from(OsStr::from_bytes(&text)).content_digest(),
            pieces,
        });
    }
    Ok(in_copies(root, make, things, sources))
}

/// Returns the files of a directory.
pub(super) fn of_files(files: &Path, folder: &Path) -> Result<SearchSources, PlanError> {
    let (root, make) = copies_of("files", folder)?;
    let top = path_below("files", &root, files)?;
    let all = prepare::list_files(&root.join(&top)).map_err(into_refusal)?;
    let thing = |file: PathBuf| Item {
        name: file.to_string_lossy().into_owned(),
        at: None,
        what: ItemKind::File(Text::from(top.join(&file).as_path())),
    };
    Ok(in_copies(
        root,
        make,
        all.into_iter().map(thing).collect(),
        Vec::new(),
    ))
}
