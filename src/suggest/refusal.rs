//! Explains why a command line was refused, and suggests the intended command or flag.

use super::command_line::{file_of_flag, is_assigned, provoke_line, shell_line, value_of};
use super::failure_kinds::explain_failure_kind;
use super::flags::{has_flag, has_flag_with_value, similar_flag};
use super::message::text_of;
use super::misplaced_flags::flags_before_program;
use super::missing_run::is_scenario;
use clap::Command;
use clap::error::{ContextKind, ErrorKind};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::equivalents::{
    COMMANDS, COMMANDS_BY_USE, FLAGS, FORMAT_FLAGS, FORMATS, has_word,
};
use provoke_words::names::intended_name;
use provoke_words::quote_word;
use provoke_words::untrusted::Untrusted as _;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Explains why the command line was refused, if the parser's message is not enough.
pub fn explain_refusal(
    error: &clap::Error,
    args: &[OsString],
    commands: &Command,
) -> Option<Diagnostic> {
    let line = RefusedLine {
        args,
        command: args
            .get(1)
            .map(|word| word.to_safe().into_string())
            .unwrap_or_default(),
        commands,
    };
    if let Some(refusal) = explain_failure_kind(error) {
        return Some(refusal);
    }
    let word = text_of(error, ContextKind::InvalidSubcommand)
        .or_else(|| text_of(error, ContextKind::InvalidArg))?;
    let (what, hint) = match error.kind() {
        ErrorKind::InvalidSubcommand => line.unknown_command(&word),
        ErrorKind::MissingRequiredArgument => line.missing_argument(&word),
        ErrorKind::UnknownArgument if !word.starts_with('-') => line.unexpected_argument(&word),
        ErrorKind::UnknownArgument if line.command.starts_with('-') => line.missing_command(),
        ErrorKind::UnknownArgument => line.unknown_flag(&word),
        _ => return None,
    };
    Some(Diagnostic::usage(what).with_hint(hint))
}

/// A command line that the parser refused.
struct RefusedLine<'a> {
    args: &'a [OsString],
    /// The typed command.
    command: String,
    /// The commands of provoke.
    commands: &'a Command,
}

