//! The commands: how each is defined and executed.

use super::completions::CompletionsArgs;
use super::execute::Execute;
use super::exit::Exit;
use super::man::ManArgs;
use super::{
    bisect, compare, confirm, diff, differ, doctor, explain, hunt, list, load, plan, reduce,
    replay, report, resume, run, scenario, why, zoo,
};
use crate::term;
use clap::error::{Error, ErrorKind};
use clap::{ArgMatches, Args as _, Command, CommandFactory as _, FromArgMatches as _, Parser};
use provoke_victim::VictimArgs;
use provoke_words::diagnostic::Diagnostic;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Find, measure and explain bugs that only happen sometimes
///
/// Runs a command many times, distinguishes every kind of failure, and reports the failure rate with a
/// confidence interval.
#[derive(Parser)]
#[command(
    name = "provoke",
    version,
    after_help = EXAMPLES,
    after_long_help = EXIT_CODES_AND_EXAMPLES,
    override_usage = "provoke COMMAND [OPTIONS]\n       provoke [OPTIONS] ./program [ARGS]...",
)]
struct Cli {}

macro_rules! examples {
    () => {
        "\
Examples:
  Run a program 100 times, 4 trials in parallel:
    provoke run -n 100 -j 4 -- ./program --arg
  Explain a failure of the last run:
    provoke explain last
  Try it:
    provoke run -n 30 -- provoke victim segv --rate 10%"
    };
}

const EXAMPLES: &str = examples!();

const EXIT_CODES_AND_EXAMPLES: &str = concat!(
    "\
Exit codes:
  0      the good answer: no failure, PASS, (PROBABLY) FIXED; a search found
         its answer; diff: no difference that matters
  1      the other answer: failures, FAIL, NOT FIXED; a search found nothing;
         compare: variants differ; diff: runs differ
  2      wrong usage, or an error in a scenario file
  3      not decided: UNDECIDED, NOT YET, NOT KNOWN; compare: no difference
         found, which more trials may change
  125    could not test: nothing could start, setup failed, or every trial was
         inconclusive
  128+n  stopped by signal n; results are saved, `provoke resume` continues

",
    examples!()
);

/// The help of a command: the examples come before the flags.
const HELP_OF_COMMAND: &str =
    "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";

/// All commands, in the order of the help.
const COMMANDS: [CommandEntry; 22] = [
    CommandEntry::of::<run::RunArgs>("run"),
    CommandEntry::of::<confirm::ConfirmArgs>("confirm"),
    CommandEntry::of::<compare::CompareArgs>("compare"),
    CommandEntry::of::<bisect::BisectArgs>("bisect"),
    CommandEntry::of::<reduce::ReduceArgs>("reduce"),
    CommandEntry::of::<hunt::HuntArgs>("hunt"),
    CommandEntry::of::<why::WhyArgs>("why"),
    CommandEntry::of::<differ::DifferArgs>("differ"),
    CommandEntry::of::<load::LoadArgs>("load"),
    CommandEntry::of::<scenario::ScenarioArgs>("scenario"),
    CommandEntry::of::<resume::ResumeArgs>("resume"),
    CommandEntry::of::<report::ReportArgs>("report"),
    CommandEntry::of::<replay::ReplayArgs>("replay"),
    CommandEntry::of::<explain::ExplainArgs>("explain"),
    CommandEntry::of::<list::ListArgs>("list"),
    CommandEntry::of::<diff::DiffArgs>("diff"),
    CommandEntry::of::<doctor::DoctorArgs>("doctor"),
    CommandEntry::of::<plan::PlanArgs>("plan"),
    CommandEntry {
        name: "victim",
        define: define_victim,
        execute: execute_victim,
    },
    CommandEntry::of::<zoo::ZooArgs>("zoo"),
    CommandEntry {
        name: "completions",
        define: CompletionsArgs::augment_args,
        execute: |matches| {
            let args = CompletionsArgs::from_arg_matches(matches)?;
            Ok(exit_of(args.execute_command(define_commands())))
        },
    },
    CommandEntry {
        name: "man",
        define: ManArgs::augment_args,
        execute: |matches| {
            let args = ManArgs::from_arg_matches(matches)?;
            Ok(exit_of(args.execute_command(define_commands())))
        },
    },
];

