//! Restores the scenario of an earlier run from its plan, so that settings can be changed.

use super::{
    Actor, CaseSettings, Codes, ConditionSettings, Confidence, DurationValue, EnvValue,
    EvidenceSettings, Facts, HostSettings, JudgeSettings, OnlyRule, OnlyRules, Pattern,
    ProgramSettings, Scenario, StopSettings, TimeoutValue, TrialSettings, Variables,
};
use crate::RunnerValue;
use provoke_model::{ActorPlan, BugFilter, CaptureMode, Goal, Text, TrialsPlan, VariantId};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

/// An argument of a command is not UTF-8 and cannot be written to a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonUtf8Argument;

impl Scenario {
    /// Returns the settings of the trials of one variant of a plan, without its stop rule and its question.
    #[expect(clippy::too_many_lines, reason = "each setting is one line")]
    pub fn of_variant(
        goal: &Goal,
        trials: &TrialsPlan,
        variant: VariantId,
    ) -> Result<Self, NonUtf8Argument> {
        let variant = trials.variant_plan(variant);
        let hooks = &variant.hooks;
        let hook = |own: &Option<Text>, general: &Option<Text>| {
            own.as_ref().or(general.as_ref()).map(utf8_text).transpose()
        };
        let combined = |first: &Option<Text>, second: &Option<Text>| {
            let lines: Result<Vec<String>, NonUtf8Argument> =
                first.iter().chain(second).map(utf8_text).collect();
            Ok(match lines?.as_slice() {
                [] => None,
                [command] => Some(command.clone()),
                [a, b, ..] => Some(format!("{{ {a}\n}} && {{ {b}\n}}")),
            })
        };
        let only = match variant.actors.as_slice() {
            [actor] if actor.name.is_empty() && actor.role.decides_outcome() => Some(actor),
            _ => None,
        };
        let rules = &trials.rules;
        let mut scenario = Self {
            loaded: trials.load.clone(),
            refusals: trials.rules.refusals.clone(),
            program: ProgramSettings {
                env_clear: trials.environment.is_empty().then_some(true),
                setup: combined(&trials.hooks.setup, &hooks.setup)?,
                prepare: hook(&hooks.prepare, &trials.hooks.prepare)?,
                conclude: hook(&hooks.conclude, &trials.hooks.conclude)?,
                cleanup: combined(&hooks.cleanup, &trials.hooks.cleanup)?,
                fact: Facts(trials.facts.clone()),
                tmp_per_run: trials.settings.scratch.then_some(true),
                ..ProgramSettings::default()
            },
            conditions: ConditionSettings(trials.conditions.clone()),
            trials: TrialSettings {
                jobs: NonZeroU32::new(trials.slots_per_host()),
                wave: if trials.waves {
                    NonZeroU32::new(trials.jobs)
                } else {
                    None
                },
                held: trials.held.as_ref().map(|held_plan| held_plan.run.clone()),
                warmup: Some(trials.warmup).filter(|warmup| *warmup > 0),
                ..TrialSettings::default()
            },
            suite: CaseSettings {
                cases: trials
                    .cases
                    .as_ref()
                    .map(|cases| RunnerValue(Some(cases.runner.clone()))),
                shuffle: trials
                    .cases
                    .as_ref()
                    .and_then(|cases| cases.shuffle.then_some(true)),
                case_strip: trials
                    .cases
                    .as_ref()
                    .and_then(|cases| cases.strip.clone().map(Pattern)),
                ..CaseSettings::default()
            },
            hosts: HostSettings::of_plan(trials.hosts.as_ref()),
            stop: StopSettings {
                timeout: Some(TimeoutValue(trials.settings.timeout)),
                grace: Some(DurationValue(trials.settings.grace)),
                conf: Some(Confidence(goal.alpha)),
                ..StopSettings::default()
            },
            judge: JudgeSettings {
                leak_grace: Some(DurationValue(trials.settings.leak_grace)),
                ok: Some(Codes(rules.ok.clone())),
                skip: Some(Codes(rules.skip.clone())),
                fail_if_out: rules.fail_if_out.iter().cloned().map(Pattern).collect(),
                ok_if_out: rules.ok_if_out.iter().cloned().map(Pattern).collect(),
                // The baseline determines the signatures of the bug.
                only: OnlyRules(
                    rules
                        .only
                        .iter()
                        .filter(|filter| !matches!(filter, BugFilter::Signature(_)))
                        .map(|filter| OnlyRule(filter.clone()))
                        .collect(),
                ),
                leaks: Some(rules.leaks),
                watch_engine: trials.settings.watch_engine.then_some(true),
                ignore_child_crashes: rules.ignore_child_crashes.then_some(true),
                ..JudgeSettings::default()
            },
            evidence: EvidenceSettings {
                keep: Some(trials.settings.keep),
                keep_per_sig: Some(trials.settings.keep_per_sig),
                cores: Some(trials.settings.cores.size),
                // A tracer changes the failure rate of a program.
                capture: Some(trials.settings.capture)
                    .filter(|capture| *capture == CaptureMode::Trace),
            },
            ..Self::default()
        };
        if let Some(question) = goal.question.as_confirm() {
            scenario.confirm.exclude_half = question.exclude_half;
            scenario.confirm.independent = question.independent.then_some(true);
        }
        let wrapped = trials.wrapped as usize;
        let main = variant.main_actor();
        if let Some(prefix) = main.and_then(|main| main.command.get(..wrapped)) {
            let words: Vec<String> = prefix.iter().map(utf8_text).collect::<Result<_, _>>()?;
            let joined = shlex::try_join(words.iter().map(String::as_str));
            scenario.program.wrap = joined.ok().filter(|joined| !joined.is_empty());
        }
        if let Some(container) = main.and_then(|main| main.container.as_ref()) {
            let utf8_texts =
                |texts: &[Text]| texts.iter().map(utf8_text).collect::<Result<Vec<_>, _>>();
            scenario.program.image = Some(utf8_text(&container.image)?);
            scenario.program.engine =
                Some(container.engine.clone()).filter(|name| !name.is_empty());
            scenario.program.mount = match &container.mounts {
                Some(mounts) if mounts.is_empty() => vec!["none".to_owned()],
                Some(mounts) => utf8_texts(mounts)?,
                None => Vec::new(),
            };
            scenario.program.network = Some(container.network.clone());
            scenario.program.container = utf8_texts(&container.options)?;
        }
        match only {
            Some(main) => {
                let main = actor_of_plan(main, wrapped)?;
                scenario.program.command = main.command;
                scenario.trials.copies = main.copies;
                scenario.program.env = Variables(main.env);
                scenario.program.cwd = main.cwd;
                scenario.program.stdin = main.stdin;
            }
            None => {
                let actors = variant
                    .actors
                    .iter()
                    .map(|actor| actor_of_plan(actor, wrapped));
                scenario.outline.actors = actors.collect::<Result<_, _>>()?;
            }
        }
        Ok(scenario)
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

pub(super) fn utf8_text(text: &Text) -> Result<String, NonUtf8Argument> {
    let text = text.as_os_str().to_str().map(str::to_owned);
    text.ok_or(NonUtf8Argument)
}
