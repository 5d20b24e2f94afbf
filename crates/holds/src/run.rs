//! Runs one program under a plan, for tests, examples and measurements.

use crate::code::CodeCache;
use crate::{HoldSession, LOOK_INTERVAL};
use provoke_model::{HoldObservation, HoldPlan};
use provoke_sys::child::{self, ChildEvent, WaitStatus};
use provoke_sys::process::descendant_pids;
use provoke_sys::ptrace::stop_of_thread;
use provoke_sys::signals::send_signal;
use provoke_sys::spawn::{CStringArray, Program, Spawner, path_candidates};
use rustix::process::Signal;
use std::env;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Interval between checks for events while no thread is held.
const PAUSE: Duration = Duration::from_micros(50);

/// How a program ended under a plan.
#[derive(Clone, Debug)]
pub struct HeldRun {
    /// How its first process ended; `None` if it was killed because its time was over.
    pub status: Option<WaitStatus>,
    /// What was observed about its holds.
    pub holds: HoldObservation,
    /// CPU time of its processes.
    pub cpu: Duration,
}

impl HeldRun {
    /// Returns whether it failed: another exit code than 0, a signal, or a hang.
    pub fn has_failed(&self) -> bool {
        self.status != Some(WaitStatus::Exited(0))
    }
}

/// Runs a program, and kills its processes after `limit`. The present process must be a subreaper, and must have no
/// other children.
pub fn run_program(
    command: &[OsString],
    plan: &HoldPlan,
    files: &mut CodeCache,
    limit: Duration,
) -> io::Result<HeldRun> {
    let first = start_program(command)?;
    let mut session = HoldSession::begin(plan.clone(), std::mem::take(files));
    session.add_program(first);
    let begun = Instant::now();
    let mut run = HeldRun {
        status: None,
        holds: HoldObservation::default(),
        cpu: Duration::ZERO,
    };
    let mut killed = false;
    loop {
        match child::peek_child() {
            ChildEvent::Stopped(tid) => {
                if let Some(stop) = stop_of_thread(tid)?
                    && let Some(race) = session.handle_stop(stop)
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
                if pid == first && !killed {
                    run.status = Some(end.status);
                }
            }
            ChildEvent::Alive if begun.elapsed() > limit && !killed => {
                killed = true;
                session.end();
                kill_descendants();
            }
            ChildEvent::Alive => {
                session.look();
                sleep(if session.holds_a_thread() {
                    LOOK_INTERVAL / 2
                } else {
                    PAUSE
                });
            }
            ChildEvent::None => break,
        }
    }
    (run.holds, *files) = session.finish();
    Ok(run)
}

fn start_program(command: &[OsString]) -> io::Result<i32> {
    let name = command.first().ok_or(io::ErrorKind::InvalidInput)?;
    let has_nul = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let arguments = command.iter().map(|word| [word.as_bytes()]);
    let variables: Vec<(OsString, OsString)> = env::vars_os().collect();
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
        identity: None,
    };
    let started = Spawner::default().spawn_followed(&program);
    let (pid, followed) = started.map_err(|error| error.source)?;
    followed.map(|()| pid)
}

fn kill_descendants() {
    for pid in descendant_pids(std::process::id().cast_signed()) {
        // It may have ended.
        let _ = send_signal(pid, Signal::KILL);
    }
}
