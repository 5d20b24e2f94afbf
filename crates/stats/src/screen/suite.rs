//! Finds the conditions under which the tests of a suite fail, all in the same trials.
//!
//! Each trial runs the whole suite, so it is a trial of each test. The trials are those of a [`super::Screen`]: plain ones,
//! each condition once, seeds, random halves, and fresh pairs of a condition and its reference. They differ in that
//!
//! * each condition is tried once even if some tests fail sometimes, because others do not;
//! * conditions under which a test ended otherwise run once more before pairs, because among many tests some fail by chance;
//! * the pairs of a condition are those of all tests that it may matter for ([`super::batch`]);
//! * no ladder is searched: each test may have another limit.
//!
//! The level is divided among the pairs of conditions as in a screen. So at most alpha of the suites have a wrong claim
//! about any of their tests, and a test that never failed costs nothing.

use super::batch::Batch;
use super::block::Block;
use super::condition::{Condition, ConditionRole, Limits, Next, Outcome};
use super::counts::Counts;
use super::evidence::Evidence;
use super::levels::Levels;
use super::pairs::{Direction, PairTest, PairTestState};
use super::plan::{CANDIDATE_CONSTANT, HALVES_CONSTANT, HALVES_MIXED, candidate_threshold};
use super::result::{ConditionVerdict, ScreenPhase};
use super::schedule::{PlannedBlock, Schedule, plan_singles};
use super::seeds::SeedTest;
use std::collections::{BTreeMap, BTreeSet};

/// Evidence for a candidate if plain trials do not differ: two trials under the condition that ended otherwise.
const CANDIDATE_REPEATED: f64 = 2.5;

/// A search for the conditions under which the tests of a suite fail.
#[derive(Debug, Clone)]
pub struct SuiteScreen {
    schedule: Schedule<Vec<Outcome>>,
    levels: Levels,
    /// The trials before and between pairs.
    ended: Vec<SuiteTrial>,
    /// The tests that failed, with their trials.
    evidence: BTreeMap<usize, Evidence>,
    is_repeat_over: bool,
    batches: Vec<Batch>,
    /// The tests of the suite whose seeds are tested, by family.
    seed_tests: Vec<Vec<(usize, SeedTest)>>,
}

/// A trial of all tests.
#[derive(Debug, Clone)]
struct SuiteTrial {
    is_half: bool,
    set: Vec<usize>,
    /// The outcome of each test; tests at the end without an outcome were not counted.
    outcomes: Vec<Outcome>,
}

/// The result of a condition and a test.
#[derive(Debug, Clone)]
pub struct TestResult {
    /// The verdict.
    pub verdict: ConditionVerdict,
    /// Trials of the test under this condition before the pairs: alone, and with others.
    pub tried: Counts,
    /// The pairs.
    pub pairs: Option<PairTest>,
}

impl SuiteTrial {
    fn outcome_of(&self, test: usize) -> Outcome {
        outcome_of(&self.outcomes, test)
    }

    fn add_to(&self, evidence: &mut Evidence, test: usize, conditions: &[Condition]) {
        let outcome = self.outcome_of(test);
        if self.is_half {
            evidence
                .halves
                .record(self.set.clone(), outcome, conditions);
        } else {
            evidence.count_single(&self.set, outcome);
        }
    }

    fn is_counted(&self) -> bool {
        self.outcomes
            .iter()
            .any(|outcome| *outcome != Outcome::NotCounted)
    }
}

fn outcome_of(outcomes: &[Outcome], test: usize) -> Outcome {
    outcomes.get(test).copied().unwrap_or(Outcome::NotCounted)
}

impl SuiteScreen {
    /// Creates a screen whose claims about all tests are correct with a probability of `1 - alpha`.
    pub fn new(conditions: Vec<Condition>, alpha: f64, limits: Limits, seed: u64) -> Self {
        Self {
            schedule: Schedule::new(conditions, limits, seed),
            levels: Levels::new(alpha),
            ended: Vec::new(),
            evidence: BTreeMap::new(),
            is_repeat_over: false,
            batches: Vec::new(),
            seed_tests: Vec::new(),
        }
    }

    /// Returns the next trial, given the conditions of the running ones.
    pub fn next(&self, running: &[Vec<usize>]) -> Next {
        self.schedule.next(running)
    }

    /// Adds the outcomes of all tests of a trial; a trial that the screen did not choose is ignored.
    pub fn record(&mut self, set: &[usize], outcomes: Vec<Outcome>) {
        if let Some(block) = self.schedule.record(set, outcomes) {
            self.learn_from(block);
            let planned = self.plan_block();
            self.schedule.begin_block(planned);
        }
    }

