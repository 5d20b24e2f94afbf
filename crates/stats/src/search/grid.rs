//! Grid of (failure rate, background rate) cells on which a search calculates.

use std::ops::Range;

use super::super::convert::real;

/// The block lengths for which a query is evaluated.
pub(super) const BLOCKS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

const RATES: u32 = 24;
const LOWEST_RATE: f64 = 0.0025;
const HIGHEST_RATE: f64 = 0.97;
/// The prior probability that every run of a bad version fails.
const ALWAYS: f64 = 0.1;
/// The prior probability that good versions never fail this way.
const NO_BACKGROUND: f64 = 0.5;
/// A background from this share of the failure rate on is hard to distinguish from it.
const CLOSE: f64 = 0.25;
const BACKGROUNDS: [f64; 5] = [0.001, 0.003, 0.01, 0.03, 0.1];

/// Prior of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPrior {
    /// Whether good versions cannot fail this way, because failures are distinguished by their signature.
    pub clean: bool,
    /// The prior weight of "bad at the good end already".
    pub already_bad: f64,
    /// The prior weight of "no version is bad", until the newest has failed.
    pub none: f64,
}

impl Default for SearchPrior {
    fn default() -> Self {
        Self {
            clean: false,
            already_bad: 0.02,
            none: 0.02,
        }
    }
}

/// A pair of rates, with its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The rate at which bad versions fail.
    pub p: f64,
    /// The rate at which good versions fail.
    pub q: f64,
    pub weight: f64,
}

impl Cell {
    /// Returns the background as a share of the failure rate.
    fn background_share(&self) -> f64 {
        self.q / self.p
    }
}

/// Probability that a block of each length shows a failure.
pub(super) type Blocks = [f64; BLOCKS.len()];

/// All cells, ordered by background as a share of the failure rate, and tables for evaluating queries.
#[derive(Debug, Clone)]
pub struct Grid {
    cells: Vec<Cell>,
    with_background: usize,
    close: usize,
    p: Vec<f64>,
    q: Vec<f64>,
    bad: Vec<Blocks>,
    good: Vec<Blocks>,
}

fn block_failures(rate: f64) -> Blocks {
    BLOCKS.map(|m| -(real(m) * (-rate).ln_1p()).exp_m1())
}

/// Returns this number of failure rates from the lowest on with their prior weights: uniform on the scale of p^(1/2), and
/// a share for "always".
pub(in super::super) fn rate_weights(lowest: f64, count: u32) -> Vec<(f64, f64)> {
    let (low, high) = (lowest.min(HIGHEST_RATE).ln(), HIGHEST_RATE.ln());
    let node = |i: u32| (low + (high - low) * f64::from(i) / f64::from(count - 1)).exp();
    let nodes: Vec<f64> = (0..count).map(node).collect();
    let total: f64 = nodes.iter().map(|p| p.sqrt()).sum();
    let weighted = |&p: &f64| (p, (1.0 - ALWAYS) * p.sqrt() / total);
    nodes.iter().map(weighted).chain([(1.0, ALWAYS)]).collect()
}

/// Returns the possible background rates at failure rate `p`: all are at most half of it.
pub(super) fn background_weights(p: f64) -> Vec<(f64, f64)> {
    let possible: Vec<f64> = BACKGROUNDS.into_iter().filter(|q| 2.0 * q <= p).collect();
    if possible.is_empty() {
        return vec![(0.0, 1.0)];
    }
    let weight_each = (1.0 - NO_BACKGROUND) / real(possible.len() as u64);
    let backgrounds = possible.into_iter().map(|q| (q, weight_each));
    [(0.0, NO_BACKGROUND)]
        .into_iter()
        .chain(backgrounds)
        .collect()
}

impl Grid {
    pub fn new(model: &SearchPrior) -> Self {
        let mut cells = Vec::new();
        for (p, of_p) in rate_weights(LOWEST_RATE, RATES) {
            let backgrounds = if model.clean {
                vec![(0.0, 1.0)]
            } else {
                background_weights(p)
            };
            for (q, of_q) in backgrounds {
                cells.push(Cell {
                    p,
                    q,
                    weight: of_p * of_q,
                });
            }
        }
        Self::of_cells(cells)
    }

    /// Returns the grid of these cells, in any order and with any sum of weights.
    pub(super) fn of_cells(mut cells: Vec<Cell>) -> Self {
        cells.sort_by(|a, b| a.background_share().total_cmp(&b.background_share()));
        let total: f64 = cells.iter().map(|cell| cell.weight).sum();
        for cell in &mut cells {
            cell.weight /= total;
        }
        Self {
            close: cells.partition_point(|cell| cell.background_share() < CLOSE),
            with_background: cells.partition_point(|cell| cell.q <= 0.0),
            p: cells.iter().map(|cell| cell.p).collect(),
            q: cells.iter().map(|cell| cell.q).collect(),
            bad: cells.iter().map(|cell| block_failures(cell.p)).collect(),
            good: cells.iter().map(|cell| block_failures(cell.q)).collect(),
            cells,
        }
    }

    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the cells in which good versions fail as well.
    pub(super) fn background_cells(&self) -> Range<usize> {
        self.with_background..self.cells.len()
    }

    /// Returns the cells in which good versions fail nearly as often as bad ones.
    pub(super) fn close_cells(&self) -> Range<usize> {
        self.close..self.cells.len()
    }

    /// Returns the rate of bad versions in each cell.
    pub(super) fn bad_rates(&self) -> &[f64] {
        &self.p
    }

    /// Returns the rate of good versions in each cell.
    pub(super) fn good_rates(&self) -> &[f64] {
        &self.q
    }

    /// Returns the probability of a failure in a block for each cell, if the version is bad.
    pub(super) fn bad_blocks(&self) -> &[Blocks] {
        &self.bad
    }

    pub(super) fn good_blocks(&self) -> &[Blocks] {
        &self.good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_the_background_is_at_most_half_the_rate() {
        for clean in [false, true] {
            let model = SearchPrior {
                clean,
                ..SearchPrior::default()
            };
            let grid = Grid::new(&model);
            let total: f64 = grid.cells().iter().map(|cell| cell.weight).sum();
            assert!((total - 1.0).abs() < 1e-12, "{total}");
            assert!(grid.cells().iter().all(|cell| 2.0 * cell.q <= cell.p));
            assert_eq!(grid.background_cells().is_empty(), clean);
        }
    }
}
