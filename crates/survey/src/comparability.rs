//! Decides whether two runs tried the same program in the same way, so that their trials may count
//! together. An unknown fact counts as different.

use super::conditions::variant_conditions;
use super::file_names::NOT_FOUND;
use super::files::{EntryDifference, FILES, UNKNOWN, compare_files};
use super::main_facts::{is_digest, of_main};
use super::ranking::{FactGroup, group_of, group_of_variable};
use super::{RunFacts, mains_of};
use provoke_autopsy::CommandEnvironment;
use provoke_levers::fact_title;
use provoke_model::{
    ActorPlan, CaptureMode, Hooks, Rules, Text, TrialsPlan, UnchangedProgram, VariantId,
    VariantPlan,
};
use provoke_words as words;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// Name of the fact whether processes dump cores.
const CAPTURE: &str = "`capture`";

/// How similar the trials of two variants of different runs are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialSimilarity {
    /// Program, machine and conditions are the same. These files in the working directory differ, of which the command
    /// names none.
    Same(Vec<String>),
    /// The command is the same, but another fact differs or is unknown.
    Unlike(String),
    /// The commands differ.
    OtherCommand,
}

/// Compares the trials of a variant with the trials of a variant of another run.
pub fn compare_variants(
    this_variant: (RunFacts<'_>, VariantId),
    other_variant: (RunFacts<'_>, VariantId),
) -> TrialSimilarity {
    let [own_facts, other_facts] =
        [this_variant, other_variant].map(|(side, id)| VariantFacts::of_variant(side, id));
    if own_facts.commands != other_facts.commands {
        return TrialSimilarity::OtherCommand;
    }
    let [other_conditions, own_conditions] = [other_variant, this_variant]
        .map(|(side, id)| variant_conditions(side.plan, id, side.host));
    if let Some(difference) = own_conditions
        .differences_from(&other_conditions, fact_title)
        .first()
    {
        let (condition, other_value, own_value) =
            (&difference.what, &difference.baseline, &difference.here);
        return TrialSimilarity::Unlike(format!(
            "{condition}: {other_value} instead of {own_value}"
        ));
    }
    let names = own_facts.facts.keys().chain(other_facts.facts.keys());
    let mut unlike =
        names.filter(|name| own_facts.facts.get(*name) != other_facts.facts.get(*name));
    if let Some((_, name)) = unlike.next() {
        return TrialSimilarity::Unlike(format!("{name} differs"));
    }
    if let Some(reason) = other_facts.unknown.or(own_facts.unknown) {
        return TrialSimilarity::Unlike(reason);
    }
    let mut other_files = BTreeSet::new();
    for (own, other) in own_facts.files.iter().zip(&other_facts.files) {
        let Some(files) = compare_files(own, other) else {
            return TrialSimilarity::Unlike(UNKNOWN_FILE.to_owned());
        };
        let changed = if runs_own_binary(this_variant) {
            &[]
        } else {
            files.changed.as_slice()
        };
        if let Some(difference) = describe_changed(&files.of_program, "")
            .or_else(|| describe_changed(changed, " in the working directory"))
        {
            return TrialSimilarity::Unlike(difference);
        }
        let others = files.changed.into_iter().chain(files.added);
        other_files.extend(others.map(|file| file.path));
    }
    TrialSimilarity::Same(other_files.into_iter().collect())
}

/// Returns whether a variant has the same command and program as a variant of another run, under the same conditions.
pub fn find_unchanged_program(
    this_variant: (RunFacts<'_>, VariantId),
    other_variant: (RunFacts<'_>, VariantId),
) -> Option<UnchangedProgram> {
    let sides = [this_variant, other_variant];
    let [own_facts, other_facts] = sides.map(|(side, id)| VariantFacts::of_variant(side, id));
    let [own_conditions, other_conditions] =
        sides.map(|(side, id)| variant_conditions(side.plan, id, side.host));
    let is_known = own_facts.unknown.is_none() && other_facts.unknown.is_none();
    let has_fact = |facts: &VariantFacts<'_>, key: &(u32, String), value: &String| {
        // `confirm` turns on core dumps.
        key.1 == CAPTURE || facts.facts.get(key) == Some(value)
    };
    let contains = |facts: &VariantFacts<'_>, others: &VariantFacts<'_>| {
        let mut others = others.facts.iter();
        others.all(|(key, value)| has_fact(facts, key, value))
    };
    if !is_known
        || own_facts.commands != other_facts.commands
        || own_conditions != other_conditions
        || !contains(&own_facts, &other_facts)
        || !contains(&other_facts, &own_facts)
    {
        return None;
    }
    let mut changed_files = BTreeSet::new();
    for (own_files, other_files) in own_facts.files.iter().zip(&other_facts.files) {
        let files = compare_files(own_files, other_files)?;
        if !files.of_program.is_empty() {
            return None;
        }
        changed_files.extend(files.changed.into_iter().map(|file| file.path));
    }
    (changed_files.is_empty() || runs_own_binary(this_variant)).then(|| UnchangedProgram {
        changed_files: changed_files.into_iter().collect(),
    })
}

/// Returns whether the main commands of a variant are binaries in the working directory. Only these are complete without
/// the other files of the directory: a script, a test runner or a build tool runs code in files that its command does not
/// name.
pub(super) fn runs_own_binary((side, id): (RunFacts<'_>, VariantId)) -> bool {
    let indirect = ["interpreter", "launched", "script"].map(|part| format!("program.{part}.path"));
    let is_own_binary = |(name, main): (String, &ActorPlan)| {
        let facts = of_main(main, &name, side.survey);
        let cwd = CommandEnvironment::of_actor(&side.plan.environment, main).cwd;
        let path = facts.get("program.path").map(Path::new);
        path.is_some_and(|path| path.starts_with(cwd))
            && indirect.iter().all(|fact| !facts.contains_key(fact))
    };
    let variant = side.plan.variants.get(id.index());
    variant.is_some_and(|variant| mains_of(variant).all(is_own_binary))
}

/// Says that one of too many files differs.
pub(super) const UNKNOWN_FILE: &str = "a file of the command or of its working directory differs";

/// Returns `the file `settings` differs`.
fn describe_changed(files: &[EntryDifference], place: &str) -> Option<String> {
    let (first, others) = files.split_first()?;
    let path = &first.path;
    Some(if others.is_empty() {
        format!("`{path}`{place} differs")
    } else {
        let others = words::format_count(others.len() as u64, "other file");
        format!("`{path}` and {others}{place} differ")
    })
}

/// Facts that determine how often a variant fails, and the unknown ones among them.
struct VariantFacts<'a> {
    commands: String,
    /// Facts by priority as the reason, and by name.
    facts: BTreeMap<(u32, String), String>,
    /// The recorded files of each main command.
    files: Vec<BTreeMap<String, &'a str>>,
    unknown: Option<String>,
}

impl<'a> VariantFacts<'a> {
    fn of_variant(side: RunFacts<'a>, id: VariantId) -> Self {
        let RunFacts { plan, survey, .. } = side;
        let variant = plan.variant_plan(id);
        let mut recipe = Self {
            commands: String::new(),
            facts: BTreeMap::new(),
            files: Vec::new(),
            unknown: unknown_files(plan, variant),
        };
        recipe.add_plan(plan, variant);
        // A variant that is prepared for each run has a different folder in each.
        let made_folder = variant
            .make
            .as_ref()
            .map(|make| make.folder.to_string())
            .filter(|folder| !folder.is_empty());
        let neutral = |text: String| match &made_folder {
            Some(folder) => text.replace(folder, "{made}"),
            None => text,
        };
        recipe.commands = neutral(describe_commands(variant));
        recipe.insert_fact(
            "the working directory",
            neutral(per_actor(variant, |actor| actor.cwd.to_string())),
        );
        recipe.insert_fact(
            "stdin",
            per_actor(variant, |actor| format!("{:?}", actor.stdin)),
        );
        recipe.insert_fact(
            "the container",
            per_actor(variant, |actor| format!("{:?}", actor.container)),
        );
        for (number, (name, main)) in mains_of(variant).enumerate() {
            for (variable, value) in CommandEnvironment::of_actor(&plan.environment, main).env {
                let variable = variable.to_string_lossy();
                if group_of_variable(&variable) != FactGroup::Trifle {
                    let key = (3, format!("the environment variable {variable}"));
                    let value = neutral(value.to_string_lossy().into_owned());
                    let fact = recipe.facts.entry(key).or_default();
                    let _ = write!(fact, "{number} {value};");
                }
            }
            let facts = of_main(main, &name, survey);
            if recipe.unknown.is_none() && variant.make.is_none() {
                recipe.unknown = unknown_program(&facts);
            }
            recipe.files.push(
                facts
                    .iter()
                    .filter(|(name, _)| is_digest(name))
                    .map(|(name, value)| (name.clone(), *value))
                    .collect(),
            );
            for (name, value) in facts {
                if is_digest(&name) {
                    continue;
                }
                // Builds of prepared variants may differ, because they are prepared in the same
                // way.
                if variant.make.is_none() || !matches!(group_of(&name), FactGroup::Program) {
                    recipe.add_fact(&name, number, value);
                }
            }
        }
        for (name, value) in &survey.0 {
            if !name.contains('[') && group_of(name) == FactGroup::Processor {
                recipe.add_fact(name, 0, value);
            }
        }
        recipe
    }

    fn insert_fact(&mut self, name: &str, value: String) {
        self.facts.insert((0, name.to_owned()), value);
    }

    fn add_fact(&mut self, name: &str, number: usize, value: &str) {
        let key = match group_of(name) {
            FactGroup::Program => (1, format!("`{name}`")),
            FactGroup::Library | FactGroup::Package => (2, format!("`{name}`")),
            _ => (4, format!("`{name}`")),
        };
        let fact = self.facts.entry(key).or_default();
        let _ = write!(fact, "{number} {value};");
    }

    /// Adds the settings of a plan's trials, except for the conditions.
    fn add_plan(&mut self, plan: &TrialsPlan, variant: &VariantPlan) {
        let rules = Rules {
            only: Vec::new(),
            ..plan.rules.clone()
        };
        self.insert_fact("a rule for passing or failing", format!("{rules:?}"));
        self.insert_fact("a hook", describe_hooks(&plan.hooks, &variant.hooks));
        self.insert_fact("the load", format!("{:?} {:?}", plan.load, variant.clients));
        self.insert_fact(
            "the leak grace",
            format!("{:?} {:?}", plan.settings.grace, plan.settings.leak_grace),
        );
        self.insert_fact("`warmup`", plan.warmup.to_string());
        self.insert_fact("`tmp-per-run`", plan.settings.scratch.to_string());
        let dumps = plan.settings.capture == CaptureMode::On;
        self.insert_fact(CAPTURE, dumps.to_string());
        let make_script = variant.make.as_ref().map(|make| (&make.script, &make.cwd));
        self.insert_fact("the build", format!("{make_script:?} {:?}", variant.edits));
    }
}

fn describe_commands(variant: &VariantPlan) -> String {
    per_actor(variant, |actor| {
        format!(
            "{} {:?} {:?} {}",
            actor.name, actor.role, actor.command, actor.copies
        )
    })
}

fn per_actor(variant: &VariantPlan, describe: impl Fn(&ActorPlan) -> String) -> String {
    let texts: Vec<String> = variant.actors.iter().map(describe).collect();
    texts.join("\n")
}

/// Returns the hooks around the trials of a variant, whether they belong to it or to the plan.
fn describe_hooks(plan: &Hooks, own_hooks: &Hooks) -> String {
    let commands = |plan: &Option<Text>, own_command: &Option<Text>| {
        let texts: Vec<String> = plan
            .iter()
            .chain(own_command)
            .map(ToString::to_string)
            .collect();
        texts
    };
    format!(
        "{:?} {:?} {:?} {:?}",
        commands(&plan.setup, &own_hooks.setup),
        own_hooks.prepare.as_ref().or(plan.prepare.as_ref()),
        own_hooks.conclude.as_ref().or(plan.conclude.as_ref()),
        commands(&plan.cleanup, &own_hooks.cleanup),
    )
}

/// Returns why the files that a variant reads are unknown. The files of commits are known by the
/// names of the commits.
fn unknown_files(plan: &TrialsPlan, variant: &VariantPlan) -> Option<String> {
    let commits = plan
        .space
        .as_ref()
        .is_some_and(|space| space.repository.is_some());
    if variant.actors.iter().any(|actor| actor.container.is_some()) {
        Some("the files in its container are not recorded".to_owned())
    } else if !variant.edits.is_empty() || variant.make.is_some() && !commits {
        Some("provoke made its files anew, so they cannot be compared".to_owned())
    } else {
        None
    }
}

/// Returns why the program and the files that it may read are unknown.
fn unknown_program(facts: &BTreeMap<String, &str>) -> Option<String> {
    let path = |name: &str| facts.get(name).filter(|path| path.ends_with(NOT_FOUND));
    match facts.get(FILES) {
        _ if !facts.contains_key("program.path") => Some("its program is not recorded".to_owned()),
        _ if path("program.path")
            .or(path("program.launched.path"))
            .is_some() =>
        {
            Some("the program did not exist before `setup`".to_owned())
        }
        None => Some("its files are not recorded".to_owned()),
        Some(value) => value
            .strip_prefix(UNKNOWN)
            .map(|reason| format!("its files are not recorded: {reason}")),
    }
}
