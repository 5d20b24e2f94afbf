//! Restores the scenario of an earlier run from its plan, so that settings can be changed.

use super::{
    Actor, CaseSettings, Codes, Confidence, DurationValue, EnvValue, EvidenceSettings, Facts,
    HostSettings, JudgeSettings, OnlyRule, OnlyRules, Pattern, ProgramSettings, RepeatedLoad,
    Scenario, StopSettings, TimeoutValue, TrialSettings, Variables,
};
use crate::RunnerValue;
use provoke_model::{
    ActorPlan, BugFilter, CasesPlan, Goal, Text, TrialsPlan, VariantId, VariantPlan,
};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// An argument of a command is not UTF-8 and cannot be written to a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonUtf8Argument;

impl Scenario {
    /// Returns the settings of the trials of one variant of a plan, without its stop rule and its question.
    pub fn of_variant(
        goal: &Goal,
        trials: &TrialsPlan,
        variant: VariantId,
    ) -> Result<Self, NonUtf8Argument> {
        let variant = trials.variant_plan(variant);
        let suite = trials.cases.as_deref().map(CaseSettings::of_plan);
        let mut scenario = Self {
            again: RepeatedLoad {
                plan: trials.load_of(variant),
                refusals: trials.rules.refusals.clone(),
            },
            program: ProgramSettings::of_variant(trials, variant)?,
            conditions: trials.conditions_of(variant).into(),
            trials: TrialSettings::of_plan(trials),
            suite: suite.unwrap_or_default(),
            hosts: HostSettings::of_plan(trials.hosts.as_ref()),
            stop: StopSettings {
                timeout: Some(TimeoutValue(trials.settings.timeout)),
                grace: Some(DurationValue(trials.settings.grace)),
                conf: Some(Confidence(goal.alpha)),
                ..StopSettings::default()
            },
            judge: JudgeSettings::of_plan(trials),
            evidence: EvidenceSettings::of_plan(&trials.settings),
            ..Self::default()
        };
        scenario.add_processes(&variant.actors, trials.wrapped as usize)?;
        Ok(scenario)
    }

    /// Adds the processes of a trial. `wrapped` is the number of arguments that wrap a main command.
    fn add_processes(
        &mut self,
        actors: &[ActorPlan],
        wrapped: usize,
    ) -> Result<(), NonUtf8Argument> {
        match actors {
            [main] if main.name.is_empty() && main.role.decides_outcome() => {
                let main = actor_of_plan(main, wrapped)?;
                self.program.command = main.command;
                self.trials.copies = main.copies;
                self.program.env = Variables(main.env);
                self.program.cwd = main.cwd;
                self.program.stdin = main.stdin;
            }
            actors => {
                let actors = actors.iter().map(|actor| actor_of_plan(actor, wrapped));
                self.outline.actors = actors.collect::<Result<_, _>>()?;
            }
        }
        Ok(())
    }

    /// Moves the main processes to another directory, but not the hooks.
    pub fn move_to(&mut self, target: &Path) {
        let mains = self
            .outline
            .actors
            .iter_mut()
            .filter(|actor| actor.role.decides_outcome());
        let moved_cwd = mains.filter_map(|actor| actor.cwd.take()).last();
        let Some(folder) = self
            .program
            .cwd
            .take()
            .or(moved_cwd)
            .filter(|folder| folder != target)
        else {
            return;
        };
        let folder_text = folder.to_string_lossy();
        let Ok(folder) = shlex::try_quote(&folder_text) else {
            return;
        };
        let hooks = [
            &mut self.program.setup,
            &mut self.program.prepare,
            &mut self.program.conclude,
            &mut self.program.cleanup,
        ];
        for line in hooks.into_iter().flatten() {
            *line = format!("cd {folder} || exit\n{line}");
        }
    }
}

impl ProgramSettings {
    /// Returns the settings around the processes of a variant.
    fn of_variant(trials: &TrialsPlan, variant: &VariantPlan) -> Result<Self, NonUtf8Argument> {
        let (general, own) = (&trials.hooks, &variant.hooks);
        let mut settings = Self {
            env_clear: trials.environment.is_empty().then_some(true),
            setup: joined_lines(general.setup.as_ref(), own.setup.as_ref())?,
            prepare: first_line(own.prepare.as_ref(), general.prepare.as_ref())?,
            conclude: first_line(own.conclude.as_ref(), general.conclude.as_ref())?,
            cleanup: joined_lines(own.cleanup.as_ref(), general.cleanup.as_ref())?,
            fact: Facts(trials.facts.clone()),
            tmp_per_run: trials.settings.scratch.then_some(true),
            ..Self::default()
        };
        let Some(main) = variant.main_actor() else {
            return Ok(settings);
        };
        if let Some(prefix) = main.command.get(..trials.wrapped as usize) {
            let joined = shlex::try_join(utf8_texts(prefix)?.iter().map(String::as_str));
            settings.wrap = joined.ok().filter(|joined| !joined.is_empty());
        }
        if let Some(container) = &main.container {
            settings.image = Some(utf8_text(&container.image)?);
            settings.engine = Some(container.engine.clone()).filter(|name| !name.is_empty());
            settings.mount = match &container.mounts {
                Some(mounts) if mounts.is_empty() => vec!["none".to_owned()],
                Some(mounts) => utf8_texts(mounts)?,
                None => Vec::new(),
            };
            settings.network = Some(container.network.clone());
            settings.container = utf8_texts(&container.options)?;
        }
        Ok(settings)
    }
}

