//! Parses HTTP/1.1 responses incrementally, in pieces of any size.
//!
//! The body is passed on and not kept. RFC 9112, section 6.3 determines which deviations are
//! errors; where the RFC leaves a choice, this parser does the same as hyper.

use std::mem::MaybeUninit;

/// Longest head of a response, and longest trailer.
const LONGEST_HEAD: usize = 256 * 1024;
/// Header lines of a response.
const MAX_HEADERS: usize = 128;
/// Longest line with the size of a chunk, extensions included.
const LONGEST_SIZE: usize = 4096;

/// Receives a response while it is read.
pub(super) trait ResponseObserver {
    /// Called when the head is complete.
    fn on_head(&mut self, status: u16, headers: &[httparse::Header<'_>]);
    /// Called with each part of the body.
    fn on_body(&mut self, bytes: &[u8]);
}

/// Error in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ResponseError {
    #[error("invalid head: {0}")]
    Head(#[from] httparse::Error),
    #[error("the head is longer than 256 KiB")]
    LongHead,
    #[error("invalid Content-Length")]
    Length,
    #[error("two different Content-Length values")]
    TwoLengths,
    #[error("Transfer-Encoding, which HTTP/1.0 does not have")]
    OldCoding,
    #[error("invalid chunk size")]
    ChunkSize,
    #[error("no line break after a chunk")]
    ChunkEnd,
    #[error("extra bytes after the response")]
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseState {
    Head,
    /// Number of missing bytes of the body.
    Length(u64),
    /// In the line with the size of a chunk: the size so far, the part of the line, and the length
    /// of the line so far.
    Size(u64, ChunkLine, usize),
    /// Number of missing bytes of a chunk.
    Chunk(u64),
    /// In the carriage return and line feed after a chunk.
    ChunkEnd(u8),
    /// In the lines after the last chunk; length of the present line, and of all lines.
    Trailer(usize, usize),
    UntilClosed,
    Done,
}

/// Part of a line with the size of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkLine {
    Begin,
    Digits,
    Blank,
    Extension,
    End,
}

/// Reads one response after another.
#[derive(Debug)]
pub(super) struct ResponseReader {
    state: ResponseState,
    /// Beginning of an incomplete head.
    held: Vec<u8>,
    /// The response has no body, because it answers a HEAD request.
    bodyless: bool,
    /// The connection can be reused.
    kept: bool,
}

impl ResponseReader {
    pub(super) fn new() -> Self {
        Self {
            state: ResponseState::Done,
            held: Vec::new(),
            bodyless: false,
            kept: true,
        }
    }

    /// Starts a response; a response to a HEAD request has no body, whatever its headers say.
    pub(super) fn begin_answer(&mut self, head: bool) {
        self.state = ResponseState::Head;
        self.held.clear();
        self.bodyless = head;
        self.kept = true;
    }

    /// Returns whether the response is complete.
    pub(super) fn is_done(&self) -> bool {
        self.state == ResponseState::Done
    }

    /// Returns whether the head is complete.
    pub(super) fn has_head(&self) -> bool {
        self.state != ResponseState::Head
    }

    /// Returns whether the connection can be reused after the response.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Parses received bytes. Returns the number of bytes that belong to this response.
    pub(super) fn feed_bytes(
        &mut self,
        bytes: &[u8],
        observer: &mut impl ResponseObserver,
    ) -> Result<usize, ResponseError> {
        let mut consumed = 0;
        while consumed < bytes.len() && self.state != ResponseState::Done {
            consumed += self.step_once(&bytes[consumed..], observer)?;
        }
        Ok(consumed)
    }

    /// Handles the end of the connection. Returns whether it completes the response.
    pub(super) fn end_of_connection(&mut self) -> bool {
        self.kept = false;
        if self.state == ResponseState::UntilClosed {
            self.state = ResponseState::Done;
        }
        self.state == ResponseState::Done
    }

    fn step_once(
        &mut self,
        bytes: &[u8],
        observer: &mut impl ResponseObserver,
    ) -> Result<usize, ResponseError> {
        match self.state {
            ResponseState::Head => self.feed_head(bytes, observer),
            ResponseState::Length(missing) => {
                let length = bytes_within(missing, bytes);
                observer.on_body(&bytes[..length]);
                let missing = missing - length as u64;
                self.state = if missing == 0 {
                    ResponseState::Done
                } else {
                    ResponseState::Length(missing)
                };
                Ok(length)
            }
            ResponseState::UntilClosed => {
                observer.on_body(bytes);
                Ok(bytes.len())
            }
            ResponseState::Chunk(missing) => {
                let length = bytes_within(missing, bytes);
                observer.on_body(&bytes[..length]);
                let missing = missing - length as u64;
                self.state = if missing == 0 {
                    ResponseState::ChunkEnd(b'\r')
                } else {
                    ResponseState::Chunk(missing)
                };
                Ok(length)
            }
            ResponseState::ChunkEnd(expected) => {
                self.state = match (expected, bytes[0]) {
                    (b'\r', b'\r') => ResponseState::ChunkEnd(b'\n'),
                    (b'\n', b'\n') => ResponseState::Size(0, ChunkLine::Begin, 0),
                    _ => return Err(ResponseError::ChunkEnd),
                };
                Ok(1)
            }
            ResponseState::Size(size, line, length) => {
                self.state = chunk_size(size, line, length, bytes[0])?;
                Ok(1)
            }
            ResponseState::Trailer(line, trailer_bytes) => {
                self.state = match bytes[0] {
                    _ if trailer_bytes >= LONGEST_HEAD => return Err(ResponseError::LongHead),
                    b'\n' if line == 0 => ResponseState::Done,
                    b'\n' => ResponseState::Trailer(0, trailer_bytes + 1),
                    b'\r' if line == 0 => ResponseState::Trailer(0, trailer_bytes + 1),
                    _ => ResponseState::Trailer(line + 1, trailer_bytes + 1),
                };
                Ok(1)
            }
            ResponseState::Done => Ok(0),
        }
    }

    fn feed_head(
        &mut self,
        bytes: &[u8],
        observer: &mut impl ResponseObserver,
    ) -> Result<usize, ResponseError> {
        if self.held.is_empty() {
            if let Some(length) = self.whole_head(bytes, observer)? {
                return Ok(length);
            }
            self.held.extend_from_slice(bytes);
        } else {
            // Search the end of the head only in the new bytes and a few before, so that a head
            // that arrives byte by byte is not parsed again for each byte.
            let start = self.held.len().saturating_sub(3);
            let length_before = self.held.len();
            self.held.extend_from_slice(bytes);
            if !has_empty_line(&self.held[start..]) && self.held.len() <= LONGEST_HEAD {
                return Ok(bytes.len());
            }
            let head_bytes = std::mem::take(&mut self.held);
            let head = self.whole_head(&head_bytes, observer);
            self.held = head_bytes;
            if let Some(length) = head? {
                self.held.clear();
                return Ok(length.saturating_sub(length_before));
            }
        }
        if self.held.len() > LONGEST_HEAD {
            return Err(ResponseError::LongHead);
        }
        Ok(bytes.len())
    }

    /// Parses the head if it is complete. Returns its length.
    fn whole_head(
        &mut self,
        bytes: &[u8],
        observer: &mut impl ResponseObserver,
    ) -> Result<Option<usize>, ResponseError> {
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut head = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
            &mut head,
            bytes,
            &mut headers,
        )?;
        let httparse::Status::Complete(length) = parsed else {
            return Ok(None);
        };
        let status = head.code.unwrap_or_default();
        if (100..200).contains(&status) && status != 101 {
            return Ok(Some(length)); // the final response follows
        }
        let mut framing = Framing::default();
        for header in head.headers.iter() {
            framing.read_header(header);
        }
        self.kept = match framing.connection {
            Some(ConnectionOption::Close) => false,
            Some(ConnectionOption::KeepAlive) => true,
            None => head.version == Some(1),
        };
        observer.on_head(status, head.headers);
        self.state = if status == 101 {
            self.kept = false; // the following bytes are not HTTP
            ResponseState::Done
        } else if self.bodyless || matches!(status, 204 | 304) {
            ResponseState::Done
        } else if let Some(coding) = framing.coding {
            if head.version == Some(0) {
                return Err(ResponseError::OldCoding);
            }
            match coding {
                TransferCoding::Chunked => ResponseState::Size(0, ChunkLine::Begin, 0),
                TransferCoding::Other => ResponseState::UntilClosed,
            }
        } else {
            match framing.length.transpose()? {
                Some(0) => ResponseState::Done,
                Some(length) => ResponseState::Length(length),
                None => ResponseState::UntilClosed,
            }
        };
        if self.state == ResponseState::UntilClosed {
            self.kept = false;
        }
        Ok(Some(length))
    }
}

/// Headers that determine the body and the connection.
#[derive(Default)]
struct Framing {
    /// Content-Length, or the reason why it is invalid, which matters only if it is used.
    length: Option<Result<u64, ResponseError>>,
    /// The last Transfer-Encoding, which overrides Content-Length.
    coding: Option<TransferCoding>,
    /// The option of the connection; `close` overrides `keep-alive`.
    connection: Option<ConnectionOption>,
}

enum TransferCoding {
    Chunked,
    Other,
}

enum ConnectionOption {
    Close,
    KeepAlive,
}

impl Framing {
    fn read_header(&mut self, header: &httparse::Header<'_>) {
        // The length excludes most names.
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = parse_length(header.value).ok_or(ResponseError::Length);
                self.length = Some(match self.length {
                    Some(Ok(other_length)) if length.is_ok_and(|length| length != other_length) => {
                        Err(ResponseError::TwoLengths)
                    }
                    Some(Err(fault)) => Err(fault),
                    _ => length,
                });
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                let last = header
                    .value
                    .rsplit(|byte| *byte == b',')
                    .next()
                    .unwrap_or_default()
                    .trim_ascii();
                self.coding = Some(if last.eq_ignore_ascii_case(b"chunked") {
                    TransferCoding::Chunked
                } else {
                    TransferCoding::Other
                });
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                for word in header.value.split(|byte| *byte == b',') {
                    let word = word.trim_ascii();
                    if word.eq_ignore_ascii_case(b"close") {
                        self.connection = Some(ConnectionOption::Close);
                    } else if word.eq_ignore_ascii_case(b"keep-alive") {
                        self.connection.get_or_insert(ConnectionOption::KeepAlive);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Parses a Content-Length, which consists of digits only.
fn parse_length(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn chunk_size(
    size: u64,
    line: ChunkLine,
    length: usize,
    byte: u8,
) -> Result<ResponseState, ResponseError> {
    if length >= LONGEST_SIZE {
        return Err(ResponseError::ChunkSize);
    }
    let digit = char::from(byte).to_digit(16).map(u64::from);
    let next = match (line, byte) {
        (ChunkLine::Begin | ChunkLine::Digits, _) if digit.is_some() => {
            let digit = digit.ok_or(ResponseError::ChunkSize)?;
            let shifted = size.checked_mul(16).ok_or(ResponseError::ChunkSize)?;
            return Ok(ResponseState::Size(
                shifted | digit,
                ChunkLine::Digits,
                length + 1,
            ));
        }
        (ChunkLine::End, b'\n') => {
            return Ok(if size == 0 {
                ResponseState::Trailer(0, 0)
            } else {
                ResponseState::Chunk(size)
            });
        }
        (ChunkLine::Digits | ChunkLine::Blank | ChunkLine::Extension, b'\r') => ChunkLine::End,
        (ChunkLine::Digits | ChunkLine::Blank, b' ' | b'\t') => ChunkLine::Blank,
        (ChunkLine::Digits | ChunkLine::Blank, b';') => ChunkLine::Extension,
        // Accepting a bare line feed here would permit request smuggling.
        (ChunkLine::Extension, byte) if byte != b'\n' => ChunkLine::Extension,
        _ => return Err(ResponseError::ChunkSize),
    };
    Ok(ResponseState::Size(size, next, length + 1))
}

fn bytes_within(missing: u64, bytes: &[u8]) -> usize {
    usize::try_from(missing).map_or(bytes.len(), |missing| missing.min(bytes.len()))
}

/// Returns whether the bytes contain an empty line.
fn has_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests;
