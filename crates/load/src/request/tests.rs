use super::super::body::{BodySource, RequestTail};
use super::super::target::Target;
use super::super::tests::{load, request};
use super::super::{LoadError, LoadPlaceholders};
use super::*;
use hyper::header::HeaderName;
use provoke_model::{FilePick, RequestBody, Text};
use std::collections::BTreeMap;
use std::fs;

fn build_requests(load: &provoke_model::LoadPlan) -> Result<Requests, LoadError> {
    let fill = Vec::new();
    let target = Target::new(&load.target, &fill)?;
    Requests::new(load, &target, &fill)
}

fn request_text(requests: &Requests, choice: &DrawnRequest) -> String {
    let mut buffer = Vec::new();
    let (head, body) = requests.write_wire(choice, false, &mut buffer);
    let RequestTail::Held(body) = body else {
        panic!("it is not held")
    };
    String::from_utf8([head, body].concat()).unwrap()
}

fn first_request(load: &provoke_model::LoadPlan) -> String {
    let requests = build_requests(load).unwrap();
    let mut draws = RequestDraws::new(&requests, 7, 2, 10);
    let choice = draws.draw_next(&requests).unwrap();
    request_text(&requests, &choice)
}

#[test]
fn a_plain_request_is_the_same_each_time() {
    let mut load = load("http://a:81/base");
    assert_eq!(
        first_request(&load),
        "GET /base/ HTTP/1.1\r\nHost: a:81\r\n\r\n"
    );
    load.requests[0].method = "POST".into();
    load.requests[0].headers = vec![("X-A".into(), "b".into())];
    load.requests[0].body = RequestBody::Text("{\"a\":{}}".into());
    assert_eq!(
        first_request(&load),
        "POST /base/ HTTP/1.1\r\nHost: a:81\r\nX-A: b\r\nContent-Length: 8\r\n\r\n{\"a\":{}}"
    );
    load.requests[0].body = RequestBody::None;
    assert!(first_request(&load).contains("Content-Length: 0\r\n"));
}

#[test]
fn templates_are_filled_in_and_paths_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    fs::write(&rows, "id,name\n1,\"two words\"\n").unwrap();
    let mut load = load("http://a");
    load.rows = Some(Text::from(rows));
    load.requests[0].path = "/x/{row.name}?n={seq}".into();
    load.requests[0].headers = vec![("X".into(), "{row.name}".into())];
    load.requests[0].body = RequestBody::Text("{\"id\": {row.id}, \"seq\": {seq}}".into());
    assert_eq!(
        first_request(&load),
        "GET /x/two%20words?n=2 HTTP/1.1\r\nHost: a\r\nX: two words\r\nContent-Length: 20\r\n\r\n{\"id\": 1, \"seq\": 2}\n"
            .trim_end()
            .replace("20\r\n\r\n", "19\r\n\r\n")
    );
    load.requests[0].path = "/{row.nme}".into();
    let error = build_requests(&load).err().unwrap().to_string();
    assert!(
        error.contains("`nme`") && error.contains("id, name"),
        "{error}"
    );
}

#[test]
fn a_raw_request_is_sent_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.http");
    let text = "POST /a{seq}?b HTTP/1.1\r\nhost:  x\r\nX-Y: {rand}\r\nContent-Length: 3\r\n\r\n{a}";
    fs::write(&file, text).unwrap();
    let mut load = load("http://a/base");
    load.requests[0].raw = Some(Text::from(file.as_path()));
    assert_eq!(first_request(&load), text);
    let requests = build_requests(&load).unwrap();
    let choice = requests.first_choice();
    let mut buffer = Vec::new();
    let (head, _) = requests.write_wire(&choice, true, &mut buffer);
    assert_eq!(head, text.as_bytes());
    let body = requests.body_of(&choice);
    assert!(matches!(body, BodySource::Held(bytes) if bytes == b"{a}"));
    let target = Target::new(&load.target, &LoadPlaceholders::new()).unwrap();
    let two = requests.http2_request(&target, &choice);
    let headers: Vec<&str> = two.headers().keys().map(HeaderName::as_str).collect();
    assert_eq!(headers, ["x-y", "content-length"]);
    fs::write(&file, "hello").unwrap();
    let error = build_requests(&load).err().unwrap().to_string();
    assert!(error.contains("is not an HTTP request"), "{error}");
}

#[test]
fn a_kind_without_weight_is_never_the_first_choice() {
    let mut load = load("http://a");
    load.requests = vec![request("none", 0), request("a", 1)];
    assert_eq!(build_requests(&load).unwrap().first_choice().kind, 1);
}

