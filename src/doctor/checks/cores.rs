//! Checks of core files: whether the kernel writes them, where, and up to which size.

use super::{Finding, bad, better, passed};
use crate::doctor::{CaptureProof, MachineFacts};
use provoke_sys::core_pattern::CoreDestination;
use provoke_words::untrusted::Untrusted as _;

/// Default limit of kept cores: twice as much should be free.
const LARGE_CORE: u64 = 2 << 30;

pub(super) fn check_crash(machine: &MachineFacts) -> Finding {
    match &machine.proof {
        CaptureProof::Core(file) => passed(format!(
            "a test program crashed, and its core was at {}",
            file.to_safe()
        )),
        CaptureProof::NoCore(true) => bad(
            "a test program crashed and the kernel dumped a core, but the core was not found",
            "see `core-pattern`, which defines where cores go",
        ),
        CaptureProof::NoCore(false) => bad(
            "a test program crashed and left no core",
            "see `core-limit` and `core-pattern`",
        ),
        CaptureProof::InTheWay(file) => bad(
            format!(
                "no test crash was made: its core would overwrite {}",
                file.to_safe()
            ),
            format!("move it away: mv {0} {0}.kept", file.to_safe()),
        ),
        CaptureProof::NoCrash(reason) => bad(
            format!("no test crash could be made: {reason}"),
            "set TMPDIR to a writable directory: export TMPDIR=$HOME",
        ),
    }
}

pub(super) fn core_limit(machine: &MachineFacts) -> Finding {
    match machine.core_limit {
        Some(0) => bad(
            "the hard limit for core files is 0",
            "as root, before provoke: `ulimit -Hc unlimited`; in a service `LimitCORE=infinity`; `docker run --ulimit core=-1`",
        ),
        Some(bytes) if bytes < LARGE_CORE => better(
            format!(
                "the hard limit for core files is {bytes} bytes: larger cores are truncated and lose their stacks"
            ),
            "as root, before provoke: `ulimit -Hc unlimited`",
        ),
        _ => passed("the hard limit for core files is high enough; provoke raises the soft limit"),
    }
}

pub(super) fn core_pattern(machine: &MachineFacts) -> Finding {
    let to_files = "sysctl kernel.core_pattern=core.%p";
    let Some((pattern, destination)) = machine
        .core_pattern
        .as_ref()
        .zip(machine.destination.as_ref())
    else {
        return bad("cannot read where the kernel writes cores", "mount /proc");
    };
    match destination {
        CoreDestination::Helper { .. } if !machine.helper_exists && machine.container.is_none() => {
            bad(
                format!("cores go to a program that does not exist: {pattern}"),
                to_files,
            )
        }
        CoreDestination::Helper { leaves: None, .. } => bad(
            format!("cores go to an unknown program: {pattern}"),
            to_files,
        ),
        CoreDestination::Helper { .. } => better(
            format!("cores go to {pattern}, which slows down every crash, even without a core"),
            format!("to write core files instead: {to_files}"),
        ),
        CoreDestination::File(template) => match (&template.folder, &machine.core_folder) {
            (Some(_), Some(folder)) if !folder.exists => bad(
                format!(
                    "cores go to {}, which does not exist",
                    folder.path.to_safe()
                ),
                format!("mkdir -p -m 1777 {}", folder.path.to_safe()),
            ),
            (Some(_), Some(folder)) if !folder.writable => bad(
                format!(
                    "cores go to {}, which is not writable",
                    folder.path.to_safe()
                ),
                format!("chmod 1777 {}", folder.path.to_safe()),
            ),
            (Some(_), Some(folder)) => passed(format!("cores go to {}", folder.path.to_safe())),
            (None, Some(folder)) if !folder.writable => bad(
                "cores go to the working directory of a program, and this one is not writable",
                "use another working directory: provoke run --cwd DIR",
            ),
            _ => passed(format!(
                "cores are files in the working directory of a program: {pattern}"
            )),
        },
    }
}

pub(super) fn core_names(machine: &MachineFacts) -> Finding {
    match &machine.destination {
        Some(CoreDestination::File(template)) if !template.has_pid => better(
            "all cores have the same name: a second crash in a directory overwrites the first core",
            "sysctl kernel.core_uses_pid=1",
        ),
        _ => passed("each core has a unique name"),
    }
}

pub(super) fn core_suid(machine: &MachineFacts) -> Finding {
    match machine.suid_dumpable.as_deref() {
        Some("0") => passed("setuid programs leave no core (the usual setting)"),
        Some(other_value) => passed(format!(
            "setuid programs leave cores, too (fs.suid_dumpable is {other_value})"
        )),
        None => passed("cannot read whether setuid programs leave cores"),
    }
}

pub(super) fn check_space(location: &str, free: Option<u64>, fix: &str) -> Finding {
    let Some(free) = free else {
        return better(format!("cannot read the free space {location}"), fix);
    };
    #[expect(clippy::cast_precision_loss, reason = "for the eye")]
    let free_text = format!(
        "{:.1} GiB are free {location}",
        free as f64 / f64::from(1 << 30)
    );
    if free < 2 * LARGE_CORE {
        let space_text =
            format!("{free_text}; recommended: twice the memory of the largest program");
        return better(space_text, fix);
    }
    passed(free_text)
}
