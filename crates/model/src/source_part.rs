//! Parts of a source file that can be left out.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The parts of a file that can be left out, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceParts {
    /// Parts that can be left out separately; they do not overlap.
    pub pieces: Vec<SourcePart>,
    /// Parts that enclose pieces, the outer before the inner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shells: Vec<EnclosingPart>,
}

/// A part of a file that can be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePart {
    /// First line, from 1.
    pub line: u32,
    /// Last line.
    pub last_line: u32,
    /// The beginning of its first line, for the user.
    pub text: String,
    /// The removed bytes: whole lines, if the lines contain nothing else.
    pub span: Range<usize>,
    /// Replacement text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instead: String,
}

/// A part of a file that is removed if all pieces in it are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnclosingPart {
    /// Indices of the pieces in it.
    pub pieces: Range<usize>,
    /// The removed bytes.
    pub span: Range<usize>,
    /// Replacement text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instead: String,
}
