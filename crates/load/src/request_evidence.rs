//! Writes the requests in flight at a crash, and those before it, to files of the trial.

use super::body::{BodySource, FileBody, RequestTail};
use super::packed_request::{RequestRecord, code};
use super::phase::LoadPhase;
use super::request::{DrawnRequest, Requests};
use provoke_model::{LoadPlan, encode_hex};
use provoke_sys::files::{self, create_private};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Time before a crash whose requests are written, in nanoseconds, and their maximum number.
const WINDOW: u64 = 5_000_000_000;
const MAX_EARLIER_REQUESTS: usize = 500;
/// Limit of the bytes of earlier requests that are read for the bundle, the latest first; the
/// requests in flight are written in any case.
const MAX_BYTES: usize = 64 << 20;

/// Evidence about requests that is written after a crash.
pub(super) struct RequestEvidence<'a> {
    pub(super) load: &'a LoadPlan,
    pub(super) requests: &'a Requests,
    pub(super) phase: &'a LoadPhase,
    pub(super) began: u64,
    pub(super) died: u64,
    /// Time at which the crash broke connections.
    pub(super) struck: u64,
    pub(super) in_flight: &'a [RequestRecord],
    /// All known requests, in the order in which they were sent.
    pub(super) events: &'a [RequestRecord],
}

impl RequestEvidence<'_> {
    /// Writes `in-flight.jsonl`, `window.jsonl` and `requests/` into a folder.
    pub(super) fn write_to(&self, folder: &Path) -> io::Result<()> {
        let mut kept = RequestFiles::new(folder.join("requests"))?;
        let mut lines = BufWriter::new(create_private(&folder.join("in-flight.jsonl"))?);
        for event in self.in_flight {
            let choice = self.choice_of_event(event);
            let files = kept.keep_request(self.requests, &choice)?;
            let mut line = self.event_line(event, &choice);
            line["age_ms"] = nanos_to_millis(self.died.saturating_sub(event.sent));
            line["part"] = event.part.to_string().into();
            let body = self.requests.body_of(&choice);
            if body.as_tail().byte_length() > 0 {
                line["body_bytes"] = body.as_tail().byte_length().into();
                line["body_sha256"] = kept.body_digest(&body)?.into();
            }
            files.add_names(&mut line);
            writeln!(lines, "{line}")?;
        }
        lines.flush()?;
        let mut lines = BufWriter::new(create_private(&folder.join("window.jsonl"))?);
        let flew: BTreeSet<(u32, u64)> = self
            .in_flight
            .iter()
            .map(|event| (event.client, event.n))
            .collect();
        let finished = self.events.iter().filter(|event| {
            // A request that was sent after the crash and not answered never reached the process.
            let reached = event.sent < self.struck || event.status > 0;
            let is_new = event.end != code::IN_FLIGHT && !flew.contains(&(event.client, event.n));
            is_new && reached && event.sent + WINDOW >= self.died
        });
        let ended: Vec<&RequestRecord> = finished.collect();
        let newest = &ended[ended.len().saturating_sub(MAX_EARLIER_REQUESTS)..];
        let (mut names, mut room) = (Vec::new(), MAX_BYTES);
        for event in newest.iter().rev() {
            let choice = self.choice_of_event(event);
            let room_left = room.checked_sub(self.requests.held_bytes(&choice));
            names.push(match room_left {
                Some(room_left) => {
                    room = room_left;
                    Some(kept.keep_request(self.requests, &choice)?)
                }
                None => None,
            });
        }
        for (event, name) in newest.iter().zip(names.into_iter().rev()) {
            let choice = self.choice_of_event(event);
            let mut line = self.event_line(event, &choice);
            line["took_ms"] = nanos_to_millis(event.done.saturating_sub(event.sent));
            line["end"] = code::code_name(event.end).into();
            if event.status > 0 {
                let name = if event.end == code::RESET {
                    "errno"
                } else {
                    "status"
                };
                line[name] = event.status.into();
            }
            if let Some(files) = name {
                files.add_names(&mut line);
            }
            writeln!(lines, "{line}")?;
        }
        lines.flush()
    }

    fn choice_of_event(&self, event: &RequestRecord) -> DrawnRequest {
        let drawn = DrawnRequest {
            kind: usize::from(event.kind),
            file: event.file as usize,
            n: event.n,
            ..DrawnRequest::default()
        };
        // At a fixed rate, all clients share one sequence of requests.
        let (clients, client) = if self.phase.is_open() {
            (1, 0)
        } else {
            (self.phase.clients, event.client)
        };
        self.requests
            .redraw_choice(self.phase.seed, clients, client, drawn)
    }

    fn event_line(&self, event: &RequestRecord, choice: &DrawnRequest) -> Value {
        let mut line = json!({
            "sent_ms": nanos_to_millis(event.sent.saturating_sub(self.began)),
            "client": event.client,
            "n": event.n,
            "kind": self.load.requests[choice.kind].name,
            "bytes": event.bytes,
        });
        if self.requests.has_rows() {
            line["row"] = choice.row.into();
        }
        line
    }
}

