//! Answer of `load` at several levels: the lowest concurrency that fails.

use super::RampPolicy;
use super::refusals::{RefusalReport, refused_amount};
use crate::answer::{
    AnswerContext, AnswerText, DescribedVariants, NOT_KNOWN, VariantSummary, format_confidence,
    independence_assumptions, sentence_and_assumptions, tested_variants,
};
use crate::{Policy as _, StopRule, Verdict};
use provoke_model::{FailureKind, FailureName, LoadGoal, RampQuestion, VariantId};
use provoke_state::{SignatureFailures, State, Tally};
use provoke_stats::ramp::Ramp as Known;
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::document::{SuggestedCommand, Table};
use provoke_words::untrusted::SafeText;
use serde::Serialize;

/// At which concurrency it fails, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RampAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// What makes a trial fail.
    pub find: LoadGoal,
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
    /// From which level on the service refuses most requests, if it does; null if refusals are searched.
    pub refusals: Option<RefusalReport>,
    /// Whether lower levels fail as well, so that the level is where the rate rises.
    pub background: bool,
    /// Failures of another kind at higher levels than the lowest that fails.
    pub other_kinds: Vec<OtherKindReport>,
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

/// A failure at higher load levels that the lowest failing level does not show.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherKindReport {
    /// The title of its signature.
    pub title: String,
    /// The lowest level with it.
    pub clients: u64,
    /// Its trials, at all levels.
    pub trials: u64,
}

/// How failing and passing trials read.
struct FailureWords {
    /// `dies`
    fails: String,
    /// `died`
    failed: String,
    /// `survived`
    passed: String,
}

/// One level of load.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadLevelReport {
    /// The number of clients.
    pub clients: u64,
    /// Counted trials.
    pub trials: u64,
    /// Failed trials.
    pub failures: u64,
    /// The interval of the failure rate; null without a trial.
    pub interval: Option<[f64; 2]>,
    /// Whether the interval is one-sided, because no trial failed.
    pub one_sided: bool,
    /// The probability that it is the first bad one.
    pub probability: f64,
    /// Requests sent.
    pub requests: u64,
    /// Refused requests.
    pub refused: u64,
    /// Responses before a crash, warm-up included: minimum, median and maximum; null without a crash.
    pub served_before_death: Option<[u64; 3]>,
    /// Why it is not testable.
    pub untestable: Option<String>,
}

impl LoadLevelReport {
    fn new(state: &State, known: &Known, (id, tally): (VariantId, &Tally), mass: f64) -> Self {
        let (failures, trials) = (tally.failures, tally.counted_trials());
        let alpha = state.goal.alpha.to_probability();
        let interval = match (failures, trials) {
            (_, 0) => None,
            // The number of trials of the level below the answer was fixed before.
            (0, trials) => Some([0.0, StopRule::planned_upper_bound(0, trials, alpha)]),
            _ => {
                let rule = crate::policy_of(state).stop_rule(state, id);
                let interval = crate::rate_interval(rule, tally, alpha);
                Some(interval.ends())
            }
        };
        let served: Vec<u64> = tally
            .requests
            .deaths
            .iter()
            .map(|(served, _)| *served)
            .collect();
        Self {
            clients: clients_of_level(state, id.index()),
            trials: known.trials_by_level()[id.index()].runs,
            failures,
            interval,
            one_sided: failures == 0 && trials > 0,
            probability: mass,
            requests: tally.requests.sent,
            refused: state
                .trials
                .rules
                .refusals
                .count_refused(&tally.requests.ends),
            served_before_death: stats::spread_of_counts(&served),
            untestable: state.untestable.get(&id).cloned(),
        }
    }
}

