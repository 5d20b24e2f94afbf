//! Corrects mistyped command lines: commands and flags of other tools, a missing `run` or `--`.

use super::error::CliError;
use super::typed_line::{FORMATS, file_of_flag, shell_line};
use crate::scenario::similar_field;
use crate::untrusted::{SafeText, Untrusted as _};
use crate::words;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Commands of other tools, and the closest commands here.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &[
            "repeat", "stress", "loop", "exec", "test", "flake", "flaky", "start", "measure",
        ],
        "run",
    ),
    (&["rerun", "debug", "reproduce", "repro"], "replay"),
    (&["ls", "runs", "history", "status"], "list"),
    (&["continue", "restart"], "resume"),
    (&["export", "summary", "result", "results"], "report"),
    (&["why", "crash", "core", "stack", "backtrace"], "explain"),
    (&["minimize", "minimise", "shrink", "creduce"], "reduce"),
    (&["verify", "fixed", "fix"], "confirm"),
    (&["matrix", "vs", "ab"], "compare"),
    (&["check", "setup", "env"], "doctor"),
    (&["bench", "attack", "http"], "load"),
    (&["estimate", "power"], "plan"),
];

/// Flags of other tools that are not names of scenario fields, and the equivalent flags here; `V` stands for the value.
const FLAGS: &[(&[&str], &str)] = &[
    (
        &["--tries", "--trials", "--rounds", "--attempts", "-N"],
        "-n V",
    ),
    (&["--procs", "-P"], "-j V"),
    (&["-c", "--sh"], "--shell V"),
    (&["--output-json"], "--json=FILE"),
    (&["--junitxml", "--junit-xml"], "--junit=FILE"),
    (&["--markdown"], "--md=FILE"),
    (&["--until-fail", "--until-failure", "--exitfirst"], "-x"),
    (&["--max-failure-rate", "--threshold"], "--max-rate V"),
    (&["-C", "--chdir"], "--cwd V"),
    (&["--for", "--budget"], "-d V"),
    (&["--docker", "--podman"], "--image IMAGE"),
];

/// The commands whose flags are looked up, the most frequently used ones first.
const COMMANDS_BY_USE: &[&str] = &[
    "report", "run", "confirm", "compare", "bisect", "reduce", "explain", "replay", "resume",
    "load", "hunt", "plan", "scenario", "diff", "doctor",
];

/// Flags of other tools for the format of a report.
const FORMAT_FLAGS: &[&str] = &[
    "--format",
    "--output-format",
    "--reporter",
    "--output",
    "--out",
    "-f",
    "-o",
];

/// Adds the command `run` if the command line begins with a program, or with flags before one.
pub(super) fn with_run(args: &[OsString], commands: &clap::Command) -> Option<Vec<OsString>> {
    let first = args.get(1)?;
    let is_flag = first.as_encoded_bytes().starts_with(b"-");
    let known = ["-h", "--help", "-V", "--version", "help"];
    let is_command = commands
        .get_subcommands()
        .any(|command| first == command.get_name());
    if is_command || known.iter().any(|known| first == known) {
        return None;
    }
    let names_program = if is_flag {
        args[1..]
            .iter()
            .any(|word| word == "--" || is_program(word))
    } else {
        is_program(first)
    };
    names_program.then(|| {
        let mut with_run = args.to_vec();
        with_run.insert(1, "run".into());
        with_run
    })
}

/// Returns whether a word is a path, or a file in this directory; a scenario file is not a program.
fn is_program(word: &OsStr) -> bool {
    let path = Path::new(word);
    let is_flag = word.as_encoded_bytes().starts_with(b"-");
    let is_path = word.as_encoded_bytes().contains(&b'/') || path.is_file();
    is_path && !is_flag && !is_scenario(path)
}

fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "toml")
}

/// Explains why the command line was refused, if the parser's message is not enough.
pub(super) fn explain_refusal(error: &clap::Error, args: &[OsString]) -> Option<CliError> {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text_of(error, ContextKind::InvalidSubcommand)?;
            Some(unknown_command(&word, args))
        }
        ErrorKind::UnknownArgument => {
            let argument = text_of(error, ContextKind::InvalidArg)?;
            Some(unknown_argument(&argument, args))
        }
        ErrorKind::MissingRequiredArgument => {
            let argument = text_of(error, ContextKind::InvalidArg)?;
            Some(missing_argument(&argument, args))
        }
        _ => None,
    }
}

