//! Builds the command line and environment of an actor in a trial.

use provoke_model::{ActorPlan, Text, Trial};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A command line with all placeholders filled in.
#[derive(Clone, Debug)]
pub struct CommandLine<'a> {
    /// Name and arguments of the program.
    pub argv: Vec<Cow<'a, OsStr>>,
    /// Complete environment.
    pub environment: Vec<(&'a OsStr, &'a OsStr)>,
    /// Working directory.
    pub cwd: &'a Path,
    /// File for stdin.
    pub stdin: Option<&'a Path>,
}

/// Values of placeholders, which are also environment variables.
#[derive(Clone, Debug, Default)]
pub struct PlaceholderValues {
    values: Vec<(&'static str, &'static str, OsString)>,
    scratch: Option<PathBuf>,
    /// Variables that hold Python programs at their lines.
    holding: Vec<(OsString, OsString)>,
    /// Variables that make the test runner report its cases.
    case_variables: Vec<(String, OsString)>,
}

impl PlaceholderValues {
    /// Returns the values of a trial; the default, for use outside of trials, has none.
    pub fn new(trial: &Trial, variant: &str, scratch: Option<&Path>) -> Self {
        let text = |value: u64| OsString::from(value.to_string());
        let values = vec![
            ("{trial}", "PROVOKE_TRIAL", text(trial.id.0)),
            ("{slot}", "PROVOKE_SLOT", text(u64::from(trial.slot.0))),
            ("{seed}", "PROVOKE_SEED", text(trial.seed)),
            ("{variant}", "PROVOKE_VARIANT", variant.into()),
            (
                "{dir}",
                "PROVOKE_DIR",
                scratch.unwrap_or(Path::new("")).into(),
            ),
        ];
        Self {
            values,
            scratch: scratch.map(Path::to_owned),
            ..Self::default()
        }
    }

    pub(super) fn scratch_folder(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// Returns the values for a hook of a variant.
    pub(super) fn of_variant(variant: &str) -> Self {
        Self {
            values: vec![("{variant}", "PROVOKE_VARIANT", variant.into())],
            ..Self::default()
        }
    }

    pub(super) fn fill_marks<'a>(&self, text: &'a Text) -> Cow<'a, OsStr> {
        if !text.as_bytes().contains(&b'{') {
            return Cow::Borrowed(text.as_os_str());
        }
        let marks: Vec<_> = self
            .values
            .iter()
            .map(|(mark, _, value)| (*mark, value))
            .collect();
        Cow::Owned(text.fill_marks(&marks).as_os_str().to_owned())
    }

    /// Adds variables that hold Python programs at their lines.
    pub(super) fn with_holding(&self, holding: Vec<(OsString, OsString)>) -> Self {
        Self {
            holding,
            ..self.clone()
        }
    }

    /// Adds the folder of the report about the cases, and the variables of the runner.
    pub(super) fn with_cases(mut self, folder: &Path, variables: &[(String, String)]) -> Self {
        self.values
            .push(("{cases}", "PROVOKE_CASES_DIR", folder.into()));
        // GoogleTest accepts seeds from 1 to 99999.
        let short_seed = self.short_seed().to_string();
        self.values
            .push(("{short_seed}", "PROVOKE_SHORT_SEED", short_seed.into()));
        self.case_variables = variables
            .iter()
            .map(|(name, value)| {
                let text = Text::from(value.as_str());
                (name.clone(), self.fill_marks(&text).into_owned())
            })
            .collect();
        self
    }

    fn short_seed(&self) -> u64 {
        let seed = self.values.iter().find(|(mark, ..)| *mark == "{seed}");
        let number = seed.and_then(|(.., value)| value.to_str()?.parse::<u64>().ok());
        number.unwrap_or_default() % 99_999 + 1
    }

    /// Returns the environment variables of provoke. A variable without a value here is removed, so
    /// that a provoke within a provoke does not pass on the outer values.
    pub(super) fn own_variables(&self) -> impl Iterator<Item = (&OsStr, Option<&OsStr>)> {
        let variables = self.values.iter().map(|(_, name, value)| {
            (
                OsStr::new(*name),
                Some(value.as_os_str()).filter(|value| !value.is_empty()),
            )
        });
        let folder = self
            .scratch
            .iter()
            .map(|dir| (OsStr::new("TMPDIR"), Some(dir.as_os_str())));
        let holding = self.holding.iter();
        let holding = holding.map(|(name, value)| (name.as_os_str(), Some(value.as_os_str())));
        let cases = self.case_variables.iter();
        let cases = cases.map(|(name, value)| (OsStr::new(name), Some(value.as_os_str())));
        variables.chain(folder).chain(holding).chain(cases)
    }
}