impl RefusedLine<'_> {
    fn unknown_command(&self, word: &str) -> (String, String) {
        let rest = self.args.get(2..).unwrap_or_default();
        let names = self.commands.get_subcommands().map(Command::get_name);
        let hint = if word == "show" {
            hint_at_show(rest)
        } else if is_scenario(Path::new(word)) {
            let line = provoke_line("scenario", &self.args[1..]);
            format!("to run a scenario file: {line}")
        } else if let Some(command) = COMMANDS
            .of_name(word)
            .or_else(|| intended_name(word, names))
        {
            self.hint_at_command(command, rest)
        } else {
            let line = provoke_line("run", &self.args[1..]);
            format!("to run a program: {line}; `provoke --help` lists the commands")
        };
        (format!("there is no command `{}`", word.to_safe()), hint)
    }

    /// Suggests the rest of the line for another command, if that command accepts it.
    fn hint_at_command(&self, command: &str, rest: &[OsString]) -> String {
        let words = [&["provoke".into(), command.into()], rest].concat();
        match self.commands.clone().try_get_matches_from(words) {
            Err(error) if error.kind() == ErrorKind::UnknownArgument => format!(
                "did you mean `provoke {command}`? It has no flag `{}`: see `provoke {command} -h`",
                text_of(&error, ContextKind::InvalidArg)
                    .unwrap_or_default()
                    .to_safe()
            ),
            _ => format!("did you mean `{}`?", provoke_line(command, rest)),
        }
    }

    fn missing_argument(&self, argument: &str) -> (String, String) {
        let command = &self.command;
        if command == "diff" {
            let rest = self.args.get(2..).unwrap_or_default();
            let run = rest
                .iter()
                .find(|word| !word.as_encoded_bytes().starts_with(b"-"))
                .filter(|run| *run != "last")
                .map_or("RUN".to_owned(), |run| quote_word(run));
            let hint = format!(
                "for example: provoke diff {run} last; `provoke list` shows the stored runs"
            );
            return ("`provoke diff` needs two runs".to_owned(), hint);
        }
        if argument == "<RUN>" {
            let hint = format!(
                "for example: provoke {command} last; `provoke list` shows the stored runs"
            );
            return (format!("`provoke {command}` needs a run"), hint);
        }
        if argument.contains("RUN[#TRIAL]") {
            let hint = format!("for example: provoke {command} last, or provoke {command} last#17");
            return (format!("`provoke {command}` needs a run or a trial"), hint);
        }
        let bare_name = argument.replace(['<', '>'], "");
        let name = bare_name.trim_end_matches('.');
        (
            format!("`provoke {command}` needs {name}"),
            format!("`provoke {command} --help` describes the arguments"),
        )
    }

    fn unexpected_argument(&self, argument: &str) -> (String, String) {
        let command = &self.command;
        let at = (2..self.args.len()).find(|at| self.args[*at] == *argument);
        let hint = if let Some(flag) = file_of_flag(argument.as_ref()) {
            format!("did you mean `{flag}`?")
        } else if command == "plan" && argument.contains('/') {
            format!("did you mean `--baseline {}`?", argument.to_safe())
        } else if let ("load" | "scenario", Some(at)) = (command.as_str(), at) {
            let (flags, program) =
                flags_before_program(command, &self.args[2..at], &self.args[at..]);
            let separated = [&self.args[2..at], &flags, &["--".into()], &program].concat();
            let line = provoke_line(command, &separated);
            format!("put `--` before the command: {line}")
        } else if let Some(word) = self.joined_word(argument) {
            format!("did you mean `{word}`?")
        } else {
            format!("`provoke {command} --help` shows what it accepts")
        };
        (
            format!("unexpected argument `{}`", argument.to_safe()),
            hint,
        )
    }

    /// Suggests `RUN#TRIAL` for `RUN TRIAL`, in the commands that read a trial.
    fn joined_word(&self, argument: &str) -> Option<String> {
        let is_number = !argument.is_empty() && argument.bytes().all(|byte| byte.is_ascii_digit());
        let reads_trial = matches!(self.command.as_str(), "explain" | "replay");
        let at = self.args.iter().position(|word| *word == *argument)?;
        let (run, rest) = self.args.get(2..at)?.split_last()?;
        let is_run = is_number && reads_trial && !run.as_encoded_bytes().contains(&b'#');
        is_run.then(|| {
            let trial = OsString::from(format!("{}#{argument}", run.to_safe()));
            provoke_line(
                &self.command,
                &[rest, &[trial], &self.args[at + 1..]].concat(),
            )
        })
    }

    fn missing_command(&self) -> (String, String) {
        let line = provoke_line("run", &self.args[1..]);
        (
            format!("there is no command before `{}`", self.command),
            format!("to run a program: {line}"),
        )
    }

    fn unknown_flag(&self, flag: &str) -> (String, String) {
        let command = &self.command;
        let similar = similar_flag(self.commands, command, flag);
        let hint = self
            .hint_at_range(flag)
            .or_else(|| hint_at_number(flag))
            .or_else(|| self.hint_at_joined_number(flag))
            .or_else(|| self.hint_at_format(flag))
            .or_else(|| self.hint_by_rules(flag, similar.is_some()))
            .or_else(|| self.hint_at_other_command(flag))
            .or_else(|| {
                let (near, takes_value) = similar?;
                Some(match value_of(flag, self.args) {
                    Some(value) if takes_value => format!("did you mean `{near} {value}`?"),
                    _ => format!("did you mean `{near}`?"),
                })
            })
            .unwrap_or_else(|| {
                // Commands that run trials have the flags of `run`.
                let of_program = if self.has_flag(command, "--shell") {
                    "; flags of the program follow its name"
                } else {
                    ""
                };
                format!("`provoke {command} --help` lists all flags{of_program}")
            });
        let what = format!("`provoke {command}` has no flag `{}`", flag.to_safe());
        (what, hint)
    }

    fn has_flag(&self, command: &str, flag: &str) -> bool {
        has_flag(self.commands, command, flag)
    }

    /// Suggests `--runs 10` for `--runs10`.
    fn hint_at_joined_number(&self, flag: &str) -> Option<String> {
        let name = flag.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = &flag[name.len()..];
        (!number.is_empty() && has_flag_with_value(self.commands, &self.command, name))
            .then(|| format!("did you mean `{name} {number}`?"))
    }

    /// Suggests `--git` for the ends of `git bisect`.
    fn hint_at_range(&self, flag: &str) -> Option<String> {
        if !matches!(flag, "--good" | "--bad") {
            return None;
        }
        let end =
            |flag: &str, other: &str| value_of(flag, self.args).unwrap_or_else(|| other.to_owned());
        let range = format!("{}..{}", end("--good", "GOOD"), end("--bad", "BAD"));
        Some(match self.command.as_str() {
            "bisect" => format!("did you mean `--git {range}`?"),
            _ => format!("did you mean `provoke bisect --git {range} -- CMD`?"),
        })
    }

    /// Suggests the flag of a format for `--format junit` or `-o ci.xml`.
    fn hint_at_format(&self, flag: &str) -> Option<String> {
        if !has_word(FORMAT_FLAGS, flag) || !self.has_flag(&self.command, "--junit") {
            return None;
        }
        let suggested = value_of(flag, self.args).and_then(|value| {
            let end = Path::new(&value).extension().and_then(OsStr::to_str);
            match FORMATS.of_name(&value) {
                Some(format) => Some(format!("--{format}")),
                None => Some(format!("--{}={value}", FORMATS.of_name(end?)?)),
            }
        });
        Some(match suggested {
            Some(flag) => format!("did you mean `{flag}`?"),
            None => {
                let flags = FORMATS.own_names().map(|format| format!("--{format}=FILE"));
                format!(
                    "each format has a flag: {}",
                    flags.collect::<Vec<_>>().join(", ")
                )
            }
        })
    }

    /// Suggests the equivalent of another tool's flag, also of a misspelled one if no flag here is similar.
    fn hint_by_rules(&self, flag: &str, has_similar: bool) -> Option<String> {
        let equivalent = match FLAGS.of_name(flag) {
            None if !has_similar => {
                let others = FLAGS
                    .other_names()
                    .filter_map(|other| other.strip_prefix("--"));
                let near = intended_name(flag.strip_prefix("--")?, others)?;
                FLAGS.of_name(&format!("--{near}"))
            }
            equivalent => equivalent,
        }?;
        if !equivalent.starts_with('-') {
            return Some(equivalent.to_owned());
        }
        if !self.has_flag(&self.command, equivalent) {
            return None;
        }
        let value = value_of(flag, self.args);
        let is_one_word = self
            .args
            .iter()
            .any(|word| is_assigned(&word.to_string_lossy(), flag));
        let suggested = match (equivalent.split_once(" V"), value) {
            (Some((ours, unit)), value) => {
                format!("{ours} {}{unit}", value.as_deref().unwrap_or("VALUE"))
            }
            (None, Some(file)) if is_one_word => equivalent.replace("FILE", &file),
            (None, _) => equivalent.to_owned(),
        };
        Some(format!("did you mean `{suggested}`?"))
    }

    /// Names the command that has this flag, with the ready command line if the rest of the line fits that command.
    fn hint_at_other_command(&self, flag: &str) -> Option<String> {
        let owners: Vec<&str> = COMMANDS_BY_USE
            .split(' ')
            .filter(|command| flag.len() > 2 && self.has_flag(command, flag))
            .collect();
        let is_accepted = |command: &str| {
            let words = [&["provoke".into(), command.into()], &self.args[2..]].concat();
            self.commands.clone().try_get_matches_from(words).is_ok()
        };
        match (owners.iter().find(|command| is_accepted(command)), &*owners) {
            (Some(command), _) => Some(format!(
                "did you mean `{}`?",
                provoke_line(command, &self.args[2..])
            )),
            (None, [only]) => Some(format!("`provoke {only}` has this flag")),
            (None, _) => None,
        }
    }
}

/// Suggests the two commands that show a run or a trial.
fn hint_at_show(rest: &[OsString]) -> String {
    let run = rest.first().map_or(OsStr::new("last"), AsRef::as_ref);
    let line = |command: &str| shell_line(&["provoke".into(), command.into(), run.to_owned()]);
    let (explain, report) = (line("explain"), line("report"));
    if run.as_encoded_bytes().contains(&b'#') {
        format!("did you mean `{explain}`?")
    } else {
        format!("`{report}` shows the result, `{explain}` explains a failure")
    }
}

/// Explains why a value such as `-5` is refused, which looks like a flag.
fn hint_at_number(flag: &str) -> Option<String> {
    let number = flag.strip_prefix('-')?;
    let is_number = number.parse::<f64>().is_ok();
    is_number.then(|| "numbers cannot be negative".to_owned())
}
