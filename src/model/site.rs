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
}

impl Site {
    /// Returns the name of the file without its directory.
    pub fn file_name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// `crash.c:20 in sum, called by main (crash.c:30)`
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file_name(), self.line)?;
        if let Some(function) = &self.function {
            write!(f, " in {function}")?;
        }
        if let Some(caller) = &self.caller {
            let (file, line) = (caller.file_name(), caller.line);
            match &caller.function {
                Some(function) => write!(f, ", called by {function} ({file}:{line})")?,
                None => write!(f, ", called from {file}:{line}")?,
            }
        }
        Ok(())
    }
}
