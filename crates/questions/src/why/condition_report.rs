//! Reports what a search found out about a condition, and about seeds.

use super::conditions::condition_of;
use super::lists::list_names;
use super::memory::WhyMemory;
use crate::FailureCounts;
use crate::answer::AnswerContext;
use provoke_levers::find_lever;
use provoke_model::{
    ConditionRole, Item, PLAIN, SearchedCondition, Subset, VariantChoice, VariantId,
};
use provoke_state::State;
use provoke_stats::screen::{self, Direction, Outcome, Screen, SeedTest};
use provoke_words as words;
use serde::Serialize;

/// What was found out about a condition.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConditionReport {
    /// Its name, such as `date=+2y`, or `net=none with copies=2`.
    pub name: String,
    /// The conditions that are needed together; most often only one.
    pub parts: Vec<String>,
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
    /// Trials without one of the conditions that are needed together, of each: they all ended as without all of them.
    pub trials_without_one: u64,
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

impl ConditionReport {
    /// Returns whether all trials with the condition ended alike, and all without it in the other way.
    pub(super) fn is_clear(&self) -> bool {
        let never = |counts: FailureCounts| counts.failures == 0;
        let always = |counts: FailureCounts| counts.failures == counts.trials;
        match self.verdict {
            ConditionVerdict::Raises => always(self.with) && never(self.without),
            ConditionVerdict::Removes => never(self.with),
            _ => false,
        }
    }

    pub(super) fn describe_pairs(&self) -> String {
        let without = match self.compared_with.as_str() {
            PLAIN if self.parts.len() > 1 => "without them".to_owned(),
            PLAIN => "without it".to_owned(),
            sham => format!("under {sham}, its control"),
        };
        let (failed, without_failed) = (self.with.in_words(), self.without.in_words());
        format!("{failed} trials failed, and {without_failed} {without}")
    }

    /// Says that each of several conditions is needed.
    pub(super) fn describe_need(&self) -> Option<String> {
        let trials = self.trials_without_one;
        let failed = match self.verdict {
            ConditionVerdict::Removes => trials,
            _ => 0,
        };
        (trials > 0).then(|| {
            format!(
                "each of them is needed: without one of them, {failed} of {trials} trials failed"
            )
        })
    }

    /// Describes between which values the outcome changes, in a search that started at this time.
    pub(super) fn describe_limit(&self, started_at: i64) -> String {
        let value = |name: &str| {
            let (lever, value) = name.split_once('=').unwrap_or((name, name));
            let meaning = find_lever(lever).and_then(|lever| lever.explain_at(value, started_at));
            match meaning {
                Some(meaning) => format!("{value} ({meaning})"),
                None => value.to_owned(),
            }
        };
        let result = match self.verdict {
            ConditionVerdict::Removes => "passes",
            _ => "fails",
        };
        match (&self.same_up_to, &self.changes_from) {
            (Some(without), Some(with)) => {
                format!("{result} at {}, not {}", value(with), value(without))
            }
            (None, Some(with)) => format!("{result} at {} or milder", value(with)),
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

/// Reports a condition, unless it is a sham, a step, or a seed that was not tried in pairs.
pub(super) fn report_condition(
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
    let variant = variant_of(state, &[index]);
    let untested = memory.untested_reason(index);
    let variant_of_failures = variant.filter(|_| untested.is_none());
    let other_failure =
        variant_of_failures.and_then(|variant| state.tally_of(variant).title_of_others());
    let reason = untested.or_else(|| {
        let other = words::sanitize_line(other_failure.as_ref()?);
        Some(format!("it fails in another way: {other}"))
    });
    let name_of = |index: usize| items[index].name.clone();
    let dose = result.dose.as_ref();
    Some(ConditionReport {
        name: name_of(index),
        parts: vec![name_of(index)],
        family: condition.family.clone(),
        verdict: result.verdict.into(),
        reason,
        tried: counts(result.singles).and(counts(result.halves[0])),
        with: counts(pairs.map_or_else(Default::default, |pairs| pairs.with)),
        without: counts(pairs.map_or_else(Default::default, |pairs| pairs.without)),
        compared_with: sham_of(items, condition)
            .map_or(PLAIN, |sham| &sham.name)
            .to_owned(),
        trials_without_one: 0,
        evidence: pairs.map(|pairs| [pairs.wealth, pairs.needed_wealth]),
        crash: variant.and_then(|variant| context.crash(variant)),
        other_failure,
        changes_from: dose.map(|dose| name_of(dose.mildest_with_effect)),
        same_up_to: dose
            .and_then(|dose| dose.harshest_without_effect)
            .map(name_of),
    })
}

/// Reports the conditions that are only needed together, if some were found.
pub(super) fn report_joint(
    state: &State,
    context: &AnswerContext<'_>,
    screen: &Screen,
    items: &[Item],
) -> Option<ConditionReport> {
    let pairs = screen.joint_claim()?;
    let conditions = pairs.conditions.iter();
    let conditions: Vec<(&str, &SearchedCondition)> = conditions
        .filter_map(|&index| Some((&*items[index].name, condition_of(&items[index])?)))
        .collect();
    let mut shams: Vec<&str> = Vec::new();
    for (_, condition) in &conditions {
        let sham = sham_of(items, condition).map(|sham| &*sham.name);
        shams.extend(sham.filter(|sham| !shams.contains(sham)));
    }
    let names: Vec<&str> = conditions.iter().map(|(name, _)| *name).collect();
    let families: Vec<&str> = conditions.iter().map(|(_, one)| &*one.family).collect();
    let variant = variant_of(state, &pairs.conditions);
    Some(ConditionReport {
        name: join_needed(&names),
        parts: names.into_iter().map(str::to_owned).collect(),
        family: join_needed(&families),
        verdict: pairs.direction.into(),
        reason: None,
        tried: FailureCounts::default(),
        with: counts(pairs.with),
        without: counts(pairs.without),
        compared_with: match shams.as_slice() {
            [] => PLAIN.to_owned(),
            shams => join_needed(shams),
        },
        trials_without_one: screen::TRIALS_WITHOUT as u64,
        evidence: Some([pairs.wealth, pairs.needed_wealth]),
        crash: variant.and_then(|variant| context.crash(variant)),
        other_failure: None,
        changes_from: None,
        same_up_to: None,
    })
}

/// Joins the names of what is needed together.
fn join_needed(names: &[&str]) -> String {
    match names {
        [first, others @ ..] if !others.is_empty() => {
            format!("{first} with {}", list_names(others))
        }
        _ => names.concat(),
    }
}

/// Returns the variant that runs under these conditions.
pub(super) fn variant_of(state: &State, conditions: &[usize]) -> Option<VariantId> {
    let numbers = conditions.iter().map(|&index| u32::try_from(index).ok());
    let numbers: Option<Vec<u32>> = numbers.collect();
    state.find_variant(&VariantChoice::Set(Subset(numbers?)))
}

impl From<screen::ConditionVerdict> for ConditionVerdict {
    fn from(verdict: screen::ConditionVerdict) -> Self {
        match verdict {
            screen::ConditionVerdict::Raises => Self::Raises,
            screen::ConditionVerdict::Removes => Self::Removes,
            screen::ConditionVerdict::NoDifferenceSeen => Self::NoDifferenceSeen,
            screen::ConditionVerdict::Untried => Self::NotTested,
        }
    }
}

impl From<Direction> for ConditionVerdict {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Raises => Self::Raises,
            Direction::Removes => Self::Removes,
        }
    }
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
