//! Tests the flags of all commands together.

use clap::builder::PossibleValue;
use serde_json::Value;
use std::collections::BTreeSet;

/// Flags that belong to one invocation, and flags that stand for several fields or for one of another name.
const ONLY_FLAGS: [&str; 24] = [
    "args",
    "body",
    "ci",
    "csv",
    "csv-cases",
    "file",
    "header",
    "html",
    "i-own-this-target",
    "json",
    "jsonl",
    "junit",
    "keep-going",
    "md",
    "method",
    "out",
    "progress",
    "quiet",
    "serve",
    "shrink",
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
        "run", "confirm", "compare", "bisect", "reduce", "hunt", "load",
    ]
    .map(|name| root.find_subcommand(name).expect("a command"));
    let visible = questions
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter(|flag| !flag.is_hide_set())
        .filter_map(clap::Arg::get_long_and_visible_aliases);
    let flags: BTreeSet<String> = visible.flatten().map(str::to_owned).collect();
    let schema = &*provoke::scenario::SCENARIO_SCHEMA;
    let tables = [
        &schema["properties"],
        &schema["$defs"]["Load"]["properties"],
    ];
    let fields = tables.into_iter().filter_map(Value::as_object);
    let fields: BTreeSet<String> = fields.flat_map(|fields| fields.keys().cloned()).collect();
    assert_eq!(&flags - &fields, names(&ONLY_FLAGS));
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
