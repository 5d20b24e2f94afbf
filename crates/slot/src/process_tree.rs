//! Finds, describes and kills processes that remain after a trial.
//!
//! The slot is a child subreaper and runs one trial at a time, so every process below it belongs to
//! the present trial, however often it forked, whatever session it opened and whatever it closed.

use provoke_model::{ProcessObservation, Text};
use provoke_sys::child::{self, ChildEnd, ChildEvent};
use provoke_sys::process::{self, ProcessIdentity};
use provoke_sys::ptrace::{self, ThreadStop};
use provoke_sys::{signals, threads};
use rustix::process::Signal;
use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Leaked processes that are described individually; the rest is counted.
const LISTED: usize = 64;
/// Number and interval of further reads for a process without a command line.
const COMMAND_ASKED: u32 = 20;
const COMMAND_PAUSE: Duration = Duration::from_millis(1);
/// Bytes of a command line that are kept.
const COMMAND_LINE: usize = 4096;
/// Time limit for killing; a process that survives is called unkillable.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Limit of events that are handled at once, because a process that faults for ever stops for ever, and the processes of a
/// fork bomb never cease to end.
const ONE_GO: usize = 256;

/// Event of a process of the trial.
#[derive(Clone, Copy)]
pub(super) enum ProcessEvent {
    /// A process has ended and was reaped.
    Ended(i32, ChildEnd),
    /// A thread has stopped, and must be continued.
    Stopped(ThreadStop),
    /// A traced thread has ended, but not its process.
    ThreadEnded(i32),
}

/// State of the trial's processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeState {
    Nothing,
    /// Some processes live.
    Something,
    /// Some processes live, and there are more events.
    MoreEvents,
}

/// Receives the events of processes, and passes them on.
pub(super) fn drain_events(mut hear: impl FnMut(ProcessEvent)) -> TreeState {
    for _ in 0..ONE_GO {
        match child::peek_child() {
            ChildEvent::Ended(pid) => {
                if let Ok(child_end) = child::wait_for_child(pid) {
                    hear(ProcessEvent::Ended(pid, child_end));
                }
            }
            ChildEvent::Thread(tid) => {
                let _ = child::wait_for_child(tid);
                hear(ProcessEvent::ThreadEnded(tid));
            }
            ChildEvent::Stopped(tid) => {
                if let Ok(Some(stop)) = ptrace::stop_of_thread(tid) {
                    hear(ProcessEvent::Stopped(stop));
                }
            }
            ChildEvent::Alive => return TreeState::Something,
            ChildEvent::None => return TreeState::Nothing,
        }
    }
    TreeState::MoreEvents
}

/// Receives the events of processes, and passes them on. Returns whether any process lives that is
/// not in `given_up`.
pub(super) fn is_anything_alive(
    given_up: &HashSet<ProcessIdentity>,
    hear: impl FnMut(ProcessEvent),
) -> bool {
    drain_events(hear) != TreeState::Nothing
        && (given_up.is_empty() || !living_processes(given_up).is_empty())
}

/// Ignores events, because the processes are being killed. Only threads that stop at their end are continued: no signal ends
/// these stops.
pub(super) fn ignore_event(event: ProcessEvent) {
    if let ProcessEvent::Stopped(stop) = event
        && stop.is_at_end()
    {
        stop.resume_thread();
    }
}

/// Returns every living process of the trial, parents before their children.
pub(super) fn living_processes(given_up: &HashSet<ProcessIdentity>) -> Vec<i32> {
    let own_pid = std::process::id().cast_signed();
    let mut pids = process::descendant_pids(own_pid);
    pids.retain(|pid| {
        process::process_state(*pid)
            .is_some_and(|(state, identity)| state != 'Z' && !given_up.contains(&identity))
    });
    pids
}

/// Sends a signal to every process of the trial.
pub(super) fn signal_all(signal: Signal) {
    for pid in process::descendant_pids(std::process::id().cast_signed()) {
        // A process that may not be signalled is handled when it is to be killed.
        let _ = signals::send_signal(pid, signal);
    }
}

