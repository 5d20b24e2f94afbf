//! Finds flags of provoke's commands, also by a similar name.

use clap::{Arg, Command};
use provoke_words::names::intended_name;

/// Returns whether a command has the flag at the beginning of a text such as `-n V`.
pub(super) fn has_flag(commands: &Command, command: &str, flag: &str) -> bool {
    find_flag(commands, command, flag).is_some()
}

/// Returns whether a command has the flag, and the flag takes a value.
pub(super) fn has_flag_with_value(commands: &Command, command: &str, flag: &str) -> bool {
    find_flag(commands, command, flag).is_some_and(takes_value)
}

fn find_flag<'a>(commands: &'a Command, command: &str, flag: &str) -> Option<&'a Arg> {
    let flag = flag.split([' ', '=']).next().unwrap_or_default();
    flags_of(commands, command).find(|argument| {
        let short = argument.get_short().map(|short| format!("-{short}"));
        let long = argument.get_long().map(|long| format!("--{long}"));
        [short, long].iter().flatten().any(|name| name == flag)
    })
}

/// Returns the flag of a command that has this name in other tools, or a similar one, and whether it takes a value.
pub(super) fn similar_flag(
    commands: &Command,
    command: &str,
    flag: &str,
) -> Option<(String, bool)> {
    let flag = match (command, flag.strip_prefix("--")?) {
        ("load", "concurrency" | "users" | "virtual-users" | "vus") => "clients",
        ("load", "until" | "ramp-until") => "find",
        (_, name) => name,
    };
    let names: Vec<(&str, &Arg)> = flags_of(commands, command)
        .filter(|argument| !argument.is_hide_set())
        .filter_map(|argument| Some((argument.get_long()?, argument)))
        .flat_map(|(long, argument)| {
            let aliases = argument.get_all_aliases().unwrap_or_default();
            std::iter::once(long)
                .chain(aliases)
                .map(move |name| (name, argument))
        })
        .collect();
    let near = intended_name(flag, names.iter().map(|(name, _)| *name))?;
    let (_, argument) = names.iter().find(|(name, _)| *name == near)?;
    Some((format!("--{}", argument.get_long()?), takes_value(argument)))
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

fn flags_of<'a>(commands: &'a Command, name: &str) -> impl Iterator<Item = &'a Arg> {
    commands
        .find_subcommand(name)
        .into_iter()
        .flat_map(Command::get_arguments)
}

fn takes_value(argument: &Arg) -> bool {
    let is_switch = argument
        .get_num_args()
        .is_some_and(|number| !number.takes_values());
    argument.get_action().takes_values() && !is_switch
}
