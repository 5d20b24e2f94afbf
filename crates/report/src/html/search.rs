//! Sections of a bisection and of a reduction.

use super::source::{PageDetail, PageSource};
use super::table::{left_out_note, name_cell, page_section, scrolling_table, text_list};
use crate::page_text::PageText;
use crate::svg::draw_probability;
use maud::{Markup, html};
use provoke_questions::{Answer, AnswerText as _, Bisection, CandidateReport, Reduction};
use provoke_words as words;

/// Returns the section of a search.
pub(super) fn search_section(source: &PageSource<'_>, detail: &PageDetail) -> Option<Markup> {
    match &source.report.answer {
        Some(Answer::Bisect(answer)) if !answer.points.is_empty() => Some(page_section(
            "bisection",
            "Bisection",
            &bisection(answer, detail),
        )),
        Some(Answer::Reduce(answer)) => Some(page_section(
            "reduction",
            "Reduction",
            &reduction(answer, detail),
        )),
        _ => None,
    }
}

/// Returns the tested candidates with the probability that each is the first bad one.
fn bisection(answer: &Bisection, detail: &PageDetail) -> Markup {
    let mut previous_place = None;
    let rows: Vec<(Option<u64>, &CandidateReport)> = answer
        .points
        .iter()
        .take(detail.rows)
        .map(|point| {
            let skipped =
                previous_place.and_then(|before: u64| (point.place - 1).checked_sub(before));
            previous_place = Some(point.place);
            (skipped.filter(|skipped| *skipped > 0), point)
        })
        .collect();
    let table = html! {
        thead { tr {
            th scope="col" { "candidate" }
            th.number scope="col" { "failed" }
            th.number scope="col" { "trials" }
            th.number scope="col" { "likely" }
            th.plot scope="col" { span.hidden { "picture" } }
            th scope="col" { span.hidden { "description" } }
        } }
        tbody {
            @for (skipped, point) in rows {
                @if let Some(skipped) = skipped {
                    tr { td.muted colspan="6" { (skipped) " not tried" } }
                }
                (candidate_row(answer, point))
            }
        }
    };
    html! {
        p { "The bar of a candidate is the probability that it is the answer. Versions that were neither tested nor likely are left out." }
        (scrolling_table("Tested candidates", &table))
        (left_out_note(answer.points.len().saturating_sub(detail.rows), "candidate"))
        @if !answer.credible.is_empty() && answer.culprits.is_empty() {
            p { "The answer is one of: " (PageText(&answer.credible.join(", "))) "." }
        }
    }
}

fn candidate_row(answer: &Bisection, point: &CandidateReport) -> Markup {
    let is_culprit = answer.culprits.contains(&point.name);
    html! {
        tr {
            (name_cell(&point.name, &html! {
                @if is_culprit { " " span.warning { "← " @if answer.after_fix.is_some() { "last bad" } @else { "first bad" } } }
            }))
            @if let Some(reason) = &point.untestable {
                td.muted colspan="2" { "not testable: " (PageText(reason)) }
            } @else {
                td.number { (point.failures) }
                td.number { (point.trials) @if point.other > 0 { ", " (point.other) " failed in another way" } }
            }
            td.number { @if point.probability > 0.005 { (words::format_percent(point.probability)) " %" } }
            td.plot { (draw_probability(point.probability, is_culprit)) }
            td.wide.muted { @if let Some(about) = &point.about { (PageText(about)) } }
        }
    }
}

/// Returns which items the failure needs, and which were left out.
fn reduction(answer: &Reduction, detail: &PageDetail) -> Markup {
    let needed: u64 = answer
        .needed
        .iter()
        .map(|item| item.things.len() as u64)
        .sum();
    let kept = needed + answer.required.len() as u64;
    let list = |names: &[String]| {
        html! {
            ul { @for name in names.iter().take(detail.rows) { li { code { (PageText(name)) } } } }
            (left_out_note(names.len().saturating_sub(detail.rows), "item"))
        }
    };
    // The lists say the same about each item.
    let is_listed = |line: &String| line.starts_with("without ") || line.contains(" must stay: ");
    let mut further = answer.detail_lines();
    further.retain(|line| !is_listed(line));
    html! {
        @if answer.sufficient {
            h3 { "Needed" }
            @if answer.needed.is_empty() { p { "None of the items." } }
            ul {
                @for item in answer.needed.iter().take(detail.rows) {
                    li {
                        @for name in &item.things { code { (PageText(name)) } " " }
                        span.muted {
                            @if let Some(reason) = &item.untestable { "– not testable without it: " (PageText(reason)) }
                            @else { "– without it " (item.without.failures) " of " (words::format_count(item.without.trials, "trial")) " failed" }
                            @if !item.shown && item.untestable.is_none() { ", which does not show yet that it is needed" }
                        }
                    }
                }
            }
            (left_out_note(answer.needed.len().saturating_sub(detail.rows), "item"))
        }
        @if !answer.required.is_empty() {
            h3 { "Must stay" }
            p.muted { "Without them, the program does not run, or fails differently." }
            (list(&answer.required))
        }
        @if answer.sufficient {
            h3 { "Left out" }
            p { (words::format_count(answer.things.saturating_sub(kept), "item")) " of " (answer.things) ": the failure does not need them." }
        }
        (text_list(&further))
    }
}
