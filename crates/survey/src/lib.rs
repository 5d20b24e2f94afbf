//! Records the facts about the environment that may change how often a program fails.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests show names that they made")
)]

mod build;
mod cargo;
mod command;
mod commit;
mod comparability;
mod comparison_document;
mod conditions;
mod difference;
mod distinguishing;
mod distinguishing_lines;
mod file_names;
mod files;
mod host_facts;
mod influential_variables;
mod machine;
mod main_facts;
mod node;
mod processor;
mod python;
mod ranking;
mod shell;
mod suite_difference;
#[cfg(test)]
mod tests;
mod variants;
mod warnings;

pub use comparability::{TrialSimilarity, compare_variants, find_unchanged_program};
pub use conditions::{differing_conditions, variant_conditions};
pub use difference::{
    ComparedRun, FactDifference, FailureDifference, RunComparison, RunFacts, find_differences,
};
pub use distinguishing::{
    DistinguishingFact, RunsWithDistinguishingFacts, find_distinguishing_facts,
};
pub use distinguishing_lines::{chance_of_coincidence, describe_odds, fact_lines};
pub use files::add_files;
pub use host_facts::HostFacts;
pub use influential_variables::variable_effect;
pub use machine::{detect_container, this_host};
pub use ranking::FactGroup;
pub use suite_difference::{ChangedTest, SuiteDifference, TestCounts, compare_suites};
pub use variants::{DifferingFact, differing_facts, distinguishing_facts_of_variants};
pub use warnings::plan_cautions;

use provoke_autopsy::{CommandEnvironment, read_elf};
use provoke_model::{ActorPlan, Survey, Text, TrialsPlan, VariantPlan};
use std::ffi::OsStr;

/// Collects the facts about this machine, and about the main commands of a plan.
pub fn survey_plan(plan: &TrialsPlan) -> Survey {
    let mut survey = Survey::default();
    machine::survey_machine(&mut survey);
    for (name, value) in &plan.facts {
        survey.set_given(name, value);
    }
    let mains = || plan.variants.iter().flat_map(mains_of);
    let Some((_, first)) = mains().next() else {
        return survey;
    };
    place_of(
        &CommandEnvironment::of_actor(&plan.environment, first),
        &mut survey,
    );
    if let Ok(ourselves) = std::env::current_exe() {
        processor::survey_processors(plan, &ourselves, &mut survey);
    }
    for (name, actor) in mains().take(MAINS) {
        if let Some(container) = &actor.container {
            let key = if name.is_empty() {
                "image".to_owned()
            } else {
                name_of_variant("image", &name)
            };
            survey.set_fact(key, container.image.to_string());
        }
    }
    // The files in an image cannot be read from here.
    let mains = || mains().filter(|(_, actor)| actor.container.is_none());
    // Most variants run the same program with other arguments.
    let mut surveyed: Vec<(CommandEnvironment, &[Text], Survey)> = Vec::new();
    for (name, actor) in mains().take(MAINS) {
        let environment = CommandEnvironment::of_actor(&plan.environment, actor);
        let same = surveyed.iter().find(|(other_environment, command, _)| {
            *other_environment == environment && *command == actor.command
        });
        let facts = match same {
            Some((_, _, facts)) => facts.clone(),
            None => {
                let facts = command::survey_command(&environment, &actor.command);
                surveyed.push((environment, &actor.command, facts.clone()));
                facts
            }
        };
        match surveyed.first() {
            Some((_, _, first)) if surveyed.len() > 1 => {
                add_differing(&mut survey, &name, first, &facts);
            }
            _ => survey.0.extend(facts.0),
        }
    }
    survey
}

/// Returns whether the program of an actor is a binary, which a debugger can start.
pub fn runs_binary(plan: &TrialsPlan, actor: &ActorPlan) -> bool {
    let environment = CommandEnvironment::of_actor(&plan.environment, actor);
    let name = actor.command.first();
    let program = name.and_then(|name| environment.find_program(name.as_os_str()));
    program.is_some_and(|file| read_elf(&file).is_some())
}

/// Limit of main commands that are examined.
const MAINS: usize = 64;
/// Value of a fact that another command has and this one lacks.
const ABSENT: &str = "(none)";

fn mains_of(variant: &VariantPlan) -> impl Iterator<Item = (String, &ActorPlan)> {
    let mains = variant
        .actors
        .iter()
        .filter(|actor| actor.role.decides_outcome());
    mains.map(|actor| (main_name(variant, actor), actor))
}

/// Returns the name of a main command: that of its variant, of its actor, or both.
fn main_name(variant: &VariantPlan, actor: &ActorPlan) -> String {
    match (variant.name.as_str(), actor.name.as_str()) {
        (name, "") | ("", name) => name.to_owned(),
        (variant, actor) => format!("{variant}/{actor}"),
    }
}

/// Adds the facts in which another command differs from the first, under its name.
fn add_differing(survey: &mut Survey, name: &str, first: &Survey, facts: &Survey) {
    let differing = facts
        .0
        .iter()
        .filter(|(key, value)| first.get_fact(key) != Some(value.as_str()));
    for (key, value) in differing {
        survey.set_fact(name_of_variant(key, name), value);
    }
    for key in first.0.keys().filter(|key| facts.get_fact(key).is_none()) {
        survey.set_fact(name_of_variant(key, name), ABSENT);
    }
}

/// Returns `program[NAME].path` for `program.path`.
fn name_of_variant(key: &str, name: &str) -> String {
    match key.split_once('.') {
        Some((section, rest)) => format!("{section}[{name}].{rest}"),
        None => format!("{key}[{name}]"),
    }
}

/// Adds language and time zone of the environment and the machine, and the commit in the working directory.
fn place_of(environment: &CommandEnvironment, survey: &mut Survey) {
    let text = |value: &OsStr| value.to_string_lossy().into_owned();
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| environment.get_variable(name));
    survey.set_if("locale", locale.map(text));
    let zone = environment
        .get_variable("TZ")
        .map(text)
        .or_else(machine::time_zone);
    survey.set_if("timezone", zone);
    survey.set_if(Survey::COMMIT, commit::checked_out_commit(environment.cwd));
}
