//! Tests after every trial whether two variants fail at different rates.
//!
//! Trials of both variants are taken in pairs. Before each pair both rates are estimated from the pairs so far, once
//! for each variant and once for both together. The value of the pair is the factor by which the separate estimates
//! predicted it better than the common one. The product of these values is the evidence E. If both variants fail at the
//! same rate, whatever it is, the value of a pair is at most 1 on average. Then E ever reaches 1/alpha with probability
//! alpha at most (Ville), however often and whenever it is checked. So the variants are reported as different as soon
//! as E >= 1/alpha.
//!
//! The estimates are (0.18 + failures)/(0.36 + pairs), the choice of the "safe testing" literature (Turner, Ly and
//! Grunwald); the common estimate is the mean of the two.
//!
//! Trials must be pushed in an order that does not depend on their outcomes: in the order in which they started, not in
//! which they ended, because a crash is quicker than a pass. The order matters only among parallel trials.

use std::collections::VecDeque;

use super::convert::real;

/// Initial count of failures and of passes in the estimate of each side.
const BEGINNING: f64 = 0.18;

/// Evidence that two variants fail at different rates, from pairs of trials.
#[derive(Debug, Clone, Default)]
pub struct EProcess {
    pairs: u64,
    failures_a: u64,
    failures_b: u64,
    ln_e: f64,
    ln_e_max: f64,
    /// Outcomes of the side that is ahead, without a partner yet.
    waiting: VecDeque<bool>,
    waiting_are_b: bool,
}

impl EProcess {
    /// Creates a test without any evidence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a trial of the first variant.
    pub fn push_a(&mut self, failed: bool) {
        if let Some(other_failed) = self.take_partner(false, failed) {
            self.take_pair(failed, other_failed);
        }
    }

    /// Adds a trial of the second variant.
    pub fn push_b(&mut self, failed: bool) {
        if let Some(other_failed) = self.take_partner(true, failed) {
            self.take_pair(other_failed, failed);
        }
    }

    /// Returns the number of pairs; trials without a partner are not counted.
    pub fn pair_count(&self) -> u64 {
        self.pairs
    }

    /// Returns the logarithm of the present evidence. Below 0, the common rate explains the pairs better.
    pub fn ln_e(&self) -> f64 {
        self.ln_e
    }

    /// Returns the largest logarithm of the evidence so far, at least 0. Decisions use this value.
    pub fn ln_e_max(&self) -> f64 {
        self.ln_e_max
    }

    /// Returns the failures of the first and of the second variant within the pairs.
    pub fn failure_counts(&self) -> (u64, u64) {
        (self.failures_a, self.failures_b)
    }

    /// Returns the oldest outcome of the other side without a partner, or queues this one.
    fn take_partner(&mut self, is_b: bool, failed: bool) -> Option<bool> {
        if !self.waiting.is_empty() && self.waiting_are_b != is_b {
            return self.waiting.pop_front();
        }
        self.waiting_are_b = is_b;
        self.waiting.push_back(failed);
        None
    }

    fn take_pair(&mut self, a_failed: bool, b_failed: bool) {
        let runs = real(self.pairs) + 2.0 * BEGINNING;
        let (a, b) = (real(self.failures_a), real(self.failures_b));
        // The estimates are common + half and common - half.
        let half = (a - b) / runs / 2.0;
        let common = (BEGINNING + f64::midpoint(a, b)) / runs;
        let (to_fail, to_pass) = (half / common, half / (1.0 - common));
        // This form keeps its precision if the estimates nearly agree.
        self.ln_e += match (a_failed, b_failed) {
            (true, true) => (-to_fail * to_fail).ln_1p(),
            (false, false) => (-to_pass * to_pass).ln_1p(),
            (true, false) => to_fail.ln_1p() + to_pass.ln_1p(),
            (false, true) => (-to_fail).ln_1p() + (-to_pass).ln_1p(),
        };
        self.ln_e_max = self.ln_e_max.max(self.ln_e);
        self.pairs += 1;
        self.failures_a += u64::from(a_failed);
        self.failures_b += u64::from(b_failed);
    }
}

