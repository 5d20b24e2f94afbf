//! Tests the names of the results of requests.

use super::server::{Reply, Server, ok};
use super::{TrialEvents, assert_counts_add_up, count, drive_checked, load};
use provoke_model::{
    ConnectionReuse, LoadStage, RequestPhase, RequestResult, ResponseRules, WarmUp,
};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn every_request_is_answered_and_counted() {
    let server = Server::new(|_| Reply::Send(ok("hello")));
    let mut load = load(&server.base, 8, 1000);
    load.warm_up = WarmUp {
        requests: 20,
        clients: 2,
    };
    let seen = drive_checked(&load);
    assert_eq!(seen.stage, LoadStage::Over);
    assert_eq!((seen.sent, seen.served, seen.warmed), (1000, 1000, 20));
    assert_eq!(count(&seen, &RequestResult::Ok), 1000);
    assert_eq!(seen.connections, 8);
    assert_eq!(server.read.load(Ordering::SeqCst), 1020);
    assert_eq!(server.connections.load(Ordering::SeqCst), 10);
    assert_eq!(seen.bytes, 1000 * ok("hello").len() as u64);
    assert_eq!((seen.clients, seen.death), (8, None));
    assert_eq!(seen.from_send.total_count(), 0);
}

#[test]
fn a_load_without_requests_only_waits() {
    let server = Server::new(|_| Reply::Send(ok("hello")));
    let mut load = load(&server.base, 8, 0);
    load.quiet_time = Duration::from_millis(20);
    let seen = drive_checked(&load);
    assert_eq!((seen.stage, seen.death), (LoadStage::Over, None));
    assert_eq!((seen.clients, seen.sent, seen.served), (0, 0, 0));
    assert_eq!(server.read.load(Ordering::SeqCst), 0);
}

#[test]
fn the_request_log_is_written_after_a_warm_up() {
    let events = TrialEvents::new();
    let ring = events.evidence().join("ring-0");
    let (existing_logs, missing_logs) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let counts = (existing_logs.clone(), missing_logs.clone());
    let server = Server::new(move |request| {
        if request.number > 20 {
            let count = if ring.exists() { &counts.0 } else { &counts.1 };
            count.fetch_add(1, Ordering::SeqCst);
        }
        Reply::Send(ok("hello"))
    });
    let mut load = load(&server.base, 4, 100);
    load.log_all = true;
    load.warm_up = WarmUp {
        requests: 20,
        clients: 2,
    };
    let seen = events.drive(&load);
    assert_eq!((seen.trouble, seen.served, seen.warmed), (None, 100, 20));
    assert_eq!(existing_logs.load(Ordering::SeqCst), 100);
    assert_eq!(missing_logs.load(Ordering::SeqCst), 0);
    let left: Vec<String> = std::fs::read_dir(events.evidence())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["requests-0.csv"]);
    let log = std::fs::read_to_string(events.evidence().join("requests-0.csv")).unwrap();
    assert_eq!(log.lines().count(), 101);
}

