//! Tests the words and the links of the documentation.

use crate::layers::sources;
use provoke_runners::{RUNNERS, setting_values};
use regex::{Regex, RegexBuilder};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const GLOSSARY: &str = "docs/glossary.md";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(repository().join(path)).unwrap()
}

/// Returns the Markdown files in a directory and below it, with paths relative to the repository.
fn markdown_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(repository().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if repository().join(&path).is_dir() {
            files.extend(markdown_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files
}

fn documentation() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "DESIGN.md",
        "SECURITY.md",
        "STYLE.md",
    ]
    .map(PathBuf::from)
    .into();
    files.extend(markdown_files(Path::new("crates")));
    files.extend(markdown_files(Path::new("docs")));
    files.extend(markdown_files(Path::new("scenarios")));
    files
}

/// Returns the words in `code` of the glossary's last column.
fn replaced_words() -> Vec<String> {
    let code = Regex::new("`([^`]+)`").unwrap();
    let glossary = read(Path::new(GLOSSARY));
    let rows = glossary.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next())
        .flat_map(|cell| {
            let words = code.captures_iter(cell).map(|found| found[1].to_owned());
            words.collect::<Vec<_>>()
        })
        .collect()
}

/// Returns the text without code: fenced blocks, indented blocks and inline `code`.
fn prose(markdown: &str) -> String {
    let mut in_fence = false;
    let mut lines = Vec::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence && !line.starts_with("    ") {
            lines.push(line);
        }
    }
    let code = Regex::new("`[^`]*`").unwrap();
    code.replace_all(&lines.join("\n"), "`code`").into_owned()
}

/// Returns a pattern for words that may be separated by a line end.
fn pattern(words: &str) -> Regex {
    let words: Vec<_> = words.split(' ').map(regex::escape).collect();
    RegexBuilder::new(&format!(r"\b{}\b", words.join(r"\s+")))
        .case_insensitive(true)
        .build()
        .unwrap()
}

fn assert_uses_glossary(texts: &[(String, String)]) {
    let mut found = Vec::new();
    for words in replaced_words() {
        let pattern = pattern(&words);
        for (name, text) in texts {
            for place in pattern.find_iter(text) {
                let line = text[..place.start()].lines().last().unwrap_or_default();
                let rest = text[place.start()..].lines().next().unwrap_or_default();
                found.push(format!("{name}: `{words}` in: {line}{rest}"));
            }
        }
    }
    let found = found.join("\n");
    assert!(found.is_empty(), "see {GLOSSARY}:\n{found}");
}

#[test]
fn the_glossary_is_sorted_and_names_replaced_words() {
    let glossary = read(Path::new(GLOSSARY));
    let terms: Vec<_> = glossary
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .skip(1)
        .map(str::to_lowercase)
        .collect();
    assert!(terms.is_sorted(), "{terms:#?}");
    let words = replaced_words();
    assert!(words.len() > 10, "{words:?}");
}

#[test]
fn the_documentation_uses_the_words_of_the_glossary() {
    let exempt = [GLOSSARY].map(Path::new);
    let files = documentation();
    let files = files
        .iter()
        .filter(|file| !exempt.contains(&file.as_path()));
    let texts: Vec<_> = files
        .map(|file| (file.to_string_lossy().into_owned(), prose(&read(file))))
        .collect();
    assert_uses_glossary(&texts);
}

#[test]
fn the_pages_list_every_test_runner() {
    let settings = read(&repository().join("docs/scenario.md"));
    let suites = read(&repository().join("docs/suites.md")).to_lowercase();
    for (runner, value) in RUNNERS.iter().zip(setting_values()) {
        assert!(settings.contains(&format!("`\"{value}\"`")), "{value}");
        assert!(suites.contains(runner.name), "{value}");
    }
}

