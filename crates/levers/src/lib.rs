//! The conditions that can be set around a trial, one file each.
//!
//! To add one: a file with a [`Lever`], and a line in [`LEVERS`]. Its flag, its key in a scenario file,
//! the schema, `provoke diff` and the comparison with a baseline follow from it.
//!
#![doc = include_str!("../README.md")]

mod amount;
mod aslr;
mod attempt;
mod clock;
mod clock_shift;
mod copies;
mod cpus;
mod date;
mod delay;
mod folders;
mod limits;
mod malloc_fill;
mod memory;
mod network;
mod order;
mod pauses;
mod pids;
mod rlimit;
mod simple;
mod slow_cpu;
mod slow_sync;
mod streams;
mod total_limit;
mod trial_folder;
mod umask;
mod user;
mod variables;
mod working_directory;

pub use attempt::try_start;
pub use streams::{InputKind, TerminalStreams};
pub use trial_folder::{FolderKind, TrialFolder};

pub use amount::{parse_bytes, parse_time};
pub use clock_shift::ClockShift;
pub use delay::delay_of;
pub use rlimit::{core_limit, resource_limits, without_core};
pub use user::{names_secret, user_of};
pub use working_directory::CwdCopy;

use provoke_model::{CaseOrder, ItemKind, ResourceLimit, TrialConditions, TrialsPlan, VariantPlan};
use provoke_sys::cgroup::TrialLimits;
use provoke_sys::limits as system_limits;
use provoke_sys::start_step::StartStep;
use provoke_sys::user::Credentials;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use serde::{Deserialize, Serialize};
use simple::Obstacle;
use std::io;
use std::time::Duration;

/// All levers, in the order of the help.
pub static LEVERS: &[&Lever] = &[
    &user::USER,
    &memory::MEMORY,
    &pids::PIDS,
    &rlimit::RESOURCE_LIMITS,
    &delay::DELAY,
    &date::DATE,
    &clock::CLOCK,
    &slow_cpu::SLOW_CPU,
    &pauses::PAUSES,
    &cpus::CPUS,
    &slow_sync::SLOW_SYNC,
    &limits::ADDRESS_SPACE,
    &limits::STACK,
    &limits::OPEN_FILES,
    &umask::UMASK,
    &variables::TIME_ZONE,
    &variables::LOCALE,
    &variables::HASH_SEED,
    &variables::CI,
    &folders::HOME,
    &folders::TMPDIR,
    &streams::TTY,
    &variables::COLUMNS,
    &streams::STDIN,
    &working_directory::READ_ONLY_DIR,
    &working_directory::FRESH_DIR,
    &network::NETWORK,
    &network::IPV6,
    &network::HOSTNAME,
    &copies::COPIES,
    &order::ORDER,
    &aslr::ASLR,
    &malloc_fill::MALLOC_FILL,
];

/// A condition that can be set around a trial.
pub struct Lever {
    /// Name of its flag, of its key in a scenario file, and of its value in a plan.
    pub name: &'static str,
    /// What it does, in a line of the list of conditions.
    pub about: &'static str,
    /// How its own flag is shown; without one, only `--under` sets it.
    pub flag: Option<LeverHelp>,
    /// How its value is written in a file.
    pub shape: ValueShape,
    /// Reads a value as it is typed. Returns it as it is stored.
    parse: fn(&str) -> Result<String, String>,
    /// Returns a stored value to which a later one was added. By default, it replaces the value.
    pub combine: fn(value: &str, later: &str) -> String,
    /// Name of the fact in the conditions of a run, if it is not that of the lever.
    fact_name: Option<&'static str>,
    /// Title of the fact in sentences about differences, if it is not its name.
    fact_title: Option<&'static str>,
    /// Explains a stored value to the reader of a run that started at this time, in seconds since 1970.
    explain_at: fn(value: &str, started_at: i64) -> Option<String>,
    /// Returns a stored value as people type it.
    typed: fn(&str) -> String,
    /// Returns the fact about a stored value.
    fact: fn(&str) -> String,
    /// The fact if no value is set.
    pub fact_without: &'static str,
    /// The option of a container engine with the same effect, which excludes this lever.
    pub container_option: Option<&'static str>,
    /// What to do in containers instead, where this lever has no effect; `None` if it has.
    instead_in_containers: Option<&'static str>,
    /// How a search for the conditions of a failure uses it, if it does. Without a family, its name is the family.
    search: Option<LeverSearch>,
    /// Checks that this machine can set the value for trials, and completes their plan. By default, finds an obstacle, and
    /// tries the start of a trial.
    prepare: fn(&Self, &str, &mut TrialsPlan) -> Result<(), Diagnostic>,
    /// What prevents that the lever has an effect on the trials of a plan; the machine is checked besides.
    obstacle: fn(&str, &TrialsPlan) -> Option<Obstacle>,
    /// What would make it available on a machine that refuses it.
    way_out: &'static str,
    /// Sets the value for the start of each trial.
    pub apply: fn(&str, &mut TrialStart) -> io::Result<()>,
}

