//! Settings of the items that `reduce` can leave out.

use clap::Args;
use provoke_runners::titles_of;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The set of items: only one of these is given, or `from` and `to`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Items")]
pub struct ItemSettings {
    /// Reduce the import statements of these files
    ///
    /// Languages: Python, JavaScript, Rust, C, R; a build for all languages has C++, TypeScript and Julia, too
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub imports: Vec<PathBuf>,
    /// Reduce the statements of these files
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub statements: Vec<PathBuf>,
    /// Reduce the lines of these files, in any language
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub lines: Vec<PathBuf>,
    /// Reduce the files of this directory
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Reduce the arguments of the command
    #[arg(long = "args", visible_alias = "arguments")]
    pub arguments: Option<bool>,
    /// Reduce the environment variables
    #[arg(long)]
    pub variables: Option<bool>,
    /// Reduce this list; {set} stands for the items kept, {lines} for one per line
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub set: Vec<String>,
    /// Reduce the tests that ran before the test of --only in a failing trial of RUN
    #[arg(long, value_name = "RUN", long_help = describe_polluters())]
    #[cfg_attr(test, schemars(description = describe_polluters()))]
    pub polluters: Option<String>,
    /// Reduce the tests that ran before the test of --only in a trial of RUN in which it passed
    #[arg(long, value_name = "RUN", long_help = describe_needs())]
    #[cfg_attr(test, schemars(description = describe_needs()))]
    pub needs: Option<String>,
    /// Reduce the requests of the load with which the service died most often in RUN
    ///
    /// Leaves out kinds of requests, and files of their bodies. RUN is a run of `provoke load`. Every death of the service counts; --only
    /// makes one kind of failure the bug.
    #[arg(long, value_name = "RUN", conflicts_with = "file")]
    #[serde(skip)]
    pub requests: Option<String>,
    /// An environment that does not fail: requirements, `pip freeze`, `env -0`, or a run
    ///
    /// A requirements file, a file with the output of `pip freeze` or `env -0`, or a run, for its
    /// environment variables.
    #[arg(long, value_name = "FILE|RUN", requires = "to")]
    pub from: Option<PathBuf>,
    /// The environment that fails; reduce its differences from --from
    #[arg(long, value_name = "FILE|RUN", requires = "from")]
    pub to: Option<PathBuf>,
}

fn describe_polluters() -> String {
    describe_earlier_tests(
        "Reduce the tests that ran before the test of --only in a failing trial of RUN\n\nFinds the tests that a failure of `--only test:NAME` needs: the tests that leave a state behind.",
    )
}

fn describe_needs() -> String {
    describe_earlier_tests(
        "Reduce the tests that ran before the test of --only in a trial of RUN in which it passed\n\nFinds the tests that `--only test:NAME` needs to pass: the tests that prepare a state, if it fails alone.",
    )
}

fn describe_earlier_tests(text: &str) -> String {
    let runners = titles_of(|runner| runner.list_variable.is_some());
    format!("{text} The run must have counted its tests (--cases). For {runners}.")
}

impl ItemSettings {
    /// Returns the run whose trials are repeated with some of the items.
    pub fn repeated_run(&self) -> Option<&String> {
        self.run_of_tests().or(self.requests.as_ref())
    }

    /// Returns the run whose tests are the items.
    pub fn run_of_tests(&self) -> Option<&String> {
        self.polluters.as_ref().or(self.needs.as_ref())
    }
}

/// What `reduce` does with its result.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Items")]
pub struct ReduceSettings {
    /// Write the result into the files [default: write a patch to the run's directory]
    #[arg(long, hide_short_help = true)]
    pub apply: Option<bool>,
}