impl<'a> CommandLine<'a> {
    /// Fills in the placeholders of an actor's command.
    ///
    /// Variables of the actor override variables of provoke, which override the inherited
    /// environment.
    pub fn new(
        environment: &'a [(Text, Text)],
        actor: &'a ActorPlan,
        numbers: &'a PlaceholderValues,
    ) -> Self {
        let actor_variables = actor
            .env
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_ref().map(Text::as_os_str)));
        let mut changes: Vec<(&OsStr, Option<&OsStr>)> = Vec::with_capacity(16);
        for (name, value) in numbers.own_variables().chain(actor_variables) {
            changes.retain(|(other_name, _)| *other_name != name);
            changes.push((name, value));
        }
        let is_inherited = |name: &OsStr| changes.iter().all(|(other, _)| *other != name);
        let mut variables = Vec::with_capacity(environment.len() + changes.len());
        variables.extend(
            environment
                .iter()
                .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
                .filter(|(name, _)| is_inherited(name)),
        );
        variables.extend(
            changes
                .iter()
                .filter_map(|(name, value)| Some((*name, (*value)?))),
        );
        Self {
            argv: actor
                .command
                .iter()
                .map(|word| numbers.fill_marks(word))
                .collect(),
            environment: variables,
            cwd: Path::new(actor.cwd.as_os_str()),
            stdin: actor.stdin.as_ref().map(|file| Path::new(file.as_os_str())),
        }
    }

    /// Sets or removes variables, over all others.
    #[must_use]
    pub fn with_variables<T: AsRef<OsStr>>(mut self, variables: &'a [(T, Option<T>)]) -> Self {
        for (name, value) in variables {
            let name = name.as_ref();
            self.environment
                .retain(|(other_name, _)| *other_name != name);
            if let Some(value) = value {
                self.environment.push((name, value.as_ref()));
            }
        }
        self
    }

    /// Returns the command that starts a container: the engine's client, with the common
    /// environment. Variables that the container must not inherit are removed.
    pub(super) fn of_engine(
        environment: &'a [(Text, Text)],
        actor: &'a ActorPlan,
        words: Vec<OsString>,
    ) -> Self {
        let is_removed = |name: &Text| {
            actor
                .env
                .iter()
                .any(|(own_name, value)| own_name == name && value.is_none())
        };
        let environment = environment.iter().filter(|(name, _)| !is_removed(name));
        let pair = |(name, value): &'a (Text, Text)| (name.as_os_str(), value.as_os_str());
        Self {
            argv: words.into_iter().map(Cow::Owned).collect(),
            environment: environment.map(pair).collect(),
            cwd: Path::new("/"),
            stdin: actor.stdin.as_ref().map(|file| Path::new(file.as_os_str())),
        }
    }

    /// Returns the name of the program.
    pub fn program_name(&self) -> &OsStr {
        self.argv.first().map_or(OsStr::new(""), |name| name)
    }

    /// Returns the value of the variable with this name.
    pub fn find_variable(&self, name: &str) -> Option<&'a OsStr> {
        self.environment
            .iter()
            .find(|(other_name, _)| *other_name == name)
            .map(|(_, value)| *value)
    }
}
