//! Uses up memory, output or CPU time on demand.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::ExitCode;

use rustix::process::Resource;

pub(crate) fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = black_box(turns.wrapping_add(1));
    }
}

/// Says whether running out of memory would hit this process and no other.
pub(crate) fn oom_is_contained(yes: bool) -> Result<(), String> {
    let address_space = rustix::process::getrlimit(Resource::As).current;
    let ceiling = [address_space, cgroup_limit(Path::new("/"))]
        .into_iter()
        .flatten()
        .min();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    judge(ceiling, available(&meminfo), yes)
}

fn judge(ceiling: Option<u64>, available: Option<u64>, yes: bool) -> Result<(), String> {
    let free = match (ceiling, available) {
        _ if yes => return Ok(()),
        (Some(ceiling), Some(available)) if ceiling < available => return Ok(()),
        (_, Some(available)) => format!("the {} MiB this machine has free", available >> 20),
        (_, None) => "the free memory of this machine (not found in /proc/meminfo)".into(),
    };
    Err(match ceiling {
        Some(ceiling) => format!(
            "the memory limit of {} MiB is not below {free}",
            ceiling >> 20
        ),
        None => format!(
            "no memory limit keeps this process below {free}, so the kernel might kill other processes"
        ),
    })
}

/// Finds the lowest limit among the memory cgroups above this process, versions 1 and 2.
fn cgroup_limit(root: &Path) -> Option<u64> {
    let memberships = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mut lowest = None;
    for membership in memberships.lines() {
        let mut parts = membership.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (mounts, file): (&[&str], _) = if controllers.is_empty() {
            (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max")
        } else if controllers
            .split(',')
            .any(|controller| controller == "memory")
        {
            (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        } else {
            continue;
        };
        for mount in mounts {
            // A container may show a path of the host's; the ancestors that do not exist in here are passed over.
            for ancestor in Path::new(path.trim_start_matches('/')).ancestors() {
                let text = fs::read_to_string(root.join(mount).join(ancestor).join(file))
                    .unwrap_or_default();
                // Version 1 says "no limit" with a number near 2^63.
                if let Some(limit) = text
                    .trim()
                    .parse()
                    .ok()
                    .filter(|&limit| limit < 1_u64 << 62)
                {
                    lowest = Some(lowest.map_or(limit, |lowest: u64| lowest.min(limit)));
                }
            }
        }
    }
    lowest
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Fills memory until something ends this process; under `ulimit -v` that is the failed allocation itself (SIGABRT).
pub(crate) fn oom(limit: u64) -> ExitCode {
    const STEP: usize = 16 << 20;
    // Should the machine run short after all, this process goes first.
    fs::write("/proc/self/oom_score_adj", "1000").ok();
    let mut held = Vec::new();
    for step in 1..=limit / STEP as u64 {
        held.push(black_box(vec![1_u8; STEP]));
        if step.is_power_of_two() || step % 64 == 0 {
            crate::print(&format!("holding {} MiB", (step * STEP as u64) >> 20));
        }
    }
    crate::say_error(&format!(
        "still alive: --limit of {} MiB reached, and nothing stopped it",
        limit >> 20
    ));
    ExitCode::from(crate::COULD_NOT)
}

/// Writes `bytes` of what breaks terminals, parsers and log viewers to stdout, and as much to stderr.
pub(crate) fn noise(bytes: u64, code: ExitCode) -> io::Result<ExitCode> {
    let block = block();
    // Not through Rust's stdout, which would look for line ends in all of it.
    let mut streams = [
        File::from(io::stdout().as_fd().try_clone_to_owned()?),
        File::from(io::stderr().as_fd().try_clone_to_owned()?),
    ];
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).map_or(block.len(), |left| left.min(block.len()));
        for stream in &mut streams {
            stream.write_all(&block[..length])?;
        }
        left -= length as u64;
    }
    Ok(code)
}

/// 64 KiB whose first lines are short and nasty, and whose last line runs on into the next block.
fn block() -> Vec<u8> {
    const SIZE: usize = 64 << 10;
    const NASTY: [&[u8]; 12] = [
        b"an ordinary line\n",
        b"invalid UTF-8: \xff\xfe \xc3\x28 \xed\xa0\x80 \xf0\x9f\x98\n",
        b"NULs: \0\0\0 and other controls: \x01\x02\x08\x0b\x0c\x0e\x1f\x7f\n",
        b"colours: \x1b[31mred\x1b[1;44mblue",
        b"screen: \x1b[2J\x1b[H\x1b[?25l\x1b[9999;9999H\x1b[5A\n",
        b"title and link: \x1b]0;not your terminal\x07\x1b]8;;http://example.invalid\x1b\\\n",
        b"lone returns: 10%\r50%\r100%\r\n",
        b"markup: ]]> <script>alert(1)</script> <!-- & &#0; \" ' | `code` \n",
        b"for spreadsheets: =1+1,\"a\"\"b\",;\t\n",
        b"for templates: {{ 7*7 }} ${HOME} $(reboot) %s %n\n",
        "wide: \u{1f9e8} \u{feff}\u{202e}backwards\u{202c} e\u{301} \u{fffe}\u{2028}\u{85}\n"
            .as_bytes(),
        b"Segmentation fault (core dumped)\n",
    ];
    let mut block = Vec::with_capacity(SIZE);
    while block.len() < SIZE / 4 {
        for line in NASTY {
            block.extend_from_slice(line);
        }
    }
    block.resize(SIZE, b'x');
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn oom_runs_only_under_a_limit_below_the_free_memory() {
        assert_eq!(judge(Some(GIB), Some(8 * GIB), false), Ok(()));
        assert!(
            judge(Some(8 * GIB), Some(8 * GIB), false)
                .unwrap_err()
                .contains("8192 MiB is not below")
        );
        assert!(
            judge(None, Some(8 * GIB), false)
                .unwrap_err()
                .starts_with("no memory limit")
        );
        assert!(judge(Some(GIB), None, false).is_err());
        assert_eq!(judge(None, None, true), Ok(()));
    }

    #[test]
    fn available_memory_is_read_in_bytes() {
        assert_eq!(
            available("MemTotal:  9 kB\nMemAvailable:   22957468 kB\n"),
            Some(22_957_468 << 10)
        );
        assert_eq!(available("MemTotal:  9 kB\n"), None);
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_lowest_limit_of_the_parents_counts_in_cgroup_v2() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/self/cgroup", "0::/a.slice/b.scope\n");
        write(root.path(), "sys/fs/cgroup/a.slice/memory.max", "1000\n");
        write(
            root.path(),
            "sys/fs/cgroup/a.slice/b.scope/memory.max",
            "max\n",
        );
        assert_eq!(cgroup_limit(root.path()), Some(1000));
    }

    #[test]
    fn a_cgroup_v1_limit_is_found_behind_a_path_of_the_host() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "proc/self/cgroup",
            "9:cpu,cpuacct:/x\n4:memory:/docker/1234\n0::/\n",
        );
        write(
            root.path(),
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "2000\n",
        );
        write(
            root.path(),
            "sys/fs/cgroup/cpu/x/memory.limit_in_bytes",
            "1\n",
        );
        assert_eq!(cgroup_limit(root.path()), Some(2000));
    }

    #[test]
    fn without_a_limit_no_limit_is_found() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(cgroup_limit(root.path()), None);
        write(root.path(), "proc/self/cgroup", "0::/\n");
        write(root.path(), "sys/fs/cgroup/memory.max", "max\n");
        assert_eq!(cgroup_limit(root.path()), None);
        write(root.path(), "proc/self/cgroup", "4:memory:/\n");
        write(
            root.path(),
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(cgroup_limit(root.path()), None);
    }

    #[test]
    fn noise_contains_every_sequence_that_breaks_readers() {
        let block = block();
        assert_eq!(block.len(), 64 << 10);
        assert!(std::str::from_utf8(&block).is_err());
        for needle in [&b"\0"[..], b"\x1b[2J", b"\x1b]0;", b"]]>", b"\r"] {
            assert!(
                block.windows(needle.len()).any(|window| window == needle),
                "{needle:?}"
            );
        }
        assert!(
            block
                .split(|&byte| byte == b'\n')
                .any(|line| line.len() > 32 << 10)
        );
    }
}
