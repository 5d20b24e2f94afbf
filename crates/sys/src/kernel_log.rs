//! Reads the kernel log about processes that crash or are killed.
//!
//! Reading has no side effects and no cost for other processes: the kernel writes these lines
//! anyway. The log is incomplete, because its rate is limited. Reading needs root, or
//! `kernel.dmesg_restrict=0`.

use super::host;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::OwnedFd;

/// Maximum length of a record.
const RECORD: usize = 8 * 1024;

/// The kernel log, from the position at which it was opened.
pub struct KernelLog {
    records: OwnedFd,
    buffer: Vec<u8>,
}

/// A line about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLogLine {
    /// Thread or process id in the line.
    pub pid: i32,
    /// Name of the process, if the line contains it.
    pub name: String,
    /// Text without the time.
    pub text: String,
}

impl KernelLog {
    /// Opens the log at its end; returns `None` if access is denied, or if this process is in
    /// another pid namespace.
    pub fn open_at_end() -> Option<Self> {
        if !host::sees_every_process() {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::open("/dev/kmsg", flags, Mode::empty()).ok()?);
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self {
            records: file.into(),
            buffer: vec![0; RECORD],
        })
    }

    /// Returns the new lines about processes since the last call.
    pub fn new_lines(&mut self) -> Vec<ProcessLogLine> {
        let mut reader = ProcessLineReader::default();
        loop {
            match rustix::io::read(&self.records, &mut *self.buffer) {
                Ok(0) => break,
                Ok(length) => reader.push_record(&String::from_utf8_lossy(&self.buffer[..length])),
                // Records were overwritten before they were read; continue with the next one.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(_) => break,
            }
        }
        reader.lines
    }
}

/// Selects the lines about processes.
#[derive(Default)]
struct ProcessLineReader {
    lines: Vec<ProcessLogLine>,
    /// The last record was such a line, so that continuation records may follow.
    follows: bool,
}

impl ProcessLineReader {
    fn push_record(&mut self, record: &str) {
        // Other programs may write to the log, but not with the kernel's facility.
        let text = record.split_once(';').filter(|(prefix, _)| {
            let facility = prefix.split(',').next();
            facility
                .and_then(|number| number.parse().ok())
                .is_some_and(|number: u32| number >> 3 == 0)
        });
        let text = text.and_then(|(_, text)| text.lines().next());
        let text = &unescape_line(text.unwrap_or(""));
        if self.follows
            && text.starts_with("Code: ")
            && let Some(last) = self.lines.last()
        {
            let code = ProcessLogLine {
                text: text.to_owned(),
                ..last.clone()
            };
            self.lines.push(code);
            self.follows = false;
            return;
        }
        let line = parse_kill(text).or_else(|| parse_crash(text));
        self.follows = line.is_some();
        self.lines.extend(line);
    }
}

