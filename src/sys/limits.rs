//! Resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps this process and the children to come from dumping core; they may raise it again.
pub fn no_core_dumps() {
    let now = getrlimit(Resource::Core);
    // Lowering a soft limit cannot fail.
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: now.maximum,
        },
    );
}

/// Returns how many files each process may have open.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the kernel's number for a limit by its name in `ulimit` or `prlimit`.
pub fn number(name: &str) -> Option<u32> {
    Some(match name {
        "as" => libc::RLIMIT_AS,
        "core" => libc::RLIMIT_CORE,
        "cpu" => libc::RLIMIT_CPU,
        "data" => libc::RLIMIT_DATA,
        "fsize" => libc::RLIMIT_FSIZE,
        "memlock" => libc::RLIMIT_MEMLOCK,
        "nofile" => libc::RLIMIT_NOFILE,
        "nproc" => libc::RLIMIT_NPROC,
        "rss" => libc::RLIMIT_RSS,
        "stack" => libc::RLIMIT_STACK,
        _ => return None,
    })
}

/// The value that means no limit.
pub const UNLIMITED: u64 = libc::RLIM_INFINITY;
