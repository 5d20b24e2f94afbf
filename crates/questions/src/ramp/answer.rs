//! Answer of `load` at several levels: the lowest concurrency that fails.

use super::RampPolicy;
use crate::answer::{AnswerText, format_confidence, independence_assumptions};
use crate::state::{State, Tally};
use crate::{Policy as _, Verdict};
use provoke_model::{RampQuestion, VariantId};
use provoke_stats::ramp::Ramp as Known;
use provoke_stats::{self as stats, real};
use provoke_words as words;
use serde::Serialize;

/// At which concurrency it fails, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Threshold {
    /// The answer in one sentence.
    pub sentence: String,
    /// The lowest level that fails; null until that is known, or if none does.
    pub fails_from: Option<u64>,
    /// The highest testable level below it, or of all levels if none fails; null until that is known, or if the lowest
    /// level already fails.
    pub clean_to: Option<u64>,
    /// The crash at the lowest level that fails: the most frequent one, by its signature's title; null
    /// until that level is known.
    pub crash: Option<String>,
    /// The probability that no other level is the first that fails.
    pub probability: f64,
    /// The failure rate at which a level counts as failing.
    pub detect: f64,
    /// The failure rate that is excluded for the level below; null until the answer is known.
    pub excluded: Option<f64>,
    /// Every level.
    pub levels: Vec<LoadLevelReport>,
    /// If not known yet: the passing trials of the level below the lowest failing one that would settle it, if that one
    /// goes on failing as often. Null if it is known, or if no number would.
    pub missing: Option<u64>,
    /// If not known yet: how many trials the search takes in all, if every level goes on failing as often. Null if it
    /// is known, or if no number would settle it.
    pub trials_needed: Option<u64>,
    /// Why the results contradict that more load fails more often; null if they do not.
    pub not_monotone: Option<String>,
    /// The probability that the answer is wrong.
    pub error_rate: f64,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
    /// The confidence as text.
    #[serde(skip)]
    confidence: String,
}

/// One level of load.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadLevelReport {
    /// The number of clients.
    pub clients: u64,
    /// Counted trials.
    #[serde(rename = "trials")]
    pub lives: u64,
    /// Failed trials.
    pub failures: u64,
    /// The interval of the failure rate; null without a trial.
    pub interval: Option<[f64; 2]>,
    /// Whether the interval is one-sided, because no trial failed.
    pub one_sided: bool,
    /// The probability that it is the first bad one.
    pub probability: f64,
    /// Responses before a crash, warm-up included: minimum, median and maximum; null without a crash.
    pub served_before_death: Option<[u64; 3]>,
    /// Why it is not testable.
    pub untestable: Option<String>,
}

impl LoadLevelReport {
    fn new(state: &State, known: &Known, (id, tally): (VariantId, &Tally), mass: f64) -> Self {
        let (failures, lives) = (tally.failures, tally.counted_trials());
        let alpha = state.plan.alpha.to_probability();
        let interval = match (failures, lives) {
            (_, 0) => None,
            // The number of trials of the level below the answer was fixed before.
            (0, lives) => Some([0.0, stats::upper_one_sided(0, lives, alpha)]),
            _ => {
                let rule = crate::policy_of_plan(&state.plan).stop_rule(state, id);
                let interval = crate::rate_interval(rule, tally, alpha);
                Some([interval.lo, interval.hi])
            }
        };
        let served: Vec<u64> = tally
            .lives
            .deaths
            .iter()
            .map(|(served, _)| *served)
            .collect();
        Self {
            clients: clients_of_level(state, id.index()),
            lives: known.lives_by_level()[id.index()].runs,
            failures,
            interval,
            one_sided: failures == 0 && lives > 0,
            probability: mass,
            served_before_death: stats::spread_of_counts(&served),
            untestable: state.untestable.get(&id).cloned(),
        }
    }
}

impl Threshold {
    pub(super) fn new(
        state: &State,
        name_crash: &dyn Fn(VariantId) -> Option<String>,
    ) -> Option<Self> {
        let ramp: &Known = state.learned()?;
        let alpha = state.plan.alpha.to_probability();
        let (group, never_fails) = ramp.likeliest_group();
        let last = *group.levels.end();
        let verdict = RampPolicy.verdict_of(state);
        let clean = match verdict {
            Verdict::Found => ramp.level_below(last),
            Verdict::NotThere => ramp.level_below(state.plan.variants.len()),
            _ => None,
        };
        let level = |index: usize| clients_of_level(state, index);
        let fails = (verdict == Verdict::Found && !never_fails).then_some(last);
        let levels = state.all_tallies().zip(ramp.level_posterior());
        let (missing, trials_needed) = if verdict == Verdict::Undecided {
            (
                missing_passing_trials(state, ramp),
                total_trials_needed(state, ramp),
            )
        } else {
            (None, None)
        };
        let mut answer = Self {
            sentence: String::new(),
            fails_from: fails.map(level),
            clean_to: clean.map(level),
            crash: fails.and_then(|index| name_crash(VariantId(u32::try_from(index).ok()?))),
            probability: group.mass,
            detect: detection_rate(state),
            excluded: clean.map(|index| {
                let lives = ramp.lives_by_level()[index];
                stats::upper_one_sided(lives.failures, lives.runs, alpha)
            }),
            levels: levels
                .map(|(tally, mass)| LoadLevelReport::new(state, ramp, tally, mass))
                .collect(),
            missing,
            trials_needed,
            not_monotone: not_monotone(state, ramp),
            error_rate: alpha,
            assumptions: list_assumptions(state),
            confidence: format_confidence(&state.plan),
        };
        let sentence = answer.write_sentence(state, ramp, verdict);
        answer.sentence = match &answer.not_monotone {
            Some(contradiction) => {
                format!(
                    "{sentence}; but {contradiction}: the failure rate does not rise with the load"
                )
            }
            None => sentence,
        };
        Some(answer)
    }

