//! Makes a complete plan from a scenario: checks it, and adds the defaults.

use super::context::PlanContext;
use super::edits::variant_edits;
use super::host_list::is_fact;
use super::matrix::{Combination, MatrixSubstitution, set_variables};
use super::planned_question::{PlannedQuestion, QuestionDraft, check_settings};
use super::search::MAKE_LIMIT;
use super::{DurationValue, OnlyRule, Pattern, Scenario, Variant};
use provoke_levers as levers;
use provoke_model::{
    Alpha, BugFilter, CaptureMode, CoreSettings, ExpectedResult, Goal, Hooks, HostPlan, Plan,
    Rules, StopLimits, Text, Timeout, TrialConditions, TrialSettings, TrialsPlan, VariantPlan,
};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use provoke_words::untrusted::Untrusted as _;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

/// Default number of trials of each variant, so that a run always ends.
pub const DEFAULT_RUNS: u64 = 100;
/// Default time limit if no number of trials is given.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(600);
/// Maximum number of parallel trials; more of them are probably a mistake.
pub(super) const MAX_SLOTS: u32 = 4096;
/// A rate of 100 %, in millionths.
const EVERY_TRIAL: u32 = 1_000_000;
/// Timeout of a service trial; its clients detect a hang earlier.
const LONG_LIFE: Duration = Duration::from_secs(24 * 3600);

impl Scenario {
    /// Returns whether it says what to run.
    pub fn has_command(&self) -> bool {
        let program = &self.program;
        program.command.is_some() || program.shell.is_some() || !self.outline.actors.is_empty()
    }

    /// Returns the words of the command, unless the processes are defined one by one.
    pub fn typed_command(&self) -> Option<Vec<String>> {
        let program = &self.program;
        let shell = |line: &String| ["sh", "-c", line].map(str::to_owned).to_vec();
        program
            .command
            .clone()
            .or(program.shell.as_ref().map(shell))
    }

