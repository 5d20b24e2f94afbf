//! Axis of rates: linear from 0, or logarithmic if all rates are below 1 %.

use super::percent;
use maud::{Markup, html};

/// Ends of linear axes.
const ENDS: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
/// Parts of a linear axis.
const PARTS: u8 = 4;
/// Highest rate of a logarithmic axis.
const LOG_END: f64 = 0.01;
/// Maximum number of decades of a logarithmic axis.
const DECADES: f64 = 5.0;

/// An axis of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateAxis {
    end: f64,
    /// Decades of a logarithmic axis; `None` for a linear one.
    decades: Option<f64>,
}

impl RateAxis {
    /// Returns an axis for these intervals.
    pub fn covering(intervals: impl IntoIterator<Item = [f64; 2]>) -> Self {
        let mut highest = 0.0_f64;
        let mut lowest = LOG_END;
        for [low, high] in intervals {
            highest = highest.max(high);
            // A lower end of 0 is left of every decade.
            for end in [low, high] {
                if end > 0.0 {
                    lowest = lowest.min(end);
                }
            }
        }
        if highest >= LOG_END || highest <= 0.0 {
            let end = ENDS.into_iter().find(|end| *end >= highest).unwrap_or(1.0);
            return Self { end, decades: None };
        }
        let decades = (LOG_END / lowest).log10().ceil().clamp(2.0, DECADES);
        Self {
            end: LOG_END,
            decades: Some(decades),
        }
    }

    /// Returns the position of a rate, from 0 to 1.
    pub fn position(self, rate: f64) -> f64 {
        match self.decades {
            None => rate / self.end,
            Some(_) if rate <= 0.0 => 0.0,
            Some(decades) => 1.0 + (rate / self.end).log10() / decades,
        }
        .clamp(0.0, 1.0)
    }

    /// Returns the rates with a label.
    pub fn ticks(self) -> Vec<f64> {
        match self.decades {
            None => (0..=PARTS)
                .map(|part| self.end * f64::from(part) / f64::from(PARTS))
                .collect(),
            Some(decades) => {
                let ticks = std::iter::successors(Some(decades), |decade| Some(decade - 1.0));
                ticks
                    .take_while(|decade| *decade >= 0.0)
                    .map(|decade| self.end / 10_f64.powf(decade))
                    .collect()
            }
        }
    }

    /// Draws the axis with its labels.
    pub(crate) fn draw(self) -> Markup {
        let ticks = self.ticks();
        let last = ticks.len() - 1;
        html! {
            svg.axis width="100%" height="22" aria-hidden="true" {
                @for (index, tick) in ticks.into_iter().enumerate() {
                    @let x = percent(self.position(tick));
                    line.tick x1=(x) x2=(x) y1="17" y2="22" {}
                    // A narrow picture has room for three labels.
                    @if index == 0 || index == last || index * 2 == last {
                        text x=(x) y="12" text-anchor=(anchor_of_label(index, last)) { (label_of_rate(tick)) }
                    }
                }
            }
        }
    }
}

/// Returns the label of a rate, with the digits that it needs: `2.5 %`.
pub(super) fn label_of_rate(rate: f64) -> String {
    let percent = format!("{:.5}", rate * 100.0);
    match percent.trim_end_matches('0').trim_end_matches('.') {
        "0" => "0".to_owned(),
        percent => format!("{percent} %"),
    }
}

/// Keeps the first and the last label inside the picture.
pub(super) fn anchor_of_label(index: usize, last: usize) -> &'static str {
    match index {
        0 => "start",
        _ if index == last => "end",
        _ => "middle",
    }
}
