//! Describes the points of paths in words.

use super::points::KnownPoints;
use crate::hunt::{base_name, line_name};
use provoke_model::{BlockKind, PathPlace, Signal};
use serde::Serialize;

/// A point of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathPlaceReport {
    /// The point in words: `refcount.c:7`, `open(lock)`.
    pub place: String,
    /// Name of the function, if it is known.
    pub function: Option<String>,
    /// Source file, if it is known.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// The line, if the file can be read.
    pub text: Option<String>,
    /// What a thread does there, and the same after `did not`.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(super) verbs: [String; 2],
    /// Whether its function begins there.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub(super) is_entry: bool,
}

impl PathPlaceReport {
    /// Describes a point. `source_line` reads a line of a source file.
    pub(super) fn new(
        points: &KnownPoints,
        number: u32,
        source_line: &dyn Fn(&str, u32) -> Option<String>,
    ) -> Option<Self> {
        let point = points.get(number)?;
        let file_name = |file: u32| points.file(file).map(ToString::to_string);
        let (file, line) = match &point.place {
            PathPlace::Line(file, line) | PathPlace::Exception(file, line, _) => {
                (file_name(*file), Some(*line))
            }
            _ => point.name.line.clone().unzip(),
        };
        let at_line = || line.map(|line| line_name(file.as_deref(), Some(line), None));
        let (place, verbs) = match &point.place {
            PathPlace::Code(object, address, kind) => {
                let name = file_name(*object).unwrap_or_default();
                let by_address = || format!("{}+0x{address:x}", base_name(&name));
                let block = points.offset_in_function(number);
                let block = block.unwrap_or_else(by_address);
                let verbs = code_verbs(*kind, points.is_within_line(number), &block);
                (at_line().unwrap_or_else(by_address), verbs)
            }
            PathPlace::Line(..) => (at_line().unwrap_or_default(), plain(["reached", "reach"])),
            PathPlace::Exception(_, _, name) => (
                format!("{name} at {}", at_line().unwrap_or_default()),
                plain(["raised", "raise"]),
            ),
            PathPlace::Signal(signal) => {
                (Signal(*signal).to_string(), plain(["received", "receive"]))
            }
            PathPlace::Call(name, result, file) => {
                let call = format!("{name}({})", file.as_deref().unwrap_or_default());
                match result.as_str() {
                    "ok" => (call, plain(["completed", "complete"])),
                    "eof" => (
                        format!("the end of the file from {call}"),
                        plain(["got", "get"]),
                    ),
                    "short" => (format!("a short result from {call}"), plain(["got", "get"])),
                    "timeout" => (format!("a timeout from {call}"), plain(["got", "get"])),
                    error => (format!("{error} from {call}"), plain(["got", "get"])),
                }
            }
        };
        let text = file
            .as_deref()
            .zip(line)
            .and_then(|(file, line)| source_line(file, line));
        Some(Self {
            place,
            function: point.name.function.clone(),
            file,
            line,
            text,
            verbs,
            is_entry: matches!(point.place, PathPlace::Code(_, _, BlockKind::Function)),
        })
    }

    /// Returns whether the function is known and begins there.
    pub(super) fn is_named_entry(&self) -> bool {
        self.is_entry && self.function.is_some()
    }

    /// Returns the point with its function: `refcount.c:7 in drop()`.
    pub(super) fn with_function(&self) -> String {
        match &self.function {
            Some(function) if self.is_entry => format!("{function}() at {}", self.place),
            Some(function) => format!("{} in {function}()", self.place),
            None => self.place.clone(),
        }
    }

    /// Returns what a thread did there: `reached refcount.c:7 in drop()`.
    pub(super) fn done(&self) -> String {
        format!("{} {}", self.verbs[0], self.with_function())
    }

    /// Returns what a thread did not do there: `reach refcount.c:7 in drop()`.
    pub(super) fn not_done(&self) -> String {
        format!("{} {}", self.verbs[1], self.with_function())
    }
}

/// Returns what a thread does at a point in code, and the same after `did not`. Of a line with several blocks, only a part
/// is reached, so its block is named.
fn code_verbs(kind: BlockKind, is_within_line: bool, block: &str) -> [String; 2] {
    match kind {
        BlockKind::Function => plain(["entered", "enter"]),
        BlockKind::Return if is_within_line => {
            plain(["returned from a call at", "return from a call at"])
        }
        BlockKind::Taken | BlockKind::NotTaken if is_within_line => {
            ["took", "take"].map(|verb| format!("{verb} the branch to {block} at"))
        }
        BlockKind::Other if is_within_line => {
            ["reached", "reach"].map(|verb| format!("{verb} {block} at"))
        }
        _ => plain(["reached", "reach"]),
    }
}

fn plain(verbs: [&str; 2]) -> [String; 2] {
    verbs.map(str::to_owned)
}
