//! Writes the trials of a plan as flags.

use super::Scenario;
use provoke_levers::names_secret;
use provoke_model::{
    ActorPlan, ActorRole, Goal, Hooks, Rules, Text, TrialConditions, TrialSettings, TrialsPlan,
    VariantId, VariantPlan,
};
use provoke_runners::find_runner;
use provoke_words::untrusted::shell_word;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Flags that are mostly written with one letter.
const SHORT: [(&str, &str); 3] = [("env", "-e"), ("jobs", "-j"), ("timeout", "-t")];
/// The flag whose value may be left out, so that it follows an equals sign.
const CASES: &str = "cases";
/// Fields that a command line does not have as flags.
const NO_FLAGS: [&str; 2] = ["actor", "command"];

impl Scenario {
    /// Returns flags that give a command the same trials as those of a variant, each as a shell reads it. The values of
    /// variables with the names of secrets are left out.
    ///
    /// A trial of several processes and the load on a service have no flags, and the signatures that a baseline determines
    /// are not the same in another build.
    pub fn typed_flags(goal: &Goal, trials: &TrialsPlan, variant: VariantId) -> Vec<String> {
        let usual = restored_fields(&Goal::default(), &usual_trials(trials), VariantId(0));
        let fields = restored_fields(goal, trials, variant);
        let recognized = find_runner(trials.unwrapped_command(variant));
        let is_recognized = trials
            .cases
            .as_ref()
            .is_some_and(|cases| Some(&cases.runner) == recognized.as_ref());
        let changed = fields.iter().filter(|(name, value)| {
            !NO_FLAGS.contains(&name.as_str()) && usual.get(*name) != Some(value)
        });
        changed
            .flat_map(|(name, value)| match name.as_str() {
                CASES if is_recognized => flags_of_field(name, &Value::Bool(true)),
                _ => flags_of_field(name, value),
            })
            .collect()
    }
}

/// Returns the trials that a command has without any flag.
fn usual_trials(trials: &TrialsPlan) -> TrialsPlan {
    let main = ActorPlan {
        name: String::new(),
        role: ActorRole::Main,
        command: Vec::new(),
        copies: 1,
        env: Vec::new(),
        cwd: Text::from(""),
        stdin: None,
        container: None,
    };
    TrialsPlan {
        variants: vec![VariantPlan {
            actors: vec![main],
            ..VariantPlan::default()
        }],
        wrapped: 0,
        environment: vec![(Text::from("PATH"), Text::from(""))],
        hooks: Hooks::default(),
        load: None,
        conditions: TrialConditions::default(),
        settings: TrialSettings::default(),
        rules: Rules::default(),
        cases: None,
        jobs: 1,
        hosts: None,
        facts: BTreeMap::default(),
        waves: false,
        warmup: 0,
        held: None,
        ..trials.clone()
    }
}

/// Returns the settings of a variant by the names of their flags.
fn restored_fields(goal: &Goal, trials: &TrialsPlan, variant: VariantId) -> Map<String, Value> {
    let Ok(mut scenario) = Scenario::of_variant(goal, trials, variant) else {
        return Map::new();
    };
    // A shell sets this variable to the directory in which provoke was started; a bundle has no values.
    let mut environment = trials.environment.iter();
    let started_in = environment
        .find(|(name, value)| name.as_os_str() == "PWD" && value.as_bytes().starts_with(b"/"));
    let cwd = &mut scenario.program.cwd;
    let is_usual =
        started_in.is_none_or(|(_, here)| cwd.as_deref().is_none_or(|cwd| cwd == here.as_os_str()));
    if is_usual {
        *cwd = None;
    }
    match serde_json::to_value(&scenario) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Writes the value of a field as one or more flags.
fn flags_of_field(name: &str, value: &Value) -> Vec<String> {
    let flag = |text: &str| {
        let value = shell_word(text.as_ref());
        match SHORT.iter().find(|(long, _)| *long == name) {
            Some((_, short)) => format!("{short} {value}"),
            None if name == CASES || text.starts_with('-') => format!("--{name}={value}"),
            None => format!("--{name} {value}"),
        }
    };
    match value {
        Value::Bool(true) => vec![format!("--{name}")],
        Value::String(text) => vec![flag(text)],
        Value::Number(number) => vec![flag(&number.to_string())],
        // Exit codes.
        Value::Array(items) if items.iter().any(Value::is_number) => {
            let codes: Vec<String> = items.iter().map(Value::to_string).collect();
            vec![flag(&codes.join(","))]
        }
        Value::Array(items) => items.iter().filter_map(Value::as_str).map(flag).collect(),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| match value {
                Value::String(_) if names_secret(&Text::from(key)) => flag(&format!("{key}=***")),
                Value::String(text) => flag(&format!("{key}={text}")),
                Value::Number(number) => flag(&format!("{key}={number}")),
                // A variable that is removed.
                _ => flag(key),
            })
            .collect(),
        Value::Null | Value::Bool(false) => Vec::new(),
    }
}
