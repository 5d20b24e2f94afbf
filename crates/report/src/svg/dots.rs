//! Dots: a row for each test and a column for each trial, with a mark where the test failed.

use crate::page_text::PageText;
use maud::{Markup, html};
use provoke_words as words;
use std::fmt::Write as _;

/// Height of a row, in pixels.
const ROW: usize = 16;
/// Minimum number of columns, so that a mark is not too wide.
const FEWEST: u64 = 40;
/// Maximum number of columns; neighbouring trials of a longer run share one.
const MOST: u64 = 400;
/// Draws the trials in which each test failed, of this many trials.
pub(crate) fn draw_case_dots(rows: &[(&str, &[u64])], trials: u64) -> Markup {
    let per_column = trials.div_ceil(MOST).max(1);
    let columns = trials.div_ceil(per_column).max(FEWEST);
    html! {
        div.dots role="group" aria-label="Trials in which each test failed" {
            @for (name, failing) in rows {
                span { (PageText(name)) }
                svg.cells width="100%" height=(ROW) viewBox={ "0 0 " (columns) " " (ROW) } preserveAspectRatio="none" role="img" aria-label={ "Failed " (words::format_count(failing.len() as u64, "time")) } {
                    path.base d={ "M0 8H" (columns) } {}
                    path.fail d=(path_of_marks(failing, per_column)) {}
                }
            }
        }
    }
}

/// Returns a mark for each column with a failing trial.
fn path_of_marks(trials: &[u64], per_column: u64) -> String {
    let mut columns: Vec<u64> = trials
        .iter()
        .map(|trial| trial.saturating_sub(1) / per_column)
        .collect();
    columns.dedup();
    let mut path = String::new();
    for column in columns {
        let _ = write!(path, "M{column}.1 3v10h.8v-10z");
    }
    path
}
