//! Schedules the trials of a screen: one block after another, within its limits.

use super::block::Block;
use super::condition::{Condition, ConditionRole, Limits, Next};
use super::halves::draw_half;
use super::result::ScreenPhase;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::mem;

/// A phase and the sets of its next trials.
pub(super) type PlannedBlock = (ScreenPhase, Vec<Vec<usize>>);

/// Number of plain trials at the beginning.
const PLAIN: usize = 3;
/// Number of single conditions between plain trials.
const BETWEEN_PLAIN: usize = 5;
/// Number of trials of halves after which candidates are looked for.
const CHUNK: usize = 8;

/// How often harsh conditions are tried alone between chunks of halves.
struct HarshTrials {
    /// Number of conditions after a chunk.
    conditions: usize,
    /// Number of trials after which a condition is not tried again.
    most: u64,
}

impl HarshTrials {
    /// If plain trials do not differ, few trials show an effect, so each condition gets some.
    fn new(is_mixed: bool) -> Self {
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

/// The conditions of a screen, its present block, and the number of trials so far.
#[derive(Debug, Clone)]
pub(super) struct Schedule<T> {
    pub(super) conditions: Vec<Condition>,
    pub(super) phase: ScreenPhase,
    limits: Limits,
    seed: u64,
    /// The first condition that the round has not reached.
    round_begin: usize,
    block: Block<T>,
    /// Number of blocks so far.
    blocks: u64,
    /// Number of trials of all blocks so far.
    trials: u64,
}

impl<T> Schedule<T> {
    /// Creates a schedule that begins with plain trials.
    pub(super) fn new(conditions: Vec<Condition>, limits: Limits, seed: u64) -> Self {
        let mut schedule = Self {
            conditions,
            phase: ScreenPhase::Plain,
            limits,
            seed,
            round_begin: 0,
            block: Block::new(Vec::new()),
            blocks: 0,
            trials: 0,
        };
        schedule.begin_block(plan_plain());
        schedule
    }

    /// Returns the next trial, given the conditions of the running ones.
    pub(super) fn next(&self, running: &[Vec<usize>]) -> Next {
        if self.phase == ScreenPhase::Over {
            return Next::Done;
        }
        match self.block.next_set(running) {
            Some(set) => Next::Trial(set.clone()),
            None => Next::Wait,
        }
    }

    /// Adds the outcome of a trial of the present block, and returns the block if it is complete.
    pub(super) fn record(&mut self, set: &[usize], outcome: T) -> Option<Block<T>> {
        (self.block.record(set, outcome) && self.block.is_complete())
            .then(|| mem::replace(&mut self.block, Block::new(Vec::new())))
    }

    /// Begins a block, of which the limit may cut the end; without a trial the screen is over.
    pub(super) fn begin_block(&mut self, (phase, mut sets): PlannedBlock) {
        sets.truncate(usize::try_from(self.remaining_trials()).unwrap_or(usize::MAX));
        self.phase = if sets.is_empty() {
            ScreenPhase::Over
        } else {
            phase
        };
        self.block = Block::new(sets);
        self.blocks += 1;
        self.trials += self.block.size() as u64;
    }

    pub(super) fn remaining_trials(&self) -> u64 {
        self.limits.trials.saturating_sub(self.trials)
    }

    /// Returns the random numbers of the next block.
    pub(super) fn random(&self) -> Pcg64Mcg {
        Pcg64Mcg::seed_from_u64(self.seed ^ self.blocks.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Returns the conditions with a role.
    pub(super) fn conditions_with(&self, role: ConditionRole) -> Vec<usize> {
        let conditions = self.conditions.iter().enumerate();
        conditions
            .filter(|(_, condition)| condition.role == role)
            .map(|(index, _)| index)
            .collect()
    }

    /// Returns the first family of seeds that is not tested, and its seeds.
    pub(super) fn untested_seeds(
        &self,
        is_tested: impl Fn(usize) -> bool,
    ) -> Option<(usize, Vec<usize>)> {
        let mut seeds = self.conditions_with(ConditionRole::Seed);
        let mut families = seeds.iter().map(|&seed| self.conditions[seed].family);
        let family = families.find(|family| !is_tested(*family))?;
        seeds.retain(|&seed| self.conditions[seed].family == family);
        Some((family, seeds))
    }

    /// Returns the next single conditions of the round.
    pub(super) fn plan_round(
        &mut self,
        is_needed: impl Fn(&Condition) -> bool,
    ) -> Option<PlannedBlock> {
        let mut conditions = self.conditions_with(ConditionRole::Tried);
        conditions.retain(|&condition| {
            condition >= self.round_begin && is_needed(&self.conditions[condition])
        });
        conditions.truncate(BETWEEN_PLAIN);
        self.round_begin = conditions
            .last()
            .map_or(self.conditions.len(), |last| last + 1);
        plan_singles(&conditions)
    }

    /// Returns pairs of a trial under these conditions and one under their references, each in random order; at least one.
    pub(super) fn plan_pairs(&self, conditions: &[usize]) -> PlannedBlock {
        let shams = conditions.iter();
        let shams = shams.filter_map(|&condition| self.conditions[condition].sham);
        let shams: BTreeSet<usize> = shams.collect();
        let references: Vec<usize> = shams.into_iter().collect();
        let count = self.limits.parallel / 2;
        let mut random = self.random();
        let pairs = (0..count.max(1)).flat_map(|_| {
            let mut pair = [conditions.to_vec(), references.clone()];
            if random.random_bool(0.5) {
                pair.reverse();
            }
            pair
        });
        let sets = pairs.collect();
        (ScreenPhase::Pairs(conditions.to_vec()), sets)
    }

    /// Returns trials under random halves of the families of these conditions, and harsh ones between, the most promising
    /// first. `is_mixed` is whether plain trials differ, and `trials_alone` the number of trials under a condition.
    pub(super) fn plan_halves(
        &self,
        usable: Vec<usize>,
        is_mixed: bool,
        trials_alone: impl Fn(usize) -> u64,
        compare_promise: impl Fn(&usize, &usize) -> Ordering,
    ) -> Option<PlannedBlock> {
        let (mut harsh, mild): (Vec<usize>, Vec<usize>) = usable
            .into_iter()
            .partition(|&condition| self.conditions[condition].is_harsh);
        let limit = HarshTrials::new(is_mixed);
        harsh.retain(|&condition| trials_alone(condition) < limit.most);
        if !harsh.is_empty() && (self.phase == ScreenPhase::Halves || mild.is_empty()) {
            harsh.sort_by(compare_promise);
            harsh.truncate(limit.conditions);
            return plan_singles(&harsh);
        }
        if mild.is_empty() {
            return None;
        }
        let mut random = self.random();
        let sets = (0..CHUNK).map(|_| draw_half(&mild, &self.conditions, &mut random));
        Some((ScreenPhase::Halves, sets.collect()))
    }
}

/// Returns the first trials of a screen.
pub(super) fn plan_plain() -> PlannedBlock {
    (ScreenPhase::Plain, vec![Vec::new(); PLAIN])
}

/// Returns trials under single conditions, if there are any, with plain trials between and at the end.
pub(super) fn plan_singles(conditions: &[usize]) -> Option<PlannedBlock> {
    let mut sets = Vec::new();
    for chunk in conditions.chunks(BETWEEN_PLAIN) {
        sets.extend(chunk.iter().map(|&condition| vec![condition]));
        sets.push(Vec::new());
    }
    (!sets.is_empty()).then_some((ScreenPhase::Round, sets))
}
