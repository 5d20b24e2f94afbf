//! Chooses the container engine, and checks its images and limits.

use provoke_model::{ActorPlan, Container, TrialsPlan};
use provoke_sys::engine::Engine;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use std::process::Command;

/// Engines that are tried, in this order.
const ENGINES: [&str; 2] = ["docker", "podman"];
/// Container options that are limits of its cgroup.
const LIMITS: [&str; 5] = ["cpus", "memory", "memory-swap", "cpuset-cpus", "pids-limit"];
/// Maximum number of images that an error lists.
const NAMED: usize = 12;

/// Returns the engine that responds: the named one, or the first.
pub(super) fn find_engine(named: Option<&str>) -> Result<&str, Diagnostic> {
    let mut silent = None;
    for name in named.map_or_else(|| ENGINES.to_vec(), |name| vec![name]) {
        match ask_engine(name, &["version", "--format", "{{.Server.Version}}"]) {
            Ok(_) => return Ok(name),
            Err(Some(reason)) => silent = silent.or(Some((name, reason))),
            Err(None) => {}
        }
    }
    Err(match (silent, named) {
        (Some((name, reason)), _) => {
            Diagnostic::could_not(format!("`{name}` does not respond: {reason}")).with_hint(
                format!(
                    "check with `{name} version` that its daemon runs and that you have permission to use it"
                ),
            )
        }
        (None, Some(name)) => Diagnostic::could_not(format!("`{name}` is not in PATH"))
            .with_hint("install it, or choose another engine: docker, podman"),
        (None, None) => Diagnostic::could_not(
            "there is no container engine: docker and podman are not in PATH",
        )
        .with_hint("install one, or run without an image"),
    })
}

/// Checks that an image is on this machine.
pub(super) fn has_image(engine: &str, image: &str) -> Result<(), Diagnostic> {
    if ask_engine(engine, &["image", "inspect", "--format", "{{.Id}}", image]).is_ok() {
        return Ok(());
    }
    let list = ["image", "ls", "--format", "{{.Repository}}:{{.Tag}}"];
    let listing = ask_engine(engine, &list).unwrap_or_default();
    let names: Vec<&str> = listing
        .lines()
        .filter(|name| !name.contains("<none>"))
        .collect();
    let names_text = match &*names {
        [] => "there are no images".to_owned(),
        names => format!("there are {}", words::list_first(names, NAMED)),
    };
    Err(Diagnostic::could_not(format!(
        "the image `{image}` is not on this machine: {names_text}"
    ))
    .with_hint(format!(
        "pull it first (provoke does not): {engine} pull {image}"
    )))
}

/// Runs an engine; an error without text means that the program does not exist.
fn ask_engine(engine: &str, words: &[&str]) -> Result<String, Option<String>> {
    let output = Command::new(engine)
        .args(words)
        .output()
        .map_err(|_| None)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut lines = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    Err(Some(
        lines.next_back().unwrap_or("no reason given").to_owned(),
    ))
}

/// Sets the engine of the containers of trials, unless the plan names one.
pub(super) fn choose_engine(trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
    let template = trials.space.as_mut().map(|space| &mut space.template);
    let variants = trials.variants.iter_mut().chain(template);
    let actors = variants.flat_map(|variant| &mut variant.actors);
    let mut chosen: Option<String> = None;
    for container in actors.filter_map(|actor| actor.container.as_mut()) {
        if chosen.is_none() {
            let named = Some(&*container.engine).filter(|name| !name.is_empty());
            chosen = Some(find_engine(named)?.to_owned());
        }
        container.engine = chosen.clone().unwrap_or_default();
    }
    Ok(())
}

/// Returns the containers of a plan.
pub(super) fn plan_containers(trials: &TrialsPlan) -> impl Iterator<Item = &Container> {
    let actors = trials.variants.iter().flat_map(|variant| &variant.actors);
    actors.filter_map(|actor| actor.container.as_ref())
}

/// Returns a limit of containers that the engine ignores: without root, podman sets none if only cgroups v1 exist, and
/// a program may exhaust the memory of the machine.
pub(super) fn unheeded_limit(trials: &TrialsPlan) -> Option<String> {
    let name = plan_containers(trials)
        .filter(|container| container.engine == "podman")
        .flat_map(|container| &container.options)
        .filter_map(|option| Some(option.to_string().split_once('=')?.0.to_owned()))
        .find(|name| LIMITS.contains(&name.as_str()))?;
    let format = "{{.Host.Security.Rootless}} {{.Host.CgroupsVersion}}";
    let podman_info = ask_engine("podman", &["info", "--format", format]).ok()?;
    (podman_info == "true v1").then(|| {
        format!(
            "`{name}` has no effect: rootless podman ignores it with control groups of version 1"
        )
    })
}

/// Removes the containers of killed runs whose slots were killed as well; returns what was removed.
pub(super) fn sweep_containers(trials: &TrialsPlan) -> Option<String> {
    let container = plan_containers(trials).next()?;
    match Engine::find_in_path(&container.engine)?.remove_orphans(None) {
        0 => None,
        1 => Some("removed a container that an earlier run left behind".to_owned()),
        removed => Some(format!(
            "removed {removed} containers that earlier runs left behind"
        )),
    }
}

/// Checks that the image of an actor exists, if its name is already known.
pub(super) fn check_image(actor: &ActorPlan, variant: &str) -> Result<(), Diagnostic> {
    let Some(container) = &actor.container else {
        return Ok(());
    };
    let image = container.image.fill_marks(&[("{variant}", variant)]);
    if image.as_bytes().contains(&b'{') {
        return Ok(());
    }
    has_image(&container.engine, &image.to_string())
}
