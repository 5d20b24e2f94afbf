//! Tests services that crash, hang, or are ended.

use super::server::{Reply, Server, ok};
use super::{TrialEvents, assert_counts_add_up, count, kind, load, run};
use provoke_load::{describe_listener, drive_service};
use provoke_model::{
    LoadLimit, LoadStage, ReadyCondition, RequestBody, RequestPhase, RequestResult,
};
use std::fs;
use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[test]
fn requests_in_flight_at_a_crash_are_kept_and_not_counted_as_failures() {
    let events = TrialEvents::new();
    let death = events.death.clone();
    // The 500th request crashes it, while other requests may be in flight.
    let server = Server::new(move |request| {
        if request.number < 500 {
            return Reply::Send(ok("hello"));
        }
        if request.number == 500 {
            let death = death.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                death.send_replace(Some(Instant::now()));
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        Reply::Reset(Vec::new())
    });
    let mut load = load(&server.base, 16, 2000);
    load.requests = vec![kind("get", 1), kind("post", 1)];
    load.requests[1].method = "POST".to_owned();
    load.requests[1].body = RequestBody::Text("number {seq}".to_owned());
    let seen = events.drive(&load);
    assert_counts_add_up(&seen);
    assert_eq!((seen.served, count(&seen, &RequestResult::Ok)), (499, 499));
    let known = [
        RequestResult::Ok,
        RequestResult::Died,
        RequestResult::Unreached,
    ];
    assert!(
        seen.ends.keys().all(|ended| known.contains(ended)),
        "{:?}",
        seen.ends
    );
    assert_eq!(seen.stage, LoadStage::Loading);
    let died = count(&seen, &RequestResult::Died);
    let death = seen.death.unwrap();
    assert_eq!(died, death.in_flight, "{death:?}");
    assert!((15..=16).contains(&death.in_flight), "{death:?}");
    assert_eq!(death.kinds.iter().sum::<u64>(), death.in_flight);
    assert!(!death.hung);

    let folder = events.evidence();
    let lines = fs::read_to_string(folder.join("in-flight.jsonl")).unwrap();
    assert_eq!(lines.lines().count() as u64, death.in_flight);
    let server_saw = server.seen.lock().unwrap();
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let request = fs::read_to_string(folder.join(line["request"].as_str().unwrap()))
            .unwrap()
            .replace("\r\n", "\n");
        let body = request.split_once("\n\n").unwrap().1;
        assert_eq!(line["kind"], if body.is_empty() { "get" } else { "post" });
        assert!(
            body.is_empty() || server_saw.contains(&request),
            "{request}"
        );
    }
    let window = fs::read_to_string(folder.join("window.jsonl")).unwrap();
    assert!(window.lines().count() >= 400);
    assert!(!folder.join("ring-0").exists());
}

#[test]
fn requests_without_a_response_at_a_crash_are_in_flight() {
    let events = TrialEvents::new();
    let death = events.death.clone();
    let server = Server::new(move |request| {
        if request.number == 8 {
            death.send_replace(Some(Instant::now()));
        }
        Reply::Stall
    });
    let seen = events.drive(&load(&server.base, 8, 100));
    assert_counts_add_up(&seen);
    assert_eq!((seen.sent, count(&seen, &RequestResult::Died)), (8, 8));
    assert_eq!(seen.death.unwrap().in_flight, 8);
}

#[test]
fn a_crash_after_the_load_has_no_request_in_flight() {
    let events = TrialEvents::new();
    let death = events.death.clone();
    let server = Server::new(move |request| {
        if request.number == 20 {
            let death = death.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                death.send_replace(Some(Instant::now()));
            });
        }
        Reply::Send(ok("hello"))
    });
    let mut load = load(&server.base, 2, 20);
    load.quiet_time = Duration::from_secs(60);
    let seen = events.drive(&load);
    assert_eq!((seen.stage, seen.served), (LoadStage::Settling, 20));
    assert_eq!(seen.death.unwrap().in_flight, 0);
}

#[test]
fn a_service_that_stops_responding_hangs() {
    let server = Server::new(|request| match request.number {
        ..=30 => Reply::Send(ok("hello")),
        _ => Reply::Stall,
    });
    let events = TrialEvents::new();
    let mut load = load(&server.base, 4, 1000);
    load.hang_after = Duration::from_millis(500);
    let seen = events.drive(&load);
    assert_counts_add_up(&seen);
    let death = seen.death.unwrap();
    assert!(death.hung);
    assert_eq!((death.in_flight, seen.served), (4, 30));
}

#[test]
fn a_service_that_does_not_answer_the_last_requests_hangs() {
    // Asked again, the service responds or not.
    for answers in [false, true] {
        let server = Server::new(move |request| match request.number {
            ..=20 => Reply::Send(ok("hello")),
            23.. if answers => Reply::Send(ok("hello")),
            _ => Reply::Stall,
        });
        let events = TrialEvents::new();
        let mut load = load(&server.base, 2, 22);
        load.target.request_limit = Duration::from_millis(200);
        load.hang_after = Duration::from_secs(1);
        let seen = events.drive(&load);
        assert_counts_add_up(&seen);
        assert_eq!(seen.trouble, None);
        assert_eq!(
            (
                seen.served,
                count(&seen, &RequestResult::Timeout(RequestPhase::Head))
            ),
            (20, 2)
        );
        if answers {
            assert_eq!((seen.stage, seen.death), (LoadStage::Over, None));
        } else {
            let death = seen.death.unwrap();
            assert!(death.hung);
            assert_eq!((seen.stage, death.in_flight), (LoadStage::Settling, 2));
        }
    }
}

