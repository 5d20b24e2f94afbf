//! Finds tests of a suite that depend on the order, and tests that fail together.

use provoke_model::{CaseEnd, CaseRunner};
use provoke_questions::state::{State, SuiteCounts, TrialOrder};
use provoke_stats::cases::{FailureSets, MOST_VICTIMS, OrderRelation, OrderTable};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Share of the pairs of tests in clusters that may be joined by chance.
const JOINED_BY_CHANCE: f64 = 0.01;
/// Maximum number of tests with the same evidence that are named.
const MOST_RIVALS: usize = 20;

/// How the failures of a test depend on another test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseDependence {
    /// The other test.
    pub other: String,
    /// Whether it fails after the other test, or without it.
    pub relation: DependenceKind,
    /// Failures and trials in which the other test ran before it, in the same process.
    pub after: [u64; 2],
    /// Failures and trials in which the other test did not run before it.
    pub not_after: [u64; 2],
    /// The probability of such a difference by chance, corrected for all pairs of tests.
    pub p_value: f64,
    /// Tests that explain the failures as well as the other one.
    pub rivals: Vec<String>,
    /// Whether the failures also depend on how late the test runs, so that the other test may not be the cause.
    pub depends_on_position: bool,
}

/// How the failures of a test depend on another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DependenceKind {
    /// It fails if the other test ran before it.
    FailsAfter,
    /// It fails unless the other test ran before it.
    FailsWithout,
}

/// Tests that fail together.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseCluster {
    /// The tests.
    pub cases: Vec<String>,
    /// The trials in which at least two of them failed.
    pub trials: Vec<u64>,
}

impl CaseDependence {
    /// Describes the dependence, with its counts.
    pub fn text(&self) -> String {
        let counts = |[failures, trials]: [u64; 2]| format!("{failures} of {trials}");
        let (after, not_after) = (counts(self.after), counts(self.not_after));
        let rivals = match self.rivals.as_slice() {
            [] => String::new(),
            [rival] => format!("; or {rival}, which explains the failures as well"),
            rivals => format!(
                "; or one of {} other tests that explain the failures as well",
                rivals.len()
            ),
        };
        match self.relation {
            DependenceKind::FailsAfter if self.depends_on_position => format!(
                "it fails late in the order: {after} after {}, {not_after} otherwise",
                self.other
            ),
            DependenceKind::FailsWithout if self.depends_on_position => format!(
                "it fails early in the order: {after} after {}, {not_after} otherwise",
                self.other
            ),
            DependenceKind::FailsAfter => format!(
                "it fails after {}: {after}, otherwise {not_after}{rivals}",
                self.other
            ),
            DependenceKind::FailsWithout => format!(
                "it fails unless {} ran before it: {not_after}, after it {after}{rivals}",
                self.other
            ),
        }
    }
}

/// Returns for each test the tests on which its failures depend. Nothing is known if all trials had the same order.
pub(super) fn find_dependences(
    state: &State,
    runner: &CaseRunner,
    suite: &SuiteCounts,
) -> BTreeMap<u32, Vec<CaseDependence>> {
    if suite.reordered_trials == 0 || runner.isolates_cases() {
        return BTreeMap::new();
    }
    let mut table = OrderTable::new();
    for order in suite.trial_orders() {
        add_order(&mut table, order);
    }
    let mut victims: Vec<(u64, u32)> = suite
        .failing_cases()
        .filter(|(_, case)| case.failures() < case.counted_trials())
        .map(|(number, case)| (case.failures(), number))
        .collect();
    victims.sort_unstable_by(|a, b| b.cmp(a));
    let victims: Vec<u32> = victims
        .into_iter()
        .map(|(_, number)| number)
        .take(MOST_VICTIMS)
        .collect();
    let name_of = |number: u32| {
        let name = state.case_names.name_of(number);
        name.map_or_else(String::new, ToString::to_string)
    };
    let alpha = state.plan.alpha.to_probability();
    let mut dependences: BTreeMap<u32, Vec<CaseDependence>> = BTreeMap::new();
    for finding in table.find_dependences(&victims, alpha) {
        let counts = |counts: provoke_stats::cases::CaseCounts| [counts.failures, counts.trials];
        let rivals = finding.rivals.iter().take(MOST_RIVALS);
        dependences
            .entry(finding.victim)
            .or_default()
            .push(CaseDependence {
                other: name_of(finding.other),
                relation: match finding.relation {
                    OrderRelation::FailsAfter => DependenceKind::FailsAfter,
                    OrderRelation::FailsWithout => DependenceKind::FailsWithout,
                },
                after: counts(finding.after),
                not_after: counts(finding.not_after),
                p_value: finding.corrected_p_value,
                rivals: rivals.map(|number| name_of(*number)).collect(),
                depends_on_position: finding.depends_on_position,
            });
    }
    dependences
}

fn add_order(table: &mut OrderTable, order: &TrialOrder) {
    let numbers_with = |fits: &dyn Fn(CaseEnd) -> bool| {
        let numbered = (0..).zip(&order.ends);
        numbered
            .filter(|(_, end)| end.is_some_and(fits))
            .map(|(number, _)| number)
            .collect::<Vec<u32>>()
    };
    let failed = numbers_with(&CaseEnd::is_failure);
    let uncounted =
        numbers_with(&|end| !end.is_failure() && !end.is_pass() && end != CaseEnd::NotRun);
    if order.processes.is_empty() {
        let started = numbers_with(&|end| end != CaseEnd::NotRun);
        table.add_trial(&[&started], &failed, &uncounted);
    } else {
        let processes: Vec<&[u32]> = order.processes.iter().map(Vec::as_slice).collect();
        table.add_trial(&processes, &failed, &uncounted);
    }
}

/// Returns the tests that fail together in more trials than by chance.
pub(super) fn find_clusters(state: &State, suite: &SuiteCounts) -> Vec<CaseCluster> {
    let failing: BTreeSet<u32> = suite.failing_cases().map(|(number, _)| number).collect();
    if failing.len() < 2 {
        return Vec::new();
    }
    let mut sets = FailureSets::new();
    for order in suite.trial_orders() {
        let ends = failing.iter().filter_map(|number| {
            let end = (*order.ends.get(*number as usize)?)?;
            Some((*number, end))
        });
        let counted: Vec<(u32, CaseEnd)> = ends
            .filter(|(_, end)| end.is_failure() || end.is_pass())
            .collect();
        let numbers: Vec<u32> = counted.iter().map(|(number, _)| *number).collect();
        let failed: Vec<u32> = counted
            .iter()
            .filter(|(_, end)| end.is_failure())
            .map(|(number, _)| *number)
            .collect();
        sets.add_trial(&numbers, &failed);
    }
    let clusters = sets.find_clusters(JOINED_BY_CHANCE).into_iter();
    clusters
        .map(|cluster| CaseCluster {
            cases: cluster
                .cases
                .iter()
                .filter_map(|number| state.case_names.name_of(*number))
                .map(ToString::to_string)
                .collect(),
            trials: cluster
                .trials
                .iter()
                .filter_map(|position| suite.trial_orders().get(*position as usize))
                .map(|order| order.trial.0)
                .collect(),
        })
        .collect()
}
