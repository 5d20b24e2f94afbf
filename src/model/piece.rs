//! Parts of a source file that can be left out.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The pieces of a file that can be left out, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pieces {
    /// What can be left out by itself. No two overlap.
    pub pieces: Vec<Piece>,
    /// What holds pieces, the outer before the inner.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shells: Vec<Shell>,
}

/// A part of a file that can be left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its first line, from 1.
    pub line: u32,
    /// Its last line.
    pub last_line: u32,
    /// The beginning of its first line, for people.
    pub text: String,
    /// The bytes that go. Where nothing else stands on its lines, these are whole lines.
    pub span: Range<usize>,
    /// What takes their place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instead: String,
}

/// A part of a file that goes when all pieces in it are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// Which pieces are in it.
    pub pieces: Range<usize>,
    /// The bytes that go.
    pub span: Range<usize>,
    /// What takes their place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub instead: String,
}
