//! Tests the flags of all commands together.

use clap::builder::PossibleValue;
use clap::{Arg, Command};
use provoke_report::EXPORTERS;
use provoke_words::equivalents;
use serde_json::Value;
use std::collections::BTreeSet;

/// Flags that belong to one invocation, without the formats of reports, and flags that stand for several fields or for one of another name.
const ONLY_FLAGS: [&str; 17] = [
    "args",
    "body",
    "ci",
    "file",
    "header",
    "i-own-this-target",
    "keep-going",
    "list",
    "method",
    "out",
    "progress",
    "quiet",
    "serve",
    "svg",
    "style",
    "trust",
    "verbose",
];
/// Fields that only a file can have, or that another flag or the command itself stands for.
const ONLY_FIELDS: [&str; 15] = [
    "actor",
    "ask",
    "certificate",
    "command",
    "description",
    "exact",
    "key",
    "load",
    "own-target",
    "ready-status",
    "request",
    "resolve-each",
    "rows",
    "url",
    "variant",
];

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn flags_of_questions_and_fields_of_scenarios_are_equal() {
    let root = provoke::cli::build_command();
    let questions = [
        "run", "confirm", "compare", "bisect", "reduce", "hunt", "load", "why", "differ",
    ]
    .map(|name| root.find_subcommand(name).expect("a command"));
    let visible = questions
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter(|flag| !flag.is_hide_set())
        .filter_map(clap::Arg::get_long_and_visible_aliases);
    let flags: BTreeSet<String> = visible.flatten().map(str::to_owned).collect();
    let schema = &*provoke_plan::SCENARIO_SCHEMA;
    let tables = [
        &schema["properties"],
        &schema["$defs"]["Load"]["properties"],
    ];
    let fields = tables.into_iter().filter_map(Value::as_object);
    let fields: BTreeSet<String> = fields.flat_map(|fields| fields.keys().cloned()).collect();
    let formats = EXPORTERS.iter().map(|exporter| exporter.name);
    let only_flags: Vec<&str> = ONLY_FLAGS.into_iter().chain(formats).collect();
    assert_eq!(&flags - &fields, names(&only_flags));
    assert_eq!(&fields - &flags, names(&ONLY_FIELDS));
}

#[test]
fn the_name_of_a_value_lists_the_possible_values() {
    let root = provoke::cli::build_command();
    let flags = root
        .get_subcommands()
        .flat_map(clap::Command::get_arguments);
    for flag in flags.filter(|flag| flag.is_hide_possible_values_set()) {
        let values = flag.get_possible_values();
        let values: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        let shown = flag.get_value_names().unwrap_or_default();
        assert_eq!(shown, [values.join("|")], "{}", flag.get_id());
    }
}

/// Returns the names of a flag, as they are typed, with the visible aliases.
fn typed_names(flag: &Arg) -> Vec<String> {
    let long = flag.get_long_and_visible_aliases().unwrap_or_default();
    let short = flag.get_short().map(|short| format!("-{short}"));
    let long = long.iter().map(|long| format!("--{long}"));
    long.chain(short).collect()
}

#[test]
fn every_flag_and_command_suggested_exists() {
    let root = provoke::cli::build_command();
    let commands: Vec<&str> = root.get_subcommands().map(Command::get_name).collect();
    for (others, ours) in equivalents::COMMANDS.rows() {
        assert!(commands.contains(&ours), "{ours}");
        assert!(
            !others.split(' ').any(|name| commands.contains(&name)),
            "{others}"
        );
    }
    let flags_of = |command: &str| -> BTreeSet<String> {
        let command = root.find_subcommand(command).unwrap();
        command.get_arguments().flat_map(typed_names).collect()
    };
    let [run, confirm] = ["run", "confirm"].map(flags_of);
    for (others, ours) in equivalents::FLAGS.rows() {
        let flag = ours.split([' ', '=']).next().unwrap();
        let is_known = run.contains(flag) || confirm.contains(flag);
        assert!(is_known || !flag.starts_with('-'), "{flag}");
        assert!(
            !others.split(' ').any(|flag| run.contains(flag)),
            "{others}"
        );
    }
}

#[test]
fn every_setting_suggested_exists() {
    let schema = provoke_plan::SCENARIO_SCHEMA.to_string();
    for (_, ours) in equivalents::SETTINGS.rows() {
        assert!(schema.contains(&format!("\"{ours}\":")), "{ours}");
    }
}
