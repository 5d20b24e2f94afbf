//! Flags of `run`, and their effect on a [`Scenario`].

use crate::model::{CaptureMode, CoreSize, KeepRule, LeakRule};
use crate::scenario::{
    Codes, Confidence, DurationValue, EnvValue, Expectation, LimitValue, MatrixVariable, OnlyRule,
    Pattern, RateValue, ResourceName, Scenario, TimeoutValue,
};
use clap::{Args, ValueEnum};
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Flags that describe an experiment; each has a scenario field of the same name.
///
/// `-h` shows the flags used daily, `--help` all of them.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ExperimentFlags {
    /// Run this many trials of each variant [default: 100]
    ///
    /// Without a limit, a plain run ends after 100 trials or 10 minutes, whichever comes first.
    /// --max-fail and --width end a run, too.
    #[arg(
        short = 'n', long, value_name = "N", help_heading = TRIALS, short_alias = 'r',
        aliases = ["count", "times", "iterations", "repeat", "repeats", "loops"],
    )]
    runs: Option<u64>,
    /// Run this many trials in parallel [default: 1]
    ///
    /// Parallel trials share the machine, which changes their timing.
    #[arg(
        short, long, value_name = "N", help_heading = TRIALS,
        aliases = ["parallel", "workers"],
    )]
    jobs: Option<NonZeroU32>,
    /// Start this many copies of the command in each trial
    ///
    /// The copies belong to one trial: they add load or contention to the experiment.
    #[arg(long, value_name = "N", help_heading = TRIALS, hide_short_help = true)]
    copies: Option<NonZeroU32>,
    /// Start N trials together, and the next N when all of them have ended
    #[arg(long, value_name = "N", help_heading = TRIALS, hide_short_help = true)]
    wave: Option<NonZeroU32>,
    /// Run N trials first and do not count them
    #[arg(short, long, value_name = "N", help_heading = TRIALS, hide_short_help = true)]
    warmup: Option<u64>,
    /// Wait this long before each trial
    #[arg(long, value_name = "TIME", help_heading = TRIALS, hide_short_help = true)]
    delay: Option<DurationValue>,
    /// Derive the seeds of all trials from this number [default: random]
    ///
    /// The number is reported in either case.
    #[arg(long, value_name = "N", help_heading = TRIALS, hide_short_help = true)]
    seed: Option<u64>,

    /// Treat a trial as hung after this long [default: auto]
    ///
    /// A time such as 60s or 2m, or `auto`: 20 times the slowest passing trial and at least 10 s; until five
    /// trials have passed at least 1 minute, and until the first has passed 5 minutes. A trial in which a
    /// deadlock stops every thread ends earlier.
    #[arg(short, long, value_name = "TIME", help_heading = STOP)]
    timeout: Option<TimeoutValue>,
    /// Wait this long between SIGTERM and SIGKILL for a hung trial [default: 5s]
    #[arg(long, value_name = "TIME", help_heading = STOP, hide_short_help = true)]
    grace: Option<DurationValue>,
    /// Stop after this long, such as 30s, 10m or 8h
    ///
    /// Limits the time of all trials together. Trials that are running may finish; a service under
    /// load is stopped. A plain run without -n stops after 10 minutes.
    #[arg(short, long, value_name = "TIME", help_heading = STOP)]
    duration: Option<DurationValue>,
    /// Stop at the first failure
    #[arg(short = 'x', long, help_heading = STOP)]
    fail_fast: bool,
    /// Stop after K failures
    ///
    /// Three failures make a good baseline for `provoke confirm`.
    #[arg(long, value_name = "K", help_heading = STOP, hide_short_help = true)]
    max_fail: Option<u64>,
    /// Stop when the confidence interval is narrower than W, such as 0.1 or 10%
    #[arg(long, value_name = "W", help_heading = STOP, hide_short_help = true)]
    width: Option<RateValue>,
    /// Confidence of every interval and answer, in percent [default: 95]
    #[arg(long, value_name = "PERCENT", help_heading = STOP, hide_short_help = true)]
    conf: Option<Confidence>,

    /// Exit codes that pass, such as 0,2 [default: 0]
    ///
    /// A list of codes and ranges: 0,2,10-19
    #[arg(short = 'i', long, value_name = "CODES", help_heading = JUDGE)]
    ok: Option<Codes>,
    /// Exit codes to discard: these trials are inconclusive [default: 125]
    #[arg(long, value_name = "CODES", help_heading = JUDGE, hide_short_help = true)]
    skip: Option<Codes>,
    /// Fail the trial if a line of its output matches
    #[arg(long, value_name = "REGEX", help_heading = JUDGE)]
    fail_if_out: Vec<Pattern>,
    /// Pass the trial despite its exit code if a line of its output matches
    #[arg(long, value_name = "REGEX", help_heading = JUDGE, hide_short_help = true)]
    ok_if_out: Vec<Pattern>,
    /// Count only this kind of failure, such as SIGSEGV, code:3 or hang
    ///
    /// Kinds: a signal, code:N, hang, leak, oom, output, sig:ID (one crash signature). Other failures are
    /// counted separately.
    #[arg(long, value_name = "KIND", value_delimiter = ',', help_heading = JUDGE)]
    only: Vec<OnlyRule>,
    /// How to treat processes still running after a trial [default: fail]
    #[arg(long, value_name = "off|report|fail", value_parser = parse_leaks, help_heading = JUDGE, hide_short_help = true)]
    leaks: Option<LeakRule>,
    /// Treat containers, volumes and networks that a trial leaves behind as leaks
    ///
    /// They are removed after the trial.
    #[arg(long, help_heading = JUDGE, hide_short_help = true)]
    watch_engine: bool,
    /// Pass a trial although a child process crashed, if the main process passed
    #[arg(long, help_heading = JUDGE, hide_short_help = true)]
    ignore_child_crashes: bool,
    /// Wait this long for descendants of the main process before they count as leaked [default: 2s]
    #[arg(long, value_name = "TIME", help_heading = JUDGE, hide_short_help = true)]
    leak_grace: Option<DurationValue>,
    /// Exit with 0 if the failure is reproduced (`fail`) or if no trial fails (`pass`)
    #[arg(long, value_name = "pass|fail", help_heading = JUDGE, hide_short_help = true)]
    expect: Option<Expectation>,
    /// Allow a failure rate of up to P, such as 2%
    ///
    /// Exit with 0 if the failure rate is at most P, with 1 if it is higher, and with 3 if the trials
    /// cannot decide.
    #[arg(long, value_name = "P", help_heading = JUDGE)]
    max_rate: Option<RateValue>,

    /// Run a line of shell instead of a command: './a | ./b'
    #[arg(long, value_name = "LINE", help_heading = TRIAL)]
    shell: Option<String>,
    /// Set an environment variable (K=V), or remove it (K)
    #[arg(short, long = "env", value_name = "K=V", value_parser = parse_variable, help_heading = TRIAL)]
    env: Vec<(String, EnvValue)>,
    /// Run a variant for each value of {VAR} in the command
    ///
    /// {VAR} stands for the value in the command and its environment variables.
    ///
    /// Several -L make all combinations. If {VAR} appears nowhere, the environment variable VAR is
    /// set instead.
    #[arg(short = 'L', long, value_name = "VAR=a,b", help_heading = TRIAL)]
    matrix: Vec<MatrixVariable>,
    /// Start from an empty environment
    #[arg(long, help_heading = TRIAL, hide_short_help = true)]
    env_clear: bool,
    /// Run the command in this working directory
    #[arg(long, value_name = "DIR", help_heading = TRIAL)]
    cwd: Option<PathBuf>,
    /// Read stdin from FILE [default: /dev/null]
    #[arg(long, value_name = "FILE", help_heading = TRIAL, hide_short_help = true)]
    stdin: Option<PathBuf>,
    /// Give each trial a temporary directory: {dir}, PROVOKE_DIR, TMPDIR
    #[arg(long, help_heading = TRIAL, hide_short_help = true)]
    tmp_per_run: bool,
    /// Run each trial in a container of this image
    ///
    /// The image must be on this machine. `provoke bisect` takes its tags in order: app:1.0,1.1,1.2
    #[arg(long, value_name = "IMAGE", help_heading = TRIAL, hide_short_help = true)]
    image: Option<String>,
    /// Run containers with this engine [default: the first that responds]
    #[arg(long, value_name = "docker|podman", help_heading = TRIAL, hide_short_help = true)]
    engine: Option<String>,
    /// Mount PATH, PATH:INSIDE or PATH:INSIDE:ro in the container [default: the working directory]
    ///
    /// `none` mounts nothing.
    #[arg(long, value_name = "PATH", help_heading = TRIAL, hide_short_help = true)]
    mount: Vec<String>,
    /// Connect the container to this network [default: none; host for a service under load]
    #[arg(long, value_name = "NAME", help_heading = TRIAL, hide_short_help = true)]
    network: Option<String>,
    /// Pass an option to the container engine: memory=1g, cpus=2, user=1000, runtime=runsc, gpus=all
    #[arg(long, value_name = "NAME=VALUE", help_heading = TRIAL, hide_short_help = true)]
    container: Vec<String>,
    /// Run the processes of trials as this user; provoke and its hooks run as root
    #[arg(long, value_name = "NAME", help_heading = TRIAL, hide_short_help = true)]
    user: Option<String>,
    /// Put this in front of the command, such as 'rr record -o {dir}/trace'
    #[arg(long, value_name = "PREFIX", help_heading = TRIAL, hide_short_help = true)]
    wrap: Option<String>,
    /// Limit the memory of all processes of a trial together: 500M, 2G
    ///
    /// Above the limit, the kernel kills one of them (outcome `oom`).
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, help_heading = TRIAL, hide_short_help = true)]
    memory: Option<LimitValue>,
    /// Limit a resource of every process: as=4G, nofile=64
    ///
    /// core=4G also turns on the capture of cores.
    #[arg(long, value_name = "NAME=N", value_delimiter = ',', value_parser = parse_limit, help_heading = TRIAL, hide_short_help = true)]
    rlimit: Vec<(ResourceName, LimitValue)>,
    /// Run this shell command once before all trials
    ///
    /// Processes that it leaves running are stopped at the end of the run.
    #[arg(short, long, value_name = "CMD", help_heading = TRIAL, hide_short_help = true)]
    setup: Option<String>,
    /// Run this shell command before each trial; if it fails, the trial is inconclusive
    #[arg(long, value_name = "CMD", help_heading = TRIAL, hide_short_help = true)]
    prepare: Option<String>,
    /// Run this shell command after each trial
    #[arg(long, value_name = "CMD", help_heading = TRIAL, hide_short_help = true)]
    conclude: Option<String>,
    /// Run this shell command once after all trials
    #[arg(long, value_name = "CMD", help_heading = TRIAL, hide_short_help = true)]
    cleanup: Option<String>,

    /// Keep the output of failing trials, of all trials, or none [default: fail]
    #[arg(long, value_name = "fail|all|none", value_parser = parse_keep, help_heading = RESULT, hide_short_help = true)]
    keep: Option<KeepRule>,
    /// Keep all evidence of N trials per crash signature [default: 5]
    #[arg(long, value_name = "N", help_heading = RESULT, hide_short_help = true)]
    keep_per_sig: Option<u64>,
    /// When to dump cores [default: auto]
    ///
    /// `auto` dumps them in a few extra trials after the measurement, `on` in every trial, `off` never;
    /// `trace` follows every process with a tracer.
    #[arg(long, value_name = "auto|off|on|trace", value_parser = parse_capture, help_heading = RESULT, hide_short_help = true)]
    capture: Option<CaptureMode>,
    /// Core contents: `light` omits the memory of huge processes [default: full]
    #[arg(long, value_name = "full|light", value_parser = parse_core_size, help_heading = RESULT, hide_short_help = true)]
    cores: Option<CoreSize>,

    /// Run the commands of a run that belongs to another user or was copied
    #[arg(long, help_heading = TRIAL, hide_short_help = true)]
    trust: bool,

    #[expect(
        clippy::option_option,
        reason = "rejected with a hint: the flag means different things in other tools"
    )]
    #[arg(short = 'p', hide = true, num_args = 0..=1, value_name = "N")]
    p: Option<Option<String>>,
}

