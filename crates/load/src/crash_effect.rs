//! Finds the requests that were in flight at a crash, from the times at which their connections broke.

use super::packed_request::{RequestRecord, code};
use std::collections::BTreeMap;

/// Nanoseconds around a crash in which broken connections are attributed to it.
pub(super) const AROUND_DEATH: u64 = 1_000_000_000;
/// Largest gap in nanoseconds between the broken connections of one crashed process.
const GAP: u64 = 100_000_000;

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
        let time = event.done.min(died);
        (time + AROUND_DEATH >= died).then_some(time)
    };
    let broke = |event: &RequestRecord| is_break(event).then(|| broke_then(event)).flatten();
    let mut breaks: Vec<u64> = events.iter().filter_map(broke).collect();
    breaks.extend(agains.iter().filter_map(broke_then));
    breaks.sort_unstable();
    let mut burst = u64::MAX;
    for time in breaks.into_iter().rev() {
        if burst != u64::MAX && burst - time > GAP {
            break;
        }
        burst = time;
    }
    // A retried request was in flight, whatever its client has sent to another process since then.
    let mut records: BTreeMap<u32, RequestRecord> = BTreeMap::new();
    for event in agains {
        if broke_then(event).is_some_and(|time| time >= burst) {
            records.entry(event.client).or_insert(*event);
        }
    }
    for event in events {
        let open = matches!(event.end, code::DIED | code::IN_FLIGHT) && !event.again;
        let counts = open || broke(event).is_some_and(|time| time >= burst);
        let too_late = event.sent > died || event.fresh && event.sent > burst;
        if counts && !too_late {
            records.entry(event.client).or_insert(*event);
        }
    }
    let mut sorted_records: Vec<RequestRecord> = records.into_values().collect();
    sorted_records.sort_by_key(|event| event.sent);
    CrashEffect {
        at: burst.min(died),
        answered_after: answered_after(events, &sorted_records),
        in_flight: sorted_records,
    }
}

/// Returns the number of responses from a replacement process, before the crash was detected.
///
/// Responses and broken connections are read in the order of their arrival. A response on an older
/// connection does not count, because it may have arrived before the crash.
fn answered_after(events: &[RequestRecord], in_flight: &[RequestRecord]) -> u64 {
    let is_broken = |event: &&RequestRecord| event.again || is_break(event);
    let Some(last) = in_flight
        .iter()
        .filter(is_broken)
        .map(|record| record.done)
        .max()
    else {
        return 0;
    };
    let after = |event: &&RequestRecord| event.end == code::OK && event.fresh && event.done > last;
    events.iter().filter(after).count() as u64
}

fn is_break(event: &RequestRecord) -> bool {
    matches!(event.end, code::RESET | code::CLOSED_EARLY)
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
    fn requests_that_break_in_the_last_burst_were_in_flight() {
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
        let found: Vec<(u32, u64)> = found
            .in_flight
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
    fn responses_on_new_connections_after_the_burst_are_counted_separately() {
        let died = 10 * SECOND;
        let on_new_connection = |event: RequestRecord| RequestRecord {
            fresh: true,
            ..event
        };
        let events = [
            on_new_connection(event(0, died - 900, died - 800, code::OK)),
            // Received before the connection broke, but read later.
            on_new_connection(event(1, died - 700, died + 10, code::OK)),
            on_new_connection(event(2, died - 600, died + 20, code::RESET)),
            on_new_connection(event(3, died - 500, died + 70, code::OK)),
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
    fn a_request_that_breaks_after_the_crash_was_in_flight() {
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
        let found: Vec<u32> = find_in_flight(&[late, given_up], &[broke_first], died)
            .in_flight
            .iter()
            .map(|event| event.client)
            .collect();
        assert_eq!(found, [1, 2]);
    }

    #[test]
    fn a_later_request_of_the_same_client_was_not_in_flight() {
        let died = 10 * SECOND;
        let events = [
            event(1, died - 700, died - 600, code::OK),
            event(1, died - 500, 0, code::DIED),
            event(2, died - 550, 0, code::DIED),
            event(3, died + 1, 0, code::DIED),
        ];
        let broke_first = event(1, died - 700, died - 650, code::IN_FLIGHT);
        let found: Vec<(u32, u64)> = find_in_flight(&events, &[broke_first], died)
            .in_flight
            .iter()
            .map(|event| (event.client, event.sent))
            .collect();
        assert_eq!(found, [(1, died - 700), (2, died - 550)]);
    }

    #[test]
    fn open_requests_were_in_flight_if_there_is_no_burst() {
        let events = [event(0, 5, 0, code::DIED), event(1, 6, 7, code::OK)];
        assert_eq!(find_in_flight(&events, &[], 8).in_flight, events[..1]);
        assert_eq!(find_in_flight(&[], &[], 8).in_flight, []);
    }

    #[test]
    fn a_retried_request_was_in_flight_in_the_crashed_process() {
        let died = 10 * SECOND;
        let retried = |client, sent, done| RequestRecord {
            again: true,
            ..event(client, sent, done, code::IN_FLIGHT)
        };
        let retried_requests = [
            // An idle connection that was closed half a second earlier.
            retried(0, died - SECOND / 2, died - SECOND / 2),
            retried(1, died - 600, died - 500),
            retried(2, died - 600, died - 490),
        ];
        let events = [
            RequestRecord {
                end: code::OK,
                ..retried(1, died - 600, died - 400)
            },
            event(3, died - 550, died - 495, code::RESET),
        ];
        let found: Vec<(u32, u64)> = find_in_flight(&events, &retried_requests, died)
            .in_flight
            .iter()
            .map(|event| (event.client, event.done))
            .collect();
        let wanted = [(1, died - 500), (2, died - 490), (3, died - 495)];
        assert_eq!(found, wanted);
    }
}
