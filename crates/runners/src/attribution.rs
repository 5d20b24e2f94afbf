//! Attribution of crashes and timeouts to the cases that were running.
//!
//! A case that was still running at the end of the report has the end [`CaseEnd::Unknown`]. It crashed if its process
//! died, and it timed out if its process was killed because of the time limit. If several cases were running, the
//! process decides: by its pid, by its arguments, or by its stack. If nothing decides, the end stays unknown, so that no
//! case is blamed for the failure of another one.

use super::INTERRUPTED;
use provoke_model::{CaseEnd, CaseFailure, CaseName, Signal, TrialCases};
use std::collections::{BTreeMap, HashSet};

/// Longest name of a thread that Linux shows. libtest names a thread after its test.
const LONGEST_THREAD_NAME: usize = 15;

/// A process of the trial that died, or that was killed because of the time limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndedProcess {
    /// Process ID.
    pub pid: i32,
    /// The program and its arguments, if they are known.
    pub arguments: Vec<String>,
    /// The signal of which it died.
    pub signal: Option<Signal>,
    /// The exit code, if it exited.
    pub exit_code: Option<i32>,
    /// Functions of its stacks: of the crash, or of all threads of a process that was hung.
    pub functions: Vec<String>,
    /// Names of the threads that crashed, or of all threads of a process that was hung.
    pub threads: Vec<String>,
}

/// How a trial ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrialEnding {
    /// Whether the trial was killed because of its time limit.
    pub timed_out: bool,
    /// The processes that died or were killed, the main process included.
    pub processes: Vec<EndedProcess>,
}

/// The decisions about the cases that were running at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Cases whose process died.
    pub crashed: Vec<CaseName>,
    /// Cases whose process was killed because of the time limit.
    pub timed_out: Vec<CaseName>,
    /// Cases that were running, and nothing shows whether they ended their process. They count for nothing.
    pub undecided: Vec<CaseName>,
}

/// Decides which running case crashed or timed out, and fills in the signals of cases whose runner reports a crash.
///
/// If several cases were running when the trial was killed because of its time limit, any of them may have been the
/// slow one, so their ends stay unknown.
pub fn attribute_ends(cases: &mut TrialCases, ending: &TrialEnding) -> Attribution {
    if ending.timed_out {
        reopen_stopped_cases(cases);
    }
    add_signals(cases, ending);
    let running: Vec<usize> = (0..cases.results.len())
        .filter(|position| cases.results[*position].end == CaseEnd::Unknown)
        .filter(|position| ending.timed_out || !is_interrupted(cases, *position))
        .collect();
    // A test that waits for its subtests did not end the process.
    let innermost: Vec<usize> = running
        .iter()
        .copied()
        .filter(|position| !has_running_subtest(cases, &running, *position))
        .collect();
    let decided = match_processes(cases, &innermost, ending);
    let explained: HashSet<i32> = decided.values().map(|process| process.pid).collect();
    let mut attribution = Attribution::default();
    for position in running {
        let result = &mut cases.results[position];
        let Some(process) = decided.get(&position) else {
            // Another case ended its process.
            if result.pid.is_none_or(|pid| !explained.contains(&pid)) {
                attribution.undecided.push(result.case.clone());
            }
            continue;
        };
        let failure = result.failure.get_or_insert_default();
        if failure.kind == INTERRUPTED {
            *failure = CaseFailure::default();
        }
        result.pid = result.pid.or(Some(process.pid));
        if ending.timed_out && !has_crashed(process) {
            result.end = CaseEnd::TimedOut;
            if failure.message.is_empty() {
                "the time limit of the trial ended it".clone_into(&mut failure.message);
            }
            attribution.timed_out.push(result.case.clone());
        } else {
            result.end = CaseEnd::Crashed;
            failure.signal = process.signal;
            if failure.message.is_empty() {
                failure.message = describe_end(process, result.pid == Some(process.pid));
            }
            attribution.crashed.push(result.case.clone());
        }
    }
    attribution
}

/// Marks cases that the runner reports as ended by a signal as running, if the signal is one that ends a trial: the runner
/// passed on the signal that it got because of the time limit.
fn reopen_stopped_cases(cases: &mut TrialCases) {
    for result in &mut cases.results {
        let signal = result.failure.as_ref().and_then(|failure| failure.signal);
        if result.end == CaseEnd::Crashed && signal.is_some_and(|signal| !signal.is_crash()) {
            result.end = CaseEnd::Unknown;
            result.failure = None;
        }
    }
}