/// Describes up to [`LISTED`] living processes of the trial, and counts the rest.
pub(super) fn describe_living(
    given_up: &HashSet<ProcessIdentity>,
) -> (Vec<ProcessObservation>, u64) {
    let own_pid = std::process::id().cast_signed();
    let pids = living_processes(given_up);
    // A parent comes before its children, so the ancestors of these processes are among them.
    let listed_pids = pids.iter().take(LISTED);
    let details: Vec<_> = listed_pids.filter_map(|pid| lasting_detail(*pid)).collect();
    let parent_of = |pid: i32| details.iter().find(|detail| detail.identity.pid == pid);
    let observe = |detail: &process::ProcessDetails| {
        let mut ancestors = Vec::new();
        let mut ancestor = detail.ppid;
        while ancestor != own_pid
            && ancestors.len() < LISTED
            && let Some(parent) = parent_of(ancestor)
        {
            ancestors.push(parent.name.clone());
            ancestor = parent.ppid;
        }
        let mut room = COMMAND_LINE;
        let fits = |word: &&std::ffi::OsString| {
            room = room.saturating_sub(word.len() + 1);
            room > 0
        };
        let command: Vec<Text> = detail
            .command
            .iter()
            .take_while(fits)
            .map(Into::into)
            .collect();
        ProcessObservation {
            pid: detail.identity.pid,
            ppid: detail.ppid,
            ancestors,
            session: detail.session,
            state: detail.state,
            age: detail.age,
            rss_kib: detail.rss_kib,
            threads: detail.threads,
            command: if command.is_empty() {
                vec![format!("[{}]", detail.name).into()]
            } else {
                command
            },
            cwd: (&detail.cwd).into(),
            waiting: threads::glance_at(detail.identity.pid, detail.identity.pid)
                .map(|glance| glance.waiting_reason())
                .unwrap_or_default(),
            core: None,
        }
    };
    let listed = details.iter().map(observe).collect();
    (listed, pids.len().saturating_sub(LISTED) as u64)
}

/// Returns the details of a process. A process that just starts a program briefly lacks a command
/// line, and is read again.
fn lasting_detail(pid: i32) -> Option<process::ProcessDetails> {
    let mut detail = process::process_detail(pid)?;
    for _ in 0..COMMAND_ASKED {
        if !detail.command.is_empty() {
            break;
        }
        sleep(COMMAND_PAUSE);
        detail = process::process_detail(pid)?;
    }
    Some(detail)
}

/// Kills and reaps processes until none is left; returns the processes that could not be killed.
///
/// A tree may fork while it is being killed, so the function repeats until the kernel reports no
/// children.
pub(super) fn kill_all(given_up: &mut HashSet<ProcessIdentity>) -> Vec<ProcessObservation> {
    let started_at = Instant::now();
    let mut pause = Duration::from_micros(50);
    for round in 0.. {
        if !is_anything_alive(given_up, ignore_event) {
            break;
        }
        if round > 0 {
            stop_all(given_up, started_at + PATIENCE);
        }
        for pid in living_processes(given_up) {
            let _ = signals::send_signal(pid, Signal::KILL);
        }
        if !is_anything_alive(given_up, ignore_event) {
            break;
        }
        if started_at.elapsed() > PATIENCE {
            let (unkillable, _) = describe_living(given_up);
            let living = living_processes(given_up);
            given_up.extend(
                living
                    .iter()
                    .filter_map(|pid| Some(process::process_state(*pid)?.1)),
            );
            return unkillable;
        }
        sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Vec::new()
}

/// Stops every process of the trial, so that none forks while it is being killed. A process that
/// was forked meanwhile is stopped in the next round, until a round finds no running process.
fn stop_all(given_up: &HashSet<ProcessIdentity>, until: Instant) {
    let stopped = |pid: &i32| {
        process::process_state(*pid).is_none_or(|(state, _)| matches!(state, 'T' | 't' | 'Z' | 'X'))
    };
    loop {
        let mut running = living_processes(given_up);
        running.retain(|pid| !stopped(pid));
        if running.is_empty() || Instant::now() > until {
            return;
        }
        for pid in running {
            let _ = signals::send_signal(pid, Signal::STOP);
        }
    }
}