/// A command of provoke.
struct CommandEntry {
    name: &'static str,
    /// Adds the description and the arguments.
    define: fn(Command) -> Command,
    /// Executes the command, unless its arguments are refused.
    execute: fn(&ArgMatches) -> Result<ExitCode, Error>,
}

impl CommandEntry {
    const fn of<T: Execute>(name: &'static str) -> Self {
        Self {
            name,
            define: T::augment_args,
            execute: |matches| Ok(exit_of(T::from_arg_matches(matches)?.execute_command())),
        }
    }
}

fn exit_of(result: Result<Exit, Diagnostic>) -> ExitCode {
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            term::print_error(&error);
            Exit::from(error.category).into()
        }
    }
}

fn define_victim(command: Command) -> Command {
    VictimArgs::augment_args(command)
        .about("Crash, hang or leak on demand, to try provoke")
        .after_help("Examples:\n  provoke run -n 30 -- provoke victim segv --rate 10%")
}

/// Has a name, unlike a closure: it is on the stack of each crash of the victim.
fn execute_victim(matches: &ArgMatches) -> Result<ExitCode, Error> {
    Ok(provoke_victim::run(VictimArgs::from_arg_matches(matches)?))
}

/// Returns all commands with their arguments.
fn define_commands() -> Command {
    define_if(|_| true)
}

/// Returns the parser, for help texts as wide as the terminal.
pub fn build_command() -> Command {
    define_commands().term_width(term::help_width())
}

/// Returns all commands without their arguments, which take a millisecond to define.
pub(super) fn name_commands() -> Command {
    define_if(|_| false)
}

fn define_if(is_defined: impl Fn(&str) -> bool) -> Command {
    let commands = COMMANDS.iter().map(|entry| {
        let command = Command::new(entry.name).help_template(HELP_OF_COMMAND);
        if is_defined(entry.name) {
            (entry.define)(command)
        } else {
            command
        }
    });
    Cli::command()
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands)
}

/// Parses the command line and executes its command.
pub(super) fn execute_line(args: &[OsString]) -> Result<ExitCode, Error> {
    let named = args.get(1).map(OsString::as_os_str);
    let commands = define_if(|name| named == Some(OsStr::new(name)));
    match execute_parsed(commands, args) {
        Err(error) if error.kind() == ErrorKind::DisplayHelp && asks_for_short_help(args) => {
            execute_parsed(build_command().mut_subcommands(shorten_help), args)
        }
        // Help and error messages also mention other commands.
        Err(error) if error.kind() != ErrorKind::DisplayVersion => {
            execute_parsed(build_command(), args)
        }
        ended => ended,
    }
}

fn asks_for_short_help(args: &[OsString]) -> bool {
    let mut before_command = args.iter().take_while(|word| *word != "--");
    before_command.any(|word| word == "-h")
}

/// Lists the flags without headings, and leaves out the command, which the usage shows.
fn shorten_help(command: Command) -> Command {
    command.mut_args(|argument| {
        let is_hidden = argument.is_hide_set() || argument.get_id() == "command";
        argument.help_heading(None::<&str>).hide(is_hidden)
    })
}

fn execute_parsed(commands: Command, args: &[OsString]) -> Result<ExitCode, Error> {
    let matches = commands.try_get_matches_from(args)?;
    let (name, matches) = matches.subcommand().expect("clap requires a command");
    let mut entries = COMMANDS.iter();
    let entry = entries.find(|entry| entry.name == name);
    (entry.expect("clap knows these commands only").execute)(matches)
}
