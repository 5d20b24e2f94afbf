//! Collects the evidence of a trial: takes and reads its cores.
//!
//! The cores are collected between the end of a trial and the next trial of its slot, so that no
//! core is overwritten.

use super::core_search::{candidate_files, find_cores, has_dumped, is_of_another};
use super::image::ImageFolders;
use provoke_autopsy::{CommandEnvironment, CoreError, ExaminerClient, ExaminerSettings, tools};
use provoke_model::{
    Autopsy, CodePoint, CoreObservation, Ending, HungThread, KernelLine, Observation, STORY_FILE,
    Trial, VariantPlan,
};
use provoke_slot::wire::VariantRecipe;
use provoke_sys::core_pattern;
use provoke_sys::emulator::Emulator;
use provoke_sys::{files, host, processor};
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// Reason for a core that the kernel dumped to an unknown place.
const LOST: &str = "a core was dumped but not found: the program had changed its working directory, or another crash overwrote the core";
/// Reason for a core that only its owner may read.
const OF_ANOTHER: &str = "only the user that the program ran as can read it";
/// Reason for a core that another process has overwritten.
const OVERWRITTEN: &str = "another crash overwrote it, because all cores have the same name: `sysctl kernel.core_uses_pid=1`";
/// Reason for a truncated core.
const CUT_SHORT: &str =
    "it is truncated: the file size limit of the program (RLIMIT_FSIZE), or a full disk";
/// Time limit of tools that read a core, because other trials wait for them.
const TOOLS_WITHIN: Duration = Duration::from_secs(3);

/// Time limit of the analysis of a core, because other trials wait for it.
const ANALYSIS_WITHIN: Duration = Duration::from_secs(10);

/// Collects the cores of trials.
pub(super) struct CoreCollector {
    /// Folder with a folder for each trial.
    trials: PathBuf,
    pub(super) examiner: Mutex<ExaminerClient>,
    pub(super) images: Mutex<ImageFolders>,
    /// The points of paths that were named after earlier trials, each with its variant.
    pub(super) named_points: Mutex<BTreeSet<(String, CodePoint)>>,
}

/// Facts about the process of a core that the core does not contain.
struct CoreContext<'a> {
    /// The pid of the process in its container.
    inside: Option<i32>,
    /// Root directory of the process.
    root: Option<PathBuf>,
    /// Working directory of the process.
    folder: &'a Path,
    processor: Option<&'a BTreeSet<String>>,
}

impl CoreCollector {
    /// Creates a collector that reads cores with this binary of the program.
    pub(super) fn new(trials: &Path, binary: &Path) -> Self {
        let settings = ExaminerSettings::default();
        let examiner = ExaminerClient::new(binary, settings, ANALYSIS_WITHIN);
        Self {
            trials: trials.to_owned(),
            examiner: Mutex::new(examiner),
            images: Mutex::new(ImageFolders::new(trials)),
            named_points: Mutex::default(),
        }
    }

    /// Takes and reads the cores of a trial that started at `began`.
    pub(super) fn collect_cores(
        &self,
        trial: &Trial,
        variant: &VariantPlan,
        began: SystemTime,
        observation: &mut Observation,
    ) {
        let folder = self.trials.join(trial.id.0.to_string());
        let Ok(destination) = core_pattern::read_destination() else {
            return;
        };
        let cores = find_cores(
            &destination,
            variant,
            &folder.join("dir"),
            (began, trial.seed),
            observation,
        );
        for (core, owner, number) in cores {
            if observation.cores.iter().any(|core| core.pid == owner.pid) {
                let _ = files::remove_file(&core);
                continue;
            }
            // Prefer the actor with this pid. A child does not have an actor; any container of the
            // trial will do for it.
            let mut actors: Vec<_> = observation.actors.iter_mut().collect();
            actors.sort_by_key(|actor| actor.pid != owner.pid);
            let mut containers = actors
                .into_iter()
                .filter_map(|actor| actor.container.as_mut());
            if number != owner.pid
                && let Some(container) = containers.next()
                && !container.numbers.contains(&(number, owner.pid))
            {
                container.numbers.push((number, owner.pid));
            }
            let core_copy = folder.join(format!("core.{}", owner.pid));
            let size = files::metadata_itself(&core).map_or(0, |metadata| metadata.len());
            if let Err(error) =
                files::create_folders(&folder).and_then(|()| files::move_file(&core, &core_copy))
            {
                observation.cores.push(CoreObservation {
                    pid: owner.pid,
                    file: core.into_os_string().into(),
                    size,
                    crash: None,
                    unread: Some(format!("cannot move it: {error}")),
                });
                continue;
            }
            observation.cores.push(CoreObservation {
                pid: owner.pid,
                file: core_copy.into_os_string().into(),
                size,
                crash: None,
                unread: None,
            });
        }
        let find_core_of_another = || {
            let template = destination.core_template()?;
            let scratch = folder.join("dir");
            let paths = candidate_files(template, variant, &scratch, began, observation);
            paths.into_iter().find(|path| is_of_another(path))
        };
        let of_another = find_core_of_another();
        if let Some(template) = destination.core_template() {
            let paths = candidate_files(template, variant, &folder.join("dir"), began, observation);
            take_cut_short(paths, &folder, observation);
        }
        Self::record_missing_cores(observation, of_another.as_deref());
    }

