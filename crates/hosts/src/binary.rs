//! The executable of this process, which is copied to other hosts.

use provoke_model::encode_hex;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};

/// Bytes that are read at once.
const CHUNK: usize = 256 << 10;

/// The executable of this process.
pub(super) struct OwnBinary {
    file: File,
    /// Its length in bytes.
    pub(super) size: u64,
    /// Digest of its contents.
    pub(super) digest: String,
}

impl OwnBinary {
    /// Opens the executable, and reads it.
    pub(super) fn open() -> io::Result<Self> {
        let file = File::open("/proc/self/exe")?;
        let mut context = Context::new(&SHA256);
        let mut size = 0;
        read_chunks(&file, |bytes| {
            context.update(bytes);
            size += bytes.len() as u64;
        })?;
        let digest = encode_hex(context.finish().as_ref());
        Ok(Self { file, size, digest })
    }

    /// Returns its contents.
    pub(super) fn contents(&self) -> io::Result<Vec<u8>> {
        let mut contents = Vec::new();
        read_chunks(&self.file, |bytes| contents.extend_from_slice(bytes))?;
        Ok(contents)
    }
}

fn read_chunks(mut file: &File, mut add: impl FnMut(&[u8])) -> io::Result<()> {
    file.rewind()?;
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            length => add(&buffer[..length]),
        }
    }
}
