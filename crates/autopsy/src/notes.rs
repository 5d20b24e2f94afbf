//! Reads the kernel's notes in a core: threads, signal, files.

use super::CoreOwner;
use super::bytes::{i32_at, text_before_nul, u16_at, u32_at, u64_at};
use super::dump::Dump;
use super::fault_context::Registers;
use std::fs::File;
use std::io::{BufReader, Read as _};

const PRSTATUS: u32 = 1;
const PRPSINFO: u32 = 3;
const AUXV: u32 = 6;
const SIGINFO: u32 = 0x5349_4749;
const FILE: u32 = 0x4649_4c45;

/// Limit of the threads that are examined.
const MAX_THREADS: usize = 1 << 15;
const MAX_FILES: u64 = 1 << 18;
/// Limit of the list of files in bytes: that of the kernel.
const MAX_FILE_LIST: u64 = 16 << 20;
/// Limit of a path in bytes: that of the kernel.
const LONGEST_PATH: usize = 4096;
/// Limit of the bytes that are read of another note.
const MAX_NOTE: u64 = 4096;

/// Content of all notes.
#[derive(Debug, Default)]
pub(super) struct ParsedNotes {
    /// Threads; the one that crashed comes first.
    pub(super) threads: Vec<ThreadNote>,
    /// Number of further threads.
    pub(super) unlisted_threads: u64,
    pub(super) process: Option<ProcessNote>,
    pub(super) info: Option<SignalInfo>,
    /// Mapped files, ordered by address.
    pub(super) files: Vec<MappedFile>,
    /// Auxiliary vector that the kernel passed to the program.
    pub(super) auxv: Vec<(u64, u64)>,
}

/// A thread.
#[derive(Debug)]
pub(super) struct ThreadNote {
    pub(super) tid: i32,
    pub(super) ppid: i32,
    pub(super) session: i32,
    pub(super) signal: i32,
    /// Zero for other architectures than 64-bit x86.
    pub(super) registers: Registers,
}

#[derive(Debug)]
pub(super) struct ProcessNote {
    pub(super) pid: i32,
    pub(super) ppid: i32,
    pub(super) session: i32,
    pub(super) name: String,
}

/// Signal information (`siginfo_t`).
#[derive(Clone, Copy, Debug)]
pub(super) struct SignalInfo {
    pub(super) signal: i32,
    pub(super) code: i32,
    /// `si_addr` or `si_pid`, depending on signal and code.
    union: u64,
}

impl SignalInfo {
    /// Returns the accessed address.
    ///
    /// A general protection fault, to which the kernel gives the code 128, has no address.
    pub(super) fn touched_address(&self) -> Option<u64> {
        let fault = matches!(self.signal, 4 | 5 | 7 | 8 | 11);
        (fault && self.code > 0 && self.code != 128).then_some(self.union)
    }

    /// Returns the process that sent the signal.
    pub(super) fn sender_pid(&self) -> Option<i32> {
        let pid = i32::try_from(self.union & 0xffff_ffff).ok()?;
        (matches!(self.code, 0 | -6 | -1) && pid > 0).then_some(pid)
    }
}

#[derive(Clone, Debug)]
pub(super) struct MappedFile {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of the mapping in the file.
    pub(super) offset: u64,
    pub(super) path: String,
}

impl ParsedNotes {
    /// Reads the notes of a core one by one, and skips invalid ones.
    pub(super) fn of_core(dump: &Dump) -> Self {
        let mut notes = Self::default();
        let mut body = Vec::new();
        for (mut reader, mut left) in dump.note_readers() {
            while let Some((kind, is_kernels)) = read_note(&mut reader, &mut left, &mut body) {
                if is_kernels {
                    notes.add_note(kind, &body, dump.wide);
                }
            }
        }
        notes
    }

    fn add_note(&mut self, kind: u32, body: &[u8], wide: bool) {
        match kind {
            PRSTATUS if self.threads.len() < MAX_THREADS => {
                self.threads.extend(parse_status(body, wide));
            }
            PRSTATUS => self.unlisted_threads += 1,
            PRPSINFO => self.process = parse_process(body, wide).or(self.process.take()),
            SIGINFO => self.info = self.info.or_else(|| parse_info(body)),
            FILE if wide => {
                self.files.clear();
                parse_files(body, &mut self.files);
            }
            AUXV if wide => {
                self.auxv = body
                    .chunks_exact(16)
                    .filter_map(|pair| Some((u64_at(pair, 0)?, u64_at(pair, 8)?)))
                    .take(256)
                    .collect();
            }
            _ => {}
        }
    }

    /// Returns the signal that killed the process, or 0.
    pub(super) fn death_signal(&self) -> i32 {
        let noted = self.threads.first().map_or(0, |first| first.signal);
        self.info.map_or(noted, |info| info.signal)
    }

    /// Returns the process that the core belongs to.
    pub(super) fn core_owner(&self, truncated: bool) -> Option<CoreOwner> {
        let first = self.threads.first();
        let process = self.process.as_ref();
        Some(CoreOwner {
            pid: process
                .map(|note| note.pid)
                .or(first.map(|note| note.tid))?,
            ppid: process
                .map(|note| note.ppid)
                .or(first.map(|note| note.ppid))?,
            session: process
                .map(|note| note.session)
                .or(first.map(|note| note.session))?,
            program: process.map(|note| note.name.clone()).unwrap_or_default(),
            signal: self.death_signal(),
            truncated,
        })
    }

