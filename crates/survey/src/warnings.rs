//! Warns about commands and variables that hide crashes, or change how often they happen.

use super::file_names::{LAUNCHERS, is_one_of};
use super::influential_variables::variable_effect;
use super::mains_of;
use super::shell::{Pipeline, ShellOperator, outline_line};
use provoke_autopsy::CommandEnvironment;
use provoke_model::{NoteLevel, Text, TrialsPlan, VariantChoice};
use std::path::Path;

const SHELLS: [&str; 7] = ["ash", "bash", "busybox", "dash", "ksh", "sh", "zsh"];

/// Tools whose presence makes a race rarer or more frequent.
const OBSERVERS: [&str; 8] = [
    "gdb",
    "heaptrack",
    "lldb",
    "ltrace",
    "perf",
    "rr",
    "strace",
    "valgrind",
];

/// Commands that succeed regardless of the previous program.
const TIDY: [&str; 19] = [
    ":", "cat", "cd", "date", "echo", "head", "kill", "ls", "pkill", "printf", "pwd", "rm",
    "sleep", "sync", "tail", "touch", "true", "unset", "wait",
];

/// Commands that only prepare for the program.
const PREPARING: [&str; 12] = [
    ".", "export", "install", "local", "mkdir", "set", "shopt", "source", "trap", "ulimit",
    "umask", "unset",
];

/// Commands that only write the input of the program.
const FEEDING: [&str; 12] = [
    "cat", "curl", "echo", "find", "gunzip", "head", "ls", "printf", "seq", "tail", "yes", "zcat",
];

/// Returns warnings for readers of this plan's results, each with its level.
pub fn plan_cautions(plan: &TrialsPlan) -> Vec<(NoteLevel, String)> {
    let mut cautions = Vec::new();
    cautions.extend(equal_candidates(plan).map(|text| (NoteLevel::Warning, text)));
    for (_, actor) in plan.variants.iter().flat_map(mains_of) {
        cautions.extend(hides_exit_code(&actor.command).map(|text| (NoteLevel::Warning, text)));
        cautions.extend(watching_tool(&actor.command).map(|text| (NoteLevel::Warning, text)));
    }
    let mut mains = plan.variants.iter().flat_map(mains_of);
    if plan.settings.traces() && mains.any(|(_, main)| main.container.is_some()) {
        let text = "`--capture trace` cannot follow a program into a container, so crash locations are unknown; use `--capture on` for its cores";
        cautions.push((NoteLevel::Warning, text.to_owned()));
    }
    for (_, actor) in plan.variants.iter().flat_map(mains_of) {
        for name in CommandEnvironment::of_actor(&plan.environment, actor)
            .env
            .keys()
        {
            let name = name.to_string_lossy();
            if let Some(effect) = variable_effect(&name) {
                let text =
                    format!("{name} is set ({effect}): failure rates apply to this setting only");
                cautions.push((NoteLevel::Info, text));
            }
        }
    }
    let mut once: Vec<(NoteLevel, String)> = Vec::new();
    for caution in cautions {
        if !once.contains(&caution) {
            once.push(caution);
        }
    }
    once
}

/// Warns if every candidate of a list runs the same command.
fn equal_candidates(plan: &TrialsPlan) -> Option<String> {
    let space = plan.space.as_ref()?;
    let last = u32::try_from(space.choices.as_candidates().len())
        .ok()?
        .checked_sub(1)?;
    let parts = |place: u32| {
        let variant = space.variant_of_choice(&VariantChoice::Place(place));
        (variant.actors, variant.hooks)
    };
    let hooks = [&plan.hooks.prepare, &plan.hooks.conclude];
    let has_mark = |text: &Text| memchr::memmem::find(text.as_bytes(), b"{variant}").is_some();
    let is_prepared = space.template.make.is_some() || plan.load.is_some();
    if is_prepared || hooks.into_iter().flatten().any(has_mark) || parts(0) != parts(last) {
        return None;
    }
    Some("the command does not contain `{variant}`, so all candidates run the same command, unless it reads PROVOKE_VARIANT".to_owned())
}

/// A shell command line, with the relevant options of the shell.
#[derive(Default)]
pub(super) struct ShellLine {
    pub(super) text: String,
    pipefail: bool,
    stops_at_failure: bool,
}

