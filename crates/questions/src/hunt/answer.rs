//! Answer of `hunt`: the hold that makes a program fail, with the window in the source and the races.

use super::held_trials::{Examination, FIRST_FRESH_TRIALS, HeldCounts};
use super::memory::{HuntMemory, LEARNING_TRIALS};
use super::other_failures::{OtherFailures, count_failure, is_examined_failure};
use super::places::{HeldPlace, describe_place};
use super::policy::{HuntPolicy, fails_if_plain, fails_if_traced};
use super::races::{RACE_TITLE, RaceReport, seen_races};
use super::window::{WindowLine, describe_window, window_lines};
use crate::answer::{
    AnswerContext, AnswerText, RateMeaning, VariantSummary, independence_assumptions, rate_row,
    rate_table, sentence_and_assumptions,
};
use crate::differ::describe_lead;
use crate::{FailureCounts, Policy as _, StopRule, Verdict, rate_interval};
use provoke_model::{CodeScope, HoldPoint, KnownBug, VariantId};
use provoke_state::State;
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{SuggestedCommand, Table};
use provoke_words::untrusted::SafeText;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// Names of packages that are shown.
const SHOWN_NAMES: usize = 4;
/// Races that are shown.
const SHOWN_RACES: usize = 3;

/// The hold under which the program fails, with the numbers behind it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HuntAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// Plain trials: without holds, and not traced. Once a hold is found, only the failure that happens under it counts.
    pub natural: FailureCounts,
    /// The interval of the natural failure rate; null without such a trial.
    pub natural_interval: Option<[f64; 2]>,
    /// Fresh trials under the hold that was found, whether or not they reached it, and those that showed `crash`; null
    /// until the program is known to fail more often under a hold.
    pub held: Option<FailureCounts>,
    /// The interval of the failure rate under this hold.
    pub held_interval: Option<[f64; 2]>,
    /// Fresh trials in which the hold was not reached. They count, because reaching it may depend on the outcome.
    pub unreached: u64,
    /// Fresh trials under this hold that showed another failure.
    pub failed_otherwise: u64,
    /// The most frequent one of the other failures: under the hold that was found, otherwise of all trials with holds that
    /// did not show the failure of `--baseline`.
    pub other_crash: Option<String>,
    /// Control trials of this hold: traced in the same way, but no thread was held. Without a hold that was found, those of
    /// all holds that were examined, with any failure.
    pub control: FailureCounts,
    /// The interval of the failure rate of the control trials; null without such a trial.
    pub control_interval: Option<[f64; 2]>,
    /// Lower bound of the ratio of the rates of held trials and control trials; null if it is not known.
    pub times_as_often: Option<f64>,
    /// Whether most plain trials fail, or most trials that are only traced, so that no hold is needed.
    pub needs_no_hold: bool,
    /// Where threads are held.
    pub places: Vec<HeldPlace>,
    /// The failure that happens under the hold, by its signature's title.
    pub crash: Option<String>,
    /// The run of `--baseline`, if it has the same failure.
    pub same_as: Option<String>,
    /// A failing trial, to repeat it.
    pub example: Option<u64>,
    /// The lines around the held point, with the trials in which a thread was held there.
    pub window: Vec<WindowLine>,
    /// Accesses of other threads to the memory that a held thread was about to access.
    pub races: Vec<RaceReport>,
    /// Number of points that the program reaches.
    pub points: u64,
    /// All trials with holds, whatever was held. Those that watched memory do not count.
    pub tried: FailureCounts,
    /// Trials that were observed to learn where to hold threads.
    #[serde(flatten)]
    pub learning: LearningTrials,
    /// Plain trials that were stopped before any plain trial had passed.
    pub unended: u64,
    /// Where no thread was held.
    #[serde(flatten)]
    pub unheld: UnheldCode,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// Trials that were observed, but in which no thread was held.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LearningTrials {
    /// Trials that were observed, but in which no thread was held, to learn where failing ones differ.
    pub observed: FailureCounts,
    /// What failing ones of them do differently, if the search used it.
    pub difference: Option<String>,
}

