//! `confirm` and `compare`: questions that the trials answer by themselves.

use super::args::{Flags, Output};
use super::error::CliError;
use super::exit::Exit;
use super::run::{begin, from_file, from_words, refuse};
use crate::model::Find;
use crate::scenario::{Amount, Ask, Numbers, Rate, Scenario, Span};
use clap::Args;
use std::ffi::OsString;
use std::num::NonZeroU32;
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
/// Two variants are compared by their failure rates. Of three or more, each is run until it fails, or
/// until it is known to fail less often than the variant that fails; with --floor, until it is known
/// to fail in fewer than that share of its trials. Make variants with -L, or in a scenario file.
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
/// first trial, and what it cannot make is left out. How often it fails need not be known. Without -n
/// and -d the search stops, and says what it knows, at ten times the trials that it takes on
/// average at the rate of the bad end, and not before 1000.
#[derive(Args)]
pub(super) struct Bisect {
    #[command(flatten)]
    about: BisectFlags,
    #[command(flatten)]
    rest: Rest,
}

/// What does the failure need? The smallest set of things that keeps it, found with a test that
/// fails only sometimes
///
/// Things are left out, a few at a time, in copies of the folder that the command runs in: nothing of
/// yours is changed. What is found fails alone as it failed with everything, and does not without any
/// one of its parts.
#[derive(Args)]
pub(super) struct Reduce {
    #[command(flatten)]
    about: ReduceFlags,
    #[command(flatten)]
    rest: Rest,
}

/// What is left out.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ReduceFlags {
    /// Import statements of these files: Python, JavaScript, TypeScript, Rust, C, C++, R, Julia
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = ASKED)]
    imports: Vec<PathBuf>,
    /// Statements of these files
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = ASKED)]
    statements: Vec<PathBuf>,
    /// Lines of these files, whatever is in them
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = ASKED)]
    lines: Vec<PathBuf>,
    /// Files of this folder
    #[arg(long, value_name = "DIR", help_heading = ASKED)]
    files: Option<PathBuf>,
    /// Arguments of the command
    #[arg(long = "args", visible_alias = "arguments", help_heading = ASKED)]
    arguments: bool,
    /// Variables of the environment
    #[arg(long, help_heading = ASKED)]
    variables: bool,
    /// Any things; `{set}` stands for those that are kept, `{lines}` for the same with each on a line
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', help_heading = ASKED)]
    set: Vec<String>,
    /// An environment that does not fail: a requirements file, the output of `pip freeze` or `env -0`,
    /// or a run, for its variables
    #[arg(long, value_name = "FILE|RUN", requires = "to", help_heading = ASKED)]
    from: Option<PathBuf>,
    /// The environment that fails; what differs is left out, a few differences at a time
    #[arg(long, value_name = "FILE|RUN", requires = "from", help_heading = ASKED)]
    to: Option<PathBuf>,
    /// Write what is found into the files themselves [default: a patch beside the journal]
    #[arg(long, help_heading = ASKED)]
    apply: bool,
    #[command(flatten)]
    search: SearchFlags,
}

/// How a search goes, whatever is searched.
#[derive(Args, Clone, Debug, Default)]
struct SearchFlags {
    /// With packages: the interpreter [default: python3]
    #[arg(long, value_name = "PYTHON", help_heading = SEARCH)]
    python: Option<String>,
    /// Variants that are made at the same time, beside the trials [default: 1; 2 with packages]
    #[arg(long, value_name = "N", help_heading = SEARCH)]
    builds: Option<NonZeroU32>,
    /// How long it may take to make one [default: 1h]
    #[arg(long, value_name = "TIME", help_heading = SEARCH)]
    build_limit: Option<Span>,
    /// What their folders may hold before the oldest goes [default: 10G]
    #[arg(long, value_name = "SIZE", help_heading = SEARCH)]
    disk: Option<Amount>,
    /// A good one never fails this way: other failures are told apart by --only
    #[arg(long, help_heading = SEARCH)]
    clean: bool,
    /// Every failure is the bug, not only the kinds that are seen where it is known to fail
    #[arg(long, help_heading = SEARCH)]
    any_failure: bool,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, help_heading = SEARCH)]
    ignore_earlier_runs: bool,
    /// Trials of what fails, after which it is given up that it does [default: 200]
    #[arg(long, value_name = "N", help_heading = SEARCH)]
    reproduce_limit: Option<u64>,
    /// Before the search, try --copies, -j and --wave on the variant that fails, and use the one under which
    /// failures come at least twice as often, if any: a search takes fewer trials at a higher rate
    #[arg(long, help_heading = SEARCH)]
    raise_rate: bool,
}

const SEARCH: &str = "How it is searched";

