//! Lists the versions of a package, makes environments with one of them, and compares environments.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests show names that they made")
)]

mod apt;
mod cargo;
mod cargo_build;
mod difference;
mod npm;
mod order;
mod pip;
mod project;
mod requirements;
mod script;
mod spec;

pub use cargo_build::{builds_other_profile, cargo_build_of};
pub use difference::{
    EntryDifference, EntryKind, EnvironmentComparison, EnvironmentEntries, compare_files,
    compare_parts,
};
pub use pip::Pip;

use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use spec::{PackageSpec, VersionSelection};
use std::cmp::Ordering;
use std::path::Path;
use std::process::Command;

/// A tool that installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackageManager {
    /// Python; `uv` installs packages if it is available.
    Pip,
    /// Rust.
    Cargo,
    /// Debian and its derivatives.
    Apt,
    /// Node.js.
    Npm,
}

/// Parameters of a query.
#[derive(Clone, Copy, Debug)]
pub struct VersionQuery<'a> {
    /// Tool that manages the package.
    pub manager: PackageManager,
    /// `NAME`, `NAME==A..B` or `NAME==A,B,C`.
    pub spec: &'a str,
    /// Working directory of the trials.
    pub folder: &'a Path,
    /// Additional environment variables of the tool.
    pub env: &'a [(String, String)],
    /// For pip: a requirements file with the other packages.
    pub requirements: Option<&'a Path>,
    /// For pip: a constraints file.
    pub constraints: Option<&'a Path>,
    /// For pip: the interpreter, by default `python3`.
    pub python: Option<&'a str>,
    /// For cargo: the build command, by default `cargo build`.
    pub build: Option<&'a str>,
}

/// Versions of a package, and the recipe for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageVersions {
    /// Name of the package.
    pub package: String,
    /// Versions, the oldest first, or in the order in which the user named them.
    pub versions: Vec<String>,
    /// Recipe for an environment with one of the versions.
    pub recipe: EnvironmentRecipe,
    /// Notes for the user: the tool that is used, and versions that were left out.
    pub notes: Vec<String>,
}

/// How to create and use an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentRecipe {
    /// Script for `sh`, with the absolute path of an empty folder in `PROVOKE_MADE`; `{variant}`
    /// stands for the version. If it fails, its last line contains the reason.
    pub script: String,
    /// Folders to put before `PATH`; `{made}` stands for the folder, here and below.
    pub path: Vec<String>,
    /// Environment variables of the trials.
    pub env: Vec<(String, String)>,
    /// Working directory of the trials below the folder, if it changes.
    pub cwd: Option<String>,
    /// The script contains all dependencies, so that the result can be reused by later runs.
    pub shared: bool,
}

fn refuse_with_hint<T>(message: String, hint: impl Into<String>) -> Result<T, Diagnostic> {
    Err(Diagnostic::usage(message).with_hint(hint))
}

impl PackageManager {
    /// Returns the name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Apt => "apt",
            Self::Npm => "npm",
        }
    }

    fn compare_versions(self, a: &str, b: &str) -> Ordering {
        match self {
            Self::Pip => order::compare_python(a, b),
            Self::Cargo | Self::Npm => order::compare_semantic(a, b),
            Self::Apt => order::compare_debian(a, b),
        }
    }

    /// Returns whether a version is a pre-release. Debian does not distinguish pre-releases from
    /// backports.
    fn is_pre(self, version: &str) -> bool {
        match self {
            Self::Pip => order::is_python_pre(version),
            Self::Cargo | Self::Npm => order::is_semantic_pre(version),
            Self::Apt => false,
        }
    }
}

/// List of versions from a tool.
#[derive(Default)]
struct VersionList {
    versions: Vec<String>,
    notes: Vec<String>,
}

