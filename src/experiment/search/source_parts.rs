//! Finds the parts of source files, and the files, that a reduction can leave out.

use provoke_model::{Item, ItemKind, Preparation, ReducedSource, Text, VariantChoices};
use provoke_plan::SearchSources;
use provoke_prepare as prepare;
use provoke_source as source;
use provoke_source::PartSize;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Makes variants run in copies of a directory.
fn copies_of(field: &str, folder: &Path) -> Result<(PathBuf, Preparation), Diagnostic> {
    let root = fs::canonicalize(folder).map_err(|error| {
        let message = format!(
            "cannot open the working directory `{}`: {error}",
            folder.to_safe()
        );
        Diagnostic::of_field("cwd", message, "choose another directory with --cwd")
    })?;
    prepare::check_weight(&root).map_err(|refusal| refusal.at(&[field]))?;
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
    items: Vec<Item>,
    sources: Vec<ReducedSource>,
) -> SearchSources {
    SearchSources {
        sources,
        make: Some(make),
        moved: Some((root, "{made}".to_owned())),
        ..SearchSources::from(VariantChoices::Items(items))
    }
}

/// Returns the path of a file relative to the copied directory.
fn path_below(field: &str, root: &Path, file: &Path) -> Result<PathBuf, Diagnostic> {
    let real = fs::canonicalize(file).map_err(|error| {
        let message = format!("cannot read `{}`: {error}", file.to_safe());
        Diagnostic::of_field(field, message, "give the path of an existing file")
    })?;
    let inside = real.strip_prefix(root).map(Path::to_owned);
    inside.map_err(|_| {
        let message = format!("`{}` is not in `{}`", file.to_safe(), root.to_safe());
        Diagnostic::of_field(field, message, "run in a directory that contains it: provoke copies the working directory and never changes the file itself")
    })
}

/// Returns the pieces of files.
pub(super) fn of_sources(
    field: &str,
    files: &[PathBuf],
    grain: PartSize,
    base: &Path,
    folder: &Path,
) -> Result<SearchSources, Diagnostic> {
    let (root, make) = copies_of(field, folder)?;
    let (mut items, mut sources) = (Vec::new(), Vec::new());
    for (number, said) in (0..).zip(files) {
        let file = base.join(said);
        let inside = path_below(field, &root, &file)?;
        let is_same_file = |source: &ReducedSource| Path::new(source.file.as_os_str()) == inside;
        if sources.iter().any(is_same_file) {
            let message = format!("`{}` is given twice", said.to_safe());
            return Err(Diagnostic::of_field(field, message, "give each file once"));
        }
        let text = fs::read(&file).map_err(|error| {
            let message = format!("cannot read `{}`: {error}", file.to_safe());
            Diagnostic::of_field(field, message, "give the path of a readable file")
        })?;
        let pieces = source::find_pieces(&file, &text, grain).map_err(|fault| {
            let location = match &fault {
                source::SourceError::Syntax { line, column, .. } => {
                    format!("{}:{line}:{column}", said.to_safe())
                }
                _ => said.to_safe().into_string(),
            };
            Diagnostic::of_field(field, format!("{location}: {fault}"), fault.hint())
        })?;
        for (index, part) in (0..).zip(&pieces.pieces) {
            let position_text = match files {
                [_] => format!("line {}", part.line),
                _ => format!("{}:{}", said.to_safe(), part.line),
            };
            items.push(Item {
                name: part.text.clone(),
                at: Some(position_text),
                what: ItemKind::Piece(number, index),
            });
        }
        sources.push(ReducedSource {
            file: inside.as_path().into(),
            digest: Text::from(OsStr::from_bytes(&text)).content_digest(),
            pieces,
        });
    }
    Ok(in_copies(root, make, items, sources))
}

/// Returns the files of a directory.
pub(super) fn of_files(files: &Path, folder: &Path) -> Result<SearchSources, Diagnostic> {
    let (root, make) = copies_of("files", folder)?;
    let top = path_below("files", &root, files)?;
    let paths = prepare::list_files(&root.join(&top))?;
    let item_of = |file: PathBuf| Item {
        name: file.to_string_lossy().into_owned(),
        at: None,
        what: ItemKind::File(Text::from(top.join(&file).as_path())),
    };
    Ok(in_copies(
        root,
        make,
        paths.into_iter().map(item_of).collect(),
        Vec::new(),
    ))
}
