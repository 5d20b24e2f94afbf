//! `reduce`: finds the items that a failure needs.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, at_most, for_one_variant};
use clap::Args;
use provoke_plan::{
    CountSettings, ItemSettings, QuestionSettings, ReduceSettings, Scenario, SearchSettings,
};
use provoke_words::diagnostic::Diagnostic;

/// Find the imports, lines, arguments, packages or requests that a failure needs
///
/// Finds the smallest set of items that still fails, also if it fails only sometimes. Items are left out, a few at a time, in copies of the working directory: your files do not change.
/// The result is checked: the remaining items fail as all of them did, and without any one of them
/// there is no failure.
#[derive(Args)]
#[command(
    override_usage = "provoke reduce [OPTIONS] [--] CMD...",
    after_help = REDUCE_EXAMPLES,
    mut_args(for_one_variant),
    mut_arg("runs", at_most),
)]
pub(super) struct ReduceArgs {
    #[command(flatten)]
    items: Given<ItemSettings>,
    #[command(flatten)]
    reduce: Given<ReduceSettings>,
    #[command(flatten)]
    search: Given<SearchSettings>,
    #[command(flatten, next_help_heading = "Search")]
    count: Given<CountSettings>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const REDUCE_EXAMPLES: &str = "\
Examples:
  Find the import that the failure needs:
    provoke reduce --imports job.py -- python3 job.py
  Find the arguments that the failure needs:
    provoke reduce --args -- ./program --fast --cache --workers 4
  Find the tests that a test fails after, in a run with --cases --shuffle:
    provoke reduce --polluters last --only test:tests/test_x.py::test_y
  Find the requests that crash a service, in a run of provoke load:
    provoke reduce --requests last";

impl Execute for ReduceArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Reduce);
            self.items.replace(&mut scenario.items);
            self.reduce.apply_to(&mut scenario.reduce);
            self.search.apply_to(&mut scenario.search);
            self.count.apply_to(&mut scenario.count);
            if scenario.items.requests.is_some() {
                // The same bug often kills a service in several ways.
                scenario.count.any_failure.get_or_insert(true);
            }
            if scenario.items.run_of_tests().is_some() {
                // Each trial runs the tests in the order of the trial of that run.
                scenario.suite.shuffle = None;
            }
        };
        self.rest.ask_question(overlay)
    }
}