/// Replaces escapes such as `\xff`, which the kernel writes for special bytes of names.
fn unescape_line(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((text_before, after)) = rest.split_once("\\x") {
        bytes.extend(text_before.as_bytes());
        let byte = after
            .get(..2)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match byte {
            Some(byte) => {
                bytes.push(byte);
                &after[2..]
            }
            None => {
                bytes.extend(b"\\x");
                after
            }
        };
    }
    bytes.extend(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses `NAME[PID]: segfault at …` and `traps: NAME[PID] trap invalid opcode …`.
fn parse_crash(text: &str) -> Option<ProcessLogLine> {
    let line = text.strip_prefix("traps: ").unwrap_or(text);
    // A name may contain brackets and spaces; the text behind it and its maximum length determine
    // where it ends.
    let (name, pid) = line.match_indices('[').find_map(|(position, _)| {
        let (pid_text, after) = line[position + 1..].split_once(']')?;
        let pid = pid_text.parse().ok().filter(|pid| *pid > 0)?;
        let named = 0 < position
            && position <= MAX_NAME_LENGTH
            && AFTER_NAME.iter().any(|word| after.starts_with(word));
        named.then(|| (&line[..position], pid))
    })?;
    Some(ProcessLogLine {
        pid,
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

/// Texts of the kernel right behind name and id of a process.
const AFTER_NAME: [&str; 3] = [": ", " trap ", " general protection "];

/// Maximum bytes of a name; each byte that is not UTF-8 was replaced with three.
const MAX_NAME_LENGTH: usize = 15 * 3;

/// Parses `oom-kill:constraint=…,task=NAME,pid=N,uid=0` and `Out of memory: Killed process N (NAME)
/// …`.
fn parse_kill(text: &str) -> Option<ProcessLogLine> {
    let (pid, name) = if let Some((_, after)) = text.split_once("Killed process ") {
        let (pid, after) = after.split_once(" (")?;
        (pid, after.split_once(')')?.0)
    } else {
        let (_, after) = text.strip_prefix("oom-kill:")?.rsplit_once(",task=")?;
        let (name, after) = after.rsplit_once(",pid=")?;
        (after.split(',').next()?, name)
    };
    Some(ProcessLogLine {
        pid: pid.parse().ok()?,
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &[&str]) -> Vec<(i32, String, String)> {
        let mut reader = ProcessLineReader::default();
        for record in records {
            reader.push_record(record);
        }
        let lines = reader.lines.into_iter();
        lines.map(|line| (line.pid, line.name, line.text)).collect()
    }

    #[test]
    fn crash_lines_are_found_with_their_code_bytes() {
        let seen = read(&[
            "6,543,2319814931,-;provoke[14465]: segfault at 10 ip 000055c510ca45c4 sp \
             00007ffcead5de00 error 4 in provoke[83d5c4,55c510808000+78b000] likely on CPU 1 \
             (core 1, socket 0)\n",
            "6,544,2319814939,-;Code: 00 cc cc 48 8b 04 24 <8a> 00 88 44\n",
            "6,545,2319814940,-;Code: of somebody else\n",
            "4,546,2319814999,-;traps: a [b][77] trap invalid opcode ip:55d0 sp:7ffc error:0 in \
             a[1150,55d0+1000]\n",
            "4,547,2319815000,-;traps: boom[78] general protection fault ip:55d0 sp:7ffc error:0\n",
        ]);
        let processes: Vec<_> = seen.iter().map(|(pid, name, _)| (*pid, &**name)).collect();
        assert_eq!(
            processes,
            [
                (14465, "provoke"),
                (14465, "provoke"),
                (77, "a [b]"),
                (78, "boom")
            ]
        );
        assert_eq!(seen[1].2, "Code: 00 cc cc 48 8b 04 24 <8a> 00 88 44");
    }

    #[test]
    fn process_names_may_contain_any_character() {
        for (name, expected) in [
            ("test[param-1]", "test[param-1]"),
            ("a [7] b", "a [7] b"),
            (r"cr\x1b[31mx", "cr\u{1b}[31mx"),
            (r"one\x5ctwo", r"one\two"),
            (r"half\xc3", "half\u{fffd}"),
        ] {
            let record = format!("6,1,1,-;{name}[77]: segfault at 10 ip 0 sp 0 error 4\n");
            let seen = read(&[&record]);
            assert_eq!((seen[0].0, seen[0].1.as_str()), (77, expected));
        }
    }

    #[test]
    fn oom_kills_are_found() {
        let seen = read(&[
            "6,521,2317509752,-;[  pid  ]   uid  tgid total_vm      rss rss_anon name\n",
            "6,522,2317509755,-;[  12992]     0 12992     4005     3014      320 provoke\n",
            "6,526,2317509767,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,\
             mems_allowed=0,oom_memcg=/x,task_memcg=/x/provoke-12992-0,task=prov,oke,pid=13057,uid=0",
            "3,527,2317509781,-;Memory cgroup out of memory: Killed process 13057 (provoke) \
             total-vm:114348kB, anon-rss:99200kB, UID:0 pgtables:268kB oom_score_adj:1000",
        ]);
        let processes: Vec<_> = seen.iter().map(|(pid, name, _)| (*pid, &**name)).collect();
        assert_eq!(processes, [(13057, "prov,oke"), (13057, "provoke")]);
    }

    #[test]
    fn other_lines_are_ignored() {
        assert_eq!(
            read(&[
                "12,1,1,-;boom[77]: segfault at 10, says a program",
                "6,2,2,-;usb 1-1: new device [4711]",
                "6,3,3,-;pci 0000:00:00.0: [8086:1237] type 00",
                "nonsense",
            ]),
            []
        );
    }
}
