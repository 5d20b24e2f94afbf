//! Holds a thread of a test program, to prove that `hunt` works here.

use provoke_holds::code::CodeCache;
use provoke_holds::run::run_program;
use provoke_model::{CodePoint, Hold, HoldEnd, HoldPlan, HoldPoint, Occurrence};
use provoke_sys::memory::read_mappings;
use provoke_sys::{child, tracee};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time limit for the test program.
const LIMIT: Duration = Duration::from_secs(5);
/// Time limit for the hold.
const HOLD_LIMIT: Duration = Duration::from_millis(50);

/// Result of holding a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldProof {
    /// A thread was held at an instruction.
    Held {
        /// Whether debug registers can watch memory.
        watches: bool,
    },
    /// No thread was held, for this reason.
    NotHeld(String),
}

/// Runs a test program that races, and holds one of its threads. `racing_function` is the address of the function that
/// both threads run, in this process; `provoke` is the program that contains it.
pub fn hold_victim(provoke: &Path, racing_function: usize) -> HoldProof {
    match try_to_hold(provoke, racing_function) {
        Ok(None) => HoldProof::Held {
            watches: can_watch_memory(provoke).is_ok(),
        },
        Ok(Some(reason)) => HoldProof::NotHeld(reason),
        Err(error) => HoldProof::NotHeld(error.to_string()),
    }
}

/// Returns the reason if no thread was held.
fn try_to_hold(provoke: &Path, racing_function: usize) -> io::Result<Option<String>> {
    let address = address_in_file(provoke, racing_function)?;
    let point = CodePoint {
        object: provoke.as_os_str().into(),
        address,
    };
    let hold = Hold {
        point: HoldPoint::Code(point),
        occurrence: Occurrence::Nth(1),
        end: HoldEnd::OthersBlocked,
        limit: HOLD_LIMIT,
        watches: false,
        anchor: None,
    };
    let plan = HoldPlan::within_timeout(vec![hold], LIMIT, false);
    child::become_subreaper()?;
    let command = [provoke.into(), "victim".into(), "race".into()];
    let run = run_program(&command, &plan, &mut CodeCache::default(), LIMIT)?;
    Ok(if run.holds.reached_all(&plan) {
        None
    } else {
        let reason = run.holds.refused.clone();
        Some(reason.unwrap_or_else(|| "no thread reached the point".to_owned()))
    })
}

/// Returns the address of a function of this process as its file has it.
fn address_in_file(file: &Path, function: usize) -> io::Result<u64> {
    let mappings = read_mappings(std::process::id().cast_signed())?;
    let first = mappings
        .iter()
        .find(|mapping| mapping.name.as_bytes() == file.as_os_str().as_bytes());
    let base = first.map_or(0, |mapping| mapping.range.start - mapping.offset);
    Ok((function as u64).wrapping_sub(base))
}

/// Sets a watchpoint in a process.
fn can_watch_memory(provoke: &Path) -> io::Result<()> {
    let command: [OsString; 2] = ["victim".into(), "hang".into()];
    let mut victim = Command::new(provoke)
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let watched = tracee::try_to_watch(victim.id().cast_signed());
    victim.kill()?;
    victim.wait()?;
    watched
}
