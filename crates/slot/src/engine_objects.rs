//! Finds, reports and removes the objects that a trial leaves in a container engine.

use super::Slot;
use super::wire::{SlotReply, VariantRecipe};
use provoke_model::{EngineObjectKind, EngineObjectObservation, Observation, Trial};
use provoke_sys::engine::daemon::{self, Daemon, DaemonObject, DaemonObjectKind, Label};
use provoke_sys::files;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between queries of the daemon.
const PAUSE: Duration = Duration::from_millis(50);

/// Returns the socket through which a trial reaches the engine, if its objects are tracked.
pub(super) fn engine_socket(recipe: &VariantRecipe, trial: &Trial) -> Option<PathBuf> {
    let engine_proxy = recipe.engine_proxy.as_ref()?;
    Some(daemon::slot_socket(
        engine_proxy.folder.as_os_str(),
        trial.slot.0,
    ))
}

impl Slot {
    /// Waits up to the settle time until no object of the trial is left, reports the remaining
    /// objects, and removes them.
    pub(super) fn tidy_engine(
        &mut self,
        trial: &Trial,
        recipe: &VariantRecipe,
        leak_grace: Option<Duration>,
        observation: &mut Observation,
    ) {
        let Some(engine_proxy) = &recipe.engine_proxy else {
            return;
        };
        let engine = Daemon::at_socket(Path::new(engine_proxy.engine.as_os_str()));
        let unlabelled = daemon::unlabelled_file(engine_proxy.folder.as_os_str(), trial.slot.0);
        let labels = daemon::trial_labels(&engine_proxy.mark, Some(trial.id.0));
        let remaining = || remaining_objects(&engine, &labels, &unlabelled);
        let deadline = Instant::now() + leak_grace.unwrap_or_default();
        let mut objects = remaining();
        while !objects.is_empty() && Instant::now() < deadline {
            if !self.rest_unless_stopped(PAUSE) {
                // The interruption came before it was known whether the objects would be removed.
                observation.interrupted = true;
                break;
            }
            objects = remaining();
        }
        if leak_grace.is_some() && !observation.interrupted {
            observation.residue.objects = objects.iter().map(describe_object).collect();
        }
        for object in &objects {
            if !engine.remove_object(object) {
                let description = describe_object(object);
                let text = format!("cannot remove {description} ({})", description.name);
                self.control.send_reply(&SlotReply::Complaint(text));
            }
        }
        let _ = files::remove_file(&unlabelled);
    }

    /// Removes the remaining objects of trials after the connection to provoke has closed.
    pub(super) fn close_engine_proxies(&self) {
        let mut recipes = self.recipes.values();
        let Some(engine_proxy) = recipes.find_map(|(recipe, _)| recipe.engine_proxy.as_ref())
        else {
            return;
        };
        let engine = Daemon::at_socket(Path::new(engine_proxy.engine.as_os_str()));
        let labels = daemon::trial_labels(&engine_proxy.mark, None);
        let files = files::folder_entries(Path::new(engine_proxy.folder.as_os_str()))
            .into_iter()
            .flatten()
            .filter(|file| file.extension().is_some_and(|name| name == "volumes"));
        let volumes: Vec<DaemonObject> = files.flat_map(|file| engine.volumes_in(&file)).collect();
        for object in engine.labelled_objects(&labels).iter().chain(&volumes) {
            engine.remove_object(object);
        }
        // Only provoke itself could still use the folder.
        let _ = files::remove_tree(Path::new(engine_proxy.folder.as_os_str()));
    }
}

/// Returns the remaining objects with these labels, and the remaining volumes without labels.
fn remaining_objects(engine: &Daemon, labels: &[Label], unlabelled: &Path) -> Vec<DaemonObject> {
    let mut objects = engine.labelled_objects(labels);
    objects.extend(engine.volumes_in(unlabelled));
    objects
}

fn describe_object(object: &DaemonObject) -> EngineObjectObservation {
    EngineObjectObservation {
        sort: match object.sort {
            DaemonObjectKind::Container => EngineObjectKind::Container,
            DaemonObjectKind::Volume => EngineObjectKind::Volume,
            DaemonObjectKind::Network => EngineObjectKind::Network,
        },
        name: object.name.clone(),
        image: object.image.clone(),
        status: object.status.clone(),
    }
}
