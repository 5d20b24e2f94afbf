//! `confirm` and `compare`: questions that the trials answer by themselves.

use super::args::{Flags, Output};
use super::error::CliError;
use super::exit::Exit;
use super::run::{begin, from_file, from_words, refuse};
use crate::model::Find;
use crate::scenario::{Ask, Numbers, Rate, Scenario};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Is it fixed? Run it until that is known, with the chance of being wrong
///
/// The baseline says how often it failed before the fix. The first failure of the same bug says
/// NOT FIXED; as many clean trials as the baseline asks for say FIXED. With a run for a baseline,
/// everything else is as it was in that run: flags given here win, and without a command it is
/// the same again.
#[derive(Args)]
pub(super) struct Confirm {
    #[command(flatten)]
    about: ConfirmFlags,
    #[command(flatten)]
    rest: Rest,
}

/// Which variants fail, and do they differ? Trials of all of them take turns
///
/// Two variants are compared by their failure rates. Of several, each is found to fail, or to be
/// clean. Variants are made with -L, or stand in a scenario file.
#[derive(Args)]
pub(super) struct Compare {
    #[command(flatten)]
    about: CompareFlags,
    #[command(flatten)]
    rest: Rest,
}

/// Which is the first that fails? A search in an ordered list, with a test that fails only sometimes
///
/// The first of the list is good, the last one bad. `{variant}` in the command, in variables and in
/// --setup stands for the one that is tried; --setup that holds it is run once for each, before its
/// first trial, and what it cannot make is left out. How often it fails need not be known.
#[derive(Args)]
pub(super) struct Bisect {
    #[command(flatten)]
    about: BisectFlags,
    #[command(flatten)]
    rest: Rest,
}

/// What is searched.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct BisectFlags {
    /// The list, in order: the first is good, the last one bad
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', help_heading = ASKED)]
    over: Vec<String>,
    /// The same as numbers
    #[arg(long, value_name = "A..B", help_heading = ASKED)]
    range: Option<Numbers>,
    /// Commits of the repository here, such as v1.2..main: each is checked out in a folder of its own
    #[arg(long, value_name = "GOOD..BAD", help_heading = ASKED)]
    git: Option<String>,
    /// Shell command in the folder of each commit, before its first trial; if it fails, the commit is left out
    #[arg(long, value_name = "CMD", requires = "git", help_heading = ASKED)]
    build: Option<String>,
    /// A good one never fails this way: other failures are told apart by --only
    #[arg(long, help_heading = ASKED)]
    clean: bool,
    /// Trials of the last one, after which it is given up that it fails [default: 200]
    #[arg(long, value_name = "N", help_heading = ASKED)]
    reproduce_limit: Option<u64>,
}

/// What is tried, and how.
#[derive(Args)]
struct Rest {
    /// A scenario file that says the rest
    #[arg(long, value_name = "FILE", help_heading = ASKED)]
    file: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    #[command(flatten)]
    output: Output,
    /// The command and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const ASKED: &str = "What is asked";

/// What a fix is held against.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ConfirmFlags {
    /// How often it failed before: a run, or counts such as 3/30
    #[arg(long, value_name = "RUN|K/N", help_heading = ASKED)]
    baseline: Option<String>,
    /// Of a baseline with several variants, which one
    #[arg(long, value_name = "VARIANT", help_heading = ASKED)]
    of: Option<String>,
    /// Take this failure rate for granted: nobody has measured it
    #[arg(long, value_name = "P", help_heading = ASKED)]
    assume_rate: Option<Rate>,
    /// Run on until a fix that only halves the rate would have failed too
    #[arg(long, help_heading = ASKED)]
    exclude_half: bool,
    /// Every failure is the bug, not only those that the baseline saw
    #[arg(long, help_heading = ASKED)]
    any_failure: bool,
    /// Trials do not influence each other, though what --setup started lives through all of them
    #[arg(long, help_heading = ASKED)]
    independent: bool,
}

/// What is compared with what.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct CompareFlags {
    /// `failing`: which fail and which do not; `different`: do they fail at different rates
    /// [default: different for two variants, failing for more]
    #[arg(long, value_name = "failing|different", value_parser = find, help_heading = ASKED)]
    find: Option<Find>,
    /// The variant that the others are compared with [default: the first]
    #[arg(long, value_name = "VARIANT", help_heading = ASKED)]
    reference: Option<String>,
    /// How often those fail that do: a run, or counts such as 3/30 [default: found out on the way]
    #[arg(long, value_name = "RUN|K/N", help_heading = ASKED)]
    baseline: Option<String>,
    /// Of a baseline with several variants, which one
    #[arg(long, value_name = "VARIANT", help_heading = ASKED)]
    of: Option<String>,
}

impl Confirm {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(Ask::Confirm);
            about.clone().overlay(scenario);
        };
        self.rest.ask(overlay)
    }
}

impl Compare {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(Ask::Compare);
            about.clone().overlay(scenario);
        };
        self.rest.ask(overlay)
    }
}

impl Bisect {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(Ask::Bisect);
            about.clone().overlay(scenario);
        };
        self.rest.ask(overlay)
    }
}

impl BisectFlags {
    fn overlay(self, scenario: &mut Scenario) {
        if !self.over.is_empty() || self.range.is_some() || self.git.is_some() {
            scenario.over = self.over;
            scenario.range = self.range;
            scenario.git = self.git;
        }
        scenario.build = self.build.or(scenario.build.take());
        scenario.clean = self.clean.then_some(true).or(scenario.clean);
        scenario.reproduce_limit = self.reproduce_limit.or(scenario.reproduce_limit);
    }
}

impl Rest {
    /// Asks a question about what was typed, or about what a file says.
    fn ask(self, question: impl Fn(&mut Scenario)) -> Result<Exit, CliError> {
        refuse(&self.flags)?;
        let command = super::words(self.command)?;
        let overlay = |scenario: &mut Scenario| {
            question(scenario);
            self.flags.clone().overlay(command.clone(), scenario);
        };
        let plan = match self.file {
            Some(file) => from_file(&file, overlay)?,
            None => from_words(overlay)?,
        };
        begin(plan, &self.output)
    }
}

impl ConfirmFlags {
    fn overlay(self, scenario: &mut Scenario) {
        baseline(scenario, self.baseline, self.of);
        scenario.assume_rate = self.assume_rate.or(scenario.assume_rate);
        scenario.exclude_half = self.exclude_half.then_some(true).or(scenario.exclude_half);
        scenario.independent = self.independent.then_some(true).or(scenario.independent);
        scenario.any_failure = self.any_failure.then_some(true).or(scenario.any_failure);
    }
}

impl CompareFlags {
    fn overlay(self, scenario: &mut Scenario) {
        baseline(scenario, self.baseline, self.of);
        scenario.find = self.find.or(scenario.find);
        scenario.reference = self.reference.or(scenario.reference.take());
    }
}

fn baseline(scenario: &mut Scenario, baseline: Option<String>, of: Option<String>) {
    scenario.baseline = baseline.or(scenario.baseline.take());
    scenario.of = of.or(scenario.of.take());
}

fn find(text: &str) -> Result<Find, String> {
    match text {
        "failing" => Ok(Find::Failing),
        "different" => Ok(Find::Different),
        _ => Err("write `failing` or `different`".to_owned()),
    }
}
