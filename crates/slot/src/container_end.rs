//! Ends the containers of a trial: records how they ended, copies their cores, and removes them.
//!
//! A container is not a child of the slot, so every end of a trial must remove its containers here.

use super::Slot;
use super::container::RunningContainer;
use super::process::TrialProcess;
use super::wire::{SlotReply, VariantRecipe};
use provoke_model::{ContainerObservation, Ending, Trial};
use provoke_sys::core_pattern::{self, CorePathTemplate};
use provoke_sys::engine::ContainerState;
use provoke_sys::held_folder::check_place;
use provoke_sys::{files, signals};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time in which a container may still appear after its client was killed.
const LATE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// Limit of cores that are copied out of a container.
const CORES: usize = 8;

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
            self.is_anything_left();
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
                self.control.send_reply(&SlotReply::Complaint(format!(
                    "cannot remove the container `{}`",
                    held_container.name
                )));
            }
            self.crash_monitor.add_container(state.id);
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
        if files::create_folders(&target).is_ok() && check_place(&target).is_ok() {
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
        self.has_ending || self.pid.is_some()
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
        if self.has_ending || matches!(self.observation.ending, Ending::NotStarted(_)) {
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
