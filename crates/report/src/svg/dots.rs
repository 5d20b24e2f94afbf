//! Dots: a row for each test and a column for each trial, with a mark where the test failed.

use crate::page_text::PageText;
use maud::{Markup, html};
use std::fmt::Write as _;

/// Height of a row, in pixels.
const ROW: usize = 16;
/// Width of the names, in per cent of the picture.
const NAMES: usize = 38;
/// Minimum number of columns, so that a mark is not too wide.
const FEWEST: u64 = 40;
/// Maximum number of columns; neighbouring trials of a longer run share one.
const MOST: u64 = 400;
/// Maximum number of characters of a name.
const NAME: usize = 44;

/// Draws the trials in which each test failed, of this many trials.
pub(crate) fn draw_case_dots(rows: &[(&str, &[u64])], trials: u64) -> Markup {
    let height = rows.len() * ROW;
    let per_column = trials.div_ceil(MOST).max(1);
    let columns = trials.div_ceil(per_column).max(FEWEST);
    html! {
        div.dots {
            svg.labels width={ (NAMES) "%" } height=(height) {
                @for (index, (name, _)) in rows.iter().enumerate() {
                    text x="100%" y=(index * ROW + 12) text-anchor="end" { (PageText(&shorten_start(name))) }
                }
            }
            svg.cells width={ (100 - NAMES - 1) "%" } height=(height) viewBox={ "0 0 " (columns) " " (height) } preserveAspectRatio="none" role="img" aria-label="Trials in which each test failed" {
                @for (index, _) in rows.iter().enumerate() {
                    path.base d={ "M0 " (index * ROW + 8) "H" (columns) } {}
                }
                path.fail d=(path_of_marks(rows, per_column)) {}
            }
        }
    }
}

fn path_of_marks(rows: &[(&str, &[u64])], per_column: u64) -> String {
    let mut path = String::new();
    for (index, (_, trials)) in rows.iter().enumerate() {
        let mut columns: Vec<u64> = trials
            .iter()
            .map(|trial| trial.saturating_sub(1) / per_column)
            .collect();
        columns.dedup();
        for column in columns {
            let _ = write!(path, "M{column}.1 {}v10h.8v-10z", index * ROW + 3);
        }
    }
    path
}

/// Returns the end of a long name, which tells tests apart.
fn shorten_start(name: &str) -> String {
    let count = name.chars().count();
    if count <= NAME {
        return name.to_owned();
    }
    let end: String = name.chars().skip(count - NAME + 1).collect();
    format!("…{end}")
}
