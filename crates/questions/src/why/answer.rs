//! Answer of `why`: the conditions under which the program fails or passes.

use super::WhyPolicy;
use super::conditions::condition_of;
use super::memory::WhyMemory;
use crate::answer::{
    AnswerContext, AnswerText, NOT_KNOWN, VariantSummary, independence_assumptions, one_of,
};
use crate::{FailureCounts, Policy as _, Verdict};
use provoke_levers::find_lever;
use provoke_model::{
    ConditionRole, Item, PLAIN, SearchedCondition, Subset, VariantChoice, VariantId,
};
use provoke_plan::Scenario;
use provoke_state::State;
use provoke_stats::screen::{self, Outcome, Screen, ScreenPhase, SeedTest, SuiteScreen};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, SuggestedCommand, Table};
use provoke_words::untrusted::{SafeText, shell_word};
use serde::Serialize;
use std::collections::BTreeSet;

/// Conditions that a sentence lists.
const LISTED: usize = 4;
/// Maximum number of conditions for which commands are proposed.
const MAX_COMMANDS: usize = 3;
/// Name of the answer of a search that ended without a condition.
pub(super) const NOT_FOUND: &str = "no condition found";

/// Under which conditions the program fails, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WhyAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// Trials without any of the conditions.
    pub plain: FailureCounts,
    /// Trials under several conditions at once, none of which was found to matter.
    pub together: FailureCounts,
    /// All conditions that were tried or could not be tried, except for steps, and seeds that were not tried in pairs.
    pub conditions: Vec<ConditionReport>,
    /// Whether the seed decides the outcome; null if that was not tested.
    pub seeds: Option<SeedReport>,
    /// What the program depends on, by the conditions that were found.
    pub causes: Vec<String>,
    /// Probability that a search names a wrong condition.
    pub error_rate: f64,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
    /// Trials with other failures than the one that is counted.
    pub others: u64,
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    command: String,
    /// Seconds since 1970.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    started_at: i64,
    /// The failure that is counted, if plain trials or conditions showed it.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    failure: Option<String>,
    /// The most frequent other failure of plain trials.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    plain_others: Option<String>,
}

/// What was found out about a condition.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionReport {
    /// Its name, such as `date=+2y`.
    pub name: String,
    /// Conditions with a common cause.
    pub family: String,
    /// What it does.
    pub verdict: ConditionVerdict,
    /// Why it was not tested.
    pub reason: Option<String>,
    /// Trials with the condition before the pairs: alone, and together with others.
    pub tried: FailureCounts,
    /// Trials with the condition, in pairs.
    pub with: FailureCounts,
    /// Trials without it, in the same pairs.
    pub without: FailureCounts,
    /// What it was compared with: `plain`, or a condition that does the same to a trial except for what this one is about.
    pub compared_with: String,
    /// Evidence of the pairs against chance, and how much of it was needed; null without a pair.
    pub evidence: Option<[f64; 2]>,
    /// The failure under the condition, by its signature's title.
    pub crash: Option<String>,
    /// Another failure under it, which is not counted.
    pub other_failure: Option<String>,
    /// The mildest condition of this kind with the same effect.
    pub changes_from: Option<String>,
    /// The harshest one without it.
    pub same_up_to: Option<String>,
}

/// What a condition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConditionVerdict {
    /// The program fails under it, or fails more often.
    Raises,
    /// The program passes under it, or fails less often.
    Removes,
    /// No difference was seen, which may need more trials.
    NoDifferenceSeen,
    /// It could not be tried.
    NotTested,
}

/// Whether the seed decides the outcome.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeedReport {
    /// The condition.
    pub name: String,
    /// Seeds with which it always failed.
    pub fails: Vec<String>,
    /// Seeds with which it always passed.
    pub passes: Vec<String>,
    /// Seeds with which it did both.
    pub both: Vec<String>,
    /// Probability that seeds agree as well as this by chance.
    pub p: f64,
    /// Whether that shows that the seed decides the outcome.
    pub decides: bool,
}

