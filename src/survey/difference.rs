//! Compares the environments of two runs, the most suspicious difference first.

use super::files::is_digest;
use super::weight::{Group, group_of, group_of_variable, is_used};
use super::{Around, main_name};
use crate::model::is_secret;
use crate::model::{Host, Plan, Survey, Text};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Two runs and what differs between their surroundings; `provoke diff --json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// The version of this format; it changes when a field changes its name or its meaning.
    pub format: u32,
    /// The first run.
    pub left: Run,
    /// The second.
    pub right: Run,
    /// The probability of so different failure rates by chance; null if they cannot be compared.
    pub p_value: Option<f64>,
    /// Why the failure rates cannot be compared; null if they can.
    pub not_comparable: Option<String>,
    /// What differs, the most suspicious first.
    pub differences: Vec<Difference>,
}

/// A run in a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its name.
    pub run: String,
    /// Trials that showed the bug.
    pub failures: u64,
    /// Trials that count.
    pub trials: u64,
    /// The machine's name.
    pub host: String,
    /// Its processor.
    pub cpu: String,
    /// Its kernel.
    pub kernel: String,
    /// Facts about its surroundings were recorded.
    pub surveyed: bool,
}

impl Compared {
    /// The version of the format.
    pub const FORMAT: u32 = 1;

    /// Returns it for programs.
    pub fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        text.expect("names and numbers can be written") + "\n"
    }
}

/// What is known of one of two runs.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// What was run, in which environment.
    pub plan: &'a Plan,
    /// On which machine.
    pub host: &'a Host,
    /// What else is known of it; empty in runs of old.
    pub survey: &'a Survey,
}

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What it is about.
    pub group: Group,
    /// Its name, such as `library.libc.so.6` or that of a variable.
    pub name: String,
    /// What the first run had; null when it had none. Of flags: those that only it had.
    pub left: Option<String>,
    /// What the second had.
    pub right: Option<String>,
    /// Why it may matter, where that can be said.
    pub note: Option<String>,
}

/// Returns everything that differs, the most suspicious first.
pub fn differences(left: Side<'_>, right: Side<'_>) -> Vec<Difference> {
    let surveyed = !left.survey.0.is_empty() && !right.survey.0.is_empty();
    let [ours, theirs] = [left, right].map(|side| facts(side, surveyed));
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
            .explained()
        })
    });
    differing.collect()
}

type Facts = BTreeMap<(Group, String), String>;

pub(super) fn facts(side: Side<'_>, surveyed: bool) -> Facts {
    let mut facts = Facts::new();
    let mut add = |group, name: &str, value: String| {
        facts.insert((group, name.to_owned()), value);
    };
    let Side { plan, host, survey } = side;
    if surveyed {
        // A digest does not say which file differs.
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
    how(plan, &mut add);
    commands(plan, &mut add);
    facts
}

/// Adds what a plan says of how trials are run.
fn how(plan: &Plan, add: &mut impl FnMut(Group, &str, String)) {
    add(Group::Run, "jobs", plan.jobs.to_string());
    if plan.waves {
        add(Group::Run, "waves", "yes".to_owned());
    }
    add(Group::Run, "capture", lower(&plan.capture));
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

fn lower(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Adds the commands and their environments: the whole one of the first, and of the others
/// what they change.
fn commands(plan: &Plan, add: &mut impl FnMut(Group, &str, String)) {
    let mut first = true;
    for variant in &plan.variants {
        for actor in &variant.actors {
            let main = actor.role.decides();
            let named = |what: &str| match main_name(variant, actor) {
                name if name.is_empty() || (first && main) => what.to_owned(),
                name => format!("{what}[{name}]"),
            };
            add(Group::Program, &named("command"), typed(&actor.command));
            add(Group::Run, &named("cwd"), actor.cwd.to_string());
            if let Some(file) = &actor.stdin {
                add(Group::Run, &named("stdin"), file.to_string());
            }
            if actor.copies != 1 {
                add(Group::Run, &named("copies"), actor.copies.to_string());
            }
            if first && main {
                for (name, value) in Around::of(plan, actor).env {
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

/// Returns the words of a command so that it shows where each begins and ends.
fn typed(command: &[Text]) -> String {
    let words = command.iter().map(|word| {
        let word = word.to_string();
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'');
        if plain { word } else { format!("{word:?}") }
    });
    words.collect::<Vec<_>>().join(" ")
}

impl Difference {
    /// True when its value may be a secret, which is not for reports that are handed on.
    pub fn is_secret(&self) -> bool {
        matches!(self.group, Group::Variable | Group::Trifle) && is_secret(&self.name)
    }

    /// Puts something else in place of values that may be secrets.
    #[must_use]
    pub fn discreet(mut self) -> Self {
        if self.is_secret() {
            for value in [&mut self.left, &mut self.right] {
                *value = value.take().map(|_| "(not shown)".to_owned());
            }
        }
        self
    }

    fn explained(mut self) -> Self {
        // Also `cpu[NAME].flags`, of a variant under an emulator.
        if self.group == Group::Processor && self.name.rsplit('.').next() == Some("flags") {
            self.only_what_differs();
        } else if matches!(self.group, Group::Variable) {
            self.note = super::influence(&self.name).map(str::to_owned);
        }
        self
    }

    /// Leaves of two lists what only one of them has, and says which of that programs use.
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
