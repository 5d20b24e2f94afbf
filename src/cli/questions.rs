//! Flags of the questions that end a run: `confirm`, `compare`, `bisect` and `reduce`.

use super::args::{ExperimentFlags, OutputFlags};
use super::error::CliError;
use super::exit::Exit;
use super::given::Given;
use super::run::{begin_experiment, from_file, from_words, refuse_flags};
use super::typo;
use crate::model::VariantId;
use crate::report;
use crate::scenario::{
    BaselineSettings, BisectSettings, CandidateSettings, ComparisonSettings, ConfirmSettings,
    CountSettings, ItemSettings, QuestionSettings, ReduceSettings, Scenario, SearchSettings,
};
use crate::store::{RunFolder, default_root};
use crate::sys::spawn;
use crate::untrusted::shell_word;
use clap::Args;
use std::ffi::OsString;
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
    #[command(flatten, next_help_heading = "Baseline")]
    baseline: Given<BaselineSettings>,
    #[command(flatten, next_help_heading = "Baseline")]
    confirm: Given<ConfirmSettings>,
    #[command(flatten, next_help_heading = "Baseline")]
    count: Given<CountSettings>,
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
    mut_arg("baseline", reference_rate),
    mut_arg("any_failure", |flag| flag.hide(true)),
)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    comparison: Given<ComparisonSettings>,
    #[command(flatten, next_help_heading = "Comparison")]
    baseline: Given<BaselineSettings>,
    #[command(flatten, next_help_heading = "Comparison")]
    count: Given<CountSettings>,
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
    candidates: Given<CandidateSettings>,
    #[command(flatten)]
    bisect: Given<BisectSettings>,
    #[command(flatten)]
    search: Given<SearchSettings>,
    #[command(flatten, next_help_heading = "Search")]
    count: Given<CountSettings>,
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
    items: Given<ItemSettings>,
    #[command(flatten)]
    reduce: Given<ReduceSettings>,
    #[command(flatten)]
    search: Given<SearchSettings>,
    #[command(flatten, next_help_heading = "Search")]
    count: Given<CountSettings>,
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

/// Describes the baseline of a comparison.
fn reference_rate(flag: clap::Arg) -> clap::Arg {
    const HELP: &str =
        "Compare variants without a failure with this rate: a run, or counts such as 3/30";
    flag.help(HELP)
        .long_help(format!(
            "{HELP}\n\n[default: the rate of the first variant that fails]"
        ))
        .hide_short_help(true)
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

impl ConfirmArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Confirm);
            self.baseline.apply_to(&mut scenario.baseline);
            self.confirm.apply_to(&mut scenario.confirm);
            self.count.apply_to(&mut scenario.count);
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
        let command = self.rest.command.clone();
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Compare);
            self.comparison.apply_to(&mut scenario.comparison);
            self.baseline.apply_to(&mut scenario.baseline);
            self.count.apply_to(&mut scenario.count);
        };
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
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Bisect);
            self.candidates.replace(&mut scenario.candidates);
            self.bisect.apply_to(&mut scenario.bisect);
            self.search.apply_to(&mut scenario.search);
            self.count.apply_to(&mut scenario.count);
        };
        self.rest.ask_question(overlay)
    }
}

impl ReduceArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Reduce);
            self.items.replace(&mut scenario.items);
            self.reduce.apply_to(&mut scenario.reduce);
            self.search.apply_to(&mut scenario.search);
            self.count.apply_to(&mut scenario.count);
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
            self.flags.overlay_scenario(&command, scenario);
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
            self.flags.overlay_scenario(&command, scenario);
        })?;
        begin_experiment(plan, &self.output)
    }
}
