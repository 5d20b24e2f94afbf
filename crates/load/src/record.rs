//! Records the result of each request: counts, times, and details of the latest requests.
//!
//! The latest requests are in a ring buffer in a file of the trial, so that they survive a crash of
//! provoke itself. A request is written to the ring when it is sent, and completed in place.

use super::LoadProgress;
use super::crash_effect::{AROUND_DEATH, CrashEffect};
use super::packed_request::{RequestRecord, WORDS, code};
use super::request::DrawnRequest;
use hdrhistogram::Histogram;
use provoke_model::{Latencies, RequestPhase, RequestResult};
use provoke_sys::files::create_private;
use provoke_sys::mapped::MappedWords;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::PoisonError;

/// Minimum number of requests in the ring.
const EVENTS: usize = 65_536;
/// Largest latency that is distinguished, in microseconds.
const LONGEST: u64 = 3_600_000_000;
/// Limit of remembered broken requests, for a crash that is detected later.
const MAX_BROKEN: usize = 65_536;

/// Index of a request in the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingIndex(usize);

/// End of a request.
pub(super) struct RequestEnd {
    pub(super) result: RequestResult,
    pub(super) done: u64,
    pub(super) bytes: u64,
    pub(super) status: u16,
    pub(super) part: RequestPhase,
    pub(super) fresh: bool,
    /// The response is complete.
    pub(super) whole: bool,
}

/// A request whose connection broke or could not be opened.
struct BrokenRequest {
    at: u64,
    sent: u64,
    client: u32,
    n: u64,
    result: RequestResult,
}

/// Data that one worker records.
pub(super) struct WorkerRecord {
    ring: MappedWords,
    next: usize,
    latency: Histogram<u64>,
    /// Latency from sending; only if a request may be due before it is sent.
    from_send: Option<Histogram<u64>>,
    late: Histogram<u64>,
    good: u64,
    ends: BTreeMap<RequestResult, u64>,
    /// Recently broken requests.
    broken: VecDeque<BrokenRequest>,
    /// Recently retried requests, in their state when the connection broke.
    agains: VecDeque<RequestRecord>,
    pub(super) last: LastTimes,
    pub(super) sent: u64,
    pub(super) served: u64,
    pub(super) kinds: Vec<u64>,
    /// Requests in flight, by kind.
    flying: Vec<u64>,
    pub(super) in_flight: u64,
    pub(super) bytes: u64,
    pub(super) connections: u64,
    pub(super) queue: u64,
    pub(super) at_random: Vec<u64>,
    samples: u64,
    /// Sum and number of latencies since the last tick.
    pub(super) lately: (u64, u64),
    published: PublishedResults,
    pub(super) log: RequestLog,
}

/// When something happened last; 0 for never.
#[derive(Default)]
pub(super) struct LastTimes {
    /// A complete response.
    pub(super) answered: u64,
    /// A timeout.
    pub(super) timed_out: u64,
    /// A refused or reset connection.
    pub(super) turned_away: u64,
}

/// Results of requests at the last update of the live display.
#[derive(Default)]
struct PublishedResults {
    counts: BTreeMap<RequestResult, u64>,
    /// Whether they have changed since then.
    changed: bool,
}

/// Log of every request, if requested.
#[derive(Default)]
pub(super) struct RequestLog {
    file: Option<BufWriter<File>>,
    /// Error that ended the log.
    pub(super) error: Option<io::Error>,
}

impl WorkerRecord {
    /// Creates a record, with its ring in a file at this path if possible, otherwise in memory.
    pub(super) fn new(ring: &Path, kinds: usize, clients: u32, open: bool) -> io::Result<Self> {
        // The ring has room for every request in flight.
        let events = EVENTS.max((clients as usize).saturating_mul(4));
        let ring = MappedWords::create_file(ring, events * WORDS)
            .or_else(|_| MappedWords::map_anonymous(events * WORDS))?;
        let times = || Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are right");
        Ok(Self {
            ring,
            next: 0,
            latency: times(),
            from_send: open.then(times),
            late: times(),
            good: 0,
            ends: BTreeMap::new(),
            broken: VecDeque::new(),
            agains: VecDeque::new(),
            last: LastTimes::default(),
            sent: 0,
            served: 0,
            kinds: vec![0; kinds],
            flying: vec![0; kinds],
            in_flight: 0,
            bytes: 0,
            connections: 0,
            queue: 0,
            at_random: vec![0; kinds],
            samples: 0,
            lately: (0, 0),
            published: PublishedResults::default(),
            log: RequestLog::default(),
        })
    }

