//! Compares two environments: packages as `pip freeze` prints them, or variables as `env` does.

use super::refuse_with_hint;
use super::requirements::{self, LinePosition, RequirementRole};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::path::Path;

/// Type of the elements of an environment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Python packages.
    Packages,
    /// Environment variables.
    Variables,
}

/// A difference between two environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryDifference {
    /// Name of the package or variable.
    pub name: String,
    /// Value in the first environment, if present: the lines of a package, or the value of a
    /// variable.
    pub old_value: Option<String>,
    /// Value in the second environment, if present.
    pub new_value: Option<String>,
}

/// Comparison of two environments, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentComparison {
    /// Type of the compared elements.
    pub kind: EntryKind,
    /// Elements that are equal in both: name and value.
    pub common: Vec<(String, String)>,
    /// Elements that differ.
    pub differences: Vec<EntryDifference>,
}

/// Elements of an environment, by name.
pub type EnvironmentEntries = BTreeMap<String, String>;

/// Compares two files of the same type.
pub fn compare_files(
    old_file: &Path,
    new_file: &Path,
) -> Result<EnvironmentComparison, Diagnostic> {
    let ((kind, old), (new_kind, new_parts)) = (read_parts(old_file)?, read_parts(new_file)?);
    if kind != new_kind {
        let kind_name = |kind| match kind {
            EntryKind::Packages => "packages",
            EntryKind::Variables => "variables",
        };
        return refuse_with_hint(
            format!(
                "`{}` lists {}, `{}` lists {}",
                old_file.to_safe(),
                kind_name(kind),
                new_file.to_safe(),
                kind_name(new_kind)
            ),
            "give two files of `pip freeze`, or two files of `env -0`",
        );
    }
    Ok(compare_parts(kind, old, new_parts))
}

/// Compares the elements of two environments by name.
pub fn compare_parts(
    kind: EntryKind,
    mut old: EnvironmentEntries,
    new_entries: EnvironmentEntries,
) -> EnvironmentComparison {
    let (mut common, mut differences) = (Vec::new(), Vec::new());
    for (name, new_value) in new_entries {
        match old.remove(&name) {
            Some(old_value) if is_same(kind, &old_value, &new_value) => {
                common.push((name, new_value));
            }
            old_value => differences.push(EntryDifference {
                name,
                old_value,
                new_value: Some(new_value),
            }),
        }
    }
    differences.extend(old.into_iter().map(|(name, old_value)| EntryDifference {
        name,
        old_value: Some(old_value),
        new_value: None,
    }));
    differences.sort_by(|a, b| a.name.cmp(&b.name));
    EnvironmentComparison {
        kind,
        common,
        differences,
    }
}

/// Returns whether two texts have the same meaning, ignoring differences in spelling.
fn is_same(kind: EntryKind, old_value: &str, new_value: &str) -> bool {
    match kind {
        EntryKind::Packages => old_value
            .lines()
            .map(requirements::normalize_line)
            .eq(new_value.lines().map(requirements::normalize_line)),
        EntryKind::Variables => old_value == new_value,
    }
}

fn read_parts(path: &Path) -> Result<(EntryKind, EnvironmentEntries), Diagnostic> {
    let text = requirements::decode_text(path, requirements::read_bytes(path)?)?;
    let blank = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let first = text.lines().find(|line| !blank(line));
    let is_env = text.contains('\0') || first.is_some_and(|line| parse_variable(line).is_some());
    if is_env {
        return Ok((EntryKind::Variables, parse_variables(path, &text)?));
    }
    let mut entries = EnvironmentEntries::new();
    for line in requirements::read_requirements(path, Path::new("."), false)? {
        // A constraint does not install a package.
        if line.role == RequirementRole::Constraint {
            continue;
        }
        let text = line.text;
        // A package may have one line per platform.
        entries
            .entry(line.name)
            .and_modify(|lines| {
                if !lines.split('\n').any(|line| line == text) {
                    *lines = format!("{lines}\n{text}");
                }
            })
            .or_insert(text);
    }
    Ok((EntryKind::Packages, entries))
}

/// Returns name and value of the variable in a line.
///
/// Shells also export functions as variables, whose names end with `%%`.
fn parse_variable(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let plain = name.strip_suffix("%%").unwrap_or(name);
    let may = |sign: char| sign.is_ascii_alphanumeric() || "_.-".contains(sign);
    let named = plain.starts_with(|sign: char| sign.is_ascii_alphabetic() || sign == '_')
        && plain.chars().all(may);
    (named && !is_version(value)).then_some((name, value))
}

/// Returns whether a value is the rest of `name==1.0`.
fn is_version(value: &str) -> bool {
    let version = value.strip_prefix('=').map(str::trim_start);
    version.is_some_and(|version| version.starts_with(|sign: char| sign.is_ascii_digit()))
}