/// Returns the selected versions of a package, and the recipe for an environment with one of them.
pub fn find_versions(query: &VersionQuery) -> Result<PackageVersions, Diagnostic> {
    let spec = PackageSpec::parse(query.manager, query.spec)?;
    // Versions that the user names are accepted without a listing, because a listing may be
    // incomplete.
    let listed = |list: &dyn Fn() -> Result<VersionList, Diagnostic>| match &spec.choice {
        VersionSelection::Named(versions) => Ok(VersionList {
            versions: versions.clone(),
            notes: Vec::new(),
        }),
        VersionSelection::Between(..) => list().and_then(|listing| spec.choose_versions(listing)),
    };
    let (listing, (recipe, notes)) = match query.manager {
        PackageManager::Pip => {
            let pip = Pip::find_interpreter(query)?;
            let extra = pip::ExtraPackages::read_files(query, &spec)?;
            let listing = listed(&|| pip.list_versions(&spec, &extra))?;
            (listing, pip.install_recipe(&spec, &extra))
        }
        PackageManager::Cargo => {
            let project = cargo::CargoProject::find_around(query, &spec)?;
            let mut listing = listed(&|| cargo::list_versions(query, &spec))?;
            if let VersionSelection::Named(named) = &spec.choice {
                listing.notes = cargo::yanked_versions(query, &spec, named);
            }
            (listing, project.build_recipe(query, &spec))
        }
        PackageManager::Apt => (
            listed(&|| apt::list_versions(query, &spec))?,
            apt::unpack_recipe(&spec),
        ),
        PackageManager::Npm => (
            listed(&|| npm::list_versions(query, &spec))?,
            npm::install_recipe(query, &spec),
        ),
    };
    Ok(PackageVersions {
        package: spec.name,
        versions: listing.versions,
        recipe,
        notes: [notes, listing.notes].concat(),
    })
}

/// Result of a tool.
struct ToolOutput {
    fine: bool,
    stdout: String,
    err: String,
}

impl ToolOutput {
    /// Returns the line that explains best why the tool failed.
    fn failure_line(&self) -> &str {
        let lines = || self.err.lines().map(str::trim);
        let error_line = |line: &&str| {
            let line = line.to_ascii_lowercase();
            line.starts_with("error") || line.starts_with("e:") || line.starts_with("npm err")
        };
        let last = || lines().rfind(|line| !line.is_empty());
        lines()
            .find(error_line)
            .or_else(last)
            .unwrap_or("no reason given")
    }
}

/// Runs a tool in the working directory of the trials.
fn ask_tool(query: &VersionQuery, program: &str, args: &[&str]) -> Result<ToolOutput, Diagnostic> {
    let mut command = Command::new(program);
    command.args(args).current_dir(query.folder);
    // The output is parsed, so it must be in English.
    command.env("LC_ALL", "C");
    command.envs(query.env.iter().map(|(name, value)| (name, value)));
    match command.output() {
        Ok(output) => Ok(ToolOutput {
            fine: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }),
        Err(error) => refuse_with_hint(
            format!("cannot run `{program}`: {error}"),
            format!(
                "is it installed, and is `{}` a directory?",
                query.folder.to_safe()
            ),
        ),
    }
}

/// Returns the error for a name that a tool does not know, with similar known names.
fn refuse_unknown_name<T>(
    spec: &PackageSpec,
    known_names: impl IntoIterator<Item = String>,
) -> Result<T, Diagnostic> {
    let (tool, name) = (spec.manager.name(), &spec.name);
    let near = spec::similar_names(name, known_names);
    let hint = if near.is_empty() {
        format!("check its spelling and the package sources of {tool}")
    } else {
        format!("did you mean {near}?")
    };
    refuse_with_hint(format!("{tool} knows no package `{name}`"), hint)
}

/// Returns a variable whose value is put before the value that this process has.
fn prepend_to_variable(name: &str, mut value: Vec<String>) -> (String, String) {
    value.extend(
        std::env::var(name)
            .ok()
            .filter(|old_value| !old_value.is_empty()),
    );
    (name.to_owned(), value.join(":"))
}
