//! Tests the package tools and the recipes with the real tools. Those of Python and Rust need their registries; apt and
//! npm have local ones.

use crate::needs::{crates_io, host, needs, program, python};
use provoke_packages::{
    EnvironmentRecipe, PackageManager, PackageVersions, Pip, VersionQuery, find_versions,
};
use provoke_words::diagnostic::Diagnostic;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

fn query_for<'a>(manager: PackageManager, folder: &'a Path, spec: &'a str) -> VersionQuery<'a> {
    VersionQuery {
        manager,
        spec,
        folder,
        env: &[],
        requirements: None,
        constraints: None,
        python: None,
        build: None,
    }
}

fn find_packages(wanted: &VersionQuery) -> PackageVersions {
    find_versions(wanted).unwrap_or_else(|fault| panic!("{fault}: {}", fault.hint()))
}

fn expect_refusal(wanted: &VersionQuery) -> Diagnostic {
    find_versions(wanted).expect_err(wanted.spec)
}

/// An environment that a recipe created.
struct CreatedEnvironment {
    folder: TempDir,
    recipe: EnvironmentRecipe,
    start: PathBuf,
}

/// Runs a recipe; if it fails, returns the last line of its output.
fn create_environment(
    recipe: &EnvironmentRecipe,
    wanted: &VersionQuery,
    version: &str,
) -> Result<CreatedEnvironment, String> {
    let folder = tempfile::tempdir().unwrap();
    let script = recipe.script.replace("{variant}", version);
    let mut sh = Command::new("sh");
    sh.arg("-c").arg(format!("exec 2>&1\n{script}"));
    sh.current_dir(wanted.folder)
        .env("PROVOKE_MADE", folder.path());
    sh.envs(wanted.env.iter().cloned());
    let done = sh.output().unwrap();
    if !done.status.success() {
        let output = String::from_utf8_lossy(&done.stdout);
        return Err(output.lines().last().unwrap_or_default().to_owned());
    }
    Ok(CreatedEnvironment {
        folder,
        recipe: recipe.clone(),
        start: wanted.folder.to_owned(),
    })
}

impl CreatedEnvironment {
    /// Runs a program as a trial would; returns its output.
    fn run(&self, command: &str) -> String {
        let made = self.folder.path().display().to_string();
        let filled = |text: &String| text.replace("{made}", &made);
        let path: Vec<_> = self.recipe.path.iter().map(filled).collect();
        let path = format!("{}:{}", path.join(":"), std::env::var("PATH").unwrap());
        let mut sh = Command::new("sh");
        sh.arg("-c").arg(command).env("PATH", path);
        for (name, value) in &self.recipe.env {
            sh.env(name, filled(value));
        }
        sh.current_dir(match &self.recipe.cwd {
            Some(cwd) => self.folder.path().join(cwd),
            None => self.start.clone(),
        });
        let done = sh.output().unwrap();
        let output = [done.stdout, done.stderr].concat();
        String::from_utf8_lossy(&output).trim_end().to_owned()
    }
}

const SIX: &str = "import six, sys; print(six.__version__, sys.prefix)";

#[test]
fn pip_lists_versions_and_creates_an_environment_with_one() {
    needs!(python("ensurepip"), host("pypi.org", 443));
    let folder = tempfile::tempdir().unwrap();
    let [requirements, constraints] = ["requirements.txt", "constraints.txt"].map(Path::new);
    // The searched version replaces its own pin; a constraint fixes another package.
    let text = "six==1.17.0\npython-dateutil # needs six\n";
    fs::write(folder.path().join(requirements), text).unwrap();
    fs::write(folder.path().join(constraints), "python_dateutil==2.8.2\n").unwrap();
    let wanted = VersionQuery {
        requirements: Some(requirements),
        constraints: Some(constraints),
        ..query_for(PackageManager::Pip, folder.path(), "six==1.13..1.16.0")
    };
    let found = find_packages(&wanted);
    assert_eq!(found.package, "six");
    assert_eq!(found.versions, ["1.13.0", "1.14.0", "1.15.0", "1.16.0"]);
    assert!(found.recipe.shared && found.recipe.cwd.is_none());
    // The environment needs no files of the user.
    fs::remove_file(folder.path().join(requirements)).unwrap();
    let environment = create_environment(&found.recipe, &wanted, "1.15.0").unwrap();
    let prefix = environment.folder.path().display();
    let command =
        format!("python -c '{SIX}'; python3 -c 'import dateutil; print(dateutil.__version__)'");
    assert_eq!(environment.run(&command), format!("1.15.0 {prefix}\n2.8.2"));
    let why = create_environment(&found.recipe, &wanted, "0.0.1")
        .err()
        .unwrap();
    assert!(why.contains("six==0.0.1"), "{why}");
}

