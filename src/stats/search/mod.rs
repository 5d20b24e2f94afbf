//! Which version, or which smallest set of things, brought a failure that shows only sometimes?
//!
//! | file | idea |
//! | --- | --- |
//! | `grid` | what is possible: pairs of a failure rate and a background rate |
//! | `posterior` | what is known: [`Bisection`], one row of cells for each segment between tested versions |
//! | `query` | what to run next: the most information for its price |
//! | `batch` | the same for many slots at once |
//! | `stop` | when it is over: [`Stop`], [`Verdict`] |
//! | `hedge` | weights of culprits that may be wrong |
//! | `contradiction` | whether there is one boundary at all |
//! | `reduce` | repeated bisection for the smallest set: [`Reduction`] |
//! | `screen` | which things can be left out at all: [`Screen`] |
//! | `capacity` | how many runs it will take |
//!
//! `cargo run --release --example search` prints all figures given here: mean runs after a baseline of
//! five failures, and the share of wrong answers at delta .05, over 250 to 1000 searches.
//!
//! | n, p, q | failures told apart (`clean`) | background possible |
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
//! All cells, other rules in the same ones, slots, weights and reductions: `docs/statistics.md`.
//!
//! # Rates that differ between bad versions
//!
//! All this supposes that bad versions fail at one rate. If the culprit fails at .3 of the newest
//! version's rate, .5, and those between at rates between (n = 64), a search that trusts the model takes
//! versions above the culprit's predecessor for good: it is wrong in .38 of searches, .20 if a background
//! is possible. [`Stop::guarded`] asks for evidence that needs no model: failures of the culprit, and clean
//! runs of the version before it by the exact rule.
//!
//! | `clean`, p = .5 | runs if the rate is constant | wrong if it rises from .3 |
//! | --- | --- | --- |
//! | no guard | 23.7 | .38 |
//! | 3 failures, level .05 | 30.1 | .13 |
//! | 3 failures, level .025: as built | 32.2 | .06 |
//! | 3 failures, level .0125 | 35.8 | .03 |
//!
//! With a background possible a failure of the predecessor asks for runs of the good end, which must then
//! fail too: .086 wrong in place of .195, for 32.9 runs in place of 31.0 (49 in place of 35 where there
//! really is a background of .01). Rates that rise from .1, or in a late step, are still mistaken in a fifth
//! to two fifths of searches, at ten times the runs.
//!
//! Also tried: to put rising rates (f = 1, .3, .1 of the newest's at the culprit, linear between) into the grid.
//! With weights .8, .1, .1 that costs more (30.4 runs where 22.7 do) for less (.10 wrong); with .5, .25, .25,
//! .02 wrong for 41.5 runs. A guard after 5 failures, or after 2, costs more for the same error.

mod batch;
mod capacity;
mod contradiction;
mod grid;
mod hedge;
mod posterior;
mod query;
mod reduce;
mod screen;
mod stop;

pub use batch::Slots;
pub use capacity::{Channel, bisect_runs};
pub use contradiction::Contradiction;
pub use grid::{Cell, Grid, Model};
pub use hedge::hedged;
pub use posterior::{Bisection, Tested};
pub use query::{Costs, Query};
pub use reduce::{Answer, Count, Rates, Reduction, stage_prior};
pub use screen::Screen;
pub use stop::{Group, Stop, Verdict};