fn parse_variables(path: &Path, text: &str) -> Result<EnvironmentEntries, Diagnostic> {
    let fault = |line: usize, text: &str, problem: &str| {
        let hint = "write NAME=value per line; use `env -0` for values with several lines";
        LinePosition { path, line, text }.line_fault(1, problem, hint)
    };
    let mut entries = EnvironmentEntries::new();
    if text.contains('\0') {
        let mut line = 1;
        for entry in text.split('\0').filter(|entry| !entry.trim().is_empty()) {
            let set = entry.split_once('=').filter(|(name, _)| !name.is_empty());
            let Some((name, value)) = set else {
                let text = entry.lines().next().unwrap_or_default();
                return Err(fault(line, text, "this is not NAME=value"));
            };
            entries.insert(name.to_owned(), value.to_owned());
            line += entry.matches('\n').count();
        }
        return Ok(entries);
    }
    let mut last: Option<&mut String> = None;
    for (index, line) in text.lines().enumerate() {
        match (parse_variable(line), &mut last) {
            (Some((name, value)), _) => {
                let slot = entries.entry(name.to_owned()).or_default();
                value.clone_into(slot);
                last = Some(slot);
            }
            (None, _)
                if line
                    .split_once('=')
                    .is_some_and(|(_, rest)| is_version(rest)) =>
            {
                return Err(fault(index + 1, line, "a package among variables"));
            }
            (None, Some(value)) => {
                value.push('\n');
                value.push_str(line);
            }
            // Skip comments and empty lines before the first variable.
            (None, None) => {}
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn compare_texts(from: &str, to: &str) -> Result<EnvironmentComparison, String> {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        fs::write(&old, from).unwrap();
        fs::write(&new, to).unwrap();
        let shown = |fault: Diagnostic| {
            fault
                .to_string()
                .replace(&format!("{}/", folder.path().display()), "")
        };
        compare_files(&old, &new).map_err(shown)
    }

    fn shown(comparison: &EnvironmentComparison) -> Vec<String> {
        let show = |difference: &EntryDifference| {
            let [from, to] = [&difference.old_value, &difference.new_value]
                .map(|side| side.as_deref().unwrap_or("-"));
            format!("{}: {from} > {to}", difference.name)
        };
        comparison.differences.iter().map(show).collect()
    }

    #[test]
    fn packages_are_compared_by_normalized_names() {
        let from = "# old\nSix==1.15.0\nnumpy==1.0\nZope.Interface == 5\ngone==1\n\
            x==1; python_version<'3'\nx==2; python_version>='3'\n";
        let to = "zope_interface==5\nsix==1.16.0\nnumpy==1.0\nnew @ file:///w/new.whl\n\
            x==1; python_version<'3'\nx==2; python_version>='3'\n";
        let comparison = compare_texts(from, to).unwrap();
        assert_eq!(comparison.kind, EntryKind::Packages);
        let names: Vec<_> = comparison
            .common
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["numpy", "x", "zope-interface"]);
        let expected = [
            "gone: gone==1 > -",
            "new: - > new @ file:///w/new.whl",
            "six: Six==1.15.0 > six==1.16.0",
        ];
        assert_eq!(shown(&comparison), expected);
    }

    #[test]
    fn variables_with_values_of_several_lines_are_compared() {
        let from = "A=1\nBASH_FUNC_x%%=() {  echo\n}\nC=\nD=x=y\n";
        let comparison =
            compare_texts(from, "BASH_FUNC_x%%=() {  echo\n}\nA=2\nD=x=y\nE=5\n").unwrap();
        assert_eq!(comparison.kind, EntryKind::Variables);
        assert_eq!(shown(&comparison), ["A: 1 > 2", "C:  > -", "E: - > 5"]);
        let common = ("BASH_FUNC_x%%".to_owned(), "() {  echo\n}".to_owned());
        assert_eq!(
            comparison.common,
            [common, ("D".to_owned(), "x=y".to_owned())]
        );
        let comparison = compare_texts("A=1\nB=2\0C=3\0", "A=1\nB=3\0C=3\0").unwrap();
        assert_eq!(shown(&comparison), ["A: 1\nB=2 > 1\nB=3"]);
    }

    #[test]
    fn files_that_mix_packages_and_variables_are_refused() {
        let fault = compare_texts("A=1\nsix==1.16\n", "A=1\n").unwrap_err();
        assert_eq!(fault, "old:2:1: a package among variables: `six==1.16`");
        let fault = compare_texts("six==1.16\nA=1\n", "A=1\n").unwrap_err();
        assert_eq!(fault, "old:2:2: a requirement needs `==`, not `=`: `A=1`");
        let fault = compare_texts("six==1.16\n", "A=1\n").unwrap_err();
        assert_eq!(fault, "`old` lists packages, `new` lists variables");
        let fault = compare_texts("A=1\0nothing\0", "A=1\n").unwrap_err();
        assert_eq!(fault, "old:1:1: this is not NAME=value: `nothing`");
        assert!(compare_texts("six==1\n\u{0}", "six==1\n").is_err());
    }

    #[test]
    fn equal_files_have_no_differences_and_an_empty_file_has_no_packages() {
        assert!(
            compare_texts("six==1\n", "six==1  # x\n")
                .unwrap()
                .differences
                .is_empty()
        );
        assert_eq!(
            shown(&compare_texts("", "six==1\n").unwrap()),
            ["six: - > six==1"]
        );
    }
}