/// Returns the process that ended each running case, as far as something shows it.
fn match_processes<'a>(
    cases: &TrialCases,
    running: &[usize],
    ending: &'a TrialEnding,
) -> BTreeMap<usize, &'a EndedProcess> {
    let mut decided: BTreeMap<usize, &EndedProcess> = BTreeMap::new();
    // A process that died of a signal explains more than its parent, which only passes on the failure.
    let mut processes: Vec<&EndedProcess> = ending.processes.iter().collect();
    processes.sort_by_key(|process| process.signal.is_none());
    let is_only_case = running.len() == 1;
    for process in &processes {
        if ending.timed_out && !has_crashed(process) && !is_only_case {
            continue;
        }
        let undecided: Vec<usize> = running
            .iter()
            .copied()
            .filter(|position| !decided.contains_key(position))
            .collect();
        for position in find_cases_of(cases, &undecided, process) {
            decided.insert(position, process);
        }
    }
    // The only running case ended the trial, unless its process is known and another one died of a signal.
    if let ([position], Some(process), true) = (running, processes.first(), decided.is_empty()) {
        let has_pid = cases.results[*position].pid.is_some();
        if ending.timed_out || !has_pid || process.signal.is_none() {
            decided.insert(*position, process);
        }
    }
    decided
}

