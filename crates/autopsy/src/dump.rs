//! Reads the headers and the requested parts of a core file.
//!
//! A core may be larger than memory, may be truncated, and may be overwritten during reading. So it
//! is neither read whole nor mapped.

use super::bytes::{u16_at, u32_at, u64_at};
use super::error::CoreError;
use provoke_sys::files;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;

/// Limit of the notes in bytes: the notes of a process with ten thousand threads take 30 MB.
const MAX_NOTES: u64 = 256 << 20;
/// Limit of segments: the kernel allows 65530 mappings by default.
const MAX_SEGMENTS: u64 = 1 << 20;
/// Limit of segments with notes: the kernel writes one.
const MAX_NOTE_SEGMENTS: usize = 1000;
/// Number of segment headers that are read at once.
const HEADERS_AT_ONCE: u64 = 4096;
const BLOCK: u64 = 16 << 10;
const MAX_BLOCKS: usize = 4096;

const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const X86_64: u16 = 62;

/// A core file.
pub(super) struct Dump {
    file: File,
    length: u64,
    /// Parts of the address space, in order, without overlap.
    pub(super) segments: Vec<Segment>,
    /// Ranges of the file that contain notes.
    notes: Vec<Range<u64>>,
    /// The core consists of 64-bit structures.
    pub(super) wide: bool,
    /// Description of the program if its architecture is not supported, otherwise `None`.
    pub(super) foreign: Option<String>,
    /// The file is shorter than its headers say.
    pub(super) truncated: bool,
    blocks: RefCell<HashMap<u64, Rc<[u8]>>>,
}

/// A part of the address space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset of the first byte in the core file.
    offset: u64,
    /// Number of bytes that the core file contains.
    filled: u64,
    pub(super) flags: u32,
}

impl Segment {
    pub(super) fn is_readable(&self) -> bool {
        self.flags & 4 != 0
    }
    pub(super) fn is_writable(&self) -> bool {
        self.flags & 2 != 0
    }
    pub(super) fn is_executable(&self) -> bool {
        self.flags & 1 != 0
    }
}

struct SegmentHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    start: u64,
    file_size: u64,
    size: u64,
}

