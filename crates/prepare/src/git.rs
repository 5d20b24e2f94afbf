//! Commits as variants: lists them, and creates a directory for each.
//!
//! The user's repository is only read. A second repository in the run's directory borrows its objects, and every tested
//! commit has a work tree there. The files are as new as their checkout, so builds that compare time stamps build
//! everything.

use super::io_error_at;
use provoke_model::{Candidate, Preparation};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that point git to another repository than that of its directory; they are set if provoke runs in a git
/// hook.
const ELSEWHERE: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Name of the repository that borrows the objects of the user's repository, beside the work trees.
pub(super) const OURS: &str = "repository";

/// A linear history, the good end first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitHistory {
    /// Top directory of the repository.
    pub root: PathBuf,
    /// The commits.
    pub commits: Vec<Commit>,
    /// Whether there are submodules, which are not checked out.
    pub has_submodules: bool,
}

/// One step of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Short name.
    pub name: String,
    /// Subject line.
    pub subject: String,
    /// Number of added and removed lines, if requested: to compute it takes time.
    pub lines: u64,
    /// Changed files, relative to the top of the repository, if requested.
    pub files: Vec<String>,
    /// Whether it is a merge: all merged commits count as one step.
    pub merges: bool,
}

impl From<Commit> for Candidate {
    fn from(commit: Commit) -> Self {
        Self {
            name: commit.name,
            about: Some(commit.subject),
        }
    }
}

fn refuse_git(what: impl Into<String>, hint: &str) -> Diagnostic {
    refuse_at(what, &["git"], hint)
}

/// Returns the commits of a range `GOOD..BAD` in the repository that contains a directory.
pub fn commit_line(
    folder: &Path,
    range: &str,
    with_changes: bool,
) -> Result<CommitHistory, Diagnostic> {
    let (good, bad) = match range.split_once("..") {
        Some((good, bad)) if !good.is_empty() && !bad.starts_with('.') => (good, bad),
        _ => {
            let message = format!("`{range}` is not a range of commits");
            return Err(refuse_git(message, "write GOOD..BAD, such as v1.2..main"));
        }
    };
    let bad = if bad.is_empty() { "HEAD" } else { bad };
    let root_text = run_git(folder, &["rev-parse", "--show-toplevel"]).map_err(|error| {
        // The message of Git repeats this.
        let reason = if error.contains("not a git repository") {
            String::new()
        } else {
            format!(": {error}")
        };
        let message = format!("`{}` is not in a git repository{reason}", folder.to_safe());
        refuse_git(
            message,
            "change to a repository, or set --cwd; does `git status` work there?",
        )
    })?;
    let root = PathBuf::from(root_text.trim_end());
    for commit in [good, bad] {
        let named = format!("{commit}^{{commit}}");
        if run_git(&root, &["rev-parse", "--verify", "--quiet", &named]).is_err() {
            let message = format!("there is no commit `{commit}`");
            let branch = run_git(&root, &["symbolic-ref", "--short", "--quiet", "HEAD"]);
            let hint = match branch.as_deref().map(str::trim_end) {
                Ok(branch) if commit == bad => {
                    format!(
                        "the current branch is `{branch}`, and `HEAD` is its newest commit: {good}..HEAD"
                    )
                }
                _ => "`git log --oneline` lists the commits".to_owned(),
            };
            return Err(refuse_git(message, &hint));
        }
    }
    if run_git(&root, &["merge-base", "--is-ancestor", good, bad]).is_err() {
        let message = format!("`{good}` is not an ancestor of `{bad}`");
        let hint = "put the good commit first; `git merge-base GOOD BAD` finds a common ancestor";
        return Err(refuse_git(message, hint));
    }
    let commits = [
        read_history(&root, &["-1", good], false)?,
        read_history(&root, &[&format!("{good}..{bad}")], with_changes)?,
    ]
    .concat();
    if commits.len() < 2 {
        let message = format!("there are no commits between `{good}` and `{bad}`");
        return Err(refuse_git(message, "put the good commit first"));
    }
    Ok(CommitHistory {
        has_submodules: root.join(".gitmodules").exists(),
        root,
        commits,
    })
}