    /// Adds the outcomes of a block to the results of its phase.
    fn learn_from(&mut self, block: Block<Vec<Outcome>>) {
        let trials: Vec<(Vec<usize>, Vec<Outcome>)> = block.into_ended().collect();
        let is_half = self.schedule.phase == ScreenPhase::Halves;
        match self.schedule.phase {
            ScreenPhase::Seeds(_) => self.learn_from_seeds(&trials),
            ScreenPhase::Pairs(_) => self.learn_from_pairs(trials),
            _ => {
                for (set, outcomes) in trials {
                    self.add_trial(set, outcomes, is_half);
                }
            }
        }
    }

    /// Adds a trial to the evidence about the tests that ever failed.
    fn add_trial(&mut self, set: Vec<usize>, outcomes: Vec<Outcome>, is_half: bool) {
        let trial = SuiteTrial {
            is_half,
            set,
            outcomes,
        };
        for (test, evidence) in &mut self.evidence {
            trial.add_to(evidence, *test, &self.schedule.conditions);
        }
        let failed = (0..).zip(&trial.outcomes);
        let failed = failed.filter(|(_, outcome)| **outcome == Outcome::Failed);
        let failed: Vec<usize> = failed.map(|(test, _)| test).collect();
        self.ended.push(trial);
        for test in failed {
            self.evidence.entry(test).or_insert_with(|| {
                let mut evidence = Evidence::new(self.schedule.conditions.len());
                for trial in &self.ended {
                    trial.add_to(&mut evidence, test, &self.schedule.conditions);
                }
                evidence
            });
        }
    }

    fn learn_from_seeds(&mut self, trials: &[(Vec<usize>, Vec<Outcome>)]) {
        let Some(tests) = self.seed_tests.last_mut() else {
            return;
        };
        for (test, seeds) in &mut *tests {
            for (set, outcomes) in trials {
                for condition in set {
                    seeds.record(*condition, outcome_of(outcomes, *test));
                }
            }
            seeds.decide();
        }
        let level: f64 = tests.iter().map(|(_, seeds)| seeds.level).sum();
        let is_over = tests.iter().all(|(_, seeds)| seeds.is_over());
        if is_over && !tests.iter().all(|(_, seeds)| seeds.is_claimed()) {
            self.levels.spend(level);
        }
    }

    fn learn_from_pairs(&mut self, trials: Vec<(Vec<usize>, Vec<Outcome>)>) {
        let Some(mut batch) = self.batches.pop() else {
            return;
        };
        let mut trials = trials.into_iter();
        while let (Some(first), Some(second)) = (trials.next(), trials.next()) {
            let (with, without) = if first.0 == [batch.condition] {
                (first, second)
            } else {
                (second, first)
            };
            batch
                .push_pair(|test| [&with.1, &without.1].map(|outcomes| outcome_of(outcomes, test)));
            self.add_trial(without.0, without.1, false);
        }
        let is_open = batch.is_open();
        // A level is returned only if a claim about a test for which the condition is harmless would be among the claims.
        if !is_open && batch.count_of(PairTestState::Futile) > 0 {
            self.levels.spend(batch.level);
        }
        let tests: Vec<usize> = batch.tests.iter().map(|(test, _)| *test).collect();
        self.batches.push(batch);
        if !is_open {
            for test in tests {
                let claimed = self.claims_of(test);
                let claimed: Vec<&[usize]> = claimed.chunks(1).collect();
                if let Some(evidence) = self.evidence.get_mut(&test) {
                    evidence
                        .halves
                        .leave_out(&claimed, &self.schedule.conditions);
                }
            }
        }
    }

    fn plan_block(&mut self) -> PlannedBlock {
        let planned = if !self.has_plain_tests() || self.schedule.remaining_trials() < 2 {
            None
        } else {
            self.plan_pairs()
                .or_else(|| self.schedule.plan_round(|_| true))
                .or_else(|| self.plan_repetition())
                .or_else(|| self.plan_seeds())
                .or_else(|| self.plan_batch())
                .or_else(|| self.plan_halves())
        };
        planned.unwrap_or((ScreenPhase::Over, Vec::new()))
    }

    /// Returns pairs of the open batch.
    fn plan_pairs(&self) -> Option<PlannedBlock> {
        let batch = self.batches.last()?;
        if !batch.is_open() {
            return None;
        }
        Some(self.schedule.plan_pairs(&[batch.condition]))
    }

