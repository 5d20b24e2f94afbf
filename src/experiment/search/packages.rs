//! Finds package versions, image tags and the differences of two environments as candidates.

use crate::experiment::engine;
use crate::experiment::observer::{ExperimentMessage, ExperimentObserver};
use provoke_journal as journal;
use provoke_journal::{RunFolder, StoreError, default_root};
use provoke_model::{Candidate, Item, ItemKind, Preparation, Text, VariantChoices};
use provoke_packages as packages;
use provoke_packages::{
    EntryDifference, EntryKind, EnvironmentEntries, EnvironmentRecipe, PackageManager, Pip,
    VersionQuery,
};
use provoke_plan::{Scenario, SearchSources};
use provoke_state::{Fold, State};
use provoke_words::diagnostic::{Diagnostic, ErrorCategory};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Default number of environments that are created at the same time: installing mostly waits.
const PARALLEL_BUILDS: u32 = 2;

/// Returns the versions of a package.
pub(super) fn package_versions(
    scenario: &Scenario,
    field: &str,
    spec: &str,
    manager: PackageManager,
    [base, folder]: [&Path; 2],
    observer: &mut dyn ExperimentObserver,
) -> Result<SearchSources, Diagnostic> {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| base.join(path));
    let (requirements, constraints) = (
        path(&scenario.bisect.requirements),
        path(&scenario.bisect.constraints),
    );
    let inferred_build = super::needed_cargo_build(scenario);
    let query = VersionQuery {
        manager,
        spec,
        folder,
        env: &[],
        requirements: requirements.as_deref(),
        constraints: constraints.as_deref(),
        python: scenario.search.python.as_deref(),
        build: (scenario.bisect.build.as_deref()).or(inferred_build.as_deref()),
    };
    let versions = packages::find_versions(&query).map_err(|refusal| refusal.at(&[field]))?;
    for note in versions.notes {
        observer.on_message(ExperimentMessage::Note(note));
    }
    let candidate_of = |name: String| Candidate { name, about: None };
    let candidates = versions.versions.into_iter().map(candidate_of).collect();
    Ok(in_environments(
        versions.recipe,
        VariantChoices::Candidates(candidates),
        folder,
    ))
}

/// Returns the tags of an image; every trial runs in its own container.
pub(super) fn image_tags(scenario: &Scenario) -> Result<SearchSources, Diagnostic> {
    let image_template = scenario.program.image.as_deref().unwrap_or_default();
    let Some((image, tags)) = image_template
        .rsplit_once(':')
        .filter(|(image, _)| !image.is_empty())
    else {
        let hint = "write IMAGE:TAG,TAG,TAG, such as app:1.0,1.1,1.2";
        return Err(Diagnostic::of_field(
            "image",
            format!("`{image_template}` has no tags"),
            hint,
        ));
    };
    let refused = |error: Diagnostic| Diagnostic {
        category: ErrorCategory::Usage,
        ..error.at(&["image"])
    };
    let engine = engine::find_engine(scenario.program.engine.as_deref()).map_err(refused)?;
    // Images that `setup` creates need not exist yet.
    if scenario.program.setup.is_none() {
        for tag in tags.split(',') {
            engine::has_image(engine, &format!("{image}:{tag}")).map_err(refused)?;
        }
    }
    let candidate_of = |tag: &str| Candidate {
        name: tag.to_owned(),
        about: None,
    };
    let candidates = tags.split(',').map(candidate_of).collect();
    Ok(VariantChoices::Candidates(candidates).into())
}

/// Gives each variant its own environment.
fn in_environments(
    recipe: EnvironmentRecipe,
    choices: VariantChoices,
    folder: &Path,
) -> SearchSources {
    let cwd = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    SearchSources {
        make: Some(Preparation {
            folder: "".into(),
            copy: None,
            script: Some(recipe.script.into()),
            cwd: cwd.as_path().into(),
            artifacts: Vec::new(),
            shared: recipe.shared,
        }),
        moved: recipe.cwd.map(|folder| (cwd, format!("{{made}}/{folder}"))),
        path: recipe.path,
        env: recipe.env,
        parallel_builds: Some(PARALLEL_BUILDS),
        ..SearchSources::from(choices)
    }
}

