//! Deserializes the values of a scenario file, and describes them to editors.

use super::expected_value::allowed_types;
use super::matrix::MatrixValue;
use super::{
    AttachedProcess, Codes, Concurrency, Confidence, DurationValue, EnvValue, Expectation,
    Frequency, HostsValue, IntegerRange, LimitValue, Load, OnlyRule, Pattern, RateValue, ReadyWhen,
    ResourceName, RunnerValue, Scenario, TimeoutValue,
};
use provoke_model::Resource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl Scenario {
    /// Reads each group from the same table, so that every value keeps its position in the text.
    pub(super) fn from_table(table: &Spanned<DeTable<'_>>) -> Result<Self, toml::de::Error> {
        Ok(Self {
            outline: read_group(table)?,
            baseline: read_group(table)?,
            confirm: read_group(table)?,
            count: read_group(table)?,
            comparison: read_group(table)?,
            candidates: read_group(table)?,
            bisect: read_group(table)?,
            items: read_group(table)?,
            reduce: read_group(table)?,
            hunt: read_group(table)?,
            suite: read_group(table)?,
            search: read_group(table)?,
            program: read_group(table)?,
            trials: read_group(table)?,
            hosts: read_group(table)?,
            stop: read_group(table)?,
            judge: read_group(table)?,
            evidence: read_group(table)?,
            load: match table.get_ref().get("load") {
                Some(load) => Some(Load::from_value(load)?),
                None => None,
            },
            loaded: None,
            stop_if_alike: false,
            trust: false,
        })
    }
}

impl Load {
    fn from_value(value: &Spanned<DeValue<'_>>) -> Result<Self, toml::de::Error> {
        let fields = value.get_ref().as_table().cloned().unwrap_or_default();
        let table = Spanned::new(value.span(), fields);
        Ok(Self {
            service: read_group(&table)?,
            traffic: read_group(&table)?,
            connection: read_group(&table)?,
        })
    }
}

/// Reads the fields of one group of settings.
fn read_group<T: DeserializeOwned>(table: &Spanned<DeTable<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(toml::de::Deserializer::from(table.clone()))
}

/// Reads values of a file: from a string as for a flag, or from a plain number or Boolean.
struct TextOrNumberVisitor<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> de::Visitor<'_> for TextOrNumberVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }
}

