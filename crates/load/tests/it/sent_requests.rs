//! Tests that a server receives what was planned.

use super::server::{Reply, Server, ok};
use super::{TrialEvents, drive_checked, kind, load};
use provoke_model::{FilePick, LoadLimit, RequestBody, RequestPace, RequestResult, Text};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn requests_are_the_same_for_one_seed_and_follow_the_weights() {
    let sent = || {
        let server = Server::new(|_| Reply::Send(ok("hello")));
        let mut load = load(&server.base, 1, 1000);
        load.requests = vec![kind("a", 9), kind("b", 1)];
        load.requests[0].path = "/a/{rand}".to_owned();
        load.requests[1].path = "/b/{seq}".to_owned();
        load.requests[1].body = RequestBody::Text("{rand}".to_owned());
        drive_checked(&load);
        let seen = server.seen.lock().unwrap();
        let host = server.base.strip_prefix("http://").unwrap();
        let seen: Vec<String> = seen.iter().map(|bytes| bytes.replace(host, "")).collect();
        seen
    };
    let first = sent();
    assert_eq!(first, sent());
    let a = first.iter().filter(|bytes| bytes.starts_with("GET /a/"));
    assert!((850..=950).contains(&a.count()));
}

#[test]
fn bodies_from_files_and_rows_arrive_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let large = "x".repeat(3_000_000);
    let contents = ["one", "two", &large];
    let files: Vec<Text> = contents
        .iter()
        .enumerate()
        .map(|(n, content)| {
            let file = folder.path().join(n.to_string());
            fs::write(&file, content).unwrap();
            Text::from(file)
        })
        .collect();
    let rows = folder.path().join("rows.csv");
    fs::write(&rows, "id,what\n1,\"a \"\"b\"\"\"\n2,\u{e4}\n").unwrap();
    let server = Server::new(|_| Reply::Send(ok("hello")));
    // Three files: the client that sends more requests sends all of them.
    let mut load = load(&server.base, 2, 60);
    load.rows = Some(Text::from(rows));
    load.requests = vec![kind("file", 1), kind("row", 1)];
    load.requests[0].method = "POST".to_owned();
    load.requests[0].body = RequestBody::Files {
        files,
        pick: FilePick::Cycle,
    };
    load.requests[1].method = "PUT".to_owned();
    load.requests[1].path = "/{row.what}".to_owned();
    load.requests[1].body = RequestBody::Column("what".to_owned());
    drive_checked(&load);
    let mut bodies: BTreeMap<String, u64> = BTreeMap::new();
    for bytes in server.seen.lock().unwrap().iter() {
        let (head, body) = bytes.split_once("\n\n").unwrap();
        let of = if head.starts_with("PUT /a%20%22b%22 ") {
            assert_eq!(body, "a \"b\"");
            "a"
        } else if head.starts_with("PUT /%C3%A4 ") {
            assert_eq!(body, "\u{e4}");
            "\u{e4}"
        } else {
            assert!(contents.contains(&body));
            body
        };
        *bodies.entry(of.to_owned()).or_default() += 1;
    }
    assert_eq!(bodies.len(), 5);
}

#[test]
fn the_trial_ends_after_every_file_was_sent_once() {
    let folder = tempfile::tempdir().unwrap();
    let files = (0..10).map(|n| {
        let file = folder.path().join(n.to_string());
        fs::write(&file, format!("file {n}")).unwrap();
        Text::from(file)
    });
    let server = Server::new(|_| Reply::Send(ok("hello")));
    let mut load = load(&server.base, 3, 1000);
    load.requests[0].body = RequestBody::Files {
        files: files.collect(),
        pick: FilePick::Once,
    };
    let seen = drive_checked(&load);
    assert_eq!(seen.sent, 10);
    let mut bodies: Vec<String> = server.seen.lock().unwrap().clone();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 10);
}

