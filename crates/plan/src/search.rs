//! Search of a scenario: an ordered list of candidates, or a set of items.

use super::conditions::condition_items;
use super::context::{PlanContext, SearchSources};
use super::matrix::Combination;
use super::{IntegerRange, Scenario, SearchShape, Variant};
use provoke_model::{
    ActorPlan, Candidate, Item, ItemKind, RequestBody, SearchSpace, Text, VariantChoices,
    VariantPlan,
};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of candidates after the good end, or of items.
const MAX_CHOICES: usize = 1_000_000;
/// Default number of variants that are prepared at the same time.
const PARALLEL_BUILDS: u32 = 1;
/// Default disk budget of variant directories.
const ROOM: u64 = 10 << 30;
/// Default time limit for preparing a variant.
pub(super) const MAKE_LIMIT: Duration = Duration::from_secs(3600);
/// Variables that a shell sets for itself, and `PATH`, without which commands are not found.
const NOT_MEANT: [&str; 5] = ["PATH", "PWD", "OLDPWD", "SHLVL", "_"];

impl Scenario {
    /// Returns the space of a search; `None` for any other question.
    pub(super) fn search_space(
        &self,
        context: &PlanContext,
    ) -> Result<Option<SearchSpace>, Diagnostic> {
        let Some(shape) = self.search_shape() else {
            return Ok(None);
        };
        if !self.outline.variants.is_empty() || !self.program.matrix.0.is_empty() {
            let field = if self.outline.variants.is_empty() {
                "matrix"
            } else {
                "variant"
            };
            return Err(refuse_at(
                "a search makes its own variants",
                &[field],
                "leave the variants out, or use `provoke compare`",
            ));
        }
        self.check_one_subject(shape)?;
        let variant = self.plan_variant(
            &Variant::default(),
            &[],
            &Combination::default(),
            Vec::new(),
            &context.base,
        )?;
        let mut searched = match &context.searched {
            Some(searched) => searched.clone(),
            None => self.listed_choices(shape, &variant, context)?.into(),
        };
        if self.bisect.fixed == Some(true) {
            searched.reverse_list();
        }
        let mut template = variant;
        move_to(&mut template, &searched, context)?;
        template.make = searched.make;
        let space = SearchSpace {
            template,
            choices: searched.choices,
            sources: searched.sources,
            known: searched.known,
            weights: searched.weights,
            apply: self.reduce.apply.unwrap_or(false),
            repository: searched.repository,
            first_parent: self.bisect.first_parent.unwrap_or(false),
            merge: None,
            section: None,
            parallel_builds: self
                .search
                .builds
                .map(NonZeroU32::get)
                .or(searched.parallel_builds)
                .unwrap_or(PARALLEL_BUILDS),
            room: self
                .search
                .disk
                .map_or(ROOM, |amount| amount.0.unwrap_or(u64::MAX)),
        };
        self.check_space(shape, &space)?;
        Ok(Some(space))
    }

