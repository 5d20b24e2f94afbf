//! Answer of `why` about a suite: the conditions under which each of its tests fails or passes.

use super::WhyPolicy;
use super::answer::{
    NOT_FOUND, causes_of, limit_lines, list_assumptions, main_command, sentence_without_condition,
    tried_line, untested_table,
};
use super::condition_report::{ConditionVerdict, SeedReport, counts, sham_of, variant_of};
use super::conditions::condition_of;
use super::lists::{list_each, trials_to_reproduce};
use super::memory::WhyMemory;
use crate::answer::{AnswerText, NOT_KNOWN, VariantSummary, sentence_and_assumptions};
use crate::{FailureCounts, Policy as _, Verdict};
use provoke_model::{ConditionRole, Item, PLAIN};
use provoke_state::State;
use provoke_stats::screen::{PairTest, SuiteScreen};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, SuggestedCommand, Table};
use provoke_words::untrusted::{SafeText, shell_word};
use serde::Serialize;
use std::collections::BTreeSet;

/// Tests without a condition that the table lists.
const MOST_UNEXPLAINED: usize = 10;

/// Under which conditions the tests of a suite fail, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SuiteWhyAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The tests that failed in any trial: those with a condition first.
    pub tests: Vec<TestReport>,
    /// Number of tests that never failed.
    pub passing_tests: u64,
    /// The conditions that were tried or could not be tried, except for shams, steps and seeds.
    pub conditions: Vec<TriedCondition>,
    /// Probability that a search names a wrong condition for any of the tests.
    pub error_rate: f64,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    command: String,
}

/// A test of the suite.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestReport {
    /// Its name, for `--only test:NAME`.
    pub name: String,
    /// Trials without any of the conditions.
    pub plain: FailureCounts,
    /// The conditions that matter for it.
    pub conditions: Vec<TestCondition>,
    /// The seeds that decide its outcome.
    pub seeds: Vec<SeedReport>,
    /// What it depends on, by these conditions and seeds.
    pub causes: Vec<String>,
}

/// A condition that matters for a test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TestCondition {
    /// Its name, such as `tz=America/St_Johns`.
    pub name: String,
    /// What it does.
    pub verdict: ConditionVerdict,
    /// Trials with the condition, in pairs.
    pub with: FailureCounts,
    /// Trials without it, in the same pairs.
    pub without: FailureCounts,
    /// What it was compared with: `plain`, or a condition that does the same to a trial except for what this one is about.
    pub compared_with: String,
    /// The failure of the test under the condition, by its title.
    pub failure: Option<String>,
}

/// A condition of the search.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedCondition {
    /// Its name.
    pub name: String,
    /// Whether any test passed or failed under it.
    pub is_tried: bool,
    /// Why it was not tested.
    pub reason: Option<String>,
}

impl SuiteWhyAnswer {
    pub(super) fn new(state: &State) -> Option<Self> {
        let screen: &SuiteScreen = state.learned()?;
        let memory: &WhyMemory = state.learned()?;
        let items = state.trials.space.as_ref()?.choices.as_items();
        let failing = screen.failing_tests();
        let mut tests: Vec<TestReport> = failing
            .map(|(test, plain)| TestReport::new(state, screen, items, test, counts(plain)))
            .collect();
        tests.sort_by_key(|test| (!test.is_explained(), test.plain.failures == 0));
        let conditions = (0..).zip(items).filter_map(|(index, item)| {
            let role = condition_of(item)?.role;
            matches!(role, ConditionRole::Tried | ConditionRole::Harsh).then(|| TriedCondition {
                name: item.name.clone(),
                is_tried: screen.is_tried(index),
                reason: memory.untested_reason(index),
            })
        });
        let known = state.case_names.all_names().len();
        let mut answer = Self {
            sentence: String::new(),
            passing_tests: known.saturating_sub(tests.len()) as u64,
            tests,
            conditions: conditions.collect(),
            error_rate: state.goal.alpha.to_probability(),
            assumptions: list_assumptions(state),
            command: main_command(state),
        };
        answer.sentence = answer.write_sentence(WhyPolicy.verdict_of(state));
        Some(answer)
    }

    fn explained(&self) -> impl Iterator<Item = &TestReport> {
        self.tests.iter().filter(|test| test.is_explained())
    }

    /// Returns the tests that failed without a condition, and for which none was found.
    fn unexplained(&self) -> impl Iterator<Item = &TestReport> {
        let unexplained = self.tests.iter().filter(|test| !test.is_explained());
        unexplained.filter(|test| test.plain.failures > 0)
    }

