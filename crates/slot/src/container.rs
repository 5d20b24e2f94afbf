//! Process in a container: the command line of the engine's client, and the pids inside.
//!
//! The slot starts the engine's client and waits for it. The container is not a child of the slot,
//! so the end of the client does not end the container: see [`super::container_end`].

use super::command::PlaceholderValues;
use super::container_gate::ContainerGate;
use super::wire::VariantRecipe;
use provoke_levers::TrialStart;
use provoke_model::{ActorPlan, ResourceLimit, Text};
use provoke_sys::cgroup::TrialLimits;
use provoke_sys::engine::{self, Engine};
use provoke_sys::{host, process};
use provoke_words::untrusted::Untrusted as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A container of the present trial.
#[derive(Clone)]
pub(super) struct RunningContainer {
    pub(super) engine: Engine,
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
    let options = container_options(actor, numbers, start.limits, recipe.start.total_limits);
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
    start: &TrialStart,
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
            .chain(container_options(
                actor,
                numbers,
                &start.limits,
                start.total_limits,
            ))
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
    total_limits: TrialLimits,
) -> Vec<OsString> {
    let plan = actor.container.as_ref().expect("asked for only then");
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(OsString::from));
    add(&["--network", &plan.network]);
    if actor.stdin.is_some() {
        add(&["--interactive"]);
    }
    if let Some(bytes) = total_limits.memory {
        add(&["--memory", &bytes.to_string()]);
    }
    if let Some(count) = total_limits.processes {
        add(&["--pids-limit", &count.to_string()]);
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
