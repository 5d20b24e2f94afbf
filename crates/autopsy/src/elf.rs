//! Reads the layout and the build id of programs and libraries.

use object::elf::{FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{CompressionFormat, LittleEndian, Object as _, ObjectSection as _};
use std::borrow::Cow;

const PAGE: u64 = 4096;

/// An executable, a library, or a debug file of one.
pub(super) type ElfObject = ElfFile64<'static, LittleEndian>;

/// Memory layout and build id of a file.
///
/// Both are in the first page of the file, which a core contains for every library.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    loads: Vec<LoadSegment>,
    pub(super) build_id: Option<Vec<u8>>,
    /// Link-time address of the index of unwind information.
    pub(super) unwind_index: Option<(u64, u64)>,
    /// Link-time address of the program headers.
    pub(super) headers: Option<u64>,
    /// Link-time address of the dynamic section.
    pub(super) dynamic: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct LoadSegment {
    offset: u64,
    file_size: u64,
    address: u64,
    executable: bool,
}

impl Layout {
    /// Reads the beginning of a file; returns `None` if it is not a 64-bit x86 program.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine(endian) != object::elf::EM_X86_64 {
            return None;
        }
        let mut layout = Self::default();
        for segment in header.program_headers(endian, bytes).ok()? {
            match segment.p_type(endian) {
                PT_LOAD => layout.loads.push(LoadSegment {
                    offset: segment.p_offset(endian),
                    file_size: segment.p_filesz(endian),
                    address: segment.p_vaddr(endian),
                    executable: segment.p_flags(endian).contains(PF_X),
                }),
                PT_DYNAMIC => layout.dynamic = Some(segment.p_vaddr(endian)),
                PT_GNU_EH_FRAME => {
                    layout.unwind_index = Some((segment.p_vaddr(endian), segment.p_filesz(endian)));
                }
                _ => {}
            }
            if layout.build_id.is_none()
                && let Ok(Some(mut notes)) = segment.notes(endian, bytes)
            {
                while let Ok(Some(note)) = notes.next() {
                    if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                        layout.build_id = Some(note.desc().to_vec());
                        break;
                    }
                }
            }
        }
        let headers = header.e_phoff(endian);
        let mut loads = layout.loads.iter();
        let holds = loads.find(|load| {
            (load.offset..load.offset.saturating_add(load.file_size)).contains(&headers)
        });
        layout.headers = holds.map(|load| load.address.wrapping_add(headers - load.offset));
        Some(layout)
    }

    /// Returns start, end and file offset of each segment, for a file loaded with this bias.
    pub(super) fn loaded_parts(&self, bias: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        self.loads.iter().map(move |load| {
            let start = load.address.wrapping_add(bias);
            let end = start.saturating_add(load.file_size);
            let end = end.checked_next_multiple_of(PAGE).unwrap_or(end);
            (start / PAGE * PAGE, end, load.offset / PAGE * PAGE)
        })
    }

    /// Returns the bias of the file whose offset was mapped at this address.
    ///
    /// An address in the process minus the bias is the link-time address.
    pub(super) fn load_bias(&self, start: u64, offset: u64, executable: bool) -> Option<u64> {
        let holds = |load: &&LoadSegment| {
            let first = load.offset / PAGE * PAGE;
            let end = load.offset.saturating_add(load.file_size);
            (first..end).contains(&offset)
        };
        let fitting = || self.loads.iter().filter(holds);
        let load = fitting()
            .find(|load| load.executable == executable)
            .or_else(|| fitting().next())?;
        let into = offset - load.offset / PAGE * PAGE;
        let address = (load.address / PAGE * PAGE).wrapping_add(into);
        Some(start.wrapping_sub(address))
    }

    /// Returns the link-time address of an offset in the file.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |load: &&LoadSegment| {
            offset
                .checked_sub(load.offset)
                .is_some_and(|into| into < load.file_size)
        };
        let load = self.loads.iter().find(holds)?;
        load.address.checked_add(offset - load.offset)
    }

    /// Returns the content of the file from this link-time address to the end of the segment.
    pub(super) fn loaded_content<'a>(&self, bytes: &'a [u8], address: u64) -> Option<&'a [u8]> {
        let load = self.loads.iter().find(|load| {
            let end = load.address.saturating_add(load.file_size);
            (load.address..end).contains(&address)
        })?;
        let start = load.offset.checked_add(address - load.address)?;
        let end = load.offset.checked_add(load.file_size)?;
        let end = usize::try_from(end).ok()?.min(bytes.len());
        bytes.get(usize::try_from(start).ok()?..end)
    }
}

/// Returns a section of the file, or `None` if it is missing or empty.
///
/// The decompressed content of a section stays in memory for ever, like the files.
pub(super) fn section_content(elf: &ElfObject, name: &str) -> Option<&'static [u8]> {
    let section = elf.section_by_name(name)?;
    let packed = section.compressed_data().ok()?;
    if packed.format != CompressionFormat::None && packed.uncompressed_size > 8 << 30 {
        return None;
    }
    let bytes = match packed.decompress().ok()? {
        Cow::Borrowed(bytes) => bytes,
        Cow::Owned(bytes) => Box::leak(bytes.into_boxed_slice()),
    };
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf_headers::tests::{EXTREMES, elf_file};

    #[test]
    fn segments_near_the_end_of_the_address_space_have_a_layout() {
        for offset in EXTREMES {
            for address in EXTREMES {
                for size in EXTREMES {
                    let segments = [1, 2, 4, 0x6474_e550].map(|kind| (kind, offset, address, size));
                    let layout = Layout::from_bytes(&elf_file(&segments, &[])).unwrap();
                    for bias in EXTREMES {
                        assert_eq!(layout.loaded_parts(bias).count(), 1);
                        let _ = layout.load_bias(bias, offset, true);
                        let _ = layout.load_bias(bias, size, false);
                        let _ = layout.address_of(bias);
                        let _ = layout.loaded_content(&[0; 64], bias);
                    }
                }
            }
        }
    }

    #[test]
    fn more_segments_than_the_file_has_are_refused() {
        let mut file = elf_file(&[(1, 0, 0, 64)], &[]);
        assert!(Layout::from_bytes(&file).is_some());
        file[56..58].copy_from_slice(&0xfffe_u16.to_le_bytes());
        assert!(Layout::from_bytes(&file).is_none());
        // The number of segments is in a section header, which does not exist.
        file[56..58].copy_from_slice(&0xffff_u16.to_le_bytes());
        for offset in EXTREMES {
            file[40..48].copy_from_slice(&offset.to_le_bytes());
            assert!(Layout::from_bytes(&file).is_none());
        }
        for offset in &EXTREMES[1..] {
            let mut file = elf_file(&[(1, 0, 0, 64)], &[]);
            file[32..40].copy_from_slice(&offset.to_le_bytes());
            assert!(Layout::from_bytes(&file).is_none());
        }
    }
}