const TRIALS: &str = "Trials";
pub(super) const STOP: &str = "When to stop";
const JUDGE: &str = "Pass or fail";
const TRIAL: &str = "Command and environment";
pub(super) const RESULT: &str = "Results";

/// Flags for the output of a run.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct OutputFlags {
    /// Write this run to DIR [default: a new directory in provoke-out or PROVOKE_HOME]
    #[arg(short, long, value_name = "DIR", help_heading = RESULT, hide_short_help = true)]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) talk: VerbosityFlags,
    #[command(flatten)]
    pub(super) exports: ExportFlags,
}

/// Flags for the amount of output.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct VerbosityFlags {
    /// Print only the result
    #[arg(short, long, help_heading = RESULT)]
    pub(super) quiet: bool,
    /// Print every trial when it ends
    #[arg(short, long, conflicts_with = "quiet", help_heading = RESULT)]
    pub(super) verbose: bool,
    /// Show a live line, a tick or cross per trial, or plain lines
    #[arg(long, value_enum, default_value_t, help_heading = RESULT, hide_short_help = true)]
    pub(super) style: DisplayStyle,
    /// Show progress as a live line, as plain lines, or not at all
    #[arg(long, value_enum, default_value_t, help_heading = RESULT, hide_short_help = true)]
    pub(super) progress: ProgressKind,
}

