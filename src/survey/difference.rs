//! Compares the environments of two runs, the most suspicious difference first.

use super::files::is_digest;
use super::weight::{Group, group_of, group_of_variable, is_used};
use super::{Around, main_name};
use crate::model::is_secret;
use crate::model::{Host, Plan, Survey, Text};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Two runs and the differences between their environments; `provoke diff --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The first run.
    pub left: Run,
    /// The second run.
    pub right: Run,
    /// Probability that failure rates differ this much by chance; null if they cannot be compared.
    pub p_value: Option<f64>,
    /// Reason why the failure rates cannot be compared; null if they can.
    pub not_comparable: Option<String>,
    /// Differences, the most suspicious first.
    pub differences: Vec<Difference>,
}

/// A run in a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Name of the run.
    pub run: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Counted trials.
    pub trials: u64,
    /// Host name of the machine.
    pub host: String,
    /// CPU of the machine.
    pub cpu: String,
    /// Kernel of the machine.
    pub kernel: String,
    /// Facts about the environment were recorded.
    pub surveyed: bool,
}

impl Compared {
    /// Version of the format.
    pub const FORMAT: u32 = 1;

    /// Returns the comparison as JSON.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and numbers can be written") + "\n"
    }
}

/// Facts about one of two runs.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The plan, which contains commands and variables.
    pub plan: &'a Plan,
    /// The machine.
    pub host: &'a Host,
    /// Further recorded facts; empty in old runs.
    pub survey: &'a Survey,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Kind of the fact.
    pub group: Group,
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
pub fn find_differences(left: Side<'_>, right: Side<'_>) -> Vec<Difference> {
    let surveyed = !left.survey.0.is_empty() && !right.survey.0.is_empty();
    let [ours, theirs] = [left, right].map(|side| collect_facts(side, surveyed));
    let names: BTreeSet<&(Group, String)> = ours.keys().chain(theirs.keys()).collect();
    let differing = names.into_iter().filter_map(|key| {
        let (left, right) = (ours.get(key), theirs.get(key));
        (left != right).then(|| {
            Difference {
                group: key.0,
                name: key.1.clone(),
                left: left.cloned(),
                right: right.cloned(),
                note: None,
            }
            .with_explanation()
        })
    });
    differing.collect()
}

type Facts = BTreeMap<(Group, String), String>;

pub(super) fn collect_facts(side: Side<'_>, surveyed: bool) -> Facts {
    let mut facts = Facts::new();
    let mut add = |group, name: &str, value: String| {
        facts.insert((group, name.to_owned()), value);
    };
    let Side { plan, host, survey } = side;
    if surveyed {
        // A digest does not show which file differs.
        let told = survey.0.iter().filter(|(name, _)| !is_digest(name));
        for (name, value) in told {
            add(group_of(name), name, value.clone());
        }
    } else {
        add(Group::Processor, "cpu.model", host.cpu.clone());
        add(Group::Processor, "cpu.count", host.cpus.to_string());
        add(Group::Machine, "kernel.release", host.kernel.clone());
        add(Group::Machine, "memory.total", host.memory.to_string());
    }
    add(Group::Machine, "host.name", host.name.clone());
    add(Group::Machine, "host.arch", host.arch.clone());
    add_run_facts(plan, &mut add);
    add_commands(plan, &mut add);
    facts
}

/// Adds the settings of a plan's trials.
fn add_run_facts(plan: &Plan, add: &mut impl FnMut(Group, &str, String)) {
    add(Group::Run, "jobs", plan.jobs.to_string());
    if plan.waves {
        add(Group::Run, "waves", "yes".to_owned());
    }
    add(Group::Run, "capture", lowercase_debug(&plan.capture));
    let timeout = match plan.timeout {
        crate::model::Timeout::After(time) => format!("{} s", time.as_secs_f64()),
        crate::model::Timeout::Auto => "auto".to_owned(),
    };
    add(Group::Run, "timeout", timeout);
    if !plan.delay.is_zero() {
        add(
            Group::Run,
            "delay",
            format!("{} s", plan.delay.as_secs_f64()),
        );
    }
    if let Some(memory) = plan.memory {
        add(Group::Run, "memory", memory.to_string());
    }
    for limit in &plan.limits {
        let value = limit
            .value
            .map_or("unlimited".to_owned(), |n| n.to_string());
        add(Group::Run, &format!("rlimit.{}", limit.resource), value);
    }
}

fn lowercase_debug(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Adds the commands and their environments: the complete environment of the first command, and the
/// changes of the others.
fn add_commands(plan: &Plan, add: &mut impl FnMut(Group, &str, String)) {
    let mut first = true;
    for variant in &plan.variants {
        for actor in &variant.actors {
            let main = actor.role.decides_outcome();
            let named = |what: &str| match main_name(variant, actor) {
                name if name.is_empty() || (first && main) => what.to_owned(),
                name => format!("{what}[{name}]"),
            };
            add(
                Group::Program,
                &named("command"),
                quote_arguments(&actor.command),
            );
            add(Group::Run, &named("cwd"), actor.cwd.to_string());
            if let Some(file) = &actor.stdin {
                add(Group::Run, &named("stdin"), file.to_string());
            }
            if actor.copies != 1 {
                add(Group::Run, &named("copies"), actor.copies.to_string());
            }
            if first && main {
                for (name, value) in Around::of_actor(plan, actor).env {
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

impl Difference {
    /// Returns whether the value may be a secret, which a shared report must not contain.
    pub fn is_secret(&self) -> bool {
        matches!(self.group, Group::Variable | Group::Trifle) && is_secret(&self.name)
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
        if self.group == Group::Processor && self.name.rsplit('.').next() == Some("flags") {
            self.only_what_differs();
        } else if matches!(self.group, Group::Variable) {
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
        let (left, right) = (set(&self.left), set(&self.right));
        let only = |one: &BTreeSet<String>, other| {
            let words: Vec<&str> = one.difference(other).map(String::as_str).collect();
            (!words.is_empty()).then(|| words.join(" "))
        };
        (self.left, self.right) = (only(&left, &right), only(&right, &left));
        let used = left.symmetric_difference(&right);
        let used = used.filter(|flag| is_used(flag));
        let used: Vec<&str> = used.map(String::as_str).collect();
        self.note = (!used.is_empty()).then(|| {
            let used = used.join(" ");
            format!("code using {used} dies with SIGILL on CPUs that lack them")
        });
    }
}
