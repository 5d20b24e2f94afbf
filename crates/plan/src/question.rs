//! Makes the question of a plan from a scenario.

use super::plan::{DEFAULT_DURATION, DEFAULT_RUNS};
use super::plan_error::{PlanError, refuse_at};
use super::{BisectSettings, QuestionSettings, RateValue, Scenario};
use provoke_model::{
    Baseline, BisectQuestion, BugFilter, CodeScope, CompareGoal, CompareQuestion, ConfirmQuestion,
    FailingRate, HuntQuestion, KnownCrash, MeasuredBaseline, Question, RampQuestion,
    SearchQuestion, VariantId, VariantPlan,
};
use provoke_words::untrusted::shell_word;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// Default number of trials of the bad end without a failure after which a search is given up.
const REPRODUCE: u64 = 200;

/// Default number of trials of each variant if rates are compared.
pub(super) const DEFAULT_PAIRS: u64 = 300;
/// Default number of trials of a service.
pub(super) const DEFAULT_TRIALS: u64 = 20;
/// Default time limit of a search among load levels.
const RAMP_DURATION: Duration = Duration::from_secs(1800);
/// Default time limit of a search for a schedule.
const HUNT_DURATION: Duration = Duration::from_secs(60);

/// Hint for a missing baseline.
pub const MEASURE_FIRST: &str = "measure it first: provoke run --max-fail 3 -- CMD; or give counts: --baseline 3/30 (3 failures in 30 trials)";

impl Scenario {
    /// Returns the question; `measured` has the counts of the baseline.
    pub(super) fn plan_question(
        &self,
        variants: &[VariantPlan],
        measured: Option<MeasuredBaseline>,
    ) -> Result<Question, PlanError> {
        let ask = self.asked_question();
        self.check_fields_of(ask)?;
        let search = || SearchQuestion {
            clean: self.search.clean.unwrap_or(false),
            any_failure: self.takes_any_failure(),
            reproduce: self.search.reproduce_limit.unwrap_or(REPRODUCE),
            failing_rate: match (self.search.raise_rate, self.count.ignore_earlier_runs) {
                (Some(true), _) => FailingRate::Raised,
                (_, Some(true)) => FailingRate::ThisRun,
                _ => FailingRate::EarlierRuns,
            },
            earlier: None,
        };
        match ask {
            QuestionSettings::Rate => Ok(Question::Rate),
            QuestionSettings::Confirm => {
                self.plan_confirm(variants, measured).map(Question::Confirm)
            }
            QuestionSettings::Compare => {
                self.plan_compare(variants, measured).map(Question::Compare)
            }
            QuestionSettings::Bisect => Ok(Question::Bisect(BisectQuestion {
                search: search(),
                fixed: self.bisect.fixed.unwrap_or(false),
                all: self.bisect.all.unwrap_or(false),
                inside: None,
            })),
            QuestionSettings::Reduce => Ok(Question::Reduce(search())),
            QuestionSettings::Hunt => self.plan_hunt(variants, measured).map(Question::Hunt),
            QuestionSettings::Ramp => Ok(Question::Ramp(RampQuestion {
                detect: self.detection_rate(),
                above: false,
            })),
        }
    }

    /// Returns the default number of trials and the default time of a question that does not end by itself.
    pub(super) fn default_limits(
        &self,
        question: &Question,
        open_ended: bool,
    ) -> (Option<u64>, Option<Duration>) {
        match question {
            Question::Rate if open_ended => (None, Some(DEFAULT_DURATION)),
            Question::Rate if self.is_loaded() => (Some(DEFAULT_TRIALS), Some(DEFAULT_DURATION)),
            Question::Rate => (Some(DEFAULT_RUNS), Some(DEFAULT_DURATION)),
            Question::Ramp(_) => (None, Some(RAMP_DURATION)),
            Question::Hunt(_) => (None, Some(HUNT_DURATION)),
            Question::Confirm(_)
            | Question::Bisect(_)
            | Question::Reduce(_)
            | Question::Shrink(_) => (None, None),
            Question::Compare(compare) => match compare.find {
                CompareGoal::Failing => (None, Some(DEFAULT_DURATION)),
                CompareGoal::Different => (Some(DEFAULT_PAIRS), Some(DEFAULT_DURATION)),
            },
        }
    }

