//! Facts about this machine.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

/// Returns the time since boot without suspended time, which is the same for all processes and the
/// kernel.
pub fn monotonic_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

/// Returns the number of CPUs that this process may use.
pub fn cpu_count() -> u32 {
    static COUNT: LazyLock<u32> = LazyLock::new(|| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        u32::try_from(count).unwrap_or(u32::MAX)
    });
    *COUNT
}

/// Returns the name of this machine, the name and release of its kernel, and its CPU architecture.
pub fn system_names() -> [String; 3] {
    let system = rustix::system::uname();
    let words = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let kernel = format!("{} {}", words(system.sysname()), words(system.release()));
    [words(system.nodename()), kernel, words(system.machine())]
}

/// Returns the identifier of the running kernel, which is a new one after each start of the machine.
pub fn boot_id() -> String {
    read_trimmed("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Returns the number of OOM-killed processes of this machine since boot.
pub fn oom_kills() -> Option<u64> {
    let text = fs::read_to_string("/proc/vmstat").ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
}

/// Name of the initial pid namespace, which is the same for every kernel.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Returns whether this process is in the initial pid namespace, that is, not in a container.
pub fn sees_every_process() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE)
}

/// Returns the major and minor version of the kernel.
pub fn kernel_version() -> Option<(u32, u32)> {
    let system = rustix::system::uname();
    let release = system.release().to_str().ok()?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the real user and group of this process.
pub fn real_user() -> (u32, u32) {
    (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    )
}

/// Returns the bytes that unprivileged users can still write to the file system of this folder.
pub fn free_space(folder: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(folder).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// Returns whether this process may create files in a folder.
pub fn may_write(folder: &Path) -> bool {
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Returns whether the kernel log can be read.
pub fn kernel_log_is_readable() -> bool {
    fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/kmsg")
        .is_ok()
}

/// Returns the text of a file, without white space around it.
pub fn read_trimmed(file: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned())
}

/// Returns the value of a field from the first line such as `model name : …`.
pub fn field_of(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// Returns the CPU flags as in `/proc/cpuinfo`.
pub fn processor_flags() -> Option<std::collections::BTreeSet<String>> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags_line = text.lines().find(|line| line.starts_with("flags"))?;
    let (_, flags) = flags_line.split_once(':')?;
    Some(flags.split_whitespace().map(str::to_owned).collect())
}
