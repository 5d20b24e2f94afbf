//! Lines of source code that a failure points at.

use super::is_default;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A line of source code, and the function that it belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
}

impl Site {
    /// Returns the line that names a failure in short: the innermost one. A deadlock has several.
    pub fn naming_site(sites: &[Self]) -> Option<&Self> {
        match sites {
            [first, ..] if sites.len() == 1 || first.lock.is_none() => Some(first),
            _ => None,
        }
    }

    /// Returns the name of the file without its directory.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }

    /// Returns the location, such as `crash.c:20`.
    pub fn file_and_line(&self) -> String {
        format!("{}:{}", self.file_name(), self.line)
    }

    /// Returns the function and its line, such as `transfer (dead.c:7)`.
    fn function_and_line(&self) -> String {
        match &self.function {
            Some(function) => format!("{function} ({})", self.file_and_line()),
            None => self.file_and_line(),
        }
    }
}

/// Writes `crash.c:20 in sum, called by main (crash.c:30)`, or for a thread that waits for a lock `summary (dead.c:16)
/// waits for audit, held by transfer (dead.c:7)`.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lock) = &self.lock {
            write!(f, "{} waits for {lock}", self.function_and_line())?;
            return match &self.holder {
                Some(holder) => write!(f, ", held by {}", holder.function_and_line()),
                None => Ok(()),
            };
        }
        f.write_str(&self.file_and_line())?;
        if let Some(function) = &self.function {
            write!(f, " in {function}")?;
        }
        if let Some(caller) = &self.caller {
            let by = if caller.function.is_some() {
                "by"
            } else {
                "from"
            };
            write!(f, ", called {by} {}", caller.function_and_line())?;
        }
        Ok(())
    }
}
