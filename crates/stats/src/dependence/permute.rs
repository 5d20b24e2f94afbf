//! Estimates the p-value by random permutations of the failures.

use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::is_at_least_as_uneven;
use crate::convert::real;

/// Maximum number of draws: the smallest possible p-value is 1/2001.
pub(super) const DRAWS: u32 = 2000;

/// Number of draws at least as uneven as the observed distribution after which drawing stops (Besag and Clifford's
/// rule). It is reached early if the p-value is large; 50 give it a relative error of a seventh.
pub(super) const HITS: u32 = 50;

/// Maximum number of failures (or passes, if they are fewer) for permutation. Above it, a draw costs too much and the
/// approximation is as good.
const MAX_DEALT: u64 = 20_000;

/// Maximum number of batches; each takes four bytes.
const MAX_BATCHES: u64 = 5_000_000;

/// A fixed seed, so that the answer is the same on every machine.
pub(super) const SEED: u64 = 0x70_72_6f_76_6f_6b_65;

/// An urn that holds one ball for each run, numbered batch after batch.
pub(super) struct Urn {
    groups: Vec<EqualBatches>,
    runs: u64,
    dealt: u64,
    /// Difference between the square sum of the failures and that of the distributed outcomes.
    offset: f64,
}

/// Batches of equal size.
struct EqualBatches {
    size: u64,
    first_batch: usize,
    first_run: u64,
}

impl Urn {
    /// Fills the urn, or returns `None` if the counts are too large.
    pub(super) fn new(sizes: &[(u64, u64)], failures: u64) -> Option<Self> {
        let runs: u64 = sizes.iter().map(|(size, count)| size * count).sum();
        let batches: u64 = sizes.iter().map(|(_, count)| count).sum();
        let passes = runs - failures;
        let dealt = failures.min(passes);
        if dealt > MAX_DEALT || batches > MAX_BATCHES {
            return None;
        }
        let mut groups = Vec::with_capacity(sizes.len());
        let (mut first_batch, mut first_run) = (0, 0);
        for &(size, count) in sizes {
            groups.push(EqualBatches {
                size,
                first_batch,
                first_run,
            });
            first_batch += usize::try_from(count).ok()?;
            first_run += size * count;
        }
        // (n-g)^2/n = n - 2g + g^2/n for g passes among n runs.
        let offset = if dealt == failures {
            0.0
        } else {
            real(runs) - 2.0 * real(passes)
        };
        Some(Self {
            groups,
            runs,
            dealt,
            offset,
        })
    }

    /// Returns the p-value of a square sum of failures, and the number of draws.
    pub(super) fn p_value(&self, observed: f64) -> (f64, u32) {
        let centred = observed - self.offset;
        let mut rng = Pcg64Mcg::seed_from_u64(SEED);
        let mut dealt = vec![0_u32; self.batch_count()];
        let mut hits = 0;
        for draw in 1..=DRAWS {
            if is_at_least_as_uneven(self.deal_out(&mut rng, &mut dealt), centred) {
                hits += 1;
            }
            if hits == HITS {
                return (f64::from(hits) / f64::from(draw), draw);
            }
        }
        (f64::from(hits + 1) / f64::from(DRAWS + 1), DRAWS)
    }

    /// Draws a distribution and returns its square sum.
    fn deal_out(&self, rng: &mut Pcg64Mcg, dealt: &mut [u32]) -> f64 {
        dealt.fill(0);
        let mut square_sum = 0.0;
        let mut remaining = self.dealt;
        while remaining > 0 {
            let run = random_below(rng, self.runs);
            let group = &self.groups[self.groups.partition_point(|g| g.first_run <= run) - 1];
            let within = run - group.first_run;
            let batch = group.first_batch
                + usize::try_from(within / group.size)
                    .expect("an index that was made from a usize");
            let already = u64::from(dealt[batch]);
            // All runs of a batch are equal, so the drawn ones may be its first ones.
            if within % group.size >= already {
                dealt[batch] += 1;
                remaining -= 1;
                square_sum += real(2 * already + 1) / real(group.size);
            }
        }
        square_sum
    }

    fn batch_count(&self) -> usize {
        self.groups.last().map_or(0, |group| {
            let runs = self.runs - group.first_run;
            group.first_batch + usize::try_from(runs / group.size).unwrap_or(0)
        })
    }
}

/// Returns a random number below `limit`, by the high half of a product; its bias is below
/// `limit` in 2^64.
pub(super) fn random_below(rng: &mut Pcg64Mcg, limit: u64) -> u64 {
    let product = u128::from(rng.next_u64()) * u128::from(limit);
    u64::try_from(product >> 64).expect("the high half of 128 bits has 64")
}
