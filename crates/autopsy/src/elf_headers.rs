//! Reads the headers of an ELF file: its build id, and the libraries that it loads.
//!
//! Reading is limited to the headers, a page or two, however large the file is.

use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, ELFCLASS64, FileHeader32,
    FileHeader64, NT_GNU_BUILD_ID, NT_GO_BUILD_ID, PT_LOAD,
};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::{Endianness, ReadCache, ReadRef as _};
use provoke_model::encode_hex;
use provoke_sys::files;
use std::fs::File;
use std::path::Path;

/// Limit of entries of a list, because a corrupt list may not end.
const ENTRIES: usize = 4096;

/// Relevant headers of an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElfHeaders {
    /// Build id of the linker, or of Go's linker: mostly hexadecimal digits.
    pub build_id: Option<String>,
    /// Names of the required libraries.
    pub needed: Vec<String>,
    /// Folders that are searched first; ignored if there is a RUNPATH.
    pub rpath: Vec<String>,
    /// Folders that are searched after `LD_LIBRARY_PATH`.
    pub runpath: Vec<String>,
    /// Dynamic loader; `None` for a library or a static program.
    pub interpreter: Option<String>,
    /// Class and machine: files with different ones cannot be loaded together.
    pub machine: (u8, u16),
}

type ElfCache = ReadCache<File>;

/// Reads a file; returns `None` if it is not an ELF file, or is corrupt.
pub fn read_elf(file: &Path) -> Option<ElfHeaders> {
    let cache = ReadCache::new(files::open_regular_file(file).ok()?);
    let ident = (&cache).read_bytes_at(0, 5).ok()?;
    match ident {
        [0x7f, b'E', b'L', b'F', class] if *class == ELFCLASS64.0 => {
            parse_elf::<FileHeader64<Endianness>>(&cache)
        }
        [0x7f, b'E', b'L', b'F', _] => parse_elf::<FileHeader32<Endianness>>(&cache),
        _ => None,
    }
}

/// Returns the dynamic loader that an ELF file names.
pub fn dynamic_loader(file: &Path) -> Option<String> {
    read_elf(file)?.interpreter
}

fn parse_elf<H: FileHeader<Endian = Endianness>>(data: &ElfCache) -> Option<ElfHeaders> {
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let mut elf = ElfHeaders {
        machine: (u8::from(header.is_type_64()), header.e_machine(endian).0),
        ..ElfHeaders::default()
    };
    for segment in segments {
        if let Ok(Some(path)) = segment.interpreter(endian, data) {
            elf.interpreter = Some(String::from_utf8_lossy(path).into_owned());
        }
        if let Ok(Some(mut notes)) = segment.notes(endian, data) {
            while let Ok(Some(note)) = notes.next() {
                match (note.name(), note.n_type(endian)) {
                    (b"GNU", NT_GNU_BUILD_ID) => elf.build_id = Some(encode_hex(note.desc())),
                    (b"Go", NT_GO_BUILD_ID) if elf.build_id.is_none() => {
                        elf.build_id = Some(String::from_utf8_lossy(note.desc()).into_owned());
                    }
                    _ => {}
                }
            }
        }
        if let Ok(Some(entries)) = segment.dynamic(endian, data) {
            read_dynamic::<H>(&mut elf, endian, segments, entries, data);
        }
    }
    Some(elf)
}

/// Reads the dynamic section.
fn read_dynamic<H: FileHeader<Endian = Endianness>>(
    elf: &mut ElfHeaders,
    endian: Endianness,
    segments: &[H::ProgramHeader],
    entries: &[H::Dyn],
    data: &ElfCache,
) -> Option<()> {
    let entries = || {
        let entries = entries
            .iter()
            .take(ENTRIES)
            .map(|entry| (entry.tag(endian), entry.val(endian)));
        entries.take_while(|(tag, _)| *tag != DT_NULL)
    };
    let value = |wanted_tag| entries().find(|(tag, _)| *tag == wanted_tag);
    let (address, size) = (value(DT_STRTAB)?.1, value(DT_STRSZ)?.1);
    // The section contains addresses in memory, which must be converted to file offsets.
    let strings = segments.iter().find_map(|segment| {
        let (start, length) = (
            segment.p_vaddr(endian).into(),
            segment.p_filesz(endian).into(),
        );
        let inside = segment.p_type(endian) == PT_LOAD;
        let offset = address.checked_sub(start)?;
        let start: u64 = segment.p_offset(endian).into();
        (inside && offset < length).then_some(start.checked_add(offset)?)
    })?;
    let end = strings.checked_add(size)?;
    let string = |offset: u64| {
        let bytes = data.read_bytes_at_until(strings.checked_add(offset)?..end, 0);
        Some(String::from_utf8_lossy(bytes.ok()?).into_owned())
    };
    for (tag, value) in entries() {
        let list = match tag {
            DT_NEEDED => &mut elf.needed,
            DT_RPATH => &mut elf.rpath,
            DT_RUNPATH => &mut elf.runpath,
            _ => continue,
        };
        let text = string(value)?;
        match tag {
            DT_NEEDED => list.push(text),
            _ => list.extend(text.split(':').map(str::to_owned)),
        }
    }
    Some(())
}

#[cfg(test)]
pub(super) mod tests {
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
}
