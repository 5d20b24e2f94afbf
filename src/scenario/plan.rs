//! Makes a complete plan from a scenario: checks it, and adds the defaults.

use super::matrix::{Combination, MatrixSubstitution, fill_value, set_variables};
use super::search::{MAKE_LIMIT, SearchSources};
use super::{Actor, DurationValue, EnvValue, OnlyRule, QuestionSettings, Scenario, Variant};
use crate::model::{
    ActorPlan, ActorRole, Alpha, BugFilter, CaptureMode, CoreSettings, EditPlan, ExpectedResult,
    FileChange, HeldPlan, Hooks, MeasuredBaseline, Plan, Question, Resource, ResourceLimit, Rules,
    StopLimits, Text, Timeout, VariantPlan,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::num::NonZeroU32;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// Default number of trials of each variant, so that a run always ends.
pub const DEFAULT_RUNS: u64 = 100;
/// Default time limit if no number of trials is given.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(600);
/// Maximum number of parallel trials; more of them are probably a mistake.
const MOST_LANES: u32 = 4096;
const DEFAULT_GRACE: Duration = Duration::from_secs(5);
const DEFAULT_LEAK_GRACE: Duration = Duration::from_secs(2);
/// Minimum memory limit: the slot, which is in the same cgroup, needs some of it.
const LEAST_MEMORY: u64 = 8 << 20;
const DEFAULT_KEPT: u64 = 5;
/// Timeout of a service trial; its clients detect a hang earlier.
const LONG_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Facts that the plan takes from the place where provoke runs.
#[derive(Clone, Debug)]
pub struct PlanContext {
    /// The environment variables.
    pub environment: Vec<(Text, Text)>,
    /// The directory to which relative paths refer.
    pub base: PathBuf,
    /// The seed, unless the scenario gives one.
    pub seed: u64,
    /// The candidates or items, if the scenario alone does not define them.
    pub searched: Option<SearchSources>,
    /// The counts of the baseline, if one was named.
    pub baseline: Option<MeasuredBaseline>,
    /// The holds of every trial.
    pub held: Option<HeldPlan>,
}

impl PlanContext {
    /// Returns the environment of this process, and a random seed.
    pub fn of_this_process(base: PathBuf) -> Self {
        let environment = std::env::vars_os().map(|(name, value)| (name.into(), value.into()));
        // As random as the keys of the standard library's maps; 53 bits, as for trials.
        let seed = RandomState::new().build_hasher().finish() >> 11;
        Self {
            environment: environment.collect(),
            base,
            seed,
            baseline: None,
            held: None,
            searched: None,
        }
    }
}

/// Why a scenario cannot be made into a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct PlanError {
    /// The error.
    pub what: String,
    /// The field, as a path of keys and indices.
    pub at: Vec<String>,
    /// A hint.
    pub hint: String,
}

impl PlanError {
    /// Creates an error of a field at the top of a scenario.
    pub fn of_field(field: &str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        refuse_at(what, &[field], hint)
    }
}

pub(super) fn refuse_at(
    what: impl Into<String>,
    at: &[&str],
    hint: impl Into<String>,
) -> PlanError {
    let at = at.iter().map(ToString::to_string).collect();
    PlanError {
        what: what.into(),
        at,
        hint: hint.into(),
    }
}

impl Scenario {
    /// Returns whether it says what to run.
    pub fn has_command(&self) -> bool {
        let program = &self.program;
        program.command.is_some() || program.shell.is_some() || !self.outline.actors.is_empty()
    }

