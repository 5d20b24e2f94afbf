//! Finds the conditions under which a program fails more often, or less often.
//!
//! | trials | purpose |
//! | --- | --- |
//! | three plain trials | do they always pass, always fail, or neither? |
//! | each condition once, a plain trial after every five | candidates |
//! | each seed twice, if plain trials differ | does the seed fix the outcome? |
//! | random halves of the families, if plain trials differ or nothing was found | candidates |
//! | fresh pairs of a candidate and its reference, in random order; a single seed may be a candidate | the claim |
//! | three trials a step of the ladder of a claimed condition | the dose |
//!
//! Only fresh pairs and seed tests lead to claims, so candidates may be chosen in any way. If plain trials differ, the
//! single conditions are left out, because one trial of each shows little; only the harsh ones are tried, which are
//! never combined. If they do not differ, and nothing was found, each harsh condition is tried up to two times more between
//! the halves. The first round and the halves thus never use up the error.
//!
//! The choice of trials follows from the outcomes and the seed alone. Trials are chosen in blocks, so their outcomes may
//! come in any order.

mod batch;
mod bet;
mod block;
mod condition;
mod counts;
mod dose;
mod evidence;
mod halves;
mod joint;
mod levels;
mod pairs;
mod plan;
mod result;
mod schedule;
mod seeds;
mod suite;

pub use bet::pair_wealth;
pub use condition::{Condition, ConditionRole, Limits, Next, Outcome};
pub use counts::Counts;
pub use dose::Dose;
pub use joint::TRIALS_WITHOUT;
pub use pairs::{Direction, PairTest, PairTestState};
pub use result::{ConditionResult, ConditionVerdict, ScreenPhase};
pub use seeds::{SeedOutcomes, SeedTest};
pub use suite::{SuiteScreen, TestResult};

use block::Block;
use dose::DoseSearch;
use evidence::Evidence;
use joint::JointSearch;
use levels::Levels;
use schedule::Schedule;

/// A search for the conditions under which a program fails.
#[derive(Debug, Clone)]
pub struct Screen {
    schedule: Schedule<Outcome>,
    levels: Levels,
    evidence: Evidence,
    /// Number of trials of halves at the last claim.
    halves_at_claim: usize,
    is_repeat_over: bool,
    joint_searches: Vec<JointSearch>,
    tests: Vec<PairTest>,
    seed_tests: Vec<SeedTest>,
    doses: Vec<DoseSearch>,
}

impl Screen {
    /// Creates a screen whose claims are all correct with a probability of `1 - alpha`.
    pub fn new(conditions: Vec<Condition>, alpha: f64, limits: Limits, seed: u64) -> Self {
        Self {
            evidence: Evidence::new(conditions.len()),
            schedule: Schedule::new(conditions, limits, seed),
            levels: Levels::new(alpha),
            halves_at_claim: 0,
            is_repeat_over: false,
            joint_searches: Vec::new(),
            tests: Vec::new(),
            seed_tests: Vec::new(),
            doses: Vec::new(),
        }
    }

    /// Returns the next trial, given the conditions of the running ones.
    pub fn next(&self, running: &[Vec<usize>]) -> Next {
        self.schedule.next(running)
    }

    /// Adds the outcome of a trial; a trial that the screen did not choose is ignored.
    pub fn record(&mut self, set: &[usize], outcome: Outcome) {
        if let Some(block) = self.schedule.record(set, outcome) {
            self.learn_from(block);
            let planned = self.plan_block();
            self.schedule.begin_block(planned);
        }
    }

    /// Adds the outcomes of a block to the results of its phase.
    fn learn_from(&mut self, block: Block<Outcome>) {
        match &self.schedule.phase {
            ScreenPhase::Plain | ScreenPhase::Round => {
                for (set, outcome) in block.into_ended() {
                    self.evidence.count_single(&set, outcome);
                }
            }
            ScreenPhase::Seeds(_) => self.learn_from_seeds(block),
            ScreenPhase::Halves => {
                for (set, outcome) in block.into_ended() {
                    self.evidence
                        .halves
                        .record(set, outcome, &self.schedule.conditions);
                }
            }
            ScreenPhase::Joint => {
                let trials: Vec<(Vec<usize>, Outcome)> = block.into_ended().collect();
                for (set, outcome) in trials.iter().filter(|(set, _)| set.len() <= 1) {
                    self.evidence.count_single(set, *outcome);
                }
                let outcomes: Vec<Outcome> = trials.iter().map(|(_, outcome)| *outcome).collect();
                let search = self.joint_searches.last_mut();
                let needed = search.and_then(|search| search.learn(&outcomes));
                let needed = needed.unwrap_or_default().to_vec();
                if needed.len() > 1 || needed.first().is_some_and(|one| self.is_open(*one)) {
                    let (_, direction) = self.evidence.unusual_outcome();
                    self.begin_test(needed, direction);
                }
            }
            ScreenPhase::Pairs(_) => self.learn_from_pairs(block),
            ScreenPhase::Dose(_) => {
                let outcomes: Vec<Outcome> = block.into_ended().map(|(_, o)| o).collect();
                if let Some(search) = self.doses.last_mut() {
                    search.record_step(&outcomes);
                }
            }
            ScreenPhase::Over => {}
        }
    }

