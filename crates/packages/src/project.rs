//! Copies a project for a tool that changes it.

use super::script::quoted_path;
use std::path::Path;

/// Returns script lines that copy a project to `src` in the folder that is made, and change to
/// `inside` in it.
///
/// Build output, version control, runs of provoke, and an entry that contains the
/// new folder are not copied.
pub(super) fn copy_project_lines(root: &Path, inside: &Path) -> String {
    let root = quoted_path(root);
    let inside = quoted_path(&Path::new("src").join(inside));
    format!(
        r#"made=$(cd "$PROVOKE_MADE" && pwd -P) && mkdir "$made/src" || exit
for entry in {root}/* {root}/.[!.]* {root}/..?*; do
    [ -e "$entry" ] || [ -L "$entry" ] || continue
    case ${{entry##*/}} in target | node_modules | .git | provoke-out) continue ;; esac
    case $made/ in "$entry"/*) continue ;; esac
    [ ! -e "$entry/CACHEDIR.TAG" ] || continue
    cp -a "$entry" "$made/src/" || exit
done
cd "$made"/{inside} || exit
"#
    )
}

/// Returns a path below the folder that is made, without a slash at its end.
pub(super) fn path_below(folder: &str, inside: &Path) -> String {
    let path: std::path::PathBuf = Path::new(folder).join(inside).components().collect();
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_copy_of_a_project_leaves_out_build_results() {
        let top = tempfile::tempdir().unwrap();
        let root = top.path().canonicalize().unwrap().join("it's a project");
        for file in [
            "Cargo.toml",
            ".cargo/config.toml",
            ".git/HEAD",
            "target/x",
            "built/CACHEDIR.TAG",
            "member/target/x",
            "deep/target-not/x",
            "provoke-out/1/x",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let made = root.join("cache/made");
        fs::create_dir_all(&made).unwrap();
        let script =
            copy_project_lines(&root, Path::new("member")) + "pwd -P; find .. -type f | sort";
        let mut sh = Command::new("sh");
        let done = sh
            .arg("-c")
            .arg(script)
            .env("PROVOKE_MADE", &made)
            .output()
            .unwrap();
        let out = String::from_utf8(done.stdout).unwrap();
        let expected = format!(
            "{}\n../.cargo/config.toml\n../Cargo.toml\n../deep/target-not/x\n../member/target/x\n",
            made.join("src/member").display()
        );
        assert_eq!(out, expected);
        assert_eq!(path_below("src", Path::new("")), "src");
    }
}
