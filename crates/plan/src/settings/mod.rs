//! Settings by subject: each field is a flag, a key of a scenario file, its help and its description in the schema. The
//! flag of an optional Boolean has no value, unless it says how many it has.

mod baseline;
mod candidates;
mod cases;
mod comparison;
mod conditions;
mod differ;
mod evidence;
mod hosts;
mod hunt;
mod items;
mod judge;
mod load;
mod program;
mod search;
mod stop;
mod tables;
mod trials;
mod why;

pub use baseline::{BaselineSettings, ConfirmSettings, CountSettings};
pub use candidates::{BisectSettings, CandidateSettings};
pub use cases::CaseSettings;
pub use comparison::ComparisonSettings;
pub use conditions::ConditionSettings;
pub(crate) use conditions::{lever_schema, parse_condition, under_schema};
pub use differ::DifferSettings;
pub use evidence::EvidenceSettings;
pub use hosts::HostSettings;
pub use hunt::HuntSettings;
pub use items::{ItemSettings, ReduceSettings};
pub use judge::JudgeSettings;
pub use load::{ConnectionSettings, ServiceSettings, TrafficSettings};
pub use program::ProgramSettings;
pub use search::SearchSettings;
pub use stop::StopSettings;
pub use tables::{Facts, OnlyRules, Variables};
pub use trials::TrialSettings;
pub use why::WhySettings;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer as _, value};
use std::path::{self, PathBuf};

/// Returns the parser of a flag whose values are the names that a type has in a scenario file.
fn parse_name<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| {
        let name: StringDeserializer<value::Error> = name.into_deserializer();
        T::deserialize(name)
    })
}

/// Resolves a path on the command line relative to the working directory.
fn absolute_path(path: PathBuf) -> PathBuf {
    path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SCENARIO_SCHEMA;
    use crate::expected_value::{allowed_texts, resolve_link};
    use clap::builder::PossibleValue;
    use clap::{Args as _, Command};

    #[test]
    fn the_possible_values_of_a_flag_are_those_of_its_field() {
        let schema = &*SCENARIO_SCHEMA;
        let command = ComparisonSettings::augment_args(Command::new("settings"));
        let command = JudgeSettings::augment_args(command);
        let command = EvidenceSettings::augment_args(command);
        let command = ConnectionSettings::augment_args(command);
        let mut compared = Vec::new();
        for flag in command.get_arguments() {
            let name = flag.get_long().unwrap();
            let field = schema["properties"]
                .get(name)
                .unwrap_or_else(|| &schema["$defs"]["Load"]["properties"][name]);
            let mut allowed = allowed_texts(resolve_link(schema, field));
            let values = flag.get_possible_values();
            if allowed.is_empty() || !flag.get_action().takes_values() {
                continue;
            }
            let mut names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
            names.sort_unstable();
            allowed.sort_unstable();
            assert_eq!(names, allowed, "{name}");
            compared.push(name);
        }
        compared.sort_unstable();
        let expected = [
            "capture", "cores", "expect", "find", "http", "keep", "leaks",
        ];
        assert_eq!(compared, expected);
    }
}
