//! Process in a container: the client's command line, the engine's answers, the removal.
//!
//! The slot starts the engine's client and waits for it. The container is not a child of the slot,
//! so the end of the client does not end the container, and every end of a trial must remove the
//! container here.

use super::Slot;
use super::command::PlaceholderValues;
use super::container_gate::ContainerGate;
use super::process::TrialProcess;
use super::wire::VariantRecipe;
use crate::model::{ActorPlan, ContainerObservation, Ending, ResourceLimit, Text, Trial};
use crate::sys::core_pattern::{self, CorePathTemplate};
use crate::sys::engine::{self, ContainerState, Engine};
use crate::sys::{host, process, signals};
use crate::untrusted::Untrusted as _;
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time in which a container may still appear after its client was killed.
const LATE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// Limit of cores that are copied out of a container.
const CORES: usize = 8;

/// A container of the present trial.
#[derive(Clone)]
pub(super) struct RunningContainer {
    engine: Engine,
    pub(super) name: String,
    /// Pid of the program in the container, if it was queried.
    pub(super) program: Option<i32>,
    /// Pid of the container's first process.
    pub(super) first: Option<i32>,
}

/// Parameters for starting a container.
pub(super) struct ContainerStart<'a> {
    pub(super) trial: u64,
    pub(super) copy: u32,
    pub(super) at: u32,
    /// Limits that are set in the container, not for the engine's client.
    pub(super) limits: &'a [ResourceLimit],
    /// Maximum size of a core; `None` if cores are disabled.
    pub(super) cores: Option<u64>,
    /// The gate at which its program waits until it is traced, if its threads are held.
    pub(super) gate: Option<ContainerGate>,
}

/// Returns the container for an actor, and the command line that starts it.
pub(super) fn container_command(
    recipe: &VariantRecipe,
    actor: &ActorPlan,
    numbers: &PlaceholderValues,
    start: &ContainerStart<'_>,
) -> Result<(RunningContainer, Vec<OsString>), String> {
    let plan = actor.container.as_ref().expect("asked for only then");
    let engine = Engine::find_in_path(&plan.engine)
        .ok_or_else(|| format!("there is no `{}` in PATH", plan.engine))?;
    let service = recipe.service.as_ref().map(Text::as_os_str);
    let engine = engine.with_socket(service.map(Path::new));
    let run = recipe
        .evidence
        .as_ref()
        .map(|root| Path::new(root.as_os_str()))
        .and_then(Path::parent)
        .unwrap_or(Path::new("replay"));
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let name = container_name(run, parent, start);
    let mut command: Vec<OsString> = vec![plan.engine.clone().into()];
    let mut add = |words: &[&str]| command.extend(words.iter().map(OsString::from));
    // Process 1 ignores signals without a handler, so `abort` and SIGTERM would have no effect.
    // `--init` runs the program below a small init process.
    add(&["run", "--init", "--pull=never", "--log-driver=none"]);
    add(&["--name", &name, "--label", "provoke=1"]);
    add(&[
        "--label",
        &format!("provoke.pid={}", engine::process_mark(parent)),
    ]);
    add(&["--label", &format!("provoke.slot={}", std::process::id())]);
    add(&["--label", &format!("provoke.run={}", run.to_string_lossy())]);
    match start.cores {
        Some(size) => add(&["--ulimit", &format!("core={}", format_amount(Some(size)))]),
        None => add(&["--ulimit", "core=0"]),
    }
    let options = container_options(actor, numbers, start.limits, recipe.memory);
    let image = numbers.fill_marks(&plan.image).into_owned();
    let words = actor.command.iter();
    let words = words.map(|word| numbers.fill_marks(word).into_owned());
    match &start.gate {
        None => {
            command.extend(options);
            command.push(image);
            command.extend(words);
        }
        Some(gate) => {
            let (entry_point, options) = split_entry_point(options);
            let of_image = engine.image_entry_point(&image.to_string_lossy());
            let of_image =
                of_image.ok_or_else(|| format!("cannot inspect the image {}", image.to_safe()))?;
            command.extend(options.into_iter().chain(gate.options()));
            command.push(image);
            command.extend(ContainerGate::arguments());
            match entry_point {
                Some(chosen) => command.push(chosen),
                None => command.extend(of_image.into_iter().map(OsString::from)),
            }
            command.extend(words);
        }
    }
    let held_container = RunningContainer {
        engine,
        name,
        program: None,
        first: None,
    };
    Ok((held_container, command))
}

