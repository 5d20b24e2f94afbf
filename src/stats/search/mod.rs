//! Which version made a failure possible that shows only sometimes?

mod batch;
mod capacity;
mod contradiction;
mod grid;
mod posterior;
mod query;
mod reduce;
mod stop;

pub use batch::Slots;
pub use capacity::{Channel, bisect_runs};
pub use contradiction::Contradiction;
pub use grid::{Cell, Grid, Model};
pub use posterior::{Bisection, Tested};
pub use query::{Costs, Query};
pub use reduce::{Answer, Count, Rates, Reduction, stage_prior};
pub use stop::{Group, Stop, Verdict};
