//! Counts trials for pictures: the failure rate during a run, and the times of failing trials.

use provoke_questions::StopRule;
use provoke_state::{DurationHistogram, State, Tally};
use serde::Serialize;
use std::time::Duration;

/// Maximum number of windows.
const MAX_WINDOWS: usize = 30;
/// Minimum number of trials of a window.
const SMALLEST_WINDOW: usize = 10;
/// Minimum number of windows.
const MIN_WINDOWS: usize = 4;
/// Maximum number of ranges of times.
const MAX_RANGES: usize = 10;
/// Minimum number of times.
const MIN_TIMES: u64 = 4;

/// The failure rate in a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateWindow {
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The interval of the failure rate, for this window alone.
    pub interval: [f64; 2],
}

/// The number of trials with times in a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimeRange {
    /// Lower end in seconds, included.
    pub from: f64,
    /// Upper end in seconds, not included.
    pub to: f64,
    /// Number of trials.
    pub count: u64,
}

/// Returns the failure rate in windows of equal numbers of trials; nothing without a failure or with few trials, or if the
/// question chooses its trials by earlier results, so that such a rate has no meaning.
pub(super) fn rate_windows(state: &State, tally: &Tally) -> Vec<RateWindow> {
    let is_measured = provoke_questions::of(state).repeats_one_trial();
    let counted = usize::try_from(tally.counted_trials()).unwrap_or(usize::MAX);
    let windows = (counted / SMALLEST_WINDOW).min(MAX_WINDOWS);
    if !is_measured || tally.failures == 0 || windows < MIN_WINDOWS {
        return Vec::new();
    }
    let alpha = state.goal.alpha.to_probability();
    let windows = tally.rate_series.windows(windows).into_iter();
    windows
        .map(|(failures, trials)| {
            let interval = StopRule::PlannedN.interval(failures, trials, alpha);
            RateWindow {
                failures,
                trials,
                interval: interval.ends(),
            }
        })
        .collect()
}

/// Counts times in ranges from 1 to 2, 2 to 5 and 5 to 10 of each power of ten, or in powers of ten if these are too many.
/// Returns nothing if all times are in one range.
pub(super) fn time_ranges(times: &DurationHistogram) -> Vec<TimeRange> {
    if times.count() < MIN_TIMES {
        return Vec::new();
    }
    let fine = count_ranges(times, &[1.0, 2.0, 5.0]);
    let ranges = if fine.len() <= MAX_RANGES {
        fine
    } else {
        count_ranges(times, &[1.0])
    };
    if ranges.len() < 2 {
        return Vec::new();
    }
    ranges
}

/// Counts times in ranges that begin at these multiples of powers of ten, without empty ranges at both ends.
fn count_ranges(times: &DurationHistogram, starts: &[f64]) -> Vec<TimeRange> {
    let bounds: Vec<f64> = (-6..=8)
        .flat_map(|exponent| {
            starts
                .iter()
                .map(move |start| start * 10_f64.powi(exponent))
        })
        .collect();
    let mut counts = vec![0; bounds.len()];
    for (time, count) in times.counts() {
        counts[range_of_time(time, &bounds)] += count;
    }
    let (Some(first), Some(last)) = (
        counts.iter().position(|count| *count > 0),
        counts.iter().rposition(|count| *count > 0),
    ) else {
        return Vec::new();
    };
    (first..=last)
        .map(|index| TimeRange {
            from: bounds[index],
            to: bounds.get(index + 1).copied().unwrap_or(f64::INFINITY),
            count: counts[index],
        })
        .collect()
}

fn range_of_time(time: Duration, bounds: &[f64]) -> usize {
    let seconds = time.as_secs_f64();
    bounds
        .partition_point(|bound| *bound <= seconds)
        .saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges_of(times: &[u64]) -> Vec<(f64, f64, u64)> {
        let mut histogram = DurationHistogram::default();
        for milliseconds in times {
            histogram.add_duration(Duration::from_millis(*milliseconds));
        }
        let ranges = time_ranges(&histogram).into_iter();
        ranges
            .map(|range| (range.from, range.to, range.count))
            .collect()
    }

    #[test]
    fn times_are_counted_in_few_round_ranges_without_gaps() {
        let near = ranges_of(&[3, 4, 30, 31, 33, 60]);
        let expected = [
            (0.002, 0.005, 2),
            (0.005, 0.01, 0),
            (0.01, 0.02, 0),
            (0.02, 0.05, 3),
            (0.05, 0.1, 1),
        ];
        assert_eq!(near.len(), expected.len(), "{near:?}");
        for (range, expected) in near.iter().zip(expected) {
            assert!((range.0 - expected.0).abs() < 1e-12 && (range.1 - expected.1).abs() < 1e-12);
            assert_eq!(range.2, expected.2, "{near:?}");
        }
        // From 1 ms to 1,000 s, there are too many ranges of 1, 2 and 5.
        let far = ranges_of(&[1, 10, 1000, 900_000]);
        assert_eq!(far.len(), 6, "{far:?}");
    }

    #[test]
    fn equal_or_few_times_have_no_picture() {
        assert!(ranges_of(&[3, 3, 3, 4]).is_empty());
        assert!(ranges_of(&[1, 100, 1000]).is_empty());
    }
}