    /// Logs every request to a file from now on.
    pub(super) fn log_to(&mut self, path: &Path) -> io::Result<()> {
        let mut log = BufWriter::new(create_private(path)?);
        writeln!(
            log,
            "client,n,kind,file,due_us,sent_us,done_us,end,part,status,bytes"
        )?;
        self.log.file = Some(log);
        Ok(())
    }

    fn log_event(&mut self, index: RingIndex) {
        let Some(log) = &mut self.log.file else {
            return;
        };
        let event = RequestRecord::from_words(&self.ring.as_words()[index.0 * WORDS..][..WORDS]);
        let [due, sent, done] = [event.due, event.sent, event.done].map(|nanos| nanos / 1000);
        let written = writeln!(
            log,
            "{},{},{},{},{due},{sent},{done},{},{},{},{}",
            event.client,
            event.n,
            event.kind,
            event.file,
            code::code_name(event.end),
            event.part,
            event.status,
            event.bytes,
        );
        if let Err(error) = written {
            self.log.file = None;
            self.log.error = Some(error);
        }
    }

    /// Flushes the log.
    pub(super) fn flush_log(&mut self) {
        if let Some(mut log) = self.log.file.take()
            && let Err(error) = log.flush()
        {
            self.log.error = Some(error);
        }
    }

    /// Records that a request is being sent.
    pub(super) fn begin_request(
        &mut self,
        client: u32,
        choice: &DrawnRequest,
        due: u64,
        sent: u64,
    ) -> RingIndex {
        let count = self.ring.as_words().len() / WORDS;
        let mut index = self.next;
        // Do not overwrite a request that is still in flight.
        for _ in 0..count {
            let event = &self.ring.as_words()[index * WORDS..][..WORDS];
            if event[2] == 0 || event[5] >> 8 & 0xff != u64::from(code::IN_FLIGHT) {
                break;
            }
            index = (index + 1) % count;
        }
        self.next = (index + 1) % count;
        let event = RequestRecord {
            n: choice.n,
            due,
            sent,
            client,
            kind: u8::try_from(choice.kind).unwrap_or(u8::MAX),
            file: u32::try_from(choice.file).unwrap_or_default(),
            ..RequestRecord::default()
        };
        self.ring.words_mut()[index * WORDS..][..WORDS].copy_from_slice(&event.encode_words());
        self.sent += 1;
        self.kinds[choice.kind] += 1;
        self.flying[choice.kind] += 1;
        self.in_flight += 1;
        RingIndex(index)
    }

    /// Records that a kept connection was closed during a request, which is then sent again.
    pub(super) fn note_resent(&mut self, index: RingIndex, now: u64) {
        let mut broken = RequestRecord::default();
        self.change_event(index, |event| {
            event.again = true;
            event.done = now;
            broken = *event;
        });
        // Another process of the service may answer the retry, which overwrites the event. But this
        // process may have crashed because of the request, so keep a copy.
        while let Some(oldest) = self.agains.front()
            && (now.saturating_sub(oldest.done) > 2 * AROUND_DEATH
                || self.agains.len() >= MAX_BROKEN)
        {
            self.agains.pop_front();
        }
        broken.part = RequestPhase::Head; // the connection existed, and no response came
        self.agains.push_back(broken);
        self.count_end(RequestResult::ClosedIdle, 1);
        self.note_broken(index, now, RequestResult::ClosedIdle);
    }

