//! Plans how the tests of a suite are found in its trials.

use super::Scenario;
use provoke_model::{BugFilter, CaseRunner, CasesPlan, VariantPlan};
use provoke_runners::{CaseSetup, describe_known_runners, find_runner, parse_runner, runner_named};
use provoke_words::diagnostic::{Diagnostic, refuse_at};
use std::num::NonZeroU32;
use std::str::FromStr;

/// `auto`, or the name of a test runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerValue(pub Option<CaseRunner>);

impl FromStr for RunnerValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self(None)),
            _ => parse_runner(text).map(|runner| Self(Some(runner))),
        }
    }
}

impl Scenario {
    /// Returns whether a trial is the run of a suite.
    pub(super) fn runs_suite(&self) -> bool {
        let mut only = self.judge.only.0.iter();
        let suite = &self.suite;
        suite.cases.is_some()
            || suite.shuffle.unwrap_or(false)
            || suite.rerun_failing.is_some()
            || only.any(|rule| matches!(rule.0, BugFilter::Test(_)))
    }

    /// Returns how the tests of the suite are found; `None` if a trial is not the run of a suite.
    pub(super) fn plan_cases(
        &self,
        variants: &[VariantPlan],
    ) -> Result<Option<Box<CasesPlan>>, Diagnostic> {
        if !self.runs_suite() {
            return Ok(None);
        }
        if self.is_loaded() {
            let message = "a service under load has no tests";
            return Err(refuse_at(
                message,
                &["cases"],
                "leave out `cases`, or `load`",
            ));
        }
        let given_runner = self.suite.cases.as_ref().and_then(|value| value.0.clone());
        let main = variants.iter().find_map(VariantPlan::main_actor);
        let recognized_runner = || find_runner(&main?.command);
        let Some(runner) = given_runner.or_else(recognized_runner) else {
            let command = main.map_or_else(String::new, |main| {
                let words = main.command.iter().map(ToString::to_string);
                words.collect::<Vec<_>>().join(" ")
            });
            return Err(refuse_at(
                format!("`{command}` does not contain a test runner that provoke knows"),
                &["cases"],
                describe_known_runners(),
            ));
        };
        self.check_report_paths(&runner)?;
        let plan = CasesPlan {
            runner,
            shuffle: self.suite.shuffle.unwrap_or(false),
            reruns: self.suite.rerun_failing.map_or(0, NonZeroU32::get),
            select: self.selection_words()?,
            strip: self
                .suite
                .case_strip
                .as_ref()
                .map(|pattern| pattern.0.clone()),
        };
        for variant in variants {
            CaseSetup::check_variant(&plan, variant)?;
        }
        Ok(Some(Box::new(plan)))
    }

    /// Returns the arguments that select one test.
    fn selection_words(&self) -> Result<Vec<String>, Diagnostic> {
        let Some(text) = &self.suite.case_args else {
            return Ok(Vec::new());
        };
        let words = shlex::split(text).unwrap_or_default();
        if words.iter().any(|word| word.contains("{case}")) {
            return Ok(words);
        }
        Err(refuse_at(
            format!("`{text}` are not arguments that select one test"),
            &["case-args"],
            "`{case}` stands for the name of the test: --case-args '--only {case}'",
        ))
    }

    /// Refuses one path for the reports of parallel trials.
    fn check_report_paths(&self, runner: &CaseRunner) -> Result<(), Diagnostic> {
        let Some(path) = runner.report_path() else {
            return Ok(());
        };
        let (jobs, ..) = self.plan_jobs()?;
        let marks = ["{dir}", "{trial}", "{slot}", "{seed}"];
        if jobs < 2 || marks.iter().any(|mark| path.contains(mark)) {
            return Ok(());
        }
        let argument = runner_named(&runner.name).and_then(|runner| runner.argument);
        let in_trial = argument.map_or("{dir}", |argument| argument.in_trial);
        Err(refuse_at(
            format!("parallel trials would all write their reports to `{path}`"),
            &["cases"],
            format!(
                "write each report to the directory of its trial, for example --cases='{}:{in_trial}', and pass {{dir}} to the command; or use -j 1",
                runner.name
            ),
        ))
    }
}
