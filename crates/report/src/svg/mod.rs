//! Marks of pictures as SVG: whiskers on an axis of rates, strips of trials, distributions.
//!
//! Positions are per cent of the picture, so that a picture fits every width and its text keeps its size. Colours are
//! classes, which the page defines for light and dark screens and for paper.

mod axis;
mod bars;
mod dots;
mod ecdf;
mod file;
mod labelled;
mod posterior;
mod strip;
#[cfg(test)]
mod tests;
mod whisker;
mod windows;

pub use axis::RateAxis;
pub(super) use bars::draw_column_bars;
pub(super) use dots::draw_case_dots;
pub(super) use ecdf::{EcdfCurve, TimeAxis, draw_ecdf};
pub(super) use file::{PicturePart, draw_file};
pub(super) use labelled::LabelledDrawing;
pub(super) use posterior::draw_probability;
pub(super) use strip::{CELLS_PER_ROW, draw_cells, draw_swatch};
pub(super) use whisker::draw_rate;
pub(super) use windows::draw_windows;

/// Returns a share of the picture as a length: `12.5%`.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share.clamp(0.0, 1.0) * 100.0);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}
