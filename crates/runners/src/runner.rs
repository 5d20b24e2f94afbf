//! Trait of a test runner: how it is recognized, prepared and read.

use super::command::{RunnerCommand, split_runner_words};
use super::setup::{CaseSetup, TrialPlace};
use super::trial_report::TrialReport;
use provoke_model::{ActorPlan, CaseName, CaseOrder, CasesPlan, TrialCases, VariantPlan};
use provoke_words::diagnostic::Diagnostic;

/// A program that runs the tests of a suite, or a format in which any program reports them.
pub trait Runner: Sync {
    /// Its name in the setting `cases`.
    fn name(&self) -> &'static str;

    /// Its name in sentences.
    fn title(&self) -> &'static str {
        self.name()
    }

    /// The path of its reports, if the setting `cases` names it.
    fn argument(&self) -> Option<RunnerArgument> {
        None
    }

    /// Returns the index of the last word of its name, if a command has its name at the first of these words.
    fn recognize(&self, _words: &[String]) -> Option<usize> {
        None
    }

    /// Who decides in which order it runs its cases.
    fn order(&self) -> OrderControl {
        OrderControl::Fixed("provoke cannot change the order of an unknown runner")
    }

    /// The variable of a plan with the names of the only cases to run, one a line, in their order; `None` if the runner
    /// cannot run such a list.
    fn list_variable(&self) -> Option<&'static str> {
        None
    }

    /// How it leaves out a list of cases.
    fn exclusion(&self) -> Option<Exclusion> {
        None
    }

    /// A file that all trials share.
    fn shared_file(&self) -> Option<SharedFile> {
        None
    }

    /// Whether its cases are read from the stdout of the trial.
    fn reads_stdout(&self) -> bool {
        false
    }

    /// Adds the arguments and variables that are the same in all trials.
    fn adapt(
        &self,
        _command: &mut RunnerCommand<'_>,
        _place: &TrialPlace<'_>,
    ) -> Result<(), Diagnostic> {
        Ok(())
    }

    /// Adds what a slot prepares for each trial.
    fn set_up(
        &self,
        _plan: &CasesPlan,
        _order: Option<&CaseOrder>,
        _variant: &mut VariantPlan,
        _setup: &mut CaseSetup,
    ) {
    }

    /// Changes a command so that it runs one case alone.
    fn select(&self, _case: &CaseName, _command: &mut RunnerCommand<'_>) -> Result<(), Diagnostic> {
        Err(Diagnostic::of_field(
            "cases",
            format!(
                "it is not known how {} can run one test alone",
                self.title()
            ),
            "name the arguments that select one test: --case-args '--only {case}'; `{suite}` is the group of the test",
        ))
    }

    /// Reads the cases of a trial.
    fn read(&self, report: &TrialReport<'_>) -> TrialCases;

    /// Describes a trial without cases.
    fn describe_missing_report(&self) -> String {
        format!("{} reported no tests", self.title())
    }
}

impl<'a> RunnerCommand<'a> {
    /// Finds the name of a runner in the command of an actor.
    pub(super) fn new(runner: &dyn Runner, actor: &'a mut ActorPlan) -> Self {
        let words = split_runner_words(&actor.command).words;
        let name_end =
            (0..words.len()).find_map(|first| Some(first + runner.recognize(&words[first..])?));
        Self {
            title: runner.title(),
            name_end,
            actor,
        }
    }
}

/// The argument of a runner, behind a colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerArgument {
    /// How help names it.
    pub mark: &'static str,
    /// What the help says about it.
    pub about: Option<&'static str>,
    /// A value, as it is written in a shell; `None` if it may be left out.
    pub required: Option<&'static str>,
    /// A path in the directory of a trial.
    pub in_trial: &'static str,
}

/// Who decides in which order a runner runs its cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderControl {
    /// The seed of a trial can, and provoke can reverse it.
    SeedOrReverse,
    /// The seed of a trial can.
    Seed,
    /// It does not matter: each case runs in a separate process.
    Isolated,
    /// provoke cannot change it, for this reason.
    Fixed(&'static str),
}

impl OrderControl {
    /// Returns whether the seed of a trial can decide the order.
    pub fn follows_seed(self) -> bool {
        matches!(self, Self::Seed | Self::SeedOrReverse)
    }
}

/// A form of a list of cases with which a runner leaves them out.
#[derive(Clone, Copy, Debug)]
pub struct Exclusion {
    /// Its name in the flag `--format`.
    pub name: &'static str,
    /// Writes the names of cases in this form.
    pub write: fn(&[&CaseName]) -> String,
}

/// A file that all trials share.
#[derive(Clone, Copy, Debug)]
pub struct SharedFile {
    /// Name of its folder, beside the folders of the trials.
    pub folder: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}
