//! Lists the versions of a package, makes environments with one of them, and compares environments.
//!
//! The package tools are asked, never their registries: whoever has set a mirror, a proxy or a
//! password has done so for the tool. What is made of the answer is a [`Recipe`], which somebody
//! else runs, for as many versions as a search turns out to need.

mod apt;
mod cargo;
mod difference;
mod npm;
mod order;
mod pip;
mod project;
mod requirements;
mod script;
mod spec;

pub use difference::{Comparison, Difference, Kind, Parts, compare, differences};
pub use pip::Pip;

use crate::untrusted::Untrusted as _;
use spec::{Choice, Spec};
use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tool that installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// Of Python; `uv` installs where it is there.
    Pip,
    /// Of Rust.
    Cargo,
    /// Of Debian and its kin.
    Apt,
    /// Of Node.
    Npm,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Whose package it is.
    pub manager: Manager,
    /// `NAME`, `NAME==A..B` or `NAME==A,B,C`.
    pub spec: &'a str,
    /// Where the trials run.
    pub folder: &'a Path,
    /// Variables that the tool sees besides those of this process.
    pub env: &'a [(String, String)],
    /// For pip: a file of what else is installed.
    pub requirements: Option<&'a Path>,
    /// For pip: a file of versions that others are held to.
    pub constraints: Option<&'a Path>,
    /// For pip: the interpreter, `python3` unless told.
    pub python: Option<&'a str>,
    /// For cargo: what is run once the version is set, `cargo build` unless told.
    pub build: Option<&'a str>,
}

/// Versions of a package, and how to get each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Its name.
    pub package: String,
    /// The oldest first, or in the order in which they were named.
    pub versions: Vec<String>,
    /// How an environment with one of them is made.
    pub recipe: Recipe,
    /// For people: who does it, and what was left out.
    pub notes: Vec<String>,
}

/// How an environment is made, and how it is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipe {
    /// For `sh`, with the absolute path of an empty folder in `PROVOKE_MADE`; `{variant}` stands
    /// for the version. When it fails, its last line says why.
    pub script: String,
    /// What is put before `PATH`; `{made}` stands for the folder, here and below.
    pub path: Vec<String>,
    /// Variables of the trials.
    pub env: Vec<(String, String)>,
    /// Where the trials run instead, below the folder.
    pub cwd: Option<String>,
    /// All it depends on is in the script, so that what is made can be kept between runs.
    pub shared: bool,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// What is asked for cannot be had.
    #[error("{what}")]
    Refused {
        /// What is wrong.
        what: String,
        /// The way out.
        hint: String,
    },
    /// A line of a file is not what it should be.
    #[error("{}:{line}:{column}: {what}: `{text}`", path.safe())]
    Line {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// Where in it, from 1.
        column: usize,
        /// What is wrong.
        what: &'static str,
        /// The line.
        text: String,
        /// The way out.
        hint: &'static str,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.safe())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Fault {
    /// Returns the way out.
    pub fn hint(&self) -> &str {
        match self {
            Self::Refused { hint, .. } => hint,
            Self::Line { hint, .. } => hint,
            Self::Io { .. } => "give the path of a readable file",
        }
    }
}

fn refused<T>(what: String, hint: impl Into<String>) -> Result<T, Fault> {
    let hint = hint.into();
    Err(Fault::Refused { what, hint })
}

impl Manager {
    /// Returns the name of the tool.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Apt => "apt",
            Self::Npm => "npm",
        }
    }

    fn compare(self, a: &str, b: &str) -> Ordering {
        match self {
            Self::Pip => order::python(a, b),
            Self::Cargo | Self::Npm => order::semantic(a, b),
            Self::Apt => order::debian(a, b),
        }
    }

    /// Says whether a version came before its release. Debian marks those no differently from
    /// backports.
    fn is_pre(self, version: &str) -> bool {
        match self {
            Self::Pip => order::is_python_pre(version),
            Self::Cargo | Self::Npm => order::is_semantic_pre(version),
            Self::Apt => false,
        }
    }
}