    /// Refuses settings of other questions, and stop rules that conflict with that of the question.
    fn check_fields_of(&self, ask: QuestionSettings) -> Result<(), PlanError> {
        use QuestionSettings::{Bisect, Compare, Confirm, Hunt, Ramp, Rate, Reduce};
        let of_bisect = BisectSettings {
            fixed: None,
            ..self.bisect.clone()
        };
        let conditions = self.baseline.accept_different_conditions;
        let fields = [
            (
                ask == Confirm,
                first_given(&self.confirm),
                "is for `provoke confirm`",
                "use `provoke confirm`, or `ask = \"confirm\"`",
            ),
            (
                matches!(ask, Confirm | Compare),
                conditions.map(|_| "accept-different-conditions".to_owned()),
                "needs a baseline",
                "use `provoke confirm`, or `provoke compare --baseline`",
            ),
            (
                ask == Compare,
                first_given(&self.comparison),
                "is for `provoke compare`",
                "use `provoke compare`, or `ask = \"compare\"`",
            ),
            (
                matches!(ask, Bisect | Compare),
                self.bisect.fixed.map(|_| "fixed".to_owned()),
                "is for `provoke bisect` or a comparison of two variants",
                "use `provoke bisect`, or `provoke compare`",
            ),
            (
                ask == Bisect,
                first_given(&self.candidates).or(first_given(&of_bisect)),
                "is for `provoke bisect`",
                "use `provoke bisect`, or `ask = \"bisect\"`",
            ),
            (
                ask == Reduce,
                first_true(&self.set_fields()).or(first_given(&self.reduce)),
                "is for `provoke reduce`",
                "use `provoke reduce`, or `ask = \"reduce\"`",
            ),
            (
                ask == Hunt,
                first_given(&self.hunt),
                "is for `provoke hunt`",
                "use `provoke hunt`, or `ask = \"hunt\"`",
            ),
            (
                matches!(ask, Bisect | Reduce),
                first_given(&self.search),
                "is for searches",
                "use `provoke bisect` or `provoke reduce`",
            ),
        ];
        for (is_for_question, field, message, hint) in fields {
            if let (false, Some(field)) = (is_for_question, field) {
                return Err(refuse_at(format!("`{field}` {message}"), &[&field], hint));
            }
        }
        let name = ask.name();
        if matches!(ask, Rate | Compare) && self.count.any_failure.is_some() {
            let message = format!("`{name}` counts every failure unless `only` is given");
            return Err(refuse_at(message, &["any-failure"], "leave it out"));
        }
        if matches!(ask, Rate | Ramp) && self.count.ignore_earlier_runs.is_some() {
            let message = format!("`{name}` never counts earlier runs");
            return Err(refuse_at(message, &["ignore-earlier-runs"], "leave it out"));
        }
        if !matches!(ask, Confirm | Compare | Hunt) && self.baseline.baseline.is_some() {
            let hint = "use `provoke confirm` to check a fix, or `provoke compare`";
            let message = format!("`{name}` does not use a baseline");
            return Err(refuse_at(message, &["baseline"], hint));
        }
        let stops = [
            ("max-fail", self.stop.max_fail.is_some()),
            ("fail-fast", self.stop.fail_fast.is_some()),
            ("width", self.stop.width.is_some()),
            ("expect", self.judge.expect.is_some()),
            ("max-rate", self.judge.max_rate.is_some()),
        ];
        if let (true, Some(field)) = (ask != Rate, first_true(&stops)) {
            let message =
                format!("`{name}` decides itself when to stop, so `{field}` has no effect");
            let hint = format!("leave `{field}` out; limit the run with `runs` or `duration`");
            return Err(refuse_at(message, &[&field], hint));
        }
        Ok(())
    }

    fn plan_hunt(
        &self,
        variants: &[VariantPlan],
        measured: Option<MeasuredBaseline>,
    ) -> Result<HuntQuestion, PlanError> {
        if let [_, second, ..] = variants {
            let message = format!(
                "`hunt` examines one variant, and there are {}",
                variants.len()
            );
            let hint = format!("leave the variants out (`{}`, ...)", second.name);
            return Err(refuse_at(message, &["variant"], hint));
        }
        if self.trials.held.is_some() {
            let message = "`hunt` searches holds, so `held` has no effect";
            return Err(refuse_at(
                message,
                &["held"],
                "leave it out, or use `provoke run`",
            ));
        }
        let scope = match &*self.hunt.hold_in {
            [] => CodeScope::Own,
            parts => CodeScope::Named(parts.to_vec()),
        };
        let functions = measured.as_ref().map(|measured| measured.functions.clone());
        let known_crash = measured.and_then(|measured| {
            Some(Box::new(KnownCrash {
                run: measured.run?,
                bugs: measured.bugs,
            }))
        });
        Ok(HuntQuestion {
            scope,
            first: functions.unwrap_or_default(),
            known: known_crash,
        })
    }

