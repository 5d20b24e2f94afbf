//! Reads the text of a line of source code.

use provoke_model::Site;
use provoke_words::shorten_text;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

/// Names of files that may be shown: paths come from programs, and other files may contain secrets.
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
    let path = Path::new(&site.file);
    let language = path.extension()?.to_str()?;
    if !LANGUAGES.contains(&language) || !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = BufReader::new(File::open(path).ok()?.take(LARGEST));
    let line = usize::try_from(site.line).ok()?.checked_sub(1)?;
    let text = file.lines().nth(line)?.ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| shorten_text(text, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(name: &str, line: u32) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, "one\n  two\n\n").unwrap();
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
}
