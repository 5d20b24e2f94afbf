//! Settings by subject: each field is a flag, a key of a scenario file, its help and its description in the schema.

mod baseline;
mod candidates;
mod cases;
mod comparison;
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

pub use baseline::{BaselineSettings, ConfirmSettings, CountSettings};
pub use candidates::{BisectSettings, CandidateSettings};
pub use cases::CaseSettings;
pub use comparison::ComparisonSettings;
pub use evidence::EvidenceSettings;
pub use hosts::HostSettings;
pub use hunt::HuntSettings;
pub use items::{ItemSettings, ReduceSettings};
pub use judge::JudgeSettings;
pub use load::{ConnectionSettings, ServiceSettings, TrafficSettings};
pub use program::ProgramSettings;
pub use search::SearchSettings;
pub use stop::StopSettings;
pub use tables::{Facts, Limits, OnlyRules, Variables};
pub use trials::TrialSettings;

use super::LimitValue;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::value::StringDeserializer;
use serde::de::{DeserializeOwned, IntoDeserializer as _, value};
use std::path::{self, PathBuf};

/// Returns the parser of a flag whose values are the names that a type has in a scenario file.
fn parse_name<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).map(|name| {
        let name: StringDeserializer<value::Error> = name.into_deserializer();
        T::deserialize(name).expect("a test compares the names with the schema")
    })
}

/// Resolves a path on the command line relative to the working directory.
fn absolute_path(path: PathBuf) -> PathBuf {
    path::absolute(&path).unwrap_or(path)
}

fn parse_memory(text: &str) -> Result<LimitValue, String> {
    let limit = text
        .parse()
        .ok()
        .filter(|limit: &LimitValue| limit.0.is_some());
    limit.ok_or_else(|| format!("`{text}` is not a size such as `500M` or `2G`"))
}
