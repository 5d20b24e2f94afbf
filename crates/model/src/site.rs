//! Lines of source code that a failure points at.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A line of source code, and the function that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Site {
    /// The path of the file, as the compiler or the interpreter names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function, if it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub function: Option<String>,
    /// The line that called this function, if it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub caller: Option<Box<Self>>,
    /// The lock that the thread waits for there, if it has a name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lock: Option<String>,
    /// Where the thread is that holds that lock, if it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holder: Option<Box<Self>>,
    /// Where the thread is whose end this thread waits for, if it is known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub joins: Option<Box<Self>>,
}

impl Site {
    /// Returns the line that names a failure in short: the innermost one. A deadlock has several.
    pub fn naming_site(sites: &[Self]) -> Option<&Self> {
        let first = sites.first()?;
        let locks = sites.iter().filter(|site| site.lock.is_some()).count();
        (first.lock.is_none() || locks == 1).then_some(first)
    }

    /// Returns the line and the lines that called it, the innermost first.
    pub fn with_callers(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |site| site.caller.as_deref())
    }

    /// Returns the name of the file without its directory.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }

    /// Returns the location, such as `crash.c:20`.
    pub fn file_and_line(&self) -> String {
        format!("{}:{}", self.file_name(), self.line)
    }

    /// Returns whether a thread waits for another one there.
    pub fn is_wait(&self) -> bool {
        self.lock.is_some() || self.joins.is_some()
    }

    /// Names the thread by its function, or else by its line.
    fn thread_name(&self) -> String {
        match &self.function {
            Some(function) => function.clone(),
            None => format!("the thread at {}", self.file_and_line()),
        }
    }

    /// Returns the thread and its line, such as `transfer waits at dead.c:7`.
    fn describe_wait(&self) -> String {
        let thread = self.function.as_deref().unwrap_or("a thread");
        format!("{thread} waits at {}", self.file_and_line())
    }

    /// Returns the function and its line, such as `transfer (dead.c:7)`.
    fn function_and_line(&self) -> String {
        match &self.function {
            Some(function) => format!("{function} ({})", self.file_and_line()),
            None => self.file_and_line(),
        }
    }
}

/// Writes `crash.c:20 in sum, called by main (crash.c:30)`, or for a thread that waits `summary waits at dead.c:16
/// for audit, which transfer holds`.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lock) = &self.lock {
            write!(f, "{} for {lock}", self.describe_wait())?;
            return match &self.holder {
                Some(holder) if holder.function.is_some() && holder.function == self.function => {
                    write!(
                        f,
                        ", which another thread in {} holds",
                        holder.thread_name()
                    )
                }
                Some(holder) => write!(f, ", which {} holds", holder.thread_name()),
                None => Ok(()),
            };
        }
        if let Some(joined_thread) = &self.joins {
            let (wait, thread_name) = (self.describe_wait(), joined_thread.thread_name());
            return write!(f, "{wait} for the end of {thread_name}");
        }
        f.write_str(&self.file_and_line())?;
        if let Some(function) = &self.function {
            write!(f, " in {function}")?;
        }
        if let Some(caller) = &self.caller {
            let called_by = if caller.function.is_some() {
                "by"
            } else {
                "from"
            };
            write!(f, ", called {called_by} {}", caller.function_and_line())?;
        }
        Ok(())
    }
}
