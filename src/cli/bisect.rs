//! `bisect`: finds the first bad commit, version or value.

use super::execute::Execute;
use super::exit::Exit;
use super::given_flags::Given;
use super::question_flags::{ExperimentArgs, at_most, for_one_variant};
use crate::experiment::is_program;
use crate::suggest::candidates_as_program;
use clap::Args;
use provoke_plan::{
    BisectSettings, CandidateSettings, CountSettings, QuestionSettings, Scenario, SearchSettings,
};
use provoke_words::diagnostic::Diagnostic;

/// Find the first bad commit, version or value
///
/// Searches an ordered list of candidates, also if they fail only sometimes. The first candidate is good, the last one is bad. `{variant}` in the command, in environment
/// variables and in --setup stands for the candidate. A --setup with `{variant}` runs once for each
/// candidate, before its first trial; if it fails, the candidate is left out. The failure rate need not
/// be known. Without -n and -d, the search gives up after ten times the number of trials that it takes
/// on average at the failure rate of the bad end, but not before 1000 trials, and reports what it knows.
#[derive(Args)]
#[command(
    override_usage = "provoke bisect [OPTIONS] [--] CMD...",
    after_help = BISECT_EXAMPLES,
    mut_args(for_one_variant),
    mut_arg("runs", at_most),
)]
pub(super) struct BisectArgs {
    #[command(flatten)]
    candidates: Given<CandidateSettings>,
    #[command(flatten)]
    bisect: Given<BisectSettings>,
    #[command(flatten)]
    search: Given<SearchSettings>,
    #[command(flatten, next_help_heading = "Search")]
    count: Given<CountSettings>,
    #[command(flatten)]
    rest: ExperimentArgs,
}

const BISECT_EXAMPLES: &str = "\
Examples:
  Find the first bad commit:
    provoke bisect --git v1.2..main --build make -- ./program
  Find the first bad version of a Python package:
    provoke bisect --pip torch==2.0..2.4 -- python3 test.py
  Try it:
    provoke bisect --range 1..8 -- sh -c 'test {variant} -lt 6'";

impl Execute for BisectArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        let overlay = |scenario: &mut Scenario| {
            scenario.outline.ask = Some(QuestionSettings::Bisect);
            self.candidates.replace(&mut scenario.candidates);
            self.bisect.apply_to(&mut scenario.bisect);
            self.search.apply_to(&mut scenario.search);
            self.count.apply_to(&mut scenario.count);
        };
        let command = self.rest.command.clone();
        let has_candidates = self.candidates.alone() != CandidateSettings::default();
        let result = self.rest.ask_question(overlay);
        if has_candidates {
            return result;
        }
        result
            .map_err(|error| candidates_as_program(&command, is_program).map_or(error, Into::into))
    }
}
