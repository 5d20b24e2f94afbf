//! Prepares a kind of request from the plan.

use super::super::body::{BodySource, FileBody, Http2Body};
use super::super::check::CompiledResponseRules;
use super::super::target::{self, Target};
use super::super::{LoadError, LoadPlaceholders};
use super::rows::CsvRows;
use super::template::{RequestTemplate, TemplateLocation};
use provoke_model::{FilePick, RequestBody, RequestPlan};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::OnceLock;

/// Size up to which a file is held in memory; a longer file is read during sending.
const LONGEST_HELD: u64 = 16 << 20;

/// Limit of the head of a request file.
const LONGEST_HEAD: u64 = 1 << 20;

/// Limit of headers in a request file.
const MAX_HEADERS: usize = 256;

/// Limit of files of one kind.
const MAX_FILES: usize = 1 << 24;

/// Size up to which a body is appended to its head, so that both are one write.
pub(super) const SHORT_BODY: usize = 16 * 1024;

/// A kind of request.
pub(in super::super) struct RequestKind {
    /// The response has no body.
    pub(in super::super) head: bool,
    pub(in super::super) expected: CompiledResponseRules,
    /// Part of the head before the length of the body.
    pub(super) begin: RequestTemplate,
    pub(super) framing: RequestFraming,
    pub(super) body: BodyContent,
    /// Complete request, if all requests of this kind are equal.
    pub(super) fixed: Option<Vec<u8>>,
    /// The same request for HTTP/2, created on demand.
    pub(super) fixed_two: OnceLock<hyper::Request<Http2Body>>,
    // Parts for HTTP/2.
    pub(in super::super) method: String,
    pub(super) path: RequestTemplate,
    pub(super) headers: Vec<(String, RequestTemplate)>,
}

/// Source of the header with the length or encoding of the body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestFraming {
    /// The header is added to the head.
    Added,
    /// The plan contains the header.
    Planned,
    /// The kind is a request file, to which nothing is added, and whose bytes include the body.
    RequestFile,
    /// The same, but the body is separate and follows the bytes of the head.
    RequestFileHead,
}

impl RequestFraming {
    /// Returns whether the kind is a request file.
    pub(super) fn is_of_file(self) -> bool {
        matches!(self, Self::RequestFile | Self::RequestFileHead)
    }
}

/// Body of a kind of request.
pub(super) enum BodyContent {
    None,
    Template(RequestTemplate),
    Files(Vec<BodySource>, FilePick),
    Column(usize),
}