    /// Records the end of a request.
    pub(super) fn end_request(&mut self, index: RingIndex, end: RequestEnd) {
        let words = &mut self.ring.words_mut()[index.0 * WORDS..][..WORDS];
        let (due, sent) = (words[1], words[2]);
        let kind = usize::try_from(words[5] >> 56).unwrap_or_default();
        self.flying[kind] -= 1;
        self.in_flight -= 1;
        self.bytes += end.bytes;
        self.served += u64::from(end.whole);
        if end.whole {
            self.last.answered = end.done;
        }
        if end.result == RequestResult::Ok {
            // The usual case, without unpacking the event.
            words[3] = end.done;
            words[4] |= end.bytes.min(u64::from(u32::MAX)) << 32;
            words[5] |= u64::from(end.status) << 16
                | u64::from(code::OK) << 8
                | end.part as u64
                | u64::from(end.fresh) << 2;
            self.good += 1;
            let took = nanos_to_micros(end.done.saturating_sub(due));
            self.latency.saturating_record(took);
            self.lately.0 += took;
            self.lately.1 += 1;
            if let Some(from_send) = &mut self.from_send {
                from_send.saturating_record(nanos_to_micros(end.done.saturating_sub(sent)));
            }
            self.log_event(index);
            return;
        }
        match end.result {
            RequestResult::Timeout(_) => self.last.timed_out = end.done,
            RequestResult::Reset(..) | RequestResult::Refused => self.last.turned_away = end.done,
            _ => {}
        }
        let (code, status) = match end.result {
            RequestResult::Status(status) => (code::STATUS, status),
            RequestResult::Check(_) => (code::CHECK, end.status),
            RequestResult::Refused => (code::REFUSED, 0),
            RequestResult::Reset(errno, _) => {
                (code::RESET, u16::try_from(errno).unwrap_or_default())
            }
            RequestResult::ClosedEarly(_) => (code::CLOSED_EARLY, end.status),
            RequestResult::Timeout(_) => (code::TIMEOUT, end.status),
            RequestResult::Cancelled => (code::CANCELLED, end.status),
            RequestResult::Died => (code::DIED, end.status),
            _ => (code::OTHER, end.status),
        };
        self.change_event(index, |event| {
            // If a retry was refused, keep the time at which the first connection broke.
            if !(event.again && code == code::REFUSED) {
                event.done = end.done;
            }
            event.bytes = u32::try_from(end.bytes).unwrap_or(u32::MAX);
            event.status = status;
            event.end = code;
            event.part = end.part;
            event.fresh = end.fresh;
        });
        self.log_event(index);
        if matches!(
            end.result,
            RequestResult::Refused | RequestResult::Reset(..) | RequestResult::ClosedEarly(_)
        ) {
            self.note_broken(index, end.done, end.result.clone());
        }
        self.count_end(end.result, 1);
    }

    fn count_end(&mut self, result: RequestResult, count: u64) {
        *self.ends.entry(result).or_default() += count;
        self.published.changed = true;
    }

    fn uncount_end(&mut self, result: &RequestResult, fewer: u64) {
        if let Some(count) = self.ends.get_mut(result) {
            *count = count.saturating_sub(fewer);
            self.published.changed = true;
        }
    }

    /// Records how late a request was started although a client was idle, in nanoseconds.
    pub(super) fn record_lateness(&mut self, lateness: u64) {
        self.late.saturating_record(nanos_to_micros(lateness));
    }

    /// Counts requests that were due but not sent.
    pub(super) fn not_sent(&mut self, count: u64) {
        if count > 0 {
            self.count_end(RequestResult::NotSent, count);
        }
    }

    fn note_broken(&mut self, index: RingIndex, time: u64, result: RequestResult) {
        while let Some(oldest) = self.broken.front()
            && (time.saturating_sub(oldest.at) > 2 * AROUND_DEATH
                || self.broken.len() >= MAX_BROKEN)
        {
            self.broken.pop_front();
        }
        let event = RequestRecord::from_words(&self.ring.as_words()[index.0 * WORDS..][..WORDS]);
        self.broken.push_back(BrokenRequest {
            at: time,
            sent: event.sent,
            client: event.client,
            n: event.n,
            result,
        });
    }

    /// Returns recently retried requests, in their state when the connection broke.
    pub(super) fn resent_requests(&self) -> impl Iterator<Item = RequestRecord> {
        self.agains.iter().copied()
    }

    /// Marks requests that timed out after this instant as in flight, because the service has not
    /// responded since then.
    pub(super) fn reopen_timed_out(&mut self, since: u64) {
        let Self { ring, .. } = self;
        for words in ring.words_mut().chunks_exact_mut(WORDS) {
            let mut event = RequestRecord::from_words(words);
            if event.end == code::TIMEOUT && event.done > since {
                event.end = code::DIED;
                words.copy_from_slice(&event.encode_words());
            }
        }
    }

    /// Returns the time at which a connection broke last.
    pub(super) fn last_broken(&self) -> Option<u64> {
        self.broken.back().map(|broken| broken.at)
    }

    fn change_event(&mut self, index: RingIndex, change: impl FnOnce(&mut RequestRecord)) {
        let words = &mut self.ring.words_mut()[index.0 * WORDS..][..WORDS];
        let mut event = RequestRecord::from_words(words);
        change(&mut event);
        words.copy_from_slice(&event.encode_words());
    }

