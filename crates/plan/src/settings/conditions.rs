//! Settings of the conditions of trials: `--under`, and flags and keys of levers.

use crate::deserialize::read_as_text;
use crate::expected_value::first_paragraph;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use provoke_levers::{LEVERS, Lever, ValueShape, find_lever};
use provoke_model::{PLAIN, TrialConditions};
use provoke_words::names::is_similar_name;
use provoke_words::untrusted::Untrusted as _;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// Name of the flag and of the table for all levers.
const UNDER: &str = "under";

/// The conditions of trials that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionSettings {
    /// The conditions of all trials.
    pub all: TrialConditions,
    /// Conditions to compare, as they were typed.
    pub compared: Vec<String>,
}

impl From<TrialConditions> for ConditionSettings {
    fn from(all: TrialConditions) -> Self {
        let compared = Vec::new();
        Self { all, compared }
    }
}

/// A value of `--under`.
#[derive(Clone)]
enum UnderValue {
    /// A condition of all trials: a lever and its stored value.
    Condition(&'static str, String),
    /// Conditions to compare.
    Compared(Vec<String>),
}

/// Reads `NAME=VALUE`, or `NAME` for a lever without a value. Returns the name of the lever and its stored value.
pub(crate) fn parse_condition(typed: &str) -> Result<(&'static str, String), String> {
    let (name, value) = typed.split_once('=').unwrap_or((typed, ""));
    let lever = find_lever(name).ok_or_else(|| {
        let names: Vec<&str> = LEVERS.iter().map(|lever| lever.name).collect();
        let known = match names.iter().find(|other| is_similar_name(name, other)) {
            Some(similar) => format!("a similar one is `{similar}`"),
            None => format!("it is one of {}", names.join(", ")),
        };
        format!("there is no condition `{}`: {known}", name.to_safe())
    })?;
    Ok((lever.name, lever.parse(value)?))
}

/// Reads a value of `--under`. A list begins with `plain`, or has a condition after each comma.
fn parse_under(typed: &str) -> Result<UnderValue, String> {
    let begins = |part: &str| {
        part == PLAIN || find_lever(part.split('=').next().unwrap_or_default()).is_some()
    };
    let mut listed: Vec<String> = Vec::new();
    for part in typed.split(',') {
        match listed.last_mut() {
            Some(last) if !begins(part) => *last = format!("{last},{part}"),
            _ => listed.push(part.to_owned()),
        }
    }
    if let [condition] = listed.as_slice()
        && condition != PLAIN
    {
        let (lever, value) = parse_condition(condition)?;
        return Ok(UnderValue::Condition(lever, value));
    }
    for condition in listed.iter().filter(|condition| *condition != PLAIN) {
        parse_condition(condition)?;
    }
    Ok(UnderValue::Compared(listed))
}

impl ConditionSettings {
    /// Adds a value, which replaces an earlier one or completes it.
    fn add_value(&mut self, lever: &Lever, value: String) {
        let value = match self.all.get(lever.name) {
            Some(earlier) => (lever.combine)(earlier, &value),
            None => value,
        };
        self.all.set(lever.name, value);
    }
}

impl Args for ConditionSettings {
    fn augment_args(command: Command) -> Command {
        let under = Arg::new(UNDER)
            .long(UNDER)
            .value_name("NAME=VALUE")
            .value_parser(parse_under)
            .action(ArgAction::Append)
            .help("Run the trials under a condition: `date=+2y`, `net=none`, `pauses=100ms`")
            .long_help(format!(
                "Run the trials under a condition: `date=+2y`, `net=none`, `pauses=100ms`\n\n{}",
                describe_levers()
            ))
            .help_heading("Command and environment")
            .hide_short_help(true);
        LEVERS.iter().fold(command.arg(under), |command, lever| {
            let Some(help) = lever.flag else {
                return command;
            };
            let flag = Arg::new(lever.name)
                .long(lever.name)
                .value_name(help.value)
                .value_parser(|typed: &str| lever.parse(typed))
                .help(first_paragraph(help.text))
                .long_help(help.text)
                .help_heading(help.heading)
                .hide_short_help(true);
            command.arg(match lever.shape {
                ValueShape::Table(_) => flag.action(ArgAction::Append),
                _ => flag,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConditionSettings {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut settings = Self::default();
        settings.update_from_arg_matches(matches).map(|()| settings)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for value in matches.get_many(UNDER).into_iter().flatten() {
            match value {
                UnderValue::Condition(name, value) => {
                    let lever = find_lever(name).expect("it was found when it was read");
                    self.add_value(lever, value.clone());
                }
                UnderValue::Compared(listed) => self.compared.extend_from_slice(listed),
            }
        }
        for lever in LEVERS.iter().filter(|lever| lever.flag.is_some()) {
            let values = matches.get_many::<String>(lever.name);
            for value in values.into_iter().flatten() {
                self.add_value(lever, value.clone());
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for ConditionSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SettingsVisitor(KeysOf::Scenario))
    }
}

/// The table from which keys of levers are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeysOf {
    /// The scenario, which has the levers with a flag of their own.
    Scenario,
    /// The table `under`, which has all of them.
    Under,
}

/// Reads the keys of levers from a table. Other keys are ignored.
struct SettingsVisitor(KeysOf);

impl<'de> DeserializeSeed<'de> for SettingsVisitor {
    type Value = ConditionSettings;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<ConditionSettings, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = ConditionSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
        let mut settings = ConditionSettings::default();
        while let Some(key) = table.next_key::<String>()? {
            let lever = find_lever(&key);
            match lever.filter(|lever| self.0 == KeysOf::Under || lever.flag.is_some()) {
                None if key == UNDER && self.0 == KeysOf::Scenario => {
                    let under = table.next_value_seed(Self(KeysOf::Under))?;
                    for (lever, value) in provoke_levers::set_levers(&under.all) {
                        settings.add_value(lever, value.to_owned());
                    }
                }
                Some(lever) => {
                    let value = table.next_value_seed(LeverText(lever, None))?;
                    // An empty table sets nothing.
                    if !value.is_empty() || !matches!(lever.shape, ValueShape::Table(_)) {
                        settings.add_value(lever, value);
                    }
                }
                None => {
                    table.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(settings)
    }
}

/// Reads a value of a lever, or of a key of its table, as it is stored.
struct LeverText(&'static Lever, Option<String>);

impl<'de> DeserializeSeed<'de> for LeverText {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for LeverText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        let typed = match &self.1 {
            Some(key) => &format!("{key}={text}"),
            None => text,
        };
        self.0.parse(typed).map_err(E::custom)
    }

    /// A lever without a value is on or off.
    fn visit_bool<E: serde::de::Error>(self, is_on: bool) -> Result<String, E> {
        if is_on {
            self.visit_str("")
        } else {
            Err(E::custom("leave the condition out, or set it to true"))
        }
    }

    read_as_text!(visit_i64(i64), visit_u64(u64), visit_f64(f64));

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<String, A::Error> {
        let mut combined: Option<String> = None;
        while let Some(key) = table.next_key::<String>()? {
            let value = table.next_value_seed(Self(self.0, Some(key)))?;
            combined = Some(match combined {
                Some(earlier) => (self.0.combine)(&earlier, &value),
                None => value,
            });
        }
        Ok(combined.unwrap_or_default())
    }
}

impl Serialize for ConditionSettings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        let mut under = BTreeMap::new();
        for (lever, value) in provoke_levers::set_levers(&self.all) {
            if lever.flag.is_none() {
                under.insert(lever.name, value);
                continue;
            }
            match lever.shape {
                ValueShape::Table(_) => {
                    let entries = value.split(',').filter_map(|entry| entry.split_once('='));
                    let entries: BTreeMap<&str, &str> = entries.collect();
                    map.serialize_entry(lever.name, &entries)?;
                }
                ValueShape::Count => {
                    map.serialize_entry(lever.name, &value.parse::<u64>().unwrap_or(0))?;
                }
                _ => map.serialize_entry(lever.name, value)?,
            }
        }
        if !under.is_empty() {
            map.serialize_entry(UNDER, &under)?;
        }
        map.end()
    }
}

/// Returns a line for each lever: its name and what it does.
fn describe_levers() -> String {
    let lines = LEVERS
        .iter()
        .map(|lever| format!("  {}: {}", lever.name, lever.about));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the schema of the table `under`.
pub(crate) fn under_schema() -> Value {
    let levers = LEVERS.iter().map(|lever| {
        let kinds = ["string", "integer", "number", "boolean", "object"];
        (
            lever.name.to_owned(),
            json!({ "type": kinds, "description": lever.about }),
        )
    });
    json!({
        "description": "Conditions of all trials, such as `date = \"+2y\"` or `net = \"none\"`",
        "type": "object",
        "properties": levers.collect::<Map<String, Value>>(),
        "additionalProperties": false,
    })
}

/// Returns the schema of the value of a lever in a file.
pub(crate) fn lever_schema(lever: &Lever) -> Value {
    let amount = json!({ "$ref": "#/$defs/LimitValue" });
    let mut schema = match lever.shape {
        ValueShape::Amount => amount,
        ValueShape::Time => json!({ "$ref": "#/$defs/DurationValue" }),
        ValueShape::Name => json!({ "type": "string" }),
        ValueShape::Count => json!({ "type": "integer", "minimum": 1 }),
        ValueShape::Table(keys) => {
            let keys = keys.iter().map(|key| ((*key).to_owned(), amount.clone()));
            json!({
                "type": "object",
                "properties": keys.collect::<Map<String, Value>>(),
                "additionalProperties": false,
            })
        }
    };
    schema["description"] = lever.flag.map_or(lever.about, |flag| flag.text).into();
    schema
}

#[cfg(test)]
impl schemars::JsonSchema for ConditionSettings {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConditionSettings".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // The schemas of levers refer to these.
        generator.subschema_for::<crate::LimitValue>();
        generator.subschema_for::<crate::DurationValue>();
        let levers = LEVERS.iter().filter(|lever| lever.flag.is_some());
        let properties = levers.map(|lever| (lever.name.to_owned(), lever_schema(lever)));
        let under = (UNDER.to_owned(), under_schema());
        let properties: Map<String, Value> = properties.chain([under]).collect();
        schemars::json_schema!({ "type": "object", "properties": properties })
    }
}