/// Returns the command line that a command passes to a shell.
pub(super) fn shell_line(command: &[Text]) -> Option<ShellLine> {
    let has_name = |index: usize, names: &[&str]| {
        let word = command.get(index).map(|word| Path::new(word.as_os_str()));
        word.is_some_and(|word| is_one_of(word, names))
    };
    let wrapped = has_name(0, &LAUNCHERS) || has_name(0, &OBSERVERS);
    let last = if wrapped { command.len() } else { 1 };
    let shell = (0..last).find(|index| has_name(*index, &SHELLS))?;
    let mut line = ShellLine::default();
    let mut has_line = false;
    let mut words = command[shell + 1..].iter().map(ToString::to_string);
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-') else {
            line.text = word;
            return has_line.then_some(line);
        };
        has_line |= letters.contains('c') && !letters.starts_with('-');
        line.stops_at_failure |= letters.contains('e') && !letters.starts_with('-');
        if letters.ends_with('o') {
            let option = words.next()?;
            line.pipefail |= option == "pipefail";
            line.stops_at_failure |= option == "errexit";
        }
    }
    None
}

/// Explains how a shell command line hides the exit code of a program in it.
fn hides_exit_code(command: &[Text]) -> Option<String> {
    let line = shell_line(command)?;
    let pipelines = outline_line(&line.text)?;
    let sets = |is_wanted: &dyn Fn(&str) -> bool| {
        let mut commands = pipelines.iter().flat_map(|pipeline| &pipeline.commands);
        commands.any(|words| words[0] == "set" && words[1..].iter().any(|word| is_wanted(word)))
    };
    let pipefail = line.pipefail || sets(&|word| word == "pipefail");
    let short_e = |word: &str| word.starts_with('-') && word.contains('e');
    let strict = line.stops_at_failure || sets(&|word| word == "errexit" || short_e(word));
    let (last, earlier) = pipelines.split_last()?;
    if last.then == ShellOperator::Background {
        let name = last.commands.last()?.first()?;
        return Some(format!(
            "the shell does not wait for `{name} &`, so its exit code is lost; end the line with `wait $!`"
        ));
    }
    if let Some(previous) = earlier.last()
        && is_tidy(last)
    {
        let (name, hidden) = (&last.commands[0][0], name_of(previous));
        match previous.then {
            ShellOperator::Or => {
                return Some(format!(
                    "`|| {name}` hides the exit code of `{hidden}`; leave it out, and use --ok for exit codes that pass"
                ));
            }
            ShellOperator::Next | ShellOperator::Background
                if !strict && earlier.iter().any(is_program) =>
            {
                return Some(format!(
                    "the exit code is that of `{name}`, the last command, so a crash before it goes unnoticed; use `PROGRAM; code=$?; {name} ...; exit $code`"
                ));
            }
            _ => {}
        }
    }
    // The shell ignores the exit codes of earlier lists, unless it stops at errors.
    let mut deciding = pipelines
        .iter()
        .rev()
        .enumerate()
        .take_while(|(index, pipeline)| {
            strict || *index == 0 || matches!(pipeline.then, ShellOperator::And | ShellOperator::Or)
        });
    if pipefail {
        return None;
    }
    let (_, piped) = deciding.find(|(_, pipeline)| is_masking(pipeline))?;
    let (first, last) = (
        &piped.commands[0][0],
        &piped.commands[piped.commands.len() - 1][0],
    );
    Some(format!(
        "the exit code of `{first} | {last}` is that of `{last}`, so a crash of `{first}` goes unnoticed; use bash with `set -o pipefail`"
    ))
}

fn name_of(pipeline: &Pipeline) -> &str {
    &pipeline.commands[0][0]
}

/// Returns whether the pipeline succeeds regardless of the previous commands.
fn is_tidy(pipeline: &Pipeline) -> bool {
    let [words] = &pipeline.commands[..] else {
        return false;
    };
    match (words[0].as_str(), words.get(1)) {
        ("exit", code) => code.is_some_and(|code| code == "0"),
        // `wait $!` returns the exit code of the process.
        ("wait", job) => job.is_none(),
        // The command may print the exit code, but does not return it.
        (name, _) => TIDY.contains(&name),
    }
}

/// Returns whether a pipeline is more than preparation.
fn is_program(pipeline: &Pipeline) -> bool {
    pipeline.commands.iter().any(|words| runs_a_program(words))
}

/// Returns whether a command is more than preparation or cleanup.
pub(super) fn runs_a_program(words: &[String]) -> bool {
    let name = words[0].as_str();
    let is_known = TIDY.contains(&name) || PREPARING.contains(&name);
    !is_known && !words.iter().all(|word| word.contains('='))
}

/// Returns whether a pipe hides the exit code of a program.
fn is_masking(pipeline: &Pipeline) -> bool {
    let (_, earlier_commands) = pipeline.commands.split_last().expect("never empty");
    earlier_commands
        .iter()
        .any(|words| !FEEDING.contains(&words[0].as_str()))
}

