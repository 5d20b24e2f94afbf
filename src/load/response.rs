//! Parses HTTP/1.1 responses incrementally, in pieces of any size.
//!
//! The body is handed on and not kept. What is lenient and what is not follows RFC 9112, section 6.3,
//! and where that leaves a choice, hyper.

use std::mem::MaybeUninit;

/// Longest head of an answer, and longest trailer.
const LONGEST_HEAD: usize = 256 * 1024;
/// Header lines of an answer.
const MOST_HEADERS: usize = 128;
/// Longest line with the size of a chunk, extensions included.
const LONGEST_SIZE: usize = 4096;

/// Is shown an answer as it is read.
pub(super) trait Observer {
    /// The head is whole.
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]);
    /// More of the body has come.
    fn body(&mut self, bytes: &[u8]);
}

/// Why something is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
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
enum State {
    Head,
    /// So many bytes of the body are missing.
    Length(u64),
    /// In the line with the size of a chunk: the size so far, what part of the line it is, and
    /// how long the line is already.
    Size(u64, Line, usize),
    /// So many bytes of a chunk are missing.
    Chunk(u64),
    /// A carriage return and a line feed come after a chunk.
    ChunkEnd(u8),
    /// The lines after the last chunk; so many bytes of the present line, and of all.
    Trailer(usize, usize),
    UntilClosed,
    Done,
}

/// Where in a line with the size of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Begin,
    Digits,
    Blank,
    Extension,
    End,
}

/// Reads one answer after another.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    /// The beginning of a head that is not whole.
    held: Vec<u8>,
    /// What was asked for has no body.
    bodyless: bool,
    /// The connection may be used again.
    kept: bool,
}

impl Reader {
    pub(super) fn new() -> Self {
        Self {
            state: State::Done,
            held: Vec::new(),
            bodyless: false,
            kept: true,
        }
    }

    /// Begins an answer; to a HEAD, it has no body whatever it says.
    pub(super) fn begin(&mut self, head: bool) {
        self.state = State::Head;
        self.held.clear();
        self.bodyless = head;
        self.kept = true;
    }

    /// Has the answer come to its end?
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Is its head whole?
    pub(super) fn has_head(&self) -> bool {
        self.state != State::Head
    }

    /// May the connection be used again, once the answer has come to its end?
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Takes in what came. Returns how much of it belongs to this answer: all but what comes
    /// after its end.
    pub(super) fn feed(&mut self, bytes: &[u8], seen: &mut impl Observer) -> Result<usize, Fault> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            at += self.step(&bytes[at..], seen)?;
        }
        Ok(at)
    }

    /// The connection has ended. Returns whether that was the end of the answer, too.
    pub(super) fn end(&mut self) -> bool {
        self.kept = false;
        if self.state == State::UntilClosed {
            self.state = State::Done;
        }
        self.state == State::Done
    }

    fn step(&mut self, bytes: &[u8], seen: &mut impl Observer) -> Result<usize, Fault> {
        match self.state {
            State::Head => self.head(bytes, seen),
            State::Length(missing) => {
                let now = within(missing, bytes);
                seen.body(&bytes[..now]);
                let missing = missing - now as u64;
                self.state = if missing == 0 {
                    State::Done
                } else {
                    State::Length(missing)
                };
                Ok(now)
            }
            State::UntilClosed => {
                seen.body(bytes);
                Ok(bytes.len())
            }
            State::Chunk(missing) => {
                let now = within(missing, bytes);
                seen.body(&bytes[..now]);
                let missing = missing - now as u64;
                self.state = if missing == 0 {
                    State::ChunkEnd(b'\r')
                } else {
                    State::Chunk(missing)
                };
                Ok(now)
            }
            State::ChunkEnd(wanted) => {
                self.state = match (wanted, bytes[0]) {
                    (b'\r', b'\r') => State::ChunkEnd(b'\n'),
                    (b'\n', b'\n') => State::Size(0, Line::Begin, 0),
                    _ => return Err(Fault::ChunkEnd),
                };
                Ok(1)
            }
            State::Size(size, line, length) => {
                self.state = chunk_size(size, line, length, bytes[0])?;
                Ok(1)
            }
            State::Trailer(line, all) => {
                self.state = match bytes[0] {
                    _ if all >= LONGEST_HEAD => return Err(Fault::LongHead),
                    b'\n' if line == 0 => State::Done,
                    b'\n' => State::Trailer(0, all + 1),
                    b'\r' if line == 0 => State::Trailer(0, all + 1),
                    _ => State::Trailer(line + 1, all + 1),
                };
                Ok(1)
            }
            State::Done => Ok(0),
        }
    }

    fn head(&mut self, bytes: &[u8], seen: &mut impl Observer) -> Result<usize, Fault> {
        if self.held.is_empty() {
            if let Some(length) = self.whole_head(bytes, seen)? {
                return Ok(length);
            }
            self.held.extend_from_slice(bytes);
        } else {
            // Where the head ends is looked for in what is new and a little before, so that one
            // that comes byte by byte is not parsed again for each.
            let from = self.held.len().saturating_sub(3);
            let before = self.held.len();
            self.held.extend_from_slice(bytes);
            if !ends(&self.held[from..]) && self.held.len() <= LONGEST_HEAD {
                return Ok(bytes.len());
            }
            let held = std::mem::take(&mut self.held);
            let whole = self.whole_head(&held, seen);
            self.held = held;
            if let Some(length) = whole? {
                self.held.clear();
                return Ok(length.saturating_sub(before));
            }
        }
        if self.held.len() > LONGEST_HEAD {
            return Err(Fault::LongHead);
        }
        Ok(bytes.len())
    }

    /// Reads a head, if it is whole. Returns its length.
    fn whole_head(
        &mut self,
        bytes: &[u8],
        seen: &mut impl Observer,
    ) -> Result<Option<usize>, Fault> {
        let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
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
            return Ok(Some(length)); // the answer proper is still to come
        }
        let mut framing = Framing::default();
        for header in head.headers.iter() {
            framing.read(header);
        }
        self.kept = match (framing.close, framing.keep) {
            (true, _) => false,
            (_, keep) => head.version == Some(1) || keep,
        };
        seen.head(status, head.headers);
        self.state = if status == 101 {
            self.kept = false; // what comes now is no HTTP
            State::Done
        } else if self.bodyless || matches!(status, 204 | 304) {
            State::Done
        } else if framing.coded {
            if head.version == Some(0) {
                return Err(Fault::OldCoding);
            }
            if framing.chunked {
                State::Size(0, Line::Begin, 0)
            } else {
                State::UntilClosed
            }
        } else {
            match framing.length.transpose()? {
                Some(0) => State::Done,
                Some(length) => State::Length(length),
                None => State::UntilClosed,
            }
        };
        if self.state == State::UntilClosed {
            self.kept = false;
        }
        Ok(Some(length))
    }
}

