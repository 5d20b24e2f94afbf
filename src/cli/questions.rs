//! Flags of the questions that end a run: `confirm`, `compare`, `bisect` and `reduce`.

use super::args::{ExperimentFlags, OutputFlags};
use super::error::CliError;
use super::exit::Exit;
use super::run::{begin_experiment, from_file, from_words, refuse_flags};
use super::typo;
use crate::model::{CompareGoal, VariantId};
use crate::report;
use crate::scenario::{
    DurationValue, IntegerRange, LimitValue, QuestionSettings, RateValue, Scenario,
};
use crate::store::{RunFolder, default_root};
use crate::sys::spawn;
use crate::untrusted::shell_word;
use clap::Args;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Check whether a failure is fixed
///
/// The baseline says how often the command failed before the fix. The first failure of the same bug
/// means NOT FIXED; enough passing trials mean FIXED. Without --baseline, the newest run with failures
/// is the baseline. If the baseline is a run, provoke uses the command and the flags of that run; flags
/// given here override them.
#[derive(Args)]
#[command(
    override_usage = "provoke confirm [OPTIONS] [--] [CMD]...",
    after_help = CONFIRM_EXAMPLES,
    mut_args(without_stop_rules),
    mut_arg("runs", at_most),
)]
pub(super) struct ConfirmArgs {
    #[command(flatten)]
    about: ConfirmFlags,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const CONFIRM_EXAMPLES: &str = "\
Examples:
  Compare with the newest run that failed:
    provoke confirm -- ./program
  It failed 3 times in 30 trials before the fix:
    provoke confirm --baseline 3/30 -- ./program
  Try it:
    provoke confirm --baseline 3/30 -- provoke victim segv --rate 0";

/// Find out which variants fail, or whether their rates differ
///
/// Trials of all variants take turns. Two variants are compared by their failure rates. Three or more
/// variants run until each of them fails, or is known to fail less often than the variant that fails;
/// with --floor, until it is known to fail in fewer than that share of its trials. Make variants with
/// -L or in a scenario file.
#[derive(Args)]
#[command(
    override_usage = "provoke compare [OPTIONS] -L VAR=a,b [--] CMD...",
    after_help = COMPARE_EXAMPLES,
    mut_args(without_stop_rules),
    mut_arg("runs", at_most_each),
)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    about: CompareFlags,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  Compare two programs:
    provoke compare -L bin=./old,./new -- {bin} --arg
  Find the setting that fails, of four combinations:
    provoke compare -L CACHE=on,off -L WORKERS=1,4 -- ./program
  Try it:
    provoke compare -L P=0,20% -- provoke victim segv --rate {P}";

