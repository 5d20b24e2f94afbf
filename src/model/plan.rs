//! Plan of a run: everything that is needed to resume it or to replay a trial.

use super::{
    Baseline, Choice, Confirm, Container, Factor, Limits, Load, Make, Only, Question, Rules,
    Setting, Space, Text, is_default, micros,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// What the user asked for, complete: a run can be resumed and any trial of it
/// replayed from this alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The file that it came from, as it was named.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scenario: Option<Text>,
    /// What the trials are run for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub question: Question,
    /// What is run; at least one, tried in turn. Of a search, those that were chosen so far:
    /// first the one that fails.
    pub variants: Vec<VariantPlan>,
    /// What a search chooses its variants from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub space: Option<Space>,
    /// What the variants are made of, where they are all combinations of something.
    #[serde(default, skip_serializing_if = "is_default")]
    pub factors: Vec<Factor>,
    /// How many words of each main command are a prefix before what is tried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wrapped: u32,
    /// The whole environment of the trials before each actor's own changes.
    pub environment: Vec<(Text, Text)>,
    /// Commands around the trials.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Hooks,
    /// What the services of the variants are put under.
    #[serde(default, skip_serializing_if = "is_default")]
    pub load: Option<Load>,
    /// How long it may take to make a variant.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub make_limit: Duration,
    /// Limits of every process of a trial.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Vec<Limit>,
    /// Bytes of memory that the processes of a trial may use together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Option<u64>,
    /// Each trial gets a folder of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scratch: bool,
    /// When a trial is a hang.
    pub timeout: Timeout,
    /// Between the polite signal and the kill.
    #[serde(with = "micros")]
    pub grace: Duration,
    /// How long descendants may outlive the main process.
    #[serde(with = "micros")]
    pub settle: Duration,
    /// The user that the processes of trials run as, if not the one who runs provoke.
    #[serde(default, skip_serializing_if = "is_default")]
    pub user: Option<String>,
    /// What trials have an engine of containers make, and leave there, is theirs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub watch_engine: bool,
    /// How observations are judged.
    pub rules: Rules,
    /// When to stop.
    pub stop: Stop,
    /// Trials side by side.
    pub jobs: u32,
    /// Trials are started in groups of `jobs`, each when the one before is over.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waves: bool,
    /// Trials at the beginning that are not counted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warmup: u64,
    /// Pause of a lane before each trial.
    #[serde(default, skip_serializing_if = "is_default", with = "micros")]
    pub delay: Duration,
    /// The chance, in parts of 1, that a stated interval is wrong.
    pub alpha: Alpha,
    /// What the user hopes for; it turns the exit code.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: Expect,
    /// The number that the seeds of all trials derive from.
    pub seed: u64,
    /// Which output to keep.
    #[serde(default)]
    pub keep: Keep,
    /// How many trials of each signature are kept in full.
    pub keep_per_sig: u64,
    /// When cores are dumped.
    #[serde(default)]
    pub capture: Capture,
    /// What is dumped then.
    #[serde(default)]
    pub cores: Cores,
    /// Why no core can be had on this machine, where that is so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_cores: Option<String>,
}

/// The chance that a stated interval is wrong, in millionths, so that plans can be compared.
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
    /// Makes it from a confidence in per cent, such as 95.
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
    pub fn value(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// Returns the confidence in per cent.
    pub fn confidence(self) -> f64 {
        100.0 - f64::from(self.0) / 1e4
    }
}

/// One way to run the thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantPlan {
    /// Its name; empty if it is the only one.
    pub name: String,
    /// What it is, for people, where its name does not say it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub about: Option<String>,
    /// The processes of a trial.
    pub actors: Vec<ActorPlan>,
    /// Its level of each factor of the plan, in their order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub levels: Vec<u32>,
    /// Commands around its own trials: `setup` and `cleanup` besides those of the plan, `prepare`
    /// and `conclude` instead of them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hooks: Hooks,
    /// What is different in the folder that it runs in, which is a copy for it alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub edits: Vec<Edit>,
    /// How it is made before its first trial.
    #[serde(default, skip_serializing_if = "is_default")]
    pub make: Option<Make>,
    /// What it is of a plan's space.
    #[serde(default, skip_serializing_if = "is_default")]
    pub choice: Option<Choice>,
    /// How many clients the load has, if not as many as that of the plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: Option<u32>,
    /// This is the failing variant under a setting, tried before a search.
    #[serde(default, skip_serializing_if = "is_default")]
    pub setting: Option<Setting>,
}

impl VariantPlan {
    /// True when a search must do something for it before its first trial.
    pub fn is_made(&self) -> bool {
        self.choice.is_some() && (self.make.is_some() || self.hooks.setup.is_some())
    }
}

