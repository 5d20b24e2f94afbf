//! Plan of a run: everything that is needed to resume it or to replay a trial.

use super::{
    CasesPlan, Container, Factor, Hold, HostPlan, LoadPlan, ParallelSetting, Preparation, Question,
    ResumeLimits, Rules, SearchSpace, Text, VariantChoice, VariantId, is_default, micros,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Holds that a hunt has found, for every trial of another run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPlan {
    /// The hunt.
    pub run: String,
    /// Where threads are held.
    pub holds: Vec<Hold>,
}

/// Everything the user asked for. It is complete: the run can be resumed and any of its trials replayed from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The question, and the expected result.
    pub goal: Goal,
    /// When it stops.
    pub stop: StopLimits,
    /// How its trials run.
    pub trials: TrialsPlan,
}

/// The question of a run, its confidence, and the expected result. It does not change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// Path of the scenario file, as the user gave it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scenario: Option<Text>,
    /// The question that the run answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub question: Question,
    /// One minus the confidence of intervals.
    pub alpha: Alpha,
    /// The result that the user expects; it determines the exit code.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: ExpectedResult,
    /// Stored runs that compared the same program with the same maximum rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier_checks: u64,
}

/// How trials run: all that executors, slots and workers need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialsPlan {
    /// The variants, at least one, which take turns. In a search, the variants chosen so far, the failing one first.
    pub variants: Vec<VariantPlan>,
    /// The candidates or items from which a search chooses its variants.
    #[serde(default, skip_serializing_if = "is_default")]
    pub space: Option<SearchSpace>,
    /// The factors, if the variants are all combinations of their levels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub factors: Vec<Factor>,
    /// Number of leading arguments of each main command that wrap the program.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wrapped: u32,
    /// The complete environment of the trials, before the changes of each actor.
    pub environment: Vec<(Text, Text)>,
    /// Commands before and after the trials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Hooks,
    /// The load on the services of the variants.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load: Option<LoadPlan>,
    /// Time limit for preparing a variant.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub make_limit: Duration,
    /// The conditions of trials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conditions: TrialConditions,
    /// How a trial is run and what is kept of it.
    pub settings: TrialSettings,
    /// Rules for judging observations.
    pub rules: Rules,
    /// How the tests of a suite are found, if a trial is one run of the suite.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cases: Option<Box<CasesPlan>>,
    /// Number of parallel trials.
    pub jobs: u32,
    /// The hosts on which trials run; `None` for this machine.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hosts: Option<HostPlan>,
    /// Facts about every machine of the run that the user gives.
    #[serde(default, skip_serializing_if = "is_default")]
    pub facts: BTreeMap<String, String>,
    /// Whether trials start in groups of `jobs`, each after the one before has ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waves: bool,
    /// Number of trials at the beginning that are not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warmup: u64,
    /// Holds of every trial, which a hunt has found.
    #[serde(default, skip_serializing_if = "is_default")]
    pub held: Option<Box<HeldPlan>>,
    /// Seed from which the seeds of all trials derive.
    pub seed: u64,
}

/// Conditions of trials, which may change how often they fail: values by the names of levers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TrialConditions(BTreeMap<String, String>);

impl TrialConditions {
    /// Returns a value.
    pub fn get(&self, lever: &str) -> Option<&str> {
        self.0.get(lever).map(String::as_str)
    }

    /// Sets a value.
    pub fn set(&mut self, lever: &str, value: String) {
        self.0.insert(lever.to_owned(), value);
    }

    /// Removes a value.
    pub fn remove(&mut self, lever: &str) -> Option<String> {
        self.0.remove(lever)
    }

    /// Returns these conditions with others, which take precedence.
    #[must_use]
    pub fn with_others(&self, others: &Self) -> Self {
        let mut all = self.clone();
        all.0.extend(others.0.clone());
        all
    }

    /// Returns all values with the names of their levers.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let values = self.0.iter();
        values.map(|(lever, value)| (lever.as_str(), value.as_str()))
    }
}