/// Returns a command line for users that starts the same container and removes it at its end.
pub fn words_by_hand(
    actor: &ActorPlan,
    numbers: &PlaceholderValues,
    limits: &[ResourceLimit],
    memory: Option<u64>,
) -> Option<Vec<OsString>> {
    let engine = &actor.container.as_ref()?.engine;
    let words = [engine, "run", "--rm", "--init", "--pull=never"]
        .into_iter()
        .map(OsString::from);
    let image = numbers.fill_marks(&actor.container.as_ref()?.image);
    let command = actor.command.iter();
    let command = command.map(|word| numbers.fill_marks(word).into_owned());
    Some(
        words
            .chain(container_options(actor, numbers, limits, memory))
            .chain([image.into_owned()])
            .chain(command)
            .collect(),
    )
}

/// Takes `--entrypoint=PROGRAM` out of options.
fn split_entry_point(mut options: Vec<OsString>) -> (Option<OsString>, Vec<OsString>) {
    const FLAG: &[u8] = b"--entrypoint=";
    let chosen = options
        .iter()
        .rev()
        .find_map(|option| option.as_bytes().strip_prefix(FLAG))
        .map(|program| OsStr::from_bytes(program).to_owned());
    options.retain(|option| !option.as_bytes().starts_with(FLAG));
    (chosen, options)
}

/// Returns the options that describe a container and its environment.
fn container_options(
    actor: &ActorPlan,
    numbers: &PlaceholderValues,
    limits: &[ResourceLimit],
    memory: Option<u64>,
) -> Vec<OsString> {
    let plan = actor.container.as_ref().expect("asked for only then");
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
    add(&["--network", &plan.network]);
    if actor.stdin.is_some() {
        add(&["--interactive"]);
    }
    if let Some(bytes) = memory {
        add(&["--memory", &bytes.to_string()]);
    }
    for ResourceLimit { resource, value } in limits {
        add(&["--ulimit", &format!("{resource}={}", format_amount(*value))]);
    }
    if let Some(port) = &plan.port {
        let port = numbers.fill_marks(port);
        let port = port.to_string_lossy();
        add(&["--publish", &format!("127.0.0.1:{port}:{port}")]);
    }
    let own_user = plan
        .options
        .iter()
        .any(|option| option.as_bytes().starts_with(b"user="));
    let (user, group) = host::real_user();
    if plan.sees_folder() && user != 0 && plan.engine == "docker" && !own_user {
        // Files that the container writes into the folder belong to the user who runs provoke.
        add(&["--user", &format!("{user}:{group}")]);
    }
    let cwd = actor.cwd.as_os_str();
    let at_same_path = |path: &OsStr| concatenate_parts(&[path, OsStr::new(":"), path]);
    if plan.sees_folder() && cwd != "/" {
        arguments.extend(["--volume".into(), at_same_path(cwd)]);
    }
    for mount in plan.mounts.iter().flatten() {
        arguments.extend(["--volume".into(), numbers.fill_marks(mount).into_owned()]);
    }
    if let Some(scratch) = numbers.scratch_folder() {
        arguments.extend(["--volume".into(), at_same_path(scratch.as_os_str())]);
    }
    if let Some(door) = numbers.engine_socket() {
        let inside = OsStr::new(":/var/run/docker.sock");
        arguments.extend([
            "--volume".into(),
            concatenate_parts(&[door.as_os_str(), inside]),
        ]);
    }
    if plan.enters {
        arguments.extend(["--workdir".into(), cwd.to_owned()]);
    }
    for (name, value) in container_variables(actor, numbers) {
        let word = match value {
            Some(value) => concatenate_parts(&[&name, OsStr::new("="), &value]),
            None => name,
        };
        arguments.extend(["--env".into(), word]);
    }
    for option in &plan.options {
        arguments.push(concatenate_parts(&[
            OsStr::new("--"),
            &numbers.fill_marks(option),
        ]));
    }
    arguments
}

