//! Prints the skipped tests and their reasons; it is the last test target.

use std::fs;
use std::io::{self, Write as _};

const NAME: &str = "tests_that_were_skipped";

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    let asked = |flag: &str| std::env::args().any(|argument| argument == flag);
    if asked("--list") {
        // An option of `cargo nextest`.
        let named = if asked("--ignored") {
            String::new()
        } else {
            format!("{NAME}: test\n")
        };
        return out.write_all(named.as_bytes());
    }
    let list = provoke_test_needs::list();
    let text = fs::read_to_string(&list).unwrap_or_default();
    let _ = fs::remove_file(&list);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    writeln!(out)?;
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    match lines.len() {
        0 => writeln!(out, "no test was skipped"),
        1 => writeln!(out, "1 test was skipped"),
        count => writeln!(out, "{count} tests were skipped"),
    }
}
