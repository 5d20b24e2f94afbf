//! Compares the environments of two runs, the most suspicious difference first.

use super::comparability::{UNKNOWN_FILE, runs_own_binary};
use super::files::{EntryDifference, FILES, FileComparison, compare_files};
use super::main_facts::is_digest;
use super::ranking::{FactGroup, group_of, group_of_variable, is_used};
use super::{SuiteDifference, main_name};
use provoke_autopsy::CommandEnvironment;
use provoke_model::{Host, Survey, Text, TrialsPlan, VariantId, is_secret};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Two runs and the differences between their environments; `provoke diff --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct RunComparison {
    /// Version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The first run.
    pub left: ComparedRun,
    /// The second run.
    pub right: ComparedRun,
    /// Probability that failure rates differ this much by chance; null if they cannot be compared.
    pub p_value: Option<f64>,
    /// Failures of the second run at which its rate would differ significantly: the most below the rate of the first run,
    /// and the fewest above it; null if no number would.
    pub significant_failures: [Option<u64>; 2],
    /// Number of trials that count as one in the p-value, because failures clump; 1 if they do not, as far as is known.
    pub design_effect: f64,
    /// Runs without a fixed number of trials, which their results may have ended. The p-value allows for it.
    pub stopped: Vec<String>,
    /// Reason why the failure rates cannot be compared; null if they can.
    pub not_comparable: Option<String>,
    /// Each failure in both runs, the frequent before the rare; empty if tests were counted.
    pub failures: Vec<FailureDifference>,
    /// Differences between the tests of a suite; null if the runs did not count tests, or cannot be compared.
    pub tests: Option<SuiteDifference>,
    /// Differences, the most suspicious first.
    pub differences: Vec<FactDifference>,
}

/// A run in a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRun {
    /// Name of the run.
    pub run: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// The answer in a few words, such as `FIXED 0 of 343`; null if the question was only the rate.
    pub answer: Option<String>,
    /// Host name of the machine.
    pub host: String,
    /// CPU of the machine.
    pub cpu: String,
    /// Kernel of the machine.
    pub kernel: String,
    /// Facts about the environment were recorded.
    pub surveyed: bool,
}

/// A failure in two runs.
#[derive(Clone, Debug, Serialize)]
pub struct FailureDifference {
    /// Its signature.
    pub signature: String,
    /// What failed, and where.
    pub title: String,
    /// Its trials in the first run.
    pub left: u64,
    /// Its trials in the second run.
    pub right: u64,
    /// Probability that its rates differ this much by chance, corrected for the number of failures (Holm); null if the
    /// rates of the runs cannot be compared.
    pub p_value: Option<f64>,
}

/// How the rate of a failure changes from the first run to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    More,
    Less,
}

impl RunComparison {
    /// Version of the format.
    pub const FORMAT: u32 = 1;
    /// A difference of failure rates is significant if its probability by chance is at most this.
    pub const SIGNIFICANT: f64 = 0.05;

    /// Returns whether the second run, a failure or a test of it, fails more often; `None` if that is not known.
    ///
    /// All failures together and each of them are tested. Both tests have two sides, of which one counts, so together
    /// they are wrong in 5 % of equal runs.
    pub fn is_worse(&self) -> Option<bool> {
        let (left, right) = (&self.left, &self.right);
        let is_higher = right.failures * left.trials > left.failures * right.trials;
        let has_worse_failure = self.changed_failures(Change::More).next().is_some();
        let has_worse_test = self.tests.as_ref().map(|tests| !tests.worse.is_empty());
        match (self.p_value, has_worse_test) {
            (Some(p), _) if p <= Self::SIGNIFICANT && is_higher => Some(true),
            _ if has_worse_failure => Some(true),
            (None, None) => None,
            (_, has_worse_test) => Some(has_worse_test.unwrap_or(false)),
        }
    }

    /// Returns whether failure rates, tests or relevant facts differ; `None` if no fact differs and the rates cannot be
    /// compared.
    pub fn is_different(&self) -> Option<bool> {
        let is_relevant = |fact: &FactDifference| fact.group != FactGroup::Trifle;
        let changed_tests = |tests: &SuiteDifference| tests.worse.len() + tests.better.len();
        if self.differences.iter().any(is_relevant)
            || self
                .tests
                .as_ref()
                .is_some_and(|tests| changed_tests(tests) > 0)
        {
            return Some(true);
        }
        let mut changes = [Change::More, Change::Less].into_iter();
        if changes.any(|change| self.changed_failures(change).next().is_some()) {
            return Some(true);
        }
        self.p_value.map(|p| p <= Self::SIGNIFICANT)
    }

    /// Returns the failures that are significantly more or less frequent in the second run.
    pub(super) fn changed_failures(
        &self,
        change: Change,
    ) -> impl Iterator<Item = &FailureDifference> {
        let is_changed = move |failure: &&FailureDifference| {
            let right = failure.right * self.left.trials;
            let left = failure.left * self.right.trials;
            let direction = match change {
                Change::More => right > left,
                Change::Less => right < left,
            };
            direction && failure.p_value.is_some_and(|p| p <= Self::SIGNIFICANT)
        };
        self.failures.iter().filter(is_changed)
    }

    /// Returns the comparison as JSON.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and numbers can be written") + "\n"
    }
}

/// Facts about one of two runs.
#[derive(Clone, Copy, Debug)]
pub struct RunFacts<'a> {
    /// The plan, which contains commands and variables.
    pub plan: &'a TrialsPlan,
    /// The machine.
    pub host: &'a Host,
    /// Further recorded facts; empty in old runs.
    pub survey: &'a Survey,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FactDifference {
    /// Kind of the fact.
    pub group: FactGroup,
    /// Name, such as `library.libc.so.6`, or the name of a variable.
    pub name: String,
    /// Value in the first run; null if absent. Of flags, only the ones that the second run lacks.
    pub left: Option<String>,
    /// Value in the second run; null if absent. Of flags, only the ones that the first run lacks.
    pub right: Option<String>,
    /// Reason why the difference may matter, if known.
    pub note: Option<String>,
}

/// Returns all differences, the most suspicious first.
pub fn find_differences(left_run: RunFacts<'_>, right: RunFacts<'_>) -> Vec<FactDifference> {
    let surveyed = !left_run.survey.0.is_empty() && !right.survey.0.is_empty();
    let [left_facts, right_facts] = [left_run, right].map(|side| collect_facts(side, surveyed));
    let names: BTreeSet<&(FactGroup, String)> =
        left_facts.keys().chain(right_facts.keys()).collect();
    let differing = names.into_iter().filter_map(|key| {
        let (left_value, right) = (left_facts.get(key), right_facts.get(key));
        (left_value != right).then(|| {
            FactDifference {
                group: key.0,
                name: key.1.clone(),
                left: left_value.cloned(),
                right: right.cloned(),
                note: None,
            }
            .with_explanation()
        })
    });
    let mut differences: Vec<FactDifference> = differing.collect();
    differences.extend(file_differences(left_run, right));
    mark_irrelevant_commit(&mut differences);
    differences
}

/// Returns the differences between the files that the first command of both runs may read.
fn file_differences(left_run: RunFacts<'_>, right: RunFacts<'_>) -> Vec<FactDifference> {
    let [left, right] = [left_run, right].map(|side| {
        let facts = side
            .survey
            .0
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str()));
        facts.collect::<BTreeMap<String, &str>>()
    });
    let difference = |group: FactGroup, file: EntryDifference| FactDifference {
        group,
        name: file.path,
        left: file.left,
        right: file.right,
        note: None,
    };
    let Some(FileComparison {
        of_program,
        changed,
        added,
    }) = compare_files(&left, &right)
    else {
        let digest =
            |facts: &BTreeMap<String, &str>| facts.get(FILES).map(|text| (*text).to_owned());
        let files = digest(&left)
            .zip(digest(&right))
            .map(|(left, right)| FactDifference {
                group: FactGroup::WorkingDirectory,
                name: "files".to_owned(),
                left: Some(left),
                right: Some(right),
                note: Some(UNKNOWN_FILE.to_owned()),
            });
        return files.into_iter().collect();
    };
    let directory = if runs_own_binary((left_run, VariantId(0))) {
        FactGroup::Trifle
    } else {
        FactGroup::WorkingDirectory
    };
    // The digest of the program is compared with its other facts.
    let program = left.get("program.path").map(Path::new);
    let is_program =
        |file: &EntryDifference| program.is_some_and(|path| path.ends_with(&file.path));
    let of_program = of_program.into_iter().filter(|file| !is_program(file));
    [
        (FactGroup::Program, of_program.collect()),
        (directory, changed),
        (FactGroup::Trifle, added),
    ]
    .into_iter()
    .flat_map(|(group, files)| files.into_iter().map(move |file| difference(group, file)))
    .collect()
}

/// The name of a commit hardly ever matters if the program and its files are the same.
fn mark_irrelevant_commit(differences: &mut [FactDifference]) {
    let of_program = |difference: &&FactDifference| {
        [FactGroup::Program, FactGroup::WorkingDirectory].contains(&difference.group)
    };
    let is_commit = |difference: &FactDifference| difference.name == Survey::COMMIT;
    if differences.iter().filter(of_program).all(is_commit)
        && let Some(commit) = differences
            .iter_mut()
            .find(|difference| is_commit(difference))
    {
        commit.group = FactGroup::Trifle;
    }
    differences.sort_by_key(|difference| difference.group);
}

type FactTexts = BTreeMap<(FactGroup, String), String>;

pub(super) fn collect_facts(side: RunFacts<'_>, surveyed: bool) -> FactTexts {
    let mut facts = FactTexts::new();
    let mut add = |group, name: &str, value: String| {
        facts.insert((group, name.to_owned()), value);
    };
    let RunFacts { plan, host, survey } = side;
    if surveyed {
        // A digest does not show which file differs.
        let recorded = survey.0.iter().filter(|(name, _)| !is_digest(name));
        for (name, value) in recorded {
            let shown = Survey::given_name(name).unwrap_or(name);
            add(group_of(name), shown, value.clone());
        }
    } else {
        add(FactGroup::Processor, "cpu.model", host.cpu.clone());
        add(FactGroup::Processor, "cpu.count", host.cpus.to_string());
        add(FactGroup::Machine, "kernel.release", host.kernel.clone());
        add(FactGroup::Machine, "memory.total", host.memory.to_string());
    }
    add(FactGroup::Machine, "host.name", host.name.clone());
    add(FactGroup::Machine, "host.arch", host.arch.clone());
    add_run_facts(plan, &mut add);
    add_commands(plan, &mut add);
    facts
}

/// Adds the settings of a plan's trials.
fn add_run_facts(plan: &TrialsPlan, add: &mut impl FnMut(FactGroup, &str, String)) {
    add(FactGroup::Run, "jobs", plan.jobs.to_string());
    if plan.waves {
        add(FactGroup::Run, "waves", "yes".to_owned());
    }
    // `confirm` itself turns on core dumps. Only a tracer changes how a program runs.
    let group = if plan.settings.traces() {
        FactGroup::Run
    } else {
        FactGroup::Trifle
    };
    add(group, "capture", lowercase_debug(&plan.settings.capture));
    let timeout = match plan.settings.timeout {
        provoke_model::Timeout::After(time) => format!("{} s", time.as_secs_f64()),
        provoke_model::Timeout::Auto => "auto".to_owned(),
    };
    add(FactGroup::Run, "timeout", timeout);
    for (lever, value) in provoke_levers::set_levers(&plan.conditions) {
        add(FactGroup::Run, lever.fact_name(), lever.fact(value));
    }
    for variant in &plan.variants {
        for (lever, value) in provoke_levers::set_levers(&variant.conditions) {
            let name = format!("{}[{}]", lever.fact_name(), variant.name);
            add(FactGroup::Run, &name, lever.fact(value));
        }
    }
}

fn lowercase_debug(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Adds the commands and their environments: the complete environment of the first command, and the
/// changes of the others.
fn add_commands(plan: &TrialsPlan, add: &mut impl FnMut(FactGroup, &str, String)) {
    let mut first = true;
    for variant in &plan.variants {
        for actor in &variant.actors {
            let main = actor.role.decides_outcome();
            let named = |kind: &str| match main_name(variant, actor) {
                name if name.is_empty() || (first && main) => kind.to_owned(),
                name => format!("{kind}[{name}]"),
            };
            add(
                FactGroup::Program,
                &named("command"),
                quote_arguments(&actor.command),
            );
            add(FactGroup::Run, &named("cwd"), actor.cwd.to_string());
            if let Some(file) = &actor.stdin {
                add(FactGroup::Run, &named("stdin"), file.to_string());
            }
            if actor.copies != 1 {
                add(FactGroup::Run, &named("copies"), actor.copies.to_string());
            }
            if first && main {
                for (name, value) in CommandEnvironment::of_actor(&plan.environment, actor).env {
                    let name = name.to_string_lossy();
                    add(
                        group_of_variable(&name),
                        &name,
                        value.to_string_lossy().into_owned(),
                    );
                }
            } else {
                for (name, value) in &actor.env {
                    let value = value
                        .as_ref()
                        .map_or("(removed)".to_owned(), ToString::to_string);
                    let name = name.to_string();
                    add(group_of_variable(&name), &named(&name), value);
                }
            }
            first &= !main;
        }
    }
}

/// Formats the arguments of a command with visible boundaries.
fn quote_arguments(command: &[Text]) -> String {
    let words = command.iter().map(|word| {
        let word = word.to_string();
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'');
        if plain { word } else { format!("{word:?}") }
    });
    words.collect::<Vec<_>>().join(" ")
}

impl FactDifference {
    /// Returns whether the value may be a secret, which a shared report must not contain.
    pub fn is_secret(&self) -> bool {
        matches!(self.group, FactGroup::Variable | FactGroup::Trifle) && is_secret(&self.name)
    }

    /// Replaces values that may be secrets.
    #[must_use]
    pub fn hide_secrets(mut self) -> Self {
        if self.is_secret() {
            for value in [&mut self.left, &mut self.right] {
                *value = value.take().map(|_| "(not shown)".to_owned());
            }
        }
        self
    }

    fn with_explanation(mut self) -> Self {
        // `cpu[NAME].flags` belongs to a variant under an emulator.
        if self.group == FactGroup::Processor && self.name.rsplit('.').next() == Some("flags") {
            self.only_what_differs();
        } else if matches!(self.group, FactGroup::Variable) {
            self.note = super::variable_effect(&self.name).map(str::to_owned);
        }
        self
    }

    /// Reduces two lists to the elements that only one of them has, and notes which of these
    /// programs use.
    fn only_what_differs(&mut self) {
        let set = |list: &Option<String>| -> BTreeSet<String> {
            let words = list.as_deref().unwrap_or_default().split_whitespace();
            words.map(str::to_owned).collect()
        };
        let (left_flags, right) = (set(&self.left), set(&self.right));
        let only_in = |flags: &BTreeSet<String>, other_flags| {
            let words: Vec<&str> = flags.difference(other_flags).map(String::as_str).collect();
            (!words.is_empty()).then(|| words.join(" "))
        };
        (self.left, self.right) = (only_in(&left_flags, &right), only_in(&right, &left_flags));
        let used_flags: Vec<&str> = left_flags
            .symmetric_difference(&right)
            .filter(|flag| is_used(flag))
            .map(String::as_str)
            .collect();
        self.note = (!used_flags.is_empty()).then(|| {
            let used_text = used_flags.join(" ");
            format!("code using {used_text} dies with SIGILL on CPUs that lack them")
        });
    }
}