/// Returns the variables to set or to remove in the environment of a container.
pub(super) fn container_variables(
    actor: &ActorPlan,
    numbers: &PlaceholderValues,
) -> Vec<(OsString, Option<OsString>)> {
    let slot_variables = numbers.own_variables().filter(|(_, value)| value.is_some());
    let actor_variables = actor
        .env
        .iter()
        .map(|(name, value)| (name.as_os_str(), value.as_ref().map(Text::as_os_str)));
    let mut variables: Vec<(OsString, Option<OsString>)> = Vec::new();
    for (name, value) in slot_variables.chain(actor_variables) {
        variables.retain(|(other_name, _)| other_name != name);
        variables.push((name.to_owned(), value.map(OsStr::to_owned)));
    }
    variables
}

fn concatenate_parts(parts: &[&OsStr]) -> OsString {
    parts.iter().copied().collect()
}

fn format_amount(value: Option<u64>) -> String {
    match value.and_then(|value| i64::try_from(value).ok()) {
        Some(value) => value.to_string(),
        None => "-1".to_owned(),
    }
}

/// Returns a container name that includes the process, because runs in different folders may have
/// the same name.
fn container_name(run: &Path, parent: i32, start: &ContainerStart<'_>) -> String {
    let run = run.file_name().unwrap_or_default().to_string_lossy();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let run: String = run.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let name = format!("provoke-{run}-{parent}-{}", start.trial);
    match (start.at, start.copy) {
        (0, 0) => name,
        (actor, copy) => format!("{name}-{actor}.{copy}"),
    }
}

impl RunningContainer {
    /// Queries the pids of the container's first process and of its program.
    pub(super) fn find_processes(&mut self) {
        self.first = self
            .engine
            .container_state(&self.name)
            .and_then(|state| state.pid);
        // The program is the child of the init process.
        let children = self.first.map(process::child_pids).unwrap_or_default();
        self.program = children.first().copied().or(self.first);
    }

    /// Returns the processes in the container without the init process.
    pub(super) fn living_processes(&self) -> Vec<i32> {
        let below = self.first.map(process::descendant_pids).unwrap_or_default();
        let mut pids = below;
        if self.program == self.first {
            pids.splice(0..0, self.program);
        }
        pids
    }
}

impl Slot {
    /// Ends the traced processes that are left in containers. The engine waits for their end, which the tracer must
    /// collect first.
    pub(super) fn end_traced_containers(&mut self, processes: &[TrialProcess]) {
        if !self.tracer.holds.is_active() {
            return;
        }
        let until = Instant::now() + LATE;
        let living = || {
            let containers = processes.iter().filter_map(|one| one.container.as_ref());
            containers
                .flat_map(RunningContainer::living_processes)
                .collect::<Vec<_>>()
        };
        self.tracer.holds.release_all();
        loop {
            let pids = living();
            if pids.is_empty() || Instant::now() > until {
                return;
            }
            for pid in pids {
                let _ = signals::send_signal(pid, Signal::KILL);
            }
            self.anything_lives();
            sleep(Duration::from_millis(1));
        }
    }

    /// Queries how the trial's containers ended, and removes them.
    pub(super) fn conclude_containers(
        &mut self,
        trial: &Trial,
        recipe: &VariantRecipe,
        processes: &mut [TrialProcess],
        dumps: bool,
    ) {
        let folder = recipe.evidence.as_ref().map(|root| {
            Path::new(root.as_os_str())
                .join(trial.id.0.to_string())
                .join("container")
        });
        for process in processes {
            let Some(held_container) = process.container.clone() else {
                continue;
            };
            let mut state = held_container.engine.container_state(&held_container.name);
            // Only a client that was killed can have requested a container that appears later.
            let deadline = Instant::now() + LATE;
            while state.is_none() && process.was_killed() && Instant::now() < deadline {
                sleep(PAUSE);
                state = held_container.engine.container_state(&held_container.name);
            }
            process.take_in(state.as_ref());
            let Some(state) = state else { continue };
            if dumps && state.code > 128 {
                copy_cores(&held_container, folder.as_deref());
            }
            if !held_container.engine.remove_one(&held_container.name)
                && held_container
                    .engine
                    .container_state(&held_container.name)
                    .is_some()
            {
                self.control
                    .send_reply(&super::wire::SlotReply::Complaint(format!(
                        "cannot remove the container `{}`",
                        held_container.name
                    )));
            }
            self.witness.add_container(state.id);
        }
    }
}

