//! Settings of the program: its command, its environment, and the commands around its trials.

use super::{Facts, Variables, absolute_path};
use crate::Matrix;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser as _};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What runs in a trial, and in which environment.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", default)]
#[command(next_help_heading = "Command and environment")]
pub struct ProgramSettings {
    /// The program and its arguments
    ///
    /// It runs without a shell. `{trial}`, `{slot}`, `{seed}`, `{dir}` and `{variant}` are filled in.
    #[arg(skip)]
    pub command: Option<Vec<String>>,
    /// Run a shell line instead of a command: './a | ./b'
    #[arg(long, value_name = "LINE")]
    pub shell: Option<String>,
    #[command(flatten)]
    #[cfg_attr(test, schemars(description = Variables::HELP))]
    pub env: Variables,
    #[command(flatten)]
    #[cfg_attr(test, schemars(description = Matrix::HELP))]
    pub matrix: Matrix,
    /// Start from an empty environment
    #[arg(long, hide_short_help = true)]
    pub env_clear: Option<bool>,
    /// Run the command in this working directory
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().map(absolute_path), hide_short_help = true)]
    pub cwd: Option<PathBuf>,
    /// Read stdin from FILE [default: /dev/null]
    #[arg(
        long, value_name = "FILE", value_parser = PathBufValueParser::new().map(absolute_path),
        hide_short_help = true,
    )]
    pub stdin: Option<PathBuf>,
    /// Give each trial a temporary directory: {dir}, PROVOKE_DIR, TMPDIR
    #[arg(long, hide_short_help = true)]
    pub tmp_per_run: Option<bool>,
    /// Run each trial in a container of this image
    ///
    /// The image must be on this machine. `provoke bisect` takes its tags in order: app:1.0,1.1,1.2
    #[arg(long, value_name = "IMAGE", hide_short_help = true)]
    pub image: Option<String>,
    /// Run containers with this engine [default: the first that responds]
    #[arg(long, value_name = "docker|podman", hide_short_help = true)]
    pub engine: Option<String>,
    /// Mount PATH, PATH:INSIDE or PATH:INSIDE:ro in the container [default: the working directory]
    ///
    /// `none` mounts nothing.
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub mount: Vec<String>,
    /// Connect the container to this network [default: none; host for a service under load]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub network: Option<String>,
    /// Pass an option to the container engine: memory=1g, cpus=2, user=1000, runtime=runsc, gpus=all
    #[arg(long, value_name = "NAME=VALUE", hide_short_help = true)]
    pub container: Vec<String>,
    /// Put this in front of the command, such as 'rr record -o {dir}/trace'
    #[arg(long, value_name = "PREFIX", hide_short_help = true)]
    pub wrap: Option<String>,
    #[command(flatten)]
    #[cfg_attr(test, schemars(description = Facts::HELP))]
    pub fact: Facts,
    /// Run this shell command once before all trials
    ///
    /// Processes that it leaves running are stopped at the end of the run.
    #[arg(short, long, value_name = "CMD", hide_short_help = true)]
    pub setup: Option<String>,
    /// Run this shell command before each trial; if it fails, the trial is inconclusive
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub prepare: Option<String>,
    /// Run this shell command after each trial
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub conclude: Option<String>,
    /// Run this shell command once after all trials
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    pub cleanup: Option<String>,
}