impl RampAnswer {
    pub(super) fn new(state: &State, context: &AnswerContext<'_>) -> Option<Self> {
        let ramp: &Known = state.learned()?;
        let alpha = state.goal.alpha.to_probability();
        let (group, never_fails) = ramp.likeliest_group();
        let last = *group.levels.end();
        let verdict = RampPolicy.verdict_of(state);
        let clean = match verdict {
            Verdict::Found => ramp.level_below(last),
            Verdict::NotThere => ramp.level_below(state.trials.variants.len()),
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
        let background = fails.and_then(|first_bad| {
            let counts = ramp.background_counts(first_bad);
            let clients = words::format_count(level(first_bad), "client");
            (counts.failures > 0).then(|| {
                format!(
                    "the failures below {clients} do not come from the load ({} of {})",
                    counts.failures,
                    words::format_count(counts.runs, "trial")
                )
            })
        });
        let find = if state.trials.rules.refusals.fails {
            LoadGoal::Refusal
        } else {
            LoadGoal::Death
        };
        let mut answer = Self {
            sentence: String::new(),
            find,
            fails_from: fails.map(level),
            clean_to: clean.map(level),
            crash: fails.and_then(|index| context.crash(VariantId(u32::try_from(index).ok()?))),
            probability: group.mass,
            detect: detection_rate(state),
            excluded: clean.map(|index| {
                let trials = ramp.trials_by_level()[index];
                StopRule::planned_upper_bound(trials.failures, trials.runs, alpha)
            }),
            levels: levels
                .map(|(tally, mass)| LoadLevelReport::new(state, ramp, tally, mass))
                .collect(),
            refusals: (find == LoadGoal::Death)
                .then(|| RefusalReport::new(state))
                .flatten(),
            background: background.is_some(),
            other_kinds: fails.map_or_else(Vec::new, |level| other_kinds(state, level)),
            missing,
            trials_needed,
            not_monotone: not_monotone(state, ramp),
            error_rate: alpha,
            assumptions: list_assumptions(state, background),
            confidence: format_confidence(&state.goal),
        };
        let words = FailureWords::new(state, answer.lowest_failing());
        let mut sentence = answer.write_sentence(state, ramp, verdict, &words);
        if let Some(refusals) = &answer.refusals {
            let link = if verdict == Verdict::Found {
                ";"
            } else {
                ", but"
            };
            sentence = format!("{sentence}{link} {}", refusals.clause());
        }
        if let Some(contradiction) = &answer.not_monotone {
            sentence = format!(
                "{sentence}; but {contradiction}: the failure rate does not rise with the load"
            );
        }
        answer.sentence = sentence;
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

    fn write_sentence(
        &self,
        state: &State,
        ramp: &Known,
        verdict: Verdict,
        words: &FailureWords,
    ) -> String {
        let FailureWords {
            fails: verb,
            passed,
            ..
        } = words;
        let crash = self.crash.as_ref();
        let crash_text = crash.map_or(String::new(), |crash| {
            format!(": {}", crash.trim_start_matches("refused: "))
        });
        let passed_at = |clients: u64| {
            let level = self.find_level(clients);
            let (failures, trials) = level.map_or((0, 0), |level| (level.failures, level.trials));
            let passes = trials.saturating_sub(failures);
            (passes, words::format_count(trials, "trial"))
        };
        match (verdict, self.fails_from, self.clean_to) {
            (Verdict::Found, Some(fails), Some(clean)) => {
                let more = if self.background { " more often" } else { "" };
                let clients = words::format_count(fails, "client");
                let fails_text = match self.untried_gap() {
                    None => format!("{verb}{more} from {clients} on"),
                    Some(_) => format!("{verb}{more} at {clients}"),
                };
                let (passes, trials) = passed_at(clean);
                let below = format!("with {clean} it {passed} {passes} of {trials}");
                let lower = if self.background {
                    let (failures, trials) = self.failures_at(fails);
                    let lowest = self.background_text(clean, words);
                    format!("{failures} of {trials}; {below}{lowest}")
                } else {
                    below
                };
                format!("It {fails_text}{crash_text} ({lower})")
            }
            (Verdict::Found, Some(fails), None) => {
                let (failures, trials) = self.failures_at(fails);
                format!(
                    "It {verb} with {} already{crash_text} ({failures} of {trials}; no lower level could be tried)",
                    words::format_count(fails, "client"),
                )
            }
            (Verdict::NotThere, _, Some(clean)) => {
                let (passes, trials) = passed_at(clean);
                let counts = format!("{passes} of {trials}");
                let lowest = self.background_text(clean, words);
                let clients = words::format_count(clean, "client");
                match self.find {
                    LoadGoal::Death => format!("It survives {clients} ({counts}{lowest})"),
                    LoadGoal::Refusal => format!(
                        "It does not refuse {} with {clients} ({counts}{lowest})",
                        refused_amount(&state.trials.rules.refusals)
                    ),
                }
            }
            (Verdict::CouldNotTest, ..) => "NOT TESTED: no trial was conclusive".to_owned(),
            _ => self.not_known(state, ramp, words),
        }
    }

    fn failures_at(&self, clients: u64) -> (u64, String) {
        let level = self.find_level(clients);
        let (failures, trials) = level.map_or((0, 0), |level| (level.failures, level.trials));
        (failures, words::format_count(trials, "trial"))
    }

    /// Describes the lowest level, if failures below or at this one may have nothing to do with the load.
    fn background_text(&self, clients: u64, words: &FailureWords) -> String {
        let lower = self.levels.iter().filter(|level| level.clients <= clients);
        if lower.map(|level| level.failures).sum::<u64>() == 0 {
            return String::new();
        }
        let mut levels = self.levels.iter();
        let lowest = levels.find(|level| level.trials > 0 && level.clients < clients);
        lowest.map_or(String::new(), |lowest| {
            format!(
                "; with {} it {} {} of {}",
                words::format_count(lowest.clients, "client"),
                words.passed,
                lowest.trials - lowest.failures,
                lowest.trials,
            )
        })
    }

    /// Describes the results so far if they do not answer the question.
    fn not_known(&self, state: &State, ramp: &Known, words: &FailureWords) -> String {
        let has_trials = |level: &&LoadLevelReport| level.trials > 0;
        let FailureWords { fails, failed, .. } = words;
        let Some(index) = ramp.lowest_failing() else {
            return match self.levels.iter().rfind(has_trials) {
                Some(top) => {
                    let trials = self.levels.iter().map(|level| level.trials).sum();
                    let failures: u64 = self.levels.iter().map(|level| level.failures).sum();
                    format!(
                        "NOT KNOWN YET: {failures} of {} with up to {} clients {failed}",
                        words::format_count(trials, "trial"),
                        top.clients
                    )
                }
                None => "NOT KNOWN YET".to_owned(),
            };
        };
        let (level, below_index) = (&self.levels[index], ramp.level_below(index));
        let (clients, failures) = (level.clients, level.failures);
        let trials = words::format_count(level.trials, "trial");
        let certain = format_confidence(&state.goal);
        match (below_index.map(|index| &self.levels[index]), self.missing) {
            (Some(below), Some(missing)) if below.trials > 0 && missing > 0 => {
                let missing_text = words::format_count(missing, "more passing trial");
                let delta = state.goal.alpha.to_probability();
                let apart = below_index.is_some_and(|below| ramp.is_apart(index, below, delta));
                let missing = if apart {
                    let rate = words::format_percent(self.detect);
                    format!(
                        "{missing_text} at {} would exclude a rate of {rate} % there",
                        below.clients
                    )
                } else {
                    format!(
                        "the two do not differ significantly yet; {missing_text} at {} would settle it",
                        below.clients
                    )
                };
                format!(
                    "NOT KNOWN YET: at {clients} clients {failures} of {trials} {failed}, at {} {} of {}; {missing}",
                    below.clients, below.failures, below.trials,
                )
            }
            (Some(_), _) => {
                let lower = self.levels[..index].iter().rfind(has_trials);
                let lower = lower.map_or_else(
                    || "and no lower level was tried".to_owned(),
                    |lower| {
                        format!(
                            "with {} {} of {}; the level at which that begins is not known",
                            lower.clients, lower.failures, lower.trials
                        )
                    },
                );
                format!(
                    "NOT KNOWN YET: with {clients} clients {failures} of {trials} {failed}, {lower}"
                )
            }
            (None, _) => format!(
                "NOT KNOWN YET: it {fails} at {} clients, the lowest level, but not often enough for {certain}",
                level.clients
            ),
        }
    }

    fn find_level(&self, clients: u64) -> Option<&LoadLevelReport> {
        self.levels.iter().find(|level| level.clients == clients)
    }
}

impl AnswerText for RampAnswer {
    sentence_and_assumptions!();

    /// Describes the rate that is excluded at the highest level without failures, the requests that were refused, and
    /// failures of other kinds at higher levels.
    fn detail_lines(&self) -> Vec<String> {
        let clean = self.clean_to.and_then(|clients| self.find_level(clients));
        let bound = self
            .excluded
            .filter(|_| clean.is_some_and(|level| level.failures == 0));
        let excluded = clean.zip(bound).map(|(clean, bound)| {
            let fails = match self.find {
                LoadGoal::Death => "it dies",
                LoadGoal::Refusal => "that happens",
            };
            format!(
                "with {}, {fails} in less than {} % of the trials ({} confidence)",
                words::format_count(clean.clients, "client"),
                words::percent_bound(bound),
                self.confidence,
            )
        });
        let refusals = self.refusals.as_ref().map(RefusalReport::counts_line);
        let others = self.other_kinds.iter().map(|other| {
            format!(
                "from {} on it also fails in another way: {} ({})",
                words::format_count(other.clients, "client"),
                other.title,
                words::format_count(other.trials, "trial"),
            )
        });
        excluded.into_iter().chain(refusals).chain(others).collect()
    }

    fn tables(&self, variants: &[VariantSummary], confidence: f64) -> Vec<Table> {
        vec![self.level_table(variants, confidence)]
    }

    fn result(&self, _: Verdict, _: &[VariantSummary]) -> String {
        let [fails, passes] = match self.find {
            LoadGoal::Death => ["dies", "survives"],
            LoadGoal::Refusal => ["refuses or dies", "serves"],
        };
        let result = match (self.fails_from, self.clean_to) {
            (Some(clients), _) => format!("{fails} at {}", words::format_count(clients, "client")),
            (None, Some(clients)) => format!("{passes} {}", words::format_count(clients, "client")),
            (None, None) => NOT_KNOWN.to_owned(),
        };
        match &self.refusals {
            Some(refusals) => format!("{result}, refuses at {}", refusals.from.clients),
            None => result,
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("ramp", "the lowest failing level is found")
    }

    fn described_variants(&self) -> DescribedVariants {
        let lowest = self
            .lowest_failing()
            .and_then(|level| Some((level, u32::try_from(level).ok()?)));
        lowest.map_or(DescribedVariants::None, |(level, id)| {
            DescribedVariants::One(
                VariantId(id),
                format!("at level {}:", self.levels[level].clients),
            )
        })
    }

    fn listed_variants(&self, variants: &[VariantSummary]) -> Option<Vec<String>> {
        Some(tested_variants(variants))
    }

    fn commands(&self, run: &SafeText) -> Vec<SuggestedCommand> {
        let resume = self.trials_needed.map(|needed| {
            SuggestedCommand::new("settle it", format!("provoke resume {run} -n {needed}"))
        });
        let refusals = self.refusals.as_ref().map(|_| {
            SuggestedCommand::new("test where it refuses", "repeat this with --find refusal")
        });
        let between = self.untried_gap().map(|(clean, fails)| {
            let line = format!("repeat this with -c {clean}..{fails}");
            SuggestedCommand::new("try the levels between", line)
        });
        let confirm = self.fails_from.map(|clients| {
            let line = format!("provoke confirm --baseline {run} --of {clients}");
            SuggestedCommand::new("is it fixed?", line)
        });
        let further = refusals.into_iter().chain(between).chain(confirm);
        resume.into_iter().chain(further).collect()
    }
}

impl FailureWords {
    fn new(state: &State, lowest_failing: Option<usize>) -> Self {
        let rules = &state.trials.rules.refusals;
        let id = lowest_failing.and_then(|level| Some(VariantId(u32::try_from(level).ok()?)));
        let failed = id.map(|id| &state.tally_of(id).failed);
        // With refusals, the death of the service counts as well.
        let kind = failed.and_then(|failed| {
            let most = failed.iter().max_by_key(|(_, trials)| trials.len());
            most.map(|(kind, _)| kind)
        });
        let is_refusal = kind.map_or(rules.fails, |kind| *kind == FailureKind::Refused);
        if is_refusal {
            let amount = refused_amount(rules);
            Self {
                fails: format!("refuses {amount}"),
                failed: format!("refused {amount}"),
                passed: format!("did not refuse {amount} in"),
            }
        } else {
            Self {
                fails: "dies".to_owned(),
                failed: "died".to_owned(),
                passed: "survived".to_owned(),
            }
        }
    }
}

/// Returns the failures above a level that no failure at that level may be, the most frequent first.
fn other_kinds(state: &State, level: usize) -> Vec<OtherKindReport> {
    let groups = |is_wanted: fn(usize, usize) -> bool| {
        let tallies = state
            .all_tallies()
            .filter(move |(id, _)| is_wanted(id.index(), level));
        tallies.flat_map(|(id, tally)| {
            let of_level = move |group| (clients_of_level(state, id.index()), group);
            tally.groups.values().map(of_level)
        })
    };
    let known: Vec<FailureName<'_>> = groups(|index, level| index == level)
        .map(|(_, group)| name_of_group(group))
        .collect();
    let mut others: Vec<(FailureName<'_>, OtherKindReport)> = Vec::new();
    for (clients, group) in groups(|index, level| index > level) {
        let name = name_of_group(group);
        if known.iter().any(|known| known.is_same(name)) {
            continue;
        }
        let trials = group.trials.len() as u64;
        match others.iter_mut().find(|(other, _)| other.is_same(name)) {
            Some((_, report)) => report.trials += trials,
            None => others.push((
                name,
                OtherKindReport {
                    title: group.signature.title.clone(),
                    clients,
                    trials,
                },
            )),
        }
    }
    let mut others: Vec<OtherKindReport> = others.into_iter().map(|(_, report)| report).collect();
    others.sort_by_key(|report| std::cmp::Reverse(report.trials));
    others
}

fn name_of_group(group: &SignatureFailures) -> FailureName<'_> {
    FailureName {
        kind: &group.kind,
        signature: &group.signature,
    }
}

fn clients_of_level(state: &State, level: usize) -> u64 {
    u64::from(state.trials.variants[level].clients.unwrap_or(0))
}

fn detection_rate(state: &State) -> f64 {
    let question = state.goal.question.as_ramp();
    question.map_or(0.0, |question| f64::from(question.detect) / 1e6)
}

/// Returns how many clean trials of the level below the lowest failing one are missing.
fn missing_passing_trials(state: &State, ramp: &Known) -> Option<u64> {
    let fails = ramp.lowest_failing()?;
    let lower_index = ramp.level_below(fails)?;
    // If it failed as well, the required number of clean trials is not known.
    if ramp.trials_by_level()[lower_index].failures > 0 {
        return None;
    }
    ramp.forecast_trials(&RampPolicy::search_rule(state))
        .map(|forecast| forecast.of_level(lower_index))
}

/// Returns the total number of trials of the search, with those that say nothing about a level.
fn total_trials_needed(state: &State, ramp: &Known) -> Option<u64> {
    let remaining = ramp
        .forecast_trials(&RampPolicy::search_rule(state))?
        .total_trials();
    (remaining > 0).then(|| state.completed_trials() + remaining)
}

/// Finds two levels of which the higher fails significantly less often: of all pairs, the one with the smallest
/// probability.
fn not_monotone(state: &State, ramp: &Known) -> Option<String> {
    let tried_levels: Vec<(usize, u64, u64)> = ramp
        .trials_by_level()
        .iter()
        .enumerate()
        .filter(|(_, trials)| trials.runs > 0)
        .map(|(level, trials)| (level, trials.failures, trials.runs))
        .collect();
    let pairs = real((tried_levels.len() * tried_levels.len().saturating_sub(1) / 2) as u64);
    let mut worst: Option<(f64, String)> = None;
    for (index, &(low, k, n)) in tried_levels
        .iter()
        .enumerate()
        .filter(|(_, level)| level.1 > 0)
    {
        for &(high, other_failures, trials) in &tried_levels[index + 1..] {
            let chance = stats::fisher(k, n, other_failures, trials).greater;
            let rare = chance * pairs <= state.goal.alpha.to_probability();
            if rare
                && worst
                    .as_ref()
                    .is_none_or(|(smallest, _)| chance < *smallest)
            {
                let contradiction = format!(
                    "{} clients make it fail less often ({other_failures} of {trials}) than {} ({k} of {n})",
                    clients_of_level(state, high),
                    clients_of_level(state, low),
                );
                worst = Some((chance, contradiction));
            }
        }
    }
    worst.map(|(_, contradiction)| contradiction)
}

fn list_assumptions(state: &State, background: Option<String>) -> Vec<String> {
    let mut assumptions = independence_assumptions(state);
    assumptions.extend(background);
    assumptions.push(if state.trials.rules.refusals.fails {
        "with more clients it never refuses or dies less often".to_owned()
    } else {
        "more clients never make it safer".to_owned()
    });
    assumptions
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(state: &State, question: &RampQuestion) -> Vec<String> {
    let levels = state.trials.variants.len();
    let count = words::format_count(levels as u64, "level");
    let last = levels.saturating_sub(1);
    let guard: Option<&Known> = state.learned();
    let guard = guard.map_or(0, |ramp| ramp.guard_runs(state.goal.alpha.to_probability()));
    vec![
        format!(
            "searching {count} ({} to {} clients) for the lowest at which {} % or more of the trials fail",
            clients_of_level(state, 0),
            clients_of_level(state, last),
            words::format_percent(f64::from(question.detect) / 1e6),
        ),
        format!(
            "the level below it must survive {guard} trials, or more if it dies in some ({} confidence)",
            format_confidence(&state.goal)
        ),
    ]
}
