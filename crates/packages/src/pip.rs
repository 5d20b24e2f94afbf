//! Packages of Python: `pip index versions` lists the versions, and a virtual environment has one
//! of them.

use super::requirements::{self, RequirementLine, RequirementRole, normalize_name};
use super::script::{self, quote_word};
use super::spec::PackageSpec;
use super::{
    EnvironmentRecipe, VersionList, VersionQuery, ask_tool, refuse_unknown_name, refuse_with_hint,
};
use provoke_words::diagnostic::Diagnostic;

/// Python program that prints the path and version of the interpreter, and the version of its pip.
const WHICH: &str = "
import sys
print(sys.executable)
print(*sys.version_info[:3], sep='.')
try:
    import pip
    print(pip.__version__)
except ImportError:
    pass
";

/// pip settings for the sources of packages. uv has separate settings.
const SOURCES: [&str; 4] = ["index-url", "extra-index-url", "find-links", "no-index"];

/// An interpreter, and its installer.
#[derive(Clone, Debug)]
pub struct Pip<'a> {
    query: VersionQuery<'a>,
    /// Path of the interpreter, because its name means another program on the `PATH` of a trial.
    python: String,
    version: String,
    /// Version of its pip, if it has pip.
    installer: Option<(u32, u32)>,
    has_uv: bool,
    /// pip is configured to use other sources.
    has_sources: bool,
}

/// Packages to install besides the one in question.
pub(super) struct ExtraPackages {
    requirements: Vec<RequirementLine>,
    constraints: Vec<RequirementLine>,
    /// Extras of the package in the requirements.
    extras: String,
}

impl<'a> Pip<'a> {
    /// Queries the interpreter, and finds an installer.
    pub fn find_interpreter(query: &VersionQuery<'a>) -> Result<Self, Diagnostic> {
        let program = query.python.unwrap_or("python3");
        let output = ask_tool(query, program, &["-c", WHICH])?;
        let mut lines = output.stdout.lines().map(str::to_owned);
        let (true, Some(python), Some(version)) = (output.fine, lines.next(), lines.next()) else {
            return refuse_with_hint(
                format!(
                    "`{program}` is not a working Python: {}",
                    output.failure_line()
                ),
                format!("does `{program} -c 'import sys'` work there?"),
            );
        };
        let installer = lines.next().and_then(|pip| {
            let mut numbers = pip.split('.').map_while(|number| number.parse().ok());
            Some((numbers.next()?, numbers.next().unwrap_or(0)))
        });
        let has_uv = ask_tool(query, "uv", &["--version"]).is_ok_and(|output| output.fine);
        if installer.is_none() && !has_uv {
            return refuse_with_hint(
                format!("`{python}` has no pip, and uv is not installed"),
                format!("install one of them: `{python} -m ensurepip`, or `pip install uv`"),
            );
        }
        let settings = match installer {
            Some(_) => ask_tool(query, &python, &["-m", "pip", "config", "list"])?.stdout,
            None => String::new(),
        };
        let has_sources = settings.lines().any(|line| {
            let set = line
                .split_once('=')
                .filter(|(_, value)| !value.trim_matches('\'').is_empty());
            set.is_some_and(|(name, _)| {
                SOURCES
                    .iter()
                    .any(|source| name.ends_with(&format!(".{source}")))
            })
        });
        Ok(Self {
            query: *query,
            python,
            version,
            installer,
            has_uv,
            has_sources,
        })
    }