impl Lever {
    /// Reads a value as it is typed. Returns it as it is stored.
    pub fn parse(&self, typed: &str) -> Result<String, String> {
        (self.parse)(typed)
    }

    /// Returns the name of the fact in the conditions of a run.
    pub fn fact_name(&self) -> &'static str {
        self.fact_name.unwrap_or(self.name)
    }

    /// Explains a stored value to the reader of a run that started at this time, in seconds since 1970.
    pub fn explain_at(&self, value: &str, started_at: i64) -> Option<String> {
        (self.explain_at)(value, started_at)
    }

    /// Returns the fact about a stored value.
    pub fn fact(&self, value: &str) -> String {
        (self.fact)(value)
    }

    /// Returns what a search for the conditions of a failure does with it, if it can do something.
    pub fn search(&self) -> Option<LeverSearch> {
        let mut search = self.search?;
        if search.family.is_empty() {
            search.family = self.name;
        }
        Some(search)
    }

    /// Checks that this machine can set the value for trials, and completes their plan.
    pub fn prepare(&self, value: &str, trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
        (self.prepare)(self, value, trials)
    }
}

/// How a search for the conditions of a failure uses a lever.
#[derive(Clone, Copy, Debug)]
pub struct LeverSearch {
    /// Name of the levers and values with a common cause.
    pub family: &'static str,
    /// Values that are tried, as they are typed: first the one that changes least, which is claimed if the others have the same effect.
    pub values: &'static [&'static str],
    /// Value that does the same to a trial as the others, except for what they are about: a shift of no time. Without it,
    /// the others are compared with plain trials. A value that a program may depend on, such as an empty directory, is no
    /// sham: the others would have no effect in comparison.
    pub sham: Option<&'static str>,
    /// Values from the mildest to the harshest, if they have an order.
    pub ladder: &'static [&'static str],
    /// Values that are seeds, each of which may have its own outcome.
    pub seeds: &'static [&'static str],
    /// Whether it is about the tests of a suite.
    pub only_in_suites: bool,
    /// Whether many programs fail under it, so that it is not combined with other conditions.
    pub is_harsh: bool,
    /// What a program that fails under it depends on: `deadline: it measures time that the process may not get`.
    pub cause: &'static str,
    /// The same for single values, if they differ.
    pub value_causes: &'static [(&'static str, &'static str)],
    /// The same of a program that passes under it, if the words differ.
    pub cause_if_removed: Option<&'static str>,
}

impl LeverSearch {
    /// Returns what a program that fails under a value depends on.
    pub fn cause_of(&self, value: &str) -> &'static str {
        let mut causes = self.value_causes.iter();
        let of_value = causes.find(|(known, _)| *known == value);
        of_value.map_or(self.cause, |(_, cause)| cause)
    }

    /// Returns how a search uses a lever that does not propose any values.
    pub fn of_one(lever: &Lever) -> Self {
        Self {
            family: lever.name,
            cause: lever.about,
            ..simple::SEARCH
        }
    }
}

/// The flag of a lever.
#[derive(Clone, Copy, Debug)]
pub struct LeverHelp {
    /// Name of its value.
    pub value: &'static str,
    /// One line, and optionally more paragraphs.
    pub text: &'static str,
    /// Group of flags in which it is shown.
    pub heading: &'static str,
}

