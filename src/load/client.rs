//! Client of a load: sends a request, reads the response, and records the result.

use super::body::RequestTail;
use super::check::{ResponseChecker, ResponseFacts, ResponseVerdict};
use super::connect::{ConnectionStream, classify_error};
use super::fixed_rate;
use super::http2::SharedConnection;
use super::record::{RequestEnd, RingIndex};
use super::request::{DrawnRequest, RequestDraws};
use super::response::{ResponseError, ResponseReader};
use super::worker::{ClientChannel, ClientSignal, ClientStop, Worker, duration_nanos};
use crate::model::{ConnectionReuse, LoadLimit, RequestPhase, RequestResult};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// Pause after a refused connection: the kernel closes the sockets of a crashed service before the
/// crash is detected.
const WAKE: Duration = Duration::from_secs(1);
/// Pause after a repeated refusal by a living service, and after a local error.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Error for a file that became shorter during sending.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

pub(super) struct Client {
    pub(super) worker: Rc<Worker>,
    pub(super) slot: Rc<ClientChannel>,
    id: u32,
    draws: RequestDraws,
    /// Last reading of the clock: the next request begins when this one ends.
    pub(super) now: u64,
    connection: Option<Connection>,
    out: Vec<u8>,
    reader: ResponseReader,
    pub(super) seen: ResponseFacts,
    /// The last connection was refused.
    refused: bool,
    /// Shared HTTP/2 connection.
    lane: Option<Rc<SharedConnection>>,
}

struct Connection {
    stream: ConnectionStream,
    /// Requests that used this connection.
    used: u32,
}

/// Result of an exchange.
enum ExchangeResult {
    Whole,
    /// The service closed the connection.
    Ended,
    Failed(io::Error),
    Fault(ResponseError),
    /// The data to send could not be read; contains errno.
    Unread(i32),
    Kicked(ClientSignal),
}

impl Client {
    pub(super) fn new(
        worker: Rc<Worker>,
        slot: Rc<ClientChannel>,
        id: u32,
        lane: Option<Rc<SharedConnection>>,
    ) -> Self {
        let phase = &worker.shared.phase;
        let draws = RequestDraws::new(&worker.shared.requests, phase.seed, id, phase.clients);
        Self {
            slot,
            id,
            draws,
            now: 0,
            connection: None,
            out: Vec::new(),
            reader: ResponseReader::new(),
            seen: ResponseFacts::default(),
            refused: false,
            lane,
            worker,
        }
    }

    pub(super) async fn run_to_end(mut self) {
        if self.connect_first().await.is_none() {
            return;
        }
        while self.worker.stop.get() == ClientStop::No {
            let Some((choice, due)) = self.next_due().await else {
                break;
            };
            self.send_request(&choice, due).await;
            let think = self.worker.shared.phase.think;
            if !think.is_zero() && self.rest_for(think).await.is_err() {
                break;
            }
        }
    }

    /// Returns the next request and its due time, or `None` after the last request.
    async fn next_due(&mut self) -> Option<(DrawnRequest, u64)> {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        let start = shared.go.borrow().unwrap_or_default();
        let number = shared.take_number();
        let Some(rate) = shared.phase.rate else {
            let enough = match shared.phase.amount {
                LoadLimit::Requests(most) => number >= most,
                LoadLimit::Time(time) => self.now >= start.saturating_add(duration_nanos(time)),
            };
            let choice = self.draws.draw_next(&shared.requests).filter(|_| !enough);
            return choice.map(|choice| (choice, self.now));
        };
        fixed_rate::next_due(self, start, number, rate).await
    }

    /// Connects, and waits until all clients have connected.
    async fn connect_first(&mut self) -> Option<()> {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        if shared.phase.spread.is_zero() {
            // If this fails, the first request reports the error.
            if let Some(lane) = self.lane.clone() {
                let _ = self.shared_connection(&lane).await;
            } else if let Ok(stream) = self.connect_stream().await {
                self.connection = Some(Connection { stream, used: 0 });
            }
        }
        shared.arrived.fetch_add(1, Ordering::Relaxed);
        let mut go = shared.go.clone();
        self.slot
            .unless_kicked(go.wait_for(Option::is_some))
            .await
            .ok()?
            .ok()?;
        let share = shared.phase.spread * self.id / shared.phase.clients.max(1);
        if !share.is_zero() {
            self.rest_for(share).await.ok()?;
        }
        self.now = shared.clock.nanos_now();
        Some(())
    }

    /// Sleeps, unless the client is stopped.
    pub(super) async fn rest_for(&mut self, time: Duration) -> Result<(), ClientSignal> {
        let rested = self.slot.unless_kicked(tokio::time::sleep(time)).await;
        self.now = self.worker.shared.clock.nanos_now();
        rested
    }