/// What a head says of the body and the connection.
#[derive(Default)]
struct Framing {
    /// Or why it is none: that matters only where it is needed.
    length: Option<Result<u64, Fault>>,
    /// There is a Transfer-Encoding, which makes any length void.
    coded: bool,
    /// Its last coding is `chunked`.
    chunked: bool,
    close: bool,
    keep: bool,
}

impl Framing {
    fn read(&mut self, header: &httparse::Header<'_>) {
        // Most names are settled by their length.
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = number(header.value).ok_or(Fault::Length);
                self.length = Some(match self.length {
                    Some(Ok(other)) if length.is_ok_and(|length| length != other) => {
                        Err(Fault::TwoLengths)
                    }
                    Some(Err(fault)) => Err(fault),
                    _ => length,
                });
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                self.coded = true;
                let last = header.value.rsplit(|byte| *byte == b',').next();
                let last = last.unwrap_or_default().trim_ascii();
                self.chunked = last.eq_ignore_ascii_case(b"chunked");
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                for word in header.value.split(|byte| *byte == b',') {
                    let word = word.trim_ascii();
                    self.close |= word.eq_ignore_ascii_case(b"close");
                    self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
    }
}

/// Reads a Content-Length: digits and nothing else.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.trim_ascii();
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    digits.parse().ok()
}

fn chunk_size(size: u64, line: Line, length: usize, byte: u8) -> Result<State, Fault> {
    if length >= LONGEST_SIZE {
        return Err(Fault::ChunkSize);
    }
    let digit = char::from(byte).to_digit(16).map(u64::from);
    let next = match (line, byte) {
        (Line::Begin | Line::Digits, _) if digit.is_some() => {
            let digit = digit.ok_or(Fault::ChunkSize)?;
            let shifted = size.checked_mul(16).ok_or(Fault::ChunkSize)?;
            return Ok(State::Size(shifted | digit, Line::Digits, length + 1));
        }
        (Line::End, b'\n') => {
            return Ok(if size == 0 {
                State::Trailer(0, 0)
            } else {
                State::Chunk(size)
            });
        }
        (Line::Digits | Line::Blank | Line::Extension, b'\r') => Line::End,
        (Line::Digits | Line::Blank, b' ' | b'\t') => Line::Blank,
        (Line::Digits | Line::Blank, b';') => Line::Extension,
        // A bare line feed here is how requests are smuggled.
        (Line::Extension, byte) if byte != b'\n' => Line::Extension,
        _ => return Err(Fault::ChunkSize),
    };
    Ok(State::Size(size, next, length + 1))
}

fn within(missing: u64, bytes: &[u8]) -> usize {
    usize::try_from(missing).map_or(bytes.len(), |missing| missing.min(bytes.len()))
}

/// Is there an empty line?
fn ends(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests;
