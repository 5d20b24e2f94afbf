//! Cumulative distributions of times, on a logarithmic axis.

use super::axis::anchor_of_label;
use super::{LabelledDrawing, percent};
use maud::html;
use provoke_words as words;
use std::fmt::Write as _;

/// Height of the picture without its labels, in pixels.
const HEIGHT: f64 = 150.0;
/// Height with the labels, in pixels.
const WITH_LABELS: usize = 188;
/// Maximum number of labels.
const LABELS: usize = 7;

/// A logarithmic axis of times in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    shortest: f64,
    longest: f64,
}

impl TimeAxis {
    /// Returns an axis for these times.
    pub(crate) fn covering(times: impl IntoIterator<Item = f64>) -> Self {
        let (mut shortest, mut longest) = (f64::INFINITY, 0.0_f64);
        for time in times {
            shortest = shortest.min(time.max(1e-6));
            longest = longest.max(time);
        }
        let shortest = if shortest.is_finite() { shortest } else { 1e-3 };
        // A little room on both sides, and at least a factor of 4.
        let middle = (shortest * longest.max(shortest)).sqrt();
        Self {
            shortest: (shortest / 1.1).min(middle / 2.0),
            longest: (longest * 1.1).max(middle * 2.0),
        }
    }

    /// Returns the position of a time, from 0 to 1.
    fn position(self, time: f64) -> f64 {
        ((time / self.shortest).ln() / (self.longest / self.shortest).ln()).clamp(0.0, 1.0)
    }

    /// Returns the times with a label: 1, 2 and 5 of each decade, or only 1.
    fn ticks(self) -> Vec<f64> {
        let decades = self.longest.log10() - self.shortest.log10();
        let steps: &[f64] = if decades > 2.0 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let first = self.shortest.log10().floor();
        let ticks: Vec<f64> = std::iter::successors(Some(first), |decade| Some(decade + 1.0))
            .take_while(|decade| *decade <= self.longest.log10())
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powf(decade)))
            .filter(|tick| (self.shortest..=self.longest).contains(tick))
            .collect();
        let every = ticks.len().div_ceil(LABELS).max(1);
        ticks.into_iter().step_by(every).collect()
    }
}

/// The distribution of some times.
pub(crate) struct EcdfCurve<'a> {
    /// Its class.
    pub(crate) class: &'static str,
    /// Its label, at the curve.
    pub(crate) label: &'a str,
    /// The share of the times up to the position of the label, and whether the label is left of the curve.
    pub(crate) label_share: f64,
    pub(crate) label_is_left: bool,
    /// Times with the share of all that are not longer, in ascending order.
    pub(crate) steps: &'a [(f64, f64)],
}

impl EcdfCurve<'_> {
    fn path(&self, axis: TimeAxis) -> String {
        let mut path = String::from("M0 100");
        for (time, share) in self.steps {
            let _ = write!(
                path,
                "H{:.1}V{:.1}",
                axis.position(*time) * 1000.0,
                (1.0 - share) * 100.0
            );
        }
        path.push_str("H1000");
        path
    }

    /// Returns where the curve reaches the share of its label.
    fn label_position(&self, axis: TimeAxis) -> f64 {
        let step = self
            .steps
            .iter()
            .find(|(_, share)| *share >= self.label_share);
        step.map_or(1.0, |(time, _)| axis.position(*time))
    }
}

/// Draws distributions, and marks at the times of hung trials.
pub(crate) fn draw_ecdf(
    curves: &[EcdfCurve<'_>],
    hangs: &[f64],
    axis: TimeAxis,
) -> LabelledDrawing {
    let y = |share: f64| format!("{:.1}", 8.0 + (1.0 - share) * HEIGHT);
    let ticks = axis.ticks();
    let last = ticks.len().saturating_sub(1);
    let labels = html! {
        @for (share, label) in [(0.0, "0"), (0.5, "50 %"), (1.0, "100 %")] {
            text x="38" y=(y(share)) dy="4" text-anchor="end" { (label) }
        }
    };
    let drawing = html! {
        svg.ecdf width="100%" height=(WITH_LABELS) {
            @for share in [0.0, 0.5, 1.0] {
                line.base x1="0" x2="100%" y1=(y(share)) y2=(y(share)) {}
            }
            svg x="0" y="8" width="100%" height=(HEIGHT) viewBox="0 0 1000 100" preserveAspectRatio="none" {
                @for curve in curves {
                    path.curve.(curve.class) d=(curve.path(axis)) vector-effect="non-scaling-stroke" {}
                }
            }
            @for curve in curves {
                @let x = curve.label_position(axis);
                @let is_left = if curve.label_is_left { x > 0.15 } else { x > 0.85 };
                @let (anchor, dx) = if is_left { ("end", "-8") } else { ("start", "8") };
                text.direct.(curve.class) x=(percent(x)) y=(y(curve.label_share)) dx=(dx) dy="4" text-anchor=(anchor) { (curve.label) }
            }
            @for hang in hangs {
                @let x = percent(axis.position(*hang));
                line.hang x1=(x) x2=(x) y1=(y(1.0)) y2=(y(0.9)) {}
            }
            @for (index, tick) in ticks.into_iter().enumerate() {
                @let x = percent(axis.position(tick));
                line.tick x1=(x) x2=(x) y1=(y(0.0)) y2=(y(-0.03)) {}
                text x=(x) y="182" text-anchor=(anchor_of_label(index, last)) { (words::format_seconds(tick)) }
            }
        }
    };
    LabelledDrawing {
        label_width: 44,
        height: WITH_LABELS,
        labels,
        drawing,
    }
}