/// How a trial is run, and what is kept of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialSettings {
    /// When a trial times out.
    pub timeout: Timeout,
    /// Time between SIGTERM and SIGKILL.
    #[serde(with = "micros")]
    pub grace: Duration,
    /// How long descendants may outlive the main process.
    #[serde(rename = "settle", with = "micros")]
    pub leak_grace: Duration,
    /// Whether each trial gets its own directory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scratch: bool,
    /// When cores are dumped.
    #[serde(default)]
    pub capture: CaptureMode,
    /// The contents and size of cores.
    #[serde(default)]
    pub cores: CoreSettings,
    /// Why this machine cannot capture cores, if it cannot.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_cores: Option<String>,
    /// Which output is kept.
    #[serde(default)]
    pub keep: KeepRule,
    /// Number of trials of each signature whose evidence is kept in full.
    pub keep_per_sig: u64,
}

impl Default for TrialSettings {
    fn default() -> Self {
        Self {
            scratch: false,
            timeout: Timeout::Auto,
            grace: Duration::from_secs(5),
            leak_grace: Duration::from_secs(2),
            keep: KeepRule::default(),
            keep_per_sig: 5,
            capture: CaptureMode::default(),
            cores: CoreSettings::default(),
            no_cores: None,
        }
    }
}

impl TrialSettings {
    /// Returns whether every trial may dump cores.
    pub fn dumps_cores(&self) -> bool {
        self.capture == CaptureMode::On && self.no_cores.is_none()
    }

    /// Returns whether a tracer follows the program from its start.
    pub fn traces(&self) -> bool {
        self.capture == CaptureMode::Trace
    }
}

/// One minus the confidence of intervals, in millionths, so that plans can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Alpha(u32);

impl Default for Alpha {
    /// 5 %: 95 % confidence.
    fn default() -> Self {
        Self(50_000)
    }
}

impl Alpha {
    /// Converts from a confidence in per cent, such as 95.
    pub fn from_confidence(percent: f64) -> Option<Self> {
        let millionths = ((100.0 - percent) * 1e4).round();
        let sensible = (1.0..=500_000.0).contains(&millionths);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be within 1..=500000"
        )]
        sensible.then_some(Self(millionths as u32))
    }

    /// Returns it as a probability.
    pub fn to_probability(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Returns the confidence in per cent.
    pub fn confidence_percent(self) -> f64 {
        100.0 - f64::from(self.0) / 1e4
    }
}

/// One of several versions of the command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantPlan {
    /// Name; empty for a single variant.
    pub name: String,
    /// Description for the user, if the name is not one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub about: Option<String>,
    /// The processes of a trial.
    pub actors: Vec<ActorPlan>,
    /// Level of each factor of the plan, in their order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub levels: Vec<u32>,
    /// Hooks of the trials of this variant: `setup` and `cleanup` run in addition to the hooks of the plan, `prepare` and `conclude`
    /// replace them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Hooks,
    /// Changes in the directory that it runs in, which is its own copy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub edits: Vec<EditPlan>,
    /// How it is prepared before its first trial.
    #[serde(default, skip_serializing_if = "is_default")]
    pub make: Option<Preparation>,
    /// Its choice from the plan's space.
    #[serde(default, skip_serializing_if = "is_default")]
    pub choice: Option<VariantChoice>,
    /// Number of clients of the load, if it differs from that of the plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: Option<u32>,
    /// The setting under which the failing variant is tried before a search.
    #[serde(default, skip_serializing_if = "is_default")]
    pub setting: Option<ParallelSetting>,
    /// Its own conditions, over those of the plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conditions: TrialConditions,
}

impl TrialsPlan {
    /// Returns whether the variants are one service under several loads.
    pub fn has_load_levels(&self) -> bool {
        self.variants
            .iter()
            .any(|variant| variant.clients.is_some())
    }

