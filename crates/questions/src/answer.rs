//! Answer to a question: one sentence, its evidence and its assumptions.

use super::{
    BisectAnswer, CompareAnswer, ConfirmAnswer, DifferAnswer, HeldPlace, HuntAnswer, RampAnswer,
    ReduceAnswer, SuiteWhyAnswer, Verdict, WhyAnswer, of,
};
use provoke_model::{Goal, RunCounts, VariantId};
use provoke_state::{State, Tally};
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::{
    Cell, Column, Document, Figure, Place, RateMark, SuggestedCommand, Table, Tone,
};
use provoke_words::untrusted::SafeText;
use serde::Serialize;
use std::any::Any;
use std::collections::BTreeSet;

/// The answer to a question.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Answer {
    kind: AnswerKind,
}

/// The answers with their numbers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AnswerKind {
    /// Is it fixed?
    Confirm(Box<ConfirmAnswer>),
    /// Which variants fail, and do they differ?
    Compare(Box<CompareAnswer>),
    /// Which candidate is the first bad one?
    Bisect(Box<BisectAnswer>),
    /// Which items does the failure need?
    Reduce(Box<ReduceAnswer>),
    /// At which concurrency does it fail?
    Ramp(Box<RampAnswer>),
    /// Under which schedule does it fail?
    Hunt(Box<HuntAnswer>),
    /// Under which conditions does it fail?
    Why(Box<WhyAnswer>),
    /// Under which conditions do the tests of a suite fail?
    WhySuite(Box<SuiteWhyAnswer>),
    /// What do failing trials do differently?
    Differ(Box<DifferAnswer>),
}

/// Returns the sentence and the assumptions of an answer from its fields.
macro_rules! sentence_and_assumptions {
    () => {
        fn sentence(&self) -> &str {
            &self.sentence
        }

        fn assumptions(&self) -> &[String] {
            &self.assumptions
        }
    };
}
pub(crate) use sentence_and_assumptions;

/// What an answer says, and what a report does with it.
pub trait AnswerText: Any {
    /// Returns the answer in one sentence.
    fn sentence(&self) -> &str;

    /// Returns further facts, one line each.
    fn detail_lines(&self) -> Vec<String>;

    /// Returns the assumptions of the answer.
    fn assumptions(&self) -> &[String];

    /// Returns what it says as a document.
    fn document(&self, verdict: Verdict, variants: &[VariantSummary], confidence: f64) -> Document {
        Document {
            headline: self.sentence().to_owned(),
            tone: if self.is_doubtful() {
                Tone::Open
            } else {
                verdict.tone()
            },
            facts: self.detail_lines(),
            figures: self.figures(),
            // Without a conclusive trial, there is nothing to compare.
            tables: if verdict == Verdict::CouldNotTest {
                Vec::new()
            } else {
                self.tables(variants, confidence)
            },
            assumptions: self.assumptions().to_vec(),
        }
    }

    /// Returns drawings in characters.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }

    /// Returns its tables.
    fn tables(&self, _: &[VariantSummary], _confidence: f64) -> Vec<Table> {
        Vec::new()
    }

    /// Returns the answer in a few words, for a list of runs.
    fn result(&self, verdict: Verdict, variants: &[VariantSummary]) -> String;

    /// Returns whether the answer is good, though with less certainty than it seems.
    fn is_doubtful(&self) -> bool {
        false
    }

    /// Returns the name of the question in reports for CI systems, and the statement that holds if it is answered well.
    fn ci_test(&self) -> (&'static str, &'static str);

    /// Returns which variants are described besides the tables.
    fn described_variants(&self) -> DescribedVariants {
        DescribedVariants::None
    }

    /// Returns the meaning of the failure rates of the variants.
    fn rate_meaning(&self) -> RateMeaning {
        RateMeaning::Searched
    }

    /// Returns the maximum of the failure rate.
    fn allowed_rate(&self) -> Option<f64> {
        None
    }

    /// Returns the names of the variants that lists show, in their order; `None` for all.
    fn listed_variants(&self, _: &[VariantSummary]) -> Option<Vec<String>> {
        None
    }

    /// Returns commands that continue from the answer.
    fn commands(&self, _run: &SafeText) -> Vec<SuggestedCommand> {
        Vec::new()
    }

    /// Returns a trial that shows the answer, if only this one does.
    fn example_trial(&self) -> Option<u64> {
        None
    }

