//! Holds: at which points threads of a trial are held, and what was observed meanwhile.

use super::{CoreObservation, Frame, PathPlan, Text, TrialPath, is_default, micros};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Part of a trial's timeout for which its threads may be held: one of this many parts.
const HELD_PART: u32 = 5;
/// Limit of the arrivals that count with [`Occurrence::Half`] and [`Occurrence::Every`]: each arrival costs two stops.
const MAX_ARRIVALS: u32 = 1000;

/// A place in the code of a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodePoint {
    /// Path of the executable or the shared object.
    pub object: Text,
    /// Address of an instruction in this file, as its sections give it.
    pub address: u64,
}

/// Side of the creation of a thread or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreationSide {
    /// The thread that creates.
    Creator,
    /// The new thread, or the first thread of the new process.
    Created,
}

/// Where a thread is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldPoint {
    /// Before this instruction.
    Code(CodePoint),
    /// Before a system call. The program must have been started with a filter that traces it.
    Call {
        /// Number of the process in the order of creation, from 0.
        process: u32,
        /// Number of the system call.
        call: u64,
    },
    /// At the creation of a thread or a process.
    Start(CreationSide),
    /// Before a line of a Python program.
    Line {
        /// Path of the source file.
        file: Text,
        /// Number of the line, from 1.
        line: u32,
    },
}

/// At which arrivals a thread is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// At one arrival, from 1.
    Nth(u32),
    /// At about every second one of the first thousand arrivals: a hash of this seed and the number of the arrival
    /// decides.
    Half(u64),
    /// At each one of the first thousand arrivals.
    Every,
}

/// When a held thread continues, at the latest when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldEnd {
    /// When no other thread of the program can run.
    OthersBlocked,
    /// When other processes have made this number of traced system calls, or no other thread can run. A thread that
    /// sleeps for a time can run.
    OthersProgressed(u32),
    /// When the time is over.
    Time,
}

/// What identifies an instruction in another build of its file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CodeAnchor {
    /// Identity of the file in which the address is valid.
    pub build: String,
    /// Symbol of the function.
    pub symbol: String,
    /// Number of the instruction in the function, from 0.
    pub instruction: u32,
}

/// A thread that is held at a point.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Hold {
    /// Where.
    pub point: HoldPoint,
    /// At which arrivals.
    pub occurrence: Occurrence,
    /// Until when.
    pub end: HoldEnd,
    /// The longest time of one hold.
    #[serde(rename = "limit_us", with = "micros")]
    pub limit: Duration,
    /// Whether to watch the memory that the instruction accesses, for accesses of other threads during the hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watches: bool,
    /// The same instruction in another build of the program.
    #[serde(default, skip_serializing_if = "is_default")]
    pub anchor: Option<CodeAnchor>,
}

/// What to do with the threads of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldPlan {
    /// Find out which points the program reaches.
    Learn(CodeScope),
    /// Record which points each thread reaches, and hold threads only if the plan says so.
    Record(PathPlan),
    /// Trace the program as these holds need it, but hold no thread: the control of their trials.
    Trace(Vec<Hold>),
    /// Hold threads.
    Hold {
        /// Where and how long. Several threads may be held at once. When no other thread can run, they continue in this
        /// order.
        holds: Vec<Hold>,
        /// The longest time of all holds together, so that the program does not seem to hang.
        #[serde(rename = "total_limit_us", with = "micros")]
        total_limit: Duration,
        /// Whether the stacks of a crash or a hang are recorded.
        #[serde(default, skip_serializing_if = "is_default")]
        evidence: bool,
    },
}

/// The files whose instructions can become points.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CodeScope {
    /// The program, and files that do not belong to the system. Interpreters are left out.
    #[default]
    Own,
    /// Files whose path contains one of these texts.
    Named(Vec<String>),
    /// Only the functions with these holds. Lines and system calls become points if one of the holds is of their kind.
    Around(Vec<Hold>),
}

impl CodeScope {
    /// Returns the files whose path contains one of these texts; without any, the program.
    pub fn of_parts(parts: &[String]) -> Self {
        match parts {
            [] => Self::Own,
            parts => Self::Named(parts.to_vec()),
        }
    }
}

/// Points that a trial reached, and threads that were held in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HoldObservation {
    /// For every hold, how many threads were held.
    #[serde(skip_serializing_if = "is_default")]
    pub times: Vec<u32>,
    /// For every hold, what identifies its instruction in another build; only if evidence was wanted.
    #[serde(skip_serializing_if = "is_default")]
    pub anchors: Vec<Option<CodeAnchor>>,
    /// The points that were reached, if they were to be learned.
    #[serde(skip_serializing_if = "is_default")]
    pub learned: Vec<LearnedPoint>,
    /// The paths of the threads, if they were to be recorded.
    #[serde(skip_serializing_if = "is_default")]
    pub path: Option<Box<TrialPath>>,
    /// Whether only the entries of functions were learned, or recorded of some files, because the program has much code.
    #[serde(skip_serializing_if = "is_default")]
    pub entries_only: bool,
    /// Python packages and extension modules that the program uses, and whose code was left out while points were learned.
    #[serde(skip_serializing_if = "is_default")]
    pub left_out: Vec<String>,
    /// Accesses of other threads to memory that a held thread was about to access.
    #[serde(skip_serializing_if = "is_default")]
    pub races: Vec<RacingAccess>,
    /// Why threads could not be held.
    #[serde(skip_serializing_if = "is_default")]
    pub refused: Option<String>,
}