/// Rewrites the parser's message about a number.
pub(super) fn plain_message(error: &clap::Error, message: String) -> String {
    let source = std::error::Error::source(error);
    let Some(source) = source.and_then(|source| source.downcast_ref::<std::num::ParseIntError>())
    else {
        return message;
    };
    let value = text_of(error, ContextKind::InvalidValue).unwrap_or_default();
    let value = SafeText::from_line(&value);
    let plain = match source.kind() {
        std::num::IntErrorKind::Empty => "a whole number is missing".to_owned(),
        std::num::IntErrorKind::Zero => "must be at least 1".to_owned(),
        std::num::IntErrorKind::PosOverflow => format!("`{value}` is too large"),
        _ => format!("`{value}` is not a whole number"),
    };
    message.replace(&source.to_string(), &plain)
}

/// Replaces the parser's last line, which names no command, by a hint with the command.
pub(super) fn with_own_closing(message: &str, args: &[OsString]) -> String {
    let text = message
        .split("For more information, try")
        .next()
        .unwrap_or_default()
        .trim_end();
    let all = super::build_command();
    let name = args.get(1).and_then(|word| word.to_str());
    let command = name
        .filter(|name| all.find_subcommand(name).is_some())
        .map_or(String::new(), |name| format!("{name} "));
    let hint = console::style("hint:").green().bold();
    format!("{text}\n\n{hint} `provoke {command}--help` describes the arguments")
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    }
}

fn unknown_command(word: &str, args: &[OsString]) -> CliError {
    let what = anyhow::anyhow!("there is no command `{}`", SafeText::from_line(word));
    let rest = args.get(2..).unwrap_or_default();
    let instead = |command: &str| shell_line(&[&["provoke".into(), command.into()], rest].concat());
    let all = super::build_command();
    let near = similar_field(word, all.get_subcommands().map(clap::Command::get_name));
    let known = COMMANDS.iter().find(|(words, _)| words.contains(&word));
    let hint = if word == "show" {
        let run = rest.first().cloned().unwrap_or_else(|| "last".into());
        let of = |command: &str| shell_line(&["provoke".into(), command.into(), run.clone()]);
        let (explain, report) = (of("explain"), of("report"));
        if run.as_encoded_bytes().contains(&b'#') {
            format!("did you mean `{explain}`?")
        } else {
            format!("`{report}` shows the result, `{explain}` explains a failure")
        }
    } else if is_scenario(Path::new(word)) {
        format!(
            "to run a scenario file: {}",
            shell_line(&[&["provoke".into(), "scenario".into()], &args[1..]].concat())
        )
    } else if let Some((_, command)) = known {
        format!("did you mean `{}`?", instead(command))
    } else if let Some(near) = near {
        format!("did you mean `{}`?", instead(near))
    } else {
        format!(
            "to run a program: {}; `provoke --help` lists the commands",
            shell_line(&[&["provoke".into(), "run".into()], &args[1..]].concat())
        )
    };
    CliError::usage(what).with_hint(hint)
}

fn missing_argument(argument: &str, args: &[OsString]) -> CliError {
    let (command, rest) = match args {
        [_, command, rest @ ..] => (command.to_safe().to_string(), rest),
        _ => (String::new(), &[][..]),
    };
    if command == "diff" {
        let is_run = |word: &&OsString| !word.as_encoded_bytes().starts_with(b"-");
        let other = rest
            .iter()
            .find(is_run)
            .filter(|run| *run != "last")
            .map_or("RUN".to_owned(), |run| words::quote_word(run));
        let what = anyhow::anyhow!("`provoke diff` needs two runs");
        return CliError::usage(what).with_hint(format!(
            "for example: provoke diff {other} last; `provoke list` shows the stored runs"
        ));
    }
    let name = argument.replace(['<', '>'], "");
    let name = name.trim_end_matches('.');
    let what = anyhow::anyhow!("`provoke {command}` needs {name}");
    CliError::usage(what).with_hint(format!(
        "`provoke {command} --help` describes the arguments"
    ))
}

