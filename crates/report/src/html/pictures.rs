//! Makes the pictures of a page as separate SVG files, for READMEs and slides.

use super::answer::page_title;
use super::durations::{describe_times, draw_distributions};
use super::source::PageSource;
use super::timeline::{
    COLUMNS, describe_results, describe_windows, number_of_trials, windowed_variant,
};
use super::trials::ResultKind;
use crate::svg::{
    LabelledDrawing, PicturePart, RateAxis, draw_cells, draw_column_bars, draw_file,
    draw_probability, draw_rate, draw_swatch, draw_windows,
};
use provoke_words as words;
use provoke_words::document::{Place, RateMark, Table};

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
    let tables = source.report.tables(&[Place::Screen, Place::Page]);
    let table = tables.iter().find(|table| table.rates().next().is_some())?;
    let rates: Vec<(&str, &RateMark)> = table.rates().collect();
    let shown = &rates[..rates.len().min(ROWS)];
    let axis = RateAxis::covering(table.rate_ends());
    let head = PicturePart::Row {
        name: String::new(),
        note: "failed".to_owned(),
        drawing: axis.draw(),
        height: ROW_HEIGHT,
    };
    let labels: Vec<String> = shown
        .iter()
        .map(|(name, rate)| rate.describe(name))
        .collect();
    let rows = shown
        .iter()
        .zip(&labels)
        .map(|((name, rate), label)| PicturePart::Row {
            name: (*name).to_owned(),
            note: format!("{} of {}", rate.failures, rate.trials),
            drawing: draw_rate(rate, axis, label),
            height: ROW_HEIGHT,
        });
    let further = rates.len() - shown.len();
    let further_note = (further > 0).then(|| PicturePart::Note(format!("and {further} more")));
    let parts = std::iter::once(head)
        .chain(rows)
        .chain(further_note)
        .collect();
    Some((labels.join("; "), parts))
}

/// Draws how likely each candidate of a search is.
fn bisection_picture(source: &PageSource<'_>) -> Option<Picture> {
    let tables = source.report.tables(&[Place::Screen]);
    let shares: Vec<(&str, &str, f64, bool)> =
        tables.iter().flat_map(Table::shares).take(ROWS).collect();
    if shares.is_empty() {
        return None;
    }
    let rows = shares
        .iter()
        .map(|(name, failed, share, is_answer)| PicturePart::Row {
            name: (*name).to_owned(),
            note: (*failed).to_owned(),
            drawing: draw_probability(*share, *is_answer),
            height: ROW_HEIGHT,
        });
    let likely: Vec<String> = shares
        .iter()
        .filter(|(.., share, _)| *share > 0.0)
        .map(|(name, _, share, _)| format!("{name}: {} %", words::format_percent(*share)))
        .collect();
    let description = format!("Probability of each candidate: {}.", likely.join(", "));
    Some((description, rows.collect()))
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
