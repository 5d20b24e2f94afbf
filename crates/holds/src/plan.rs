//! Points at which threads are held, and how long.

use std::path::PathBuf;
use std::time::Duration;

/// Limit of the arrivals that count with [`Occurrence::Half`]: each arrival costs two stops.
const MOST_ARRIVALS: u32 = 1000;

/// A place in a program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodePoint {
    /// Path of the executable or the shared object.
    pub object: PathBuf,
    /// Address of an instruction in this file, as its sections give it.
    pub address: u64,
}

/// Side of the creation of a thread or a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CreationSide {
    /// The thread that creates.
    Creator,
    /// The new thread, or the first thread of the new process.
    Created,
}

/// Where a thread is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
}

/// At which arrivals a thread is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Occurrence {
    /// At one arrival, from 1.
    Nth(u32),
    /// At about every second one of the first thousand arrivals: a hash of this seed and the number of the arrival
    /// decides.
    Half(u64),
}

/// When a held thread continues, at the latest when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldEnd {
    /// When no other thread of the program can run.
    OthersBlocked,
    /// When other processes have made this number of traced system calls, or no other thread can run.
    OthersProgressed(u32),
    /// When the time is over.
    Time,
}

/// A thread that is held at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Where.
    pub point: HoldPoint,
    /// At which arrivals.
    pub occurrence: Occurrence,
    /// Until when.
    pub end: HoldEnd,
    /// The longest time of one hold.
    pub limit: Duration,
    /// Whether to watch the memory that the instruction accesses, for accesses of other threads during the hold.
    pub watches: bool,
}

/// What to do with the threads of a program.
#[derive(Clone, Debug)]
pub enum HoldPlan {
    /// Find out which of these points the program reaches.
    Learn(Vec<CodePoint>),
    /// Hold threads.
    Hold {
        /// Where and how long. Several threads may be held at once. When no other thread can run, they continue in this
        /// order.
        holds: Vec<Hold>,
        /// No thread is held any more when threads were held for this long in all, so that the program does not seem to
        /// hang.
        total_limit: Duration,
    },
}

impl Occurrence {
    /// Returns whether the thread is held at this arrival.
    pub(crate) fn includes(self, arrival: u32) -> bool {
        match self {
            Self::Nth(number) => arrival == number,
            Self::Half(seed) => {
                mix_bits(seed ^ u64::from(arrival).wrapping_mul(0x9e37_79b9_7f4a_7c15)) & 1 == 1
            }
        }
    }

    /// Returns whether no later arrival is included.
    pub(crate) fn is_over(self, arrivals: u32) -> bool {
        match self {
            Self::Nth(number) => arrivals >= number,
            Self::Half(_) => arrivals >= MOST_ARRIVALS,
        }
    }
}

/// Mixes the bits of a number, as in `SplitMix64`.
fn mix_bits(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