#[test]
fn two_columns_with_the_same_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    let mut load = load("http://a");
    load.rows = Some(Text::from(rows.as_path()));
    fs::write(&rows, "id,,name,, id\n1,2,3,4,5\n").unwrap();
    let error = build_requests(&load).err().unwrap().to_string();
    assert!(error.ends_with("has two columns named `id`"), "{error}");
    fs::write(&rows, "id,,name,\n1,2,3,4\n").unwrap();
    assert!(build_requests(&load).is_ok());
}

#[test]
fn line_breaks_in_a_path_are_escaped() {
    let mut load = load("http://a");
    load.requests[0].path = "/a b\r\n".into();
    assert_eq!(
        first_request(&load),
        "GET /a%20b%0D%0A HTTP/1.1\r\nHost: a\r\n\r\n"
    );
}

#[test]
fn a_row_cannot_add_a_header() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv");
    fs::write(&rows, "id\n\"a\r\nX: y\"\n").unwrap();
    let mut load = load("http://a");
    load.rows = Some(Text::from(rows));
    load.requests[0].headers = vec![("X".into(), "{row.id}".into())];
    assert!(build_requests(&load).is_err());
}

#[test]
fn the_same_seed_and_client_draw_the_same_requests() {
    let mut load = load("http://a");
    load.requests = vec![request("a", 9), request("b", 1)];
    load.requests[0].body = RequestBody::Text("{rand}".into());
    let sequence = |seed, client| -> Vec<String> {
        let requests = build_requests(&load).unwrap();
        let mut draws = RequestDraws::new(&requests, seed, client, 10);
        let draws = std::iter::from_fn(|| draws.draw_next(&requests))
            .take(50)
            .inspect(|choice| {
                let known = DrawnRequest {
                    kind: choice.kind,
                    file: choice.file,
                    n: choice.n,
                    ..DrawnRequest::default()
                };
                assert_eq!(requests.redraw_choice(seed, 10, client, known), *choice);
            });
        draws
            .map(|choice| request_text(&requests, &choice))
            .collect()
    };
    assert_eq!(sequence(7, 3), sequence(7, 3));
    assert_ne!(sequence(7, 3), sequence(8, 3));
    assert_ne!(sequence(7, 3), sequence(7, 4));
}

#[test]
fn weights_are_proportions() {
    let mut load = load("http://a");
    load.requests = vec![request("a", 9), request("none", 0), request("b", 1)];
    let requests = build_requests(&load).unwrap();
    let mut counts = BTreeMap::new();
    for client in 0..10 {
        let mut draws = RequestDraws::new(&requests, 7, client, 10);
        for _ in 0..1000 {
            let kind = draws.draw_next(&requests).unwrap().kind;
            *counts.entry(kind).or_insert(0) += 1;
        }
    }
    assert!((8700..=9300).contains(&counts[&0]), "{counts:?}");
    assert_eq!(counts.get(&1), None);
}

#[test]
fn files_are_distributed_among_the_clients() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<Text> = (0..10)
        .map(|n| {
            let file = folder.path().join(n.to_string());
            fs::write(&file, n.to_string()).unwrap();
            Text::from(file)
        })
        .collect();
    let mut load = load("http://a");
    let drawn = |load: &provoke_model::LoadPlan, most: usize| -> Vec<usize> {
        let requests = build_requests(load).unwrap();
        let mut drawn: Vec<usize> = (0..3)
            .flat_map(|client| {
                let mut draws = RequestDraws::new(&requests, 7, client, 3);
                let all = std::iter::from_fn(|| draws.draw_next(&requests)).take(most);
                all.map(|choice| choice.file).collect::<Vec<_>>()
            })
            .collect();
        drawn.sort_unstable();
        drawn
    };
    load.requests[0].body = RequestBody::Files {
        files: files.clone(),
        pick: FilePick::Once,
    };
    assert_eq!(drawn(&load, 100), (0..10).collect::<Vec<_>>());
    load.requests[0].body = RequestBody::Files {
        files,
        pick: FilePick::Cycle,
    };
    assert_eq!(drawn(&load, 3), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn the_last_request_of_a_connection_asks_to_close_it() {
    let requests = build_requests(&load("http://a")).unwrap();
    let choice = RequestDraws::new(&requests, 7, 0, 1)
        .draw_next(&requests)
        .unwrap();
    let mut buffer = Vec::new();
    let (head, _) = requests.write_wire(&choice, true, &mut buffer);
    assert_eq!(
        head,
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    );
}