    /// Makes a plan, and adds the defaults.
    pub fn to_plan(&self, around: PlanContext) -> Result<Plan, PlanError> {
        let (jobs, waves) = self.plan_jobs()?;
        self.check_patterns()?;
        let space = self.search_space(&around)?;
        let variants = match &space {
            Some(space) => vec![space.variant_of_choice(&space.failing_choice())],
            None => self.plan_variants(&around.base)?,
        };
        let load = self.plan_load(&around.base)?;
        let variants = match self.asked_question() {
            QuestionSettings::Ramp => self.level_variants(&variants)?,
            _ => variants,
        };
        let question = self.plan_question(&variants, around.baseline)?;
        let made = space
            .as_ref()
            .is_some_and(|space| space.template.make.is_some());
        let commands = variants.iter().flat_map(|variant| &variant.actors);
        let uses_folder = commands
            .flat_map(|actor| &actor.command)
            .any(|word| contains_bytes(word, b"{dir}"));
        let clear = self.program.env_clear.unwrap_or(false);
        let defaults = Rules::default();
        let (capture, cores) = self.capture_settings();
        Ok(Plan {
            scenario: None,
            variants,
            factors: self.plan_factors(),
            make_limit: match &space {
                Some(_) => self.search.build_limit.map_or(MAKE_LIMIT, |span| span.0),
                None => Duration::ZERO,
            },
            space,
            load,
            wrapped: u32::try_from(self.wrapping_words()?.len()).unwrap_or(u32::MAX),
            // An engine needs its own variables, but only the ones that are set for the trials are passed into a
            // container.
            environment: if clear && !self.is_contained() {
                Vec::new()
            } else {
                around.environment
            },
            hooks: Hooks {
                // The hooks for all variants do not run in the directory of one variant.
                cwd: made.then(|| {
                    let cwd = self.program.cwd.as_deref().unwrap_or(Path::new(""));
                    around.base.join(cwd).as_path().into()
                }),
                ..self.common_hooks()
            },
            limits: self
                .program
                .rlimit
                .0
                .iter()
                .filter(|(name, _)| name.to_resource() != Resource::Core)
                .map(|(name, amount)| ResourceLimit {
                    resource: name.to_resource(),
                    value: amount.0,
                })
                .collect(),
            memory: self.memory_limit()?,
            scratch: self.program.tmp_per_run.unwrap_or(false) || uses_folder,
            timeout: match (self.stop.timeout, self.is_loaded()) {
                (Some(value), _) => value.0,
                (None, false) => Timeout::Auto,
                // The clients of a service detect when it hangs.
                (None, true) => Timeout::After(LONG_LIFE),
            },
            grace: self.stop.grace.map_or(DEFAULT_GRACE, |span| span.0),
            leak_grace: self
                .judge
                .leak_grace
                .map_or(DEFAULT_LEAK_GRACE, |span| span.0),
            user: self.program.user.clone(),
            watch_engine: self.judge.watch_engine.unwrap_or(false),
            rules: Rules {
                ok: self.judge.ok.clone().map_or(defaults.ok, |codes| codes.0),
                skip: self
                    .judge
                    .skip
                    .clone()
                    .map_or(defaults.skip, |codes| codes.0),
                fail_if_out: self
                    .judge
                    .fail_if_out
                    .iter()
                    .map(|pattern| pattern.0.clone())
                    .collect(),
                ok_if_out: self
                    .judge
                    .ok_if_out
                    .iter()
                    .map(|pattern| pattern.0.clone())
                    .collect(),
                only: self.bug_rules(&question),
                leaks: self.judge.leaks.unwrap_or(defaults.leaks),
                ignore_child_crashes: self.judge.ignore_child_crashes.unwrap_or(false),
            },
            stop: self.plan_stop(&question)?,
            jobs,
            waves,
            warmup: self.trials.warmup.unwrap_or(0),
            held: around.held.map(Box::new),
            delay: self.trials.delay.map_or(Duration::ZERO, |span| span.0),
            alpha: self
                .stop
                .conf
                .map_or(Alpha::default(), |confidence| confidence.0),
            expect: self.plan_expectation()?,
            seed: self.trials.seed.unwrap_or(around.seed),
            keep: self.evidence.keep.unwrap_or_default(),
            keep_per_sig: self.evidence.keep_per_sig.unwrap_or(DEFAULT_KEPT),
            capture,
            cores,
            no_cores: None,
            question,
        })
    }

    /// Returns the memory limit of all processes of a trial together.
    fn memory_limit(&self) -> Result<Option<u64>, PlanError> {
        let bytes = self.program.memory.and_then(|amount| amount.0);
        if bytes.is_some_and(|bytes| bytes < LEAST_MEMORY) {
            let what = "a trial needs at least 8M of memory";
            let hint = "write an amount such as 500M or 2G";
            return Err(refuse_at(what, &["memory"], hint));
        }
        let of_container = |option: &String| option.starts_with("memory=");
        if bytes.is_some() && self.program.container.iter().any(of_container) {
            let what = "`memory` is given twice";
            let hint = "leave it out of `container`: `memory` limits containers too";
            return Err(refuse_at(what, &["memory"], hint));
        }
        Ok(bytes)
    }

