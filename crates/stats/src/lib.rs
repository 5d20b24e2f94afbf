//! Statistics of counted failures: intervals, bounds, sample sizes, tests and searches.
//!
//! All functions are pure functions of counts: they use no clock, file or thread. The only randomness is a permutation
//! test with a fixed seed, so equal counts give equal answers on every machine.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`interval`] | how often does it fail, and how certain is that? |
//! | [`plan`] | how many runs will it take? |
//! | [`confirm`] | how many clean runs confirm a fix? |
//! | [`mod@pool`] | which runs of one program count together? |
//! | [`eprocess`] | do two variants fail at different rates? |
//! | [`mod@fisher`] | the same, for final counts |
//! | [`mod@difference`] | by how much? |
//! | [`planned_look`] | the same, after a planned number of pairs |
//! | [`power`] | which difference can a comparison with N pairs detect? |
//! | [`race`] | which of several variants fail, and how many runs does the answer cost? |
//! | [`raise`] | does a setting make failures frequent enough to search under it? |
//! | [`ramp`] | from which load level on does it fail? |
//! | [`dependence`] | do failures clump in batches or in time, so that the interval is too narrow? |
//! | [`trend`] | does the rate change during the run? |
//! | [`cases`] | which tests of a suite fail, how often, after which others, and together with which? |
//! | [`hosts`] | do trials fail more often on hosts with a certain property? |
//! | [`mod@growth`] | does a quantity grow from trial to trial, and by how much? |
//! | [`limit`] | is the rate below a limit, or above it, after every run? |
//! | [`exposure`] | how long between failures, in seconds, requests or bytes? |
//! | [`screen`] | under which conditions does it fail more often, or less often? |
//! | [`paths`] | what do failing trials do differently before the failure? |
//! | [`search`] | which version, or which set of items, causes the failure? |
//! | `special` | special functions used by all others; the only user of `statrs` |
//! | `convert` | the number conversions, with their reasons |
//!
//! `docs/statistics.md` explains what each number means and what would make it wrong, `docs/statistics-appendix.md` how
//! often each was measured to be wrong.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod cases;
pub mod confirm;
mod convert;
pub mod dependence;
pub mod difference;
pub mod eprocess;
pub mod exposure;
pub mod fisher;
pub mod growth;
pub mod hosts;
pub mod interval;
pub mod limit;
pub mod paths;
pub mod plan;
pub mod planned_look;
pub mod pool;
pub mod power;
pub mod race;
pub mod raise;
pub mod ramp;
pub mod screen;
pub mod search;
mod special;
pub mod trend;

pub use confirm::{
    MoreFailures, cheapest_baseline, clean_runs_needed, clean_runs_needed_effective,
    clean_runs_to_exclude_half, confirm_mean_runs, unchanged_p_value_effective,
    worth_more_failures,
};
pub use convert::{real, spread_of_counts, whole};
pub use dependence::{Batches, Clumping, Clumps, Dependence, Method, find_clumps, span_p_value};
pub use difference::{ComparedCounts, chance_of_difference, difference, significant_failures};
pub use eprocess::{Contrast, EProcess};
pub use exposure::{Mtbf, mtbf};
pub use fisher::{Fisher, fisher};
pub use growth::{Growth, Kendall, Slope, mann_kendall, measure_growth, theil_sen_slope};
pub use hosts::{HostTrials, holm, hosts_needed, property_p_value, smallest_property_p_value};
pub use interval::{
    Interval, clopper_pearson, clopper_pearson_effective, confidence_sequence,
    confidence_sequence_effective, lower_one_sided, running_interval, upper_one_sided,
};
pub use limit::bounds_at_any_time;
pub use plan::{
    chance_to_see, clean_runs_at_known_rate, first_true, runs_for_width, runs_to_check_rate,
    runs_to_see_one,
};
pub use planned_look::ComparisonLevels;
pub use pool::{NamedRate, Pool, pool};
pub use power::{Detectable, detectable_rates, pairs_to_tell};
pub use race::{race_alpha, race_runs_against, race_runs_measured};
pub use trend::{Trend, laplace_trend};
