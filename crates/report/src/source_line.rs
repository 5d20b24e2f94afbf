//! Reads the text of a line of source code.

use provoke_model::Site;
use provoke_sys::files;
use provoke_words::shorten_text;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};

/// Names of files that may be shown: paths come from programs, and other files, to which links may lead, may contain secrets.
const LANGUAGES: [&str; 20] = [
    "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "rs", "go", "py", "pyx", "js", "mjs", "ts",
    "java", "rb", "swift", "zig", "f90",
];
/// Maximum size of a source file.
const LARGEST: u64 = 8 << 20;
/// Maximum number of characters of a line: longer ones are generated code.
const LONGEST: usize = 240;

/// Returns the text of a line of source code, if the file exists.
pub fn source_line(site: &Site) -> Option<String> {
    let path = fs::canonicalize(&site.file).ok()?;
    if !LANGUAGES.contains(&path.extension()?.to_str()?) {
        return None;
    }
    let file = BufReader::new(files::regular_itself(&path).ok()?.take(LARGEST));
    let line = usize::try_from(site.line).ok()?.checked_sub(1)?;
    let text = file.lines().nth(line)?.ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| shorten_text(text, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    fn line_of(name: &str, line: u32) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, "one\n  two\n\n").unwrap();
        line_of_file(&path, line)
    }

    fn line_of_file(path: &Path, line: u32) -> Option<String> {
        source_line(&Site {
            file: path.to_str().unwrap().to_owned(),
            line,
            ..Site::default()
        })
    }

    #[test]
    fn only_lines_of_source_code_are_shown() {
        assert_eq!(line_of("a.c", 2).as_deref(), Some("two"));
        assert_eq!(line_of("a.c", 3), None);
        assert_eq!(line_of("a.c", 9), None);
        assert_eq!(line_of("a.c", 0), None);
        assert_eq!(line_of("shadow", 1), None);
        assert_eq!(line_of("secrets.env", 1), None);
    }

    #[test]
    fn a_link_with_the_name_of_source_code_shows_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (target, link, line) in [
            ("real.c", "linked.c", Some("one")),
            ("shadow", "shadow.c", None),
        ] {
            fs::write(path(target), "one\n").unwrap();
            symlink(path(target), path(link)).unwrap();
            assert_eq!(line_of_file(&path(link), 1).as_deref(), line, "{target}");
        }
    }
}