/// Writes the bytes of requests to files, each distinct content once.
struct RequestFiles {
    folder: PathBuf,
    written: BTreeSet<String>,
    /// Digests of files that are not in memory, by path.
    digests: BTreeMap<PathBuf, String>,
}

/// Names of the files that contain a request.
struct RequestFileNames {
    request: String,
    /// File with the body, if it is separate.
    body: Option<String>,
}

impl RequestFileNames {
    fn add_names(&self, line: &mut Value) {
        line["request"] = format!("requests/{}", self.request).into();
        if let Some(body) = &self.body {
            line["body"] = format!("requests/{body}").into();
        }
    }
}

impl RequestFiles {
    fn new(folder: PathBuf) -> io::Result<Self> {
        // Remove a symlink that the program under test may have created here.
        let _ = files::remove_file(&folder);
        files::create_folders(&folder)?;
        Ok(Self {
            folder,
            written: BTreeSet::new(),
            digests: BTreeMap::new(),
        })
    }

    fn body_digest(&mut self, body: &BodySource) -> io::Result<String> {
        let long = match body {
            BodySource::Held(bytes) => return Ok(encode_hex(digest(&SHA256, bytes).as_ref())),
            BodySource::Long(long) => long,
        };
        if let Some(digest) = self.digests.get(&long.path) {
            return Ok(digest.clone());
        }
        let digest = long.sha256_hex()?;
        self.digests.insert(long.path.clone(), digest.clone());
        Ok(digest)
    }

    fn keep_request(
        &mut self,
        requests: &Requests,
        choice: &DrawnRequest,
    ) -> io::Result<RequestFileNames> {
        let mut buffer = Vec::new();
        let (head, tail) = requests.write_wire(choice, false, &mut buffer);
        let named = |bytes: &[u8]| {
            format!(
                "{}.http",
                &encode_hex(digest(&SHA256, bytes).as_ref())[..16]
            )
        };
        let long = match tail {
            RequestTail::Held(body) => {
                let bytes = [head, body].concat();
                let request = named(&bytes);
                self.write_file(&request, &bytes)?;
                return Ok(RequestFileNames {
                    request,
                    body: None,
                });
            }
            RequestTail::Long(long) => long,
        };
        let digest = self.body_digest(&BodySource::Long(long.clone()))?;
        let request = named(&[head, digest.as_bytes()].concat());
        if long.offset > 0 {
            self.link_long_file(&request, long)?; // the file is the whole request
            return Ok(RequestFileNames {
                request,
                body: None,
            });
        }
        self.write_file(&request, head)?;
        let body = format!("{}.body", &digest[..16]);
        self.link_long_file(&body, long)?;
        Ok(RequestFileNames {
            request,
            body: Some(body),
        })
    }

    fn write_file(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.written.insert(name.to_owned()) {
            create_private(&self.folder.join(name))?.write_all(bytes)?;
        }
        Ok(())
    }

    /// Keeps a long file as a link, without copying it.
    fn link_long_file(&mut self, name: &str, long: &FileBody) -> io::Result<()> {
        if self.written.insert(name.to_owned()) {
            let (file, link) = (fs::canonicalize(&long.path)?, self.folder.join(name));
            // A hard link fails if the file is on another file system.
            files::create_hard_link(&file, &link)
                .or_else(|_| files::create_symlink(&file, &link))?;
        }
        Ok(())
    }
}

/// Converts nanoseconds to milliseconds, rounded to microseconds.
fn nanos_to_millis(nanos: u64) -> Value {
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds are far below 2^53"
    )]
    let millis = (nanos / 1000) as f64 / 1000.0;
    json!(millis)
}