/// Find the first bad commit, version or value
///
/// Searches an ordered list of candidates, also if they fail only sometimes. The first candidate is good, the last one is bad. `{variant}` in the command, in environment
/// variables and in --setup stands for the candidate. A --setup with `{variant}` runs once for each
/// candidate, before its first trial; if it fails, the candidate is left out. The failure rate need not
/// be known. Without -n and -d, the search gives up after ten times the number of trials that it takes
/// on average at the failure rate of the bad end, but not before 1000 trials, and reports what it knows.
#[derive(Args)]
#[command(
    override_usage = "provoke bisect [OPTIONS] [--] CMD...",
    after_help = BISECT_EXAMPLES,
    mut_args(without_stop_rules),
    mut_arg("runs", at_most),
)]
pub(super) struct BisectArgs {
    #[command(flatten)]
    about: BisectFlags,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const BISECT_EXAMPLES: &str = "\
Examples:
  Find the first bad commit:
    provoke bisect --git v1.2..main --build make -- ./program
  Find the first bad version of a Python package:
    provoke bisect --pip torch==2.0..2.4 -- python3 test.py
  Try it:
    provoke bisect --range 1..8 -- sh -c 'test {variant} -lt 6'";

/// Find the imports, lines, arguments or packages that a failure needs
///
/// Finds the smallest set of items that still fails, also if it fails only sometimes. Items are left out, a few at a time, in copies of the working directory: your files do not change.
/// The result is checked: the remaining items fail as all of them did, and without any one of them
/// there is no failure.
#[derive(Args)]
#[command(
    override_usage = "provoke reduce [OPTIONS] [--] CMD...",
    after_help = REDUCE_EXAMPLES,
    mut_args(without_stop_rules),
    mut_arg("runs", at_most),
)]
pub(super) struct ReduceArgs {
    #[command(flatten)]
    about: ReduceFlags,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const REDUCE_EXAMPLES: &str = "\
Examples:
  Find the import that the failure needs:
    provoke reduce --imports job.py -- python3 job.py
  Find the arguments that the failure needs:
    provoke reduce --args -- ./program --fast --cache --workers 4
  Try it:
    provoke reduce --set a,b,c -- sh -c 'case \"{set}\" in *b*) exit 1; esac'";

/// Hides the flags that these questions refuse, because their answer ends the run.
fn without_stop_rules(flag: clap::Arg) -> clap::Arg {
    let refused = ["fail_fast", "max_fail", "width", "expect", "max_rate"];
    let hide = flag.is_hide_set() || refused.iter().any(|name| flag.get_id() == *name);
    flag.hide(hide)
}

/// Describes `-n` as a limit, for a question that ends by itself.
fn at_most(flag: clap::Arg) -> clap::Arg {
    flag.help("Run at most this many trials")
        .long_help("Run at most this many trials in all [default: until there is an answer]")
}

/// Describes `-n` for a comparison.
fn at_most_each(flag: clap::Arg) -> clap::Arg {
    flag.help("Run at most this many trials of each variant")
        .long_help(
            "Run at most this many trials of each variant [default: until there is an answer, for at \
             most 10 minutes; 300 if rates are compared]",
        )
}

/// Flags that select the items of `reduce`.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ReduceFlags {
    /// Reduce the import statements of these files
    ///
    /// Languages: Python, JavaScript, TypeScript, Rust, C, C++, R, Julia
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = ITEMS)]
    imports: Vec<PathBuf>,
    /// Reduce the statements of these files
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = ITEMS)]
    statements: Vec<PathBuf>,
    /// Reduce the lines of these files, in any language
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = ITEMS)]
    lines: Vec<PathBuf>,
    /// Reduce the files of this directory
    #[arg(long, value_name = "DIR", help_heading = ITEMS)]
    files: Option<PathBuf>,
    /// Reduce the arguments of the command
    #[arg(long = "args", visible_alias = "arguments", help_heading = ITEMS)]
    arguments: bool,
    /// Reduce the environment variables
    #[arg(long, help_heading = ITEMS)]
    variables: bool,
    /// Reduce this list; {set} stands for the items kept, {lines} for one per line
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', help_heading = ITEMS)]
    set: Vec<String>,
    /// An environment that does not fail: requirements, `pip freeze`, `env -0`, or a run
    ///
    /// A requirements file, a file with the output of `pip freeze` or `env -0`, or a run, for its
    /// environment variables.
    #[arg(long, value_name = "FILE|RUN", requires = "to", help_heading = ITEMS)]
    from: Option<PathBuf>,
    /// The environment that fails; reduce its differences from --from
    #[arg(long, value_name = "FILE|RUN", requires = "from", help_heading = ITEMS)]
    to: Option<PathBuf>,
    /// Write the result into the files [default: write a patch to the run's directory]
    #[arg(long, help_heading = ITEMS, hide_short_help = true)]
    apply: bool,
    #[command(flatten)]
    search: SearchFlags,
}

/// Flags of all searches, for candidates and for items.
#[derive(Args, Clone, Debug, Default)]
struct SearchFlags {
    /// Create package environments with this interpreter [default: python3]
    #[arg(long, value_name = "PYTHON", help_heading = SEARCH, hide_short_help = true)]
    python: Option<String>,
    /// Build this many variants at a time, while trials run [default: 1; 2 for packages]
    #[arg(long, value_name = "N", help_heading = SEARCH, hide_short_help = true)]
    builds: Option<NonZeroU32>,
    /// Give up on a variant if its build takes longer than this [default: 1h]
    #[arg(long, value_name = "TIME", help_heading = SEARCH, hide_short_help = true)]
    build_limit: Option<DurationValue>,
    /// Disk budget for variant directories; the oldest is evicted first [default: 10G]
    #[arg(long, value_name = "SIZE", help_heading = SEARCH, hide_short_help = true)]
    disk: Option<LimitValue>,
    /// Assume that good candidates never fail this way
    ///
    /// Use --only to count other failures separately.
    #[arg(long, help_heading = SEARCH)]
    clean: bool,
    /// Count every failure, not only the kinds of failure seen at the bad end
    #[arg(long, help_heading = SEARCH, hide_short_help = true)]
    any_failure: bool,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, help_heading = SEARCH, hide_short_help = true)]
    ignore_earlier_runs: bool,
    /// Give up if the bad end has not failed after N trials [default: 200]
    #[arg(long, value_name = "N", help_heading = SEARCH, hide_short_help = true)]
    reproduce_limit: Option<u64>,
    /// First look for a setting that makes the failure more frequent
    ///
    /// Tries --copies, -j and --wave on the variant that fails, and uses the setting under which failures
    /// are at least twice as frequent, if there is one. A search takes fewer trials at a higher rate.
    #[arg(long, help_heading = SEARCH, hide_short_help = true)]
    raise_rate: bool,
}