    /// Returns whether trials run in directories that provoke builds or changes for a variant.
    pub fn has_variant_directories(&self) -> bool {
        let template = self.space.as_ref().map(|space| &space.template);
        let mut variants = self.variants.iter().chain(template);
        variants.any(|variant| !variant.edits.is_empty() || variant.make.is_some())
    }
}

impl VariantPlan {
    /// Returns whether a search must prepare it before its first trial.
    pub fn is_made(&self) -> bool {
        self.choice.is_some() && (self.make.is_some() || self.hooks.setup.is_some())
    }

    /// Returns the first process that decides the outcome.
    pub fn main_actor(&self) -> Option<&ActorPlan> {
        self.actors
            .iter()
            .find(|actor| actor.role.decides_outcome())
    }
}

/// A change of a file in a variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditPlan {
    /// Path relative to the working directory.
    pub file: Text,
    /// The change.
    pub change: FileChange,
}

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// Replace the file with another one.
    Copy(Text),
    /// Replace all occurrences of a text.
    Replace {
        /// The text to find.
        find: String,
        /// The replacement.
        with: String,
    },
    /// Leave out pieces of a source of the plan's space.
    LeaveOut {
        /// Index of the source.
        source: u32,
        /// Indices of the pieces.
        pieces: Vec<u32>,
    },
    /// Remove the file.
    Remove,
}

/// One process of a trial, or several copies of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorPlan {
    /// Name; empty for a single actor.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: String,
    /// Role, which determines the effect of its end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: ActorRole,
    /// The command; marks such as `{trial}` are filled in.
    pub command: Vec<Text>,
    /// Number of copies that run at the same time.
    pub copies: u32,
    /// Environment variables that are set, or removed if they have no value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub env: Vec<(Text, Option<Text>)>,
    /// Working directory.
    pub cwd: Text,
    /// A file for stdin; `None` for empty input.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdin: Option<Text>,
    /// The container in which it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub container: Option<Container>,
}

/// The role of an actor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ActorRole {
    /// Decides the outcome; the trial is over when the last of these has ended.
    #[default]
    Main,
    /// Runs beside the main process and is stopped with it.
    Helper,
    /// Is put under load; if it ends before the load, that decides the outcome.
    Service,
}

impl ActorRole {
    /// Returns whether its end decides the outcome.
    pub fn decides_outcome(self) -> bool {
        self != Self::Helper
    }
}

/// Commands around the trials, run by `sh -c`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hooks {
    /// Runs once before all trials; processes that it leaves running live until the end of the run.
    #[serde(skip_serializing_if = "is_default")]
    pub setup: Option<Text>,
    /// Runs before each trial; if it fails, the trial is inconclusive.
    #[serde(skip_serializing_if = "is_default")]
    pub prepare: Option<Text>,
    /// Runs after each trial.
    #[serde(skip_serializing_if = "is_default")]
    pub conclude: Option<Text>,
    /// Runs once after all trials.
    #[serde(skip_serializing_if = "is_default")]
    pub cleanup: Option<Text>,
    /// Working directory of the hooks that do not belong to a single variant, if it differs from theirs.
    #[serde(skip_serializing_if = "is_default")]
    pub cwd: Option<Text>,
}

/// When a trial times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// After this time.
    After(#[serde(with = "micros")] Duration),
    /// After a time that provoke derives from earlier passing trials.
    Auto,
}

/// When to stop: at the first limit that is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopLimits {
    /// After this many counted trials of each variant.
    #[serde(skip_serializing_if = "is_default")]
    pub trials: Option<u64>,
    /// After this many failures of each variant.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: Option<u64>,
    /// If the interval is narrower than this, in millionths.
    #[serde(skip_serializing_if = "is_default")]
    pub width: Option<u32>,
    /// After this time, in microseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub duration_us: Option<u64>,
    /// If the first trials all fail with the same exit code and message.
    #[serde(skip_serializing_if = "is_default")]
    pub all_alike: bool,
    /// To exclude a fix that only halves the rate, although the question does not ask for it.
    #[serde(skip_serializing_if = "is_default")]
    pub exclude_half: bool,
    /// Whether the user changed the limits after seeing results.
    #[serde(skip_serializing_if = "is_default")]
    pub changed: bool,
}

