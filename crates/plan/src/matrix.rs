//! Expands variables with several values: every combination is a variant.

use super::{EnvValue, Scenario};
use crate::settings::parse_condition;
use provoke_model::{Factor, PLAIN, Text, TrialConditions};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use serde::{Deserialize, Serialize, de};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::str::FromStr;

/// Maximum number of variants; more of them are probably a mistake.
const MAX_VARIANTS: usize = 256;
/// A variable whose values are conditions of trials.
const UNDER: &str = "under";
/// Marks that provoke fills in for each trial.
const OWN: [&str; 5] = ["trial", "slot", "seed", "dir", "variant"];

/// Marks that differ between the variants of a search.
const CHOSEN: [&str; 4] = ["variant", "set", "lines", "made"];

/// Variables with their values, in the order in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix(pub Vec<MatrixVariable>);

/// A variable with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixVariable {
    /// Its name: it stands for its value as `{name}`.
    pub name: String,
    /// Its values.
    pub levels: Vec<String>,
}

/// A value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixValue(pub String);

impl FromStr for MatrixValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for MatrixValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl MatrixVariable {
    /// Returns a variable with the programs to compare, if the command is a list of programs: `./old ./new`.
    pub fn of_programs(command: &[OsString], is_program: impl Fn(&OsStr) -> bool) -> Option<Self> {
        let words = command.iter().filter(|word| *word != "--");
        let programs = words
            .map(|word| word.to_str().map(str::to_owned))
            .collect::<Option<Vec<String>>>()?;
        let is_path = |word: &String| word.contains('/') && is_program(word.as_ref());
        (programs.len() > 1 && programs.iter().all(is_path)).then(|| Self {
            name: "program".to_owned(),
            levels: programs,
        })
    }
}

impl FromStr for MatrixVariable {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, levels_text) = text
            .split_once('=')
            .ok_or("write NAME=VALUE,VALUE, such as threads=1,8")?;
        let levels = if levels_text.is_empty() {
            Vec::new()
        } else {
            levels_text.split(',').map(str::to_owned).collect()
        };
        Ok(Self {
            name: name.to_owned(),
            levels,
        })
    }
}

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MatrixVisitor;
        impl<'de> de::Visitor<'de> for MatrixVisitor {
            type Value = Matrix;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("variables with lists of values")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut table: A) -> Result<Matrix, A::Error> {
                let mut variables = Vec::new();
                while let Some((name, levels)) = table.next_entry::<_, Vec<MatrixValue>>()? {
                    let levels = levels.into_iter().map(|level| level.0).collect();
                    variables.push(MatrixVariable { name, levels });
                }
                Ok(Matrix(variables))
            }
        }
        from.deserialize_map(MatrixVisitor)
    }
}

impl Serialize for Matrix {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(
            self.0
                .iter()
                .map(|variable| (&variable.name, &variable.levels)),
        )
    }
}

impl Matrix {
    /// Adds conditions to compare.
    pub fn compare_conditions(&mut self, levels: Vec<String>) {
        let name = UNDER.to_owned();
        self.add_entries(vec![MatrixVariable { name, levels }]);
    }

    /// Adds variables, and replaces the variables of the same name.
    pub fn add_entries(&mut self, added: Vec<MatrixVariable>) {
        self.0
            .retain(|old| !added.iter().any(|new| new.name == old.name));
        self.0.extend(added);
    }
}

/// One combination of values.
#[derive(Clone, Debug, Default)]
pub(super) struct Combination<'a> {
    /// Index of each value in its variable's list.
    pub(super) levels: Vec<u32>,
    /// Each variable with its value.
    values: Vec<(&'a str, &'a str)>,
}

impl Combination<'_> {
    /// Returns its conditions, which are the value of the variable `under`.
    pub(super) fn conditions(&self) -> Result<TrialConditions, Diagnostic> {
        let mut conditions = TrialConditions::default();
        let typed = self
            .values
            .iter()
            .filter(|(name, value)| *name == UNDER && *value != PLAIN);
        for (_, typed) in typed {
            let (lever, value) = parse_condition(typed).map_err(|message| {
                let hint = "`provoke why --list` shows all conditions";
                refuse_at(message, &["matrix", UNDER], hint)
            })?;
            conditions.set(lever, value);
        }
        Ok(conditions)
    }

    /// Returns its name, after that of the combined variant.
    pub(super) fn combined_name(&self, first: &str) -> String {
        let values = self.values.iter().map(|(name, value)| match *name {
            UNDER => (*value).to_owned(),
            _ => format!("{name}={value}"),
        });
        let first = Some(first.to_owned()).filter(|first| !first.is_empty());
        let parts: Vec<String> = first.into_iter().chain(values).collect();
        parts.join(" ")
    }
}

/// Fills the values of a combination into texts, and remembers which marks occurred.
pub(super) struct MatrixSubstitution<'a> {
    values: &'a [(&'a str, &'a str)],
    used: RefCell<BTreeSet<&'a str>>,
}

impl<'a> MatrixSubstitution<'a> {
    pub(super) fn new(combination: &'a Combination<'a>) -> Self {
        Self {
            values: &combination.values,
            used: RefCell::default(),
        }
    }

    /// Returns the text with all values filled in; marks in the inserted values are not replaced.
    pub(super) fn fill_values(&self, text: &str) -> String {
        self.fill_text(text).to_string()
    }

    /// Returns the result of [`fill_values`](Self::fill_values) as a text of a plan.
    pub(super) fn fill_text(&self, text: &str) -> Text {
        let mut marks = Vec::new();
        for (name, value) in self.values {
            let mark = format!("{{{name}}}");
            if text.contains(&mark) {
                self.used.borrow_mut().insert(name);
                marks.push((mark, value));
            }
        }
        Text::from(text).fill_marks(&marks)
    }

