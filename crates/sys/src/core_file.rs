//! Writes the headers of core files, as far as stack readers need them.
//!
//! A core is an ELF file. Its notes contain the threads and the mapped files. Of each piece of
//! memory, the file contains either all bytes or none.

use super::memory::Mapping;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

/// Size of a page, the unit in which memory is mapped and kept.
pub const PAGE: u64 = 4096;
/// Limit of pieces: the header of an ELF file cannot contain a larger number.
const MAX_PIECES: usize = 60_000;

const HEADER: usize = 64;
const ENTRY: usize = 56;
const LOAD: u32 = 1;
const NOTE: u32 = 4;

/// Types of notes.
const PRSTATUS: u32 = 1;
const PRPSINFO: u32 = 3;
const AUXV: u32 = 6;
const SIGINFO: u32 = 0x5349_4749;
const FILE: u32 = 0x4649_4c45;

/// Content of a core's notes.
pub struct CoreNotes<'a> {
    /// Machine number in ELF files.
    pub machine: u16,
    /// Ids of the process.
    pub process: CoreProcess,
    /// Name of the process.
    pub name: &'a [u8],
    /// Arguments, each ended by a NUL byte.
    pub arguments: &'a [u8],
    /// Threads with their registers; readers treat the first one as the current thread.
    pub threads: &'a [(i32, &'a [u64])],
    /// Signal of the first thread, and its `siginfo_t`.
    pub signal: Option<(i32, &'a [u8])>,
    /// Auxiliary vector.
    pub auxv: &'a [u8],
    /// Mappings.
    pub mappings: &'a [Mapping],
}

/// Ids and state of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreProcess {
    /// Process id.
    pub pid: i32,
    /// Process id of the parent.
    pub parent: i32,
    /// Process group id.
    pub group: i32,
    /// Session id.
    pub session: i32,
    /// State: R, S, D, T.
    pub state: char,
}

/// A piece of memory that is completely in the file, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPiece {
    /// Addresses of the piece.
    pub range: Range<u64>,
    /// Index of the mapping that contains the piece.
    pub mapping: usize,
    /// The file contains the bytes.
    pub is_kept: bool,
}

/// Divides mappings into pieces, so that the wanted ranges are kept up to `most_bytes`.
///
/// Both lists are ordered by address. Wanted ranges may overlap, and may be unmapped.
pub fn cut_pieces(
    mappings: &[Mapping],
    wanted_ranges: &[Range<u64>],
    most_bytes: u64,
) -> Vec<MemoryPiece> {
    let mut pieces = Vec::new();
    let mut room = most_bytes;
    for (index, mapping) in mappings.iter().enumerate() {
        let mut begin = mapping.range.start;
        let end = mapping.range.end;
        let mut push = |range: Range<u64>, is_kept| {
            if !range.is_empty() {
                pieces.push(MemoryPiece {
                    range,
                    mapping: index,
                    is_kept,
                });
            }
        };
        for want in wanted_ranges {
            let start = (want.start / PAGE * PAGE).max(begin);
            let to = want.end.next_multiple_of(PAGE).min(end);
            if start < to && to - start <= room {
                room -= to - start;
                push(begin..start, false);
                push(start..to, true);
                begin = to;
            }
        }
        push(begin..end, false);
    }
    pieces.truncate(MAX_PIECES);
    pieces
}

/// Returns the headers before the bytes of the pieces, and the file offset of each kept piece.
pub fn core_head(notes: &CoreNotes<'_>, pieces: &[MemoryPiece]) -> (Vec<u8>, Vec<u64>) {
    let count = pieces.len() + 1;
    let text = note_segment(notes);
    let notes_at = HEADER + count * ENTRY;
    let mut next = ((notes_at + text.len()) as u64).next_multiple_of(PAGE);
    let mut head = elf_header(notes.machine, count);
    push_program_header(&mut head, NOTE, 4, notes_at as u64, 0..0, text.len() as u64);
    let mut offsets = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let size = piece.range.end - piece.range.start;
        let kept_size = if piece.is_kept { size } else { 0 };
        let mapping = &notes.mappings[piece.mapping];
        let flags = u32::from(mapping.execute)
            | u32::from(mapping.write) << 1
            | u32::from(mapping.read) << 2;
        push_program_header(&mut head, LOAD, flags, next, piece.range.clone(), kept_size);
        offsets.push(next);
        next += kept_size;
    }
    head.extend(text);
    (head, offsets)
}

