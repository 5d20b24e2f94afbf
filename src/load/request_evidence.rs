//! Writes the requests in flight at a crash, and those before it, to files of the trial.

use super::body::{BodySource, FileBody, RequestTail};
use super::check::encode_hex;
use super::event::{RequestRecord, code};
use super::phase::LoadPhase;
use super::record::AROUND_DEATH;
use super::request::{DrawnRequest, Requests};
use crate::model::LoadPlan;
use crate::sys::files::create_private;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Largest gap in nanoseconds between the broken connections of one crashed process.
const GAP: u64 = 100_000_000;
/// Time before a crash whose requests are written, in nanoseconds, and their maximum number.
const WINDOW: u64 = 5_000_000_000;
const MOST_BEFORE: usize = 500;
/// Limit of the bytes of earlier requests that are read for the bundle, the latest first; the
/// requests in flight are written in any case.
const MOST_BYTES: usize = 64 << 20;

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

/// Effect of a crash on requests.
pub(super) struct CrashEffect {
    /// Time at which the connections broke.
    pub(super) at: u64,
    /// Requests that were in flight, at most one per client.
    pub(super) in_flight: Vec<RequestRecord>,
    /// Responses after the crash, from a process that replaced the crashed one.
    pub(super) answered_after: u64,
}

/// Returns the requests that were in flight at a crash.
///
/// A crash is detected shortly after the connections of the process broke, all at nearly the same
/// time. So the requests that broke in the last burst count. A request that was sent after the
/// burst on a new connection does not count, because no process could receive it. A retried request
/// counts in its state when the connection broke, even if another process answered the retry: of
/// several processes, only one may have crashed.
pub(super) fn find_in_flight(
    events: &[RequestRecord],
    agains: &[RequestRecord],
    died: u64,
) -> CrashEffect {
    // A client may notice only after the crash that its connection broke before it.
    let broke_then = |event: &RequestRecord| {
        let at = event.done.min(died);
        (at + AROUND_DEATH >= died).then_some(at)
    };
    let broke = |event: &RequestRecord| is_break(event).then(|| broke_then(event)).flatten();
    let mut breaks: Vec<u64> = events.iter().filter_map(broke).collect();
    breaks.extend(agains.iter().filter_map(broke_then));
    breaks.sort_unstable();
    let mut burst = u64::MAX;
    for at in breaks.into_iter().rev() {
        if burst != u64::MAX && burst - at > GAP {
            break;
        }
        burst = at;
    }
    // A retried request was in flight, whatever its client has sent to another process since then.
    let mut found: BTreeMap<u32, RequestRecord> = BTreeMap::new();
    for event in agains {
        if broke_then(event).is_some_and(|at| at >= burst) {
            found.entry(event.client).or_insert(*event);
        }
    }
    for event in events {
        let open = matches!(event.end, code::DIED | code::IN_FLIGHT) && !event.again;
        let counts = open || broke(event).is_some_and(|at| at >= burst);
        let too_late = event.sent > died || event.fresh && event.sent > burst;
        if counts && !too_late {
            found.entry(event.client).or_insert(*event);
        }
    }
    let mut found: Vec<RequestRecord> = found.into_values().collect();
    found.sort_by_key(|event| event.sent);
    CrashEffect {
        at: burst.min(died),
        answered_after: answered_after(events, &found),
        in_flight: found,
    }
}

/// Returns the number of responses from a replacement process, before the crash was detected.
///
/// Responses and broken connections are read in the order of their arrival. A response on an older
/// connection does not count, because it may have arrived before the crash.
fn answered_after(events: &[RequestRecord], in_flight: &[RequestRecord]) -> u64 {
    let is_broken = |event: &&RequestRecord| event.again || is_break(event);
    let Some(last) = in_flight.iter().filter(is_broken).map(|one| one.done).max() else {
        return 0;
    };
    let after = |event: &&RequestRecord| event.end == code::OK && event.fresh && event.done > last;
    events.iter().filter(after).count() as u64
}

