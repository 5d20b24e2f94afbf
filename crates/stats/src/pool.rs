//! Decides which runs of one program count together, although their failure rates may differ.
//!
//! Every rule here prefers the lower rate, so that a fix may need more clean trials than necessary, but never fewer. A
//! run that failed less often than the others always counts.

use super::fisher::fisher;

/// A difference between runs is significant if chance shows it this rarely.
const LEVEL: f64 = 0.01;

/// Failures and trials.
type RunCounts = (u64, u64);

/// How often the named run failed, compared with the others together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NamedRate {
    /// No significant difference.
    Alike,
    /// More often, with the probability of such a difference by chance. The others count, because the run may have been
    /// named for its many failures.
    MoreOften(f64),
    /// Less often, with the probability of such a difference by chance. The others do not count.
    LessOften(f64),
}

/// The runs that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Failures of all runs that count.
    pub failures: u64,
    /// Trials of all runs that count.
    pub trials: u64,
    /// The indices of the other runs that count.
    pub counted: Vec<usize>,
    /// The indices of the other runs that failed too often to count, with the probability of such a difference by
    /// chance.
    pub more_often: Vec<(usize, f64)>,
    /// How often the named run failed.
    pub named: NamedRate,
}

/// Returns which of the other runs count together with the named one.
///
/// Each of the others is compared with all the rest by Fisher's exact test, one-sided, at 1 % divided by their number.
/// A run that failed significantly more often is left out, and the test is repeated for the rest. Then the named run is
/// compared with the others together, at 1 % in either direction.
pub fn pool(named: RunCounts, others: &[RunCounts]) -> Pool {
    let mut counted: Vec<usize> = (0..others.len()).collect();
    let mut more_often = Vec::new();
    loop {
        let (failures, trials) = sum_counts(named, others, &counted);
        let level = LEVEL / super::real(counted.len().max(1) as u64);
        let against_rest = |index: usize| {
            let (k, n) = others[index];
            fisher(k, n, failures - k, trials - n).greater
        };
        let tests = counted.iter().map(|index| (*index, against_rest(*index)));
        let smallest = tests.min_by(|left, right| left.1.total_cmp(&right.1));
        match smallest.filter(|(_, p_value)| *p_value <= level) {
            Some((index, p_value)) => {
                counted.retain(|other_index| *other_index != index);
                more_often.push((index, p_value));
            }
            None => break,
        }
    }
    let (failures, trials) = sum_counts((0, 0), others, &counted);
    let (k, n) = named;
    let p_value = fisher(k, n, failures, trials).greater;
    let less = fisher(failures, trials, k, n).greater;
    let rate = if less <= LEVEL {
        counted.clear();
        NamedRate::LessOften(less)
    } else if p_value <= LEVEL {
        NamedRate::MoreOften(p_value)
    } else {
        NamedRate::Alike
    };
    let (failures, trials) = sum_counts(named, others, &counted);
    Pool {
        failures,
        trials,
        counted,
        more_often,
        named: rate,
    }
}

fn sum_counts(named: RunCounts, others: &[RunCounts], counted: &[usize]) -> RunCounts {
    counted.iter().fold(named, |(k, n), index| {
        let (failures, trials) = others[*index];
        (k + failures, n + trials)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_with_equal_rates_are_pooled() {
        let all = pool((3, 30), &[(2, 30), (0, 10), (5, 40)]);
        assert_eq!((all.failures, all.trials), (10, 110));
        assert_eq!(all.counted, [0, 1, 2]);
        assert_eq!(all.named, NamedRate::Alike);
        let alone = pool((3, 30), &[]);
        assert_eq!((alone.failures, alone.trials), (3, 30));
        assert_eq!(alone.named, NamedRate::Alike);
    }

    #[test]
    fn a_named_run_with_a_higher_rate_is_pooled_with_the_others() {
        let all = pool((3, 10), &[(0, 100), (0, 60)]);
        assert_eq!((all.failures, all.trials), (3, 170));
        assert!(matches!(all.named, NamedRate::MoreOften(p) if p < 0.001));
    }

    #[test]
    fn a_named_run_with_a_lower_rate_counts_alone() {
        // None of the others differs from the rest.
        let all = pool((1, 100), &[(9, 30), (8, 30), (10, 30)]);
        assert_eq!((all.failures, all.trials), (1, 100));
        assert!(all.counted.is_empty() && all.more_often.is_empty());
        assert!(matches!(all.named, NamedRate::LessOften(p) if p < 0.001));
    }

    #[test]
    fn another_run_with_a_higher_rate_is_left_out() {
        let all = pool((3, 30), &[(2, 30), (25, 30), (3, 40), (20, 20)]);
        assert_eq!((all.failures, all.trials), (8, 100));
        assert_eq!(all.counted, [0, 2]);
        let mut left_out: Vec<usize> = all.more_often.iter().map(|(at, _)| *at).collect();
        left_out.sort_unstable();
        assert_eq!(left_out, [1, 3]);
    }

    #[test]
    fn another_run_with_a_lower_rate_is_pooled() {
        let all = pool((3, 30), &[(0, 300)]);
        assert_eq!((all.failures, all.trials), (3, 330));
        // Either of two rates may be the present one, so the lower one counts.
        let all = pool((5, 30), &[(5, 30), (0, 300), (6, 30)]);
        assert_eq!((all.failures, all.trials), (5, 330), "{all:?}");
    }
}
