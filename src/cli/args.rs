//! The flags of `run`, and what they say of a [`Scenario`].

use crate::model::{Capture, CoreSize, Keep, Leaks};
use crate::scenario::{
    Amount, Codes, Confidence, EnvValue, Expectation, OnlyRule, Pattern, Rate, ResourceName,
    Scenario, Span, TimeoutValue, Variable,
};
use clap::{Args, ValueEnum};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// What may be said on the command line about an experiment; everything can also
/// stand in a scenario file, under the same name.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Flags {
    /// Trials of each variant [default: 100, unless another rule or the question ends the run]
    #[arg(short = 'n', long, alias = "count", short_alias = 'r', value_name = "N", help_heading = OFTEN)]
    runs: Option<u64>,
    /// Trials side by side; they share the machine, and that changes timing
    #[arg(short, long, value_name = "N", help_heading = OFTEN)]
    jobs: Option<NonZeroU32>,
    /// Copies of the command at once within each trial: load that belongs to the experiment
    #[arg(long, value_name = "N", help_heading = OFTEN)]
    copies: Option<NonZeroU32>,
    /// Start N trials together, and the next N when all have ended
    #[arg(long, value_name = "N", help_heading = OFTEN)]
    wave: Option<NonZeroU32>,
    /// First trials that are not counted
    #[arg(short, long, value_name = "N", help_heading = OFTEN)]
    warmup: Option<u64>,
    /// Pause before each trial
    #[arg(long, value_name = "TIME", help_heading = OFTEN)]
    delay: Option<Span>,
    /// What all seeds of trials derive from; a random one is chosen and reported
    #[arg(long, value_name = "N", help_heading = OFTEN)]
    seed: Option<u64>,

    /// One trial that takes longer is a hang: 60s, 2m, or `auto` (ten times the median) [default: 10m]
    #[arg(short, long, value_name = "TIME|auto", help_heading = STOP)]
    timeout: Option<TimeoutValue>,
    /// Between asking a hanging trial to end and killing it [default: 5s]
    #[arg(long, value_name = "TIME", help_heading = STOP)]
    grace: Option<Span>,
    /// Time for all trials together; running trials may finish, a service run is stopped [default: 10m for a plain run without -n]
    #[arg(short, long, value_name = "TIME", help_heading = STOP)]
    duration: Option<Span>,
    /// Stop at the first failure
    #[arg(short = 'x', long, help_heading = STOP)]
    fail_fast: bool,
    /// Stop after K failures: 3 make a good baseline for confirming a fix
    #[arg(long, value_name = "K", help_heading = STOP)]
    max_fail: Option<u64>,
    /// Stop when the interval is narrower than W, such as 0.1 or 10%
    #[arg(long, value_name = "W", help_heading = STOP)]
    width: Option<Rate>,
    /// Confidence of every interval, in per cent [default: 95]
    #[arg(long, value_name = "PERCENT", help_heading = STOP)]
    conf: Option<Confidence>,

    /// Exit codes that are fine [default: 0]
    #[arg(short = 'i', long, value_name = "CODES", help_heading = JUDGE)]
    ok: Option<Codes>,
    /// Exit codes that say nothing about the program [default: 125]
    #[arg(long, value_name = "CODES", help_heading = JUDGE)]
    skip: Option<Codes>,
    /// A line of output that matches makes the trial a failure
    #[arg(long, value_name = "REGEX", help_heading = JUDGE)]
    fail_if_out: Vec<Pattern>,
    /// A line of output that matches makes a failing exit a pass
    #[arg(long, value_name = "REGEX", help_heading = JUDGE)]
    ok_if_out: Vec<Pattern>,
    /// Which failures are the bug: SIGSEGV, code:3, hang, leak, oom, output, sig:ID; others are tallied apart
    #[arg(long, value_name = "KIND", value_delimiter = ',', help_heading = JUDGE)]
    only: Vec<OnlyRule>,
    /// What a process that outlives its trial means [default: fail]
    #[arg(long, value_name = "off|report|fail", value_parser = leaks, help_heading = JUDGE)]
    leaks: Option<Leaks>,
    /// Containers, volumes and networks that a trial makes and leaves behind are leaks too, and removed
    #[arg(long, help_heading = JUDGE)]
    watch_engine: bool,
    /// A child that crashed is no failure of a trial whose main process ended well
    #[arg(long, help_heading = JUDGE)]
    ignore_child_crashes: bool,
    /// How long descendants may outlive the main process before they are leaks [default: 2s]
    #[arg(long, value_name = "TIME", help_heading = JUDGE)]
    leak_grace: Option<Span>,
    /// `fail`: reproducing the failure is the success, and exits with 0
    #[arg(long, value_name = "pass|fail", help_heading = JUDGE)]
    expect: Option<Expectation>,
    /// Exit with 0 if the rate is at most P, 1 if it is above, 3 if that is not known
    #[arg(long, value_name = "P", help_heading = JUDGE)]
    max_rate: Option<Rate>,

    /// Run the words after `--` as one line for `sh -c`
    #[arg(long, value_name = "LINE", help_heading = TRIAL)]
    shell: Option<String>,
    /// Set a variable (K=V), or remove it (K)
    #[arg(short, long = "env", value_name = "K=V", value_parser = variable, help_heading = TRIAL)]
    env: Vec<(String, EnvValue)>,
    /// Try each of these values, with each of every other -L: {VAR} stands for it; where it stands
    /// nowhere, the variable VAR of the environment is set
    #[arg(short = 'L', long, value_name = "VAR=a,b", help_heading = TRIAL)]
    matrix: Vec<Variable>,
    /// Start from an empty environment
    #[arg(long, help_heading = TRIAL)]
    env_clear: bool,
    /// Working directory
    #[arg(long, value_name = "DIR", help_heading = TRIAL)]
    cwd: Option<PathBuf>,
    /// A file for standard input; without one there is nothing to read
    #[arg(long, value_name = "FILE", help_heading = TRIAL)]
    stdin: Option<PathBuf>,
    /// Give each trial a folder of its own: {dir}, PROVOKE_DIR, TMPDIR
    #[arg(long, help_heading = TRIAL)]
    tmp_per_run: bool,
    /// Run each trial in a container of this image, which is on this machine; to bisect, its tags in
    /// order: app:1.0,1.1,1.2
    #[arg(long, value_name = "IMAGE", help_heading = TRIAL)]
    image: Option<String>,
    /// What runs containers [default: the first of the two that answers]
    #[arg(long, value_name = "docker|podman", help_heading = TRIAL)]
    engine: Option<String>,
    /// What a container sees of this machine: PATH, PATH:INSIDE or PATH:INSIDE:ro [default: the
    /// working folder; `none` for nothing]
    #[arg(long, value_name = "PATH", help_heading = TRIAL)]
    mount: Vec<String>,
    /// The network of a container [default: none; of a service under load, host]
    #[arg(long, value_name = "NAME", help_heading = TRIAL)]
    network: Option<String>,
    /// A further option for containers: memory=1g, cpus=2, user=1000, runtime=runsc, gpus=all
    #[arg(long, value_name = "NAME=VALUE", help_heading = TRIAL)]
    container: Vec<String>,
    /// Run the processes of trials as this user; provoke and hooks run as root
    #[arg(long, value_name = "NAME", help_heading = TRIAL)]
    user: Option<String>,
    /// Put this before the command: 'rr record -o {dir}/trace'
    #[arg(long, value_name = "PREFIX", help_heading = TRIAL)]
    wrap: Option<String>,
    /// Limit the memory that the processes of a trial use together: 500M, 2G; beyond it, the kernel
    /// kills one of them (outcome `oom`)
    #[arg(long, value_name = "SIZE", value_parser = memory, help_heading = TRIAL)]
    memory: Option<Amount>,
    /// Limit a resource of every process: as=4G, nofile=64; core=4G also turns capturing on
    #[arg(long, value_name = "NAME=N", value_delimiter = ',', value_parser = limit, help_heading = TRIAL)]
    rlimit: Vec<(ResourceName, Amount)>,
    /// Shell command once before all; what it leaves running lives until the end
    #[arg(short, long, value_name = "CMD", help_heading = TRIAL)]
    setup: Option<String>,
    /// Shell command before each trial; if it fails, the trial says nothing
    #[arg(long, value_name = "CMD", help_heading = TRIAL)]
    prepare: Option<String>,
    /// Shell command after each trial
    #[arg(long, value_name = "CMD", help_heading = TRIAL)]
    conclude: Option<String>,
    /// Shell command once after all
    #[arg(long, value_name = "CMD", help_heading = TRIAL)]
    cleanup: Option<String>,

    /// Whose output is kept [default: fail]
    #[arg(long, value_name = "fail|all|none", value_parser = keep, help_heading = RESULT)]
    keep: Option<Keep>,
    /// Trials of each signature that are kept in full [default: 5]
    #[arg(long, value_name = "N", help_heading = RESULT)]
    keep_per_sig: Option<u64>,
    /// When cores are dumped: in a few more trials after the measurement, never, in every trial,
    /// or in every trial with a tracer beside it [default: auto]
    #[arg(long, value_name = "auto|off|on|trace", value_parser = capture, help_heading = RESULT)]
    capture: Option<Capture>,
    /// What is dumped: light leaves out the memory of huge processes [default: full]
    #[arg(long, value_name = "full|light", value_parser = cores, help_heading = RESULT)]
    cores: Option<CoreSize>,

    /// Run commands from a run that belongs to another user, or that was copied
    #[arg(long, help_heading = TRIAL)]
    trust: bool,

    #[expect(
        clippy::option_option,
        reason = "a trap: the flag means different things elsewhere"
    )]
    #[arg(short = 'p', hide = true, num_args = 0..=1, value_name = "N")]
    p: Option<Option<String>>,
}