    pub(super) async fn connect_stream(&mut self) -> Result<ConnectionStream, RequestResult> {
        let shared = &self.worker.shared;
        let limit = duration_nanos(shared.phase.connect_limit);
        self.slot
            .set_deadline(shared.clock.nanos_now().saturating_add(limit));
        let connected = self
            .slot
            .unless_kicked(shared.dialer.connect_target())
            .await;
        self.slot.set_deadline(0);
        match connected {
            Ok(Ok(stream)) => {
                self.worker.record.borrow_mut().connections += 1;
                Ok(stream)
            }
            Ok(Err(why)) => Err(why.into_ended()),
            Err(ClientSignal::Late) => Err(RequestResult::Timeout(RequestPhase::Connect)),
            Err(ClientSignal::Stop) => Err(self.stopped_result()),
        }
    }

    /// Returns the result of a request that is ended because all clients stop.
    pub(super) fn stopped_result(&self) -> RequestResult {
        match self.worker.stop.get() {
            ClientStop::Halted => RequestResult::Cancelled,
            _ => RequestResult::Died,
        }
    }

    /// Sends a request and records the result.
    async fn send_request(&mut self, choice: &DrawnRequest, due: u64) {
        let worker = self.worker.clone();
        let place = {
            let mut record = worker.record.borrow_mut();
            record.begin_request(self.id, choice, due, self.now)
        };
        worker.unanswered.set(true);
        let end = match self.lane.clone() {
            Some(lane) => self.sent_as_stream(&lane, choice, place).await,
            None => self.exchange_with_retry(choice, place).await,
        };
        self.now = end.done;
        let pause = match end.ended {
            RequestResult::Refused if !self.refused => Some(WAKE),
            RequestResult::Refused
            | RequestResult::Local(_)
            | RequestResult::Dns(_)
            | RequestResult::Unreachable(_) => Some(BACK_OFF),
            _ => None,
        };
        self.refused = end.ended == RequestResult::Refused;
        worker.record.borrow_mut().end_request(place, end);
        if let Some(pause) = pause {
            worker.alive.set(true); // a refusal is a sign of life
            let _ = self.rest_for(pause).await; // the caller notices a stop itself
        }
    }

    async fn exchange_with_retry(&mut self, choice: &DrawnRequest, place: RingIndex) -> RequestEnd {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        let limit = duration_nanos(shared.phase.request_limit);
        let mut again = false;
        loop {
            if self.connection.is_none() {
                match self.connect_stream().await {
                    Ok(stream) => self.connection = Some(Connection { stream, used: 0 }),
                    Err(ended) => {
                        return self.make_end(ended, RequestPhase::Connect, 0, true, false);
                    }
                }
            }
            let Some(mut connection) = self.connection.take() else {
                continue;
            };
            let fresh = connection.used == 0;
            connection.used += 1;
            let last = match shared.phase.connections {
                ConnectionReuse::Kept => false,
                ConnectionReuse::For(most) => connection.used >= most,
            };
            self.slot.set_deadline(self.now.saturating_add(limit));
            let (went, part, bytes) = self.exchange_once(&mut connection, choice, last).await;
            self.slot.set_deadline(0);
            let ended = match went {
                ExchangeResult::Whole => {
                    if self.reader.is_kept() && !last && part == RequestPhase::Body {
                        self.connection = Some(connection);
                    }
                    let expected = &shared.requests.kinds[choice.kind].expected;
                    let ended = match self.seen.judge_answer(expected) {
                        ResponseVerdict::Good => RequestResult::Ok,
                        ResponseVerdict::Status(status) => RequestResult::Status(status),
                        ResponseVerdict::Check(name) => RequestResult::Check(name),
                    };
                    return self.make_end(ended, RequestPhase::Body, bytes, fresh, true);
                }
                // It is unknown whether the service closed the connection before it saw the
                // request.
                ExchangeResult::Ended | ExchangeResult::Failed(_)
                    if !fresh && !again && bytes == 0 && worker.stop.get() == ClientStop::No =>
                {
                    again = true;
                    let now = shared.clock.nanos_now();
                    worker.record.borrow_mut().note_resent(place, now);
                    continue;
                }
                ExchangeResult::Ended => RequestResult::ClosedEarly(part),
                ExchangeResult::Failed(error) => classify_error(&error, part),
                ExchangeResult::Fault(fault) => RequestResult::Protocol(fault.to_string()),
                ExchangeResult::Unread(errno) => RequestResult::Local(errno),
                ExchangeResult::Kicked(ClientSignal::Late) => RequestResult::Timeout(part),
                ExchangeResult::Kicked(ClientSignal::Stop) => self.stopped_result(),
            };
            return self.make_end(ended, part, bytes, fresh, false);
        }
    }

    pub(super) fn make_end(
        &self,
        ended: RequestResult,
        part: RequestPhase,
        bytes: u64,
        fresh: bool,
        whole: bool,
    ) -> RequestEnd {
        RequestEnd {
            ended,
            done: self.worker.shared.clock.nanos_now(),
            bytes,
            status: if bytes > 0 { self.seen.status } else { 0 },
            part,
            fresh,
            whole,
        }
    }