    /// Records the processes whose core was dumped but not found, or may not be read.
    fn record_missing_cores(observation: &mut Observation, of_another: Option<&Path>) {
        let missed = missing_cores(observation);
        observation
            .cores
            .extend(missed.into_iter().map(|pid| CoreObservation {
                pid,
                file: of_another.unwrap_or(Path::new("")).as_os_str().into(),
                unread: Some(of_another.map_or(LOST, |_| OF_ANOTHER).to_owned()),
                ..CoreObservation::default()
            }));
    }

    /// Reads every core of a trial, and writes the complete analysis.
    pub(super) fn examine_cores(
        &self,
        trial: u64,
        recipe: &VariantRecipe,
        observation: &mut Observation,
    ) {
        let variant = &recipe.variant;
        let main = variant.main_actor();
        let folder = main.map_or(Path::new(""), |actor| Path::new(actor.cwd.as_os_str()));
        let is_any = !observation.cores.is_empty();
        let emulated_flags = is_any.then(|| emulated_cpu_flags(recipe)).flatten();
        let processor = emulated_flags.or_else(host::processor_flags);
        let mut stories = Vec::new();
        let contained = observation
            .actors
            .iter()
            .filter_map(|actor| actor.container.as_ref());
        let numbers: Vec<(i32, i32)> = contained
            .flat_map(|observation| observation.numbers.clone())
            .collect();
        let actor_pids: Vec<(i32, u32)> = observation
            .actors
            .iter()
            .map(|actor| (actor.pid, actor.actor))
            .collect();
        let context_of = |core: &CoreObservation| CoreContext {
            inside: {
                let mut numbers = numbers.iter();
                let pids = numbers.find(|(_, host_pid)| *host_pid == core.pid);
                pids.map(|(inside, _)| *inside)
            },
            root: self.root_of_core(core, variant, &actor_pids),
            folder,
            processor: processor.as_ref(),
        };
        for core in &mut observation.cores {
            let core_context = context_of(core);
            let Some(mut story) = self.read_core(core, core_context) else {
                continue;
            };
            let thread = story.threads.first_mut();
            if let Some(thread) = thread
                && let Some(name) = thread_name(&observation.kernel, thread.tid)
                && name != story.crash.program
            {
                thread.name.clone_from(&name);
                story.crash.thread_name = Some(name);
                core.crash = Some(Box::new(story.crash.clone()));
            }
            stories.push(story);
        }
        if let Some(hang) = &mut observation.hang {
            for core in &mut hang.cores {
                let core_context = context_of(core);
                if let Some(story) = self.read_core(core, core_context) {
                    stories.push(story);
                    self.name_locks(core, &mut hang.threads);
                }
            }
            for thread in &mut hang.threads {
                let known_threads = stories.iter().flat_map(|story| &story.threads);
                if let Some(known_thread) = known_threads
                    .into_iter()
                    .find(|known| known.tid == thread.tid)
                {
                    thread.frames.clone_from(&known_thread.frames);
                    thread.frames.truncate(FRAMES);
                }
            }
        }
        for process in &mut observation.residue.leaked {
            if let Some(core) = &mut process.core {
                let core_context = context_of(core);
                stories.extend(self.read_core(core, core_context));
            }
        }
        if !stories.is_empty()
            && let Ok(text) = serde_json::to_vec_pretty(&stories)
        {
            // The analysis in the journal is sufficient without this file.
            let story = self.trials.join(trial.to_string()).join(STORY_FILE);
            let _ = files::create_private(&story).and_then(|mut file| file.write_all(&text));
        }
    }

    /// Names the locks that the threads of a core's process wait for, right after the core was
    /// read.
    fn name_locks(&self, core: &CoreObservation, threads: &mut [HungThread]) {
        let mut waiting: Vec<&mut HungThread> = threads
            .iter_mut()
            .filter(|thread| thread.pid == core.pid && thread.lock_at.is_some())
            .collect();
        if waiting.is_empty() {
            return;
        }
        let addresses: Vec<u64> = waiting.iter().filter_map(|thread| thread.lock_at).collect();
        let mut examiner = self.examiner.lock().expect("no panic");
        let names = examiner.variables_at(Path::new(core.file.as_os_str()), &addresses);
        for (thread, name) in waiting.iter_mut().zip(names) {
            thread.lock = name;
        }
    }

    /// Returns a folder with the files of the container in which a process ran. The container of a
    /// child is unknown; the first container of the trial is used.
    fn root_of_core(
        &self,
        core: &CoreObservation,
        variant: &VariantPlan,
        actors: &[(i32, u32)],
    ) -> Option<PathBuf> {
        let container_of = |index: u32| variant.actors.get(index as usize)?.container.as_ref();
        let actor = actors.iter().find(|(pid, _)| *pid == core.pid);
        let container = match actor {
            Some((_, index)) => container_of(*index),
            None => actors.iter().find_map(|(_, index)| container_of(*index)),
        };
        let mut images = self.images.lock().expect("no panic");
        images.root_for_core(container?, &variant.name, Path::new(core.file.as_os_str()))
    }