const OFTEN: &str = "How often";
const STOP: &str = "When to stop";
const JUDGE: &str = "What is a failure";
const TRIAL: &str = "What a trial is";
pub(super) const RESULT: &str = "Results";

/// Where results go, and how much is said on the way.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Output {
    /// Folder of this run [default: a new one below provoke-out, or below PROVOKE_HOME]
    #[arg(short, long, value_name = "DIR", help_heading = RESULT)]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) talk: Talk,
    #[command(flatten)]
    pub(super) exports: Exports,
}

/// How much is said.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Talk {
    /// Only the result
    #[arg(short, long, help_heading = RESULT)]
    pub(super) quiet: bool,
    /// Every trial as it ends
    #[arg(short, long, conflicts_with = "quiet", help_heading = RESULT)]
    pub(super) verbose: bool,
    /// A live line, a tick or cross for each trial, or plain lines
    #[arg(long, value_enum, default_value_t, help_heading = RESULT)]
    pub(super) style: Style,
    /// Whether there is a live line: where there is a terminal, as plain lines, or none
    #[arg(long, value_enum, default_value_t, help_heading = RESULT)]
    pub(super) progress: Progress,
}

/// How a run shows itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Style {
    /// A live line; failures scroll by.
    #[default]
    Line,
    /// A tick or a cross for each trial, in order.
    Ticks,
    /// Lines, without any movement.
    Plain,
}

