//! Checks that the commits of a search contain the program and the script that the command names.

use crate::experiment::missing_file::find_script;
use provoke_model::Text;
use provoke_packages::builds_other_profile;
use provoke_plan::Scenario;
use provoke_prepare as prepare;
use provoke_prepare::{Commit, CommitHistory};
use provoke_words::diagnostic::Diagnostic;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

const CARGO_MANIFEST: &str = "Cargo.toml";

/// Files that show how a project is built, each with the usual command.
const BUILDS: [(&str, &str); 6] = [
    ("Makefile", "make"),
    ("makefile", "make"),
    ("GNUmakefile", "make"),
    (CARGO_MANIFEST, "'cargo build'"),
    ("CMakeLists.txt", "'cmake -B build && cmake --build build'"),
    ("go.mod", "'go build ./...'"),
];

/// Refuses a search if neither end contains a file of the command, and no hook can create it.
pub(super) fn check_committed(
    scenario: &Scenario,
    line: &CommitHistory,
    folder: &Path,
) -> Result<(), Diagnostic> {
    let creators = [
        &scenario.bisect.build,
        &scenario.program.setup,
        &scenario.program.prepare,
        &scenario.program.image,
    ];
    if line.has_submodules || creators.iter().any(|creator| creator.is_some()) {
        return Ok(());
    }
    let command: Vec<Text> = scenario
        .program
        .command
        .as_deref()
        .unwrap_or_default()
        .iter()
        .map(Text::from)
        .collect();
    let program = command
        .first()
        .filter(|name| name.as_bytes().contains(&b'/'));
    if let Some(program) = program.filter(|program| !is_committed(program, line, folder)) {
        let build = BUILDS
            .iter()
            .find(|(file, _)| line.root.join(file).exists())
            .map_or("CMD".to_owned(), |(file, command)| {
                let inferred = super::needed_cargo_build(scenario);
                let inferred = inferred.filter(|_| *file == CARGO_MANIFEST);
                inferred.map_or((*command).to_owned(), |build| format!("'{build}'"))
            });
        return Err(Diagnostic::of_field(
            "build",
            format!("the commits do not contain the program `{program}`"),
            format!("build it in each commit: --build {build}"),
        ));
    }
    match find_script(&command).filter(|script| !is_committed(script, line, folder)) {
        Some(script) => Err(Diagnostic::of_field(
            "command",
            format!("the commits do not contain the script `{script}`"),
            if Path::new(script.as_os_str()).extension() == Some(OsStr::new("py")) {
                "put it outside of the repository, give its absolute path, and add -e PYTHONPATH=. if it imports modules of the repository"
            } else {
                "put it outside of the repository, and give its absolute path"
            },
        )),
        None => Ok(()),
    }
}

/// Returns whether one end of a history contains a file, or whether the file is not in the repository.
fn is_committed(name: &Text, line: &CommitHistory, folder: &Path) -> bool {
    let name = Path::new(name.as_os_str());
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let path = folder.join(name.strip_prefix(".").unwrap_or(name));
    let is_known = |file: &Path| {
        let ends = [line.commits.first(), line.commits.last()];
        let contains = |commit: &Commit| prepare::has_file(&line.root, &commit.name, file);
        ends.into_iter().flatten().any(contains)
    };
    let is_plain = !name
        .components()
        .any(|component| component.as_os_str() == "..")
        && !name.to_string_lossy().contains('{');
    match path.strip_prefix(&line.root) {
        Ok(file) if is_plain => is_known(file),
        _ => true,
    }
}

/// Returns a warning if the build of each commit creates the program in another folder than the one that the command
/// names.
pub(super) fn warn_of_other_profile(scenario: &Scenario) -> Option<String> {
    let build = scenario.bisect.build.as_deref()?;
    let needed = super::needed_cargo_build(scenario)?;
    builds_other_profile(build, &needed).then(|| {
        format!("`{build}` does not create the program of the command; --build '{needed}' does")
    })
}
