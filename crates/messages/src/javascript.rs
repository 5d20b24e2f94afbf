//! Recognizes uncaught exceptions of Node.js.

use super::MessageMeaning;
use super::table::JAVASCRIPT;

/// Prefix that [`find`] adds to an exception, as browsers do; Node.js itself prints none.
const UNCAUGHT: &str = "Uncaught ";

/// Returns the exception at the start of these lines, if it ended Node.js: a stack follows, and the
/// last line is the version of Node.js.
pub(super) fn find_exception(lines: &[&str]) -> Option<String> {
    let (exception, rest) = lines.split_first()?;
    let is_call = |line: &&&str| line.starts_with("    at ");
    rest.first().filter(is_call)?;
    let is_exception = !exception.starts_with(' ') && *exception != "Emitted 'error' event at:";
    if !is_exception || !rest.iter().any(|line| line.starts_with("Node.js v")) {
        return None;
    }
    let exception = match exception.split_once("rejected with the reason \"") {
        Some((_, reason)) => {
            let reason = reason.trim_end_matches(['.', '"']);
            format!("UnhandledPromiseRejection: {reason}")
        }
        None => (*exception).to_owned(),
    };
    let mut calls = rest.iter().take_while(is_call);
    let own_call = calls.find(|call| !call.contains("(node:"));
    Some(match own_call.and_then(|call| function_of_call(call)) {
        Some(function) => format!("{UNCAUGHT}{exception}, in {function}"),
        None => format!("{UNCAUGHT}{exception}"),
    })
}

/// Returns the function of ` at load (/srv/app.js:3:7)`; code outside of a function has no name.
fn function_of_call(call: &str) -> Option<&str> {
    let (name, _) = call.trim().strip_prefix("at ")?.split_once(" (")?;
    (!name.contains('<')).then_some(name)
}

/// Parses `Uncaught TypeError: x is not a function, in load`.
pub(super) fn read_uncaught(line: &str) -> Option<MessageMeaning> {
    let exception = line.strip_prefix(UNCAUGHT)?;
    Some(JAVASCRIPT.make_prose_tell(exception))
}
