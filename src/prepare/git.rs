//! Commits as variants: which they are, and how each gets a folder of its own.
//!
//! The user's repository is only read. A clone of it that shares its objects lies in the run's
//! folder, and of that clone every commit that is tried has a work tree, with files as new as
//! their checkout: whatever builds by time stamps builds all.

use super::Unready;
use crate::model::{Plan, Text};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables that point git to another repository than that of its folder: whoever calls us from a
/// hook has them set.
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

/// A line of a history, the good end first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The top folder of the repository.
    pub root: PathBuf,
    /// Each commit by its short name, with its subject.
    pub commits: Vec<(String, String)>,
    /// There are merges: only what was merged is in the line, as one step.
    pub has_merges: bool,
}

/// Returns the commits from a good one to a bad one, `GOOD..BAD`, of the repository around a folder.
pub fn line(folder: &Path, range: &str) -> Result<Line, Unready> {
    let refuse = |what: String, hint: &str| Unready::Refused {
        what,
        at: vec!["git".to_owned()],
        hint: hint.to_owned(),
    };
    let Some((good, bad)) = range.split_once("..") else {
        let what = format!("`{range}` are not two commits");
        return Err(refuse(what, "write GOOD..BAD, such as v1.2..main"));
    };
    let bad = if bad.is_empty() { "HEAD" } else { bad };
    let root = said(folder, &["rev-parse", "--show-toplevel"]).map_err(|why| {
        let what = format!("`{}` is in no git repository: {why}", folder.display());
        refuse(what, "go there, or set `cwd`")
    })?;
    let root = PathBuf::from(root.trim_end());
    for commit in [good, bad] {
        let named = format!("{commit}^{{commit}}");
        if let Err(why) = said(&root, &["rev-parse", "--verify", "--quiet", &named]) {
            let what = format!("there is no commit `{commit}`: {why}");
            return Err(refuse(what, "`git log --oneline` shows what there is"));
        }
    }
    if said(&root, &["merge-base", "--is-ancestor", good, bad]).is_err() {
        let what = format!("`{bad}` does not come after `{good}`");
        let hint = "name the good one first, on the same line: `git merge-base GOOD BAD` finds where two part";
        return Err(refuse(what, hint));
    }
    let span = format!("{good}..{bad}");
    let merges = said(&root, &["rev-list", "--count", "--merges", &span]);
    let log = |args: &[&str]| {
        let format = ["log", "--format=%h%x09%s", "--reverse", "--first-parent"];
        let all = said(&root, &[&format, args].concat());
        all.map_err(|why| {
            refuse(
                format!("the history cannot be read: {why}"),
                "does `git log` work there?",
            )
        })
    };
    let text = log(&["-1", good])? + &log(&[&span])?;
    let commits = text.lines().filter_map(|line| line.split_once('\t'));
    let commits: Vec<(String, String)> = commits
        .map(|(hash, subject)| (hash.to_owned(), subject.to_owned()))
        .collect();
    if commits.len() < 2 {
        let what = format!("there is no commit after `{good}` up to `{bad}`");
        return Err(refuse(what, "the first is good, the last one bad"));
    }
    Ok(Line {
        root,
        commits,
        has_merges: merges.is_ok_and(|count| count.trim() != "0"),
    })
}

/// Lets each commit of a plan run in a work tree of its own below `folder`, which is made before
/// its first trial.
pub(super) fn work_trees(plan: &mut Plan, folder: &Path) -> Result<(), Unready> {
    let Some(git) = plan.git.clone() else {
        return Ok(());
    };
    let root = Path::new(git.root.as_os_str());
    let clone = folder.join("repository");
    fs::create_dir_all(folder).map_err(|source| Unready::Io {
        path: folder.to_owned(),
        source,
    })?;
    let paths = [root, clone.as_path()].map(|path| path.display().to_string());
    let [from, to] = &paths;
    let made = said(
        folder,
        &["clone", "--quiet", "--shared", "--no-checkout", from, to],
    );
    made.map_err(|why| Unready::Refused {
        what: format!("`{from}` cannot be cloned: {why}"),
        at: vec!["git".to_owned()],
        hint: "does `git clone --shared` work there?".to_owned(),
    })?;
    plan.hooks.cwd = plan.hooks.cwd.take().or_else(|| Some(git.root.clone()));
    for (index, variant) in plan.variants.iter_mut().enumerate() {
        let tree = folder.join(index.to_string());
        let mut main = tree.clone();
        for actor in &mut variant.actors {
            // A link to the folder is the folder.
            let here = fs::canonicalize(actor.cwd.as_os_str()).ok();
            let inside = here
                .as_deref()
                .and_then(|here| here.strip_prefix(root).ok());
            let Some(inside) = inside else {
                return Err(Unready::Refused {
                    what: format!("`{}` is not in `{}`", actor.cwd, root.display()),
                    at: vec!["cwd".to_owned()],
                    hint: "run where the commits are".to_owned(),
                });
            };
            let cwd: PathBuf = tree.components().chain(inside.components()).collect();
            main.clone_from(&cwd);
            actor.cwd = cwd.as_path().into();
        }
        let [clone, tree, main] = [&clone, &tree, &main].map(|path| quoted(path));
        let name = &variant.name;
        let unset = ELSEWHERE.join(" ");
        let mut script = format!(
            "unset {unset}\n[ -e {tree}/.git ] || git -C {clone} worktree add --quiet --detach --force {tree} {name} || exit\ncd {main} || exit\n"
        );
        for command in [&git.build, &variant.hooks.setup].into_iter().flatten() {
            let _ = write!(script, "(\n{command}\n) || exit\n");
        }
        variant.hooks.setup = Some(Text::from(script));
        variant.hooks.cwd = Some(git.root.clone());
    }
    Ok(())
}

/// Returns a path as a word for the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Returns what git says, or why it says nothing.
fn said(folder: &Path, args: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(args);
    for name in ELSEWHERE {
        git.env_remove(name);
    }
    let done = git
        .output()
        .map_err(|error| format!("git cannot be run: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&done.stderr);
    let why = why.trim().lines().next().unwrap_or_default();
    Err(if why.is_empty() {
        "git says no more".to_owned()
    } else {
        why.to_owned()
    })
}
