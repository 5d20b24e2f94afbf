//! Command line: the list of commands and their dispatch.

mod args;
mod bisect;
mod ci_flags;
mod compare;
mod confirm;
mod diff;
mod doctor;
mod error;
mod execution;
mod exit;
mod explain;
mod export_flags;
mod given;
mod hunt;
mod list;
mod load;
mod man;
mod plan;
mod question_flags;
mod reduce;
mod replay;
mod report;
mod resume;
mod run;
mod scenario;
mod signals;

use crate::suggest;
use crate::term;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use error::CliError;
use exit::Exit;
use std::ffi::OsString;
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
struct Cli {
    #[command(subcommand)]
    command: Command,
}

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

#[derive(Subcommand)]
enum Command {
    Run(run::RunArgs),
    Confirm(confirm::ConfirmArgs),
    Compare(compare::CompareArgs),
    Bisect(bisect::BisectArgs),
    Reduce(reduce::ReduceArgs),
    Hunt(hunt::HuntArgs),
    Load(Box<load::LoadArgs>),
    Scenario(scenario::ScenarioArgs),
    Resume(resume::ResumeArgs),
    Report(report::ReportArgs),
    Replay(replay::ReplayArgs),
    Explain(explain::ExplainArgs),
    List(list::ListArgs),
    Diff(diff::DiffArgs),
    Doctor(doctor::DoctorArgs),
    Plan(plan::PlanArgs),
    /// Crash, hang or leak on demand, to try provoke
    #[command(after_help = "Examples:\n  provoke run -n 30 -- provoke victim segv --rate 10%")]
    Victim(provoke_victim::VictimArgs),
    /// Print shell completions
    #[command(after_help = "Examples:\n  provoke completions bash")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    Man(man::ManArgs),
}

/// Runs the program.
pub fn main() -> ExitCode {
    crate::experiment::serve_if_helper();
    let commands = build_command();
    // A command line that begins with a program is a `run`.
    let args = suggest::with_run(std::env::args_os().collect(), &commands);
    let parsed = commands.clone().try_get_matches_from(&args);
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => dispatch_command(cli.command),
        Err(error) => {
            match suggest::explain_refusal(&error, &args, &commands) {
                Some(correction) => CliError::from(correction).print_to_stderr(),
                None => show_message(&error, &args, &commands),
            }
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Hoped
            };
            exit.into()
        }
    }
}

/// Returns the parser, for help texts as wide as the terminal.
pub fn build_command() -> clap::Command {
    Cli::command().term_width(term::help_width())
}

/// Prints the help, or the error in the command line, which quotes it.
fn show_message(message: &clap::Error, args: &[OsString], commands: &clap::Command) {
    let text = term::render_parser_message(message, args);
    if message.use_stderr() {
        term::print_message(&suggest::plain_message(message, &text));
        term::print_hint(&suggest::closing_hint(message, args, commands));
    } else {
        // An error in printing help cannot be reported.
        let _ = term::print_result(&text);
    }
}

fn dispatch_command(command: Command) -> ExitCode {
    let result = match command {
        Command::Run(run) => run.execute_command(),
        Command::Confirm(confirm) => confirm.execute_command(),
        Command::Compare(compare) => compare.execute_command(),
        Command::Bisect(bisect) => bisect.execute_command(),
        Command::Reduce(reduce) => reduce.execute_command(),
        Command::Hunt(hunt) => hunt.execute_command(),
        Command::Load(load) => load.execute_command(),
        Command::Scenario(file) => file.execute_command(),
        Command::Resume(resume) => resume.execute_command(),
        Command::Report(make) => make.execute_command(),
        Command::Replay(replay) => replay.execute_command(),
        Command::Explain(explain) => explain.execute_command(),
        Command::List(list) => list.execute_command(),
        Command::Diff(diff) => diff.execute_command(),
        Command::Doctor(doctor) => doctor.execute_command(),
        Command::Plan(planner) => planner.execute_command(),
        Command::Victim(args) => return provoke_victim::run(args),
        Command::Completions { shell } => print_completions(shell),
        Command::Man(man) => man.execute_command(Cli::command()),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.print_to_stderr();
            error.exit.into()
        }
    }
}

fn print_completions(shell: clap_complete::Shell) -> Result<Exit, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "provoke", &mut text);
    term::print_result(&String::from_utf8_lossy(&text))?;
    Ok(Exit::Hoped)
}