/// Copies the cores that are inside the container. Cores in shared folders are found on the host.
fn copy_cores(container: &RunningContainer, folder: Option<&Path>) {
    let destination = core_pattern::read_destination();
    let template = destination
        .as_ref()
        .ok()
        .and_then(|host| host.core_template());
    let (Some(template), Some(folder)) = (template, folder) else {
        return;
    };
    let fits = |file: &String| is_core(template, file);
    let cores: Vec<String> = container
        .engine
        .added_files(&container.name)
        .into_iter()
        .filter(fits)
        .collect();
    for (index, core) in cores.iter().take(CORES).enumerate() {
        let file = Path::new(core).file_name().unwrap_or_default();
        // Two cores in different folders may have the same name.
        let target = folder.join(index.to_string());
        if fs::create_dir_all(&target).is_ok() {
            let _ = container
                .engine
                .copy_file(&container.name, core, &target.join(file));
        }
    }
}

fn is_core(template: &CorePathTemplate, file: &str) -> bool {
    let name = Path::new(file).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| template.fits_name(name))
}

/// Returns the reason for a failure from the output of an engine's client.
fn engine_complaint(output: &str) -> &str {
    let after = |words: &str| {
        output
            .lines()
            .find_map(|line| Some(line.split_once(words)?.1))
    };
    let first = || output.lines().find(|line| !line.trim().is_empty());
    after("rror response from daemon: ")
        .or_else(|| after("Error: "))
        .or_else(first)
        .unwrap_or("no reason given")
}

impl TrialProcess {
    fn was_killed(&self) -> bool {
        self.sentenced || self.pid.is_some()
    }

    /// Adds the engine's facts about the container of this process.
    fn take_in(&mut self, state: Option<&ContainerState>) {
        // The measured values belong to the engine's client.
        (self.observation.max_rss, self.observation.cpu) = (0, Duration::ZERO);
        if let Some(program) = self
            .container
            .as_ref()
            .and_then(|held_container| held_container.program)
        {
            self.observation.pid = program;
        }
        if self.sentenced || matches!(self.observation.ending, Ending::NotStarted(_)) {
            return;
        }
        let stderr = self.err.capture.end_of_stream(4096);
        let init =
            |line: &&str| line.starts_with("[FATAL tini") || line.starts_with("ERROR (catatonit:");
        let unfound = stderr.lines().find(init);
        let Some(state) = state else {
            let reason = format!("no container: {}", engine_complaint(&stderr));
            self.observation.ending = Ending::NotStarted(reason);
            return;
        };
        self.observation.ending = if !state.error.is_empty() || state.status == "created" {
            // Not every engine stores the reason.
            let reason = Some(&*state.error)
                .filter(|engine_message| !engine_message.is_empty())
                .unwrap_or_else(|| engine_complaint(&stderr));
            Ending::NotStarted(format!("the container did not start: {reason}"))
        } else if let (1 | 126 | 127, Some(words)) = (state.code, unfound) {
            Ending::NotStarted(format!("in the container: {words}"))
        } else {
            Ending::Exited(state.code)
        };
        self.observation.container = Some(Box::new(ContainerObservation {
            id: state.id.clone(),
            code: state.code,
            oom: state.oom,
            ..ContainerObservation::default()
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_extracted_from_the_output_of_an_engine_client() {
        let docker =
            "docker: Error response from daemon: no such runtime: x.\nSee 'docker run --help'.";
        assert_eq!(engine_complaint(docker), "no such runtime: x.");
        let podman = "time=\"1\" level=warning msg=\"x\"\nError: slirp4netns failed\n";
        assert_eq!(engine_complaint(podman), "slirp4netns failed");
        assert_eq!(engine_complaint("\nboom\n"), "boom");
        assert_eq!(engine_complaint(""), "no reason given");
    }
}
