//! Strip: one cell for each trial, in the order of their launch.

use super::LabelledDrawing;
use maud::{Markup, html};
use std::fmt::Write as _;

/// Cells in a row, so that a trial is found by its number.
pub(crate) const CELLS_PER_ROW: usize = 100;
/// Cells in a row of a run with few trials.
const FEWEST: usize = 40;
/// Height of a row, in pixels.
const ROW: usize = 11;
/// Width of the numbers of trials, in pixels.
const LABEL_WIDTH: usize = 34;

/// Draws a cell for each trial. `cells` has the index of the kind of each trial, `classes` the class of each kind; kind 0
/// are passes, which are small.
pub(crate) fn draw_cells(cells: &[u8], classes: &[&str]) -> LabelledDrawing {
    let columns = cells.len().clamp(FEWEST, CELLS_PER_ROW);
    let rows = cells.len().div_ceil(columns);
    let height = rows * ROW;
    let labels = html! {
        @for row in 0..rows {
            text x=(LABEL_WIDTH) y=(row * ROW + 9) text-anchor="end" { (row * columns + 1) }
        }
    };
    let drawing = html! {
        svg.cells width="100%" height=(height) viewBox={ "0 0 " (columns) " " (height) } preserveAspectRatio="none" {
            @for (kind, class) in classes.iter().enumerate() {
                @let path = path_of_kind(cells, kind, columns);
                @if !path.is_empty() {
                    path class=(class) d=(path) {}
                }
            }
        }
    };
    LabelledDrawing {
        label_width: LABEL_WIDTH,
        height,
        labels,
        drawing,
    }
}

/// Returns the cells of a kind as one path: a bar for each run of neighbours.
fn path_of_kind(cells: &[u8], kind: usize, columns: usize) -> String {
    let mut path = String::new();
    for (index, _) in cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| usize::from(**cell) == kind)
    {
        let (row, column) = (index / columns, index % columns);
        let y = row * ROW;
        // A pass is a small mark in the middle of its cell.
        let _ = if kind == 0 {
            write!(path, "M{column}.35 {}v2h.3v-2z", y + 4)
        } else {
            write!(path, "M{column}.1 {}v9h.8v-9z", y + 1)
        };
    }
    path
}

/// Draws a cell of a kind beside its name.
pub(crate) fn draw_swatch(kind: usize, class: &str) -> Markup {
    let path = path_of_kind(&[u8::try_from(kind).unwrap_or(u8::MAX)], kind, 1);
    html! {
        svg.swatch width="10" height="11" viewBox={ "0 0 1 " (ROW) } preserveAspectRatio="none" aria-hidden="true" {
            path class=(class) d=(path) {}
        }
    }
}