/// Names the tool that observes the program.
fn watching_tool(command: &[Text]) -> Option<String> {
    let names = command
        .iter()
        .map(|word| word.as_os_str().to_string_lossy());
    let first = names.clone().next()?;
    let direct = if is_one_of(Path::new(&*first), &LAUNCHERS) {
        command.len()
    } else {
        1
    };
    let mut direct = names.take(direct).map(|name| {
        let name = Path::new(&*name).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    });
    let observer = |name: &String| OBSERVERS.contains(&name.as_str());
    let tool = direct.find(observer).or_else(|| {
        let pipelines = outline_line(&shell_line(command)?.text)?;
        let commands = pipelines.into_iter().flat_map(|pipeline| pipeline.commands);
        let mut names = commands.map(|mut words| words.swap_remove(0));
        names.find(observer)
    })?;
    Some(format!(
        "`{tool}` changes how often races happen; measure without it, and use `provoke replay RUN#TRIAL --wrap '{tool} ...'` for a closer look"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<Text> {
        command.iter().map(Text::from).collect()
    }

    fn of_line(line: &str) -> Option<String> {
        hides_exit_code(&words(&["sh", "-c", line]))
    }

    #[test]
    fn a_line_that_hides_the_exit_code_causes_a_warning() {
        for (line, about) in [
            ("./a | tee log", "`./a | tee` is that of `tee`"),
            ("./a |& tee log", "`./a | tee`"),
            ("cd x && ./a 2>&1 | grep y", "`./a | grep`"),
            ("./a | tee log && ./b", "`./a | tee`"),
            ("echo x | ./a | tee log", "`echo | tee`"),
            ("set -e; ./a | tee log; ./b", "`./a | tee`"),
            ("./a; true", "that of `true`"),
            ("./a; exit 0", "that of `exit`"),
            ("./a\necho done", "that of `echo`"),
            ("./a || true", "`|| true` hides the exit code of `./a`"),
            ("./a || :", "`|| :`"),
            ("./a &", "`./a &`"),
            ("./a & wait", "that of `wait`"),
        ] {
            let found = of_line(line);
            assert!(
                found.as_ref().is_some_and(|text| text.contains(about)),
                "{line}: {found:?}"
            );
        }
    }

    #[test]
    fn a_line_that_shows_the_exit_code_causes_no_warning() {
        for line in [
            "./a",
            "./a || exit 1",
            "./a || ./b",
            "./a && ./b",
            "cd x; ./a",
            "export X=1; ulimit -c 0; ./a",
            "./a; exit $?",
            "./a; code=$?; echo $code; exit $code",
            "set -e; ./a; echo done",
            "set -o pipefail; ./a | tee log",
            "set -euo pipefail; ./a | tee log; echo done",
            "echo input | ./a",
            "yes | ./a",
            "echo \"$(./a | tee log)\"",
            "./a 'x | y'",
            "./a | tee log; ./b",
            "./a & ./b; wait $!",
            "for i in 1 2; do ./a | tee log; done",
            "echo out; echo err >&2; exit 3",
            "sleep 1; echo done",
            "./a 2>&1",
            "",
        ] {
            assert_eq!(of_line(line), None, "{line}");
        }
    }

    #[test]
    fn options_of_the_shell_are_considered() {
        for command in [
            &["bash", "-o", "pipefail", "-c", "./a | tee log"][..],
            &["bash", "-euo", "pipefail", "-c", "./a | tee log"],
            &["/bin/bash", "-ec", "./a; echo done"],
            &["sh", "script.sh", "./a | tee log"],
            &["./a", "sh", "-c", "./a | tee log"],
        ] {
            assert_eq!(hides_exit_code(&words(command)), None, "{command:?}");
        }
        for command in [
            &["/bin/bash", "-c", "./a | tee log"][..],
            &["bash", "-lc", "./a | tee log"],
            &["timeout", "5", "sh", "-c", "./a | tee log"],
        ] {
            assert!(hides_exit_code(&words(command)).is_some(), "{command:?}");
        }
    }

    #[test]
    fn debuggers_and_tracers_that_run_the_program_are_recognized() {
        for command in [
            &["gdb", "--args", "./a"][..],
            &["/usr/bin/valgrind", "./a"],
            &["env", "A=1", "strace", "./a"],
            &["sh", "-c", "cd x && rr record ./a"],
        ] {
            assert!(watching_tool(&words(command)).is_some(), "{command:?}");
        }
        for command in [
            &["./a", "gdb"][..],
            &["qemu-x86_64", "./a"],
            &["gdbserver", "./a"],
            &["sh", "-c", "echo gdb"],
        ] {
            assert_eq!(watching_tool(&words(command)), None, "{command:?}");
        }
    }

    #[test]
    fn variables_with_an_effect_are_recognized_by_name() {
        assert!(variable_effect("ASAN_OPTIONS").is_some());
        assert!(variable_effect("LD_PRELOAD").is_some());
        assert!(variable_effect("RUST_BACKTRACE").is_none());
    }
}
