//! Packages of Node: installed in a copy of the project, or in a separate folder without a project.

use super::script::{self, quote_word};
use super::spec::PackageSpec;
use super::{
    EnvironmentRecipe, VersionList, VersionQuery, ask_tool, prepend_to_variable, project,
    refuse_unknown_name, refuse_with_hint,
};
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Matches the line with the reason of an error; the first line contains only its code.
const ERROR_LINES: &str = "^npm (error|ERR!) ([^c ]|c[^o]|co[^d])";

/// Lists the versions in the registry.
pub(super) fn list_versions(
    query: &VersionQuery,
    spec: &PackageSpec,
) -> Result<VersionList, Diagnostic> {
    let name = &spec.name;
    let output = ask_tool(query, "npm", &["view", name, "versions", "--json"])?;
    let listed: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    let versions: Vec<_> = match &listed {
        Value::Array(versions) => versions.iter().filter_map(Value::as_str).collect(),
        Value::String(version) => vec![version.as_str()],
        _ => Vec::new(),
    };
    if output.fine && !versions.is_empty() {
        return Ok(VersionList {
            versions: versions.into_iter().map(str::to_owned).collect(),
            notes: Vec::new(),
        });
    }
    let error = &listed["error"];
    if error["code"] == "E404" {
        let (_, manifest) = find_project(query.folder).unwrap_or_default();
        return refuse_unknown_name(spec, dependency_names(&manifest));
    }
    let summary = error["summary"]
        .as_str()
        .filter(|summary| !summary.is_empty());
    refuse_with_hint(
        format!(
            "npm does not list {name}: {}",
            summary.unwrap_or_else(|| output.failure_line())
        ),
        format!("does `npm view {name} versions` work? A list is not needed for {name}==A,B,C"),
    )
}

/// Returns the recipe that installs a version.
pub(super) fn install_recipe(
    query: &VersionQuery,
    spec: &PackageSpec,
) -> (EnvironmentRecipe, Vec<String>) {
    let install = "npm install --no-audit --no-fund --loglevel=error";
    let package = quote_word(&format!("{}@{{variant}}", spec.name));
    let folder = query
        .folder
        .canonicalize()
        .unwrap_or_else(|_| query.folder.to_owned());
    let Some((root, manifest)) = find_project(&folder) else {
        // npm reads the settings from the folder into which it installs.
        let mut script = "[ ! -e .npmrc ] || cp .npmrc \"$PROVOKE_MADE/\" || exit\n".to_owned();
        let install = format!("{install} --no-save --prefix \"$PROVOKE_MADE\" {package}");
        script += &script::run_command_lines(&install, ERROR_LINES);
        let recipe = EnvironmentRecipe {
            script,
            path: vec!["{made}/node_modules/.bin".to_owned()],
            env: vec![prepend_to_variable(
                "NODE_PATH",
                vec!["{made}/node_modules".to_owned()],
            )],
            cwd: None,
            shared: !folder.join(".npmrc").exists(),
        };
        let note = "there is no package.json, so NODE_PATH is used, which works for `require` but not for `import`";
        return (recipe, vec![note.to_owned()]);
    };
    let inside = folder.strip_prefix(&root).unwrap_or(Path::new(""));
    let mut script = project::copy_project_lines(&root, inside);
    script += &script::run_command_lines(&format!("{install} {package}"), ERROR_LINES);
    let cwd = project::path_below("src", inside);
    let mut path = vec![format!("{{made}}/{cwd}/node_modules/.bin")];
    if cwd != "src" {
        path.push("{made}/src/node_modules/.bin".to_owned());
    }
    let mut notes = vec![format!(
        "each version is tested in a copy of `{}`",
        root.to_safe()
    )];
    if !dependency_names(&manifest).any(|name| name == spec.name) {
        notes.push(format!(
            "package.json does not list {}: other packages may bring another version of it",
            spec.name
        ));
    }
    let recipe = EnvironmentRecipe {
        script,
        path,
        env: Vec::new(),
        cwd: Some(cwd),
        shared: false,
    };
    (recipe, notes)
}

/// Returns the folder and manifest of the project around a folder. A workspace is one project.
fn find_project(folder: &Path) -> Option<(PathBuf, Value)> {
    let read = |folder: &Path| {
        let text = fs::read_to_string(folder.join("package.json")).ok()?;
        Some((
            folder.to_owned(),
            serde_json::from_str(&text).unwrap_or_default(),
        ))
    };
    let mut projects = folder.ancestors().filter_map(read);
    let nearest = projects.next()?;
    let workspace =
        projects.find(|(_, manifest): &(PathBuf, Value)| !manifest["workspaces"].is_null());
    workspace.or(Some(nearest))
}

/// Returns the names of a project's dependencies.
fn dependency_names(manifest: &Value) -> impl Iterator<Item = String> {
    let kinds = ["dependencies", "devDependencies", "optionalDependencies"].into_iter();
    let names = kinds.filter_map(|kind| manifest[kind].as_object());
    names.flat_map(|names| names.keys().cloned())
}