impl WhyAnswer {
    pub(super) fn new(state: &State, context: &AnswerContext<'_>) -> Option<Self> {
        let screen: &Screen = state.learned()?;
        let memory: &WhyMemory = state.learned()?;
        let items = state.trials.space.as_ref()?.choices.as_items();
        let reports = (0..items.len())
            .filter_map(|index| report_condition(state, context, screen, memory, items, index));
        let mut answer = Self {
            sentence: String::new(),
            plain: counts(screen.plain_counts()),
            together: counts(screen.halves_counts()),
            conditions: reports.collect(),
            seeds: {
                let tests = screen.seed_tests();
                let mut claimed = tests.iter().filter(|test| test.is_claimed());
                let test = claimed.next().or(tests.first());
                test.map(|test| SeedReport::new(test, items))
            },
            causes: Vec::new(),
            error_rate: state.goal.alpha.to_probability(),
            assumptions: list_assumptions(state),
            others: state.all_tallies().map(|(_, tally)| tally.other).sum(),
            command: main_command(state),
            started_at: state.origin.started_at,
            failure: memory.plain_failure_title(),
            plain_others: state.tally_of(VariantId(0)).title_of_others(),
        };
        answer.causes = answer.find_causes();
        answer.sentence = answer.write_sentence(WhyPolicy.verdict_of(state));
        Some(answer)
    }

    fn found(&self, verdict: ConditionVerdict) -> Vec<&ConditionReport> {
        let conditions = self.conditions.iter();
        conditions
            .filter(|condition| condition.verdict == verdict)
            .collect()
    }

    fn all_found(&self) -> Vec<&ConditionReport> {
        [ConditionVerdict::Raises, ConditionVerdict::Removes]
            .into_iter()
            .flat_map(|verdict| self.found(verdict))
            .collect()
    }

    fn write_sentence(&self, verdict: Verdict) -> String {
        let seeds = self.seeds.as_ref().filter(|seeds| seeds.decides);
        let mut parts = Vec::new();
        for (verdict, text, often) in [
            (ConditionVerdict::Raises, "fails", "fails more often"),
            (ConditionVerdict::Removes, "passes", "fails less often"),
        ] {
            let found = self.found(verdict).into_iter();
            let (clear, others): (Vec<_>, Vec<_>) =
                found.partition(|condition| condition.is_clear());
            for (text, found) in [(text, clear), (often, others)] {
                match found.as_slice() {
                    [] => {}
                    [one] => parts.push(format!(
                        "it {text} under {}: {}",
                        one.name,
                        one.describe_pairs()
                    )),
                    many => {
                        let names: Vec<&str> = many.iter().map(|one| one.name.as_str()).collect();
                        parts.push(format!("it {text} under {}", list_each(&names)));
                    }
                }
            }
        }
        parts.extend(seeds.map(|seeds| format!("the seed decides ({})", seeds.describe())));
        if !parts.is_empty() {
            return words::capitalize_first(&parts.join("; "));
        }
        let tried = self.found(ConditionVerdict::NoDifferenceSeen).len();
        let plain = format!("{} plain trials failed", self.plain.in_words());
        sentence_without_condition(verdict, tried, &plain)
    }

    /// Returns what the program depends on, by the levers of the conditions that were found.
    fn find_causes(&self) -> Vec<String> {
        let found = self.all_found().into_iter();
        let seeds = self.seeds.iter().filter(|seeds| seeds.decides);
        let names = found
            .map(|condition| (&condition.name, condition.verdict))
            .chain(seeds.map(|seeds| (&seeds.name, ConditionVerdict::Raises)));
        causes_of(names)
    }

    /// Names the conditions that others were compared with and under which the program fails, although plain trials pass:
    /// a difference from such a condition does not show.
    fn failing_references(&self) -> impl Iterator<Item = String> {
        let mut named = BTreeSet::new();
        let compared = self.found(ConditionVerdict::NoDifferenceSeen).into_iter();
        let failing = compared.filter(move |condition| {
            let is_plain = condition.compared_with == PLAIN;
            !is_plain && self.plain.failures == 0 && condition.without.failures > 0
        });
        failing.filter_map(move |condition| {
            let reference = &condition.compared_with;
            named.insert(reference.clone()).then(|| {
                format!(
                    "under {reference} it fails, too: {} trials failed, and {} plain ones",
                    condition.without.in_words(),
                    self.plain.in_words()
                )
            })
        })
    }

