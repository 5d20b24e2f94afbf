//! Plans the actors of a variant: the processes that run in each trial.

use super::matrix::{MatrixSubstitution, fill_value};
use super::{Actor, EnvValue, Scenario, Variant};
use provoke_model::{ActorPlan, ActorRole, Text};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;

impl Scenario {
    /// Returns the actors of a variant.
    pub(super) fn plan_actors(
        &self,
        variant: &Variant,
        position: &[&str],
        base: &Path,
        filling: &MatrixSubstitution<'_>,
    ) -> Result<Vec<ActorPlan>, Diagnostic> {
        let actors = self.actors_of_variant(variant)?;
        let own_command = variant.command.is_some() || variant.shell.is_some();
        let path = |path: &Path| match path.to_str() {
            Some(text) => base.join(filling.fill_values(text)),
            None => base.join(path),
        };
        let container = self.main_container(variant, base, filling)?;
        let cwd = path(self.program.cwd.as_deref().unwrap_or(Path::new("")));
        let planned = actors.into_iter().enumerate().map(|(index, actor)| {
            let main = actor.role.decides_outcome();
            let index = index.to_string();
            let actor_position = ["actor", index.as_str()];
            let of_actor = if self.outline.actors.is_empty() {
                &[][..]
            } else {
                &actor_position
            };
            let words = actor_words(
                &actor,
                if main && own_command {
                    position
                } else {
                    of_actor
                },
            )?;
            let mut command: Vec<Text> = words.iter().map(|word| filling.fill_text(word)).collect();
            if main {
                self.add_arguments(&mut command, variant, &actor, position, filling)?;
            }
            let env = merge_variables([
                (&[], &self.program.env.0),
                (position, &variant.env),
                (of_actor, &actor.env),
            ])?;
            let text =
                |(name, value): (&String, &EnvValue)| (name.into(), fill_value(value, filling));
            let input = match &actor.stdin {
                None if main => self.program.stdin.as_deref(),
                own => own.as_deref(),
            };
            Ok(ActorPlan {
                name: actor.name,
                role: actor.role,
                command,
                copies: match actor.copies {
                    None if main => self.trials.copies,
                    own => own,
                }
                .map_or(1, NonZeroU32::get),
                env: env.into_iter().map(text).collect(),
                cwd: actor
                    .cwd
                    .map_or_else(|| cwd.clone(), |own| path(&own))
                    .into_os_string()
                    .into(),
                stdin: input.map(|file| path(file).into_os_string().into()),
                container: if main { container.clone() } else { None },
            })
        });
        planned.collect()
    }

    /// Returns the actors with the settings that a variant has for the main process.
    fn actors_of_variant(&self, variant: &Variant) -> Result<Vec<Actor>, Diagnostic> {
        let mut actors = self.said_actors()?;
        let mut has_main = false;
        for actor in &mut actors {
            if !actor.role.decides_outcome() {
                continue;
            }
            has_main = true;
            if self.is_loaded() {
                actor.role = ActorRole::Service;
            }
            if variant.command.is_some() || variant.shell.is_some() {
                actor.command.clone_from(&variant.command);
                actor.shell.clone_from(&variant.shell);
            }
            actor.cwd = variant.cwd.clone().or(actor.cwd.take());
            actor.stdin = variant.stdin.clone().or(actor.stdin.take());
            actor.copies = variant.copies.or(actor.copies);
        }
        if !has_main {
            let hint = "give one actor the role `main`: its exit decides the outcome";
            return Err(refuse_at("no actor has the role `main`", &["actor"], hint));
        }
        Ok(actors)
    }

    /// Adds the arguments of a variant to the main command, and `wrap` before it.
    fn add_arguments(
        &self,
        command: &mut Vec<Text>,
        variant: &Variant,
        actor: &Actor,
        position: &[&str],
        filling: &MatrixSubstitution<'_>,
    ) -> Result<(), Diagnostic> {
        if actor.shell.is_some() && !variant.args.is_empty() {
            return Err(refuse_at(
                "`args` cannot be added to a `shell` line",
                &[position, &["args"]].concat(),
                "give the variant its own `shell` line, or use `command`",
            ));
        }
        command.extend(variant.args.iter().map(|word| filling.fill_text(word)));
        let wrap = self.wrapping_words()?;
        command.splice(0..0, wrap.iter().map(|word| filling.fill_text(word)));
        Ok(())
    }

    /// Returns whether the trials put a service under load.
    pub fn is_loaded(&self) -> bool {
        self.load.is_some() || self.again.plan.is_some()
    }

