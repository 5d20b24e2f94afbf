//! Recognizes values of flags that were typed without the flag, where the program is expected.

use super::command_line::{retyped_line, shell_line};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::quote_word;
use std::ffi::{OsStr, OsString};

/// Corrects a bisection without candidates whose command begins with them: `bisect v1..main` or `bisect v1 main`.
pub fn candidates_as_program(
    command: &[OsString],
    is_program: impl Fn(&OsStr) -> bool,
) -> Option<Diagnostic> {
    let words: Vec<&str> = command.iter().map_while(|word| word.to_str()).collect();
    let is_range = |word: &str| word.contains("..") && !is_program(word.as_ref());
    let (range, used) = match *words {
        [range, ..] if is_range(range) => (range.to_owned(), 1),
        // A program `HEAD` exists, too.
        [good, bad, ..]
            if !is_program(good.as_ref()) && (bad == "HEAD" || !is_program(bad.as_ref())) =>
        {
            (format!("{good}..{bad}"), 2)
        }
        _ => return None,
    };
    let flag = if is_number_range(&range) {
        "--range"
    } else {
        "--git"
    };
    Some(with_flag(flag, &range, command, used))
}

/// Corrects a comparison whose command begins with the values of a variable: `compare MODE=a,b`.
pub fn variants_as_program(
    command: &[OsString],
    is_program: impl Fn(&OsStr) -> bool,
) -> Option<Diagnostic> {
    let word = command.first()?.to_str()?;
    let (name, values) = word.split_once('=')?;
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_list = name.chars().all(is_part) && values.contains(',');
    (is_list && !is_program(word.as_ref())).then(|| with_flag("-L", word, command, 1))
}

/// Suggests the command line in which `flag` has the value that replaces the first words of the command.
fn with_flag(flag: &str, value: &str, command: &[OsString], used: usize) -> Diagnostic {
    let program = match &command[used..] {
        [] => "./program".to_owned(),
        [first, rest @ ..] if first == "--" => shell_line(rest),
        rest => shell_line(rest),
    };
    let end = format!("{flag} {} -- {program}", quote_word(value.as_ref()));
    let line = retyped_line(&command[0], &end);
    let message = format!("there is no program {}", quote_word(&command[0]));
    Diagnostic::usage(message).with_hint(format!("did you mean `{line}`?"))
}

fn is_number_range(word: &str) -> bool {
    let ends = word.split_once("..");
    ends.is_some_and(|(low, high)| low.parse::<i64>().is_ok() && high.parse::<i64>().is_ok())
}