/// A file that a variant has otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// Which, from the working folder.
    pub file: Text,
    /// What is done to it.
    pub change: Change,
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Another file takes its place.
    Copy(Text),
    /// A piece of text in it is replaced, wherever it stands.
    Replace {
        /// What must be there.
        find: String,
        /// What is there then.
        with: String,
    },
    /// Pieces of a source of the plan's space are left out.
    LeaveOut {
        /// Which source.
        source: u32,
        /// Which pieces.
        pieces: Vec<u32>,
    },
    /// It is not there.
    Remove,
}

/// One role in a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorPlan {
    /// Its name; empty if it is the only one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name: String,
    /// What its end means.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
    /// The command; `{trial}` and the like are filled in.
    pub command: Vec<Text>,
    /// How many run at once: load within the trial.
    pub copies: u32,
    /// Variables set (or, without a value, removed) for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub env: Vec<(Text, Option<Text>)>,
    /// Where it runs.
    pub cwd: Text,
    /// A file for its standard input; nothing to read without one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdin: Option<Text>,
    /// It runs in a container.
    #[serde(default, skip_serializing_if = "is_default")]
    pub container: Option<Container>,
}

/// The role of an actor.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Decides the outcome; the trial is over when the last of these has ended.
    #[default]
    Main,
    /// Runs beside the main process and is stopped with it.
    Helper,
    /// Is put under load; if it ends before the load, that decides the outcome.
    Service,
}

impl Role {
    /// True when its end decides the outcome.
    pub fn decides(self) -> bool {
        self != Self::Helper
    }
}

/// Commands around the trials, each for `sh -c`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hooks {
    /// Once before all; what it leaves running lives until the end.
    #[serde(skip_serializing_if = "is_default")]
    pub setup: Option<Text>,
    /// Before each trial; if it fails, the trial says nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub prepare: Option<Text>,
    /// After each trial.
    #[serde(skip_serializing_if = "is_default")]
    pub conclude: Option<Text>,
    /// Once after all.
    #[serde(skip_serializing_if = "is_default")]
    pub cleanup: Option<Text>,
    /// Where those run that are not of a variant alone, if that is another folder than its own.
    #[serde(skip_serializing_if = "is_default")]
    pub cwd: Option<Text>,
}

/// When a trial is a hang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timeout {
    /// After this time.
    After(#[serde(with = "micros")] Duration),
    /// After a multiple of the median of the trials that passed.
    Auto,
}

/// When to stop: at whichever comes first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stop {
    /// After this many trials that count, of each variant.
    #[serde(skip_serializing_if = "is_default")]
    pub trials: Option<u64>,
    /// After this many failures, of each variant.
    #[serde(skip_serializing_if = "is_default")]
    pub failures: Option<u64>,
    /// When the interval is narrower than this, in millionths.
    #[serde(skip_serializing_if = "is_default")]
    pub width: Option<u32>,
    /// After this time, in microseconds.
    #[serde(skip_serializing_if = "is_default")]
    pub duration_us: Option<u64>,
    /// When the first trials all fail with the same exit code and message.
    #[serde(skip_serializing_if = "is_default")]
    pub all_alike: bool,
    /// These are not the limits that the run began with: the user chose them after a look at results.
    #[serde(skip_serializing_if = "is_default")]
    pub changed: bool,
}

impl Stop {
    /// Returns the time budget.
    pub fn duration(&self) -> Option<Duration> {
        self.duration_us.map(Duration::from_micros)
    }

    /// Replaces the number of trials and the time, unless neither is given.
    pub fn change(&mut self, limits: &Limits) {
        if limits.trials.is_some() || limits.duration_us.is_some() {
            self.trials = limits.trials;
            self.duration_us = limits.duration_us;
            self.changed = true;
        }
    }
}

/// What the user hopes for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// No failure.
    #[default]
    Pass,
    /// At least one failure: the bug is reproduced.
    Fail,
    /// A failure rate of at most this, in millionths.
    MaxRate(u32),
}

/// When the kernel may dump cores. Dumping changes the timing of the trials that run at the same time and after it, so
/// trials with and without cores are never counted together.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Capture {
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

/// What is dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cores {
    /// At most so many bytes of each process.
    pub limit: u64,
    /// How much of the memory.
    #[serde(skip_serializing_if = "is_default")]
    pub size: CoreSize,
}

/// How much of the memory of a process its core contains.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum CoreSize {
    /// The kernel's default.
    #[default]
    Full,
    /// Only registers and the list of modules: this shows the instruction, but not the stack.
    Light,
}

impl Default for Cores {
    fn default() -> Self {
        Self {
            limit: 2 << 30,
            size: CoreSize::Full,
        }
    }
}

/// Which output to keep.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// That of the first failures of each kind.
    #[default]
    Fail,
    /// That of every trial.
    All,
    /// Nothing.
    None,
}

/// A limit of every process of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What is limited.
    pub resource: Resource,
    /// To what, soft and hard alike; unlimited without a number.
    pub value: Option<u64>,
}

