//! Types that all modules share: plans, trials, observations, outcomes and events.
//!
#![doc = include_str!("../README.md")]

mod baseline;
mod case;
mod case_pattern;
mod case_plan;
mod case_record;
mod conditions;
mod container;
mod event;
mod evidence;
pub mod fault_class;
mod hang;
mod hex;
mod hold;
mod host;
mod load;
mod observation;
mod outcome;
mod parallel_setting;
mod path;
mod plan;
mod question;
mod rules;
mod same_failure;
mod secret;
mod separate_bugs;
mod signal;
mod site;
mod source_part;
mod space;
mod survey;
mod text;
mod trial;
mod untrusted_json;

pub use baseline::{
    Baseline, ExcludedRun, KnownBug, MeasuredBaseline, RateDrift, RateMismatch, RunCounts,
};
pub use case::{CaseEnd, CaseFailure, CaseName, CaseResult, TrialCases};
pub use case_pattern::CasePattern;
pub use case_plan::{CaseOrder, CaseRunner, CasesPlan};
pub use case_record::{CaseFailures, CaseRecord, NumberList};
pub use conditions::{ConditionDifference, Conditions};
pub use container::{Container, ContainerObservation};
pub use event::{Event, FORMAT, NoteLevel, ResumeLimits, StopCause};
pub use evidence::{
    Autopsy, CASES_FOLDER, CoreObservation, Crash, CrashedProcess, EvidenceDepth, Family, Fault,
    Frame, KernelLine, Module, ProcessPhase, STORY_FILE, Signature, SignatureId, Thread,
};
pub use hang::{
    AbsentOwner, CallLanguage, Goroutine, Hang, HungThread, ThreadActivity, WaitObject,
};
pub use hex::{decode_hex, encode_hex};
pub use hold::{
    AccessingThread, CodeAnchor, CodePoint, CodeScope, CreationSide, Hold, HoldEnd,
    HoldObservation, HoldPlan, HoldPoint, LearnedPoint, Occurrence, RacingAccess,
};
pub use host::{Host, HostFacts, HostId, HostPlan, HostRequest, JoinedHost, RequestedHosts};
pub use load::{
    ConnectionReuse, FilePick, HttpVersion, Latencies, LoadLimit, LoadObservation, LoadPlan,
    LoadStage, ReadyCondition, RequestBody, RequestPace, RequestPhase, RequestPlan, RequestResult,
    RequestsAtFailure, ResponseRules, ServiceOwner, TargetPlan, WarmUp,
};
pub use observation::{
    ActorObservation, Ending, FailedHook, Observation, ProcessObservation, RemainingProcesses,
    TotalUsage,
};
pub use outcome::{Failure, FailureKind, InconclusiveReason, Outcome, SignalEvidence};
pub use parallel_setting::ParallelSetting;
pub use path::{
    BlockKind, MAX_EVENTS, MAX_PLACES, PathDetail, PathEvent, PathEvents, PathPart, PathPlace,
    PathPlan, PointName, ThreadEnd, TrialPath,
};
pub use plan::{
    ActorPlan, ActorRole, Alpha, CaptureMode, CoreSettings, CoreSize, EditPlan, ExpectedResult,
    FileChange, Goal, HeldPlan, Hooks, KeepRule, Plan, Resource, ResourceLimit, StopLimits,
    Timeout, TrialConditions, TrialSettings, TrialsPlan, VariantPlan,
};
pub use question::{
    BisectQuestion, CompareGoal, CompareQuestion, ConfirmQuestion, DifferQuestion, EarlierTrials,
    Factor, FailingRate, HuntQuestion, KnownCrash, LoadGoal, Question, RampQuestion,
    SearchQuestion, UnchangedProgram, UntestedCondition, WhyQuestion,
};
pub use rules::{BugFilter, LeakRule, RefusalRules, Rules};
pub use same_failure::FailureName;
pub use secret::is_secret;
pub use signal::Signal;
pub use site::Site;
pub use source_part::{EnclosingPart, SourcePart, SourceParts};
pub use space::{
    AlternatingSection, Boundary, Candidate, CandidateFacts, ConditionRole, Item, ItemKind, PLAIN,
    Preparation, ReducedSource, SearchSpace, SearchedCondition, Subset, UnsearchedSection,
    VariantChoice, VariantChoices,
};
pub use survey::Survey;
pub use text::Text;
pub use trial::{SlotId, Trial, TrialId, TrialPurpose, VariantId, trial_seed};
pub use untrusted_json::{is_parsed_untrusted, parse_small_json, parse_untrusted_json};

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
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
