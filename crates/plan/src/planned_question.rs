//! Lets each question take part in its plan, and refuses settings that it does not read.

use super::{BisectSettings, Scenario};
use provoke_model::{BugFilter, CaptureMode, MeasuredBaseline, Question, VariantPlan};
use provoke_words::diagnostic::Diagnostic;
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// How a question takes part in the plan of its trials.
pub trait PlannedQuestion: Sync {
    /// Returns the subcommand that asks it.
    fn command(&self) -> &'static str;

    /// Returns the groups of settings that it reads, besides the ones of all questions.
    fn settings(&self) -> &'static [SettingsGroup];

    /// Plans the question.
    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic>;

    /// Returns the variants of its trials, made from the ones that the scenario defines.
    fn plan_variants(
        &self,
        _: &Scenario,
        variants: Vec<VariantPlan>,
    ) -> Result<Vec<VariantPlan>, Diagnostic> {
        Ok(variants)
    }

    /// Returns whether the newest run with failures is the baseline if none is given.
    fn finds_baseline(&self, _: &Scenario) -> bool {
        false
    }

    /// Returns why counts such as `3/30` are no baseline of this question.
    fn refuse_counts(&self) -> Option<&'static str> {
        None
    }

    /// Sets its own settings as an earlier run had them, if that run asked the same question.
    fn restore_settings(&self, _: &Question, _: &mut Scenario) {}
}

/// What is known when a question is planned.
pub struct QuestionDraft<'a> {
    /// The settings.
    pub scenario: &'a Scenario,
    /// The variants of the trials.
    pub variants: &'a [VariantPlan],
    /// The counts of the baseline, if there is one.
    pub baseline: Option<MeasuredBaseline>,
}

impl QuestionDraft<'_> {
    /// Refuses several variants in a question that examines only one.
    pub fn require_one_variant(&self, command: &str) -> Result<(), Diagnostic> {
        let [_, second, ..] = self.variants else {
            return Ok(());
        };
        let message = format!(
            "`{command}` examines one variant, and there are {}",
            self.variants.len()
        );
        let hint = format!("leave the variants out (`{}`, ...)", second.name);
        Err(Diagnostic::of_field("variant", message, hint))
    }
}

/// A question, and what it changes in the plan of its trials.
pub struct QuestionPlan {
    /// The question.
    pub question: Question,
    /// Default number of trials; `None` if the question ends by itself.
    pub trials: Option<u64>,
    /// Default time; `None` if the question ends by itself.
    pub time: Option<Duration>,
    /// The failures that are the bug, if the user names none.
    pub bugs: Vec<BugFilter>,
    /// When trials dump cores, if the user does not say so.
    pub capture: CaptureMode,
    /// Whether a run of one variant may end because its first trials all failed in the same way.
    pub stops_if_alike: bool,
}

impl QuestionPlan {
    /// Returns a question that ends by itself and changes nothing.
    pub fn new(question: Question) -> Self {
        Self {
            question,
            trials: None,
            time: None,
            bugs: Vec::new(),
            capture: CaptureMode::default(),
            stops_if_alike: true,
        }
    }
}

/// A group of settings that only some questions read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsGroup {
    /// How `confirm` treats its baseline.
    Confirm,
    /// Whether other conditions than those of the baseline are accepted.
    DifferentConditions,
    /// What a comparison finds out.
    Compare,
    /// Whether the first end of a list, or the first variant, is the failing one.
    Fixed,
    /// The candidates of a list.
    Candidates,
    /// The items of a set.
    Items,
    /// Where threads are held.
    Hunt,
    /// Which code is observed.
    Differ,
    /// Which conditions are tried.
    Why,
    /// What all searches have.
    Search,
    /// Whether every failure is the bug.
    AnyFailure,
    /// Whether earlier runs count.
    EarlierRuns,
    /// The baseline.
    Baseline,
    /// The rules that stop a measurement.
    StopRules,
    /// Tests that run again alone.
    Reruns,
}

/// A group of settings, and the error if a question does not read it.
struct GroupRule {
    group: SettingsGroup,
    /// Returns the name of the first setting of the group that a scenario has.
    given: fn(&Scenario) -> Option<String>,
    /// The error and the hint. `{setting}` and `{command}` are replaced.
    message: &'static str,
    hint: &'static str,
}

