//! Collects the details that a bug report needs: stack, output, builds, and the commands to reproduce it.

use super::failure_evidence::FailureEvidence;
use super::{
    FailureGroup, Masked, MaskedRun, Report, VariantReport, derive, group_failures,
    load_assumptions, story,
};
use provoke_journal as journal;
use provoke_journal::StoreError;
use provoke_levers as levers;
use provoke_model::{Autopsy, Goal, Plan, Site, Survey, TrialId, TrialsPlan, VariantId};
use provoke_plan::Scenario;
use provoke_questions as questions;
use provoke_stats as stats;
use provoke_words as words;
use provoke_words::untrusted::shell_word;

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

/// The most frequent failure, of a bisection that of the first bad candidate, and the commands to reproduce it.
#[derive(Default)]
pub(super) struct Issue {
    /// The title of the failure, its signature, and how many trials of all failing ones show it.
    pub(super) failure: Option<(String, String, u64, u64)>,
    /// The variant that shows it, if there are several.
    pub(super) variant: Option<String>,
    /// How those trials ended, and the number of trials of their variant.
    pub(super) outcome: Option<(String, u64)>,
    /// The source lines that it points at.
    pub(super) sites: Vec<Site>,
    /// The text of the source lines that can be read, with their numbers.
    pub(super) source: Vec<String>,
    /// The calls of the crashed thread, one per line.
    pub(super) stack: Vec<String>,
    /// The next most frequent failures of the same variant.
    pub(super) others: Vec<OtherFailure>,
    /// A trial, and the last lines of its output.
    pub(super) output: Option<(TrialId, String)>,
    /// The command as a shell line, with the variables that the experiment set.
    pub(super) command: String,
    /// The load of a trial and its conditions, in words.
    pub(super) around: Vec<String>,
    /// If the measurement can be repeated from the command line: the number of trials that show a failure with the
    /// confidence of the report, and the options and the command for `provoke`.
    pub(super) repeat: Option<(u64, String)>,
    /// If a hunt can be repeated from the command line: the options and the command for `provoke`.
    pub(super) hunt: Option<String>,
    /// Builds and versions.
    pub(super) builds: Vec<(String, String)>,
}

/// Maximum number of other failures with their source lines and stacks.
const OTHER_FAILURES: usize = 3;

/// A failure that is less frequent than another one.
pub(super) struct OtherFailure {
    /// Its title.
    pub(super) title: String,
    /// Its signature.
    pub(super) id: String,
    /// How many trials show it.
    pub(super) count: u64,
    /// The source lines that it points at.
    pub(super) sites: Vec<Site>,
    /// The text of the source lines that can be read, with their numbers.
    pub(super) source: Vec<String>,
    /// The calls of the crashed thread, one per line.
    pub(super) stack: Vec<String>,
}

impl OtherFailure {
    fn has_place(&self) -> bool {
        !self.sites.is_empty() || !self.stack.is_empty()
    }

    fn read_from(group: &FailureGroup<'_>, run: &MaskedRun<'_>) -> Self {
        let evidence = FailureEvidence::read_from(group, run);
        Self {
            title: group.signature.title.clone(),
            id: group.signature.id.clone(),
            count: group.trial_count(),
            sites: group.signature.sites.clone(),
            source: evidence.source,
            stack: evidence
                .analysis
                .as_ref()
                .map_or_else(Vec::new, story::stack_lines),
        }
    }
}

impl Issue {
    /// Reads the details from the directory of a run; secrets are masked.
    pub(super) fn read_from(run: &MaskedRun<'_>, environment: bool) -> Result<Self, StoreError> {
        let state = journal::read_masked(&run.folder().journal_path(), questions::FOLD)?;
        let (_, survey) = state.trial_environment();
        let recorded = (state.plan(), &survey);
        Ok(Self::of_plan(run, environment, recorded))
    }