/// Code in which no thread was held, and why.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnheldCode {
    /// Python packages and extension modules that the program uses, and in which no thread was held.
    pub left_out: Vec<String>,
    /// The texts of `--hold-in` that the path of no file with points contains.
    pub not_found: Vec<String>,
    /// Why threads could not be held; null if they could.
    pub refused: Option<String>,
}

impl HuntAnswer {
    pub(super) fn new(state: &State, context: &AnswerContext<'_>) -> Option<Self> {
        let memory: &HuntMemory = state.learned()?;
        let alpha = state.goal.alpha.to_probability();
        let plain = state.tally_of(VariantId(0));
        let held_tally = state.held_tally(VariantId(0));
        let needs_no_hold = fails_if_plain(state) || fails_if_traced(state, memory);
        let claimed = || memory.held_trials.claimed_examination(alpha);
        let examined = if needs_no_hold { None } else { claimed() };
        let failure = examined.map(|examination| &examination.failure);
        let natural = count_failure(plain, failure);
        let control = failure.map_or_else(
            || memory.held_trials.control_total(),
            |failure| failure.control,
        );
        // The best of several examined holds is reported, so each interval shares the error rate.
        let held_alpha = alpha / real(memory.held_trials.examination_count().max(1));
        let fresh = examined.map_or_else(HeldCounts::default, |examination| examination.fresh);
        let held = failure.map_or_else(FailureCounts::default, |failure| failure.held);
        let stop_rule = HuntPolicy.stop_rule(state, VariantId(0));
        let most_frequent = held_tally
            .groups
            .values()
            .filter(|group| is_examined_failure(group, failure))
            .max_by_key(|group| (group.signature.depth, group.trials.len()));
        let held_crash = most_frequent.map(|group| group.signature.title.clone());
        let known_crash = memory.question.known.as_ref();
        let same_as = known_crash.zip(most_frequent).and_then(|(crash, group)| {
            let is_same = |bug: &KnownBug| bug.has_signature(&group.signature);
            crash.bugs.iter().any(is_same).then(|| crash.run.clone())
        });
        let natural_interval = || {
            if natural.failures < plain.failures {
                return interval_of(natural, alpha);
            }
            let interval = rate_interval(stop_rule, plain, alpha);
            Some(interval.ends())
        };
        let other_crash = match failure {
            Some(failure) => failure.others.title().map(str::to_owned),
            None => held_tally.title_of_others(),
        };
        let mut report = Self {
            sentence: String::new(),
            natural,
            natural_interval: (natural.trials > 0).then(natural_interval).flatten(),
            failed_otherwise: failure.map_or(0, |failure| failure.others.count()),
            other_crash,
            held: examined.map(|_| held),
            held_interval: examined.and_then(|_| interval_of(held, held_alpha)),
            unreached: fresh.unreached,
            control,
            control_interval: interval_of(control, alpha),
            times_as_often: examined.and_then(|_| ratio_of_rates(held, control, held_alpha)),
            needs_no_hold,
            places: examined.map_or_else(Vec::new, |examination| places_of(memory, examination)),
            same_as,
            crash: held_crash.or_else(|| context.crash(VariantId(0))),
            example: examined
                .and_then(|examination| examination.example)
                .map(|trial| trial.0),
            window: examined.map_or_else(Vec::new, |examination| {
                window_lines(&memory.held_trials, examination, context.source_line)
            }),
            races: seen_races(
                &memory.races,
                most_frequent.map_or(&[], |group| group.sites.as_slice()),
            ),
            points: memory.held_trials.points.in_order().len() as u64,
            tried: memory.tried,
            learning: LearningTrials {
                observed: memory.observed(),
                difference: if memory.question.leading.is_empty()
                    && memory.held_trials.points.has_leading()
                {
                    describe_lead(&memory.differ)
                } else {
                    None
                },
            },
            unended: memory.unended,
            unheld: UnheldCode {
                left_out: memory.left_out.clone(),
                not_found: names_not_found(memory),
                refused: memory.refused.clone(),
            },
            assumptions: independence_assumptions(state),
        };
        let others = OtherFailures::new(state, failure);
        report.sentence =
            report.write_sentence(&BestSoFar::new(memory), &others, memory.longest_unended)
                + &others.in_words();
        Some(report)
    }