/// How the value of a lever is written in a scenario file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// Text, or an integer.
    Amount,
    /// A positive integer.
    Count,
    /// Text.
    Name,
    /// Text, or seconds.
    Time,
    /// A table with these keys, of amounts; a flag sets `KEY=AMOUNT`.
    Table(&'static [&'static str]),
}

/// What levers can do: the start of a trial in its slot.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrialStart {
    /// Limits of every process.
    pub limits: Vec<ResourceLimit>,
    /// Limits of all processes together.
    pub total_limits: TrialLimits,
    /// User and groups of the processes, if provoke itself has others.
    pub identity: Option<Credentials>,
    /// Why no trial can be started under its conditions.
    pub refusal: Option<String>,
    /// Another wall-clock time than that of the machine.
    pub clock: Option<ClockShift>,
    /// Whether secrets in the environment are withheld from the processes.
    pub hides_secrets: bool,
    /// Variables that are set or removed, over all others.
    pub variables: Vec<(String, Option<String>)>,
    /// Directories that each trial gets for itself.
    pub folders: Vec<TrialFolder>,
    /// What each process does before it executes its program.
    pub steps: Vec<StartStep>,
    /// Streams that are a terminal.
    pub terminal: Option<TerminalStreams>,
    /// Columns of the terminal, if they are not 80.
    pub columns: Option<u16>,
    /// What stdin is, if no file is given for it.
    pub input: Option<InputKind>,
    /// The copy of its working directory in which each trial runs.
    pub cwd_copy: Option<CwdCopy>,
    /// Length of the pauses in which no process runs, each after half as long a time.
    pub pauses: Option<Duration>,
    /// How much longer calls take that wait until data is on a disk.
    pub sync_delay: Option<Duration>,
    /// Copies of the main command that run at the same time and are not judged.
    pub other_copies: u32,
    /// The order of the tests of a suite, if its runner does not choose it.
    pub case_order: Option<CaseOrder>,
}

impl TrialStart {
    /// Applies all levers that have a value. A value that this version does not know is an error: without it, a trial
    /// would run under other conditions.
    pub fn new(conditions: &TrialConditions) -> io::Result<Self> {
        let mut start = Self::default();
        for (name, value) in conditions.all() {
            let refuse = |reason: String| {
                let condition = format!("{name}={value}");
                let shown = condition.to_safe();
                io::Error::other(format!("cannot set the condition `{shown}`: {reason}"))
            };
            let lever = find_lever(name);
            let lever =
                lever.ok_or_else(|| refuse("another version of provoke set it".to_owned()))?;
            let value = lever.parse(value).map_err(refuse)?;
            (lever.apply)(&value, &mut start)?;
        }
        Ok(start)
    }

    /// Returns the limits of every process in the form of `setrlimit`.
    pub fn process_limits(&self) -> Vec<(u32, u64)> {
        let limits = self.limits.iter().map(|limit| {
            (
                system_limits::limit_number(&limit.resource.to_string()).unwrap_or(u32::MAX),
                limit.value.unwrap_or(system_limits::UNLIMITED),
            )
        });
        limits.collect()
    }

    /// Applies all levers that have a value. If that is impossible, no trial is started.
    pub fn or_refusal(conditions: &TrialConditions) -> Self {
        Self::new(conditions).unwrap_or_else(|error| Self {
            refusal: Some(error.to_string()),
            ..Self::default()
        })
    }
}

/// Returns the lever with a name.
pub fn find_lever(name: &str) -> Option<&'static Lever> {
    LEVERS.iter().copied().find(|lever| lever.name == name)
}

/// Returns the title of the fact of a lever.
pub fn fact_title(fact_name: &str) -> Option<&'static str> {
    let mut levers = LEVERS.iter();
    let lever = levers.find(|lever| lever.fact_name() == fact_name);
    lever.map(|lever| lever.fact_title.unwrap_or(lever.fact_name()))
}

/// Returns the levers that have a value, without unknown ones.
pub fn set_levers(conditions: &TrialConditions) -> impl Iterator<Item = (&'static Lever, &str)> {
    let values = conditions.all();
    values.filter_map(|(name, value)| Some((find_lever(name)?, value)))
}

