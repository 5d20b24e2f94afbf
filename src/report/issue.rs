//! Collects the details that a bug report needs: stack, output, builds, and the commands to reproduce it.

use super::output::read_stream_end;
use super::{Report, derive, group_failures, load_assumptions, source_line, story};
use crate::model::{Autopsy, Site, TrialId, VariantId};
use crate::state::State;
use crate::store::{self, RunFolder, Secrets, StoreError};
use crate::untrusted::shell_word;
use crate::words;
use provoke_stats as stats;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// File with the analysis of cores, in the directory of a trial.
const ANALYSIS: &str = "crash.json";
/// Maximum size of an analysis.
const LONGEST: u64 = 64 << 20;
/// Number of output lines that are shown.
const LINES: usize = 15;
/// Facts of the environment that identify a build or a version.
const VERSIONS: [(&str, &str); 9] = [
    ("program.version", "program version"),
    ("program.build_id", "program build id"),
    ("program.hash", "program hash"),
    ("program.launched.build_id", "launched program build id"),
    ("program.script.hash", "script hash"),
    ("python.version", "Python"),
    ("node.version", "Node.js"),
    ("libc", "C library"),
    ("os", "system"),
];

/// The most frequent failure, and the commands to reproduce it.
#[derive(Default)]
pub(super) struct Issue {
    /// The title of the most frequent failure, its signature, and how many trials of all failing ones show it.
    pub(super) failure: Option<(String, String, u64, u64)>,
    /// How those trials ended, and the number of trials of their variant.
    pub(super) outcome: Option<(String, u64)>,
    /// The source lines that it points at.
    pub(super) sites: Vec<Site>,
    /// The text of the source lines that can be read, with their numbers.
    pub(super) source: Vec<String>,
    /// The calls of the crashed thread, one per line.
    pub(super) stack: Vec<String>,
    /// A trial, and the last lines of its output.
    pub(super) output: Option<(TrialId, String)>,
    /// The command as a shell line, with the variables that the experiment set.
    pub(super) command: String,
    /// The load of a trial, in words.
    pub(super) load: Vec<String>,
    /// If the measurement can be repeated from the command line: the number of trials that show a failure with the
    /// confidence of the report, and the options and the command for `provoke`.
    pub(super) repeat: Option<(u64, String)>,
    /// Builds and versions.
    pub(super) builds: Vec<(String, String)>,
}

impl Issue {
    /// Reads the details from the directory of a run; secrets are masked.
    pub(super) fn read_from(
        report: &Report,
        folder: &RunFolder,
        secrets: &Secrets,
        environment: bool,
    ) -> Result<Self, StoreError> {
        let mut state = store::read_masked(&folder.journal_path())?;
        if !environment {
            store::strip_environment(&mut state.plan);
        }
        let most_frequent = (0..)
            .zip(&report.variants)
            .flat_map(|(index, variant)| {
                let groups = group_failures(variant).into_iter();
                groups.map(move |group| (VariantId(index), variant, group))
            })
            .filter(|(.., group)| group.signature.is_the_bug)
            .max_by_key(|(_, variant, group)| (group.trial_count(), variant.failures));
        let mut issue = Self::default();
        let mut modules = Vec::new();
        let mut failing = VariantId(0);
        if let Some((id, variant, group)) = most_frequent {
            failing = id;
            issue.failure = Some((
                group.signature.title.clone(),
                group.signature.id.clone(),
                group.trial_count(),
                variant.failures,
            ));
            issue.outcome = Some((group.signature.outcome.clone(), variant.trials));
            issue.sites.clone_from(&group.signature.sites);
            issue.source = (group.signature.sites.iter())
                .filter_map(|site| {
                    let text = source_line(site)?;
                    // The beginning of a secret in a line that was cut is not recognized.
                    if text.ends_with('…') && !secrets.is_empty() {
                        return None;
                    }
                    let text = secrets.mask_text(text.as_bytes());
                    let text = String::from_utf8_lossy(&text);
                    Some(format!("{:>4} | {text}", site.line))
                })
                .collect();
            let trials = || {
                group
                    .signature
                    .trials
                    .iter()
                    .copied()
                    .chain(group.measured_trials())
            };
            let folder_of = |trial: u64| folder.trials_path().join(trial.to_string());
            let analysis = trials().find_map(|trial| read_autopsy(&folder_of(trial), secrets));
            if let Some(analysis) = analysis {
                issue.stack = story::stack_lines(&analysis);
                modules = builds_on_stack(&analysis);
            }
            issue.output = trials().find_map(|trial| {
                let text = last_output(&folder_of(trial), secrets)?;
                Some((TrialId(trial), text))
            });
        }
        issue.command = shell_command(&state, failing);
        issue.load = load_assumptions(&state);
        issue.repeat = repeat_command(report, &state, failing);
        let facts = VERSIONS.iter().filter_map(|(fact, name)| {
            let value = state.survey.get_fact(fact)?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        issue.builds = facts.chain(modules).collect();
        Ok(issue)
    }
}

/// Returns the analysis of the core of a trial that crashed.
fn read_autopsy(trial: &Path, secrets: &Secrets) -> Option<Autopsy> {
    let path = trial.join(ANALYSIS);
    // The program under test may have created a link or a pipe of this name.
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut json = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LONGEST).read_to_end(&mut json).ok()?;
    let autopsies: Vec<Autopsy> = secrets.parse_masked(&json).ok()?;
    autopsies
        .into_iter()
        .find(|autopsy| autopsy.crash.signal.is_some() && !autopsy.crash.frames.is_empty())
}

/// Returns the builds of the libraries on the stack.
fn builds_on_stack(analysis: &Autopsy) -> Vec<(String, String)> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let program = &analysis.crash.program;
    let on_stack = |name: &str| {
        let mut frames = analysis.crash.frames.iter();
        frames.any(|frame| frame.module.as_deref() == Some(name))
    };
    let libraries = analysis.modules.iter().filter_map(|module| {
        let (name, id) = (name(&module.path), module.build_id.clone()?);
        (name != *program && on_stack(&name)).then(|| (format!("{name} build id"), id))
    });
    libraries.collect()
}