/// Returns the differences between two environments.
pub(super) fn of_differences(
    scenario: &Scenario,
    ends: [&Path; 2],
    base: &Path,
    folder: &Path,
) -> Result<SearchSources, Diagnostic> {
    let files = ends.map(|end| base.join(end));
    let [old, new_variables] = ends.map(|end| variables_of(end, base, scenario.trust));
    let comparison = match [old?, new_variables?] {
        [Some(old), Some(new)] => packages::compare_parts(EntryKind::Variables, old, new),
        _ => {
            let [old_file, new_file] = &files;
            packages::compare_files(old_file, new_file).map_err(|refusal| refusal.at(&["from"]))?
        }
    };
    let text = |text: &Option<String>| text.as_ref().map(Text::from);
    let item_of = |difference: &EntryDifference| {
        let (old_text, new_text) = (text(&difference.old_value), text(&difference.new_value));
        let kind = match comparison.kind {
            EntryKind::Packages => ItemKind::Text(new_text, old_text),
            EntryKind::Variables => {
                ItemKind::Variable(difference.name.as_str().into(), new_text, old_text)
            }
        };
        Item {
            name: describe_difference(comparison.kind, difference),
            at: None,
            what: kind,
        }
    };
    let items = VariantChoices::Items(comparison.differences.iter().map(item_of).collect());
    if comparison.kind == EntryKind::Variables {
        let env = comparison.common.into_iter();
        return Ok(SearchSources {
            env: env.collect(),
            ..SearchSources::from(items)
        });
    }
    let query = VersionQuery {
        manager: PackageManager::Pip,
        spec: "",
        folder,
        env: &[],
        requirements: None,
        constraints: None,
        python: scenario.search.python.as_deref(),
        build: None,
    };
    let pip = Pip::find_interpreter(&query).map_err(|refusal| refusal.at(&["from"]))?;
    let common_lines = comparison.common.into_iter().map(|(_, line)| line);
    let lines: Vec<String> = common_lines.chain(["{lines}".to_owned()]).collect();
    Ok(in_environments(
        pip.environment_recipe(&lines),
        items,
        folder,
    ))
}

/// Returns the environment of a run, if a run was named instead of a file.
fn variables_of(
    name: &Path,
    base: &Path,
    trust: bool,
) -> Result<Option<EnvironmentEntries>, Diagnostic> {
    if base.join(name).is_file() {
        return Ok(None);
    }
    let run = name.to_str();
    let Some(folder) = run.and_then(|run| RunFolder::find_run(run, &default_root()).ok()) else {
        return Ok(None);
    };
    let refused = |error: StoreError| Diagnostic::of_field("from", error.to_string(), error.hint());
    let folder = folder.check_trust(trust).map_err(refused)?;
    let state =
        journal::read_run(&folder.journal_path(), Fold::OF_COUNTS, |_, _| {}).map_err(refused)?;
    Ok(variables_in(&state))
}

/// Returns the environment of the trials of a run, if all of it is UTF-8.
fn variables_in(state: &State) -> Option<EnvironmentEntries> {
    let mut entries: EnvironmentEntries = BTreeMap::new();
    let text = |text: &Text| text.as_os_str().to_str().map(str::to_owned);
    for (name, value) in &state.trials.environment {
        entries.insert(text(name)?, text(value)?);
    }
    let mains = state
        .trials
        .variants
        .iter()
        .flat_map(|variant| &variant.actors);
    for (name, value) in mains.take(1).flat_map(|main| &main.env) {
        match value {
            Some(value) => entries.insert(text(name)?, text(value)?),
            None => entries.remove(&text(name)?),
        };
    }
    Some(entries)
}

/// Returns the name of a difference: `numpy 1.16 to 1.21`.
fn describe_difference(kind: EntryKind, difference: &EntryDifference) -> String {
    let display = |text: &String| match kind {
        EntryKind::Packages => {
            let version = text.strip_prefix(&difference.name);
            version.unwrap_or(text).trim_start_matches('=').to_owned()
        }
        EntryKind::Variables => text.clone(),
    };
    let name = &difference.name;
    match (
        difference.old_value.as_ref().map(display),
        difference.new_value.as_ref().map(display),
    ) {
        (Some(old_value), Some(new_value)) => format!("{name} {old_value} -> {new_value}"),
        (None, Some(new_value)) => format!("{name} {new_value}"),
        (_, None) => format!("no {name}"),
    }
}