fn unknown_argument(argument: &str, args: &[OsString]) -> CliError {
    let command = args
        .get(1)
        .map(|word| word.to_safe().to_string())
        .unwrap_or_default();
    if !argument.starts_with('-') {
        let what = anyhow::anyhow!("unexpected argument `{}`", SafeText::from_line(argument));
        let at = args.iter().position(|word| word == argument);
        let flag = file_of_flag(argument.as_ref());
        let hint = match (at, flag) {
            (_, Some(flag)) => format!("did you mean `{flag}`?"),
            _ if command == "plan" && argument.contains('/') => {
                format!("did you mean `--baseline {}`?", argument.to_safe())
            }
            (Some(at), _) if matches!(command.as_str(), "load" | "scenario") => {
                let separated = [&args[1..at], &["--".into()], &args[at..]].concat();
                format!(
                    "put `--` before the command: provoke {}",
                    shell_line(&separated)
                )
            }
            _ => format!("`provoke {command} --help` shows what it accepts"),
        };
        return CliError::usage(what).with_hint(hint);
    }
    if command.starts_with('-') {
        let what = anyhow::anyhow!("there is no command before `{command}`");
        let with_run = [&["run".into()], &args[1..]].concat();
        return CliError::usage(what).with_hint(format!(
            "to run a program: provoke {}",
            shell_line(&with_run)
        ));
    }
    let what = anyhow::anyhow!(
        "`provoke {command}` has no flag `{}`",
        SafeText::from_line(argument)
    );
    let value = value_of(argument, args);
    let near = similar_flag(argument, &command);
    let known = FLAGS
        .iter()
        .find(|(flags, _)| flags.contains(&argument))
        .or_else(|| near.is_none().then(|| similar_synonym(argument)).flatten());
    let hint = if let "--retry" | "--retries" = argument {
        "provoke does not retry: every trial counts; -n sets how many run".to_owned()
    } else if let "--good" | "--bad" = argument {
        let end =
            |flag: &str, other: &str| value_of(flag, args).unwrap_or_else(|| other.to_owned());
        let range = format!("{}..{}", end("--good", "GOOD"), end("--bad", "BAD"));
        match command.as_str() {
            "bisect" => format!("did you mean `--git {range}`?"),
            _ => format!("did you mean `provoke bisect --git {range} -- CMD`?"),
        }
    } else if FORMAT_FLAGS.contains(&argument) && has_flag(&command, "--junit") {
        match value.as_deref().and_then(format_flag) {
            Some(flag) => format!("did you mean `{flag}`?"),
            None => {
                let flags = FORMATS
                    .iter()
                    .map(|(format, _)| format!("--{format}=FILE"))
                    .collect::<Vec<_>>()
                    .join(", ");
                format!("each format has a flag: {flags}")
            }
        }
    } else if let Some((_, flag)) = known.filter(|(_, flag)| has_flag(&command, flag)) {
        let given = format!("{argument}=");
        let in_one_word = args
            .iter()
            .any(|word| word.to_string_lossy().starts_with(&given));
        let flag = match &value {
            Some(file) if in_one_word => flag.replace("FILE", file),
            _ => (*flag).to_owned(),
        };
        let value = value.unwrap_or_else(|| "VALUE".to_owned());
        format!(
            "did you mean `{}`?",
            flag.replacen('V', &value, usize::from(flag.ends_with(" V")))
        )
    } else if let Some(hint) = hint_at_other_command(argument, args) {
        hint
    } else if let Some(near) = near {
        match value.filter(|_| takes_value(&near)) {
            Some(value) => format!("did you mean `{near} {value}`?"),
            None => format!("did you mean `{near}`?"),
        }
    } else if has_trials(&command) {
        format!("`provoke {command} --help` lists all flags; flags of the program follow its name")
    } else {
        format!("`provoke {command} --help` lists all flags")
    };
    CliError::usage(what).with_hint(hint)
}

/// Returns the flag for a format of reports, or for a file with the extension of a format: `junit`, `ci.xml`.
fn format_flag(value: &str) -> Option<String> {
    let end = Path::new(value).extension().and_then(OsStr::to_str);
    let known = |name: &str| {
        let known = FORMATS.iter().find(|(_, names)| names.contains(&name));
        known.map(|(format, _)| format)
    };
    match known(value) {
        Some(format) => Some(format!("--{format}")),
        None => Some(format!("--{}={value}", known(end?)?)),
    }
}

/// Returns the flag of a command that other tools call by this name.
fn similar_flag(flag: &str, command: &str) -> Option<String> {
    let flag = flag.strip_prefix("--")?;
    let all = super::build_command();
    let flags = all
        .find_subcommand(command)?
        .get_arguments()
        .filter(|flag| !flag.is_hide_set());
    let spellings: Vec<(&str, &str)> = flags
        .filter_map(|flag| {
            let aliases = flag.get_all_aliases().unwrap_or_default();
            let long = flag.get_long()?;
            Some(
                std::iter::once(long)
                    .chain(aliases)
                    .map(move |one| (one, long)),
            )
        })
        .flatten()
        .collect();
    match (command, flag) {
        ("load", "concurrency" | "users" | "virtual-users") => Some("--clients".to_owned()),
        _ => {
            let near = similar_field(flag, spellings.iter().map(|(one, _)| *one))?;
            let (_, long) = spellings.iter().find(|(one, _)| *one == near)?;
            Some(format!("--{long}"))
        }
    }
}

