//! Posterior: the probability of a candidate as a horizontal bar.

use super::percent;
use maud::{Markup, html};

/// Draws the probability of a candidate; the bar of a culprit is filled.
pub(crate) fn draw_probability(probability: f64, is_culprit: bool) -> Markup {
    html! {
        svg.bar width="100%" height="14" aria-hidden="true" {
            line.base x1="0" x2="100%" y1="12" y2="12" {}
            // A smaller probability has no number beside it, either.
            @if probability > 0.005 {
                rect.posterior.culprit[is_culprit] x="0" y="2" width=(percent(probability.max(0.003))) height="10" {}
            }
        }
    }
}
