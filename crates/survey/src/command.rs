//! Collects facts about one main command: its build, its libraries, and the packages of its language.

use super::build::{LARGEST_OF_LIBRARIES, build_of, format_size, hash_file, version_of_libc};
use super::file_names::{LAUNCHERS, NOT_FOUND, is_one_of};
use super::{cargo, node, python, shell, warnings};
use provoke_autopsy::{CommandEnvironment, Library, LoaderSettings, find_libraries};
use provoke_model::{Survey, Text};
use provoke_sys::emulator::Emulator;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Limit of nested interpreters.
const DEEP: usize = 4;
/// Programs that run their first argument that is a file.
const INTERPRETERS: [&str; 12] = [
    "bash", "bun", "dash", "deno", "node", "nodejs", "perl", "php", "python", "pypy", "ruby", "sh",
];

pub(super) fn survey_command(environment: &CommandEnvironment<'_>, command: &[Text]) -> Survey {
    let mut survey = Survey::default();
    // A program name with a placeholder is unknown.
    let Some(name) = command
        .first()
        .filter(|name| !name.as_bytes().contains(&b'{'))
    else {
        return survey;
    };
    let Some(program) = environment.find_program(name.as_os_str()) else {
        survey.set_fact("program.path", format!("{name}{NOT_FOUND}"));
        return survey;
    };
    let mut chain = interpreter_chain(environment, &program);
    identify_all(&mut survey, "program", &chain);
    let launched = find_launched(environment, &program, command);
    if let Some(launched) = &launched {
        let launched = self::interpreter_chain(environment, &launched.file);
        identify_all(&mut survey, "program.launched", &launched);
        chain.extend(launched);
    } else if let Some(emulator) = find_emulator(command) {
        // The emulator and the emulated program have different libraries.
        let name = &command[emulator.program];
        survey.set_fact("program.launched.path", format!("{name}{NOT_FOUND}"));
        return survey;
    }
    let (arguments, cwd) = match &launched {
        Some(launched) => (&launched.arguments[..], launched.cwd.as_path()),
        None => (&command[1..], environment.cwd),
    };
    if chain.iter().any(|file| is_one_of(file, &INTERPRETERS))
        && let Some(script) = find_script(cwd, arguments)
    {
        add_identity(&mut survey, "program.script", &script);
    }
    if let Some(last) = chain.last() {
        add_libraries(&mut survey, last, environment);
    }
    python::survey_python(&mut survey, &chain, environment);
    node::survey_node(&mut survey, &chain, environment);
    cargo::survey_cargo(&mut survey, &chain, environment);
    survey
}

/// Returns a program, the interpreter in its first line, the interpreter of that, and so on.
fn interpreter_chain(environment: &CommandEnvironment<'_>, program: &Path) -> Vec<PathBuf> {
    let mut chain = vec![program.to_owned()];
    while chain.len() < DEEP
        && let Some(next) = find_interpreter(environment, &chain[chain.len() - 1])
    {
        chain.push(next);
    }
    chain
}

/// Returns the interpreter of a script.
fn find_interpreter(environment: &CommandEnvironment<'_>, file: &Path) -> Option<PathBuf> {
    if let Some(real) = python::behind_shim(file, environment) {
        return Some(real);
    }
    let mut start = [0; 512];
    let length = File::open(file).ok()?.read(&mut start).ok()?;
    let line = start[..length]
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(OsStr::from_bytes);
    let path = PathBuf::from(words.next()?);
    if path.file_name() != Some(OsStr::new("env")) {
        return Some(path);
    }
    // `env` searches `PATH`; its options and variables precede the name.
    let setting =
        |word: &&OsStr| word.as_bytes().starts_with(b"-") || word.as_bytes().contains(&b'=');
    environment.find_program(words.find(|word| !setting(word))?)
}

/// A program that another one starts.
struct LaunchedProgram {
    file: PathBuf,
    arguments: Vec<Text>,
    cwd: PathBuf,
}

