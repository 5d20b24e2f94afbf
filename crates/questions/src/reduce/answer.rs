//! Answer of `reduce`: the items that the failure needs.

use super::ReducePolicy;
use super::memory::with_required;
use super::policy::needs_all_to_run;
use crate::answer::{
    AnswerText, NOT_KNOWN, NOT_REPRODUCED, VariantSummary, format_confidence,
    independence_assumptions, sentence_and_assumptions, tested_variants,
};
use crate::search::{not_tested, reproduction_needed, search_assumptions, ways_to_reproduce};
use crate::{EarlierTrialsReport, FailureCounts, Policy as _, RaiseReport, StopRule, Verdict};
use provoke_model::{Item, SearchSpace, Subset, TrialsPlan, VariantChoice, VariantId};
use provoke_state::State;
use provoke_stats::search::{self, ItemScreen};
use provoke_words as words;
use serde::Serialize;

/// Maximum number of items listed in a sentence.
const MAX_LISTED: usize = 4;
/// Maximum length of a name before it is cut.
const LONG: usize = 60;
/// The same for an item that is not a part of a file.
const LONGEST_NAME: usize = 200;

/// Which items the failure needs, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReduceAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The number of items.
    #[serde(rename = "items")]
    pub things: u64,
    /// The needed items.
    pub needed: Vec<NeededItem>,
    /// Items that were never left out, because the program does not run without them.
    pub required: Vec<String>,
    /// The failure without each of them, in the same order; null if the program did not run at all.
    pub fails_without_required: Vec<Option<String>>,
    /// Whether the needed items alone reproduce the failure.
    pub sufficient: bool,
    /// How often it failed with the needed items alone.
    pub alone: FailureCounts,
    /// How often it failed with all items.
    pub everything: FailureCounts,
    /// Whether it fails more rarely with the needed items alone than with all items: then another item makes the failure
    /// more frequent.
    pub fails_more_rarely: bool,
    /// How many times more rarely it fails with the needed items alone than with all items, at least and at most; null
    /// if the difference is not significant. A set that fails much more rarely is not a reduction.
    pub times_rarer: Option<[f64; 2]>,
    /// The probability that the answer is wrong.
    pub error_rate: f64,
    /// The settings that were tried before the search, and the one that it used; null without `raise-rate`.
    pub raised: Option<RaiseReport>,
    /// What earlier runs measured with all items; null without any.
    pub earlier_runs: Option<EarlierTrialsReport>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    searched: SearchedEnd,
}

/// An item that the failure needs.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NeededItem {
    /// Its name; several if none of them is testable without the others.
    #[serde(rename = "items")]
    pub things: Vec<String>,
    /// How often it failed without the item.
    pub without: FailureCounts,
    /// Whether that shows that the item is needed.
    pub shown: bool,
    /// Why the rest is not testable without it.
    pub untestable: Option<String>,
}

/// What the searched trials do.
#[derive(Clone, Copy, Debug, Default)]
enum SearchedEnd {
    #[default]
    Fail,
    /// A test passes, and needs earlier tests for it.
    Pass,
}

impl SearchedEnd {
    fn of_trials(trials: &TrialsPlan) -> Self {
        if trials.rules.search_passes() {
            Self::Pass
        } else {
            Self::Fail
        }
    }

    fn infinitive(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Pass => "pass",
        }
    }

    fn present(self) -> &'static str {
        match self {
            Self::Fail => "fails",
            Self::Pass => "passes",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Fail => "failed",
            Self::Pass => "passed",
        }
    }
}