    /// Returns when cores are dumped, and with which contents. A limit for cores enables them, and so does a search for
    /// one signature, which needs them.
    fn capture_settings(&self) -> (CaptureMode, CoreSettings) {
        let limit = self
            .program
            .rlimit
            .0
            .iter()
            .filter(|(name, _)| name.to_resource() == Resource::Core)
            .map(|(_, amount)| amount.0)
            .next();
        let by_signature = |only: &OnlyRule| matches!(only.0, BugFilter::Signature(_));
        let implied = match limit {
            Some(Some(0)) => CaptureMode::Off,
            Some(_) => CaptureMode::On,
            None if self.judge.only.iter().any(by_signature) => CaptureMode::On,
            // The run ends with the first crash that counts, so no trial runs during or after a dump.
            None if self.outline.ask == Some(QuestionSettings::Confirm) => CaptureMode::On,
            None => CaptureMode::default(),
        };
        let cores = CoreSettings {
            limit: limit.map_or(CoreSettings::default().limit, |limit| {
                limit.unwrap_or(u64::MAX)
            }),
            size: self.evidence.cores.unwrap_or_default(),
        };
        (self.evidence.capture.unwrap_or(implied), cores)
    }

    fn plan_jobs(&self) -> Result<(u32, bool), PlanError> {
        match (self.trials.jobs, self.trials.wave) {
            (Some(jobs), Some(wave)) if jobs != wave => Err(refuse_at(
                format!("`wave` starts {wave} trials together, and `jobs` allows {jobs}"),
                &["wave"],
                "give one of the two: a wave of N implies N jobs",
            )),
            (jobs, wave) if jobs.max(wave).is_some_and(|lanes| lanes.get() > MOST_LANES) => {
                Err(refuse_at(
                    format!("at most {MOST_LANES} trials can run in parallel"),
                    &[if wave.is_some() { "wave" } else { "jobs" }],
                    "for more load within a trial, use `copies`",
                ))
            }
            (jobs, Some(wave)) => Ok((jobs.unwrap_or(wave).get(), true)),
            (jobs, None) => Ok((jobs.map_or(1, NonZeroU32::get), false)),
        }
    }

    /// Compiles all patterns together, as they will be used: each may be valid and all together too large.
    fn check_patterns(&self) -> Result<(), PlanError> {
        let all = self
            .judge
            .fail_if_out
            .iter()
            .chain(&self.judge.ok_if_out)
            .map(|pattern| &pattern.0);
        regex::bytes::RegexSet::new(all).map(drop).map_err(|_| {
            refuse_at(
                "the output patterns together are too large",
                &["fail-if-out"],
                "make counted repetitions such as `{1,80}` shorter, or use fewer patterns",
            )
        })
    }

    fn plan_stop(&self, question: &Question) -> Result<StopLimits, PlanError> {
        let failures = match (self.stop.fail_fast, self.stop.max_fail) {
            (Some(true), Some(k)) if k != 1 => {
                return Err(refuse_at(
                    format!("`fail-fast` stops at the first failure, `max-fail` at number {k}"),
                    &["max-fail"],
                    "give one of the two",
                ));
            }
            (Some(true), _) => Some(1),
            (_, Some(0)) => {
                return Err(refuse_at(
                    "`max-fail` must be at least 1",
                    &["max-fail"],
                    "give 1 or more",
                ));
            }
            (_, k) => k,
        };
        if self.trials.runs == Some(0) {
            return Err(refuse_at(
                "`runs` must be at least 1",
                &["runs"],
                "give 1 or more",
            ));
        }
        // Always limited, because a failure or a width may never be reached.
        let bounded = self.trials.runs.is_some() || self.stop.duration.is_some();
        let open_ended =
            failures.is_some() || self.stop.width.is_some() || self.judge.max_rate.is_some();
        let (runs, time) = self.default_limits(question, open_ended);
        let default = time.filter(|_| !bounded).map(DurationValue);
        let duration = self.stop.duration.or(default);
        Ok(StopLimits {
            trials: self.trials.runs.or(runs.filter(|_| !bounded)),
            failures,
            width: self.stop.width.map(|rate| rate.0),
            duration_us: duration.map(DurationValue::to_micros),
            changed: false,
            all_alike: false,
        })
    }

