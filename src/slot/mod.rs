//! A slot: the small synchronous process that runs trials, one at a time.
//!
//! Every lane of provoke is one of these, started from the same binary. Being a
//! child subreaper with one trial at a time, it knows that whatever lives below
//! it is of this trial. Being single-threaded, it can start processes as cheaply
//! as the kernel allows. And when the line to provoke closes, because provoke
//! ended or was killed, it kills everything below it and ends.
//!
//! [`wire`] is what it is told and what it answers, `supervise` the life of a
//! trial, `tree` what it leaves behind, `capture` what it says.

mod capture;
mod command;
mod control;
mod process;
mod supervise;
mod tree;
pub mod wire;

pub use command::{CommandLine, Numbers};

use crate::model::{
    ActorPlan, Ending, HookSeen, Leaks, Observation, Residue, Role, Text, Trial, VariantId,
};
use crate::sys::cgroup::MemoryGroup;
use crate::sys::process::Identity;
use crate::sys::spawn::Spawner;
use crate::sys::{child, host, limits, signals};
use control::{Control, Heard};
use process::Process;
use regex::bytes::RegexSet;
use rustix::fs::{Mode, OFlags};
use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wire::{Order, Recipe, Reply};

/// The hidden command under which the binary is a slot.
pub const COMMAND: &str = "slot";

/// A hook that takes longer is killed and has failed.
const HOOK_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of a failed hook's output that are passed on.
const HOOK_OUTPUT: usize = 4 * 1024;

/// A slot and what it knows.
struct Slot {
    control: Control,
    spawner: Spawner,
    /// Readable when a child has ended.
    ends: OwnedFd,
    /// What a process without input reads from.
    nothing: OwnedFd,
    group: Option<MemoryGroup>,
    /// Kills that its memory group had counted when last asked.
    oom_kills: u64,
    recipes: BTreeMap<VariantId, (Recipe, RegexSet)>,
    /// Processes that could not be killed, so that they are not taken for the next trial's.
    given_up: HashSet<Identity>,
    /// Filled by reading from pipes, over and over.
    buffer: Vec<u8>,
    /// The last trial's processes, with their output, until it is kept or the next one begins.
    last: Vec<Process>,
    /// The last trial's folder, to be removed unless it is kept.
    scratch: Option<PathBuf>,
}

/// Runs a slot named `name` until the line to provoke closes.
pub fn main(name: &str) -> io::Result<()> {
    // A session of its own: neither Ctrl-C nor a kill of provoke's group hits it.
    let _ = rustix::process::setsid();
    child::become_subreaper()?;
    limits::no_core_dumps();
    let group = MemoryGroup::enter(name);
    let mut slot = Slot {
        control: Control::new(),
        spawner: Spawner::default(),
        ends: signals::child_ends()?,
        nothing: rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?,
        recipes: BTreeMap::new(),
        given_up: HashSet::new(),
        buffer: vec![0; 64 * 1024],
        last: Vec::new(),
        scratch: None,
        oom_kills: 0,
        group,
    };
    let group = slot.group.as_ref().map(|group| group.path().to_owned());
    slot.control.send(&Reply::Ready { group });
    slot.serve();
    tree::kill(&mut slot.given_up);
    slot.forget();
    Ok(())
}

impl Slot {
    fn serve(&mut self) {
        while let Heard::Order(order) = self.control.wait() {
            match order {
                Order::Learn(id, recipe) => {
                    // The patterns were checked before they were sent.
                    let patterns = RegexSet::new(&recipe.patterns).unwrap_or_default();
                    self.recipes.insert(id, (*recipe, patterns));
                }
                Order::Run(trial) => {
                    self.forget();
                    let seen = self.trial(&trial);
                    self.control
                        .send(&Reply::Finished(trial.id, Box::new(seen)));
                }
                Order::Hook(command) => {
                    let seen = self.setup(&command);
                    self.control.send(&Reply::Hooked(seen));
                }
                Order::Keep(folder) => {
                    if let Err(error) = self.keep(&folder) {
                        let text = format!("cannot keep `{}`: {error}", folder.display());
                        self.control.send(&Reply::Complaint(text));
                    }
                }
                // The trial it was meant for is over.
                Order::Stop { .. } => {}
            }
        }
    }

    /// Runs a trial from its preparation until nothing of it is left.
    fn trial(&mut self, trial: &Trial) -> Observation {
        let mut seen = Observation::default();
        let Some((recipe, patterns)) = self.recipes.remove(&trial.variant) else {
            seen.lost = Some(format!("the slot knows no variant {}", trial.variant.0));
            return seen;
        };
        let scratch = recipe
            .scratch
            .as_ref()
            .map(|root| root.join(trial.id.0.to_string()).join("dir"));
        let made = scratch.as_deref().map_or(Ok(()), fs::create_dir_all);
        self.scratch.clone_from(&scratch);
        let numbers = Numbers::new(trial, &recipe.variant.name, scratch.as_deref());

        seen.prepare = match made {
            Ok(()) => recipe
                .prepare
                .as_ref()
                .and_then(|hook| self.hook(&recipe, hook, &numbers)),
            Err(error) => Some(HookSeen {
                ending: Ending::NotStarted(format!("cannot make the trial's folder: {error}")),
                output: String::new(),
            }),
        };
        if seen.prepare.is_none() {
            let host_kills_before = host_kills_if(self.group.is_none());
            let mut processes = self.start(&recipe, &numbers);
            let how = self.supervise(&mut processes, &patterns, trial.timeout, recipe.grace);
            seen.interrupted = how.interrupted;
            let main = processes
                .iter()
                .filter(|process| process.role == Role::Main);
            seen.elapsed = main
                .map(|process| process.seen.elapsed)
                .max()
                .unwrap_or_default();
            if let Some(hook) = &recipe.conclude {
                seen.conclude = self.hook(&recipe, hook, &numbers);
            }
            let wait = !how.forced && recipe.leaks != Leaks::Off;
            seen.residue = self.residue(&mut processes, &patterns, wait.then_some(recipe.settle));
            for process in &mut processes {
                for stream in [&mut process.out, &mut process.err] {
                    stream.drain(&mut self.buffer, &patterns);
                    stream.close();
                    if !patterns.is_empty() {
                        stream.scanner.finish(&patterns);
                        seen.matched
                            .extend(std::mem::take(&mut stream.scanner).found());
                    }
                }
                seen.actors.push(process.report());
            }
            if self.group.is_none()
                && seen
                    .actors
                    .iter()
                    .any(|actor| supervise::killed(&actor.ending))
            {
                seen.oom_kills_on_host = host_kills_before
                    .zip(host::oom_kills())
                    .map(|(before, after)| after.saturating_sub(before));
            }
            self.last = processes;
        }
        seen.oom_kills = self.new_oom_kills();
        self.recipes.insert(trial.variant, (recipe, patterns));
        seen
    }