    /// Returns a value of the auxiliary vector.
    pub(super) fn auxv_value(&self, key: u64) -> Option<u64> {
        let entry = self.auxv.iter().find(|(entry_key, _)| *entry_key == key);
        entry.map(|(_, value)| *value)
    }
}

/// Reads the next note, as far as it is needed, into `body`. Returns its type, and whether the kernel wrote it.
fn read_note(
    reader: &mut BufReader<&File>,
    left: &mut u64,
    body: &mut Vec<u8>,
) -> Option<(u32, bool)> {
    let padded = |size: u32| u64::from(size).next_multiple_of(4);
    let mut header = [0; 12];
    reader.read_exact(&mut header).ok()?;
    let (name_size, size) = (u32_at(&header, 0)?, u32_at(&header, 4)?);
    let kind = u32_at(&header, 8)?;
    let name_end = 12 + padded(name_size);
    let rest = left.checked_sub(name_end + u64::from(size))?;
    // The last note may lack its padding.
    let padding = (padded(size) - u64::from(size)).min(rest);
    *left = rest - padding;
    let mut read = |max: u64, length: u64| {
        body.clear();
        let part = length.min(max);
        let was_read = (&mut *reader).take(part).read_to_end(body).ok()?;
        let skipped = i64::try_from(length - part).ok()?;
        reader.seek_relative(skipped).ok()?;
        (was_read as u64 == part).then_some(body.starts_with(b"CORE\0"))
    };
    let is_kernels = read(5, padded(name_size))?;
    let max = match kind {
        FILE => MAX_FILE_LIST,
        PRSTATUS | PRPSINFO | SIGINFO | AUXV => MAX_NOTE,
        _ => 0,
    };
    read(max, u64::from(size))?;
    reader.seek_relative(i64::try_from(padding).ok()?).ok()?;
    Some((kind, is_kernels))
}

fn parse_status(body: &[u8], wide: bool) -> Option<ThreadNote> {
    // Two signal masks precede the process ids, one word each.
    let pid = if wide { 32 } else { 24 };
    Some(ThreadNote {
        signal: u16_at(body, 12)?.into(),
        tid: i32_at(body, pid)?,
        ppid: i32_at(body, pid + 4)?,
        session: i32_at(body, pid + 12)?,
        registers: wide
            .then(|| parse_registers(body))
            .flatten()
            .unwrap_or_default(),
    })
}

fn parse_registers(body: &[u8]) -> Option<Registers> {
    let register_at = |number: usize| u64_at(body, 112 + 8 * number);
    Some(Registers {
        r15: register_at(0)?,
        r14: register_at(1)?,
        r13: register_at(2)?,
        r12: register_at(3)?,
        rbp: register_at(4)?,
        rbx: register_at(5)?,
        r11: register_at(6)?,
        r10: register_at(7)?,
        r9: register_at(8)?,
        r8: register_at(9)?,
        rax: register_at(10)?,
        rcx: register_at(11)?,
        rdx: register_at(12)?,
        rsi: register_at(13)?,
        rdi: register_at(14)?,
        rip: register_at(16)?,
        flags: register_at(18)?,
        rsp: register_at(19)?,
        fs_base: register_at(21)?,
        gs_base: register_at(22)?,
    })
}

fn parse_process(body: &[u8], wide: bool) -> Option<ProcessNote> {
    let pid = if wide { 24 } else { 12 };
    Some(ProcessNote {
        pid: i32_at(body, pid)?,
        ppid: i32_at(body, pid + 4)?,
        session: i32_at(body, pid + 12)?,
        name: text_before_nul(body.get(pid + 16..pid + 32)?),
    })
}

fn parse_info(body: &[u8]) -> Option<SignalInfo> {
    Some(SignalInfo {
        signal: i32_at(body, 0)?,
        code: i32_at(body, 8)?,
        union: u64_at(body, 16).unwrap_or(0),
    })
}

/// Adds the mapped files of a list whose end may be cut off.
fn parse_files(body: &[u8], files: &mut Vec<MappedFile>) -> Option<()> {
    let count = u64_at(body, 0)?.min(MAX_FILES);
    let page = u64_at(body, 8)?;
    let count = usize::try_from(count).ok()?;
    let names_at = count.checked_mul(24)?.checked_add(16)?;
    let names = body.get(names_at..)?.split(|byte| *byte == 0);
    for (entry, name) in body[16..names_at].chunks_exact(24).zip(names) {
        let name = &name[..name.len().min(LONGEST_PATH)];
        let file = MappedFile {
            start: u64_at(entry, 0)?,
            end: u64_at(entry, 8)?,
            offset: u64_at(entry, 16)?.wrapping_mul(page),
            path: String::from_utf8_lossy(name).into_owned(),
        };
        if file.start < file.end {
            files.push(file);
        }
    }
    files.sort_by_key(|file| file.start);
    Some(())
}
