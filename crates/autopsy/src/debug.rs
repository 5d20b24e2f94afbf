//! Finds separate files with debug information.

use super::elf::{ElfObject, Layout};
use object::Object as _;
use provoke_model::encode_hex;
use provoke_sys::files;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Opens a file as an ELF file.
pub(super) fn open_elf(path: &Path) -> Option<ElfObject> {
    ElfObject::parse(files::map_program(path).ok()?).ok()
}

/// Finds the debug file of a program, by its build id or by the name in its debug link.
///
/// All folders belong to the system on which the program ran.
pub(super) fn find_debug_file(
    folders: &[PathBuf],
    path: &Path,
    elf: Option<&ElfObject>,
    build_id: Option<&[u8]>,
) -> Option<ElfObject> {
    if let Some(id) = build_id
        && let Some(debug_file) = by_identity(folders, id)
    {
        return Some(debug_file);
    }
    let (link_name, checksum) = elf?.gnu_debuglink().ok()??;
    let name = Path::new(OsStr::from_bytes(link_name)).file_name()?;
    let folder_of_file = path.parent()?;
    let mut paths = vec![
        folder_of_file.join(name),
        folder_of_file.join(".debug").join(name),
    ];
    for folder in folders {
        let path_below = folder_of_file.strip_prefix("/").unwrap_or(folder_of_file);
        paths.push(folder.join(path_below).join(name));
    }
    paths.into_iter().find_map(|path| {
        let bytes = files::map_program(&path).ok()?;
        let is_same = match (build_id, Layout::from_bytes(bytes)?.build_id) {
            (Some(expected), Some(build_id)) => expected == build_id,
            _ => crc32_checksum(bytes) == checksum,
        };
        is_same.then(|| ElfObject::parse(bytes).ok())?
    })
}

/// Finds the file with debug information that several debug files share.
pub(super) fn find_supplement(folders: &[PathBuf], elf: &ElfObject) -> Option<ElfObject> {
    let (name, id) = elf.gnu_debugaltlink().ok()??;
    by_identity(folders, id).or_else(|| {
        let name = Path::new(OsStr::from_bytes(name));
        // The name is relative to the folder of the debug file, which is `.build-id/xx`.
        let open_supplement = |folder: &PathBuf| open_elf(&folder.join(".build-id/00").join(name));
        folders.iter().find_map(open_supplement)
    })
}

fn by_identity(folders: &[PathBuf], id: &[u8]) -> Option<ElfObject> {
    let (first, rest) = id.split_first()?;
    let name = format!(
        ".build-id/{}/{}.debug",
        encode_hex(&[*first]),
        encode_hex(rest)
    );
    folders
        .iter()
        .find_map(|folder| open_elf(&folder.join(&name)))
}

/// Computes the checksum of `.gnu_debuglink`.
fn crc32_checksum(bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|index| {
        (0..8).fold(u32::try_from(index).unwrap_or(0), |value, _| {
            value >> 1 ^ if value & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    });
    !bytes.iter().fold(!0, |sum, byte| {
        let [low, ..] = sum.to_le_bytes();
        table[usize::from(low ^ byte)] ^ sum >> 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_equals_the_standard_crc32() {
        assert_eq!(crc32_checksum(b"123456789"), 0xcbf4_3926);
    }
}