/// Returns the commits in the order of the history, a parent before its children, with all commits between them.
pub fn order_commits(folder: &Path, commits: &[&str]) -> Result<Vec<String>, Diagnostic> {
    let refuse = |reason: String| {
        let message = format!("git cannot order the commits: {reason}");
        refuse_git(message, "run this command in the repository of the runs")
    };
    let base = run_git(folder, &[&["merge-base", "--octopus"], commits].concat());
    // Commits without a common ancestor have no limit.
    let base = base.unwrap_or_default();
    let parents = base.split_whitespace().map(|base| format!("^{base}^@"));
    let limits: Vec<String> = parents.collect();
    let limits: Vec<&str> = limits.iter().map(String::as_str).collect();
    let args = [&["rev-list", "--topo-order", "--reverse"], commits, &limits].concat();
    let history = run_git(folder, &args).map_err(refuse)?;
    Ok(history.lines().map(str::to_owned).collect())
}

/// Returns whether a commit contains a file, whose path is relative to the root of the repository.
pub fn has_file(root: &Path, commit: &str, file: &Path) -> bool {
    let object = format!("{commit}:{}", file.to_string_lossy());
    run_git(root, &["cat-file", "-e", &object]).is_ok()
}

/// Returns commits along first parents, the oldest first.
fn read_history(
    root: &Path,
    revisions: &[&str],
    with_changes: bool,
) -> Result<Vec<Commit>, Diagnostic> {
    let read = |args: &[&str]| {
        let log = [
            "log",
            "--reverse",
            "--first-parent",
            "--diff-merges=first-parent",
        ];
        run_git(root, &[&log, args, revisions, &["--"]].concat()).map_err(|error| {
            let message = format!("cannot read the history: {error}");
            refuse_git(message, "does `git log` work there?")
        })
    };
    // The line of a commit begins with a NUL, which the lines with numbers do not.
    let changes = if with_changes {
        read(&["--numstat", "--no-renames", "--format=%x00%h"])?
    } else {
        String::new()
    };
    let mut changed: BTreeMap<&str, (u64, Vec<String>)> = BTreeMap::new();
    let mut at = "";
    for line in changes.lines() {
        if let Some(name) = line.strip_prefix('\0') {
            at = name;
        } else {
            let (lines, files) = changed.entry(at).or_default();
            let mut columns = line.splitn(3, '\t');
            let numbers = columns.by_ref().take(2);
            *lines += numbers.filter_map(|n| n.parse::<u64>().ok()).sum::<u64>();
            files.extend(columns.next().map(str::to_owned));
        }
    }
    let text = read(&["--no-patch", "--format=%h%x09%p%x09%s"])?;
    let commit = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let (name, parents, subject) = (fields.next()?, fields.next()?, fields.next()?);
        let (lines, files) = changed.get(name).cloned().unwrap_or_default();
        Some(Commit {
            lines,
            files,
            merges: parents.contains(' '),
            name: name.to_owned(),
            subject: subject.to_owned(),
        })
    };
    Ok(text.lines().filter_map(commit).collect())
}

/// Returns the merged commits as `BASE..TIP` for each branch; empty if the commit is not a merge.
pub fn merged_ranges(root: &Path, commit: &str) -> Vec<String> {
    let parents = run_git(root, &["rev-parse", &format!("{commit}^@")]).unwrap_or_default();
    let mut sides = parents.lines();
    let Some(own_side) = sides.next() else {
        return Vec::new();
    };
    let short = |commit: &str| {
        let name = run_git(root, &["rev-parse", "--short", commit]).ok()?;
        Some(name.trim().to_owned())
    };
    let range = |merged_side: &str| {
        let base = run_git(root, &["merge-base", own_side, merged_side]).ok()?;
        Some(format!("{}..{}", short(base.trim())?, short(merged_side)?))
    };
    sides.filter_map(range).collect()
}

