//! Decides which of the cases that were running at the end of a trial crashed or timed out.

use crate::model::{CaseEnd, CaseResult, Ending, Observation, Signal, TrialCases};

/// Gives the running cases of a process that died of a signal the end `Crashed`, and those of a trial that provoke killed
/// the end `TimedOut`. If several cases were running in such a process, none of them is blamed.
pub(super) fn attribute_running_cases(cases: &mut TrialCases, observation: &Observation) {
    let timed_out = observation
        .actors
        .iter()
        .any(|actor| matches!(actor.ending, Ending::TimedOut { .. }));
    let deaths = dead_processes(observation);
    let is_running = |result: &&mut CaseResult| result.end == CaseEnd::Unknown;
    let mut running: Vec<&mut CaseResult> = cases.results.iter_mut().filter(is_running).collect();
    if running.is_empty() || deaths.is_empty() && !timed_out {
        return;
    }
    if timed_out {
        for result in running {
            result.end = CaseEnd::TimedOut;
        }
        return;
    }
    let of_dead_process = |result: &CaseResult| {
        let pid = result.pid?;
        deaths.iter().find(|(dead_pid, _)| *dead_pid == pid)
    };
    let is_known = running.iter().any(|result| of_dead_process(result).is_some());
    if is_known {
        for result in running {
            if let Some((_, signal)) = of_dead_process(result) {
                mark_crashed(result, *signal);
            }
        }
    } else if let ([result], [(_, signal)]) = (running.as_mut_slice(), deaths.as_slice()) {
        mark_crashed(result, *signal);
    } else {
        let names: Vec<String> = running
            .iter()
            .take(4)
            .map(|result| result.case.to_string())
            .collect();
        let text = format!(
            "a process died while {} tests were running, and it is not known which of them is the cause: {}",
            running.len(),
            names.join(", ")
        );
        cases.complaints.push(text);
    }
}

fn mark_crashed(result: &mut CaseResult, signal: Signal) {
    result.end = CaseEnd::Crashed;
    result.failure.get_or_insert_default().signal = Some(signal);
}

/// Returns the processes that died of a signal.
fn dead_processes(observation: &Observation) -> Vec<(i32, Signal)> {
    let actors = observation.actors.iter().filter_map(|actor| match actor.ending {
        Ending::Signaled(signal, _) => Some((actor.pid, signal)),
        _ => None,
    });
    let children = observation
        .casualties
        .iter()
        .filter_map(|process| Some((process.pid, process.signal?)));
    actors.chain(children).collect()
}
