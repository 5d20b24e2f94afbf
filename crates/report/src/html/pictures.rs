//! Makes the pictures of a page as separate SVG files, for READMEs and slides.

use super::answer::page_title;
use super::durations::{describe_times, draw_distributions};
use super::load::level_rate;
use super::rate::{RateRow, axis_of_rates, rate_rows};
use super::source::PageSource;
use super::timeline::{
    COLUMNS, describe_results, describe_windows, number_of_trials, windowed_variant,
};
use super::trials::ResultKind;
use super::variants::variant_rate;
use crate::svg::{
    LabelledDrawing, PicturePart, draw_cells, draw_column_bars, draw_file, draw_probability,
    draw_swatch, draw_windows,
};
use provoke_questions::{Answer, Bisection};
use provoke_words as words;

/// Maximum number of rows of a picture.
const ROWS: usize = 40;
/// Height of a row with an interval or a probability, in pixels.
const ROW_HEIGHT: usize = 24;
/// Height of a row with a mark and its meaning, in pixels.
const LEGEND_HEIGHT: usize = 20;
/// Height of a row with bars, in pixels.
const BARS_HEIGHT: usize = 36;

/// A picture as a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// Name of the file.
    pub name: &'static str,
    /// Its contents.
    pub svg: String,
}

/// Returns the pictures that the results of a run allow.
pub(super) fn picture_files(source: &PageSource<'_>) -> Vec<PictureFile> {
    let heading = page_title(source);
    let pictures = [
        ("rates.svg", rates_picture(source)),
        ("bisection.svg", bisection_picture(source)),
        ("trials.svg", trials_picture(source)),
        ("windows.svg", windows_picture(source)),
        ("durations.svg", durations_picture(source)),
    ];
    pictures
        .into_iter()
        .filter_map(|(name, picture)| {
            let (description, parts) = picture?;
            let svg = draw_file(&heading, &description, &parts);
            Some(PictureFile { name, svg })
        })
        .collect()
}

/// The description of a picture, and its rows.
type Picture = (String, Vec<PicturePart>);

/// Draws every failure rate with its interval on one axis.
fn rates_picture(source: &PageSource<'_>) -> Option<Picture> {
    let report = source.report;
    let rates: Vec<RateRow> = match &report.answer {
        Some(Answer::Compare(answer)) => {
            let rates = report.variants.iter();
            rates
                .filter_map(|variant| variant_rate(variant, answer))
                .collect()
        }
        Some(Answer::Ramp(answer)) => {
            let levels = answer.levels.iter();
            levels
                .filter_map(|level| level_rate(answer, level))
                .collect()
        }
        _ => rate_rows(report),
    };
    let shown = &rates[..rates.len().min(ROWS)];
    if shown.is_empty() {
        return None;
    }
    let axis = axis_of_rates(shown);
    let head = PicturePart::Row {
        name: String::new(),
        note: "failed".to_owned(),
        drawing: axis.draw(),
        height: ROW_HEIGHT,
    };
    let rows = shown.iter().map(|rate| PicturePart::Row {
        name: rate.name.clone(),
        note: format!("{} of {}", rate.failures, rate.trials),
        drawing: rate.draw_whisker(axis),
        height: ROW_HEIGHT,
    });
    let further = rates.len() - shown.len();
    let further_note = (further > 0).then(|| PicturePart::Note(format!("and {further} more")));
    let labels: Vec<&str> = shown.iter().map(|rate| rate.label.as_str()).collect();
    Some((
        labels.join("; "),
        std::iter::once(head)
            .chain(rows)
            .chain(further_note)
            .collect(),
    ))
}

/// Draws how likely each candidate of a bisection is.
fn bisection_picture(source: &PageSource<'_>) -> Option<Picture> {
    let Some(Answer::Bisect(answer)) = &source.report.answer else {
        return None;
    };
    let shown = &answer.points[..answer.points.len().min(ROWS)];
    if shown.is_empty() {
        return None;
    }
    let rows = shown.iter().map(|point| PicturePart::Row {
        name: point.name.clone(),
        note: format!("{} of {} failed", point.failures, point.trials),
        drawing: draw_probability(point.probability, answer.culprits.contains(&point.name)),
        height: ROW_HEIGHT,
    });
    Some((describe_candidates(answer), rows.collect()))
}

fn describe_candidates(answer: &Bisection) -> String {
    let likely: Vec<String> = answer
        .points
        .iter()
        .filter(|point| point.probability > 0.005)
        .map(|point| {
            format!(
                "{}: {} %",
                point.name,
                words::format_percent(point.probability)
            )
        })
        .collect();
    format!("Probability of each candidate: {}.", likely.join(", "))
}

/// Draws the results of the trials in the order of their launch.
fn trials_picture(source: &PageSource<'_>) -> Option<Picture> {
    let trials = &source.trials;
    let count = number_of_trials(trials);
    if count < 2 {
        return None;
    }
    let shown_kinds = || {
        trials
            .kinds
            .iter()
            .enumerate()
            .filter(|kind| kind.1.count > 0)
    };
    let row = |kind: &ResultKind, drawing, height| PicturePart::Row {
        name: kind.name.clone(),
        note: words::format_count(kind.count, "trial"),
        drawing,
        height,
    };
    let parts: Vec<PicturePart> = if let Some(cells) = trials.strip.cells() {
        let classes: Vec<&str> = trials.kinds.iter().map(|kind| kind.class).collect();
        let strip = PicturePart::Labelled(draw_cells(&cells, &classes));
        let legend = shown_kinds()
            .map(|(index, kind)| row(kind, draw_swatch(index, kind.class), LEGEND_HEIGHT));
        std::iter::once(strip).chain(legend).collect()
    } else {
        let (columns, _) = trials.strip.columns(COLUMNS);
        // Passes fill the picture and show nothing.
        let failing_kinds = shown_kinds().filter(|(index, _)| *index > 0);
        failing_kinds
            .map(|(index, kind)| {
                let counts: Vec<u64> = columns.iter().map(|column| column[index]).collect();
                row(kind, draw_column_bars(&counts, kind.class), BARS_HEIGHT)
            })
            .collect()
    };
    Some((describe_results(trials, count), parts))
}

/// Draws the failure rate during the run.
fn windows_picture(source: &PageSource<'_>) -> Option<Picture> {
    let variant = windowed_variant(source.report)?;
    let drawing = draw_windows(&variant.windows, variant.rate.point);
    Some(labelled_picture(
        describe_windows(&variant.windows),
        drawing,
    ))
}

/// Draws the distributions of the times of passing and failing trials.
fn durations_picture(source: &PageSource<'_>) -> Option<Picture> {
    if source.report.variants.len() > 1 {
        return None;
    }
    let drawing = draw_distributions(&source.trials)?;
    Some(labelled_picture(describe_times(source.report), drawing))
}

fn labelled_picture(description: String, drawing: LabelledDrawing) -> Picture {
    (description, vec![PicturePart::Labelled(drawing)])
}
