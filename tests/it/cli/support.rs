//! Provides a sandbox for running the program, and its output as one text.

use crate::limited::{self, PATIENCE};
use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub(super) const PROVOKE: &str = env!("CARGO_BIN_EXE_provoke");

/// Directory of the last run.
pub(super) const LAST_RUN: &str = "provoke-out/last";

/// Returns a command of the shell that waits until this number of hosts has joined the run, and then runs another one.
pub(super) fn after_joins(hosts: usize, command: &str) -> String {
    let joined = format!("grep -c '\"host_joined\"' {LAST_RUN}/events.jsonl");
    format!("until test $({joined}) -ge {hosts}; do sleep 0.01; done; {command}")
}

/// Returns the arguments of a line without quotes.
pub(super) fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A directory and a clean environment.
pub(super) struct Sandbox {
    folder: tempfile::TempDir,
}

/// A running program, which is killed at the end of its test.
pub(super) struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(super) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    /// Returns its children: the slots.
    pub(super) fn children(&self) -> Vec<i32> {
        let pid = self.pid();
        let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        list.split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect()
    }

    /// Kills it together with its slots, so that no process is left to clean up.
    pub(super) fn die_with_slots(self) {
        // A stopped process cannot start another slot meanwhile.
        self.signal(Signal::STOP);
        for slot in self.children() {
            send(slot, Signal::KILL);
        }
        self.signal(Signal::KILL);
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(self) {
        self.signal(Signal::KILL);
        assert_eq!(self.end().code, None);
    }

    /// Waits until it has written this text to stderr.
    pub(super) fn wait_for_stderr(&self, text: &str) {
        let stderr = || fs::read_to_string(self.folder.join("started.err")).unwrap_or_default();
        wait_until(text, || stderr().contains(text));
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> CommandOutput {
        let status = limited::wait(&mut self.child);
        let read = |name| fs::read_to_string(self.folder.join(name)).unwrap();
        CommandOutput {
            stdout: read("started.out"),
            stderr: read("started.err"),
            code: status.code(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output and the exit code of the program.
pub(super) struct CommandOutput {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) code: Option<i32>,
}

impl Sandbox {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(super) fn command(&self, args: &[&str]) -> Command {
        self.program_command(PROVOKE, args)
    }

    /// Returns the command of any program in this directory, without variables of an outer provoke, a CI server or the
    /// runner of these tests.
    pub(super) fn program_command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("PWD", self.folder.path())
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy().into_owned();
            let foreign = [
                "PROVOKE_",
                "CLICOLOR",
                "NO_COLOR",
                "GITHUB_",
                "GITLAB_CI",
                "NEXTEST",
            ];
            if foreign.iter().any(|prefix| name_text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs the program to its end.
    pub(super) fn provoke(&self, args: &[&str]) -> CommandOutput {
        limited::output(&mut self.command(args)).unwrap().into()
    }

    /// Starts the program; its output goes to files.
    pub(super) fn start(&self, args: &[&str]) -> Running {
        // Children of a background shell inherit that SIGINT is ignored, and children of `nohup` that SIGHUP is.
        let default_signals = ["--default-signal", PROVOKE];
        self.started(self.program_command("env", &[&default_signals, args].concat()))
    }

    /// Starts a command; its output goes to files.
    pub(super) fn started(&self, mut command: Command) -> Running {
        let file = |name| File::create(self.path(name)).unwrap();
        let child = command
            .stdout(file("started.out"))
            .stderr(file("started.err"))
            .spawn();
        Running {
            child: child.unwrap(),
            folder: self.path(""),
        }
    }

    /// Starts the program, kills it when this many trials of the run have ended, and checks that none of its processes
    /// remains. The next trial must wait for something.
    pub(super) fn kill_after(&self, trials: usize, run: &str, command: Command) {
        self.kill_soon_after(trials, run, command);
        assert_eq!(self.ended_trials(run), trials);
    }

    /// Starts the program, kills it when at least this many trials of the run have ended, and checks that none of its
    /// processes remains.
    pub(super) fn kill_soon_after(&self, trials: usize, run: &str, command: Command) {
        let running = self.started(command);
        wait_until("the trials have ended", || self.ended_trials(run) >= trials);
        running.kill();
        wait_until("its processes are gone", || self.processes().is_empty());
    }

    /// Starts a command that begins or continues a run, and waits until at least this many trials of it have ended.
    pub(super) fn started_trials(&self, trials: usize, command: Command) -> Running {
        let last_run = || fs::read_link(self.path(LAST_RUN)).ok();
        let (run, ended) = (last_run(), self.ended_trials(LAST_RUN));
        let running = self.started(command);
        wait_until("trials have ended", || {
            let before = if last_run() == run { ended } else { 0 };
            self.ended_trials(LAST_RUN) >= before + trials
        });
        running
    }

    /// Returns the names of the hosts that have joined the last run.
    pub(super) fn joined_hosts(&self) -> Vec<String> {
        let events = self.events().into_iter();
        let names = events.filter_map(|event| {
            let name = &event.get("host_joined")?["joined"]["destination"];
            Some(name.as_str()?.to_owned())
        });
        names.collect()
    }

    /// Returns how many trials of a run have ended.
    pub(super) fn ended_trials(&self, run: &str) -> usize {
        let journal = self.read(&format!("{run}/events.jsonl"));
        journal.matches(r#"{"trial_finished":"#).count()
    }

    /// Returns the processes that run in this directory, or whose command line contains it.
    fn processes(&self) -> Vec<i32> {
        let here = fs::canonicalize(self.folder.path()).unwrap();
        let named = here.display().to_string();
        let is_ours = |pid: &i32| {
            let about = Path::new("/proc").join(pid.to_string());
            let line = fs::read(about.join("cmdline")).unwrap_or_default();
            fs::read_link(about.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&here))
                || String::from_utf8_lossy(&line).contains(&named)
        };
        all_processes().filter(is_ours).collect()
    }

    /// Runs `provoke run` and returns the report.
    pub(super) fn report(&self, args: &[&str]) -> (Value, CommandOutput) {
        self.run_with_report("run", args)
    }

    /// Runs a command of provoke; returns the report.
    pub(super) fn run_with_report(&self, question: &str, args: &[&str]) -> (Value, CommandOutput) {
        let all = [question, "--progress=none", "--export-json", "report.json"];
        let output = self.provoke(&[&all, args].concat());
        let report = serde_json::from_str(&self.read("report.json"));
        (
            report.unwrap_or_else(|error| panic!("{error}: {output}")),
            output,
        )
    }

    /// Returns every event in the journal of the only run, or of the last one.
    pub(super) fn events(&self) -> Vec<Value> {
        let text = self.read(&format!("{LAST_RUN}/events.jsonl"));
        // The last line may be incomplete while the run continues.
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }
}

impl fmt::Display for CommandOutput {
    /// Writes all output as one text, without parts that differ between runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stdout,
            stderr,
            code,
        } = self;
        let all = format!("{stdout}------- stderr -------\n{stderr}[exit status: {code:?}]\n");
        let filters = [
            // On a busy machine, provoke says for which hosts it waits.
            (r"(?m)^  waiting for \d+ of \d+ hosts?: .*\n", ""),
            (r"\d{8}-\d{6}-[0-9a-f]{4}", "RUN"),
            (r"(provoke [a-z-]+(?: --[a-z-]+)*) [0-9a-f]{4}\b", "$1 RUN"),
            (r"\d+(\.\d+)? m?s\b", "TIME"),
            (r" \(at most TIME\)", ""),
            (r"pid \d+", "pid PID"),
            (r"\d+ KiB", "N KiB"),
            (r"/\S*/provoke victim", "provoke victim"),
            (r"/\S*/debug/provoke\b", "provoke"),
            (r"/tmp/\.tmp\w+", "SANDBOX"),
            (r"truncate -s \d+", "truncate -s BYTES"),
        ];
        let mut text = all;
        for (pattern, name) in filters {
            text = Regex::new(pattern)
                .unwrap()
                .replace_all(&text, name)
                .into_owned();
        }
        f.write_str(&text)
    }
}

impl CommandOutput {
    /// Returns the answer, without the paths of its evidence and the counts: preparation in parallel with trials may
    /// end sooner or later, and other trials run then.
    pub(super) fn answer(&self) -> String {
        let counts = Regex::new(r"\d+ of \d+").unwrap();
        let (answer, _) = self.stdout.rsplit_once("\n\n").expect("commands");
        counts.replace_all(answer, "K/N").into_owned()
    }
}

/// Returns a program of `examples/`, which is built with the tests.
pub(super) fn example(name: &str) -> String {
    let path: PathBuf = Path::new(PROVOKE).with_file_name("examples").join(name);
    assert!(
        path.is_file(),
        "`cargo build --examples` makes {}",
        path.display()
    );
    path.display().to_string()
}

/// Waits until a condition holds.
pub(super) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started_at = Instant::now();
    while !condition() {
        assert!(
            started_at.elapsed() < PATIENCE,
            "condition not met in time: {what}"
        );
        sleep(Duration::from_millis(5));
    }
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the processes whose command line contains this word.
pub(super) fn processes_with(word: &str) -> Vec<i32> {
    let holds = |pid: &i32| {
        let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
        line.is_ok_and(|line| {
            String::from_utf8_lossy(&line)
                .split('\0')
                .any(|part| part == word)
        })
    };
    all_processes().filter(holds).collect()
}

/// Returns a unique word for a command line: a duration of the victim.
pub(super) fn unique_linger() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Tests run as parallel processes, or as threads of one.
    format!(
        "{}ms",
        600_000 + std::process::id() % 1000 * 1000 + next % 1000
    )
}

pub(super) fn assert_gone(linger: &str) {
    let left = processes_with(linger);
    assert!(left.is_empty(), "left behind: {left:?}");
}

pub(super) fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
