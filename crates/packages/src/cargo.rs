//! Crates of Rust: cargo's copy of the registry index lists the versions. A version is tried in a
//! copy of the project.

use super::requirements::cannot_read;
use super::script::{self, quote_word};
use super::spec::{PackageSpec, SHOWN};
use super::{
    EnvironmentRecipe, VersionList, VersionQuery, ask_tool, project, refuse_unknown_name,
    refuse_with_hint,
};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A requirement that no version meets: cargo downloads the index entry of the crate, and nothing
/// else.
const NONE: &str = "=0.0.0-provoke";

/// The project of the user.
pub(super) struct CargoProject {
    /// Root folder of the workspace.
    root: PathBuf,
    /// Working directory of the trials, relative to the root.
    inside: PathBuf,
    /// `cargo add` commands for each package that depends on the crate, with all settings of the
    /// dependency except for the version, which is appended.
    adds: Vec<String>,
}

impl CargoProject {
    /// Finds the project around the folder of the trials, and its dependencies on the crate.
    pub(super) fn find_around(
        query: &VersionQuery,
        spec: &PackageSpec,
    ) -> Result<Self, Diagnostic> {
        let outside = |message: String| {
            refuse_with_hint(
                message,
                "change to a project that depends on the crate, or set --cwd",
            )
        };
        let output = ask_tool(
            query,
            "cargo",
            &["metadata", "--no-deps", "--format-version", "1"],
        )?;
        let cargo_metadata: Option<Value> = serde_json::from_str(&output.stdout).ok();
        let root = cargo_metadata
            .as_ref()
            .and_then(|metadata| metadata["workspace_root"].as_str());
        let (Some(metadata), Some(root)) = (&cargo_metadata, root) else {
            return outside(format!(
                "this is not a Cargo project: {}",
                output.failure_line()
            ));
        };
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (root, folder) = (real(Path::new(root)), real(query.folder));
        let Ok(inside) = folder.strip_prefix(&root).map(Path::to_owned) else {
            let (folder, root) = (folder.to_safe(), root.to_safe());
            return outside(format!("`{folder}` is not in its workspace `{root}`"));
        };
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut members = Vec::new();
        let mut adds = Vec::new();
        for package in packages {
            for dependency in package["dependencies"].as_array().into_iter().flatten() {
                let name = dependency["name"].as_str().unwrap_or_default();
                members.push(name.to_owned());
                if name == spec.name && dependency["path"].is_null() {
                    adds.push(add_command(
                        package["name"].as_str().unwrap_or_default(),
                        dependency,
                    ));
                }
            }
        }
        let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
        let locked = lock
            .lines()
            .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        members.extend(locked.map(str::to_owned));
        if !members.contains(&spec.name) {
            let near = super::spec::similar_names(&spec.name, members);
            let hint = if near.is_empty() {
                "`cargo tree` lists its dependencies".to_owned()
            } else {
                format!("did you mean {near}?")
            };
            let message = format!(
                "`{}` does not depend on the crate `{}`",
                root.to_safe(),
                spec.name
            );
            return refuse_with_hint(message, hint);
        }
        Ok(Self { root, inside, adds })
    }