    fn plan_expectation(&self) -> Result<ExpectedResult, PlanError> {
        match (self.judge.expect, self.judge.max_rate) {
            (Some(_), Some(_)) => Err(refuse_at(
                "`expect` and `max-rate` both define the exit code",
                &["max-rate"],
                "give one of the two",
            )),
            (Some(expectation), None) => Ok(expectation.0),
            (None, Some(rate)) => Ok(ExpectedResult::MaxRate(rate.0)),
            (None, None) => Ok(ExpectedResult::Pass),
        }
    }

    /// Returns the hooks for all variants, except hooks that differ between variants.
    fn common_hooks(&self) -> Hooks {
        let alike = |hook: &&String| !self.mentions_variable(hook);
        let once = |hook: &Option<String>| hook.as_ref().filter(alike).map(Text::from);
        let single = |hook: &Option<String>| {
            let hook = hook.as_ref().filter(|_| self.program.matrix.0.is_empty());
            hook.map(Text::from)
        };
        Hooks {
            setup: once(&self.program.setup),
            prepare: single(&self.program.prepare),
            conclude: single(&self.program.conclude),
            cleanup: once(&self.program.cleanup),
            cwd: None,
        }
    }

    fn plan_variants(&self, base: &Path) -> Result<Vec<VariantPlan>, PlanError> {
        let combinations = self.all_combinations()?;
        let mut names = BTreeSet::new();
        let mut plans = Vec::new();
        if self.outline.variants.is_empty() {
            for combination in &combinations {
                let levels = combination.levels.clone();
                plans.push(self.plan_variant(
                    &Variant::default(),
                    &[],
                    combination,
                    levels,
                    base,
                )?);
            }
        }
        for (index, variant) in (0..).zip(&self.outline.variants) {
            let at = ["variant", &index.to_string()];
            if variant.name.is_empty() || !names.insert(&variant.name) {
                let what = match variant.name.as_str() {
                    "" => "a variant has no name".to_owned(),
                    name => format!("two variants have the name `{name}`"),
                };
                let at = [at[0], at[1], "name"];
                return Err(refuse_at(what, &at, "give each variant a different `name`"));
            }
            for combination in &combinations {
                let listed = (!combination.levels.is_empty()).then_some(index);
                let levels = listed.into_iter().chain(combination.levels.iter().copied());
                plans.push(self.plan_variant(variant, &at, combination, levels.collect(), base)?);
            }
        }
        Ok(plans)
    }

    /// Returns one variant in one combination.
    pub(super) fn plan_variant(
        &self,
        variant: &Variant,
        at: &[&str],
        combination: &Combination<'_>,
        levels: Vec<u32>,
        base: &Path,
    ) -> Result<VariantPlan, PlanError> {
        let filling = MatrixSubstitution::new(combination);
        let mut actors = self.plan_actors(variant, at, base, &filling)?;
        let hooks = self.own_hooks(variant, &filling);
        let edits = variant_edits(variant, at, base, &filling)?;
        let variables = filling.environment_variables()?;
        for actor in &mut actors {
            set_variables(&mut actor.env, &variables);
        }
        Ok(VariantPlan {
            name: combination.combined_name(&variant.name),
            about: None,
            actors,
            levels,
            hooks,
            edits,
            make: None,
            choice: None,
            clients: None,
            setting: None,
        })
    }

    /// Returns the hooks of the trials of a variant.
    fn own_hooks(&self, variant: &Variant, filling: &MatrixSubstitution<'_>) -> Hooks {
        let text = |hook: &String| filling.fill_text(hook);
        let differs = |hook: &&String| self.mentions_variable(hook);
        let varies = |_: &&String| self.fills_variants();
        let around = |own: &Option<String>, general: &Option<String>| {
            let general = general.as_ref().filter(varies);
            own.as_ref().or(general).map(text)
        };
        let setup = match (self.program.setup.as_ref().filter(differs), &variant.setup) {
            // Like two separate commands, so that neither ends the shell of the other.
            (Some(general), Some(own)) => Some(format!("(\n{general}\n) && (\n{own}\n)")),
            (general, own) => general.or(own.as_ref()).cloned(),
        };
        let cleanup = match (
            &variant.cleanup,
            self.program.cleanup.as_ref().filter(differs),
        ) {
            (Some(own), Some(general)) => Some(format!(
                "(\n{own}\n)\nfirst=$?\n(\n{general}\n) && exit $first"
            )),
            (own, general) => own.as_ref().or(general).cloned(),
        };
        Hooks {
            setup: setup.as_ref().map(text),
            prepare: around(&variant.prepare, &self.program.prepare),
            conclude: around(&variant.conclude, &self.program.conclude),
            cleanup: cleanup.as_ref().map(text),
            cwd: None,
        }
    }

