//! Collects facts about a machine, without judging them.

use super::{CaptureProof, HoldProof};
use provoke_autopsy::{CommandEnvironment, LoaderSettings, find_libraries};
use provoke_survey as survey;
use provoke_sys::cgroup::{CgroupObstacle, SlotGroup, TrialGroup};
use provoke_sys::core_pattern::{self, CoreDestination};
use provoke_sys::host::{self, field_of, read_trimmed};
use provoke_sys::{limits, spawn};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Programs that read stacks, and what each adds.
pub(super) const TOOLS: [(&str, &str); 4] = [
    ("gdb", "stacks of processes and cores, with the most detail"),
    ("eu-stack", "stacks of hung processes, faster than gdb"),
    (
        "py-spy",
        "Python stacks of versions before 3.8 or after 3.13",
    ),
    ("pystack", "combined Python and C stacks of cores"),
];

/// Number of the capability to trace any process.
const CAP_SYS_PTRACE: u32 = 19;

/// The observed facts about a machine.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    /// The hard limit for core files, in bytes.
    pub core_limit: Option<u64>,
    /// The kernel's `core_pattern`, unchanged.
    pub core_pattern: Option<String>,
    /// Meaning of that pattern.
    pub destination: Option<CoreDestination>,
    /// Directory of core files.
    pub core_folder: Option<CoreFolder>,
    /// Whether the program that receives core files exists.
    pub helper_exists: bool,
    /// Result of a real crash.
    pub proof: CaptureProof,
    /// Result of holding a thread.
    pub hold_proof: HoldProof,
    /// The kind of container in which provoke runs.
    pub container: Option<String>,
    /// Name of PID 1.
    pub init: Option<String>,
    /// Free bytes in the directory of core files.
    pub space: Option<u64>,
    /// Free bytes in `/dev/shm`.
    pub shared_space: Option<u64>,
    /// Whether processes with changed privileges may dump core.
    pub suid_dumpable: Option<String>,
    /// Which processes provoke may trace.
    pub tracing: TracingRights,
    /// Whether provoke can read the kernel's log.
    pub kernel_log: bool,
    /// Why provoke cannot create memory cgroups; `None` if it can.
    pub memory_obstacle: Option<CgroupObstacle>,
    /// The installed tools.
    pub tools: Vec<&'static str>,
    /// Whether the debug symbols of the C library are installed; `None` if the library has no build ID.
    pub libc_symbols: Option<bool>,
    /// Short name of the distribution.
    pub distribution: String,
    /// Environment variables that change how programs run, with their effects.
    pub influences: Vec<(String, &'static str)>,
    /// Whether the kernel lists the children of a process.
    pub lists_children: bool,
}

/// The processes that provoke may trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracingRights {
    /// Any process.
    AnyProcess,
    /// Its descendants, such as the processes of trials.
    Descendants,
    /// No process.
    Nothing,
}

impl TracingRights {
    /// Returns the rights with or without the capability, under the kernel's restriction of tracing.
    pub(super) fn new(has_capability: bool, scope: Option<u8>) -> Self {
        match scope {
            _ if has_capability => Self::AnyProcess,
            Some(2..) => Self::Nothing,
            _ => Self::Descendants,
        }
    }
}

/// A directory for core files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreFolder {
    /// Path.
    pub path: PathBuf,
    /// Whether it exists.
    pub exists: bool,
    /// Whether provoke may write to it.
    pub writable: bool,
}

impl MachineFacts {
    /// Examines this machine from this directory. `proof` is the result of a real crash, `hold_proof` that of a hold.
    pub fn look_from(cwd: &Path, proof: CaptureProof, hold_proof: HoldProof) -> Self {
        let destination = core_pattern::read_destination().ok();
        let core_folder = destination.as_ref().map(|destination| {
            let template = destination.core_template();
            let folder = template.and_then(|template| template.folder.clone());
            CoreFolder::new(folder.unwrap_or_else(|| cwd.to_owned()))
        });
        let helper_exists = matches!(&destination, Some(CoreDestination::Helper { command, .. })
            if Path::new(command.split(' ').next().unwrap_or_default()).exists());
        let space = core_folder.as_ref().map(|folder| folder.path.as_path());
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let rights_text = field_of(&status, "CapEff").unwrap_or_default();
        let rights = u64::from_str_radix(rights_text.trim(), 16).unwrap_or(0);
        Self {
            core_limit: limits::all_limits()
                .find(|(name, ..)| *name == "core")
                .map_or(Some(0), |(_, _, hard)| hard),
            core_pattern: read_trimmed("/proc/sys/kernel/core_pattern"),
            helper_exists,
            proof,
            hold_proof,
            container: survey::detect_container(),
            init: read_trimmed("/proc/1/comm"),
            space: space.and_then(host::free_space),
            shared_space: host::free_space(Path::new("/dev/shm")),
            suid_dumpable: read_trimmed("/proc/sys/fs/suid_dumpable"),
            tracing: TracingRights::new(
                rights & (1 << CAP_SYS_PTRACE) != 0,
                read_trimmed("/proc/sys/kernel/yama/ptrace_scope")
                    .and_then(|text| text.parse().ok()),
            ),
            kernel_log: host::kernel_log_is_readable(),
            memory_obstacle: (!counts_oom_kills()).then(|| CgroupObstacle::find("memory")),
            tools: TOOLS
                .map(|(name, _)| name)
                .into_iter()
                .filter(|name| is_there(name))
                .collect(),
            libc_symbols: libc_symbols(),
            distribution: fs::read_to_string("/etc/os-release")
                .ok()
                .and_then(|text| field_of(&text, "ID="))
                .map_or(String::new(), |id| id.trim_matches('"').to_owned()),
            influences: influential_variables(),
            lists_children: Path::new("/proc/thread-self/children").exists(),
            core_folder,
            destination,
        }
    }

    /// Returns whether provoke may trace the processes of a trial.
    pub fn may_trace(&self) -> bool {
        self.tracing != TracingRights::Nothing
    }
}

impl CoreFolder {
    fn new(path: PathBuf) -> Self {
        Self {
            exists: path.is_dir(),
            writable: host::may_write(&path),
            path,
        }
    }
}

/// Returns whether a slot gets a cgroup that counts OOM kills.
fn counts_oom_kills() -> bool {
    SlotGroup::try_create().is_some_and(|group| {
        let paths: Vec<PathBuf> = group.paths().map(Path::to_owned).collect();
        TrialGroup::move_into(&paths).is_some_and(|mut group| group.new_oom_kills().is_some())
    })
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH");
    spawn::find_program(OsStr::new(name), path.as_deref(), Path::new("/")).is_ok()
}

/// Returns whether the debug symbols of the C library are installed, for exactly this build.
fn libc_symbols() -> Option<bool> {
    let settings = LoaderSettings::of_command(&CommandEnvironment::default());
    let libraries = find_libraries(Path::new("/bin/sh"), &settings);
    let id = libraries.get("libc.so.6")?.elf.build_id.as_ref()?;
    let (folder, name) = id.split_at_checked(2)?;
    let file = format!("/usr/lib/debug/.build-id/{folder}/{name}.debug");
    Some(Path::new(&file).exists())
}

fn influential_variables() -> Vec<(String, &'static str)> {
    let names = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let mut variables: Vec<(String, &'static str)> = names
        .filter_map(|(name, _)| {
            let name = name.into_string().ok()?;
            let effect = survey::variable_effect(&name)?;
            Some((name, effect))
        })
        .collect();
    variables.sort();
    variables
}
