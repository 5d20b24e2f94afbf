//! What can be checked before anything runs, so that a slip of the pen is one error
//! and not a hundred trials.

use super::engine;
use super::error::CliError;
use crate::load;
use crate::model::{ActorPlan, Owner, Plan, Text, VariantId, VariantPlan};
use crate::sys::cgroup::{self, SlotGroup, Version};
use crate::sys::{limits, spawn};
use std::path::Path;

/// Descriptors that a process needs besides two for each that it watches over.
const DESCRIPTORS: u64 = 32;

/// Says before the start which limit would bind, and what no life of a service could do.
pub(super) fn check(plan: &Plan) -> Result<(), CliError> {
    loadable(plan)?;
    limitable(plan)?;
    engine::watchable(plan)?;
    let processes = |actors: &[ActorPlan]| actors.iter().map(|actor| u64::from(actor.copies)).sum();
    let most: u64 = plan
        .variants
        .iter()
        .map(|variant| processes(&variant.actors))
        .max()
        .unwrap_or(0);
    let allowed = limits::open_files();
    for (what, needed, fewer) in [
        (
            format!("{most} processes in a trial"),
            2 * most + DESCRIPTORS,
            "copies",
        ),
        (
            format!("{} trials side by side", plan.jobs),
            u64::from(plan.jobs) * 2 + DESCRIPTORS,
            "jobs",
        ),
    ] {
        if needed > allowed {
            let what = format!("{what} need {needed} open files, and the limit is {allowed}");
            let hint = format!("raise the limit with `ulimit -n {needed}`, or use fewer {fewer}");
            return Err(CliError::could_not(anyhow::Error::msg(what)).hinted(hint));
        }
    }
    Ok(())
}

/// Checks that the memory of trials can be limited, where that is wanted.
fn limitable(plan: &Plan) -> Result<(), CliError> {
    let Some(bytes) = plan.memory else {
        return Ok(());
    };
    let here = |variant: &VariantPlan| variant.actors.iter().all(|one| one.container.is_none());
    let load = plan.load.as_ref();
    if load.is_some_and(|load| load.owner != Owner::Provoke) {
        let error =
            anyhow::anyhow!("cannot limit the memory of a service that provoke does not start");
        return Err(CliError::usage(error).hinted("leave out --memory"));
    }
    if !plan.variants.iter().any(here) || SlotGroup::can_limit_memory(bytes) {
        return Ok(());
    }
    let error =
        anyhow::anyhow!("cannot limit the memory of a trial: no memory group can be made here");
    let way_out = match cgroup::version() {
        Some(Version::Two) => {
            "run provoke in its own group: systemd-run --user --scope -p Delegate=yes provoke ..."
        }
        Some(Version::One) => "run provoke as root",
        None => "mount a control group file system with the memory controller",
    };
    Err(CliError::could_not(error).hinted(format!(
        "{way_out}; or limit the address space of each process: --rlimit as=SIZE"
    )))
}

/// Checks that what is put under load is the user's own, and that what is sent can be made.
fn loadable(plan: &Plan) -> Result<(), CliError> {
    let Some(load) = &plan.load else {
        return Ok(());
    };
    let none = String::new;
    let marks = ["{slot}", "{trial}", "{seed}", "{variant}"];
    let fill = marks.map(|mark| match mark {
        "{variant}" => (mark, none()),
        _ => (mark, "0".to_owned()),
    });
    load::check(load, &fill).map_err(|error| {
        let hint = match &error {
            load::Error::Elsewhere { host, .. } => Some(format!(
                "load on a machine that is not yours is an attack; if it is yours, say so: --i-own-this-target {host}"
            )),
            load::Error::NoProcess(_) => Some(
                "--attach listener takes whoever listens at the URL, whatever its number".to_owned(),
            ),
            _ => None,
        };
        let error = CliError::usage(anyhow::Error::new(error));
        match hint {
            Some(hint) => error.hinted(hint),
            None => error,
        }
    })
}

/// Checks that every command of a variant can be found, so that a slip of the pen is one
/// error and not a hundred trials.
pub(super) fn startable(plan: &Plan, variant: VariantId) -> Result<(), CliError> {
    // What somebody else starts is not ours to find.
    if plan
        .load
        .as_ref()
        .is_some_and(|load| load.owner != Owner::Provoke)
    {
        return Ok(());
    }
    for actor in &plan.variant(variant).actors {
        if let Some(container) = &actor.container {
            engine::startable(actor, &plan.variant(variant).name)?;
            if !container.sees_folder() {
                continue;
            }
        }
        if !Path::new(actor.cwd.as_os_str()).is_dir() {
            let error = anyhow::anyhow!("cannot work in `{}`: there is no such folder", actor.cwd);
            return Err(CliError::could_not(error).hinted("say another with --cwd"));
        }
        // What is in an image is not ours to find.
        let Some(name) = actor.command.first().filter(|_| actor.container.is_none()) else {
            continue;
        };
        if name.as_bytes().contains(&b'{') {
            continue;
        }
        if let Err(why) = spawn::find(
            name.as_os_str(),
            path_of(plan, actor),
            Path::new(actor.cwd.as_os_str()),
        ) {
            let error = CliError::could_not(anyhow::anyhow!("cannot run `{name}`: {why}"));
            let here = Path::new(actor.cwd.as_os_str()).join(name.as_os_str());
            let spaced = name.as_bytes().contains(&b' ');
            return Err(match () {
                () if spaced => {
                    error.hinted("a command is a list of words; for one line use --shell 'LINE'")
                }
                () if here.is_file() => error.hinted(format!("did you mean `./{name}`?")),
                () => error.hinted("is it installed, and is its folder in PATH?"),
            });
        }
    }
    Ok(())
}

/// Where PATH has no `provoke`, the word means this very program, so that its victims
/// can be tried before anything is installed.
pub(super) fn find_ourselves(plan: &mut Plan) {
    let missing = |plan: &Plan, actor: &ActorPlan| {
        let name = actor
            .command
            .first()
            .filter(|name| name.as_os_str() == "provoke");
        let cwd = Path::new(actor.cwd.as_os_str());
        let here = actor.container.is_none();
        here && name
            .is_some_and(|name| spawn::find(name.as_os_str(), path_of(plan, actor), cwd).is_err())
    };
    let Ok(ourselves) = std::env::current_exe() else {
        return;
    };
    for variant in 0..plan.variants.len() {
        for actor in 0..plan.variants[variant].actors.len() {
            if missing(plan, &plan.variants[variant].actors[actor]) {
                plan.variants[variant].actors[actor].command[0] = (&ourselves).into();
            }
        }
    }
}

fn path_of<'a>(plan: &'a Plan, actor: &'a ActorPlan) -> Option<&'a std::ffi::OsStr> {
    let named = |name: &Text| name.as_os_str() == "PATH";
    match actor.env.iter().find(|(name, _)| named(name)) {
        Some((_, value)) => value.as_ref().map(Text::as_os_str),
        None => {
            let found = plan.environment.iter().find(|(name, _)| named(name));
            found.map(|(_, value)| value.as_os_str())
        }
    }
}