impl StopLimits {
    /// Returns the time budget.
    pub fn time_budget(&self) -> Option<Duration> {
        self.duration_us.map(Duration::from_micros)
    }

    /// Replaces the number of trials and the time, unless both are missing. A fix that only halves the rate stays
    /// excluded.
    pub fn change_limits(&mut self, limits: &ResumeLimits) {
        if limits.trials.is_some() || limits.duration_us.is_some() {
            self.trials = limits.trials;
            self.duration_us = limits.duration_us;
            self.changed = true;
        }
        self.exclude_half |= limits.exclude_half;
    }
}

/// The result that the user expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedResult {
    /// No failure.
    #[default]
    Pass,
    /// At least one failure: the bug is reproduced.
    Fail,
    /// Anything: the failure rate is only measured.
    Any,
    /// A failure rate of at most this, in millionths.
    MaxRate(u32),
}

impl ExpectedResult {
    /// Returns whether trials are as expected of which some fail, or none.
    pub fn is_met(self, some_fail: bool) -> bool {
        match self {
            Self::Any => true,
            Self::Fail => some_fail,
            Self::Pass | Self::MaxRate(_) => !some_fail,
        }
    }
}

/// When the kernel may dump cores. Dumping changes the timing of the trials that run at the same time and after it, so
/// trials with and without cores are never counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CaptureMode {
    /// In extra trials after the measurement, if it showed crashes.
    #[default]
    Auto,
    /// Never.
    Off,
    /// In every trial; the rate is that of a program whose cores are dumped.
    On,
    /// In every trial, and a tracer follows the program from its start: it sees the first fault before the program's
    /// signal handlers do.
    Trace,
}

/// The contents and size of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CoreSettings {
    /// Maximum number of bytes for each process.
    pub limit: u64,
    /// How much of the memory is dumped.
    #[serde(skip_serializing_if = "is_default")]
    pub size: CoreSize,
}

/// How much of the memory of a process its core contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CoreSize {
    /// The kernel's default.
    #[default]
    Full,
    /// Only registers and the list of modules: this shows the instruction, but not the stack.
    Light,
}

impl Default for CoreSettings {
    fn default() -> Self {
        Self {
            limit: 2 << 30,
            size: CoreSize::Full,
        }
    }
}

/// Which output to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum KeepRule {
    /// That of the first failures of each kind.
    #[default]
    Fail,
    /// That of every trial.
    All,
    /// Nothing.
    None,
}

/// A resource limit of every process of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimit {
    /// The resource.
    pub resource: Resource,
    /// Soft and hard limit; `None` means unlimited.
    pub value: Option<u64>,
}

/// A resource, named as in `ulimit` and `prlimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of setrlimit(2)")]
pub enum Resource {
    As,
    Core,
    Cpu,
    Data,
    Fsize,
    Memlock,
    Nofile,
    Nproc,
    Rss,
    Stack,
}

impl Resource {
    /// Every resource with its name.
    pub const ALL: [(Self, &str); 10] = [
        (Self::As, "as"),
        (Self::Core, "core"),
        (Self::Cpu, "cpu"),
        (Self::Data, "data"),
        (Self::Fsize, "fsize"),
        (Self::Memlock, "memlock"),
        (Self::Nofile, "nofile"),
        (Self::Nproc, "nproc"),
        (Self::Rss, "rss"),
        (Self::Stack, "stack"),
    ];
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Self::ALL
            .iter()
            .find(|(resource, _)| resource == self)
            .expect("listed");
        f.pad(name)
    }
}

impl Plan {
    /// Returns whether the numbers of the plan are consistent; only a damaged file contains a plan whose numbers are
    /// not.
    pub fn is_sound(&self) -> bool {
        let alpha = self.goal.alpha;
        Alpha::from_confidence(alpha.confidence_percent()) == Some(alpha)
            && self.trials.is_sound()
            && self.goal.question.fits_trials(&self.trials)
    }
}