    fn write_sentence(
        &self,
        best: &BestSoFar,
        others: &OtherFailures,
        longest_unended: Duration,
    ) -> String {
        let natural = self.natural.in_words();
        let control = self.control.in_words();
        if self.needs_no_hold {
            return self.write_failure_without_hold();
        }
        if let (Some(held), Some(interval)) = (self.held, self.held_interval) {
            let places_text = places_in_words(&self.places);
            let crash = self.crash.as_ref().filter(|_| !others.is_empty());
            let crash_text = crash.map_or_else(String::new, |crash| format!(" ({crash})"));
            let counts = format!(
                "{} new trials (95 % interval {})",
                held.in_words(),
                words::format_interval(interval)
            );
            return if 2 * held.failures > held.trials {
                format!(
                    "It fails{crash_text} in {counts} if {places_text}; without the hold, but traced, in {control}"
                )
            } else {
                format!(
                    "It fails{crash_text} more often if {places_text}: in {counts}; without the hold, but traced, in {control}"
                )
            };
        }
        if let Some(reason) = &self.unheld.refused {
            return format!(
                "NOT KNOWN: its threads cannot be held ({reason}); without a hold it failed in {natural} trials"
            );
        }
        if self.natural.trials == 0 && self.unended > 0 {
            return format!(
                "NOT KNOWN: no trial ended, the longest one was stopped after {}; give the hunt more time with -d, or a trial with -t",
                words::format_seconds(longest_unended.as_secs_f64())
            );
        }
        if self.natural.trials + self.tried.trials == 0 {
            return "NOT KNOWN: no trial ended in time; give the hunt more time with -d".to_owned();
        }
        let best_text = best.in_words();
        if self.natural.failures > 0 {
            return format!(
                "It fails without a hold in {natural}, and no hold that was tried makes it fail clearly more often{best_text}"
            );
        }
        let tried_text = self.tried.in_words();
        if self.tried.failures > 0 {
            format!(
                "NOT KNOWN YET: it failed in {tried_text} trials with holds, but no single hold makes it fail clearly more often{best_text}; without a hold in {natural}"
            )
        } else if self.tried.trials == 0 {
            format!(
                "NOT KNOWN: no trial with holds was conclusive; without a hold it failed in {natural} trials"
            )
        } else if self.learning.observed.failures > 0 {
            format!(
                "NOT KNOWN YET: it failed in {} trials that were only observed, but in none of {} with holds; without a hold in {natural}",
                self.learning.observed.in_words(),
                self.tried.trials
            )
        } else if !others.is_empty() {
            format!(
                "The failure did not occur: in {tried_text} trials with holds; without a hold in {natural}"
            )
        } else {
            let seen_text = if self.races.is_empty() {
                ""
            } else {
                ", but two threads access the same memory at once"
            };
            format!(
                "No failure{seen_text}: it passed in all {} trials with holds; without a hold it failed in {natural}",
                self.tried.trials
            )
        }
    }

    /// Describes a program that fails in most trials although no thread is held.
    fn write_failure_without_hold(&self) -> String {
        let natural = self.natural.in_words();
        let interval_text =
            |interval: Option<[f64; 2]>| words::format_interval(interval.unwrap_or([0.0, 1.0]));
        if 2 * self.natural.failures > self.natural.trials {
            format!(
                "It fails in most plain trials, so no hold is needed: {natural} (95 % interval {})",
                interval_text(self.natural_interval)
            )
        } else {
            format!(
                "It fails in most trials that are only traced, so no hold is needed: {} (95 % interval {}); not traced, in {natural}",
                self.control.in_words(),
                interval_text(self.control_interval)
            )
        }
    }
}

