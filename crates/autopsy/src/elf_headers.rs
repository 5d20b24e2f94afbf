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
pub(super) mod tests;