impl RequestKind {
    pub(super) fn new(
        plan: &RequestPlan,
        target: &Target,
        rows: &CsvRows,
        fill: &LoadPlaceholders,
        two: bool,
    ) -> Result<Self, LoadError> {
        if let Some(file) = &plan.raw {
            return Self::from_raw_file(plan, &target::fill_path(file, fill), fill, two);
        }
        let method = if plan.method.is_empty() {
            "GET"
        } else {
            &plan.method
        };
        let wrong = |problem: &str, text: &str| LoadError::Head {
            kind: plan.name.clone(),
            what: problem.to_owned(),
            text: text.to_owned(),
        };
        if !method.bytes().all(is_token) {
            return Err(wrong("method", method));
        }
        let path_text = format!("{}{}", target.prefix, target::fill_marks(&plan.path, fill));
        if !path_text.starts_with('/') {
            return Err(wrong("path", &plan.path));
        }
        let path = RequestTemplate::new(&path_text, rows, TemplateLocation::Path)?;
        let mut headers = Vec::new();
        for (name, value) in &plan.headers {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(wrong("header", name));
            }
            let value = RequestTemplate::new(value, rows, TemplateLocation::Header)?;
            if value.0.iter().any(|part| part.breaks_lines(rows)) {
                return Err(wrong("header", name));
            }
            headers.push((name.clone(), value));
        }
        let has = |wanted_name: &str| {
            let mut names = headers.iter();
            names.any(|(name, _)| name.eq_ignore_ascii_case(wanted_name))
        };
        let mut begin = RequestTemplate::default();
        begin.push_plain(method.as_bytes());
        begin.push_plain(b" ");
        begin.0.extend(path.0.iter().cloned());
        begin.push_plain(b" HTTP/1.1\r\n");
        if !has("host") {
            begin.push_plain(format!("Host: {}\r\n", target.authority).as_bytes());
        }
        for (name, value) in &headers {
            begin.push_plain(format!("{name}: ").as_bytes());
            begin.0.extend(value.0.iter().cloned());
            begin.push_plain(b"\r\n");
        }
        begin.join_plain_pieces();
        let body = BodyContent::new(&plan.body, rows, fill)?;
        let mut kind = Self {
            head: method == "HEAD",
            expected: CompiledResponseRules::new(&plan.expect, fill)?,
            framing: if has("content-length") || has("transfer-encoding") {
                RequestFraming::Planned
            } else {
                RequestFraming::Added
            },
            begin,
            body,
            fixed: None,
            fixed_two: OnceLock::new(),
            method: method.to_owned(),
            path,
            headers,
        };
        let body: Option<&[u8]> = match &kind.body {
            BodyContent::None => Some(&[]),
            BodyContent::Files(files, FilePick::Random | FilePick::Cycle) => match files.as_slice()
            {
                [BodySource::Held(body)] if body.len() <= SHORT_BODY => Some(body),
                _ => None,
            },
            BodyContent::Template(template) => template.as_plain(),
            _ => None,
        };
        if let (Some(body), Some(begin)) = (body, kind.begin.as_plain()) {
            let mut fixed = begin.to_vec();
            kind.end_head(body.len(), &mut fixed);
            fixed.extend_from_slice(body);
            kind.fixed = Some(fixed);
        }
        Ok(kind)
    }

    /// Creates a kind from a request file, of which only the necessary parts are parsed.
    fn from_raw_file(
        plan: &RequestPlan,
        path: &Path,
        fill: &LoadPlaceholders,
        two: bool,
    ) -> Result<Self, LoadError> {
        let (bytes, rest) = read_head(path)?;
        let mut header_buffer = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut head = httparse::Request::new(&mut header_buffer);
        let Ok(httparse::Status::Complete(length)) = head.parse(&bytes) else {
            return Err(LoadError::Raw(path.to_owned()));
        };
        let plain = |bytes: &[u8]| {
            let mut template = RequestTemplate::default();
            template.push_plain(bytes);
            template
        };
        let rest_bytes = &bytes[length..];
        let (body, framing) = match (&plan.body, rest) {
            (RequestBody::None, false) if rest_bytes.is_empty() => {
                (BodyContent::None, RequestFraming::RequestFile)
            }
            (RequestBody::None, false) => {
                let body = BodySource::Held(rest_bytes.to_vec());
                (
                    BodyContent::Files(vec![body], FilePick::Cycle),
                    RequestFraming::RequestFile,
                )
            }
            (RequestBody::None, true) => {
                let body = FileBody::open_from(path, length as u64)
                    .map_err(|error| file_error(path, error))?;
                (
                    BodyContent::Files(vec![BodySource::Long(body)], FilePick::Cycle),
                    RequestFraming::RequestFileHead,
                )
            }
            (body, _) if rest_bytes.is_empty() => {
                let body = BodyContent::new(body, &CsvRows::default(), fill)?;
                (body, RequestFraming::RequestFileHead)
            }
            // A plan cannot replace the body of a request file.
            _ => return Err(LoadError::Raw(path.to_owned())),
        };
        if two && let Some(reason) = only_in_one(head.headers, &body) {
            return Err(LoadError::Framed(path.to_owned(), reason));
        }
        let method = head.method.unwrap_or("GET").to_owned();
        // HTTP/2 has its own form for these headers.
        let own_names = ["host", "connection", "transfer-encoding"];
        let is_kept = |name: &str| {
            !own_names
                .iter()
                .any(|own_name| name.eq_ignore_ascii_case(own_name))
        };
        let headers = head
            .headers
            .iter()
            .filter(|header| is_kept(header.name))
            .map(|header| (header.name.to_owned(), plain(header.value)));
        Ok(Self {
            head: method == "HEAD",
            expected: CompiledResponseRules::new(&plan.expect, fill)?,
            begin: RequestTemplate::default(),
            framing,
            body,
            path: plain(head.path.unwrap_or("/").as_bytes()),
            headers: headers.collect(),
            method,
            fixed: Some(if rest {
                bytes[..length].to_vec()
            } else {
                bytes
            }),
            fixed_two: OnceLock::new(),
        })
    }

    pub(super) fn end_head(&self, length: usize, buffer: &mut Vec<u8>) {
        use std::io::Write as _;
        let bare =
            matches!(self.body, BodyContent::None) && !matches!(&self.method[..], "POST" | "PUT");
        if self.framing == RequestFraming::Added && !bare {
            let _ = write!(buffer, "Content-Length: {length}\r\n"); // writing to memory cannot fail
        }
        buffer.extend_from_slice(b"\r\n");
    }
}

