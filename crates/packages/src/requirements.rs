//! Reads requirements files as pip does, with the files that they include.

use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Role of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequirementRole {
    /// A package from a registry or a URL.
    Package,
    /// A package in a local folder.
    Local,
    /// A constraint on the versions of a package.
    Constraint,
    /// An option, such as a source of packages.
    Flag,
}

impl RequirementRole {
    /// Returns the role of a package.
    pub(super) fn of_package(is_local: bool) -> Self {
        if is_local { Self::Local } else { Self::Package }
    }
}

/// A logical line without its comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequirementLine {
    /// Normalized name of the package; a line without a name has its text instead.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) role: RequirementRole,
}

impl RequirementLine {
    pub(super) fn new(
        name: impl Into<String>,
        text: impl Into<String>,
        role: RequirementRole,
    ) -> Self {
        let (name, text) = (name.into(), text.into());
        Self { name, text, role }
    }
}

/// Position of a line.
pub(super) struct LinePosition<'a> {
    pub(super) path: &'a Path,
    /// Number of the line, from 1.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

impl LinePosition<'_> {
    /// Creates the error of an invalid line; columns count from 1.
    pub(super) fn line_fault(&self, column: usize, problem: &str, hint: &str) -> Diagnostic {
        let Self { path, line, text } = self;
        let path = path.to_safe();
        Diagnostic::usage(format!("{path}:{line}:{column}: {problem}: `{text}`")).with_hint(hint)
    }
}

const HINT: &str = "write a requirement such as `six==1.16.0`, or a flag of pip";

/// Reads a requirements file, or a constraints file; relative paths of packages begin at `folder`, as for pip.
pub(super) fn read_requirements(
    path: &Path,
    folder: &Path,
    is_constraint: bool,
) -> Result<Vec<RequirementLine>, Diagnostic> {
    let mut lines = Vec::new();
    include_file(path, folder, is_constraint, &mut Vec::new(), &mut lines)?;
    Ok(lines)
}

/// Normalizes a name by PEP 503.
pub(super) fn normalize_name(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

/// Normalizes the spelling of a line for comparisons.
pub(super) fn normalize_line(line: &str) -> String {
    let end = line.find(|sign| !is_of_name(sign)).unwrap_or(line.len());
    let rest = line[end..].chars().filter(|sign| !sign.is_whitespace());
    normalize_name(&line[..end]) + &rest.collect::<String>()
}

fn is_of_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "._-".contains(sign)
}

/// Decodes the content of a file.
pub(super) fn decode_text(path: &Path, bytes: Vec<u8>) -> Result<String, Diagnostic> {
    String::from_utf8(bytes).map_err(|error| {
        let (valid, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let begin = bytes[..valid]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |position| position + 1);
        let text = String::from_utf8_lossy(&bytes[begin..]);
        let column = String::from_utf8_lossy(&bytes[begin..valid])
            .chars()
            .count()
            + 1;
        let position = LinePosition {
            path,
            line: String::from_utf8_lossy(&bytes[..begin]).lines().count() + 1,
            text: text.lines().next().unwrap_or_default(),
        };
        let hint = "use a file written by `pip freeze` or `env`";
        position.line_fault(column, "this is not UTF-8 text", hint)
    })
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    fs::read(path).map_err(|error| cannot_read(path, &error))
}

pub(super) fn cannot_read(path: &Path, error: &io::Error) -> Diagnostic {
    let message = format!("cannot read `{}`: {error}", path.to_safe());
    Diagnostic::usage(message).with_hint("give the path of a readable file")
}

