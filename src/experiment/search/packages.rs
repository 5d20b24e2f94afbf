//! Finds package versions, image tags and the differences of two environments as candidates.

use crate::experiment::engine::{self, EngineError};
use crate::experiment::observer::{ExperimentMessage, ExperimentObserver};
use crate::model::{Candidate, Item, ItemKind, Preparation, Text, VariantChoices};
use crate::packages::{
    self, EntryDifference, EntryKind, EnvironmentEntries, EnvironmentRecipe, PackageError,
    PackageManager, Pip, VersionQuery,
};
use crate::scenario::{PlanError, Scenario, SearchSources};
use crate::state::State;
use crate::store::{self, RunFolder, StoreError, default_root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Default number of environments that are created at the same time: installing mostly waits.
const MAKERS: u32 = 2;

/// Converts an error of a package tool to a refusal of the scenario.
fn refusal_of_fault(field: &str, fault: &PackageError) -> PlanError {
    let why = std::error::Error::source(fault).map_or(String::new(), |why| format!(": {why}"));
    PlanError::of_field(field, format!("{fault}{why}"), fault.hint())
}

/// Returns the versions of a package.
pub(super) fn package_versions(
    scenario: &Scenario,
    field: &str,
    spec: &str,
    manager: PackageManager,
    [base, folder]: [&Path; 2],
    observer: &mut dyn ExperimentObserver,
) -> Result<SearchSources, PlanError> {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| base.join(path));
    let (requirements, constraints) = (
        path(&scenario.bisect.requirements),
        path(&scenario.bisect.constraints),
    );
    let wanted = VersionQuery {
        manager,
        spec,
        folder,
        env: &[],
        requirements: requirements.as_deref(),
        constraints: constraints.as_deref(),
        python: scenario.search.python.as_deref(),
        build: scenario.bisect.build.as_deref(),
    };
    let found =
        packages::find_versions(&wanted).map_err(|fault| refusal_of_fault(field, &fault))?;
    for note in found.notes {
        observer.on_message(ExperimentMessage::Note(note));
    }
    let place = |name: String| Candidate { name, about: None };
    let places = found.versions.into_iter().map(place).collect();
    Ok(in_environments(
        found.recipe,
        VariantChoices::Places(places),
        folder,
    ))
}

/// Returns the tags of an image; every trial runs in its own container.
pub(super) fn image_tags(scenario: &Scenario) -> Result<SearchSources, PlanError> {
    let said = scenario.program.image.as_deref().unwrap_or_default();
    let Some((image, tags)) = said.rsplit_once(':').filter(|(image, _)| !image.is_empty()) else {
        let hint = "write IMAGE:TAG,TAG,TAG, such as app:1.0,1.1,1.2";
        return Err(PlanError::of_field(
            "image",
            format!("`{said}` has no tags"),
            hint,
        ));
    };
    let engine = engine::find_engine(scenario.program.engine.as_deref())
        .map_err(EngineError::into_refusal)?;
    // Images that `setup` creates need not exist yet.
    for tag in tags.split(',').filter(|_| scenario.program.setup.is_none()) {
        engine::has_image(engine, &format!("{image}:{tag}")).map_err(EngineError::into_refusal)?;
    }
    let place = |tag: &str| Candidate {
        name: tag.to_owned(),
        about: None,
    };
    let places = tags.split(',').map(place).collect();
    Ok(VariantChoices::Places(places).into())
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
        moved: recipe.cwd.map(|to| (cwd, format!("{{made}}/{to}"))),
        path: recipe.path,
        env: recipe.env,
        makers: Some(MAKERS),
        ..SearchSources::from(choices)
    }
}

