//! Tests requests at a fixed rate, with services of any speed.

use super::server::{Reply, Server, ok};
use super::{TrialEvents, assert_counts_add_up, count, drive_checked, load};
use provoke_model::{LoadLimit, LoadPlan, RequestPace, RequestResult};
use std::sync::Mutex;
use std::time::{Duration, Instant};

fn at_rate(base: &str, millihertz: u64, connections: u32) -> LoadPlan {
    let mut load = load(base, 1, 0);
    load.pace = RequestPace::Open {
        millihertz,
        connections,
    };
    load
}

#[test]
fn a_pause_of_the_service_delays_all_requests_due_during_it() {
    let gate = Mutex::new(());
    let server = Server::new(move |request| {
        let _held = gate.lock().unwrap();
        if request.number == 100 {
            std::thread::sleep(Duration::from_millis(600));
        }
        Reply::Send(ok("hello"))
    });
    let mut load = at_rate(&server.base, 500_000, 5);
    load.amount = LoadLimit::Requests(500);
    let seen = drive_checked(&load);
    assert_eq!(seen.served, 500);
    let slow = |times: &provoke_model::Latencies| -> u64 {
        let slow = times.0.iter().filter(|(time, _)| *time > 100_000);
        slow.map(|(_, count)| count).sum()
    };
    // 300 were due within those 600 ms, and 250 of them had to wait for more than 100 ms.
    assert!(slow(&seen.latency) >= 200, "{:?}", seen.latency);
    assert!(seen.queue >= 200, "{}", seen.queue);
    assert!(seen.latency.longest_time().unwrap() >= Duration::from_millis(590));
    assert_eq!(seen.connections, 5);
}

#[test]
fn requests_that_were_due_but_not_sent_are_counted() {
    let server = Server::new(|_| {
        std::thread::sleep(Duration::from_millis(100));
        Reply::Send(ok("hello"))
    });
    let mut load = at_rate(&server.base, 1_000_000, 2);
    load.amount = LoadLimit::Time(Duration::from_millis(300));
    let seen = drive_checked(&load);
    let not_sent = count(&seen, &RequestResult::NotSent);
    assert_eq!(seen.sent + not_sent, 300, "{:?}", seen.ends);
    assert!(not_sent >= 290, "{:?}", seen.ends);
}

#[test]
fn a_crash_at_a_fixed_rate_leaves_due_requests_unsent() {
    let events = TrialEvents::new();
    let death = events.death.clone();
    let server = Server::new(move |request| {
        if request.number == 3 {
            let death = death.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                death.send_replace(Some(Instant::now()));
            });
        }
        Reply::Stall
    });
    let mut load = at_rate(&server.base, 1_000_000, 3);
    load.amount = LoadLimit::Requests(100_000);
    let seen = events.drive(&load);
    assert_counts_add_up(&seen);
    assert_eq!((seen.sent, count(&seen, &RequestResult::Died)), (3, 3));
    let not_sent = count(&seen, &RequestResult::NotSent);
    assert!((250..100_000).contains(&not_sent), "{not_sent}");
}

#[test]
fn every_request_is_logged_if_requested() {
    let server = Server::new(|_| Reply::Send(ok("hello")));
    let mut load = load(&server.base, 3, 100);
    load.log_all = true;
    let events = TrialEvents::new();
    assert_eq!(events.drive(&load).served, 100);
    let log = std::fs::read_to_string(events.evidence().join("requests-0.csv")).unwrap();
    assert_eq!(log.lines().count(), 101);
    assert!(
        log.lines()
            .skip(1)
            .all(|line| line.contains(",ok,body,200,"))
    );
}
