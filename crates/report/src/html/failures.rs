//! Section of the failures by signature, each with its evidence.

use super::source::{PageDetail, PageSource};
use super::table::{left_out_note, page_section, text_list};
use crate::page_text::{PageLines, PageText};
use crate::shared_failures::{SharedFailure, VariantGroup, shared_failures};
use crate::svg::{RateAxis, draw_rate};
use crate::{captured_failures, story};
use maud::{Markup, html};
use provoke_model::EvidenceDepth;
use provoke_questions::RateMeaning;
use provoke_stats::real;
use provoke_words as words;
use provoke_words::document::RateMark;
use provoke_words::untrusted::shell_word;

/// Maximum number of listed trials.
const LISTED: usize = 12;
/// Width of the text of a crash, in columns.
const STORY_WIDTH: usize = 92;

/// Returns the failures of all variants, the most frequent first.
pub(super) fn failures_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    let report = source.report;
    let variants = &report.get().variants;
    let failures = shared_failures(variants);
    let captured = captured_failures(variants);
    if failures.is_empty() && captured.is_empty() {
        return None;
    }
    // The number of trials of each variant of a search depends on its failures.
    let is_search = report.rate_meaning() == RateMeaning::Searched;
    let own_intervals = failures.iter().filter_map(own_interval);
    // The scale of the rate of all failures.
    let rates = variants.iter().map(|variant| variant.rate.interval());
    let axis = RateAxis::covering(own_intervals.chain(rates));
    let shown = failures.iter().take(detail.rows).enumerate();
    let view = |index: usize| FailureView {
        evidence: match (index < detail.evidence, detail.output) {
            (false, _) => ShownEvidence::None,
            (true, false) => ShownEvidence::WithoutOutput,
            (true, true) => ShownEvidence::WithOutput,
        },
        is_open: index == 0,
        interval: !is_search,
    };
    let body = html! {
        @for (index, failure) in shown { (failure_block(source, failure, axis, view(index))) }
        (left_out_note(failures.len().saturating_sub(detail.rows), "failure"))
        @for failure in captured.iter().take(detail.rows) {
            p {
                "Also in extra trials " (words::trial_list(&failure.trials, LISTED)) ": " (PageText(&failure.signature.title)) " "
                code.muted { (PageText(&failure.signature.id)) } ". "
                @if failures.is_empty() { "No measured trial shows it." } @else { "It is not known which of the failures above it is." }
            }
        }
        @if source.options.without_output || !detail.output {
            p.muted { "The output of the trials is left out." }
        }
    };
    Some(page_section("failures", "Which failures", &body))
}

/// How a failure is shown.
#[derive(Clone, Copy)]
struct FailureView {
    evidence: ShownEvidence,
    is_open: bool,
    interval: bool,
}

/// The evidence of a failure that is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownEvidence {
    None,
    WithoutOutput,
    WithOutput,
}

/// Returns the interval of the rate of a failure in its only variant, if it is known and not drawn above.
fn own_interval(failure: &SharedFailure<'_>) -> Option<[f64; 2]> {
    let VariantGroup { variant, group, .. } = failure.most_frequent();
    let interval = group.own_interval(variant);
    interval.filter(|_| failure.groups.len() < 2)
}

fn failure_block(
    source: &PageSource<'_>,
    failure: &SharedFailure<'_>,
    axis: RateAxis,
    view: FailureView,
) -> Markup {
    let VariantGroup { variant, group, .. } = failure.most_frequent();
    let (signature, trials, names) = (group.signature, &failure.trials, failure.variant_names());
    let count = trials.len() as u64;
    let meaning = variant
        .kinds
        .iter()
        .find(|kind| kind.outcome == signature.outcome)
        .map_or("", |kind| &kind.words);
    let sites: Vec<String> = signature.sites.iter().map(ToString::to_string).collect();
    let share = real(count) / real(variant.trials.max(1));
    let interval = own_interval(failure).filter(|_| view.interval);
    let label = interval.map(|interval| {
        format!(
            "{count} of {}: {} %, interval {}",
            words::format_count(variant.trials, "trial"),
            words::percent_within(share, interval),
            words::format_interval(interval)
        )
    });
    html! {
        div.failure {
            h3 {
                span.count { (count) "×" } " "
                span.title { (PageText(&signature.title)) }
                @if !signature.is_the_bug { " " span.muted { "(not the bug looked for)" } }
            }
            @if let Some((interval, label)) = interval.zip(label.as_deref()) {
                div.share {
                    span.number { (words::format_interval(interval)) " of the trials" }
                    (draw_rate(&RateMark::new(count, variant.trials, interval, Some(share)), axis, label))
                }
            }
            p.muted {
                @if trials.len() == 1 { "Trial " } @else { "Trials " }
                (words::trial_list(trials, LISTED))
                @if !names.is_empty() { " · in " (PageText(&names)) }
                " · known from the " (signature.depth.to_string())
                @if signature.depth > EvidenceDepth::Status { " · signature " code { (PageText(&signature.id)) } }
            }
            @if signature.depth == EvidenceDepth::Status && !meaning.is_empty() { p { (PageText(meaning)) } }
            (text_list(&group.describe_evidence(LISTED)))
            (text_list(&sites))
            (evidence_block(source, failure, view))
        }
    }
}

/// Returns the source lines, the stack and the output of a failure.
fn evidence_block(
    source: &PageSource<'_>,
    failure: &SharedFailure<'_>,
    view: FailureView,
) -> Markup {
    let is_shown = view.evidence != ShownEvidence::None;
    let evidence_of = |group: &VariantGroup<'_>| {
        let (variant, position) = group.place;
        source.evidence[variant].get(position)
    };
    let evidence = failure.groups.iter().find_map(evidence_of);
    let Some(evidence) = evidence.filter(|_| is_shown) else {
        return html! {};
    };
    let shows_output = view.evidence == ShownEvidence::WithOutput && !source.options.without_output;
    let output = evidence.output.as_ref().filter(|_| shows_output);
    let analysis = evidence.analysis.as_ref();
    let story = analysis.map(|analysis| story::crash_story(analysis, false, STORY_WIDTH));
    // The text of a crash begins with its source line.
    let lines =
        (!evidence.source.is_empty() && story.is_none()).then(|| evidence.source.join("\n"));
    let replay = failure.trials.first().map(|trial| {
        let run = shell_word(source.report.reference.as_ref());
        format!("provoke replay {run}#{trial}")
    });
    html! {
        @if let Some(lines) = lines { pre.layout tabindex="0" { (PageLines(&lines)) } }
        @if let Some(story) = story {
            details open[view.is_open] {
                summary { "Stack and fault" }
                pre.layout tabindex="0" { (PageLines(story.trim_end())) }
            }
        }
        @if let Some((trial, text)) = output {
            details open[view.is_open] {
                summary { "Last output, of trial " (trial.0) }
                pre { (PageLines(text)) }
            }
        }
        @if let Some(replay) = replay {
            p.muted { "Repeat it: " code { (PageText(&replay)) } }
        }
    }
}
