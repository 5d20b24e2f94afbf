//! Tests that the table in `DESIGN.md` matches the crates and the modules of this package.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A row of the table: a crate in `crates/`, or a module of this package.
struct Layer {
    name: String,
    /// Crates and modules that it uses.
    uses: BTreeSet<String>,
}

impl Layer {
    /// Returns the folder of the crate; `None` for a module of this package.
    fn crate_folder(&self) -> Option<PathBuf> {
        let folder = Path::new("crates").join(&self.name);
        folder.exists().then_some(folder)
    }

    /// Returns the code without its comments and its unit tests.
    fn code(&self) -> String {
        let sources = match self.crate_folder() {
            Some(folder) => sources(&folder.join("src")),
            None => module_sources(&self.name),
        };
        let files = sources.iter().filter(|path| {
            path.extension().is_some_and(|kind| kind == "rs")
                && path.file_stem().is_some_and(|stem| stem != "tests")
        });
        let code: Vec<String> = files.map(|path| code_of_file(path)).collect();
        code.join("\n")
    }
}

/// Returns the files of a module of this package.
fn module_sources(name: &str) -> Vec<PathBuf> {
    let folder = Path::new("src").join(name);
    if folder.is_dir() {
        sources(&folder)
    } else {
        vec![folder.with_extension("rs")]
    }
}

/// Returns the rows of the table.
fn layers() -> Vec<Layer> {
    let text = fs::read_to_string("DESIGN.md").unwrap();
    let row = Regex::new(r"(?m)^\| `([\w-]+)` \|[^|]*\|([^|]*)\|$").unwrap();
    let rows = row.captures_iter(&text).map(|cells| {
        let names = cells[2].split(',').map(str::trim);
        Layer {
            name: cells[1].to_owned(),
            uses: names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        }
    });
    rows.collect()
}

/// Returns the names that a section of the manifest of a package lists.
fn dependencies(package: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let names = manifest.get("dependencies").and_then(toml::Value::as_table);
    names
        .into_iter()
        .flat_map(|table| table.keys().cloned())
        .collect()
}

/// Returns the crates and modules that the code of a module of this package names.
fn names_used(code: &str, layers: &[Layer]) -> BTreeSet<String> {
    let path = Regex::new(r"\b(?:provoke_|crate::)(\w+|\{[^}]*\})").unwrap();
    let word = Regex::new(r"\w+").unwrap();
    let names = path.captures_iter(code).flat_map(|found| {
        let words = word.find_iter(found.get(1).unwrap().as_str());
        words.map(|word| word.as_str().replace('_', "-"))
    });
    names
        .filter(|name| layers.iter().any(|layer| layer.name == *name))
        .collect()
}

#[test]
fn every_crate_and_module_uses_what_its_row_says() {
    let layers = layers();
    for layer in &layers {
        let used = match layer.crate_folder() {
            Some(folder) => dependencies(&folder)
                .iter()
                .filter_map(|name| name.strip_prefix("provoke-").map(str::to_owned))
                .collect(),
            None => {
                let mut used = names_used(&layer.code(), &layers);
                used.remove(&layer.name);
                used
            }
        };
        assert_eq!(used, layer.uses, "{}", layer.name);
    }
    let listed = layers.iter().filter_map(Layer::crate_folder);
    let crates = fs::read_dir("crates").unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    assert_eq!(listed.collect::<BTreeSet<_>>(), crates.collect());
}

#[test]
fn every_row_uses_only_what_stands_above_it() {
    let mut above = BTreeSet::new();
    for layer in layers() {
        let below: Vec<_> = layer.uses.difference(&above).collect();
        assert!(below.is_empty(), "{} uses {below:?}", layer.name);
        above.insert(layer.name);
    }
}

#[test]
fn every_dependency_is_used() {
    let packages = layers().into_iter().filter_map(|layer| {
        let folder = layer.crate_folder()?;
        Some((dependencies(&folder), layer.code()))
    });
    let of_this_package = sources(Path::new("src"));
    let code: Vec<String> = of_this_package
        .iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "rs"))
        .map(|path| code_of_file(path))
        .collect();
    let mut unused = Vec::new();
    for (names, code) in packages.chain([(dependencies(Path::new("")), code.join("\n"))]) {
        unused.extend(names.into_iter().filter(|name| {
            let name = name.replace('-', "_");
            let path = Regex::new(&format!(r"\b{name}::|\buse {name}\b")).unwrap();
            !path.is_match(&code)
        }));
    }
    assert!(unused.is_empty(), "{unused:?}");
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

#[test]
fn only_questions_ask_which_question_a_run_answers() {
    let accessors =
        r"\.as_(confirm|compare|bisect|reduce|search|ramp|hunt)(_mut)?\(\)|\.is_rate\(\)";
    let names = Regex::new(&format!(r"\bQuestion::[A-Z]\w+|{accessors}")).unwrap();
    let mut users = layers();
    users.retain(|layer| names.is_match(&layer.code()));
    let users: Vec<&str> = users.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(users, ["questions"]);
}

/// `crates/questions/src/lib.rs` lists the questions; the plan of each makes its own.
#[test]
fn a_question_is_named_only_where_it_is_planned() {
    let names = Regex::new(r"\bQuestion::([A-Z]\w+)").unwrap();
    for file in sources(Path::new("crates/questions/src")) {
        let code = code_of_file(&file);
        let named: BTreeSet<&str> = names
            .captures_iter(&code)
            .map(|found| found.get(1).unwrap().as_str())
            .collect();
        let allowed = match file.file_name().unwrap().to_str().unwrap() {
            "lib.rs" => usize::MAX,
            "plan.rs" => 1,
            _ => 0,
        };
        assert!(named.len() <= allowed, "{}: {named:?}", file.display());
    }
}

#[test]
fn a_transport_is_named_only_in_its_own_file() {
    let folder = Path::new("crates/transports/src");
    let is_transport = |path: &&PathBuf| code_of_file(path).contains(": Transport = Transport {");
    let files = sources(folder);
    let transports: Vec<&PathBuf> = files.iter().filter(is_transport).collect();
    assert!(transports.len() >= 2);
    for file in transports {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let named = Regex::new(&format!(r#"(?m)(^|[^b])"{name}[":]"#)).unwrap();
        let mut users = all_sources();
        users.retain(|path| named.is_match(&code_of_file(path)));
        assert_eq!(users, std::slice::from_ref(file), "{name}");
    }
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

/// The files that each file of a module uses, by their module paths: `cli::run` for `src/cli/run.rs`.
type FileUses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Returns the files of a module that each of its files uses. `mod.rs` and `lib.rs` are left out: they declare the others.
fn uses_within(root: &Path, folder: &Path) -> FileUses {
    let files: BTreeMap<Vec<String>, PathBuf> = sources(folder)
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
    for layer in layers() {
        let module = Path::new("src").join(&layer.name);
        let uses = match layer.crate_folder() {
            Some(folder) => uses_within(&folder.join("src"), &folder.join("src")),
            // A module of one file has no order.
            None if !module.is_dir() => continue,
            None => uses_within(Path::new("src"), &module),
        };
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