/// Style of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DisplayStyle {
    /// Show a live line; failures scroll by above it
    #[default]
    Line,
    /// Show a tick or a cross for each trial, in order
    Ticks,
    /// Show lines that do not move
    Plain,
}

/// Kind of the progress display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressKind {
    /// Show a live line if stderr is a terminal
    #[default]
    Auto,
    /// Print a line from time to time
    Plain,
    /// Show no progress
    None,
}

/// Flags for the files of reports.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct ExportFlags {
    /// Write the report as JSON to FILE [default: stdout]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    pub(super) json: Option<PathBuf>,
    /// Write JSON Lines, one line per trial
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT, hide_short_help = true)]
    pub(super) jsonl: Option<PathBuf>,
    /// Write CSV, one row per trial
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT, hide_short_help = true)]
    pub(super) csv: Option<PathBuf>,
    /// Write JUnit XML for CI servers
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT)]
    pub(super) junit: Option<PathBuf>,
    /// Write Markdown for a bug report
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", require_equals = true, help_heading = RESULT, hide_short_help = true)]
    pub(super) md: Option<PathBuf>,
    #[command(flatten)]
    pub(super) earlier: EarlierFlagNames,
}

/// Earlier names of the flags for reports.
#[derive(Args, Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the names of the flags")]
pub(super) struct EarlierFlagNames {
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "json")]
    pub(super) export_json: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "jsonl")]
    pub(super) export_jsonl: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "csv")]
    pub(super) export_csv: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "junit")]
    pub(super) export_junit: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "md")]
    pub(super) export_md: Option<PathBuf>,
}

