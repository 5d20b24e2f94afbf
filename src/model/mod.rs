//! Types that all modules share: plans, trials, observations, outcomes and events.
//!
//! Nothing here does I/O. A [`Plan`] is the complete description of a run; a [`Trial`] is one execution of one
//! [`VariantPlan`]; an [`Observation`] holds the facts about a trial; an [`Outcome`] is the judgement of these facts
//! under the plan's [`Rules`]; an [`Event`] is one line of the journal.

pub mod class;
mod conditions;
mod container;
mod event;
mod evidence;
mod hang;
mod host;
mod load;
mod observation;
mod outcome;
mod piece;
mod plan;
mod question;
mod rules;
mod secret;
mod setting;
mod signal;
mod site;
mod space;
mod survey;
mod text;
mod trial;

pub use conditions::{ConditionDifference, Conditions};
pub use container::{Container, ContainerSeen};
pub use event::{Event, FORMAT, Level, Limits, StopCause};
pub use evidence::{
    Autopsy, Casualty, CoreSeen, Crash, Depth, Family, Fault, Frame, KernelLine, Module, Phase,
    Signature, SignatureId, Thread,
};
pub use hang::{AbsentOwner, Activity, Hang, HungThread, WaitsOn};
pub use host::Host;
pub use load::{
    Amount, Answer, Body, Connections, Death, Ended, Http, Latencies, Load, LoadSeen, Owner, Pace,
    Part, Pick, Ready, RequestPlan, Stage, Target, WarmUp,
};
pub use observation::{
    ActorSeen, Around, Ending, HookSeen, ObjectSeen, ObjectSort, Observation, ProcessSeen, Residue,
};
pub use outcome::{Failure, Kind, Outcome, Void, Witness};
pub use piece::{Piece, Pieces, Shell};
pub use plan::{
    ActorPlan, Alpha, Capture, Change, CoreSize, Cores, Edit, Expect, Hooks, Keep, Limit, Plan,
    Resource, Role, Stop, Timeout, VariantPlan,
};
pub use question::{
    Baseline, Bug, Compare, Confirm, Drift, EarlierTrials, Factor, Find, LeftOut, Measured,
    Question, Ramp, RatesDiffer, RunCounts, Search, Shrink,
};
pub use rules::{Leaks, Only, Rules};
pub use secret::is_secret;
pub use setting::Setting;
pub use signal::Signal;
pub use site::Site;
pub use space::{
    Boundary, Choice, Choices, Cut, Cuts, KindOf, Known, Make, Place, Section, Source, Space,
    Stretch, Subset, Thing, What,
};
pub use survey::Survey;
pub use text::Text;
pub use trial::{Lane, Trial, TrialId, VariantId, trial_seed};

/// Serializes durations as whole microseconds: compact in the journal, and exact.
pub mod micros {
    use serde::{Deserialize as _, Deserializer, Serializer};
    use std::time::Duration;

    /// Writes a duration as whole microseconds.
    pub fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(value.as_micros()).unwrap_or(u64::MAX))
    }

    /// Reads whole microseconds.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

/// Returns whether a value equals the default; Serde uses this to leave out fields.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
