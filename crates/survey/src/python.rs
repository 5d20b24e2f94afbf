//! Collects the packages that a Python program can import, from the names of folders.

use super::file_names::{is_one_of, names_in};
use provoke_autopsy::CommandEnvironment;
use provoke_model::Survey;
use std::fs;
use std::path::{Path, PathBuf};

/// Limit of names in a folder of packages.
const NAMES: usize = 20_000;
/// Limit of metadata files that are opened because their name lacks a version.
const OPENED: usize = 100;

pub(super) fn survey_python(
    survey: &mut Survey,
    chain: &[PathBuf],
    environment: &CommandEnvironment<'_>,
) {
    let interpreter = chain
        .iter()
        .find(|file| is_one_of(file, &["python", "pypy"]) && !is_shim(file));
    let Some(home) = interpreter.and_then(|file| PythonInstallation::of_interpreter(file)) else {
        return;
    };
    survey.set_fact("python.version", &home.version);
    let mut folders = environment.list_paths("PYTHONPATH");
    folders.extend(home.package_folders(environment));
    let mut opened = 0;
    for folder in folders {
        for name in names_in(&folder, NAMES) {
            let Some(stem) = name
                .strip_suffix(".dist-info")
                .or_else(|| name.strip_suffix(".egg-info"))
            else {
                continue;
            };
            let (package, version) = match split_stem(stem) {
                (package, Some(version)) => (package, version.to_owned()),
                (package, None) if opened < OPENED => {
                    opened += 1;
                    match stated_version(&folder.join(&name)) {
                        Some(version) => (package, version),
                        None => continue,
                    }
                }
                _ => continue,
            };
            let key = format!("python.{}", normalize_name(package));
            // Python imports a package from the first folder that contains it.
            if survey.get_fact(&key).is_none() {
                survey.set_fact(key, version);
            }
        }
    }
}

/// Splits `NAME-VERSION` or `NAME-VERSION-py3.11`.
fn split_stem(stem: &str) -> (&str, Option<&str>) {
    match stem.split_once('-') {
        Some((name, rest)) => (name, rest.split('-').next()),
        None => (stem, None),
    }
}

/// Returns the normalized name of a package, as tools compare it.
fn normalize_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name
        .split(['-', '_', '.'])
        .filter(|part| !part.is_empty())
        .collect();
    parts.join("-")
}

/// Returns the version in metadata whose name lacks it.
fn stated_version(metadata: &Path) -> Option<String> {
    let text = fs::read_to_string(metadata.join("PKG-INFO"))
        .or_else(|_| fs::read_to_string(metadata.join("METADATA")))
        .ok()?;
    let version = text
        .lines()
        .find_map(|line| line.strip_prefix("Version:"))?;
    Some(version.trim().to_owned())
}

/// Installation of an interpreter.
struct PythonInstallation {
    /// The folder that contains `bin` and `lib`.
    prefix: PathBuf,
    /// Major and minor version, as in the names of folders.
    version: String,
    environment: Option<VirtualEnvironment>,
}

/// Virtual environment of an interpreter.
struct VirtualEnvironment {
    prefix: PathBuf,
    sees_system: bool,
}

impl PythonInstallation {
    fn of_interpreter(interpreter: &Path) -> Option<Self> {
        let real = fs::canonicalize(interpreter).ok()?;
        let prefix = real.parent()?.parent()?.to_owned();
        let stated = real
            .file_name()?
            .to_str()?
            .trim_start_matches(|c: char| !c.is_ascii_digit());
        let version = if stated.contains('.') {
            stated.to_owned()
        } else {
            let libraries = names_in(&prefix.join("lib"), NAMES);
            let mut versions = libraries.iter().filter_map(|name| {
                let version = name.strip_prefix("python")?;
                version.contains('.').then_some(version)
            });
            versions.next_back()?.to_owned()
        };
        let bin = interpreter.parent()?;
        let environment = [Some(bin), bin.parent()]
            .into_iter()
            .flatten()
            .find_map(|prefix| {
                let settings = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
                Some(VirtualEnvironment {
                    prefix: prefix.to_owned(),
                    sees_system: sees_system(&settings),
                })
            });
        Some(Self {
            prefix,
            version,
            environment,
        })
    }

