//! Finds the commit that is checked out in a directory, without starting git.

use provoke_sys::files::open_regular_file;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum size of a file that is read. Repositories with more references in one file are rare, and their commit is
/// then unknown.
const MAX_SIZE: u64 = 4 << 20;

/// Returns the commit in the repository that contains the folder.
pub(super) fn checked_out_commit(folder: &Path) -> Option<String> {
    let git_folder = folder
        .ancestors()
        .find_map(|folder| find_git_folder(&folder.join(".git")))?;
    let head = read_text(&git_folder.join("HEAD"))?;
    match head.trim().strip_prefix("ref: ") {
        Some(reference) => read_reference(&git_folder, reference),
        None => as_commit(&head),
    }
}

/// Follows the file `.git` of a work tree or a submodule, which names the real folder.
fn find_git_folder(entry: &Path) -> Option<PathBuf> {
    let kind = fs::metadata(entry).ok()?;
    if kind.is_dir() {
        return Some(entry.to_owned());
    }
    let text = read_text(entry)?;
    Some(entry.parent()?.join(text.trim().strip_prefix("gitdir: ")?))
}

/// Returns the commit of a branch. Work trees share their branches in a common folder.
fn read_reference(git_folder: &Path, reference: &str) -> Option<String> {
    if !reference.starts_with("refs/") || reference.contains("..") {
        return None;
    }
    let common = match read_text(&git_folder.join("commondir")) {
        Some(path) => git_folder.join(path.trim()),
        None => git_folder.to_owned(),
    };
    if let Some(commit) = read_text(&common.join(reference)) {
        return as_commit(&commit);
    }
    let packed = read_text(&common.join("packed-refs"))?;
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let (commit, _) = lines.find(|(_, name)| *name == reference)?;
    as_commit(commit)
}

/// Returns the text if it is the full name of a commit.
fn as_commit(text: &str) -> Option<String> {
    let name = text.trim();
    let is_name =
        matches!(name.len(), 40 | 64) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| name.to_owned())
}

fn read_text(path: &Path) -> Option<String> {
    let file = open_regular_file(path).ok()?;
    if file.metadata().ok()?.len() > MAX_SIZE {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_SIZE).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_test_needs::{needs, program};
    use std::process::Command;

    /// Runs git without settings of the user, and returns its output.
    fn run_git(folder: &Path, args: &[&str]) -> String {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let mut git = Command::new("git");
        git.arg("-C").arg(folder).args(identity).args(args);
        let variables =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_"));
        for (name, _) in variables {
            git.env_remove(name);
        }
        let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn the_commit_is_that_of_git() {
        needs!(program("git"));
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("main");
        fs::create_dir_all(main.join("a/b")).unwrap();
        assert_eq!(checked_out_commit(&main), None);
        run_git(&main, &["init", "--quiet", "--initial-branch=feature/x"]);
        assert_eq!(checked_out_commit(&main), None, "a branch without a commit");
        run_git(
            &main,
            &["commit", "--quiet", "--allow-empty", "--message=one"],
        );
        let commit = |folder: &Path| Some(run_git(folder, &["rev-parse", "HEAD"]));
        assert_eq!(checked_out_commit(&main.join("a/b")), commit(&main));
        let tree = folder.path().join("tree");
        run_git(
            &main,
            &[
                "worktree",
                "add",
                "--quiet",
                "-b",
                "other",
                tree.to_str().unwrap(),
            ],
        );
        run_git(
            &tree,
            &["commit", "--quiet", "--allow-empty", "--message=two"],
        );
        assert_eq!(checked_out_commit(&tree), commit(&tree));
        assert_ne!(commit(&tree), commit(&main));
        run_git(&main, &["pack-refs", "--all"]);
        assert_eq!(checked_out_commit(&main), commit(&main), "packed");
        assert_eq!(checked_out_commit(&tree), commit(&tree), "packed");
        run_git(&main, &["checkout", "--quiet", "--detach", "other"]);
        assert_eq!(checked_out_commit(&main), commit(&tree), "detached");
    }

    #[test]
    fn references_outside_the_folder_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        fs::create_dir(&git).unwrap();
        fs::write(folder.path().join("secret"), "a".repeat(40)).unwrap();
        for head in ["ref: refs/../../secret", "ref: /etc/passwd", "not a commit"] {
            fs::write(git.join("HEAD"), head).unwrap();
            assert_eq!(checked_out_commit(folder.path()), None, "{head}");
        }
    }
}
