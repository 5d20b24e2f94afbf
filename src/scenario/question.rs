//! Makes the question of a plan from a scenario.

use super::plan::{PlanError, refuse_at};
use super::{QuestionSettings, RateValue, Scenario};
use crate::model::{
    Baseline, BugFilter, CompareGoal, CompareQuestion, ConfirmQuestion, MeasuredBaseline, Question,
    RampQuestion, SearchQuestion, VariantId, VariantPlan,
};
use crate::untrusted::shell_word;

/// Default number of trials of the bad end without a failure after which a search is given up.
const REPRODUCE: u64 = 200;

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
            clean: self.clean.unwrap_or(false),
            any_failure: self.takes_any_failure(),
            fixed: self.fixed.unwrap_or(false),
            reproduce: self.reproduce_limit.unwrap_or(REPRODUCE),
            all: self.all.unwrap_or(false),
            inside: None,
            raise_rate: self.raise_rate.unwrap_or(false),
            ignore_earlier: self.ignore_earlier_runs.unwrap_or(false),
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
            QuestionSettings::Bisect => Ok(Question::Bisect(search())),
            QuestionSettings::Reduce => Ok(Question::Reduce(search())),
            QuestionSettings::Ramp => Ok(Question::Ramp(RampQuestion {
                detect: self.detection_rate(),
                above: false,
            })),
        }
    }

    /// Refuses settings of other questions, and stop rules that conflict with that of the question.
    fn check_fields_of(&self, ask: QuestionSettings) -> Result<(), PlanError> {
        let name = ask.name();
        let confirm = [
            ("assume-rate", self.assume_rate.is_some()),
            ("exclude-half", self.exclude_half.is_some()),
            ("independent", self.independent.is_some()),
        ];
        let conditions = [(
            "accept-different-conditions",
            self.accept_different_conditions.is_some(),
        )];
        let compare = [
            ("find", self.find.is_some()),
            ("reference", self.reference.is_some()),
            ("floor", self.floor.is_some()),
        ];
        let bisect = [
            ("requirements", self.requirements.is_some()),
            ("constraints", self.constraints.is_some()),
            ("build", self.build.is_some()),
            ("artifact", !self.artifact.is_empty()),
            ("first-parent", self.first_parent.is_some()),
            ("prior", self.prior.is_some()),
            ("log", self.log.is_some()),
            ("all", self.all.is_some()),
        ];
        let reduce = [("apply", self.apply.is_some())];
        let fixed = [("fixed", self.fixed.is_some())];
        let (bisect, reduce) = (
            [&self.list_fields()[..], &bisect].concat(),
            [&self.set_fields()[..], &reduce].concat(),
        );
        let search = [
            ("python", self.python.is_some()),
            ("builds", self.builds.is_some()),
            ("build-limit", self.build_limit.is_some()),
            ("disk", self.disk.is_some()),
            ("clean", self.clean.is_some()),
            ("reproduce-limit", self.reproduce_limit.is_some()),
            ("raise-rate", self.raise_rate.is_some()),
        ];
        let known = [("any-failure", self.any_failure.is_some())];
        let earlier = [("ignore-earlier-runs", self.ignore_earlier_runs.is_some())];
        let stops = [
            ("max-fail", self.max_fail.is_some()),
            ("fail-fast", self.fail_fast.is_some()),
            ("width", self.width.is_some()),
            ("expect", self.expect.is_some()),
            ("max-rate", self.max_rate.is_some()),
        ];
        let said = |fields: &[(&'static str, bool)]| {
            fields.iter().find(|(_, said)| *said).map(|(name, _)| *name)
        };
        if ask != QuestionSettings::Confirm
            && let Some(field) = said(&confirm)
        {
            let what = format!("`{field}` is for `provoke confirm`");
            return Err(refuse_at(
                what,
                &[field],
                "use `provoke confirm`, or `ask = \"confirm\"`",
            ));
        }
        if !matches!(ask, QuestionSettings::Confirm | QuestionSettings::Compare)
            && let Some(field) = said(&conditions)
        {
            let what = format!("`{field}` needs a baseline");
            let hint = "use `provoke confirm`, or `provoke compare --baseline`";
            return Err(refuse_at(what, &[field], hint));
        }
        if matches!(ask, QuestionSettings::Rate | QuestionSettings::Compare)
            && let Some(field) = said(&known)
        {
            let what = format!("`{name}` counts every failure unless `only` is given");
            let hint = "leave it out";
            return Err(refuse_at(what, &[field], hint));
        }
        if ask != QuestionSettings::Compare
            && let Some(field) = said(&compare)
        {
            let what = format!("`{field}` is for `provoke compare`");
            return Err(refuse_at(
                what,
                &[field],
                "use `provoke compare`, or `ask = \"compare\"`",
            ));
        }
        if !matches!(ask, QuestionSettings::Bisect | QuestionSettings::Compare)
            && let Some(field) = said(&fixed)
        {
            let what = format!("`{field}` is for `provoke bisect` or a comparison of two variants");
            let hint = "use `provoke bisect`, or `provoke compare`";
            return Err(refuse_at(what, &[field], hint));
        }
        if ask != QuestionSettings::Bisect
            && let Some(field) = said(&bisect)
        {
            let what = format!("`{field}` is for `provoke bisect`");
            let hint = "use `provoke bisect`, or `ask = \"bisect\"`";
            return Err(refuse_at(what, &[field], hint));
        }
        if ask != QuestionSettings::Reduce
            && let Some(field) = said(&reduce)
        {
            let what = format!("`{field}` is for `provoke reduce`");
            let hint = "use `provoke reduce`, or `ask = \"reduce\"`";
            return Err(refuse_at(what, &[field], hint));
        }
        if !matches!(ask, QuestionSettings::Bisect | QuestionSettings::Reduce)
            && let Some(field) = said(&search)
        {
            let what = format!("`{field}` is for searches");
            let hint = "use `provoke bisect` or `provoke reduce`";
            return Err(refuse_at(what, &[field], hint));
        }
        if matches!(ask, QuestionSettings::Rate | QuestionSettings::Ramp)
            && let Some(field) = said(&earlier)
        {
            let what = format!("`{name}` never counts earlier runs");
            return Err(refuse_at(what, &[field], "leave it out"));
        }
        if matches!(
            ask,
            QuestionSettings::Rate
                | QuestionSettings::Bisect
                | QuestionSettings::Reduce
                | QuestionSettings::Ramp
        ) && self.baseline.is_some()
        {
            let hint = "use `provoke confirm` to check a fix, or `provoke compare`";
            let what = format!("`{name}` does not use a baseline");
            return Err(refuse_at(what, &["baseline"], hint));
        }
        if ask != QuestionSettings::Rate
            && let Some(field) = said(&stops)
        {
            let what = format!("`{name}` decides itself when to stop, so `{field}` has no effect");
            let hint = format!("leave `{field}` out; limit the run with `runs` or `duration`");
            return Err(refuse_at(what, &[field], hint));
        }
        Ok(())
    }

    fn plan_confirm(
        &self,
        variants: &[VariantPlan],
        measured: Option<MeasuredBaseline>,
    ) -> Result<ConfirmQuestion, PlanError> {
        if let [_, second, ..] = variants {
            let what = format!(
                "`confirm` checks one variant, and there are {}",
                variants.len()
            );
            let hint = format!(
                "leave the variants out (`{}`, ...), or use `provoke compare`",
                second.name
            );
            return Err(refuse_at(what, &["variant"], hint));
        }
        if self.takes_any_failure() && !self.only.is_empty() {
            return Err(refuse_at(
                "`only` and `any-failure` contradict each other",
                &["any-failure"],
                "give one of the two",
            ));
        }
        let baseline = match (measured, self.assume_rate) {
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
            Baseline::Measured(base) if self.only.is_empty() && !self.takes_any_failure() => {
                base.bugs.iter().map(|bug| bug.widest).collect()
            }
            _ => Vec::new(),
        };
        Ok(ConfirmQuestion {
            baseline,
            doubts,
            exclude_half: self.exclude_half,
            independent: self.independent.unwrap_or(false),
            accept_conditions: self.accept_different_conditions.unwrap_or(false),
            earlier_attempts: 0,
        })
    }

    /// Refuses a baseline without failures.
    fn check_baseline(&self, measured: MeasuredBaseline) -> Result<MeasuredBaseline, PlanError> {
        let confirms = self.ask == Some(QuestionSettings::Confirm);
        if confirms && measured.one_life && !self.independent.unwrap_or(false) {
            let what = format!(
                "the {} trials of the baseline shared the processes that `setup` started, so they may count as a single trial",
                measured.trials
            );
            let hint = "measure it again with `prepare` instead of `setup`, so that each trial starts its own processes; if trials cannot influence each other through them, add --independent";
            return Err(refuse_at(what, &["baseline"], hint));
        }
        if measured.failures > 0 {
            return Ok(measured);
        }
        let that_way = if self.only.is_empty() {
            ""
        } else {
            " in the given way"
        };
        let what = match measured.trials {
            0 => "all trials of the baseline were inconclusive".to_owned(),
            trials => format!("none of the {trials} trials of the baseline failed{that_way}"),
        };
        let hint = "reproduce the failure first: provoke run --max-fail 3 -- CMD; or assume a rate: --assume-rate 1%";
        Err(refuse_at(what, &["baseline"], hint))
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
        let by_rates = variants.len() == 2 && measured.is_none() && self.floor.is_none();
        let default = if by_rates {
            CompareGoal::Different
        } else {
            CompareGoal::Failing
        };
        let find = self.find.unwrap_or(default);
        let floor = self.floor_millionths(find)?;
        if find == CompareGoal::Different && measured.is_some() {
            return Err(refuse_at(
                "`find = \"different\"` does not use a baseline",
                &["baseline"],
                "leave it out, or use `find = \"failing\"`",
            ));
        }
        let fixed = self.fixed.unwrap_or(false);
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
            accept_conditions: self.accept_different_conditions.unwrap_or(false),
            floor,
        })
    }

    /// Suggests variants if the command is a list of programs: `./a ./b`.
    fn compared_programs(&self) -> Option<String> {
        let words = self.command.as_ref()?;
        let programs = words.iter().take_while(|word| word.contains('/'));
        let (programs, arguments) = words.split_at(programs.count());
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
        let Some(RateValue(floor)) = self.floor else {
            return Ok(None);
        };
        if find == CompareGoal::Different {
            return Err(refuse_at(
                "`floor` does not apply to `find = \"different\"`",
                &["floor"],
                "leave it out, or use `find = \"failing\"`",
            ));
        }
        if self.baseline.is_some() {
            return Err(refuse_at(
                "`floor` and `baseline` are both given, and only one of them can be used",
                &["floor"],
                "leave one of them out",
            ));
        }
        Ok(Some(floor))
    }

    fn reference_among(&self, variants: &[VariantPlan]) -> Result<VariantId, PlanError> {
        let Some(wanted) = &self.reference else {
            return Ok(VariantId(0));
        };
        let found = variants.iter().position(|one| one.name == *wanted);
        let found = found.and_then(|index| u32::try_from(index).ok());
        found.map(VariantId).ok_or_else(|| {
            let names: Vec<String> = variants
                .iter()
                .map(|one| format!("`{}`", one.name))
                .collect();
            refuse_at(
                format!("there is no variant `{wanted}`"),
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
        self.ask.unwrap_or(fallback)
    }

    /// Returns whether every failure is the bug.
    pub fn takes_any_failure(&self) -> bool {
        self.any_failure.unwrap_or(false)
    }

    /// Returns the failures that are the bug: the given ones, or the failures of the baseline.
    pub(super) fn bug_rules(&self, question: &Question) -> Vec<BugFilter> {
        let said: Vec<BugFilter> = self.only.iter().map(|only| only.0).collect();
        match question {
            Question::Confirm(ConfirmQuestion {
                baseline: Baseline::Measured(base),
                ..
            }) if said.is_empty() && !self.takes_any_failure() => {
                let names = base.bugs.iter().flat_map(|bug| &bug.names);
                names.copied().map(BugFilter::Signature).collect()
            }
            _ => said,
        }
    }
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
        }
    }
}