/// Makes a value readable from a file and writable to one, and describes it for editors.
macro_rules! from_text {
    ($($value:ident $schema:tt)*) => {$(
        impl<'de> Deserialize<'de> for $value {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(TextOrNumberVisitor(std::marker::PhantomData))
            }
        }

        impl Serialize for $value {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let text = self.to_string();
                let schema = Self::json_schema(&mut SchemaGenerator::default()).to_value();
                match text.parse::<i64>() {
                    Ok(number) if allowed_types(&schema).contains(&"integer") => {
                        to.serialize_i64(number)
                    }
                    _ => to.serialize_str(&text),
                }
            }
        }

        impl JsonSchema for $value {
            fn schema_name() -> Cow<'static, str> {
                stringify!($value).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

from_text! {
    DurationValue {
        "description": "A time such as `60s`, `1.5s`, `200ms`, `2m` or `1h 30m`; a bare number is seconds.",
        "type": ["string", "number"],
        "examples": ["60s", "200ms", "1h 30m"],
    }
    TimeoutValue {
        "description": "`auto`, or a time such as `60s`; a bare number is seconds.",
        "type": ["string", "number"],
        "examples": ["60s", "auto"],
    }
    RateValue {
        "description": "A rate such as `0.05` or `5%`.",
        "type": ["string", "number"],
        "exclusiveMinimum": 0,
        "maximum": 1,
        "examples": ["5%", 0.05],
    }
    Confidence {
        "description": "A confidence in percent, from 50 to 99.9999.",
        "type": ["string", "number"],
        "minimum": 50,
        "maximum": 99.9999,
        "examples": [95, 99],
    }
    Pattern {
        "description": "A regular expression, searched in each line of output.",
        "type": "string",
        "examples": ["data race"],
    }
    OnlyRule {
        "description": "The name of a signal, `code:N`, `test:NAME`, `hang`, `leak`, `oom` or `output`.",
        "type": "string",
        "examples": ["SIGSEGV", "code:3", "test:*::test_login", "hang", "leak", "oom", "output"],
    }
    RunnerValue {
        "description": "The test runner: `auto`, `pytest`, `nextest`, `go`, `ctest`, `gtest`, `tap`, `junit:GLOB` or `jsonl:FILE`.",
        "type": "string",
        "examples": ["auto", "pytest", "junit:reports/*.xml"],
    }
    Expectation {
        "description": "`pass` or `fail`.",
        "type": "string",
        "enum": ["pass", "fail"],
    }
    ResourceName {
        "description": "The name of a limit.",
        "type": "string",
        "enum": (Resource::ALL.map(|(_, name)| name)),
    }
    MatrixValue {
        "description": "A value: text or a whole number.",
        "type": ["string", "integer"],
        "examples": ["8"],
    }
    IntegerRange {
        "description": "Whole numbers such as `1..64`.",
        "type": "string",
        "examples": ["1..64"],
    }
    Concurrency {
        "description": "A number of clients such as `10`, or levels such as `1..64` or `8,9,10`.",
        "type": ["string", "integer"],
        "minimum": 1,
        "examples": [10, "1..64"],
    }
    HostsValue {
        "description": "A list of hosts such as `ssh:alice,bob`, a file with them such as `ssh:@hosts`, `slurm` or `local`.",
        "type": "string",
        "examples": ["ssh:alice,bob", "ssh:@hosts", "slurm", "local"],
    }
    Frequency {
        "description": "A rate such as `50/s` or `90/min`.",
        "type": ["string", "number"],
        "examples": ["50/s"],
    }
    ReadyWhen {
        "description": "`tcp`, a path such as `/healthz`, `log:REGEX`, or a time such as `2s`.",
        "type": ["string", "number"],
        "examples": ["/healthz", "tcp", "log:Listening on", "2s"],
    }
    AttachedProcess {
        "description": "A PID, or `listener`.",
        "type": ["string", "integer"],
        "examples": ["listener", 1234],
    }
    LimitValue {
        "description": "An amount such as `0`, `512M`, `4G` or `unlimited`.",
        "type": ["string", "integer"],
        "examples": ["4G", "unlimited"],
    }
}

impl<'de> Deserialize<'de> for Codes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct CodesVisitor;
        impl<'de> de::Visitor<'de> for CodesVisitor {
            type Value = Codes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an exit code, a list of them, or text such as \"0,10-19\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Codes, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, code: i64) -> Result<Codes, E> {
                self.visit_str(&code.to_string())
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<Codes, E> {
                self.visit_str(&code.to_string())
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Codes, A::Error> {
                let mut codes = BTreeSet::new();
                while let Some(code) = list.next_element::<u8>()? {
                    codes.insert(i32::from(code));
                }
                Ok(Codes(codes))
            }
        }
        from.deserialize_any(CodesVisitor)
    }
}

impl Serialize for Codes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl JsonSchema for Codes {
    fn schema_name() -> Cow<'static, str> {
        "Codes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An exit code, a list of them, or text such as `0,10-19`.",
            "type": ["integer", "string", "array"],
            "items": { "type": "integer", "minimum": 0, "maximum": 255 },
            "examples": [0, [0, 2], "0,10-19"],
        })
    }
}

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct EnvValueVisitor;
        impl de::Visitor<'_> for EnvValueVisitor {
            type Value = EnvValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text, a number, or `false` to remove the variable")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EnvValue, E> {
                Ok(EnvValue(Some(text.to_owned())))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<EnvValue, E> {
                Ok(EnvValue(Some(number.to_string())))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<EnvValue, E> {
                Ok(EnvValue(Some(number.to_string())))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<EnvValue, E> {
                if value {
                    return Err(E::custom(
                        "`true` is not a value; write \"true\" with quotes",
                    ));
                }
                Ok(EnvValue(None))
            }
        }
        from.deserialize_any(EnvValueVisitor)
    }
}

impl Serialize for EnvValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => to.serialize_str(value),
            None => to.serialize_bool(false),
        }
    }
}

impl JsonSchema for EnvValue {
    fn schema_name() -> Cow<'static, str> {
        "EnvValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The value, or `false` to remove the variable.",
            "anyOf": [{ "type": ["string", "integer"] }, { "const": false }],
            "examples": ["1", false],
        })
    }
}
