//! Reads and sets resource limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Disables core dumps of this process and its future children, which may enable them again.
pub fn no_core_dumps() {
    let maximum = getrlimit(Resource::Core).maximum;
    set_limit(Resource::Core, Some(0), maximum);
}

/// Returns the limit that allows a child a core of this size, up to the hard limit.
pub fn core_dumps(bytes: u64) -> (u32, u64) {
    let limit = getrlimit(Resource::Core).maximum;
    (Resource::Core as u32, bytes.min(limit.unwrap_or(UNLIMITED)))
}

/// Makes the kernel dump only registers and modules of future children, which inherit this setting.
pub fn light_core_dumps() -> std::io::Result<()> {
    // The bits select ELF headers and private huge pages.
    std::fs::write("/proc/self/coredump_filter", "0x30")
}

/// Returns the number of files that each process may have open.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit of open files of this process to this number, up to the hard limit.
pub fn allow_open_files(wanted_files: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted_files) {
        let max = limit
            .maximum
            .map_or(wanted_files, |maximum| maximum.min(wanted_files));
        set_limit(Resource::Nofile, Some(max), limit.maximum);
    }
}

/// Name, soft limit and hard limit; `None` means unlimited.
pub type NamedLimit = (&'static str, Option<u64>, Option<u64>);

/// Returns every limit of this process.
pub fn all_limits() -> impl Iterator<Item = NamedLimit> {
    ALL.into_iter().map(|(name, resource)| {
        let limit = getrlimit(resource);
        (name, limit.current, limit.maximum)
    })
}

const ALL: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// Enables core dumps of future children, up to the hard limit.
pub fn allow_core_dumps() {
    let maximum = getrlimit(Resource::Core).maximum;
    set_limit(Resource::Core, maximum, maximum);
}

/// Sets a soft and a hard limit. Lowering a limit, and raising a soft limit to the hard limit, cannot fail.
pub(crate) fn set_limit(resource: Resource, current: Option<u64>, maximum: Option<u64>) {
    let _ = setrlimit(resource, Rlimit { current, maximum });
}

/// Returns the kernel's number of a limit by its name in `ulimit` or `prlimit`.
pub fn limit_number(name: &str) -> Option<u32> {
    let (_, resource) = ALL.iter().find(|(known, _)| *known == name)?;
    Some(*resource as u32)
}

/// The value that means no limit.
pub const UNLIMITED: u64 = libc::RLIM_INFINITY;