/// Whether there is a live line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Progress {
    /// Where standard error is a terminal.
    #[default]
    Auto,
    /// A line now and then.
    Plain,
    /// None.
    None,
}

/// Where reports go.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Exports {
    /// Write the report as JSON (`-` for standard output)
    #[arg(long = "export-json", value_name = "FILE", help_heading = RESULT)]
    pub(super) json: Option<PathBuf>,
    /// Write one JSON line a trial
    #[arg(long = "export-jsonl", value_name = "FILE", help_heading = RESULT)]
    pub(super) jsonl: Option<PathBuf>,
    /// Write one CSV row a trial
    #[arg(long = "export-csv", value_name = "FILE", help_heading = RESULT)]
    pub(super) csv: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long = "export-junit", value_name = "FILE", help_heading = RESULT)]
    pub(super) junit: Option<PathBuf>,
    /// Write Markdown
    #[arg(long = "export-md", value_name = "FILE", help_heading = RESULT)]
    pub(super) md: Option<PathBuf>,
}

impl Flags {
    /// Returns what is wrong with the flags beyond what the parser can see.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        let trap = "did you mean `-j` (trials side by side) or `--prepare` (before each trial)?";
        self.p.is_some().then_some(trap)
    }

    /// Returns what means something else, or nothing, for the life of a service.
    pub(super) fn not_for_a_life(&self) -> Option<(&'static str, &'static str)> {
        if self.timeout.is_some() {
            return Some((
                "-t",
                "a life ends by --requests or --time; without an answer for --hang-after it is a hang",
            ));
        }
        let codes = "no end of a service under load is fine, whatever its exit code";
        let said = [("--ok", self.ok.is_some()), ("--skip", self.skip.is_some())];
        let said = said.iter().find(|(_, said)| *said);
        said.map(|(flag, _)| (*flag, codes))
    }

    /// Lets what was said on the command line win over what a file says.
    pub(super) fn overlay(self, command: Vec<String>, scenario: &mut Scenario) {
        fn set<T>(field: &mut Option<T>, said: Option<T>) {
            if said.is_some() {
                *field = said;
            }
        }
        fn add<T>(field: &mut Vec<T>, said: Vec<T>) {
            if !said.is_empty() {
                *field = said;
            }
        }
        if !command.is_empty() || self.shell.is_some() {
            scenario.command = (!command.is_empty()).then_some(command);
            scenario.shell = self.shell;
        }
        set(&mut scenario.runs, self.runs);
        set(&mut scenario.jobs, self.jobs);
        set(&mut scenario.copies, self.copies);
        set(&mut scenario.wave, self.wave);
        set(&mut scenario.warmup, self.warmup);
        set(&mut scenario.delay, self.delay);
        set(&mut scenario.seed, self.seed);
        set(&mut scenario.timeout, self.timeout);
        set(&mut scenario.grace, self.grace);
        set(&mut scenario.duration, self.duration);
        set(&mut scenario.fail_fast, self.fail_fast.then_some(true));
        set(&mut scenario.max_fail, self.max_fail);
        set(&mut scenario.width, self.width);
        set(&mut scenario.conf, self.conf);
        set(&mut scenario.ok, self.ok);
        set(&mut scenario.skip, self.skip);
        add(&mut scenario.fail_if_out, self.fail_if_out);
        add(&mut scenario.ok_if_out, self.ok_if_out);
        add(&mut scenario.only, self.only);
        set(&mut scenario.leaks, self.leaks);
        set(
            &mut scenario.watch_engine,
            self.watch_engine.then_some(true),
        );
        set(&mut scenario.leak_grace, self.leak_grace);
        set(&mut scenario.expect, self.expect);
        set(&mut scenario.max_rate, self.max_rate);
        scenario.env.extend(self.env);
        scenario.matrix.overlay(self.matrix);
        set(&mut scenario.env_clear, self.env_clear.then_some(true));
        set(&mut scenario.cwd, absolute(self.cwd));
        set(&mut scenario.stdin, absolute(self.stdin));
        set(&mut scenario.tmp_per_run, self.tmp_per_run.then_some(true));
        set(&mut scenario.image, self.image);
        set(&mut scenario.engine, self.engine);
        add(&mut scenario.mount, self.mount);
        set(&mut scenario.network, self.network);
        add(&mut scenario.container, self.container);
        set(&mut scenario.user, self.user);
        set(&mut scenario.wrap, self.wrap);
        scenario.trust |= self.trust;
        set(&mut scenario.memory, self.memory);
        scenario.rlimit.extend(self.rlimit);
        set(&mut scenario.setup, self.setup);
        set(&mut scenario.prepare, self.prepare);
        set(&mut scenario.conclude, self.conclude);
        set(&mut scenario.cleanup, self.cleanup);
        set(&mut scenario.keep, self.keep);
        set(&mut scenario.keep_per_sig, self.keep_per_sig);
        set(&mut scenario.capture, self.capture);
        set(&mut scenario.cores, self.cores);
        set(
            &mut scenario.ignore_child_crashes,
            self.ignore_child_crashes.then_some(true),
        );
    }
}

