//! Names the functions and source lines at the addresses in the kernel log.

use super::evidence::CoreCollector;
use super::hold_names::without_library;
use provoke_autopsy::{CommandEnvironment, ExaminerClient, LoaderSettings};
use provoke_judge as judge;
use provoke_model::Observation;
use provoke_slot::wire::VariantRecipe;
use provoke_sys::files;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Limit of the words of a command that may name programs.
const MAX_WORDS: usize = 100;

impl CoreCollector {
    /// Names the functions and source lines at the addresses in the kernel log, if the programs of the trial and
    /// their libraries still exist.
    pub(super) fn name_places(
        &self,
        recipe: &VariantRecipe,
        began: SystemTime,
        observation: &mut Observation,
    ) {
        let actors = &recipe.variant.actors;
        if actors.iter().any(|actor| actor.container.is_some()) {
            return;
        }
        for line in &mut observation.kernel {
            let Some((module, offset)) = judge::logged_place(&line.text) else {
                continue;
            };
            let mut examiner = self.examiner.lock().expect("no panic");
            examiner.set_origin(None, Path::new(""), None);
            let file = mapped_file(recipe, &module, &mut examiner);
            let Some(file) = file.filter(|path| is_older(path, began)) else {
                continue;
            };
            let frames = examiner.frames_at_offset(&file, offset);
            let frame = without_library(&frames).first();
            line.function = frame.filter(|frame| frame.function.is_some()).cloned();
        }
    }
}

/// Returns the file with this name in the kernel log, if exactly one of the programs in the commands of a variant and of
/// their libraries has it. The programs are searched in shell command lines as well, but no libraries if a command sets
/// where to search them.
fn mapped_file(
    recipe: &VariantRecipe,
    module: &str,
    examiner: &mut ExaminerClient,
) -> Option<PathBuf> {
    let mut programs = BTreeSet::new();
    for actor in &recipe.variant.actors {
        let environment = CommandEnvironment::of_actor(&recipe.environment, actor);
        let texts: Vec<String> = actor.command.iter().map(ToString::to_string).collect();
        let sets_folders = texts.iter().any(|text| text.contains("LD_"));
        let settings = (!sets_folders).then(|| LoaderSettings::of_command(&environment));
        let words = texts
            .iter()
            .flat_map(|text| text.split([' ', '\t', '\n', ';']));
        let files = words.take(MAX_WORDS).filter_map(|word| {
            let program = environment.find_program(word.as_ref())?;
            fs::canonicalize(program).ok()
        });
        programs.extend(files.map(|file| (file, settings.clone())));
    }
    let has_name = |path: &PathBuf| judge::bare_module(&path.to_string_lossy()) == module;
    let mut files = BTreeSet::new();
    for (program, settings) in programs {
        if let Some(settings) = settings {
            files.extend(examiner.libraries_of(&program, &settings));
        }
        files.insert(program);
    }
    let mut files = files.into_iter().filter(has_name);
    files.next().filter(|_| files.next().is_none())
}

/// Returns whether a file was last modified before this time.
fn is_older(path: &Path, began: SystemTime) -> bool {
    let modified = files::metadata_itself(path).and_then(|metadata| metadata.modified());
    modified.is_ok_and(|time| time < began)
}