/// Returns the differences between two environments.
pub(super) fn of_differences(
    scenario: &Scenario,
    ends: [&Path; 2],
    base: &Path,
    folder: &Path,
) -> Result<SearchSources, PlanError> {
    let files = ends.map(|end| base.join(end));
    let [old, new] = ends.map(|end| variables_of(end, base, scenario.trust));
    let found = match [old?, new?] {
        [Some(old), Some(new)] => packages::compare_parts(EntryKind::Variables, old, new),
        _ => {
            let [from, to] = &files;
            packages::compare_files(from, to).map_err(|fault| refusal_of_fault("from", &fault))?
        }
    };
    let text = |text: &Option<String>| text.as_ref().map(Text::from);
    let thing = |one: &EntryDifference| {
        let (from, to) = (text(&one.from), text(&one.to));
        let what = match found.kind {
            EntryKind::Packages => ItemKind::Text(to, from),
            EntryKind::Variables => ItemKind::Variable(one.name.as_str().into(), to, from),
        };
        Item {
            name: describe_difference(found.kind, one),
            at: None,
            what,
        }
    };
    let things = VariantChoices::Things(found.differences.iter().map(thing).collect());
    if found.kind == EntryKind::Variables {
        let env = found.common.into_iter();
        return Ok(SearchSources {
            env: env.collect(),
            ..SearchSources::from(things)
        });
    }
    let wanted = VersionQuery {
        manager: PackageManager::Pip,
        spec: "",
        folder,
        env: &[],
        requirements: None,
        constraints: None,
        python: scenario.search.python.as_deref(),
        build: None,
    };
    let pip = Pip::find_interpreter(&wanted).map_err(|fault| refusal_of_fault("from", &fault))?;
    let lines = found.common.into_iter().map(|(_, line)| line);
    let lines: Vec<String> = lines.chain(["{lines}".to_owned()]).collect();
    Ok(in_environments(
        pip.environment_recipe(&lines),
        things,
        folder,
    ))
}

/// Returns the environment of a run, if a run was named instead of a file.
fn variables_of(
    name: &Path,
    base: &Path,
    trust: bool,
) -> Result<Option<EnvironmentEntries>, PlanError> {
    if base.join(name).is_file() {
        return Ok(None);
    }
    let run = name.to_str();
    let Some(folder) = run.and_then(|run| RunFolder::find_run(run, &default_root()).ok()) else {
        return Ok(None);
    };
    let refused = |error: StoreError| PlanError {
        what: error.to_string(),
        at: vec!["from".to_owned()],
        hint: error.hint().unwrap_or_default(),
    };
    let folder = folder.check_trust(trust).map_err(refused)?;
    let state = store::read_trials(&folder.journal_path(), |_, _| {}).map_err(refused)?;
    Ok(variables_in(&state))
}

/// Returns the environment of the trials of a run, if all of it is UTF-8.
fn variables_in(state: &State) -> Option<EnvironmentEntries> {
    let mut all: EnvironmentEntries = BTreeMap::new();
    let text = |text: &Text| text.as_os_str().to_str().map(str::to_owned);
    for (name, value) in &state.plan.environment {
        all.insert(text(name)?, text(value)?);
    }
    let mains = state
        .plan
        .variants
        .iter()
        .flat_map(|variant| &variant.actors);
    for (name, value) in mains.take(1).flat_map(|main| &main.env) {
        match value {
            Some(value) => all.insert(text(name)?, text(value)?),
            None => all.remove(&text(name)?),
        };
    }
    Some(all)
}

/// Returns the name of a difference: `numpy 1.16 to 1.21`.
fn describe_difference(kind: EntryKind, one: &EntryDifference) -> String {
    let said = |text: &String| match kind {
        EntryKind::Packages => {
            let version = text.strip_prefix(&one.name);
            version.unwrap_or(text).trim_start_matches('=').to_owned()
        }
        EntryKind::Variables => text.clone(),
    };
    let name = &one.name;
    match (one.from.as_ref().map(said), one.to.as_ref().map(said)) {
        (Some(from), Some(to)) => format!("{name} {from} -> {to}"),
        (None, Some(to)) => format!("{name} {to}"),
        (_, None) => format!("no {name}"),
    }
}