    fn write_sentence(&self, verdict: Verdict) -> String {
        let total = words::format_count(self.tests.len() as u64 + self.passing_tests, "test");
        let found: Vec<String> = self.explained().map(TestReport::describe).collect();
        let unexplained = match self.unexplained().count() {
            0 => String::new(),
            count => format!(
                "; no condition for {}",
                words::format_count(count as u64, "other failing test")
            ),
        };
        if !found.is_empty() && found.len() <= 2 {
            return format!("{}{unexplained}", found.join("; "));
        }
        if !found.is_empty() {
            let count = found.len();
            return format!("{count} of {total} depend on a condition{unexplained}");
        }
        let failing = self.unexplained().count();
        let plain = format!("{failing} of {total} failed in plain trials");
        sentence_without_condition(verdict, self.tried().count(), &plain)
    }

    fn tried(&self) -> impl Iterator<Item = &TriedCondition> {
        self.conditions
            .iter()
            .filter(|condition| condition.is_tried)
    }

    /// Returns the conditions that could not be tried, with the reasons.
    fn untested(&self) -> impl Iterator<Item = (&str, &str)> {
        let untested = self
            .conditions
            .iter()
            .filter(|condition| !condition.is_tried);
        untested.filter_map(|condition| Some((&*condition.name, condition.reason.as_deref()?)))
    }
}

impl TestReport {
    fn new(
        state: &State,
        screen: &SuiteScreen,
        items: &[Item],
        test: usize,
        plain: FailureCounts,
    ) -> Self {
        let claims = screen.claims().filter(|(other, ..)| *other == test);
        let conditions: Vec<TestCondition> = claims
            .map(|(_, condition, pairs)| TestCondition::new(state, items, test, condition, pairs))
            .collect();
        let seeds = screen.seed_claims().filter(|(other, _)| *other == test);
        let seeds: Vec<SeedReport> = seeds
            .map(|(_, seeds)| SeedReport::new(seeds, items))
            .collect();
        let found = conditions.iter().map(|one| (&one.name, one.verdict));
        let decisive = seeds.iter();
        let decisive = decisive.map(|seeds| (&seeds.name, ConditionVerdict::Raises));
        let causes = causes_of(found.chain(decisive));
        let number = u32::try_from(test).unwrap_or(u32::MAX);
        let name = state.case_names.name_of(number);
        Self {
            name: name.map_or_else(String::new, ToString::to_string),
            plain,
            conditions,
            seeds,
            causes,
        }
    }

    fn is_explained(&self) -> bool {
        !self.conditions.is_empty() || !self.seeds.is_empty()
    }

    /// Says in a sentence on what the test depends.
    fn describe(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for text in ["fails", "fails more often", "passes", "fails less often"] {
            let found = self.conditions.iter().filter(|c| c.describe() == text);
            let names: Vec<&str> = found.map(|condition| &*condition.name).collect();
            if !names.is_empty() {
                parts.push(format!("{text} under {}", list_each(&names)));
            }
        }
        let seeds = self.seeds.iter();
        parts.extend(seeds.map(|seeds| format!("depends on the seed ({})", seeds.describe())));
        format!("{} {}", self.name, parts.join(", and "))
    }

    /// Returns a row for each condition and each kind of seeds, or one without a condition.
    fn rows(&self) -> Vec<Vec<Cell>> {
        let row = |condition: &str, [with, without]: [String; 2], result: String| {
            let (name, plain) = (self.name.clone(), self.plain.in_words());
            [plain, condition.to_owned(), with, without, result, name]
                .map(Cell::text)
                .to_vec()
        };
        let of_conditions = self.conditions.iter().map(|condition| {
            let pairs = [condition.with, condition.without].map(FailureCounts::in_words);
            let result = format!("{} under it", condition.describe());
            row(&condition.name, pairs, result)
        });
        let of_seeds = self.seeds.iter().map(|seeds| {
            let result = format!("the seed decides: {}", seeds.describe());
            row(&seeds.name, [const { String::new() }; 2], result)
        });
        let mut rows: Vec<Vec<Cell>> = of_conditions.chain(of_seeds).collect();
        if rows.is_empty() {
            let result = if self.plain.failures == self.plain.trials {
                "always fails"
            } else {
                "fails sometimes"
            };
            rows.push(row("–", [const { String::new() }; 2], result.to_owned()));
        }
        rows
    }
}

impl TestCondition {
    fn new(state: &State, items: &[Item], test: usize, condition: usize, pairs: &PairTest) -> Self {
        let item = &items[condition];
        let sham = condition_of(item).and_then(|condition| sham_of(items, condition));
        let variant = variant_of(state, &[condition]);
        let failure = variant.and_then(|variant| {
            let case = state.tally_of(variant).suite.cases.get(test)?;
            let (id, _) = case.signatures.iter().max_by_key(|(_, count)| *count)?;
            Some(state.case_names.signature_of(*id)?.title.clone())
        });
        Self {
            name: item.name.clone(),
            verdict: pairs.direction.into(),
            with: counts(pairs.with),
            without: counts(pairs.without),
            compared_with: sham.map_or(PLAIN, |sham| &sham.name).to_owned(),
            failure,
        }
    }

