//! Sections of the answer, and of the commands that may follow.

use super::source::PageSource;
use super::table::{fact_list, page_section, sentence_text, text_list};
use crate::page_text::{PageLines, PageText};
use crate::{Masked, Report, headlines};
use maud::{Markup, html};
use provoke_words as words;
use provoke_words::capitalize_first;

/// Headlines that are shown at once; a run of many variants has one for each.
const HEADLINES: usize = 3;
/// Maximum number of notes.
const NOTES: usize = 40;
/// Length of the command in the title.
const TITLE_COMMAND: usize = 60;

/// Returns the answer in one sentence.
pub(super) fn headline(report: Masked<&Report>) -> String {
    let mut sentences = headlines::answer_sentences(&report);
    if sentences.len() == 1 {
        return sentences.remove(0);
    }
    headlines::verdict_text(report.verdict).to_owned()
}

/// Returns the title of the page: the answer and the command.
pub(super) fn page_title(source: &PageSource<'_>) -> String {
    let command = words::shorten_text(&source.report.command, TITLE_COMMAND);
    let title = format!("{} – {command}", headline(source.report));
    match &source.options.title {
        Some(own) => format!("{own} – {title}"),
        None => title,
    }
}

/// Returns the answer, what was measured, and the notes.
pub(super) fn answer_section(source: &PageSource<'_>) -> Markup {
    let report = source.report;
    let sentences = headlines::answer_sentences(&report);
    let document = report.get().document.as_ref();
    let facts = document.map_or(&[][..], |document| &document.facts);
    let headline = headline(report);
    let so_far = if report.finished { "" } else { " so far" };
    html! {
        header #answer {
            p.eyebrow {
                @if let Some(title) = &source.options.title { (PageText(title)) " · " }
                (headlines::verdict_text(report.verdict)) (so_far)
            }
            @let (first, rest) = split_sentence(&headline);
            h1 { (sentence_text(first)) }
            @if !rest.is_empty() { p.lead { (sentence_text(rest)) } }
            @if sentences.len() > 1 {
                ul.sentences {
                    @for sentence in sentences.iter().take(HEADLINES) { li { (sentence_text(sentence)) } }
                    @if sentences.len() > HEADLINES {
                        li { (sentences.len() - HEADLINES) " more below" }
                    }
                }
            }
            (failure_place(source))
            (text_list(facts))
            pre.command { code { (PageText(&source.issue.command)) } }
            (fact_list(&run_facts(report)))
            @if !report.notes.is_empty() {
                ul.notes { @for note in report.notes.iter().take(NOTES) { li { (note_text(note)) } } }
            }
        }
    }
}

/// Returns a note, with the lines of output below its text.
fn note_text(note: &str) -> Markup {
    let (text, output) = note.split_once('\n').unwrap_or((note, ""));
    html! {
        (sentence_text(&capitalize_first(text)))
        @if !output.is_empty() { pre { code { (PageLines(output)) } } }
    }
}

/// Lines that are shown of the most frequent failure; a deadlock has one for each thread.
const PLACES: usize = 3;

/// Returns the lines of source code of the most frequent failure.
fn failure_place(source: &PageSource<'_>) -> Markup {
    let sites = source.issue.sites.iter().take(PLACES);
    let sites: Vec<String> = sites.map(ToString::to_string).collect();
    let others = source.issue.failure.as_ref();
    let is_only = others.is_none_or(|(_, _, count, total)| count == total);
    html! {
        @if !sites.is_empty() {
            p.place {
                @if !is_only { "Most often: " }
                @for (index, site) in sites.iter().enumerate() {
                    @if index > 0 { br; }
                    strong { (PageText(site)) }
                }
            }
        }
    }
}

/// Divides a text after its first sentence.
fn split_sentence(text: &str) -> (&str, &str) {
    text.split_once(". ").unwrap_or((text, ""))
}

/// Returns when the run started.
pub(super) fn start_time(report: Masked<&Report>) -> String {
    report.started_at.replace('T', " ").replace('Z', " UTC")
}

/// Returns when and how long the run went on, and why it ended.
pub(super) fn run_facts(report: Masked<&Report>) -> Vec<(&'static str, String)> {
    let trials: u64 = report.variants.iter().map(|variant| variant.trials).sum();
    let mut facts = vec![
        ("Run", report.run.clone()),
        ("Started", start_time(report)),
        ("Working time", words::format_seconds(report.seconds)),
        (
            "Counted",
            format!(
                "{}, {} in parallel",
                words::format_count(trials, "trial"),
                report.jobs
            ),
        ),
        (
            "Ended because",
            headlines::stop_rule_text(report.stop_rule).to_owned(),
        ),
    ];
    if let Some(scenario) = &report.scenario {
        facts.push(("Scenario", scenario.clone()));
    }
    facts
}

/// Returns the commands that may follow.
pub(super) fn next_section(source: &PageSource<'_>) -> Option<Markup> {
    if source.commands.is_empty() {
        return None;
    }
    let body = html! {
        dl.commands {
            @for command in &source.commands {
                dt { (PageText(&capitalize_first(&command.purpose))) }
                dd {
                    pre { code { (PageText(&command.line)) } }
                    @if !command.remark.is_empty() { p.muted { (PageText(&command.remark)) } }
                }
            }
        }
    };
    Some(page_section("next", "Next", &body))
}
