//! Counts numbers in a few ranges.

use provoke_stats::spread_of_counts;

/// Maximum number of ranges.
const RANGES: u64 = 8;
/// Minimum number of values.
const MIN_VALUES: usize = 4;

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
pub fn count_ranges(counts: &[u64]) -> Vec<CountRange> {
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

/// Returns the smallest round width for which a few ranges contain all values.
fn round_width(min: u64, max: u64) -> u64 {
    let widths = (0..19).flat_map(|zeros| [1, 2, 5].map(|digit| digit * 10_u64.pow(zeros)));
    let holds = |width: &u64| max / width - min / width < RANGES;
    widths.into_iter().find(holds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_ranges_of_round_width_contain_all_counts() {
        let counts = [
            739, 800, 1201, 1420, 1563, 1571, 1599, 1820, 1990, 1992, 1996,
        ];
        let ranges = count_ranges(&counts).into_iter();
        let counts: Vec<(u64, u64)> = ranges.map(|range| (range.start, range.count)).collect();
        let expected = [
            (600, 1),
            (800, 1),
            (1000, 0),
            (1200, 1),
            (1400, 4),
            (1600, 0),
            (1800, 4),
        ];
        assert_eq!(counts, expected);
        for (least, most) in [(0, 1), (0, 7), (85, 1579), (5, u64::MAX / 2)] {
            let ranges = count_ranges(&[least, most, least, most]).len() as u64;
            assert!(
                (2..=RANGES).contains(&ranges),
                "{least} to {most}: {ranges}"
            );
        }
    }
}
