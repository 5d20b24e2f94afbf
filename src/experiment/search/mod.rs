//! Finds the candidates of a search that the scenario does not list, such as commits.

mod committed;
mod earlier_tests;
mod packages;
mod priors;
mod source_parts;
mod stacks;

use super::observer::{ExperimentMessage, ExperimentObserver};
use committed::{check_committed, warn_of_other_profile};
use packages::{image_tags, of_differences, package_versions};
use priors::{read_candidates, read_log, read_weights};
use provoke_model::{Candidate, VariantChoices};
use provoke_packages::{PackageManager, cargo_build_of};
use provoke_plan::{Scenario, SearchShape, SearchSources};
use provoke_prepare as prepare;
use provoke_prepare::{Commit, CommitHistory};
use provoke_source::PartSize;
use provoke_words::diagnostic::Diagnostic;
use source_parts::{of_files, of_sources};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Number of candidates or items of a search.
const MOST_CANDIDATES: usize = 1_000_000;
/// Bytes of the subjects of all commits that the plan holds, so that it fits into a line of the journal.
const MOST_SUBJECTS: usize = 24 << 20;

/// Returns the candidates or items; `None` if the scenario itself lists them.
pub(super) fn find_searched(
    scenario: &Scenario,
    base: &Path,
    observer: &mut dyn ExperimentObserver,
) -> Result<Option<SearchSources>, Diagnostic> {
    scenario.check_search()?;
    let folder = base.join(scenario.program.cwd.as_deref().unwrap_or(Path::new("")));
    let pieces = [
        ("imports", &scenario.items.imports, PartSize::Imports),
        (
            "statements",
            &scenario.items.statements,
            PartSize::Statements,
        ),
        ("lines", &scenario.items.lines, PartSize::Lines),
    ]
    .into_iter()
    .find(|(_, files, _)| !files.is_empty());
    let sources = match (scenario.search_shape(), pieces) {
        (Some(SearchShape::List), _) => in_order(scenario, base, &folder, observer)?,
        (Some(SearchShape::Set), Some((field, files, grain))) => {
            Some(of_sources(field, files, grain, base, &folder)?)
        }
        (Some(SearchShape::Set), None) if scenario.items.run_of_tests().is_some() => {
            Some(earlier_tests::find_earlier_tests(scenario)?)
        }
        (Some(SearchShape::Set), None) => {
            match (
                &scenario.items.files,
                &scenario.items.from,
                &scenario.items.to,
            ) {
                (Some(files), ..) => Some(of_files(&base.join(files), &folder)?),
                (None, Some(old_folder), Some(new_folder)) => Some(of_differences(
                    scenario,
                    [old_folder, new_folder],
                    base,
                    &folder,
                )?),
                (None, Some(_), None) | (None, None, Some(_)) => {
                    return Err(Diagnostic::of_field(
                        "from",
                        "`from` and `to` belong together, and only one is given",
                        "give the environment that does not fail as `from`, and the one that fails as `to`",
                    ));
                }
                (None, None, None) => None,
            }
        }
        _ => None,
    };
    Ok(sources)
}

