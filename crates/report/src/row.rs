//! Row of one trial in a report, derived from its observation.

use jiff::Timestamp;
use provoke_judge::signature::{find_culprit, main_actors};
use provoke_judge::unusual_end;
use provoke_model::{
    ActorObservation, Ending, EvidenceDepth, FailureKind, InconclusiveReason, LoadStage,
    Observation, Outcome, ProcessObservation, VariantPlan,
};
use provoke_questions::Verdict;
use serde::{Serialize, Serializer};

/// The facts about one trial in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialRow {
    /// Number.
    pub trial: u64,
    /// Name of its variant; empty for a single variant.
    pub variant: String,
    /// Number of its slot, from 0.
    pub slot: u32,
    /// Seed for its random choices.
    pub seed: u64,
    /// Number of this attempt; above 1 if earlier attempts were interrupted or lost.
    pub attempt: u32,
    /// Start time (RFC 3339, UTC), calculated from its end; `None` for a lost trial.
    #[serde(serialize_with = "to_the_millisecond")]
    pub started: Option<Timestamp>,
    /// Duration of its main process; `None` for a lost trial.
    pub seconds: Option<f64>,
    /// `pass`, `void`, or the name of the failure.
    pub outcome: String,
    /// Whether it counts, and as what.
    pub class: TrialClass,
    /// Signature of the failure.
    pub signature: Option<String>,
    /// Title of the signature.
    pub title: Option<String>,
    /// The kind of evidence that the signature uses.
    pub depth: Option<EvidenceDepth>,
    /// How the failure is known, or why the trial is inconclusive.
    pub detail: String,
    /// The exit code of the process that decided the outcome.
    pub exit_code: Option<i32>,
    /// The signal that it died of, from its wait status.
    pub signal: Option<String>,
    /// Whether the kernel dumped its core, if it died of a signal.
    pub core_dumped: Option<bool>,
    /// CPU time of all processes of the trial.
    pub cpu_seconds: f64,
    /// Largest resident set of any of its processes.
    pub max_rss_kib: u64,
    /// Number of leaked processes.
    pub leaked_processes: u64,
    /// Bytes that all of its processes wrote to stdout.
    pub stdout_bytes: u64,
    /// Bytes that all of its processes wrote to stderr.
    pub stderr_bytes: u64,
    /// Last stage of a trial of a service under load.
    pub stage: Option<LoadStage>,
    /// Number of clients, or of connections.
    pub clients: Option<u32>,
    /// Requests sent, without the warm-up.
    pub requests: Option<u64>,
    /// Complete responses, whatever their content.
    pub answers: Option<u64>,
    /// Requests that ended in an error while the service was running.
    pub errors: Option<u64>,
    /// Results of requests with their numbers.
    pub ends: Option<String>,
    /// Responses before the crash, warm-up included.
    pub served_before_death: Option<u64>,
    /// Requests in flight at the crash.
    pub in_flight_at_death: Option<u64>,
    /// The last line that the deciding process wrote, unless it simply exited with 0.
    pub last_words: String,
    /// Path of its kept output, relative to the run's directory.
    pub kept: Option<String>,
    /// Name of the host on which it ran; empty for this machine.
    pub host: String,
    /// Verdict of the whole run, the same in every row.
    pub verdict: Verdict,
    /// `slot` again, under its name before version 0.3.
    #[serde(rename = "lane")]
    pub slot_under_old_name: u32,
    /// Meaning of the failure, in words.
    #[serde(skip)]
    pub(super) words: String,
    /// Index of its variant in the plan.
    #[serde(skip)]
    pub(super) index: usize,
}

/// Whether a trial counts, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialClass {
    /// It passed.
    Pass,
    /// It showed the bug.
    Fail,
    /// It showed another failure, and counts as neither.
    Other,
    /// It is inconclusive.
    #[serde(rename = "void")]
    Inconclusive,
    /// It captured evidence with cores enabled, and is counted separately.
    Capture,
    /// A hunt held threads in it or learned its points, and it is counted separately.
    Held,
    /// It ran one failing test of a suite alone, and is counted separately.
    Alone,
    /// It ended after the question was answered, and is not counted.
    AfterDecision,
    /// It does not count yet, because a trial launched before it has not ended.
    Waiting,
}

/// Returns the process whose end decided the outcome; of several copies, one that ended in this way.
pub(super) fn decisive_actor<'a>(
    variant: &'a VariantPlan,
    observation: &'a Observation,
    outcome: &Outcome,
) -> Option<&'a ActorObservation> {
    let fits: fn(&Ending) -> bool = match outcome {
        Outcome::Pass => |_| true,
        Outcome::Fail(failure) | Outcome::Other(failure)
            if !matches!(failure.kind, FailureKind::Oom { .. }) =>
        {
            return find_culprit(&failure.kind, variant, observation);
        }
        Outcome::Inconclusive(InconclusiveReason::NotStarted) => {
            |ending| matches!(ending, Ending::NotStarted(_))
        }
        _ => |ending| *ending != Ending::Exited(0),
    };
    let mut mains = main_actors(variant, observation);
    let first = mains.next()?;
    let mut all = std::iter::once(first).chain(mains);
    Some(all.find(|main| fits(&main.ending)).unwrap_or(first))
}

pub(super) fn classify_outcome(
    outcome: &Outcome,
    observation: &mut Observation,
    decisive: Option<&ActorObservation>,
) -> (String, TrialClass, String) {
    match outcome {
        Outcome::Pass => ("pass".to_owned(), TrialClass::Pass, String::new()),
        Outcome::Fail(failure) => known_by(&failure.kind, TrialClass::Fail, observation),
        Outcome::Other(failure) => known_by(&failure.kind, TrialClass::Other, observation),
        Outcome::Inconclusive(void) => {
            let reason = match (void, decisive.map(|main| &main.ending)) {
                (InconclusiveReason::NotStarted, Some(Ending::NotStarted(not_started))) => {
                    Some(not_started.clone())
                }
                (InconclusiveReason::Lost, _) => observation.lost.take(),
                (InconclusiveReason::NotReady, _) => observation.not_ready(),
                (InconclusiveReason::Unprepared, _) => {
                    observation.prepare.take().map(|hook| hook.output)
                }
                _ => None,
            };
            let shown_reason = reason
                .map(|not_started| not_started.trim().to_owned())
                .filter(|not_started| !not_started.is_empty());
            let not_started =
                shown_reason.map_or_else(|| void.to_string(), |why| format!("{void}: {why}"));
            ("void".to_owned(), TrialClass::Inconclusive, not_started)
        }
    }
}

fn known_by(
    kind: &FailureKind,
    class: TrialClass,
    observation: &Observation,
) -> (String, TrialClass, String) {
    let command = |process: &ProcessObservation| {
        let words: Vec<String> = process.command.iter().map(ToString::to_string).collect();
        words.join(" ")
    };
    let detail = match kind {
        // The rules for failures take precedence over those for passes.
        FailureKind::Output => observation
            .matched
            .iter()
            .min_by_key(|(rule, _)| *rule)
            .map(|(_, line)| line.clone()),
        FailureKind::Leak => observation.residue.leaked.first().map(command),
        FailureKind::Hang { .. } | FailureKind::Slow => unusual_end(observation),
        _ => kind.evidence_label(),
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