#[test]
fn help_uses_the_words_of_the_glossary() {
    let help = |arguments: &[&str]| {
        let mut provoke = Command::new(env!("CARGO_BIN_EXE_provoke"));
        let output = provoke.args(arguments).arg("--help").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let overview = help(&[]);
    let command = Regex::new(r"(?m)^  ([a-z]+)(?:  |$)").unwrap();
    let list = overview
        .split("Commands:")
        .nth(1)
        .unwrap()
        .split("Options:")
        .next()
        .unwrap();
    let commands = command.captures_iter(list).map(|name| name[1].to_owned());
    let mut texts: Vec<_> = commands
        .filter(|name| name != "help")
        .map(|name| {
            let text = help(&[&name]);
            (format!("provoke {name} --help"), text)
        })
        .collect();
    assert!(texts.len() > 10, "{overview}");
    texts.push(("provoke --help".to_owned(), overview));
    assert_uses_glossary(&texts);
}

/// Returns the anchor of a heading on GitHub.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    });
    kept.collect::<String>().to_lowercase()
}

fn anchors(markdown: &str) -> Vec<String> {
    let mut in_fence = false;
    let mut anchors = Vec::new();
    for line in markdown.lines() {
        in_fence ^= line.starts_with("```");
        if !in_fence && line.starts_with('#') {
            anchors.push(anchor(line.trim_start_matches('#').trim()));
        }
    }
    anchors
}

#[test]
fn links_refer_to_existing_files_and_headings() {
    let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
    let mut broken = Vec::new();
    for file in documentation() {
        let text = read(&file);
        let mut count = 0;
        for target in link.captures_iter(&prose(&text)) {
            let target = &target[1];
            if target.contains("://") {
                continue;
            }
            count += 1;
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match path {
                "" => file.clone(),
                path => file.parent().unwrap().join(path),
            };
            let exists = repository().join(&path).exists();
            let found = heading.is_empty()
                || exists && anchors(&read(&path)).iter().any(|known| known == heading);
            if !exists || !found {
                broken.push(format!("{}: {target}", file.to_string_lossy()));
            }
        }
        let expected = file != Path::new("README.md") || count > 0;
        assert!(expected, "no link found in {}", file.to_string_lossy());
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Returns the identifiers of all code, and of the manifests.
fn identifiers_of_code() -> HashSet<String> {
    let word = Regex::new(r"\w+").unwrap();
    let folders = ["crates", "src", "tests"].map(|folder| repository().join(folder));
    let files = folders.iter().flat_map(|folder| sources(folder));
    let mut found = HashSet::new();
    for file in files.filter(|file| {
        file.extension()
            .is_some_and(|kind| kind == "rs" || kind == "toml")
    }) {
        let text = read(&file);
        found.extend(word.find_iter(&text).map(|word| word.as_str().to_owned()));
    }
    found
}

#[test]
fn the_pages_on_the_design_name_only_code_that_exists() {
    let known = identifiers_of_code();
    let code = Regex::new(r"`([^`\n./]+)`").unwrap();
    // Types, and functions or fields of several words. Constants may be those of the system.
    let name = Regex::new(r"\b(?:[A-Z][a-z]+\w+|[a-z]+(?:_[a-z]+)+)\b").unwrap();
    let mut unknown = Vec::new();
    for page in markdown_files(&repository().join("docs/design")) {
        let text = read(&page);
        for words in code.captures_iter(&text) {
            let names = name
                .find_iter(words.get(1).unwrap().as_str())
                .map(|name| name.as_str());
            unknown.extend(
                names
                    .filter(|name| !known.contains(*name))
                    .map(|name| format!("{}: {name}", page.display())),
            );
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn the_site_has_every_page_once() {
    let link = Regex::new(r"\]\(([^)]+)\)").unwrap();
    let summary = read(Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<_> = link
        .captures_iter(&summary)
        .map(|target| Path::new("docs").join(&target[1]))
        .collect();
    let mut pages = markdown_files(Path::new("docs"));
    pages.retain(|page| page != Path::new("docs/SUMMARY.md"));
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
}
