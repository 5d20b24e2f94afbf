//! What is sent: the plan, made ready once for each life.
//!
//! Which request is the `n`th of a client is a hash of (seed, client, n) and of nothing else, so that
//! any of them can be made again to the byte.

use super::check::Expected;
use super::http2;
use super::long::{Long, Sent, Source, Tail};
use super::target::{self, Target};
use super::{Error, Fill};
use crate::model::{self, Body, Http, Pick};
use hyper::header::{HeaderName, HeaderValue};
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// A longer file is not held in memory, but read when it is sent.
const LONGEST_HELD: u64 = 16 << 20;
/// The head of a request that is given as bytes is not longer.
const LONGEST_HEAD: u64 = 1 << 20;
/// A body up to this size is put behind its head, and both are written as one.
const SHORT_BODY: usize = 16 * 1024;
/// Kinds of requests.
const MOST_KINDS: usize = 1 << 8;
/// Headers of a request that is given as bytes.
const MOST_HEADERS: usize = 256;
/// Files of one kind.
const MOST_FILES: usize = 1 << 24;

/// Everything that may be sent.
pub(super) struct Requests {
    pub(super) kinds: Vec<Kind>,
    /// Of weights, up to and with each kind.
    weights: Vec<u64>,
    rows: Rows,
}

/// A kind of request.
pub(super) struct Kind {
    /// Its answer has no body.
    pub(super) head: bool,
    pub(super) expected: Expected,
    /// What comes before the length of the body.
    begin: Template,
    /// The plan itself says how long the body is, or how it is coded.
    framed: bool,
    body: Content,
    /// The whole request, where each is the same.
    fixed: Option<Vec<u8>>,
    /// The same in HTTP/2's form, once it was needed.
    fixed_two: OnceLock<hyper::Request<Sent>>,
    /// It was given as bytes, to which nothing is added.
    raw: bool,
    /// And its body stands behind them, by itself.
    behind: bool,
    // For HTTP/2, which has its own way to put it.
    pub(super) method: String,
    path: Template,
    headers: Vec<(String, Template)>,
}

enum Content {
    None,
    Template(Template),
    Files(Vec<Source>, Pick),
    Column(usize),
}

/// Text with places that are filled in.
#[derive(Clone, Debug, Default)]
struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Plain(Vec<u8>),
    Column(usize),
    Seq,
    Rand,
}

/// The rows of a CSV file.
#[derive(Default)]
struct Rows {
    columns: Vec<String>,
    cells: Vec<Vec<u8>>,
}

/// One request, as drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) kind: usize,
    pub(super) file: usize,
    pub(super) row: usize,
    /// Its number among those of its client, and among all.
    pub(super) n: u64,
    pub(super) seq: u64,
    pub(super) rand: u64,
}

/// Draws the requests of a client.
pub(super) struct Draws {
    key: u64,
    client: u64,
    /// How many there are.
    clients: u64,
    next: u64,
    /// How many of each kind were drawn.
    drawn: Vec<u64>,
}

impl Draws {
    pub(super) fn new(requests: &Requests, seed: u64, client: u32, clients: u32) -> Self {
        Self {
            key: key(seed, client),
            client: u64::from(client),
            clients: u64::from(clients.max(1)),
            next: 0,
            drawn: vec![0; requests.kinds.len()],
        }
    }

    /// Draws the next request; none when files that are sent once were all sent.
    pub(super) fn next(&mut self, requests: &Requests) -> Option<Choice> {
        let n = self.next;
        self.next += 1;
        let draw = draw(self.key, n);
        let total = requests.weights.last().copied().unwrap_or(1);
        let place = below(hash(draw ^ 1), total);
        let kind = requests.weights.partition_point(|until| *until <= place);
        // The clients share the files of a kind out among themselves, and need not ask each other.
        let turn = self.client + self.drawn[kind] * self.clients;
        self.drawn[kind] += 1;
        let file = match &requests.kinds[kind].body {
            Content::Files(files, Pick::Random) => below(hash(draw ^ 2), files.len() as u64),
            Content::Files(files, Pick::Cycle) => turn % files.len() as u64,
            Content::Files(files, Pick::Once) if turn >= files.len() as u64 => return None,
            Content::Files(_, Pick::Once) => turn,
            _ => 0,
        };
        Some(Choice {
            kind,
            file: index(file),
            n,
            seq: n * self.clients + self.client,
            ..requests.row_and_rand(draw)
        })
    }
}

