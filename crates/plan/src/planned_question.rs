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

impl SettingsGroup {
    /// All groups, in the order in which they are checked.
    const ALL: [Self; 13] = [
        Self::Confirm,
        Self::DifferentConditions,
        Self::Compare,
        Self::Fixed,
        Self::Candidates,
        Self::Items,
        Self::Hunt,
        Self::Search,
        Self::AnyFailure,
        Self::EarlierRuns,
        Self::Baseline,
        Self::StopRules,
        Self::Reruns,
    ];

    /// Returns the name of the first setting of the group that a scenario has.
    fn given_setting(self, scenario: &Scenario) -> Option<String> {
        let given = |name: &str, is_given: bool| is_given.then(|| name.to_owned());
        match self {
            Self::Confirm => first_given(&scenario.confirm),
            Self::DifferentConditions => given(
                "accept-different-conditions",
                scenario.baseline.accept_different_conditions.is_some(),
            ),
            Self::Compare => first_given(&scenario.comparison),
            Self::Fixed => given("fixed", scenario.bisect.fixed.is_some()),
            Self::Candidates => {
                let bisect = BisectSettings {
                    fixed: None,
                    ..scenario.bisect.clone()
                };
                first_given(&scenario.candidates).or_else(|| first_given(&bisect))
            }
            Self::Items => {
                first_true(&scenario.set_fields()).or_else(|| first_given(&scenario.reduce))
            }
            Self::Hunt => first_given(&scenario.hunt),
            Self::Search => first_given(&scenario.search),
            Self::AnyFailure => given("any-failure", scenario.count.any_failure.is_some()),
            Self::EarlierRuns => given(
                "ignore-earlier-runs",
                scenario.count.ignore_earlier_runs.is_some(),
            ),
            Self::Baseline => given("baseline", scenario.baseline.baseline.is_some()),
            Self::StopRules => first_true(&[
                ("max-fail", scenario.stop.max_fail.is_some()),
                ("fail-fast", scenario.stop.fail_fast.is_some()),
                ("width", scenario.stop.width.is_some()),
                ("expect", scenario.judge.expect.is_some()),
                ("max-rate", scenario.judge.max_rate.is_some()),
            ]),
            Self::Reruns => given("rerun-failing", scenario.suite.rerun_failing.is_some()),
        }
    }

    /// Refuses a setting of the group for the question of a command.
    fn refuse(self, setting: &str, command: &str) -> Diagnostic {
        let (message, hint) = match self {
            Self::Confirm => (
                format!("`{setting}` is for `provoke confirm`"),
                "use `provoke confirm`, or `ask = \"confirm\"`",
            ),
            Self::DifferentConditions => (
                format!("`{setting}` needs a baseline"),
                "use `provoke confirm`, or `provoke compare --baseline`",
            ),
            Self::Compare => (
                format!("`{setting}` is for `provoke compare`"),
                "use `provoke compare`, or `ask = \"compare\"`",
            ),
            Self::Fixed => (
                format!("`{setting}` is for `provoke bisect` or a comparison of two variants"),
                "use `provoke bisect`, or `provoke compare`",
            ),
            Self::Candidates => (
                format!("`{setting}` is for `provoke bisect`"),
                "use `provoke bisect`, or `ask = \"bisect\"`",
            ),
            Self::Items => (
                format!("`{setting}` is for `provoke reduce`"),
                "use `provoke reduce`, or `ask = \"reduce\"`",
            ),
            Self::Hunt => (
                format!("`{setting}` is for `provoke hunt`"),
                "use `provoke hunt`, or `ask = \"hunt\"`",
            ),
            Self::Search => (
                format!("`{setting}` is for searches"),
                "use `provoke bisect` or `provoke reduce`",
            ),
            Self::AnyFailure => (
                format!("`{command}` counts every failure unless `only` is given"),
                "leave it out",
            ),
            Self::EarlierRuns => (
                format!("`{command}` never counts earlier runs"),
                "leave it out",
            ),
            Self::Baseline => (
                format!("`{command}` does not use a baseline"),
                "use `provoke confirm` to check a fix, or `provoke compare`",
            ),
            Self::StopRules => {
                let message = format!(
                    "`{command}` decides itself when to stop, so `{setting}` has no effect"
                );
                let hint =
                    format!("leave `{setting}` out; limit the run with `runs` or `duration`");
                return Diagnostic::of_field(setting, message, hint);
            }
            Self::Reruns => (
                format!("`{setting}` is for `provoke run`"),
                "measure the suite first: provoke run --cases --rerun-failing -- CMD",
            ),
        };
        Diagnostic::of_field(setting, message, hint)
    }
}

/// Refuses settings that a question does not read.
pub(super) fn check_settings(
    scenario: &Scenario,
    question: &dyn PlannedQuestion,
) -> Result<(), Diagnostic> {
    for group in SettingsGroup::ALL {
        if !question.settings().contains(&group)
            && let Some(setting) = group.given_setting(scenario)
        {
            return Err(group.refuse(&setting, question.command()));
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