/// Returns whether a subtest of a case is running, as `TestSub/part` of `TestSub` in Go.
fn has_running_subtest(cases: &TrialCases, running: &[usize], position: usize) -> bool {
    let case = &cases.results[position].case;
    running.iter().any(|other| {
        let other = &cases.results[*other].case;
        other.suite == case.suite
            && other
                .name
                .strip_prefix(case.name.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
    })
}

/// Returns whether the runner left the case when it stopped in an orderly way.
fn is_interrupted(cases: &TrialCases, position: usize) -> bool {
    let failure = cases.results[position].failure.as_ref();
    failure.is_some_and(|failure| failure.kind == INTERRUPTED)
}

/// Returns whether a process died of a signal that shows a fault, not of one that ends a trial.
fn has_crashed(process: &EndedProcess) -> bool {
    process.signal.is_some_and(Signal::is_crash)
}

/// Describes the end of a case. The exit code of another process, such as the runner that started the process of the case,
/// is not that of the case.
fn describe_end(process: &EndedProcess, is_own: bool) -> String {
    match (process.signal, process.exit_code) {
        (Some(signal), _) => format!("its process died of {signal}"),
        (None, Some(code)) if is_own => {
            format!("its process ended with exit code {code} while it was running")
        }
        (None, _) => "its process ended while it was running".to_owned(),
    }
}

/// Adds the signal and the pid to cases that crashed according to their runner, if a process shows them.
fn add_signals(cases: &mut TrialCases, ending: &TrialEnding) {
    let crashed: Vec<usize> = (0..cases.results.len())
        .filter(|position| cases.results[*position].end == CaseEnd::Crashed)
        .collect();
    for process in &ending.processes {
        if process.signal.is_none() {
            continue;
        }
        for position in find_cases_of(cases, &crashed, process) {
            let result = &mut cases.results[position];
            let failure = result.failure.get_or_insert_default();
            failure.signal = failure.signal.or(process.signal);
            result.pid = result.pid.or(Some(process.pid));
        }
    }
    pair_last_crash(cases, &crashed, ending);
    // ctest reports a failure without a signal.
    let failed: Vec<usize> = (0..cases.results.len())
        .filter(|position| {
            let result = &cases.results[*position];
            let has_kind = result
                .failure
                .as_ref()
                .is_some_and(|failure| !failure.kind.is_empty());
            result.end == CaseEnd::Failed && result.pid.is_none() && !has_kind
        })
        .collect();
    for process in &ending.processes {
        if let ([position], true) = (
            &find_by_arguments(cases, &failed, process)[..],
            has_crashed(process),
        ) {
            let result = &mut cases.results[*position];
            result.end = CaseEnd::Crashed;
            result.pid = Some(process.pid);
            result.failure.get_or_insert_default().signal = process.signal;
        }
    }
}

/// Adds the pid of the only process that no case has to the only crashed case without a pid, if the signals are equal.
fn pair_last_crash(cases: &mut TrialCases, crashed: &[usize], ending: &TrialEnding) {
    let mut without_pid = crashed
        .iter()
        .copied()
        .filter(|position| cases.results[*position].pid.is_none());
    let (Some(position), None) = (without_pid.next(), without_pid.next()) else {
        return;
    };
    let signal = cases.results[position]
        .failure
        .as_ref()
        .and_then(|failure| failure.signal);
    let pids: Vec<Option<i32>> = cases.results.iter().map(|result| result.pid).collect();
    let mut processes = ending.processes.iter().filter(|process| {
        signal.is_some() && process.signal == signal && !pids.contains(&Some(process.pid))
    });
    if let (Some(process), None) = (processes.next(), processes.next()) {
        cases.results[position].pid = Some(process.pid);
    }
}

/// Returns the candidates that ran in a process: by its pid, or else by its arguments, or else by its stack.
fn find_cases_of(cases: &TrialCases, candidates: &[usize], process: &EndedProcess) -> Vec<usize> {
    let by_pid: Vec<usize> = candidates
        .iter()
        .copied()
        .filter(|position| cases.results[*position].pid == Some(process.pid))
        .collect();
    match by_pid.len() {
        0 => {}
        1 => return by_pid,
        // One process that runs several cases at once.
        _ => return find_by_stack(cases, &by_pid, process),
    }
    // A case whose pid is known did not run in another process, but its process may have started this one.
    let without_pid: Vec<usize> = candidates
        .iter()
        .copied()
        .filter(|position| cases.results[*position].pid.is_none())
        .collect();
    let by_arguments = find_by_arguments(cases, &without_pid, process);
    if by_arguments.len() == 1 {
        return by_arguments;
    }
    find_by_stack(cases, &without_pid, process)
}

/// Returns the candidates whose name is an argument: nextest starts `BINARY --exact NAME`, ctest
/// `BINARY --gtest_filter=NAME`. Of several, the longest name counts.
fn find_by_arguments(
    cases: &TrialCases,
    candidates: &[usize],
    process: &EndedProcess,
) -> Vec<usize> {
    let arguments = process.arguments.iter().skip(1);
    let values: Vec<&str> = arguments
        .flat_map(|argument| {
            [
                Some(argument.as_str()),
                argument.split_once('=').map(|(_, value)| value),
            ]
        })
        .flatten()
        .collect();
    let is_named = |position: &usize| {
        let case = &cases.results[*position].case;
        values.iter().any(|value| *value == case.name)
            // ctest may have a prefix before the name of the test in the binary.
            || case.suite.is_empty() && values.iter().any(|value| is_last_part(&case.name, value))
    };
    let named: Vec<usize> = candidates.iter().copied().filter(is_named).collect();
    let exact: Vec<usize> = named
        .iter()
        .copied()
        .filter(|position| {
            values
                .iter()
                .any(|value| *value == cases.results[*position].case.name)
        })
        .collect();
    if exact.is_empty() { named } else { exact }
}

/// Returns whether a name consists of a prefix and a value of at least two parts, such as `prefix.Suite.Name`.
fn is_last_part(name: &str, value: &str) -> bool {
    value.contains('.')
        && name
            .strip_suffix(value)
            .is_some_and(|prefix| prefix.ends_with(['.', '/', ':', '_', '-']))
}

/// Returns the candidates whose function is on a stack of the process, or whose thread is named after them.
fn find_by_stack(cases: &TrialCases, candidates: &[usize], process: &EndedProcess) -> Vec<usize> {
    let shown: Vec<usize> = candidates
        .iter()
        .copied()
        .filter(|position| {
            let case = &cases.results[*position].case;
            process
                .functions
                .iter()
                .any(|function| is_function_of(function, case))
                || process
                    .threads
                    .iter()
                    .any(|thread| is_thread_of(thread, case))
        })
        .collect();
    // Several cases with the same function are the instances of a parametrized test.
    if shown.len() == 1 { shown } else { Vec::new() }
}

/// Returns whether a function of a stack is that of a case, such as `sample::tests::panics` of `tests::panics`,
/// `test_crash` of `test_it.py::test_crash[1]`, `pkg.TestPanic.func1` of `TestPanic` or `Suite_Name_Test::TestBody` of
/// `Suite.Name`.
pub(crate) fn is_function_of(function: &str, case: &CaseName) -> bool {
    let function = function.split(['(', '<', '{']).next().unwrap_or_default();
    let name = case.name.split(['[', ' ']).next().unwrap_or_default();
    let last = name.rsplit("::").next().unwrap_or_default();
    if last.is_empty() {
        return false;
    }
    let parts: Vec<&str> = function
        .split("::")
        .flat_map(|part| part.split('.'))
        .collect();
    let is_path = name.contains("::") && !name.contains(".py");
    if is_path {
        // Rust: the whole path counts, because names of tests repeat in modules.
        return function
            .trim_end_matches("::")
            .strip_suffix(name)
            .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with("::"));
    }
    let gtest = last.replace(['.', '/'], "_") + "_Test";
    let go = last.split('/').next().unwrap_or(last);
    parts
        .iter()
        .any(|part| *part == last || *part == gtest || *part == go)
}

/// Returns whether a thread of libtest is named after a case. Linux shows the first 15 bytes of the name, and a message of
/// Rust the whole name.
fn is_thread_of(thread: &str, case: &CaseName) -> bool {
    let name = case.name.as_bytes();
    let visible = &name[..name.len().min(LONGEST_THREAD_NAME)];
    visible.len() > 3 && [name, visible].contains(&thread.as_bytes())
}

#[cfg(test)]
mod tests;