/// Returns conditions as they are typed: `date=+2y`.
pub fn typed_conditions(conditions: &TrialConditions) -> Vec<String> {
    let typed = set_levers(conditions).map(|(lever, value)| match value {
        "" => lever.name.to_owned(),
        _ => format!("{}={}", lever.name, (lever.typed)(value)),
    });
    typed.collect()
}

/// Returns whether trials of a plan may run as another user.
pub fn may_change_user(trials: &TrialsPlan) -> bool {
    let items = trials
        .space
        .iter()
        .flat_map(|space| space.choices.as_items());
    let mut searched = items.filter_map(|item| match &item.what {
        ItemKind::Condition(condition) => Some(condition.lever.as_str()),
        _ => None,
    });
    let variants = trials.variants.iter().map(|variant| &variant.conditions);
    let mut conditions = variants.chain([&trials.conditions]);
    conditions.any(|conditions| user_of(conditions).is_some())
        || searched.any(|lever| lever == user::USER.name)
}

/// Checks that all levers that have a value apply to the trials.
pub fn check_trials(trials: &TrialsPlan) -> Result<(), Diagnostic> {
    let is_contained =
        |variant: &&VariantPlan| variant.actors.iter().any(|actor| actor.container.is_some());
    let contained = trials.variants.iter().filter(is_contained);
    let refused = contained
        .map(|variant| trials.conditions_of(variant))
        .find_map(|conditions| {
            set_levers(&conditions)
                .find_map(|(lever, _)| Some((lever.name, lever.instead_in_containers?)))
        });
    refused.map_or(Ok(()), |(name, instead)| {
        let message = format!("the condition `{name}` does not apply to trials in containers");
        Err(Diagnostic::usage(message).with_hint(instead))
    })
}

/// Checks that this machine can set all levers that have a value, and completes the plan of the trials that it runs.
pub fn prepare_trials(trials: &mut TrialsPlan) -> Result<(), Diagnostic> {
    let conditions = trials.conditions.clone();
    set_levers(&conditions).try_for_each(|(lever, value)| lever.prepare(value, trials))?;
    for variant in trials.variants.clone() {
        // What a plan has for all variants is not changed for one of them.
        let mut own = trials.clone();
        own.conditions = trials.conditions_of(&variant);
        set_levers(&variant.conditions)
            .try_for_each(|(lever, value)| lever.prepare(value, &mut own))?;
        check_together(&own.conditions)?;
    }
    Ok(())
}