/// Returns the candidates of an ordered list, with known counts.
fn in_order(
    scenario: &Scenario,
    base: &Path,
    folder: &Path,
    observer: &mut dyn ExperimentObserver,
) -> Result<Option<SearchSources>, Diagnostic> {
    let mut packages = [
        ("pip", &scenario.candidates.pip, PackageManager::Pip),
        ("cargo", &scenario.candidates.cargo, PackageManager::Cargo),
        ("apt", &scenario.candidates.apt, PackageManager::Apt),
        ("npm", &scenario.candidates.npm, PackageManager::Npm),
    ]
    .into_iter()
    .filter_map(|(field, spec, manager)| Some((field, spec.as_ref()?, manager)));
    let list_file = match scenario.candidates.over.as_slice() {
        [file] => file.strip_prefix('@'),
        _ => None,
    };
    let (mut searched, history) = match (&scenario.candidates.git, packages.next(), list_file) {
        (Some(range), _, _) => {
            let line = prepare::commit_line(folder, range, scenario.bisect.prior.is_some())?;
            check_committed(scenario, &line, folder)?;
            if let Some(warning) = warn_of_other_profile(scenario) {
                observer.on_message(ExperimentMessage::Note(warning));
            }
            commits_of_line(scenario, line, folder, observer)
        }
        (None, Some((field, spec, manager)), _) => (
            package_versions(scenario, field, spec, manager, [base, folder], observer)?,
            Vec::new(),
        ),
        (None, None, Some(file)) => (read_candidates(&base.join(file))?.into(), Vec::new()),
        (None, None, None)
            if scenario.program.image.is_some()
                && scenario.candidates.over.is_empty()
                && scenario.candidates.range.is_none() =>
        {
            (image_tags(scenario)?, Vec::new())
        }
        (None, None, None) if scenario.bisect.prior.is_some() || scenario.bisect.log.is_some() => (
            SearchSources::from(scenario.listed_candidates()?),
            Vec::new(),
        ),
        (None, None, None) => {
            let none_given =
                scenario.candidates.over.is_empty() && scenario.candidates.range.is_none();
            if none_given && in_repository(folder) {
                return Err(Diagnostic::of_field(
                    "over",
                    "there are no candidates to search",
                    "to search the commits of this repository: --git GOOD..BAD --build make; other candidates: --pip PACKAGE, --over v1,v2,v3, --range 1..64",
                ));
            }
            return Ok(None);
        }
    };
    let count = searched.choices.as_candidates().len();
    if count > MOST_CANDIDATES {
        return Err(Diagnostic::could_not(format!(
            "a search can have at most {MOST_CANDIDATES} candidates, and these are {count}"
        )));
    }
    let indices: BTreeMap<String, usize> = searched
        .choices
        .as_candidates()
        .iter()
        .enumerate()
        .map(|(index, candidate)| (candidate.name.clone(), index))
        .collect();
    match scenario.bisect.prior.as_deref() {
        None => {}
        Some("size") if !history.is_empty() => {
            searched.weights = history.iter().map(|commit| commit.lines + 1).collect();
        }
        Some("size") => {
            let hint = "give a file with `NAME WEIGHT` per line";
            return Err(Diagnostic::of_field(
                "prior",
                "`size` works for commits only",
                hint,
            ));
        }
        Some(run) if !history.is_empty() && !base.join(run).is_file() => {
            searched.weights = stacks::stack_weights(run, &history, observer)?;
        }
        Some(file) => searched.weights = read_weights(&base.join(file), &indices, observer)?,
    }
    if let Some(log) = &scenario.bisect.log {
        searched.known = read_log(&base.join(log), &indices, observer)?;
    }
    Ok(Some(searched))
}

/// Returns the `cargo build` command that creates the program of the command, if its path shows that.
fn needed_cargo_build(scenario: &Scenario) -> Option<String> {
    let words = scenario.program.command.iter().flatten();
    cargo_build_of(words.map(String::as_str))
}

/// Returns whether a directory is in a git repository.
fn in_repository(folder: &Path) -> bool {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    folder
        .ancestors()
        .any(|folder| folder.join(".git").exists())
}

/// Returns the commits of a history, as candidates and with their changes.
fn commits_of_line(
    scenario: &Scenario,
    line: CommitHistory,
    folder: &Path,
    observer: &mut dyn ExperimentObserver,
) -> (SearchSources, Vec<Commit>) {
    let mut note = |text: &str| observer.on_message(ExperimentMessage::Note(text.to_owned()));
    if line.commits.iter().any(|commit| commit.merges) {
        note(if scenario.bisect.first_parent == Some(true) {
            "a merge counts as one commit; if a merge is found, its commits can be searched next"
        } else {
            "a merge counts as one commit; if a merge is found, its commits are searched next"
        });
    }
    if line.has_submodules {
        note("submodules are not checked out; use --build 'git submodule update --init'");
    }
    let mut candidates: Vec<Candidate> = line.commits.iter().cloned().map(Into::into).collect();
    let subjects = line.commits.iter().map(|commit| commit.subject.len());
    if subjects.sum::<usize>() > MOST_SUBJECTS {
        note("the history is so long that the subjects of its commits are left out");
        for candidate in &mut candidates {
            candidate.about = None;
        }
    }
    let cwd = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let make = prepare::work_tree(
        &line.root,
        &cwd,
        scenario.bisect.build.as_deref(),
        &scenario.bisect.artifact,
    );
    let searched = SearchSources {
        make: Some(make),
        repository: Some(line.root.as_path().into()),
        moved: Some((line.root, "{made}".to_owned())),
        ..SearchSources::from(VariantChoices::Candidates(candidates))
    };
    (searched, line.commits)
}
