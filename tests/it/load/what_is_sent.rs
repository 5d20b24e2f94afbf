//! What a server is sent is what was planned.

use super::server::{Server, Then, ok};
use super::{drive_it, kind, load};
use provoke::model::{Amount, Body, Pace, Pick, Text};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

#[test]
fn the_same_seed_sends_the_same_bytes_in_proportion_to_the_weights() {
    let sent = || {
        let server = Server::new(|_| Then::Say(ok("hello")));
        let mut load = load(&server.base, 1, 1000);
        load.requests = vec![kind("a", 9), kind("b", 1)];
        load.requests[0].path = "/a/{rand}".to_owned();
        load.requests[1].path = "/b/{seq}".to_owned();
        load.requests[1].body = Body::Text("{rand}".to_owned());
        drive_it(&load);
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
fn bodies_from_files_and_rows_arrive_as_they_are() {
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
    let server = Server::new(|_| Then::Say(ok("hello")));
    let mut load = load(&server.base, 3, 60);
    load.rows = Some(Text::from(rows));
    load.requests = vec![kind("file", 1), kind("row", 1)];
    load.requests[0].method = "POST".to_owned();
    load.requests[0].body = Body::Files {
        files,
        pick: Pick::Cycle,
    };
    load.requests[1].method = "PUT".to_owned();
    load.requests[1].path = "/{row.what}".to_owned();
    load.requests[1].body = Body::Column("what".to_owned());
    drive_it(&load);
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
fn files_that_are_sent_once_end_the_life() {
    let folder = tempfile::tempdir().unwrap();
    let files = (0..10).map(|n| {
        let file = folder.path().join(n.to_string());
        fs::write(&file, format!("file {n}")).unwrap();
        Text::from(file)
    });
    let server = Server::new(|_| Then::Say(ok("hello")));
    let mut load = load(&server.base, 3, 1000);
    load.requests[0].body = Body::Files {
        files: files.collect(),
        pick: Pick::Once,
    };
    let seen = drive_it(&load);
    assert_eq!(seen.sent, 10);
    let mut bodies: Vec<String> = server.seen.lock().unwrap().clone();
    bodies.sort();
    bodies.dedup();
    assert_eq!(bodies.len(), 10);
}

#[test]
fn a_fixed_rate_sends_what_is_due_and_no_more() {
    let server = Server::new(|_| Then::Say(ok("hello")));
    let mut load = load(&server.base, 1, 0);
    load.pace = Pace::Open {
        millihertz: 500_000,
        connections: 5,
    };
    load.amount = Amount::Requests(200);
    let seen = drive_it(&load);
    assert_eq!((seen.sent, seen.served), (200, 200));
    // The last is due after 199 intervals.
    assert!(
        seen.elapsed >= Duration::from_millis(398),
        "{:?}",
        seen.elapsed
    );
    assert_eq!((seen.from_send.count(), seen.late.count()), (200, 200));
}
