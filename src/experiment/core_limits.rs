//! Decides whether and how cores of the trials can be captured here.

use provoke_model::{CaptureMode, Goal, TrialsPlan};
use provoke_questions as questions;
use provoke_sys::core_pattern;
use std::path::Path;

/// Runs trials that may dump cores one at a time if cores would overwrite each other. `confirm` keeps its parallel
/// trials: the load under which the program failed matters more than the stack of a failure.
pub(super) fn do_not_queue_for_cores(goal: &Goal, trials: &mut TrialsPlan) -> Option<String> {
    let keeps_parallel_trials = questions::of_goal(goal).tests_a_fix();
    let queues = trials.settings.capture == CaptureMode::On
        && trials.settings.no_cores.is_none()
        && trials.jobs > 1;
    if !(keeps_parallel_trials && queues && core_pattern::cores_overwrite_each_other()) {
        return None;
    }
    trials.settings.capture = CaptureMode::Auto;
    Some("cores of parallel trials would overwrite each other on this machine, so failures are identified by exit status only; `provoke doctor` shows how to change that".to_owned())
}

/// Returns why no core of the main processes can be captured here.
pub(super) fn no_cores(trials: &TrialsPlan) -> Option<String> {
    // A tracer writes its own cores.
    if trials.settings.traces() {
        return None;
    }
    let destination = match core_pattern::read_destination() {
        Ok(destination) => destination,
        Err(error) => {
            return Some(format!(
                "cannot read where the kernel writes cores: {error}"
            ));
        }
    };
    let mut mains = trials.variants.iter().flat_map(|variant| {
        let mains = variant
            .actors
            .iter()
            .filter(|actor| actor.role.decides_outcome());
        // A directory that is prepared later is probably on the same disk as its source.
        let make_cwd = variant.make.as_ref().map(|make| &make.cwd);
        mains.map(move |main| (main, Path::new(make_cwd.unwrap_or(&main.cwd).as_os_str())))
    });
    mains.find_map(|(main, folder)| match &main.container {
        None => core_pattern::core_obstacle(&destination, folder),
        // A core in the container's own file system is copied out of it.
        Some(container) => {
            let shared = container.sees_folder() && container.enters;
            let template = destination
                .core_template()
                .filter(|template| shared && !template.is_rooted());
            template?.overwrites_in(folder)
        }
    })
}
