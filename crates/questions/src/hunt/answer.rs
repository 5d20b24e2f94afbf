//! Answer of `hunt`: the hold that makes a program fail, with the window in the source and the races.

use super::held_trials::HeldCounts;
use super::memory::HuntMemory;
use super::places::{HeldPlace, describe_place};
use super::races::{RaceReport, seen_races};
use super::window::{WindowLine, draw_window, window_lines};
use crate::FailureCounts;
use crate::answer::{AnswerText, independence_assumptions};
use crate::state::State;
use provoke_model::{KnownBug, VariantId};
use provoke_stats::{clopper_pearson, confidence_sequence, real, upper_one_sided};
use provoke_words as words;
use serde::Serialize;

/// Races that are shown.
const SHOWN_RACES: usize = 3;
/// Title of a race if nothing failed. It may be harmless, because some atomic operations are plain instructions.
const POSSIBLE_RACE: &str = "data race, unless both accesses are atomic operations";

/// The hold under which the program fails, with the numbers behind it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HuntReport {
    /// The answer in one sentence.
    pub sentence: String,
    /// Trials without holds.
    pub natural: FailureCounts,
    /// The interval of the natural failure rate; null without such a trial.
    pub natural_interval: Option<[f64; 2]>,
    /// Fresh trials under the hold that was found; null until there is one.
    pub held: Option<FailureCounts>,
    /// The interval of the failure rate under this hold.
    pub held_interval: Option<[f64; 2]>,
    /// Fresh trials in which the hold was not reached; they do not count.
    pub unreached: u64,
    /// Lower bound of the ratio of both rates; null if it is not known.
    pub times_as_often: Option<f64>,
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
    /// All trials with holds, whatever was held.
    pub tried: FailureCounts,
    /// Why threads could not be held; null if they could.
    pub refused: Option<String>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

impl HuntReport {
    pub(super) fn new(
        state: &State,
        name_crash: &dyn Fn(VariantId) -> Option<String>,
    ) -> Option<Self> {
        let memory: &HuntMemory = state.learned()?;
        let alpha = state.plan.alpha.to_probability();
        let plain = state.tally_of(VariantId(0));
        let natural = FailureCounts {
            failures: plain.failures,
            trials: plain.counted_trials(),
        };
        let held_tally = state.held_tally(VariantId(0));
        let examined = memory.held_trials.best_examination();
        // The best of several examined holds is reported, so each interval shares the error rate.
        let held_alpha = alpha / real(memory.held_trials.examination_count().max(1));
        let fresh = examined.map_or_else(HeldCounts::default, |examination| examination.fresh);
        let most_frequent = held_tally
            .groups
            .values()
            .filter(|group| group.is_the_bug)
            .max_by_key(|group| (group.signature.depth, group.trials.len()));
        let held_crash = most_frequent.map(|group| group.signature.title.clone());
        let known_crash = memory.question.known.as_ref();
        let same_as = known_crash.zip(most_frequent).and_then(|(crash, group)| {
            let is_same = |bug: &KnownBug| bug.has_signature(&group.signature);
            crash.bugs.iter().any(is_same).then(|| crash.run.clone())
        });
        let mut report = Self {
            sentence: String::new(),
            natural,
            natural_interval: natural_interval(natural, alpha),
            held: examined.map(|_| FailureCounts {
                failures: fresh.failures,
                trials: fresh.trials,
            }),
            held_interval: examined.map(|_| {
                let interval = confidence_sequence(fresh.failures, fresh.trials, held_alpha);
                [interval.lo, interval.hi]
            }),
            unreached: fresh.unreached,
            times_as_often: examined.and_then(|_| ratio_of_rates(fresh, natural, held_alpha)),
            places: examined.map_or_else(Vec::new, |examination| {
                let holds = examination.holds.iter();
                holds
                    .map(|hold| describe_place(&memory.held_trials.points, hold))
                    .collect()
            }),
            same_as,
            crash: held_crash.or_else(|| name_crash(VariantId(0))),
            example: examined
                .and_then(|examination| examination.example)
                .map(|trial| trial.0),
            window: examined.map_or_else(Vec::new, |examination| {
                window_lines(&memory.held_trials, examination)
            }),
            races: seen_races(
                &memory.races,
                most_frequent.map_or(&[], |group| group.sites.as_slice()),
            ),
            points: memory.held_trials.points.in_order().len() as u64,
            tried: FailureCounts {
                failures: held_tally.failures,
                trials: held_tally.counted_trials(),
            },
            refused: memory.refused.clone(),
            assumptions: independence_assumptions(state),
        };
        report.sentence = report.write_sentence();
        Some(report)
    }