    /// Returns two tested levels between which others are not tried yet.
    pub fn untried_gap(&self) -> Option<(u64, u64)> {
        let gap = self.clean_to.zip(self.fails_from);
        gap.filter(|(clean, fails)| clean + 1 < *fails)
    }

    /// Returns the lowest failing level.
    pub fn lowest_failing(&self) -> Option<usize> {
        let fails = self.fails_from?;
        self.levels.iter().position(|level| level.clients == fails)
    }

    fn write_sentence(&self, state: &State, ramp: &Known, verdict: Verdict) -> String {
        let certain = format_confidence(&state.plan);
        let bound = self.excluded.map(words::percent_bound).unwrap_or_default();
        let crash = self.crash.as_ref();
        let crash_text = crash.map_or(String::new(), |crash| format!(": {crash}"));
        let failures_text = self
            .clean_to
            .and_then(|clients| self.find_level(clients))
            .filter(|level| level.failures > 0)
            .map_or(String::new(), |level| {
                format!(" ({} of {} died)", level.failures, level.lives)
            });
        match (verdict, self.fails_from, self.clean_to) {
            (Verdict::Found, Some(fails), Some(clean)) => {
                let clean_level = self.find_level(clean);
                let (died, trials) =
                    clean_level.map_or((0, 0), |level| (level.failures, level.lives));
                let dies = match self.untried_gap() {
                    None => format!("from {} on", words::format_count(fails, "client")),
                    Some(_) => format!("at {}", words::format_count(fails, "client")),
                };
                let survived = trials.saturating_sub(died);
                format!(
                    "It dies {dies}{crash_text} (with {clean} it survived {survived} of {trials} trials)"
                )
            }
            (Verdict::Found, Some(fails), None) => {
                let failing_level = self.find_level(fails);
                format!(
                    "It dies with {} already{crash_text} ({} of {}; no lower level could be tried)",
                    words::format_count(fails, "client"),
                    failing_level.map_or(0, |at| at.failures),
                    words::format_count(failing_level.map_or(0, |at| at.lives), "trial"),
                )
            }
            (Verdict::NotThere, _, Some(clean)) => format!(
                "It does not die in {} % or more of the trials at any level up to {clean} clients ({certain}, one-sided): at {clean}, {bound} % or more is excluded{failures_text}",
                words::format_percent(self.detect),
            ),
            (Verdict::CouldNotTest, ..) => "NOT TESTED: no trial was conclusive".to_owned(),
            _ => self.not_known(state, ramp),
        }
    }

    /// Describes the results so far if they do not answer the question.
    fn not_known(&self, state: &State, ramp: &Known) -> String {
        let has_trials = |level: &&LoadLevelReport| level.lives > 0;
        let Some(index) = ramp.lowest_failing() else {
            return match self.levels.iter().rfind(has_trials) {
                Some(top) => format!(
                    "NOT KNOWN YET: no death up to {} clients so far",
                    top.clients
                ),
                None => "NOT KNOWN YET".to_owned(),
            };
        };
        let (fails, below_index) = (&self.levels[index], ramp.level_below(index));
        match (below_index.map(|index| &self.levels[index]), self.missing) {
            (Some(level), Some(missing)) if level.lives > 0 && missing > 0 => {
                let missing_text = words::format_count(missing, "more passing trial");
                let delta = state.plan.alpha.to_probability();
                let apart = below_index.is_some_and(|below| ramp.is_apart(index, below, delta));
                let missing = if apart {
                    let rate = words::format_percent(self.detect);
                    format!(
                        "{missing_text} at {} would exclude a rate of {rate} % there",
                        level.clients
                    )
                } else {
                    format!(
                        "the two do not differ significantly yet; {missing_text} at {} would settle it",
                        level.clients
                    )
                };
                format!(
                    "NOT KNOWN YET: at {} clients {} of {} died, at {} {} of {}; {missing}",
                    fails.clients,
                    fails.failures,
                    words::format_count(fails.lives, "trial"),
                    level.clients,
                    level.failures,
                    level.lives,
                )
            }
            (Some(_), _) => {
                let clean = self
                    .levels
                    .iter()
                    .filter(|level| level.clients < fails.clients);
                match clean.rev().find(has_trials) {
                    Some(clean) => format!(
                        "NOT KNOWN YET: {} clients kill it ({} of {}), {} did not in {}; the levels between are not known",
                        fails.clients,
                        fails.failures,
                        words::format_count(fails.lives, "trial"),
                        clean.clients,
                        words::format_count(clean.lives, "trial"),
                    ),
                    None => format!(
                        "NOT KNOWN YET: {} clients kill it ({} of {}), and no lower level was tried",
                        fails.clients,
                        fails.failures,
                        words::format_count(fails.lives, "trial"),
                    ),
                }
            }
            (None, _) => {
                let plan = &state.plan;
                let certain = format_confidence(plan);
                format!(
                    "NOT KNOWN YET: it died at {} clients, the lowest level, but not often enough for {certain}",
                    fails.clients
                )
            }
        }
    }

