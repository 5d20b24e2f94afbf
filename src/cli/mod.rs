//! The command line: one file a command, one error type, one table of exit codes.

mod args;
mod ask;
mod baseline;
mod bundle;
mod bundles;
mod diff;
mod doctor;
mod earlier;
mod engine;
mod error;
mod exit;
mod experiment;
mod explain;
mod list;
mod load;
mod merge;
mod plan;
mod preflight;
mod replay;
mod report;
mod results;
mod run;
mod search;
mod seeds;
mod shrink;
mod signals;
mod stretch;
mod user;

use crate::survey::processor;
use crate::untrusted::Untrusted as _;
use clap::{CommandFactory as _, Parser, Subcommand};
use error::CliError;
use exit::Exit;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

/// How often does it crash, which crash is it, and is it fixed?
///
/// Repeats any command, tells every ending apart, and gives the failure rate with an
/// interval that can be defended.
#[derive(Parser)]
#[command(name = "provoke", version, max_term_width = 100, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Exit codes:
  0    answered as hoped: no failure, the fix confirmed, no difference, what was searched for found
  1    answered the other way: failures seen, the fix refuted, variants differ, nothing found
  2    wrong usage, or an error in a scenario file
  3    the budget is spent, and the answer is not known
  125  could not test: nothing could start, setup failed, every trial void
  128+n  stopped by signal n; what was found is saved, and `provoke resume` goes on

Try it:  provoke run -n 30 -- provoke victim segv --rate 10%";

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Confirm(ask::Confirm),
    Compare(ask::Compare),
    Bisect(ask::Bisect),
    Reduce(ask::Reduce),
    Load(Box<load::Load>),
    Scenario(run::FromFile),
    Resume(run::Resume),
    Report(report::Make),
    Replay(replay::Replay),
    Explain(explain::Explain),
    List(list::List),
    Diff(diff::Diff),
    Doctor(doctor::Doctor),
    Plan(plan::Planner),
    /// A program that misbehaves on demand, to try provoke on
    Victim(crate::victim::VictimArgs),
    /// Print completions for a shell
    Completions {
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// Print which processor this program sees; under an emulator, the one that it shows
    #[command(hide = true, name = processor::COMMAND)]
    Processor,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if args
        .nth(1)
        .is_some_and(|first| first == crate::slot::COMMAND)
    {
        let group = args.next().map(std::path::PathBuf::from);
        return ExitCode::from(u8::from(crate::slot::main(group.as_deref()).is_err()));
    }
    match Cli::try_parse() {
        Ok(cli) => dispatch(cli.command),
        Err(error) => {
            show(&error);
            let code = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Hoped
            };
            code.into()
        }
    }
}

/// Prints the help, or what is wrong with the command line; the latter quotes it.
fn show(message: &clap::Error) {
    let text = message.render();
    let plain = std::env::args_os().any(|argument| argument.as_bytes().contains(&b'\x1b'));
    let laid_out = |colours: bool| {
        if colours && !plain {
            text.ansi().to_string()
        } else {
            text.to_string()
        }
    };
    if message.use_stderr() {
        crate::term::say(laid_out(console::colors_enabled_stderr()).trim_end());
    } else {
        // Help that cannot be printed has nowhere to complain.
        let _ = crate::term::tell(&laid_out(console::colors_enabled()));
    }
}

fn dispatch(command: Command) -> ExitCode {
    let done = match command {
        Command::Run(run) => run.execute(),
        Command::Confirm(confirm) => confirm.execute(),
        Command::Compare(compare) => compare.execute(),
        Command::Bisect(bisect) => bisect.execute(),
        Command::Reduce(reduce) => reduce.execute(),
        Command::Load(load) => load.execute(),
        Command::Scenario(file) => file.execute(),
        Command::Resume(resume) => resume.execute(),
        Command::Report(make) => make.execute(),
        Command::Replay(replay) => replay.execute(),
        Command::Explain(explain) => explain.execute(),
        Command::List(list) => list.execute(),
        Command::Diff(diff) => diff.execute(),
        Command::Doctor(doctor) => doctor.execute(),
        Command::Plan(planner) => planner.execute(),
        Command::Victim(args) => return crate::victim::run(args),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "provoke", &mut out);
            tell(&out)
        }
        Command::Man => {
            let mut out = Vec::new();
            let page = clap_mangen::Man::new(Cli::command());
            page.render(&mut out)
                .map_err(CliError::could_not)
                .and_then(|()| tell(&out))
        }
        Command::Processor => tell(processor::seen().unwrap_or_default().as_bytes()),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            error.say();
            error.exit.into()
        }
    }
}

fn tell(text: &[u8]) -> Result<Exit, CliError> {
    crate::term::tell(&String::from_utf8_lossy(text)).map_err(CliError::could_not)?;
    Ok(Exit::Hoped)
}

/// Returns the words of a command as text; what is not UTF-8 can stand in a file or
/// a variable, but not in a plan that people read.
fn words(command: Vec<OsString>) -> Result<Vec<String>, CliError> {
    let text = |word: OsString| {
        word.into_string().map_err(|word| {
            let what = format!("the argument `{}` is not UTF-8", word.safe());
            CliError::usage(anyhow::Error::msg(what)).hinted("pass it through a file or a variable")
        })
    };
    command.into_iter().map(text).collect()
}
