//! Tables of named values, to which each flag adds an entry.

use crate::expected_value::first_paragraph;
use crate::host_list::is_fact;
use crate::{EnvValue, Matrix, MatrixVariable, OnlyRule};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Environment variables to set or to remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
#[cfg_attr(test, schemars(inline))]
pub struct Variables(pub BTreeMap<String, EnvValue>);

/// Facts about the machine, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
#[cfg_attr(test, schemars(inline))]
pub struct Facts(pub BTreeMap<String, String>);

impl Variables {
    pub(super) const HELP: &'static str = "Set a variable (K=V), or remove it (K)

In a scenario file, `false` removes a variable.";

    fn flag() -> Arg {
        Arg::new("env")
            .short('e')
            .value_name("K=V")
            .value_parser(parse_variable)
    }

    fn add_entries(&mut self, entries: Vec<(String, EnvValue)>) {
        self.0.extend(entries);
    }
}

impl Facts {
    pub(super) const HELP: &'static str = "Record a fact about the machine that provoke cannot find out: bios=1.2

`provoke diff` compares facts. With --on, the fact holds for every host; a list of hosts gives each its own.";

    fn flag() -> Arg {
        Arg::new("fact")
            .value_name("NAME=VALUE")
            .value_parser(parse_fact)
            .hide_short_help(true)
    }

    fn add_entries(&mut self, entries: Vec<(String, String)>) {
        self.0.extend(entries);
    }
}

/// Kinds of failures that are the bug.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
#[cfg_attr(test, schemars(inline))]
pub struct OnlyRules(pub Vec<OnlyRule>);

impl OnlyRules {
    pub(super) const HELP: &'static str =
        "Count only this kind, such as SIGSEGV or code:3

Kinds: a signal, code:N, hang, leak, oom, output, sig:ID (one crash signature), test:NAME (a test of a suite). Other \
failures are counted separately.";

    fn flag() -> Arg {
        Arg::new("only").value_name("KIND").value_parser(parse_only)
    }

    fn add_entries(&mut self, entries: Vec<Vec<OnlyRule>>) {
        // The flag replaces the kinds in a file.
        if !entries.is_empty() {
            self.0 = entries.into_iter().flatten().collect();
        }
    }
}

impl Matrix {
    pub(super) const HELP: &'static str = "Run a variant for each value of {VAR} or $VAR

{VAR} stands for the value in the command and its environment variables.

Several -L make all combinations. If {VAR} appears nowhere, the environment variable VAR is set instead.";

    fn flag() -> Arg {
        Arg::new("matrix")
            .short('L')
            .value_name("VAR=a,b")
            .value_parser(str::parse::<MatrixVariable>)
    }
}

/// Makes a table the settings of a flag with its name, which can be given several times.
macro_rules! flag_of_entries {
    ($($table:ident of $entry:ty;)*) => {$(
        impl Args for $table {
            fn augment_args(command: Command) -> Command {
                let flag = Self::flag().action(ArgAction::Append).long_help(Self::HELP);
                let name = flag.get_id().to_string();
                command.arg(flag.long(name).help(first_paragraph(Self::HELP)))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $table {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                let mut table = Self::default();
                table.update_from_arg_matches(matches).map(|()| table)
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                let entries = matches.get_many::<$entry>(Self::flag().get_id().as_str());
                self.add_entries(entries.into_iter().flatten().cloned().collect());
                Ok(())
            }
        }
    )*};
}

flag_of_entries! {
    Variables of (String, EnvValue);
    Facts of (String, String);
    Matrix of MatrixVariable;
    OnlyRules of Vec<OnlyRule>;
}

/// Reads kinds of failures, separated by commas. A comma within brackets belongs to the name of a test.
fn parse_only(text: &str) -> Result<Vec<OnlyRule>, String> {
    let mut rules: Vec<String> = Vec::new();
    for part in text.split(',') {
        match rules.last_mut() {
            Some(last) if continues_name(last, part) => {
                last.push(',');
                last.push_str(part);
            }
            _ => rules.push(part.to_owned()),
        }
    }
    rules.iter().map(|rule| rule.parse()).collect()
}

/// Returns whether a part behind a comma belongs to the name of a test before it.
fn continues_name(rule: &str, part: &str) -> bool {
    let count = |bracket: char| rule.matches(bracket).count();
    let is_open = count('[') > count(']') || count('(') > count(')');
    rule.starts_with("test:") && (is_open || part.parse::<OnlyRule>().is_err())
}

fn parse_variable(text: &str) -> Result<(String, EnvValue), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("write NAME=VALUE, or NAME to remove the variable".to_owned());
    }
    Ok((name.to_owned(), EnvValue(value)))
}

fn parse_fact(text: &str) -> Result<(String, String), String> {
    let fact = text.split_once('=').filter(|_| is_fact(text));
    let (name, value) = fact.ok_or("write NAME=VALUE, such as bios=1.2")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_may_be_part_of_the_name_of_a_test() {
        let parse = |text: &str| {
            let rules = parse_only(text).unwrap();
            rules.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(parse("SIGSEGV,hang"), ["SIGSEGV", "hang"]);
        assert_eq!(parse("test:a,SIGSEGV"), ["test:a", "SIGSEGV"]);
        assert_eq!(parse("test:x[a,hang],test:b"), ["test:x[a,hang]", "test:b"]);
        assert_eq!(parse("test:Add/1, 2"), ["test:Add/1, 2"]);
        assert!(parse_only("SIGSEGV,a").is_err());
    }
}
