//! Conditions of the working directory.

use super::simple::{LEVER, Obstacle, SEARCH, parse_choice};
use super::{Lever, LeverSearch};
use provoke_model::TrialsPlan;
use provoke_sys::start_step::StartStep;
use serde::{Deserialize, Serialize};

/// The path of a copy of the working directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CwdCopy {
    /// It ends with the same name.
    Plain,
    /// It also contains a space.
    InSpace,
}

pub(super) static READ_ONLY_DIR: Lever = Lever {
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
    instead_in_containers: Some("make the container read-only: --container read-only=true"),
    search: Some(LeverSearch {
        family: "working directory",
        values: &["yes"],
        cause: "working directory: it writes to its working directory",
        cause_if_removed: Some("working directory: files that it writes there change its result"),
        is_harsh: true,
        ..SEARCH
    }),
    ..LEVER
};

pub(super) static FRESH_DIR: Lever = Lever {
    name: "fresh-dir",
    about: "each trial runs in a copy of the working directory as it was before the first trial: `yes`, or with a `space` in its path",
    parse: |typed| parse_choice(typed, &["yes", "space"]),
    apply: |value, start| {
        start.cwd_copy = Some(match value {
            "space" => CwdCopy::InSpace,
            _ => CwdCopy::Plain,
        });
        Ok(())
    },
    obstacle: |_, trials| find_other_writer(trials).map(Obstacle::of_trials),
    instead_in_containers: Some(
        "use a new container for each trial, without the files of this machine",
    ),
    search: Some(LeverSearch {
        family: "leftovers",
        values: &["yes", "space"],
        cause: "working directory: it needs the path of its working directory, or files of earlier trials",
        value_causes: &[(
            "space",
            "working directory: it fails with a space in its path",
        )],
        cause_if_removed: Some("leftovers: files of earlier trials change its result"),
        ..SEARCH
    }),
    ..LEVER
};

/// Returns what else changes or chooses the working directory of a trial.
fn find_other_writer(trials: &TrialsPlan) -> Option<&'static str> {
    let variants = || trials.variants.iter();
    if variants().any(|variant| !variant.edits.is_empty()) {
        return Some("its variants have directories of their own");
    }
    let mut hooks = variants()
        .map(|variant| &variant.hooks)
        .chain([&trials.hooks]);
    let has_hook = hooks.any(|hooks| hooks.prepare.is_some() || hooks.conclude.is_some());
    has_hook.then_some("the hooks of a trial run in the working directory itself")
}