    /// Returns the actors of a variant.
    fn plan_actors(
        &self,
        variant: &Variant,
        at: &[&str],
        base: &Path,
        filling: &MatrixSubstitution<'_>,
    ) -> Result<Vec<ActorPlan>, PlanError> {
        let mut actors = self.said_actors()?;
        if self.is_loaded() {
            let decisive = actors
                .iter_mut()
                .filter(|actor| actor.role.decides_outcome());
            decisive.for_each(|actor| actor.role = ActorRole::Service);
        }
        if !actors.iter().any(|actor| actor.role.decides_outcome()) {
            let hint = "give one actor the role `main`: its exit decides the outcome";
            return Err(refuse_at("no actor has the role `main`", &["actor"], hint));
        }
        let own_command = variant.command.is_some() || variant.shell.is_some();
        for actor in actors
            .iter_mut()
            .filter(|actor| actor.role.decides_outcome())
        {
            if own_command {
                actor.command.clone_from(&variant.command);
                actor.shell.clone_from(&variant.shell);
            }
            actor.cwd = variant.cwd.clone().or(actor.cwd.take());
            actor.stdin = variant.stdin.clone().or(actor.stdin.take());
            actor.copies = variant.copies.or(actor.copies);
        }
        let path = |path: &Path| match path.to_str() {
            Some(text) => base.join(filling.fill_values(text)),
            None => base.join(path),
        };
        let container = self.main_container(variant, base, filling)?;
        let cwd = path(self.program.cwd.as_deref().unwrap_or(Path::new("")));
        let planned = actors.into_iter().enumerate().map(|(index, actor)| {
            let main = actor.role.decides_outcome();
            let index = index.to_string();
            let of_actor = ["actor", index.as_str()];
            let of_actor = if self.outline.actors.is_empty() {
                &[][..]
            } else {
                &of_actor
            };
            let said = actor_words(&actor, if main && own_command { at } else { of_actor })?;
            let mut command: Vec<Text> = said.iter().map(|word| filling.fill_text(word)).collect();
            if main {
                if actor.shell.is_some() && !variant.args.is_empty() {
                    return Err(refuse_at(
                        "`args` cannot be added to a `shell` line",
                        &[at, &["args"]].concat(),
                        "give the variant its own `shell` line, or use `command`",
                    ));
                }
                command.extend(variant.args.iter().map(|word| filling.fill_text(word)));
                let wrap = self.wrapping_words()?;
                command.splice(0..0, wrap.iter().map(|word| filling.fill_text(word)));
            }
            let mut env = BTreeMap::new();
            for (at, said) in [
                (&[][..], &self.program.env.0),
                (at, &variant.env),
                (of_actor, &actor.env),
            ] {
                for (name, value) in said {
                    if name.is_empty() || name.contains('=') {
                        return Err(refuse_at(
                            format!("`{name}` cannot be the name of a variable"),
                            &[at, &["env", name]].concat(),
                            "use a name that is not empty and does not contain `=`",
                        ));
                    }
                    env.insert(name, value);
                }
            }
            let text =
                |(name, value): (&String, &EnvValue)| (name.into(), fill_value(value, filling));
            let input = actor
                .stdin
                .as_deref()
                .or(self.program.stdin.as_deref().filter(|_| main));
            Ok(ActorPlan {
                name: actor.name,
                role: actor.role,
                command,
                copies: actor
                    .copies
                    .or(self.trials.copies.filter(|_| main))
                    .map_or(1, NonZeroU32::get),
                env: env.into_iter().map(text).collect(),
                cwd: actor
                    .cwd
                    .map_or_else(|| cwd.clone(), |own| path(&own))
                    .into_os_string()
                    .into(),
                stdin: input.map(|file| path(file).into_os_string().into()),
                container: container.clone().filter(|_| main),
            })
        });
        planned.collect()
    }

    /// Returns whether the trials put a service under load.
    pub(super) fn is_loaded(&self) -> bool {
        self.load.is_some() || self.loaded.is_some()
    }