/// Returns the entry of [`FLAGS`] that contains a similar spelling of this flag.
fn similar_synonym(flag: &str) -> Option<&'static (&'static [&'static str], &'static str)> {
    let flag = flag.strip_prefix("--")?;
    let synonyms = || FLAGS.iter().flat_map(|(flags, _)| flags.iter());
    let near = similar_field(flag, synonyms().filter_map(|one| one.strip_prefix("--")))?;
    FLAGS
        .iter()
        .find(|(flags, _)| flags.iter().any(|one| one.strip_prefix("--") == Some(near)))
}

/// Names the command that has this flag, with the ready command line if the rest of the line fits that command.
fn hint_at_other_command(flag: &str, args: &[OsString]) -> Option<String> {
    let owners: Vec<&str> = COMMANDS_BY_USE
        .iter()
        .copied()
        .filter(|command| flag.len() > 2 && has_flag(command, flag))
        .collect();
    let ready = owners.iter().find_map(|command| {
        let mut line = args.to_vec();
        *line.get_mut(1)? = (*command).into();
        let is_accepted = super::build_command().try_get_matches_from(&line).is_ok();
        line[0] = "provoke".into();
        is_accepted.then(|| format!("did you mean `{}`?", shell_line(&line)))
    });
    ready.or_else(|| match owners.as_slice() {
        [only] => Some(format!("`provoke {only}` has this flag")),
        _ => None,
    })
}

/// Returns whether a word is this flag, alone or with a value: `--runs`, `--runs=5`, `-n`, `-n5`.
pub(super) fn is_flag(word: &str, flag: &str) -> bool {
    match word.strip_prefix(flag) {
        Some("") => true,
        Some(rest) if flag.starts_with("--") => rest.starts_with('='),
        Some(rest) => rest
            .trim_start_matches('=')
            .starts_with(|c: char| c.is_ascii_digit()),
        None => false,
    }
}

/// Returns whether a command runs trials, and so has the flags of `run`.
fn has_trials(command: &str) -> bool {
    has_flag(command, "--shell")
}

/// Returns whether a command has the flag at the beginning of a text such as `-n V`.
fn has_flag(command: &str, flag: &str) -> bool {
    let flag = flag.split([' ', '=']).next().unwrap_or_default();
    let all = super::build_command();
    all.find_subcommand(command).is_some_and(|command| {
        command.get_arguments().any(|argument| {
            let short = argument.get_short().map(|short| format!("-{short}"));
            let long = argument.get_long().map(|long| format!("--{long}"));
            [short, long].iter().flatten().any(|name| name == flag)
        })
    })
}

/// Returns whether a flag takes a value.
fn takes_value(flag: &str) -> bool {
    super::build_command()
        .get_subcommands()
        .flat_map(clap::Command::get_arguments)
        .any(|argument| {
            let is_switch = argument
                .get_num_args()
                .is_some_and(|number| !number.takes_values());
            let takes_value = argument.get_action().takes_values() && !is_switch;
            argument.get_long() == flag.strip_prefix("--") && takes_value
        })
}

/// Returns the value given with a flag, quoted for a shell.
fn value_of(flag: &str, args: &[OsString]) -> Option<String> {
    let at = args.iter().position(|word| {
        let word = word.to_string_lossy();
        word == flag || word.starts_with(&format!("{flag}="))
    })?;
    let word = args[at].to_string_lossy();
    let value = match word.split_once('=') {
        Some((_, value)) => OsString::from(value),
        None => args.get(at + 1)?.clone(),
    };
    let is_flag = value.as_encoded_bytes().starts_with(b"-");
    (!is_flag).then(|| words::quote_word(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_and_command_suggested_exists() {
        let root = super::super::build_command();
        let names: Vec<&str> = root
            .get_subcommands()
            .map(clap::Command::get_name)
            .collect();
        for (words, command) in COMMANDS {
            assert!(names.contains(command), "{command}");
            assert!(!words.iter().any(|word| names.contains(word)), "{words:?}");
        }
        let run = root.find_subcommand("run").unwrap();
        let is_flag = |flag: &str| {
            run.get_arguments().any(|argument| {
                let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                let long = long.iter().any(|long| format!("--{long}") == flag);
                long || argument
                    .get_short()
                    .is_some_and(|one| format!("-{one}") == flag)
            })
        };
        for (flags, instead) in FLAGS {
            let flag = instead.split([' ', '=']).next().unwrap();
            assert!(is_flag(flag), "{flag}");
            assert!(!flags.iter().any(|flag| is_flag(flag)), "{flags:?}");
        }
    }
}