fn include_file(
    path: &Path,
    folder: &Path,
    is_constraint: bool,
    including: &mut Vec<PathBuf>,
    lines: &mut Vec<RequirementLine>,
) -> Result<(), Diagnostic> {
    let text = decode_text(path, read_bytes(path)?)?;
    including.push(path.to_owned());
    for (number, text) in logical_lines(&text) {
        let first = text.split('\n').next().unwrap_or_default();
        let position = LinePosition {
            path,
            line: number,
            text: first,
        };
        let text = text.replace('\n', "");
        let text = without_comment(&text);
        if text.is_empty() {
            continue;
        }
        let included = [("-r", "--requirement"), ("-c", "--constraint")]
            .into_iter()
            .find_map(|(short, long)| Some((short, flag_value(text, short, long)?)));
        if let Some((short, file)) = included {
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            if including.contains(&file) {
                let hint = "remove the line that includes its own file";
                return Err(position.line_fault(1, "a file includes itself", hint));
            }
            include_file(
                &file,
                folder,
                is_constraint || short == "-c",
                including,
                lines,
            )?;
            continue;
        }
        let mut line = parse_line(text, folder, &position)?;
        if is_constraint && line.role != RequirementRole::Flag {
            line.role = RequirementRole::Constraint;
        }
        lines.push(line);
    }
    including.pop();
    Ok(())
}

/// Returns the logical lines with their numbers; a backslash continues a line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        let (line, continues) = match line.strip_suffix('\\') {
            Some(line) if !line.trim_start().starts_with('#') => (line, true),
            _ => (line, false),
        };
        match lines.last_mut() {
            Some((_, previous)) if goes_on => {
                previous.push('\n');
                previous.push_str(line);
            }
            _ => lines.push((index + 1, line.to_owned())),
        }
        goes_on = continues;
    }
    lines
}

/// Removes a comment, which begins at the start or after a space: `#egg=` in a URL is not a
/// comment.
fn without_comment(line: &str) -> &str {
    let mut begins = line.match_indices('#').map(|(position, _)| position);
    let comment_start =
        begins.find(|position| line[..*position].ends_with(char::is_whitespace) || *position == 0);
    line[..comment_start.unwrap_or(line.len())].trim()
}

/// Returns the value of an option: `-r x`, `-rx`, `--requirement x`, `--requirement=x`.
fn flag_value<'a>(text: &'a str, short: &str, long: &str) -> Option<&'a str> {
    let value = match text.strip_prefix(long) {
        Some(rest) if rest.starts_with([' ', '\t', '=']) => rest,
        Some(_) => return None,
        None if text.starts_with("--") => return None,
        None => text.strip_prefix(short)?,
    };
    Some(value.trim_start_matches([' ', '\t', '=']))
}