    /// Returns the folders in which packages are searched, in order.
    fn package_folders(&self, around: &CommandEnvironment<'_>) -> Vec<PathBuf> {
        let site = |prefix: &Path| {
            let name = format!("python{}/site-packages", self.version);
            ["lib", "lib64"].map(|lib| prefix.join(lib).join(&name))
        };
        let mut folders = Vec::new();
        if let Some(environment) = &self.environment {
            folders.extend(site(&environment.prefix));
            if !environment.sees_system {
                return folders;
            }
        }
        if around.get_variable("PYTHONNOUSERSITE").is_none()
            && let Some(home) = around
                .get_variable("PYTHONUSERBASE")
                .map(PathBuf::from)
                .or_else(|| {
                    let home = around.get_variable("HOME")?;
                    Some(Path::new(home).join(".local"))
                })
        {
            folders.extend(site(&home));
        }
        folders.extend(site(&self.prefix));
        // Debian separates its packages from packages that pip installs.
        let dist = format!("python{}/dist-packages", self.version);
        if self.prefix == Path::new("/usr") {
            folders.push(Path::new("/usr/local/lib").join(&dist));
        }
        folders.push(self.prefix.join("lib").join(dist));
        folders.push(self.prefix.join("lib/python3/dist-packages"));
        folders
    }
}

fn sees_system(settings: &str) -> bool {
    let mut pairs = settings
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim(), value.trim()));
    pairs.any(|(name, value)| {
        name == "include-system-site-packages" && value.eq_ignore_ascii_case("true")
    })
}

/// Returns whether a file is a script with which pyenv replaces an interpreter.
fn is_shim(file: &Path) -> bool {
    let folder = file.parent();
    folder.is_some_and(|folder| {
        folder.ends_with("shims")
            && folder
                .parent()
                .is_some_and(|root| root.join("versions").is_dir())
    })
}

/// Returns the interpreter that such a script selects.
pub(super) fn behind_shim(file: &Path, environment: &CommandEnvironment<'_>) -> Option<PathBuf> {
    if !is_shim(file) {
        return None;
    }
    let root = file.parent()?.parent()?;
    let chosen = environment
        .get_variable("PYENV_VERSION")
        .map(|value| value.to_string_lossy().into_owned());
    let real_path = || {
        let mut folders = environment.cwd.ancestors();
        folders.find_map(|folder| fs::read_to_string(folder.join(".python-version")).ok())
    };
    let chosen = chosen
        .or_else(real_path)
        .or_else(|| fs::read_to_string(root.join("version")).ok())?;
    let versions = chosen
        .split([':', '\n', ' '])
        .map(str::trim)
        .filter(|version| !version.is_empty());
    let name = file.file_name()?;
    let mut files =
        versions.map(|version| root.join("versions").join(version).join("bin").join(name));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_names_are_separated_from_versions() {
        assert_eq!(split_stem("numpy-1.26.4"), ("numpy", Some("1.26.4")));
        assert_eq!(split_stem("six-1.16.0-py3.11"), ("six", Some("1.16.0")));
        assert_eq!(split_stem("mine"), ("mine", None));
    }

    #[test]
    fn package_names_are_normalized() {
        for name in ["Foo.Bar", "foo_bar", "FOO-BAR", "foo__bar"] {
            assert_eq!(normalize_name(name), "foo-bar");
        }
    }

    #[test]
    fn pyvenv_cfg_says_if_system_packages_are_visible() {
        assert!(sees_system(
            "home = /usr/bin\ninclude-system-site-packages = true\n"
        ));
        assert!(!sees_system("include-system-site-packages = false\n"));
        assert!(!sees_system(""));
    }
}