#[test]
fn responses_are_read_in_any_framing_and_any_pieces() {
    let server = Server::new(|request| {
        let answer = match request.number % 6 {
            0 => {
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: b\r\n\r\n"
            }
            1 => "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            2 => return Reply::Close(b"HTTP/1.1 200 OK\r\n\r\nhello".to_vec()),
            3 => {
                return Reply::Close(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec());
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        };
        if request.number % 2 == 0 {
            Reply::SendByteByByte(answer.into())
        } else {
            Reply::Send(answer.into())
        }
    });
    let mut load = load(&server.base, 4, 600);
    load.requests[0].expect.body_regex = Some("^hello$".to_owned());
    let seen = drive_checked(&load);
    assert_eq!(count(&seen, &RequestResult::Ok), 600, "{:?}", seen.ends);
}

#[test]
fn the_response_to_a_head_request_has_no_body() {
    let server = Server::new(|request| {
        assert!(request.line.starts_with("HEAD "));
        Reply::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n".to_vec())
    });
    let mut load = load(&server.base, 2, 50);
    load.requests[0].method = "HEAD".to_owned();
    let seen = drive_checked(&load);
    assert_eq!(
        (count(&seen, &RequestResult::Ok), seen.connections),
        (50, 2)
    );
}

#[test]
fn a_connection_closed_while_idle_is_not_a_failure() {
    let server = Server::new(|request| match request.number_on_connection {
        5 => Reply::Close(ok("hello")),
        _ => Reply::Send(ok("hello")),
    });
    let seen = drive_checked(&load(&server.base, 4, 400));
    assert_eq!(
        (count(&seen, &RequestResult::Ok), seen.served),
        (400, 400),
        "{:?}",
        seen.ends
    );
    // The last request of a client may have been the fifth of its connection.
    let idle = count(&seen, &RequestResult::ClosedIdle);
    assert!((70..=80).contains(&idle), "{:?}", seen.ends);
    assert_eq!(seen.connections, 4 + idle);
}

#[test]
fn a_connection_is_closed_after_its_number_of_requests() {
    let server = Server::new(|_| Reply::Send(ok("hello")));
    let mut load = load(&server.base, 2, 60);
    load.target.connections = ConnectionReuse::For(3);
    let seen = drive_checked(&load);
    assert_eq!(count(&seen, &RequestResult::Ok), 60);
    let requests_seen = server.seen.lock().unwrap();
    let last = requests_seen
        .iter()
        .filter(|request| request.contains("Connection: close"));
    assert!((19..=20).contains(&last.count()));
}

#[test]
fn a_response_that_breaks_off_is_counted_by_its_phase() {
    let cases = [
        (
            Reply::Close(Vec::new()),
            RequestResult::ClosedEarly(RequestPhase::Head),
        ),
        (
            Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Len".to_vec()),
            RequestResult::ClosedEarly(RequestPhase::Head),
        ),
        (
            Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".to_vec()),
            RequestResult::ClosedEarly(RequestPhase::Body),
        ),
        (
            Reply::Reset(Vec::new()),
            RequestResult::Reset(104, RequestPhase::Head),
        ),
        (
            Reply::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello".to_vec()),
            RequestResult::Protocol("extra bytes after the response".to_owned()),
        ),
        (
            Reply::Send(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
            RequestResult::Protocol("invalid head: invalid HTTP version".to_owned()),
        ),
    ];
    for (then, ended) in cases {
        let reply = then.clone();
        let server = Server::new(move |_| reply.clone());
        let seen = drive_checked(&load(&server.base, 2, 10));
        assert_eq!(count(&seen, &ended), 10, "{then:?}: {:?}", seen.ends);
        assert_eq!(seen.served, 0);
    }
}

#[test]
fn a_wrong_status_and_a_wrong_body_are_counted_separately() {
    let server = Server::new(|request| match request.number % 4 {
        0 => Reply::Send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()),
        1 => Reply::Send(ok("other")),
        _ => Reply::Send(ok("hello")),
    });
    let mut load = load(&server.base, 2, 80);
    load.requests[0].expect = ResponseRules {
        status: vec![200],
        body_regex: Some("hello".to_owned()),
        ..ResponseRules::default()
    };
    let seen = drive_checked(&load);
    assert_eq!(count(&seen, &RequestResult::Status(503)), 20);
    assert_eq!(
        count(&seen, &RequestResult::Check("expect-body".to_owned())),
        20
    );
    assert_eq!((count(&seen, &RequestResult::Ok), seen.served), (40, 80));
    assert_eq!(seen.stage, LoadStage::Over);
}

#[test]
fn a_slow_request_times_out_in_its_phase() {
    let server = Server::new(|request| match request.number {
        3 => Reply::Stall,
        _ => Reply::Send(ok("hello")),
    });
    let mut load = load(&server.base, 1, 6);
    load.target.request_limit = Duration::from_millis(300);
    let seen = drive_checked(&load);
    assert!(
        count(&seen, &RequestResult::Timeout(RequestPhase::Head)) >= 1,
        "{:?}",
        seen.ends
    );
    assert_counts_add_up(&seen);
}

#[test]
fn requests_to_a_closed_port_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let seen = drive_checked(&load(&base, 2, 4));
    assert_eq!(count(&seen, &RequestResult::Refused), 4);
    assert_eq!(
        (seen.served, seen.connections, seen.stage),
        (0, 0, LoadStage::Over)
    );
}

#[test]
fn an_unknown_host_name_is_a_dns_error() {
    let mut load = load("http://no-such-name.invalid", 1, 2);
    load.target.resolve_each = true;
    let seen = drive_checked(&load);
    let dns = seen
        .ends
        .keys()
        .any(|ended| matches!(ended, RequestResult::Dns(_)));
    assert!(dns, "{:?}", seen.ends);
}

/// Answers each request with a header and a body in two packets, as Nagle's algorithm sends them.
fn answer_in_two_pieces(mut stream: std::net::TcpStream) -> std::io::Result<()> {
    use std::io::{Read as _, Write as _};
    let mut request = [0; 4096];
    while stream.read(&mut request)? > 0 {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")?;
        stream.write_all(b"hello")?;
    }
    Ok(())
}

#[test]
fn responses_in_two_packets_are_acknowledged_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || drop(answer_in_two_pieces(stream.unwrap())));
        }
    });
    let seen = drive_checked(&load(&base, 1, 200));
    assert_eq!(seen.served, 200);
    // Linux delays an acknowledgement by 40 ms.
    let median = seen.latency.time_quantile(0.5).unwrap();
    assert!(median < Duration::from_millis(40), "{seen:?}");
}
