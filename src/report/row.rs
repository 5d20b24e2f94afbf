//! Row of one trial in a report, derived from its observation.

use crate::model::{
    ActorSeen, Depth, Ending, Kind, Observation, Outcome, ProcessSeen, Stage, Void,
};
use crate::policy::Verdict;
use jiff::Timestamp;
use serde::{Serialize, Serializer};

/// What is said of one trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its number.
    pub trial: u64,
    /// The name of its variant; empty when there is only one.
    pub variant: String,
    /// The number of the slot that ran it, from 0.
    pub slot: u32,
    /// What it could draw its randomness from.
    pub seed: u64,
    /// Which attempt this was: above 1, those before it were interrupted or lost.
    pub attempt: u32,
    /// When it was started (RFC 3339, UTC), reckoned back from its end; nothing of a lost one.
    #[serde(serialize_with = "to_the_millisecond")]
    pub started: Option<Timestamp>,
    /// How long its main process took; nothing of a lost one.
    pub seconds: Option<f64>,
    /// `pass`, `void`, or the name of the failure.
    pub outcome: String,
    /// Whether and as what it counts.
    pub class: Class,
    /// The signature of the failure: which one it is.
    pub signature: Option<String>,
    /// The same for people.
    pub title: Option<String>,
    /// What the signature rests on.
    pub depth: Option<Depth>,
    /// How the failure is known, or why the trial says nothing.
    pub detail: String,
    /// The exit code of the process that decided the outcome.
    pub exit_code: Option<i32>,
    /// The signal that it died of, seen in its wait status.
    pub signal: Option<String>,
    /// Whether the kernel dumped its core, where it died of a signal.
    pub core_dumped: Option<bool>,
    /// Processor time of all processes of the trial.
    pub cpu_seconds: f64,
    /// Largest resident set of any of its processes.
    pub max_rss_kib: u64,
    /// Processes that it left behind.
    pub leaked_processes: u64,
    /// Containers, volumes and networks that it left behind, where that is watched.
    pub leaked_objects: u64,
    /// Bytes that all of its processes wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes that all of its processes wrote to standard error.
    pub stderr_bytes: u64,
    /// Of a life of a service under load: how far it came.
    pub stage: Option<Stage>,
    /// How many clients it had, or connections.
    pub clients: Option<u32>,
    /// Requests that were sent, those that warmed it up not among them.
    pub requests: Option<u64>,
    /// Whole answers, whatever they said.
    pub answers: Option<u64>,
    /// Requests whose end says that something is wrong while it lives.
    pub errors: Option<u64>,
    /// What became of requests, and how often.
    pub ends: Option<String>,
    /// Answers before its death, those that warmed it up among them.
    pub served_before_death: Option<u64>,
    /// Requests in flight at its death.
    pub in_flight_at_death: Option<u64>,
    /// The last line that the deciding process wrote, unless it simply exited with 0.
    pub last_words: String,
    /// Where its output is kept, from the run's folder.
    pub kept: Option<String>,
    /// What the whole run says, the same in every row.
    pub verdict: Verdict,
    /// An older name of `slot`, until version 0.3.
    pub lane: u32,
    /// What the failure means, in words.
    #[serde(skip)]
    pub(super) words: String,
    /// The place of its variant in the plan.
    #[serde(skip)]
    pub(super) index: usize,
}

/// Whether and as what a trial counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// It did what it should.
    Pass,
    /// It showed the bug.
    Fail,
    /// It failed otherwise, and counts as neither.
    Other,
    /// It says nothing.
    Void,
    /// It was run to catch evidence, with cores being dumped, and counts apart.
    Capture,
    /// It ended after the question was answered, and is not counted.
    AfterDecision,
    /// A trial launched before it has not ended, so that it does not count yet.
    Waiting,
}

/// Returns the process whose end decided the outcome: of several copies, one that ended like that.
pub(super) fn decisive<'a>(
    mains: &mut dyn Iterator<Item = &'a ActorSeen>,
    outcome: &Outcome,
) -> Option<&'a ActorSeen> {
    let mains: Vec<&ActorSeen> = mains.collect();
    let fits = |main: &&&ActorSeen| match (outcome, &main.ending) {
        (Outcome::Fail(failure) | Outcome::Other(failure), ending) => {
            match (&failure.kind, ending) {
                (Kind::Hang { .. }, Ending::TimedOut { .. }) => true,
                (Kind::Signal { signal, .. }, Ending::Signaled(seen, _)) => signal == seen,
                (Kind::Oom { .. }, ending) => *ending != Ending::Exited(0),
                (kind, Ending::Exited(code)) => kind.code() == Some(*code),
                _ => false,
            }
        }
        (Outcome::Void(Void::NotStarted), ending) => matches!(ending, Ending::NotStarted(_)),
        (Outcome::Void(_), ending) => *ending != Ending::Exited(0),
        (Outcome::Pass, _) => true,
    };
    mains.iter().find(fits).or_else(|| mains.first()).copied()
}

pub(super) fn judged(
    outcome: &Outcome,
    seen: &mut Observation,
    decisive: Option<&ActorSeen>,
) -> (String, Class, String) {
    match outcome {
        Outcome::Pass => ("pass".to_owned(), Class::Pass, String::new()),
        Outcome::Fail(failure) => known_by(&failure.kind, Class::Fail, seen),
        Outcome::Other(failure) => known_by(&failure.kind, Class::Other, seen),
        Outcome::Void(void) => {
            let why = match (void, decisive.map(|main| &main.ending)) {
                (Void::NotStarted, Some(Ending::NotStarted(why))) => Some(why.clone()),
                (Void::Lost, _) => seen.lost.take(),
                (Void::NotReady, _) => seen.not_ready(),
                (Void::Unprepared, _) => seen.prepare.take().map(|hook| hook.output),
                _ => None,
            };
            let why = why
                .map(|why| why.trim().to_owned())
                .filter(|why| !why.is_empty());
            let why = why.map_or_else(|| void.to_string(), |why| format!("{void}: {why}"));
            ("void".to_owned(), Class::Void, why)
        }
    }
}

fn known_by(kind: &Kind, class: Class, seen: &Observation) -> (String, Class, String) {
    let command = |process: &ProcessSeen| {
        let words: Vec<String> = process.command.iter().map(ToString::to_string).collect();
        words.join(" ")
    };
    let detail = match kind {
        // The rules for failures come before those for passes.
        Kind::Output => seen
            .matched
            .iter()
            .min_by_key(|(rule, _)| *rule)
            .map(|(_, line)| line.clone()),
        Kind::Leak => {
            let objects = seen.residue.objects.iter().map(ToString::to_string);
            let mut all = seen.residue.leaked.iter().map(command).chain(objects);
            all.next()
        }
        _ => kind.label(),
    };
    (kind.name(), class, detail.unwrap_or_default())
}

#[expect(clippy::ref_option, reason = "the signature that serde asks for")]
fn to_the_millisecond<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(&format_args!("{time:.3}")),
        None => to.serialize_none(),
    }
}
