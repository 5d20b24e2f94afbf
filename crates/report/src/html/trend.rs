//! Page about several runs: their failure rates one below the other, never pooled, and the failures of each.

use super::answer::run_facts;
use super::table::{
    document_table, fact_list, page_section, scrolling_table, sentence_text, text_list,
};
use crate::page_text::PageText;
use crate::shared_failures::{FailureOfRuns, failures_of_runs};
use crate::svg::draw_column_bars;
use crate::{Masked, Report, RunOrder, VariantReport, group_failures, headlines};
use maud::{Markup, html};
use provoke_journal::RunFolder;
use provoke_stats::{fisher, holm};
use provoke_words as words;
use provoke_words::capitalize_first;
use provoke_words::document::{Cell, Column, Place, RateMark, Table};

/// Maximum number of signatures.
const SIGNATURES: usize = 20;
/// Maximum number of failures listed of each run.
const FAILURES: usize = 10;

/// A run of a trend.
pub(crate) struct TrendRun<'a> {
    pub(crate) folder: &'a RunFolder,
    pub(crate) report: Masked<&'a Report>,
    /// The commit that was checked out in the working directory.
    pub(crate) commit: Option<&'a str>,
    /// Why its rate cannot be compared with that of the first run.
    pub(crate) not_comparable: Option<String>,
}

impl TrendRun<'_> {
    /// Returns the only variant of the run.
    fn variant(&self) -> Option<&VariantReport> {
        match self.report.variants.as_slice() {
            [variant] => Some(variant),
            _ => None,
        }
    }
}

/// The differences between the rates of comparable runs.
struct RateTest {
    runs: usize,
    /// The smallest probability of a difference between one run and the others, corrected for the number of runs.
    p_value: f64,
    differs: bool,
}