    /// Samples the requests in flight.
    ///
    /// A uniformly random sample of the trial is kept; `draw` must be a new random number each
    /// time.
    pub(super) fn sample_in_flight(&mut self, draw: u64) {
        self.samples += 1;
        if draw.is_multiple_of(self.samples) {
            self.at_random.copy_from_slice(&self.flying);
        }
    }

    /// Attributes requests that broke at a crash to it, and marks later requests as not delivered.
    pub(super) fn account_for_death(&mut self, death: u64, blow: &CrashEffect) {
        let in_flight: BTreeSet<(u32, u64)> = blow
            .in_flight
            .iter()
            .map(|event| (event.client, event.n))
            .collect();
        for broken in std::mem::take(&mut self.broken) {
            if broken.at < death.saturating_sub(AROUND_DEATH) {
                continue;
            }
            let flew = in_flight.contains(&(broken.client, broken.n));
            let new_result = match broken.result {
                // The result of the retry is counted, too.
                RequestResult::ClosedIdle if flew => None,
                RequestResult::ClosedIdle => continue,
                _ if flew => Some(RequestResult::Died),
                // The listening socket may be closed before the process has ended.
                RequestResult::Refused => Some(RequestResult::Unreached),
                _ if broken.sent >= blow.at => Some(RequestResult::Unreached),
                _ => continue, // unrelated to the crash
            };
            self.uncount_end(&broken.result, 1);
            if let Some(now) = new_result {
                self.count_end(now, 1);
            }
        }
        // Clients that were about to reconnect when they were stopped.
        let events = self
            .kept_events()
            .into_iter()
            .filter(|event| event.end == code::DIED && event.sent >= blow.at);
        let late = events
            .filter(|event| !in_flight.contains(&(event.client, event.n)))
            .count() as u64;
        if late > 0 {
            self.uncount_end(&RequestResult::Died, late);
            self.count_end(RequestResult::Unreached, late);
        }
    }

    /// Returns the requests of the ring in the order in which they were sent.
    pub(super) fn kept_events(&self) -> Vec<RequestRecord> {
        let records = self
            .ring
            .as_words()
            .chunks_exact(WORDS)
            .map(RequestRecord::from_words);
        let mut events: Vec<RequestRecord> = records.filter(|event| event.sent > 0).collect();
        events.sort_by_key(|event| event.sent);
        events
    }

    /// Returns the counts of results.
    pub(super) fn end_counts(&self) -> BTreeMap<RequestResult, u64> {
        let mut ends = self.ends.clone();
        ends.retain(|_, count| *count > 0);
        if self.good > 0 {
            ends.insert(RequestResult::Ok, self.good);
        }
        ends
    }

    /// Publishes the counts of results to the live display.
    pub(super) fn publish_ends(&mut self, live: &LoadProgress) {
        if !std::mem::take(&mut self.published.changed) {
            return;
        }
        let mut ends = live.ends.lock().unwrap_or_else(PoisonError::into_inner);
        for (result, count) in &self.ends {
            let published = self.published.counts.entry(result.clone()).or_default();
            let sum = ends.entry(result.clone()).or_default();
            // The difference may be negative, because errors that a crash explains are subtracted.
            *sum = sum.wrapping_add(count.wrapping_sub(*published));
            *published = *count;
        }
    }

    /// Returns latencies from the due time, latencies from sending, and delays of sending.
    pub(super) fn latency_times(&self) -> [Latencies; 3] {
        let times = |histogram: &Histogram<u64>| {
            let steps = histogram.iter_recorded().map(|step| {
                let time = histogram.median_equivalent(step.value_iterated_to());
                (time, step.count_at_value())
            });
            Latencies(steps.collect())
        };
        let from_send = self.from_send.as_ref().map(times);
        [
            times(&self.latency),
            from_send.unwrap_or_default(),
            times(&self.late),
        ]
    }
}

