//! Tests whether trials fail more often on hosts with a certain property.
//!
//! Hosts differ a little for many reasons. So the trials of one host are not independent evidence about a property, and a
//! test of all trials (Fisher) warns far too often. Here the host is the unit: if the property has no effect, every
//! assignment of it to the same number of hosts is equally likely.

use super::convert::real;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_pcg::Pcg64Mcg;

/// Up to this number of assignments, all are tried.
const ALL: f64 = 20_000.0;
/// Number of random assignments otherwise.
const DRAWS: u64 = 9_999;
/// Differences of rates count as equal up to this, because of rounding.
const TIE: f64 = 1e-12;
/// Makes the random assignments independent of other tests.
const SEED: u64 = 0x686f_7374_7321;

/// The failures and trials of a host, and whether it has the property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostTrials {
    /// Trials that failed.
    pub failures: u64,
    /// All counted trials.
    pub trials: u64,
    /// Whether the host has the property.
    pub has_property: bool,
}

/// Returns the p-value of the difference between hosts with and without a property, two-sided.
///
/// The statistic is the difference of the pooled failure rates. Up to 20,000 assignments the p-value is exact; otherwise it comes from 9,999
/// random ones with a fixed seed. Hosts without a trial do not count. Returns 1 if all hosts are on one side.
pub fn property_p_value(hosts: &[HostTrials]) -> f64 {
    let hosts: Vec<HostTrials> = hosts
        .iter()
        .copied()
        .filter(|host| host.trials > 0)
        .collect();
    let with_property = hosts.iter().filter(|host| host.has_property).count();
    if with_property == 0 || with_property == hosts.len() {
        return 1.0;
    }
    let observed: Vec<usize> = (0..hosts.len())
        .filter(|i| hosts[*i].has_property)
        .collect();
    let limit = difference(&hosts, &observed) - TIE;
    let assignments = binomial(hosts.len(), with_property);
    if assignments <= ALL {
        let mut chosen: Vec<usize> = (0..with_property).collect();
        let mut extreme = 0_u64;
        loop {
            extreme += u64::from(difference(&hosts, &chosen) >= limit);
            if !next_choice(&mut chosen, hosts.len()) {
                return real(extreme) / assignments;
            }
        }
    }
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut order: Vec<usize> = (0..hosts.len()).collect();
    let mut extreme = 0_u64;
    for _ in 0..DRAWS {
        let (drawn, _) = order.partial_shuffle(&mut random, with_property);
        extreme += u64::from(difference(&hosts, drawn) >= limit);
    }
    real(extreme + 1) / real(DRAWS + 1)
}

/// Returns the smallest p-value that [`property_p_value`] can have for this number of hosts, of which some have the
/// property.
pub fn smallest_property_p_value(hosts: u64, with_property: u64) -> f64 {
    let (hosts, with_property) = (to_index(hosts), to_index(with_property));
    if with_property == 0 || with_property >= hosts {
        return 1.0;
    }
    // If both sides have equal numbers, exchanging them gives the same difference.
    let equal = if 2 * with_property == hosts { 2.0 } else { 1.0 };
    let exact = equal / binomial(hosts, with_property);
    if binomial(hosts, with_property) <= ALL {
        exact
    } else {
        exact.max(1.0 / real(DRAWS + 1))
    }
}

/// Returns the smallest even number of hosts, half of which have the property, that can give a p-value of at most
/// `alpha`; `None` if no number can.
pub fn hosts_needed(alpha: f64) -> Option<u64> {
    let mut even = (1..=32).map(|half| 2 * half);
    even.find(|hosts| smallest_property_p_value(*hosts, hosts / 2) <= alpha)
}