    /// Returns the conditions under which tests ended otherwise that always ended alike without them.
    fn plan_repetition(&mut self) -> Option<PlannedBlock> {
        if self.is_repeat_over {
            return None;
        }
        self.is_repeat_over = true;
        let constant = self.evidence.iter().filter(|(_, e)| !e.plain.is_mixed());
        let different: BTreeSet<usize> = constant
            .flat_map(|(&test, evidence)| {
                let mut open = self.open_conditions(test);
                open.retain(|&condition| {
                    evidence
                        .of_condition(condition, &self.schedule.conditions)
                        .abs()
                        >= CANDIDATE_CONSTANT
                });
                open
            })
            .collect();
        plan_singles(&different.into_iter().collect::<Vec<_>>())
    }

    /// Returns the trials of the seed tests of all tests whose plain trials differ.
    fn plan_seeds(&mut self) -> Option<PlannedBlock> {
        let last = self.seed_tests.last();
        if last.is_none_or(|tests| tests.iter().all(|(_, seeds)| seeds.is_over())) {
            self.begin_seed_tests()?;
        }
        let mut tests = self.seed_tests.last()?.iter();
        let (_, open) = tests.find(|(_, seeds)| !seeds.is_over())?;
        let seeds = open.next_seeds(&mut self.schedule.random());
        let sets = seeds.into_iter().map(|seed| vec![seed]).collect();
        Some((ScreenPhase::Seeds(open.family), sets))
    }

    /// Begins the tests of the first family of seeds without them.
    fn begin_seed_tests(&mut self) -> Option<()> {
        let is_tested = |family| {
            let mut tested = self.seed_tests.iter().flatten();
            tested.any(|(_, test)| test.family == family)
        };
        let (family, seeds) = self.schedule.untested_seeds(is_tested)?;
        let mixed = self.unexplained_tests();
        if mixed.is_empty() {
            return None;
        }
        let level = self.levels.level_of_seeds() / crate::real(mixed.len() as u64);
        let tests = mixed
            .into_iter()
            .map(|test| (test, SeedTest::new(family, &seeds, level)));
        self.seed_tests.push(tests.collect());
        Some(())
    }

    /// Returns the tests whose plain trials differ, and for which nothing has been found.
    fn unexplained_tests(&self) -> Vec<usize> {
        let mixed = self.evidence.iter().filter(|(_, e)| e.plain.is_mixed());
        let unexplained = mixed.map(|(test, _)| *test).filter(|test| {
            let mut seeds = self.seed_claims();
            self.claims_of(*test).is_empty() && !seeds.any(|(other, _)| other == *test)
        });
        unexplained.collect()
    }

    /// Begins the pairs of the condition with the most evidence, for all tests that it may matter for.
    fn plan_batch(&mut self) -> Option<PlannedBlock> {
        let mut candidates: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (&test, evidence) in &self.evidence {
            let needed = if evidence.plain.is_mixed() {
                candidate_threshold(evidence)
            } else {
                CANDIDATE_REPEATED
            };
            for condition in self.open_conditions(test) {
                let measured = evidence.of_condition(condition, &self.schedule.conditions);
                if measured.abs() >= needed {
                    candidates
                        .entry(condition)
                        .or_default()
                        .push((test, measured));
                }
            }
        }
        for (test, seeds) in self.seed_tests.iter().flatten() {
            for (seed, evidence) in seeds.odd_seeds() {
                if self.claims_of(*test).is_empty() && self.find_pairs(*test, seed).is_none() {
                    candidates.entry(seed).or_default().push((*test, evidence));
                }
            }
        }
        let most = |tests: &[(usize, f64)]| tests.iter().map(|t| t.1.abs()).fold(0.0, f64::max);
        let best = candidates
            .into_iter()
            .max_by(|a, b| most(&a.1).total_cmp(&most(&b.1)).then(b.0.cmp(&a.0)))?;
        let (condition, tests) = best;
        let tests: Vec<(usize, Direction)> = tests
            .into_iter()
            .map(|(test, evidence)| (test, Direction::of_evidence(evidence)))
            .collect();
        let level = self.levels.level_of_pairs();
        self.batches.push(Batch::new(condition, &tests, level));
        self.plan_pairs()
    }

