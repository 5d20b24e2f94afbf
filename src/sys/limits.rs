//! Resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps this process and the children to come from dumping core; they may raise it again.
pub fn no_core_dumps() {
    let now = getrlimit(Resource::Core);
    // Lowering a soft limit cannot fail.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: now.maximum });
}

/// Returns how many more descriptors than now this process may be given, having
/// raised the soft limit to the hard one.
pub fn raise_open_files() -> u64 {
    let now = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
