//! A test runner: how it is recognized, prepared and read.

use super::command::{RunnerCommand, split_runner_words};
use super::setup::{CaseSetup, TrialPlace};
use super::trial_report::TrialReport;
use provoke_model::{ActorPlan, CaseName, CaseOrder, CasesPlan, TrialCases, VariantPlan};
use provoke_words::diagnostic::Diagnostic;

/// A program that runs the tests of a suite, or a format in which any program reports them.
pub struct Runner {
    /// Its name in the setting `cases`.
    pub name: &'static str,
    /// Its name in sentences.
    pub title: &'static str,
    /// The path of its reports, if the setting `cases` names it.
    pub argument: Option<RunnerArgument>,
    /// Returns the index of the last word of its name, if a command has its name at the first of these words.
    pub(crate) recognize: fn(&[String]) -> Option<usize>,
    /// Who decides in which order it runs its cases.
    pub order: OrderControl,
    /// The variable of a plan with the names of the only cases to run, one a line, in their order; `None` if the runner
    /// cannot run such a list.
    pub list_variable: Option<&'static str>,
    /// How it leaves out a list of cases.
    pub(crate) exclusion: Option<Exclusion>,
    /// A file that all trials share.
    pub(crate) shared_file: Option<SharedFile>,
    /// Whether its cases are read from the stdout of the trial.
    pub(crate) reads_stdout: bool,
    /// Adds the arguments and variables that are the same in all trials.
    pub(crate) adapt: fn(&mut RunnerCommand<'_>, &TrialPlace<'_>) -> Result<(), Diagnostic>,
    /// Adds what a slot prepares for each trial.
    pub(crate) set_up: fn(&CasesPlan, Option<&CaseOrder>, &mut VariantPlan, &mut CaseSetup),
    /// Changes a command so that it runs one case alone.
    pub(crate) select: fn(&CaseName, &mut RunnerCommand<'_>) -> Result<(), Diagnostic>,
    /// Reads the cases of a trial.
    pub(crate) read: fn(&TrialReport<'_>) -> TrialCases,
    /// Describes a trial without cases.
    pub(crate) missing_report: Option<&'static str>,
}

/// An unknown runner, whose output is not read.
pub(crate) const RUNNER: Runner = Runner {
    name: "",
    title: "",
    argument: None,
    recognize: |_| None,
    order: OrderControl::Fixed("provoke cannot change the order of an unknown runner"),
    list_variable: None,
    exclusion: None,
    shared_file: None,
    reads_stdout: false,
    adapt: |_, _| Ok(()),
    set_up: |_, _, _, _| {},
    select: |_, command| {
        Err(Diagnostic::of_field(
            "cases",
            format!(
                "it is not known how {} can run one test alone",
                command.title
            ),
            "name the arguments that select one test: --case-args '--only {case}'; `{suite}` is the group of the test",
        ))
    },
    read: |_| TrialCases::default(),
    missing_report: None,
};

impl<'a> RunnerCommand<'a> {
    /// Finds the name of a runner in the command of an actor.
    pub(super) fn new(runner: &Runner, actor: &'a mut ActorPlan) -> Self {
        let words = split_runner_words(&actor.command).words;
        let name_end =
            (0..words.len()).find_map(|first| Some(first + (runner.recognize)(&words[first..])?));
        Self {
            title: runner.title,
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
