//! Request bodies that are too long for memory: they are read while they are sent.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use provoke_model::encode_hex;
use ring::digest::{Context as Digest, SHA256};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes per read.
const CHUNK: u64 = 256 * 1024;

/// A file from an offset on.
#[derive(Clone, Debug)]
pub(super) struct FileBody {
    file: Arc<File>,
    pub(super) path: PathBuf,
    /// Offset of the body: a request file begins with a head.
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Body of a request.
#[derive(Clone, Debug)]
pub(super) enum BodySource {
    Held(Vec<u8>),
    Long(FileBody),
}

/// The rest of a request behind the bytes that are written first.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestTail<'a> {
    Held(&'a [u8]),
    Long(&'a FileBody),
}

impl FileBody {
    pub(super) fn open_from(path: &Path, offset: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len().saturating_sub(offset);
        Ok(Self {
            file: Arc::new(file),
            path: path.to_owned(),
            offset,
            length,
        })
    }

    /// Reads the next chunk behind the first `after` bytes.
    pub(super) fn read_chunk(&self, after: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        let count = CHUNK.min(self.length.saturating_sub(after));
        buffer.resize(usize::try_from(count).unwrap_or_default(), 0);
        // A file that has become shorter ends with an error.
        self.file.read_exact_at(buffer, self.offset + after)
    }

    /// Returns the SHA-256 digest in hexadecimal.
    pub(super) fn sha256_hex(&self) -> io::Result<String> {
        let (mut digest, mut chunk, mut hashed) = (Digest::new(&SHA256), Vec::new(), 0);
        while hashed < self.length {
            self.read_chunk(hashed, &mut chunk)?;
            digest.update(&chunk);
            hashed += chunk.len() as u64;
        }
        Ok(encode_hex(digest.finish().as_ref()))
    }
}

impl BodySource {
    pub(super) fn as_tail(&self) -> RequestTail<'_> {
        match self {
            Self::Held(bytes) => RequestTail::Held(bytes),
            Self::Long(long) => RequestTail::Long(long),
        }
    }
}

impl RequestTail<'_> {
    pub(super) fn byte_length(&self) -> usize {
        match self {
            Self::Held(bytes) => bytes.len(),
            Self::Long(long) => usize::try_from(long.length).unwrap_or(usize::MAX),
        }
    }
}

/// Body of an HTTP/2 request.
#[derive(Clone, Debug, Default)]
pub(super) struct Http2Body {
    held_bytes: Bytes,
    /// The file, and the number of bytes that were sent.
    long: Option<(FileBody, u64)>,
}

impl From<BodySource> for Http2Body {
    fn from(source: BodySource) -> Self {
        match source {
            BodySource::Held(bytes) => Self {
                held_bytes: bytes.into(),
                long: None,
            },
            BodySource::Long(long) => Self {
                held_bytes: Bytes::new(),
                long: Some((long, 0)),
            },
        }
    }
}

impl Http2Body {
    fn remaining_bytes(&self) -> u64 {
        let long = self.long.as_ref();
        self.held_bytes.len() as u64 + long.map_or(0, |(long, sent)| long.length - sent)
    }
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.remaining_bytes() == 0 {
            return Poll::Ready(None);
        }
        let held_bytes = std::mem::take(&mut self.held_bytes);
        let (long, sent) = match &mut self.long {
            Some((long, sent)) if held_bytes.is_empty() => (long, sent),
            _ => return Poll::Ready(Some(Ok(Frame::data(held_bytes)))),
        };
        let mut chunk = Vec::new();
        let read = long.read_chunk(*sent, &mut chunk);
        *sent += chunk.len() as u64;
        Poll::Ready(Some(read.map(|()| Frame::data(chunk.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining_bytes() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining_bytes())
    }
}
