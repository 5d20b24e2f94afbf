//! The executable of this process, which is copied to other hosts.

use provoke_model::encode_hex;
use ring::digest::{Context, SHA256};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

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

    /// Reads its next bytes at a position; none at its end.
    pub(super) fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }
}

fn read_chunks(mut file: &File, mut add: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            length => add(&buffer[..length]),
        }
    }
}