impl TrialSettings {
    fn of_plan(trials: &TrialsPlan) -> Self {
        let wave = trials.waves.then_some(trials.jobs);
        Self {
            jobs: NonZeroU32::new(trials.slots_per_host()),
            wave: wave.and_then(NonZeroU32::new),
            held: trials.held.as_ref().map(|held| held.run.clone()),
            warmup: Some(trials.warmup).filter(|warmup| *warmup > 0),
            ..Self::default()
        }
    }
}

impl CaseSettings {
    fn of_plan(cases: &CasesPlan) -> Self {
        Self {
            cases: Some(RunnerValue(Some(cases.runner.clone()))),
            shuffle: cases.shuffle.then_some(true),
            case_strip: cases.strip.clone().map(Pattern),
            ..Self::default()
        }
    }
}

impl JudgeSettings {
    fn of_plan(trials: &TrialsPlan) -> Self {
        let rules = &trials.rules;
        let patterns = |texts: &[String]| texts.iter().cloned().map(Pattern).collect();
        // The baseline determines the signatures of the bug.
        let only = rules.only.iter();
        let only = only.filter(|filter| !matches!(filter, BugFilter::Signature(_)));
        Self {
            leak_grace: Some(DurationValue(trials.settings.leak_grace)),
            ok: Some(Codes(rules.ok.clone())),
            skip: Some(Codes(rules.skip.clone())),
            fail_if_out: patterns(&rules.fail_if_out),
            ok_if_out: patterns(&rules.ok_if_out),
            only: OnlyRules(only.cloned().map(OnlyRule).collect()),
            leaks: Some(rules.leaks),
            ignore_child_crashes: rules.ignore_child_crashes.then_some(true),
            ..Self::default()
        }
    }
}

impl EvidenceSettings {
    fn of_plan(settings: &provoke_model::TrialSettings) -> Self {
        Self {
            keep: Some(settings.keep),
            keep_per_sig: Some(settings.keep_per_sig),
            cores: Some(settings.cores.size),
            // A tracer changes the failure rate of a program.
            capture: settings.traces().then_some(settings.capture),
        }
    }
}

/// Returns the line that replaces another one, or else the other one.
fn first_line(
    line: Option<&Text>,
    other: Option<&Text>,
) -> Result<Option<String>, NonUtf8Argument> {
    line.or(other).map(utf8_text).transpose()
}

/// Returns a line that runs two lines in turn.
fn joined_lines(
    first: Option<&Text>,
    second: Option<&Text>,
) -> Result<Option<String>, NonUtf8Argument> {
    let lines: Vec<&Text> = first.into_iter().chain(second).collect();
    Ok(match lines.as_slice() {
        [] => None,
        [line] => Some(utf8_text(line)?),
        [first, second, ..] => Some(format!(
            "{{ {}\n}} && {{ {}\n}}",
            utf8_text(first)?,
            utf8_text(second)?
        )),
    })
}

/// Returns the settings of an actor; for a main actor, without the prefix of its command.
fn actor_of_plan(plan: &ActorPlan, wrapped: usize) -> Result<Actor, NonUtf8Argument> {
    let prefix = if plan.role.decides_outcome() {
        wrapped
    } else {
        0
    };
    let command = plan.command.iter().skip(prefix);
    let variable = |(name, value): &(Text, Option<Text>)| {
        Ok((
            utf8_text(name)?,
            EnvValue(value.as_ref().map(utf8_text).transpose()?),
        ))
    };
    let path = |path: &Text| PathBuf::from(path.as_os_str());
    Ok(Actor {
        name: plan.name.clone(),
        role: plan.role,
        command: Some(command.map(utf8_text).collect::<Result<_, _>>()?),
        shell: None,
        copies: NonZeroU32::new(plan.copies).filter(|copies| copies.get() > 1),
        env: plan
            .env
            .iter()
            .map(variable)
            .collect::<Result<BTreeMap<_, _>, _>>()?,
        cwd: Some(path(&plan.cwd)),
        stdin: plan.stdin.as_ref().map(path),
    })
}

fn utf8_texts(texts: &[Text]) -> Result<Vec<String>, NonUtf8Argument> {
    texts.iter().map(utf8_text).collect()
}

pub(super) fn utf8_text(text: &Text) -> Result<String, NonUtf8Argument> {
    let text = text.as_os_str().to_str().map(str::to_owned);
    text.ok_or(NonUtf8Argument)
}