fn key(seed: u64, client: u32) -> u64 {
    hash(seed ^ hash(u64::from(client) + 1))
}

fn draw(key: u64, n: u64) -> u64 {
    hash(key.wrapping_add(n.wrapping_mul(STEP)))
}

fn index(index: u64) -> usize {
    usize::try_from(index).unwrap_or(0)
}

/// The golden ratio, which `SplitMix64` steps by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// `SplitMix64`'s step and finaliser.
pub(super) fn hash(x: u64) -> u64 {
    let mut x = x.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn below(draw: u64, limit: u64) -> u64 {
    u64::try_from((u128::from(draw) * u128::from(limit)) >> 64).unwrap_or(0)
}

impl Requests {
    pub(super) fn new(load: &model::Load, target: &Target, fill: &Fill) -> Result<Self, Error> {
        let rows = match &load.rows {
            Some(path) => Rows::read(&target::path(path, fill))?,
            None => Rows::default(),
        };
        if load.requests.is_empty() || load.requests.len() > MOST_KINDS {
            return Err(Error::Kinds(load.requests.len()));
        }
        let kinds = load.requests.iter();
        let two = load.target.http != Http::One;
        let kinds = kinds.map(|plan| Kind::new(plan, target, &rows, fill, two));
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        let weights = load.requests.iter().scan(0, |sum, plan| {
            *sum += u64::from(plan.weight);
            Some(*sum)
        });
        let weights: Vec<u64> = weights.collect();
        if weights.last() == Some(&0) {
            return Err(Error::Weights);
        }
        Ok(Self {
            kinds,
            weights,
            rows,
        })
    }

    /// Puts a request into bytes: those that are written first, and a body that is large.
    pub(super) fn wire<'a>(
        &'a self,
        choice: &Choice,
        last: bool,
        buffer: &'a mut Vec<u8>,
    ) -> (&'a [u8], Tail<'a>) {
        const NOTHING: Tail<'_> = Tail::Held(&[]);
        let kind = &self.kinds[choice.kind];
        if let Some(fixed) = kind.fixed.as_ref().filter(|_| !last || kind.raw) {
            let tail = match &kind.body {
                Content::Files(files, _) if kind.behind => files[choice.file].tail(),
                _ => NOTHING,
            };
            return (fixed, tail);
        }
        buffer.clear();
        kind.begin.put(choice, &self.rows, buffer);
        if last {
            buffer.extend_from_slice(b"Connection: close\r\n");
        }
        let body = match &kind.body {
            Content::None => NOTHING,
            Content::Files(files, _) => files[choice.file].tail(),
            Content::Column(column) => Tail::Held(self.rows.cell(choice.row, *column)),
            Content::Template(template) => {
                let at = buffer.len();
                template.put(choice, &self.rows, buffer);
                let length = buffer.len() - at;
                // The length stands before it, and is known after it.
                let mut middle = Vec::new();
                kind.end_head(length, &mut middle);
                buffer.splice(at..at, middle);
                return (buffer, NOTHING);
            }
        };
        kind.end_head(body.length(), buffer);
        match body {
            Tail::Held(body) if body.len() <= SHORT_BODY => {
                buffer.extend_from_slice(body);
                (buffer, NOTHING)
            }
            _ => (buffer, body),
        }
    }

    /// Returns how many bytes of a request are held.
    pub(super) fn held(&self, choice: &Choice) -> usize {
        let mut buffer = Vec::new();
        let (head, body) = self.wire(choice, false, &mut buffer);
        match body {
            Tail::Held(body) => head.len() + body.len(),
            Tail::Long(_) => head.len(),
        }
    }

    /// Returns the body of a request.
    pub(super) fn body(&self, choice: &Choice) -> Source {
        Source::Held(match &self.kinds[choice.kind].body {
            Content::None => Vec::new(),
            Content::Files(files, _) => return files[choice.file].clone(),
            Content::Column(column) => self.rows.cell(choice.row, *column).to_vec(),
            Content::Template(template) => {
                let mut body = Vec::new();
                template.put(choice, &self.rows, &mut body);
                body
            }
        })
    }

    /// Puts a request into HTTP/2's own form.
    pub(super) fn two(&self, target: &Target, choice: &Choice) -> hyper::Request<Sent> {
        let kind = &self.kinds[choice.kind];
        match kind.fixed {
            Some(_) => kind
                .fixed_two
                .get_or_init(|| self.put_two(target, choice))
                .clone(),
            None => self.put_two(target, choice),
        }
    }

    fn put_two(&self, target: &Target, choice: &Choice) -> hyper::Request<Sent> {
        let kind = &self.kinds[choice.kind];
        let filled = |template: &Template| {
            let mut text = Vec::new();
            template.put(choice, &self.rows, &mut text);
            text
        };
        let path = filled(&kind.path);
        let mut request = http2::plain(target, &String::from_utf8_lossy(&path));
        if let Ok(method) = kind.method.parse() {
            *request.method_mut() = method;
        }
        for (name, value) in &kind.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_bytes(&filled(value));
            if let (Ok(name), Ok(value)) = (name, value)
                && !http2::means_a_connection(&name)
            {
                request.headers_mut().append(name, value);
            }
        }
        *request.body_mut() = Sent::from(self.body(choice));
        request
    }

    fn row_and_rand(&self, draw: u64) -> Choice {
        let rows = self.rows.count() as u64;
        Choice {
            row: index(below(hash(draw ^ 3), rows.max(1))),
            rand: hash(draw ^ 4) >> 11, // a whole number in any language's JSON
            ..Choice::default()
        }
    }

    /// Draws again what was sent once, of which kind and file are known.
    pub(super) fn again(&self, seed: u64, clients: u32, client: u32, choice: Choice) -> Choice {
        Choice {
            seq: choice.n * u64::from(clients.max(1)) + u64::from(client),
            kind: choice.kind,
            file: choice.file,
            n: choice.n,
            ..self.row_and_rand(draw(key(seed, client), choice.n))
        }
    }

    /// Returns a request of the first kind that is sent at all.
    pub(super) fn first(&self) -> Choice {
        Choice {
            kind: self.weights.partition_point(|until| *until == 0),
            ..Choice::default()
        }
    }

    /// Are there rows at all?
    pub(super) fn has_rows(&self) -> bool {
        self.rows.count() > 0
    }
}

