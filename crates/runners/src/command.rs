//! Finds the words of a test runner in a command.

use provoke_model::Text;

/// The words of a command, without the programs around the runner.
pub(super) struct RunnerWords {
    /// The words of the command, or of the shell line that it runs.
    pub(super) words: Vec<String>,
    /// Whether the words are part of a shell line, to which nothing can be added.
    pub(super) is_shell_line: bool,
}

/// Splits a command into words, also that of `sh -c`.
pub(super) fn split_runner_words(command: &[Text]) -> RunnerWords {
    let words: Vec<String> = command.iter().map(ToString::to_string).collect();
    let is_shell = |word: &String| matches!(file_name(word), "sh" | "bash" | "dash" | "zsh");
    let shell_line = words
        .iter()
        .position(is_shell)
        .and_then(|shell| {
            let is_line_flag = |word: &String| word.starts_with('-') && word.ends_with('c');
            let flag = words.iter().skip(shell + 1).position(is_line_flag)?;
            words.get(shell + 1 + flag + 1)
        })
        .cloned();
    match shell_line {
        Some(line) => RunnerWords {
            words: line
                .split([' ', '\t', '\n', ';', '(', ')'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            is_shell_line: true,
        },
        None => RunnerWords {
            words,
            is_shell_line: false,
        },
    }
}

/// Returns the name of a program without its directory.
pub(super) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns whether a word names Python, such as `python3.11`.
pub(super) fn is_python(word: &str) -> bool {
    let name = file_name(word);
    ["python", "pypy"].iter().any(|prefix| {
        let version = name.strip_prefix(prefix);
        version.is_some_and(|version| {
            version
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    })
}
