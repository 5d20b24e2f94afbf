//! Series of measurements around the trials, in bounded memory.

use crate::model::{TotalUsage, TrialId};

/// Maximum number of points: the time of a test of growth is quadratic in it.
const MAX_POINTS: usize = 512;

/// Size of the processes that `setup` left running, in launch order.
///
/// When the series is full, every other point is removed, and from then on only every second, fourth, eighth ... point
/// is taken. The points are evenly spaced, and the same events give the same points.
#[derive(Debug)]
pub struct UsageSeries {
    points: Vec<(TrialId, TotalUsage)>,
    last: Option<TotalUsage>,
    /// One of this many points is taken.
    every: u64,
    seen: u64,
}

impl Default for UsageSeries {
    fn default() -> Self {
        Self {
            points: Vec::new(),
            last: None,
            every: 1,
            seen: 0,
        }
    }
}

impl UsageSeries {
    pub(super) fn add_point(&mut self, trial: TrialId, usage: TotalUsage) {
        self.last = Some(usage);
        if self.seen.is_multiple_of(self.every) {
            if self.points.len() == MAX_POINTS {
                let mut keep = false;
                self.points.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.every *= 2;
            }
            // `MAX_POINTS` is even: the point after a full series is one that remains.
            self.points.push((trial, usage));
        }
        self.seen += 1;
    }

    /// Returns the stored points, in launch order.
    pub fn kept_points(&self) -> &[(TrialId, TotalUsage)] {
        &self.points
    }

    /// Returns the first and the last measurement.
    pub fn first_and_last(&self) -> Option<(TotalUsage, TotalUsage)> {
        Some((self.points.first()?.1, self.last?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_evenly_spread_points_and_both_ends() {
        let mut series = UsageSeries::default();
        for trial in 1..=5000 {
            let usage = TotalUsage {
                threads: trial,
                ..TotalUsage::default()
            };
            series.add_point(TrialId(trial), usage);
        }
        let points = series.kept_points();
        assert!((MAX_POINTS / 2..=MAX_POINTS).contains(&points.len()));
        let gaps = points.windows(2).map(|two| two[1].0.0 - two[0].0.0);
        assert!(gaps.into_iter().all(|gap| gap == 16), "{points:?}");
        let (first, last) = series.first_and_last().unwrap();
        assert_eq!((first.threads, last.threads), (1, 5000));
    }
}
