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