/// A path typed on the command line is relative to where it was typed.
fn absolute(path: Option<PathBuf>) -> Option<PathBuf> {
    path.map(|path| std::path::absolute(&path).unwrap_or(path))
}

fn variable(text: &str) -> Result<(String, EnvValue), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("write NAME=VALUE, or NAME to remove the variable".to_owned());
    }
    Ok((name.to_owned(), EnvValue(value)))
}

fn memory(text: &str) -> Result<Amount, String> {
    let amount = text.parse().ok();
    let limit = amount.filter(|amount: &Amount| amount.0.is_some());
    limit.ok_or_else(|| format!("`{text}` is not a size such as `500M` or `2G`"))
}

fn limit(text: &str) -> Result<(ResourceName, Amount), String> {
    let (name, amount) = text.split_once('=').ok_or("write NAME=N, such as as=4G")?;
    Ok((name.parse()?, amount.parse()?))
}

fn leaks(text: &str) -> Result<Leaks, String> {
    match text {
        "off" => Ok(Leaks::Off),
        "report" => Ok(Leaks::Report),
        "fail" => Ok(Leaks::Fail),
        _ => Err("write `off`, `report` or `fail`".to_owned()),
    }
}

fn capture(text: &str) -> Result<Capture, String> {
    match text {
        "auto" => Ok(Capture::Auto),
        "off" => Ok(Capture::Off),
        "on" => Ok(Capture::On),
        "trace" => Ok(Capture::Trace),
        _ => Err("write `auto`, `off`, `on` or `trace`".to_owned()),
    }
}

fn cores(text: &str) -> Result<CoreSize, String> {
    match text {
        "full" => Ok(CoreSize::Full),
        "light" => Ok(CoreSize::Light),
        _ => Err("write `full` or `light`".to_owned()),
    }
}

fn keep(text: &str) -> Result<Keep, String> {
    match text {
        "fail" => Ok(Keep::Fail),
        "all" => Ok(Keep::All),
        "none" => Ok(Keep::None),
        _ => Err("write `fail`, `all` or `none`".to_owned()),
    }
}
