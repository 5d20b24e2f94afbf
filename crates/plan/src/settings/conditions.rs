//! Settings of the conditions of trials: a flag and a key for each lever.

use crate::expected_value::first_paragraph;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use provoke_levers::{LEVERS, Lever, ValueShape, find_lever};
use provoke_model::TrialConditions;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::fmt;

/// The conditions of trials that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionSettings(pub TrialConditions);

impl ConditionSettings {
    /// Adds a value, which replaces an earlier one or completes it.
    fn add_value(&mut self, lever: &dyn Lever, value: String) {
        let value = match self.0.get(lever.name()) {
            Some(earlier) => lever.combine(earlier, &value),
            None => value,
        };
        self.0.set(lever.name(), value);
    }
}

impl Args for ConditionSettings {
    fn augment_args(command: Command) -> Command {
        LEVERS.iter().fold(command, |command, lever| {
            let Some(help) = lever.flag() else {
                return command;
            };
            let flag = Arg::new(lever.name())
                .long(lever.name())
                .value_name(help.value)
                .value_parser(|typed: &str| lever.parse(typed))
                .help(first_paragraph(help.text))
                .long_help(help.text)
                .help_heading(help.heading)
                .hide_short_help(true);
            command.arg(match lever.shape() {
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
        for lever in LEVERS {
            let values = matches.get_many::<String>(lever.name());
            for value in values.into_iter().flatten() {
                self.add_value(*lever, value.clone());
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for ConditionSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SettingsVisitor)
    }
}

/// Reads the keys of levers from a table. Other keys are ignored.
struct SettingsVisitor;

impl<'de> Visitor<'de> for SettingsVisitor {
    type Value = ConditionSettings;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Self::Value, A::Error> {
        let mut settings = ConditionSettings::default();
        while let Some(key) = table.next_key::<String>()? {
            match find_lever(&key) {
                Some(lever) => {
                    let value = table.next_value_seed(LeverText(lever, None))?;
                    // An empty table sets nothing.
                    if !value.is_empty() {
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
struct LeverText(&'static dyn Lever, Option<String>);

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

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<String, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<String, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<String, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<String, A::Error> {
        let mut combined: Option<String> = None;
        while let Some(key) = table.next_key::<String>()? {
            let value = table.next_value_seed(Self(self.0, Some(key)))?;
            combined = Some(match combined {
                Some(earlier) => self.0.combine(&earlier, &value),
                None => value,
            });
        }
        Ok(combined.unwrap_or_default())
    }
}

impl Serialize for ConditionSettings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (lever, value) in provoke_levers::set_levers(&self.0) {
            match lever.shape() {
                ValueShape::Table(_) => {
                    let entries = value.split(',').filter_map(|entry| entry.split_once('='));
                    let entries: std::collections::BTreeMap<&str, &str> = entries.collect();
                    map.serialize_entry(lever.name(), &entries)?;
                }
                ValueShape::Count => {
                    map.serialize_entry(lever.name(), &value.parse::<u64>().unwrap_or(0))?;
                }
                _ => map.serialize_entry(lever.name(), value)?,
            }
        }
        map.end()
    }
}

/// Returns the schema of the value of a lever in a file.
pub(crate) fn lever_schema(lever: &dyn Lever) -> Value {
    let amount = json!({ "$ref": "#/$defs/LimitValue" });
    let mut schema = match lever.shape() {
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
    schema["description"] = lever.flag().map_or(lever.about(), |flag| flag.text).into();
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
        let properties = LEVERS.iter();
        let properties = properties.map(|lever| (lever.name().to_owned(), lever_schema(*lever)));
        let properties: Map<String, Value> = properties.collect();
        schemars::json_schema!({ "type": "object", "properties": properties })
    }
}