impl ReduceAnswer {
    pub(super) fn new(state: &State) -> Option<Self> {
        state.goal.question.as_reduce()?;
        let things = state.trials.space.as_ref()?.choices.as_items();
        let alpha = state.goal.alpha.to_probability();
        let reduction: Option<&search::Reduction> = state.learned();
        let answer = reduction.map(search::Reduction::current_answer);
        let rates = reduction.map(|reduction| reduction.found_rates(alpha));
        let answer = answer.unwrap_or_else(|| search::ReductionAnswer {
            needed: Vec::new(),
            sufficient: false,
            open: Vec::new(),
        });
        let needed_items: Vec<usize> = answer.needed.concat();
        // In the order of the items, not in the order in which they were found.
        let mut groups: Vec<(usize, &Vec<usize>)> = answer.needed.iter().enumerate().collect();
        groups.sort_by_key(|(_, group)| group.iter().min());
        let needed = groups.into_iter().map(|(index, group)| {
            let rest: Vec<usize> = needed_items
                .iter()
                .copied()
                .filter(|item| !group.contains(item))
                .collect();
            NeededItem {
                things: group.iter().map(|item| item_name(things, *item)).collect(),
                without: set_counts(state, rest.clone()),
                shown: !answer.open.contains(&index),
                untestable: untestable_reason(state, rest),
            }
        });
        let failing = state.tally_of(State::FAILING);
        let mut reduction = Self {
            sentence: String::new(),
            things: things.len() as u64,
            needed: needed.collect(),
            required: state
                .learned()
                .map_or(&[][..], ItemScreen::required_items)
                .iter()
                .map(|item| item_name(things, *item))
                .collect(),
            fails_without_required: state
                .learned()
                .map_or(&[][..], ItemScreen::required_items)
                .iter()
                .map(|item| other_failure_without(state, things.len(), *item))
                .collect(),
            sufficient: answer.sufficient,
            alone: set_counts(state, needed_items.clone()),
            everything: FailureCounts::of_tally(failing),
            fails_more_rarely: answer.sufficient
                && reduction.is_some_and(search::Reduction::is_found_set_rarer),
            times_rarer: match rates {
                Some(rates) if answer.sufficient => {
                    rates.times_rarer().map(|(min, max)| [min, max])
                }
                _ => None,
            },
            error_rate: alpha,
            raised: RaiseReport::new(state),
            earlier_runs: EarlierTrialsReport::of_search(state),
            assumptions: list_assumptions(state),
            searched: SearchedEnd::of_trials(&state.trials),
        };
        reduction.sentence = reduction.write_sentence(state);
        Some(reduction)
    }

    fn write_sentence(&self, state: &State) -> String {
        let FailureCounts { failures, trials } = self.everything;
        let (infinitive, past) = (self.searched.infinitive(), self.searched.past());
        match ReducePolicy.verdict_of(state) {
            Verdict::CouldNotTest => not_tested(state),
            Verdict::NotThere if failures == 0 => {
                let bound = StopRule::PlannedN.interval(0, trials, self.error_rate).hi;
                format!(
                    "NOT REPRODUCED: with all items it did not {infinitive} in {}, so the rate is below {} % ({} interval); {}",
                    words::format_count(trials, "trial"),
                    words::percent_bound(bound),
                    format_confidence(&state.goal),
                    ways_to_reproduce(state)
                )
            }
            Verdict::NotThere => format!(
                "NOT REPRODUCED: with all items it {past} in only {failures} of {}, too rarely to search; {}",
                words::format_count(trials, "trial"),
                ways_to_reproduce(state)
            ),
            Verdict::Found => self.say_found(),
            _ if needs_all_to_run(state) => format!(
                "NOT KNOWN: the program does not run without any one of the {}; with all of them, {} {past}",
                words::format_count(self.things, "item"),
                self.everything.in_words(),
            ),
            _ if self.needed.is_empty() => {
                "NOT KNOWN YET: no item is known to be needed".to_owned()
            }
            _ if state
                .learned::<search::Reduction>()
                .is_some_and(search::Reduction::is_over) =>
            {
                format!(
                    "NOT KNOWN: {}, judging by some sets, but alone it {past} {}, and with all items {}; counting only one kind of failure may help (--only)",
                    self.what_is_needed(),
                    self.alone.in_words(),
                    self.everything.in_words()
                )
            }
            _ => format!("NOT KNOWN YET: {} so far", self.what_is_needed()),
        }
    }