/// What can be limited, named as by `ulimit` and `prlimit`.
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

    /// True when its unit is a byte, so that `4G` makes sense.
    pub fn in_bytes(self) -> bool {
        !matches!(self, Self::Cpu | Self::Nofile | Self::Nproc)
    }
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
    /// True when its numbers make sense, as those of every plan do that was not read
    /// from a damaged file.
    pub fn is_sound(&self) -> bool {
        let decisive = if self.load.is_some() {
            Role::Service
        } else {
            Role::Main
        };
        let main = |actor: &ActorPlan| actor.role == decisive;
        self.jobs > 0
            && Alpha::from_confidence(self.alpha.confidence()) == Some(self.alpha)
            && !self.variants.is_empty()
            && self
                .variants
                .iter()
                .all(|variant| variant.actors.iter().any(main) && self.has_levels_of(variant))
            && self.has_reference()
            && self.has_choices()
            && self.has_clients()
            && self.settings().all(|(_, setting)| setting.jobs != Some(0))
            && self.has_earlier_trials()
    }

    /// Where no cores are dumped, no crash is known by its stack: then every failure with its
    /// exit status is the bug, for to miss it would be worse.
    pub fn widen(&mut self) {
        let dumps = matches!(self.capture, Capture::On | Capture::Trace);
        if dumps && self.no_cores.is_none() {
            return;
        }
        let Question::Confirm(Confirm {
            baseline: Baseline::Measured(base),
            ..
        }) = &self.question
        else {
            return;
        };
        for bug in base.bugs.iter().filter(|bug| bug.by_core) {
            for only in &mut self.rules.only {
                if matches!(only, Only::Signature(id) if bug.names.contains(id)) {
                    *only = Only::Signature(bug.widest);
                }
            }
        }
        self.rules.only.dedup();
    }

    fn has_levels_of(&self, variant: &VariantPlan) -> bool {
        let mut levels = self.factors.iter().zip(&variant.levels);
        variant.levels.len() == self.factors.len()
            && levels.all(|(factor, level)| (*level as usize) < factor.levels.len())
    }

    fn has_earlier_trials(&self) -> bool {
        let search = self.question.search();
        let earlier = search.and_then(|search| search.earlier.as_ref());
        earlier.is_none_or(|earlier| earlier.failures <= earlier.trials)
    }

    fn has_reference(&self) -> bool {
        match &self.question {
            Question::Compare(compare) => compare.reference.index() < self.variants.len(),
            _ => true,
        }
    }

    fn has_choices(&self) -> bool {
        let variants = || self.variants.iter();
        match (&self.question, &self.space) {
            (Question::Bisect(_) | Question::Reduce(_), Some(space)) => {
                let places = matches!(space.choices, super::Choices::Places(_));
                let cuts = space.choices.cuts().is_some();
                let chosen = |choice: &Choice| space.has(choice);
                let known = |known: &super::Known| (known.place as usize) < space.len();
                !cuts
                    && places == matches!(self.question, Question::Bisect(_))
                    && space.len() > usize::from(places)
                    && variants()
                        .all(|one| one.setting.is_some() || one.choice.as_ref().is_some_and(chosen))
                    && variants().next().and_then(|one| one.choice.as_ref())
                        == Some(&space.failing())
                    && space.known.iter().all(known)
                    && (space.weights.is_empty() || space.weights.len() == space.len())
            }
            (Question::Shrink(_), Some(space)) => {
                let chosen = |choice: &Choice| space.has(choice);
                self.load.is_some()
                    && space.choices.cuts().is_some()
                    && space.has(&space.failing())
                    && variants().all(|one| one.choice.as_ref().is_some_and(chosen))
                    && variants().next().and_then(|one| one.choice.as_ref())
                        == Some(&space.failing())
            }
            (Question::Bisect(_) | Question::Reduce(_) | Question::Shrink(_), None) => false,
            _ => self.space.is_none() && variants().all(|one| one.choice.is_none()),
        }
    }

    fn has_clients(&self) -> bool {
        let Question::Ramp(asked) = &self.question else {
            return true;
        };
        let levels = self.variants.iter().map(|one| one.clients.unwrap_or(0));
        let levels: Vec<u32> = levels.collect();
        let upwards = levels.windows(2).all(|pair| pair[0] < pair[1]);
        upwards && levels[0] > 0 && (1..1_000_000).contains(&asked.detect)
    }

    /// Returns what the lives of a variant are put under.
    pub fn load_of(&self, variant: &VariantPlan) -> Option<Load> {
        let mut load = self.load.clone()?;
        if let Some(Choice::Cut(cut)) = &variant.choice {
            load = cut.of(&load);
        }
        if let (Some(own), super::Pace::Closed { clients }) = (variant.clients, &mut load.pace) {
            *clients = own;
        }
        Some(load)
    }

    /// Returns the variant of this number.
    pub fn variant(&self, id: super::VariantId) -> &VariantPlan {
        &self.variants[id.index()]
    }
}
