//! Draws the distribution of numbers in plain text.

use provoke_stats::{real, spread_of_counts, whole};

/// Maximum number of bars.
const BARS: u64 = 8;
/// Minimum number of values for a drawing.
const MIN_VALUES: usize = 4;
/// Length of the longest bar in characters.
const LONGEST: f64 = 30.0;

/// The number of values in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountRange {
    /// Lowest value.
    pub start: u64,
    /// Highest value.
    pub end: u64,
    /// Number of values.
    pub count: u64,
}

/// Counts values in a few ranges of equal, round width. Returns nothing if there are so few values that a list of them
/// is clearer.
pub(crate) fn count_ranges(counts: &[u64]) -> Vec<CountRange> {
    let (Some([min, _, max]), MIN_VALUES..) = (spread_of_counts(counts), counts.len()) else {
        return Vec::new();
    };
    if min == max {
        return Vec::new();
    }
    let width = round_width(min, max);
    let first = min / width;
    let ranges = first..=max / width;
    ranges
        .map(|range| {
            let in_range = counts.iter().filter(|count| **count / width == range);
            CountRange {
                start: range * width,
                end: (range + 1) * width - 1,
                count: in_range.count() as u64,
            }
        })
        .collect()
}

/// Draws the ranges of values with a bar each, one line each.
pub fn draw_bars(counts: &[u64]) -> Vec<String> {
    let ranges = count_ranges(counts);
    let highest = ranges
        .iter()
        .map(|range| range.count)
        .max()
        .unwrap_or(0)
        .max(1);
    let digits = ranges.last().map_or(0, |range| range.end.to_string().len());
    ranges
        .into_iter()
        .map(
            |CountRange {
                 start,
                 end,
                 count: height,
             }| {
                let scaled = real(height) * (LONGEST / real(highest)).min(1.0);
                // A bar for at least one value has at least one character.
                let length = whole(scaled).max(u64::from(height > 0));
                let bar = "#".repeat(usize::try_from(length).unwrap_or(0));
                let line = format!("{start:>digits$} .. {end:>digits$}  {bar} {height}");
                line.trim_end().to_owned()
            },
        )
        .collect()
}

/// Returns the smallest round width for which a few ranges contain all values.
fn round_width(min: u64, max: u64) -> u64 {
    let widths = (0..19).flat_map(|zeros| [1, 2, 5].map(|digit| digit * 10_u64.pow(zeros)));
    let holds = |width: &u64| max / width - min / width < BARS;
    widths.into_iter().find(holds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_bars_of_round_width_contain_all_counts() {
        let counts = [
            739, 800, 1201, 1420, 1563, 1571, 1599, 1820, 1990, 1992, 1996,
        ];
        insta::assert_snapshot!(draw_bars(&counts).join("\n"), @r"
     600 ..  799  # 1
     800 ..  999  # 1
    1000 .. 1199   0
    1200 .. 1399  # 1
    1400 .. 1599  #### 4
    1600 .. 1799   0
    1800 .. 1999  #### 4
    ");
        for (least, most) in [(0, 1), (0, 7), (85, 1579), (5, u64::MAX / 2)] {
            let lines = draw_bars(&[least, most, least, most]).len() as u64;
            assert!((2..=BARS).contains(&lines), "{least} .. {most}: {lines}");
        }
    }

    #[test]
    fn bars_of_many_counts_fit_into_a_line() {
        let counts: Vec<u64> = (0..200).map(|n| n % 3).collect();
        assert!(draw_bars(&counts).iter().all(|line| line.len() < 60));
    }
}
