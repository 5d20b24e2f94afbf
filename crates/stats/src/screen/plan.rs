//! Chooses the trials of the next block.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::Screen;
use super::condition::{Condition, ConditionRole};
use super::dose::{DoseSearch, STEP_TRIALS};
use super::evidence::Evidence;
use super::joint::JointSearch;
use super::pairs::{Direction, PairTest, PairTestState};
use super::result::ScreenPhase;
use super::schedule::{PlannedBlock, plan_plain, plan_singles};
use super::seeds::SeedTest;
use crate::convert::real;

/// Number of plain trials after which they are assumed not to differ.
const MOST_PLAIN: u64 = 20;
/// If more families than this differ from plain trials, their conditions are tried again before a test.
const DIFFERENT_FAMILIES: usize = 3;
/// Maximum number of trials of halves: if plain trials differ, if they do not, and after a claim.
pub(super) const HALVES_MIXED: usize = 128;
pub(super) const HALVES_CONSTANT: usize = 64;
const HALVES_AFTER_CLAIM: usize = 32;
/// Evidence (twice the log-likelihood ratio, as a number of standard deviations) for a candidate: if plain trials do not
/// differ; if they do, at first, and after many halves.
pub(super) const CANDIDATE_CONSTANT: f64 = 1.9;
const CANDIDATE_EARLY: f64 = 3.4;
const CANDIDATE_LATE: f64 = 2.0;
/// Number of trials of halves after which the threshold is the late one.
const LATE: usize = 100;
/// Maximum number of trials of halves of which conditions are left out.
const JOINT_SEARCHES: usize = 3;
/// A ladder is searched if the outcome under the condition, and that of its reference, is as sure as this.
const SURE: f64 = 0.8;

/// Returns the evidence that makes a condition a candidate.
pub(super) fn candidate_threshold(evidence: &Evidence) -> f64 {
    if !evidence.plain.is_mixed() {
        return CANDIDATE_CONSTANT;
    }
    let share = (real(evidence.halves.count() as u64) / real(LATE as u64)).min(1.0);
    CANDIDATE_EARLY + share * (CANDIDATE_LATE - CANDIDATE_EARLY)
}

impl Screen {
    /// Returns the next block, of which the limit may cut the end; nothing runs any more.
    pub(super) fn plan_block(&mut self) -> PlannedBlock {
        let planned = if self.schedule.remaining_trials() < 2 {
            None
        } else if self.evidence.plain.trials == 0 {
            self.evidence.may_repeat_plain().then(plan_plain)
        } else {
            self.plan_pairs()
                .or_else(|| self.plan_dose())
                .or_else(|| self.plan_round())
                .or_else(|| self.plan_repetition())
                .or_else(|| self.plan_seeds())
                .or_else(|| self.plan_joint())
                .or_else(|| self.plan_test())
                .or_else(|| self.plan_halves())
                .or_else(|| self.plan_late_seeds())
        };
        planned.unwrap_or((ScreenPhase::Over, Vec::new()))
    }

    /// Returns pairs of the open test.
    fn plan_pairs(&self) -> Option<PlannedBlock> {
        let test = self.tests.last()?;
        if test.state != PairTestState::Open {
            return None;
        }
        Some(self.schedule.plan_pairs(&test.conditions))
    }

    /// Begins the search of the ladder of a condition that is claimed alone.
    pub(super) fn begin_dose(&mut self) {
        let Some(test) = self.tests.last() else {
            return;
        };
        let &[condition] = test.conditions.as_slice() else {
            return;
        };
        let (failing, passing) = match test.direction {
            Direction::Raises => (test.with, test.without),
            Direction::Removes => (test.without, test.with),
        };
        let steps = self
            .schedule
            .conditions_with(ConditionRole::Step { of: condition });
        if failing.rate() >= SURE && passing.rate() <= 1.0 - SURE && !steps.is_empty() {
            let search = DoseSearch::new(condition, test.direction, steps);
            self.doses.push(search);
        }
    }

