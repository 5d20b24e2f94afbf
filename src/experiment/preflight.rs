//! Checks the command before the first trial, so that a typing error is reported once and not as many failed trials.

use super::engine;
use super::missing_file::{find_script, similar_path};
use super::source_file::{SourceFileRunner, compile_command};
use crate::suggest::{file_of_flag, retyped_line};
use provoke_autopsy as autopsy;
use provoke_levers as levers;
use provoke_load as load;
use provoke_model::{ActorPlan, ServiceOwner, Text, TrialsPlan, VariantId};
use provoke_sys::{limits, spawn};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::{Untrusted as _, shell_word};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Number of file descriptors that a process needs besides two for each process that it supervises.
const DESCRIPTORS: u64 = 32;

/// Completes the plan of the trials that this machine runs, and checks that it can set their conditions.
pub(super) fn fit_to_this_machine(trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
    engine::choose_engine(trials)?;
    levers::prepare_trials(trials)
}

/// Checks before the start which limits would be exceeded, and what no trial could do.
pub(super) fn check_plan(trials: &TrialsPlan) -> Result<(), Diagnostic> {
    check_load(trials)?;
    let processes = |actors: &[ActorPlan]| actors.iter().map(|actor| u64::from(actor.copies)).sum();
    let max_processes: u64 = trials
        .variants
        .iter()
        .map(|variant| processes(&variant.actors))
        .max()
        .unwrap_or(0);
    let allowed = limits::open_files();
    let jobs = trials.slots_per_host();
    for (message, needed, fewer) in [
        (
            format!("{max_processes} processes in a trial"),
            2 * max_processes + DESCRIPTORS,
            "copies",
        ),
        (
            format!("{jobs} parallel trials"),
            u64::from(jobs) * 2 + DESCRIPTORS,
            "jobs",
        ),
    ] {
        if needed > allowed {
            let needs = format!("{message} need {needed} open files, and the limit is {allowed}");
            let hint = format!("raise the limit with `ulimit -n {needed}`, or use fewer {fewer}");
            return Err(Diagnostic::could_not(needs).with_hint(hint));
        }
    }
    Ok(())
}

/// Checks that the target of the load belongs to the user, and that the requests can be built.
fn check_load(trials: &TrialsPlan) -> Result<(), Diagnostic> {
    let Some(load) = &trials.load else {
        return Ok(());
    };
    let no_text = String::new;
    let marks = ["{slot}", "{trial}", "{seed}", "{variant}"];
    let fill = marks.map(|mark| match mark {
        "{variant}" => (mark, no_text()),
        _ => (mark, "0".to_owned()),
    });
    Ok(load::check_target(load, &fill)?)
}

/// Checks the program of a plain run before anything is stored. Other commands may be created first.
pub(super) fn check_program(trials: &TrialsPlan) -> Result<(), Diagnostic> {
    match trials.variants.as_slice() {
        [variant]
            if trials.hosts.is_none()
                && trials.space.is_none()
                && trials.hooks.setup.is_none()
                && variant.hooks.setup.is_none()
                && variant.edits.is_empty() =>
        {
            check_commands(trials, VariantId(0))
        }
        _ => Ok(()),
    }
}

/// Checks that every command of a variant can be started.
pub(super) fn check_commands(trials: &TrialsPlan, variant: VariantId) -> Result<(), Diagnostic> {
    // provoke does not start this service.
    if trials
        .load
        .as_ref()
        .is_some_and(|load| load.owner != ServiceOwner::Provoke)
    {
        return Ok(());
    }
    for actor in &trials.variant_plan(variant).actors {
        if let Some(container) = &actor.container {
            engine::check_image(actor, &trials.variant_plan(variant).name)?;
            if !container.sees_folder() {
                continue;
            }
        }
        let cwd = Path::new(actor.cwd.as_os_str());
        if !cwd.is_dir() {
            let error = format!("the working directory `{}` does not exist", actor.cwd);
            return Err(
                Diagnostic::could_not(error).with_hint("choose another directory with --cwd")
            );
        }
        // Programs in an image cannot be checked here.
        if actor.container.is_some() {
            continue;
        }
        let Some(name) = actor.command.first() else {
            continue;
        };
        if name.as_bytes().contains(&b'{') {
            continue;
        }
        match spawn::find_program(name.as_os_str(), path_of(trials, actor), cwd) {
            Ok(program) => check_executable(name, &program, actor, cwd, path_of(trials, actor))?,
            Err(_) => return Err(not_found(trials, name, actor, cwd)),
        }
        // `prepare` may write the script before each trial.
        let hooks = [&trials.hooks, &trials.variant_plan(variant).hooks];
        if hooks.iter().all(|hooks| hooks.prepare.is_none()) {
            check_script(actor, cwd, path_of(trials, actor))?;
        }
    }
    Ok(())
}