impl Kind {
    fn new(
        plan: &model::RequestPlan,
        target: &Target,
        rows: &Rows,
        fill: &Fill,
        two: bool,
    ) -> Result<Self, Error> {
        if let Some(file) = &plan.raw {
            return Self::raw(plan, &target::path(file, fill), fill, two);
        }
        let method = if plan.method.is_empty() {
            "GET"
        } else {
            &plan.method
        };
        let wrong = |what: &str, text: &str| Error::Head {
            kind: plan.name.clone(),
            what: what.to_owned(),
            text: text.to_owned(),
        };
        if !method.bytes().all(is_token) {
            return Err(wrong("method", method));
        }
        let path = format!("{}{}", target.prefix, target::filled(&plan.path, fill));
        if !path.starts_with('/') {
            return Err(wrong("path", &plan.path));
        }
        let path = Template::new(&path, rows, Where::Path)?;
        let mut headers = Vec::new();
        for (name, value) in &plan.headers {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(wrong("header", name));
            }
            let value = Template::new(value, rows, Where::Header)?;
            if value.0.iter().any(|piece| piece.breaks_lines(rows)) {
                return Err(wrong("header", name));
            }
            headers.push((name.clone(), value));
        }
        let has = |wanted: &str| {
            let mut names = headers.iter();
            names.any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        let mut begin = Template::default();
        begin.plain(method.as_bytes());
        begin.plain(b" ");
        begin.0.extend(path.0.iter().cloned());
        begin.plain(b" HTTP/1.1\r\n");
        if !has("host") {
            begin.plain(format!("Host: {}\r\n", target.authority).as_bytes());
        }
        for (name, value) in &headers {
            begin.plain(format!("{name}: ").as_bytes());
            begin.0.extend(value.0.iter().cloned());
            begin.plain(b"\r\n");
        }
        begin.join();
        let body = Content::new(&plan.body, rows, fill)?;
        let mut kind = Self {
            head: method == "HEAD",
            expected: Expected::new(&plan.expect, fill)?,
            framed: has("content-length") || has("transfer-encoding"),
            begin,
            body,
            fixed: None,
            fixed_two: OnceLock::new(),
            raw: false,
            behind: false,
            method: method.to_owned(),
            path,
            headers,
        };
        let body: Option<&[u8]> = match &kind.body {
            Content::None => Some(&[]),
            Content::Files(files, Pick::Random | Pick::Cycle) => match files.as_slice() {
                [Source::Held(body)] if body.len() <= SHORT_BODY => Some(body),
                _ => None,
            },
            Content::Template(template) => template.as_plain(),
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

    /// Makes one of its bytes: they are looked into only for what must be known of them.
    fn raw(plan: &model::RequestPlan, path: &Path, fill: &Fill, two: bool) -> Result<Self, Error> {
        let (bytes, rest) = read_head(path)?;
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(length)) = head.parse(&bytes) else {
            return Err(Error::Raw(path.to_owned()));
        };
        let plain = |bytes: &[u8]| {
            let mut made = Template::default();
            made.plain(bytes);
            made
        };
        let own = &bytes[length..];
        let (body, behind) = match (&plan.body, rest) {
            (Body::None, false) if own.is_empty() => (Content::None, false),
            (Body::None, false) => {
                let body = Source::Held(own.to_vec());
                (Content::Files(vec![body], Pick::Cycle), false)
            }
            (Body::None, true) => {
                let body = Long::open(path, length as u64).map_err(|error| unread(path, error))?;
                (Content::Files(vec![Source::Long(body)], Pick::Cycle), true)
            }
            (body, _) if own.is_empty() => (Content::new(body, &Rows::default(), fill)?, true),
            // Two bodies are none.
            _ => return Err(Error::Raw(path.to_owned())),
        };
        if two && let Some(why) = only_in_one(head.headers, &body) {
            return Err(Error::Framed(path.to_owned(), why));
        }
        let method = head.method.unwrap_or("GET").to_owned();
        // Another HTTP says these in its own way.
        let own = ["host", "connection", "transfer-encoding"];
        let meant = |name: &str| !own.iter().any(|own| name.eq_ignore_ascii_case(own));
        let headers = head.headers.iter().filter(|header| meant(header.name));
        let headers = headers.map(|header| (header.name.to_owned(), plain(header.value)));
        Ok(Self {
            head: method == "HEAD",
            expected: Expected::new(&plan.expect, fill)?,
            begin: Template::default(),
            framed: true,
            body,
            raw: true,
            behind,
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

    fn end_head(&self, length: usize, to: &mut Vec<u8>) {
        use std::io::Write as _;
        let bare =
            matches!(self.body, Content::None) && !matches!(&self.method[..], "POST" | "PUT");
        if !self.framed && !bare {
            let _ = write!(to, "Content-Length: {length}\r\n"); // memory takes anything
        }
        to.extend_from_slice(b"\r\n");
    }
}

impl Content {
    fn new(body: &Body, rows: &Rows, fill: &Fill) -> Result<Self, Error> {
        Ok(match body {
            Body::None => Self::None,
            Body::Text(text) => Self::Template(Template::new(text, rows, Where::Body)?),
            Body::Column(name) => Self::Column(rows.column(name)?),
            Body::Files { files, pick } => {
                if files.is_empty() || files.len() > MOST_FILES {
                    return Err(Error::Files(files.len()));
                }
                let read = files.iter().map(|file| source(&target::path(file, fill)));
                Self::Files(read.collect::<Result<_, _>>()?, *pick)
            }
        })
    }
}

/// Says why a request with these headers and so long a body has no form in HTTP/2.
fn only_in_one(headers: &[httparse::Header<'_>], body: &Content) -> Option<&'static str> {
    let named = |name: &str| {
        let mut all = headers.iter();
        all.find(|header| header.name.eq_ignore_ascii_case(name))
    };
    if named("transfer-encoding").is_some() {
        return Some("its body comes in chunks, of which HTTP/2 has none");
    }
    let said = named("content-length")?;
    let said = std::str::from_utf8(said.value).ok()?.trim().parse();
    let as_said = match body {
        Content::Files(files, _) => files.iter().all(|file| Ok(file.tail().length()) == said),
        _ => said == Ok(0),
    };
    (!as_said).then_some("its body is not as long as its Content-Length says")
}

fn unread(path: &Path, error: std::io::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        error,
    }
}

/// Reads a body, unless it is too long for that.
fn source(path: &Path) -> Result<Source, Error> {
    let read = || {
        if fs::metadata(path)?.len() > LONGEST_HELD {
            return Long::open(path, 0).map(Source::Long);
        }
        fs::read(path).map(Source::Held)
    };
    read().map_err(|error| unread(path, error))
}

/// Reads a request that is given as bytes: all of it, or of a long one its beginning. Says whether
/// there is more.
fn read_head(path: &Path) -> Result<(Vec<u8>, bool), Error> {
    let read = || {
        if fs::metadata(path)?.len() <= LONGEST_HELD {
            return Ok((fs::read(path)?, false));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(path)?;
        file.take(LONGEST_HEAD).read_to_end(&mut bytes)?;
        Ok((bytes, true))
    };
    read().map_err(|error| unread(path, error))
}

/// What may stand in a method or the name of a header.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Where a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Path,
    Header,
    Body,
}

impl Template {
    fn new(text: &str, rows: &Rows, place: Where) -> Result<Self, Error> {
        let mut made = Self::default();
        let escape = |bytes: &[u8]| match place {
            Where::Path => escaped(bytes),
            _ => bytes.to_vec(),
        };
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            made.plain(&escape(&rest.as_bytes()[..at]));
            rest = &rest[at..];
            let (mark, length) = match mark(rest) {
                Some(Mark::Seq) => (Piece::Seq, "{seq}".len()),
                Some(Mark::Rand) => (Piece::Rand, "{rand}".len()),
                Some(Mark::Row(name)) => (
                    Piece::Column(rows.column(&rest[name.clone()])?),
                    name.end + 1,
                ),
                Some(Mark::Env(name)) => {
                    let value = std::env::var_os(&rest[name.clone()])
                        .ok_or_else(|| Error::Environment(rest[name.clone()].to_owned()))?;
                    let value = value.as_encoded_bytes();
                    (Piece::Plain(escape(value)), name.end + 1)
                }
                // Other braces are nothing special: there are many of them in JSON.
                None => (Piece::Plain(escape(b"{")), 1),
            };
            made.0.push(mark);
            rest = &rest[length..];
        }
        made.plain(&escape(rest.as_bytes()));
        if place == Where::Path {
            // What a column holds is escaped once, too, in a column of its own.
            for piece in &mut made.0 {
                if let Piece::Column(column) = piece {
                    *column += rows.columns.len();
                }
            }
        }
        made.join();
        Ok(made)
    }

    fn plain(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.0.push(Piece::Plain(bytes.to_vec()));
        }
    }

    /// Makes one of plain pieces next to each other.
    fn join(&mut self) {
        let pieces = std::mem::take(&mut self.0);
        for piece in pieces {
            match (self.0.last_mut(), piece) {
                (Some(Piece::Plain(before)), Piece::Plain(more)) => before.extend(more),
                (_, piece) => self.0.push(piece),
            }
        }
    }

    fn as_plain(&self) -> Option<&[u8]> {
        match &self.0[..] {
            [] => Some(&[]),
            [Piece::Plain(bytes)] => Some(bytes),
            _ => None,
        }
    }

    fn put(&self, choice: &Choice, rows: &Rows, to: &mut Vec<u8>) {
        use std::io::Write as _;
        for piece in &self.0 {
            // Memory takes anything.
            match piece {
                Piece::Plain(bytes) => to.extend_from_slice(bytes),
                Piece::Column(column) => to.extend_from_slice(rows.cell(choice.row, *column)),
                Piece::Seq => drop(write!(to, "{}", choice.seq)),
                Piece::Rand => drop(write!(to, "{}", choice.rand)),
            }
        }
    }
}

impl Piece {
    /// May it hold what would end the line of a header?
    fn breaks_lines(&self, rows: &Rows) -> bool {
        let breaks = |bytes: &[u8]| bytes.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        match self {
            Self::Plain(bytes) => breaks(bytes),
            Self::Column(column) => (0..rows.count()).any(|row| breaks(rows.cell(row, *column))),
            Self::Seq | Self::Rand => false,
        }
    }
}

/// What stands in braces, and where its name is.
enum Mark {
    Seq,
    Rand,
    Row(Range<usize>),
    Env(Range<usize>),
}

fn mark(text: &str) -> Option<Mark> {
    if text.starts_with("{seq}") {
        return Some(Mark::Seq);
    }
    if text.starts_with("{rand}") {
        return Some(Mark::Rand);
    }
    let end = text.find('}')?;
    if text.starts_with("{row.") {
        return Some(Mark::Row("{row.".len()..end));
    }
    let env = text.starts_with("{env.");
    env.then(|| Mark::Env("{env.".len()..end))
}

/// Escapes what may not stand in the path of a request.
fn escaped(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if !b"\"<>\\^`{|}#".contains(byte) => out.push(*byte),
            byte => drop(write!(out, "%{byte:02X}")), // memory takes anything
        }
    }
    out
}

impl Rows {
    fn read(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Rows {
            path: path.to_owned(),
            error,
        };
        let mut reader = csv::Reader::from_path(path).map_err(failed)?;
        let columns = reader.byte_headers().map_err(failed)?.iter();
        let columns: Vec<String> = columns
            .map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned())
            .collect();
        // Which of them would be meant? Columns without a name are never meant.
        let mut names: Vec<&String> = columns.iter().filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Twice {
                path: path.to_owned(),
                name: pair[0].clone(),
            });
        }
        let mut cells = Vec::new();
        for row in reader.byte_records() {
            let row = row.map_err(failed)?;
            cells.extend(row.iter().map(<[u8]>::to_vec));
            cells.extend(row.iter().map(escaped));
        }
        if cells.is_empty() {
            return Err(Error::NoRows(path.to_owned()));
        }
        Ok(Self { columns, cells })
    }

    fn count(&self) -> usize {
        self.cells.len() / (2 * self.columns.len()).max(1)
    }

    fn column(&self, name: &str) -> Result<usize, Error> {
        let found = self.columns.iter().position(|column| column == name);
        found.ok_or_else(|| Error::Column {
            name: name.to_owned(),
            known: self.columns.clone(),
        })
    }

    /// Returns a cell; behind the columns are the same again for paths.
    fn cell(&self, row: usize, column: usize) -> &[u8] {
        &self.cells[row * 2 * self.columns.len() + column]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{load, request};
    use super::*;
    use crate::model::Text;
    use std::collections::BTreeMap;

    fn made(load: &model::Load) -> Result<Requests, Error> {
        let fill = Vec::new();
        let target = Target::new(&load.target, &fill)?;
        Requests::new(load, &target, &fill)
    }

    fn bytes(requests: &Requests, choice: &Choice) -> String {
        let mut buffer = Vec::new();
        let (head, body) = requests.wire(choice, false, &mut buffer);
        let Tail::Held(body) = body else {
            panic!("it is not held")
        };
        String::from_utf8([head, body].concat()).unwrap()
    }

    fn first(load: &model::Load) -> String {
        let requests = made(load).unwrap();
        let mut draws = Draws::new(&requests, 7, 2, 10);
        let choice = draws.next(&requests).unwrap();
        bytes(&requests, &choice)
    }

    #[test]
    fn a_plain_request_is_the_same_each_time() {
        let mut load = load("http://a:81/base");
        assert_eq!(first(&load), "GET /base/ HTTP/1.1\r\nHost: a:81\r\n\r\n");
        load.requests[0].method = "POST".into();
        load.requests[0].headers = vec![("X-A".into(), "b".into())];
        load.requests[0].body = Body::Text("{\"a\":{}}".into());
        assert_eq!(
            first(&load),
            "POST /base/ HTTP/1.1\r\nHost: a:81\r\nX-A: b\r\nContent-Length: 8\r\n\r\n{\"a\":{}}"
        );
        load.requests[0].body = Body::None;
        assert!(first(&load).contains("Content-Length: 0\r\n"));
    }

    #[test]
    fn templates_are_filled_in_and_paths_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("rows.csv");
        fs::write(&rows, "id,name\n1,\"two words\"\n").unwrap();
        let mut load = load("http://a");
        load.rows = Some(Text::from(rows));
        load.requests[0].path = "/x/{row.name}?n={seq}".into();
        load.requests[0].headers = vec![("X".into(), "{row.name}".into())];
        load.requests[0].body = Body::Text("{\"id\": {row.id}, \"seq\": {seq}}".into());
        assert_eq!(
            first(&load),
            "GET /x/two%20words?n=2 HTTP/1.1\r\nHost: a\r\nX: two words\r\nContent-Length: 20\r\n\r\n{\"id\": 1, \"seq\": 2}\n"
                .trim_end()
                .replace("20\r\n\r\n", "19\r\n\r\n")
        );
        load.requests[0].path = "/{row.nme}".into();
        let error = made(&load).err().unwrap().to_string();
        assert!(
            error.contains("`nme`") && error.contains("id, name"),
            "{error}"
        );
    }

    #[test]
    fn bytes_that_are_given_are_sent_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("one.http");
        let text =
            "POST /a{seq}?b HTTP/1.1\r\nhost:  x\r\nX-Y: {rand}\r\nContent-Length: 3\r\n\r\n{a}";
        fs::write(&file, text).unwrap();
        let mut load = load("http://a/base");
        load.requests[0].raw = Some(Text::from(file.as_path()));
        assert_eq!(first(&load), text);
        let requests = made(&load).unwrap();
        let choice = requests.first();
        let mut buffer = Vec::new();
        let (head, _) = requests.wire(&choice, true, &mut buffer);
        assert_eq!(head, text.as_bytes());
        let body = requests.body(&choice);
        assert!(matches!(body, Source::Held(bytes) if bytes == b"{a}"));
        let target = Target::new(&load.target, &Fill::new()).unwrap();
        let two = requests.two(&target, &choice);
        let headers: Vec<&str> = two.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(headers, ["x-y", "content-length"]);
        fs::write(&file, "hello").unwrap();
        let error = made(&load).err().unwrap().to_string();
        assert!(error.contains("holds no HTTP request"), "{error}");
    }

    #[test]
    fn a_kind_without_weight_is_not_the_first() {
        let mut load = load("http://a");
        load.requests = vec![request("none", 0), request("a", 1)];
        assert_eq!(made(&load).unwrap().first().kind, 1);
    }

    #[test]
    fn no_two_columns_have_the_same_name() {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("rows.csv");
        let mut load = load("http://a");
        load.rows = Some(Text::from(rows.as_path()));
        fs::write(&rows, "id,,name,, id\n1,2,3,4,5\n").unwrap();
        let error = made(&load).err().unwrap().to_string();
        assert!(error.ends_with("has two columns `id`"), "{error}");
        fs::write(&rows, "id,,name,\n1,2,3,4\n").unwrap();
        assert!(made(&load).is_ok());
    }

    #[test]
    fn a_path_never_ends_the_line_it_stands_in() {
        let mut load = load("http://a");
        load.requests[0].path = "/a b\r\n".into();
        assert_eq!(first(&load), "GET /a%20b%0D%0A HTTP/1.1\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn a_row_cannot_add_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let rows = folder.path().join("rows.csv");
        fs::write(&rows, "id\n\"a\r\nX: y\"\n").unwrap();
        let mut load = load("http://a");
        load.rows = Some(Text::from(rows));
        load.requests[0].headers = vec![("X".into(), "{row.id}".into())];
        assert!(made(&load).is_err());
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_does_not() {
        let mut load = load("http://a");
        load.requests = vec![request("a", 9), request("b", 1)];
        load.requests[0].body = Body::Text("{rand}".into());
        let sequence = |seed, client| -> Vec<String> {
            let requests = made(&load).unwrap();
            let mut draws = Draws::new(&requests, seed, client, 10);
            let draws = std::iter::from_fn(|| draws.next(&requests)).take(50);
            let draws = draws.inspect(|choice| {
                let known = Choice {
                    kind: choice.kind,
                    file: choice.file,
                    n: choice.n,
                    ..Choice::default()
                };
                assert_eq!(requests.again(seed, 10, client, known), *choice);
            });
            draws.map(|choice| bytes(&requests, &choice)).collect()
        };
        assert_eq!(sequence(7, 3), sequence(7, 3));
        assert_ne!(sequence(7, 3), sequence(8, 3));
        assert_ne!(sequence(7, 3), sequence(7, 4));
    }

    #[test]
    fn weights_are_proportions() {
        let mut load = load("http://a");
        load.requests = vec![request("a", 9), request("none", 0), request("b", 1)];
        let requests = made(&load).unwrap();
        let mut counts = BTreeMap::new();
        for client in 0..10 {
            let mut draws = Draws::new(&requests, 7, client, 10);
            for _ in 0..1000 {
                let kind = draws.next(&requests).unwrap().kind;
                *counts.entry(kind).or_insert(0) += 1;
            }
        }
        assert!((8700..=9300).contains(&counts[&0]), "{counts:?}");
        assert_eq!(counts.get(&1), None);
    }

    #[test]
    fn files_are_shared_out_among_the_clients() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<Text> = (0..10)
            .map(|n| {
                let file = folder.path().join(n.to_string());
                fs::write(&file, n.to_string()).unwrap();
                Text::from(file)
            })
            .collect();
        let mut load = load("http://a");
        let drawn = |load: &model::Load, most: usize| -> Vec<usize> {
            let requests = made(load).unwrap();
            let mut drawn: Vec<usize> = (0..3)
                .flat_map(|client| {
                    let mut draws = Draws::new(&requests, 7, client, 3);
                    let all = std::iter::from_fn(|| draws.next(&requests)).take(most);
                    all.map(|choice| choice.file).collect::<Vec<_>>()
                })
                .collect();
            drawn.sort_unstable();
            drawn
        };
        load.requests[0].body = Body::Files {
            files: files.clone(),
            pick: Pick::Once,
        };
        assert_eq!(drawn(&load, 100), (0..10).collect::<Vec<_>>());
        load.requests[0].body = Body::Files {
            files,
            pick: Pick::Cycle,
        };
        assert_eq!(drawn(&load, 3), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn the_last_on_a_connection_says_so() {
        let requests = made(&load("http://a")).unwrap();
        let choice = Draws::new(&requests, 7, 0, 1).next(&requests).unwrap();
        let mut buffer = Vec::new();
        let (head, _) = requests.wire(&choice, true, &mut buffer);
        assert_eq!(
            head,
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        );
    }
}
