//! Plans a comparison of variants.

use super::CompareKind;
use crate::baseline::check_baseline;
use provoke_model::{CompareGoal, CompareQuestion, Question, VariantId, VariantPlan};
use provoke_plan::{
    DEFAULT_DURATION, PlannedQuestion, QuestionDraft, QuestionPlan, RateValue, Scenario,
    SettingsGroup,
};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;

/// Default number of trials of each variant if rates are compared.
const DEFAULT_PAIRS: u64 = 300;

impl PlannedQuestion for CompareKind {
    fn command(&self) -> &'static str {
        "compare"
    }

    fn settings(&self) -> &'static [SettingsGroup] {
        &[
            SettingsGroup::Compare,
            SettingsGroup::Fixed,
            SettingsGroup::Baseline,
            SettingsGroup::DifferentConditions,
            SettingsGroup::EarlierRuns,
        ]
    }

    fn plan(&self, draft: QuestionDraft<'_>) -> Result<QuestionPlan, Diagnostic> {
        let QuestionDraft {
            scenario,
            variants,
            baseline: measured,
        } = draft;
        if variants.len() < 2 {
            let hint = compared_programs(scenario).unwrap_or_else(|| {
                "define two or more variants: -L VAR=a,b, or [[variant]] in a scenario file"
                    .to_owned()
            });
            return Err(Diagnostic::of_field(
                "variant",
                "there is only one variant",
                hint,
            ));
        }
        let by_rates =
            variants.len() == 2 && measured.is_none() && scenario.comparison.floor.is_none();
        let default = if by_rates {
            CompareGoal::Different
        } else {
            CompareGoal::Failing
        };
        let find = scenario.comparison.find.unwrap_or(default);
        let floor = floor_millionths(scenario, find)?;
        if find == CompareGoal::Different && measured.is_some() {
            return Err(Diagnostic::of_field(
                "baseline",
                "`find = \"different\"` does not use a baseline",
                "leave it out, or use `find = \"failing\"`",
            ));
        }
        let fixed = scenario.bisect.fixed.unwrap_or(false);
        if fixed && (variants.len() != 2 || find != CompareGoal::Different) {
            return Err(Diagnostic::of_field(
                "fixed",
                "`fixed` needs exactly two variants and `find = \"different\"`",
                "define the old variant first, then the fixed variant",
            ));
        }
        let question = CompareQuestion {
            find,
            fixed,
            reference: reference_among(scenario, variants)?,
            baseline: measured
                .map(|measured| check_baseline(scenario, measured))
                .transpose()?
                .map(Box::new),
            accept_conditions: scenario
                .baseline
                .accept_different_conditions
                .unwrap_or(false),
            floor,
            planned_trials: (find == CompareGoal::Different)
                .then(|| scenario.trials.runs.unwrap_or(DEFAULT_PAIRS)),
        };
        Ok(QuestionPlan {
            trials: question.planned_trials,
            time: Some(DEFAULT_DURATION),
            ..QuestionPlan::new(Question::Compare(question))
        })
    }
}

/// Suggests variants if the command is a list of programs: `./a ./b`.
fn compared_programs(scenario: &Scenario) -> Option<String> {
    let words = scenario.program.command.as_ref()?.iter();
    let words: Vec<String> = words.filter(|word| *word != "--").cloned().collect();
    let program_words = words.iter().take_while(|word| word.contains('/'));
    let (programs, arguments) = words.split_at(program_words.count());
    if programs.len() < 2 {
        return None;
    }
    let programs = programs
        .iter()
        .map(|word| shell_word(word.as_ref()).into_string());
    let command = format!("{{bin}} {}", words::shell_line(arguments));
    Some(format!(
        "to compare programs: provoke compare -L bin={} -- {}",
        programs.collect::<Vec<_>>().join(","),
        command.trim_end()
    ))
}

/// Returns the floor in millionths.
fn floor_millionths(scenario: &Scenario, find: CompareGoal) -> Result<Option<u32>, Diagnostic> {
    let Some(RateValue(floor)) = scenario.comparison.floor else {
        return Ok(None);
    };
    if find == CompareGoal::Different {
        return Err(Diagnostic::of_field(
            "floor",
            "`floor` does not apply to `find = \"different\"`",
            "leave it out, or use `find = \"failing\"`",
        ));
    }
    if scenario.baseline.baseline.is_some() {
        return Err(Diagnostic::of_field(
            "floor",
            "`floor` and `baseline` are both given, and only one of them can be used",
            "leave one of them out",
        ));
    }
    Ok(Some(floor))
}

fn reference_among(scenario: &Scenario, variants: &[VariantPlan]) -> Result<VariantId, Diagnostic> {
    let Some(name) = &scenario.comparison.reference else {
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
        Diagnostic::of_field(
            "reference",
            format!("there is no variant `{name}`"),
            format!("there are {}", names.join(", ")),
        )
    })
}