/// Returns the last lines that a trial wrote to stderr, or else to stdout.
fn last_output(trial: &Path, secrets: &Secrets) -> Option<String> {
    let text = ["stderr", "stdout"].iter().find_map(|name| {
        let text = read_stream_end(trial, name, secrets)?;
        (!text.trim().is_empty()).then_some(text)
    })?;
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let first = lines.len().saturating_sub(LINES);
    Some(lines[first..].join("\n"))
}

/// Returns the variables that the experiment sets or removes for a command, as `env` takes them.
fn variable_arguments(state: &State, variant: VariantId, set: &str, remove: &str) -> Vec<String> {
    let Some(main) = state.plan.variant_plan(variant).main_actor() else {
        return Vec::new();
    };
    let word = |name: &crate::model::Text, value: Option<&crate::model::Text>| {
        let name = shell_word(name.as_os_str()).into_string();
        match value {
            Some(value) => format!("{set}{name}={}", shell_word(value.as_os_str())),
            None => format!("{remove}{name}"),
        }
    };
    let env = main.env.iter();
    env.map(|(name, value)| word(name, value.as_ref()))
        .collect()
}

/// Returns the command of a variant as a shell line.
fn shell_command(state: &State, variant: VariantId) -> String {
    let mut words = variable_arguments(state, variant, "", "-u ");
    // `env` takes the names to remove before the values to set.
    words.sort_by_key(|word| !word.starts_with("-u "));
    if words.first().is_some_and(|word| word.starts_with("-u ")) {
        words.insert(0, "env".to_owned());
    }
    words.push(derive::command_line(&state.plan, variant));
    words.join(" ")
}

/// Returns the number of trials that show the failure again, and the arguments of `provoke run`.
fn repeat_command(report: &Report, state: &State, variant: VariantId) -> Option<(u64, String)> {
    let plan = &state.plan;
    let [only] = report.variants.as_slice() else {
        return None;
    };
    let [actor] = plan.variant_plan(variant).actors.as_slice() else {
        return None;
    };
    let by_hand = plan.question.is_rate()
        && plan.load.is_none()
        && plan.scenario.is_none()
        && actor.container.is_none();
    if !by_hand {
        return None;
    }
    let trials = match only.rate.point? {
        rate if rate < 1.0 => stats::clean_runs_at_known_rate(rate, plan.alpha.to_probability())?,
        _ => 1,
    };
    let mut words = Vec::new();
    if plan.jobs > 1 {
        words.push(format!("-j {}", plan.jobs));
    }
    words.extend(variable_arguments(state, variant, "-e ", "-e "));
    words.push(format!("-- {}", derive::command_line(plan, variant)));
    Some((trials, words.join(" ")))
}

impl Issue {
    /// Returns builds and versions as lines of text.
    pub(super) fn describe_builds(&self) -> impl Iterator<Item = String> {
        let builds = self.builds.iter();
        builds.map(|(name, value)| {
            format!(
                "{}: {}",
                words::sanitize_line(name),
                words::sanitize_line(value)
            )
        })
    }
}
