//! Bets on the discordant pairs of a test.
//!
//! In a pair whose order is random, a harmless condition leaves the two outcomes exchangeable. If one of them failed
//! and the other passed, each was equally likely to be the failing one, whatever the failure rate is. The bet is that
//! more than half of these pairs go one way. Its wealth reaches 1/level with a probability of at most `level`, however
//! often it is checked (Ville).

/// The assumed shares of pairs that go the expected way, and the weights of these hypotheses. Six pairs in a row suffice
/// for a level of 2.5 %.
const MIXTURE: [(f64, f64); 3] = [(1.0, 0.52), (0.85, 0.38), (0.7, 0.1)];

/// Returns the wealth after this many discordant pairs for the expected direction and against it.
pub fn pair_wealth(wins: u64, losses: u64) -> f64 {
    let [wins, losses] = [wins, losses].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    MIXTURE
        .iter()
        .map(|(share, weight)| {
            weight * (2.0 * share).powi(wins) * (2.0 * (1.0 - share)).powi(losses)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wins, losses and the wealth, computed with exact fractions.
    const GOLDEN: [(u64, u64, f64); 10] = [
        (0, 0, 1.0),
        (1, 0, 1.826),
        (0, 1, 0.174),
        (6, 0, 43.205_229_82),
        (7, 0, 83.207_004_614),
        (8, 0, 161.103_667_331_8),
        (10, 1, 24.717_858_394_974_6),
        (12, 2, 21.966_661_358_768_484),
        (20, 5, 44.035_156_350_853_83),
        (30, 12, 6.922_775_620_873_01),
    ];

    #[test]
    fn the_wealth_equals_the_exact_fractions() {
        // Sums of 52/100 * 2^a * 0^b, 38/100 * (17/10)^a * (3/10)^b and 10/100 * (7/5)^a * (3/5)^b, as exact fractions.
        for (wins, losses, exact) in GOLDEN {
            let wealth = pair_wealth(wins, losses);
            assert!(
                (wealth / exact - 1.0).abs() < 1e-12,
                "{wins}, {losses}: {wealth}"
            );
        }
    }

    #[test]
    fn the_bet_is_fair_if_both_ways_are_equally_likely() {
        for wins in 0..20 {
            for losses in 0..20 {
                let next =
                    f64::midpoint(pair_wealth(wins + 1, losses), pair_wealth(wins, losses + 1));
                let now = pair_wealth(wins, losses);
                assert!((next / now - 1.0).abs() < 1e-12, "{wins}, {losses}");
            }
        }
    }

    #[test]
    fn each_test_that_was_given_up_costs_one_pair_more() {
        for (pairs, needed) in [(6, 40.0), (7, 80.0), (8, 160.0)] {
            assert!(pair_wealth(pairs - 1, 0) < needed && pair_wealth(pairs, 0) >= needed);
        }
    }
}