const SEARCH: &str = "Search";
const CANDIDATES: &str = "Candidates";
const ITEMS: &str = "Items";

/// Flags that select the candidates of `bisect`.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct BisectFlags {
    /// Search this list, good end first; or a file with one candidate per line
    #[arg(long, value_name = "A,B,C|@FILE", value_delimiter = ',', help_heading = CANDIDATES)]
    over: Vec<String>,
    /// Search these numbers, good end first
    #[arg(long, value_name = "A..B", help_heading = CANDIDATES)]
    range: Option<IntegerRange>,
    /// Search the commits of this repository, such as v1.2..main
    ///
    /// Each commit is checked out in its own directory; your checkout does not change.
    #[arg(long, value_name = "GOOD..BAD", help_heading = CANDIDATES)]
    git: Option<String>,
    /// Stop at a merge commit
    ///
    /// Without this flag, the commits that the merge brought are searched next, in another run.
    #[arg(long, help_heading = CANDIDATES, hide_short_help = true)]
    first_parent: bool,
    /// Search the versions of a Python package: torch, torch==1.0..1.4, torch==1.0,1.2
    ///
    /// Each version is installed in its own virtual environment.
    #[arg(long, value_name = "PACKAGE", help_heading = CANDIDATES)]
    pip: Option<String>,
    /// Search the versions of a crate that this project depends on
    ///
    /// Each version is built in a copy of the project.
    #[arg(long, value_name = "CRATE", help_heading = CANDIDATES)]
    cargo: Option<String>,
    /// Search the versions of a Debian package
    ///
    /// Each version is unpacked in its own directory.
    #[arg(long, value_name = "PACKAGE", help_heading = CANDIDATES)]
    apt: Option<String>,
    /// Search the versions of a Node package
    ///
    /// Each version is installed in its own directory.
    #[arg(long, value_name = "PACKAGE", help_heading = CANDIDATES)]
    npm: Option<String>,
    /// Install these packages as well in every environment
    #[arg(long, value_name = "FILE", requires = "pip", help_heading = CANDIDATES, hide_short_help = true)]
    requirements: Option<PathBuf>,
    /// Restrict the versions of other packages
    #[arg(long, value_name = "FILE", requires = "pip", help_heading = CANDIDATES, hide_short_help = true)]
    constraints: Option<PathBuf>,
    /// Build each commit or crate with this shell command
    ///
    /// Runs in the directory of the commit or crate, before its first trial. If it fails, the candidate is
    /// left out.
    #[arg(long, value_name = "CMD", help_heading = CANDIDATES)]
    build: Option<String>,
    /// A file that --build creates; commits with identical files are one candidate
    ///
    /// Commits are merged into one candidate only if nothing else in them can change how the command runs.
    /// May be repeated.
    #[arg(long, value_name = "FILE", requires = "build", help_heading = CANDIDATES, hide_short_help = true)]
    artifact: Vec<PathBuf>,
    /// Search for the fix: the first candidate is bad, the last one is good
    ///
    /// Reports the last candidate that fails, before the fix.
    #[arg(long, help_heading = CANDIDATES)]
    fixed: bool,
    /// Prior weight of each candidate: a file with `NAME WEIGHT` per line
    ///
    /// For commits also `size` (larger commits are more likely), or a run that failed: commits that change a
    /// file in its stacks are more likely. [default: all alike]
    #[arg(long, value_name = "FILE|size|RUN", help_heading = CANDIDATES, hide_short_help = true)]
    prior: Option<String>,
    /// Start from the log of an earlier search, edited or not
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES, hide_short_help = true)]
    log: Option<PathBuf>,
    /// Search for more boundaries between good and bad candidates after the first
    #[arg(long, help_heading = CANDIDATES, hide_short_help = true)]
    all: bool,
    #[command(flatten)]
    search: SearchFlags,
}

/// The scenario file, the command and the flags of its trials.
#[derive(Args)]
pub(super) struct ExperimentArgs {
    /// Read the rest from a scenario file
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) flags: ExperimentFlags,
    #[command(flatten)]
    output: OutputFlags,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

const BASELINE: &str = "Baseline";
const COMPARISON: &str = "Comparison";

