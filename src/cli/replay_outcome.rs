//! Shows the recorded outcome of a trial and the outcome of its replay.

use super::error::CliError;
use super::exit::Exit;
use super::rerun::{RerunLimits, repeat_trial, rerun_trial, say_output};
use crate::model::{EvidenceDepth, Failure, KeepRule, Observation, Outcome, Plan, Site, Trial};
use crate::oracle;
use crate::report::{Report, group_failures, words};
use crate::state::State;
use crate::term::{self, ProgressLine, Screen, SuggestedCommand};
use crate::untrusted::shell_word;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// A trial to replay.
pub(super) struct TrialReplay {
    plan: Plan,
    trial: Trial,
    before: Option<Outcome>,
    /// Its recorded outcome, in words.
    was: String,
    /// Failure rate of its variant, in a sentence.
    rate: Option<String>,
    /// Reference of the trial in commands.
    reference: String,
    in_container: bool,
}

impl TrialReplay {
    pub(super) fn new(
        state: &State,
        trial: Trial,
        before: Option<Outcome>,
        reference: &str,
    ) -> Self {
        let report = Report::new(state, true);
        let mut plan = state.plan.clone();
        plan.keep = KeepRule::None;
        let variant = plan.variant_plan(trial.variant);
        Self {
            was: describe_before(&report, &trial, before.as_ref()),
            rate: rate_sentence(&report, &trial),
            reference: format!("{}#{}", shell_word(reference.as_ref()), trial.id.0),
            in_container: variant.actors.iter().any(|actor| actor.container.is_some()),
            plan,
            trial,
            before,
        }
    }

    /// Runs the trial once, and prints its outcome.
    pub(super) fn run_once(&self, scratch: &Path) -> Result<Exit, CliError> {
        let seen = rerun_trial(&self.plan, &self.trial, scratch)?;
        say_output(scratch);
        let outcome = self.judge_trial(&seen);
        let took = words::format_seconds(seen.elapsed.as_secs_f64());
        let now = match &outcome {
            Outcome::Pass if self.before == Some(Outcome::Pass) => {
                format!(", and passed again ({took})")
            }
            Outcome::Pass => format!("; this time it passed ({took})"),
            Outcome::Fail(failure) | Outcome::Other(failure) => {
                self.describe_failed("this time it failed", "", failure, &took)
            }
            Outcome::Void(void) => format!("; this time it was inconclusive: {void}"),
        };
        let mut screen = Screen::on_stdout();
        screen.push_text(0, &format!("{} {}{now}.", self.trial.id, self.was));
        self.print_end(screen, &outcome, "")?;
        Ok(match outcome {
            Outcome::Pass => Exit::Hoped,
            Outcome::Fail(_) | Outcome::Other(_) => Exit::OtherWay,
            Outcome::Void(_) => Exit::CouldNotTest,
        })
    }

    /// Runs the trial until it fails as it did before, and prints the result.
    pub(super) fn until_it_fails(
        &self,
        scratch: &Path,
        limits: &RerunLimits,
    ) -> Result<Exit, CliError> {
        term::print_message(&format!(
            "  repeating {}, at most {} times or {} (-n and -d change this)",
            self.trial.id,
            limits.trials,
            words::format_seconds(limits.time.as_secs_f64()),
        ));
        let counter = ProgressLine::default();
        let (mut count, mut passed) = (0_u64, 0_u64);
        let mut others: BTreeMap<String, u64> = BTreeMap::new();
        let mut failed: Option<(Box<Failure>, f64)> = None;
        let stopped = repeat_trial(&self.plan, &self.trial, scratch, limits, |seen| {
            count += 1;
            match self.judge_trial(seen) {
                Outcome::Pass => passed += 1,
                Outcome::Fail(failure) | Outcome::Other(failure) if self.is_it(&failure) => {
                    failed = Some((failure, seen.elapsed.as_secs_f64()));
                    return ControlFlow::Break(());
                }
                Outcome::Fail(failure) | Outcome::Other(failure) => {
                    *others.entry(failure.kind.to_string()).or_default() += 1;
                }
                Outcome::Void(void) => {
                    *others.entry(format!("inconclusive: {void}")).or_default() += 1;
                }
            }
            counter.show_text(&format!("{count} of {}   {passed} passed", limits.trials));
            ControlFlow::Continue(())
        })?;
        drop(counter);
        let mut screen = Screen::on_stdout();
        let replays = words::format_count(count, "replay");
        let now = match (&failed, passed) {
            (Some((failure, took)), _) => {
                say_output(scratch);
                let at = format!(" in replay {count}");
                self.describe_failed("it failed", &at, failure, &words::format_seconds(*took))
            }
            (None, _) if count == 0 => "; it was stopped in the first replay".to_owned(),
            (None, _) => format!("; it passed in {passed} of {replays}"),
        };
        screen.push_text(0, &format!("{} {}{now}.", self.trial.id, self.was));
        for (other, count) in &others {
            screen.push_text(2, &format!("{count}x {}", words::sanitize_line(other)));
        }
        let outcome = failed.map_or(Outcome::Pass, |(failure, _)| Outcome::Fail(failure));
        let more = format!(" -n {}", limits.trials.saturating_mul(10));
        self.print_end(screen, &outcome, &more)?;
        Ok(match (outcome, stopped) {
            (Outcome::Fail(_), _) => Exit::OtherWay,
            (_, Some(signal)) => Exit::Stopped(signal),
            _ if passed == 0 && others.keys().all(|name| name.starts_with("inconclusive")) => {
                Exit::CouldNotTest
            }
            _ => Exit::Hoped,
        })
    }