#[test]
fn pip_accepts_named_versions_and_refuses_missing_versions() {
    needs!(python("ensurepip"), host("pypi.org", 443));
    let folder = tempfile::tempdir().unwrap();
    let pip = |spec| query_for(PackageManager::Pip, folder.path(), spec);
    // The second version was yanked, so listings do not show it.
    let named = pip("attrs==22.1.0,21.1.0");
    let found = find_packages(&named);
    assert_eq!(found.versions, ["22.1.0", "21.1.0"]);
    let environment = create_environment(&found.recipe, &named, "21.1.0").unwrap();
    assert_eq!(
        environment.run("python -c 'import attr; print(attr.__version__)'"),
        "21.1.0"
    );
    let fault = expect_refusal(&pip("six==1.16.5.."));
    assert_eq!(fault.to_string(), "pip lists no version `1.16.5` of six");
    assert!(fault.hint().contains("1.16.0, 1.17.0"), "{}", fault.hint());
    let nobody = VersionQuery {
        python: Some("no-such-python"),
        ..pip("six")
    };
    assert!(
        expect_refusal(&nobody)
            .to_string()
            .starts_with("cannot run `no-such-python`")
    );
}

#[test]
fn an_environment_is_created_from_frozen_requirements() {
    needs!(python("ensurepip"), host("pypi.org", 443));
    let folder = tempfile::tempdir().unwrap();
    let wanted = query_for(PackageManager::Pip, folder.path(), "");
    let pip = Pip::find_interpreter(&wanted).unwrap();
    let recipe = pip.environment_recipe(&["six==1.16.0".to_owned()]);
    let environment = create_environment(&recipe, &wanted, "").unwrap();
    assert!(
        environment
            .run(&format!("python -c '{SIX}'"))
            .starts_with("1.16.0 ")
    );
}

