//! Ranks a difference by how suspicious it is.

use provoke_model::Survey;
use serde::Serialize;

/// The kind of a fact, in the order of suspicion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FactGroup {
    /// The command, and which build of the program it is.
    Program,
    /// A library that the program loads.
    Library,
    /// A package of its language.
    Package,
    /// A file of the working directory that the command does not name, so that the program may not read it.
    WorkingDirectory,
    /// A variable of the environment.
    Variable,
    /// How trials were run.
    Run,
    /// A fact about a host that the user or Slurm gave.
    Given,
    /// A limit, or a setting of the kernel.
    Setting,
    /// The processor.
    Processor,
    /// Anything else about the machine.
    Machine,
    /// Facts that hardly ever matter, such as the previous directory of a shell.
    Trifle,
}

impl FactGroup {
    /// Returns the heading of differences of this kind.
    pub fn title(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Library => "libraries",
            Self::Package => "packages",
            Self::WorkingDirectory => "working directory",
            Self::Variable => "variables",
            Self::Run => "how it was run",
            Self::Given => "given facts",
            Self::Setting => "limits and settings",
            Self::Processor => "processor",
            Self::Machine => "machine",
            Self::Trifle => "unlikely to matter",
        }
    }
}

/// Returns the kind of a recorded fact.
pub(super) fn group_of(name: &str) -> FactGroup {
    let section = name.split(['.', '[']).next().unwrap_or_default();
    match section {
        "fact" => FactGroup::Given,
        "program" | "files" | Survey::COMMIT => FactGroup::Program,
        "library" => FactGroup::Library,
        "python" | "node" | "cargo" => FactGroup::Package,
        "limits" | "cgroup" | "container" => FactGroup::Setting,
        "kernel" if name != "kernel.release" => FactGroup::Setting,
        "cpu" => FactGroup::Processor,
        _ => FactGroup::Machine,
    }
}

/// Variables that describe a session, not the behaviour of a program.
const TRIFLES: [&str; 27] = [
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "GPG_TTY",
    "HISTFILE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LESS",
    "LINES",
    "LS_COLORS",
    "MAIL",
    "OLDPWD",
    "PAGER",
    "PS1",
    "PWD",
    "PYENV_SHELL",
    "PYENV_VIRTUALENV_INIT",
    "SHLVL",
    "STY",
    "TERM",
    "TMUX",
    "TMUX_PANE",
    "VIRTUAL_ENV_PROMPT",
    "WINDOWID",
    "XDG_SESSION_ID",
    "XDG_VTNR",
    "_",
];
/// Prefixes of further such variables.
const TRIFLING: [&str; 7] = [
    "CI_", "GITHUB_", "PROVOKE_", "RUNNER_", "SSH_", "TERM_", "VSCODE_",
];

/// Returns the kind of a variable.
pub(super) fn group_of_variable(name: &str) -> FactGroup {
    let trifle = TRIFLES.contains(&name) || TRIFLING.iter().any(|prefix| name.starts_with(prefix));
    if trifle {
        FactGroup::Trifle
    } else {
        FactGroup::Variable
    }
}

/// Prefixes of CPU flags for which programs are built, or which programs test when they start.
const INSTRUCTIONS: [&str; 24] = [
    "abm",
    "adx",
    "aes",
    "amx_",
    "asimd",
    "avx",
    "bmi",
    "f16c",
    "fma",
    "gfni",
    "movbe",
    "pclmulqdq",
    "popcnt",
    "rtm",
    "sha_ni",
    "sse3",
    "sse4",
    "sse4a",
    "ssse3",
    "sve",
    "vaes",
    "vpclmulqdq",
    "xop",
    "xsave",
];

/// Returns whether programs use the instructions of this flag if the CPU has them.
pub(super) fn is_used(flag: &str) -> bool {
    INSTRUCTIONS.iter().any(|prefix| flag.starts_with(prefix))
}
