//! Conditions of the working directory.

use super::LeverSearch;
use super::simple::{Obstacle, SEARCH, SimpleLever, parse_choice};
use provoke_model::TrialsPlan;
use provoke_sys::start_step::StartStep;

pub(super) static READ_ONLY_DIR: SimpleLever = SimpleLever {
    name: "read-only-dir",
    about: "the working directory is read-only",
    parse: |typed| parse_choice(typed, &["yes"]),
    apply: |_, start| {
        start.steps.push(StartStep::MakeCwdReadOnly);
        Ok(())
    },
    obstacle: |_, trials| {
        let mut actors = trials.variants.iter().flat_map(|variant| &variant.actors);
        let is_root = actors.any(|actor| actor.cwd.as_os_str() == "/");
        is_root.then(|| Obstacle::of_trials("the working directory is `/`"))
    },
    way_out: "run provoke as root, or allow user namespaces; in Docker: --privileged",
    in_containers: "make the container read-only: --container read-only=true",
    search: LeverSearch {
        family: "working directory",
        values: &["yes"],
        cause: "working directory: it writes to its working directory",
        ..SEARCH
    },
};

pub(super) static FRESH_DIR: SimpleLever = SimpleLever {
    name: "fresh-dir",
    about: "each trial runs in a copy of the working directory as it was before the first trial",
    parse: |typed| parse_choice(typed, &["yes"]),
    apply: |_, start| {
        start.copies_cwd = true;
        Ok(())
    },
    obstacle: |_, trials| find_generated_folder(trials).map(Obstacle::of_trials),
    way_out: "leave the condition out",
    in_containers: "use a new container for each trial, without the files of this machine",
    search: LeverSearch {
        family: "leftovers",
        values: &["yes"],
        cause: "leftovers: files of earlier trials change its result",
        ..SEARCH
    },
};

fn find_generated_folder(trials: &TrialsPlan) -> Option<&'static str> {
    let mut edits = trials.variants.iter().map(|variant| &variant.edits);
    edits
        .any(|edits| !edits.is_empty())
        .then_some("its variants have directories of their own")
}
