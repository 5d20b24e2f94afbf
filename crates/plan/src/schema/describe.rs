//! Describes the values of a scenario file for its schema.

use crate::RunnerValue;
use crate::value::hosts_examples;
use crate::{
    AttachedProcess, Codes, Concurrency, Confidence, DurationValue, EnvValue, Expectation,
    Frequency, HostList, HostsValue, IntegerRange, LimitValue, Matrix, MatrixValue, OnlyRule,
    Pattern, RateValue, ReadyWhen, TimeoutValue,
};
use provoke_runners::setting_values;
use provoke_transports::TRANSPORTS;
use provoke_words as words;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

macro_rules! describe {
    ($($value:ident $schema:tt)*) => {$(
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

describe! {
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
        "description": "The name of a signal, `code:N`, `test:NAME`, `hang`, `timeout`, `leak`, `oom` or `output`.",
        "type": "string",
        "examples": ["SIGSEGV", "code:3", "test:*::test_login", "hang", "timeout", "leak", "oom", "output"],
    }
    RunnerValue {
        "description": describe_runner_value(),
        "type": "string",
        "examples": ["auto", "pytest", "junit:reports/*.xml"],
    }
    Expectation {
        "description": "`pass`, `fail` or `any`.",
        "type": "string",
        "enum": ["pass", "fail", "any"],
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
    HostList {
        "description": "Names of hosts, or a file with one host on each line, such as `@lab`.",
        "type": "string",
        "examples": ["alice,bob", "@lab"],
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
    Codes {
        "description": "An exit code, a list of them, or text such as `0,10-19`.",
        "type": ["integer", "string", "array"],
        "items": { "type": "integer", "minimum": 0, "maximum": 255 },
        "examples": [0, [0, 2], "0,10-19"],
    }
    EnvValue {
        "description": "The value, or `false` to remove the variable.",
        "anyOf": [{ "type": ["string", "integer"] }, { "const": false }],
        "examples": ["1", false],
    }
}

fn describe_runner_value() -> String {
    let values = std::iter::once("auto".to_owned()).chain(setting_values());
    let quoted = values.map(|value| format!("`{value}`"));
    format!("The test runner: {}.", words::join_names("or", quoted))
}

impl JsonSchema for Matrix {
    fn schema_name() -> Cow<'static, str> {
        "Matrix".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let level = generator.subschema_for::<MatrixValue>();
        json_schema!({
            "description": "Variables with their values.",
            "type": "object",
            "additionalProperties": {
                "description": "The values of one variable.",
                "type": "array",
                "items": level,
                "examples": [["1", "8"]],
            },
            "examples": [{ "threads": ["1", "8"] }],
        })
    }
}

impl JsonSchema for HostsValue {
    fn schema_name() -> Cow<'static, str> {
        "HostsValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let examples = TRANSPORTS.iter().map(|transport| transport.help.example);
        let examples: Vec<&str> = examples.chain(["local"]).collect();
        json_schema!({
            "description": format!("Hosts such as {}.", hosts_examples()),
            "type": "string",
            "examples": examples,
        })
    }
}
