//! Settings of cases: how provoke learns which tests of a suite ran in a trial, and how they ended.

use super::is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How the cases of each trial are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CasesPlan {
    /// The program that runs the cases.
    pub runner: CaseRunner,
    /// Whether each trial runs its cases in a random order, which its seed determines.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shuffle: bool,
    /// How often each failing case is run alone after the measurement.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reruns: u32,
    /// A regular expression of the parts of names that are removed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strip: Option<String>,
    /// Arguments that select one case, for a runner whose own arguments are not known; `{case}` is its name, and
    /// `{suite}` its group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub select: Vec<String>,
}

impl CasesPlan {
    /// Returns the order of the cases, if the runner does not choose it.
    pub fn order(&self) -> Option<CaseOrder> {
        self.shuffle.then_some(CaseOrder::OfTrial)
    }
}

/// An order of the cases that their runner would not choose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOrder {
    /// Another random order in each trial, which its seed determines.
    OfTrial,
    /// The random order of this seed.
    OfSeed(u32),
    /// The reverse of the usual order.
    Reverse,
}

/// The largest seed that all runners accept.
const LARGEST_SEED: u32 = 99_999;

impl CaseOrder {
    /// Reads `reverse`, `random` or a seed.
    pub fn parse(typed: &str) -> Result<Self, String> {
        match typed {
            "reverse" => return Ok(Self::Reverse),
            "random" => return Ok(Self::OfTrial),
            _ => {}
        }
        let seed = typed.parse().ok();
        let seed = seed.filter(|seed| (1..=LARGEST_SEED).contains(seed));
        seed.map(Self::OfSeed).ok_or_else(|| {
            format!("`{typed}` is not `reverse`, `random` or a seed from 1 to {LARGEST_SEED}")
        })
    }
}

/// Writes what [`CaseOrder::parse`] reads.
impl fmt::Display for CaseOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reverse => f.write_str("reverse"),
            Self::OfTrial => f.write_str("random"),
            Self::OfSeed(seed) => write!(f, "{seed}"),
        }
    }
}

/// The test runner that runs the cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredRunner", into = "StoredRunner")]
pub struct CaseRunner {
    /// Its name, such as `pytest`.
    pub name: String,
    /// The path of its reports, for a runner that has such an argument.
    pub argument: Option<String>,
}

impl CaseRunner {
    /// Returns the path of the reports, with marks, if one was given.
    pub fn report_path(&self) -> Option<&str> {
        self.argument.as_deref().filter(|path| !path.is_empty())
    }
}

/// Writes the value of the setting `cases`.
impl fmt::Display for CaseRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match &self.argument {
            Some(argument) => write!(f, ":{argument}"),
            None => Ok(()),
        }
    }
}

/// A runner in JSON: its name, or an object with its name and its argument.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredRunner {
    Name(String),
    WithArgument(BTreeMap<String, String>),
}

impl From<StoredRunner> for CaseRunner {
    fn from(stored: StoredRunner) -> Self {
        let (name, argument) = match stored {
            StoredRunner::Name(name) => (name, None),
            StoredRunner::WithArgument(fields) => {
                let field = fields.into_iter().next();
                field.map_or_else(Default::default, |(name, argument)| (name, Some(argument)))
            }
        };
        Self { name, argument }
    }
}

impl From<CaseRunner> for StoredRunner {
    fn from(runner: CaseRunner) -> Self {
        match runner.argument {
            None => Self::Name(runner.name),
            Some(argument) => Self::WithArgument([(runner.name, argument)].into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_stored_by_its_name() {
        for (json, text) in [
            (r#""pytest""#, "pytest"),
            (r#"{"junit":"out/*.xml"}"#, "junit:out/*.xml"),
            (r#"{"jsonl":""}"#, "jsonl:"),
        ] {
            let runner: CaseRunner = serde_json::from_str(json).unwrap();
            assert_eq!(runner.to_string(), text);
            assert_eq!(serde_json::to_string(&runner).unwrap(), json);
        }
    }
}