fn elf_header(machine: u16, entries: usize) -> Vec<u8> {
    let entries = u16::try_from(entries).unwrap_or(u16::MAX);
    let mut header = Vec::with_capacity(64 * 1024);
    let order = if cfg!(target_endian = "little") { 1 } else { 2 };
    header.extend([0x7f, b'E', b'L', b'F', 2, order, 1]);
    header.resize(16, 0);
    header.extend(4_u16.to_ne_bytes()); // core file
    header.extend(machine.to_ne_bytes());
    header.extend(1_u32.to_ne_bytes()); // version
    header.extend(0_u64.to_ne_bytes()); // no entry point
    header.extend((HEADER as u64).to_ne_bytes());
    header.extend(0_u64.to_ne_bytes()); // no sections
    header.extend(0_u32.to_ne_bytes()); // no flags
    for half in [HEADER, ENTRY].map(|size| u16::try_from(size).unwrap_or(0)) {
        header.extend(half.to_ne_bytes());
    }
    header.extend(entries.to_ne_bytes());
    header.resize(HEADER, 0);
    header
}

fn push_program_header(
    header: &mut Vec<u8>,
    kind: u32,
    flags: u32,
    offset: u64,
    range: Range<u64>,
    kept_size: u64,
) {
    let align = if kind == LOAD { PAGE } else { 4 };
    header.extend(kind.to_ne_bytes());
    header.extend(flags.to_ne_bytes());
    let size = range.end - range.start;
    for word in [offset, range.start, 0, kept_size, size, align] {
        header.extend(word.to_ne_bytes());
    }
}

fn note_segment(notes: &CoreNotes<'_>) -> Vec<u8> {
    let mut segment = Vec::new();
    for (index, (tid, registers)) in notes.threads.iter().enumerate() {
        let signal = notes.signal.map_or(0, |(number, _)| number);
        let status = status_note(notes.process, *tid, signal, registers);
        push_note(&mut segment, PRSTATUS, &status);
        // Readers attribute the notes between two threads to the first thread.
        if index == 0 {
            push_note(&mut segment, PRPSINFO, &process_note(notes));
            if let Some((_, signal_information)) = notes.signal {
                push_note(&mut segment, SIGINFO, signal_information);
            }
            push_note(&mut segment, AUXV, notes.auxv);
            push_note(&mut segment, FILE, &files_note(notes.mappings));
        }
    }
    segment
}

fn push_note(segment: &mut Vec<u8>, kind: u32, content: &[u8]) {
    const NAME: &[u8] = b"CORE\0";
    let sizes = [NAME.len(), content.len()].map(|size| u32::try_from(size).unwrap_or(u32::MAX));
    for word in [sizes[0], sizes[1], kind] {
        segment.extend(word.to_ne_bytes());
    }
    for field in [NAME, content] {
        segment.extend(field);
        segment.resize(segment.len().next_multiple_of(4), 0);
    }
}

/// Returns a `struct elf_prstatus`: the signal, which readers expect in every thread, ids and
/// registers.
fn status_note(process: CoreProcess, tid: i32, signal: i32, registers: &[u64]) -> Vec<u8> {
    let mut note = vec![0; 32];
    note[..4].copy_from_slice(&signal.to_ne_bytes());
    note[12..14].copy_from_slice(&i16::try_from(signal).unwrap_or(0).to_ne_bytes());
    for number in [tid, process.parent, process.group, process.session] {
        note.extend(number.to_ne_bytes());
    }
    note.resize(112, 0); // times
    for word in registers {
        note.extend(word.to_ne_bytes());
    }
    note.extend(0_u64.to_ne_bytes()); // no floating-point registers
    note
}