/// Evidence that a variant differs from the reference in some of several strata.
///
/// A stratum is a condition under which both were run: a test, a machine, a setting. The failure rates of the strata
/// may differ by any amount; pairs are only taken within one stratum. The evidence of the strata is multiplied, which
/// is valid because the value of each pair is at most 1 on average whatever the others were.
///
/// Each stratum learns its rates separately, so a few large strata find more than many small ones.
///
/// If several variants are compared with one reference, each has its own contrast, all may use the same trials of the
/// reference, and a variant is reported as different at E >= (number of variants)/alpha.
#[derive(Debug, Clone, Default)]
pub struct Contrast {
    strata: Vec<EProcess>,
    ln_e: f64,
    ln_e_max: f64,
}

impl Contrast {
    /// Creates a contrast without any evidence.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a trial of the reference. Strata are numbered from 0 and are created when first used.
    pub fn push_reference(&mut self, stratum: usize, failed: bool) {
        self.push_to_stratum(stratum, |process| process.push_a(failed));
    }

    /// Adds a trial of the variant that is compared with the reference.
    pub fn push_other(&mut self, stratum: usize, failed: bool) {
        self.push_to_stratum(stratum, |process| process.push_b(failed));
    }

    /// Returns the number of pairs taken in all strata.
    pub fn pair_count(&self) -> u64 {
        self.strata.iter().map(EProcess::pair_count).sum()
    }

    /// Returns the logarithm of the present evidence of all strata together.
    pub fn ln_e(&self) -> f64 {
        self.ln_e
    }

    /// Returns the largest value of that logarithm so far, at least 0. Decisions use this value. It is the largest sum,
    /// not the sum of the largest values.
    pub fn ln_e_max(&self) -> f64 {
        self.ln_e_max
    }

    /// Returns the failures of the reference and of the other within the pairs of all strata.
    pub fn failure_counts(&self) -> (u64, u64) {
        self.strata
            .iter()
            .map(EProcess::failure_counts)
            .fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
    }

    /// Returns the evidence of each stratum.
    pub fn strata(&self) -> &[EProcess] {
        &self.strata
    }