    /// Lists the versions of a package that the interpreter supports.
    pub(super) fn list_versions(
        &self,
        spec: &PackageSpec,
        extra: &ExtraPackages,
    ) -> Result<VersionList, Diagnostic> {
        let mut args = match self.installer {
            Some(_) => vec!["-m", "pip"],
            None => vec!["tool", "run", "--quiet", "--python", &self.python, "pip"],
        };
        args.extend(["index", "versions", "--pre"]);
        args.extend(["--disable-pip-version-check", "--no-input"]);
        // The sources in the requirements apply to this package, too.
        let flags = extra
            .requirements
            .iter()
            .filter(|line| line.role == RequirementRole::Flag);
        let sources: Vec<_> = flags
            .flat_map(|line| line.text.split([' ', '=']))
            .filter(|word| !word.is_empty())
            .collect();
        let may = ["-i", "-f", "--trusted-host"];
        let mut words_left = sources.into_iter().peekable();
        while let Some(word) = words_left.next() {
            let long = word
                .strip_prefix("--")
                .is_some_and(|name| SOURCES.contains(&name));
            if long || may.contains(&word) {
                args.push(word);
                args.extend(words_left.next_if(|next| !next.starts_with('-')));
            }
        }
        args.push(&spec.name);
        let program = if self.installer.is_some() {
            &self.python
        } else {
            "uv"
        };
        let output = ask_tool(&self.query, program, &args)?;
        let listed = output
            .stdout
            .lines()
            .find_map(|line| line.trim().strip_prefix("Available versions:"));
        if let (true, Some(listed)) = (output.fine, listed) {
            let versions = listed.split(',').map(|version| version.trim().to_owned());
            return Ok(VersionList {
                versions: versions.filter(|version| !version.is_empty()).collect(),
                notes: vec![format!(
                    "pip lists the versions that Python {} can install",
                    self.version
                )],
            });
        }
        let no_answer = ["Retrying", "onnection", "Could not fetch"];
        if output.err.contains("No matching distribution")
            && !no_answer.iter().any(|words| output.err.contains(words))
        {
            let lines = extra
                .requirements
                .iter()
                .filter(|line| line.role == RequirementRole::Package);
            return refuse_unknown_name(spec, lines.map(|line| line.name.clone()));
        }
        let old = self.installer.is_some_and(|pip| pip < (21, 2));
        let hint = if old {
            "`pip index` came with pip 21.2: `pip install --upgrade pip`".to_owned()
        } else {
            let name = &spec.name;
            format!(
                "does `{} -m pip index versions {name}` work? A list is not needed for {name}==A,B,C",
                self.python
            )
        };
        refuse_with_hint(
            format!("pip does not list {}: {}", spec.name, output.failure_line()),
            hint,
        )
    }

    /// Returns the recipe for an environment with a version of a package, and notes about it.
    pub(super) fn install_recipe(
        &self,
        spec: &PackageSpec,
        extra: &ExtraPackages,
    ) -> (EnvironmentRecipe, Vec<String>) {
        let extras = if spec.extras.is_empty() {
            &extra.extras
        } else {
            &spec.extras
        };
        let mut lines = extra.requirements.clone();
        lines.push(RequirementLine::new(
            normalize_name(&spec.name),
            format!("{}{extras}=={{variant}}", spec.name),
            RequirementRole::Package,
        ));
        let mut notes = vec![format!(
            "each version has its own virtual environment, created by {}",
            self.tool_name()
        )];
        if self.has_uv && self.has_sources && self.installer.is_some() {
            let note = "uv is not used, because pip is configured with another index";
            notes.push(note.to_owned());
        }
        (self.script_recipe(&lines, &extra.constraints), notes)
    }

    /// Returns the recipe for an environment with these lines, which have the form of
    /// [`super::compare_files`].
    pub fn environment_recipe(&self, lines: &[String]) -> EnvironmentRecipe {
        let lines: Vec<_> = lines
            .iter()
            .flat_map(|lines| lines.lines())
            .map(|text| {
                let is_local = text.contains("file:") || text.starts_with(['/', '.']);
                let is_local = is_local || text.starts_with("-e ") && !text.contains("://");
                RequirementLine::new(text, text, RequirementRole::of_package(is_local))
            })
            .collect();
        self.script_recipe(&lines, &[])
    }

    fn uses_uv(&self) -> bool {
        self.has_uv && !(self.has_sources && self.installer.is_some())
    }