impl ExperimentFlags {
    /// Returns errors in the flags that the parser cannot detect.
    pub(super) fn refusal_hint(&self) -> Option<String> {
        let value = self.p.as_ref()?;
        let jobs = value.as_deref().unwrap_or("4");
        Some(format!(
            "did you mean `-j {jobs}` (parallel trials) or `--prepare CMD` (before each trial)?"
        ))
    }

    /// Returns whether no flag sets the number of trials, or the expected failure rate.
    pub(super) fn may_stop_early(&self) -> bool {
        let counts = self.runs.is_some() || self.max_fail.is_some() || self.width.is_some();
        let expects = self.expect.is_some() || self.max_rate.is_some();
        !counts && !expects
    }

    /// Returns a flag that does not apply to a service under load, and the alternative.
    pub(super) fn not_for_service(&self) -> Option<(&'static str, &'static str)> {
        if self.timeout.is_some() {
            return Some((
                "-t",
                "--requests or --time ends a trial; --hang-after says when the service is hung",
            ));
        }
        let codes = "leave it out: a service that ends under load fails, whatever its exit code";
        let given = [("--ok", self.ok.is_some()), ("--skip", self.skip.is_some())];
        let given = given.iter().find(|(_, given)| *given);
        given.map(|(flag, _)| (*flag, codes))
    }