fn is_break(event: &RequestRecord) -> bool {
    matches!(event.end, code::RESET | code::CLOSED_EARLY)
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
        let ended = self.events.iter().filter(|event| {
            // A request that was sent after the crash and not answered never reached the process.
            let reached = event.sent < self.struck || event.status > 0;
            let is_new = event.end != code::IN_FLIGHT && !flew.contains(&(event.client, event.n));
            is_new && reached && event.sent + WINDOW >= self.died
        });
        let ended: Vec<&RequestRecord> = ended.collect();
        let ended = &ended[ended.len().saturating_sub(MOST_BEFORE)..];
        let (mut names, mut room) = (Vec::new(), MOST_BYTES);
        for event in ended.iter().rev() {
            let choice = self.choice_of_event(event);
            let left = room.checked_sub(self.requests.held_bytes(&choice));
            names.push(match left {
                Some(left) => {
                    room = left;
                    Some(kept.keep_request(self.requests, &choice)?)
                }
                None => None,
            });
        }
        for (event, name) in ended.iter().zip(names.into_iter().rev()) {
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
        let known = DrawnRequest {
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
            .redraw_choice(self.phase.seed, clients, client, known)
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
        let _ = fs::remove_file(&folder);
        fs::create_dir_all(&folder)?;
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
        if let Some(known) = self.digests.get(&long.path) {
            return Ok(known.clone());
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
        if long.from > 0 {
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
            fs::hard_link(&file, &link).or_else(|_| symlink(&file, &link))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn event(client: u32, sent: u64, done: u64, end: u8) -> RequestRecord {
        RequestRecord {
            sent,
            done,
            client,
            end,
            ..RequestRecord::default()
        }
    }

    #[test]
    fn what_broke_in_the_last_burst_was_in_flight() {
        let died = 10 * SECOND;
        let events = [
            event(0, died - 900, died - 800, code::OK),
            // Half a second before the crash: unrelated to it.
            event(1, died - SECOND, died - SECOND / 2, code::RESET),
            event(1, died - 700, died - 500, code::RESET),
            event(2, died - 600, died - 490, code::CLOSED_EARLY),
            RequestRecord {
                again: true,
                ..event(3, died - 550, died - 480, code::REFUSED)
            },
            event(4, died - 540, 0, code::DIED),
            // Sent on a new connection after the burst.
            RequestRecord {
                fresh: true,
                ..event(1, died - 400, died - 300, code::RESET)
            },
            RequestRecord {
                fresh: true,
                ..event(2, died - 400, 0, code::DIED)
            },
            event(5, died - 100, died - 50, code::REFUSED),
        ];
        let broke_first = event(3, died - 550, died - 485, code::IN_FLIGHT);
        let found = find_in_flight(&events, &[broke_first], died);
        assert_eq!(found.at, died - 500);
        let found = found.in_flight;
        let found: Vec<(u32, u64)> = found
            .iter()
            .map(|event| (event.client, event.sent))
            .collect();
        let wanted = [
            (1, died - 700),
            (2, died - 600),
            (3, died - 550),
            (4, died - 540),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn what_was_started_anew_answered_after_the_death() {
        let died = 10 * SECOND;
        let on_its_own = |event: RequestRecord| RequestRecord {
            fresh: true,
            ..event
        };
        let events = [
            on_its_own(event(0, died - 900, died - 800, code::OK)),
            // Received before the connection broke, but read later.
            on_its_own(event(1, died - 700, died + 10, code::OK)),
            on_its_own(event(2, died - 600, died + 20, code::RESET)),
            on_its_own(event(3, died - 500, died + 70, code::OK)),
            // May have been received earlier.
            event(4, died - 500, died + 80, code::OK),
        ];
        assert_eq!(find_in_flight(&events, &[], died).answered_after, 1);
        // Without a broken connection, the number is unknown.
        let quiet = events.map(|event| match event.end {
            code::RESET => RequestRecord {
                end: code::DIED,
                ..event
            },
            _ => event,
        });
        assert_eq!(find_in_flight(&quiet, &[], died).answered_after, 0);
    }

    #[test]
    fn what_a_client_saw_break_only_after_the_death_was_in_flight() {
        let died = 10 * SECOND;
        // Retried after the burst, and abandoned when the client learned of the crash, long after
        // it.
        let given_up = RequestRecord {
            again: true,
            fresh: true,
            ..event(1, died + 10, died + SECOND / 2, code::DIED)
        };
        let broke_first = event(1, died - 700, died + 5, code::IN_FLIGHT);
        let late = event(2, died - 600, died + SECOND / 3, code::RESET);
        let found = find_in_flight(&[late, given_up], &[broke_first], died).in_flight;
        let found: Vec<u32> = found.iter().map(|event| event.client).collect();
        assert_eq!(found, [1, 2]);
    }

    #[test]
    fn what_another_process_answered_was_in_flight_and_what_its_client_sent_since_was_not() {
        let died = 10 * SECOND;
        let events = [
            event(1, died - 700, died - 600, code::OK),
            event(1, died - 500, 0, code::DIED),
            event(2, died - 550, 0, code::DIED),
            event(3, died + 1, 0, code::DIED),
        ];
        let broke_first = event(1, died - 700, died - 650, code::IN_FLIGHT);
        let found = find_in_flight(&events, &[broke_first], died).in_flight;
        let found: Vec<(u32, u64)> = found
            .iter()
            .map(|event| (event.client, event.sent))
            .collect();
        assert_eq!(found, [(1, died - 700), (2, died - 550)]);
    }

    #[test]
    fn without_a_burst_what_is_open_was_in_flight() {
        let events = [event(0, 5, 0, code::DIED), event(1, 6, 7, code::OK)];
        assert_eq!(find_in_flight(&events, &[], 8).in_flight, events[..1]);
        assert_eq!(find_in_flight(&[], &[], 8).in_flight, []);
    }

    #[test]
    fn what_another_process_answered_was_in_flight_in_the_one_that_died() {
        let died = 10 * SECOND;
        let again = |client, sent, done| RequestRecord {
            again: true,
            ..event(client, sent, done, code::IN_FLIGHT)
        };
        let agains = [
            // An idle connection that was closed half a second earlier.
            again(0, died - SECOND / 2, died - SECOND / 2),
            again(1, died - 600, died - 500),
            again(2, died - 600, died - 490),
        ];
        let events = [
            RequestRecord {
                end: code::OK,
                ..again(1, died - 600, died - 400)
            },
            event(3, died - 550, died - 495, code::RESET),
        ];
        let found = find_in_flight(&events, &agains, died).in_flight;
        let found: Vec<(u32, u64)> = found
            .iter()
            .map(|event| (event.client, event.done))
            .collect();
        let wanted = [(1, died - 500), (2, died - 490), (3, died - 495)];
        assert_eq!(found, wanted);
    }
}
