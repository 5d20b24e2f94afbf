//! Reads the cases of a trial from the report of its runner, and finds out which case crashed.

use super::registry::runner_of;
use super::trial_report::TrialReport;
use crate::attribution::{EndedProcess, TrialEnding, attribute_ends};
use crate::names::join_names;
use provoke_model::{CaseName, CasesPlan, Ending, Observation, TrialCases};

/// Returns the cases of a trial.
pub fn read_cases(
    plan: &CasesPlan,
    report: &TrialReport<'_>,
    observation: &Observation,
) -> TrialCases {
    let runner = match runner_of(plan) {
        Ok(runner) => runner,
        Err(error) => {
            return TrialCases {
                complaints: vec![error.message],
                ..TrialCases::default()
            };
        }
    };
    let mut cases = (runner.read)(report);
    let pattern = plan.strip.as_deref().map(regex::bytes::Regex::new);
    if let Some(Ok(pattern)) = pattern {
        cases = join_names(cases, |name| {
            let rest = pattern.replace_all(name.as_bytes(), &b""[..]);
            String::from_utf8_lossy(&rest).into_owned()
        });
    }
    let attribution = attribute_ends(&mut cases, &trial_ending(observation));
    if !attribution.undecided.is_empty() {
        cases
            .complaints
            .push(describe_undecided(&attribution.undecided));
    }
    let has_ended = !observation.interrupted && observation.lost.is_none();
    if has_ended && cases.results.is_empty() && cases.complaints.is_empty() {
        let missing = runner.missing_report.map(str::to_owned);
        let complaint = missing.unwrap_or_else(|| format!("{} reported no tests", runner.title));
        cases.complaints.push(complaint);
    }
    cases
}

fn describe_undecided(cases: &[CaseName]) -> String {
    if let [case] = cases {
        return format!(
            "the process died while {case} was running, and it is not known whether that is the cause"
        );
    }
    let names: Vec<String> = cases.iter().take(4).map(ToString::to_string).collect();
    format!(
        "the process died while {} tests were running, and it is not known which of them is the cause: {}",
        cases.len(),
        names.join(", "),
    )
}

/// Returns how the processes of the trial ended.
fn trial_ending(observation: &Observation) -> TrialEnding {
    let functions_of = |pid: i32| {
        let crashes = observation
            .cores
            .iter()
            .filter_map(|core| core.crash.as_ref());
        let crash_frames = crashes
            .filter(|crash| crash.pid == pid)
            .flat_map(|crash| crash.python.iter().chain(&crash.frames));
        let hung_threads = observation.hang.iter().flat_map(|hang| &hang.threads);
        let hung_frames = hung_threads
            .filter(|thread| thread.pid == pid)
            .flat_map(|thread| &thread.frames);
        let frames = crash_frames.chain(hung_frames);
        frames
            .filter_map(|frame| frame.function.clone())
            .collect::<Vec<String>>()
    };
    let threads_of = |pid: i32| {
        let hung_threads = observation.hang.iter().flat_map(|hang| &hang.threads);
        let crashed_threads = observation
            .cores
            .iter()
            .filter_map(|core| core.crash.as_ref())
            .filter(|crash| crash.pid == pid)
            .filter_map(|crash| crash.thread_name.clone());
        let messages = observation.actors.iter();
        let overflowed_threads =
            messages.filter_map(|actor| overflowed_thread(actor.crash_message.as_deref()?));
        hung_threads
            .filter(|thread| thread.pid == pid)
            .map(|thread| thread.name.clone())
            .chain(crashed_threads)
            .chain(overflowed_threads.map(str::to_owned))
            .collect::<Vec<String>>()
    };
    let actors = observation.actors.iter().map(|actor| {
        let (signal, exit_code) = match actor.ending {
            Ending::Signaled(signal, _) => (Some(signal), None),
            Ending::Exited(code) => (None, Some(code)),
            _ => (None, None),
        };
        EndedProcess {
            pid: actor.pid,
            arguments: Vec::new(),
            signal,
            exit_code,
            functions: functions_of(actor.pid),
            threads: threads_of(actor.pid),
        }
    });
    let crashed_children = observation
        .crashed_children
        .iter()
        .map(|process| EndedProcess {
            pid: process.pid,
            arguments: vec![process.program.clone()],
            signal: process.signal,
            exit_code: None,
            functions: functions_of(process.pid),
            // The kernel's log names the thread that crashed.
            threads: [threads_of(process.pid), vec![process.program.clone()]].concat(),
        });
    let timed_out = |ending: &Ending| matches!(ending, Ending::TimedOut { .. });
    TrialEnding {
        timed_out: observation
            .actors
            .iter()
            .any(|actor| timed_out(&actor.ending)),
        processes: actors.chain(crashed_children).collect(),
    }
}

/// Returns the thread in a message of Rust: `thread 'tests::deep' (7) has overflowed its stack`.
fn overflowed_thread(message: &str) -> Option<&str> {
    let (name, rest) = message.strip_prefix("thread '")?.split_once('\'')?;
    rest.contains("has overflowed its stack").then_some(name)
}
