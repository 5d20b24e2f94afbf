//! Report as an HTML page: one static file without scripts, whose pictures are inline SVG.
//!
//! All text from outside passes through `PageText` or `PageLines`; the finished page is escaped again, and a policy in the
//! page forbids scripts and network. The page is made with less detail until it is small enough.

mod answer;
mod document;
mod durations;
mod failures;
mod load;
mod method;
#[cfg(test)]
mod page_tree;
mod pictures;
mod rate;
mod slots;
mod source;
mod style;
mod suite;
mod table;
#[cfg(test)]
mod tests;
mod timeline;
mod trend;
mod trials;

pub use pictures::PictureFile;
pub use source::PageOptions;

use super::page_text::PageText;
use super::{ExportError, ExportOptions, Exporter, Masked, MaskedRun, Report, RunOrder};
use maud::{DOCTYPE, Markup, PreEscaped, Render as _, html};
use provoke_model::EvidenceDepth;
use provoke_words as words;
use source::{FAILURES, PageDetail, PageSource, home_directory};
use std::io;
pub(super) use trend::TrendRun;

/// Maximum size of a page without the output of trials.
const SMALL: usize = 200 * 1024;
/// Maximum size of a page.
const LARGEST: usize = 500 * 1024;
/// Number of rows of tables in a page with all details.
const ROWS: usize = 200;

/// A page with pictures.
pub static HTML: Exporter = Exporter {
    is_page: true,
    ..Exporter::new(
        "html",
        "Write a page with pictures to FILE [default: report.html in the directory of the run]",
        write,
    )
};

fn write(
    run: &MaskedRun<'_>,
    options: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let source = PageSource::read_from(run, options.environment, &options.page)?;
    Ok(out.write_all(fitting_page(&source).as_bytes())?)
}

/// Makes the pictures of a page about a run as separate files.
pub fn export_pictures(
    run: &MaskedRun<'_>,
    options: &PageOptions,
) -> Result<Vec<PictureFile>, ExportError> {
    let source = PageSource::read_from(run, false, options)?;
    let pictures = pictures::picture_files(&source).into_iter();
    let finished = pictures.map(|picture| PictureFile {
        svg: finish_page(&source, &picture.svg),
        ..picture
    });
    Ok(finished.collect())
}

/// Writes a page about several runs in an order.
pub(super) fn write_trend(
    runs: &[TrendRun<'_>],
    order: RunOrder,
    options: &PageOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let headline = trend::trend_headline(runs);
    let title = match &options.title {
        Some(own) => format!("{own} – {headline}"),
        None => headline,
    };
    let make_page = |shows_runs: bool| {
        let sections = trend::trend_sections(runs, order, options.title.as_deref(), shows_runs);
        words::sanitize_lines(&page_frame(&title, &sections).into_string())
    };
    let mut page = make_page(true);
    if page.len() > LARGEST {
        page = make_page(false);
    }
    for run in runs {
        if options.without_output {
            page = without_output_lines(&page, run.report);
        }
        if let Some(home) = home_directory(run.folder)? {
            page = shorten_home(&page, &home);
        }
    }
    out.write_all(page.as_bytes())?;
    Ok(())
}

/// Returns the page with the most details that is small enough.
fn fitting_page(source: &PageSource<'_>) -> String {
    let details = [
        (true, FAILURES, ROWS),
        (true, FAILURES / 2, ROWS),
        (true, FAILURES / 5, ROWS),
        (false, FAILURES, ROWS),
        (false, FAILURES / 4, ROWS / 2),
        (false, 1, ROWS / 4),
        (false, 0, ROWS / 10),
    ];
    let mut evidence = source.evidence.iter().flatten();
    let has_output =
        !source.options.without_output && evidence.any(|evidence| evidence.output.is_some());
    let mut page = String::new();
    for (output, evidence, rows) in details {
        let detail = PageDetail {
            output,
            evidence,
            rows,
        };
        page = finish_page(source, &run_page(source, &detail).into_string());
        let limit = if output && has_output { LARGEST } else { SMALL };
        if page.len() <= limit {
            break;
        }
    }
    page
}

/// Escapes misleading characters in all of a page, and shortens paths below the home directory.
fn finish_page(source: &PageSource<'_>, page: &str) -> String {
    let mut page = words::sanitize_lines(page);
    if source.options.without_output {
        page = without_output_lines(&page, source.report);
    }
    match &source.home {
        Some(home) => shorten_home(&page, home),
        None => page,
    }
}

/// Replaces the titles that are lines of the output by the results of their trials.
fn without_output_lines(page: &str, report: Masked<&Report>) -> String {
    let signatures = report.variants.iter().flat_map(|variant| {
        let captured = variant.captured_signatures().iter();
        variant.signatures.iter().chain(captured)
    });
    let mut titles: Vec<(&str, &str)> = signatures
        .filter(|signature| signature.depth == EvidenceDepth::Output)
        .map(|signature| (signature.title.as_str(), signature.outcome.as_str()))
        .collect();
    // A title may be the beginning of another one.
    titles.sort_by_key(|(title, _)| std::cmp::Reverse(title.len()));
    titles.dedup();
    titles
        .iter()
        .fold(page.to_owned(), |page, (title, outcome)| {
            let outcome = PageText(outcome).render().into_string();
            let page = page.replace(&PageText(title).render().into_string(), &outcome);
            page.replace(&table::sentence_text(title).into_string(), &outcome)
        })
}

/// Replaces a home directory by `~`, but not the beginning of a longer name.
fn shorten_home(page: &str, home: &str) -> String {
    let is_part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut short = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(position) = rest.find(home) {
        let end = position + home.len();
        let before = rest[..position].chars().next_back();
        let after = rest[end..].chars().next();
        let is_other = before.is_some_and(|c| is_part_of_name(c) || c == '/')
            || after.is_some_and(is_part_of_name);
        short.push_str(&rest[..position]);
        short.push_str(if is_other { home } else { "~" });
        rest = &rest[end..];
    }
    short.push_str(rest);
    short
}

/// Returns the page about one run.
fn run_page(source: &PageSource<'_>, detail: &PageDetail) -> Markup {
    let sections = html! {
        (answer::answer_section(source))
        (document::table_sections(source, detail))
        @for section in [
            rate::results_section(source, detail),
            suite::suite_section(source, detail),
            answer::next_section(source),
            failures::failures_section(source, detail),
        ].into_iter().flatten() { (section) }
        (document::figure_sections(source))
        @for section in [
            timeline::timeline_section(source),
            slots::slots_section(source),
            durations::durations_section(source),
            load::load_section(source, detail),
        ].into_iter().flatten() { (section) }
        (method::environment_section(source))
        (method::method_section(source, detail))
    };
    page_frame(&answer::page_title(source), &sections)
}

/// Returns a page with this content.
fn page_frame(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(style::content_policy());
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content="provoke";
                title { (PageText(title)) }
                style { (PreEscaped(style::STYLE)) }
            }
            body {
                a.skip href="#answer" { "Skip to the answer" }
                main { (content) }
            }
        }
    }
}