    /// Returns the recipe that selects a version in a copy of the project, and builds it.
    pub(super) fn build_recipe(
        &self,
        query: &VersionQuery,
        spec: &PackageSpec,
    ) -> (EnvironmentRecipe, Vec<String>) {
        let build = query.build.unwrap_or("cargo build");
        let name = quote_word(&spec.name);
        // If the manifests permit the version, only the lock file changes.
        let mut set = format!("cargo update --quiet -p {name} --precise '{{variant}}'");
        if !self.adds.is_empty() {
            let require = |version: &str| {
                let add = |add: &String| format!("{add}{}", quote_word(&format!("@{version}")));
                self.adds.iter().map(add).collect::<Vec<_>>().join(" && ")
            };
            let (exactly, any_version) = (require("={variant}"), require("*"));
            // A yanked version can only be put into the lock file, and only if a requirement
            // permits it.
            set =
                format!("{set} || {{ : >\"$log\"; {exactly}; }} || {{ {any_version} && {set}; }}");
        }
        let mut script = project::copy_project_lines(&self.root, &self.inside);
        // Keep the usual path of the build output, because a command may contain it.
        script += "ln -s \"$PROVOKE_MADE/target\" \"$PROVOKE_MADE/src/target\" || exit\n";
        script += "export CARGO_TARGET_DIR=\"$PROVOKE_MADE/target\"\n";
        script += &script::run_command_lines(&set, "^error");
        script += &script::run_command_lines(build, "^error");
        let path = ["debug", "release"].map(|profile| format!("{{made}}/target/{profile}"));
        let recipe = EnvironmentRecipe {
            script,
            path: path.to_vec(),
            env: vec![("CARGO_TARGET_DIR".to_owned(), "{made}/target".to_owned())],
            cwd: Some(project::path_below("src", &self.inside)),
            shared: false,
        };
        let root = self.root.to_safe();
        let notes = vec![format!(
            "each version is tested in a copy of `{root}`, built by `{build}`"
        )];
        (recipe, notes)
    }
}

/// Returns the command that sets the version requirement of a package's dependency, and keeps its
/// other settings.
fn add_command(package: &str, dependency: &Value) -> String {
    let mut command = format!("cargo add --quiet --package {}", quote_word(package));
    let mut flag = |flag: &str, value: Option<&str>| {
        command = match value {
            Some(value) => format!("{command} {flag} {}", quote_word(value)),
            None => format!("{command} {flag}"),
        };
    };
    match dependency["kind"].as_str() {
        Some("dev") => flag("--dev", None),
        Some("build") => flag("--build", None),
        _ => {}
    }
    for key in ["target", "rename", "registry"] {
        // In the metadata the registry is a URL; its name is only in the manifest.
        if let Some(value) = dependency[key]
            .as_str()
            .filter(|value| !value.contains("://"))
        {
            flag(&format!("--{key}"), Some(value));
        }
    }
    if dependency["optional"] == true {
        flag("--optional", None);
    }
    if dependency["uses_default_features"] == false {
        flag("--no-default-features", None);
    }
    let features = dependency["features"].as_array().into_iter().flatten();
    for feature in features.filter_map(Value::as_str) {
        flag("--features", Some(feature));
    }
    let name = dependency["name"].as_str().unwrap_or_default();
    format!("{command} {name}")
}

/// Returns which of these versions are yanked, according to cargo's local index.
pub(super) fn yanked_versions(
    query: &VersionQuery,
    spec: &PackageSpec,
    named: &[String],
) -> Vec<String> {
    let index_text = cached_index_file(query, &spec.name).unwrap_or_default();
    let (_, yanked) = parse_entries(&index_text);
    let yanked: Vec<String> = named
        .iter()
        .filter(|version| yanked.contains(version))
        .cloned()
        .collect();
    if yanked.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "yanked, but tested because you named it: {} {}",
        spec.name,
        yanked.join(", ")
    )]
}

/// Lists the versions in the registry.
pub(super) fn list_versions(
    query: &VersionQuery,
    spec: &PackageSpec,
) -> Result<VersionList, Diagnostic> {
    let name = &spec.name;
    let folder = QueryFolder::new().map_err(|error| cannot_read(&std::env::temp_dir(), &error))?;
    let manifest = folder.0.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"provoke-asks\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\n{name} = \"{NONE}\"\n[workspace]\n"
    );
    fs::write(&manifest, text).map_err(|error| cannot_read(&manifest, &error))?;
    let _ = fs::write(folder.0.join("lib.rs"), "");
    let manifest = manifest.to_string_lossy();
    let output = ask_tool(
        query,
        "cargo",
        &["generate-lockfile", "--manifest-path", &manifest],
    )?;
    let Some(index_text) = cached_index_file(query, name) else {
        if output.err.contains("no matching package") {
            return refuse_unknown_name(spec, []);
        }
        return refuse_with_hint(
            format!("cargo does not list {name}: {}", output.failure_line()),
            format!("does `cargo info {name}` work? A list is not needed for {name}==A,B,C"),
        );
    };
    let mut notes = Vec::new();
    if !output.err.contains("candidate versions found") {
        notes.push(format!(
            "the registry does not respond ({}): using the versions known on this machine",
            output.failure_line()
        ));
    }
    let (versions, yanked) = parse_entries(&index_text);
    if !yanked.is_empty() {
        let yanked = words::list_first(&yanked, SHOWN);
        notes.push(format!(
            "left out: yanked versions ({yanked}); to test them, name them: {name}==A,B,C"
        ));
    }
    Ok(VersionList { versions, notes })
}

