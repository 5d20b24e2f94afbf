//! Runs a stored trial again, and compares its outcome with the recorded one.

use super::rerun::{RerunLimits, kept_output, repeat_trial, rerun_trial};
use super::stored_trial::StoredTrial;
use provoke_judge as judge;
use provoke_model::{
    EvidenceDepth, Failure, FailureName, KeepRule, Observation, Outcome, Signal, Site, Trial,
    TrialsPlan,
};
use provoke_report::{Report, group_failures};
use provoke_survey as survey;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitStatus;
use tokio::sync::mpsc::UnboundedReceiver;

/// A trial to replay.
pub struct TrialReplay {
    trials: TrialsPlan,
    trial: Trial,
    earlier_outcome: Option<Outcome>,
    /// Its recorded outcome, in words.
    was: String,
    /// Failure rate of its variant, in a sentence.
    rate: Option<String>,
}

/// How a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayEnding {
    /// It passed each time.
    Passed,
    /// It failed.
    Failed,
    /// Its outcome is not known.
    Inconclusive,
    /// A signal stopped it.
    Stopped(Signal),
}

/// The result of a replay.
#[derive(Clone, Debug)]
pub struct ReplayResult {
    /// How it ended.
    pub ending: ReplayEnding,
    /// The recorded outcome and this one, in a sentence.
    pub sentence: String,
    /// Other outcomes, each with its count.
    pub others: Vec<String>,
    /// The failure rate of the variant, in a sentence.
    pub rate: Option<String>,
    /// The lines that the program printed in the last repetition.
    pub output: Vec<String>,
    /// Whether a debugger can run the program as the trial does.
    pub suits_debugger: bool,
}

impl TrialReplay {
    /// Prepares a replay of a stored trial.
    pub fn new(selected: &StoredTrial) -> Self {
        let report = Report::new(&selected.state, true);
        let mut trials = selected.state.trials.clone();
        trials.settings.keep = KeepRule::None;
        let (trial, before) = (selected.trial.clone(), selected.outcome.clone());
        let variant = match trials.variant_plan(trial.variant).name.as_str() {
            "" => String::new(),
            name => format!("of {} ", words::sanitize_line(name)),
        };
        let was = describe_before(&report, &trial, before.as_ref());
        Self {
            was: format!("{variant}{was}"),
            rate: rate_sentence(&report, &trial),
            trials,
            trial,
            earlier_outcome: before,
        }
    }

    /// Describes how the trial was recorded, and how its command ended under another program.
    pub fn describe_wrapped(&self, wrap: &str, status: ExitStatus) -> String {
        let rate = self.rate.as_ref();
        let rate = rate.map_or(String::new(), |rate| format!(" {rate}"));
        let (id, was) = (self.trial.id, &self.was);
        format!("{id} {was}; under `{wrap}` it ended with {status}.{rate}")
    }

    /// Returns whether a debugger can run the program as the trial does: it is a binary on this machine, and no thread of
    /// it is held, because a process has one tracer.
    fn suits_debugger(&self) -> bool {
        let variant = self.trials.variant_plan(self.trial.variant);
        let mut actors = variant.actors.iter();
        let actor = actors.find(|actor| actor.role.decides_outcome());
        self.trial.hold.is_none()
            && actor.is_some_and(|actor| {
                actor.container.is_none() && survey::runs_binary(&self.trials, actor)
            })
    }

    /// Runs the trial once.
    pub async fn run_once(&self, scratch: &Path) -> Result<ReplayResult, Diagnostic> {
        let observation = Box::pin(rerun_trial(&self.trials, &self.trial, scratch)).await?;
        let outcome = self.judge_trial(&observation);
        let took = words::format_seconds(observation.elapsed.as_secs_f64());
        let outcome_text = match &outcome {
            Outcome::Pass if self.earlier_outcome == Some(Outcome::Pass) => {
                format!(", and passed again ({took})")
            }
            Outcome::Pass => format!("; this time it passed ({took})"),
            Outcome::Fail(failure) | Outcome::Other(failure) => {
                self.describe_failed("this time it failed", "", failure, &took)
            }
            Outcome::Inconclusive(void) => format!("; this time it was inconclusive: {void}"),
        };
        Ok(ReplayResult {
            ending: match outcome {
                Outcome::Pass => ReplayEnding::Passed,
                Outcome::Fail(_) | Outcome::Other(_) => ReplayEnding::Failed,
                Outcome::Inconclusive(_) => ReplayEnding::Inconclusive,
            },
            sentence: format!("{} {}{outcome_text}.", self.trial.id, self.was),
            others: Vec::new(),
            rate: self.rate.clone(),
            output: kept_output(scratch),
            suits_debugger: self.suits_debugger(),
        })
    }