impl RateTest {
    /// Compares each run with all others together; `None` with less than two comparable runs.
    fn new(runs: &[TrendRun<'_>]) -> Option<Self> {
        let comparable = runs.iter().filter(|run| run.not_comparable.is_none());
        let counts: Vec<(u64, u64)> = comparable
            .filter_map(TrendRun::variant)
            .filter(|variant| variant.trials > 0)
            .map(|variant| (variant.failures, variant.trials))
            .collect();
        let failures: u64 = counts.iter().map(|(failures, _)| failures).sum();
        let trials: u64 = counts.iter().map(|(_, trials)| trials).sum();
        let against_others =
            |&(k, n): &(u64, u64)| fisher(k, n, failures - k, trials - n).two_sided;
        let p_values: Vec<f64> = match counts.as_slice() {
            [] | [_] => return None,
            [first, _] => vec![against_others(first)],
            all => holm(&all.iter().map(against_others).collect::<Vec<f64>>()),
        };
        let p_value = p_values.into_iter().fold(1.0, f64::min);
        let confidence = runs.first().map_or(95.0, |run| run.report.confidence);
        Some(Self {
            runs: counts.len(),
            p_value,
            differs: p_value <= 1.0 - confidence / 100.0,
        })
    }
}

/// Returns the answer in one sentence.
pub(super) fn trend_headline(runs: &[TrendRun<'_>]) -> String {
    let Some(test) = RateTest::new(runs) else {
        return format!(
            "{} runs, none of which can be compared with the first",
            runs.len()
        );
    };
    let p_value = words::p_value(test.p_value);
    if test.differs {
        format!("The failure rates of {} runs differ ({p_value})", test.runs)
    } else {
        format!(
            "The failure rates of {} runs do not clearly differ ({p_value})",
            test.runs
        )
    }
}

/// From this number of runs on, the bars of a failure have no numbers.
const COUNTED_RUNS: usize = 12;

/// Returns the sections of the page, with details of each run if `shows_runs`.
pub(super) fn trend_sections(
    runs: &[TrendRun<'_>],
    order: RunOrder,
    title: Option<&str>,
    shows_runs: bool,
) -> Markup {
    let command = runs.first().map_or("", |run| run.report.command.as_str());
    let same_command = runs.iter().all(|run| run.report.command == command);
    html! {
        header #answer {
            p.eyebrow { @if let Some(title) = title { (PageText(title)) " · " } (runs.len()) " runs " (describe_order(order)) }
            h1 { (sentence_text(&trend_headline(runs))) }
            @if same_command { pre.command { code { (PageText(command)) } } }
        }
        (rates_section(runs))
        (failures_section(runs, order))
        @if shows_runs { (page_section("runs", "Runs", &html! { @for run in runs { (run_block(run)) } })) }
        (method_section(runs))
    }
}

fn describe_order(order: RunOrder) -> &'static str {
    match order {
        RunOrder::Given => "in the order given",
        RunOrder::Time => "by start",
        RunOrder::Commit => "by commit",
    }
}

fn rates_section(runs: &[TrendRun<'_>]) -> Markup {
    let columns = vec![
        Column::words("run"),
        Column::words("started (UTC)"),
        Column::words("commit"),
        Column::numbers("failed"),
        Column::numbers("trials"),
        Column::numbers("interval"),
        Column::rates(),
        Column::numbers("median time"),
        Column::remarks("not compared, because"),
    ];
    let rows = runs.iter().map(rate_cells);
    let table = Table::new("Failure rate of each run", Place::Page, columns).with_rows(rows);
    page_section("rates", "How often", &document_table(&table, runs.len()))
}

fn rate_cells(run: &TrendRun<'_>) -> Vec<Cell> {
    let variant = run.variant().filter(|variant| variant.trials > 0);
    let rate = variant.map(VariantReport::rate_mark);
    let text = |describe: fn(&RateMark) -> String| {
        Cell::text(rate.as_ref().map_or_else(String::new, describe))
    };
    let median = variant.and_then(|variant| Some(variant.times().next()?.1.p50));
    let several = "several variants, or no counted trial";
    let reason = match &run.not_comparable {
        None if variant.is_none() => several,
        reason => reason.as_deref().unwrap_or_default(),
    };
    vec![
        Cell::text(&run.report.run),
        Cell::text(start_minute(run.report)),
        Cell::text(short_commit(run.commit)),
        text(|rate| rate.failures.to_string()),
        text(|rate| rate.trials.to_string()),
        text(|rate| words::format_interval(rate.interval)),
        rate.clone().map_or(Cell::Empty, Cell::Rate),
        Cell::text(median.map_or_else(String::new, words::format_seconds)),
        Cell::text(reason),
    ]
}

/// Returns the failures of all runs, with the runs in which each was seen.
fn failures_section(runs: &[TrendRun<'_>], order: RunOrder) -> Markup {
    let failures = failures_of_runs(runs.iter().map(|run| run.report.get()));
    if failures.is_empty() {
        return html! {};
    }
    let first_seen =
        |failure: &FailureOfRuns<'_>| failure.counts.iter().position(|count| *count > 0);
    let table = html! {
        thead { tr {
            th.name scope="col" { "failure" }
            th.number scope="col" { "trials" }
            th.plot scope="col" { "in each run" }
            th scope="col" { "first seen in" }
        } }
        tbody {
            @for failure in failures.iter().take(SIGNATURES) {
                @let first = first_seen(failure).unwrap_or(0);
                @let counts: Vec<String> = failure.counts.iter().map(ToString::to_string).collect();
                tr {
                    th scope="row" { (PageText(failure.title)) }
                    td.number { (failure.counts.iter().sum::<u64>()) }
                    td.plot {
                        div role="img" aria-label={ "Trials in each run: " (counts.join(", ")) } { (draw_column_bars(&failure.counts, "k1")) }
                        @if counts.len() <= COUNTED_RUNS { div.muted aria-hidden="true" { (counts.join(" · ")) } }
                    }
                    td.short { (PageText(&runs[first].report.run)) @if first > 0 { " " strong { "new" } } }
                }
            }
        }
    };
    let body = html! {
        p { "A column for each run, " (describe_order(order)) "; each row has its own scale." }
        (scrolling_table("Failures of all runs by signature", &html! { table class="stacked columns-2" { (table) } }))
        (super::table::left_out_note(failures.len().saturating_sub(SIGNATURES), "signature"))
    };
    page_section("failures", "Which failures", &body)
}

/// Returns the minute in which a run started. A narrow screen breaks it only between date and time.
fn start_minute(report: Masked<&Report>) -> String {
    report
        .started_at
        .chars()
        .take(16)
        .collect::<String>()
        .replace('T', " ")
        .replace('-', "\u{2011}")
}

/// Returns one run, folded.
fn run_block(run: &TrendRun<'_>) -> Markup {
    let report = run.report;
    let groups = report.get().variants.iter().flat_map(group_failures);
    let failures: Vec<String> = groups
        .take(FAILURES)
        .map(|group| format!("{}× {}", group.trial_count(), group.signature.title))
        .collect();
    let sentences: Vec<String> = headlines::answer_sentences(&report)
        .iter()
        .take(FAILURES)
        .map(|sentence| capitalize_first(sentence))
        .collect();
    let command = std::iter::once(("Command", report.command.clone()));
    let facts: Vec<_> = command.chain(run_facts(report)).collect();
    html! {
        details {
            summary { "Run " (PageText(&report.run)) }
            (text_list(&sentences))
            (fact_list(&facts))
            (text_list(&failures))
            (text_list(&report.notes))
        }
    }
}

fn method_section(runs: &[TrendRun<'_>]) -> Markup {
    let test = RateTest::new(runs);
    let has_test = test.is_some();
    let body = html! {
        p {
            "Each run has its own interval; runs are never pooled. "
            @if test.is_some_and(|test| test.runs > 2) {
                "The test compares each run with all others together (Fisher's exact test), corrected for the number of runs (Holm). "
            } @else if has_test {
                "The test is Fisher's exact test. "
            }
            @if has_test { "A small probability means that chance alone seldom shows such a difference; it does not name the cause." }
        }
        @if let Some(run) = runs.first() { p.muted { "provoke " (PageText(&run.report.version)) } }
    };
    page_section("method", "How this was measured", &body)
}

/// Returns the beginning of the name of a commit, which is enough to find it.
fn short_commit(commit: Option<&str>) -> String {
    commit.unwrap_or_default().chars().take(10).collect()
}