    /// Overrides a scenario with the flags of the command line.
    pub(super) fn overlay_scenario(self, command: Vec<String>, scenario: &mut Scenario) {
        fn set_option<T>(field: &mut Option<T>, said: Option<T>) {
            if said.is_some() {
                *field = said;
            }
        }
        fn replace_if_given<T>(field: &mut Vec<T>, said: Vec<T>) {
            if !said.is_empty() {
                *field = said;
            }
        }
        if !command.is_empty() || self.shell.is_some() {
            scenario.command = (!command.is_empty()).then_some(command);
            scenario.shell = self.shell;
        }
        set_option(&mut scenario.runs, self.runs);
        set_option(&mut scenario.jobs, self.jobs);
        set_option(&mut scenario.copies, self.copies);
        set_option(&mut scenario.wave, self.wave);
        set_option(&mut scenario.warmup, self.warmup);
        set_option(&mut scenario.delay, self.delay);
        set_option(&mut scenario.seed, self.seed);
        set_option(&mut scenario.timeout, self.timeout);
        set_option(&mut scenario.grace, self.grace);
        set_option(&mut scenario.duration, self.duration);
        set_option(&mut scenario.fail_fast, self.fail_fast.then_some(true));
        set_option(&mut scenario.max_fail, self.max_fail);
        set_option(&mut scenario.width, self.width);
        set_option(&mut scenario.conf, self.conf);
        set_option(&mut scenario.ok, self.ok);
        set_option(&mut scenario.skip, self.skip);
        replace_if_given(&mut scenario.fail_if_out, self.fail_if_out);
        replace_if_given(&mut scenario.ok_if_out, self.ok_if_out);
        replace_if_given(&mut scenario.only, self.only);
        set_option(&mut scenario.leaks, self.leaks);
        set_option(
            &mut scenario.watch_engine,
            self.watch_engine.then_some(true),
        );
        set_option(&mut scenario.leak_grace, self.leak_grace);
        set_option(&mut scenario.expect, self.expect);
        set_option(&mut scenario.max_rate, self.max_rate);
        scenario.env.extend(self.env);
        scenario.matrix.overlay_variables(self.matrix);
        set_option(&mut scenario.env_clear, self.env_clear.then_some(true));
        set_option(&mut scenario.cwd, absolute_path(self.cwd));
        set_option(&mut scenario.stdin, absolute_path(self.stdin));
        set_option(&mut scenario.tmp_per_run, self.tmp_per_run.then_some(true));
        set_option(&mut scenario.image, self.image);
        set_option(&mut scenario.engine, self.engine);
        replace_if_given(&mut scenario.mount, self.mount);
        set_option(&mut scenario.network, self.network);
        replace_if_given(&mut scenario.container, self.container);
        set_option(&mut scenario.user, self.user);
        set_option(&mut scenario.wrap, self.wrap);
        scenario.trust |= self.trust;
        set_option(&mut scenario.memory, self.memory);
        scenario.rlimit.extend(self.rlimit);
        set_option(&mut scenario.setup, self.setup);
        set_option(&mut scenario.prepare, self.prepare);
        set_option(&mut scenario.conclude, self.conclude);
        set_option(&mut scenario.cleanup, self.cleanup);
        set_option(&mut scenario.keep, self.keep);
        set_option(&mut scenario.keep_per_sig, self.keep_per_sig);
        set_option(&mut scenario.capture, self.capture);
        set_option(&mut scenario.cores, self.cores);
        set_option(
            &mut scenario.ignore_child_crashes,
            self.ignore_child_crashes.then_some(true),
        );
    }
}

/// Resolves a path on the command line relative to the working directory.
fn absolute_path(path: Option<PathBuf>) -> Option<PathBuf> {
    path.map(|path| std::path::absolute(&path).unwrap_or(path))
}

fn parse_variable(text: &str) -> Result<(String, EnvValue), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err("write NAME=VALUE, or NAME to remove the variable".to_owned());
    }
    Ok((name.to_owned(), EnvValue(value)))
}

fn parse_memory(text: &str) -> Result<LimitValue, String> {
    let amount = text.parse().ok();
    let limit = amount.filter(|amount: &LimitValue| amount.0.is_some());
    limit.ok_or_else(|| format!("`{text}` is not a size such as `500M` or `2G`"))
}

fn parse_limit(text: &str) -> Result<(ResourceName, LimitValue), String> {
    let (name, amount) = text.split_once('=').ok_or("write NAME=N, such as as=4G")?;
    Ok((name.parse()?, amount.parse()?))
}

fn parse_leaks(text: &str) -> Result<LeakRule, String> {
    match text {
        "off" => Ok(LeakRule::Off),
        "report" => Ok(LeakRule::Report),
        "fail" => Ok(LeakRule::Fail),
        _ => Err("write `off`, `report` or `fail`".to_owned()),
    }
}

fn parse_capture(text: &str) -> Result<CaptureMode, String> {
    match text {
        "auto" => Ok(CaptureMode::Auto),
        "off" => Ok(CaptureMode::Off),
        "on" => Ok(CaptureMode::On),
        "trace" => Ok(CaptureMode::Trace),
        _ => Err("write `auto`, `off`, `on` or `trace`".to_owned()),
    }
}

fn parse_core_size(text: &str) -> Result<CoreSize, String> {
    match text {
        "full" => Ok(CoreSize::Full),
        "light" => Ok(CoreSize::Light),
        _ => Err("write `full` or `light`".to_owned()),
    }
}

fn parse_keep(text: &str) -> Result<KeepRule, String> {
    match text {
        "fail" => Ok(KeepRule::Fail),
        "all" => Ok(KeepRule::All),
        "none" => Ok(KeepRule::None),
        _ => Err("write `fail`, `all` or `none`".to_owned()),
    }
}