    /// Runs the trial until it fails as it did before, a limit is reached, or a signal arrives. `listen` is called before
    /// the first repetition, and `each` after each with the number of repetitions and of passes.
    pub async fn run_until_it_fails(
        &self,
        scratch: &Path,
        limits: &RerunLimits,
        listen: impl FnOnce() -> io::Result<UnboundedReceiver<Signal>>,
        each: impl Fn(u64, u64),
    ) -> Result<ReplayResult, Diagnostic> {
        let (mut count, mut passed) = (0_u64, 0_u64);
        let mut other_failures: BTreeMap<String, u64> = BTreeMap::new();
        let mut is_any_conclusive = false;
        let mut failed: Option<(Box<Failure>, f64)> = None;
        let judge = |observation: &Observation| {
            count += 1;
            match self.judge_trial(observation) {
                Outcome::Pass => passed += 1,
                Outcome::Fail(failure) | Outcome::Other(failure) if self.is_it(&failure) => {
                    failed = Some((failure, observation.elapsed.as_secs_f64()));
                    return ControlFlow::Break(());
                }
                Outcome::Fail(failure) | Outcome::Other(failure) => {
                    is_any_conclusive = true;
                    *other_failures.entry(failure.kind.to_string()).or_default() += 1;
                }
                Outcome::Inconclusive(void) => {
                    *other_failures
                        .entry(format!("inconclusive: {void}"))
                        .or_default() += 1;
                }
            }
            each(count, passed);
            ControlFlow::Continue(())
        };
        let repeating = repeat_trial(&self.trials, &self.trial, scratch, limits, listen, judge);
        let stopped = Box::pin(repeating).await?;
        let replays = words::format_count(count, "replay");
        let failure_text = match &failed {
            Some((failure, took)) => {
                let position_text = format!(" in replay {count}");
                self.describe_failed(
                    "it failed",
                    &position_text,
                    failure,
                    &words::format_seconds(*took),
                )
            }
            None if count == 0 => "; it was stopped in the first replay".to_owned(),
            None => format!("; it passed in {passed} of {replays}"),
        };
        let other_counts = other_failures.iter();
        Ok(ReplayResult {
            ending: match (&failed, stopped) {
                (Some(_), _) => ReplayEnding::Failed,
                (None, Some(signal)) => ReplayEnding::Stopped(signal),
                (None, None) if passed == 0 && !is_any_conclusive => ReplayEnding::Inconclusive,
                (None, None) => ReplayEnding::Passed,
            },
            sentence: format!("{} {}{failure_text}.", self.trial.id, self.was),
            others: other_counts
                .map(|(title, count)| format!("{count}x {}", words::sanitize_line(title)))
                .collect(),
            rate: self.rate.clone(),
            output: if failed.is_some() {
                kept_output(scratch)
            } else {
                Vec::new()
            },
            suits_debugger: self.suits_debugger(),
        })
    }

    fn judge_trial(&self, observation: &Observation) -> Outcome {
        let variant = self.trials.variant_plan(self.trial.variant);
        judge::judge_trial(&self.trials.rules, variant, observation)
    }

    /// Returns whether this is the recorded failure; after a pass, any failure is.
    fn is_it(&self, failure: &Failure) -> bool {
        let earlier_failure = self.earlier_outcome.as_ref().and_then(Outcome::any_failure);
        earlier_failure.is_none_or(|before| FailureName::from(before).is_same(failure.into()))
    }

    /// Describes that it failed, and whether in the same way.
    fn describe_failed(
        &self,
        event: &str,
        position: &str,
        failure: &Failure,
        took: &str,
    ) -> String {
        match self.earlier_outcome.as_ref().and_then(Outcome::any_failure) {
            Some(earlier_failure) if FailureName::from(earlier_failure).is_same(failure.into()) => {
                if differs_in_output(earlier_failure, failure) {
                    let failure = in_words(failure);
                    return format!("; {event} in a similar way{position}: {failure} ({took})");
                }
                format!("; {event} in the same way{position} ({took})")
            }
            Some(_) => format!(
                "; {event} in another way{position}: {} ({took})",
                in_words(failure)
            ),
            None => format!("; {event}{position}: {} ({took})", in_words(failure)),
        }
    }
}

/// Returns whether the output names different failures, such as a test more.
fn differs_in_output(earlier_failure: &Failure, failure: &Failure) -> bool {
    let (before, now) = (&earlier_failure.signature, &failure.signature);
    before.id != now.id && [before, now].map(|name| name.depth) == [EvidenceDepth::Output; 2]
}

/// Describes the recorded outcome of a trial, with the best evidence of the whole run.
fn describe_before(report: &Report, trial: &Trial, outcome: Option<&Outcome>) -> String {
    let failure = match outcome {
        None => return "did not end".to_owned(),
        Some(Outcome::Pass) => return "passed".to_owned(),
        Some(Outcome::Inconclusive(void)) => return format!("was inconclusive ({void})"),
        Some(Outcome::Fail(failure) | Outcome::Other(failure)) => failure,
    };
    let variant = report.variants.get(trial.variant.index());
    let groups = variant.map(group_failures).unwrap_or_default();
    let group = groups
        .iter()
        .find(|group| group.measured_trials().any(|id| id == trial.id.0));
    // Captured trials may have the source line.
    let site = group.and_then(|group| Site::naming_site(&group.signature.sites));
    match site {
        Some(site) if failure.sites.is_empty() => format!(
            "was {} at {}",
            failure.kind.name(),
            words::sanitize_line(&site.file_and_line())
        ),
        _ => format!("was {}", in_words(failure)),
    }
}

/// Returns `SIGSEGV at crash.c:20`, or the title of the failure.
fn in_words(failure: &Failure) -> String {
    let text = match Site::naming_site(&failure.sites) {
        Some(site) => format!("{} at {}", failure.kind.name(), site.file_and_line()),
        None => failure.signature.title.clone(),
    };
    words::sanitize_line(&text)
}

/// Describes the failure rate of the variant of a trial.
fn rate_sentence(report: &Report, trial: &Trial) -> Option<String> {
    // The rate of plain trials does not apply to a trial whose threads were held.
    let variant = report
        .variants
        .get(trial.variant.index())
        .filter(|_| trial.hold.is_none())?;
    let (failures, trials) = (variant.failures, variant.trials);
    match (failures, variant.rate.point) {
        (0, _) => None,
        (_, Some(point)) if failures < trials => Some(format!(
            "It fails in about {} % of trials.",
            words::format_percent(point)
        )),
        _ => Some(format!(
            "In the run, it failed in {failures} of {}.",
            words::format_count(trials, "trial")
        )),
    }
}