/// Returns where threads are held: `threads are held at a.c:7 and at a.c:9`, which may be the same thread.
fn places_in_words(places: &[HeldPlace]) -> String {
    let names: Vec<&str> = places.iter().map(|held_place| &*held_place.place).collect();
    match names[..] {
        [first, second] if first == second => format!("two threads are held {first}"),
        [ref others @ .., last] if !others.is_empty() => {
            format!("threads are held {} and {last}", others.join(", "))
        }
        _ => format!("a thread is held {}", names.concat()),
    }
}

/// The hold with the highest failure rate so far, which is not known to make the program fail more often.
struct BestSoFar(Option<(Vec<HeldPlace>, FailureCounts, FailureCounts)>);

impl BestSoFar {
    fn new(memory: &HuntMemory) -> Self {
        let best = memory.held_trials.best_examination();
        let best = best.filter(|best| best.fresh.launched() >= FIRST_FRESH_TRIALS);
        Self(best.map(|examination| {
            (
                places_of(memory, examination),
                examination.failure.held,
                examination.failure.control,
            )
        }))
    }

    fn in_words(&self) -> String {
        self.0
            .as_ref()
            .map_or_else(String::new, |(places, fresh, control)| {
                format!(
                    " (the best one, if {}: {} new trials; without the hold, but traced: {})",
                    places_in_words(places),
                    fresh.in_words(),
                    control.in_words()
                )
            })
    }
}

fn places_of(memory: &HuntMemory, examination: &Examination) -> Vec<HeldPlace> {
    let holds = examination.holds.iter();
    holds
        .map(|hold| describe_place(&memory.held_trials.points, hold))
        .collect()
}

impl AnswerText for HuntAnswer {
    sentence_and_assumptions!();

