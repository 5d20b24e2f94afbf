//! Computes which rates a comparison can distinguish from another one.

use super::contrast::{Contrast, contrasts};
use super::rates::levels;
use provoke_state::State;
use provoke_stats::{self as stats, ComparisonLevels, EProcess, real};
use provoke_words as words;
use serde::Serialize;

/// Power of the detectable differences that are reported.
const POWER: f64 = 0.8;
/// How often a detectable difference is detected.
const DETECTED: &str = "in 8 of 10 comparisons";
/// Rates for which the detectable differences are announced.
const EXAMPLES: [f64; 3] = [0.5, 0.1, 0.01];

/// The nearest rates that are distinguished from another one with 80 % power.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DetectableRates {
    /// From this rate.
    pub rate: f64,
    /// The number of pairs of trials.
    pub pairs: u64,
    /// The power: how often the difference is detected.
    pub power: f64,
    /// The nearest lower rate; null if there is none.
    pub below: Option<f64>,
    /// The nearest higher rate; null if there is none.
    pub above: Option<f64>,
}

impl DetectableRates {
    /// Returns the rates that would have been distinguished from the observed rate, by the weakest contrast. For a
    /// contrast with several conditions, only the one with the most pairs is used.
    pub(super) fn of_weakest_contrast(state: &State) -> Option<Self> {
        let trials_needed = |contrast: &Contrast| {
            let strata = contrast.evidence.strata().iter();
            strata.map(EProcess::pair_count).max().unwrap_or(0)
        };
        let tested = contrasts(state)
            .iter()
            .filter(|contrast| contrast.is_testable(state));
        let (pairs, contrast) = tested
            .map(|contrast| (trials_needed(contrast), contrast))
            .min_by_key(|(pairs, _)| *pairs)?;
        let (reference, other) = contrast.evidence.failure_counts();
        let trials = 2 * contrast.evidence.pair_count();
        if trials == 0 {
            return None;
        }
        let rate = real(reference + other) / real(trials);
        Some(Self::of_rate(rate, pairs, levels(state)))
    }

    fn of_rate(rate: f64, pairs: u64, levels: ComparisonLevels) -> Self {
        let rates = stats::detectable_rates(rate, pairs, levels, POWER);
        Self {
            rate,
            pairs,
            power: POWER,
            below: rates.below,
            above: rates.above,
        }
    }

    /// Describes which differences would have been detected.
    pub(super) fn describe_power(&self) -> String {
        let rate = words::format_percent(self.rate);
        let end = |word: &str, end: Option<f64>| {
            end.map(|end| format!("{word} {} %", words::format_percent(end)))
        };
        let ends: Vec<String> = [end("below", self.below), end("above", self.above)]
            .into_iter()
            .flatten()
            .collect();
        let trials = words::format_count(self.pairs, "trial");
        if ends.is_empty() {
            return format!(": {trials} of each are too few for any difference from {rate} %");
        }
        format!(
            ". All together failed in {rate} %; {trials} of each detect only a rate {} ({DETECTED})",
            ends.join(" or ")
        )
    }

    /// Returns how many trials would show that a variant fails half as often, if they are more than so far.
    pub(super) fn suggest_trials(&self, alpha: f64) -> Option<String> {
        let half = self.rate / 2.0;
        let levels = ComparisonLevels::with_planned_look(alpha);
        let pairs = stats::pairs_to_tell(self.rate, half, levels, POWER)?;
        (pairs > self.pairs).then(|| {
            format!(
                "to detect {} % against {} %: -n {pairs}",
                words::format_percent(self.rate),
                words::format_percent(half),
            )
        })
    }
}

/// Describes the detectable differences before the first trial.
pub(super) fn describe_detectable(state: &State) -> String {
    let Some(pairs) = state.stop.trials else {
        return "the smallest detectable difference depends on the number of trials (-n)"
            .to_owned();
    };
    let levels = levels(state);
    let example = EXAMPLES.iter().find_map(|rate| {
        let below = DetectableRates::of_rate(*rate, pairs, levels).below?;
        let (rate, below) = (words::format_percent(*rate), words::format_percent(below));
        Some(format!("a fall from {rate} % to {below} %"))
    });
    let trials = words::format_count(pairs, "trial");
    match example {
        None => format!("{trials} of each variant are too few to detect even large differences"),
        Some(fall) => {
            format!("{trials} of each variant detect, for example, {fall} ({DETECTED})")
        }
    }
}