    fn said_actors(&self) -> Result<Vec<Actor>, Diagnostic> {
        let short = self.program.command.is_some() || self.program.shell.is_some();
        if let Some((load, _)) = self
            .load
            .as_ref()
            .and_then(|load| Some((load, load.service.attach?)))
        {
            if short || !self.outline.actors.is_empty() {
                let message = "`attach` and a command to start the service are both given";
                return Err(refuse_at(
                    message,
                    &["load", "attach"],
                    "give one of the two",
                ));
            }
            // The command of a service that provoke did not start is unknown.
            let actor = Actor {
                command: Some(load.traffic.url.iter().cloned().collect()),
                ..Actor::default()
            };
            return Ok(vec![actor]);
        }
        if self.outline.actors.is_empty() {
            let has_no_command =
                |variant: &Variant| variant.command.is_none() && variant.shell.is_none();
            let missing = self.outline.variants.iter().position(has_no_command);
            if !short && (missing.is_some() || self.outline.variants.is_empty()) {
                let index = missing.map(|index| index.to_string());
                let position = index
                    .as_ref()
                    .map_or(vec![], |index| vec!["variant", index]);
                return Err(refuse_at(
                    "there is no command to run",
                    &position,
                    "add `command = [\"program\", \"argument\"]`, or `shell = \"a | b\"`",
                ));
            }
            let actor = Actor {
                command: self.program.command.clone(),
                shell: self.program.shell.clone(),
                ..Actor::default()
            };
            return Ok(vec![actor]);
        }
        if short {
            let hint = "move it into the actor whose role is `main`";
            return Err(refuse_at(
                "`command` and actors are both given",
                &["actor"],
                hint,
            ));
        }
        let mut names = BTreeSet::new();
        for (index, actor) in self.outline.actors.iter().enumerate() {
            if actor.name.is_empty() || !names.insert(&actor.name) {
                let message = match actor.name.as_str() {
                    "" => "an actor has no name".to_owned(),
                    name => format!("two actors have the name `{name}`"),
                };
                let position = ["actor", &index.to_string(), "name"];
                return Err(refuse_at(
                    message,
                    &position,
                    "give each actor a different `name`: reports and stored files use it",
                ));
            }
        }
        if let Some(index) = self
            .outline
            .actors
            .iter()
            .position(|actor| actor.role == ActorRole::Service && !self.is_loaded())
        {
            let hint = "add the URL of the service: `[load] url = ...`; or use the role `helper` for a process beside the main process";
            return Err(refuse_at(
                "there is a service, but no [load] table",
                &["actor", &index.to_string(), "role"],
                hint,
            ));
        }
        Ok(self.outline.actors.clone())
    }

    pub(super) fn wrapping_words(&self) -> Result<Vec<String>, Diagnostic> {
        let Some(wrap) = &self.program.wrap else {
            return Ok(Vec::new());
        };
        match shlex::split(wrap) {
            Some(words) if !words.is_empty() => Ok(words),
            _ => Err(refuse_at(
                "`wrap` is not a command prefix",
                &["wrap"],
                "check that every quote is closed",
            )),
        }
    }
}

/// Merges variables from several positions of a scenario, where a later one overrides an earlier one.
fn merge_variables<'a>(
    sources: [(&[&str], &'a BTreeMap<String, EnvValue>); 3],
) -> Result<BTreeMap<&'a String, &'a EnvValue>, Diagnostic> {
    let mut env = BTreeMap::new();
    for (position, variables) in sources {
        for (name, value) in variables {
            if name.is_empty() || name.contains('=') {
                return Err(refuse_at(
                    format!("`{name}` cannot be the name of a variable"),
                    &[position, &["env", name]].concat(),
                    "use a name that is not empty and does not contain `=`",
                ));
            }
            env.insert(name, value);
        }
    }
    Ok(env)
}

fn actor_words(actor: &Actor, position: &[&str]) -> Result<Vec<String>, Diagnostic> {
    match (&actor.command, &actor.shell) {
        (Some(command), None) if !command.is_empty() => Ok(command.clone()),
        (None, Some(shell)) => Ok(["sh", "-c", shell].map(str::to_owned).to_vec()),
        (Some(_), Some(_)) => Err(refuse_at(
            "`command` and `shell` are both given",
            &[position, &["shell"]].concat(),
            "give one of the two",
        )),
        _ => Err(refuse_at(
            "there is no command to run",
            &[position, &["command"]].concat(),
            "give it a `command` or a `shell` line",
        )),
    }
}
