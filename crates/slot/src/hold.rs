//! Holds the threads of a trial, if its plan says so.

use super::container_gate::ContainerGate;
use super::snapshots::SnapshotFolder;
use super::wire::VariantRecipe;
use provoke_holds::code::CodeCache;
use provoke_holds::python::{has_lines, prepare_lines, read_lines};
use provoke_holds::{HoldSession, LOOK_INTERVAL, traced_calls};
use provoke_model::{HoldObservation, HoldPlan, RacingAccess};
use provoke_sys::held_folder::check_place;
use provoke_sys::ptrace::ThreadStop;
use provoke_sys::snapshot::CoreThreads;
use provoke_sys::{files, threads};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for recording both sides of a race.
const PATIENCE: Duration = Duration::from_secs(1);
/// Name of the folder for the lines of Python programs.
const LINES_FOLDER: &str = "lines";
/// Limit of races that are recorded of one trial.
const MAX_RACES: usize = 4;

/// The holds of the present trial, if it has any.
#[derive(Default)]
pub(super) struct TrialHolds {
    session: Option<HoldSession>,
    /// The files with code of earlier trials.
    files: CodeCache,
    snapshots: SnapshotFolder,
    races: usize,
    /// The plan, and the folder for the lines of Python programs, if it has such points.
    lines: Option<(HoldPlan, PathBuf)>,
}

impl TrialHolds {
    /// Starts a trial.
    pub(super) fn begin_trial(&mut self, plan: Option<&HoldPlan>, snapshots: &SnapshotFolder) {
        self.session =
            plan.map(|plan| HoldSession::begin(plan.clone(), std::mem::take(&mut self.files)));
        self.snapshots.clone_from(snapshots);
        self.races = 0;
        self.lines = None;
    }

    /// Prepares the points in Python programs. Returns the variables that the environment of the programs needs.
    pub(super) fn prepare_python(
        &mut self,
        plan: Option<&HoldPlan>,
        recipe: &VariantRecipe,
    ) -> Vec<(OsString, OsString)> {
        let Some((plan, folder)) = plan.zip(self.snapshots.folder.as_ref()) else {
            return Vec::new();
        };
        if !has_lines(plan) {
            return Vec::new();
        }
        let folder = folder.join(LINES_FOLDER);
        let path = recipe.environment.iter();
        let mut path = path.filter(|(name, _)| name.as_os_str() == "PYTHONPATH");
        let path = path.next().map(|(_, value)| value.as_os_str());
        let prepared = files::create_folders(&folder)
            .and_then(|()| check_place(&folder))
            .and_then(|()| prepare_lines(&folder, plan, path));
        match (prepared, &mut self.session) {
            (Ok(variables), _) => {
                self.lines = Some((plan.clone(), folder));
                variables
            }
            (Err(error), Some(session)) => {
                session.refuse(format!("cannot prepare Python: {error}"));
                Vec::new()
            }
            (Err(_), None) => Vec::new(),
        }
    }

    /// Returns whether the threads of the trial are traced to hold them.
    pub(super) fn is_active(&self) -> bool {
        self.session.is_some()
    }

    /// Adds a process that was started, and the reason if it is not traced.
    pub(super) fn add_program(&mut self, pid: i32, untraced: Option<&str>) {
        match (&mut self.session, untraced) {
            (Some(session), None) => session.add_program(pid),
            (Some(session), Some(reason)) => session.refuse(reason.to_owned()),
            (None, _) => {}
        }
    }

    /// Creates the gate at which the program of a container waits until it is traced.
    pub(super) fn container_gate(&mut self, actor: u32, copy: u32) -> Option<ContainerGate> {
        let session = self.session.as_mut()?;
        let folder = self.snapshots.folder.as_ref()?;
        let created = ContainerGate::create(folder, &format!("{actor}.{copy}"));
        if let Err(error) = &created {
            session.refuse(format!("cannot create a named pipe: {error}"));
        }
        created.ok()
    }

    /// Adds the process of a program in a container, or the reason why it is not traced.
    pub(super) fn add_contained(&mut self, traced: Result<i32, String>) {
        match (&mut self.session, traced) {
            (Some(session), Ok(pid)) => session.add_program(pid),
            (Some(session), Err(reason)) => session.refuse(reason),
            (None, _) => {}
        }
    }

    /// Handles the stop of a thread, unless no thread is held in this trial. Calls `on_signal` before a signal of the
    /// program is delivered. Returns whether the stop was handled.
    pub(super) fn handle_stop(
        &mut self,
        stop: ThreadStop,
        on_signal: impl FnOnce(ThreadStop, i32),
    ) -> bool {
        let Some(session) = &mut self.session else {
            return false;
        };
        if let Some(mut race) = session.handle_stop(stop, on_signal) {
            if self.races < MAX_RACES {
                self.races += 1;
                record_stacks(&mut race, &self.snapshots, self.races);
            }
            session.continue_after_race(race);
        }
        true
    }

    /// Forgets a thread or a process that has ended.
    pub(super) fn thread_ended(&mut self, tid: i32) {
        if let Some(session) = &mut self.session {
            session.thread_ended(tid);
        }
    }

    /// Releases held threads whose holds are over. Returns the time until the next look, if a thread is held.
    pub(super) fn look(&mut self) -> Option<Duration> {
        let session = self.session.as_mut()?;
        session.look();
        session.holds_a_thread().then_some(LOOK_INTERVAL / 2)
    }

    /// Releases all threads, and restores the memory of the processes.
    pub(super) fn release_all(&mut self) {
        if let Some(session) = &mut self.session {
            session.end();
        }
    }

    /// Returns what was observed in the finished trial.
    pub(super) fn take_observation(&mut self) -> Option<Box<HoldObservation>> {
        let (mut observation, files) = self.session.take()?.finish();
        self.files = files;
        if let Some((plan, folder)) = self.lines.take() {
            if let Err(error) = read_lines(&folder, &plan, &mut observation) {
                let reason = format!("cannot read the lines of Python: {error}");
                observation.refused.get_or_insert(reason);
            }
            let _ = files::remove_tree(&folder);
        }
        Some(Box::new(observation))
    }
}

/// Returns the system calls that the processes of a trial must report.
pub(super) fn calls_of(plan: Option<&HoldPlan>) -> Vec<u64> {
    plan.map_or_else(Vec::new, traced_calls)
}

/// Writes a core with the stacks of both threads.
fn record_stacks(race: &mut RacingAccess, snapshots: &SnapshotFolder, number: usize) {
    let Some(pid) = threads::process_of(race.held.tid) else {
        return;
    };
    let tids = [race.held.tid, race.other.tid];
    let until = Instant::now() + PATIENCE;
    let kind = format!("race{number}");
    race.core = snapshots.write_core(&kind, pid, CoreThreads::Stopped(&tids), until);
}