#[test]
fn a_fixed_rate_sends_exactly_the_due_requests() {
    let server = Server::new(|_| Reply::Send(ok("hello")));
    let mut load = load(&server.base, 1, 0);
    load.pace = RequestPace::Open {
        millihertz: 500_000,
        connections: 5,
    };
    load.amount = LoadLimit::Requests(200);
    let seen = drive_checked(&load);
    assert_eq!((seen.sent, seen.served), (200, 200));
    // The last is due after 199 intervals.
    assert!(
        seen.elapsed >= Duration::from_millis(398),
        "{:?}",
        seen.elapsed
    );
    assert_eq!(
        (seen.from_send.total_count(), seen.late.total_count()),
        (200, 200)
    );
}

/// Returns a body that is larger than the buffers, without repetition.
pub(super) fn long_body() -> Vec<u8> {
    let digits = (0_u32..).flat_map(|n| n.to_string().into_bytes());
    digits.take((16 << 20) + 7).collect()
}

fn files(path: &Path) -> RequestBody {
    RequestBody::Files {
        files: vec![Text::from(path)],
        pick: FilePick::Cycle,
    }
}

/// Returns a server that accepts only this body.
fn server_accepting_only(body: &[u8]) -> Server {
    let wanted = body.to_vec();
    Server::new(move |request| {
        if request.body == wanted {
            Reply::Send(ok("hello"))
        } else {
            Reply::Close(Vec::new())
        }
    })
}

#[test]
fn a_long_body_is_sent_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let body = long_body();
    let head = format!(
        "POST /raw HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    fs::write(at("body"), &body).unwrap();
    fs::write(at("head"), &head).unwrap();
    fs::write(at("whole"), [head.as_bytes(), &body].concat()).unwrap();
    let server = server_accepting_only(&body);
    let mut load = load(&server.base, 2, 3);
    load.warm_up.requests = 1;
    load.requests[0].method = "POST".to_owned();
    load.requests[0].body = files(&at("body"));
    assert_eq!(drive_checked(&load).served, 3);
    load.requests[0] = kind("raw", 1);
    load.requests[0].raw = Some(Text::from(at("whole").as_path()));
    assert_eq!(drive_checked(&load).served, 3);
    load.requests[0].raw = Some(Text::from(at("head").as_path()));
    load.requests[0].body = files(&at("body"));
    assert_eq!(drive_checked(&load).served, 3);
}

#[test]
fn a_file_that_is_truncated_during_the_load_is_a_local_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("body");
    fs::write(&path, long_body()).unwrap();
    let cut = path.clone();
    let server = Server::new(move |_| {
        fs::File::options()
            .write(true)
            .open(&cut)
            .unwrap()
            .set_len(1000)
            .unwrap();
        Reply::Send(ok("hello"))
    });
    let mut load = load(&server.base, 1, 2);
    load.requests[0].method = "POST".to_owned();
    load.requests[0].body = files(&path);
    let seen = drive_checked(&load);
    let ours = |ended: &RequestResult| matches!(ended, RequestResult::Ok | RequestResult::Local(_));
    assert!(seen.ends.keys().all(ours), "{:?}", seen.ends);
    assert_eq!(seen.served, 1);
}

#[test]
fn a_long_body_in_flight_is_linked_and_can_be_resent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("body");
    let body = long_body();
    fs::write(&path, &body).unwrap();
    let events = TrialEvents::new();
    let death = events.death.clone();
    let deadly = Server::new(move |_| {
        death.send_replace(Some(Instant::now()));
        Reply::Reset(Vec::new())
    });
    let mut load = load(&deadly.base, 1, 2);
    load.requests[0].method = "POST".to_owned();
    load.requests[0].body = files(&path);
    let seen = events.drive(&load);
    assert_eq!(seen.death.unwrap().in_flight, 1);
    let evidence = events.evidence();
    let line = fs::read_to_string(evidence.join("in-flight.jsonl")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
    assert_eq!(line["body_bytes"], body.len());
    let kept = |name: &str| evidence.join(line[name].as_str().unwrap());
    assert!(fs::read(kept("request")).unwrap().ends_with(b"\r\n\r\n"));
    assert_eq!(fs::read(kept("body")).unwrap(), body);

    let server = server_accepting_only(&body);
    let mut again = super::load(&server.base, 1, 1);
    again.requests[0].raw = Some(Text::from(kept("request").as_path()));
    again.requests[0].body = files(&kept("body"));
    assert_eq!(drive_checked(&again).served, 1);
}
