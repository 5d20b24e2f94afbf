//! Checks of core files: whether the kernel writes them, where, and up to which size.

use super::{not, ok};
use crate::doctor::{Check, Machine, Proof, State};
use crate::sys::core_pattern::Destination;
use crate::untrusted::Untrusted as _;

/// Default limit of kept cores: twice as much should be free.
const LARGE_CORE: u64 = 2 << 30;

pub(super) fn crash(machine: &Machine) -> Check {
    let name = "crash";
    match &machine.proof {
        Proof::Core(file) => ok(
            name,
            format!(
                "a test program crashed, and its core was at {}",
                file.safe()
            ),
        ),
        Proof::NoCore(true) => not(
            State::Bad,
            name,
            "a test program crashed and the kernel dumped a core, but the core was not found",
            "see `core-pattern`, which defines where cores go",
        ),
        Proof::NoCore(false) => not(
            State::Bad,
            name,
            "a test program crashed and left no core",
            "see `core-limit` and `core-pattern`",
        ),
        Proof::InTheWay(file) => not(
            State::Bad,
            name,
            format!(
                "no test crash was made: its core would overwrite {}",
                file.safe()
            ),
            format!("move it away: mv {0} {0}.kept", file.safe()),
        ),
        Proof::NoCrash(why) => not(
            State::Bad,
            name,
            format!("no test crash could be made: {why}"),
            "set TMPDIR to a writable directory: export TMPDIR=$HOME",
        ),
    }
}

pub(super) fn core_limit(machine: &Machine) -> Check {
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
                "the hard limit for core files is {bytes} bytes: larger cores are truncated and lose their stacks"
            ),
            "as root, before provoke: `ulimit -Hc unlimited`",
        ),
        _ => ok(
            name,
            "the hard limit for core files is high enough; provoke raises the soft limit",
        ),
    }
}

pub(super) fn core_pattern(machine: &Machine) -> Check {
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
            "cannot read where the kernel writes cores",
            "mount /proc",
        );
    };
    match destination {
        Destination::Helper { .. } if !machine.helper_exists && machine.container.is_none() => not(
            State::Bad,
            name,
            format!("cores go to a program that does not exist: {pattern}"),
            to_files,
        ),
        Destination::Helper { leaves: None, .. } => not(
            State::Bad,
            name,
            format!("cores go to an unknown program: {pattern}"),
            to_files,
        ),
        Destination::Helper { .. } => not(
            State::Better,
            name,
            format!("cores go to {pattern}, which slows down every crash, even without a core"),
            format!("to write core files instead: {to_files}"),
        ),
        Destination::File(template) => match (&template.folder, &machine.core_folder) {
            (Some(_), Some(folder)) if !folder.exists => not(
                State::Bad,
                name,
                format!("cores go to {}, which does not exist", folder.path.safe()),
                format!("mkdir -p -m 1777 {}", folder.path.safe()),
            ),
            (Some(_), Some(folder)) if !folder.writable => not(
                State::Bad,
                name,
                format!("cores go to {}, which is not writable", folder.path.safe()),
                format!("chmod 1777 {}", folder.path.safe()),
            ),
            (Some(_), Some(folder)) => ok(name, format!("cores go to {}", folder.path.safe())),
            (None, Some(folder)) if !folder.writable => not(
                State::Bad,
                name,
                "cores go to the working directory of a program, and this one is not writable",
                "use another working directory: provoke run --cwd DIR",
            ),
            _ => ok(
                name,
                format!("cores are files in the working directory of a program: {pattern}"),
            ),
        },
    }
}

pub(super) fn core_names(machine: &Machine) -> Check {
    let name = "core-names";
    match &machine.destination {
        Some(Destination::File(template)) if !template.has_pid => not(
            State::Better,
            name,
            "all cores have the same name: a second crash in a directory overwrites the first core",
            "sysctl kernel.core_uses_pid=1",
        ),
        _ => ok(name, "each core has a unique name"),
    }
}

pub(super) fn core_space(machine: &Machine) -> Check {
    space(
        "core-space",
        "where cores go",
        machine.space,
        "--cores light",
    )
}

pub(super) fn core_suid(machine: &Machine) -> Check {
    let name = "core-suid";
    match machine.suid_dumpable.as_deref() {
        Some("0") => ok(name, "setuid programs leave no core (the usual setting)"),
        Some(other) => ok(
            name,
            format!("setuid programs leave cores, too (fs.suid_dumpable is {other})"),
        ),
        None => ok(name, "cannot read whether setuid programs leave cores"),
    }
}

pub(super) fn shared_memory(machine: &Machine) -> Check {
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
            format!("cannot read the free space {place}"),
            fix,
        );
    };
    #[expect(clippy::cast_precision_loss, reason = "for the eye")]
    let seen = format!(
        "{:.1} GiB are free {place}",
        free as f64 / f64::from(1 << 30)
    );
    if free < 2 * LARGE_CORE {
        let seen = format!("{seen}; recommended: twice the memory of the largest program");
        return not(State::Better, name, seen, fix);
    }
    ok(name, seen)
}