/// Checks that the script of an interpreter exists: every trial would fail in the same way.
fn check_script(actor: &ActorPlan, cwd: &Path, path: Option<&OsStr>) -> Result<(), Diagnostic> {
    let Some(script) = find_script(&actor.command) else {
        return Ok(());
    };
    let is_path = script.as_bytes().contains(&b'/');
    // A shell also searches a name without a `/` in PATH.
    let is_in_path = !is_path && spawn::find_program(script.as_os_str(), path, cwd).is_ok();
    if is_in_path || cwd.join(script.as_os_str()).exists() {
        return Ok(());
    }
    let line = words::shell_line(&actor.command);
    let error = format!("cannot run `{line}`: there is no file `{script}`");
    let similar = similar_path(Path::new(script.as_os_str()), cwd, Path::is_file);
    Err(Diagnostic::could_not(error).with_hint(match similar {
        Some(similar) => format!("did you mean `{}`?", shell_word(similar.as_os_str())),
        None => path_hint(script, cwd),
    }))
}

/// Tells where a missing path was searched.
fn path_hint(name: &Text, cwd: &Path) -> String {
    if name.as_bytes().starts_with(b"/") {
        return "check the path".to_owned();
    }
    let cwd_text = cwd.to_safe().to_string();
    let cwd = cwd_text.trim_end_matches('/');
    format!("the path is relative to the working directory `{cwd}`")
}

/// Explains why a program was not found.
fn not_found(trials: &TrialsPlan, name: &Text, actor: &ActorPlan, cwd: &Path) -> Diagnostic {
    if name.as_bytes().contains(&b'/') && cwd.join(name.as_os_str()).is_dir() {
        return cannot_run(name, "it is a directory").with_hint("name a program in it");
    }
    if let Some(flag) = file_of_flag(name.as_os_str()) {
        return cannot_run(name, "it is not a program")
            .with_hint(format!("did you mean `{flag}`?"));
    }
    suggest_program(trials, name, actor, cwd)
}

fn cannot_run(name: &Text, reason: &str) -> Diagnostic {
    Diagnostic::could_not(format!("cannot run `{name}`: {reason}"))
}

/// Suggests what was meant by the name of a program that does not exist.
fn suggest_program(trials: &TrialsPlan, name: &Text, actor: &ActorPlan, cwd: &Path) -> Diagnostic {
    let typed = name.as_os_str();
    let is_path = name.as_bytes().contains(&b'/');
    let path = cwd.join(typed);
    let error = |reason: &str| cannot_run(name, reason);
    let is_executable = spawn::find_program(path.as_os_str(), path_of(trials, actor), cwd).is_ok();
    match SourceFileRunner::of_path(&path) {
        Some(SourceFileRunner::Script(_)) if is_executable => {}
        Some(source) if path.is_file() => return as_source(name, actor, source),
        _ => {}
    }
    if is_path && path.exists() {
        return error("it is not executable").with_hint(format!(
            "make it executable: chmod +x {}",
            shell_word(typed)
        ));
    }
    if let Some(error) = explain_assignment(name, actor).or_else(|| explain_shell(name, actor)) {
        return error;
    }
    if path.is_file() {
        let word = shell_word(typed);
        return error("it is not in PATH").with_hint(if is_executable {
            format!("did you mean `./{word}`?")
        } else {
            format!("to run the file here: chmod +x {word}, then ./{word}")
        });
    }
    let is_program = |file: &Path| {
        let program = spawn::find_program(file.as_os_str(), path_of(trials, actor), cwd);
        program.is_ok()
    };
    let (problem, missing) = if is_path {
        ("there is no such file", Path::new(typed).to_owned())
    } else {
        ("there is no such program", Path::new(".").join(typed))
    };
    let hint = match similar_path(&missing, cwd, is_program) {
        Some(similar) => format!("did you mean `{}`?", shell_word(similar.as_os_str())),
        None if is_path => path_hint(name, cwd),
        None if typed
            .to_str()
            .is_some_and(|text| text.parse::<f64>().is_ok()) =>
        {
            format!(
                "the program comes first; -n sets the number of trials: provoke run -n {typed} -- ./program",
                typed = typed.to_safe()
            )
        }
        None => "is it installed, and is its directory in PATH?".to_owned(),
    };
    error(problem).with_hint(hint)
}

