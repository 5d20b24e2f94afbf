//! Plans the changes of a variant in its working directory.

use super::Variant;
use super::matrix::MatrixSubstitution;
use provoke_model::{EditPlan, FileChange, Text};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use std::path::{Component, Path};

/// Returns the changes of a variant in its working directory.
pub(super) fn variant_edits(
    variant: &Variant,
    position: &[&str],
    base: &Path,
    filling: &MatrixSubstitution<'_>,
) -> Result<Vec<EditPlan>, Diagnostic> {
    let mut edits = Vec::new();
    for (file, source) in &variant.files {
        let file_position = [position, &["files", file]].concat();
        let source = match source.to_str() {
            Some(text) => base.join(filling.fill_values(text)),
            None => base.join(source),
        };
        edits.push(EditPlan {
            file: path_inside(file, &file_position, filling)?,
            change: FileChange::Copy(source.into_os_string().into()),
        });
    }
    for (index, edit) in variant.edits.iter().enumerate() {
        let index = index.to_string();
        let field_position = |field| [position, &["edit", &index, field]].concat();
        let find = filling.fill_values(&edit.find);
        if find.is_empty() {
            return Err(refuse_at(
                "`find` is empty",
                &field_position("find"),
                "set `find` to the text to replace, exactly as it is in the file",
            ));
        }
        let Some(replace) = &edit.replace else {
            return Err(refuse_at(
                format!("there is no replacement for `{}`", edit.find),
                &field_position("replace"),
                "add `replace`; `\"\"` removes the text",
            ));
        };
        edits.push(EditPlan {
            file: path_inside(&edit.file, &field_position("file"), filling)?,
            change: FileChange::Replace {
                find,
                with: filling.fill_values(replace),
            },
        });
    }
    Ok(edits)
}

/// Returns the path of a file in the working directory; other files are not copied.
fn path_inside(
    file: &str,
    position: &[&str],
    filling: &MatrixSubstitution<'_>,
) -> Result<Text, Diagnostic> {
    let file = filling.fill_values(file);
    let hint = "name a file in the working directory, such as `config.ini`: the variant gets a copy of that directory only";
    if file.is_empty() {
        return Err(refuse_at("the name of the file is empty", position, hint));
    }
    let mut steps = Path::new(&file).components();
    if !steps.all(|step| matches!(step, Component::Normal(_) | Component::CurDir)) {
        let message = format!("`{file}` is not in the working directory");
        return Err(refuse_at(message, position, hint));
    }
    Ok(file.into())
}