    /// Makes a plan of a question, and adds the defaults.
    pub fn to_plan(
        &self,
        kind: &dyn PlannedQuestion,
        context: PlanContext,
    ) -> Result<Plan, Diagnostic> {
        check_settings(self, kind)?;
        let (jobs, waves, hosts) = self.plan_jobs()?;
        self.check_patterns()?;
        let space = self.search_space(&context)?;
        let variants = match &space {
            Some(space) => vec![space.variant_of_choice(&space.first_choice())],
            None => self.plan_variants(&context.base)?,
        };
        let cases = self.plan_cases(&variants)?;
        let load = self.plan_load(&context.base)?;
        let variants = kind.plan_variants(self, variants)?;
        let asked = kind.plan(QuestionDraft {
            scenario: self,
            variants: &variants,
            baseline: context.baseline,
        })?;
        let is_made = space
            .as_ref()
            .is_some_and(|space| space.template.make.is_some());
        let scratch = self.program.tmp_per_run.unwrap_or(false) || uses_folder(&variants);
        let has_one_result = variants.len() == 1 && cases.is_none() && asked.stops_if_alike;
        let clear = self.program.env_clear.unwrap_or(false);
        let (capture, cores) = self.capture_settings(asked.capture);
        let defaults = TrialSettings::default();
        let trials = TrialsPlan {
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
                context.environment
            },
            hooks: Hooks {
                // The hooks for all variants do not run in the directory of one variant.
                cwd: is_made.then(|| {
                    let cwd = self.program.cwd.as_deref().unwrap_or(Path::new(""));
                    context.base.join(cwd).as_path().into()
                }),
                ..self.common_hooks()
            },
            conditions: self.plan_conditions()?,
            settings: TrialSettings {
                scratch,
                timeout: match (self.stop.timeout, self.is_loaded()) {
                    (Some(value), _) => value.0,
                    (None, false) => Timeout::Auto,
                    // The clients of a service detect when it hangs.
                    (None, true) => Timeout::After(LONG_LIFE),
                },
                grace: self.stop.grace.map_or(defaults.grace, |span| span.0),
                leak_grace: self
                    .judge
                    .leak_grace
                    .map_or(defaults.leak_grace, |span| span.0),
                keep: self.evidence.keep.unwrap_or_default(),
                keep_per_sig: self.evidence.keep_per_sig.unwrap_or(defaults.keep_per_sig),
                capture,
                cores,
                no_cores: None,
            },
            rules: self.plan_rules(self.bug_rules(asked.bugs)),
            cases,
            jobs,
            hosts,
            facts: self.plan_facts()?,
            waves,
            warmup: self.trials.warmup.unwrap_or(0),
            held: context.held.map(Box::new),
            seed: self.trials.seed.unwrap_or(context.seed),
        };
        Ok(Plan {
            stop: StopLimits {
                all_alike: self.stop.if_alike && has_one_result && !self.limits_trials_or_rate(),
                ..self.plan_stop(asked.trials, asked.time)?
            },
            goal: Goal {
                scenario: None,
                alpha: self
                    .stop
                    .conf
                    .map_or(Alpha::default(), |confidence| confidence.0),
                expect: self.plan_expectation()?,
                earlier_checks: 0,
                question: asked.question,
            },
            trials,
        })
    }

    /// Returns the rules that decide which outcome a trial has.
    fn plan_rules(&self, only: Vec<BugFilter>) -> Rules {
        let judge = &self.judge;
        let defaults = Rules::default();
        let texts = |patterns: &[Pattern]| {
            let patterns = patterns.iter().map(|pattern| pattern.0.clone());
            patterns.collect()
        };
        Rules {
            ok: judge.ok.clone().map_or(defaults.ok, |codes| codes.0),
            skip: judge.skip.clone().map_or(defaults.skip, |codes| codes.0),
            fail_if_out: texts(&judge.fail_if_out),
            ok_if_out: texts(&judge.ok_if_out),
            only,
            leaks: judge.leaks.unwrap_or(defaults.leaks),
            ignore_child_crashes: judge.ignore_child_crashes.unwrap_or(false),
            refusals: self.refusal_rules(),
        }
    }

    /// Returns the given facts, whose names and values must be plain text.
    fn plan_facts(&self) -> Result<BTreeMap<String, String>, Diagnostic> {
        let facts = &self.program.fact.0;
        let wrong = facts
            .iter()
            .find(|(name, value)| !is_fact(&format!("{name}={value}")));
        match wrong {
            Some((name, _)) => {
                let message = format!("`{}` is not a fact such as `bios=1.2`", name.to_safe());
                let hint = "use letters, digits, `-`, `_` and `.` in its name, and a value";
                Err(Diagnostic::of_field("fact", message, hint))
            }
            None => Ok(facts.clone()),
        }
    }

    /// Returns the conditions of trials; an error if an option of the container sets one of them, too.
    fn plan_conditions(&self) -> Result<TrialConditions, Diagnostic> {
        let given = &self.conditions.all;
        for (lever, _) in levers::set_levers(given) {
            let (setting, option) = (lever.name, lever.container_option.unwrap_or_default());
            let start = format!("{option}=");
            let mut options = self.program.container.iter();
            if !option.is_empty() && options.any(|option| option.starts_with(&start)) {
                let message = format!("`{setting}` is given twice");
                let hint = format!(
                    "leave `{option}` out of `container`: `{setting}` limits containers too"
                );
                return Err(refuse_at(message, &[setting], hint));
            }
        }
        Ok(levers::without_core(given.clone()))
    }

    /// Returns when cores are dumped, and with which contents. A limit for cores enables them, and so does a search for
    /// one signature, which needs them.
    fn capture_settings(&self, default: CaptureMode) -> (CaptureMode, CoreSettings) {
        let limit = levers::core_limit(&self.conditions.all);
        let by_signature = |rule: &OnlyRule| matches!(rule.0, BugFilter::Signature(_));
        let implied = match limit {
            Some(Some(0)) => CaptureMode::Off,
            Some(_) => CaptureMode::On,
            None if self.judge.only.0.iter().any(by_signature) => CaptureMode::On,
            None => default,
        };
        let cores = CoreSettings {
            limit: limit.map_or(CoreSettings::default().limit, |limit| {
                limit.unwrap_or(u64::MAX)
            }),
            size: self.evidence.cores.unwrap_or_default(),
        };
        (self.evidence.capture.unwrap_or(implied), cores)
    }

    /// Returns the number of parallel trials, whether they start in waves, and the hosts on which they run.
    pub(super) fn plan_jobs(&self) -> Result<(u32, bool, Option<HostPlan>), Diagnostic> {
        let (slots, waves) = self.plan_slots()?;
        let Some(hosts) = self.hosts.to_plan(slots)? else {
            return Ok((slots, waves, None));
        };
        if waves {
            let message = "trials on several hosts cannot start in waves";
            return Err(refuse_at(message, &["wave"], "leave out `wave` or `on`"));
        }
        Ok((hosts.jobs(), waves, Some(hosts)))
    }

    /// Returns the number of parallel trials on one host, and whether they start in waves.
    fn plan_slots(&self) -> Result<(u32, bool), Diagnostic> {
        match (self.trials.jobs, self.trials.wave) {
            (Some(jobs), Some(wave)) if jobs != wave => Err(refuse_at(
                format!("`wave` starts {wave} trials together, and `jobs` allows {jobs}"),
                &["wave"],
                "give one of the two: a wave of N implies N jobs",
            )),
            (jobs, wave) if jobs.max(wave).is_some_and(|slots| slots.get() > MAX_SLOTS) => {
                Err(refuse_at(
                    format!("at most {MAX_SLOTS} trials can run in parallel"),
                    &[if wave.is_some() { "wave" } else { "jobs" }],
                    "for more load within a trial, use `copies`",
                ))
            }
            (jobs, Some(wave)) => Ok((jobs.unwrap_or(wave).get(), true)),
            (jobs, None) => Ok((jobs.map_or(1, NonZeroU32::get), false)),
        }
    }

    /// Compiles all patterns together, as they will be used: each may be valid and all together too large.
    fn check_patterns(&self) -> Result<(), Diagnostic> {
        let mut patterns = self
            .judge
            .fail_if_out
            .iter()
            .chain(&self.judge.ok_if_out)
            .map(|pattern| &pattern.0)
            .peekable();
        if patterns.peek().is_none() {
            return Ok(());
        }
        regex::bytes::RegexSet::new(patterns)
            .map(drop)
            .map_err(|_| {
                refuse_at(
                    "the output patterns together are too large",
                    &["fail-if-out"],
                    "make counted repetitions such as `{1,80}` shorter, or use fewer patterns",
                )
            })
    }

    /// Returns whether the user set the number of trials, or the expected failure rate.
    fn limits_trials_or_rate(&self) -> bool {
        self.trials.runs.is_some()
            || self.stop.max_fail.is_some()
            || self.stop.width.is_some()
            || self.judge.expect.is_some()
            || self.judge.max_rate.is_some()
    }

    /// Returns whether the user gave a stop rule that trials may never meet.
    pub fn is_open_ended(&self) -> bool {
        let stop = &self.stop;
        stop.fail_fast == Some(true)
            || stop.max_fail.is_some()
            || stop.width.is_some()
            || self.judge.max_rate.is_some()
    }

    fn plan_stop(
        &self,
        default_trials: Option<u64>,
        default_time: Option<Duration>,
    ) -> Result<StopLimits, Diagnostic> {
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
                    "for example 1, to stop at the first failure",
                ));
            }
            (_, k) => k,
        };
        if self.trials.runs == Some(0) {
            return Err(refuse_at(
                "`runs` must be at least 1",
                &["runs"],
                "for example 100",
            ));
        }
        // Always limited, because a failure or a width may never be reached.
        let bounded = self.trials.runs.is_some() || self.stop.duration.is_some();
        let default_trials = default_trials.filter(|_| !bounded);
        let default_time = default_time.filter(|_| !bounded);
        let duration = self.stop.duration.or(default_time.map(DurationValue));
        Ok(StopLimits {
            trials: self.trials.runs.or(default_trials),
            failures,
            width: self.stop.width.map(|rate| rate.0),
            duration_us: duration.map(DurationValue::to_micros),
            ..StopLimits::default()
        })
    }

    fn plan_expectation(&self) -> Result<ExpectedResult, Diagnostic> {
        match (self.judge.expect, self.judge.max_rate) {
            (Some(_), Some(_)) => Err(refuse_at(
                "`expect` and `max-rate` both define the exit code",
                &["max-rate"],
                "give one of the two",
            )),
            (Some(expectation), None) => Ok(expectation.0),
            // A plain 1 is usually meant as a percentage.
            (None, Some(rate)) if rate.0 >= EVERY_TRIAL => Err(refuse_at(
                "`max-rate` is 100 %, which every program meets",
                &["max-rate"],
                "give a smaller rate, such as `1%` or 0.01",
            )),
            (None, Some(rate)) => Ok(ExpectedResult::MaxRate(rate.0)),
            (None, None) => Ok(ExpectedResult::Pass),
        }
    }

    fn plan_variants(&self, base: &Path) -> Result<Vec<VariantPlan>, Diagnostic> {
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
            let position = ["variant", &index.to_string()];
            if variant.name.is_empty() || !names.insert(&variant.name) {
                let message = match variant.name.as_str() {
                    "" => "a variant has no name".to_owned(),
                    name => format!("two variants have the name `{name}`"),
                };
                let name_position = [position[0], position[1], "name"];
                return Err(refuse_at(
                    message,
                    &name_position,
                    "give each variant a different `name`",
                ));
            }
            for combination in &combinations {
                let listed = (!combination.levels.is_empty()).then_some(index);
                let levels = listed.into_iter().chain(combination.levels.iter().copied());
                plans.push(self.plan_variant(
                    variant,
                    &position,
                    combination,
                    levels.collect(),
                    base,
                )?);
            }
        }
        Ok(plans)
    }

    /// Returns one variant in one combination.
    pub(super) fn plan_variant(
        &self,
        variant: &Variant,
        position: &[&str],
        combination: &Combination<'_>,
        levels: Vec<u32>,
        base: &Path,
    ) -> Result<VariantPlan, Diagnostic> {
        let filling = MatrixSubstitution::new(combination);
        let mut actors = self.plan_actors(variant, position, base, &filling)?;
        let hooks = self.own_hooks(variant, &filling);
        let edits = variant_edits(variant, position, base, &filling)?;
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
            conditions: combination.conditions()?,
        })
    }
}

/// Returns whether a command contains the path of the folder of a trial.
fn uses_folder(variants: &[VariantPlan]) -> bool {
    let actors = variants.iter().flat_map(|variant| &variant.actors);
    let mut words = actors.flat_map(|actor| &actor.command);
    words.any(|word| contains_bytes(word, b"{dir}"))
}

fn contains_bytes(word: &Text, needle: &[u8]) -> bool {
    word.as_bytes()
        .windows(needle.len())
        .any(|window| window == needle)
}