    fn start(&mut self, recipe: &Recipe, numbers: &Numbers) -> Vec<Process> {
        let mut processes = Vec::new();
        // What runs beside the main process is there before it.
        for role in [Role::Helper, Role::Main] {
            for (at, actor) in (0..).zip(&recipe.variant.actors) {
                for copy in (0..actor.copies).take_while(|_| actor.role == role) {
                    let nothing = self.nothing.as_fd();
                    let mut process =
                        Process::start(&mut self.spawner, recipe, actor, numbers, nothing);
                    process.seen.actor = at;
                    process.copy = copy;
                    processes.push(process);
                }
            }
        }
        processes
    }

    /// Waits until the tree is empty, or so long, and ends what is left.
    fn residue(
        &mut self,
        processes: &mut [Process],
        patterns: &RegexSet,
        settle: Option<Duration>,
    ) -> Residue {
        let mut residue = Residue::default();
        if !tree::alive(&self.given_up) {
            return residue;
        }
        if let Some(settle) = settle {
            let begun = Instant::now();
            if self.settles(processes, patterns, settle) {
                residue.settled = begun.elapsed();
            } else {
                (residue.leaked, residue.unlisted) = tree::describe(&self.given_up);
            }
        }
        residue.unkillable = tree::kill(&mut self.given_up);
        residue
    }

    /// Runs a command of the user for `sh -c`; returns how it ended unless it succeeded.
    fn hook(&mut self, recipe: &Recipe, command: &Text, numbers: &Numbers) -> Option<HookSeen> {
        let cwd = recipe.variant.actors.first().map(|actor| actor.cwd.clone());
        let actor = shell(command, cwd.unwrap_or_else(|| ".".into()));
        let nothing = self.nothing.as_fd();
        let process = Process::start(&mut self.spawner, recipe, &actor, numbers, nothing);
        let mut processes = [process];
        self.supervise(
            &mut processes,
            &RegexSet::empty(),
            HOOK_TIMEOUT,
            recipe.grace,
        );
        let [mut process] = processes;
        let ending = process.report().ending;
        let failed = ending != Ending::Exited(0);
        failed.then(|| {
            let [out, err] =
                [&process.out, &process.err].map(|stream| stream.capture.end(HOOK_OUTPUT));
            HookSeen {
                ending,
                output: out + &err,
            }
        })
    }

    /// Runs a command around the whole run, in the environment of the first variant.
    fn setup(&mut self, command: &Text) -> Option<HookSeen> {
        let (id, known) = self.recipes.pop_first()?;
        let numbers = Numbers::default();
        let seen = self.hook(&known.0, command, &numbers);
        self.recipes.insert(id, known);
        seen
    }

    /// Writes what the last trial said, and spares its folder.
    fn keep(&mut self, folder: &Path) -> io::Result<()> {
        self.scratch = None;
        fs::create_dir_all(folder)?;
        let several = self.last.len() > 1;
        for process in &self.last {
            let prefix = match (several, process.name.as_str()) {
                (false, _) => String::new(),
                (true, "") => format!("{}.", process.copy),
                (true, name) => format!("{name}.{}.", process.copy),
            };
            process
                .out
                .capture
                .write_to(File::create(folder.join(format!("{prefix}stdout")))?)?;
            process
                .err
                .capture
                .write_to(File::create(folder.join(format!("{prefix}stderr")))?)?;
        }
        Ok(())
    }

    /// Drops what is left of the last trial.
    fn forget(&mut self) {
        self.last.clear();
        if let Some(scratch) = self.scratch.take() {
            let _ = fs::remove_dir_all(&scratch);
            // The trial's own folder, unless something is kept there.
            let _ = scratch.parent().map(fs::remove_dir);
        }
    }

    /// Returns how many processes of this slot were killed for want of memory since the
    /// last time.
    fn new_oom_kills(&mut self) -> Option<u64> {
        let all = self.group.as_ref().and_then(MemoryGroup::oom_kills)?;
        Some(all - std::mem::replace(&mut self.oom_kills, all).min(all))
    }
}

/// The machine-wide count is only worth asking where the lane has no count of its own.
fn host_kills_if(wanted: bool) -> Option<u64> {
    wanted.then(host::oom_kills).flatten()
}

fn shell(command: &Text, cwd: Text) -> ActorPlan {
    ActorPlan {
        name: String::new(),
        role: Role::Main,
        command: vec!["sh".into(), "-c".into(), command.clone()],
        copies: 1,
        env: Vec::new(),
        cwd,
        stdin: None,
    }
}