    /// Does the same with a masked plan and environment.
    pub(super) fn of_plan(
        run: &MaskedRun<'_>,
        environment: bool,
        (mut plan, survey): (Plan, &Survey),
    ) -> Self {
        if !environment {
            journal::strip_environment(&mut plan.trials);
        }
        let report = run.report();
        let shown = (0..)
            .zip(&report.get().variants)
            .flat_map(|(index, variant)| {
                let groups = group_failures(variant).into_iter();
                groups.map(move |group| (VariantId(index), variant, group))
            })
            .filter(|(.., group)| group.signature.is_the_bug)
            .max_by_key(|(_, variant, group)| {
                let is_answer = is_first_bad(report, variant);
                (is_answer, group.trial_count(), variant.failures)
            });
        let mut issue = Self::default();
        let mut modules = Vec::new();
        let mut failing = VariantId(0);
        if let Some((id, variant, group)) = shown {
            failing = id;
            issue.failure = Some((
                group.signature.title.clone(),
                group.signature.id.clone(),
                group.trial_count(),
                variant.failures,
            ));
            issue.variant = (report.variants.len() > 1).then(|| variant.name.clone());
            issue.outcome = Some((group.signature.outcome.clone(), variant.trials));
            issue.sites.clone_from(&group.signature.sites);
            let evidence = FailureEvidence::read_from(&group, run);
            if let Some(analysis) = &evidence.analysis {
                issue.stack = story::stack_lines(analysis);
                modules = builds_on_stack(analysis);
            }
            issue.source = evidence.source;
            issue.output = evidence.output;
            let others = group_failures(variant).into_iter().filter(|other| {
                other.signature.is_the_bug && other.signature.id != group.signature.id
            });
            issue.others = others
                .map(|other| OtherFailure::read_from(&other, run))
                .filter(OtherFailure::has_place)
                .take(OTHER_FAILURES)
                .collect();
        }
        issue.command = shell_command(&plan.trials, failing);
        issue.around = load_assumptions(&plan.trials);
        let conditions = plan.trials.conditions_of(plan.trials.variant_plan(failing));
        let conditions = levers::typed_conditions(&conditions);
        if !conditions.is_empty() {
            issue
                .around
                .push(format!("under {}", conditions.join(" and ")));
        }
        issue.repeat = repeat_command(report, &plan, failing);
        issue.hunt = if questions::of_goal(&plan.goal).searches_schedules() {
            typed_arguments(&plan, failing)
        } else {
            None
        };
        let facts = VERSIONS.iter().filter_map(|(fact, name)| {
            let value = survey.get_fact(fact)?;
            Some(((*name).to_owned(), value.to_owned()))
        });
        issue.builds = facts.chain(modules).collect();
        issue
    }
}

/// Returns whether a variant is the first bad candidate of a search.
fn is_first_bad(report: Masked<&Report>, variant: &VariantReport) -> bool {
    let answer = report.answer.as_ref();
    answer.is_some_and(|answer| questions::is_culprit(answer, &variant.name))
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

/// Returns the variables that the experiment sets or removes for a command, as `env` takes them.
fn variable_arguments(trials: &TrialsPlan, variant: VariantId) -> Vec<String> {
    let Some(main) = trials.variant_plan(variant).main_actor() else {
        return Vec::new();
    };
    let word = |name: &provoke_model::Text, value: Option<&provoke_model::Text>| {
        let name = shell_word(name.as_os_str()).into_string();
        match value {
            Some(value) => format!("{name}={}", shell_word(value.as_os_str())),
            None => format!("-u {name}"),
        }
    };
    let env = main.env.iter();
    env.map(|(name, value)| word(name, value.as_ref()))
        .collect()
}

/// Returns the command of a variant as a shell line.
fn shell_command(trials: &TrialsPlan, variant: VariantId) -> String {
    let mut words = variable_arguments(trials, variant);
    // `env` takes the names to remove before the values to set.
    words.sort_by_key(|word| !word.starts_with("-u "));
    if words.first().is_some_and(|word| word.starts_with("-u ")) {
        words.insert(0, "env".to_owned());
    }
    words.push(derive::command_line(trials, variant));
    words.join(" ")
}

/// Returns the number of trials that show the failure again, and the arguments of `provoke run`.
fn repeat_command(
    report: Masked<&Report>,
    plan: &Plan,
    variant: VariantId,
) -> Option<(u64, String)> {
    let [only] = report.variants.as_slice() else {
        return None;
    };
    if !questions::of_goal(&plan.goal).only_measures() {
        return None;
    }
    let arguments = typed_arguments(plan, variant)?;
    let trials = match only.rate.point? {
        rate if rate < 1.0 => {
            stats::clean_runs_at_known_rate(rate, plan.goal.alpha.to_probability())?
        }
        _ => 1,
    };
    Some((trials, arguments))
}

/// Returns the options and the command of a variant. `None` for a scenario, a load or a container, which need more.
fn typed_arguments(plan: &Plan, variant: VariantId) -> Option<String> {
    let [actor] = plan.trials.variant_plan(variant).actors.as_slice() else {
        return None;
    };
    if plan.trials.load.is_some() || plan.goal.scenario.is_some() || actor.container.is_some() {
        return None;
    }
    let mut words = Scenario::typed_flags(&Goal::default(), &plan.trials, variant);
    words.push(format!(
        "-- {}",
        derive::command_line(&plan.trials, variant)
    ));
    Some(words.join(" "))
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