/// Explains how to set variables, if the command begins with assignments to them.
fn explain_assignment(name: &Text, actor: &ActorPlan) -> Option<Diagnostic> {
    let words = actor.command.iter();
    let assignments = words.take_while(|word| is_assignment(word)).count();
    if assignments == 0 {
        return None;
    }
    let (variables, words_left) = actor.command.split_at(assignments);
    let flags = variables
        .iter()
        .map(|option| format!("-e {}", words::quote_word(option.as_os_str())))
        .collect::<Vec<_>>()
        .join(" ");
    let command = match words_left {
        [] => "CMD".to_owned(),
        command => words::shell_line(command),
    };
    let hint = hint_with_command(
        "set environment variables with -e: ",
        name.as_os_str(),
        &format!("{flags} -- {command}"),
    );
    Some(cannot_run(name, "it is an assignment, not a program").with_hint(hint))
}

/// Explains what to do instead, if the name of the program is a flag, or means something to a shell only.
fn explain_shell(name: &Text, actor: &ActorPlan) -> Option<Diagnostic> {
    let run_in_shell = |line: &OsStr| {
        let line = format!("--shell {}", shell_word(line));
        hint_with_command("to run a line of shell: ", name.as_os_str(), &line)
    };
    let reason = "it is a command of the shell";
    Some(match name.as_bytes() {
        [b'-', ..] => cannot_run(name, "it is a flag, not a program").with_hint(
            "flags of provoke go before `--`, the program after it: provoke run -n 20 -- ./program",
        ),
        bytes if bytes.iter().any(|byte| b" |;&<>".contains(byte)) => {
            cannot_run(name, "there is no such program").with_hint(run_in_shell(name.as_os_str()))
        }
        b"cd" => {
            let directory = actor.command.get(1).map_or("DIR".to_owned(), |option| {
                shell_word(option.as_os_str()).to_string()
            });
            cannot_run(name, reason).with_hint(format!(
                "choose the working directory with --cwd {directory}"
            ))
        }
        b"source" | b"." | b"export" | b"ulimit" | b"umask" | b"alias" | b"eval" | b"exec"
        | b"if" | b"for" | b"while" => cannot_run(name, reason)
            .with_hint(run_in_shell(OsStr::new(&words::shell_line(&actor.command)))),
        _ => return None,
    })
}

/// Returns a hint that ends with the corrected command line: `end` replaces the words from `from` on.
fn hint_with_command(text: &str, from: &OsStr, end: &str) -> String {
    format!("{text}{}", retyped_line(from, end))
}

/// Explains that a file is source code, and how to run it.
fn as_source(name: &Text, actor: &ActorPlan, source: SourceFileRunner) -> Diagnostic {
    let typed = name.as_os_str();
    match source {
        SourceFileRunner::Compiled(language, compiler) => {
            let error = cannot_run(name, &format!("it is source code in {language}"));
            let Some(compiler) = compiler else {
                return error
                    .with_hint("compile it first, and run the program that the compiler writes");
            };
            let (program, make) = compile_command(Path::new(typed), compiler);
            error.with_hint(hint_with_command(
                &format!("compile it first: {make}\n      and run the program: "),
                typed,
                &with_arguments(&program, actor),
            ))
        }
        SourceFileRunner::Script(interpreter) => {
            let command = format!("{interpreter} {}", shell_word(typed));
            cannot_run(name, "it is a script that is not executable").with_hint(hint_with_command(
                "name its interpreter: ",
                typed,
                &with_arguments(&command, actor),
            ))
        }
    }
}

/// Returns a command with this program and the original arguments.
fn with_arguments(command: &str, actor: &ActorPlan) -> String {
    match &actor.command[1..] {
        [] => format!("-- {command}"),
        arguments => format!("-- {command} {}", words::shell_line(arguments)),
    }
}