    /// Names the conditions under which the program failed in another way that plain trials do not show.
    fn other_failures(&self) -> impl Iterator<Item = String> {
        let mut known: Vec<(&str, Vec<&str>)> = Vec::new();
        for condition in &self.conditions {
            let other = condition.other_failure.as_deref();
            if let Some(title) = other.filter(|other| self.plain_others.as_deref() != Some(other)) {
                match known.iter_mut().find(|(known, _)| *known == title) {
                    Some((_, names)) => names.push(&condition.name),
                    None => known.push((title, vec![&condition.name])),
                }
            }
        }
        known.into_iter().map(|(title, names)| {
            let title = words::sanitize_line(title);
            format!("another failure under {}: {title}", list_each(&names))
        })
    }

    /// Returns the conditions that could not be tried, with the reasons. The others were not needed for the answer.
    fn untested(&self) -> impl Iterator<Item = (&str, &str)> {
        let untested = self.found(ConditionVerdict::NotTested).into_iter();
        let untested = untested.filter(|condition| condition.other_failure.is_none());
        untested.filter_map(|condition| Some((&*condition.name, condition.reason.as_deref()?)))
    }
}

/// Returns the sentence of a search that found no condition; `plain` says what happened without any.
pub(super) fn sentence_without_condition(verdict: Verdict, tried: usize, plain: &str) -> String {
    match verdict {
        Verdict::CouldNotTest => "NOT TESTED: no trial was conclusive".to_owned(),
        Verdict::NotThere => format!(
            "NO CONDITION FOUND: no difference was seen under {}; {plain}",
            words::format_count(tried as u64, "condition")
        ),
        _ => format!("NOT KNOWN YET: no condition is confirmed; {plain}"),
    }
}

/// Returns what programs depend on that fail or pass under these conditions.
pub(super) fn causes_of<'a>(
    found: impl Iterator<Item = (&'a String, ConditionVerdict)>,
) -> Vec<String> {
    let mut known = BTreeSet::new();
    let causes = found.filter_map(|(name, verdict)| {
        let search = find_lever(name.split('=').next()?)?.search()?;
        let removed = search.cause_if_removed;
        let removed = removed.filter(|_| verdict == ConditionVerdict::Removes);
        Some(removed.unwrap_or(search.cause).to_owned())
    });
    causes.filter(|cause| known.insert(cause.clone())).collect()
}

/// Returns the line of the conditions without effect: the values of each lever together.
pub(super) fn tried_line<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut levers: Vec<(&str, String)> = Vec::new();
    for name in names {
        let (lever, value) = name.split_once('=').unwrap_or((name, ""));
        match levers.iter_mut().find(|(known, _)| *known == lever) {
            Some((_, values)) => values.extend([", ", value]),
            None => levers.push((lever, name.to_owned())),
        }
    }
    let levers: Vec<String> = levers.into_iter().map(|(_, values)| values).collect();
    (!levers.is_empty()).then(|| format!("tried: {}", levers.join("; ")))
}

/// Returns the lines about the limits of a search: conditions that were not tested, and its error.
pub(super) fn limit_lines<'a>(
    untested: impl Iterator<Item = (&'a str, &'a str)>,
    error_rate: f64,
) -> Vec<String> {
    let names: Vec<&str> = untested.map(|(name, _)| name).collect();
    let untested = (!names.is_empty()).then(|| format!("not tested here: {}", names.join(", ")));
    let error = format!(
        "a search like this names a wrong condition in at most {} cases",
        one_of(error_rate)
    );
    untested.into_iter().chain([error]).collect()
}

/// Returns the table of the conditions that were not tested.
pub(super) fn untested_table<'a>(untested: impl Iterator<Item = (&'a str, &'a str)>) -> Table {
    let rows = untested.map(|(name, reason)| [name, reason].map(Cell::text).to_vec());
    let reasons = vec![Column::words("condition"), Column::sentences("reason")];
    Table::new("Not tested", Place::Details, reasons).with_rows(rows.collect::<Vec<_>>())
}

impl ConditionReport {
    /// Returns whether all trials with the condition ended alike, and all without it in the other way.
    fn is_clear(&self) -> bool {
        let never = |counts: FailureCounts| counts.failures == 0;
        let always = |counts: FailureCounts| counts.failures == counts.trials;
        match self.verdict {
            ConditionVerdict::Raises => always(self.with) && never(self.without),
            ConditionVerdict::Removes => never(self.with),
            _ => false,
        }
    }

    fn describe_pairs(&self) -> String {
        let without = match self.compared_with.as_str() {
            PLAIN => "without it".to_owned(),
            sham => format!("under {sham}"),
        };
        let (failed, without_failed) = (self.with.in_words(), self.without.in_words());
        format!("{failed} trials failed, and {without_failed} {without}")
    }

