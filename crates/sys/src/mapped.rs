//! Memory that is backed by a file, so that its content outlives the process.

use super::files::create_new;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// Words that are shared with a file.
#[derive(Debug)]
pub struct MappedWords {
    words: NonNull<u64>,
    count: usize,
}

#[expect(unsafe_code, reason = "a pointer says nothing of threads")]
// SAFETY: the memory belongs to this value alone, like that of a `Box<[u64]>`.
unsafe impl Send for MappedWords {}

impl MappedWords {
    /// Creates a file with this number of words, all 0, and maps it.
    pub fn create_file(path: &Path, count: usize) -> io::Result<Self> {
        let file = create_new(path)?;
        file.set_len((count * size_of::<u64>()) as u64)?;
        Self::map_words(Some(&file), count)
    }

    /// Creates memory without a file.
    pub fn map_anonymous(count: usize) -> io::Result<Self> {
        Self::map_words(None, count)
    }

    #[expect(unsafe_code, reason = "files are mapped by address")]
    fn map_words(file: Option<&File>, count: usize) -> io::Result<Self> {
        let length = count * size_of::<u64>();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses an unused address; this function's caller has just created the
        // file with this length, and no other process knows it.
        let address = unsafe {
            match file {
                Some(file) => mmap(null_mut(), length, rights, MapFlags::SHARED, file, 0),
                None => mmap_anonymous(null_mut(), length, rights, MapFlags::PRIVATE),
            }
        }?;
        let words = NonNull::new(address.cast()).ok_or(io::ErrorKind::Other)?;
        Ok(Self { words, count })
    }

    /// Returns the words.
    #[expect(unsafe_code, reason = "files are mapped by address")]
    pub fn as_words(&self) -> &[u64] {
        // SAFETY: `count` words are mapped, aligned to a page, until this value is dropped; any
        // bits are a `u64`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// Returns the words for writing.
    #[expect(unsafe_code, reason = "files are mapped by address")]
    pub fn words_mut(&mut self) -> &mut [u64] {
        // SAFETY: as above, and `&mut self` excludes other references to the words.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_ptr(), self.count) }
    }
}

impl Drop for MappedWords {
    #[expect(unsafe_code, reason = "files are mapped by address")]
    fn drop(&mut self) {
        // SAFETY: this value mapped the memory with this length, and no reference outlives the
        // value.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_words_are_in_the_mapped_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words");
        let mut mapped = MappedWords::create_file(&path, 1000).unwrap();
        mapped.words_mut()[999] = 0x0102_0304_0506_0708;
        assert_eq!(mapped.as_words()[999], 0x0102_0304_0506_0708);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 8000);
        assert_eq!(bytes[7992..], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert!(
            MappedWords::create_file(&path, 1).is_err(),
            "it exists already"
        );
        assert_eq!(MappedWords::map_anonymous(3).unwrap().as_words(), [0, 0, 0]);
    }
}