    fn tool_name(&self) -> &'static str {
        if self.uses_uv() { "uv" } else { "pip" }
    }

    fn script_recipe(
        &self,
        lines: &[RequirementLine],
        constraints: &[RequirementLine],
    ) -> EnvironmentRecipe {
        let python = quote_word(&self.python);
        let inside = "\"$PROVOKE_MADE/bin/python\"";
        // An interpreter without `ensurepip`, such as Debian's, can still install into another
        // environment.
        let installs_elsewhere = self.installer >= Some((22, 3));
        let made_folder = "\"$PROVOKE_MADE\"";
        let (make, install, error_line) = if self.uses_uv() {
            (
                format!("uv venv --quiet --python {python} {made_folder}"),
                format!("uv pip install --quiet --python {inside}"),
                "cause: |╰─▶ ",
            )
        } else {
            let (flag, pip) = if installs_elsewhere {
                (
                    "--without-pip ",
                    format!("{python} -m pip --python {inside}"),
                )
            } else {
                ("", format!("{inside} -m pip"))
            };
            (
                format!("{python} -m venv {flag}{made_folder}"),
                format!("{pip} install --disable-pip-version-check --no-input --quiet"),
                "^ERROR: |× ",
            )
        };
        let texts = |lines: &[RequirementLine]| {
            lines
                .iter()
                .map(|line| line.text.clone())
                .collect::<Vec<_>>()
        };
        let mut script = format!("{make} || exit\n");
        script += &script::write_file_lines("requirements.txt", &texts(lines));
        let mut install = format!("{install} -r \"$PROVOKE_MADE/requirements.txt\"");
        if !constraints.is_empty() {
            script += &script::write_file_lines("constraints.txt", &texts(constraints));
            install += " -c \"$PROVOKE_MADE/constraints.txt\"";
        }
        script += &script::run_command_lines(&install, error_line);
        let requirement_lines = lines.iter().chain(constraints);
        EnvironmentRecipe {
            script,
            path: vec!["{made}/bin".to_owned()],
            env: vec![("VIRTUAL_ENV".to_owned(), "{made}".to_owned())],
            cwd: None,
            shared: requirement_lines
                .into_iter()
                .all(|line| line.role != RequirementRole::Local),
        }
    }
}