    /// Describes between which values the outcome changes, in a search that started at this time.
    fn describe_limit(&self, started_at: i64) -> String {
        let value = |name: &str| {
            let (lever, value) = name.split_once('=').unwrap_or((name, name));
            let meaning = find_lever(lever).and_then(|lever| lever.explain_at(value, started_at));
            match meaning {
                Some(meaning) => format!("{value} ({meaning})"),
                None => value.to_owned(),
            }
        };
        match (&self.same_up_to, &self.changes_from) {
            (Some(without), Some(with)) => format!("{}, not {}", value(with), value(without)),
            (None, Some(with)) => format!("{} or milder", value(with)),
            _ => String::new(),
        }
    }
}

impl SeedReport {
    pub(super) fn new(test: &SeedTest, items: &[Item]) -> Self {
        let split = |index: usize| {
            let name = &items[index].name;
            name.split_once('=').unwrap_or((name, ""))
        };
        let (failed, passed) = (Some(Outcome::Failed), Some(Outcome::Passed));
        let seeds = |matches: &dyn Fn([Option<Outcome>; 2]) -> bool| {
            let chosen = test.table.iter().filter(|seed| matches(seed.outcomes));
            chosen
                .map(|seed| split(seed.condition).1.to_owned())
                .collect()
        };
        let first = test.table.first().map(|seed| split(seed.condition).0);
        Self {
            name: first.unwrap_or_default().to_owned(),
            fails: seeds(&|outcomes| outcomes == [failed; 2]),
            passes: seeds(&|outcomes| outcomes == [passed; 2]),
            both: seeds(&|outcomes| outcomes.contains(&failed) && outcomes.contains(&passed)),
            p: test.p_value,
            decides: test.is_claimed(),
        }
    }

    pub(super) fn describe(&self) -> String {
        let list = |seeds: &[String]| seeds.join(", ");
        format!(
            "{}: fails with {}, passes with {}",
            self.name,
            list(&self.fails),
            list(&self.passes)
        )
    }
}

