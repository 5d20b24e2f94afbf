//! Recognizes lines at the end of an output that do not explain the failure.

/// Returns whether runtimes print such a line after the message that explains the failure.
pub fn is_trailer(line: &str) -> bool {
    const STARTS: [&str; 4] = ["Node.js v", "note: ", "exit status ", "stack backtrace:"];
    let line = line.trim();
    !line.contains(char::is_alphanumeric) || STARTS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoration_and_notes_are_trailers() {
        for line in [
            "#",
            "----",
            "Node.js v20.20.2",
            "note: Some details are omitted",
            "exit status 66",
            "",
        ] {
            assert!(is_trailer(line), "{line}");
        }
        for line in ["Killed", "error: 3", "# fatal"] {
            assert!(!is_trailer(line), "{line}");
        }
    }
}
