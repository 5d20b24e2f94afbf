//! Records the cases of a trial by their numbers in the run.

use super::LoopState;
use provoke_judge as judge;
use provoke_model::{
    CaseEnd, CaseFailures, CaseName, CaseRecord, CaseResult, Event, NumberList, Observation,
    SignatureId, Trial, TrialCases,
};
use provoke_runners::isolates_cases;
use provoke_state::State;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of cases of a run; further names are not counted.
const MOST_CASES: usize = 200_000;
/// Maximum number of complaints of one trial.
const MOST_COMPLAINTS: usize = 10;

impl LoopState<'_, '_> {
    /// Replaces the report of the runner by a record that names each case by its number.
    pub(super) fn record_cases(&mut self, trial: &Trial, observation: &mut Observation) {
        let Some(cases) = observation.cases.take() else {
            return;
        };
        self.name_cases(&cases);
        let state = &*self.driver.state;
        let isolates = state
            .trials
            .cases
            .as_ref()
            .is_none_or(|plan| isolates_cases(&plan.runner));
        let variant = state.trials.variant_plan(trial.variant);
        let rules = &state.trials.rules;
        let number_of = |name: &CaseName| state.case_names.number_of(name);
        let mut ends: Vec<Option<CaseEnd>> = vec![None; state.case_names.all_names().len()];
        for number in cases.planned.iter().flatten().filter_map(number_of) {
            ends[number as usize] = Some(CaseEnd::NotRun);
        }
        if cases.planned.is_none() {
            for number in unreached_cases(&cases, state) {
                ends[number as usize] = Some(CaseEnd::NotRun);
            }
        }
        let numbered: Vec<(u32, &CaseResult)> = cases
            .results
            .iter()
            .filter_map(|result| Some((number_of(&result.case)?, result)))
            .collect();
        let mut durations = vec![std::time::Duration::ZERO; ends.len()];
        let mut failures: BTreeMap<SignatureId, (Vec<u32>, CaseFailures)> = BTreeMap::new();
        for (number, result) in &numbered {
            ends[*number as usize] = Some(result.end);
            durations[*number as usize] = result.elapsed;
            if !result.end.is_failure() {
                continue;
            }
            let signature =
                judge::case_signature(rules, variant, observation, &cases.results, result);
            let id = signature.id;
            let (numbers, _) = failures.entry(id).or_insert_with(|| {
                let is_new = state.case_names.signature_of(id).is_none();
                let group = CaseFailures {
                    signature_id: id,
                    signature: is_new.then(|| Box::new(signature)),
                    cases: NumberList::default(),
                    failure: if is_new {
                        result.failure.clone().map(Box::new)
                    } else {
                        None
                    },
                };
                (Vec::new(), group)
            });
            numbers.push(*number);
        }
        let retried: Vec<u32> = numbered
            .iter()
            .filter(|(_, result)| result.attempts > 1)
            .map(|(number, _)| *number)
            .collect();
        let timed = ends.iter().zip(&durations);
        let timed = timed
            .filter(|(end, _)| end.is_some_and(|end| end.is_failure() || end.is_pass()))
            .map(|(_, duration)| *duration);
        let failures = failures.into_values().map(|(numbers, group)| CaseFailures {
            cases: NumberList::encode(&numbers),
            ..group
        });
        let record = CaseRecord {
            durations: CaseRecord::encode_durations(timed),
            orders: if isolates {
                Vec::new()
            } else {
                encode_orders(&numbered)
            },
            failures: failures.collect(),
            retried: if retried.is_empty() {
                NumberList::default()
            } else {
                NumberList::encode(&retried)
            },
            complaints: cases.complaints.into_iter().take(MOST_COMPLAINTS).collect(),
            ends: CaseRecord::encode_ends(&ends),
        };
        observation.case_record = Some(Box::new(record));
    }

    /// Adds the cases that the run has not seen before.
    fn name_cases(&mut self, cases: &TrialCases) {
        let known = &self.driver.state.case_names;
        let room = MOST_CASES.saturating_sub(known.all_names().len());
        let planned = cases.planned.iter().flatten();
        let reported = cases.results.iter().map(|result| &result.case);
        let mut new_names: HashSet<&CaseName> = HashSet::new();
        let mut names: Vec<CaseName> = Vec::new();
        for name in planned.chain(reported) {
            if names.len() < room && known.number_of(name).is_none() && new_names.insert(name) {
                names.push(name.clone());
            }
        }
        if !names.is_empty() {
            self.emit_event(&Event::CasesNamed(names));
        }
    }
}

/// Returns the known cases that did not start because another case of their suite ended the process, if the runner
/// announces no cases.
fn unreached_cases(cases: &TrialCases, state: &State) -> Vec<u32> {
    let ended_suites: HashSet<&str> = cases
        .results
        .iter()
        .filter(|result| {
            matches!(
                result.end,
                CaseEnd::Crashed | CaseEnd::TimedOut | CaseEnd::Unknown
            )
        })
        .map(|result| result.case.suite.as_str())
        .collect();
    let isolates = state
        .trials
        .cases
        .as_ref()
        .is_some_and(|plan| isolates_cases(&plan.runner));
    if ended_suites.is_empty() || isolates {
        return Vec::new();
    }
    let numbered = (0..).zip(state.case_names.all_names());
    numbered
        .filter(|(_, name)| ended_suites.contains(name.suite.as_str()))
        .map(|(number, _)| number)
        .collect()
}

/// Returns the orders in which processes ran their cases, unless one process ran them in the order of their numbers.
fn encode_orders(numbered: &[(u32, &CaseResult)]) -> Vec<NumberList> {
    let mut processes: Vec<Vec<u32>> = Vec::new();
    let mut index_of: HashMap<Option<i32>, usize> = HashMap::new();
    // Some runners report no processes, and only the process of a crash is known.
    let knows_processes = numbered.iter().all(|(_, result)| result.pid.is_some());
    for (number, result) in numbered {
        let pid = if knows_processes { result.pid } else { None };
        let index = *index_of.entry(pid).or_insert_with(|| {
            processes.push(Vec::new());
            processes.len() - 1
        });
        processes[index].push(*number);
    }
    match processes.as_slice() {
        [] => Vec::new(),
        [order] if order.is_sorted() => Vec::new(),
        orders => orders
            .iter()
            .map(|order| NumberList::encode(order))
            .collect(),
    }
}
