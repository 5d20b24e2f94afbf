//! Finds the parts of a source file that can be left out.
//!
//! To find the part of a program that makes it crash, a reduction leaves out the rest, and the remaining file must
//! still be a program: a block of Python is never empty, a function without statements is not worth keeping, an
//! attribute belongs to the item below it. This crate makes all these decisions. The result is plain data, ranges of
//! bytes; [`keep_only`] cuts them out later, without a parser.
//!
#![doc = include_str!("../README.md")]

mod cut;
mod find;
mod imports;
mod language;
mod lines;
mod patch;

pub use cut::keep_only;
pub use language::Language;
pub use patch::unified_diff;

use provoke_model::SourceParts;
use std::path::Path;

/// Size of the pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSize {
    /// Every import.
    Imports,
    /// Every statement without nested statements; an enclosing statement is removed with the last statement in it.
    Statements,
    /// Every line that is not empty, of any file.
    Lines,
}

/// Why a file has no pieces.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The language of the file is not known.
    #[error(
        "cannot tell the language from the name of the file; known extensions: {}",
        language::known_extensions()
    )]
    Language,
    /// The file is not a valid program of its language, or the parser does not support it.
    #[error("cannot parse this as {}: `{text}`", language.name())]
    Syntax {
        /// The language of its extension.
        language: Language,
        /// From 1.
        line: u32,
        /// In characters, from 1.
        column: u32,
        /// The line.
        text: String,
    },
    /// The program was built without the grammar of the language.
    #[error("this provoke was built without support for {}", .0.name())]
    NotBuiltIn(Language),
    /// There is nothing to leave out.
    #[error("there are no {} in the file", match .0 {
        PartSize::Imports => "imports",
        PartSize::Statements => "statements",
        PartSize::Lines => "lines",
    })]
    Nothing(PartSize),
}

impl SourceError {
    /// Returns a hint.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Language | Self::Syntax { .. } => "use --lines, which works for any file",
            Self::NotBuiltIn(_) => {
                "use --lines, which works for any file, or install provoke from its sources with `--features all-languages`"
            }
            Self::Nothing(_) => "choose another file",
        }
    }
}

/// Finds the pieces of a file.
pub fn find_pieces(path: &Path, text: &[u8], grain: PartSize) -> Result<SourceParts, SourceError> {
    let parts = match grain {
        PartSize::Lines => lines::find_lines(text),
        PartSize::Imports | PartSize::Statements => {
            let language = Language::of_file(path, text).ok_or(SourceError::Language)?;
            if language.grammar().is_none() {
                return Err(SourceError::NotBuiltIn(language));
            }
            find::find_pieces(language, text, grain)?
        }
    };
    if parts.pieces.is_empty() {
        return Err(SourceError::Nothing(grain));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests;
