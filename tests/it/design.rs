//! Tests that `DESIGN.md` lists every source file with the first sentence of its `//!` comment.

use crate::layers::sources;
use regex::Regex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const DESIGN: &str = "DESIGN.md";

const INTRODUCTION: &str = "\
# Source files

Each line is a file and the first sentence of its `//!` comment. The crates and modules are in the order of the table
in [src/lib.rs](src/lib.rs), which also shows how they depend on each other. [docs/design](docs/design/README.md) explains the
main decisions.

A test writes this file. To renew it, run `UPDATE_DESIGN=1 cargo nextest run -E 'test(design)'`.
";

/// Words that begin a question or a clause instead of the description of a file.
const VAGUE_BEGINNINGS: [&str; 14] = [
    "Do", "Does", "From", "How", "Is", "What", "Where", "Whether", "Which", "Who", "Whoever",
    "Whom", "Whose", "Why",
];

/// Returns the source files of the package and of its crates, without tests.
fn documented_files() -> Vec<PathBuf> {
    let crates = fs::read_dir("crates").unwrap();
    let crate_sources = crates.map(|entry| entry.unwrap().path().join("src"));
    let mut files: Vec<PathBuf> = crate_sources
        .chain([PathBuf::from("src")])
        .flat_map(|folder| sources(&folder))
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter(|file| file.with_extension("").iter().all(|part| part != "tests"))
        .collect();
    files.sort();
    files
}

/// Returns the first sentence of the comment at the head of a file.
fn first_sentence(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).unwrap();
    let paragraph: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//! "))
        .collect();
    let sentence = Regex::new(r"^.+?[.?](?: |$)").unwrap();
    let paragraph = paragraph.join(" ");
    let found = sentence.find(&paragraph)?;
    Some(found.as_str().trim_end().to_owned())
}

/// Returns the modules in the order of the table in `src/lib.rs`.
fn modules_in_order() -> Vec<String> {
    let library = fs::read_to_string("src/lib.rs").unwrap();
    let row = Regex::new(r"(?m)^//! \| `([\w-]+)` \|").unwrap();
    let rows = row.captures_iter(&library);
    rows.map(|cells| cells[1].to_owned()).collect()
}

/// Returns the group of a file and its position: the root of the package, a module, or a crate.
fn group(file: &Path, modules: &[String]) -> (usize, String) {
    let name = file
        .iter()
        .nth(1)
        .map(Path::new)
        .unwrap()
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap();
    let position = modules.iter().position(|known| known == name);
    let after_root = position.map(|position| position + 1);
    if file.starts_with("crates") {
        let after_modules = modules.len() + 1;
        return (
            after_root.unwrap_or(after_modules),
            format!("crates/{name}"),
        );
    }
    match after_root {
        Some(position) => (position, format!("src/{name}")),
        None => (0, "src".to_owned()),
    }
}

fn design() -> String {
    let modules = modules_in_order();
    let mut groups: BTreeMap<(usize, String), String> = BTreeMap::new();
    for file in documented_files() {
        let sentence = first_sentence(&file).unwrap_or_default();
        let lines = groups.entry(group(&file, &modules)).or_default();
        writeln!(lines, "* `{}`: {sentence}", file.display()).unwrap();
    }
    let mut text = INTRODUCTION.to_owned();
    for ((_, name), lines) in groups {
        write!(text, "\n## {name}\n\n{lines}").unwrap();
    }
    text
}

#[test]
fn the_design_page_lists_every_source_file() {
    let expected = design();
    if std::env::var_os("UPDATE_DESIGN").is_some() {
        fs::write(DESIGN, &expected).unwrap();
    }
    let kept = fs::read_to_string(DESIGN).unwrap_or_default();
    let missing: Vec<&str> = expected
        .lines()
        .filter(|line| !kept.lines().any(|kept| kept == *line))
        .collect();
    let superfluous: Vec<&str> = kept
        .lines()
        .filter(|line| !expected.lines().any(|expected| expected == *line))
        .collect();
    assert!(
        kept == expected,
        "run this test with UPDATE_DESIGN=1\nmissing: {missing:#?}\nsuperfluous: {superfluous:#?}"
    );
}

#[test]
fn every_source_file_begins_with_a_sentence_that_describes_it() {
    let mut wrong = Vec::new();
    for file in documented_files() {
        let sentence = first_sentence(&file).unwrap_or_default();
        let first_word = sentence.split(' ').next().unwrap();
        if !sentence.ends_with('.') || VAGUE_BEGINNINGS.contains(&first_word) {
            wrong.push(format!("{}: {sentence}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "see STYLE.md: {wrong:#?}");
}
