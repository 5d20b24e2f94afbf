//! Describes the setting that a search used, and the trials that chose it.

use super::{RaiseDecision, ReproductionProgress, reproduction_progress};
use crate::FailureCounts;
use provoke_state::State;
use provoke_stats::raise::{Sample, SettingVerdict, is_short};
use provoke_words as words;
use serde::Serialize;

/// From this number of trials on, a search is long.
const LONG: u64 = 150;

/// The settings that were tried before a search to raise the failure rate.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RaiseReport {
    /// The result in one sentence.
    pub sentence: String,
    /// The setting that the search used, such as `--copies 4`; null if it ran under the conditions of the plan.
    pub setting: Option<String>,
    /// Failures of the failing variant under the conditions of the plan.
    pub as_planned: FailureCounts,
    /// Each setting with its trials.
    pub settings: Vec<TriedSettingReport>,
    /// Trials that were run to choose the setting; not counted in the search.
    pub trials: u64,
}

/// Failures of the failing variant under a setting.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedSettingReport {
    /// The setting, such as `-j 4`.
    pub setting: String,
    /// Trials that count, and failures among them.
    #[serde(flatten)]
    pub counts: FailureCounts,
    /// Trials that failed in another way; not counted.
    pub other: u64,
    /// The failure rate per trial, as a multiple of that under the conditions of the plan; null if nothing failed
    /// there.
    pub times_by_trials: Option<f64>,
    /// The same per time.
    pub times_by_time: Option<f64>,
    /// Whether the failure rate is high enough to search with this setting.
    pub raises: bool,
}

impl RaiseReport {
    pub(crate) fn new(state: &State) -> Option<Self> {
        let raise = state.raise.as_ref()?;
        let decision = RaiseDecision::of_state(state)?;
        let chosen = raise
            .chosen
            .filter(|id| *id != raise.natural_trials().variant);
        let setting = chosen.and_then(|id| state.trials.variant_plan(id).setting);
        let settings = decision.settings.iter().map(|(tried, sample, standing)| {
            let setting = state
                .trials
                .variant_plan(tried.variant)
                .setting
                .unwrap_or_default();
            let often = sample.times_as_often(&decision.natural);
            TriedSettingReport {
                setting: setting.to_string(),
                counts: counts_of_sample(sample),
                other: (tried.outcomes.len() as u64).saturating_sub(sample.len()),
                times_by_trials: often.map(|(by_trials, _)| by_trials),
                times_by_time: often.map(|(_, by_time)| by_time),
                raises: *standing == SettingVerdict::Raises,
            }
        });
        let natural = match chosen {
            Some(_) => raise.natural_trials().outcomes.len() as u64,
            None => 0,
        };
        let mut report = Self {
            sentence: String::new(),
            setting: setting.map(|setting| setting.to_string()),
            as_planned: counts_of_sample(&decision.natural),
            settings: settings.collect(),
            trials: decision.spent_trials() + natural,
        };
        report.sentence = report.write_sentence(&decision, raise.chosen.is_some());
        Some(report)
    }

    fn write_sentence(&self, decision: &RaiseDecision<'_>, is_over: bool) -> String {
        let planned = self.as_planned.in_words();
        let settings: Vec<String> = self
            .settings
            .iter()
            .filter(|setting| setting.counts.trials + setting.other > 0)
            .map(TriedSettingReport::in_words)
            .collect();
        let settings_text = settings.join(", ");
        let raises = self.settings.iter().find(|setting| setting.raises);
        match (&self.setting, raises) {
            (Some(used_setting), _) => {
                let setting_report = self
                    .settings
                    .iter()
                    .find(|setting| setting.setting == *used_setting);
                setting_report.map_or_else(String::new, |setting| setting.say_used(self.as_planned))
            }
            _ if !is_over => {
                format!("settings are still being tried: {settings_text}; without {planned}")
            }
            (None, Some(setting)) if !decision.knows_the_bug() => format!(
                "with {} it failed {}, without it never in {}: it may be another bug, so no setting was used (--any-failure counts it as the bug)",
                setting.setting,
                setting.counts.in_words(),
                words::format_count(self.as_planned.trials, "trial")
            ),
            _ if is_short(&decision.natural) && settings_text.is_empty() => {
                format!("no setting was tried: the failure is frequent ({planned})")
            }
            _ if settings_text.is_empty() => "no setting was tried".to_owned(),
            _ => format!("no setting doubles the failure rate: {settings_text}; without {planned}"),
        }
    }

    /// Returns the lines for the summary.
    pub(crate) fn summary_lines(&self) -> Vec<String> {
        let mut lines = vec![self.sentence.clone()];
        if self.trials > 0 {
            lines.push(format!(
                "{} used to choose the setting, not counted in the search",
                words::format_count(self.trials, "trial")
            ));
        }
        lines
    }

    /// Returns what the answer assumes if a setting was used.
    pub(crate) fn assumption_if_used(&self) -> Option<String> {
        let setting = self.setting.as_ref()?;
        Some(format!(
            "the failure has the same cause with {setting} as without"
        ))
    }
}

impl TriedSettingReport {
    fn in_words(&self) -> String {
        let other_text = match self.other {
            0 => String::new(),
            count => format!(" and {count} in another way"),
        };
        format!("{} {}{other_text}", self.setting, self.counts.in_words())
    }

    fn say_used(&self, planned: FailureCounts) -> String {
        let often = match (self.times_by_trials, self.times_by_time) {
            (Some(by_trials), Some(by_time)) => format!(
                " ({} times as often per trial, {} per second)",
                words::format_number(by_trials),
                words::format_number(by_time)
            ),
            _ => String::new(),
        };
        format!(
            "searched with {}, which fails more often: {}; without {}{often}",
            self.setting,
            self.counts.in_words(),
            planned.in_words()
        )
    }
}

fn counts_of_sample(sample: &Sample) -> FailureCounts {
    FailureCounts {
        failures: sample.failure_count(),
        trials: sample.len(),
    }
}

/// Says which setting the search uses, and why.
pub fn describe_raised(state: &State) -> Option<String> {
    RaiseReport::new(state).map(|raised| raised.sentence)
}

/// Suggests `--raise-rate` if a search along a list is long because the bad end fails rarely.
pub fn raise_hint(state: &State) -> Option<String> {
    let question = state.goal.question.as_search()?;
    let ready =
        reproduction_progress(state) == ReproductionProgress::Yes && !question.raises_rate();
    let trials = crate::search_trials(state).filter(|trials| ready && *trials >= LONG)?;
    let tally = state.tally_of(State::FAILING);
    Some(format!(
        "it fails in {} of {}, so the search needs about {trials} more; --raise-rate looks for a setting with a higher failure rate",
        tally.failures,
        words::format_count(tally.counted_trials(), "trial"),
    ))
}

/// Lists the settings to try before the start.
pub fn describe_settings(state: &State) -> Option<String> {
    let settings: Vec<String> = state
        .raise
        .as_ref()?
        .tried_settings()
        .iter()
        .filter_map(|setting| state.trials.variant_plan(setting.variant).setting)
        .map(|setting| setting.to_string())
        .collect();
    Some(format!(
        "first tries {}, which may raise the failure rate",
        settings.join(", ")
    ))
}
