//! Reads and sets resource limits.

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

/// Returns the limit that lets a child dump so many bytes of core, as far as that can be had.
pub fn core_dumps(bytes: u64) -> (u32, u64) {
    let most = getrlimit(Resource::Core).maximum;
    (libc::RLIMIT_CORE, bytes.min(most.unwrap_or(UNLIMITED)))
}

/// Has the kernel dump of the children to come only what it always dumps: registers and
/// modules. They inherit it from this process.
pub fn light_core_dumps() -> std::io::Result<()> {
    // No memory but ELF headers and private huge pages.
    std::fs::write("/proc/self/coredump_filter", "0x30")
}

/// Returns how many files each process may have open.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Lets this process open so many files, as far as its hard limit allows.
pub fn allow_open_files(wanted: u64) {
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < wanted) {
        let most = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        // A soft limit may always be raised to the hard one.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(most),
                maximum: now.maximum,
            },
        );
    }
}

/// A limit's name, its soft and its hard value; unlimited without a number.
pub type Limit = (&'static str, Option<u64>, Option<u64>);

/// Returns every limit of this process.
pub fn all() -> impl Iterator<Item = Limit> {
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

/// Lets the children to come dump core, as far as the hard limit allows.
pub fn allow_core_dumps() {
    let maximum = getrlimit(Resource::Core).maximum;
    // A soft limit may always be raised to the hard one.
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
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