fn nanos_to_micros(nanos: u64) -> u64 {
    (nanos / 1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> WorkerRecord {
        WorkerRecord::new(Path::new("/nowhere/ring"), 2, 4, false).unwrap()
    }

    fn choice(n: u64) -> DrawnRequest {
        DrawnRequest {
            kind: 1,
            file: 70_000,
            row: 3,
            n,
            seq: n,
            rand: 0,
        }
    }

    fn end(ended: RequestResult, done: u64) -> RequestEnd {
        RequestEnd {
            result: ended,
            done,
            bytes: 5,
            status: 200,
            part: RequestPhase::Body,
            fresh: true,
            whole: false,
        }
    }

    #[test]
    fn a_successful_request_is_kept() {
        let mut record = record();
        let place = record.begin_request(3, &choice(9), 5, 6);
        record.end_request(place, end(RequestResult::Ok, 1_000_006));
        let event = RequestRecord {
            n: 9,
            due: 5,
            sent: 6,
            done: 1_000_006,
            bytes: 5,
            client: 3,
            kind: 1,
            file: 70_000,
            status: 200,
            end: code::OK,
            part: RequestPhase::Body,
            fresh: true,
            again: false,
        };
        assert_eq!(record.kept_events(), [event]);
        assert_eq!(
            record.end_counts(),
            BTreeMap::from([(RequestResult::Ok, 1)])
        );
        assert_eq!(record.latency_times()[0], Latencies(vec![(1000, 1)]));
    }

    #[test]
    fn a_request_in_flight_is_never_overwritten() {
        let mut record = record();
        let stuck = record.begin_request(0, &choice(0), 1, 1);
        for n in 1..200_000 {
            let place = record.begin_request(1, &choice(n), n + 1, n + 1);
            record.end_request(place, end(RequestResult::Ok, n + 2));
        }
        let events = record.kept_events();
        assert_eq!(events.len(), EVENTS);
        assert_eq!((events[0].client, events[0].end), (0, code::IN_FLIGHT));
        assert_eq!(record.in_flight, 1);
        record.end_request(stuck, end(RequestResult::Ok, 300_000));
        assert_eq!((record.in_flight, record.sent), (0, 200_000));
    }

    #[test]
    fn a_resent_request_is_kept_with_the_time_at_which_it_broke() {
        let mut record = record();
        for (n, at) in [(0, 5), (1, 3 * AROUND_DEATH), (2, 4 * AROUND_DEATH)] {
            let place = record.begin_request(3, &choice(n), at - 1, at - 1);
            record.note_resent(place, at);
            record.end_request(place, end(RequestResult::Ok, at + 1));
        }
        let kept: Vec<_> = record
            .resent_requests()
            .map(|event| (event.n, event.client, event.done, event.end, event.again))
            .collect();
        let wanted = [
            (1, 3, 3 * AROUND_DEATH, code::IN_FLIGHT, true),
            (2, 3, 4 * AROUND_DEATH, code::IN_FLIGHT, true),
        ];
        assert_eq!(kept, wanted);
        assert!(
            record
                .kept_events()
                .iter()
                .all(|event| event.end == code::OK)
        );
    }

    #[test]
    fn requests_sent_after_the_crash_are_unreached() {
        let mut record = record();
        let second = 1_000_000_000;
        let died = 10 * second;
        let reset = || RequestResult::Reset(104, RequestPhase::Head);
        let mut send = |client, sent, ended, done| {
            let place = record.begin_request(client, &choice(sent), sent, sent);
            record.end_request(place, end(ended, done));
        };
        send(0, 7 * second, reset(), 8 * second);
        // Half a second before the crash: unrelated to it.
        send(0, 9 * second, reset(), died - second / 2);
        // Connections break, and the clients reconnect at once.
        send(0, died - 900, reset(), died - 500);
        send(1, died - 900, RequestResult::Died, died + 5);
        send(0, died - 490, RequestResult::Refused, died - 480);
        send(2, died - 490, reset(), died - 470);
        send(3, died - 490, RequestResult::Died, died + 5);
        send(4, died - 400, RequestResult::Status(500), died - 5);
        let place = record.begin_request(5, &choice(3), died - 900, died - 900);
        record.note_resent(place, died - 495);
        record.end_request(place, end(RequestResult::Refused, died - 6));
        let blow = crate::crash_effect::find_in_flight(
            &record.kept_events(),
            &record.resent_requests().collect::<Vec<_>>(),
            died,
        );
        let flying: Vec<u32> = blow.in_flight.iter().map(|event| event.client).collect();
        assert_eq!(flying, [0, 1, 5]);
        record.account_for_death(died, &blow);
        let ends = [
            (RequestResult::Status(500), 1),
            (reset(), 2),
            (RequestResult::Died, 3),
            (RequestResult::Unreached, 3),
        ];
        assert_eq!(record.end_counts(), BTreeMap::from(ends));

        // The live display receives the corrected counts, too.
        let live = LoadProgress::default();
        record.publish_ends(&live);
        record.publish_ends(&live);
        assert_eq!(
            live.frequent_errors(),
            [
                (String::from("ECONNRESET (head)"), 2),
                (String::from("status 500"), 1)
            ]
        );
    }
}