/// Returns the program that a launcher, an emulator or a shell command line starts.
fn find_launched(
    environment: &CommandEnvironment<'_>,
    program: &Path,
    command: &[Text],
) -> Option<LaunchedProgram> {
    if let Some(line) = warnings::shell_line(command) {
        return first_in(environment, &line.text);
    }
    if let Some(emulator) = find_emulator(command) {
        return Some(LaunchedProgram {
            file: environment.find_program(command[emulator.program].as_os_str())?,
            arguments: command[emulator.program + 1..].to_vec(),
            cwd: environment.cwd.to_owned(),
        });
    }
    if !is_one_of(program, &LAUNCHERS) {
        return None;
    }
    // Take the first argument that is a program, because numbers and settings may precede it.
    let mut words = command.iter().enumerate().skip(1);
    words.find_map(|(index, word)| {
        if word.as_bytes().starts_with(b"-") {
            return None;
        }
        Some(LaunchedProgram {
            file: environment.find_program(word.as_os_str())?,
            arguments: command[index + 1..].to_vec(),
            cwd: environment.cwd.to_owned(),
        })
    })
}

/// Returns the emulator that a command starts, directly or with a launcher.
pub(super) fn find_emulator(command: &[Text]) -> Option<Emulator<'_>> {
    let emulator = Emulator::find_in_command(command)?;
    let first = Path::new(command[0].as_os_str());
    (emulator.at == 0 || is_one_of(first, &LAUNCHERS)).then_some(emulator)
}

/// Returns the first program in a shell command line that is more than preparation.
fn first_in(around: &CommandEnvironment<'_>, line: &str) -> Option<LaunchedProgram> {
    let mut cwd = around.cwd.to_owned();
    let pipelines = shell::outline_line(line)?;
    let mut commands = pipelines.iter().flat_map(|pipeline| &pipeline.commands);
    commands.find_map(|words| {
        if let [name, folder] = &words[..]
            && name == "cd"
        {
            cwd.push(folder);
        }
        if !warnings::runs_a_program(words) {
            return None;
        }
        let plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let setting = |word: &&String| {
            let name = word.split_once('=').map(|(name, _)| name);
            name.is_some_and(|name| name.chars().all(plain))
        };
        let first = words.iter().take_while(setting).count();
        let environment = CommandEnvironment {
            cwd: &cwd,
            ..around.clone()
        };
        Some(LaunchedProgram {
            file: environment.find_program(OsStr::new(words.get(first)?))?,
            arguments: words[first + 1..].iter().map(Text::from).collect(),
            cwd: cwd.clone(),
        })
    })
}

/// Returns the script of an interpreter, unless an option contains the code.
fn find_script(cwd: &Path, arguments: &[Text]) -> Option<PathBuf> {
    let mut words = arguments.iter().map(Text::as_os_str);
    let word = words.find(|word| !word.as_bytes().starts_with(b"-"))?;
    let file = cwd.join(word);
    file.is_file().then_some(file)
}

/// Adds the builds of a program and its interpreters.
fn identify_all(survey: &mut Survey, name: &str, chain: &[PathBuf]) {
    for (depth, file) in chain.iter().enumerate() {
        match depth {
            0 => add_identity(survey, name, file),
            1 => add_identity(survey, &format!("{name}.interpreter"), file),
            depth => add_identity(survey, &format!("{name}.interpreter{depth}"), file),
        }
    }
}

/// Adds path and build of a file.
fn add_identity(survey: &mut Survey, name: &str, file: &Path) {
    survey.set_fact(format!("{name}.path"), file.to_string_lossy());
    if let Some((fact_name, build)) = build_of(file) {
        survey.set_fact(format!("{name}.{fact_name}"), build);
    }
}

fn add_libraries(survey: &mut Survey, program: &Path, environment: &CommandEnvironment<'_>) {
    let libraries = find_libraries(program, &LoaderSettings::of_command(environment));
    if let Some(Library {
        file: Some(file), ..
    }) = libraries.get("libc.so.6")
    {
        survey.set_if("libc", version_of_libc(file));
    }
    let mut budget = LARGEST_OF_LIBRARIES;
    for (name, library) in libraries {
        let library_text = match (&library.elf.build_id, &library.file) {
            (Some(id), _) => id.clone(),
            (None, Some(file)) => hash_file(file, &mut budget).unwrap_or_else(|| format_size(file)),
            (None, None) => "(missing)".to_owned(),
        };
        survey.set_fact(format!("library.{name}"), library_text);
    }
}