/// The failure rate before the fix.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ConfirmFlags {
    /// A run, or counts such as 3/30 [default: the newest run with failures]
    #[arg(long, value_name = "RUN|K/N", help_heading = BASELINE)]
    baseline: Option<String>,
    /// Use this variant of the baseline
    #[arg(long, value_name = "VARIANT", help_heading = BASELINE, hide_short_help = true)]
    of: Option<String>,
    /// Assume this failure rate instead of measuring it
    #[arg(long, value_name = "P", help_heading = BASELINE, hide_short_help = true)]
    assume_rate: Option<RateValue>,
    /// Also rule out a fix that merely halves the failure rate [default: if it takes less than a minute]
    #[arg(long, help_heading = BASELINE, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    exclude_half: Option<bool>,
    /// Confirm although conditions such as -j differ from the baseline
    #[arg(long, help_heading = BASELINE, hide_short_help = true)]
    accept_different_conditions: bool,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, help_heading = BASELINE, hide_short_help = true)]
    ignore_earlier_runs: bool,
    /// Count every failure, not only the failures that the baseline has
    #[arg(long, help_heading = BASELINE, hide_short_help = true)]
    any_failure: bool,
    /// Assume that trials are independent although they share what --setup started
    #[arg(long, help_heading = BASELINE, hide_short_help = true)]
    independent: bool,
}

/// Flags of `compare`.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct CompareFlags {
    /// Find the variants that fail, or find out whether the rates differ
    ///
    /// [default: different for two variants, failing for three or more]
    #[arg(long, value_name = "failing|different", value_parser = parse_find, help_heading = COMPARISON)]
    find: Option<CompareGoal>,
    /// Compare the other variants with this one [default: the first]
    #[arg(long, value_name = "VARIANT", help_heading = COMPARISON)]
    reference: Option<String>,
    /// Compare variants without a failure with this rate: a run, or counts such as 3/30
    ///
    /// [default: the rate of the first variant that fails]
    #[arg(long, value_name = "RUN|K/N", help_heading = COMPARISON, hide_short_help = true)]
    baseline: Option<String>,
    /// Use this variant of the baseline
    #[arg(long, value_name = "VARIANT", help_heading = COMPARISON, hide_short_help = true)]
    of: Option<String>,
    /// Compare although conditions such as -j differ from the baseline
    #[arg(long, help_heading = COMPARISON, hide_short_help = true)]
    accept_different_conditions: bool,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, help_heading = COMPARISON, hide_short_help = true)]
    ignore_earlier_runs: bool,
    /// Call a variant clean only if it fails in fewer than this share of its trials
    ///
    /// 5% takes about 60 to 100 trials of each clean variant.
    #[arg(long, value_name = "RATE", help_heading = COMPARISON, hide_short_help = true)]
    floor: Option<RateValue>,
}

impl ConfirmArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(QuestionSettings::Confirm);
            about.clone().overlay_scenario(scenario);
        };
        match run_as_command(&self.rest.command) {
            Some(error) => Err(error),
            None => self.rest.ask_question(overlay),
        }
    }
}

/// Refuses a command that begins with the name of a stored run, because the run is probably the baseline.
fn run_as_command(command: &[OsString]) -> Option<CliError> {
    let (name, rest) = command.split_first()?;
    if std::env::args_os().any(|word| word == "--") {
        return None;
    }
    let here = std::env::current_dir().ok()?;
    let path = std::env::var_os("PATH");
    let is_program = spawn::find_program(name, path.as_deref(), &here).is_ok();
    // Many systems have a program `last`, which lists logins.
    if (is_program && name != "last")
        || RunFolder::find_run(name.to_str()?, &default_root()).is_err()
    {
        return None;
    }
    let run = typo::quote_word(name);
    let with_rest = match rest {
        [] => String::new(),
        rest => format!(" -- {}", typo::shell_line(rest)),
    };
    let baseline = typo::retyped_line(name, &format!("--baseline {run}{with_rest}"));
    let program = if is_program {
        let words = typo::shell_line(command);
        let program = typo::retyped_line(name, &format!("-- {words}"));
        format!(" To run the program: {program}")
    } else {
        String::new()
    };
    let error = anyhow::anyhow!("`{run}` is a stored run, not a command");
    Some(CliError::usage(error).with_hint(format!("did you mean `{baseline}`?{program}")))
}

impl CompareArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(QuestionSettings::Compare);
            about.clone().overlay_scenario(scenario);
        };
        let command = self.rest.command.clone();
        let done = self.rest.ask_question(overlay);
        done.map_err(|error| stored_runs(&command).unwrap_or(error))
    }
}

