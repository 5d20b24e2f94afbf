//! Paths: which points the threads of a trial reached, and in which order.

use super::hold::mix_bits;
use super::{CodePoint, CodeScope, Hold, Text, is_default, micros};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::time::Duration;

/// Limit of the events of a trial.
pub const MAX_EVENTS: usize = 1 << 17;
/// Limit of the places of a trial: a line of a journal has a limit of objects and arrays.
pub const MAX_PLACES: usize = 40_000;
/// Why a text does not describe events.
const INVALID: &str = "the arrivals of a path are not valid";

/// What to record of the paths of a trial's threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathPlan {
    /// The files whose code has points.
    pub scope: CodeScope,
    /// Which points the code has.
    pub detail: PathDetail,
    /// Number of arrivals of all threads at a point in the code that are recorded, once the trial has a second thread or
    /// process. Before, only the first arrival is.
    pub arrivals: u32,
    /// Which of the points in the code are recorded.
    pub part: PathPart,
    /// Functions, by their first instructions, whose blocks are points, too, if [`PathDetail::Functions`] are recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inside: Vec<CodePoint>,
    /// Where threads are held in the same trial. Arrivals there are not recorded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holds: Vec<Hold>,
    /// The longest time of all holds together.
    #[serde(
        default,
        rename = "total_limit_us",
        with = "micros",
        skip_serializing_if = "is_default"
    )]
    pub total_limit: Duration,
}

/// Which points the code of a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathDetail {
    /// None: only system calls, signals and lines of Python are recorded.
    None,
    /// The entries of functions.
    Functions,
    /// The entries of functions, other blocks, and the returns of calls.
    Blocks,
}

/// Which of the points in the code are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathPart {
    /// All.
    All,
    /// About a half: a hash of this seed and the place decides.
    Half(u64),
}

/// The paths of a trial's threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TrialPath {
    /// Files with points.
    pub files: Vec<Text>,
    /// The points that were reached, in the order of the first arrivals.
    pub points: Vec<PathPlace>,
    /// Names of points, by their indices. Each point is named once in a run.
    #[serde(skip_serializing_if = "is_default")]
    pub names: Vec<(u32, PointName)>,
    /// The arrivals in the order of time.
    pub events: PathEvents,
    /// What each thread was doing when it ended.
    #[serde(skip_serializing_if = "is_default")]
    pub ends: Vec<ThreadEnd>,
    /// Whether the limit of events was reached, so that later ones are missing.
    #[serde(skip_serializing_if = "is_default")]
    pub is_cut: bool,
}

/// A point that a thread can reach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathPlace {
    /// An instruction: the index of its file, its address in the file, and what begins there.
    Code(u32, u64, BlockKind),
    /// The end of a system call: its name, its result (`ok`, `short`, `eof`, `timeout` or the name of an error), and the
    /// base name of the file, if it has one.
    Call(String, String, #[serde(default)] Option<String>),
    /// A signal that was delivered to the program.
    Signal(i32),
    /// A line of a Python program: the index of its file, and its number.
    Line(u32, u32),
    /// An exception that was raised in a line of a Python program: the name of its type.
    Exception(u32, u32, String),
}

/// What begins at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BlockKind {
    /// A function.
    #[serde(rename = "F")]
    Function,
    /// The block to which a branch jumps.
    #[serde(rename = "T")]
    Taken,
    /// The block behind a branch that does not jump.
    #[serde(rename = "N")]
    NotTaken,
    /// Another block.
    #[serde(rename = "J")]
    Other,
    /// The code behind a call, which has returned.
    #[serde(rename = "C")]
    Return,
}

/// Name of a point in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointName {
    /// Name of the function.
    #[serde(skip_serializing_if = "is_default")]
    pub function: Option<String>,
    /// Source file and line.
    #[serde(skip_serializing_if = "is_default")]
    pub line: Option<(String, u32)>,
    /// Whether the source file belongs to a library or a runtime.
    #[serde(skip_serializing_if = "is_default")]
    pub is_library: bool,
    /// Whether the instruction before it has the same line, so that threads can be at the line without reaching the point.
    #[serde(skip_serializing_if = "is_default")]
    pub is_within_line: bool,
}