/// Corrects p-values of several tests by Holm's method, in the same order: the chance that any true hypothesis is rejected
/// stays below the limit of each.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in (0_u64..).zip(order) {
        let tests = real(p_values.len() as u64 - rank);
        largest = largest.max((p_values[index] * tests).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

/// Returns the absolute difference of the pooled failure rates of the chosen hosts and of the others.
fn difference(hosts: &[HostTrials], chosen: &[usize]) -> f64 {
    let sum = |count: fn(&HostTrials) -> u64| -> (u64, u64) {
        let all: u64 = hosts.iter().map(count).sum();
        let of_chosen: u64 = chosen.iter().map(|index| count(&hosts[*index])).sum();
        (of_chosen, all - of_chosen)
    };
    let (failures, other_failures) = sum(|host| host.failures);
    let (trials, other_trials) = sum(|host| host.trials);
    (real(failures) / real(trials) - real(other_failures) / real(other_trials)).abs()
}

/// Advances to the next choice of indices in ascending order; returns false after the last.
fn next_choice(chosen: &mut [usize], count: usize) -> bool {
    let size = chosen.len();
    let Some(place) = (0..size).rfind(|place| chosen[*place] < count - size + place) else {
        return false;
    };
    chosen[place] += 1;
    for later in place + 1..size {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

/// Returns the number of ways to choose `k` of `n`.
fn binomial(n: usize, k: usize) -> f64 {
    let k = k.min(n - k);
    (1..=k).fold(1.0, |ways, i| {
        (ways * real((n - k + i) as u64) / real(i as u64)).round()
    })
}

fn to_index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(counts: &[(u64, u64, bool)]) -> Vec<HostTrials> {
        let host = |&(failures, trials, has_property)| HostTrials {
            failures,
            trials,
            has_property,
        };
        counts.iter().map(host).collect()
    }

    #[test]
    fn four_hosts_cannot_prove_an_effect() {
        let counts = [
            (0, 18, false),
            (21, 21, true),
            (0, 19, false),
            (22, 22, true),
        ];
        let p = property_p_value(&hosts(&counts));
        assert!((p - 1.0 / 3.0).abs() < 1e-12, "{p}");
        assert!((p - smallest_property_p_value(4, 2)).abs() < 1e-12);
    }

    #[test]
    fn the_smallest_p_values_are_those_of_an_even_split() {
        for (count, expected) in [
            (4, 0.333),
            (6, 0.1),
            (8, 0.0286),
            (10, 0.00794),
            (12, 0.00216),
            (16, 0.000_155),
        ] {
            let p = smallest_property_p_value(count, count / 2);
            assert!((p / expected - 1.0).abs() < 0.01, "{count}: {p}");
        }
        assert_eq!(hosts_needed(0.05), Some(8));
        assert_eq!(hosts_needed(0.01), Some(10));
        assert_eq!(hosts_needed(0.000_01), None);
    }

    #[test]
    fn hosts_on_one_side_have_no_p_value() {
        for p in [
            property_p_value(&hosts(&[(1, 10, true), (5, 10, true)])),
            property_p_value(&hosts(&[(1, 10, true), (0, 0, false)])),
            property_p_value(&[]),
            smallest_property_p_value(3, 0),
            smallest_property_p_value(3, 3),
        ] {
            assert!((p - 1.0).abs() < 1e-12, "{p}");
        }
    }

    #[test]
    fn random_assignments_agree_with_all() {
        // 16 hosts have 12,870 assignments, which are all tried; 20 hosts are drawn.
        let host = |index: u64, hosts: u64| (index % 7, 40 + index, index >= hosts / 2);
        let twenty: Vec<_> = (0..20).map(|index| host(index, 20)).collect();
        let p = property_p_value(&hosts(&twenty));
        // All 184,756 assignments give 0.699.
        assert!((p - 0.699_05).abs() < 0.02, "{p}");
    }

    #[test]
    fn holm_corrects_in_steps() {
        let corrected = holm(&[0.04, 0.01, 0.03]);
        let expected = [0.06, 0.03, 0.06];
        for (corrected, expected) in corrected.iter().zip(expected) {
            assert!((corrected - expected).abs() < 1e-12, "{corrected}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