/// What is searched.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct BisectFlags {
    /// The list, in order: the first is good, the last one bad; or a file with a line for each
    #[arg(long, value_name = "A,B,C|@FILE", value_delimiter = ',', help_heading = ASKED)]
    over: Vec<String>,
    /// The same as numbers
    #[arg(long, value_name = "A..B", help_heading = ASKED)]
    range: Option<Numbers>,
    /// Commits of the repository here, such as v1.2..main: each is checked out in a folder of its own
    #[arg(long, value_name = "GOOD..BAD", help_heading = ASKED)]
    git: Option<String>,
    /// With commits: stop at a merge; otherwise what it merged is searched next, in a run of its own
    #[arg(long, help_heading = ASKED)]
    first_parent: bool,
    /// Versions of a Python package: torch, torch==1.0..1.4, or torch==1.0,1.2; each in an environment of its own
    #[arg(long, value_name = "PACKAGE", help_heading = ASKED)]
    pip: Option<String>,
    /// Versions of a crate that the project here depends on; each is built in a copy of the project
    #[arg(long, value_name = "CRATE", help_heading = ASKED)]
    cargo: Option<String>,
    /// Versions of a Debian package; each is unpacked in a folder of its own
    #[arg(long, value_name = "PACKAGE", help_heading = ASKED)]
    apt: Option<String>,
    /// Versions of a Node package; each is installed in a folder of its own
    #[arg(long, value_name = "PACKAGE", help_heading = ASKED)]
    npm: Option<String>,
    /// Other packages that each environment holds
    #[arg(long, value_name = "FILE", requires = "pip", help_heading = ASKED)]
    requirements: Option<PathBuf>,
    /// Which versions other packages may have
    #[arg(long, value_name = "FILE", requires = "pip", help_heading = ASKED)]
    constraints: Option<PathBuf>,
    /// Shell command in the folder of each commit or crate, before its first trial; if it fails, that one is left out
    #[arg(long, value_name = "CMD", help_heading = ASKED)]
    build: Option<String>,
    /// File that --build makes: commits that build identical ones are one candidate, if nothing else of them can
    /// change how the command runs; may be repeated
    #[arg(long, value_name = "FILE", requires = "build", help_heading = ASKED)]
    artifact: Vec<PathBuf>,
    /// The first is bad, the last one good: search the last that fails, before the fix
    #[arg(long, help_heading = ASKED)]
    fixed: bool,
    /// How likely each candidate is the culprit: a file with a candidate and a weight on each line; of commits, `size`, or a
    /// run that failed: commits that change a file in its stacks are more likely [default: all alike]
    #[arg(long, value_name = "FILE|size|RUN", help_heading = ASKED)]
    prior: Option<String>,
    /// What an earlier search found out: its log, as it is or with lines changed
    #[arg(long, value_name = "FILE", help_heading = ASKED)]
    log: Option<PathBuf>,
    /// Search for more boundaries after the first, between versions that fail and others that do not
    #[arg(long, help_heading = ASKED)]
    all: bool,
    #[command(flatten)]
    search: SearchFlags,
}

/// What is tried, and how.
#[derive(Args)]
pub(super) struct Rest {
    /// A scenario file that says the rest
    #[arg(long, value_name = "FILE", help_heading = ASKED)]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) flags: Flags,
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
    /// Confirm although conditions such as -j differ from the baseline
    #[arg(long, help_heading = ASKED)]
    accept_different_conditions: bool,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, help_heading = ASKED)]
    ignore_earlier_runs: bool,
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
    /// `failing`: which variants fail; `different`: do they fail at different rates
    /// [default: different for two variants, failing for more]
    #[arg(long, value_name = "failing|different", value_parser = find, help_heading = ASKED)]
    find: Option<Find>,
    /// The variant that the others are compared with [default: the first]
    #[arg(long, value_name = "VARIANT", help_heading = ASKED)]
    reference: Option<String>,
    /// The rate that variants without a failure are compared with: a run, or counts such as 3/30
    /// [default: the rate of the first variant that fails]
    #[arg(long, value_name = "RUN|K/N", help_heading = ASKED)]
    baseline: Option<String>,
    /// Of a baseline with several variants, which one
    #[arg(long, value_name = "VARIANT", help_heading = ASKED)]
    of: Option<String>,
    /// Compare although conditions such as -j differ from the baseline
    #[arg(long, help_heading = ASKED)]
    accept_different_conditions: bool,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, help_heading = ASKED)]
    ignore_earlier_runs: bool,
    /// Call a variant clean only if it fails in fewer than this share of its trials; 5% takes about
    /// 60 to 100 trials of each clean variant
    #[arg(long, value_name = "RATE", help_heading = ASKED)]
    floor: Option<Rate>,
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
        let packages = [&self.pip, &self.cargo, &self.apt, &self.npm, &self.git];
        let typed = packages.into_iter().any(Option::is_some);
        if typed || !self.over.is_empty() || self.range.is_some() {
            // What is typed takes the place of what a file says.
            scenario.over = self.over;
            scenario.range = self.range;
            scenario.git = self.git;
            scenario.pip = self.pip;
            scenario.cargo = self.cargo;
            scenario.apt = self.apt;
            scenario.npm = self.npm;
        }
        scenario.requirements = self.requirements.or(scenario.requirements.take());
        scenario.constraints = self.constraints.or(scenario.constraints.take());
        scenario.build = self.build.or(scenario.build.take());
        if !self.artifact.is_empty() {
            scenario.artifact = self.artifact;
        }
        scenario.fixed = self.fixed.then_some(true).or(scenario.fixed);
        let first_parent = self.first_parent.then_some(true);
        scenario.first_parent = first_parent.or(scenario.first_parent);
        scenario.prior = self.prior.or(scenario.prior.take());
        scenario.log = self.log.or(scenario.log.take());
        scenario.all = self.all.then_some(true).or(scenario.all);
        self.search.overlay(scenario);
    }
}

