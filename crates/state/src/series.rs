//! Series of measurements during a run, in bounded memory: the failure rate, and the size of processes around the trials.

use provoke_model::{TotalUsage, TrialId};

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

/// Maximum number of columns of a failure rate; even, so that columns can be merged in pairs.
const MAX_COLUMNS: usize = 128;

/// Failures and trials in the order in which they count, in columns of equal numbers of trials.
#[derive(Debug, Default)]
pub struct RateSeries {
    /// Failures and trials of each column.
    columns: Vec<(u64, u64)>,
    /// The columns were merged in pairs this many times.
    merges: u32,
}

impl RateSeries {
    pub(super) fn add_trial(&mut self, failed: bool) {
        let width = 1 << self.merges;
        if self
            .columns
            .last()
            .is_none_or(|(_, trials)| *trials >= width)
        {
            if self.columns.len() == MAX_COLUMNS {
                self.columns = merge_columns(&self.columns, 2);
                self.merges += 1;
            }
            self.columns.push((0, 0));
        }
        if let Some((failures, trials)) = self.columns.last_mut() {
            *failures += u64::from(failed);
            *trials += 1;
        }
    }

    /// Returns the failures and the trials from the first trial to the end of each window, in order.
    pub fn counts_over_time(&self, at_most: usize) -> impl Iterator<Item = (u64, u64)> {
        let windows = self.windows(at_most).into_iter();
        windows.scan((0, 0), |(failures, trials), window| {
            *failures += window.0;
            *trials += window.1;
            Some((*failures, *trials))
        })
    }

    /// Returns the failures and the trials of at most this number of windows, in order.
    pub fn windows(&self, at_most: usize) -> Vec<(u64, u64)> {
        let factor = self.columns.len().div_ceil(at_most.max(1)).max(1);
        let mut windows = merge_columns(&self.columns, factor);
        // A few trials at the end belong to the window before.
        if let [.., before, last] = windows.as_mut_slice()
            && last.1 * 2 < before.1
        {
            *before = (before.0 + last.0, before.1 + last.1);
            windows.pop();
        }
        windows
    }
}

/// Merges this number of neighbours into one column.
fn merge_columns(columns: &[(u64, u64)], factor: usize) -> Vec<(u64, u64)> {
    let sum = |chunk: &[(u64, u64)]| {
        let add =
            |(failures, trials), column: &(u64, u64)| (failures + column.0, trials + column.1);
        chunk.iter().fold((0, 0), add)
    };
    columns.chunks(factor).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_a_rate_have_equal_numbers_of_trials_and_keep_each_trial() {
        let mut series = RateSeries::default();
        for trial in 0..10_001_u64 {
            series.add_trial(trial % 10 == 0);
        }
        let windows = series.windows(30);
        assert!((15..=30).contains(&windows.len()), "{windows:?}");
        let sum = |of: fn(&(u64, u64)) -> u64| windows.iter().map(of).sum::<u64>();
        assert_eq!(
            (sum(|window| window.0), sum(|window| window.1)),
            (1001, 10_001)
        );
        let (_, full) = windows.split_last().unwrap();
        assert!(
            full.iter().all(|window| window.1 == full[0].1),
            "{windows:?}"
        );
    }

    #[test]
    fn few_trials_have_a_window_each() {
        let mut series = RateSeries::default();
        for failed in [false, true, false] {
            series.add_trial(failed);
        }
        assert_eq!(series.windows(4), [(0, 1), (1, 1), (0, 1)]);
    }

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
