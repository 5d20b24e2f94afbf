//! A lever that is only set with `--under`, described by a value.

use super::attempt::check_start;
use super::{Lever, LeverSearch, TrialStart};
use provoke_model::TrialsPlan;
use provoke_words::diagnostic::Diagnostic;
use std::io;

/// A search with a lever that does not say more about it.
pub(super) const SEARCH: LeverSearch = LeverSearch {
    family: "",
    values: &[],
    sham: None,
    ladder: &[],
    seeds: &[],
    only_in_suites: false,
    is_harsh: false,
    cause: "",
    value_causes: &[],
    cause_if_removed: None,
};

/// A lever without a flag of its own.
pub(super) struct SimpleLever {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Reads a value as it is typed. Returns it as it is stored.
    pub(super) parse: fn(&str) -> Result<String, String>,
    /// Sets a stored value for the start of each trial.
    pub(super) apply: fn(&str, &mut TrialStart) -> io::Result<()>,
    /// What prevents that the lever has an effect on the trials of a plan; the machine is checked besides.
    pub(super) obstacle: fn(&str, &TrialsPlan) -> Option<Obstacle>,
    /// What would make it available on a machine that refuses it.
    pub(super) way_out: &'static str,
    /// What to do in containers instead.
    pub(super) in_containers: &'static str,
    pub(super) search: LeverSearch,
}

/// What prevents that a lever has an effect.
pub(super) struct Obstacle {
    pub(super) reason: String,
    pub(super) way_out: &'static str,
}

impl Obstacle {
    /// Returns an obstacle in the trials themselves.
    pub(super) fn of_trials(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            way_out: "leave the condition out",
        }
    }
}

/// The obstacle of a lever that has an effect on all trials.
pub(super) fn no_obstacle(_: &str, _: &TrialsPlan) -> Option<Obstacle> {
    None
}

/// Returns the obstacle of a lever that must not be set for a service, which its clients could no longer reach.
pub(super) fn service_obstacle(_: &str, trials: &TrialsPlan) -> Option<Obstacle> {
    let is_loaded = trials.load.is_some();
    is_loaded.then(|| Obstacle::of_trials("clients could not reach the service under load"))
}

/// Returns a value if it is one of these; nothing that was typed stands for the first.
pub(super) fn parse_choice(typed: &str, choices: &[&str]) -> Result<String, String> {
    if typed.is_empty()
        && let Some(first) = choices.first()
    {
        return Ok((*first).to_owned());
    }
    if choices.contains(&typed) {
        return Ok(typed.to_owned());
    }
    Err(format!("`{typed}` is not one of {}", choices.join(", ")))
}

/// Reads an integer in a range.
pub(super) fn parse_integer(typed: &str, least: u32, greatest: u32) -> Result<String, String> {
    match typed.parse::<u32>() {
        Ok(number) if (least..=greatest).contains(&number) => Ok(number.to_string()),
        _ => Err(format!(
            "`{typed}` is not an integer from {least} to {greatest}"
        )),
    }
}

/// Reads the number in a stored value.
pub(super) fn stored_number<T: std::str::FromStr>(value: &str) -> io::Result<T> {
    let wrong = || io::Error::other(format!("`{value}` is not a number"));
    value.parse().map_err(|_| wrong())
}

impl Lever for SimpleLever {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn parse(&self, typed: &str) -> Result<String, String> {
        (self.parse)(typed)
    }

    fn instead_in_containers(&self) -> Option<&'static str> {
        Some(self.in_containers)
    }

    fn search(&self) -> Option<LeverSearch> {
        Some(LeverSearch {
            family: if self.search.family.is_empty() {
                self.name
            } else {
                self.search.family
            },
            ..self.search
        })
    }

    fn prepare(&self, value: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
        if let Some(obstacle) = (self.obstacle)(value, trials) {
            let Obstacle { reason, way_out } = obstacle;
            let message = format!("cannot set the condition `{}={value}`", self.name);
            let refusal = Diagnostic::could_not(message).because(reason);
            return Err(refusal.with_hint(way_out));
        }
        check_start(self, value, self.way_out)
    }

    fn apply(&self, value: &str, start: &mut TrialStart) -> io::Result<()> {
        (self.apply)(value, start)
    }
}
