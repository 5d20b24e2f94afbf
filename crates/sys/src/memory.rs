//! Reads the memory of another process: its mappings and its bytes.
//!
//! A process may read the memory of its descendants without root, even if Yama restricts the
//! tracing of other processes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;

/// A mapping: one line of `/proc/PID/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the permissions of a mapping"
)]
pub struct Mapping {
    /// Addresses of the mapping.
    pub range: Range<u64>,
    /// The mapping is readable.
    pub read: bool,
    /// The mapping is writable.
    pub write: bool,
    /// The mapping is executable.
    pub execute: bool,
    /// The mapping is private: other processes do not see changes.
    pub private: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Path of the file, a name in brackets, or empty.
    pub name: OsString,
}

impl Mapping {
    /// Returns whether the mapping belongs to a file.
    pub fn is_of_file(&self) -> bool {
        self.name.as_encoded_bytes().starts_with(b"/")
    }
}

/// Returns the mappings of a process, ordered by address.
pub fn read_mappings(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    Ok(text
        .split(|byte| *byte == b'\n')
        .filter_map(parse_mapping)
        .collect())
}

fn parse_mapping(line: &[u8]) -> Option<Mapping> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut text = || str::from_utf8(fields.next()?).ok();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = text()?.split_once('-')?;
    let (mode, offset) = (text()?.as_bytes(), hex(text()?)?);
    let (_device, _inode) = (text()?, text()?);
    let name = fields.next().unwrap_or_default().trim_ascii_start();
    let has = |index: usize, flag: u8| mode.get(index) == Some(&flag);
    Some(Mapping {
        range: hex(start)?..hex(end)?,
        read: has(0, b'r'),
        write: has(1, b'w'),
        execute: has(2, b'x'),
        private: has(3, b'p'),
        offset,
        name: OsString::from_vec(unescape_name(name)),
    })
}

/// Replaces `\012`, which the kernel writes for a line feed in a name.
fn unescape_name(name: &[u8]) -> Vec<u8> {
    let mut unescaped = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            unescaped.push(b'\n');
            rest = after;
        } else {
            unescaped.push(first);
            rest = after;
        }
    }
    unescaped
}

/// Memory of a process, as far as it is known.
pub trait MemoryReader {
    /// Fills the buffer from this address on; returns false if any of the memory is unknown.
    fn read_memory(&self, address: u64, buffer: &mut [u8]) -> bool;
}

/// Memory of a running process.
pub struct ProcessMemory(File);

impl MemoryReader for ProcessMemory {
    fn read_memory(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.read_bytes(address, buffer).is_ok()
    }
}

impl ProcessMemory {
    /// Opens the memory of a process; the kernel checks the permission here.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        File::open(format!("/proc/{pid}/mem")).map(Self)
    }

    /// Fills the buffer from an address on.
    pub fn read_bytes(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, address)
    }

    /// Returns `N` 64-bit words in native byte order.
    pub fn read_words<const N: usize>(&self, address: u64) -> io::Result<[u64; N]> {
        let mut words = [[0; 8]; N];
        self.read_bytes(address, words.as_flattened_mut())?;
        Ok(words.map(u64::from_ne_bytes))
    }

    /// Returns `N` 32-bit words in native byte order.
    pub fn read_halves<const N: usize>(&self, address: u64) -> io::Result<[u32; N]> {
        let mut words = [[0; 4]; N];
        self.read_bytes(address, words.as_flattened_mut())?;
        Ok(words.map(u32::from_ne_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_memory_map_is_parsed() {
        let line = b"7f8c0e600000-7f8c0e628000 r-xp 00028000 fe:00 1234    /lib/a b\\012c.so";
        let seen = parse_mapping(line).unwrap();
        assert_eq!(seen.range, 0x7f8c_0e60_0000..0x7f8c_0e62_8000);
        assert_eq!((seen.read, seen.write, seen.execute), (true, false, true));
        assert_eq!((seen.private, seen.offset), (true, 0x28000));
        assert_eq!(seen.name, "/lib/a b\nc.so");
        let nameless = parse_mapping(b"7fff00000000-7fff00001000 rw-s 00000000 00:00 0 ").unwrap();
        assert!(!nameless.private && !nameless.is_of_file());
        assert_eq!(parse_mapping(b""), None);
    }

    #[test]
    fn memory_of_the_own_process_can_be_read() {
        let here: [u64; 2] = [0x1122_3344_5566_7788, 42];
        let pid = std::process::id().cast_signed();
        let address = here.as_ptr().addr() as u64;
        let memory = ProcessMemory::of_process(pid).unwrap();
        assert_eq!(memory.read_words::<2>(address).unwrap(), here);
        assert_eq!(memory.read_halves::<1>(address + 8).unwrap(), [42]);
        for nowhere in [8, u64::MAX - 3, u64::MAX] {
            assert!(memory.read_words::<2>(nowhere).is_err());
        }
        let all = read_mappings(pid).unwrap();
        assert!(all.iter().any(|one| one.range.contains(&address)));
    }
}
