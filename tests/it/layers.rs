//! Tests that the table of modules in `src/lib.rs` matches the code.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules and crates that a module may use.
type Allowed = (BTreeSet<String>, BTreeSet<String>);

fn table() -> BTreeMap<String, Allowed> {
    let text = fs::read_to_string("src/lib.rs").unwrap();
    let row = Regex::new(r"(?m)^//! \| `(\w+)` \|[^|]*\|([^|]*)\|([^|]*)\|$").unwrap();
    let words = |cell: &str| {
        cell.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    row.captures_iter(&text)
        .map(|cells| (cells[1].to_owned(), (words(&cells[2]), words(&cells[3]))))
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

/// Returns the code of a module without its comments and its unit tests.
fn code(module: &str) -> String {
    let comment = Regex::new(r"(?m)//.*$").unwrap();
    let files = sources(Path::new("src")).into_iter();
    let files = files.filter(|path| {
        let inside = path.strip_prefix("src").unwrap();
        inside
            .iter()
            .next()
            .is_some_and(|first| Path::new(first).file_stem().unwrap() == module)
            && path.file_stem().is_some_and(|stem| stem != "tests")
    });
    let text = files.map(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap()
            .to_owned()
    });
    comment
        .replace_all(&text.collect::<Vec<_>>().join("\n"), "")
        .into_owned()
}

fn dependencies() -> Vec<String> {
    let manifest: toml::Table = fs::read_to_string("Cargo.toml").unwrap().parse().unwrap();
    let names = manifest["dependencies"].as_table().unwrap().keys();
    names.map(|name| name.replace('-', "_")).collect()
}

#[test]
fn every_module_uses_only_what_the_table_allows() {
    let table = table();
    let own = Regex::new(r"\bcrate::(\w+)").unwrap();
    let mut wrong = Vec::new();
    for (module, (modules, crates)) in &table {
        let code = code(module);
        assert!(
            !code.is_empty(),
            "the table names `{module}`, and there is no such module"
        );
        for used in own.captures_iter(&code).map(|found| found[1].to_owned()) {
            let allowed = used == *module || modules.contains("all") || modules.contains(&used);
            if table.contains_key(&used) && !allowed {
                wrong.push(format!("{module} uses {used}"));
            }
        }
        for name in dependencies() {
            let named = Regex::new(&format!(r"\b{name}::|use {name}\b")).unwrap();
            if named.is_match(&code) && !crates.contains(&name) {
                wrong.push(format!("{module} uses the crate {name}"));
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_names_every_module_and_nothing_that_is_not_used() {
    let text = fs::read_to_string("src/lib.rs").unwrap();
    let declared = Regex::new(r"(?m)^pub mod (\w+);").unwrap();
    let declared: BTreeSet<String> = declared
        .captures_iter(&text)
        .map(|found| found[1].to_owned())
        .collect();
    let table = table();
    assert_eq!(declared, table.keys().cloned().collect());
    for (module, (modules, crates)) in &table {
        let code = code(module);
        for name in modules.iter().filter(|name| *name != "all") {
            assert!(
                code.contains(&format!("crate::{name}")),
                "{module} does not use {name}"
            );
        }
        for name in crates {
            assert!(
                code.contains(&format!("{name}::")),
                "{module} does not use the crate {name}"
            );
        }
    }
}

#[test]
fn the_layers_have_no_cycle() {
    let table = table();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut left: BTreeSet<&String> = table.keys().filter(|name| *name != "cli").collect();
    while !left.is_empty() {
        let ready: Vec<&String> = left
            .iter()
            .filter(|name| table[**name].0.is_subset(&known))
            .copied()
            .collect();
        assert!(!ready.is_empty(), "a cycle among {left:?}");
        for name in ready {
            known.insert(name.clone());
            left.remove(name);
        }
    }
}