    /// Returns the title of a failure that no measured trial shows.
    fn crash(&self) -> Option<&str> {
        None
    }

    /// Returns where threads were held.
    fn held_places(&self) -> &[HeldPlace] {
        &[]
    }

    /// Returns the run whose failure was checked.
    fn confirmed_run(&self) -> Option<&str> {
        None
    }
}

/// Which variants are described besides the tables of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescribedVariants {
    /// Each of them.
    Each,
    /// Only their failures in extra trials.
    Captured,
    /// This one, with a heading.
    One(VariantId, String),
    /// None.
    None,
}

/// The meaning of the failure rates of variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateMeaning {
    /// How often the program fails.
    Measured,
    /// The same, compared with a maximum, so that a single trial does not decide.
    Limited,
    /// How often a tried fix fails: so it is not a baseline, and a single trial does not decide.
    OfFix,
    /// Nothing: the search chose the number of trials by their results.
    Searched,
}

/// Facts of a report about a variant.
#[derive(Clone, Debug)]
pub struct VariantSummary {
    /// Its name.
    pub name: String,
    /// Counted trials.
    pub trials: u64,
    /// Failed trials.
    pub failures: u64,
    /// All other trials that ended.
    pub uncounted: u64,
    /// The interval of its failure rate.
    pub interval: [f64; 2],
    /// The estimate of its failure rate; `None` if it would mislead.
    pub point: Option<f64>,
    /// The median times of passing and of failing trials, in seconds.
    pub times: [Option<f64>; 2],
    /// The title of its most frequent failure.
    pub crash: Option<String>,
    /// All of its failures in a few words.
    pub failures_text: String,
}

/// What answers need besides the state.
pub struct AnswerContext<'a> {
    /// The variants.
    pub(crate) variants: &'a [VariantSummary],
    /// Reads a line of a source file.
    pub(crate) source_line: &'a dyn Fn(&str, u32) -> Option<String>,
}

impl AnswerContext<'_> {
    /// Returns the title of the most frequent failure of a variant.
    pub(crate) fn crash(&self, variant: VariantId) -> Option<String> {
        self.variants.get(variant.index())?.crash.clone()
    }
}

impl VariantSummary {
    /// Returns its rate for a picture.
    pub(crate) fn rate_mark(&self) -> RateMark {
        RateMark::new(self.failures, self.trials, self.interval, self.point)
    }
}

/// Returns a table of failure rates with their intervals.
pub fn rate_table(rates: impl IntoIterator<Item = (String, RateMark)>) -> Table {
    let columns = vec![
        Column::words("measured"),
        Column::numbers("failed"),
        Column::numbers("trials"),
        Column::numbers("rate"),
        Column::numbers("interval"),
        Column::rates(),
    ];
    let rows = rates.into_iter().map(|(name, rate)| {
        let point = rate.point.map_or("–".to_owned(), |point| {
            format!("{} %", words::percent_within(point, rate.interval))
        });
        vec![
            Cell::text(name),
            Cell::text(rate.failures.to_string()),
            Cell::text(rate.trials.to_string()),
            Cell::text(point),
            Cell::text(words::format_interval(rate.interval)),
            Cell::Rate(rate),
        ]
    });
    Table::new("How often", Place::Page, columns).with_rows(rows)
}

/// Returns a table of the failure rates of variants, which may be compared with a limit.
pub fn variant_rates(variants: &[VariantSummary], limit: Option<f64>) -> Table {
    rate_table(variants.iter().map(|variant| {
        let rate = RateMark {
            limit,
            ..variant.rate_mark()
        };
        (variant.name.clone(), rate)
    }))
}

/// Returns a row of a table of rates, if the rate was measured.
pub(crate) fn rate_row(
    name: &str,
    counts: FailureCounts,
    interval: Option<[f64; 2]>,
) -> Option<(String, RateMark)> {
    let rate = RateMark::of_share(counts.failures, counts.trials, interval?);
    Some((name.to_owned(), rate))
}

/// Returns `3 of 100`: failures and trials of all variants.
pub fn counts_of_all(variants: &[VariantSummary]) -> String {
    let trials: u64 = variants.iter().map(|variant| variant.trials).sum();
    let failures: u64 = variants.iter().map(|variant| variant.failures).sum();
    format!("{failures} of {trials}")
}

