//! Calculates the exact p-value by enumerating all distributions of the failures over the trials.

use super::is_at_least_as_uneven;
use crate::convert::real;
use crate::special::ln_choose;

/// Maximum number of distributions that are enumerated.
const MAX_WAYS: u64 = 20_000;

/// Returns the exact p-value of a square sum (of f^2/n over the batches), or `None` if there are too many
/// distributions.
pub(super) fn p_value(sizes: &[(u64, u64)], failures: u64, observed: f64) -> Option<f64> {
    let batches: u64 = sizes.iter().map(|(_, count)| count).sum();
    if batches > 64 {
        return None;
    }
    let sizes: Vec<u64> = sizes
        .iter()
        .flat_map(|&(size, count)| (0..count).map(move |_| size))
        .collect();
    if count_ways(&sizes, failures)? > MAX_WAYS {
        return None;
    }
    let runs: u64 = sizes.iter().sum();
    let walk = Enumeration {
        observed,
        ln_total: ln_choose(real(runs), real(failures)),
    };
    Some(
        walk.sum_probability(&sizes, runs, failures, 0.0, 0.0)
            .min(1.0),
    )
}

/// Counts the distributions of `failures` over batches of these sizes; `None` if there are too many.
fn count_ways(sizes: &[u64], failures: u64) -> Option<u64> {
    if failures > MAX_WAYS {
        return None; // two batches of that size have too many already
    }
    let failures = usize::try_from(failures).ok()?;
    let mut ways = vec![0_u64; failures + 1]; // by number of distributed failures
    ways[0] = 1;
    for &size in sizes {
        let size = usize::try_from(size).ok()?.min(failures);
        // The sum of a sliding window of size + 1 entries.
        let mut window = 0_u64;
        let previous = ways.clone();
        for dealt in 0..=failures {
            window = window.checked_add(previous[dealt])?;
            if dealt > size {
                window -= previous[dealt - size - 1];
            }
            ways[dealt] = window;
        }
    }
    ways.last().copied()
}

struct Enumeration {
    observed: f64,
    ln_total: f64,
}

impl Enumeration {
    /// Sums the probability of all distributions that begin as given and reach the observed square sum.
    fn sum_probability(
        &self,
        sizes: &[u64],
        room: u64,
        remaining: u64,
        square_sum: f64,
        ln_ways: f64,
    ) -> f64 {
        let Some((&size, rest)) = sizes.split_first() else {
            return if is_at_least_as_uneven(square_sum, self.observed) {
                (ln_ways - self.ln_total).exp()
            } else {
                0.0
            };
        };
        let room = room - size;
        (remaining.saturating_sub(room)..=remaining.min(size))
            .map(|dealt| {
                let (f, n) = (real(dealt), real(size));
                self.sum_probability(
                    rest,
                    room,
                    remaining - dealt,
                    square_sum + f * f / n,
                    ln_ways + ln_choose(n, f),
                )
            })
            .sum()
    }
}
