//! Bars: counts of trials by columns of a strip.

use maud::{Markup, html};
use provoke_stats::real;
use std::fmt::Write as _;

/// Draws a bar for each column of a strip as one path, the highest as high as the picture.
pub(crate) fn draw_column_bars(counts: &[u64], class: &str) -> Markup {
    let highest = counts.iter().copied().max().unwrap_or(0).max(1);
    let mut path = String::new();
    for (column, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // At least one pixel, so that a single trial is seen.
        let height = (real(*count) / real(highest) * 30.0).max(1.5);
        let _ = write!(path, "M{column} 30v-{height:.1}h.9V30z");
    }
    html! {
        svg.columns width="100%" height="30" viewBox={ "0 0 " (counts.len()) " 30" } preserveAspectRatio="none" {
            path class=(class) d=(path) {}
        }
    }
}
