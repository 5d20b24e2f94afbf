//! Plans the changes of a variant in its working directory.

use super::Variant;
use super::matrix::MatrixSubstitution;
use super::plan_error::{PlanError, refuse_at};
use crate::model::{EditPlan, FileChange, Text};
use std::path::{Component, Path};

/// Returns the changes of a variant in its working directory.
pub(super) fn variant_edits(
    variant: &Variant,
    at: &[&str],
    base: &Path,
    filling: &MatrixSubstitution<'_>,
) -> Result<Vec<EditPlan>, PlanError> {
    let mut edits = Vec::new();
    for (file, source) in &variant.files {
        let at = [at, &["files", file]].concat();
        let source = match source.to_str() {
            Some(text) => base.join(filling.fill_values(text)),
            None => base.join(source),
        };
        edits.push(EditPlan {
            file: path_inside(file, &at, filling)?,
            change: FileChange::Copy(source.into_os_string().into()),
        });
    }
    for (index, edit) in variant.edits.iter().enumerate() {
        let index = index.to_string();
        let place = |field| [at, &["edit", &index, field]].concat();
        let find = filling.fill_values(&edit.find);
        if find.is_empty() {
            return Err(refuse_at(
                "`find` is empty",
                &place("find"),
                "set `find` to the text to replace, exactly as it is in the file",
            ));
        }
        let Some(replace) = &edit.replace else {
            return Err(refuse_at(
                format!("there is no replacement for `{}`", edit.find),
                &place("replace"),
                "add `replace`; `\"\"` removes the text",
            ));
        };
        edits.push(EditPlan {
            file: path_inside(&edit.file, &place("file"), filling)?,
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
    at: &[&str],
    filling: &MatrixSubstitution<'_>,
) -> Result<Text, PlanError> {
    let file = filling.fill_values(file);
    let hint = "name a file in the working directory, such as `config.ini`: the variant gets a copy of that directory only";
    if file.is_empty() {
        return Err(refuse_at("the name of the file is empty", at, hint));
    }
    let mut steps = Path::new(&file).components();
    if !steps.all(|step| matches!(step, Component::Normal(_) | Component::CurDir)) {
        let what = format!("`{file}` is not in the working directory");
        return Err(refuse_at(what, at, hint));
    }
    Ok(file.into())
}