impl ExtraPackages {
    /// Reads the requirements and constraints files, without their lines about the package.
    pub(super) fn read_files(query: &VersionQuery, spec: &PackageSpec) -> Result<Self, Diagnostic> {
        let mut lines = Vec::new();
        for (path, is_constraint) in [(query.requirements, false), (query.constraints, true)] {
            if let Some(path) = path {
                let path = query.folder.join(path);
                let read = requirements::read_requirements(&path, query.folder, is_constraint)?;
                lines.extend(read);
            }
        }
        let name = normalize_name(&spec.name);
        let own_line = lines
            .iter()
            .find(|line| line.name == name && line.role == RequirementRole::Package);
        let extras = own_line.and_then(|line| {
            let (_, rest) = line.text.split_once('[')?;
            Some(format!("[{}]", rest.split_once(']')?.0))
        });
        lines.retain(|line| line.name != name && line.text != "--require-hashes");
        for line in &mut lines {
            // The tested version has no hash, and pip requires hashes for either all packages or
            // none.
            if let Some(position) = line.text.find("--hash") {
                line.text = line.text[..position].trim_end().to_owned();
            }
        }
        let (constraints, requirements) = lines
            .into_iter()
            .partition(|line| line.role == RequirementRole::Constraint);
        Ok(Self {
            requirements,
            constraints,
            extras: extras.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PackageManager;
    use std::fs;
    use std::path::Path;

    fn wanted<'a>(folder: &'a Path, spec: &'a str) -> VersionQuery<'a> {
        VersionQuery {
            manager: PackageManager::Pip,
            spec,
            folder,
            env: &[],
            requirements: None,
            constraints: None,
            python: None,
            build: None,
        }
    }

    fn pip(wanted: VersionQuery<'_>) -> Pip<'_> {
        Pip {
            query: wanted,
            python: "/usr/bin/python3".to_owned(),
            version: "3.11.2".to_owned(),
            installer: Some((23, 0)),
            has_uv: false,
            has_sources: false,
        }
    }

    fn script(files: [&str; 2], spec: &str) -> EnvironmentRecipe {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in ["r", "c"].iter().zip(files) {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let wanted = VersionQuery {
            requirements: Some(Path::new("r")),
            constraints: Some(Path::new("c")),
            ..wanted(folder.path(), spec)
        };
        let spec = PackageSpec::parse(PackageManager::Pip, spec).unwrap();
        let others = ExtraPackages::read_files(&wanted, &spec).unwrap();
        pip(wanted).install_recipe(&spec, &others).0
    }

    #[test]
    fn the_searched_package_replaces_its_own_pin() {
        let files = [
            "a==1 --hash=sha256:12\nTorch[cuda]==1.2\n-i https://host\n",
            "torch<2\nb<3\n",
        ];
        let recipe = script(files, "torch==1.0,1.1");
        assert!(
            recipe
                .script
                .contains("\na==1\n-i https://host\ntorch[cuda]=={variant}\nPROVOKE_END\n")
        );
        assert!(
            recipe
                .script
                .contains("<<'PROVOKE_END' || exit\nb<3\nPROVOKE_END\n")
        );
        assert!(recipe.shared);
        let recipe = script(["torch[cuda]\n-e .\n", ""], "torch[x]");
        assert!(recipe.script.contains("\ntorch[x]=={variant}\n"));
        assert!(!recipe.script.contains("constraints.txt"));
        assert!(!recipe.shared);
    }

    #[test]
    fn the_install_script_uses_the_available_installer() {
        let wanted = wanted(Path::new("/"), "six");
        let lines = ["six==1.16.0".to_owned()];
        let script = |pip: &Pip| pip.environment_recipe(&lines).script;
        let new = pip(wanted);
        let without = "'/usr/bin/python3' -m venv --without-pip \"$PROVOKE_MADE\" || exit\n";
        assert!(script(&new).starts_with(without));
        let through = "'/usr/bin/python3' -m pip --python \"$PROVOKE_MADE/bin/python\" install ";
        assert!(script(&new).contains(through));
        let old = Pip {
            installer: Some((20, 3)),
            ..new.clone()
        };
        assert!(script(&old).starts_with("'/usr/bin/python3' -m venv \"$PROVOKE_MADE\" || exit\n"));
        assert!(script(&old).contains("\n\"$PROVOKE_MADE/bin/python\" -m pip install "));
        let uv = Pip {
            has_uv: true,
            ..new
        };
        assert!(
            script(&uv)
                .starts_with("uv venv --quiet --python '/usr/bin/python3' \"$PROVOKE_MADE\"")
        );
        assert!(
            script(&uv)
                .contains("uv pip install --quiet --python \"$PROVOKE_MADE/bin/python\" -r ")
        );
        // uv would not find packages in the sources that pip is configured to use.
        let elsewhere = Pip {
            has_sources: true,
            ..uv
        };
        assert!(script(&elsewhere).contains("-m pip --python"));
    }

    #[test]
    fn environments_with_local_packages_are_not_cached() {
        let pip = pip(wanted(Path::new("/"), "six"));
        for (line, shared) in [
            ("six==1.16.0", true),
            ("-e git+https://host/x#egg=x", true),
            ("x @ https://host/x.whl", true),
            ("x @ file:///w/x.whl", false),
            ("-e /w/x", false),
            ("/w/x.whl", false),
        ] {
            assert_eq!(
                pip.environment_recipe(&[line.to_owned()]).shared,
                shared,
                "{line}"
            );
        }
    }
}