    fn say_found(&self) -> String {
        let (past, present) = (self.searched.past(), self.searched.present());
        let FailureCounts { failures, trials } = self.alone;
        let needed_text = match self.needed.as_slice() {
            [] if self.required.is_empty() => format!(
                "none of the {} is needed: without all of them it {past} {failures} of {trials}",
                words::format_count(self.things, "item")
            ),
            [] => format!(
                "only the items that it needs to run: with those alone it {past} {failures} of {trials}"
            ),
            [item] if item.shown => format!(
                "{}; without it, {} {past}",
                self.what_is_needed(),
                item.without.in_words()
            ),
            _ => self.what_is_needed(),
        };
        let needed_text = match self.describe_required().as_slice() {
            [required] if !self.needed.is_empty() => format!("{needed_text}; {required}"),
            _ => needed_text,
        };
        let open: Vec<String> = self.unshown_items().map(NeededItem::display_name).collect();
        let ending_text = if open.is_empty() {
            needed_text
        } else {
            format!("{needed_text}; not known for {}", open.join(", "))
        };
        if !self.fails_more_rarely {
            return ending_text;
        }
        let factor = match self.times_rarer {
            Some([min, _]) => format!(", at least {} times", words::format_number(min)),
            None => String::new(),
        };
        format!(
            "{ending_text}; but alone it {present} more rarely ({}) than with all items ({}){factor}: something else contributes",
            self.alone.in_words(),
            self.everything.in_words()
        )
    }

    fn what_is_needed(&self) -> String {
        let names: Vec<String> = self.needed.iter().map(NeededItem::display_name).collect();
        match names.as_slice() {
            [name] => format!("{name} is needed"),
            _ if names.len() <= MAX_LISTED => format!("{} are needed", names.join(", ")),
            _ => format!("{} of {} items are needed", names.len(), self.things),
        }
    }

    /// Lists the items that were never left out, with the failure without each of them.
    fn describe_required(&self) -> Vec<String> {
        let no_failure = "the program does not run".to_owned();
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for (name, failure) in self.required.iter().zip(&self.fails_without_required) {
            let reason = failure.as_ref().unwrap_or(&no_failure);
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => reasons.push((reason.clone(), vec![name])),
            }
        }
        let describe = |(reason, names): (String, Vec<&str>)| match names.as_slice() {
            [name] => format!("{name} must stay: without it, {reason}"),
            few if few.len() <= MAX_LISTED => {
                format!(
                    "{} must stay: without each of them, {reason}",
                    few.join(", ")
                )
            }
            many => format!(
                "{} other items must stay: without each of them, {reason}",
                many.len()
            ),
        };
        reasons.into_iter().map(describe).collect()
    }

    /// Returns the number of items that were not left out.
    fn kept_items(&self) -> u64 {
        let needed: usize = self.needed.iter().map(|item| item.things.len()).sum();
        (needed + self.required.len()) as u64
    }

    fn unshown_items(&self) -> impl Iterator<Item = &NeededItem> {
        let open = |item: &&NeededItem| !item.shown && item.untestable.is_none();
        self.needed.iter().filter(open)
    }
}

impl AnswerText for ReduceAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let raised = self.raised.iter().flat_map(RaiseReport::summary_lines);
        if !self.sufficient {
            return raised.collect();
        }
        let mut lines: Vec<String> = self
            .needed
            .iter()
            .filter(|item| self.needed.len() > 1 || item.untestable.is_some())
            .map(|item| match &item.untestable {
                Some(reason) => format!(
                    "without {}: the rest is not testable ({reason})",
                    item.display_name()
                ),
                None => format!(
                    "without {}: {} {}",
                    item.display_name(),
                    item.without.in_words(),
                    self.searched.past()
                ),
            })
            .collect();
        lines.extend(self.describe_required());
        if self.kept_items() < self.things {
            lines.push(format!(
                "with only the needed items, {} trials {}; with all items, {}",
                self.alone.in_words(),
                self.searched.past(),
                self.everything.in_words(),
            ));
            lines.push(format!(
                "these counts are not failure rates: the trials of a set end once it is clear whether it {}",
                self.searched.present()
            ));
        }
        lines.extend(raised);
        let earlier = self.earlier_runs.as_ref();
        lines.extend(
            earlier.and_then(|earlier| earlier.describe_earlier_trials("the set of all items")),
        );
        lines
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        let needed = self.needed.iter().flat_map(|item| &item.things);
        let needed: Vec<&str> = needed.map(|name| item_text(name)).collect();
        match verdict {
            Verdict::Found if needed.is_empty() => "no item is needed".to_owned(),
            Verdict::Found => needed.join(", "),
            Verdict::NotThere => NOT_REPRODUCED.to_owned(),
            _ => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("reduce", "the needed items are found")
    }

    fn listed_variants(&self, variants: &[VariantSummary]) -> Option<Vec<String>> {
        Some(tested_variants(variants))
    }
}

