//! Runs trials of a program, one at a time.
//!
#![doc = include_str!("../README.md")]
//!
//! [`wire`] has the orders and replies. `trial` runs a trial, and `hooks` the commands around it. `supervise` waits for the
//! processes of a trial, `process_tree` finds processes that remain, `capture` reads output. `deadlock` finds a deadlock
//! before the timeout, `hang` and `snapshots` examine a hung trial, `python_calls`, `java_calls`, `node_calls` and `goroutines` ask
//! its runtimes, `crash_monitor` asks the kernel which process crashed,
//! `trace` follows a trial from fault to fault, and
//! `fake_clock` answers its questions about the time.

mod capture;
mod case_report;
mod command;
mod container;
mod container_end;
mod container_gate;
mod control;
mod crash_monitor;
mod deadlock;
mod diversion;
mod fake_clock;
mod goroutines;
mod hang;
mod hold;
mod hooks;
mod inspector;
mod java_calls;
mod node_calls;
mod pauses;
mod precedence;
mod process;
mod process_tree;
mod python_calls;
mod setup;
mod slow_sync;
mod snapshots;
mod supervise;
mod trace;
mod trial;
pub mod wire;

pub use command::{CommandLine, PlaceholderValues};
pub use container::words_by_hand;
pub use hooks::HOOK_TIMEOUT;

use capture::OutputPatterns;
use control::{ControlConnection, ControlInput};
use crash_monitor::CrashMonitor;
use precedence::Precedence;
use process::TrialProcess;
use provoke_model::{Trial, VariantId};
use provoke_sys::cgroup::TrialGroup;
use provoke_sys::files::{self, create_private};
use provoke_sys::held_folder::HeldFolder;
use provoke_sys::private_folder::PrivateFolder;
use provoke_sys::process::ProcessIdentity;
use provoke_sys::spawn::Spawner;
use provoke_sys::{child, limits, signals};
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace::Tracer;
use wire::{SlotOrder, SlotReply, VariantRecipe};

/// Hidden subcommand that runs the binary as a slot.
pub const COMMAND: &str = "slot";

/// State of a slot.
struct Slot {
    control: ControlConnection,
    spawner: Spawner,
    /// Signalfd that is readable when a child has ended.
    ends: OwnedFd,
    /// Stdin of a process without input.
    nothing: OwnedFd,
    group: Option<TrialGroup>,
    precedence: Precedence,
    crash_monitor: CrashMonitor,
    tracer: Tracer,
    /// There are more unread events of child processes.
    more_events: bool,
    recipes: BTreeMap<VariantId, (VariantRecipe, OutputPatterns)>,
    /// Processes that could not be killed, so that they are not attributed to the next trial.
    given_up: HashSet<ProcessIdentity>,
    /// Reusable buffer for reading from pipes.
    buffer: Vec<u8>,
    /// Hooks that have ended, but whose processes still write output.
    background: Vec<TrialProcess>,
    /// Processes of the last trial with their output, until the output is kept or the next trial
    /// starts.
    last: Vec<TrialProcess>,
    /// Folder of the last trial, which is removed unless it is kept.
    scratch: Option<PathBuf>,
    /// Contains the directories that conditions of the present trial need.
    folders: Option<PrivateFolder>,
    /// Folder of the run.
    run: Option<HeldFolder>,
}

/// Runs a slot in the cgroup with these directories until the connection to provoke closes.
pub fn main(group: &[PathBuf]) -> io::Result<()> {
    // In a separate session, the slot receives neither Ctrl-C nor a signal to provoke's process
    // group.
    let _ = rustix::process::setsid();
    child::become_subreaper()?;
    limits::no_core_dumps();
    signals::restore_internal();
    signals::survive_file_size_limit();
    let span = tracing::info_span!(target: "slot", "slot", pid = std::process::id());
    let _in_slot = span.enter();
    let group = TrialGroup::move_into(group);
    let mut control = ControlConnection::new();
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let null_device = match rustix::fs::open("/dev/null", flags, Mode::empty()) {
        Ok(nothing) => nothing,
        Err(error) => {
            let text = format!("cannot open `/dev/null`: {error}");
            control.send_reply(&SlotReply::Complaint(text));
            return Err(error.into());
        }
    };
    let mut slot = Slot {
        control,
        spawner: Spawner::default(),
        ends: signals::child_ends()?,
        nothing: null_device,
        recipes: BTreeMap::new(),
        given_up: HashSet::new(),
        buffer: vec![0; 64 * 1024],
        background: Vec::new(),
        last: Vec::new(),
        scratch: None,
        folders: None,
        run: None,
        group,
        precedence: Precedence::default(),
        crash_monitor: CrashMonitor::new(),
        tracer: Tracer::default(),
        more_events: false,
    };
    tracing::debug!(target: "slot", "ready");
    slot.control.send_reply(&SlotReply::Ready);
    slot.serve_orders();
    tracing::debug!(target: "slot", "the connection is closed");
    slot.kill_remaining();
    slot.forget_last_trial();
    Ok(())
}

