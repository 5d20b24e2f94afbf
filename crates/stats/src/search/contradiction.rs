//! Tests whether the list has a single boundary between good and bad versions.
//!
//! A failure that comes, goes and comes back breaks the assumption of every bisection. The test compares two
//! explanations of all runs by their probability: one boundary, as the search assumes, and versions that are each bad
//! or good with probability 1/2, at the same rates. Both are averaged over the same prior, so their ratio exceeds x
//! with probability 1/x at most at any time if there is one boundary (Ville's inequality, on average over the prior).
//!
//! In simulations of one boundary at most 1.3 % of searches raise the alarm (64 versions, p = .1, q = .01). A search
//! alone hardly ever detects a contradiction, because it continues near the boundary that it found: of failures in
//! every second version, 20 % are detected at most. The test is for runs that were requested elsewhere in the list.

use super::super::convert::real;
use super::posterior::Bisection;
use super::sums::ln_sum;
use super::tested::TestedVersion;

/// Logarithm of the ratio that counts as a contradiction: 10 to 1.
const ENOUGH: f64 = std::f64::consts::LN_10;

/// Runs that do not fit one boundary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contradiction {
    /// Logarithm of how many times likelier the runs are if versions are bad or good independently.
    pub ln_evidence: f64,
    /// A version that seems bad, although `passes` is later.
    pub fails: usize,
    /// A later version that seems good.
    pub passes: usize,
}

fn ln_likelihood(tested: &TestedVersion, rate: f64) -> f64 {
    let times = |count: u64, ln: f64| if count == 0 { 0.0 } else { real(count) * ln };
    times(tested.failures, rate.ln()) + times(tested.runs - tested.failures, (-rate).ln_1p())
}

impl Bisection {
    /// Returns why the runs contradict a single boundary, if they do.
    pub fn find_contradiction(&self) -> Option<Contradiction> {
        let cells = self.grid().cells();
        let mut terms = Vec::with_capacity(cells.len());
        let mut bad = vec![Vec::with_capacity(cells.len()); self.tested_versions().len()];
        for cell in cells {
            let mut term = cell.weight.ln();
            for (tested, bad) in self.tested_versions().iter().zip(&mut bad) {
                let if_bad = ln_likelihood(tested, cell.p);
                let either = ln_sum(&[if_bad, ln_likelihood(tested, cell.q)]);
                term += either - std::f64::consts::LN_2;
                bad.push(if either.is_finite() {
                    (if_bad - either).exp()
                } else {
                    0.0
                });
            }
            terms.push(term);
        }
        let coins = ln_sum(&terms);
        let ln_evidence = coins - self.ln_likelihood();
        if ln_evidence < ENOUGH {
            return None;
        }
        let weights: Vec<f64> = terms.iter().map(|term| (term - coins).exp()).collect();
        let mean = |bad: &Vec<f64>| bad.iter().zip(&weights).map(|(b, w)| b * w).sum();
        let bad: Vec<f64> = bad.iter().map(mean).collect();
        let mut best = (-1.0, 0, 0);
        let mut earlier = (-1.0, 0);
        for (tested, bad) in self.tested_versions().iter().zip(bad) {
            if earlier.0 * (1.0 - bad) > best.0 && earlier.0 >= 0.0 {
                best = (earlier.0 * (1.0 - bad), earlier.1, tested.version);
            }
            if bad > earlier.0 {
                earlier = (bad, tested.version);
            }
        }
        // A single version is not a contradiction, only an unlikely count.
        (best.0 >= 0.0).then_some(Contradiction {
            ln_evidence,
            fails: best.1,
            passes: best.2,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::SearchPrior;
    use super::*;

    #[test]
    fn a_failure_missing_in_a_later_version_contradicts_one_boundary() {
        let mut search = Bisection::new(64, &SearchPrior::default(), None);
        search.observe_many(64, 5, 10);
        search.observe_many(20, 5, 10);
        search.observe_many(40, 0, 4);
        assert_eq!(search.find_contradiction(), None);
        search.observe_many(40, 0, 16);
        let found = search.find_contradiction().unwrap();
        assert_eq!((found.fails, found.passes), (20, 40));
    }
}