fn parse_line(
    text: &str,
    folder: &Path,
    position: &LinePosition,
) -> Result<RequirementLine, Diagnostic> {
    if let Some(target) = flag_value(text, "-e", "--editable") {
        let egg = target.split_once("#egg=").map(|(_, egg)| egg);
        let egg = egg.map(|egg| normalize_name(egg.split(['&', '[']).next().unwrap_or(egg)));
        let (target_name, is_local) = resolve_target(target, folder);
        return Ok(RequirementLine::new(
            egg.unwrap_or_else(|| target_name.clone()),
            format!("-e {target_name}"),
            RequirementRole::of_package(is_local),
        ));
    }
    if text.starts_with('-') {
        return Ok(RequirementLine::new(text, text, RequirementRole::Flag));
    }
    let end = text.find(|sign| !is_of_name(sign)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let is_named = name.starts_with(|sign: char| sign.is_ascii_alphanumeric())
        && (rest.is_empty()
            || rest.starts_with(['[', '<', '>', '=', '!', '~', ';', '@', '(', '-']));
    let path = text.split_whitespace().next().unwrap_or(text);
    let is_wheel = Path::new(path)
        .extension()
        .is_some_and(|kind| kind == "whl");
    if is_named && !is_wheel {
        let single = rest.starts_with('=') && !rest.starts_with("==");
        if single {
            // Count columns in the original line, which may be indented.
            let before = position.text.find('=').unwrap_or_default();
            let column = position.text[..before].chars().count() + 1;
            return Err(position.line_fault(column, "a requirement needs `==`, not `=`", HINT));
        }
        let is_local = rest.starts_with('@') && rest.contains("file:");
        let role = RequirementRole::of_package(is_local);
        return Ok(RequirementLine::new(normalize_name(name), text, role));
    }
    // The slash of a URL counts, too.
    if text.contains('/') || text.starts_with('.') || is_wheel {
        let (text, is_local) = resolve_target(text, folder);
        let role = RequirementRole::of_package(is_local);
        return Ok(RequirementLine::new(text.clone(), text, role));
    }
    let indent = position.text.len() - position.text.trim_start().len();
    Err(position.line_fault(indent + end + 1, "this is not a requirement", HINT))
}

/// Returns a URL or the absolute path of a package, and whether the package is on this machine.
fn resolve_target(target: &str, folder: &Path) -> (String, bool) {
    if target.contains("://") {
        return (target.to_owned(), target.starts_with("file:"));
    }
    (absolute_local_path(target, folder), true)
}

/// Makes the path of a package absolute, and keeps the extras in brackets behind it.
fn absolute_local_path(text: &str, folder: &Path) -> String {
    let path = folder.join(text.strip_prefix("./").unwrap_or(text));
    let path = std::path::absolute(&path).unwrap_or(path);
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Result<Vec<RequirementLine>, Diagnostic> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        read_requirements(&folder.path().join(files[0].0), Path::new("/at"), false)
    }

    #[test]
    fn every_kind_of_line_has_a_name_and_a_role() {
        let text = "\u{feff}# comment\n\nSix_X.y == 1.16.0  # why\nrequests[socks,x]>=2 ; python_version < '3.9'\n\
            -e git+https://host/x.git@v1#egg=Some_Thing\n-e ./mine[x]\nhttps://host/a.whl\n./b.whl\n\
            pack @ file:///x/y\nother@https://host/x#sha256=1\n--extra-index-url https://host\n\
            a==1 \\\n    --hash=sha256:12 \\\n    --hash=sha256:34\nbare\n";
        let got = lines(&[("r", text)]).unwrap();
        let got: Vec<_> = got
            .iter()
            .map(|line| (line.name.as_str(), line.role))
            .collect();
        let expected = [
            ("six-x-y", RequirementRole::Package),
            ("requests", RequirementRole::Package),
            ("some-thing", RequirementRole::Package),
            ("/at/mine[x]", RequirementRole::Local),
            ("https://host/a.whl", RequirementRole::Package),
            ("/at/b.whl", RequirementRole::Local),
            ("pack", RequirementRole::Local),
            ("other", RequirementRole::Package),
            ("--extra-index-url https://host", RequirementRole::Flag),
            ("a", RequirementRole::Package),
            ("bare", RequirementRole::Package),
        ];
        assert_eq!(got, expected);
    }

    #[test]
    fn lines_of_included_files_are_read() {
        let files = [
            ("r", "a\n-r s\n--constraint=c\n"),
            ("s", "b\n"),
            ("c", "d<2\n"),
        ];
        let got = lines(&files).unwrap();
        let got: Vec<_> = got
            .iter()
            .map(|line| (line.text.as_str(), line.role))
            .collect();
        let expected = [
            ("a", RequirementRole::Package),
            ("b", RequirementRole::Package),
            ("d<2", RequirementRole::Constraint),
        ];
        assert_eq!(got, expected);
        let fault = lines(&[("r", "a\n-r r\n")]).unwrap_err().to_string();
        assert!(
            fault.ends_with("r:2:1: a file includes itself: `-r r`"),
            "{fault}"
        );
    }

    #[test]
    fn an_invalid_requirement_is_shown_with_its_position() {
        for (text, place) in [
            (
                "six==1\n  NAME=value\n",
                "r:2:7: a requirement needs `==`, not `=`: `  NAME=value`",
            ),
            ("a b\n", "r:1:2: this is not a requirement: `a b`"),
            ("\"a\"\n", "r:1:1: this is not a requirement: `\"a\"`"),
        ] {
            let fault = lines(&[("r", text)]).unwrap_err().to_string();
            assert!(fault.ends_with(place), "{fault}");
        }
        let fault = decode_text(Path::new("r"), b"a\nb\xff\n".to_vec()).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "r:2:2: this is not UTF-8 text: `b\u{fffd}`"
        );
    }
}