#[test]
fn uv_creates_the_environment_if_it_is_installed() {
    needs!(python("ensurepip"), host("pypi.org", 443));
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("tools");
    let script = "python3 -m venv tools && tools/bin/pip install --quiet uv";
    let mut sh = Command::new("sh");
    assert!(
        sh.args(["-c", script])
            .current_dir(folder.path())
            .status()
            .unwrap()
            .success()
    );
    let path = format!("{}/bin:{}", tools.display(), std::env::var("PATH").unwrap());
    // With other sources in pip's settings, uv is not used.
    let env = [("PATH", path.as_str()), ("PIP_FIND_LINKS", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let wanted = VersionQuery {
        env: &env,
        ..query_for(PackageManager::Pip, folder.path(), "six==1.15.0..1.16.0")
    };
    let found = find_packages(&wanted);
    assert!(
        found.recipe.script.starts_with("uv venv"),
        "{}",
        found.recipe.script
    );
    let environment = create_environment(&found.recipe, &wanted, "1.15.0").unwrap();
    assert!(
        environment
            .run(&format!("python -c '{SIX}'"))
            .starts_with("1.15.0 ")
    );
    let why = create_environment(&found.recipe, &wanted, "0.0.1")
        .err()
        .unwrap();
    assert!(why.contains("six==0.0.1"), "{why}");
}

#[test]
fn cargo_lists_versions_and_builds_a_copy_with_each() {
    needs!(crates_io());
    let top = tempfile::tempdir().unwrap();
    let folder = top.path().join("member");
    let files = [
        (
            "Cargo.toml",
            "[workspace]\nmembers = [\"member\"]\nresolver = \"2\"\n[workspace.dependencies]\nitoa = { version = \"1\", default-features = false }\n",
        ),
        (
            "member/Cargo.toml",
            "[package]\nname = \"shows\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa.workspace = true\n",
        ),
        (
            "member/src/main.rs",
            "fn main() { println!(\"{}\", itoa::Buffer::new().format(7)); }\n",
        ),
    ];
    for (name, text) in files {
        let path = top.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let cargo = |spec| query_for(PackageManager::Cargo, &folder, spec);
    let wanted = cargo("itoa==0.4.7..1.0.1");
    let found = find_packages(&wanted);
    assert_eq!(found.versions, ["0.4.7", "0.4.8", "1.0.0", "1.0.1"]);
    assert!(!found.recipe.shared);
    assert_eq!(found.recipe.cwd.as_deref(), Some("src/member"));
    // The manifest allows the first version; the second needs another requirement.
    for version in ["1.0.1", "0.4.8"] {
        let environment = create_environment(&found.recipe, &wanted, version).unwrap();
        assert_eq!(environment.run("shows"), "7");
        let lock = fs::read_to_string(environment.folder.path().join("src/Cargo.lock")).unwrap();
        assert!(
            lock.contains(&format!("name = \"itoa\"\nversion = \"{version}\"")),
            "{lock}"
        );
        assert!(environment.run("cargo run --offline").starts_with("7\n"));
        assert!(
            environment
                .run("cargo metadata --offline --no-deps")
                .contains("\"uses_default_features\":false")
        );
    }
    assert!(!top.path().join("Cargo.lock").exists());
    let why = create_environment(&found.recipe, &wanted, "1.0.999")
        .err()
        .unwrap();
    assert!(why.starts_with("error: "), "{why}");
    let fault = expect_refusal(&cargo("itao"));
    assert_eq!(fault.hint(), "did you mean `itoa`?");
    assert!(
        expect_refusal(&cargo("itoa==1.0.999.."))
            .hint()
            .contains("name a version that is not listed")
    );
}

#[test]
fn a_yanked_version_that_is_named_is_built() {
    needs!(crates_io());
    let folder = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"shows\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nautocfg = \"1\"\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    let main = "fn main() { autocfg::rerun_path(\"x\"); }\n";
    fs::write(folder.path().join("src/main.rs"), main).unwrap();
    // Cargo knows the crate from now on.
    expect_refusal(&query_for(
        PackageManager::Cargo,
        folder.path(),
        "autocfg==9.9.9..",
    ));
    let wanted = query_for(PackageManager::Cargo, folder.path(), "autocfg==0.1.3,0.1.4");
    let found = find_packages(&wanted);
    assert_eq!(found.versions, ["0.1.3", "0.1.4"]);
    let yanked = "yanked, but tested because you named it: autocfg 0.1.3";
    assert!(
        found.notes.contains(&yanked.to_owned()),
        "{:?}",
        found.notes
    );
    for version in ["0.1.3", "0.1.4"] {
        let environment = create_environment(&found.recipe, &wanted, version).unwrap();
        let lock = fs::read_to_string(environment.folder.path().join("src/Cargo.lock")).unwrap();
        let line = format!("name = \"autocfg\"\nversion = \"{version}\"");
        assert!(lock.contains(&line), "{lock}");
        assert!(environment.run("shows").contains("rerun-if-changed=x"));
    }
    let why = create_environment(&found.recipe, &wanted, "0.1.999")
        .err()
        .unwrap();
    assert!(why.contains("0.1.999"), "{why}");
}

/// Creates a repository of packages, and settings with which apt knows no other.
fn repository(folder: &Path, versions: &[&str]) -> [(String, String); 1] {
    let all = "etc/apt.conf.d etc/preferences.d etc/sources.list.d state/lists/partial cache/archives/partial repo";
    for name in all.split(' ') {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let mut packages = String::new();
    for (index, version) in versions.iter().enumerate() {
        let tree = folder.join(index.to_string());
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("usr/bin")).unwrap();
        let control = format!(
            "Package: provoke-hello\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: says which it is\n"
        );
        fs::write(tree.join("DEBIAN/control"), &control).unwrap();
        fs::write(
            tree.join("usr/bin/provoke-hello"),
            format!("#!/bin/sh\necho {version}\n"),
        )
        .unwrap();
        let script = format!(
            "chmod 755 {index}/usr/bin/* && dpkg-deb -b {index} repo/{index}.deb >/dev/null && stat -c %s repo/{index}.deb && sha256sum repo/{index}.deb"
        );
        let done = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder)
            .output()
            .unwrap();
        let output = String::from_utf8(done.stdout).unwrap();
        let mut words = output.split_whitespace();
        let (size, sum) = (words.next().unwrap(), words.next().unwrap());
        let file = format!("Filename: ./{index}.deb\nSize: {size}\nSHA256: {sum}\n\n");
        packages.extend([control, file]);
    }
    fs::write(folder.join("repo/Packages"), packages).unwrap();
    fs::write(folder.join("status"), "").unwrap();
    let here = folder.display();
    let source = format!("deb [trusted=yes] file:{here}/repo ./\n");
    fs::write(folder.join("etc/sources.list"), source).unwrap();
    let settings = format!(
        "Dir::State \"{here}/state\";\nDir::State::status \"{here}/status\";\nDir::Cache \"{here}/cache\";\nDir::Etc \"{here}/etc\";\n"
    );
    let config = folder.join("apt.conf");
    fs::write(&config, settings).unwrap();
    let env = [("APT_CONFIG".to_owned(), config.display().to_string())];
    let mut update = Command::new("apt-get");
    update.args(["update", "-qq"]).envs(env.clone());
    assert!(update.status().unwrap().success());
    env
}

#[test]
fn apt_lists_versions_and_unpacks_one() {
    needs!(program("apt-get"), program("dpkg-deb"));
    let folder = tempfile::tempdir().unwrap();
    let env = repository(
        folder.path(),
        &["1.0-2", "1:0.9", "1.1~rc1", "1.0-10", "1.1"],
    );
    let apt = |spec| VersionQuery {
        env: &env,
        ..query_for(PackageManager::Apt, folder.path(), spec)
    };
    let wanted = apt("provoke-hello==1.0-10..");
    let found = find_packages(&wanted);
    assert_eq!(found.versions, ["1.0-10", "1.1~rc1", "1.1", "1:0.9"]);
    assert!(found.recipe.shared);
    for version in ["1.1~rc1", "1:0.9"] {
        let environment = create_environment(&found.recipe, &wanted, version).unwrap();
        assert_eq!(environment.run("provoke-hello"), version);
    }
    let why = create_environment(&found.recipe, &wanted, "7")
        .err()
        .unwrap();
    assert_eq!(why, "E: Version '7' for 'provoke-hello' was not found");
    assert_eq!(
        expect_refusal(&apt("provoke-hallo")).hint(),
        "did you mean `provoke-hello`?"
    );
    assert!(
        expect_refusal(&apt("provoke-hello==1.0.."))
            .hint()
            .contains("1.0-2, 1.0-10")
    );
}

/// A local registry of Node packages, which ends with its test.
struct Registry {
    server: Child,
    settings: String,
}

const REGISTRY: &str = include_str!("packages/registry.py");

impl Registry {
    fn new() -> Self {
        use std::io::{BufRead as _, BufReader};
        let mut server = Command::new("python3")
            .args(["-c", REGISTRY])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.as_mut().unwrap())
            .read_line(&mut port)
            .unwrap();
        let settings = format!("registry=http://127.0.0.1:{}/\n", port.trim());
        Self { server, settings }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn npm_lists_versions_and_installs_one() {
    needs!(program("npm"), program("python3"));
    let registry = Registry::new();
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("cache").display().to_string();
    let env = [("npm_config_cache".to_owned(), cache)];
    let npm = |spec| VersionQuery {
        env: &env,
        ..query_for(PackageManager::Npm, folder.path(), spec)
    };
    fs::write(folder.path().join(".npmrc"), &registry.settings).unwrap();
    let alone = npm("provoke-hello==1.1.0..");
    let first = find_packages(&alone);
    assert_eq!(first.versions, ["1.1.0", "1.2.0", "1.10.0"]);
    assert!(
        first.notes.iter().any(|note| note.contains("(2.0.0-rc.1)")),
        "{:?}",
        first.notes
    );
    let environment = create_environment(&first.recipe, &alone, "1.1.0").unwrap();
    let command = "provoke-hello; node -p 'require(\"provoke-hello\")'";
    assert_eq!(environment.run(command), "1.1.0\n1.1.0");
    let why = create_environment(&first.recipe, &alone, "7.0.0")
        .err()
        .unwrap();
    assert_eq!(
        why,
        "npm error notarget No matching version found for provoke-hello@7.0.0."
    );

    // In a project, the versions in its own directory would take precedence.
    let text = r#"{"name": "mine", "devDependencies": {"provoke-hello": "^1.0.0"}}"#;
    fs::write(folder.path().join("package.json"), text).unwrap();
    fs::create_dir_all(folder.path().join("node_modules/provoke-hello")).unwrap();
    fs::write(
        folder.path().join("node_modules/provoke-hello/index.js"),
        "module.exports = 'mine'",
    )
    .unwrap();
    let project = npm("provoke-hello==2.0.0-rc.1,1.2.0");
    let second = find_packages(&project);
    assert_eq!(second.recipe.cwd.as_deref(), Some("src"));
    let environment = create_environment(&second.recipe, &project, "2.0.0-rc.1").unwrap();
    assert_eq!(environment.run(command), "2.0.0-rc.1\n2.0.0-rc.1");
    assert_eq!(
        expect_refusal(&npm("provoke-hallo")).hint(),
        "did you mean `provoke-hello`?"
    );
}
