//! Whisker: the interval of a rate as a line, and its estimate as a point.

use super::axis::RateAxis;
use super::percent;
use crate::page_text::PageText;
use maud::{Markup, html};
use provoke_words::document::{PointShape, RateMark};

/// Height of a whisker, in pixels.
const HEIGHT: u32 = 20;

/// Draws a rate as a row below its axis. Without a failure it is open on its left: the rate may be 0. The label says the
/// same in words.
pub(crate) fn draw_rate(rate: &RateMark, axis: RateAxis, label: &str) -> Markup {
    let [low, high] = rate.interval;
    let is_open = low <= 0.0;
    let [x1, x2] = [low, high].map(|rate| percent(axis.position(rate)));
    let point = rate.point.or(match rate.shape {
        PointShape::Hollow if is_open => Some(0.0),
        _ => None,
    });
    html! {
        svg.whisker width="100%" height=(HEIGHT) role="img" aria-label=(PageText(label)) {
            line.base x1="0" x2="100%" y1="10" y2="10" {}
            line.range.open[is_open] x1=(x1) x2=(x2) y1="10" y2="10" {}
            @if !is_open {
                line.cap x1=(x1) x2=(x1) y1="5" y2="15" {}
            }
            line.cap x1=(x2) x2=(x2) y1="5" y2="15" {}
            @if let Some(point) = point {
                @let x = percent(axis.position(point));
                @match rate.shape {
                    PointShape::Filled => circle.point cx=(x) cy="10" r="4.5" {},
                    PointShape::Hollow => circle.point.hollow cx=(x) cy="10" r="4" {},
                    PointShape::Dash => line.dash x1=(x) x2=(x) y1="3" y2="17" {},
                }
            }
            @if let Some(limit) = rate.limit {
                @let x = percent(axis.position(limit));
                line.limit x1=(x) x2=(x) y1="0" y2=(HEIGHT) {}
            }
        }
    }
}
