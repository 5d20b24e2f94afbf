//! `compare`: finds out which variants fail, or whether their rates differ.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, without_flags_of_run};
use crate::experiment::{is_program, is_run};
use crate::suggest::{runs_as_programs, variants_as_program};
use clap::Args;
use provoke_plan::{
    BaselineSettings, ComparisonSettings, CountSettings, MatrixVariable, QuestionSettings, Scenario,
};
use provoke_words::diagnostic::Diagnostic;

/// Find out which variants fail, or whether their rates differ
///
/// Trials of all variants take turns. Two variants are compared by their failure rates. Three or more
/// variants run until each of them fails, or is known to fail less often than the variant that fails;
/// with --floor, until it is known to fail in fewer than that share of its trials. Make variants with
/// -L or in a scenario file.
#[derive(Args)]
#[command(
    override_usage = "provoke compare [OPTIONS] -L VAR=a,b [--] CMD...",
    after_help = COMPARE_EXAMPLES,
    mut_args(without_flags_of_run),
    mut_arg("runs", at_most_each),
    mut_arg("baseline", reference_rate),
    mut_arg("any_failure", |flag| flag.hide(true)),
)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    comparison: Given<ComparisonSettings>,
    #[command(flatten, next_help_heading = "Comparison")]
    baseline: Given<BaselineSettings>,
    #[command(flatten, next_help_heading = "Comparison")]
    count: Given<CountSettings>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  Compare two programs:
    provoke compare ./old ./new
  Compare them with an argument:
    provoke compare -L bin=./old,./new -- {bin} --arg
  Find the setting that fails, of four combinations:
    provoke compare -L CACHE=on,off -L WORKERS=1,4 -- ./program
  Try it:
    provoke compare -L P=0,20% -- provoke victim segv --rate {P}";

impl Execute for CompareArgs {
    fn execute_command(mut self) -> Result<Exit, Diagnostic> {
        let command = self.rest.command.clone();
        let programs = if self.rest.file.is_some() || self.rest.flags.has_matrix() {
            None
        } else {
            MatrixVariable::of_programs(&command, is_program)
        };
        if let Some(variable) = &programs {
            self.rest.command = vec![format!("{{{}}}", variable.name).into()];
        }
        let overlay = |scenario: &mut Scenario| {
            scenario.program.matrix.0.extend(programs.clone());
            scenario.outline.ask = Some(QuestionSettings::Compare);
            self.comparison.apply_to(&mut scenario.comparison);
            self.baseline.apply_to(&mut scenario.baseline);
            self.count.apply_to(&mut scenario.count);
        };
        let result = self.rest.ask_question(overlay);
        result.map_err(|error| {
            runs_as_programs(&command, is_run)
                .or_else(|| variants_as_program(&command, is_program))
                .map_or(error, Into::into)
        })
    }
}

/// Describes `-n` for a comparison.
fn at_most_each(flag: clap::Arg) -> clap::Arg {
    flag.help("Run at most this many trials of each variant")
        .long_help(
            "Run at most this many trials of each variant [default: until there is an answer, for at \
             most 10 minutes; 300 if rates are compared]",
        )
}

/// Describes the baseline of a comparison.
fn reference_rate(flag: clap::Arg) -> clap::Arg {
    const HELP: &str =
        "Compare variants without a failure with this rate: a run, or counts such as 3/30";
    flag.help(HELP)
        .long_help(format!(
            "{HELP}\n\n[default: the rate of the first variant that fails]"
        ))
        .hide_short_help(true)
}