/// A point that the program reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LearnedPoint {
    /// The point.
    pub point: HoldPoint,
    /// Number of the thread that reached it first: 0 for the first thread of the program, 1 for the next new one.
    pub thread: u32,
    /// Address of the function of the instruction.
    #[serde(default, skip_serializing_if = "is_default")]
    pub function: u64,
    /// Whether the instruction accesses memory other than the stack.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accesses_memory: bool,
    /// Name of the function.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: Option<String>,
    /// Source file and line.
    #[serde(default, skip_serializing_if = "is_default")]
    pub line: Option<(String, u32)>,
    /// Whether the source file belongs to a library or a runtime.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_library: bool,
}

/// An access of another thread to the memory that a held thread is about to access: a data race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RacingAccess {
    /// Index of the hold.
    pub hold: usize,
    /// The held thread.
    pub held: AccessingThread,
    /// The other thread.
    pub other: AccessingThread,
    /// Address of the memory.
    pub memory: u64,
    /// Number of bytes.
    pub size: u8,
    /// Core of the process at this moment, until it is analysed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub core: Option<CoreObservation>,
}

/// One side of a data race.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessingThread {
    /// Number of the thread in the order of creation.
    pub thread: u32,
    /// Its thread id.
    pub tid: i32,
    /// The instruction of the access.
    #[serde(default, skip_serializing_if = "is_default")]
    pub point: Option<CodePoint>,
    /// Whether it writes.
    pub writes: bool,
    /// The functions that it runs, the innermost first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stack: Vec<Frame>,
    /// Number of the innermost ones that belong to libraries.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_libraries: usize,
}

impl HoldPoint {
    /// Returns the place in the code, if it is one.
    pub fn as_code(&self) -> Option<&CodePoint> {
        match self {
            Self::Code(point) => Some(point),
            Self::Call { .. } | Self::Start(_) | Self::Line { .. } => None,
        }
    }
}

impl Occurrence {
    /// Returns whether the thread is held at this arrival.
    pub fn includes(self, arrival: u32) -> bool {
        match self {
            Self::Nth(number) => arrival == number,
            Self::Half(seed) => {
                arrival <= MAX_ARRIVALS
                    && mix_bits(seed ^ u64::from(arrival).wrapping_mul(0x9e37_79b9_7f4a_7c15)) & 1
                        == 1
            }
            Self::Every => arrival <= MAX_ARRIVALS,
        }
    }

    /// Returns whether no later arrival is included.
    pub fn is_over(self, arrivals: u32) -> bool {
        match self {
            Self::Nth(number) => arrivals >= number,
            Self::Half(_) | Self::Every => arrivals >= MAX_ARRIVALS,
        }
    }
}

impl HoldPlan {
    /// Returns a plan that holds threads for at most a fifth of the trial's timeout.
    pub fn within_timeout(holds: Vec<Hold>, timeout: Duration, evidence: bool) -> Self {
        Self::Hold {
            holds,
            total_limit: timeout / HELD_PART,
            evidence,
        }
    }

    /// Returns the plan with threads held as well, if it records paths.
    #[must_use]
    pub fn with_holds(self, holds: &[Hold], timeout: Duration) -> Self {
        let Self::Record(plan) = self else {
            return self;
        };
        let holds = holds.iter().map(|hold| Hold {
            watches: false,
            ..hold.clone()
        });
        Self::Record(PathPlan {
            holds: holds.collect(),
            total_limit: timeout / HELD_PART,
            ..plan
        })
    }

    /// Returns the holds.
    pub fn holds(&self) -> &[Hold] {
        match self {
            Self::Learn(_) | Self::Trace(_) => &[],
            Self::Record(plan) => &plan.holds,
            Self::Hold { holds, .. } => holds,
        }
    }

    /// Returns the holds for whose points the program is traced, whether or not a thread is held there.
    pub fn traced_holds(&self) -> &[Hold] {
        match self {
            Self::Learn(_) => &[],
            Self::Record(plan) => &plan.holds,
            Self::Trace(holds) | Self::Hold { holds, .. } => holds,
        }
    }

    /// Returns whether the stacks of a crash or a hang are recorded.
    pub fn records_evidence(&self) -> bool {
        matches!(self, Self::Hold { evidence: true, .. })
    }

    /// Returns whether memory is watched, which may interrupt system calls of the program.
    pub fn watches(&self) -> bool {
        self.holds().iter().any(|hold| hold.watches)
    }
}

impl LearnedPoint {
    /// Returns a number by which points of one kind and one function are in the order of the program.
    pub fn place_number(&self) -> u64 {
        match &self.point {
            HoldPoint::Code(point) => point.address,
            HoldPoint::Call { call, .. } => *call,
            HoldPoint::Line { line, .. } => u64::from(*line),
            HoldPoint::Start(_) => 0,
        }
    }
}

impl CodeScope {
    /// Returns whether points of the same kind as this one are learned.
    pub fn includes_kind(&self, point: &HoldPoint) -> bool {
        match self {
            Self::Own | Self::Named(_) => true,
            Self::Around(holds) => holds
                .iter()
                .any(|hold| std::mem::discriminant(&hold.point) == std::mem::discriminant(point)),
        }
    }
}

impl HoldObservation {
    /// Returns whether every hold of a plan held a thread.
    pub fn reached_all(&self, plan: &HoldPlan) -> bool {
        self.refused.is_none()
            && self.times.len() == plan.holds().len()
            && self.times.iter().all(|times| *times > 0)
    }
}

/// Mixes the bits of a number, as in `SplitMix64`.
pub(super) fn mix_bits(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_at_every_arrival_ends_at_the_limit() {
        assert!((1..=MAX_ARRIVALS).all(|arrival| Occurrence::Every.includes(arrival)));
        assert!(!Occurrence::Every.includes(MAX_ARRIVALS + 1));
        assert!(!Occurrence::Every.is_over(MAX_ARRIVALS - 1));
        assert!(Occurrence::Every.is_over(MAX_ARRIVALS));
    }
}
