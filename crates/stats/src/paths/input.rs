//! The recorded paths: points, and the arrivals of the threads of trials at them.

/// Number of consecutive trials that make a good block of time.
pub const BLOCK_TRIALS: u32 = 8;

/// A point that threads can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathPoint {
    /// What the thread does there.
    pub kind: PointKind,
    /// Number of its function, or of its file in a Python program; only equality matters.
    pub function: u32,
    /// Whether arrivals are not evidence, because they belong to the failure itself: a fatal signal, for example.
    pub is_ignored: bool,
}

/// What a thread does at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointKind {
    /// It enters a function.
    Entry,
    /// It begins another block of instructions.
    Block,
    /// It returns from a call.
    Return,
    /// It ends a system call with a certain result.
    SystemCall,
    /// It receives a signal.
    Signal,
    /// It raises an exception.
    Exception,
    /// It begins a line of a Python program.
    Line,
}

/// An arrival of a thread at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the thread in the order of creation.
    pub thread: u32,
    /// Index of the point.
    pub point: u32,
}

/// The end of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEnd {
    /// Number of the thread.
    pub thread: u32,
    /// The points of the calls that had not returned, innermost first.
    pub active: Vec<u32>,
}

/// A trial and the paths of its threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTrial {
    /// Whether it failed.
    pub failed: bool,
    /// The arrivals in the order of time.
    pub arrivals: Vec<Arrival>,
    /// The ends of threads.
    pub ends: Vec<PathEnd>,
    /// For each point, whether it was armed; `None` if all were.
    pub armed: Option<Vec<bool>>,
    /// Number of the block of time: trials with equal numbers ran at about the same time.
    pub block: u32,
}
