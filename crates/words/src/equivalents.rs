//! Tables of the commands, flags and formats of other tools, with their equivalents here.

/// Equivalents here of names in other tools: each row has the other names, separated by spaces, and ours.
pub struct Equivalents(&'static [(&'static str, &'static str)]);

/// The closest commands here.
pub const COMMANDS: Equivalents = Equivalents(&[
    ("repeat stress loop exec test flake", "run"),
    ("flaky start measure", "run"),
    ("rerun debug reproduce repro", "replay"),
    ("ls runs history status", "list"),
    ("continue restart", "resume"),
    ("export summary result results", "report"),
    ("crash core stack backtrace", "explain"),
    ("minimize minimise shrink creduce", "reduce"),
    ("verify fixed fix", "confirm"),
    ("matrix vs ab", "compare"),
    ("check setup env", "doctor"),
    ("bench attack http", "load"),
    ("estimate power", "plan"),
]);

/// Flags that are not names of scenario fields: the equivalent here, in which `V` stands for the value, or a sentence that
/// explains why there is none.
pub const FLAGS: Equivalents = Equivalents(&[
    (
        "--tries --trials --rounds --attempts --max-runs --repeat-each --runs-per-test --stress-count -N",
        "-n V",
    ),
    ("--procs -P", "-j V"),
    ("-c --sh", "--shell V"),
    ("--output-json", "--json=FILE"),
    ("--junitxml --junit-xml", "--junit=FILE"),
    ("--markdown", "--md=FILE"),
    (
        "--until-fail --until-failure --until-failed --exitfirst --stop --stop-on-fail",
        "-x",
    ),
    ("--max-failure-rate --threshold", "--max-rate V"),
    ("-C --chdir", "--cwd V"),
    ("--for --budget --time --stress-duration", "-d V"),
    ("--forever --infinite --endless", NO_ENDLESS_RUN),
    ("--seconds --secs", "-d Vs"),
    ("--minutes --mins", "-d Vm"),
    ("--against --reference", "--baseline V"),
    ("--docker --podman", "--image IMAGE"),
    ("--retry --retries", NO_RETRIES),
    ("--watch-engine", NO_WATCHED_ENGINE),
    ("--shrink", NO_SHRINKING),
    ("--variant --variants --parameter --param", NO_VARIANTS),
]);

const NO_RETRIES: &str = "provoke does not retry: every trial counts; -n sets how many run";
const NO_ENDLESS_RUN: &str = "a run has an end: -d sets how long it takes, such as -d 8h, and -x ends it at the first failure";
const NO_WATCHED_ENGINE: &str =
    "provoke counts no containers as leaks; docs/containers.md has a hook that does";
const NO_SHRINKING: &str = "provoke reduce --requests RUN finds the requests that a crash needs";
const NO_VARIANTS: &str =
    "each value of -L VAR=a,b is a variant; {VAR} stands for it in the command";

/// Names of settings in other tools, and their equivalents here. A row counts only if its second name is a valid one.
pub const SETTINGS: Equivalents = Equivalents(&[
    ("actors", "actor"),
    ("mem memory ram vmem", "as"),
    ("after-all teardown", "cleanup"),
    ("argv cmd exec program run", "command"),
    ("after-each", "conclude"),
    ("confidence", "conf"),
    ("levels ramp users", "clients"),
    ("c clients", "copies"),
    ("dir directory workdir", "cwd"),
    ("interval pause wait", "delay"),
    ("name title", "description"),
    ("d max-time", "duration"),
    ("e env-vars environment vars", "env"),
    ("clear-env", "env-clear"),
    ("expected", "expect"),
    ("failfast stop-on-failure x", "fail-fast"),
    ("kill-after", "grace"),
    (
        "concurrency cores j parallel parallelism threads workers",
        "jobs",
    ),
    ("combinations parameters params vary", "matrix"),
    ("max-failures stop-after", "max-fail"),
    ("fd files open-files", "nofile"),
    ("processes", "nproc"),
    ("exit-codes i ignore-failure ok-codes success-codes", "ok"),
    ("signals", "only"),
    ("before before-each", "prepare"),
    ("limit limits rlimits ulimit", "rlimit"),
    (
        "count iterations max-runs n number repeat repetitions retries times",
        "runs",
    ),
    ("before-all", "setup"),
    ("script", "shell"),
    ("ignore", "skip"),
    ("input", "stdin"),
    ("deadline t time-limit", "timeout"),
    ("tmp-dir tmpdir", "tmp-per-run"),
    ("variants", "variant"),
    ("prefix", "wrap"),
]);

/// The formats of reports, with their names in file names, too.
pub const FORMATS: Equivalents = Equivalents(&[
    ("json", "json"),
    ("jsonl ndjson", "jsonl"),
    ("csv", "csv"),
    ("junit xml junitxml", "junit"),
    ("md markdown", "md"),
]);

/// Flags for the format of a report.
pub const FORMAT_FLAGS: &str = "--format --output-format --reporter --output --out -f -o";

/// The commands whose flags are looked up, the most frequently used ones first.
pub const COMMANDS_BY_USE: &str = "report run confirm compare bisect reduce explain replay \
    resume load hunt plan scenario diff doctor";

/// Flags that are often typed after the program: the command, or `""` for every command, and the names of a flag.
pub const OFTEN_MISPLACED: [(&str, &str); 14] = [
    ("", "--runs -n"),
    ("", "--jobs -j"),
    ("", "--duration -d"),
    ("", "--max-fail"),
    ("", "--max-rate"),
    ("", "--baseline"),
    ("", "--held"),
    ("compare", "--matrix -L"),
    ("bisect", "--git"),
    ("bisect", "--build"),
    ("bisect", "--over"),
    ("bisect", "--pip"),
    ("load", "--clients -c"),
    ("hunt", "--hold-in"),
];

impl Equivalents {
    /// Returns the rows: the names in other tools, separated by spaces, and the equivalent.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.0.iter().copied()
    }

    /// Returns the equivalent of a name.
    pub fn of_name(&self, name: &str) -> Option<&'static str> {
        let row = self.0.iter().find(|(others, _)| has_word(others, name))?;
        Some(row.1)
    }

    /// Returns the names in other tools.
    pub fn other_names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|(others, _)| others.split(' '))
    }

    /// Returns the names in other tools whose equivalent is one of these.
    pub fn names_of(&self, own_names: &[&str]) -> impl Iterator<Item = &'static str> {
        let rows = self.0.iter().filter(|(_, ours)| own_names.contains(ours));
        rows.flat_map(|(others, _)| others.split(' '))
    }

    /// Returns the equivalents.
    pub fn own_names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(_, ours)| *ours)
    }
}

/// Returns whether a list of words, separated by spaces, contains a word.
pub fn has_word(words: &str, wanted: &str) -> bool {
    words.split(' ').any(|word| word == wanted)
}