/// Returns whether an argument has the form `NAME=value`.
fn is_assignment(word: &Text) -> bool {
    let bytes = word.as_bytes();
    let Some(end) = bytes.iter().position(|byte| *byte == b'=') else {
        return false;
    };
    let name = &bytes[..end];
    let starts_well = name
        .first()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    starts_well
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Number of bytes of a file that identify its type.
const HEADER: u64 = 256;

/// Checks that the kernel can start a file: a script needs a `#!` line, and its interpreter.
fn check_executable(
    name: &Text,
    program: &Path,
    actor: &ActorPlan,
    cwd: &Path,
    path: Option<&OsStr>,
) -> Result<(), Diagnostic> {
    let mut header = Vec::new();
    let read = File::open(program).and_then(|file| file.take(HEADER).read_to_end(&mut header));
    if read.is_err() {
        // A program may be executable without being readable.
        return Ok(());
    }
    let error = |reason: String| cannot_run(name, &reason);
    if let Some(line) = header.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            .map(OsStr::from_bytes);
        let Some(interpreter) = words.next() else {
            return Ok(());
        };
        let missing = |interpreter: &OsStr| {
            error(format!(
                "its interpreter `{}` does not exist",
                interpreter.to_safe()
            ))
            .with_hint(format!(
                "install the interpreter, or correct the first line of `{name}`"
            ))
        };
        if !cwd.join(interpreter).is_file() {
            return Err(missing(interpreter));
        }
        let argument_bytes = words.next().map(OsStr::as_bytes).unwrap_or_default();
        let is_env = interpreter.as_bytes().ends_with(b"/env");
        let is_name = !argument_bytes.is_empty()
            && !argument_bytes.starts_with(b"-")
            && !argument_bytes.contains(&b'=');
        let argument = OsStr::from_bytes(argument_bytes);
        if is_env && is_name && spawn::find_program(argument, path, cwd).is_err() {
            return Err(missing(argument));
        }
        return Ok(());
    }
    let is_text = !header.contains(&0);
    if is_text {
        let (line, interpreter) = match SourceFileRunner::of_path(program) {
            Some(source @ SourceFileRunner::Compiled(..)) => {
                return Err(as_source(name, actor, source));
            }
            Some(SourceFileRunner::Script(interpreter)) if interpreter != "sh" => {
                (format!("#!/usr/bin/env {interpreter}"), interpreter)
            }
            _ => ("#!/bin/sh".to_owned(), "sh"),
        };
        let command = format!("{interpreter} {}", shell_word(name.as_os_str()));
        let problem = match header.len() {
            0 => "it is empty",
            _ => "it is a text file without a #! line",
        };
        return Err(error(problem.to_owned()).with_hint(hint_with_command(
            &format!("add a first line such as {line}, or name the interpreter: "),
            name.as_os_str(),
            &with_arguments(&command, actor),
        )));
    }
    match autopsy::dynamic_loader(program).filter(|loader| !cwd.join(loader).is_file()) {
        Some(loader) => Err(error(format!(
            "its dynamic loader `{}` does not exist",
            loader.to_safe()
        ))
        .with_hint(
            "it was built for another system or C library: build it here, or run it with --image",
        )),
        None => Ok(()),
    }
}

/// Makes `provoke` refer to this program if it is not in PATH, so that its victims can be tried without installation.
/// Only provoke itself may do this.
pub fn find_ourselves(trials: &mut TrialsPlan) {
    let missing = |trials: &TrialsPlan, actor: &ActorPlan| {
        let name = actor
            .command
            .first()
            .filter(|name| name.as_os_str() == "provoke");
        let cwd = Path::new(actor.cwd.as_os_str());
        let is_local = actor.container.is_none();
        is_local
            && name.is_some_and(|name| {
                spawn::find_program(name.as_os_str(), path_of(trials, actor), cwd).is_err()
            })
    };
    let Ok(ourselves) = std::env::current_exe() else {
        return;
    };
    for variant in 0..trials.variants.len() {
        for actor in 0..trials.variants[variant].actors.len() {
            if missing(trials, &trials.variants[variant].actors[actor]) {
                trials.variants[variant].actors[actor].command[0] = (&ourselves).into();
            }
        }
    }
}

fn path_of<'a>(trials: &'a TrialsPlan, actor: &'a ActorPlan) -> Option<&'a std::ffi::OsStr> {
    let named = |name: &Text| name.as_os_str() == "PATH";
    match actor.env.iter().find(|(name, _)| named(name)) {
        Some((_, value)) => value.as_ref().map(Text::as_os_str),
        None => {
            let path_variable = trials.environment.iter().find(|(name, _)| named(name));
            path_variable.map(|(_, value)| value.as_os_str())
        }
    }
}
