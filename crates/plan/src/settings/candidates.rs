//! Settings of the candidates that `bisect` searches.

use crate::IntegerRange;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The list of candidates: only one of these is given.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Candidates")]
pub struct CandidateSettings {
    /// Search this list, good end first; or a file with one candidate per line
    ///
    /// `{variant}` in the command stands for the candidate.
    #[arg(long, value_name = "A,B,C|@FILE", value_delimiter = ',')]
    pub over: Vec<String>,
    /// Search these numbers, good end first
    #[arg(long, value_name = "A..B")]
    pub range: Option<IntegerRange>,
    /// Search the commits of this repository, such as v1.2..main
    ///
    /// Each commit is checked out in its own directory; your checkout does not change.
    #[arg(long, value_name = "GOOD..BAD")]
    pub git: Option<String>,
    /// Search the versions of a Python package: torch, torch==1.0..1.4, torch==1.0,1.2
    ///
    /// Each version is installed in its own virtual environment.
    #[arg(long, value_name = "PACKAGE")]
    pub pip: Option<String>,
    /// Search the versions of a crate that this project depends on
    ///
    /// Each version is built in a copy of the project.
    #[arg(long, value_name = "CRATE")]
    pub cargo: Option<String>,
    /// Search the versions of a Debian package
    ///
    /// Each version is unpacked in its own directory.
    #[arg(long, value_name = "PACKAGE")]
    pub apt: Option<String>,
    /// Search the versions of a Node package
    ///
    /// Each version is installed in its own directory.
    #[arg(long, value_name = "PACKAGE")]
    pub npm: Option<String>,
}

/// How candidates are prepared, and what is known about them.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Candidates")]
pub struct BisectSettings {
    /// Stop at a merge commit
    ///
    /// By default, the commits that the merge brought are searched next, in another run.
    #[arg(long, hide_short_help = true)]
    pub first_parent: Option<bool>,
    /// Install these packages as well in every environment
    #[arg(long, value_name = "FILE", requires = "pip", hide_short_help = true)]
    pub requirements: Option<PathBuf>,
    /// Restrict the versions of other packages
    #[arg(long, value_name = "FILE", requires = "pip", hide_short_help = true)]
    pub constraints: Option<PathBuf>,
    /// Build each commit or crate with this shell command
    ///
    /// Runs in the directory of the commit or crate, before its first trial. If it fails, the candidate is
    /// left out.
    #[arg(long, value_name = "CMD")]
    pub build: Option<String>,
    /// A file that --build creates; commits with identical files are one candidate
    ///
    /// Commits are merged into one candidate only if nothing else in them can change how the command runs.
    /// May be repeated.
    #[arg(long, value_name = "FILE", requires = "build", hide_short_help = true)]
    pub artifact: Vec<PathBuf>,
    /// Search for the fix: the first candidate is bad, the last one is good
    ///
    /// Reports the last candidate that fails, before the fix. In a scenario that compares two variants:
    /// check whether the second is a fix of the first.
    #[arg(long)]
    pub fixed: Option<bool>,
    /// Prior weight of each candidate: a file with `NAME WEIGHT` per line
    ///
    /// For commits also `size` (larger commits are more likely), or a run that failed: commits that change a
    /// file in its stacks are more likely. [default: all alike]
    #[arg(long, value_name = "FILE|size|RUN", hide_short_help = true)]
    pub prior: Option<String>,
    /// Start from the log of an earlier search, edited or not
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub log: Option<PathBuf>,
    /// Search for more boundaries between good and bad candidates after the first
    #[arg(long, hide_short_help = true)]
    pub all: Option<bool>,
}