    fn plan_confirm(
        &self,
        variants: &[VariantPlan],
        measured: Option<MeasuredBaseline>,
    ) -> Result<ConfirmQuestion, PlanError> {
        if let [_, second, ..] = variants {
            let message = format!(
                "`confirm` checks one variant, and there are {}",
                variants.len()
            );
            let hint = format!(
                "leave the variants out (`{}`, ...), or use `provoke compare`",
                second.name
            );
            return Err(refuse_at(message, &["variant"], hint));
        }
        if self.takes_any_failure() && !self.judge.only.0.is_empty() {
            return Err(refuse_at(
                "`only` and `any-failure` contradict each other",
                &["any-failure"],
                "give one of the two",
            ));
        }
        let baseline = match (measured, self.confirm.assume_rate) {
            (Some(_), Some(_)) => {
                return Err(refuse_at(
                    "`baseline` and `assume-rate` are both given",
                    &["assume-rate"],
                    "give one of the two; a measured baseline is better",
                ));
            }
            (None, Some(rate)) => Baseline::Assumed(rate.0),
            (Some(measured), None) => Baseline::Measured(Box::new(self.check_baseline(measured)?)),
            (None, None) => {
                return Err(refuse_at(
                    "there is no baseline: no stored run has failures",
                    &["baseline"],
                    MEASURE_FIRST,
                ));
            }
        };
        let doubts = match &baseline {
            // A user who sets `only` knows the other failures.
            Baseline::Measured(base)
                if self.judge.only.0.is_empty() && !self.takes_any_failure() =>
            {
                base.bugs.iter().map(|bug| bug.widest).collect()
            }
            _ => Vec::new(),
        };
        Ok(ConfirmQuestion {
            baseline,
            doubts,
            exclude_half: self.confirm.exclude_half,
            independent: self.confirm.independent.unwrap_or(false),
            accept_conditions: self.baseline.accept_different_conditions.unwrap_or(false),
            earlier_attempts: 0,
        })
    }

    /// Refuses a baseline without failures.
    fn check_baseline(&self, measured: MeasuredBaseline) -> Result<MeasuredBaseline, PlanError> {
        let confirms = self.outline.ask == Some(QuestionSettings::Confirm);
        if confirms && measured.one_life && !self.confirm.independent.unwrap_or(false) {
            let message = format!(
                "the {} trials of the baseline shared the processes that `setup` started, so they may count as a single trial",
                measured.trials
            );
            let hint = "measure it again with `prepare` instead of `setup`, so that each trial starts its own processes; if trials cannot influence each other through them, add --independent";
            return Err(refuse_at(message, &["baseline"], hint));
        }
        if measured.failures > 0 {
            return Ok(measured);
        }
        let that_way = if self.judge.only.0.is_empty() {
            ""
        } else {
            " in the given way"
        };
        let message = match measured.trials {
            0 => "all trials of the baseline were inconclusive".to_owned(),
            trials => format!("none of the {trials} trials of the baseline failed{that_way}"),
        };
        let hint = "name a run with failures (`provoke list` shows them); without --baseline, the newest one counts";
        Err(refuse_at(message, &["baseline"], hint))
    }

    fn plan_compare(
        &self,
        variants: &[VariantPlan],
        measured: Option<MeasuredBaseline>,
    ) -> Result<CompareQuestion, PlanError> {
        if variants.len() < 2 {
            let hint = self.compared_programs().unwrap_or_else(|| {
                "define two or more variants: -L VAR=a,b, or [[variant]] in a scenario file"
                    .to_owned()
            });
            return Err(refuse_at("there is only one variant", &["variant"], hint));
        }
        let by_rates = variants.len() == 2 && measured.is_none() && self.comparison.floor.is_none();
        let default = if by_rates {
            CompareGoal::Different
        } else {
            CompareGoal::Failing
        };
        let find = self.comparison.find.unwrap_or(default);
        let floor = self.floor_millionths(find)?;
        if find == CompareGoal::Different && measured.is_some() {
            return Err(refuse_at(
                "`find = \"different\"` does not use a baseline",
                &["baseline"],
                "leave it out, or use `find = \"failing\"`",
            ));
        }
        let fixed = self.bisect.fixed.unwrap_or(false);
        if fixed && (variants.len() != 2 || find != CompareGoal::Different) {
            return Err(refuse_at(
                "`fixed` needs exactly two variants and `find = \"different\"`",
                &["fixed"],
                "define the old variant first, then the fixed variant",
            ));
        }
        Ok(CompareQuestion {
            find,
            fixed,
            reference: self.reference_among(variants)?,
            baseline: measured
                .map(|measured| self.check_baseline(measured))
                .transpose()?
                .map(Box::new),
            accept_conditions: self.baseline.accept_different_conditions.unwrap_or(false),
            floor,
        })
    }