impl Dump {
    pub(super) fn open_core(path: &Path) -> Result<Self, CoreError> {
        let unreadable = |reason: io::Error| CoreError::Unreadable {
            path: path.into(),
            reason: reason.to_string(),
        };
        let no_core = |reason: &'static str| CoreError::NoCore {
            path: path.into(),
            why: reason.into(),
        };
        let broken = |reason: &'static str| CoreError::Broken {
            path: path.into(),
            why: reason.into(),
        };
        let file = files::open_regular_file(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let mut dump = Self {
            file,
            length: metadata.len(),
            segments: Vec::new(),
            notes: Vec::new(),
            wide: true,
            foreign: None,
            truncated: false,
            blocks: RefCell::default(),
        };
        if dump.length == 0 {
            return Err(no_core("it is empty"));
        }
        let mut head = [0; 64];
        let size = usize::try_from(dump.length.min(64)).unwrap_or(64);
        dump.read_exactly(0, &mut head[..size]);
        if !head.starts_with(b"\x7fELF") {
            return Err(no_core("it is not an ELF file"));
        }
        if head[5] != 1 {
            dump.foreign = Some("a big-endian machine".to_owned());
            return Err(dump.foreign_error(path));
        }
        if u16_at(&head, 16) != Some(4) {
            return Err(no_core("it is a program or a library"));
        }
        dump.wide = head[4] == 2;
        let machine = u16_at(&head, 18).unwrap_or(0);
        dump.foreign = match (machine, dump.wide) {
            (X86_64, true) => None,
            (3, _) => Some("a 32-bit x86 program".to_owned()),
            (X86_64, false) => Some("an x32 program".to_owned()),
            (183, _) => Some("an aarch64 program".to_owned()),
            (machine, _) => Some(format!("another architecture (ELF machine {machine})")),
        };
        dump.read_headers(&head)
            .ok_or(broken("it has no headers"))?;
        if dump.notes.is_empty() {
            return Err(broken("its notes are missing"));
        }
        Ok(dump)
    }

    /// Returns the error for a program of an unsupported architecture.
    pub(super) fn foreign_error(&self, path: &Path) -> CoreError {
        CoreError::Foreign {
            path: path.into(),
            what: self.foreign.clone().unwrap_or_default(),
        }
    }

    fn read_headers(&mut self, head: &[u8]) -> Option<()> {
        let word = |wide: usize, narrow: usize| {
            if self.wide {
                u64_at(head, wide)
            } else {
                u32_at(head, narrow).map(u64::from)
            }
        };
        let table = word(32, 28)?;
        let (size_at, count_at, size) = if self.wide {
            (54, 56, 56)
        } else {
            (42, 44, 32)
        };
        if u16_at(head, size_at)? != size {
            return None;
        }
        let mut count = u64::from(u16_at(head, count_at)?);
        if count == 0xffff {
            // The number does not fit into the field; the first section header contains it.
            let offset = word(40, 32)?.checked_add(if self.wide { 44 } else { 28 })?;
            let mut number = [0; 4];
            self.read_exactly(offset, &mut number).then_some(())?;
            count = u64::from(u32::from_le_bytes(number));
        }
        let available = self.length.checked_sub(table)? / u64::from(size);
        let mut left = count.min(available).min(MAX_SEGMENTS);
        let mut offset = table;
        while left > 0 {
            let length = left.min(HEADERS_AT_ONCE) * u64::from(size);
            let mut bytes = vec![0; usize::try_from(length).ok()?];
            self.read_exactly(offset, &mut bytes).then_some(())?;
            for header in bytes.chunks_exact(size.into()) {
                let header = self.parse_header(header)?;
                self.take_header(&header);
            }
            left = left.saturating_sub(HEADERS_AT_ONCE);
            offset += length;
        }
        self.order_segments();
        Some(())
    }

    fn parse_header(&self, bytes: &[u8]) -> Option<SegmentHeader> {
        let narrow = |offset| u32_at(bytes, offset).map(u64::from);
        Some(if self.wide {
            SegmentHeader {
                kind: u32_at(bytes, 0)?,
                flags: u32_at(bytes, 4)?,
                offset: u64_at(bytes, 8)?,
                start: u64_at(bytes, 16)?,
                file_size: u64_at(bytes, 32)?,
                size: u64_at(bytes, 40)?,
            }
        } else {
            SegmentHeader {
                kind: u32_at(bytes, 0)?,
                offset: narrow(4)?,
                start: narrow(8)?,
                file_size: narrow(16)?,
                size: narrow(20)?,
                flags: u32_at(bytes, 24)?,
            }
        })
    }

    fn take_header(&mut self, header: &SegmentHeader) {
        let available = self.length.saturating_sub(header.offset);
        let filled = header.file_size.min(available);
        self.truncated |= filled < header.file_size;
        match header.kind {
            PT_NOTE if self.notes.len() < MAX_NOTE_SEGMENTS => {
                let room = MAX_NOTES.saturating_sub(self.notes.iter().map(range_length).sum());
                let filled = filled.min(room);
                if filled > 0 {
                    self.notes.push(header.offset..header.offset + filled);
                }
            }
            PT_LOAD => {
                if let Some(end) = header.start.checked_add(header.size) {
                    self.segments.push(Segment {
                        start: header.start,
                        end,
                        offset: header.offset,
                        filled: filled.min(header.size),
                        flags: header.flags,
                    });
                }
            }
            _ => {}
        }
    }

    fn order_segments(&mut self) {
        self.segments.sort_by_key(|segment| segment.start);
        let mut reached = 0;
        self.segments.retain(|segment| {
            let fits = segment.start >= reached && segment.end > segment.start;
            if fits {
                reached = segment.end;
            }
            fits
        });
    }

    /// Returns readers of the notes, each with the number of bytes.
    pub(super) fn note_readers(&self) -> impl Iterator<Item = (BufReader<&File>, u64)> {
        self.notes.iter().filter_map(|range| {
            let mut reader = BufReader::new(&self.file);
            reader.seek(SeekFrom::Start(range.start)).ok()?;
            Some((reader, range_length(range)))
        })
    }

    /// Returns the segment that contains this address.
    pub(super) fn segment_at(&self, address: u64) -> Option<&Segment> {
        let index_behind = self
            .segments
            .partition_point(|segment| segment.start <= address);
        let segment = self.segments.get(index_behind.checked_sub(1)?)?;
        (address < segment.end).then_some(segment)
    }

    /// Copies contiguous memory from this address on into the buffer, and returns the number of
    /// bytes.
    pub(super) fn read_memory(&self, address: u64, buffer: &mut [u8]) -> usize {
        let Some(segment) = self.segment_at(address) else {
            return 0;
        };
        let offset = address - segment.start;
        let available = segment.filled.saturating_sub(offset);
        let size = usize::try_from(available)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        match segment.offset.checked_add(offset) {
            Some(place_in_file) if self.read_blocks(place_in_file, &mut buffer[..size]) => size,
            _ => 0,
        }
    }

    /// Reads through cached blocks, because stacks are read word by word.
    fn read_blocks(&self, mut offset: u64, mut buffer: &mut [u8]) -> bool {
        while !buffer.is_empty() {
            let first = offset / BLOCK * BLOCK;
            let Some(block) = self.load_block(first) else {
                return false;
            };
            let skip = usize::try_from(offset - first).unwrap_or(usize::MAX);
            let Some(bytes_there) = block
                .get(skip..)
                .filter(|rest_of_block| !rest_of_block.is_empty())
            else {
                return false;
            };
            let size = bytes_there.len().min(buffer.len());
            buffer[..size].copy_from_slice(&bytes_there[..size]);
            buffer = &mut buffer[size..];
            offset += size as u64;
        }
        true
    }

    fn load_block(&self, first: u64) -> Option<Rc<[u8]>> {
        let mut blocks = self.blocks.borrow_mut();
        if let Some(block) = blocks.get(&first) {
            return Some(Rc::clone(block));
        }
        let size = BLOCK.min(self.length.checked_sub(first)?);
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        self.read_exactly(first, &mut bytes).then_some(())?;
        if blocks.len() >= MAX_BLOCKS {
            blocks.clear();
        }
        let block: Rc<[u8]> = bytes.into();
        blocks.insert(first, Rc::clone(&block));
        Some(block)
    }

    fn read_exactly(&self, offset: u64, buffer: &mut [u8]) -> bool {
        self.file.read_exact_at(buffer, offset).is_ok()
    }
}

fn range_length(range: &Range<u64>) -> u64 {
    range.end - range.start
}
