//! Flags of `run`, and their effect on a [`Scenario`].

use super::ci_flags::CiFlags;
use super::export_flags::{ExportFlags, RESULT};
use super::given_flags::Given;
use super::signals::signal_came;
use crate::suggest::{command_as_text, refuse_misplaced_flags};
use crate::term::{
    DisplayStyle, ObserverSettings, ProgressDisplay, ProgressKind, TerminalObserver,
};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use provoke_plan::{
    CaseSettings, ConditionSettings, EvidenceSettings, HostSettings, JudgeSettings,
    ProgramSettings, Scenario, StopSettings, TrialSettings,
};
use provoke_words::diagnostic::Diagnostic;
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
    pub(super) stop: Given<StopSettings>,
    #[command(flatten)]
    pub(super) judge: Given<JudgeSettings>,
    #[command(flatten)]
    program: Given<ProgramSettings>,
    #[command(flatten)]
    conditions: Given<ConditionSettings>,
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
    #[arg(short, long, help_heading = RESULT, hide_short_help = true)]
    pub(super) quiet: bool,
    /// Print every trial when it ends
    #[arg(short, long, conflicts_with = "quiet", help_heading = RESULT, hide_short_help = true)]
    pub(super) verbose: bool,
    /// Show a live line, a tick or cross per trial, or plain lines
    #[arg(long, value_enum, default_value_t, help_heading = RESULT, hide_short_help = true)]
    pub(super) style: DisplayStyle,
    /// Show progress as a live line, as plain lines, or not at all
    #[arg(long, value_enum, default_value_t, help_heading = RESULT, hide_short_help = true)]
    pub(super) progress: ProgressKind,
}

impl OutputFlags {
    /// Returns an observer that shows an experiment.
    pub(super) fn observer(&self) -> TerminalObserver {
        TerminalObserver::new(ObserverSettings {
            quiet: self.talk.quiet,
            display: ProgressDisplay::choose(self.talk.style, self.talk.progress, self.talk.quiet),
            every_trial: self.talk.verbose,
            stdout_is_taken: self.exports.0.formats_on_stdout().next().is_some(),
            was_stopped: signal_came,
        })
    }
}

impl ExperimentFlags {
    /// Returns a function that overrides a scenario with the flags and a command. Refuses a flag that means different
    /// things in other tools, and a command that cannot be recorded.
    pub(super) fn with_command(
        &self,
        command: Vec<OsString>,
    ) -> Result<impl Fn(&mut Scenario), Diagnostic> {
        if let Some(value) = &self.p {
            let jobs = value.as_deref().unwrap_or("4");
            return Err(Diagnostic::usage("there is no flag `-p` here").with_hint(format!(
                "did you mean `-j {jobs}` (parallel trials) or `--prepare CMD` (before each trial)?"
            )));
        }
        let command = command_as_text(command)?;
        refuse_misplaced_flags(&command)?;
        Ok(move |scenario: &mut Scenario| self.overlay_scenario(&command, scenario))
    }

    /// Returns whether variants are defined by variables.
    pub(super) fn has_matrix(&self) -> bool {
        !self.program.alone().matrix.0.is_empty() || !self.conditions.alone().compared.is_empty()
    }

    /// Overrides a scenario with the command and the flags of the command line.
    fn overlay_scenario(&self, command: &[String], scenario: &mut Scenario) {
        if !command.is_empty() || self.program.alone().shell.is_some() {
            scenario.program.command = (!command.is_empty()).then(|| command.to_vec());
            scenario.program.shell = None;
        }
        self.trials.apply_to(&mut scenario.trials);
        self.suite.apply_to(&mut scenario.suite);
        let on = self.hosts.alone().on;
        scenario.hosts.remove_replaced(on.as_ref());
        self.hosts.apply_to(&mut scenario.hosts);
        self.stop.apply_to(&mut scenario.stop);
        self.judge.apply_to(&mut scenario.judge);
        self.program.apply_to(&mut scenario.program);
        self.conditions.apply_to(&mut scenario.conditions);
        let compared = std::mem::take(&mut scenario.conditions.compared);
        if !compared.is_empty() {
            scenario.program.matrix.compare_conditions(compared);
        }
        self.evidence.apply_to(&mut scenario.evidence);
        scenario.trust |= self.trust;
    }
}

/// Returns the parser of a flag whose values have these names.
pub(super) fn parse_one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.map(|(name, _)| name)).map(move |text| {
        let named = values.iter().find(|(name, _)| *name == text);
        named.expect("the parser accepts only these names").1
    })
}