    /// Reads and analyses a core.
    fn read_core(
        &self,
        core: &mut CoreObservation,
        core_context: CoreContext<'_>,
    ) -> Option<Autopsy> {
        if core.unread.is_some() {
            return None;
        }
        let inside = core_context.inside;
        let read = {
            let mut examiner = self.examiner.lock().expect("no panic");
            examiner.set_origin(
                core_context.root,
                core_context.folder,
                core_context.processor.cloned(),
            );
            examiner.examine_core(Path::new(core.file.as_os_str()))
        };
        match read {
            Ok(story) if ![Some(core.pid), inside].contains(&Some(story.crash.pid)) => {
                core.unread = Some(OVERWRITTEN.to_owned());
                None
            }
            Ok(mut story) => {
                tools::ask_for_python(&mut story, Path::new(core.file.as_os_str()), TOOLS_WITHIN);
                core.crash = Some(Box::new(story.crash.clone()));
                Some(story)
            }
            Err(error) => {
                core.unread = Some(match error {
                    CoreError::Unfinished { why, .. } => why,
                    error => error.to_string(),
                });
                None
            }
        }
    }
}

/// Returns the CPU flags that a main process under an emulator saw: `qemu-x86_64 -cpu SandyBridge ./program`.
fn emulated_cpu_flags(recipe: &VariantRecipe) -> Option<BTreeSet<String>> {
    let actors = recipe.variant.actors.iter();
    let (actor, emulator) = actors
        .filter(|actor| actor.role.decides_outcome())
        .find_map(|actor| Some((actor, Emulator::find_in_command(&actor.command)?)))?;
    let environment = CommandEnvironment::of_actor(&recipe.environment, actor);
    let file = environment.find_program(actor.command[emulator.at].as_os_str())?;
    let ourselves = std::env::current_exe().ok()?;
    let deadline = Instant::now() + TOOLS_WITHIN;
    let processor = processor::emulated_processor(&file, emulator.model, &ourselves, deadline)?;
    Some(processor.flags.into_iter().collect())
}

/// Returns the name of a crashed thread from the kernel log: `NAME[TID]: segfault at …`.
fn thread_name(log_lines: &[KernelLine], tid: i32) -> Option<String> {
    let mark = format!("[{tid}]");
    let mut names = log_lines.iter().filter_map(|line| {
        let line = line.text.strip_prefix("traps: ").unwrap_or(&line.text);
        let (name, _) = line.split_once(&mark)?;
        (name.len() <= LONGEST_NAME).then(|| name.to_owned())
    });
    names.next()
}

/// Limit of a thread name in bytes; each byte that is not UTF-8 was replaced with three.
const LONGEST_NAME: usize = 15 * 3;

/// Frames of a hung thread that the journal keeps.
const FRAMES: usize = 16;

/// Returns the actors whose core was dumped but is not known.
fn missing_cores(observation: &Observation) -> Vec<i32> {
    let actors = observation.actors.iter();
    let dumped = actors
        .filter(|actor| matches!(actor.ending, Ending::Signaled(_, true)) || has_dumped(actor));
    let had = |pid: i32| observation.cores.iter().any(|core| core.pid == pid);
    dumped
        .map(|actor| actor.pid)
        .filter(|pid| !had(*pid))
        .collect()
}

/// Takes the core of an actor that is too short to contain its process.
///
/// The core is taken if exactly one actor lacks its core, and exactly one new file begins like a
/// core. Without removal it would block all later cores.
fn take_cut_short(candidates: Vec<PathBuf>, folder: &Path, observation: &mut Observation) {
    let missing = missing_cores(observation);
    let [pid] = missing.as_slice() else {
        return;
    };
    let mut cut = candidates
        .into_iter()
        .filter(|path| provoke_autopsy::core_owner(path).is_err() && begins_as_core(path));
    let (Some(path), None) = (cut.next(), cut.next()) else {
        return;
    };
    let size = files::metadata_itself(&path).map_or(0, |metadata| metadata.len());
    let core_copy = folder.join(format!("core.{pid}"));
    let moved = files::create_folders(folder).and_then(|()| files::move_file(&path, &core_copy));
    let file = if moved.is_ok() { core_copy } else { path };
    observation.cores.push(CoreObservation {
        pid: *pid,
        file: file.into_os_string().into(),
        size,
        crash: None,
        unread: Some(CUT_SHORT.to_owned()),
    });
}

/// Returns whether a path is a regular file that is empty, or begins like an ELF core as far as it
/// goes.
fn begins_as_core(path: &Path) -> bool {
    const CORE: [u8; 2] = 4_u16.to_ne_bytes();
    let Ok(mut file) = files::regular_itself(path) else {
        return false;
    };
    let mut start = [0; 18];
    match file.read(&mut start).unwrap_or(0) {
        18 => start.starts_with(b"\x7fELF") && start[16..] == CORE,
        few => b"\x7fELF".starts_with(&start[..few.min(4)]),
    }
}
