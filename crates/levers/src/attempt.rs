//! Tries the start of a trial before the first one, to find out what the kernel refuses.

use super::TrialStart;
use provoke_sys::call_filter::WallClock;
use provoke_sys::private_folder::PrivateFolder;
use provoke_sys::spawn::{CStringArray, MachineAccess, Program, SpawnStep, Spawner};
use provoke_sys::start_step::PreparedSteps;
use provoke_sys::terminal;
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;

/// Columns of a terminal that is only opened.
const COLUMNS: u16 = 80;

/// Starts a process that sets the limits and conditions of a trial and then ends, without a program. The error says what
/// the machine refuses.
pub fn try_start(start: &TrialStart) -> io::Result<()> {
    if start.terminal.is_some() {
        terminal::open_terminal(COLUMNS)?;
    }
    let place = PrivateFolder::new("condition")?;
    let mut steps = start.steps.clone();
    for folder in &start.folders {
        steps.extend(folder.create_in(place.path())?.1);
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, Mode::empty())?;
    let nothing = CStringArray::join_parts::<1>([]).map_err(|_| io::ErrorKind::InvalidInput)?;
    let steps = PreparedSteps::new(&steps, 0)?;
    let program = Program {
        paths: &[],
        argv: &nothing,
        envp: &nothing,
        cwd: &CString::new(place.path().as_os_str().as_bytes())?,
        stdio: [null.as_fd(); 3],
        limits: &start.process_limits(),
        steps: Some(&steps),
        identity: None,
        traced_calls: &[],
        needs_tracer: false,
        wall_clock: WallClock::OfMachine,
        machine_access: MachineAccess::Restricted,
        signal_when_parent_ends: Signal::KILL,
    };
    match Spawner::default().spawn_program(&program) {
        // Its end is expected: there is no program to execute.
        Err(error) if matches!(error.step, SpawnStep::Exec | SpawnStep::Chdir) => Ok(()),
        Err(error) => Err(io::Error::other(format!("{error}: {}", error.source))),
        Ok(_) => Ok(()),
    }
}
