//! Finds the words of a test runner in a command, and changes its arguments.

use provoke_model::{ActorPlan, Text};
use provoke_words::diagnostic::Diagnostic;
use std::path::Path;

/// The words of a command, without the programs around the runner.
pub(super) struct RunnerWords {
    /// The words of the command, or of the shell line that it runs.
    pub(super) words: Vec<String>,
    /// Whether the words are part of a shell line, to which nothing can be added.
    pub(super) is_shell_line: bool,
}

/// Splits a command into words, also that of `sh -c`.
pub(super) fn split_runner_words(command: &[Text]) -> RunnerWords {
    let words: Vec<String> = command.iter().map(ToString::to_string).collect();
    let is_shell = |word: &String| matches!(file_name(word), "sh" | "bash" | "dash" | "zsh");
    let shell_line = words
        .iter()
        .position(is_shell)
        .and_then(|shell| {
            let options = words.iter().skip(shell + 1);
            let is_line_flag = |word: &String| {
                word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
            };
            words.get(shell + 1 + options.clone().position(is_line_flag)? + 1)
        })
        .cloned();
    match shell_line {
        Some(line) => RunnerWords {
            words: line
                .split([' ', '\t', '\n', ';', '(', ')'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            is_shell_line: true,
        },
        None => RunnerWords {
            words,
            is_shell_line: false,
        },
    }
}

/// Returns the name of a program without its directory.
pub(super) fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Returns whether words begin with a program and these arguments.
pub(super) fn begins_with(words: &[String], program: &str, arguments: &[&str]) -> bool {
    words.first().is_some_and(|word| file_name(word) == program)
        && words.len() > arguments.len()
        && words[1..]
            .iter()
            .zip(arguments)
            .all(|(word, argument)| word == argument)
}

/// Returns the index of the subcommand of cargo, behind the name of a toolchain.
pub(super) fn cargo_subcommand(words: &[String]) -> Option<usize> {
    let has_toolchain = words.get(1).is_some_and(|word| word.starts_with('+'));
    begins_with(words, "cargo", &[]).then_some(1 + usize::from(has_toolchain))
}

/// The command of a runner in an actor, as a trial runs it.
pub struct RunnerCommand<'a> {
    /// The name of the runner in sentences.
    pub(super) title: &'static str,
    /// The index of the last word of its name, if the command contains it.
    pub(super) name_end: Option<usize>,
    pub(super) actor: &'a mut ActorPlan,
}

impl RunnerCommand<'_> {
    /// Inserts words behind the name of the runner.
    pub(super) fn insert(
        &mut self,
        words: impl IntoIterator<Item = String>,
    ) -> Result<(), Diagnostic> {
        self.check_no_shell_line()?;
        let Some(last) = self.name_end else {
            return Err(Diagnostic::of_field(
                "cases",
                format!("the command does not contain `{}`", self.title),
                "name the runner in the command, or use --cases=junit:'reports/*.xml' with the reports that it writes",
            ));
        };
        self.insert_at(last + 1, words);
        Ok(())
    }

    /// Adds words at the end.
    pub(super) fn append(
        &mut self,
        words: impl IntoIterator<Item = Text>,
    ) -> Result<(), Diagnostic> {
        self.check_no_shell_line()?;
        self.actor.command.extend(words);
        Ok(())
    }

    /// Inserts words at an index.
    pub(super) fn insert_at(&mut self, index: usize, words: impl IntoIterator<Item = String>) {
        let inserted = words.into_iter().map(Text::from);
        self.actor.command.splice(index..index, inserted);
    }

    pub(super) fn check_no_shell_line(&self) -> Result<(), Diagnostic> {
        if split_runner_words(&self.actor.command).is_shell_line {
            return Err(Diagnostic::of_field(
                "cases",
                format!(
                    "`{}` needs an argument of provoke, which a shell line has no place for",
                    self.title
                ),
                "give the command without a shell: -- CMD ARG...",
            ));
        }
        Ok(())
    }

    /// Removes a flag with its value from the arguments of the runner.
    pub(super) fn remove_flag(&mut self, names: &[&str]) {
        let Some(last) = self.name_end else {
            return;
        };
        let mut kept: Vec<Text> = self.actor.command[..=last].to_vec();
        let mut arguments = self.actor.command[last + 1..].iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_string();
            if text == "--" {
                kept.push(argument.clone());
                break;
            }
            if names.contains(&text.as_str()) {
                arguments.next();
                continue;
            }
            let name = text.split('=').next().unwrap_or_default();
            if !names.contains(&name) {
                kept.push(argument.clone());
            }
        }
        kept.extend(arguments.cloned());
        self.actor.command = kept;
    }

    /// Sets a variable.
    pub(super) fn set_variable(&mut self, name: &str, value: impl Into<Text>) {
        let name = Text::from(name);
        self.actor.env.retain(|(own_name, _)| *own_name != name);
        self.actor.env.push((name, Some(value.into())));
    }

    /// Puts a value before that of a variable of the actor, or of the environment.
    pub(super) fn prepend_variable(
        &mut self,
        environment: &[(Text, Text)],
        name: &str,
        value: &Path,
        separator: &str,
    ) {
        let own_name = Text::from(name);
        let own = self.actor.env.iter().find(|(name, _)| *name == own_name);
        let inherited = || {
            let inherited = environment.iter().find(|(name, _)| *name == own_name);
            inherited.map(|(_, value)| value.clone())
        };
        let old_value = match own {
            Some((_, own_value)) => own_value.clone(),
            None => inherited(),
        };
        let mut new_value = value.as_os_str().to_owned();
        if let Some(old_value) = old_value.filter(|old_value| !old_value.as_os_str().is_empty()) {
            new_value.push(separator);
            new_value.push(old_value.as_os_str());
        }
        self.set_variable(name, new_value);
    }
}

/// Characters with a meaning in regular expressions.
pub(super) const REGEX: &str = r"\.+*?()|[]{}^$";

/// Puts a backslash before characters.
pub(super) fn escape(text: &str, characters: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if characters.contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
