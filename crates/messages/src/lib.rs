//! Recognizes the messages that C libraries and runtimes print before a crash.
//!
//! Only the end of a failed trial's output is searched, so recognizing many messages costs nothing
//! for passing trials.

mod failed_tests;
mod find;
mod forms;
mod go;
mod javascript;
mod name;
mod normalize;
mod place;
mod site;
mod source_owner;
mod table;
mod trailer;

pub use find::find_message_line;
pub use go::parse_go_call;
pub use name::bare_name;
pub use normalize::normalise_line;
pub use site::{find_site, is_java_library};
pub use source_owner::{SourceOwner, innermost_own_site};
pub use trailer::is_trailer;

/// Meaning of a message that explains a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageMeaning {
    /// Event in two or three words that never change: `double free`.
    pub kind: &'static str,
    /// Event in words for titles.
    pub words: &'static str,
    /// Wider kind, for example `heap` for all messages about a damaged heap.
    pub family: Option<&'static str>,
    /// Distinguishes this message from others of its kind, without parts that differ between
    /// trials: the type of an exception, a sanitizer's name of an error, the expression of an
    /// assertion and its function. Empty if the kind is sufficient.
    pub detail: String,
    /// The same with the parts that differ between trials, for titles.
    pub message: String,
    /// Details each of which identifies the failure: the names of several failed tests.
    pub parts: Vec<String>,
    /// Rank among several messages: the lowest explains the most.
    rank: u8,
}

impl MessageMeaning {
    /// Returns whether the message only repeats the signal of the program, for example from a
    /// signal handler. Such a message must not change the name of the failure.
    pub fn is_echo(&self) -> bool {
        self.kind == table::PYTHON_FATAL.kind
            && forms::PYTHON_SIGNALS
                .iter()
                .any(|name| self.detail.starts_with(name))
    }

    /// Returns whether the detail is free text and not a name: sufficient to distinguish failures
    /// without other evidence, but too variable if there is a stack.
    pub fn is_prose(&self) -> bool {
        [
            table::RUST_PANIC.kind,
            table::PYTHON_EXCEPTION.kind,
            table::JAVA_EXCEPTION.kind,
            table::GO.kind,
            table::JVM.kind,
            table::JAVASCRIPT.kind,
        ]
        .contains(&self.kind)
    }
}

/// Returns the meaning of a line that explains a failure; `None` for most lines.
///
/// The line may be a result of `find_message_line`, which joins two or three lines.
pub fn read_tell(line: &str) -> Option<MessageMeaning> {
    let line = line.trim();
    forms::read_form(line).or_else(|| {
        let row = table::FIXED.iter().find(|row| line.contains(row.text))?;
        Some(row.sort.make_tell(""))
    })
}

#[cfg(test)]
mod tests;