    /// Returns the conditions that may become candidates for a test: not tested for it, and of a family without a claim.
    fn open_conditions(&self, test: usize) -> Vec<usize> {
        let claimed = self.claims_of(test);
        let evidence = self.evidence.get(&test);
        let mut open = self.schedule.conditions_with(ConditionRole::Tried);
        open.retain(|&condition| {
            let family = self.schedule.conditions[condition].family;
            let is_claimed = claimed
                .iter()
                .any(|&other| self.schedule.conditions[other].family == family);
            let is_sham = evidence
                .is_some_and(|e| e.is_explained_by_sham(condition, &self.schedule.conditions));
            !is_claimed && !is_sham && self.find_pairs(test, condition).is_none()
        });
        open
    }

    /// Returns trials under random halves of the families, and harsh conditions between.
    fn plan_halves(&self) -> Option<PlannedBlock> {
        let is_mixed = !self.unexplained_tests().is_empty();
        let has_claim = self.claims().next().is_some() || self.seed_claims().next().is_some();
        let most = match (is_mixed, has_claim) {
            (true, _) => HALVES_MIXED,
            (false, false) => HALVES_CONSTANT,
            (false, true) => 0,
        };
        if self.ended.iter().filter(|trial| trial.is_half).count() >= most {
            return None;
        }
        let singles = |condition: usize| {
            let alone = self
                .ended
                .iter()
                .filter(move |t| !t.is_half && t.set == [condition]);
            alone.map(SuiteTrial::is_counted)
        };
        let mut usable = self.schedule.conditions_with(ConditionRole::Tried);
        usable.retain(|&condition| singles(condition).all(|is_counted| is_counted));
        let trials_alone = |condition: usize| singles(condition).count() as u64;
        let compare_promise = |a: &usize, b: &usize| trials_alone(*a).cmp(&trials_alone(*b));
        self.schedule
            .plan_halves(usable, is_mixed, trials_alone, compare_promise)
    }

    fn find_pairs(&self, test: usize, condition: usize) -> Option<&PairTest> {
        let batches = self
            .batches
            .iter()
            .filter(|batch| batch.condition == condition);
        let mut tests = batches.flat_map(|batch| &batch.tests);
        tests
            .find(|(other, _)| *other == test)
            .map(|(_, pairs)| pairs)
    }

    fn claims_of(&self, test: usize) -> Vec<usize> {
        let claims = self.claims().filter(|(other, ..)| *other == test);
        claims.map(|(_, condition, _)| condition).collect()
    }

    /// Returns the present phase.
    pub fn phase(&self) -> &ScreenPhase {
        &self.schedule.phase
    }

    /// Returns the tests that ever failed, with the counts of their plain trials, those of pairs included.
    pub fn failing_tests(&self) -> impl Iterator<Item = (usize, Counts)> {
        self.evidence
            .iter()
            .map(|(test, evidence)| (*test, evidence.plain))
    }

    /// Returns the claims: a test, a condition, and the pairs under it and without it, in the order in which they were tested.
    pub fn claims(&self) -> impl Iterator<Item = (usize, usize, &PairTest)> {
        self.batches.iter().flat_map(|batch| {
            let tests = batch.tests.iter();
            let claimed = tests.filter(|(_, pairs)| pairs.state == PairTestState::Claimed);
            claimed.map(|(test, pairs)| (*test, batch.condition, pairs))
        })
    }

    /// Returns the tests of the suite whose outcome depends on a seed.
    pub fn seed_claims(&self) -> impl Iterator<Item = (usize, &SeedTest)> {
        let tests = self.seed_tests.iter().flatten();
        tests
            .filter(|(_, seeds)| seeds.is_claimed())
            .map(|(test, seeds)| (*test, seeds))
    }

    /// Returns whether any test was counted in a plain trial.
    pub fn has_plain_tests(&self) -> bool {
        let mut plain = self.ended.iter().filter(|trial| trial.set.is_empty());
        plain.any(SuiteTrial::is_counted)
    }

    /// Returns whether a trial under this condition, which is not a sham, was counted before pairs.
    pub fn is_tried(&self, condition: usize) -> bool {
        let mut trials = self.ended.iter().filter(|trial| trial.is_counted());
        trials.any(|trial| trial.set.contains(&condition))
    }

    /// Returns what was found about a condition and a test.
    pub fn result_of(&self, test: usize, condition: usize) -> TestResult {
        let pairs = self.find_pairs(test, condition);
        let tried = self.evidence.get(&test).map(|evidence| {
            let [halves, _] = evidence
                .halves
                .whole_contrast(condition, &self.schedule.conditions);
            evidence.singles[condition].plus(halves)
        });
        let tried = tried.unwrap_or_default();
        TestResult {
            verdict: ConditionVerdict::new(pairs, tried.trials > 0),
            tried,
            pairs: pairs.cloned(),
        }
    }
}
