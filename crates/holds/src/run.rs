//! Runs programs under a plan, for tests, examples and measurements.

use crate::code::CodeCache;
use crate::{HoldSession, LOOK_INTERVAL, traced_calls};
use provoke_model::{HoldObservation, HoldPlan};
use provoke_sys::call_filter::WallClock;
use provoke_sys::child::{self, ChildEvent, WaitStatus};
use provoke_sys::process::descendant_pids;
use provoke_sys::ptrace::stop_of_thread;
use provoke_sys::signals::send_signal;
use provoke_sys::spawn::{CStringArray, MachineAccess, Program, Spawner, path_candidates};
use rustix::process::Signal;
use std::env;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

/// Interval between checks for events while no thread is held.
const PAUSE: Duration = Duration::from_micros(50);

/// After an event, the next one often follows sooner than a sleep ends.
const EAGER: Duration = Duration::from_micros(200);

/// How the programs of a trial ended under a plan.
#[derive(Clone, Debug)]
pub struct HeldRun {
    /// How the first process of each program ended; `None` if it was killed because its time was over.
    pub statuses: Vec<Option<WaitStatus>>,
    /// Observations about the holds.
    pub holds: HoldObservation,
    /// CPU time of the processes.
    pub cpu: Duration,
}

impl HeldRun {
    /// Returns whether a program failed: another exit code than 0, a signal, or a hang.
    pub fn has_failed(&self) -> bool {
        let is_success = |status: &Option<_>| *status == Some(WaitStatus::Exited(0));
        !self.statuses.iter().all(is_success)
    }
}

/// Runs a program; see [`run_programs`].
pub fn run_program(
    command: &[OsString],
    plan: &HoldPlan,
    files: &mut CodeCache,
    limit: Duration,
) -> io::Result<HeldRun> {
    run_programs(&[command.to_vec()], &[], plan, files, limit)
}

/// Runs programs at once, with additional variables in their environment, and kills their processes after `limit`. The process of the first command has the number 0 in
/// the points, that of the second has the number 1. The present process must be a subreaper, and must have no other
/// children.
pub fn run_programs(
    commands: &[Vec<OsString>],
    variables: &[(OsString, OsString)],
    plan: &HoldPlan,
    files: &mut CodeCache,
    limit: Duration,
) -> io::Result<HeldRun> {
    let calls = traced_calls(plan);
    let mut session = HoldSession::begin(plan.clone(), std::mem::take(files));
    let mut programs = Vec::new();
    for command in commands {
        match start_program(command, variables, &calls) {
            Ok((pid, followed)) => {
                session.add_program(pid);
                programs.push(pid);
                if let Err(reason) = followed {
                    session.refuse(reason.to_string());
                }
            }
            Err(error) => {
                kill_descendants();
                for pid in programs {
                    child::wait_for_child(pid)?;
                }
                return Err(error);
            }
        }
    }
    let started_at = Instant::now();
    let mut last_event = started_at;
    let mut run = HeldRun {
        statuses: vec![None; commands.len()],
        holds: HoldObservation::default(),
        cpu: Duration::ZERO,
    };
    let mut killed = false;
    loop {
        let event = child::peek_child();
        if event != ChildEvent::Alive {
            last_event = Instant::now();
        }
        match event {
            ChildEvent::Stopped(tid) => {
                // The thread may have been killed since: then its end is the next event.
                if let Ok(Some(stop)) = stop_of_thread(tid)
                    && let Some(race) = session.handle_stop(stop, |_, _| {})
                {
                    session.continue_after_race(race);
                }
            }
            ChildEvent::Thread(tid) => {
                session.thread_ended(tid);
                child::reap_if_ended(tid);
            }
            ChildEvent::Ended(pid) => {
                session.thread_ended(pid);
                let end = child::wait_for_child(pid)?;
                run.cpu += end.cpu;
                if let Some(index) = programs.iter().position(|program| *program == pid)
                    && !killed
                {
                    run.statuses[index] = Some(end.status);
                }
            }
            ChildEvent::Alive if started_at.elapsed() > limit && !killed => {
                killed = true;
                session.end();
                kill_descendants();
            }
            ChildEvent::Alive => {
                session.look();
                if session.holds_a_thread() {
                    sleep(LOOK_INTERVAL / 2);
                } else if last_event.elapsed() < EAGER {
                    yield_now();
                } else {
                    sleep(PAUSE);
                }
            }
            ChildEvent::None => break,
        }
    }
    (run.holds, *files) = session.finish();
    Ok(run)
}

/// Starts a program; returns its process, and why it is not traced as requested.
fn start_program(
    command: &[OsString],
    variables: &[(OsString, OsString)],
    calls: &[u64],
) -> io::Result<(i32, io::Result<()>)> {
    let name = command.first().ok_or(io::ErrorKind::InvalidInput)?;
    let has_nul = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let arguments = command.iter().map(|word| [word.as_bytes()]);
    let inherited =
        env::vars_os().filter(|(name, _)| variables.iter().all(|(added, _)| added != name));
    let variables: Vec<(OsString, OsString)> = inherited.chain(variables.iter().cloned()).collect();
    let variables = variables.iter();
    let variables = variables.map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()]);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let program = Program {
        paths: &path_candidates(name, env::var_os("PATH").as_deref()),
        argv: &CStringArray::join_parts(arguments).map_err(has_nul)?,
        envp: &CStringArray::join_parts(variables).map_err(has_nul)?,
        cwd: &CString::new(env::current_dir()?.as_os_str().as_bytes())?,
        stdio: [null.as_fd(); 3],
        limits: &[],
        steps: None,
        identity: None,
        traced_calls: calls,
        needs_tracer: false,
        wall_clock: WallClock::OfMachine,
        machine_access: MachineAccess::Inherited,
        signal_when_parent_ends: Signal::KILL,
    };
    let started = Spawner::default().spawn_followed(&program);
    started.map_err(|error| error.source)
}

fn kill_descendants() {
    for pid in descendant_pids(std::process::id().cast_signed()) {
        // It may have ended.
        let _ = send_signal(pid, Signal::KILL);
    }
}
