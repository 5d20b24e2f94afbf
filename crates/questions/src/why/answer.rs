//! Answer of `why`: the conditions under which the program fails or passes.

use super::WhyPolicy;
use super::condition_report::{
    ConditionReport, ConditionVerdict, SeedReport, counts, report_condition, report_joint,
};
use super::lists::{list_each, list_names, trials_to_reproduce};
use super::memory::WhyMemory;
use super::other_failures::{self, OtherFailureReport};
use crate::answer::{
    AnswerContext, AnswerText, NOT_KNOWN, VariantSummary, independence_assumptions, one_of,
    sentence_and_assumptions,
};
use crate::{FailureCounts, Policy as _, Verdict};
use provoke_levers::find_lever;
use provoke_model::{PLAIN, VariantId};
use provoke_plan::Scenario;
use provoke_state::State;
use provoke_stats::fisher;
use provoke_stats::screen::{Screen, ScreenPhase, SuiteScreen};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, SuggestedCommand, Table};
use provoke_words::untrusted::{SafeText, shell_word};
use serde::Serialize;
use std::collections::BTreeSet;

/// Maximum number of conditions for which commands are proposed.
const MAX_COMMANDS: usize = 3;
/// The assumption that an effect of `fresh-dir` disproves.
const LEAVES_NOTHING: &str = "a trial leaves nothing behind that changes the next one";
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
    /// Conditions under which another failure is more frequent.
    pub other_failures: Vec<OtherFailureReport>,
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
}

impl WhyAnswer {
    pub(super) fn new(state: &State, context: &AnswerContext<'_>) -> Option<Self> {
        let screen: &Screen = state.learned()?;
        let memory: &WhyMemory = state.learned()?;
        let items = state.trials.space.as_ref()?.choices.as_items();
        let reports = (0..items.len())
            .filter_map(|index| report_condition(state, context, screen, memory, items, index))
            .chain(report_joint(state, context, screen, items));
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
            other_failures: memory
                .other_failures()
                .iter()
                .map(|other| OtherFailureReport::new(other, items))
                .collect(),
            others: state.all_tallies().map(|(_, tally)| tally.other).sum(),
            command: main_command(state),
            started_at: state.origin.started_at,
            failure: memory.plain_failure_title(),
        };
        answer.causes = answer.find_causes();
        let mut removing = answer.found(ConditionVerdict::Removes).into_iter();
        if removing.any(|found| found.name.starts_with("fresh-dir")) {
            answer
                .assumptions
                .retain(|assumed| assumed != LEAVES_NOTHING);
        }
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
        if let (Verdict::Found, [first, others @ ..]) = (verdict, self.other_failures.as_slice()) {
            return first.describe_with(others);
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
            .flat_map(|found| found.parts.iter().map(|part| (part, found.verdict)))
            .chain(seeds.map(|seeds| (&seeds.name, ConditionVerdict::Raises)));
        let names: Vec<(&String, ConditionVerdict)> = names.collect();
        let of_others = self.other_failures.iter().filter(|_| names.is_empty());
        let of_others = of_others.map(|other| (&other.condition, ConditionVerdict::Raises));
        causes_of(names.iter().copied().chain(of_others))
    }