/// Checks that this machine can set several conditions of a trial together.
fn check_together(conditions: &TrialConditions) -> Result<(), Diagnostic> {
    let typed = typed_conditions(conditions);
    if typed.len() < 2 {
        return Ok(());
    }
    let started = TrialStart::new(conditions).and_then(|start| try_start(&start));
    started.map_err(|error| {
        let message = format!("cannot set these conditions together: {}", typed.join(", "));
        let refusal = Diagnostic::could_not(message).because(error);
        refusal.with_hint("leave one of them out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_stored_value_is_read_as_it_is() {
        for (lever, typed, stored) in [
            ("memory", "500M", "524288000"),
            ("pids", "64", "64"),
            ("rlimit", "nofile=64,as=4G", "as=4294967296,nofile=64"),
            ("user", "nobody", "nobody"),
            ("delay", "1.5s", "1500000us"),
            ("date", "+2y", "+2y"),
            ("date", "+ 1year 6 months", "+1y6mo"),
            ("date", "-30d", "-30d"),
            ("date", "+0", "+0"),
            ("date", "-0d", "+0"),
            ("date", "2039-06-15", "2039-06-15"),
            ("clock", "23:59:58", "23:59:58"),
            ("clock", "7:05", "07:05:00"),
            ("clock", "now", "now"),
        ] {
            let lever = find_lever(lever).unwrap();
            assert_eq!(lever.parse(typed).unwrap(), stored);
            assert_eq!(lever.parse(stored).unwrap(), stored);
            assert_eq!(lever.parse(&(lever.typed)(stored)).unwrap(), stored);
        }
    }

    #[test]
    fn a_search_tries_values_that_their_levers_read() {
        for lever in LEVERS {
            let Some(search) = lever.search() else {
                continue;
            };
            assert!(!(search.values.is_empty() && search.seeds.is_empty()));
            assert!(!search.cause.is_empty());
            for typed in search
                .values
                .iter()
                .chain(search.seeds)
                .chain(search.ladder)
                .chain(&search.sham)
            {
                let stored = lever.parse(typed).unwrap();
                assert_eq!(lever.parse(&stored).unwrap(), stored, "{}", lever.name);
            }
        }
    }

    #[test]
    fn a_value_that_means_nothing_is_refused() {
        for (lever, typed) in [
            ("memory", "1M"),
            ("memory", "unlimited"),
            ("pids", "0"),
            ("rlimit", "nofile"),
            ("delay", "soon"),
            ("date", "2y"),
            ("date", "+soon"),
            ("date", "+9000y"),
            ("date", "-100y"),
            ("date", "2039-02-30"),
            ("date", "1969-12-31"),
            ("clock", "24:00:00"),
            ("clock", "noon"),
            ("clock", "12"),
            ("clock", "12:00:00.5"),
            ("user", ""),
            ("slow-cpu", "0%"),
            ("pauses", "2m"),
            ("cpus", "0"),
            ("stack", "unlimited"),
            ("fds", "2"),
            ("umask", "800"),
            ("tz", "../passwd"),
            ("locale", "C LANG=x"),
            ("hash-seed", "-1"),
            ("ci", "yes"),
            ("columns", "0"),
            ("tmpdir", "short"),
            ("tty", "stdin"),
            ("stdin", "open"),
            ("net", "fast"),
            ("slow-sync", "2m"),
            ("ipv6", "no"),
            ("hostname", "a b"),
            ("copies", "0"),
            ("order", "0"),
            ("order", "backwards"),
            ("malloc-fill", "256"),
        ] {
            assert!(
                find_lever(lever).unwrap().parse(typed).is_err(),
                "{lever} {typed}"
            );
        }
    }

    #[test]
    fn a_lever_without_effect_in_containers_is_refused_there() {
        let container =
            json!({ "engine": "docker", "image": "debian", "enters": true, "network": "none" });
        let actor = json!({ "name": "", "role": "main", "command": ["true"], "copies": 1, "env": [], "cwd": "/" });
        for (lever, is_refused) in [("delay", false), ("user", true)] {
            let mut actor = actor.clone();
            actor["container"] = container.clone();
            let mut trials: TrialsPlan = serde_json::from_value(json!({
                "variants": [{ "name": "", "actors": [actor] }],
                "environment": [],
                "settings": { "timeout": "auto", "grace": 0, "settle": 0, "keep_per_sig": 0 },
                "rules": provoke_model::Rules::default(),
                "jobs": 1,
                "seed": 0,
            }))
            .unwrap();
            let message = "the condition `user` does not apply to trials in containers";
            let expected = is_refused.then_some(message);
            let refusal_of =
                |trials: &TrialsPlan| check_trials(trials).err().map(|error| error.message);
            let mut of_one_variant = trials.clone();
            let conditions = &mut of_one_variant.variants[0].conditions;
            conditions.set(lever, "1s".to_owned());
            trials.conditions.set(lever, "1s".to_owned());
            for trials in [trials, of_one_variant] {
                assert_eq!(refusal_of(&trials).as_deref(), expected);
            }
        }
    }

    #[test]
    fn only_facts_of_levers_have_titles_here() {
        assert_eq!(fact_title("limits"), Some("resource limits"));
        assert_eq!(fact_title("user"), Some("user"));
        assert_eq!(fact_title("kernel"), None);
    }

    #[test]
    fn no_trial_starts_without_one_of_its_conditions() {
        for (lever, value, allowed) in [
            ("pids", "7", true),
            ("gravity", "2", false),
            ("pids", "many", false),
            ("rlimit", "nofile=64,gravity=2", false),
            ("delay", "soon", false),
        ] {
            let mut conditions = TrialConditions::default();
            conditions.set(lever, value.to_owned());
            let started = TrialStart::new(&conditions);
            assert_eq!(started.is_ok(), allowed, "{lever}={value}");
        }
    }
}