    fn write_sentence(&self) -> String {
        let natural = self.natural.in_words();
        if let (Some(held_counts), Some(interval)) = (self.held, self.held_interval) {
            let places_text = self.places_in_words();
            if self.natural.failures > 0 && self.times_as_often.is_none_or(|ratio| ratio <= 1.0) {
                return format!(
                    "It fails without a hold in {natural}, and no hold makes it fail clearly more often; the best one, if {places_text}: {} trials (95 % interval {})",
                    held_counts.in_words(),
                    words::format_interval(interval),
                );
            }
            return format!(
                "It fails in {} new trials (95 % interval {}) if {places_text}; without a hold in {natural}",
                held_counts.in_words(),
                words::format_interval(interval),
            );
        }
        if let Some(reason) = &self.refused {
            return format!(
                "NOT KNOWN: its threads cannot be held ({reason}); without a hold it failed in {natural} trials"
            );
        }
        let tried_text = self.tried.in_words();
        if self.tried.failures > 0 {
            format!(
                "NOT KNOWN YET: it failed in {tried_text} trials with holds, but no single hold makes it fail often; without a hold in {natural}"
            )
        } else if self.tried.trials == 0 {
            format!(
                "NOT KNOWN: no trial with holds was conclusive; without a hold it failed in {natural} trials"
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

    /// Returns where threads are held: `a thread is held at a.c:7, and another one at a.c:9`.
    fn places_in_words(&self) -> String {
        let names: Vec<&str> = self
            .places
            .iter()
            .map(|held_place| &*held_place.place)
            .collect();
        match names[..] {
            [first, second] if first == second => format!("two threads are held {first}"),
            [first, second, third] => {
                format!("a thread is held {first}, another one {second}, and a third one {third}")
            }
            _ => format!("a thread is held {}", names.join(", and another one ")),
        }
    }

    /// Adds the text of the source lines.
    pub fn add_source(&mut self, source_line: impl Fn(&str, u32) -> Option<String>) {
        for line in &mut self.window {
            let file_and_line = line.file.as_deref().zip(line.line);
            line.text = file_and_line.and_then(|(file, line)| source_line(file, line));
        }
    }
}

impl AnswerText for HuntReport {
    fn sentence(&self) -> &str {
        &self.sentence
    }

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = self.fact_lines();
        lines.extend(draw_window(&self.window, self.held, self.places.len() > 1));
        let kind = if self.held.is_some() {
            "data race"
        } else {
            POSSIBLE_RACE
        };
        let races = self.races.iter().take(SHOWN_RACES);
        lines.extend(races.map(|race| format!("{kind}: {}", race.describe())));
        lines
    }

    fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

impl HuntReport {
    /// Describes the failure, without the window and the races.
    pub fn fact_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.held.is_some()
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
            lines.push(format!("at least {ratio} times as often as without a hold"));
        }
        if self.unreached > 0 {
            lines.push(format!(
                "in {} the hold was not reached; they do not count",
                words::format_count(self.unreached, "more trial")
            ));
        }
        lines
    }
}

/// Returns the interval of the natural rate; one-sided without a failure.
fn natural_interval(natural: FailureCounts, alpha: f64) -> Option<[f64; 2]> {
    let FailureCounts { failures, trials } = natural;
    match (failures, trials) {
        (_, 0) => None,
        (0, trials) => Some([0.0, upper_one_sided(0, trials, alpha)]),
        _ => {
            let interval = clopper_pearson(failures, trials, alpha);
            Some([interval.lo, interval.hi])
        }
    }
}

/// Returns a lower bound of the ratio of the rates. Each bound may be wrong with half of the error rate.
fn ratio_of_rates(held_counts: HeldCounts, natural: FailureCounts, alpha: f64) -> Option<f64> {
    if natural.trials == 0 {
        return None;
    }
    // The number of trials under the hold depends on their failures.
    let held_rate = confidence_sequence(held_counts.failures, held_counts.trials, alpha).lo;
    let natural = upper_one_sided(natural.failures, natural.trials, alpha / 2.0);
    Some(held_rate / natural)
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(_: &State) -> Vec<String> {
    vec![
        "stops one thread at a point of the program until all other threads wait, and tries each point in turn"
            .to_owned(),
    ]
}