    /// Suggests variants if the command is a list of programs: `./a ./b`.
    fn compared_programs(&self) -> Option<String> {
        let words = self.program.command.as_ref()?.iter();
        let words: Vec<String> = words.filter(|word| *word != "--").cloned().collect();
        let program_words = words.iter().take_while(|word| word.contains('/'));
        let (programs, arguments) = words.split_at(program_words.count());
        if programs.len() < 2 {
            return None;
        }
        let quoted = |words: &[String]| {
            let words = words
                .iter()
                .map(|word| shell_word(word.as_ref()).to_string());
            words.collect::<Vec<_>>()
        };
        let command = [&["{bin}".to_owned()], quoted(arguments).as_slice()].concat();
        Some(format!(
            "to compare programs: provoke compare -L bin={} -- {}",
            quoted(programs).join(","),
            command.join(" ")
        ))
    }

    /// Returns the floor in millionths.
    fn floor_millionths(&self, find: CompareGoal) -> Result<Option<u32>, PlanError> {
        let Some(RateValue(floor)) = self.comparison.floor else {
            return Ok(None);
        };
        if find == CompareGoal::Different {
            return Err(refuse_at(
                "`floor` does not apply to `find = \"different\"`",
                &["floor"],
                "leave it out, or use `find = \"failing\"`",
            ));
        }
        if self.baseline.baseline.is_some() {
            return Err(refuse_at(
                "`floor` and `baseline` are both given, and only one of them can be used",
                &["floor"],
                "leave one of them out",
            ));
        }
        Ok(Some(floor))
    }

    fn reference_among(&self, variants: &[VariantPlan]) -> Result<VariantId, PlanError> {
        let Some(name) = &self.comparison.reference else {
            return Ok(VariantId(0));
        };
        let position = variants
            .iter()
            .position(|variant| variant.name == *name)
            .and_then(|index| u32::try_from(index).ok());
        position.map(VariantId).ok_or_else(|| {
            let names: Vec<String> = variants
                .iter()
                .map(|variant| format!("`{}`", variant.name))
                .collect();
            refuse_at(
                format!("there is no variant `{name}`"),
                &["reference"],
                format!("there are {}", names.join(", ")),
            )
        })
    }

    /// Returns the question; several load levels imply it.
    pub(super) fn asked_question(&self) -> QuestionSettings {
        let fallback = if self.has_load_levels() {
            QuestionSettings::Ramp
        } else {
            QuestionSettings::Rate
        };
        self.outline.ask.unwrap_or(fallback)
    }

    /// Returns whether every failure is the bug.
    pub fn takes_any_failure(&self) -> bool {
        self.count.any_failure.unwrap_or(false)
    }

    /// Returns the failures that are the bug: the given ones, or the failures of the baseline.
    pub(super) fn bug_rules(&self, question: &Question) -> Vec<BugFilter> {
        let filters: Vec<BugFilter> = self
            .judge
            .only
            .0
            .iter()
            .map(|rule| match &rule.0 {
                // The search is for what lets the test pass.
                BugFilter::Test(pattern) if self.items.needs.is_some() => {
                    BugFilter::Passes(pattern.clone())
                }
                filter => filter.clone(),
            })
            .collect();
        match question {
            Question::Confirm(ConfirmQuestion {
                baseline: Baseline::Measured(base),
                ..
            }) if filters.is_empty() && !self.takes_any_failure() => {
                let names = base.bugs.iter().flat_map(|bug| &bug.names);
                names.copied().map(BugFilter::Signature).collect()
            }
            _ => filters,
        }
    }
}

/// Returns the name of the first setting of a group that was given.
fn first_given(group: &impl Serialize) -> Option<String> {
    let fields = serde_json::to_value(group).expect("settings have names");
    let is_given = |value: &Value| match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        _ => true,
    };
    let mut fields = fields.as_object()?.iter();
    let given_field = fields.find(|(_, value)| is_given(value));
    given_field.map(|(name, _)| name.clone())
}

fn first_true(fields: &[(&str, bool)]) -> Option<String> {
    let given_field = fields.iter().find(|(_, is_given)| *is_given);
    given_field.map(|(name, _)| (*name).to_owned())
}

impl QuestionSettings {
    fn name(self) -> &'static str {
        match self {
            Self::Rate => "run",
            Self::Confirm => "confirm",
            Self::Compare => "compare",
            Self::Bisect => "bisect",
            Self::Reduce => "reduce",
            Self::Ramp => "ramp",
            Self::Hunt => "hunt",
        }
    }
}
