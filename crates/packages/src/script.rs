//! Writes parts of scripts for `sh`.

use std::path::Path;

/// Delimiter of a here-document. It never occurs alone on a line of a requirements file.
const END: &str = "PROVOKE_END";

/// Quotes a text as one shell word.
pub(super) fn quote_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Quotes a path as one shell word.
pub(super) fn quoted_path(path: &Path) -> String {
    quote_word(&path.to_string_lossy())
}

/// Returns script lines that write a file into the folder that is made.
pub(super) fn write_file_lines(name: &str, lines: &[String]) -> String {
    let lines = lines.join("\n");
    format!("cat >\"$PROVOKE_MADE/{name}\" <<'{END}' || exit\n{lines}\n{END}\n")
}

/// Returns script lines that run a command. If it fails, they print its output, and at last the
/// most informative line: the first that matches an extended regular expression.
pub(super) fn run_command_lines(command: &str, error_line: &str) -> String {
    let error_line = quote_word(error_line);
    format!(
        r#"log=$PROVOKE_MADE/provoke.log
{{
{command}
}} >>"$log" 2>&1 || {{
    cat "$log"
    grep -m 1 -E {error_line} "$log" | sed 's/^[^[:alnum:]]*//'
    exit 1
}}
rm -f "$log"
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run_script(script: &str) -> (bool, String, tempfile::TempDir) {
        let made = tempfile::tempdir().unwrap();
        let mut sh = Command::new("sh");
        let done = sh
            .arg("-c")
            .arg(script)
            .env("PROVOKE_MADE", made.path())
            .output()
            .unwrap();
        let out = String::from_utf8(done.stdout).unwrap();
        (done.status.success(), out, made)
    }

    #[test]
    fn a_failing_command_ends_with_its_error_line() {
        let command = "echo one; echo '  × Error: two' >&2; echo Error: three; false";
        let (fine, out, _) = run_script(&run_command_lines(command, "Error: "));
        assert!(!fine);
        assert_eq!(out, "one\n  × Error: two\nError: three\nError: two\n");
        let (fine, out, _) = run_script(&run_command_lines("echo one; false", "Error: "));
        assert_eq!((fine, out.as_str()), (false, "one\n"));
    }

    #[test]
    fn a_successful_command_prints_nothing_and_leaves_no_file() {
        let (fine, out, made) = run_script(&run_command_lines("echo one", "Error: "));
        assert_eq!((fine, out.as_str()), (true, ""));
        assert_eq!(made.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_file_is_written_without_expansion() {
        let lines = ["a'b $HOME `id` \\".to_owned(), "c".to_owned()];
        let (fine, _, made) = run_script(&write_file_lines("x", &lines));
        assert!(fine);
        let text = std::fs::read_to_string(made.path().join("x")).unwrap();
        assert_eq!(text, "a'b $HOME `id` \\\nc\n");
        let echo = format!("printf %s {}", quote_word("a'b $HOME"));
        assert_eq!(run_script(&echo).1, "a'b $HOME");
    }
}