    fn push_to_stratum(&mut self, stratum: usize, push: impl FnOnce(&mut EProcess)) {
        if self.strata.len() <= stratum {
            self.strata.resize_with(stratum + 1, EProcess::default);
        }
        let process = &mut self.strata[stratum];
        let ln_before = process.ln_e();
        push(process);
        self.ln_e += process.ln_e() - ln_before;
        self.ln_e_max = self.ln_e_max.max(self.ln_e);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-12, "{left} is not {right}");
    }

    /// Deterministic outcomes that look random.
    fn outcomes(n: u64, every: u64, salt: u64) -> impl Iterator<Item = bool> {
        (0..n).map(move |i| {
            let mixed = (i + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed >> 33).is_multiple_of(every)
        })
    }

    /// Computes the evidence as the module's documentation describes it: one logarithm for each predicted outcome.
    fn as_described(a: &[bool], b: &[bool]) -> f64 {
        let likely = |failed: bool, rate: f64| if failed { rate } else { 1.0 - rate }.ln();
        let (mut ln_e, mut failures, mut pairs) = (0.0, (0.0, 0.0), 0.0);
        for (&x, &y) in a.iter().zip(b) {
            let guess = |failures: f64| (0.18 + failures) / (0.36 + pairs);
            let (rate_a, rate_b) = (guess(failures.0), guess(failures.1));
            let common = f64::midpoint(rate_a, rate_b);
            ln_e += likely(x, rate_a) + likely(y, rate_b) - likely(x, common) - likely(y, common);
            failures.0 += f64::from(u8::from(x));
            failures.1 += f64::from(u8::from(y));
            pairs += 1.0;
        }
        ln_e
    }

    #[test]
    fn the_evidence_equals_the_documented_formula() {
        for (every_a, every_b) in [(2, 2), (2, 9), (1, 50), (7, 1)] {
            let a: Vec<bool> = outcomes(200, every_a, 1).collect();
            let b: Vec<bool> = outcomes(200, every_b, 77).collect();
            let mut process = EProcess::new();
            for (&x, &y) in a.iter().zip(&b) {
                process.push_a(x);
                process.push_b(y);
            }
            assert_close(process.ln_e(), as_described(&a, &b));
        }
    }

    #[test]
    fn the_evidence_does_not_depend_on_which_side_arrives_first() {
        let a: Vec<bool> = outcomes(60, 3, 5).collect();
        let b: Vec<bool> = outcomes(60, 8, 6).collect();
        let (mut even, mut bursts, mut one_side_first) =
            (EProcess::new(), EProcess::new(), EProcess::new());
        for (&x, &y) in a.iter().zip(&b) {
            even.push_b(y);
            even.push_a(x);
        }
        for (x, y) in a.chunks(7).zip(b.chunks(7)) {
            for &x in x {
                bursts.push_a(x);
            }
            for &y in y {
                bursts.push_b(y);
            }
        }
        for &y in &b {
            one_side_first.push_b(y);
        }
        assert_eq!(one_side_first.pair_count(), 0);
        for &x in &a {
            one_side_first.push_a(x);
        }
        for other in [bursts, one_side_first] {
            assert_eq!(even.pair_count(), other.pair_count());
            assert_eq!(even.failure_counts(), other.failure_counts());
            assert_close(even.ln_e(), other.ln_e());
            assert_close(even.ln_e_max(), other.ln_e_max());
        }
    }

    #[test]
    fn a_trial_without_a_partner_is_not_evidence() {
        let mut process = EProcess::new();
        for _ in 0..1000 {
            process.push_a(true);
        }
        assert_eq!(
            (process.pair_count(), process.failure_counts()),
            (0, (0, 0))
        );
        assert!(process.ln_e_max() <= 0.0);
    }

    #[test]
    fn the_evidence_of_a_million_pairs_is_precise() {
        let mut process = EProcess::new();
        for (x, y) in outcomes(1_000_000, 100, 3).zip(outcomes(1_000_000, 100, 4_000_000)) {
            process.push_a(x);
            process.push_b(y);
        }
        // Estimating two rates instead of one costs about half the logarithm of the pairs.
        assert!(process.ln_e().is_finite());
        assert!((-12.0..3.0).contains(&process.ln_e()), "{process:?}");

        let mut all_and_none = EProcess::new();
        for _ in 0..1_000_000 {
            all_and_none.push_a(true);
            all_and_none.push_b(false);
        }
        let per_pair = all_and_none.ln_e() / 1e6;
        assert!((per_pair - 4.0_f64.ln()).abs() < 1e-4, "{per_pair}");
        // The worst case: agreement after a long disagreement.
        all_and_none.push_a(false);
        all_and_none.push_b(false);
        assert!(all_and_none.ln_e().is_finite());
        assert!(all_and_none.ln_e() < all_and_none.ln_e_max());
    }

    #[test]
    fn strata_are_added_and_the_largest_sum_is_kept() {
        let mut contrast = Contrast::new();
        let mut alone = [EProcess::new(), EProcess::new()];
        let mut largest = 0.0_f64;
        for (i, (x, y)) in outcomes(100, 2, 9).zip(outcomes(100, 6, 10)).enumerate() {
            let stratum = (i / 3) % 2;
            contrast.push_reference(stratum, x);
            contrast.push_other(stratum, y);
            alone[stratum].push_a(x);
            alone[stratum].push_b(y);
            largest = largest.max(alone[0].ln_e() + alone[1].ln_e());
        }
        assert_eq!(contrast.pair_count(), 100);
        assert_close(contrast.ln_e(), alone[0].ln_e() + alone[1].ln_e());
        assert_close(contrast.ln_e_max(), largest);
        assert!(contrast.ln_e_max() < alone[0].ln_e_max() + alone[1].ln_e_max());
        assert_eq!(contrast.strata().len(), 2);
        assert_eq!(
            contrast.failure_counts().0,
            alone[0].failure_counts().0 + alone[1].failure_counts().0
        );
    }

    #[test]
    fn one_stratum_equals_the_plain_comparison() {
        let (mut contrast, mut plain) = (Contrast::new(), EProcess::new());
        for (x, y) in outcomes(50, 3, 2).zip(outcomes(50, 7, 8)) {
            contrast.push_other(0, y);
            contrast.push_reference(0, x);
            plain.push_a(x);
            plain.push_b(y);
        }
        assert_close(contrast.ln_e(), plain.ln_e());
        assert_close(contrast.ln_e_max(), plain.ln_e_max());
        assert_eq!(contrast.failure_counts(), plain.failure_counts());
    }
}
