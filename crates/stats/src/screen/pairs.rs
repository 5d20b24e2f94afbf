//! Tests a condition, or several together, in fresh pairs with the reference.
//!
//! A pair with an inconclusive trial is dropped as a whole: under a harmless condition both trials are equally likely
//! to be the inconclusive one, so the remaining pairs are still fair.

use super::bet::pair_wealth;
use super::condition::Outcome;
use super::counts::Counts;
use crate::convert::real;

/// A test is given up after this many pairs if no pair was discordant.
const CONCORDANT: u64 = 7;
/// Number of pairs before which the lead is not judged.
const EARLIEST: u64 = 6;
/// The lead in discordant pairs that an effect worth finding has: this much per pair, less the allowance.
const LEAD_PER_PAIR: f64 = 0.15;
const ALLOWANCE: f64 = 2.0;
/// A test is given up if this many more pairs were dropped than counted.
const DROPPED: u64 = 4;

/// The direction of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The condition makes failures more frequent.
    Raises,
    /// The condition makes failures less frequent.
    Removes,
}

impl Direction {
    /// Returns the direction of evidence, which is negative if failures are less frequent.
    pub(super) fn of_evidence(evidence: f64) -> Self {
        if evidence > 0.0 {
            Self::Raises
        } else {
            Self::Removes
        }
    }
}

/// The state of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairTestState {
    /// It needs more pairs.
    Open,
    /// The wealth reached the needed one.
    Claimed,
    /// It was given up.
    Futile,
}

/// A test of a condition, or of several together, in one direction, which was chosen before its first pair.
#[derive(Debug, Clone)]
pub struct PairTest {
    /// The tested conditions, which are several if they are only needed together.
    pub conditions: Vec<usize>,
    /// The direction of the bet.
    pub direction: Direction,
    /// Trials under the condition, of counted pairs.
    pub with: Counts,
    /// Trials of the reference, of counted pairs.
    pub without: Counts,
    /// Pairs with an inconclusive trial.
    pub dropped_pairs: u64,
    /// The present wealth of the bet, or the wealth at the claim.
    pub wealth: f64,
    /// The wealth at which the effect is claimed.
    pub needed_wealth: f64,
    /// The present state.
    pub state: PairTestState,
    wins: u64,
    losses: u64,
}

impl PairTest {
    pub(super) fn new(conditions: Vec<usize>, direction: Direction, level: f64) -> Self {
        Self {
            conditions,
            direction,
            with: Counts::default(),
            without: Counts::default(),
            dropped_pairs: 0,
            wealth: 1.0,
            needed_wealth: level.recip(),
            state: PairTestState::Open,
            wins: 0,
            losses: 0,
        }
    }

    /// Adds a pair, unless the test is decided.
    pub(super) fn push_pair(&mut self, with: Outcome, without: Outcome) {
        if self.state != PairTestState::Open {
            return;
        }
        if with == Outcome::NotCounted || without == Outcome::NotCounted {
            self.dropped_pairs += 1;
        } else {
            self.with.add(with);
            self.without.add(without);
            if with != without {
                let is_raised = with == Outcome::Failed;
                let is_win = is_raised == (self.direction == Direction::Raises);
                self.wins += u64::from(is_win);
                self.losses += u64::from(!is_win);
            }
            self.wealth = pair_wealth(self.wins, self.losses);
        }
    }

    /// Decides the test by its evidence, which is its wealth if no other test runs in the same pairs.
    pub(super) fn decide(&mut self, evidence: f64) {
        if self.state == PairTestState::Open {
            self.state = self.state_with(evidence);
        }
    }

    fn state_with(&self, evidence: f64) -> PairTestState {
        let pairs = self.with.trials;
        let lead = real(self.wins) - real(self.losses);
        let is_behind = pairs >= EARLIEST && lead < LEAD_PER_PAIR * real(pairs) - ALLOWANCE;
        let is_concordant = pairs >= CONCORDANT && self.wins + self.losses == 0;
        if evidence >= self.needed_wealth {
            PairTestState::Claimed
        } else if is_behind || is_concordant || self.dropped_pairs >= pairs + DROPPED {
            PairTestState::Futile
        } else {
            PairTestState::Open
        }
    }
}
