//! Plans what all searches have.

use provoke_model::{FailingRate, SearchQuestion};
use provoke_plan::Scenario;

/// Default number of trials of the bad end without a failure after which a search is given up.
const REPRODUCE: u64 = 200;

/// Returns the settings that all searches have.
pub(crate) fn plan_search(scenario: &Scenario) -> SearchQuestion {
    let settings = &scenario.search;
    SearchQuestion {
        clean: settings.clean.unwrap_or(false),
        any_failure: scenario.takes_any_failure(),
        reproduce: settings.reproduce_limit.unwrap_or(REPRODUCE),
        failing_rate: match (settings.raise_rate, scenario.count.ignore_earlier_runs) {
            (Some(true), _) => FailingRate::Raised,
            (_, Some(true)) => FailingRate::ThisRun,
            _ => FailingRate::EarlierRuns,
        },
        earlier: None,
    }
}