impl NeededItem {
    /// Returns its name for a sentence.
    fn display_name(&self) -> String {
        match self.things.as_slice() {
            [name] => name.clone(),
            names => format!("one or more of {}", names.join(", ")),
        }
    }
}

fn list_assumptions(state: &State) -> Vec<String> {
    let mut assumptions = independence_assumptions(state);
    assumptions.extend(search_assumptions(state));
    if ReducePolicy.verdict_of(state) == Verdict::Found {
        assumptions.push("no other set causes the failure (the search finds one)".to_owned());
    }
    assumptions
}

/// Returns the name of an item: `import torch` (line 14).
fn item_name(items: &[Item], index: usize) -> String {
    let Some(item) = items.get(index) else {
        return String::new();
    };
    // The names of parametrized tests often differ at their ends.
    let longest = if item.at.is_some() {
        LONG
    } else {
        LONGEST_NAME
    };
    let name = words::shorten_text(&words::sanitize_line(&item.name), longest);
    match &item.at {
        Some(position) => format!("`{name}` ({position})"),
        None => format!("`{name}`"),
    }
}

/// Returns the variant that keeps these items, if it was tried.
pub(super) fn find_variant(state: &State, set: Vec<usize>) -> Option<VariantId> {
    state.find_variant(&with_required(state.learned(), set))
}

/// Returns the failure of the set that lacks only this item, if it failed in another way.
fn other_failure_without(state: &State, item_count: usize, item: usize) -> Option<String> {
    let rest: Vec<u32> = (0..item_count)
        .filter(|other| *other != item)
        .filter_map(|other| u32::try_from(other).ok())
        .collect();
    let variant = state.find_variant(&VariantChoice::Set(Subset(rest)))?;
    let title = state.tally_of(variant).title_of_others()?;
    Some(words::shorten_text(
        &words::sanitize_line(&title),
        LONGEST_NAME,
    ))
}

/// Returns why a set is not testable.
fn untestable_reason(state: &State, set: Vec<usize>) -> Option<String> {
    let id = find_variant(state, set)?;
    state.untestable.get(&id).cloned()
}

/// Returns the counts of a set.
fn set_counts(state: &State, set: Vec<usize>) -> FailureCounts {
    find_variant(state, set).map_or_else(FailureCounts::default, |id| {
        FailureCounts::of_tally(state.tally_of(id))
    })
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(state: &State) -> Vec<String> {
    let item_count = state.trials.space.as_ref().map_or(0, SearchSpace::len);
    let (earlier_trials, limit_text) = reproduction_needed(state);
    let mut lines = vec![format!(
        "minimizing {} at {} confidence; first, the command with all items must {} {limit_text}",
        words::format_count(item_count as u64, "item"),
        format_confidence(&state.goal),
        SearchedEnd::of_trials(&state.trials).infinitive()
    )];
    lines.extend(
        earlier_trials
            .iter()
            .flat_map(|earlier_trials| earlier_trials.lines_before_start("the set of all items")),
    );
    let stop = &state.stop;
    if stop.trials.is_none() && stop.time_budget().is_none() {
        lines.push("it runs until there is an answer (-n and -d set a limit)".to_owned());
    }
    lines
}

/// Returns the text of an item, without its line number: `import badlib` (line 4).
fn item_text(name: &str) -> &str {
    let text = name
        .strip_prefix('`')
        .and_then(|rest| rest.rsplit_once('`'));
    text.map_or(name, |(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_listed_without_its_line() {
        assert_eq!(item_text("`import badlib` (line 4)"), "import badlib");
        assert_eq!(item_text("-v"), "-v");
    }
}
