//! Defaults of levers, and how most of them read a value and check that it can be set.

use super::attempt::try_start;
use super::{Lever, LeverSearch, TrialStart, ValueShape};
use provoke_model::TrialsPlan;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
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

/// A lever that only `--under` sets, whose later value replaces the earlier one, and which has an effect on all trials.
pub(super) const LEVER: Lever = Lever {
    name: "",
    about: "",
    flag: None,
    shape: ValueShape::Name,
    parse: |_| Err("this lever reads no values".to_owned()),
    combine: |_, later| later.to_owned(),
    fact_name: None,
    fact_title: None,
    explain_at: |_, _| None,
    typed: str::to_owned,
    fact: str::to_owned,
    fact_without: "none",
    container_option: None,
    instead_in_containers: None,
    search: None,
    prepare: check_start,
    obstacle: |_, _| None,
    way_out: "leave the condition out",
    apply: |_, _| Err(io::Error::other("this lever sets nothing")),
};

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

/// Checks that a stored value of a lever has an effect on trials, and that this machine can set it.
fn check_start(lever: &Lever, value: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
    let condition = format!("{}={value}", lever.name);
    let message = format!("cannot set the condition `{}`", condition.to_safe());
    let refusal = Diagnostic::could_not(message);
    if let Some(Obstacle { reason, way_out }) = (lever.obstacle)(value, trials) {
        return Err(refusal.because(reason).with_hint(way_out));
    }
    let mut start = TrialStart::default();
    (lever.apply)(value, &mut start)
        .and_then(|()| try_start(&start))
        .map_err(|error| refusal.because(error).with_hint(lever.way_out))
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
