//! Draws small pictures in text: progress bars, intervals, a rate over time, counts of times.

use provoke_report::{RateAxis, RateWindow};
use provoke_stats::{real, whole};
use provoke_words as words;
use provoke_words::document::RateMark;

/// Length of a progress bar.
const PROGRESS: u64 = 12;
/// Length of the longest bar of a distribution.
const LONGEST_BAR: f64 = 30.0;
/// Length of an interval.
pub(super) const INTERVAL_WIDTH: usize = 24;
/// A count between two peaks, plus one, is at most this part of each of them.
const DEEP: u64 = 5;
/// Heights of a rate over time, from zero.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the part of a task that is done: `####........`.
pub(super) fn draw_progress(share: f64) -> String {
    let done = whole(share.clamp(0.0, 1.0) * real(PROGRESS)).min(PROGRESS);
    let cells = |count: u64, cell: &str| cell.repeat(usize::try_from(count).unwrap_or(0));
    cells(done, "#") + &cells(PROGRESS - done, ".")
}

/// Draws the interval of a rate on an axis: `  ├──●─────┤    `. Without a failure, the point is hollow and the interval is
/// open on its left.
pub(super) fn draw_interval(rate: &RateMark, axis: RateAxis) -> String {
    let RateMark {
        interval, point, ..
    } = *rate;
    let column = |rate: f64| {
        let last = INTERVAL_WIDTH - 1;
        let position = axis.position(rate) * real(last as u64);
        usize::try_from(whole(position)).map_or(last, |column| column.min(last))
    };
    let [low, high] = interval.map(column);
    let mut cells = [' '; INTERVAL_WIDTH];
    cells[low..=high].fill('─');
    cells[high] = '┤';
    if interval[0] > 0.0 {
        cells[low] = '├';
    }
    match point {
        Some(point) if point > 0.0 => cells[column(point)] = '●',
        None if rate.failures > 0 => {}
        _ => cells[0] = '○',
    }
    String::from_iter(cells).trim_end().to_owned()
}

/// Returns the head above intervals: the lowest and the highest rate of their axis.
pub(super) fn interval_head(axis: RateAxis) -> String {
    let ticks = axis.ticks();
    let label = |rate: Option<&f64>| {
        rate.map_or(String::new(), |rate| {
            format!("{} %", words::format_percent(*rate))
        })
    };
    let (low, high) = (label(ticks.first()), label(ticks.last()));
    let low = if low == "0 %" { "0".to_owned() } else { low };
    let gap = INTERVAL_WIDTH.saturating_sub(low.len() + high.len());
    format!("{low}{}{high}", " ".repeat(gap))
}

/// Returns whether the failure rate changed during a run: the intervals of two windows do not overlap.
pub(super) fn rate_changed(windows: &[RateWindow]) -> bool {
    let lowest_end = windows.iter().map(|window| window.interval[1]);
    let highest_start = windows.iter().map(|window| window.interval[0]);
    highest_start.fold(0.0, f64::max) > lowest_end.fold(1.0, f64::min)
}

/// Returns whether counts have two peaks: between them, a count is clearly lower than both.
pub(super) fn has_two_peaks(counts: &[u64]) -> bool {
    (0..counts.len()).any(|index| {
        let before = counts[..index].iter().max();
        let after = counts[index..].iter().max();
        before.min(after) >= Some(&(DEEP * (counts[index] + 1)))
    })
}