    /// Returns the variables whose marks did not occur so far, which are set in the environment.
    pub(super) fn environment_variables(&self) -> Result<Vec<(Text, Text)>, Diagnostic> {
        let used_variables = self.used.borrow();
        let unused = self
            .values
            .iter()
            .filter(|(name, _)| *name != UNDER && !used_variables.contains(name));
        let variable = |(name, value): &(&str, &str)| {
            if name.contains('-') {
                return Err(refuse_at(
                    format!(
                        "`{{{name}}}` is not used, and `{name}` cannot be an environment variable"
                    ),
                    &["matrix", name],
                    format!(
                        "write `{{{name}}}` where its value belongs, or rename it to `{}`",
                        name.replace('-', "_")
                    ),
                ));
            }
            Ok(((*name).into(), (*value).into()))
        };
        unused.map(variable).collect()
    }
}

impl Scenario {
    /// Returns every combination of the matrix: the last variable changes first.
    pub(super) fn all_combinations(&self) -> Result<Vec<Combination<'_>>, Diagnostic> {
        self.check_matrix()?;
        let mut combinations = vec![Combination::default()];
        for variable in &self.program.matrix.0 {
            let mut longer = Vec::new();
            for combination in &combinations {
                for (index, level) in (0..).zip(&variable.levels) {
                    let mut extended = combination.clone();
                    extended.levels.push(index);
                    extended.values.push((&variable.name, level));
                    longer.push(extended);
                }
            }
            combinations = longer;
        }
        Ok(combinations)
    }

    fn check_matrix(&self) -> Result<(), Diagnostic> {
        let mut names = BTreeSet::new();
        let mut variants = self.outline.variants.len().max(1);
        for MatrixVariable { name, levels } in &self.program.matrix.0 {
            let position = ["matrix", name.as_str()];
            if OWN.contains(&name.as_str()) {
                return Err(refuse_at(
                    format!("`{{{name}}}` is a placeholder of provoke"),
                    &position,
                    "rename the variable",
                ));
            }
            let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
            if !name.starts_with(begins) || !name.chars().all(letter) {
                return Err(refuse_at(
                    format!("`{name}` cannot be the name of a variable"),
                    &position,
                    "use letters, digits, `_` and `-`, and begin with a letter or `_`",
                ));
            }
            if !names.insert(name) {
                return Err(refuse_at(
                    format!("`{name}` is given twice"),
                    &position,
                    format!("give all values together: {name}=VALUE,VALUE"),
                ));
            }
            if levels.is_empty() {
                return Err(refuse_at(
                    format!("`{name}` has no values"),
                    &position,
                    format!(
                        "give the values to try: -L {name}=1,8, or `{name} = [\"1\", \"8\"]` in a file"
                    ),
                ));
            }
            let mut known_levels = BTreeSet::new();
            if let Some(duplicate) = levels.iter().position(|level| !known_levels.insert(level)) {
                return Err(refuse_at(
                    format!("`{name}` has the value `{}` twice", levels[duplicate]),
                    &[position[0], position[1], &duplicate.to_string()],
                    "to run more trials of it, use `runs`",
                ));
            }
            variants = variants.saturating_mul(levels.len());
        }
        if variants > MAX_VARIANTS && !self.program.matrix.0.is_empty() {
            return Err(refuse_at(
                format!("there are {variants} combinations; the maximum is {MAX_VARIANTS}"),
                &["matrix"],
                "vary fewer variables at a time, the most likely ones first",
            ));
        }
        Ok(())
    }

    /// Returns the factors of the variants; empty if they are a plain list.
    pub(super) fn plan_factors(&self) -> Vec<Factor> {
        if self.program.matrix.0.is_empty() {
            return Vec::new();
        }
        let listed = Factor {
            name: "variant".to_owned(),
            levels: self
                .outline
                .variants
                .iter()
                .map(|name| name.name.clone())
                .collect(),
        };
        let listed = Some(listed).filter(|factor| !factor.levels.is_empty());
        let set = self.program.matrix.0.iter().map(|variable| Factor {
            name: variable.name.clone(),
            levels: variable.levels.clone(),
        });
        listed.into_iter().chain(set).collect()
    }

    /// Returns whether a text contains a mark that differs between variants.
    pub(super) fn mentions_variable(&self, text: &str) -> bool {
        let names = self
            .program
            .matrix
            .0
            .iter()
            .map(|variable| variable.name.as_str());
        let chosen = if self.search_shape().is_some() {
            &CHOSEN[..]
        } else {
            &[]
        };
        names
            .chain(chosen.iter().copied())
            .any(|name| text.contains(&format!("{{{name}}}")))
    }

    /// Returns whether one description is filled in for several variants.
    pub(super) fn fills_variants(&self) -> bool {
        self.search_shape().is_some() || !self.program.matrix.0.is_empty()
    }
}

/// Sets the variables of a process; variables of the matrix take precedence.
pub(super) fn set_variables(env: &mut Vec<(Text, Option<Text>)>, variables: &[(Text, Text)]) {
    for (name, value) in variables {
        env.retain(|(other_name, _)| other_name != name);
        env.push((name.clone(), Some(value.clone())));
    }
    env.sort();
}

/// Fills in the value of an environment variable.
pub(super) fn fill_value(
    EnvValue(value): &EnvValue,
    filling: &MatrixSubstitution<'_>,
) -> Option<Text> {
    value.as_ref().map(|value| filling.fill_text(value))
}