    /// Names the conditions that others were compared with and under which the program fails, although plain trials pass:
    /// a difference from such a condition does not show.
    fn failing_references(&self) -> impl Iterator<Item = String> {
        let mut named = BTreeSet::new();
        let compared = self.found(ConditionVerdict::NoDifferenceSeen).into_iter();
        let failing = compared.filter(move |condition| {
            let is_plain = condition.compared_with == PLAIN;
            let (without, plain) = (condition.without, self.plain);
            let compared = fisher(
                without.failures,
                without.trials,
                plain.failures,
                plain.trials,
            );
            !is_plain && compared.greater <= other_failures::ERROR
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

    /// Names the conditions whose trials all failed in another way, but too few to tell.
    fn unproven_failures(&self) -> impl Iterator<Item = String> {
        let mut known: Vec<(&str, Vec<&str>)> = Vec::new();
        for condition in self.found(ConditionVerdict::NotTested) {
            let title = condition.other_failure.as_deref();
            let Some(title) = title.filter(|_| !self.has_other_failure(condition)) else {
                continue;
            };
            match known.iter_mut().find(|(known, _)| *known == title) {
                Some((_, names)) => names.push(&condition.name),
                None => known.push((title, vec![&condition.name])),
            }
        }
        known.into_iter().map(|(title, names)| {
            let title = words::sanitize_line(title);
            format!(
                "perhaps another failure under {}: {title}",
                list_each(&names)
            )
        })
    }

    fn has_other_failure(&self, condition: &ConditionReport) -> bool {
        let mut others = self.other_failures.iter();
        others.any(|other| other.condition == condition.name)
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
        let (lever, value) = name.split_once('=')?;
        let search = find_lever(lever)?.search()?;
        let removed = search.cause_if_removed;
        let removed = removed.filter(|_| verdict == ConditionVerdict::Removes);
        Some(removed.unwrap_or(search.cause_of(value)).to_owned())
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

impl AnswerText for WhyAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.all_found().is_empty() {
            lines.push(format!(
                "without any condition: {} trials failed",
                self.plain.in_words()
            ));
            lines.extend(
                self.all_found()
                    .into_iter()
                    .filter_map(ConditionReport::describe_need),
            );
        } else if !self.seeds.as_ref().is_some_and(|seeds| seeds.decides) {
            let tried = self.found(ConditionVerdict::NoDifferenceSeen).into_iter();
            lines.extend(tried_line(tried.map(|condition| &*condition.name)));
            if self.plain.failures == 0 && self.together.failures > 0 {
                lines.push(format!(
                    "under several conditions at once, {} trials failed: some of them may be needed together",
                    self.together.in_words()
                ));
            }
        }
        // Conditions that are needed together are all causes.
        let is_joint = matches!(self.all_found().as_slice(), [one] if one.parts.len() > 1);
        lines.extend(self.causes.iter().map(|cause| match self.causes.len() {
            1 => format!("cause: {cause}"),
            _ if is_joint => format!("cause: {cause}"),
            _ => format!("possible cause: {cause}"),
        }));
        lines.extend(self.failing_references());
        if self.all_found().is_empty()
            && !self.other_failures.is_empty()
            && let Some(failure) = &self.failure
        {
            let failure = words::sanitize_line(failure);
            lines.push(format!(
                "no condition found for the failure of plain trials: {failure}"
            ));
        }
        lines.extend(self.unproven_failures());
        if self.others > 0 {
            let others = words::format_count(self.others, "trial");
            lines.push(match &self.failure {
                Some(failure) => format!(
                    "not counted: {others} with a failure other than {}",
                    words::sanitize_line(failure)
                ),
                None => format!("not counted: {others} with another failure"),
            });
        }
        let of_others = if self.other_failures.is_empty() {
            0.0
        } else {
            other_failures::ERROR
        };
        lines.extend(limit_lines(self.untested(), self.error_rate + of_others));
        lines
    }

    fn tables(&self, _: &[VariantSummary], _: f64) -> Vec<Table> {
        let columns = || {
            vec![
                Column::words("condition"),
                Column::numbers("with it"),
                Column::numbers("without"),
                Column::words("limit").leaving(2),
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
            other_failures::table(&self.other_failures),
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
            Verdict::Found if names.is_empty() => match self.other_failures.first() {
                Some(other) => format!("another failure under {}", other.condition),
                None => "the seed decides".to_owned(),
            },
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
                    let fixed = format!("fixed under {lever}?");
                    (format!("reproduce {lever}"), fixed)
                }
            };
            let under = condition.parts.iter();
            let under = under.map(|part| format!("--under {}", shell_word(part.as_ref())));
            let under = under.collect::<Vec<_>>().join(" ");
            let FailureCounts { failures, trials } = condition.with;
            let trials_to_fail = trials_to_reproduce(condition.with);
            let run = format!("provoke run -n {trials_to_fail} {under} {command}");
            let baseline = format!("--baseline {failures}/{trials}");
            let fixed = format!("provoke confirm {baseline} {under} {command}");
            let fixed = SuggestedCommand::new(&confirm, fixed);
            // A failure that also occurs without the condition would count as one that is not fixed.
            let has_others = condition.without.failures + self.plain.failures > 0;
            [
                Some(SuggestedCommand::new(&reproduce, run)),
                (!has_others).then_some(fixed),
            ]
            .into_iter()
            .flatten()
        });
        let seeds = self.seeds.iter().filter(|seeds| seeds.decides);
        let seeds = seeds.filter_map(|seeds| {
            let under = shell_word(format!("{}={}", seeds.name, seeds.fails.first()?).as_ref());
            let run = format!("provoke run -n 5 --under {under} {command}");
            Some(SuggestedCommand::new("reproduce it", run))
        });
        let others = self.other_failures.iter().take(1);
        let others = others.flat_map(|other| other.commands(command));
        commands.chain(seeds).chain(others).collect()
    }
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
        (screen.phase(), screen.claims().count(), plain)
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
        ScreenPhase::Joint => format!("{found}which conditions are needed together"),
        ScreenPhase::Pairs(conditions) => {
            let names: Vec<&str> = conditions
                .iter()
                .map(|&index| &*items[index].name)
                .collect();
            format!("{found}with and without {}", list_names(&names))
        }
        ScreenPhase::Dose(index) => format!("{found}milder than {}", items[*index].name),
        ScreenPhase::Over => format!("{found}done"),
    })
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
    let mut assumptions = independence_assumptions(state);
    assumptions.push(LEAVES_NOTHING.to_owned());
    assumptions
}
