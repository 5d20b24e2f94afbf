//! Identifies the build of a file, by its build id or its contents.

use provoke_autopsy::read_elf;
use provoke_sys::files::open_regular_file;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Limit of bytes of a file whose contents are read to identify its build.
const LARGEST: u64 = 64 << 20;
/// Limit of bytes of all libraries without a build id together, because there may be many.
pub(super) const LARGEST_OF_LIBRARIES: u64 = 32 << 20;

/// Bytes that are read and hashed at once.
const BLOCK: usize = 1 << 16;

/// Returns name and value of a fact that identifies the build of a file, if possible.
pub(super) fn build_of(file: &Path) -> Option<(&'static str, String)> {
    match read_elf(file).and_then(|elf| elf.build_id) {
        Some(id) => Some(("build_id", id)),
        None => Some(("hash", hash_file(file, &mut LARGEST.clone())?)),
    }
}

/// Returns the name and version of the GNU C library, from a text in its data.
pub(super) fn version_of_libc(file: &Path) -> Option<String> {
    find_banner(&open_regular_file(file).ok()?)
}

/// Returns the name and version in the banner, such as `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`
fn find_banner(file: &File) -> Option<String> {
    let length = file.metadata().ok()?.len();
    if length > LARGEST {
        return None;
    }
    let mut part = vec![0; PART + LONGEST_BANNER];
    // The banner is in the data that follows the code, so the parts are searched from the end of the file.
    let mut begins = (0..usize::try_from(length).ok()?).step_by(PART).rev();
    begins.find_map(|begin| {
        let filled = read_part(file, begin as u64, &mut part).ok()?;
        let part = &part[..filled];
        let mut banners = memchr::memmem::find_iter(part, BANNER);
        banners.find_map(|banner| read_banner(&part[banner..]))
    })
}

/// Fills a buffer with the contents of a file from an offset on, as far as they go.
fn read_part(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            length => filled += length,
        }
    }
    Ok(filled)
}

/// Bytes of a library that are searched at once.
const PART: usize = 1 << 18;

/// Begin of the line with the name and version of the GNU C library.
const BANNER: &[u8] = b"GNU C Library (";
/// Limit of bytes of that line.
const LONGEST_BANNER: usize = 160;

fn read_banner(bytes: &[u8]) -> Option<String> {
    let line = bytes.get(BANNER.len()..)?;
    let line = &line[..line.len().min(LONGEST_BANNER)];
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = str::from_utf8(line).ok()?;
    let (name, rest) = line.split_once(')')?;
    let (_, version) = rest.rsplit_once(" version ")?;
    let version = version.strip_suffix('.')?;
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !version.split('.').all(is_number) {
        return None;
    }
    // The name of a distribution's library contains the version, and more.
    Some(if name.contains(version) {
        name.to_owned()
    } else {
        format!("{name} {version}")
    })
}

/// Returns a hash of a file's contents, as long as the budget of bytes lasts. Of a file that grows meanwhile, as a log does,
/// only the contents that it had at first are read.
pub(super) fn hash_file(file: &Path, budget: &mut u64) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > *budget {
        return None;
    }
    *budget -= metadata.len();
    let mut contents = File::open(file).ok()?.take(metadata.len());
    let mut hash = START;
    // Most files are small.
    let block = usize::try_from(metadata.len()).map_or(BLOCK, |length| length.clamp(1, BLOCK));
    let mut buffer = vec![0; block];
    loop {
        let mut filled = 0;
        // Fill the whole buffer: only the last block may have another length.
        while filled < buffer.len() {
            match contents.read(&mut buffer[filled..]).ok()? {
                0 => break,
                length => filled += length,
            }
        }
        hash = update_hash(hash, &buffer[..filled]);
        if filled < buffer.len() {
            return Some(format!("hash:{hash:016x}"));
        }
    }
}

/// Offset basis and prime of the FNV hash.
const START: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Adds bytes to an FNV-like hash, eight at a time, because programs are large and the hash need
/// not resist attacks. The rotation lets high bits affect low ones.
pub(super) fn update_hash(hash: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let values = words.chain(rest.iter().map(|byte| u64::from(*byte)));
    values.fold(hash, |hash, word| {
        (hash ^ word).wrapping_mul(PRIME).rotate_left(29)
    })
}

pub(super) fn format_size(file: &Path) -> String {
    let size = fs::metadata(file).map_or(0, |metadata| metadata.len());
    format!("{size} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_any_byte_changes_the_hash() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let hash_of = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            hash_file(&file, &mut LARGEST.clone()).unwrap()
        };
        let whole = vec![7; (1 << 16) + 13];
        let mut all = vec![hash_of(&whole), hash_of(&whole[1..]), hash_of(b"")];
        for at in [0, 5, 8, (1 << 16) - 1, 1 << 16, whole.len() - 1] {
            let mut other = whole.clone();
            other[at] = 8;
            all.push(hash_of(&other));
        }
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn the_version_of_libc_is_read_from_its_banner() {
        let debian =
            b"GNU C Library (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.\nCopyright";
        let plain = b"GNU C Library (GNU libc) stable release version 2.41.\n";
        assert_eq!(
            read_banner(debian).as_deref(),
            Some("Debian GLIBC 2.36-9+deb12u10")
        );
        assert_eq!(read_banner(plain).as_deref(), Some("GNU libc 2.41"));
        for other in [
            &b"GNU C Library (GNU libc) is great\n"[..],
            b"GNU C Library (GNU libc) stable release version x.",
            b"GNU C Library (",
        ] {
            assert_eq!(read_banner(other), None);
        }
    }

    #[test]
    fn a_banner_is_found_at_any_place_of_a_library() {
        let banner = b"GNU C Library (GNU libc) stable release version 2.41.\n";
        let folder = tempfile::tempdir().unwrap();
        for begin in [0, PART - 30, PART - 1, PART, 2 * PART] {
            let mut bytes = vec![0; 2 * PART + 1000];
            bytes[begin..begin + banner.len()].copy_from_slice(banner);
            let library = folder.path().join(begin.to_string());
            fs::write(&library, bytes).unwrap();
            let version = version_of_libc(&library);
            assert_eq!(version.as_deref(), Some("GNU libc 2.41"), "{begin}");
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let file = std::env::current_exe().unwrap();
        let mut budget = 1;
        assert_eq!(hash_file(&file, &mut budget), None);
        assert_eq!(budget, 1, "what is not read costs nothing");
    }
}