impl AnswerText for WhyAnswer {
    fn sentence(&self) -> &str {
        &self.sentence
    }

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.all_found().is_empty() {
            lines.push(format!(
                "without any condition: {} trials failed",
                self.plain.in_words()
            ));
        } else if !self.seeds.as_ref().is_some_and(|seeds| seeds.decides) {
            let tried = self.found(ConditionVerdict::NoDifferenceSeen).into_iter();
            lines.extend(tried_line(tried.map(|condition| &*condition.name)));
            if self.plain.failures == 0 && self.together.failures > 0 {
                lines.push(format!(
                    "under several conditions at once, {} trials failed: two of them may be needed together",
                    self.together.in_words()
                ));
            }
        }
        lines.extend(self.causes.iter().map(|cause| match self.causes.len() {
            1 => format!("cause: {cause}"),
            _ => format!("possible cause: {cause}"),
        }));
        lines.extend(self.failing_references());
        lines.extend(self.other_failures());
        if self.others > 0 {
            lines.push(format!(
                "not counted: {} with a failure other than {}",
                words::format_count(self.others, "trial"),
                words::sanitize_line(self.failure.as_deref().unwrap_or("the first one"))
            ));
        }
        lines.extend(limit_lines(self.untested(), self.error_rate));
        lines
    }

    fn tables(&self, _: &[VariantSummary], _: f64) -> Vec<Table> {
        let columns = || {
            vec![
                Column::words("condition"),
                Column::numbers("with it"),
                Column::numbers("without"),
                Column::words("changes at").leaving(2),
                Column::remarks("failure").leaving(1),
            ]
        };
        let describe = |condition: &ConditionReport| {
            let crash = condition.crash.clone().unwrap_or_default();
            [
                condition.name.clone(),
                condition.with.in_words(),
                condition.without.in_words(),
                condition.describe_limit(self.started_at),
                crash,
            ]
            .map(Cell::text)
            .to_vec()
        };
        let found = self.all_found();
        let found_rows: Vec<Vec<Cell>> =
            found.iter().map(|condition| describe(condition)).collect();
        let others = self.found(ConditionVerdict::NoDifferenceSeen);
        let other_rows = others.iter().map(|condition| {
            let all = condition.tried.and(condition.with);
            vec![
                Cell::text(condition.name.clone()),
                Cell::text(all.in_words()),
            ]
        });
        let drawn_rows: Vec<Vec<Cell>> = found
            .iter()
            .map(|condition| {
                let (with, without) = (draw_trials(condition.with), draw_trials(condition.without));
                [
                    condition.name.clone(),
                    with,
                    condition.compared_with.clone(),
                    without,
                ]
                .map(Cell::text)
                .to_vec()
            })
            .collect();
        let columns_of_pairs = vec![
            Column::words("condition"),
            Column::words("trials"),
            Column::words("compared with"),
            Column::words("trials"),
        ];
        let mut pairs = Table::new("Pairs", Place::Page, columns_of_pairs).with_rows(drawn_rows);
        pairs.legend = vec!["× is a trial that failed, · one that passed"];
        let found = Table::new("Conditions that matter", Place::Screen, columns());
        let tried = vec![Column::words("condition"), Column::numbers("failed")];
        let tried = Table::new("No difference seen", Place::Details, tried);
        vec![
            found.with_rows(found_rows),
            pairs,
            tried.with_rows(other_rows),
            untested_table(self.untested()),
        ]
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        let found = self.all_found();
        let names: Vec<&str> = found
            .iter()
            .map(|condition| condition.name.as_str())
            .collect();
        match verdict {
            Verdict::Found if names.is_empty() => "the seed decides".to_owned(),
            Verdict::Found => list_names(&names),
            Verdict::NotThere => NOT_FOUND.to_owned(),
            _ => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("why", "the condition is found")
    }

    fn listed_variants(&self, _: &[VariantSummary]) -> Option<Vec<String>> {
        let found = self
            .all_found()
            .into_iter()
            .map(|condition| condition.name.clone());
        Some(std::iter::once(PLAIN.to_owned()).chain(found).collect())
    }

    fn commands(&self, _: &SafeText) -> Vec<SuggestedCommand> {
        let raised = self.found(ConditionVerdict::Raises);
        let command = &self.command;
        let commands = raised.iter().take(MAX_COMMANDS).flat_map(|condition| {
            let (reproduce, confirm) = match raised.len() {
                1 => ("reproduce it".to_owned(), "is it fixed?".to_owned()),
                _ => {
                    let lever = condition.name.split('=').next().unwrap_or_default();
                    (format!("reproduce {lever}"), format!("is {lever} fixed?"))
                }
            };
            let under = format!("--under {}", shell_word(condition.name.as_ref()));
            let FailureCounts { failures, trials } = condition.with;
            let run = format!("provoke run -n 5 {under} {command}");
            let baseline = format!("--baseline {failures}/{trials}");
            let fixed = format!("provoke confirm {baseline} {under} {command}");
            [
                SuggestedCommand::new(&reproduce, run),
                SuggestedCommand::new(&confirm, fixed),
            ]
        });
        commands.collect()
    }

    fn assumptions(&self) -> &[String] {
        &self.assumptions
    }
}

/// Reports a condition, unless it is a sham, a step, or a seed that was not tried in pairs.
fn report_condition(
    state: &State,
    context: &AnswerContext<'_>,
    screen: &Screen,
    memory: &WhyMemory,
    items: &[Item],
    index: usize,
) -> Option<ConditionReport> {
    let condition = condition_of(&items[index])?;
    let result = screen.result_of(index);
    let pairs = result.pairs.as_ref();
    match condition.role {
        ConditionRole::Tried | ConditionRole::Harsh => {}
        ConditionRole::Seed if pairs.is_some() => {}
        _ => return None,
    }
    let set = VariantChoice::Set(Subset(vec![u32::try_from(index).ok()?]));
    let variant = state.find_variant(&set);
    let other_failure = variant.and_then(|variant| state.tally_of(variant).title_of_others());
    let reason = memory.untested_reason(index).or_else(|| {
        let other = words::sanitize_line(other_failure.as_ref()?);
        Some(format!("it fails in another way: {other}"))
    });
    let name_of = |index: usize| items[index].name.clone();
    let dose = result.dose.as_ref();
    Some(ConditionReport {
        name: name_of(index),
        family: condition.family.clone(),
        verdict: match result.verdict {
            screen::ConditionVerdict::Raises => ConditionVerdict::Raises,
            screen::ConditionVerdict::Removes => ConditionVerdict::Removes,
            screen::ConditionVerdict::NoDifferenceSeen => ConditionVerdict::NoDifferenceSeen,
            screen::ConditionVerdict::Untried => ConditionVerdict::NotTested,
        },
        reason,
        tried: counts(result.singles).and(counts(result.halves[0])),
        with: counts(pairs.map_or_else(Default::default, |pairs| pairs.with)),
        without: counts(pairs.map_or_else(Default::default, |pairs| pairs.without)),
        compared_with: sham_of(items, condition)
            .map_or(PLAIN, |sham| &sham.name)
            .to_owned(),
        evidence: pairs.map(|pairs| [pairs.wealth, pairs.needed_wealth]),
        crash: variant.and_then(|variant| context.crash(variant)),
        other_failure,
        changes_from: dose.map(|dose| name_of(dose.mildest_with_effect)),
        same_up_to: dose
            .and_then(|dose| dose.harshest_without_effect)
            .map(name_of),
    })
}