/// Temporary folder for one query.
struct QueryFolder(PathBuf);

impl QueryFolder {
    fn new() -> std::io::Result<Self> {
        let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = elapsed.unwrap_or_default().as_nanos();
        let path = std::env::temp_dir().join(format!("provoke-{}-{nanos}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for QueryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns cargo's local index entry of a crate. If several registries have the crate, the entry of
/// the last query counts.
fn cached_index_file(query: &VersionQuery, name: &str) -> Option<String> {
    let set = query
        .env
        .iter()
        .find(|(name, _)| name == "CARGO_HOME")
        .map(|(_, value)| PathBuf::from(value));
    let home = set
        .or_else(|| std::env::var_os("CARGO_HOME").map(PathBuf::from))
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let indices = fs::read_dir(query.folder.join(home).join("registry/index")).ok()?;
    let files = indices.filter_map(|index| {
        let file = index.ok()?.path().join(".cache").join(index_path(name));
        let age = fs::metadata(&file)
            .and_then(|metadata| metadata.modified())
            .ok()?;
        Some((age, file))
    });
    let (_, file) = files.max()?;
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// Returns the path of a crate in the index.
fn index_path(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    match name.len() {
        1 | 2 => format!("{}/{name}", name.len()),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    }
}

/// Returns all versions in an index file, and the yanked ones.
fn parse_entries(index_text: &str) -> (Vec<String>, Vec<String>) {
    let (mut versions, mut yanked) = (Vec::new(), Vec::new());
    for entry in index_text
        .split(['\0', '\n'])
        .filter(|entry| entry.starts_with('{'))
    {
        let entry: Value = serde_json::from_str(entry).unwrap_or_default();
        if let Some(version) = entry["vers"].as_str() {
            let list = if entry["yanked"] == true {
                &mut yanked
            } else {
                &mut versions
            };
            list.push(version.to_owned());
        }
    }
    (versions, yanked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_index_path_depends_on_the_length_of_the_name() {
        for (name, at) in [
            ("a", "1/a"),
            ("ab", "2/ab"),
            ("abc", "3/a/abc"),
            ("itoa", "it/oa/itoa"),
            ("SERDE_json", "se/rd/serde_json"),
        ] {
            assert_eq!(index_path(name), at);
        }
    }

    #[test]
    fn yanked_versions_are_listed_separately() {
        let kept = "\u{3}\u{2}\0\0\0etag: x\0v0.1.0\0{\"vers\":\"0.1.0\",\"yanked\":true}\0v0.2.0\0{\"vers\":\"0.2.0\",\"yanked\":false}\0";
        let expected = (vec!["0.2.0".to_owned()], vec!["0.1.0".to_owned()]);
        assert_eq!(parse_entries(kept), expected);
    }

    #[test]
    fn the_add_command_keeps_the_options_of_a_dependency() {
        let dependency = json!({
            "name": "itoa", "kind": "dev", "rename": "numbers", "optional": false,
            "uses_default_features": false, "features": ["i128"], "target": "cfg(unix)",
            "registry": null,
        });
        assert_eq!(
            add_command("mine", &dependency),
            "cargo add --quiet --package 'mine' --dev --target 'cfg(unix)' --rename 'numbers' \
             --no-default-features --features 'i128' itoa"
        );
    }
}
