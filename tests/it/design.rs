//! Tests that every source file begins with a sentence that describes it.

use crate::layers::sources;
use regex::Regex;
use std::fs;
use std::path::{Path, PathBuf};

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