/// Returns the item with which a condition is compared.
pub(super) fn sham_of<'a>(items: &'a [Item], condition: &SearchedCondition) -> Option<&'a Item> {
    let mut items = items.iter();
    items.find(|item| {
        condition_of(item).is_some_and(|other| {
            other.lever == condition.lever && other.role == ConditionRole::Sham
        })
    })
}

pub(super) fn counts(counts: screen::Counts) -> FailureCounts {
    let screen::Counts { failures, trials } = counts;
    FailureCounts { failures, trials }
}

/// Draws a mark for each trial, the failures first.
fn draw_trials(counts: FailureCounts) -> String {
    let marks = |count: u64, mark: &str| mark.repeat(usize::try_from(count).unwrap_or(0));
    let passes = counts.trials - counts.failures;
    format!("{}{}", marks(counts.failures, "×"), marks(passes, "·"))
}

/// Describes how far the search is.
pub(super) fn describe_progress(state: &State) -> Option<String> {
    let items = state.trials.space.as_ref()?.choices.as_items();
    let (phase, claimed, plain) = if let Some(screen) = state.learned::<Screen>() {
        let plain = format!(
            ", plain {} failed",
            counts(screen.plain_counts()).in_words()
        );
        (screen.phase(), screen.claimed_conditions().len(), plain)
    } else {
        let screen: &SuiteScreen = state.learned()?;
        (screen.phase(), screen.claims().count(), String::new())
    };
    let found = match claimed {
        0 => String::new(),
        claimed => format!(
            "{} found, ",
            words::format_count(claimed as u64, "condition")
        ),
    };
    Some(match phase {
        ScreenPhase::Plain => "plain trials".to_owned(),
        ScreenPhase::Round => format!("{found}each condition once{plain}"),
        ScreenPhase::Seeds(_) => format!("{found}each seed twice"),
        ScreenPhase::Halves => format!("{found}several conditions at once"),
        ScreenPhase::Pairs(index) => format!("{found}with and without {}", items[index].name),
        ScreenPhase::Dose(index) => format!("{found}milder than {}", items[index].name),
        ScreenPhase::Over => format!("{found}done"),
    })
}

/// Lists conditions that have an effect without the others.
pub(super) fn list_each(names: &[&str]) -> String {
    match names {
        [] | [_] => list_names(names),
        _ => format!("each of {}", list_names(names)),
    }
}

pub(super) fn list_names(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [others @ .., last] if names.len() <= LISTED => format!("{} and {last}", others.join(", ")),
        _ => format!(
            "{} and {} more",
            names[..LISTED].join(", "),
            names.len() - LISTED
        ),
    }
}

/// Returns the flags and the main command of the plain variant, as a shell reads them.
pub(super) fn main_command(state: &State) -> String {
    let flags = Scenario::typed_flags(&state.goal, &state.trials, VariantId(0)).into_iter();
    let command = state.trials.unwrapped_command(VariantId(0)).iter();
    let words = command.map(|word| shell_word(word.as_os_str()).into_string());
    let words = flags.chain(["--".to_owned()]).chain(words);
    words.collect::<Vec<_>>().join(" ")
}

pub(super) fn list_assumptions(state: &State) -> Vec<String> {
    let carried = "a trial leaves nothing behind that changes the next one".to_owned();
    let mut assumptions = independence_assumptions(state);
    assumptions.push(carried);
    assumptions
}