impl ReduceFlags {
    fn overlay(self, scenario: &mut Scenario) {
        let files = [&self.imports, &self.statements, &self.lines];
        let typed = files.into_iter().any(|files| !files.is_empty())
            || self.files.is_some()
            || self.arguments
            || self.variables
            || !self.set.is_empty()
            || self.from.is_some();
        if typed {
            scenario.imports = self.imports;
            scenario.statements = self.statements;
            scenario.lines = self.lines;
            scenario.files = self.files;
            scenario.arguments = self.arguments.then_some(true);
            scenario.variables = self.variables.then_some(true);
            scenario.set = self.set;
            scenario.from = self.from;
            scenario.to = self.to;
        }
        scenario.apply = self.apply.then_some(true).or(scenario.apply);
        self.search.overlay(scenario);
    }
}

impl SearchFlags {
    fn overlay(self, scenario: &mut Scenario) {
        scenario.python = self.python.or(scenario.python.take());
        scenario.builds = self.builds.or(scenario.builds);
        scenario.build_limit = self.build_limit.or(scenario.build_limit);
        scenario.disk = self.disk.or(scenario.disk);
        scenario.clean = self.clean.then_some(true).or(scenario.clean);
        scenario.any_failure = self.any_failure.then_some(true).or(scenario.any_failure);
        scenario.reproduce_limit = self.reproduce_limit.or(scenario.reproduce_limit);
        scenario.raise_rate = self.raise_rate.then_some(true).or(scenario.raise_rate);
        ignore_earlier_runs(scenario, self.ignore_earlier_runs);
    }
}

impl Reduce {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(Ask::Reduce);
            about.clone().overlay(scenario);
        };
        self.rest.ask(overlay)
    }
}

impl Rest {
    /// Asks a question about what was typed, or about what a file says.
    pub(super) fn ask(self, question: impl Fn(&mut Scenario)) -> Result<Exit, CliError> {
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

impl Rest {
    /// Asks what of the load of a run its crash needs.
    pub(super) fn shrink(self, run: &str, more: impl Fn(&mut Scenario)) -> Result<Exit, CliError> {
        refuse(&self.flags)?;
        let command = super::words(self.command)?;
        let plan = super::shrink::plan(run, |scenario| {
            more(scenario);
            self.flags.clone().overlay(command.clone(), scenario);
        })?;
        begin(plan, &self.output)
    }
}

impl ConfirmFlags {
    fn overlay(self, scenario: &mut Scenario) {
        baseline(scenario, self.baseline, self.of);
        scenario.assume_rate = self.assume_rate.or(scenario.assume_rate);
        scenario.exclude_half = self.exclude_half.then_some(true).or(scenario.exclude_half);
        scenario.independent = self.independent.then_some(true).or(scenario.independent);
        accept_different_conditions(scenario, self.accept_different_conditions);
        scenario.any_failure = self.any_failure.then_some(true).or(scenario.any_failure);
        ignore_earlier_runs(scenario, self.ignore_earlier_runs);
    }
}

impl CompareFlags {
    fn overlay(self, scenario: &mut Scenario) {
        baseline(scenario, self.baseline, self.of);
        accept_different_conditions(scenario, self.accept_different_conditions);
        ignore_earlier_runs(scenario, self.ignore_earlier_runs);
        scenario.find = self.find.or(scenario.find);
        scenario.reference = self.reference.or(scenario.reference.take());
        scenario.floor = self.floor.or(scenario.floor);
    }
}

fn accept_different_conditions(scenario: &mut Scenario, said: bool) {
    let accepted = said.then_some(true);
    scenario.accept_different_conditions = accepted.or(scenario.accept_different_conditions);
}

fn ignore_earlier_runs(scenario: &mut Scenario, said: bool) {
    scenario.ignore_earlier_runs = said.then_some(true).or(scenario.ignore_earlier_runs);
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