/// Describes how the directory of a commit is prepared: a work tree, and a build in it. When git creates a work tree,
/// it reads all others, and fails if one of them is incomplete. So these commands hold a lock. Git must not be the last
/// command of the subshell that holds the lock: a shell may replace itself with it, which releases the lock. If git was
/// killed while it created a work tree, the file `locked` remains, and git refuses to create it again.
pub fn work_tree(
    root: &Path,
    cwd: &Path,
    build: Option<&str>,
    artifacts: &[PathBuf],
) -> Preparation {
    let unset = ELSEWHERE.join(" ");
    let path_below = cwd.strip_prefix(root).unwrap_or(Path::new(""));
    let inside = quote_path(path_below);
    let mut script = format!(
        "unset {unset}
ours=\"$PROVOKE_MADE/../{OURS}\"
(
if command -v flock >/dev/null; then
    flock 9
    for locked in \"$ours\"/worktrees/*/locked; do rm -rf \"${{locked%/locked}}\"; done
fi
git -C \"$ours\" worktree add --quiet --detach --force --force \"$PROVOKE_MADE\" {{variant}} 9>&- || exit
) 9>\"$ours/making\" || exit
cd \"$PROVOKE_MADE\"/{inside} || exit
"
    );
    script.extend(build.map(|build| format!("(\n{build}\n)\n")));
    Preparation {
        folder: "".into(),
        copy: None,
        script: Some(script.into()),
        cwd: root.into(),
        artifacts: artifacts
            .iter()
            .map(|file| path_below.join(file).as_path().into())
            .collect(),
        shared: false,
    }
}

/// Creates a repository below a directory that borrows the objects of the user's repository, with its tags, which
/// builds may need.
pub(super) fn make_repository(root: &Path, folder: &Path) -> Result<(), Diagnostic> {
    let repository = folder.join(OURS);
    fs::create_dir_all(&repository).map_err(io_error_at(&repository))?;
    let failed = |error: String| {
        let message = format!("cannot create work trees of `{}`: {error}", root.to_safe());
        refuse_git(message, "does `git worktree add` work there?")
    };
    let ask = |args: &[&str]| run_git(root, args).map_err(failed);
    let path = |name: &str| {
        let path = ask(&["rev-parse", "--path-format=absolute", "--git-path", name])?;
        Ok::<PathBuf, Diagnostic>(PathBuf::from(path.trim_end_matches('\n')))
    };
    let format_name = ask(&["rev-parse", "--show-object-format"])?;
    let format = format!("--object-format={}", format_name.trim());
    run_git(&repository, &["init", "--quiet", "--bare", &format, "."]).map_err(failed)?;
    let alternates = repository.join("objects/info/alternates");
    let objects = format!("{}\n", path("objects")?.to_string_lossy());
    fs::write(&alternates, objects).map_err(io_error_at(&alternates))?;
    let shallow = path("shallow")?;
    if shallow.exists() {
        fs::copy(&shallow, repository.join("shallow")).map_err(io_error_at(&shallow))?;
    }
    let tags = ask(&[
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "refs/tags",
    ])?;
    if !tags.is_empty() {
        let packed = repository.join("packed-refs");
        fs::write(&packed, tags).map_err(io_error_at(&packed))?;
    }
    Ok(())
}

/// Returns a path quoted for the shell.
fn quote_path(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// Returns the output of a git command, or its error message.
fn run_git(folder: &Path, args: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(args);
    for name in ELSEWHERE {
        git.env_remove(name);
    }
    let output = git
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    Err(if lines.is_empty() {
        "git printed no reason".to_owned()
    } else {
        lines.join(" ")
    })
}
