//! Statistics of the cases of a suite: which tests fail, how often, after which others, and together with which.
//!
//! A trial is one run of the suite, and has an outcome for each case that started. A failure that was seen is a fact and
//! needs no correction. Rates, ranks and associations are estimates of many cases at once, so each function here corrects
//! for their number and says which error it limits.

mod changes;
mod clusters;
mod counts;
mod hypergeometric;
mod order;
mod runs;
mod selected;

pub use changes::{CaseChange, CasePair, benjamini_hochberg, changed_cases};
pub use clusters::{FailureCluster, FailureSets, MOST_CLUSTERED_CASES};
pub use counts::CaseCounts;
pub use order::{
    MOST_VICTIMS, OrderDependence, OrderPart, OrderRelation, OrderTable, PlaceDependence,
    VictimFindings,
};
pub use runs::runs_to_see_every;
pub use selected::selected_alpha;
