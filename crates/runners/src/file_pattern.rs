//! Finds the files whose paths match a pattern.

use provoke_model::CasePattern;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Maximum number of files of one pattern.
const MOST_FILES: usize = 10_000;

/// Returns the files that match a path in which a `*` stands for any text without a slash, in order.
pub(super) fn find_files(pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy();
        let is_pattern = matches!(component, Component::Normal(_)) && text.contains('*');
        if !is_pattern {
            for path in &mut paths {
                path.push(component);
            }
            continue;
        }
        paths = paths
            .iter()
            .flat_map(|folder| matching_entries(folder, &text))
            .take(MOST_FILES)
            .collect();
    }
    paths.retain(|path| path.is_file());
    paths
}

fn matching_entries(folder: &Path, pattern: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // As in a shell, a hidden file must be named.
            (!name.starts_with('.') || pattern.starts_with('.')) && matches_name(pattern, &name)
        })
        .map(|entry| entry.path())
        .take(MOST_FILES)
        .collect();
    paths.sort();
    paths
}

fn matches_name(pattern: &str, name: &str) -> bool {
    CasePattern::new(pattern).matches_text(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_names_of_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/x.xml", "a/y.txt", "b/z.xml", "b/.hidden.xml"] {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), "").unwrap();
        }
        assert_eq!(
            find_files(&path("*/*.xml")),
            [path("a/x.xml"), path("b/z.xml")]
        );
        assert_eq!(find_files(&path("a/x.xml")), [path("a/x.xml")]);
        assert!(find_files(&path("c/*.xml")).is_empty());
        assert!(find_files(&path("*")).is_empty(), "folders are not files");
    }
}