    fn judge_trial(&self, seen: &Observation) -> Outcome {
        let variant = self.plan.variant_plan(self.trial.variant);
        oracle::judge_trial(&self.plan.rules, variant, seen)
    }

    /// Returns whether this is the recorded failure; after a pass, any failure is.
    fn is_it(&self, now: &Failure) -> bool {
        let before = self.before.as_ref().and_then(Outcome::any_failure);
        before.is_none_or(|before| is_same(before, now))
    }

    /// Prints that it failed, and whether in the same way.
    fn describe_failed(&self, what: &str, at: &str, now: &Failure, took: &str) -> String {
        match self.before.as_ref().and_then(Outcome::any_failure) {
            Some(before) if is_same(before, now) => {
                format!("; {what} in the same way{at} ({took})")
            }
            Some(_) => format!("; {what} in another way{at}: {} ({took})", in_words(now)),
            None => format!("; {what}{at}: {} ({took})", in_words(now)),
        }
    }

    /// Prints the failure rate and the suggested commands; after a pass with these limits.
    fn print_end(
        &self,
        mut screen: Screen,
        outcome: &Outcome,
        limits: &str,
    ) -> Result<(), CliError> {
        if let Some(rate) = &self.rate {
            screen.push_text(0, rate);
        }
        let replay = format!("provoke replay {}", self.reference);
        let next = match outcome {
            Outcome::Pass => Some(SuggestedCommand::new(
                "until it fails",
                format!("{replay} --until-fail{limits}"),
            )),
            Outcome::Fail(_) | Outcome::Other(_) if !self.in_container => Some(
                SuggestedCommand::new("in a debugger", format!("{replay} --wrap 'gdb --args'")),
            ),
            _ => None,
        };
        screen.push_gap();
        screen.push_commands(next.as_slice());
        term::print_result(&screen.into_text()).map_err(CliError::could_not)
    }
}

/// Returns whether two failures may be one: they end alike, and if both have more evidence than that, they have the
/// same name.
fn is_same(before: &Failure, now: &Failure) -> bool {
    if before.kind.name() != now.kind.name() {
        return false;
    }
    let names = |failure: &Failure| {
        let signature = &failure.signature;
        let own = [(signature.depth, signature.id)].into_iter();
        let names = own.chain(signature.also.iter().copied());
        names
            .filter(|(depth, _)| *depth != EvidenceDepth::Status)
            .collect::<Vec<_>>()
    };
    let (before, now) = (names(before), names(now));
    let comparable = before
        .iter()
        .any(|(depth, _)| now.iter().any(|(other, _)| other == depth));
    !comparable || before.iter().any(|name| now.contains(name))
}

/// Describes the recorded outcome of a trial, with the best evidence of the whole run.
fn describe_before(report: &Report, trial: &Trial, outcome: Option<&Outcome>) -> String {
    let failure = match outcome {
        None => return "did not end".to_owned(),
        Some(Outcome::Pass) => return "passed".to_owned(),
        Some(Outcome::Void(void)) => return format!("was inconclusive ({void})"),
        Some(Outcome::Fail(failure) | Outcome::Other(failure)) => failure,
    };
    let variant = report.variants.get(trial.variant.index());
    let groups = variant.map(group_failures).unwrap_or_default();
    let group = groups
        .iter()
        .find(|group| group.measured_trials().any(|id| id == trial.id.0));
    // Captured trials may have the source line.
    let site = group.and_then(|group| Site::naming_site(&group.is.sites));
    match site.filter(|_| failure.sites.is_empty()) {
        Some(site) => format!(
            "was {} at {}",
            failure.kind.name(),
            words::sanitize_line(&site.file_and_line())
        ),
        None => format!("was {}", in_words(failure)),
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
    let variant = report.variants.get(trial.variant.index())?;
    let (failures, trials) = (variant.failures, variant.trials);
    match (failures, variant.rate.point) {
        (0, _) => None,
        (_, Some(point)) if failures < trials => Some(format!(
            "It fails in about {} % of trials.",
            words::format_percent(point)
        )),
        _ => Some(format!(
            "It failed in {failures} of {}.",
            words::format_count(trials, "trial")
        )),
    }
}