impl BodyContent {
    fn new(body: &RequestBody, rows: &CsvRows, fill: &LoadPlaceholders) -> Result<Self, LoadError> {
        Ok(match body {
            RequestBody::None => Self::None,
            RequestBody::Text(text) => {
                Self::Template(RequestTemplate::new(text, rows, TemplateLocation::Body)?)
            }
            RequestBody::Column(name) => Self::Column(rows.find_column(name)?),
            RequestBody::Files { files, pick } => {
                if files.is_empty() || files.len() > MAX_FILES {
                    return Err(LoadError::Files(files.len()));
                }
                let read = files
                    .iter()
                    .map(|file| read_source(&target::fill_path(file, fill)));
                Self::Files(read.collect::<Result<_, _>>()?, *pick)
            }
        })
    }
}

/// Returns why a request with these headers and this body cannot be sent as HTTP/2.
fn only_in_one(headers: &[httparse::Header<'_>], body: &BodyContent) -> Option<&'static str> {
    let named = |name: &str| {
        let mut headers_left = headers.iter();
        headers_left.find(|header| header.name.eq_ignore_ascii_case(name))
    };
    if named("transfer-encoding").is_some() {
        return Some("its body is chunked, which HTTP/2 does not allow");
    }
    let header = named("content-length")?;
    let length = std::str::from_utf8(header.value).ok()?.trim().parse();
    let as_said = match body {
        BodyContent::Files(files, _) => files
            .iter()
            .all(|file| Ok(file.as_tail().byte_length()) == length),
        _ => length == Ok(0),
    };
    (!as_said).then_some("the length of its body is not its Content-Length")
}

fn file_error(path: &Path, error: std::io::Error) -> LoadError {
    LoadError::File {
        path: path.to_owned(),
        error,
    }
}

/// Reads a body into memory, unless it is too long.
fn read_source(path: &Path) -> Result<BodySource, LoadError> {
    let read = || {
        if fs::metadata(path)?.len() > LONGEST_HELD {
            return FileBody::open_from(path, 0).map(BodySource::Long);
        }
        fs::read(path).map(BodySource::Held)
    };
    read().map_err(|error| file_error(path, error))
}

/// Reads a request file completely, or the beginning of a long one. Returns whether there is more.
fn read_head(path: &Path) -> Result<(Vec<u8>, bool), LoadError> {
    let read = || {
        if fs::metadata(path)?.len() <= LONGEST_HELD {
            return Ok((fs::read(path)?, false));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path)?;
        file.take(LONGEST_HEAD).read_to_end(&mut bytes)?;
        Ok((bytes, true))
    };
    read().map_err(|error| file_error(path, error))
}

/// Returns whether a byte may occur in a method or the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