/// An arrival of a thread at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEvent {
    /// Number of the thread in the order of creation, over all processes of the trial.
    pub thread: u32,
    /// Index of the point.
    pub point: u32,
}

/// The last moment of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEnd {
    /// Number of the thread.
    pub thread: u32,
    /// The points behind which it was in a call that had not returned: the indices of the last point at or before each call
    /// on its stack. The innermost call comes first.
    pub active: Vec<u32>,
}

/// Arrivals in the order of time, stored as text: `0:0-3 1:4 0:5,2`, the threads with their points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PathEvents(pub Vec<PathEvent>);

impl PathPart {
    /// Returns whether the point at an address of a file is recorded.
    pub fn includes(self, file: &Text, address: u64) -> bool {
        let Self::Half(seed) = self else {
            return true;
        };
        let mut hash = seed ^ address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for byte in file.as_os_str().as_encoded_bytes() {
            hash = mix_bits(hash ^ u64::from(*byte));
        }
        mix_bits(hash) & 1 == 1
    }
}

impl From<PathEvents> for String {
    fn from(events: PathEvents) -> Self {
        let mut text = Self::new();
        for of_thread in events.0.chunk_by(|a, b| a.thread == b.thread) {
            let thread = of_thread.first().map_or(0, |event| event.thread);
            let separator = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{separator}{thread}:");
            let follows = |a: &PathEvent, b: &PathEvent| b.point == a.point.wrapping_add(1);
            for (number, range) in of_thread.chunk_by(follows).enumerate() {
                let separator = if number == 0 { "" } else { "," };
                let _ = match range {
                    [] => Ok(()),
                    [one] => write!(text, "{separator}{}", one.point),
                    [first, .., last] => write!(text, "{separator}{}-{}", first.point, last.point),
                };
            }
        }
        text
    }
}

impl TryFrom<String> for PathEvents {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut events = Vec::new();
        for of_thread in text.split_ascii_whitespace() {
            let (thread, points) = of_thread.split_once(':').ok_or(INVALID)?;
            let thread = parse_number(thread)?;
            for range in points.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last) = (parse_number(first)?, parse_number(last)?);
                let length = usize::try_from(last.saturating_sub(first)).map_err(|_| INVALID)?;
                if events.len() + length > MAX_EVENTS {
                    return Err(INVALID);
                }
                events.extend((first..=last).map(|point| PathEvent { thread, point }));
            }
        }
        Ok(Self(events))
    }
}

fn parse_number(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_stored_as_ranges() {
        let pairs = [(0, 0), (0, 1), (0, 2), (1, 7), (0, 9), (0, 2), (2, 5)];
        let events = pairs.map(|(thread, point)| PathEvent { thread, point });
        let events = PathEvents(events.to_vec());
        let text = serde_json::to_string(&events).unwrap();
        assert_eq!(text, "\"0:0-2 1:7 0:9,2 2:5\"");
        assert_eq!(serde_json::from_str::<PathEvents>(&text).unwrap(), events);
        let none = PathEvents::default();
        let text = serde_json::to_string(&none).unwrap();
        assert_eq!(serde_json::from_str::<PathEvents>(&text).unwrap(), none);
    }

    #[test]
    fn hostile_events_are_refused() {
        for text in ["\"0\"", "\"a:1\"", "\"0:1-\"", "\"0:0-4294967295\""] {
            assert!(serde_json::from_str::<PathEvents>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_half_has_about_half_of_the_points() {
        let file = Text::from("/home/me/program");
        for seed in 0..20 {
            let part = PathPart::Half(seed);
            let included = (0..1000).filter(|address| part.includes(&file, *address));
            assert!((420..580).contains(&included.count()));
        }
    }
}