    fn learn_from_seeds(&mut self, block: Block<Outcome>) {
        let Some(test) = self.seed_tests.last_mut() else {
            return;
        };
        for (set, outcome) in block.into_ended() {
            for condition in set {
                test.record(condition, outcome);
            }
        }
        test.decide();
        if test.is_over() && !test.is_claimed() {
            self.levels.spend(test.level);
        }
    }

    fn learn_from_pairs(&mut self, block: Block<Outcome>) {
        let Some(test) = self.tests.last_mut() else {
            return;
        };
        let trials: Vec<_> = block.into_ended().collect();
        for pair in trials.chunks_exact(2) {
            let is_first = pair[0].0 == test.conditions;
            let (with, without) = if is_first { (0, 1) } else { (1, 0) };
            test.push_pair(pair[with].1, pair[without].1);
            test.decide(test.wealth);
            let (set, outcome) = &pair[without];
            if set.len() <= 1 {
                self.evidence.count_single(set, *outcome);
            }
        }
        match test.state {
            PairTestState::Open => {}
            PairTestState::Futile => self.levels.spend(test.needed_wealth.recip()),
            PairTestState::Claimed => {
                self.halves_at_claim = self.evidence.halves.count();
                let tests = self.tests.iter();
                let claimed = tests.filter(|test| test.state == PairTestState::Claimed);
                let claimed: Vec<&[usize]> = claimed.map(|test| &*test.conditions).collect();
                self.evidence
                    .halves
                    .leave_out(&claimed, &self.schedule.conditions);
                self.begin_dose();
            }
        }
    }

    /// Returns the present phase.
    pub fn phase(&self) -> &ScreenPhase {
        &self.schedule.phase
    }

    /// Returns the counts of plain trials, those of pairs included.
    pub fn plain_counts(&self) -> Counts {
        self.evidence.plain
    }

    /// Returns the counts of trials under several conditions at once, without those under a confirmed condition.
    pub fn halves_counts(&self) -> Counts {
        self.evidence.halves.counts()
    }

    /// Returns the tests in pairs, in their order; only the last one may be open.
    pub fn pair_tests(&self) -> &[PairTest] {
        &self.tests
    }

    /// Returns the tests of seeds.
    pub fn seed_tests(&self) -> &[SeedTest] {
        &self.seed_tests
    }

    /// Returns the claimed tests, in their order.
    pub fn claims(&self) -> impl Iterator<Item = &PairTest> {
        let tests = self.tests.iter();
        tests.filter(|test| test.state == PairTestState::Claimed)
    }

    /// Returns the conditions with a claim about them alone.
    pub fn claimed_conditions(&self) -> Vec<usize> {
        let single = |test: &PairTest| <[usize; 1]>::try_from(&*test.conditions).ok();
        self.claims().filter_map(single).flatten().collect()
    }

    /// Returns the claim about conditions that are only needed together.
    pub fn joint_claim(&self) -> Option<&PairTest> {
        self.claims().find(|test| test.conditions.len() > 1)
    }

    fn has_claim(&self) -> bool {
        self.claims().next().is_some()
    }

    /// Returns the result of a condition.
    pub fn result_of(&self, condition: usize) -> ConditionResult {
        let pairs = self
            .tests
            .iter()
            .find(|test| test.conditions == [condition]);
        let dose = self.doses.iter().find(|dose| dose.condition == condition);
        let singles = self.evidence.singles[condition];
        let halves = self
            .evidence
            .halves
            .whole_contrast(condition, &self.schedule.conditions);
        ConditionResult {
            verdict: ConditionVerdict::new(pairs, singles.trials + halves[0].trials > 0),
            singles,
            halves,
            pairs: pairs.cloned(),
            dose: dose.map(DoseSearch::dose),
        }
    }
}
