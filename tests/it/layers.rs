//! Tests that the table of modules in `src/lib.rs` matches the code.
//!
//! A module is a file or folder of this package, a crate of the workspace, or a module of such a crate. `src/lib.rs`
//! says where: `pub mod NAME`, `pub use provoke_CRATE as NAME`, or `pub use provoke_CRATE::NAME`.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A row of the table.
struct Layer {
    name: String,
    /// Crate of the workspace that the module is or belongs to, as `provoke_sys`; `None` for this package.
    owner: Option<String>,
    /// The module is the whole crate, without the modules that have their own rows.
    is_crate: bool,
    /// Modules that it may use.
    modules: BTreeSet<String>,
    /// Crates that it may use.
    crates: BTreeSet<String>,
}

impl Layer {
    /// Returns the folder of the package that contains the module.
    fn package(&self) -> PathBuf {
        self.owner
            .as_deref()
            .map_or_else(PathBuf::new, crate_folder)
    }
}

fn crate_folder(name: &str) -> PathBuf {
    Path::new("crates").join(name.trim_start_matches("provoke_"))
}

/// The table, with the code of each module.
struct Layers {
    rows: Vec<Layer>,
}

impl Layers {
    fn from_library() -> Self {
        let text = fs::read_to_string("src/lib.rs").unwrap();
        let row = Regex::new(r"(?m)^//! \| `(\w+)` \|[^|]*\|([^|]*)\|([^|]*)\|$").unwrap();
        let words = |cell: &str| {
            cell.split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let mut places = module_places(&text);
        let rows: Vec<Layer> = row
            .captures_iter(&text)
            .map(|cells| {
                let name = cells[1].to_owned();
                let place = places.remove(&name);
                let (owner, is_crate) =
                    place.unwrap_or_else(|| panic!("the table names `{name}`, `lib.rs` does not"));
                Layer {
                    name,
                    owner,
                    is_crate,
                    modules: words(&cells[2]),
                    crates: words(&cells[3]),
                }
            })
            .collect();
        assert!(places.is_empty(), "not in the table: {places:?}");
        Self { rows }
    }

    fn named(&self, name: &str) -> Option<&Layer> {
        self.rows.iter().find(|layer| layer.name == name)
    }

    /// Returns the module that a crate of the workspace is in the table.
    fn of_crate(&self, name: &str) -> Option<&Layer> {
        let mut rows = self.rows.iter();
        rows.find(|layer| layer.is_crate && layer.owner.as_deref() == Some(name))
    }

    /// Returns the module that code of `user` means by a path that begins with these two names.
    fn target<'a>(&'a self, user: &'a Layer, root: &str, name: &str) -> Option<&'a Layer> {
        let owner = match (root, user.owner.as_deref()) {
            ("crate", None) => return self.named(name),
            // A path inside of a module; `src/lib.rs` alone is above the modules of this package.
            ("super", None) => return None,
            ("crate" | "super", Some(own)) => own,
            (other, _) => other,
        };
        let is_part = |layer: &&Layer| !layer.is_crate && layer.owner.as_deref() == Some(owner);
        match self.named(name).filter(is_part) {
            None if root == "super" => None,
            None => self.of_crate(owner),
            part => part,
        }
    }

    /// Returns the code of a module without its comments and its unit tests.
    fn code(&self, layer: &Layer) -> String {
        let folder = layer.package().join("src");
        let inner = |first: &str| {
            let owned = self.rows.iter().filter(|row| row.owner == layer.owner);
            owned
                .filter(|row| !row.is_crate)
                .any(|row| row.name == first)
        };
        let files = sources(&folder).into_iter().filter(|path| {
            let first = path.strip_prefix(&folder).unwrap().iter().next().unwrap();
            let first = Path::new(first).file_stem().unwrap().to_str().unwrap();
            let belongs = if layer.is_crate {
                !inner(first)
            } else {
                first == layer.name
            };
            belongs && path.file_stem().is_some_and(|stem| stem != "tests")
        });
        let text: Vec<String> = files.map(|path| code_of_file(&path)).collect();
        text.join("\n")
    }

    /// Returns the modules that a module uses.
    fn modules_used(&self, layer: &Layer) -> BTreeSet<String> {
        let path = Regex::new(r"\b(?:super::)*(crate|super|provoke_\w+)::(\w+|\{)").unwrap();
        let whole = Regex::new(r"\buse (provoke_\w+) as\b").unwrap();
        let code = self.code(layer);
        let parts = path
            .captures_iter(&code)
            .filter_map(|found| self.target(layer, &found[1], &found[2]));
        let crates = whole
            .captures_iter(&code)
            .filter_map(|found| self.of_crate(&found[1]));
        parts
            .chain(crates)
            .filter(|target| target.name != layer.name)
            .map(|target| target.name.clone())
            .collect()
    }

    /// Returns the crates that a module uses, without those that are modules.
    ///
    /// The code of this package names the modules in other crates `crate::NAME`, so each has one name.
    fn crates_used(&self, layer: &Layer) -> BTreeSet<String> {
        let code = self.code(layer);
        let names = dependencies(&layer.package()).into_iter();
        names
            .filter(|name| {
                let path = Regex::new(&format!(r"\b{name}::|use {name}\b")).unwrap();
                path.is_match(&code) && (layer.owner.is_none() || self.of_crate(name).is_none())
            })
            .collect()
    }
}

/// Returns where `src/lib.rs` has its modules: for each, the crate, and whether the module is the whole crate.
fn module_places(library: &str) -> BTreeMap<String, (Option<String>, bool)> {
    let own = Regex::new(r"(?m)^pub mod (\w+);").unwrap();
    let whole = Regex::new(r"(?m)^pub use (provoke_\w+) as (\w+);").unwrap();
    let part = Regex::new(r"(?m)^pub use (provoke_\w+)::(\w+);").unwrap();
    let own = own
        .captures_iter(library)
        .map(|found| (found[1].to_owned(), (None, false)));
    let of_crate = |found: regex::Captures<'_>, is_crate| {
        (found[2].to_owned(), (Some(found[1].to_owned()), is_crate))
    };
    own.chain(
        whole
            .captures_iter(library)
            .map(|found| of_crate(found, true)),
    )
    .chain(
        part.captures_iter(library)
            .map(|found| of_crate(found, false)),
    )
    .collect()
}

