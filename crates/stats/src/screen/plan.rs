//! Chooses the trials of the next block.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::Screen;
use super::condition::{Condition, ConditionRole};
use super::dose::{DoseSearch, STEP_TRIALS};
use super::evidence::Evidence;
use super::halves::draw_half;
use super::joint::JointSearch;
use super::pairs::{Direction, PairTest, PairTestState};
use super::result::ScreenPhase;
use super::seeds::SeedTest;
use crate::convert::real;

/// A phase and the sets of its next trials.
pub(super) type PlannedBlock = (ScreenPhase, Vec<Vec<usize>>);

/// Number of plain trials at the beginning.
const PLAIN: usize = 3;
/// Number of plain trials after which they are assumed not to differ.
const MOST_PLAIN: u64 = 20;
/// Number of single conditions between plain trials.
pub(super) const BETWEEN_PLAIN: usize = 5;
/// If more families than this differ from plain trials, their conditions are tried again before a test.
const DIFFERENT_FAMILIES: usize = 3;
/// Number of trials of halves after which candidates are looked for.
pub(super) const CHUNK: usize = 8;
/// Maximum number of trials of halves: if plain trials differ, if they do not, and after a claim.
pub(super) const HALVES_MIXED: usize = 128;
pub(super) const HALVES_CONSTANT: usize = 64;
const HALVES_AFTER_CLAIM: usize = 32;
/// How often harsh conditions are tried alone between chunks of halves.
pub(super) struct HarshTrials {
    /// Number of conditions after a chunk.
    pub(super) conditions: usize,
    /// Number of trials after which a condition is not tried again.
    pub(super) most: u64,
}

impl HarshTrials {
    /// If plain trials do not differ, few trials show an effect, so each condition gets some.
    pub(super) fn new(is_mixed: bool) -> Self {
        if is_mixed {
            Self {
                conditions: 2,
                most: 10,
            }
        } else {
            Self {
                conditions: 4,
                most: 3,
            }
        }
    }
}

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

/// Returns the first trials of a screen.
pub(super) fn first_trials() -> Vec<Vec<usize>> {
    vec![Vec::new(); PLAIN]
}

/// Returns trials under single conditions, with plain trials between and at the end.
pub(super) fn singles_with_plain(conditions: &[usize]) -> Vec<Vec<usize>> {
    let mut sets = Vec::new();
    for chunk in conditions.chunks(BETWEEN_PLAIN) {
        sets.extend(chunk.iter().map(|&condition| vec![condition]));
        sets.push(Vec::new());
    }
    sets
}

/// Returns pairs of a trial under these conditions and one under their references, each in random order; at least one.
pub(super) fn draw_pairs(
    conditions: &[usize],
    references: &[usize],
    count: usize,
    random: &mut Pcg64Mcg,
) -> Vec<Vec<usize>> {
    let pairs = (0..count.max(1)).flat_map(|_| {
        let mut pair = [conditions.to_vec(), references.to_vec()];
        if random.random_bool(0.5) {
            pair.reverse();
        }
        pair
    });
    pairs.collect()
}