    /// Returns the trials of the next step of a ladder.
    fn plan_dose(&self) -> Option<PlannedBlock> {
        let search = self.doses.last()?;
        let step = search.next_step()?;
        let phase = ScreenPhase::Dose(search.condition);
        Some((phase, vec![vec![step]; STEP_TRIALS]))
    }

    /// Returns the next single conditions of the round; only harsh ones if plain trials differ.
    fn plan_round(&mut self) -> Option<PlannedBlock> {
        let is_mixed = self.evidence.plain.is_mixed();
        let is_needed = |condition: &Condition| condition.is_harsh || !is_mixed;
        self.schedule.plan_round(is_needed)
    }

    /// Returns the conditions that differ from plain trials, if they are many.
    fn plan_repetition(&mut self) -> Option<PlannedBlock> {
        if self.is_repeat_over || self.evidence.plain.is_mixed() {
            return None;
        }
        self.is_repeat_over = true;
        let mut different = self.open_conditions();
        different.retain(|&condition| self.evidence_of(condition).abs() >= CANDIDATE_CONSTANT);
        let families = different
            .iter()
            .map(|&i| self.schedule.conditions[i].family);
        if families.collect::<BTreeSet<_>>().len() <= DIFFERENT_FAMILIES {
            return None;
        }
        plan_singles(&different)
    }

    /// Returns the trials of a seed test if plain trials differ.
    fn plan_seeds(&mut self) -> Option<PlannedBlock> {
        if !self.evidence.plain.is_mixed() {
            return None;
        }
        if self.seed_tests.last().is_none_or(SeedTest::is_over) {
            self.begin_seed_test()?;
        }
        let test = self.seed_tests.last()?;
        let seeds = test.next_seeds(&mut self.schedule.random());
        let sets = seeds.into_iter().map(|seed| vec![seed]).collect();
        Some((ScreenPhase::Seeds(test.family), sets))
    }

    /// Returns more plain trials if seeds are untested, and only trials of halves differ or there is nothing else to try.
    fn plan_late_seeds(&self) -> Option<PlannedBlock> {
        let has = |role| self.schedule.conditions.iter().any(|c| c.role == role);
        let is_open = self.evidence.plain.trials < MOST_PLAIN && !self.has_claim();
        let may_matter = self.evidence.halves.is_mixed() || !has(ConditionRole::Tried);
        if has(ConditionRole::Seed) && is_open && may_matter && !self.evidence.plain.is_mixed() {
            return Some(plan_plain());
        }
        None
    }

    /// Begins the test of the first family of seeds without one.
    fn begin_seed_test(&mut self) -> Option<()> {
        let is_tested = |family| self.seed_tests.iter().any(|test| test.family == family);
        let (family, seeds) = self.schedule.untested_seeds(is_tested)?;
        let level = self.levels.level_of_seeds();
        self.seed_tests.push(SeedTest::new(family, &seeds, level));
        Some(())
    }

