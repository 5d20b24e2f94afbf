//! Schedules the trials of a screen: one block after another, within its limits.

use super::block::Block;
use super::condition::{Limits, Next};
use super::plan::{self, PlannedBlock};
use super::result::ScreenPhase;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;
use std::mem;

/// The present block of a screen, and the number of trials so far.
#[derive(Debug, Clone)]
pub(super) struct Schedule<T> {
    pub(super) limits: Limits,
    pub(super) phase: ScreenPhase,
    seed: u64,
    block: Block<T>,
    /// Number of blocks so far.
    blocks: u64,
    /// Number of trials of all blocks so far.
    trials: u64,
}

impl<T> Schedule<T> {
    /// Creates a schedule that begins with plain trials.
    pub(super) fn new(limits: Limits, seed: u64) -> Self {
        let mut schedule = Self {
            limits,
            phase: ScreenPhase::Plain,
            seed,
            block: Block::new(Vec::new()),
            blocks: 0,
            trials: 0,
        };
        schedule.begin_block((ScreenPhase::Plain, plan::first_trials()));
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
}