    fn describe(&self) -> &'static str {
        let never = |counts: FailureCounts| counts.failures == 0;
        match self.verdict {
            ConditionVerdict::Removes if never(self.with) => "passes",
            ConditionVerdict::Removes => "fails less often",
            _ if self.with.failures == self.with.trials && never(self.without) => "fails",
            _ => "fails more often",
        }
    }
}

impl AnswerText for SuiteWhyAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let causes = self.tests.iter().flat_map(|test| &test.causes);
        let causes: BTreeSet<&String> = causes.collect();
        lines.extend(causes.into_iter().map(|cause| format!("cause: {cause}")));
        let never_failed = words::format_count(self.passing_tests, "test");
        lines.push(format!("{never_failed} never failed"));
        if self.explained().next().is_none() {
            let tried = self.tried().map(|condition| &*condition.name);
            lines.extend(tried_line(tried));
        }
        lines.extend(limit_lines(self.untested(), self.error_rate));
        lines
    }

    fn tables(&self, _: &[VariantSummary], _: f64) -> Vec<Table> {
        let columns = vec![
            Column::numbers("plain").leaving(2),
            Column::words("condition"),
            Column::numbers("with it"),
            Column::numbers("without").leaving(1),
            Column::words("result"),
            Column::words("test"),
        ];
        let unexplained = self.unexplained().take(MOST_UNEXPLAINED);
        let rows: Vec<Vec<Cell>> = self
            .explained()
            .chain(unexplained)
            .flat_map(TestReport::rows)
            .collect();
        let conditions = self.explained().flat_map(|test| {
            let rows = test.conditions.iter().map(|condition| {
                let failure = condition.failure.clone().unwrap_or_default();
                let compared_with = condition.compared_with.clone();
                [
                    test.name.clone(),
                    condition.name.clone(),
                    compared_with,
                    failure,
                ]
                .map(Cell::text)
                .to_vec()
            });
            rows.collect::<Vec<_>>()
        });
        let columns_of_failures = vec![
            Column::words("test"),
            Column::words("condition"),
            Column::words("compared with"),
            Column::remarks("failure"),
        ];
        let failures = Table::new(
            "Failures under conditions",
            Place::Details,
            columns_of_failures,
        );
        vec![
            Table::new("Tests and conditions", Place::Screen, columns).with_rows(rows),
            failures.with_rows(conditions.collect::<Vec<_>>()),
            untested_table(self.untested()),
        ]
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        match verdict {
            Verdict::Found => {
                let count = self.explained().count() as u64;
                let tests = words::format_count(count, "test");
                format!("conditions of {tests}")
            }
            Verdict::NotThere => NOT_FOUND.to_owned(),
            _ => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("why", "the condition of a test is found")
    }

    fn listed_variants(&self, _: &[VariantSummary]) -> Option<Vec<String>> {
        let conditions = self.explained().flat_map(|test| &test.conditions);
        let found: BTreeSet<String> = conditions.map(|condition| condition.name.clone()).collect();
        Some(std::iter::once(PLAIN.to_owned()).chain(found).collect())
    }

    fn commands(&self, _: &SafeText) -> Vec<SuggestedCommand> {
        let mut raised = self.explained().filter_map(|test| {
            let mut conditions = test.conditions.iter();
            let condition = conditions.find(|c| c.verdict == ConditionVerdict::Raises)?;
            Some((test, condition))
        });
        let Some((test, condition)) = raised.next() else {
            return Vec::new();
        };
        let command = &self.command;
        let only = format!(
            "--only {}",
            shell_word(format!("test:{}", test.name).as_ref())
        );
        let under = format!("--under {}", shell_word(condition.name.as_ref()));
        let lever = condition.name.split('=').next().unwrap_or_default();
        let FailureCounts { failures, trials } = condition.with;
        vec![
            SuggestedCommand::new(
                "reproduce the first",
                format!(
                    "provoke run -n {} {only} {under} {command}",
                    trials_to_reproduce(condition.with)
                ),
            ),
            SuggestedCommand::new(
                "from which value on?",
                format!("provoke why --try {lever} {only} {command}"),
            ),
            SuggestedCommand::new(
                "is it fixed?",
                format!("provoke confirm --baseline {failures}/{trials} {only} {under} {command}"),
            ),
        ]
    }
}