/// Returns the conditions with a role.
pub(super) fn conditions_with(
    conditions: &[Condition],
    has_role: impl Fn(ConditionRole) -> bool,
) -> Vec<usize> {
    let conditions = conditions.iter().enumerate();
    conditions
        .filter(|(_, condition)| has_role(condition.role))
        .map(|(index, _)| index)
        .collect()
}

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
            self.evidence
                .may_repeat_plain()
                .then(|| (ScreenPhase::Plain, first_trials()))
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
        let shams = test.conditions.iter();
        let shams = shams.filter_map(|&condition| self.conditions[condition].sham);
        let shams: BTreeSet<usize> = shams.collect();
        let references: Vec<usize> = shams.into_iter().collect();
        let count = self.schedule.limits.parallel / 2;
        let mut random = self.schedule.random();
        let sets = draw_pairs(&test.conditions, &references, count, &mut random);
        Some((ScreenPhase::Pairs(test.conditions.clone()), sets))
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
        let steps = self.conditions_with(|role| role == ConditionRole::Step { of: condition });
        if failing.rate() >= SURE && passing.rate() <= 1.0 - SURE && !steps.is_empty() {
            let search = DoseSearch::new(condition, test.direction, steps);
            self.doses.push(search);
        }
    }

    fn conditions_with(&self, has_role: impl Fn(ConditionRole) -> bool) -> Vec<usize> {
        conditions_with(&self.conditions, has_role)
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
        let mut conditions = self.conditions_with(|role| role == ConditionRole::Tried);
        conditions.retain(|&condition| {
            let is_needed = self.conditions[condition].is_harsh || !self.evidence.plain.is_mixed();
            is_needed && condition >= self.round_begin
        });
        conditions.truncate(BETWEEN_PLAIN);
        self.round_begin = conditions
            .last()
            .map_or(self.conditions.len(), |last| last + 1);
        let sets = singles_with_plain(&conditions);
        (!sets.is_empty()).then_some((ScreenPhase::Round, sets))
    }

    /// Returns the conditions that differ from plain trials, if they are many.
    fn plan_repetition(&mut self) -> Option<PlannedBlock> {
        if self.is_repeat_over || self.evidence.plain.is_mixed() {
            return None;
        }
        self.is_repeat_over = true;
        let mut different = self.open_conditions();
        different.retain(|&condition| self.evidence_of(condition).abs() >= CANDIDATE_CONSTANT);
        let families = different.iter().map(|&i| self.conditions[i].family);
        if families.collect::<BTreeSet<_>>().len() <= DIFFERENT_FAMILIES {
            return None;
        }
        Some((ScreenPhase::Round, singles_with_plain(&different)))
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
        let has = |role| self.conditions.iter().any(|c| c.role == role);
        let is_open = self.evidence.plain.trials < MOST_PLAIN && !self.has_claim();
        let may_matter = self.evidence.halves.is_mixed() || !has(ConditionRole::Tried);
        if has(ConditionRole::Seed) && is_open && may_matter && !self.evidence.plain.is_mixed() {
            return Some((ScreenPhase::Plain, first_trials()));
        }
        None
    }

    /// Begins the test of the first family of seeds without one.
    fn begin_seed_test(&mut self) -> Option<()> {
        let mut seeds = self.conditions_with(|role| role == ConditionRole::Seed);
        let is_tested = |family| self.seed_tests.iter().any(|test| test.family == family);
        let mut families = seeds.iter().map(|&seed| self.conditions[seed].family);
        let family = families.find(|family| !is_tested(*family))?;
        seeds.retain(|&seed| self.conditions[seed].family == family);
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
                    .is_explained_by_sham(condition, &self.conditions)
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
        let mut open = self.conditions_with(|role| role == ConditionRole::Tried);
        open.retain(|&condition| self.is_open(condition));
        open
    }

    /// Returns whether a condition is not tested, and of a family without a claim.
    pub(super) fn is_open(&self, condition: usize) -> bool {
        let family = self.conditions[condition].family;
        let mut claimed = self.claimed_conditions().into_iter();
        !claimed.any(|other| self.conditions[other].family == family)
            && !self.tests.iter().any(|test| test.conditions == [condition])
    }

    /// Returns whether a seed explains the failures.
    fn has_seed_claim(&self) -> bool {
        let mut claimed = self.claimed_conditions().into_iter();
        claimed.any(|condition| self.conditions[condition].role == ConditionRole::Seed)
            || self.seed_tests.iter().any(SeedTest::is_claimed)
    }

    fn evidence_of(&self, condition: usize) -> f64 {
        self.evidence.of_condition(condition, &self.conditions)
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
                    .is_explained_by_sham(condition, &self.conditions)
        });
        let mut doubtful = usable.clone();
        doubtful.retain(|&condition| self.evidence.is_doubtful(condition));
        if !doubtful.is_empty() {
            return Some((ScreenPhase::Round, singles_with_plain(&doubtful)));
        }
        let (mut harsh, mild): (Vec<usize>, Vec<usize>) = usable
            .into_iter()
            .partition(|&condition| self.conditions[condition].is_harsh);
        let limit = HarshTrials::new(is_mixed);
        harsh.retain(|&condition| self.evidence.singles[condition].trials < limit.most);
        if !harsh.is_empty() && (self.schedule.phase == ScreenPhase::Halves || mild.is_empty()) {
            harsh.sort_by(|&a, &b| self.compare_promise(a, b));
            harsh.truncate(limit.conditions);
            return Some((ScreenPhase::Round, singles_with_plain(&harsh)));
        }
        if mild.is_empty() {
            return None;
        }
        let mut random = self.schedule.random();
        let sets = (0..CHUNK).map(|_| draw_half(&mild, &self.conditions, &mut random));
        Some((ScreenPhase::Halves, sets.collect()))
    }
}
