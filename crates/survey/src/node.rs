//! Collects the packages that a Node.js program can load.

use super::file_names::{is_one_of, names_in};
use provoke_autopsy::CommandEnvironment;
use provoke_model::Survey;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Limit of packages.
const PACKAGES: usize = 2_000;
/// Limit of bytes of a package's `package.json`.
const LARGEST: u64 = 1 << 20;

const RUNTIMES: [&str; 4] = ["bun", "deno", "node", "nodejs"];

pub(super) fn survey_node(
    survey: &mut Survey,
    chain: &[PathBuf],
    environment: &CommandEnvironment<'_>,
) {
    if !chain.iter().any(|file| is_one_of(file, &RUNTIMES)) {
        return;
    }
    let mut folders = environment
        .cwd
        .ancestors()
        .map(|folder| folder.join("node_modules"));
    let Some(modules) = folders.find(|folder| folder.is_dir()) else {
        return;
    };
    for name in package_names(&modules) {
        survey.set_if(
            format!("node.{name}"),
            package_version(&modules.join(&name)),
        );
    }
}

/// Returns the names of the top-level packages, including the scope of scoped packages.
fn package_names(modules: &Path) -> Vec<String> {
    let names = names_in(modules, PACKAGES)
        .into_iter()
        .filter(|name| !name.starts_with('.'));
    let names_found = names.flat_map(|name| {
        if !name.starts_with('@') {
            return vec![name];
        }
        let scope = names_in(&modules.join(&name), PACKAGES).into_iter();
        scope.map(|inner| format!("{name}/{inner}")).collect()
    });
    names_found.take(PACKAGES).collect()
}

fn package_version(package: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct NodePackage {
        version: Option<String>,
    }
    let file = package.join("package.json");
    if fs::metadata(&file).ok()?.len() >= LARGEST {
        return None;
    }
    let text = fs::read(&file).ok()?;
    serde_json::from_slice::<NodePackage>(&text).ok()?.version
}
