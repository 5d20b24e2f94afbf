//! Windows: the failure rate in parts of a run, each with its interval.

use super::axis::label_of_rate;
use super::{LabelledDrawing, RateAxis, percent};
use crate::RateWindow;
use maud::html;
use provoke_stats::real;

/// Height of the picture without its labels, in pixels.
const HEIGHT: f64 = 130.0;
/// Height with margins for the labels, in pixels.
const WITH_MARGINS: usize = 146;

/// Draws a whisker for each window, and a line at the rate of the whole run.
pub(crate) fn draw_windows(windows: &[RateWindow], overall: Option<f64>) -> LabelledDrawing {
    let axis = RateAxis::covering(windows.iter().map(|window| window.interval));
    let y = |rate: f64| format!("{:.1}", 8.0 + (1.0 - axis.position(rate)) * HEIGHT);
    let labels = html! {
        @for tick in axis.ticks() {
            text x="38" y=(y(tick)) dy="4" text-anchor="end" { (label_of_rate(tick)) }
        }
    };
    let drawing = html! {
        svg.windows width="100%" height=(WITH_MARGINS) {
            @for tick in axis.ticks() {
                line.base x1="0" x2="100%" y1=(y(tick)) y2=(y(tick)) {}
            }
            @if let Some(rate) = overall {
                line.overall x1="0" x2="100%" y1=(y(rate)) y2=(y(rate)) {}
            }
            @for (index, window) in windows.iter().enumerate() {
                @let x = percent((real(index as u64) + 0.5) / real(windows.len() as u64));
                line.range.open[window.failures == 0] x1=(x) x2=(x) y1=(y(window.interval[0])) y2=(y(window.interval[1])) {}
                circle.point.hollow[window.failures == 0] cx=(x) cy=(y(real(window.failures) / real(window.trials.max(1)))) r="3.5" {}
            }
        }
    };
    LabelledDrawing {
        label_width: 44,
        height: WITH_MARGINS,
        labels,
        drawing,
    }
}
