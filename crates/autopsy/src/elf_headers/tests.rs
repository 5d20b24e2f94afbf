//! Tests of ELF headers, also of damaged ones.

use super::*;

/// Sizes and addresses at which additions and rounding overflow.
pub(crate) const EXTREMES: [u64; 6] =
    [0, 1 << 31, 1 << 63, u64::MAX - 4095, u64::MAX - 8, u64::MAX];

/// Type, offset, address and size of a segment.
pub(crate) type Segment = (u32, u64, u64, u64);

/// Returns a 64-bit program for x86 with these segments, and content behind its headers.
pub(crate) fn elf_file(segments: &[Segment], content: &[u8]) -> Vec<u8> {
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    for half in [3_u16, 62, 1, 0] {
        file.extend(half.to_le_bytes());
    }
    for word in [0, 64_u64, 0] {
        file.extend(word.to_le_bytes());
    }
    let count = u16::try_from(segments.len()).unwrap();
    for half in [0, 0, 64, 56, count, 64, 0, 0_u16] {
        file.extend(half.to_le_bytes());
    }
    for (kind, offset, address, size) in segments {
        file.extend(kind.to_le_bytes());
        file.extend(5_u32.to_le_bytes());
        for word in [*offset, *address, *address, *size, *size, 4] {
            file.extend(word.to_le_bytes());
        }
    }
    file.extend(content);
    file
}

/// Reads a program whose dynamic section has these entries. Its text begins at this offset and address.
fn read_with_entries(entries: &[(u64, u64)], text_at: Segment) -> ElfHeaders {
    let words = entries.iter().flat_map(|(tag, value)| [*tag, *value]);
    let content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let dynamic = (2, 64 + 2 * 56, 0, content.len() as u64);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let content = [&content, b"\0libx.so\0".as_slice()].concat();
    std::fs::write(&path, elf_file(&[text_at, dynamic], &content)).unwrap();
    read_elf(&path).unwrap()
}

#[test]
fn names_of_libraries_beyond_the_end_of_a_file_are_not_read() {
    const ENTRIES: u64 = 64 + 2 * 56 + 4 * 16;
    let whole = (1, 0, 0, 1 << 20);
    let read = |strings, size, name, text_at| {
        let entries = [(5, strings), (10, size), (1, name), (0, 0)];
        read_with_entries(&entries, text_at).needed
    };
    assert_eq!(read(ENTRIES, 9, 1, whole), ["libx.so"]);
    for extreme in EXTREMES.into_iter().skip(1) {
        for needed in [
            read(extreme, 9, 1, whole),
            read(ENTRIES, extreme, 1, (1, 0, extreme, 9)),
            read(extreme, extreme, extreme, (1, extreme, 0, u64::MAX)),
            read(ENTRIES, 9, extreme, (1, extreme, 0, extreme)),
        ] {
            assert!(needed.is_empty(), "{extreme:#x} {needed:?}");
        }
    }
}

#[test]
fn segments_beyond_the_end_of_a_file_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    for offset in EXTREMES {
        for size in EXTREMES {
            // The dynamic section, the interpreter, notes and code.
            let segments = [2, 3, 4, 1].map(|kind| (kind, offset, offset, size));
            std::fs::write(&path, elf_file(&segments, &[0; 64])).unwrap();
            let elf = read_elf(&path).unwrap();
            let expected = ElfHeaders {
                machine: (1, 62),
                ..ElfHeaders::default()
            };
            assert_eq!(elf, expected, "{offset:#x} {size:#x}");
        }
    }
}

#[test]
fn the_interpreter_and_libraries_of_a_program_are_read() {
    let ourselves = std::env::current_exe().unwrap();
    let elf = read_elf(&ourselves).unwrap();
    assert!(elf.machine.1 != 0);
    assert_eq!(elf.interpreter.is_some(), !elf.needed.is_empty(), "{elf:?}");
    if let Some(id) = elf.build_id {
        assert!(id.len() >= 16 && id.chars().all(|c| c.is_ascii_hexdigit()));
    }
}

#[test]
fn other_files_and_truncated_programs_have_no_libraries() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    for bytes in [
        &b""[..],
        b"#!/bin/sh\n",
        b"\x7fELF",
        b"\x7fELF\x02\x01\x01",
        &whole[..64],
    ] {
        std::fs::write(&file, bytes).unwrap();
        let read = read_elf(&file);
        assert!(read.is_none_or(|elf| elf.needed.is_empty()), "{bytes:?}");
    }
}
