//! Report in JSON.

use super::{ExportError, ExportOptions, Exporter, MaskedRun};
use provoke_words::untrusted::safe_json;
use serde_json::Value;
use std::io;

/// Field names that were replaced in version 0.2: the new name, the old name, and another field of the same object.
/// Both names are written until version 0.3.
pub(super) const OLD_NAMES: [(&str, &str, &str); 14] = [
    ("inconclusive", "void", "outcomes"),
    ("inconclusive_reasons", "void_reasons", "outcomes"),
    ("trials", "lives", "requests"),
    ("trials", "lives", "per_second"),
    ("trials", "lives", "served_before_death"),
    ("trials", "lives", "crashes"),
    ("watched_trials", "watched_lives", "requests"),
    ("trials_each", "lives_each", "tried"),
    ("items", "things", "needed"),
    ("items", "things", "without"),
    ("position", "place", "probability"),
    ("position", "place", "begins"),
    ("detectable", "could_see", "contrasts"),
    ("distinguishing_facts", "parted_by", "contrasts"),
];

/// The whole report as indented JSON; see [`super::Report`].
pub static JSON: Exporter = Exporter::new(
    "json",
    "Write the report as JSON to FILE [default: stdout]",
    write,
);

fn write(
    run: &MaskedRun<'_>,
    _: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let mut value = serde_json::to_value(run.report().get()).map_err(io::Error::from)?;
    add_old_names(&mut value);
    let json = serde_json::to_string_pretty(&value).map_err(io::Error::from)?;
    out.write_all(safe_json(&json).as_bytes())?;
    Ok(out.write_all(b"\n")?)
}

/// Adds the old names of replaced fields, at the end of their objects.
fn add_old_names(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_old_names),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_old_names);
            for (new_name, old, sibling) in OLD_NAMES {
                if fields.contains_key(sibling)
                    && let Some(value) = fields.get(new_name).cloned()
                {
                    fields.insert(old.to_owned(), value);
                }
            }
        }
        _ => {}
    }
}