#[test]
fn a_retried_request_was_in_flight_at_the_crash() {
    let events = TrialEvents::new();
    let death = events.death.clone();
    let killer = Arc::new(Mutex::new(String::new()));
    let line = killer.clone();
    let server = Server::new(move |request| {
        if request.number != 200 {
            std::thread::sleep(Duration::from_millis(1));
            return Reply::Send(ok("hello"));
        }
        line.lock().unwrap().clone_from(&request.line);
        let death = death.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            death.send_replace(Some(Instant::now()));
        });
        Reply::Reset(Vec::new())
    });
    let mut load = load(&server.base, 4, 0);
    load.amount = LoadLimit::Time(Duration::from_secs(60));
    load.requests[0].path = "/{seq}".to_owned();
    let seen = events.drive(&load);
    assert_counts_add_up(&seen);
    assert!(seen.served > 199);
    let folder = events.evidence();
    let lines = fs::read_to_string(folder.join("in-flight.jsonl")).unwrap();
    let killer = killer.lock().unwrap();
    let found = lines.lines().any(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let request = fs::read_to_string(folder.join(line["request"].as_str().unwrap())).unwrap();
        request.starts_with(&format!("{killer}\r\n"))
    });
    assert!(found, "{killer}: {lines}");
}

#[test]
fn a_slow_service_that_responds_does_not_hang() {
    let server = Server::new(|request| match &request.line[..] {
        "GET /health HTTP/1.1" => Reply::Close(ok("well")),
        _ => {
            std::thread::sleep(Duration::from_millis(700));
            Reply::Send(ok("hello"))
        }
    });
    let events = TrialEvents::new();
    let mut load = load(&server.base, 2, 4);
    load.ready = ReadyCondition::Http {
        path: "/health".to_owned(),
        status: Some(200),
    };
    load.hang_after = Duration::from_millis(300);
    let seen = events.drive(&load);
    assert_eq!((seen.served, seen.stage), (4, LoadStage::Over), "{seen:?}");
}

#[test]
fn halting_a_trial_cancels_its_open_requests() {
    let events = TrialEvents::new();
    let halt = events.halt.clone();
    let server = Server::new(move |request| {
        if request.number == 3 {
            halt.send_replace(true);
        }
        Reply::Stall
    });
    let mut load = load(&server.base, 3, 100);
    load.amount = LoadLimit::Time(Duration::from_secs(600));
    let seen = events.drive(&load);
    assert_counts_add_up(&seen);
    assert_eq!(
        (seen.stage, count(&seen, &RequestResult::Cancelled)),
        (LoadStage::Loading, 3)
    );
    assert_eq!((seen.death, seen.trouble), (None, None));
}

#[test]
fn a_service_that_crashes_before_it_is_ready_receives_no_request() {
    let events = TrialEvents::new();
    events.death.send_replace(Some(Instant::now()));
    let mut load = load("http://127.0.0.1:1", 3, 100);
    load.ready = ReadyCondition::Connects;
    let seen = events.drive(&load);
    assert_eq!(
        (seen.stage, seen.sent, seen.death),
        (LoadStage::Starting, 0, None)
    );
}

#[test]
fn the_load_waits_for_readiness_until_a_limit() {
    let server = Server::new(|request| match request.number {
        ..4 => Reply::Send(b"HTTP/1.1 503 Not Yet\r\nContent-Length: 0\r\n\r\n".to_vec()),
        _ => Reply::Send(ok("hello")),
    });
    let events = TrialEvents::new();
    let mut load = load(&server.base, 1, 1);
    load.ready = ReadyCondition::Http {
        path: "/".to_owned(),
        status: None,
    };
    assert_eq!(events.drive(&load).served, 1);
    assert_eq!(server.read.load(Ordering::SeqCst), 5);
    load.ready = ReadyCondition::Http {
        path: "/".to_owned(),
        status: Some(204),
    };
    load.ready_limit = Duration::from_millis(200);
    let seen = events.drive(&load);
    let trouble = seen.trouble.unwrap();
    assert!(
        trouble.contains("`/` returned 200, expected 204"),
        "{trouble}"
    );
    assert_eq!((seen.stage, seen.sent), (LoadStage::Starting, 0));
    load.ready = ReadyCondition::Log("up".to_owned());
    assert!(events.drive(&load).trouble.unwrap().contains("`up`"));
    events.log_matched.send_replace(true);
    assert_eq!(events.drive(&load).served, 1);
}

#[test]
fn a_process_that_already_listens_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let mut load = load(&base, 1, 1);
    let listener_text = run(describe_listener(&load, &[])).unwrap();
    let me = format!("process {} (`", std::process::id());
    assert!(listener_text.contains(&me), "{listener_text}");
    // The listener is accepted as the service itself; as a process of another session it is refused.
    load.ready = ReadyCondition::Connects;
    load.amount = LoadLimit::Requests(0);
    let events = TrialEvents::new();
    let mut trial = events.service_trial(&load);
    trial.pids = vec![std::process::id().cast_signed()];
    assert_eq!(run(drive_service(trial)).trouble, None);
    let mut other = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let mut trial = events.service_trial(&load);
    trial.pids = vec![other.id().cast_signed()];
    let trouble = run(drive_service(trial)).trouble.unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(
        trouble.contains(&me) && trouble.contains("does not belong"),
        "{trouble}"
    );
    drop(listener);
    assert_eq!(run(describe_listener(&load, &[])), None);
}