    /// Returns the fields that define an ordered list, and whether they are set.
    pub(super) fn list_fields(&self) -> [(&'static str, bool); 8] {
        [
            ("over", !self.candidates.over.is_empty()),
            ("range", self.candidates.range.is_some()),
            ("git", self.candidates.git.is_some()),
            ("pip", self.candidates.pip.is_some()),
            ("cargo", self.candidates.cargo.is_some()),
            ("apt", self.candidates.apt.is_some()),
            ("npm", self.candidates.npm.is_some()),
            ("image", self.searches_images()),
        ]
    }

    /// Returns the fields that define a set of items, and whether they are set.
    pub(super) fn set_fields(&self) -> [(&'static str, bool); 11] {
        [
            ("imports", !self.items.imports.is_empty()),
            ("statements", !self.items.statements.is_empty()),
            ("lines", !self.items.lines.is_empty()),
            ("files", self.items.files.is_some()),
            ("arguments", self.items.arguments == Some(true)),
            ("variables", self.items.variables == Some(true)),
            ("set", !self.items.set.is_empty()),
            ("polluters", self.items.polluters.is_some()),
            ("needs", self.items.needs.is_some()),
            ("requests", self.items.requests.is_some()),
            ("from", self.items.from.is_some() || self.items.to.is_some()),
        ]
    }

    /// Returns the fields that define the searched list or set, and whether they are set.
    fn subject_fields(&self, shape: SearchShape) -> Vec<(&'static str, bool)> {
        match shape {
            SearchShape::List => self.list_fields().to_vec(),
            SearchShape::Set => self.set_fields().to_vec(),
            SearchShape::Conditions => vec![("try", true)],
        }
    }

    /// Checks that not several lists or sets are searched, before their candidates are looked for.
    pub fn check_search(&self) -> Result<(), Diagnostic> {
        match self.search_shape() {
            Some(shape) if self.subject_fields(shape).iter().any(|(_, given)| *given) => {
                self.check_one_subject(shape)
            }
            _ => Ok(()),
        }
    }

    fn check_one_subject(&self, shape: SearchShape) -> Result<(), Diagnostic> {
        let given: Vec<&str> = self
            .subject_fields(shape)
            .into_iter()
            .filter(|(_, is_given)| *is_given)
            .map(|(name, _)| name)
            .collect();
        match given.as_slice() {
            [] if shape == SearchShape::List => Err(refuse_at(
                "there are no candidates to search",
                &["over"],
                "name the candidates: --git v1.0..main --build make, --pip PACKAGE, or --over v1,v2,v3 or --range 1..64, which replace {variant} in the command",
            )),
            [] => Err(refuse_at(
                "there are no items to reduce",
                &["set"],
                "name the items: --imports FILE, --lines FILE, --args, --variables, --set A,B,C ({set} in the command stands for the kept items), or --from OLD --to NEW",
            )),
            [first, second, ..] => Err(refuse_at(
                format!("`{first}` and `{second}` are both given"),
                &[second],
                "search one at a time",
            )),
            [field_name] => {
                let (bisect, reduce) = (&self.bisect, &self.reduce);
                let written = &["imports", "statements", "lines", "files"][..];
                // Each field, whether it is given, and to what it applies.
                let fields = [
                    ("build", bisect.build.is_some(), &["git", "cargo"][..]),
                    ("artifact", !bisect.artifact.is_empty(), &["git"]),
                    ("first-parent", bisect.first_parent.is_some(), &["git"]),
                    ("requirements", bisect.requirements.is_some(), &["pip"]),
                    ("constraints", bisect.constraints.is_some(), &["pip"]),
                    ("apply", reduce.apply == Some(true), written),
                ];
                let is_stray = |(_, is_given, subjects): &&(&str, bool, &[&str])| {
                    *is_given && !subjects.contains(field_name)
                };
                match fields.iter().find(is_stray) {
                    None => Ok(()),
                    Some((stray, ..)) => Err(refuse_at(
                        format!("`{stray}` does not apply to `{field_name}`"),
                        &[stray],
                        "leave it out; a `setup` with `{variant}` runs once for each candidate",
                    )),
                }
            }
        }
    }

    /// Returns the candidates of a list in the scenario itself.
    pub fn listed_candidates(&self) -> Result<VariantChoices, Diagnostic> {
        if let Some(IntegerRange(first, last)) = self.candidates.range {
            let max = first.saturating_add(MAX_CHOICES as u64 + 1);
            let numbers = first..=last.min(max);
            return Ok(candidate_choices(numbers.map(|number| number.to_string())));
        }
        if self.candidates.over.iter().any(String::is_empty) {
            return Err(refuse_at(
                "a candidate has no name",
                &["over"],
                "remove the extra comma",
            ));
        }
        Ok(candidate_choices(self.candidates.over.iter().cloned()))
    }

    /// Returns the choices that the scenario itself lists.
    fn listed_choices(
        &self,
        shape: SearchShape,
        variant: &VariantPlan,
        context: &PlanContext,
    ) -> Result<VariantChoices, Diagnostic> {
        let items = if shape == SearchShape::List {
            return self.listed_candidates();
        } else if shape == SearchShape::Conditions {
            condition_items(&self.why.tried, self.runs_suite())?
        } else if !self.items.set.is_empty() {
            self.set_items(variant)?
        } else if self.items.arguments == Some(true) {
            self.argument_items(variant)?
        } else if self.items.requests.is_some() {
            self.request_items(&context.base)?
        } else {
            variable_items(variant, context)
        };
        Ok(VariantChoices::Items(items))
    }

    /// Returns the items of `{set}`.
    fn set_items(&self, variant: &VariantPlan) -> Result<Vec<Item>, Diagnostic> {
        let words = variant.actors.iter().flat_map(|actor| &actor.command);
        let hooks = [&self.program.setup, &self.program.prepare];
        let mut texts = words.map(ToString::to_string).chain(
            variant
                .actors
                .iter()
                .flat_map(|actor| &actor.env)
                .filter_map(|(_, value)| value.as_ref().map(ToString::to_string)),
        );
        let marked = |text: &str| text.contains("{set}") || text.contains("{lines}");
        let in_hooks = hooks.into_iter().flatten().any(|hook| marked(hook));
        if !in_hooks && !texts.any(|text| marked(&text)) {
            return Err(refuse_at(
                "`{set}` is not used, so nothing would change",
                &["set"],
                "put it where the items belong: -- ./program {set}. Alone it becomes one argument per item; within an argument, the items are joined by spaces; `{lines}` has one item per line",
            ));
        }
        if self.items.set.iter().any(String::is_empty) {
            return Err(refuse_at(
                "an item has no name",
                &["set"],
                "remove the extra comma",
            ));
        }
        let item = |name: &String| Item {
            name: name.clone(),
            at: None,
            what: ItemKind::Text(Some(name.into()), None),
        };
        Ok(self.items.set.iter().map(item).collect())
    }

    /// Returns the arguments of the main command.
    fn argument_items(&self, variant: &VariantPlan) -> Result<Vec<Item>, Diagnostic> {
        let main = variant.main_actor();
        if main.is_none_or(|_| self.program.shell.is_some()) {
            return Err(refuse_at(
                "the arguments of a `shell` line cannot be reduced",
                &["arguments"],
                "give the command without a shell: -- ./program argument",
            ));
        }
        let prefix = self.wrapping_words()?.len() + 1;
        let command_words = main.into_iter().flat_map(|main| &main.command);
        let words = (0..).zip(command_words).skip(prefix);
        let word = |(word_item, word): (u32, &Text)| Item {
            name: word.to_string(),
            at: None,
            what: ItemKind::Word(word_item),
        };
        Ok(words.map(word).collect())
    }

    /// Returns the kinds of requests of the load; of a kind with several files of bodies, each file.
    fn request_items(&self, base: &Path) -> Result<Vec<Item>, Diagnostic> {
        let Some(load) = self.plan_load(base)? else {
            let hint = "name a run of `provoke load`: --requests last";
            return Err(refuse_at("there is no load to reduce", &["requests"], hint));
        };
        let item = |name: String, index, file| Item {
            name,
            at: None,
            what: ItemKind::Request(index, file),
        };
        let mut items = Vec::new();
        for (index, kind) in (0..).zip(&load.requests) {
            match &kind.body {
                _ if kind.weight == 0 => {}
                RequestBody::Files { files, .. } if files.len() > 1 => {
                    for (number, file) in (0..).zip(files) {
                        let path = Path::new(file.as_os_str());
                        let path = path.strip_prefix(base).unwrap_or(path);
                        let name = format!("{} with {}", kind.name, path.to_safe());
                        items.push(item(name, index, Some(number)));
                    }
                }
                _ => items.push(item(kind.name.clone(), index, None)),
            }
        }
        Ok(items)
    }

    fn check_space(&self, shape: SearchShape, space: &SearchSpace) -> Result<(), Diagnostic> {
        let subjects = self.subject_fields(shape);
        let field = subjects
            .iter()
            .find(|(_, is_given)| *is_given)
            .map_or("over", |(name, _)| *name);
        if space.len() > MAX_CHOICES {
            return Err(refuse_at(
                format!("there are more than {MAX_CHOICES} candidates"),
                &[field],
                "narrow the search first",
            ));
        }
        match &space.choices {
            VariantChoices::Candidates(candidates) => {
                if candidates.len() < 2 {
                    return Err(refuse_at(
                        "a search needs at least two candidates",
                        &[field],
                        "list the good end first and the bad end last",
                    ));
                }
                let mut names = BTreeSet::new();
                let twice = candidates
                    .iter()
                    .find(|candidate| !names.insert(&candidate.name));
                if let Some(twice) = twice {
                    return Err(refuse_at(
                        format!("the candidate `{}` is listed twice", twice.name),
                        &[field],
                        "list each candidate once",
                    ));
                }
            }
            VariantChoices::Items(items) if items.is_empty() => {
                return Err(refuse_at(
                    "there are no items to reduce",
                    &[field],
                    "check the file or the list",
                ));
            }
            VariantChoices::Items(_) => {}
        }
        Ok(())
    }
}

fn candidate_choices(names: impl Iterator<Item = String>) -> VariantChoices {
    let candidate_of = |name| Candidate { name, about: None };
    VariantChoices::Candidates(names.map(candidate_of).collect())
}

/// Returns the variables of the trials, the ones that were set for the trials first.
fn variable_items(variant: &VariantPlan, context: &PlanContext) -> Vec<Item> {
    let main = variant.main_actor();
    let own_variables: Vec<(&Text, &Text)> = main
        .into_iter()
        .flat_map(|main| &main.env)
        .filter_map(|(name, value)| Some((name, value.as_ref()?)))
        .collect();
    let inherited = context
        .environment
        .iter()
        .map(|(name, value)| (name, value))
        .filter(|(name, _)| !own_variables.iter().any(|(own_name, _)| own_name == name));
    let is_candidate = |(name, _): &(&Text, &Text)| {
        let name = name.to_string();
        !NOT_MEANT.contains(&name.as_str()) && !name.starts_with("PROVOKE_")
    };
    let variable_item = |(name, value): (&Text, &Text)| Item {
        name: name.to_string(),
        at: None,
        what: ItemKind::Variable(name.clone(), Some(value.clone()), None),
    };
    let variables = own_variables.iter().copied().chain(inherited);
    variables.filter(is_candidate).map(variable_item).collect()
}

/// Makes the template run in the directory of its variant instead of in the original one, with the environment for its
/// contents.
fn move_to(
    template: &mut VariantPlan,
    searched: &SearchSources,
    context: &PlanContext,
) -> Result<(), Diagnostic> {
    let is_path = |name: &Text| name.as_os_str() == "PATH";
    let path = context
        .environment
        .iter()
        .find(|(name, _)| is_path(name))
        .map(|(_, value)| value.clone());
    for actor in &mut template.actors {
        if let Some((original, copy)) = &searched.moved {
            move_actor(actor, original, copy)?;
        }
        for (name, value) in &searched.env {
            actor
                .env
                .retain(|(other_name, _)| other_name.as_os_str() != name.as_str());
            actor.env.push((name.into(), Some(value.into())));
        }
        if !searched.path.is_empty() {
            let own_path = actor
                .env
                .iter()
                .position(|(name, _)| is_path(name))
                .map(|position| actor.env.remove(position).1);
            let rest = own_path.unwrap_or_else(|| path.clone());
            let mut folders: Vec<Text> = searched.path.iter().map(Text::from).collect();
            folders.extend(rest);
            let joined = Text::join_texts(&folders, b":");
            actor.env.push(("PATH".into(), Some(joined)));
        }
        actor.env.sort();
    }
    Ok(())
}

/// Returns the absolute path of a program whose relative path leads out of the copied directory: in a copy the path
/// would lead elsewhere. The last symlink is not resolved, because Python environments are recognized by it.
fn program_outside(program: &Text, cwd: &Path, copied: &Path) -> Option<Text> {
    let path = Path::new(program.as_os_str());
    if path.is_absolute() {
        return None;
    }
    let folder = std::fs::canonicalize(cwd.join(path.parent()?)).ok()?;
    let absolute = folder.join(path.file_name()?);
    (!folder.starts_with(copied)).then(|| Text::from(absolute))
}

fn move_actor(actor: &mut ActorPlan, original: &Path, copy: &str) -> Result<(), Diagnostic> {
    let path_in_copy = |path: &Path| {
        let inside = path.strip_prefix(original).ok()?;
        let moved = Path::new(copy).join(inside);
        // Without a trailing slash.
        Some(Text::from(moved.components().collect::<PathBuf>()))
    };
    // A symlink to the directory counts as the directory.
    let real = |text: &Text| std::fs::canonicalize(text.as_os_str()).ok();
    let old_cwd = real(&actor.cwd);
    if let (Some(cwd), Some(program)) = (&old_cwd, actor.command.first_mut())
        && let Some(path) = program_outside(program, cwd, original)
    {
        *program = path;
    }
    let cwd = old_cwd.and_then(|cwd| path_in_copy(&cwd));
    let Some(cwd) = cwd else {
        return Err(refuse_at(
            format!("`{}` is not in `{}`", actor.cwd, original.to_safe()),
            &["cwd"],
            "run in the directory that is searched",
        ));
    };
    actor.cwd = cwd;
    if let Some(input) = &actor.stdin {
        actor.stdin = Some(
            real(input)
                .and_then(|path| path_in_copy(&path))
                .unwrap_or_else(|| input.clone()),
        );
    }
    // The command refers to the program in the variant's directory.
    for word in &mut actor.command {
        let path = Path::new(word.as_os_str());
        if path.is_absolute()
            && let Some(moved) = path_in_copy(path)
        {
            *word = moved;
        }
    }
    Ok(())
}
