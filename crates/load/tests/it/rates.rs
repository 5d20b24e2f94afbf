//! Tests requests at a fixed rate, with services of any speed.

use super::server::{Server, Then, ok};
use super::{Outside, adds_up, count, drive_it, load};
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
fn a_pause_of_the_service_is_felt_by_all_that_were_due_meanwhile() {
    let gate = Mutex::new(());
    let server = Server::new(move |request| {
        let _held = gate.lock().unwrap();
        if request.number == 100 {
            std::thread::sleep(Duration::from_millis(600));
        }
        Then::Say(ok("hello"))
    });
    let mut load = at_rate(&server.base, 500_000, 5);
    load.amount = LoadLimit::Requests(500);
    let seen = drive_it(&load);
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
fn what_was_due_and_never_sent_is_counted() {
    let server = Server::new(|_| {
        std::thread::sleep(Duration::from_millis(100));
        Then::Say(ok("hello"))
    });
    let mut load = at_rate(&server.base, 1_000_000, 2);
    load.amount = LoadLimit::Time(Duration::from_millis(300));
    let seen = drive_it(&load);
    let not_sent = count(&seen, &RequestResult::NotSent);
    assert_eq!(seen.sent + not_sent, 300, "{:?}", seen.ends);
    assert!(not_sent >= 290, "{:?}", seen.ends);
}

#[test]
fn a_death_at_a_fixed_rate_leaves_the_rest_unsent() {
    let outside = Outside::new();
    let death = outside.death.clone();
    let server = Server::new(move |request| {
        if request.number == 3 {
            let death = death.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(300));
                death.send_replace(Some(Instant::now()));
            });
        }
        Then::Stall
    });
    let mut load = at_rate(&server.base, 1_000_000, 3);
    load.amount = LoadLimit::Requests(100_000);
    let seen = outside.drive(&load);
    adds_up(&seen);
    assert_eq!((seen.sent, count(&seen, &RequestResult::Died)), (3, 3));
    let not_sent = count(&seen, &RequestResult::NotSent);
    assert!((250..100_000).contains(&not_sent), "{not_sent}");
}

#[test]
fn every_request_is_written_down_where_that_is_asked_for() {
    let server = Server::new(|_| Then::Say(ok("hello")));
    let mut load = load(&server.base, 3, 100);
    load.log_all = true;
    let outside = Outside::new();
    assert_eq!(outside.drive(&load).served, 100);
    let log = std::fs::read_to_string(outside.evidence().join("requests-0.csv")).unwrap();
    assert_eq!(log.lines().count(), 101);
    assert!(
        log.lines()
            .skip(1)
            .all(|line| line.contains(",ok,body,200,"))
    );
}
