//! Recognizes the messages that C libraries and runtimes print before a crash.
//!
//! Only the end of the output of failed trials is searched, so many messages can be recognized at no
//! cost for a passing trial.

mod find;
mod forms;
mod javascript;
mod name;
mod normal;
mod site;
mod table;
mod tests_that_failed;
mod trailer;

pub use find::find;
pub use name::bare_name;
pub use normal::normalise;
pub use site::site;
pub use trailer::is_trailer;

/// What a line tells of why a program gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tell {
    /// What happened, in two or three words that never change: `double free`.
    pub kind: &'static str,
    /// The same for people.
    pub words: &'static str,
    /// The wider kind that this belongs to: `heap` of all that found the heap damaged.
    pub family: Option<&'static str>,
    /// What distinguishes this from others of its kind, without what differs from trial to
    /// trial: the type of an exception, the name a sanitizer has for an error, the
    /// expression of an assertion and its function. Empty where the kind says all.
    pub detail: String,
    /// Details of which each alone identifies the failure, too: of several tests that failed, each.
    pub parts: Vec<String>,
    /// Which of several lines tells most: the lower, the more.
    rank: u8,
}

impl Tell {
    /// True where the line only says which signal the program got: a handler's echo of what
    /// is known anyway. It must not make the failure another one.
    pub fn is_echo(&self) -> bool {
        self.kind == table::PYTHON_FATAL.kind
            && forms::PYTHON_SIGNALS
                .iter()
                .any(|name| self.detail.starts_with(name))
    }

    /// True where the detail is free text rather than a name: good enough to tell failures
    /// apart where nothing else is known, too fickle where a stack is.
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

/// Returns what a line tells of why a program gave up; most lines tell nothing.
///
/// The line may be one that [`find`] returned, where two or three are joined.
pub fn read(line: &str) -> Option<Tell> {
    let line = line.trim();
    forms::read(line).or_else(|| {
        let row = table::FIXED.iter().find(|row| line.contains(row.text))?;
        Some(row.sort.tell(""))
    })
}

#[cfg(test)]
mod tests;