/// Gives a file or folder to the user of the trials, if that is another one.
fn give_to_trial(recipe: &VariantRecipe, path: &Path) -> io::Result<()> {
    match &recipe.start.identity {
        Some(identity) => files::give_to(path, identity.uid, identity.gid),
        None => Ok(()),
    }
}

impl Slot {
    fn serve_orders(&mut self) {
        while let ControlInput::Order(order) = self.wait_for_order() {
            tracing::trace!(target: "slot", order = order.word(), "received an order");
            match order {
                // The last pattern marks a service as ready.
                SlotOrder::Learn(id, recipe) => {
                    match OutputPatterns::compile(recipe.patterns.iter().chain(&recipe.ready)) {
                        Ok(patterns) => {
                            if let Err(error) = self.hold_run(&recipe) {
                                self.control.send_reply(&SlotReply::Complaint(format!(
                                    "the directory of the run: {error}"
                                )));
                                return;
                            }
                            self.recipes.insert(id, (*recipe, patterns));
                        }
                        // The plan has compiled the same patterns. Without the patterns, trials would
                        // be misjudged.
                        Err(error) => {
                            self.control.send_reply(&SlotReply::Complaint(format!(
                                "output patterns: {error}"
                            )));
                            return;
                        }
                    }
                }
                SlotOrder::Run(trials) => self.run_trials(&trials),
                SlotOrder::Hook(hook) => {
                    let hook_result = self.run_setup(&hook);
                    self.control.send_reply(&SlotReply::HookEnded(hook_result));
                }
                SlotOrder::Keep(folder) => {
                    if let Err(error) = self.keep_output(Path::new(folder.as_os_str())) {
                        let text = format!("cannot keep the output of a trial: {error}");
                        self.control.send_reply(&SlotReply::Complaint(text));
                    }
                    self.control.send_reply(&SlotReply::OutputKept);
                }
                // The trial of this order is over.
                SlotOrder::Stop { .. } | SlotOrder::StopService { .. } => {}
            }
        }
    }

    /// Opens the folder of the run, unless it is open.
    fn hold_run(&mut self, recipe: &VariantRecipe) -> io::Result<()> {
        if let (None, Some((path, identity))) = (&self.run, &recipe.run) {
            let folder = HeldFolder::hold_same(Path::new(path.as_os_str()), *identity)?;
            self.run = Some(folder);
        }
        Ok(())
    }

    /// Runs trials in turn until one is not plain: its output is kept until the next order.
    fn run_trials(&mut self, trials: &[Trial]) {
        for trial in trials {
            self.forget_last_trial();
            let observation = self.run_trial(trial);
            let is_plain = observation.is_plain();
            let reply = SlotReply::Finished(trial.id, Box::new(observation));
            self.control.add_reply(&reply);
            if !is_plain {
                break;
            }
        }
        self.control.send_replies();
    }

    /// Waits for the next order, and reads the output of `setup`'s processes meanwhile.
    fn wait_for_order(&mut self) -> ControlInput {
        loop {
            match self.control.take_order() {
                ControlInput::Nothing if self.background.is_empty() => self.control.read_input(),
                ControlInput::Nothing => {
                    let deadline = Instant::now() + supervise::A_DAY;
                    if self.wait_for_activity(&mut [], &OutputPatterns::default(), deadline) {
                        self.control.read_input();
                    }
                }
                heard => return heard,
            }
        }
    }

    /// Writes the output of the last trial, and keeps its folder.
    fn keep_output(&mut self, folder: &Path) -> io::Result<()> {
        self.scratch = None;
        files::create_folders(folder)?;
        let several = self.last.len() > 1;
        for process in &self.last {
            let prefix = match (several, process.name.as_str()) {
                (false, _) => String::new(),
                (true, "") => format!("{}.", process.copy),
                (true, name) => format!("{name}.{}.", process.copy),
            };
            process
                .stdout
                .capture
                .write_to(create_private(&folder.join(format!("{prefix}stdout")))?)?;
            process
                .err
                .capture
                .write_to(create_private(&folder.join(format!("{prefix}stderr")))?)?;
        }
        Ok(())
    }

    /// Drops the state and the folder of the last trial.
    fn forget_last_trial(&mut self) {
        self.last.clear();
        if let Some(scratch) = self.scratch.take() {
            let _ = files::remove_tree(&scratch);
            // Remove the trial's own folder if it is empty.
            let _ = scratch.parent().map(files::remove_empty_folder);
        }
    }
}
