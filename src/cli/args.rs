//! Flags of `run`, and their effect on a [`Scenario`].

use super::ci_flags::CiFlags;
use super::error::CliError;
use super::export_flags::{ExportFlags, RESULT};
use super::given::Given;
use super::signals::signal_came;
use crate::scenario::{
    CaseSettings, EvidenceSettings, HostSettings, JudgeSettings, ProgramSettings, Scenario,
    StopSettings, TrialSettings,
};
use crate::suggest::refuse_misplaced_flags;
use crate::term::{ObserverSettings, ProgressDisplay, TerminalObserver};
use crate::untrusted::Untrusted as _;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Flags that describe the trials of an experiment.
///
/// `-h` shows the flags used daily, `--help` all of them.
#[derive(Args, Clone, Debug)]
pub(super) struct ExperimentFlags {
    #[command(flatten)]
    trials: Given<TrialSettings>,
    #[command(flatten)]
    suite: Given<CaseSettings>,
    #[command(flatten)]
    hosts: Given<HostSettings>,
    #[command(flatten)]
    stop: Given<StopSettings>,
    #[command(flatten)]
    judge: Given<JudgeSettings>,
    #[command(flatten)]
    program: Given<ProgramSettings>,
    #[command(flatten)]
    evidence: Given<EvidenceSettings>,
    /// Run the commands of a run that belongs to another user or was copied
    #[arg(long, help_heading = "Command and environment", hide_short_help = true)]
    trust: bool,

    #[expect(
        clippy::option_option,
        reason = "rejected with a hint: the flag means different things in other tools"
    )]
    #[arg(short = 'p', hide = true, num_args = 0..=1, value_name = "N")]
    p: Option<Option<String>>,
}

/// Flags for the output of a run.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct OutputFlags {
    /// Write this run to DIR [default: a new directory in provoke-out or PROVOKE_HOME]
    #[arg(short, long, value_name = "DIR", help_heading = RESULT, hide_short_help = true)]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) talk: VerbosityFlags,
    #[command(flatten)]
    pub(super) exports: ExportFlags,
    #[command(flatten)]
    pub(super) ci: CiFlags,
}

/// Flags for the amount of output.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct VerbosityFlags {
    /// Print only the result
    #[arg(short, long, help_heading = RESULT)]
    pub(super) quiet: bool,
    /// Print every trial when it ends
    #[arg(short, long, conflicts_with = "quiet", help_heading = RESULT)]
    pub(super) verbose: bool,
    /// Show a live line, a tick or cross per trial, or plain lines
    #[arg(long, value_enum, default_value_t, help_heading = RESULT, hide_short_help = true)]
    pub(super) style: DisplayStyle,
    /// Show progress as a live line, as plain lines, or not at all
    #[arg(long, value_enum, default_value_t, help_heading = RESULT, hide_short_help = true)]
    pub(super) progress: ProgressKind,
}

/// Style of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DisplayStyle {
    /// Show a live line; failures scroll by above it
    #[default]
    Line,
    /// Show a tick or a cross for each trial, in order
    Ticks,
    /// Show lines that do not move
    Plain,
}

/// Kind of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressKind {
    /// Show a live line if stderr is a terminal
    #[default]
    Auto,
    /// Print a line from time to time
    Plain,
    /// Show no progress
    None,
}

impl OutputFlags {
    /// Returns an observer that shows an experiment.
    pub(super) fn observer(&self) -> TerminalObserver {
        TerminalObserver::new(ObserverSettings {
            quiet: self.talk.quiet,
            display: self.talk.display(),
            every_trial: self.talk.verbose,
            stdout_is_taken: self.exports.0.formats_on_stdout().next().is_some(),
            was_stopped: signal_came,
        })
    }
}

impl VerbosityFlags {
    fn display(&self) -> ProgressDisplay {
        match (self.style, self.progress) {
            _ if self.quiet && self.style != DisplayStyle::Ticks => ProgressDisplay::Hidden,
            (DisplayStyle::Ticks, _) => ProgressDisplay::Ticks,
            (DisplayStyle::Line, ProgressKind::Auto) if console::user_attended_stderr() => {
                ProgressDisplay::MovingLine
            }
            (_, ProgressKind::None) => ProgressDisplay::Failures,
            _ => ProgressDisplay::PlainLines,
        }
    }
}

impl ExperimentFlags {
    /// Returns a function that overrides a scenario with the flags and a command. Refuses a flag that means different
    /// things in other tools, and a command that cannot be recorded.
    pub(super) fn with_command(
        &self,
        command: Vec<OsString>,
    ) -> Result<impl Fn(&mut Scenario), CliError> {
        if let Some(value) = &self.p {
            let jobs = value.as_deref().unwrap_or("4");
            let error = anyhow::anyhow!("there is no flag `-p` here");
            return Err(CliError::usage(error).with_hint(format!(
                "did you mean `-j {jobs}` (parallel trials) or `--prepare CMD` (before each trial)?"
            )));
        }
        let command = command_as_text(command)?;
        Ok(move |scenario: &mut Scenario| self.overlay_scenario(&command, scenario))
    }

    /// Returns whether no flag sets the number of trials, or the expected failure rate.
    pub(super) fn may_stop_early(&self) -> bool {
        let (stop, judge) = (self.stop.alone(), self.judge.alone());
        let counts = self.trials.alone().runs.is_some();
        let limits = stop.max_fail.is_some() || stop.width.is_some();
        let expects = judge.expect.is_some() || judge.max_rate.is_some();
        !counts && !limits && !expects
    }

    /// Returns whether variants are defined by variables.
    pub(super) fn has_matrix(&self) -> bool {
        !self.program.alone().matrix.0.is_empty()
    }

    /// Returns a flag that does not apply to a service under load, and the alternative.
    pub(super) fn not_for_service(&self) -> Option<(&'static str, &'static str)> {
        const ENDS: &str =
            "--requests or --time ends a trial; --hang-after says when the service is hung";
        const CODES: &str =
            "leave it out: a service that ends under load fails, whatever its exit code";
        let (stop, judge) = (self.stop.alone(), self.judge.alone());
        [
            (stop.timeout.is_some(), "-t", ENDS),
            (judge.ok.is_some(), "--ok", CODES),
            (judge.skip.is_some(), "--skip", CODES),
        ]
        .into_iter()
        .find_map(|(is_given, flag, hint)| is_given.then_some((flag, hint)))
    }

    /// Overrides a scenario with the command and the flags of the command line.
    fn overlay_scenario(&self, command: &[String], scenario: &mut Scenario) {
        if !command.is_empty() || self.program.alone().shell.is_some() {
            scenario.program.command = (!command.is_empty()).then(|| command.to_vec());
            scenario.program.shell = None;
        }
        self.trials.apply_to(&mut scenario.trials);
        self.suite.apply_to(&mut scenario.suite);
        self.hosts.apply_to(&mut scenario.hosts);
        self.stop.apply_to(&mut scenario.stop);
        self.judge.apply_to(&mut scenario.judge);
        self.program.apply_to(&mut scenario.program);
        self.evidence.apply_to(&mut scenario.evidence);
        scenario.trust |= self.trust;
    }
}

/// Returns the arguments of a command as text. A plan is human-readable, so it contains only UTF-8.
fn command_as_text(command: Vec<OsString>) -> Result<Vec<String>, CliError> {
    let words = command
        .into_iter()
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|word| {
            let error = anyhow::anyhow!("the argument `{}` is not UTF-8", word.to_safe());
            CliError::usage(error).with_hint("pass it in a file or an environment variable")
        })?;
    refuse_misplaced_flags(&words)?;
    Ok(words)
}
