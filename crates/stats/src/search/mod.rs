//! Searches the culprit version, or the smallest failing set, of an intermittent failure.
//!
//! | file | idea |
//! | --- | --- |
//! | `grid` | the prior: pairs of a failure rate and a background rate |
//! | `posterior` | the posterior: [`Bisection`], one row of cells for each segment between tested versions |
//! | `features` | the signatures and times of failures, as evidence |
//! | `query` | what to run next: the most information for its cost |
//! | `batch` | the same for many slots at once |
//! | `stop` | when the search is over: [`StopConditions`], [`SearchVerdict`] |
//! | `check` | whether a version before the culprit fails as well, less often |
//! | `hedge` | weights of culprits that may be wrong |
//! | `contradiction` | whether there is one boundary at all |
//! | `reduce` | repeated bisection for the smallest set: [`Reduction`] |
//! | `screen` | which items can be left out at all: [`ItemScreen`] |
//! | `capacity` | how many runs it will take |
//!
//! `cargo bench --bench search` prints all figures given here: mean runs after a baseline of five failures,
//! and the share of wrong answers at delta .05, over 250 to 1000 searches.
//!
//! | n, p, q | failures distinguished (`clean`) | background possible |
//! | --- | --- | --- |
//! | 8, .5, 0 | 13.4, .02 | 18.8, .01 |
//! | 8, .1, 0 | 72, .04 | 134, .01 |
//! | 64, .5, 0 | 23.6, .03 | 31.0, .01 |
//! | 64, .1, 0 | 134, .05 | 213, .02 |
//! | 64, .1, .01 | | 413, .03 |
//! | 1024, .5, 0 | 37.8, .03 | 45.6, .02 |
//! | 8, .03, .01 | | 1690, .05 |
//! | 64, .03, .01 | | 2869, .06 |
//!
//! `docs/statistics-appendix.md` and `benches/README.md` have more cells, and slots, weights and reductions.
//!
//! # Rates that differ between bad versions
//!
//! All this assumes that bad versions fail at one rate. If an earlier version fails less often, a search that trusts
//! the model takes it for good. [`StopConditions::with_check`] requires evidence that needs no model (`check`).
//!
//! A rejected alternative puts rising rates (f = 1, .3, .1 of the newest's at the culprit, linear between) into the
//! grid. With weights .8, .1, .1 it costs more (30.4 runs instead of 22.7) and has .10 wrong answers; with .5, .25,
//! .25, it has .02 wrong answers at 41.5 runs.

mod batch;
mod capacity;
mod check;
mod contradiction;
mod features;
mod grid;
mod hedge;
mod posterior;
mod query;
mod reduce;
mod screen;
mod stop;
mod sums;
mod tested;

pub use batch::BatchOptions;
pub use capacity::{Channel, bisect_runs};
pub use contradiction::Contradiction;
pub use features::Features;
pub(super) use grid::rate_weights;
pub use grid::{Cell, Grid, SearchPrior};
pub use hedge::hedge_weights;
pub use posterior::Bisection;
pub(super) use query::coin_entropy;
pub use query::{Costs, Query};
pub use reduce::{Count, Reduction, ReductionAnswer, ReductionRates, stage_prior};
pub use screen::ItemScreen;
pub use stop::{HypothesisGroup, SearchVerdict, StopConditions};
pub use tested::TestedVersion;