/// Returns a `struct elf_prpsinfo`: state, ids and name of the program.
fn process_note(notes: &CoreNotes<'_>) -> Vec<u8> {
    let process = notes.process;
    let state = u8::try_from(process.state).unwrap_or(b'?');
    let mut note = vec![0, state, 0, 0];
    note.resize(24, 0); // flags, user, group
    for number in [process.pid, process.parent, process.group, process.session] {
        note.extend(number.to_ne_bytes());
    }
    let arguments = notes.arguments.strip_suffix(b"\0").unwrap_or_default();
    let spaced = arguments
        .iter()
        .map(|byte| if *byte == 0 { b' ' } else { *byte });
    note.extend(notes.name.iter().take(15));
    note.resize(56, 0);
    note.extend(spaced.take(79));
    note.resize(136, 0);
    note
}

/// Returns the list of mapped files: the ranges, then the names.
fn files_note(mappings: &[Mapping]) -> Vec<u8> {
    let file_mappings = || mappings.iter().filter(|mapping| mapping.is_of_file());
    let mut note = Vec::new();
    for word in [file_mappings().count() as u64, PAGE] {
        note.extend(word.to_ne_bytes());
    }
    for mapping in file_mappings() {
        for word in [
            mapping.range.start,
            mapping.range.end,
            mapping.offset / PAGE,
        ] {
            note.extend(word.to_ne_bytes());
        }
    }
    for mapping in file_mappings() {
        note.extend(mapping.name.as_bytes());
        note.push(0);
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(range: Range<u64>, name: &str) -> Mapping {
        Mapping {
            range,
            read: true,
            write: false,
            execute: true,
            private: true,
            offset: 0,
            name: name.into(),
        }
    }

    fn kept_ranges(pieces: &[MemoryPiece]) -> Vec<Range<u64>> {
        let kept = pieces.iter().filter(|piece| piece.is_kept);
        kept.map(|piece| piece.range.clone()).collect()
    }

    #[test]
    fn wanted_memory_is_kept_once_in_whole_pages() {
        let mappings = [mapping(0x1000..0x9000, ""), mapping(0x9000..0xb000, "")];
        let wanted = [
            0x2010..0x2020,
            0x2ff0..0x3001,
            0x8000..0xa000,
            0xf000..0xffff,
        ];
        let pieces = cut_pieces(&mappings, &wanted, u64::MAX);
        assert_eq!(
            kept_ranges(&pieces),
            [
                0x2000..0x3000,
                0x3000..0x4000,
                0x8000..0x9000,
                0x9000..0xa000
            ]
        );
        let all: Vec<_> = pieces.iter().map(|piece| piece.range.clone()).collect();
        assert!(
            all.windows(2).all(|two| two[0].end == two[1].start),
            "{all:x?}"
        );
        assert_eq!((all[0].start, all[all.len() - 1].end), (0x1000, 0xb000));
    }

    #[test]
    fn memory_beyond_the_size_limit_is_left_out() {
        let mappings = [mapping(0x1000..0x9000, "")];
        let pieces = cut_pieces(&mappings, &[0x1000..0x2000, 0x3000..0x8000], 2 * PAGE);
        assert_eq!(kept_ranges(&pieces), vec![0x1000..0x2000; 1]);
    }

    #[test]
    fn the_headers_and_notes_have_the_expected_sizes() {
        let mappings = [
            mapping(0x1000..0x3000, "/bin/x"),
            mapping(0x5000..0x6000, ""),
        ];
        let registers = [7; 27];
        let notes = CoreNotes {
            machine: 62,
            process: CoreProcess::default(),
            name: b"x",
            arguments: b"x\0y\0",
            threads: &[(1, &registers), (2, &registers)],
            signal: None,
            auxv: &[0; 16],
            mappings: &mappings,
        };
        let status = status_note(notes.process, 1, 11, &registers);
        assert_eq!(status.len(), 336);
        assert_eq!((status[0], status[12]), (11, 11));
        assert_eq!(process_note(&notes).len(), 136);
        assert!(process_note(&notes)[56..].starts_with(b"x y\0"));
        assert_eq!(files_note(&mappings).len(), 16 + 24 + 7);
        let pieces = cut_pieces(&mappings, &[0x2000..0x3000, 0x5000..0x6000], u64::MAX);
        let (head, places) = core_head(&notes, &pieces);
        assert!(head.starts_with(b"\x7fELF\x02"));
        assert_eq!(head[56], 4, "entries");
        let first = (head.len() as u64).next_multiple_of(PAGE);
        assert_eq!(places, [first, first, first + PAGE]);
    }
}