/// Describes the failure rate during a run, with a picture: `▁▁▂▅█  0 to 12 % in windows of 100 trials`.
pub(super) fn describe_windows(windows: &[RateWindow]) -> Option<String> {
    let share = |window: &RateWindow| real(window.failures) / real(window.trials.max(1));
    let shares: Vec<f64> = windows.iter().map(share).collect();
    let highest = shares.iter().copied().fold(0.0, f64::max);
    let lowest = shares.iter().copied().fold(1.0, f64::min);
    if highest <= 0.0 {
        return None;
    }
    let steps = HEIGHTS.len() - 1;
    let height = |share: f64| {
        let step = whole(share / highest * real(steps as u64));
        HEIGHTS[usize::try_from(step).map_or(steps, |step| step.min(steps))]
    };
    let picture: String = shares.iter().map(|share| height(*share)).collect();
    let size = words::format_count(windows.first()?.trials, "trial");
    let [low, high] = [lowest, highest].map(words::format_percent);
    let range = if low == high {
        high
    } else {
        format!("{low} to {high}")
    };
    Some(format!("{picture}  {range} % in windows of {size}"))
}

/// Draws the number of values in each range, one line each.
pub(super) fn draw_ranges(ranges: &[([String; 2], u64)]) -> Vec<String> {
    let highest = ranges
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(0)
        .max(1);
    let labels = ranges.iter().flat_map(|(label, _)| label);
    let width = labels.map(String::len).max().unwrap_or(0);
    ranges
        .iter()
        .map(|([from, to], count)| {
            let scaled = real(*count) * (LONGEST_BAR / real(highest)).min(1.0);
            let length = whole(scaled).max(u64::from(*count > 0));
            let bar = "#".repeat(usize::try_from(length).unwrap_or(0));
            let line = format!("{from:>width$} to {to:>width$}  {bar} {count}");
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_drawn_to_scale() {
        let axis = RateAxis::covering([[0.0, 0.4]]);
        let intervals = [
            (0, [0.0, 0.1], None),
            (1, [0.05, 0.25], Some(0.12)),
            (1, [0.3, 0.4], None),
            (1, [0.0, 0.5], Some(0.2)),
        ];
        let lines: Vec<String> = intervals
            .into_iter()
            .map(|(failures, interval, point)| {
                draw_interval(&RateMark::new(failures, 8, interval, point), axis)
            })
            .collect();
        insta::assert_snapshot!(format!("{}\n{}", interval_head(axis), lines.join("\n")));
    }

    #[test]
    fn a_rate_over_time_has_a_cell_for_each_window() {
        let windows = [0, 1, 2, 10].map(|failures| RateWindow {
            failures,
            trials: 100,
            interval: [0.0, 1.0],
        });
        insta::assert_snapshot!(describe_windows(&windows).unwrap());
        assert_eq!(describe_windows(&windows[..1]), None);
    }

    #[test]
    fn a_rate_that_does_not_change_has_no_picture() {
        let windows = |intervals: [[f64; 2]; 3]| {
            intervals.map(|interval| RateWindow {
                failures: 1,
                trials: 100,
                interval,
            })
        };
        assert!(!rate_changed(&[]));
        assert!(!rate_changed(&windows([
            [0.0, 0.3],
            [0.1, 0.4],
            [0.2, 0.5]
        ])));
        assert!(rate_changed(&windows([[0.0, 0.1], [0.1, 0.4], [0.2, 0.5]])));
    }

    #[test]
    fn a_deep_gap_separates_two_peaks() {
        let one_peak: [&[u64]; 5] = [&[], &[9], &[1, 9, 3], &[9, 0, 4], &[9, 1, 9]];
        for counts in one_peak {
            assert!(!has_two_peaks(counts), "{counts:?}");
        }
        let two_peaks: [&[u64]; 2] = [&[9, 0, 5], &[10, 1, 1, 12, 2]];
        for counts in two_peaks {
            assert!(has_two_peaks(counts), "{counts:?}");
        }
    }

    #[test]
    fn progress_and_times_are_drawn_to_scale() {
        let bars = [0.0, 0.5, 1.0, 7.0].map(draw_progress);
        let times = [(0.001, 0.002, 1), (0.002, 0.005, 0), (0.005, 0.01, 60)]
            .map(|(from, to, count)| ([from, to].map(words::format_seconds), count));
        insta::assert_snapshot!(format!(
            "{}\n{}",
            bars.join("\n"),
            draw_ranges(&times).join("\n")
        ));
    }
}
