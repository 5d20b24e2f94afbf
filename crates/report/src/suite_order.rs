//! Finds tests of a suite that depend on the order, and tests that fail together.

use provoke_model::{CaseEnd, CaseRunner};
use provoke_runners::isolates_cases;
use provoke_state::{State, SuiteCounts, TrialOrder};
use provoke_stats::cases::{
    self as case_statistics, FailureSets, MOST_VICTIMS, OrderDependence, OrderPart, OrderRelation,
    OrderTable, PlaceDependence, VictimFindings,
};
use provoke_words as words;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Share of the pairs of tests in clusters that may be joined by chance.
const JOINED_BY_CHANCE: f64 = 0.01;
/// Maximum number of tests with the same evidence that are named.
const MOST_RIVALS: usize = 20;

/// How the failures of a test depend on the order of the tests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OrderEffect {
    /// The probability of such a dependence on the order by chance, corrected for all tests.
    pub p_value: f64,
    /// The other tests that explain the failures better than the place in the order does.
    pub tests: Vec<CaseDependence>,
    /// The effect of its place in the order, whether or not these tests ran before it.
    pub place: Option<CasePlace>,
    /// Failures and trials in which it was the first test of its process.
    pub first: [u64; 2],
}

/// How the failures of a test depend on its place in the order.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CasePlace {
    /// The part of the order in which it fails more often.
    pub part: CaseOrderPart,
    /// The number of tests before it in the same process from which its place counts as late.
    pub limit: u64,
    /// Failures and trials in this part.
    pub inside: [u64; 2],
    /// Failures and trials in the rest of the order.
    pub outside: [u64; 2],
    /// The probability of such a difference by chance, corrected for all tests.
    pub p_value: f64,
}

/// A part of the order of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaseOrderPart {
    /// After many other tests.
    Late,
    /// After few other tests.
    Early,
}

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

impl OrderEffect {
    /// Describes the effect, one line for each cause.
    pub fn lines(&self) -> Vec<String> {
        let tests = self.tests.iter().map(CaseDependence::text);
        let place = self
            .place
            .as_ref()
            .map(|place| match self.tests.as_slice() {
                [] => place.text(),
                [_] => format!(
                    "whether or not that test ran before it, it fails more often {} in the order ({})",
                    place.part.name(),
                    words::p_value(place.p_value)
                ),
                _ => format!(
                    "whether or not these tests ran before it, it fails more often {} in the order ({})",
                    place.part.name(),
                    words::p_value(place.p_value)
                ),
            });
        let lines: Vec<String> = tests.chain(place).collect();
        if lines.is_empty() {
            return vec![format!(
                "its failures depend on the order of the tests ({}); these trials do not show on what in it",
                words::p_value(self.p_value)
            )];
        }
        lines
    }

    /// Returns whether the failure may need tests that ran before: it never failed as the first test.
    pub(super) fn may_fail_after_tests(&self) -> bool {
        let [first_failures, _] = self.first;
        first_failures == 0 && self.blames_earlier_tests()
    }

    /// Returns whether the test may need others before it to pass: it never passed as the first test.
    pub(super) fn may_need_tests(&self) -> bool {
        let [first_failures, first_trials] = self.first;
        first_failures == first_trials && self.misses_earlier_tests()
    }

    fn blames_earlier_tests(&self) -> bool {
        match self.tests.as_slice() {
            [] => self
                .place
                .as_ref()
                .is_none_or(|place| place.part == CaseOrderPart::Late),
            tests => tests
                .iter()
                .any(|test| test.relation == DependenceKind::FailsAfter),
        }
    }

    fn misses_earlier_tests(&self) -> bool {
        match self.tests.as_slice() {
            [] => self
                .place
                .as_ref()
                .is_some_and(|place| place.part == CaseOrderPart::Early),
            tests => tests
                .iter()
                .any(|test| test.relation == DependenceKind::FailsWithout),
        }
    }

    fn new(found: &VictimFindings, name_of: impl Fn(u32) -> String) -> Self {
        let tests = found.dependences.iter();
        Self {
            p_value: found.corrected_p_value,
            tests: tests
                .map(|dependence| CaseDependence::new(dependence, &name_of))
                .collect(),
            place: found.place.map(CasePlace::new),
            first: counts_of(found.first),
        }
    }
}

impl CasePlace {
    fn text(&self) -> String {
        let limit = words::format_count(self.limit, "test");
        let (inside, outside) = (format_counts(self.inside), format_counts(self.outside));
        let before = match self.part {
            CaseOrderPart::Late => format!("after at least {limit}"),
            CaseOrderPart::Early => format!("after fewer than {limit}"),
        };
        format!(
            "it fails more often {} in the order: {inside} {before}, otherwise {outside} ({})",
            self.part.name(),
            words::p_value(self.p_value)
        )
    }

    fn new(place: PlaceDependence) -> Self {
        Self {
            part: match place.part {
                OrderPart::Late => CaseOrderPart::Late,
                OrderPart::Early => CaseOrderPart::Early,
            },
            limit: place.limit,
            inside: counts_of(place.inside),
            outside: counts_of(place.outside),
            p_value: place.corrected_p_value,
        }
    }
}

impl CaseOrderPart {
    fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Early => "early",
        }
    }
}

impl CaseDependence {
    /// Describes the dependence, with its counts.
    pub fn text(&self) -> String {
        let (after, not_after) = (format_counts(self.after), format_counts(self.not_after));
        let rivals = match self.rivals.as_slice() {
            [] => String::new(),
            [rival] => format!("; or {rival}, which explains the failures as well"),
            rivals => format!(
                "; or one of {} other tests that explain the failures as well",
                rivals.len()
            ),
        };
        match self.relation {
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

    fn new(dependence: &OrderDependence, name_of: impl Fn(u32) -> String) -> Self {
        let rivals = dependence.rivals.iter().take(MOST_RIVALS);
        Self {
            other: name_of(dependence.other),
            relation: match dependence.relation {
                OrderRelation::FailsAfter => DependenceKind::FailsAfter,
                OrderRelation::FailsWithout => DependenceKind::FailsWithout,
            },
            after: counts_of(dependence.after),
            not_after: counts_of(dependence.not_after),
            p_value: dependence.corrected_p_value,
            rivals: rivals.map(|number| name_of(*number)).collect(),
        }
    }
}

fn counts_of(counts: case_statistics::CaseCounts) -> [u64; 2] {
    [counts.failures, counts.trials]
}

fn format_counts([failures, trials]: [u64; 2]) -> String {
    format!("{failures} of {trials}")
}

/// Returns the tests whose failures depend on the order. Nothing is known if all trials had the same order.
pub(super) fn find_order_effects(
    state: &State,
    runner: &CaseRunner,
    suite: &SuiteCounts,
) -> BTreeMap<u32, OrderEffect> {
    if suite.reordered_trials == 0 || isolates_cases(runner) {
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
    let alpha = state.goal.alpha.to_probability();
    let findings = table.find_dependences(&victims, alpha).into_iter();
    findings
        .map(|found| (found.victim, OrderEffect::new(&found, name_of)))
        .collect()
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