    /// Describes the failure, without the window and the races.
    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if (self.held.is_some() || self.needs_no_hold)
            && let Some(crash) = &self.crash
        {
            let same_as = self.same_as.as_ref();
            let same_as_text =
                same_as.map_or_else(String::new, |run| format!(" (as in run {run})"));
            lines.push(format!("failure: {crash}{same_as_text}"));
        }
        if let Some(ratio) = self.times_as_often.filter(|ratio| *ratio >= 1.1) {
            // Rounded down, because it is a lower bound.
            let digits = if ratio < 10.0 { 10.0 } else { 1.0 };
            let ratio = words::format_number((ratio * digits).floor() / digits);
            lines.push(format!(
                "at least {ratio} times as often as without the hold"
            ));
        }
        if self.unreached > 0 {
            lines.push(format!(
                "the hold was not reached in {} of these trials; they count",
                self.unreached
            ));
        }
        if let Some(interval) = self.natural_interval
            && !(self.needs_no_hold && 2 * self.natural.failures > self.natural.trials)
        {
            lines.push(format!(
                "natural rate: {} plain trials failed (95 % interval {})",
                self.natural.in_words(),
                words::format_interval(interval)
            ));
        }
        if let Some(difference) = &self.learning.difference {
            lines.push(format!(
                "searched first where failing trials differ: {difference}"
            ));
        }
        if !self.unheld.not_found.is_empty() {
            lines.push(format!(
                "--hold-in {} has no effect: no code of such a file runs after the first thread was created",
                self.unheld.not_found.join(", ")
            ));
        }
        if self.held.is_none() && !self.needs_no_hold && !self.unheld.left_out.is_empty() {
            lines.push(format!(
                "no thread was held in {}; --hold-in NAME holds threads there",
                words::list_first(&self.unheld.left_out, SHOWN_NAMES)
            ));
        }
        lines.extend(describe_window(
            &self.window,
            self.held,
            self.places.len() > 1,
        ));
        let races = self.races.iter().take(SHOWN_RACES);
        lines.extend(races.map(|race| format!("{RACE_TITLE}: {}", race.describe())));
        lines
    }

    fn tables(&self, _: &[VariantSummary], _confidence: f64) -> Vec<Table> {
        let rows = [
            rate_row("plain", self.natural, self.natural_interval),
            rate_row("traced without a hold", self.control, self.control_interval),
            self.held
                .and_then(|held| rate_row("with the hold", held, self.held_interval)),
        ];
        vec![rate_table(rows.into_iter().flatten())]
    }

    fn result(&self, _: Verdict, _: &[VariantSummary]) -> String {
        match self.held {
            Some(held) => format!("{} failed under holds", held.in_words()),
            None if self.natural.failures > 0 => {
                format!("{} failed without a hold", self.natural.in_words())
            }
            None => "no hold found".to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("hunt", "no schedule that was tried fails")
    }

    fn commands(&self, run: &SafeText) -> Vec<SuggestedCommand> {
        let held = self.example.map(|trial| {
            [
                SuggestedCommand::new("is it fixed?", format!("provoke confirm --held {run}")),
                SuggestedCommand::new(
                    "hold the thread again",
                    format!("provoke replay {run}#{trial}"),
                ),
            ]
        });
        let differ = SuggestedCommand::new(
            "what failing trials do differently",
            format!("provoke differ --baseline {run}"),
        );
        let cannot_be_held = self.unheld.refused.is_some() && self.natural.failures > 0;
        let differ = cannot_be_held.then_some(differ);
        held.into_iter().flatten().chain(differ).collect()
    }

    fn rate_meaning(&self) -> RateMeaning {
        match self.example {
            Some(_) => RateMeaning::Searched,
            None => RateMeaning::Measured,
        }
    }

    fn crash(&self) -> Option<&str> {
        self.crash.as_deref()
    }

    fn held_places(&self) -> &[HeldPlace] {
        &self.places
    }

    fn example_trial(&self) -> Option<u64> {
        self.example
    }
}

/// Returns the texts of `--hold-in` that no file contains in which the program reached a point.
fn names_not_found(memory: &HuntMemory) -> Vec<String> {
    let CodeScope::Named(names) = &memory.question.scope else {
        return Vec::new();
    };
    if memory.learning_trials < LEARNING_TRIALS {
        return Vec::new();
    }
    let points = memory.held_trials.points.in_order().iter();
    let files: BTreeSet<String> = points
        .filter_map(|point| match point {
            HoldPoint::Code(code) => Some(code.object.to_string()),
            HoldPoint::Line { file, .. } => Some(file.to_string()),
            HoldPoint::Start(_) | HoldPoint::Call { .. } => None,
        })
        .collect();
    let is_found = |name: &&String| files.iter().any(|file| file.contains(&***name));
    names
        .iter()
        .filter(|name| !is_found(name))
        .cloned()
        .collect()
}

/// Returns the interval of the rate of trials whose number depends on how they end.
fn interval_of(counts: FailureCounts, alpha: f64) -> Option<[f64; 2]> {
    (counts.trials > 0).then(|| {
        StopRule::Decision
            .interval(counts.failures, counts.trials, alpha)
            .ends()
    })
}

/// Returns a lower bound of the ratio of the rates. Each bound may be wrong with half of the error rate.
fn ratio_of_rates(held: FailureCounts, control: FailureCounts, alpha: f64) -> Option<f64> {
    let [held_rate, _] = interval_of(held, alpha)?;
    let [_, control_rate] = interval_of(control, alpha)?;
    Some(held_rate / control_rate)
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(_: &State) -> Vec<String> {
    vec![
        "stops one thread at a point of the program until all other threads wait, and tries each point in turn"
            .to_owned(),
    ]
}
