//! `explain`: shows the analysis of a core, or of a trial.

use super::error::CliError;
use super::exit::Exit;
use super::experiment::run_and_trial;
use super::request_scenarios::json_lines;
use crate::autopsy::cpu_features::flags_of_model;
use crate::autopsy::tools::{self, Tool};
use crate::autopsy::{CoreError, Examiner, ExaminerSettings};
use crate::exec::STORY;
use crate::model::{
    Autopsy, Event, InconclusiveReason, Observation, Outcome, Signature, TrialId, VariantId,
};
use crate::oracle;
use crate::policy;
use crate::report::story::{RequestInFlight, TrialDetails, crash_story, trial_story};
use crate::report::{Answer, Report, words};
use crate::store::{self, RunFolder, StoreError, default_root};
use crate::sys::host;
use crate::term;
use crate::untrusted::{safe_json, shell_word};
use clap::Args;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Explain a failing trial or a core file
///
/// Shows the signal, the stack with functions and lines, and the output of the program. The program and
/// its libraries are read from their original paths; for a core from a container or another machine, use
/// --root with a copy of its file system. No debugger is needed.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArgs {
    /// A trial (last#17), a run (its failure with the best evidence), or a core file
    #[arg(value_name = "CORE|RUN[#TRIAL]")]
    what: PathBuf,
    /// The program, if it is no longer at its original path
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Directory with debug files, in addition to /usr/lib/debug
    #[arg(long, value_name = "DIR")]
    debug_dir: Vec<PathBuf>,
    /// Root directory of the program: the root of a container, or a copy of it
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// CPU that the program ran on, as a QEMU model such as SandyBridge [default: this CPU]
    #[arg(long, value_name = "MODEL", value_parser = parse_model)]
    cpu: Option<BTreeSet<String>>,
    /// Add the output of these tools: gdb, eu-stack, pystack, py-spy
    #[arg(long, value_name = "TOOL", value_delimiter = ',', value_parser = parse_tool)]
    with: Vec<Tool>,
    /// Show every register and every thread in full
    #[arg(short, long)]
    verbose: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  Explain the failure of the last run that has the best evidence:
    provoke explain last
  Explain trial 17 of the last run:
    provoke explain last#17
  Explain a core file:
    provoke explain core.1234";