    fn said_actors(&self) -> Result<Vec<Actor>, PlanError> {
        let short = self.program.command.is_some() || self.program.shell.is_some();
        if let Some((load, _)) = self
            .load
            .as_ref()
            .and_then(|load| Some((load, load.service.attach?)))
        {
            if short || !self.outline.actors.is_empty() {
                let what = "`attach` and a command to start the service are both given";
                return Err(refuse_at(what, &["load", "attach"], "give one of the two"));
            }
            // The command of a service that provoke did not start is unknown.
            let actor = Actor {
                command: Some(load.traffic.url.iter().cloned().collect()),
                ..Actor::default()
            };
            return Ok(vec![actor]);
        }
        if self.outline.actors.is_empty() {
            let without = |one: &Variant| one.command.is_none() && one.shell.is_none();
            let missing = self.outline.variants.iter().position(without);
            if !short && (missing.is_some() || self.outline.variants.is_empty()) {
                let index = missing.map(|index| index.to_string());
                let at = index
                    .as_ref()
                    .map_or(vec![], |index| vec!["variant", index]);
                return Err(refuse_at(
                    "there is no command to run",
                    &at,
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
                let what = match actor.name.as_str() {
                    "" => "an actor has no name".to_owned(),
                    name => format!("two actors have the name `{name}`"),
                };
                let at = ["actor", &index.to_string(), "name"];
                return Err(refuse_at(
                    what,
                    &at,
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

    pub(super) fn wrapping_words(&self) -> Result<Vec<String>, PlanError> {
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

fn actor_words(actor: &Actor, at: &[&str]) -> Result<Vec<String>, PlanError> {
    match (&actor.command, &actor.shell) {
        (Some(command), None) if !command.is_empty() => Ok(command.clone()),
        (None, Some(shell)) => Ok(["sh", "-c", shell].map(str::to_owned).to_vec()),
        (Some(_), Some(_)) => Err(refuse_at(
            "`command` and `shell` are both given",
            &[at, &["shell"]].concat(),
            "give one of the two",
        )),
        _ => Err(refuse_at(
            "there is no command to run",
            &[at, &["command"]].concat(),
            "give it a `command` or a `shell` line",
        )),
    }
}

/// Returns the changes of a variant in its working directory.
fn variant_edits(
    variant: &Variant,
    at: &[&str],
    base: &Path,
    filling: &MatrixSubstitution<'_>,
) -> Result<Vec<EditPlan>, PlanError> {
    let mut edits = Vec::new();
    for (file, source) in &variant.files {
        let at = [at, &["files", file]].concat();
        let source = match source.to_str() {
            Some(text) => base.join(filling.fill_values(text)),
            None => base.join(source),
        };
        edits.push(EditPlan {
            file: path_inside(file, &at, filling)?,
            change: FileChange::Copy(source.into_os_string().into()),
        });
    }
    for (index, edit) in variant.edits.iter().enumerate() {
        let index = index.to_string();
        let place = |field| [at, &["edit", &index, field]].concat();
        let find = filling.fill_values(&edit.find);
        if find.is_empty() {
            return Err(refuse_at(
                "`find` is empty",
                &place("find"),
                "set `find` to the text to replace, exactly as it is in the file",
            ));
        }
        let Some(replace) = &edit.replace else {
            return Err(refuse_at(
                format!("there is no replacement for `{}`", edit.find),
                &place("replace"),
                "add `replace`; `\"\"` removes the text",
            ));
        };
        edits.push(EditPlan {
            file: path_inside(&edit.file, &place("file"), filling)?,
            change: FileChange::Replace {
                find,
                with: filling.fill_values(replace),
            },
        });
    }
    Ok(edits)
}

/// Returns the path of a file in the working directory; other files are not copied.
fn path_inside(
    file: &str,
    at: &[&str],
    filling: &MatrixSubstitution<'_>,
) -> Result<Text, PlanError> {
    let file = filling.fill_values(file);
    let hint = "name a file in the working directory, such as `config.ini`: the variant gets a copy of that directory only";
    if file.is_empty() {
        return Err(refuse_at("the name of the file is empty", at, hint));
    }
    let mut steps = Path::new(&file).components();
    if !steps.all(|step| matches!(step, Component::Normal(_) | Component::CurDir)) {
        let what = format!("`{file}` is not in the working directory");
        return Err(refuse_at(what, at, hint));
    }
    Ok(file.into())
}

fn contains_bytes(word: &Text, part: &[u8]) -> bool {
    word.as_bytes()
        .windows(part.len())
        .any(|window| window == part)
}

#[cfg(test)]
mod tests;
