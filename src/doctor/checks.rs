//! The checks: each looks at what was seen, and says what it means and what to do.

use super::machine::TOOLS;
use super::{Check, Machine, Proof, State};
use crate::sys::cgroup::Version;
use crate::sys::core_pattern::Destination;

/// Every check, in the order in which they are shown.
pub(super) const ALL: [fn(&Machine) -> Check; 19] = [
    crash,
    core_limit,
    core_pattern,
    core_names,
    core_space,
    core_suid,
    shared_memory,
    kernel_log,
    ptrace,
    gdb,
    eu_stack,
    py_spy,
    pystack,
    symbols,
    memory_group,
    container,
    init,
    children,
    variables,
];

/// The largest core that is kept unless told otherwise: twice as much should be free.
const LARGE_CORE: u64 = 2 << 30;

fn ok(name: &'static str, seen: impl Into<String>) -> Check {
    Check {
        name,
        state: State::Ok,
        seen: seen.into(),
        fix: None,
    }
}

fn not(state: State, name: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Check {
    Check {
        name,
        state,
        seen: seen.into(),
        fix: Some(fix.into()),
    }
}

fn crash(machine: &Machine) -> Check {
    let name = "crash";
    match &machine.proof {
        Proof::Core(file) => ok(
            name,
            format!("a victim crashed, and its core was at {}", file.display()),
        ),
        Proof::NoCore(true) => not(
            State::Bad,
            name,
            "a victim crashed, the kernel says it dumped core, and the core was not found",
            "see `core-pattern`: where it goes is decided there",
        ),
        Proof::NoCore(false) => not(
            State::Bad,
            name,
            "a victim crashed and left no core",
            "see `core-limit` and `core-pattern`",
        ),
        Proof::NoCrash(why) => not(
            State::Bad,
            name,
            format!("no crash could be made: {why}"),
            "set TMPDIR to a folder that can be written: export TMPDIR=$HOME",
        ),
    }
}

fn core_limit(machine: &Machine) -> Check {
    let name = "core-limit";
    match machine.core_limit {
        Some(0) => not(
            State::Bad,
            name,
            "the hard limit for core files is 0",
            "as root, before provoke: `ulimit -Hc unlimited`; in a service `LimitCORE=infinity`; `docker run --ulimit core=-1`",
        ),
        Some(bytes) if bytes < LARGE_CORE => not(
            State::Better,
            name,
            format!(
                "the hard limit for core files is {bytes} bytes: larger ones are cut, and lose their stacks"
            ),
            "as root, before provoke: `ulimit -Hc unlimited`",
        ),
        _ => ok(
            name,
            "the hard limit for core files is high enough; provoke raises the soft one",
        ),
    }
}

fn core_pattern(machine: &Machine) -> Check {
    let name = "core-pattern";
    let to_files = "sysctl kernel.core_pattern=core.%p";
    let Some((pattern, destination)) = machine
        .core_pattern
        .as_ref()
        .zip(machine.destination.as_ref())
    else {
        return not(
            State::Bad,
            name,
            "the kernel does not say where cores go",
            "mount /proc",
        );
    };
    match destination {
        Destination::Helper { .. } if !machine.helper_exists && machine.container.is_none() => not(
            State::Bad,
            name,
            format!("cores go to a program that is not there: {pattern}"),
            to_files,
        ),
        Destination::Helper { leaves: None, .. } => not(
            State::Bad,
            name,
            format!("cores go to a program that is not known here: {pattern}"),
            to_files,
        ),
        Destination::Helper { .. } => not(
            State::Better,
            name,
            format!(
                "cores go to {pattern}, which takes its time at each crash, also where no core is wanted"
            ),
            format!("to have plain files while you look for a bug: {to_files}"),
        ),
        Destination::File(template) => match (&template.folder, &machine.core_folder) {
            (Some(_), Some(folder)) if !folder.exists => not(
                State::Bad,
                name,
                format!(
                    "cores go into {}, which is not there",
                    folder.path.display()
                ),
                format!("mkdir -p -m 1777 {}", folder.path.display()),
            ),
            (Some(_), Some(folder)) if !folder.writable => not(
                State::Bad,
                name,
                format!(
                    "cores go into {}, which you cannot write",
                    folder.path.display()
                ),
                format!("chmod 1777 {}", folder.path.display()),
            ),
            (Some(_), Some(folder)) => ok(name, format!("cores go into {}", folder.path.display())),
            (None, Some(folder)) if !folder.writable => not(
                State::Bad,
                name,
                "cores go into the folder where a program runs, and this one you cannot write",
                "run it in another one: provoke run --cwd DIR",
            ),
            _ => ok(
                name,
                format!("cores are files in the folder where a program runs: {pattern}"),
            ),
        },
    }
}

fn core_names(machine: &Machine) -> Check {
    let name = "core-names";
    match &machine.destination {
        Some(Destination::File(template)) if !template.has_pid => not(
            State::Better,
            name,
            "all cores have one name: of two crashes in one folder, the first core is lost",
            "sysctl kernel.core_uses_pid=1",
        ),
        _ => ok(name, "each core has a name of its own"),
    }
}

fn core_space(machine: &Machine) -> Check {
    space(
        "core-space",
        "where cores go",
        machine.space,
        "--cores light",
    )
}

fn shared_memory(machine: &Machine) -> Check {
    space(
        "shared-memory",
        "in /dev/shm",
        machine.shared_space,
        "docker run --shm-size 8g",
    )
}

fn space(name: &'static str, place: &str, free: Option<u64>, fix: &str) -> Check {
    let Some(free) = free else {
        return not(
            State::Better,
            name,
            format!("it is not known how much is free {place}"),
            fix,
        );
    };
    #[expect(clippy::cast_precision_loss, reason = "for the eye")]
    let seen = format!(
        "{:.1} GiB are free {place}",
        free as f64 / f64::from(1 << 30)
    );
    if free < 2 * LARGE_CORE {
        let seen = format!("{seen}; twice the memory of the largest program is wanted");
        return not(State::Better, name, seen, fix);
    }
    ok(name, seen)
}

fn core_suid(machine: &Machine) -> Check {
    let name = "core-suid";
    match machine.suid_dumpable.as_deref() {
        Some("0") => ok(
            name,
            "programs that change their rights leave no core, as is usual",
        ),
        Some(other) => ok(
            name,
            format!(
                "programs that change their rights leave cores too (fs.suid_dumpable is {other})"
            ),
        ),
        None => ok(name, "the kernel does not say what setuid programs leave"),
    }
}

fn kernel_log(machine: &Machine) -> Check {
    let name = "kernel-log";
    if machine.kernel_log {
        return ok(
            name,
            "what the kernel logs of crashes and kills can be read",
        );
    }
    not(
        State::Better,
        name,
        "what the kernel logs of crashes and kills cannot be read",
        "run provoke as root, or: sysctl kernel.dmesg_restrict=0; in a container also --cap-add SYSLOG --device /dev/kmsg",
    )
}

fn ptrace(machine: &Machine) -> Check {
    let name = "ptrace";
    if !machine.may_trace() {
        return not(
            State::Bad,
            name,
            "nobody but root may trace processes: no stacks of hangs",
            "sysctl kernel.yama.ptrace_scope=1",
        );
    }
    match (machine.cap_ptrace, &machine.container) {
        (false, Some(_)) => not(
            State::Better,
            name,
            "processes of trials may be traced, others not: CAP_SYS_PTRACE is missing",
            "docker run --cap-add SYS_PTRACE",
        ),
        _ => ok(
            name,
            "processes of trials may be traced: stacks of hangs can be taken",
        ),
    }
}

fn tool(machine: &Machine, name: &'static str, fix: &str) -> Check {
    let adds = TOOLS.iter().find(|(known, _)| *known == name);
    let adds = adds.map_or("", |(_, adds)| adds);
    if machine.tools.contains(&name) {
        return ok(name, format!("it is there: {adds}"));
    }
    not(
        State::Better,
        name,
        format!("it is not there; it adds {adds}"),
        fix,
    )
}

fn gdb(machine: &Machine) -> Check {
    tool(machine, "gdb", &install(machine, "gdb"))
}

fn eu_stack(machine: &Machine) -> Check {
    tool(machine, "eu-stack", &install(machine, "elfutils"))
}

fn py_spy(machine: &Machine) -> Check {
    tool(machine, "py-spy", "pip install py-spy")
}

fn pystack(machine: &Machine) -> Check {
    tool(machine, "pystack", "pip install pystack")
}

/// Returns how a package is installed here.
fn install(machine: &Machine, package: &str) -> String {
    match machine.distribution.as_str() {
        "debian" | "ubuntu" => format!("apt install {package}"),
        "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => format!("dnf install {package}"),
        "arch" => format!("pacman -S {package}"),
        "alpine" => format!("apk add {package}"),
        _ => format!("install {package}"),
    }
}

fn symbols(machine: &Machine) -> Check {
    let name = "libc-symbols";
    match machine.libc_symbols {
        Some(true) => ok(name, "the C library's debug symbols are there"),
        Some(false) => not(
            State::Better,
            name,
            "the C library's debug symbols are not there: its frames have fewer names",
            match machine.distribution.as_str() {
                "fedora" | "rhel" | "centos" | "rocky" | "almalinux" => {
                    "dnf debuginfo-install glibc".to_owned()
                }
                _ => install(machine, "libc6-dbg"),
            },
        ),
        None => ok(
            name,
            "the C library cannot be told apart from others of its kind",
        ),
    }
}

fn memory_group(machine: &Machine) -> Check {
    let name = "memory-group";
    if machine.memory_group {
        return ok(
            name,
            "trials get memory groups: a kill for want of memory is known for certain",
        );
    }
    let why = match machine.cgroup {
        Some(Version::Two) => {
            "groups are there, and their memory controller is not passed on to us"
        }
        Some(Version::One) => "groups are there, in their old version, and only root makes them",
        None => "there are no groups that count memory",
    };
    not(
        State::Better,
        name,
        format!("{why}: a kill for want of memory is only likely, never certain"),
        match machine.cgroup {
            Some(Version::One) => "run provoke as root",
            _ => "systemd-run --user --scope -p Delegate=yes provoke ...",
        },
    )
}

fn container(machine: &Machine) -> Check {
    let name = "container";
    let helper = matches!(machine.destination, Some(Destination::Helper { .. }));
    match &machine.container {
        None => ok(name, "this is no container that shows"),
        Some(kind) if helper => not(
            State::Bad,
            name,
            format!(
                "this is a container ({kind}), and the host hands cores to a program of its own"
            ),
            "on the host: sysctl kernel.core_pattern=core.%p",
        ),
        Some(kind) => ok(
            name,
            format!(
                "this is a container ({kind}); the host's setting for cores holds, and its files land here"
            ),
        ),
    }
}

/// First processes that are known to take in orphans.
const REAPERS: [&str; 9] = [
    "catatonit",
    "docker-init",
    "dumb-init",
    "init",
    "podman-init",
    "runit",
    "s6-svscan",
    "systemd",
    "tini",
];

fn init(machine: &Machine) -> Check {
    let name = "init";
    match (&machine.container, &machine.init) {
        (Some(_), Some(first)) if !REAPERS.contains(&first.as_str()) => not(
            State::Better,
            name,
            format!(
                "the first process is `{first}`, which may not take in orphans: they stay as zombies"
            ),
            "docker run --init",
        ),
        (_, Some(first)) => ok(name, format!("the first process is `{first}`")),
        (_, None) => ok(name, "the first process is not to be seen"),
    }
}

fn children(machine: &Machine) -> Check {
    let name = "children";
    if machine.lists_children {
        return ok(name, "the kernel lists the children of a process");
    }
    not(
        State::Bad,
        name,
        "the kernel does not list the children of a process: what trials leave behind is not found",
        "use a kernel with CONFIG_PROC_CHILDREN=y",
    )
}

fn variables(machine: &Machine) -> Check {
    let name = "variables";
    if machine.influences.is_empty() {
        return ok(
            name,
            "no variable is set that is known to change how programs run",
        );
    }
    let known = machine.influences.iter();
    let known: Vec<String> = known
        .clone()
        .map(|(name, what)| format!("{name} is set ({what})"))
        .collect();
    let names: Vec<&str> = machine
        .influences
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    not(
        State::Better,
        name,
        format!("{}: rates are for this setting", known.join(", ")),
        format!("unset {}", names.join(" ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::{CoreFolder, checkup};
    use crate::sys::core_pattern::parse;
    use std::path::PathBuf;

    /// A machine on which all is well.
    fn well() -> Machine {
        Machine {
            core_limit: None,
            core_pattern: Some("core.%p".to_owned()),
            destination: Some(parse("core.%p", true)),
            core_folder: Some(CoreFolder {
                path: PathBuf::from("/cores"),
                exists: true,
                writable: true,
            }),
            helper_exists: false,
            proof: Proof::Core(PathBuf::from("/cores/core.1")),
            container: None,
            init: Some("systemd".to_owned()),
            space: Some(100 << 30),
            shared_space: Some(100 << 30),
            suid_dumpable: Some("0".to_owned()),
            ptrace_scope: Some(1),
            cap_ptrace: false,
            kernel_log: true,
            memory_group: true,
            cgroup: Some(Version::Two),
            tools: TOOLS.map(|(name, _)| name).to_vec(),
            libc_symbols: Some(true),
            distribution: "debian".to_owned(),
            influences: Vec::new(),
            lists_children: true,
        }
    }

    /// Returns the checks that say something else than that all is well.
    fn complaints(change: impl Fn(&mut Machine)) -> Vec<(&'static str, State)> {
        let mut machine = well();
        change(&mut machine);
        let checks = checkup(&machine).checks.into_iter();
        let complaints = checks.filter(|check| check.state != State::Ok);
        let complaints = complaints.inspect(|check| assert!(check.fix.is_some(), "{check:?}"));
        complaints.map(|check| (check.name, check.state)).collect()
    }

    fn pattern(machine: &mut Machine, pattern: &str) {
        machine.core_pattern = Some(pattern.to_owned());
        machine.destination = Some(parse(pattern, false));
    }

    #[test]
    fn where_all_is_well_there_is_nothing_to_do() {
        assert_eq!(complaints(|_| {}), []);
        let checks = checkup(&well()).checks;
        assert!(checks.iter().all(|check| check.fix.is_none()));
        let mut names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len(), "each has a name of its own");
    }

    #[test]
    fn what_keeps_cores_from_being_written_is_bad() {
        let bad = |name| vec![(name, State::Bad)];
        assert_eq!(complaints(|m| m.core_limit = Some(0)), bad("core-limit"));
        let missing = |m: &mut Machine| {
            pattern(m, "/cores/core.%p");
            m.core_folder.as_mut().unwrap().exists = false;
        };
        assert_eq!(complaints(missing), bad("core-pattern"));
        let closed = |m: &mut Machine| m.core_folder.as_mut().unwrap().writable = false;
        assert_eq!(complaints(closed), bad("core-pattern"));
        assert_eq!(
            complaints(|m| pattern(m, "|/no/helper %p")),
            bad("core-pattern")
        );
        let unknown = |m: &mut Machine| {
            pattern(m, "|/usr/bin/other %p");
            m.helper_exists = true;
        };
        assert_eq!(complaints(unknown), bad("core-pattern"));
        assert_eq!(complaints(|m| m.proof = Proof::NoCore(false)), bad("crash"));
    }

    #[test]
    fn what_costs_something_could_be_better() {
        let better = |name| vec![(name, State::Better)];
        assert_eq!(complaints(|m| pattern(m, "core")), better("core-names"));
        let systemd = |m: &mut Machine| {
            pattern(m, "|/lib/systemd/systemd-coredump %P");
            m.helper_exists = true;
        };
        assert_eq!(complaints(systemd), better("core-pattern"));
        assert_eq!(complaints(|m| m.kernel_log = false), better("kernel-log"));
        assert_eq!(
            complaints(|m| m.memory_group = false),
            better("memory-group")
        );
        assert_eq!(complaints(|m| m.space = Some(1)), better("core-space"));
        assert_eq!(
            complaints(|m| m.tools.retain(|tool| *tool != "gdb")),
            better("gdb")
        );
        let set = |m: &mut Machine| m.influences = vec![("LD_PRELOAD".to_owned(), "x")];
        assert_eq!(complaints(set), better("variables"));
    }

    #[test]
    fn tracing_depends_on_the_scope_and_on_rights() {
        let scope =
            |scope, cap| complaints(move |m| (m.ptrace_scope, m.cap_ptrace) = (Some(scope), cap));
        assert_eq!(scope(0, false), []);
        assert_eq!(scope(2, false), [("ptrace", State::Bad)]);
        assert_eq!(scope(3, true), []);
    }

    #[test]
    fn in_a_container_the_host_and_the_first_process_matter() {
        let inside = |m: &mut Machine| {
            m.container = Some("docker".to_owned());
            m.cap_ptrace = true;
        };
        assert_eq!(complaints(inside), []);
        let shell = |m: &mut Machine| {
            inside(m);
            m.init = Some("sh".to_owned());
        };
        assert_eq!(complaints(shell), [("init", State::Better)]);
        let helper = |m: &mut Machine| {
            inside(m);
            pattern(m, "|/usr/lib/systemd/systemd-coredump %P");
        };
        let found = complaints(helper);
        assert!(found.contains(&("container", State::Bad)), "{found:?}");
    }
}