impl ExplainArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let name = self.what.to_string_lossy();
        if !self.what.is_file() {
            if name.contains('#') {
                return self.explain_trial(&name);
            }
            return match RunFolder::find_run(&name, &default_root()) {
                Ok(folder) => self.explain_trial(&best_of(&folder)?),
                Err(no_run @ StoreError::NoRun { .. }) => {
                    let error = anyhow::anyhow!("found neither a core file nor a run `{name}`");
                    Err(CliError::usage(error).with_hint(no_run.hint().unwrap_or_default()))
                }
                Err(error) => Err(error.into()),
            };
        }
        let autopsy = self.read_core(&self.what)?;
        self.print_story(&autopsy, || {
            crash_story(&autopsy, self.verbose, term::page_width())
        })
    }

    fn read_core(&self, core: &Path) -> Result<Autopsy, CliError> {
        let mut settings = ExaminerSettings {
            root: self.root.clone(),
            program: self.program.clone(),
            processor: self.cpu.clone().or_else(host::processor_flags),
            ..ExaminerSettings::default()
        };
        settings
            .debug_dirs
            .splice(0..0, self.debug_dir.iter().cloned());
        let mut autopsy = Examiner::new(settings).examine_core(core)?;
        tools::ask_for_python(&mut autopsy, core, tools::PATIENCE);
        let program = self.program.clone();
        let program = program.unwrap_or_else(|| tools::program_path(&autopsy));
        for tool in &self.with {
            let name = tool.name();
            if autopsy.tools.iter().any(|(known, _)| known == name) {
                continue;
            }
            match tool.ask_about_core(core, &program, tools::PATIENCE) {
                Some(said) => autopsy.tools.push((name.to_owned(), said)),
                None => autopsy
                    .gaps
                    .push(format!("{name} is not installed, or printed nothing")),
            }
        }
        Ok(autopsy)
    }

    fn explain_trial(&self, name: &str) -> Result<Exit, CliError> {
        let (run, id) = run_and_trial(name)?;
        let folder = RunFolder::find_run(run, &default_root())?;
        let mut known: Vec<(TrialId, Signature)> = Vec::new();
        let mut finished: Vec<u64> = Vec::new();
        let mut found: Option<(Box<Observation>, Outcome)> = None;
        let (mut variant, mut is_captured) = (VariantId(0), false);
        let take = |event: &Event, _: &_| {
            if let Event::TrialStarted(trial) = event
                && trial.id == id
            {
                (variant, is_captured) = (trial.variant, trial.capture);
            }
            let Event::TrialFinished {
                trial,
                seen,
                outcome,
                ..
            } = event
            else {
                return;
            };
            finished.push(trial.0);
            if let Some(failure) = outcome.any_failure() {
                known.push((*trial, failure.signature.clone()));
            }
            if *trial == id {
                found = Some((seen.clone(), outcome.clone()));
            }
        };
        let state = store::read_run(&folder.journal_path(), |_| false, take)?;
        let (seen, outcome) = found.ok_or_else(|| {
            let failed: Vec<u64> = known.iter().map(|(trial, _)| trial.0).collect();
            no_trial(&state.run, id, finished, failed)
        })?;
        let better = outcome.any_failure().and_then(|failure| {
            let mine = (failure.signature.depth, failure.signature.id);
            let mut others = known.iter();
            let same = others.find(|(_, other)| other.also.contains(&mine));
            same.map(|(trial, _)| {
                let trial_name = format!("{run}#{}", trial.0);
                let command = format!("provoke explain {}", shell_word(trial_name.as_ref()));
                (*trial, command)
            })
        });
        let stories = self.trial_stories(&folder, id, &seen)?;
        let was_stopped = outcome == Outcome::Void(InconclusiveReason::Interrupted);
        let seeming_hang = was_stopped
            .then(|| oracle::seeming_hang(state.plan.variant_plan(variant), &seen))
            .flatten();
        let told = TrialDetails {
            trial: id,
            is_captured,
            outcome: &outcome,
            seeming_hang: seeming_hang.as_ref(),
            seen: &seen,
            limits: &state.plan.limits,
            load: state.plan.load.as_ref(),
            in_flight: &in_flight(&folder, id),
            stories: &stories,
            output: &last_output(&folder, id),
            better,
            verbose: self.verbose,
            width: term::page_width(),
        };
        self.print_story(&stories, || trial_story(&told))
    }

    /// Returns the analyses of the cores of a trial: the stored ones, or new ones if another tool is requested.
    fn trial_stories(
        &self,
        folder: &RunFolder,
        id: TrialId,
        seen: &Observation,
    ) -> Result<Vec<Autopsy>, CliError> {
        let cores = seen.cores.iter();
        let place = folder.trials_path().join(id.0.to_string());
        if !self.with.is_empty() {
            // The run may have been moved since.
            let names = cores.filter_map(|core| Path::new(core.file.as_os_str()).file_name());
            return names
                .map(|name| self.read_core(&place.join(name)))
                .collect();
        }
        let written = fs::read(place.join(STORY)).ok();
        let written = written.and_then(|text| serde_json::from_slice(&text).ok());
        Ok(written.unwrap_or_else(|| {
            let short = cores.filter_map(|core| core.crash.as_deref());
            let told = |crash: &crate::model::Crash| Autopsy {
                crash: crash.clone(),
                gaps: vec![
                    "the core was not kept: this is what the journal holds of it".to_owned(),
                ],
                ..Autopsy::default()
            };
            short.map(told).collect()
        }))
    }

    fn print_story<T: serde::Serialize>(
        &self,
        what: &T,
        story: impl FnOnce() -> String,
    ) -> Result<Exit, CliError> {
        let printed = if self.json {
            let json = serde_json::to_string_pretty(what).map_err(CliError::could_not)?;
            term::print_result(&format!("{}\n", safe_json(&json)))
        } else {
            term::print_page(&story())
        };
        printed.map_err(CliError::could_not)?;
        Ok(Exit::Hoped)
    }
}

/// Maximum number of trials that are listed.
const LISTED: usize = 12;

/// Reports that a run has no such trial, and lists its trials.
fn no_trial(run: &str, id: TrialId, mut finished: Vec<u64>, mut failed: Vec<u64>) -> CliError {
    let error = anyhow::anyhow!("the run {run} has no finished trial {id}");
    finished.sort_unstable();
    failed.sort_unstable();
    let trials = words::trial_list(&finished, LISTED);
    CliError::usage(error).with_hint(match (finished.as_slice(), failed.as_slice()) {
        ([], _) => "none of its trials finished".to_owned(),
        (_, []) => format!("its trials are {trials}; none of them failed"),
        (_, failed) => {
            let failed = words::trial_list(failed, LISTED);
            format!("its trials are {trials}; failed: {failed}")
        }
    })
}