    /// Writes a request and reads its response. Returns the result, the last part that was reached,
    /// and the number of received bytes.
    async fn exchange_once(
        &mut self,
        connection: &mut Connection,
        choice: &DrawnRequest,
        last: bool,
    ) -> (ExchangeResult, RequestPhase, u64) {
        let Self {
            worker,
            slot,
            out,
            reader,
            seen,
            ..
        } = self;
        let requests = &worker.shared.requests;
        let kind = &requests.kinds[choice.kind];
        let (head, body) = requests.write_wire(choice, last, out);
        let expected = &kind.expected;
        reader.begin_answer(kind.head);
        seen.begin_answer(expected);
        let all = head.len() + body.byte_length();
        // Chunk of a long body, and the chunk's offset.
        let (mut chunk, mut chunk_at) = (Vec::new(), 0);
        let mut written = 0;
        let mut flushed = false;
        let mut unwritable = None;
        let mut bytes = 0;
        // Time since which the rest of the response is awaited, and whether its beginning was
        // acknowledged at once.
        let mut rest: Option<(u64, bool)> = None;
        let (acks, clock) = (&worker.shared.dialer.acks, worker.shared.clock);
        let went = std::future::poll_fn(|cx| {
            let mut stream = Pin::new(&mut connection.stream);
            while written < all && unwritable.is_none() {
                let left = head.get(written..).filter(|left| !left.is_empty());
                let wrote = match (left, body) {
                    (Some(left), RequestTail::Held(body)) if !body.is_empty() => {
                        let pieces = [IoSlice::new(left), IoSlice::new(body)];
                        stream.as_mut().poll_write_vectored(cx, &pieces)
                    }
                    (Some(left), _) => stream.as_mut().poll_write(cx, left),
                    (None, RequestTail::Held(body)) => {
                        let left = &body[written - head.len()..];
                        stream.as_mut().poll_write(cx, left)
                    }
                    (None, RequestTail::Long(long)) => {
                        let at = written - head.len();
                        if at == chunk_at + chunk.len() {
                            if let Err(error) = long.read_chunk(at as u64, &mut chunk) {
                                let errno = error.raw_os_error().unwrap_or(EIO);
                                return Poll::Ready(ExchangeResult::Unread(errno));
                            }
                            chunk_at = at;
                        }
                        stream.as_mut().poll_write(cx, &chunk[at - chunk_at..])
                    }
                };
                match wrote {
                    Poll::Ready(Ok(0)) => unwritable = Some(io::ErrorKind::WriteZero.into()),
                    Poll::Ready(Ok(count)) => written += count,
                    // The service may have sent a response before it closed the connection.
                    Poll::Ready(Err(error)) => unwritable = Some(error),
                    Poll::Pending => break,
                }
            }
            if written == all && !flushed {
                match stream.as_mut().poll_flush(cx) {
                    Poll::Ready(Ok(())) => flushed = true,
                    Poll::Ready(Err(error)) => unwritable = Some(error),
                    Poll::Pending => {}
                }
            }
            let mut buffer = worker.buffer.borrow_mut();
            loop {
                let mut to = ReadBuf::new(&mut buffer);
                match stream.as_mut().poll_read(cx, &mut to) {
                    Poll::Ready(Ok(())) if to.filled().is_empty() => {
                        return Poll::Ready(if reader.end_of_connection() {
                            ExchangeResult::Whole
                        } else if let Some(error) = unwritable.take() {
                            ExchangeResult::Failed(error)
                        } else {
                            ExchangeResult::Ended
                        });
                    }
                    Poll::Ready(Ok(())) => {
                        let came = to.filled();
                        bytes += came.len() as u64;
                        if let Some((since, at_once)) = rest.take() {
                            acks.record_wait(clock.nanos_now().saturating_sub(since), at_once);
                        }
                        worker.alive.set(true);
                        let mut checking = ResponseChecker { expected, seen };
                        let taken = match reader.feed_bytes(came, &mut checking) {
                            Ok(taken) => taken,
                            Err(fault) => return Poll::Ready(ExchangeResult::Fault(fault)),
                        };
                        if reader.is_done() {
                            return Poll::Ready(if taken < came.len() {
                                ExchangeResult::Fault(ResponseError::After)
                            } else {
                                ExchangeResult::Whole
                            });
                        }
                    }
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(ExchangeResult::Failed(
                            unwritable.take().unwrap_or(error),
                        ));
                    }
                    Poll::Pending => {
                        if let Some(error) = unwritable.take() {
                            return Poll::Ready(ExchangeResult::Failed(error));
                        }
                        if bytes > 0 && rest.is_none() {
                            let at_once = acks.at_once();
                            if at_once {
                                connection.stream.acknowledge_now();
                            }
                            rest = Some((clock.nanos_now(), at_once));
                        }
                        let kick = slot.poll_kick(cx);
                        return kick.map_or(Poll::Pending, |kick| {
                            Poll::Ready(ExchangeResult::Kicked(kick))
                        });
                    }
                }
            }
        })
        .await;
        let part = if written < all {
            RequestPhase::Write
        } else if reader.has_head() {
            RequestPhase::Body
        } else {
            RequestPhase::Head
        };
        (went, part, bytes)
    }
}