/// What a tool lists.
#[derive(Default)]
struct Listing {
    versions: Vec<String>,
    notes: Vec<String>,
}

/// Returns the versions of a package that are wanted, and how an environment with one is made.
pub fn versions(wanted: &Wanted) -> Result<Versions, Fault> {
    let spec = Spec::parse(wanted.manager, wanted.spec)?;
    // Versions that are named are taken as they are: also those that no listing shows.
    let listed = |list: &dyn Fn() -> Result<Listing, Fault>| match &spec.choice {
        Choice::Named(versions) => Ok(Listing {
            versions: versions.clone(),
            notes: Vec::new(),
        }),
        Choice::Between(..) => list().and_then(|listing| spec.choose(listing)),
    };
    let (listing, (recipe, notes)) = match wanted.manager {
        Manager::Pip => {
            let pip = Pip::find(wanted)?;
            let others = pip::Others::read(wanted, &spec)?;
            let listing = listed(&|| pip.list(&spec, &others))?;
            (listing, pip.recipe(&spec, &others))
        }
        Manager::Cargo => {
            let project = cargo::Project::find(wanted, &spec)?;
            let mut listing = listed(&|| cargo::list(wanted, &spec))?;
            if let Choice::Named(named) = &spec.choice {
                listing.notes = cargo::yanked(wanted, &spec, named);
            }
            (listing, project.recipe(wanted, &spec))
        }
        Manager::Apt => (listed(&|| apt::list(wanted, &spec))?, apt::recipe(&spec)),
        Manager::Npm => (
            listed(&|| npm::list(wanted, &spec))?,
            npm::recipe(wanted, &spec),
        ),
    };
    Ok(Versions {
        package: spec.name,
        versions: listing.versions,
        recipe,
        notes: [notes, listing.notes].concat(),
    })
}

/// What a tool said.
struct Said {
    fine: bool,
    out: String,
    err: String,
}

impl Said {
    /// Returns the line that says most about why it failed.
    fn why(&self) -> &str {
        let lines = || self.err.lines().map(str::trim);
        let telling = |line: &&str| {
            let line = line.to_ascii_lowercase();
            line.starts_with("error") || line.starts_with("e:") || line.starts_with("npm err")
        };
        let last = || lines().rfind(|line| !line.is_empty());
        lines()
            .find(telling)
            .or_else(last)
            .unwrap_or("no reason given")
    }
}

/// Asks a tool where the trials run.
fn ask(wanted: &Wanted, program: &str, args: &[&str]) -> Result<Said, Fault> {
    let mut command = Command::new(program);
    command.args(args).current_dir(wanted.folder);
    // What it says is read: it should say it in English.
    command.env("LC_ALL", "C");
    command.envs(wanted.env.iter().map(|(name, value)| (name, value)));
    match command.output() {
        Ok(done) => Ok(Said {
            fine: done.status.success(),
            out: String::from_utf8_lossy(&done.stdout).into_owned(),
            err: String::from_utf8_lossy(&done.stderr).into_owned(),
        }),
        Err(error) => refused(
            format!("cannot run `{program}`: {error}"),
            format!(
                "is it installed, and is `{}` a directory?",
                wanted.folder.safe()
            ),
        ),
    }
}

/// Refuses a name that a tool does not know, with those that may be meant.
fn unknown<T>(spec: &Spec, known: impl IntoIterator<Item = String>) -> Result<T, Fault> {
    let (tool, name) = (spec.manager.name(), &spec.name);
    let near = spec::near(name, known);
    let hint = if near.is_empty() {
        format!("check its spelling and the package sources of {tool}")
    } else {
        format!("did you mean {near}?")
    };
    refused(format!("{tool} knows no package `{name}`"), hint)
}

/// Returns a value with what this process has in a variable after it.
fn before(name: &str, mut value: Vec<String>) -> (String, String) {
    value.extend(std::env::var(name).ok().filter(|now| !now.is_empty()));
    (name.to_owned(), value.join(":"))
}
