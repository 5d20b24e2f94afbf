//! Prints errors: the message, its causes and a hint; renders messages of the parser of command lines.

use super::{print_message, say_as_it_is};
use console::style;
use provoke_plan::render_in_file;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::SafeText;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

/// Prints an error with its causes and hints to stderr.
pub fn print_error(error: &Diagnostic) {
    if let Some(text) = render_in_file(error, stderr_has_colours()) {
        say_as_it_is(text.trim_end());
        return;
    }
    let message = SafeText::from_lines(&error.message);
    print_message(&format!("{} {message}", style("error:").red().bold()));
    for cause in &error.causes {
        print_message(&format!("  caused by: {}", SafeText::from_lines(cause)));
    }
    for hint in &error.hints {
        print_hint(hint);
    }
}

/// Prints a hint below an error to stderr.
pub fn print_hint(hint: &str) {
    let hint = SafeText::from_lines(hint);
    print_message(&format!("\n{} {hint}", style("hint:").green().bold()));
}

/// Returns whether stderr shows colours.
pub fn stderr_has_colours() -> bool {
    console::colors_enabled_stderr()
}

/// Renders a help text, or an error in these arguments. An argument with escapes turns off the colours of a message that
/// may quote it.
pub fn render_parser_message(message: &clap::Error, args: &[OsString]) -> String {
    let has_colours = if message.use_stderr() {
        stderr_has_colours()
    } else {
        console::colors_enabled()
    };
    let has_escapes = args
        .iter()
        .any(|argument| argument.as_bytes().contains(&b'\x1b'));
    let text = message.render();
    if has_colours && !has_escapes {
        text.ansi().to_string()
    } else {
        text.to_string()
    }
}