/// Returns the names of the variants with trials.
pub(crate) fn tested_variants(variants: &[VariantSummary]) -> Vec<String> {
    let is_tested = |variant: &&VariantSummary| variant.trials + variant.uncounted > 0;
    let tested = variants
        .iter()
        .filter(|variant| variants.len() == 1 || is_tested(variant));
    tested.map(|variant| variant.name.clone()).collect()
}

/// Result if the trials did not answer the question.
pub(crate) const NOT_KNOWN: &str = "not known yet";
/// Result if the failing variant did not fail.
pub(crate) const NOT_REPRODUCED: &str = "not reproduced";

/// Failures among trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureCounts {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
}

impl FailureCounts {
    /// Returns the counts of a variant.
    pub(super) fn of_tally(tally: &Tally) -> Self {
        Self {
            failures: tally.failures,
            trials: tally.counted_trials(),
        }
    }

    pub(super) fn in_words(self) -> String {
        format!("{} of {}", self.failures, self.trials)
    }

    /// Returns both counts together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            failures: self.failures + other.failures,
            trials: self.trials + other.trials,
        }
    }

    pub(super) fn add_trial(&mut self, is_failure: bool) {
        self.trials += 1;
        self.failures += u64::from(is_failure);
    }

    /// Returns the part of the trials that failed; 0 without a trial.
    pub(super) fn rate(self) -> f64 {
        real(self.failures) / real(self.trials.max(1))
    }
}

impl Answer {
    /// Derives the answer from the state and its summaries of the variants; `None` if the question was only the rate.
    /// `source_line` reads a line of a source file.
    pub fn new(
        state: &State,
        variants: &[VariantSummary],
        source_line: &dyn Fn(&str, u32) -> Option<String>,
    ) -> Option<Self> {
        let kind = of(state).answer(
            state,
            &AnswerContext {
                variants,
                source_line,
            },
        )?;
        Some(Self { kind })
    }

    /// Returns the numbers behind the answer, if the question has this kind of answer.
    pub fn numbers<T: AnswerText>(&self) -> Option<&T> {
        let text: &dyn Any = self.text();
        text.downcast_ref()
    }

    /// Returns what it says.
    pub fn text(&self) -> &dyn AnswerText {
        match &self.kind {
            AnswerKind::Confirm(answer) => &**answer,
            AnswerKind::Compare(answer) => &**answer,
            AnswerKind::Bisect(answer) => &**answer,
            AnswerKind::Reduce(answer) => &**answer,
            AnswerKind::Ramp(answer) => &**answer,
            AnswerKind::Hunt(answer) => &**answer,
            AnswerKind::Why(answer) => &**answer,
            AnswerKind::WhySuite(answer) => &**answer,
            AnswerKind::Differ(answer) => &**answer,
        }
    }
}

/// Returns the assumptions of every answer about its trials.
pub(super) fn independence_assumptions(state: &State) -> Vec<String> {
    let shared = "trials do not influence each other through what `setup` started";
    let shares_processes = state.shares_a_life();
    let held_assumption = state.trials.held.as_ref().map(|held_plan| {
        format!(
            "other schedules than that of the hold behave alike: all trials hold threads as {} found",
            held_plan.run
        )
    });
    let shared = shares_processes.then(|| shared.to_owned());
    held_assumption.into_iter().chain(shared).collect()
}

/// Says that runs which count together may differ in unrecorded facts, and in files that their command does not name.
pub(super) fn unrecorded_assumption(runs: &str, counted: &[RunCounts]) -> Vec<String> {
    let files: BTreeSet<&String> = counted.iter().flat_map(|run| &run.other_files).collect();
    let names: Vec<String> = files
        .iter()
        .map(|name| format!("`{}`", words::sanitize_line(name)))
        .collect();
    let with_files = (!files.is_empty()).then(|| {
        format!(
            "files in which these runs differ do not matter: {}",
            words::list_first(&names, FILES)
        )
    });
    let unrecorded = format!(
        "{runs} do not differ in anything that is not recorded, such as an external database"
    );
    std::iter::once(unrecorded).chain(with_files).collect()
}

/// Maximum number of files that an assumption names.
const FILES: usize = 3;

/// Returns a probability of error as text: `1 of 20`.
pub(super) fn one_of(alpha: f64) -> String {
    // Rounded down, so that the stated probability is never below the real one.
    format!(
        "1 of {}",
        words::format_number((1.0 / alpha + 1e-9).floor())
    )
}

pub(super) fn format_confidence(goal: &Goal) -> String {
    format!("{} %", goal.alpha.confidence_percent())
}