/// Explains that stored runs are not programs to compare.
fn stored_runs(command: &[OsString]) -> Option<CliError> {
    let is_run = |word: &OsString| {
        let word = word.to_str();
        word.is_some_and(|word| RunFolder::find_run(word, &default_root()).is_ok())
    };
    if command.len() < 2 || !command.iter().all(is_run) {
        return None;
    }
    let runs = command.iter().map(|run| shell_word(run).to_string());
    let runs = runs.collect::<Vec<_>>().join(" ");
    let error = anyhow::anyhow!("`provoke compare` compares programs, and these are stored runs");
    Some(CliError::usage(error).with_hint(format!("to compare stored runs: provoke diff {runs}")))
}

impl BisectArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(QuestionSettings::Bisect);
            about.clone().overlay_scenario(scenario);
        };
        self.rest.ask_question(overlay)
    }
}

impl BisectFlags {
    fn overlay_scenario(self, scenario: &mut Scenario) {
        let packages = [&self.pip, &self.cargo, &self.apt, &self.npm, &self.git];
        let typed = packages.into_iter().any(Option::is_some);
        if typed || !self.over.is_empty() || self.range.is_some() {
            // The command line takes precedence over the file.
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
        self.search.overlay_scenario(scenario);
    }
}

impl ReduceFlags {
    fn overlay_scenario(self, scenario: &mut Scenario) {
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
        self.search.overlay_scenario(scenario);
    }
}

impl SearchFlags {
    fn overlay_scenario(self, scenario: &mut Scenario) {
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

impl ReduceArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let about = self.about;
        let overlay = |scenario: &mut Scenario| {
            scenario.ask = Some(QuestionSettings::Reduce);
            about.clone().overlay_scenario(scenario);
        };
        self.rest.ask_question(overlay)
    }
}

impl ExperimentArgs {
    /// Runs a question with the command line, or with a scenario file.
    pub(super) fn ask_question(self, question: impl Fn(&mut Scenario)) -> Result<Exit, CliError> {
        refuse_flags(&self.flags)?;
        let command = super::utf8_words(self.command)?;
        let overlay = |scenario: &mut Scenario| {
            question(scenario);
            self.flags
                .clone()
                .overlay_scenario(command.clone(), scenario);
        };
        let plan = match self.file {
            Some(file) => from_file(&file, overlay)?,
            None => {
                let (plan, chosen) = from_words(overlay)?;
                if let Some(chosen) = chosen.filter(|_| !self.output.talk.quiet) {
                    chosen.print_choice(&report::command_line(&plan, VariantId(0)));
                }
                plan
            }
        };
        begin_experiment(plan, &self.output)
    }
}

impl ExperimentArgs {
    /// Reduces the load of a run to the part that its crash needs.
    pub(super) fn shrink_run(
        self,
        run: &str,
        more: impl Fn(&mut Scenario),
    ) -> Result<Exit, CliError> {
        refuse_flags(&self.flags)?;
        let command = super::utf8_words(self.command)?;
        let plan = super::shrink::plan_shrinking(run, |scenario| {
            more(scenario);
            self.flags
                .clone()
                .overlay_scenario(command.clone(), scenario);
        })?;
        begin_experiment(plan, &self.output)
    }
}

impl ConfirmFlags {
    fn overlay_scenario(self, scenario: &mut Scenario) {
        overlay_baseline(scenario, self.baseline, self.of);
        scenario.assume_rate = self.assume_rate.or(scenario.assume_rate);
        scenario.exclude_half = self.exclude_half.or(scenario.exclude_half);
        scenario.independent = self.independent.then_some(true).or(scenario.independent);
        accept_different_conditions(scenario, self.accept_different_conditions);
        scenario.any_failure = self.any_failure.then_some(true).or(scenario.any_failure);
        ignore_earlier_runs(scenario, self.ignore_earlier_runs);
    }
}

impl CompareFlags {
    fn overlay_scenario(self, scenario: &mut Scenario) {
        overlay_baseline(scenario, self.baseline, self.of);
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

fn overlay_baseline(scenario: &mut Scenario, baseline: Option<String>, of: Option<String>) {
    scenario.baseline = baseline.or(scenario.baseline.take());
    scenario.of = of.or(scenario.of.take());
}

fn parse_find(text: &str) -> Result<CompareGoal, String> {
    match text {
        "failing" => Ok(CompareGoal::Failing),
        "different" => Ok(CompareGoal::Different),
        _ => Err("write `failing` or `different`".to_owned()),
    }
}