/// Maximum length of the first line of a request.
const REQUEST_LINE: u64 = 8192;

/// Returns the requests that were in flight when the service of a trial crashed.
fn in_flight(folder: &RunFolder, id: TrialId) -> Vec<RequestInFlight> {
    let place = folder.trials_path().join(id.0.to_string());
    let first_line = |line: &serde_json::Value| {
        let file = Path::new(line["request"].as_str()?).file_name()?;
        let file = fs::File::open(place.join("requests").join(file)).ok()?;
        let mut text = Vec::new();
        file.take(REQUEST_LINE).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().next()?;
        let line = line.rsplit_once(" HTTP/").map_or(line, |(line, _)| line);
        Some(line.to_owned())
    };
    let request = |line: serde_json::Value| RequestInFlight {
        request: first_line(&line)
            .or_else(|| line["kind"].as_str().map(str::to_owned))
            .unwrap_or_default(),
        client: line["client"].as_u64().unwrap_or(0),
        age: line["age_ms"].as_f64().unwrap_or(0.0) / 1e3,
        part: line["part"].as_str().unwrap_or_default().to_owned(),
        received: line["bytes"].as_u64().unwrap_or(0),
    };
    let lines = json_lines(&place.join("in-flight.jsonl"));
    lines.into_iter().map(request).collect()
}

/// Number of output lines that are shown.
const LAST_LINES: usize = 15;

/// Returns the last lines that a trial wrote to stderr, or else to stdout.
fn last_output(folder: &RunFolder, id: TrialId) -> Vec<String> {
    let place = folder.trials_path().join(id.0.to_string());
    let last_lines = |name: &str| {
        let text = fs::read(place.join(name)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let first = lines.len().saturating_sub(LAST_LINES);
        lines[first..].iter().map(ToString::to_string).collect()
    };
    let errors: Vec<String> = last_lines("stderr");
    if errors.is_empty() {
        last_lines("stdout")
    } else {
        errors
    }
}

/// Returns the reference of the trial of a run with the best evidence of its failure.
fn best_of(folder: &RunFolder) -> Result<String, CliError> {
    let state = store::read_run(&folder.journal_path(), policy::is_done, |_, _| {})?;
    let report = Report::new(&state, true);
    let path = folder.path().to_string_lossy();
    if let Some(trial) = report.known_best() {
        return Ok(format!("{path}#{trial}"));
    }
    // Of other trials, only the exit status and the leaks are known.
    let mut failing = report.variants.iter().flat_map(|one| &one.failing_trials);
    let first = failing.next().map(|trial| format!("{path}#{trial}"));
    first.ok_or_else(|| {
        let error = anyhow::anyhow!("no trial of the run {} failed", state.run);
        CliError::usage(error).with_hint(hint_without_failures(&report))
    })
}

/// Suggests which run to explain instead of one without failures.
fn hint_without_failures(report: &Report) -> String {
    let baseline = match &report.answer {
        Some(Answer::Confirm(answer)) => answer.baseline.as_ref(),
        _ => None,
    };
    let run = baseline.and_then(|baseline| baseline.run.as_deref());
    match run.map(|run| shell_word(run.as_ref())) {
        Some(run) => format!("to explain a failure before the fix: provoke explain {run}"),
        None => "`provoke list` shows which of the stored runs failed".to_owned(),
    }
}

fn parse_model(name: &str) -> Result<BTreeSet<String>, String> {
    flags_of_model(name).ok_or_else(|| {
        format!("`{name}` is no processor that is known here; `qemu-x86_64 -cpu help` lists those that QEMU has")
    })
}

fn parse_tool(name: &str) -> Result<Tool, String> {
    let known = Tool::ALL.into_iter().find(|tool| tool.name() == name);
    known.ok_or_else(|| "write gdb, eu-stack, pystack or py-spy".to_owned())
}

impl From<CoreError> for CliError {
    fn from(error: CoreError) -> Self {
        match error {
            CoreError::NoCore { .. } => Self::usage(error).with_hint(
                "a core is what the kernel writes when a program crashes: `ulimit -c unlimited`",
            ),
            CoreError::Unreadable { .. } => Self::usage(error),
            CoreError::Broken { .. } | CoreError::Foreign { .. } => Self::could_not(error),
        }
    }
}