/// Returns the files in a directory and below it.
pub(crate) fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                sources(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Returns the source files of all packages, sorted.
pub(crate) fn all_sources() -> Vec<PathBuf> {
    let folders = fs::read_dir("crates").unwrap();
    let folders = folders.map(|entry| entry.unwrap().path().join("src"));
    let files = folders
        .chain([PathBuf::from("src")])
        .flat_map(|folder| sources(&folder));
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .collect();
    files.sort();
    files
}

/// Returns the code of a file without its comments and its unit tests.
pub(crate) fn code_of_file(path: &Path) -> String {
    let comment = Regex::new(r"(?m)//.*$").unwrap();
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    comment.replace_all(code, "").into_owned()
}

/// Returns the crates that a package depends on.
fn dependencies(package: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let names = manifest["dependencies"].as_table().unwrap().keys();
    names.map(|name| name.replace('-', "_")).collect()
}

#[test]
fn every_module_uses_exactly_the_modules_and_crates_of_the_table() {
    let layers = Layers::from_library();
    let mut wrong = Vec::new();
    for layer in &layers.rows {
        assert!(!layers.code(layer).is_empty(), "`{}` is empty", layer.name);
        if !layer.modules.contains("all") {
            let used = layers.modules_used(layer);
            let extra = used.difference(&layer.modules);
            wrong.extend(extra.map(|name| format!("{} uses {name}", layer.name)));
            let missing = layer.modules.difference(&used);
            wrong.extend(missing.map(|name| format!("{} does not use {name}", layer.name)));
        }
        let used = layers.crates_used(layer);
        let extra = used.difference(&layer.crates);
        wrong.extend(extra.map(|name| format!("{} uses the crate {name}", layer.name)));
        let missing = layer.crates.difference(&used);
        wrong.extend(missing.map(|name| format!("{} does not use the crate {name}", layer.name)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_crate_depends_on_exactly_the_crates_of_the_table() {
    let layers = Layers::from_library();
    for entry in fs::read_dir("crates").unwrap() {
        let folder = entry.unwrap().path();
        let depends = dependencies(&folder);
        let owned = |layer: &&Layer| layer.owner.is_some() && layer.package() == folder;
        let rows: Vec<&Layer> = layers.rows.iter().filter(owned).collect();
        if rows.is_empty() {
            // The statistics, the program that misbehaves and the needs of tests know at most the shared types.
            let own = depends
                .iter()
                .find(|name| name.starts_with("provoke_") && *name != "provoke_model");
            assert_eq!(own, None, "{folder:?}");
            continue;
        }
        let of_modules = rows
            .iter()
            .flat_map(|layer| &layer.modules)
            .filter_map(|name| {
                let owner = layers
                    .named(name)
                    .and_then(|layer| layer.owner.clone())
                    .unwrap_or_else(|| panic!("`{name}` is not below {folder:?}"));
                (crate_folder(&owner) != folder).then_some(owner)
            });
        let crates = rows.iter().flat_map(|layer| layer.crates.iter().cloned());
        let allowed: BTreeSet<String> = of_modules.chain(crates).collect();
        assert_eq!(depends, allowed, "{folder:?}");
    }
}

#[test]
fn the_layers_have_no_cycle() {
    let layers = Layers::from_library();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut left: Vec<&Layer> = layers.rows.iter().collect();
    left.retain(|layer| layer.name != "cli");
    while !left.is_empty() {
        let (ready, waiting): (Vec<&Layer>, Vec<&Layer>) = left
            .into_iter()
            .partition(|layer| layer.modules.is_subset(&known));
        let names: Vec<&String> = waiting.iter().map(|layer| &layer.name).collect();
        assert!(!ready.is_empty(), "a cycle among {names:?}");
        known.extend(ready.iter().map(|layer| layer.name.clone()));
        left = waiting;
    }
}

#[test]
fn all_questions_are_listed_in_one_file_and_created_by_the_scenario() {
    let names = Regex::new(r"\bQuestion::[A-Z]\w+").unwrap();
    let layers = Layers::from_library();
    let users: BTreeSet<&str> = layers
        .rows
        .iter()
        .filter(|layer| names.is_match(&layers.code(layer)))
        .map(|layer| layer.name.as_str())
        .collect();
    assert_eq!(users, BTreeSet::from(["questions", "scenario"]));
    let files = sources(Path::new("crates/questions/src")).into_iter();
    let lists: Vec<PathBuf> = files
        .filter(|path| names.is_match(&fs::read_to_string(path).unwrap()))
        .collect();
    assert_eq!(lists, [Path::new("crates/questions/src/lib.rs")]);
}

#[test]
fn files_are_mapped_and_cores_analysed_only_in_the_process_for_that() {
    let users = |call: &str| -> Vec<PathBuf> {
        let mut files = all_sources();
        files.retain(|path| code_of_file(path).contains(call));
        files
    };
    let of_autopsy = |path: &PathBuf| path.starts_with("crates/autopsy/src");
    let mappers = users("map_program(");
    let (readers, others): (Vec<_>, Vec<_>) = mappers.into_iter().partition(of_autopsy);
    assert!(!readers.is_empty());
    assert_eq!(others, [Path::new("crates/sys/src/files.rs")]);
    let process = Path::new("crates/autopsy/src/examiner_process.rs");
    assert_eq!(users("Examiner::new("), [process]);
}

/// Modules of the main package whose files do not use each other in a cycle.
const UNTANGLED_MODULES: [&str; 3] = ["cli", "experiment", "term"];

/// Crates whose files do not use each other in a cycle.
const UNTANGLED_CRATES: [&str; 18] = [
    "autopsy",
    "cases",
    "driver",
    "exec",
    "holds",
    "load",
    "model",
    "packages",
    "prepare",
    "questions",
    "report",
    "scenario",
    "slot",
    "source",
    "stats",
    "survey",
    "sys",
    "workers",
];

/// The files that each file of a module uses, by their module paths: `cli::run` for `src/cli/run.rs`.
type FileUses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Returns the files of a module that each of its files uses. `mod.rs` and `lib.rs` are left out: they declare the others.
fn uses_within(root: &str, folder: &str) -> FileUses {
    let files: BTreeMap<Vec<String>, PathBuf> = sources(Path::new(folder))
        .into_iter()
        .filter(|path| {
            let stem = path.file_stem().unwrap();
            stem != "mod"
                && stem != "lib"
                && stem != "tests"
                && path.extension().is_some_and(|end| end == "rs")
        })
        .map(|path| {
            let inside = path.strip_prefix(root).unwrap().with_extension("");
            let names = inside.iter().map(|name| name.to_str().unwrap());
            (names.map(str::to_owned).collect(), path)
        })
        .collect();
    let uses = files.iter().map(|(name, path)| {
        let named = paths_in(&code_of_file(path), name).into_iter();
        let used = named.filter_map(|path| {
            let prefixes = (1..=path.len()).rev().map(|length| &path[..length]);
            let mut known = prefixes.filter(|prefix| files.contains_key(*prefix));
            known.next().map(<[String]>::to_vec)
        });
        (name.clone(), used.filter(|used| used != name).collect())
    });
    uses.collect()
}

/// Returns the paths in the code of a module that begin with `crate` or `super`.
fn paths_in(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let path =
        Regex::new(r"\b(crate::|(?:super::)+)((?:\w+::)*)(?:(\w+)|\{((?:[^{}]|\{[^{}]*\})*)\})")
            .unwrap();
    let item = Regex::new(r"(?:^|[,{])\s*((?:\w+::)*\w+)").unwrap();
    let split = |text: &str| -> Vec<String> {
        let names = text.split("::").filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    let found = path.captures_iter(code).flat_map(|cells| {
        let above = cells[1].matches("super").count();
        let base = match above {
            0 => Vec::new(),
            above => module[..module.len().saturating_sub(above)].to_vec(),
        };
        let base = [base, split(&cells[2])].concat();
        let items: Vec<Vec<String>> = match (cells.get(3), cells.get(4)) {
            (Some(name), _) => vec![split(name.as_str())],
            (None, group) => {
                let group = group.unwrap().as_str();
                item.captures_iter(group)
                    .map(|cells| split(&cells[1]))
                    .collect()
            }
        };
        let paths = items
            .into_iter()
            .map(move |item| [base.clone(), item].concat());
        paths.collect::<Vec<_>>()
    });
    found.collect()
}

/// Removes the files that no cycle can contain, until only files of cycles and between them are left.
fn cycles_in(mut uses: FileUses) -> FileUses {
    loop {
        let left = uses.len();
        let used: BTreeSet<Vec<String>> = uses.values().flatten().cloned().collect();
        uses.retain(|name, _| used.contains(name));
        let names: BTreeSet<Vec<String>> = uses.keys().cloned().collect();
        for used in uses.values_mut() {
            used.retain(|name| names.contains(name));
        }
        uses.retain(|_, used| !used.is_empty());
        if uses.len() == left {
            return uses;
        }
    }
}

#[test]
fn the_files_of_a_module_use_each_other_in_one_direction() {
    let modules = UNTANGLED_MODULES.map(|name| ("src".to_owned(), format!("src/{name}")));
    let crates = UNTANGLED_CRATES.map(|name| format!("crates/{name}/src"));
    let crates = crates.map(|folder| (folder.clone(), folder));
    for (root, folder) in modules.iter().chain(&crates) {
        let uses = uses_within(root, folder);
        assert!(uses.values().any(|used| !used.is_empty()), "{folder}");
        let cycles = cycles_in(uses);
        assert!(cycles.is_empty(), "{cycles:#?}");
    }
}

#[test]
fn a_cycle_of_files_is_found_through_any_form_of_path() {
    let name = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    let paths = |code: &str, module: &str| -> BTreeSet<Vec<String>> {
        paths_in(code, &name(module)).into_iter().collect()
    };
    let uses: FileUses = [
        ("m::a", "use super::{\n    b::{X, Y},\n    other,\n};"),
        ("m::b", "fn f() -> crate::m::s::c::Z {}"),
        ("m::s::c", "use super::super::a::W;"),
        ("m::s::d", "use super::c;"),
    ]
    .into_iter()
    .map(|(module, code)| {
        let shortened = paths(code, module).into_iter().map(|path| {
            let is_type = |part: &String| part.starts_with(char::is_uppercase);
            path.into_iter().filter(|part| !is_type(part)).collect()
        });
        (name(module), shortened.collect())
    })
    .collect();
    let cycle = cycles_in(uses);
    let names: Vec<String> = cycle.keys().map(|name| name.join("::")).collect();
    assert_eq!(names, ["m::a", "m::b", "m::s::c"]);
}