/// All groups, in the order in which they are checked.
const RULES: [GroupRule; 15] = [
    GroupRule {
        group: SettingsGroup::Confirm,
        given: |scenario| first_given(&scenario.confirm),
        message: "`{setting}` is for `provoke confirm`",
        hint: "use `provoke confirm`, or `ask = \"confirm\"`",
    },
    GroupRule {
        group: SettingsGroup::DifferentConditions,
        given: |scenario| {
            let accepted = scenario.baseline.accept_different_conditions;
            accepted.map(|_| "accept-different-conditions".to_owned())
        },
        message: "`{setting}` needs a baseline",
        hint: "use `provoke confirm`, or `provoke compare --baseline`",
    },
    GroupRule {
        group: SettingsGroup::Compare,
        given: |scenario| first_given(&scenario.comparison),
        message: "`{setting}` is for `provoke compare`",
        hint: "use `provoke compare`, or `ask = \"compare\"`",
    },
    GroupRule {
        group: SettingsGroup::Fixed,
        given: |scenario| scenario.bisect.fixed.map(|_| "fixed".to_owned()),
        message: "`{setting}` is for `provoke bisect` or a comparison of two variants",
        hint: "use `provoke bisect`, or `provoke compare`",
    },
    GroupRule {
        group: SettingsGroup::Candidates,
        given: |scenario| {
            let bisect = BisectSettings {
                fixed: None,
                ..scenario.bisect.clone()
            };
            first_given(&scenario.candidates).or_else(|| first_given(&bisect))
        },
        message: "`{setting}` is for `provoke bisect`",
        hint: "use `provoke bisect`, or `ask = \"bisect\"`",
    },
    GroupRule {
        group: SettingsGroup::Items,
        given: |scenario| {
            first_true(&scenario.set_fields()).or_else(|| first_given(&scenario.reduce))
        },
        message: "`{setting}` is for `provoke reduce`",
        hint: "use `provoke reduce`, or `ask = \"reduce\"`",
    },
    GroupRule {
        group: SettingsGroup::Hunt,
        given: |scenario| first_given(&scenario.hunt),
        message: "`{setting}` is for `provoke hunt`",
        hint: "use `provoke hunt`, or `ask = \"hunt\"`",
    },
    GroupRule {
        group: SettingsGroup::Differ,
        given: |scenario| first_given(&scenario.differ),
        message: "`{setting}` is for `provoke differ`",
        hint: "use `provoke differ`, or `ask = \"differ\"`",
    },
    GroupRule {
        group: SettingsGroup::Why,
        given: |scenario| first_given(&scenario.why),
        message: "`{setting}` is for `provoke why`",
        hint: "use `provoke why`, or `--under` to set a condition",
    },
    GroupRule {
        group: SettingsGroup::Search,
        given: |scenario| first_given(&scenario.search),
        message: "`{setting}` is for searches",
        hint: "use `provoke bisect` or `provoke reduce`",
    },
    GroupRule {
        group: SettingsGroup::AnyFailure,
        given: |scenario| scenario.count.any_failure.map(|_| "any-failure".to_owned()),
        message: "`{command}` counts every failure unless `only` is given",
        hint: "leave it out",
    },
    GroupRule {
        group: SettingsGroup::EarlierRuns,
        given: |scenario| {
            let ignored = scenario.count.ignore_earlier_runs;
            ignored.map(|_| "ignore-earlier-runs".to_owned())
        },
        message: "`{command}` never counts earlier runs",
        hint: "leave it out",
    },
    GroupRule {
        group: SettingsGroup::Baseline,
        given: |scenario| {
            let baseline = scenario.baseline.baseline.as_ref();
            baseline.map(|_| "baseline".to_owned())
        },
        message: "`{command}` does not use a baseline",
        hint: "use `provoke confirm` to check a fix, or `provoke compare`",
    },
    GroupRule {
        group: SettingsGroup::StopRules,
        given: |scenario| {
            first_true(&[
                ("max-fail", scenario.stop.max_fail.is_some()),
                ("fail-fast", scenario.stop.fail_fast.is_some()),
                ("width", scenario.stop.width.is_some()),
                ("expect", scenario.judge.expect.is_some()),
                ("max-rate", scenario.judge.max_rate.is_some()),
            ])
        },
        message: "`{command}` decides itself when to stop, so `{setting}` has no effect",
        hint: "leave `{setting}` out; limit the run with `runs` or `duration`",
    },
    GroupRule {
        group: SettingsGroup::Reruns,
        given: |scenario| {
            scenario
                .suite
                .rerun_failing
                .map(|_| "rerun-failing".to_owned())
        },
        message: "`{setting}` is for `provoke run`",
        hint: "measure the suite first: provoke run --cases --rerun-failing -- CMD",
    },
];

/// Refuses settings that a question does not read.
pub(super) fn check_settings(
    scenario: &Scenario,
    question: &dyn PlannedQuestion,
) -> Result<(), Diagnostic> {
    for rule in &RULES {
        if !question.settings().contains(&rule.group)
            && let Some(setting) = (rule.given)(scenario)
        {
            let fill = |text: &str| {
                let text = text.replace("{setting}", &setting);
                text.replace("{command}", question.command())
            };
            return Err(Diagnostic::of_field(
                &setting,
                fill(rule.message),
                fill(rule.hint),
            ));
        }
    }
    Ok(())
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
