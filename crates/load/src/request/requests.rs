//! All requests of a load: prepared once for each trial, written for each client.

use super::super::body::{BodySource, Http2Body, RequestTail};
use super::super::http2_connection;
use super::super::target::{self, Target};
use super::super::{LoadError, LoadPlaceholders};
use super::draw::{DrawnRequest, client_key, draw_number, hash_number, scale_below, to_index};
use super::kind::{BodyContent, RequestFraming, RequestKind, SHORT_BODY};
use super::rows::CsvRows;
use super::template::RequestTemplate;
use hyper::header::{HeaderName, HeaderValue};
use provoke_model::{HttpVersion, LoadPlan};

/// Limit of kinds of requests.
const MAX_KINDS: usize = 1 << 8;

/// All requests that may be sent.
pub(in super::super) struct Requests {
    pub(in super::super) kinds: Vec<RequestKind>,
    /// Cumulative weights, up to and including each kind.
    pub(super) weights: Vec<u64>,
    rows: CsvRows,
}

impl Requests {
    pub(in super::super) fn new(
        load: &LoadPlan,
        target: &Target,
        fill: &LoadPlaceholders,
    ) -> Result<Self, LoadError> {
        let rows = match &load.rows {
            Some(path) => CsvRows::read_csv(&target::fill_path(path, fill))?,
            None => CsvRows::default(),
        };
        if load.requests.is_empty() || load.requests.len() > MAX_KINDS {
            return Err(LoadError::Kinds(load.requests.len()));
        }
        let plans = load.requests.iter();
        let two = load.target.http != HttpVersion::One;
        let kinds = plans
            .map(|plan| RequestKind::new(plan, target, &rows, fill, two))
            .collect::<Result<Vec<_>, _>>()?;
        let weights: Vec<u64> = load
            .requests
            .iter()
            .scan(0, |sum, plan| {
                *sum += u64::from(plan.weight);
                Some(*sum)
            })
            .collect();
        if weights.last() == Some(&0) {
            return Err(LoadError::Weights);
        }
        Ok(Self {
            kinds,
            weights,
            rows,
        })
    }

    /// Returns the bytes of a request that are written first, and a large body separately.
    pub(in super::super) fn write_wire<'a>(
        &'a self,
        choice: &DrawnRequest,
        last: bool,
        buffer: &'a mut Vec<u8>,
    ) -> (&'a [u8], RequestTail<'a>) {
        const NOTHING: RequestTail<'_> = RequestTail::Held(&[]);
        let kind = &self.kinds[choice.kind];
        if (!last || kind.framing.is_of_file())
            && let Some(fixed) = &kind.fixed
        {
            let tail = match &kind.body {
                BodyContent::Files(files, _) if kind.framing == RequestFraming::RequestFileHead => {
                    files[choice.file].as_tail()
                }
                _ => NOTHING,
            };
            return (fixed, tail);
        }
        buffer.clear();
        kind.begin.write_filled(choice, &self.rows, buffer);
        if last {
            buffer.extend_from_slice(b"Connection: close\r\n");
        }
        let body = match &kind.body {
            BodyContent::None => NOTHING,
            BodyContent::Files(files, _) => files[choice.file].as_tail(),
            BodyContent::Column(column) => {
                RequestTail::Held(self.rows.cell_bytes(choice.row, *column))
            }
            BodyContent::Template(template) => {
                let start = buffer.len();
                template.write_filled(choice, &self.rows, buffer);
                let length = buffer.len() - start;
                // The length precedes the body but is known only after it is filled in.
                let mut middle = Vec::new();
                kind.end_head(length, &mut middle);
                buffer.splice(start..start, middle);
                return (buffer, NOTHING);
            }
        };
        kind.end_head(body.byte_length(), buffer);
        match body {
            RequestTail::Held(body) if body.len() <= SHORT_BODY => {
                buffer.extend_from_slice(body);
                (buffer, NOTHING)
            }
            _ => (buffer, body),
        }
    }

    /// Returns the number of bytes of a request that are held in memory.
    pub(in super::super) fn held_bytes(&self, choice: &DrawnRequest) -> usize {
        let mut buffer = Vec::new();
        let (head, body) = self.write_wire(choice, false, &mut buffer);
        match body {
            RequestTail::Held(body) => head.len() + body.len(),
            RequestTail::Long(_) => head.len(),
        }
    }

    /// Returns the body of a request.
    pub(in super::super) fn body_of(&self, choice: &DrawnRequest) -> BodySource {
        BodySource::Held(match &self.kinds[choice.kind].body {
            BodyContent::None => Vec::new(),
            BodyContent::Files(files, _) => return files[choice.file].clone(),
            BodyContent::Column(column) => self.rows.cell_bytes(choice.row, *column).to_vec(),
            BodyContent::Template(template) => {
                let mut body = Vec::new();
                template.write_filled(choice, &self.rows, &mut body);
                body
            }
        })
    }

    /// Converts a request to HTTP/2.
    pub(in super::super) fn http2_request(
        &self,
        target: &Target,
        choice: &DrawnRequest,
    ) -> hyper::Request<Http2Body> {
        let kind = &self.kinds[choice.kind];
        match kind.fixed {
            Some(_) => kind
                .fixed_two
                .get_or_init(|| self.put_two(target, choice))
                .clone(),
            None => self.put_two(target, choice),
        }
    }

    fn put_two(&self, target: &Target, choice: &DrawnRequest) -> hyper::Request<Http2Body> {
        let kind = &self.kinds[choice.kind];
        let filled = |template: &RequestTemplate| {
            let mut text = Vec::new();
            template.write_filled(choice, &self.rows, &mut text);
            text
        };
        let path = filled(&kind.path);
        let mut request = http2_connection::plain_request(target, &String::from_utf8_lossy(&path));
        if let Ok(method) = kind.method.parse() {
            *request.method_mut() = method;
        }
        for (name, value) in &kind.headers {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_bytes(&filled(value));
            if let (Ok(name), Ok(value)) = (name, value)
                && !http2_connection::means_a_connection(&name)
            {
                request.headers_mut().append(name, value);
            }
        }
        *request.body_mut() = Http2Body::from(self.body_of(choice));
        request
    }

    pub(super) fn row_and_rand(&self, draw: u64) -> DrawnRequest {
        let rows = self.rows.row_count() as u64;
        DrawnRequest {
            row: to_index(scale_below(hash_number(draw ^ 3), rows.max(1))),
            rand: hash_number(draw ^ 4) >> 11, // 53 bits, so that every JSON parser reads the exact number
            ..DrawnRequest::default()
        }
    }

    /// Reproduces the choice of an earlier request, whose kind and file are known.
    pub(in super::super) fn redraw_choice(
        &self,
        seed: u64,
        clients: u32,
        client: u32,
        choice: DrawnRequest,
    ) -> DrawnRequest {
        DrawnRequest {
            seq: choice.n * u64::from(clients.max(1)) + u64::from(client),
            kind: choice.kind,
            file: choice.file,
            n: choice.n,
            ..self.row_and_rand(draw_number(client_key(seed, client), choice.n))
        }
    }

    /// Returns a request of the first kind with a weight above 0.
    pub(in super::super) fn first_choice(&self) -> DrawnRequest {
        DrawnRequest {
            kind: self.weights.partition_point(|upper| *upper == 0),
            ..DrawnRequest::default()
        }
    }

    /// Returns whether there are rows.
    pub(in super::super) fn has_rows(&self) -> bool {
        self.rows.row_count() > 0
    }
}