    fn find_level(&self, clients: u64) -> Option<&LoadLevelReport> {
        self.levels.iter().find(|level| level.clients == clients)
    }
}

impl AnswerText for Threshold {
    fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Describes the rate that is excluded at the level below the answer.
    fn detail_lines(&self) -> Vec<String> {
        let below = self.fails_from.and(self.clean_to).zip(self.excluded);
        let line = |(clean, bound)| {
            format!(
                "with {}, it dies in less than {} % of the trials ({}, one-sided)",
                words::format_count(clean, "client"),
                words::percent_bound(bound),
                self.confidence,
            )
        };
        below.map(line).into_iter().collect()
    }

    fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

fn clients_of_level(state: &State, level: usize) -> u64 {
    u64::from(state.plan.variants[level].clients.unwrap_or(0))
}

fn detection_rate(state: &State) -> f64 {
    let question = state.plan.question.as_ramp();
    question.map_or(0.0, |question| f64::from(question.detect) / 1e6)
}

/// Returns how many clean trials of the level below the lowest failing one are missing.
fn missing_passing_trials(state: &State, ramp: &Known) -> Option<u64> {
    let fails = ramp.lowest_failing()?;
    let lower_index = ramp.level_below(fails)?;
    // If it failed as well, the required number of clean trials is not known.
    if ramp.lives_by_level()[lower_index].failures > 0 {
        return None;
    }
    ramp.forecast_lives(&RampPolicy::search_rule(state))
        .map(|forecast| forecast.of_level(lower_index))
}

/// Returns the total number of trials of the search.
fn total_trials_needed(state: &State, ramp: &Known) -> Option<u64> {
    let remaining = ramp
        .forecast_lives(&RampPolicy::search_rule(state))?
        .total_lives();
    let level_runs = ramp.lives_by_level().iter().map(|lives| lives.runs);
    (remaining > 0).then(|| level_runs.sum::<u64>() + remaining)
}

/// Finds two levels of which the higher fails significantly less often: of all pairs, the one with the smallest
/// probability.
fn not_monotone(state: &State, ramp: &Known) -> Option<String> {
    let tried_levels: Vec<(usize, u64, u64)> = ramp
        .lives_by_level()
        .iter()
        .enumerate()
        .filter(|(_, lives)| lives.runs > 0)
        .map(|(level, lives)| (level, lives.failures, lives.runs))
        .collect();
    let pairs = real((tried_levels.len() * tried_levels.len().saturating_sub(1) / 2) as u64);
    let mut worst: Option<(f64, String)> = None;
    for (index, &(low, k, n)) in tried_levels
        .iter()
        .enumerate()
        .filter(|(_, level)| level.1 > 0)
    {
        for &(high, other_failures, lives) in &tried_levels[index + 1..] {
            let chance = stats::fisher(k, n, other_failures, lives).greater;
            let rare = chance * pairs <= state.plan.alpha.to_probability();
            if rare
                && worst
                    .as_ref()
                    .is_none_or(|(smallest, _)| chance < *smallest)
            {
                let contradiction = format!(
                    "{} clients kill it less often ({other_failures} of {lives}) than {} ({k} of {n})",
                    clients_of_level(state, high),
                    clients_of_level(state, low),
                );
                worst = Some((chance, contradiction));
            }
        }
    }
    worst.map(|(_, contradiction)| contradiction)
}

fn list_assumptions(state: &State) -> Vec<String> {
    let mut assumptions = independence_assumptions(state);
    assumptions.push("more clients never make it safer".to_owned());
    assumptions
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(state: &State, question: &RampQuestion) -> Vec<String> {
    let plan = &state.plan;
    let count = words::format_count(plan.variants.len() as u64, "level");
    let last = plan.variants.len().saturating_sub(1);
    let guard: Option<&Known> = state.learned();
    let guard = guard.map_or(0, |ramp| ramp.guard_runs(plan.alpha.to_probability()));
    vec![
        format!(
            "searching {count} ({} to {} clients) for the lowest at which {} % or more of the trials fail",
            clients_of_level(state, 0),
            clients_of_level(state, last),
            words::format_percent(f64::from(question.detect) / 1e6),
        ),
        format!(
            "the level below it must pass {guard} trials in a row ({} confidence)",
            format_confidence(plan)
        ),
    ]
}