    /// Begins the test of the best candidate.
    fn plan_test(&mut self) -> Option<PlannedBlock> {
        let seeds = self.seed_tests.iter().flat_map(SeedTest::odd_seeds);
        let seeds = seeds.filter(|(seed, _)| self.is_open(*seed));
        let candidates = self.open_conditions();
        let best = candidates
            .into_iter()
            .filter(|&condition| {
                !self
                    .evidence
                    .is_explained_by_sham(condition, &self.schedule.conditions)
            })
            .map(|condition| (condition, self.evidence_of(condition)))
            .chain(seeds)
            .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()).then(b.0.cmp(&a.0)))?;
        let (condition, evidence) = best;
        if evidence.abs() < candidate_threshold(&self.evidence) {
            return None;
        }
        self.begin_test(vec![condition], Direction::of_evidence(evidence));
        self.plan_pairs()
    }

    /// Begins a test of conditions in pairs.
    pub(super) fn begin_test(&mut self, conditions: Vec<usize>, direction: Direction) {
        let level = self.levels.level_of_pairs();
        self.tests.push(PairTest::new(conditions, direction, level));
    }

    /// Returns the next trials that leave out conditions of a trial of halves: it is the first one that differs from plain
    /// trials, which never do.
    fn plan_joint(&mut self) -> Option<PlannedBlock> {
        if self.evidence.plain.is_mixed() || self.has_claim() {
            return None;
        }
        let is_over = |search: &JointSearch| search.next_trials().is_empty();
        if self.joint_searches.last().is_none_or(is_over) {
            if self.joint_searches.len() == JOINT_SEARCHES {
                return None;
            }
            let (outcome, _) = self.evidence.unusual_outcome();
            let mut sets = self.evidence.halves.sets_with(outcome).into_iter();
            let is_known = |set: &[usize]| self.joint_searches.iter().any(|s| s.began_with(set));
            let set = sets.find(|set| !is_known(set))?.to_vec();
            self.joint_searches.push(JointSearch::new(set, outcome));
        }
        let sets = self.joint_searches.last()?.next_trials();
        Some((ScreenPhase::Joint, sets))
    }

    /// Returns the conditions that may become candidates.
    fn open_conditions(&self) -> Vec<usize> {
        let mut open = self.schedule.conditions_with(ConditionRole::Tried);
        open.retain(|&condition| self.is_open(condition));
        open
    }

    /// Returns whether a condition is not tested, and of a family without a claim.
    pub(super) fn is_open(&self, condition: usize) -> bool {
        let family = self.schedule.conditions[condition].family;
        let mut claimed = self.claimed_conditions().into_iter();
        !claimed.any(|other| self.schedule.conditions[other].family == family)
            && !self.tests.iter().any(|test| test.conditions == [condition])
    }

    /// Returns whether a seed explains the failures.
    fn has_seed_claim(&self) -> bool {
        let mut claimed = self.claimed_conditions().into_iter();
        claimed.any(|condition| self.schedule.conditions[condition].role == ConditionRole::Seed)
            || self.seed_tests.iter().any(SeedTest::is_claimed)
    }

    fn evidence_of(&self, condition: usize) -> f64 {
        self.evidence
            .of_condition(condition, &self.schedule.conditions)
    }

    /// Orders untried conditions first, then those with more evidence; if plain trials do not differ, those with fewer trials
    /// first.
    fn compare_promise(&self, a: usize, b: usize) -> Ordering {
        let is_mixed = self.evidence.plain.is_mixed();
        let tried = |condition: usize| match self.evidence.singles[condition].trials {
            trials if is_mixed => trials.min(1),
            trials => trials,
        };
        let evidence = |condition: usize| self.evidence_of(condition).abs();
        let by_evidence = evidence(b).total_cmp(&evidence(a));
        tried(a).cmp(&tried(b)).then(by_evidence)
    }

    /// Returns trials under random halves of the families, and harsh conditions between.
    fn plan_halves(&self) -> Option<PlannedBlock> {
        let is_mixed = self.evidence.plain.is_mixed();
        let has_claim = self.has_claim();
        if self.has_seed_claim() {
            return None;
        }
        let most = match (is_mixed, has_claim) {
            (true, false) => HALVES_MIXED,
            (false, false) => HALVES_CONSTANT,
            (true, true) => self.halves_at_claim + HALVES_AFTER_CLAIM,
            (false, true) => 0,
        };
        if self.evidence.halves.count() >= most {
            return None;
        }
        let mut usable = self.open_conditions();
        usable.retain(|&condition| {
            !self.evidence.is_refused(condition)
                && !self
                    .evidence
                    .is_explained_by_sham(condition, &self.schedule.conditions)
        });
        let mut doubtful = usable.clone();
        doubtful.retain(|&condition| self.evidence.is_doubtful(condition));
        if !doubtful.is_empty() {
            return plan_singles(&doubtful);
        }
        let trials_alone = |condition: usize| self.evidence.singles[condition].trials;
        let compare_promise = |a: &usize, b: &usize| self.compare_promise(*a, *b);
        self.schedule
            .plan_halves(usable, is_mixed, trials_alone, compare_promise)
    }
}