impl TrialsPlan {
    /// Returns the conditions of the trials of a variant.
    pub fn conditions_of(&self, variant: &VariantPlan) -> TrialConditions {
        self.conditions.with_others(&variant.conditions)
    }

    /// Returns the number of parallel trials on one machine.
    pub fn slots_per_host(&self) -> u32 {
        self.hosts.as_ref().map_or(self.jobs, |hosts| hosts.slots)
    }

    fn is_sound(&self) -> bool {
        let decisive = if self.load.is_some() {
            ActorRole::Service
        } else {
            ActorRole::Main
        };
        let main = |actor: &ActorPlan| actor.role == decisive;
        self.jobs > 0
            && !self.variants.is_empty()
            && self
                .variants
                .iter()
                .all(|variant| variant.actors.iter().any(main) && self.has_levels_of(variant))
            && self
                .variant_settings()
                .all(|(_, setting)| setting.jobs != Some(0))
    }

    fn has_levels_of(&self, variant: &VariantPlan) -> bool {
        let mut levels = self.factors.iter().zip(&variant.levels);
        variant.levels.len() == self.factors.len()
            && levels.all(|(factor, level)| (*level as usize) < factor.levels.len())
    }

    /// Returns the load on a variant.
    pub fn load_of(&self, variant: &VariantPlan) -> Option<LoadPlan> {
        let mut load = self.load.clone()?;
        if let (Some(space), Some(VariantChoice::Set(kept_items))) = (&self.space, &variant.choice)
        {
            load = space.reduced_load(&load, kept_items);
        }
        if let (Some(own_clients), super::RequestPace::Closed { clients }) =
            (variant.clients, &mut load.pace)
        {
            *clients = own_clients;
        }
        Some(load)
    }

    /// Returns the variant with this ID.
    pub fn variant_plan(&self, id: VariantId) -> &VariantPlan {
        &self.variants[id.index()]
    }

    /// Returns the main command of a variant without the arguments that wrap the program; empty if there is none.
    ///
    /// The plan of a damaged journal may lack the variant.
    pub fn unwrapped_command(&self, variant: VariantId) -> &[Text] {
        let main = self
            .variants
            .get(variant.index())
            .and_then(VariantPlan::main_actor);
        main.and_then(|actor| actor.command.get(self.wrapped as usize..))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plan(wrapped: u32, commands: &[&[&str]]) -> TrialsPlan {
        let variants = commands.iter().map(|command| VariantPlan {
            actors: [ActorRole::Helper, ActorRole::Main]
                .map(|role| ActorPlan {
                    name: String::new(),
                    role,
                    command: match role {
                        ActorRole::Main => command.iter().map(Text::from).collect(),
                        _ => vec!["helper".into()],
                    },
                    copies: 1,
                    env: Vec::new(),
                    cwd: "/".into(),
                    stdin: None,
                    container: None,
                })
                .into(),
            ..VariantPlan::default()
        });
        let variants: Vec<VariantPlan> = variants.collect();
        let fields = json!({
            "variants": variants,
            "wrapped": wrapped,
            "environment": [],
            "settings": { "timeout": Timeout::Auto, "grace": 0, "settle": 0, "keep_per_sig": 0 },
            "rules": Rules::default(),
            "jobs": 1,
            "seed": 0,
        });
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn an_unwrapped_command_begins_with_the_program() {
        let plan = plan(2, &[&["nice", "-n5", "./old", "-x"], &["nice", "-n5"]]);
        let words = |variant| plan.unwrapped_command(VariantId(variant));
        assert_eq!(words(0), [Text::from("./old"), Text::from("-x")]);
        for without_program in [1, 2] {
            assert_eq!(words(without_program), []);
        }
    }

    #[test]
    fn a_command_without_a_wrapper_is_complete() {
        let plan = plan(0, &[&["./old"]]);
        assert_eq!(plan.unwrapped_command(VariantId(0)), [Text::from("./old")]);
    }
}
