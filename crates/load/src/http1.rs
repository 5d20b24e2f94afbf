//! Exchanges requests and responses over HTTP/1.1.

use super::body::RequestTail;
use super::check::{ResponseChecker, ResponseVerdict};
use super::client::{Client, KeptConnection};
use super::clock::duration_nanos;
use super::connect::classify_error;
use super::record::{RequestEnd, RingIndex};
use super::request::DrawnRequest;
use super::response::ResponseError;
use super::signal::{ClientSignal, ClientStop};
use provoke_model::{ConnectionReuse, RequestPhase, RequestResult};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Poll;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

/// Error for a file that became shorter during sending.
const EIO: i32 = rustix::io::Errno::IO.raw_os_error();

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
    /// Sends a request on the kept connection, or on a new one; once more if the kept connection was just closed.
    pub(super) async fn exchange_with_retry(
        &mut self,
        choice: &DrawnRequest,
        index: RingIndex,
    ) -> RequestEnd {
        let worker = self.worker.clone();
        let shared = &worker.shared;
        let limit = duration_nanos(shared.phase.request_limit);
        let mut is_retry = false;
        loop {
            if self.connection.is_none() {
                match self.connect_stream().await {
                    Ok(stream) => self.connection = Some(KeptConnection { stream, uses: 0 }),
                    Err(result) => {
                        return self.make_end(result, RequestPhase::Connect, 0, true, false);
                    }
                }
            }
            let Some(mut connection) = self.connection.take() else {
                continue;
            };
            let fresh = connection.uses == 0;
            connection.uses += 1;
            let last = match shared.phase.connections {
                ConnectionReuse::Kept => false,
                ConnectionReuse::For(max) => connection.uses >= max,
            };
            self.slot.set_deadline(self.now.saturating_add(limit));
            let (went, phase, bytes) = self.exchange_once(&mut connection, choice, last).await;
            self.slot.set_deadline(0);
            let result = match went {
                ExchangeResult::Whole => {
                    if self.reader.is_kept() && !last && phase == RequestPhase::Body {
                        self.connection = Some(connection);
                    }
                    let expected = &shared.requests.kinds[choice.kind].expected;
                    let result = match self.facts.judge_answer(expected) {
                        ResponseVerdict::Good => RequestResult::Ok,
                        ResponseVerdict::Status(status) => RequestResult::Status(status),
                        ResponseVerdict::Check(name) => RequestResult::Check(name),
                    };
                    return self.make_end(result, RequestPhase::Body, bytes, fresh, true);
                }
                // It is unknown whether the service closed the connection before it saw the
                // request.
                ExchangeResult::Ended | ExchangeResult::Failed(_)
                    if !fresh && !is_retry && bytes == 0 && worker.stop.get() == ClientStop::No =>
                {
                    is_retry = true;
                    let now = shared.clock.nanos_now();
                    worker.record.borrow_mut().note_resent(index, now);
                    continue;
                }
                ExchangeResult::Ended => RequestResult::ClosedEarly(phase),
                ExchangeResult::Failed(error) => classify_error(&error, phase),
                ExchangeResult::Fault(fault) => RequestResult::Protocol(fault.to_string()),
                ExchangeResult::Unread(errno) => RequestResult::Local(errno),
                ExchangeResult::Kicked(ClientSignal::Late) => RequestResult::Timeout(phase),
                ExchangeResult::Kicked(ClientSignal::Stop) => self.stopped_result(),
            };
            return self.make_end(result, phase, bytes, fresh, false);
        }
    }

    /// Writes a request and reads its response. Returns the result, the last part that was reached,
    /// and the number of received bytes.
    async fn exchange_once(
        &mut self,
        connection: &mut KeptConnection,
        choice: &DrawnRequest,
        last: bool,
    ) -> (ExchangeResult, RequestPhase, u64) {
        let Self {
            worker,
            slot,
            out,
            reader,
            facts: response,
            ..
        } = self;
        let requests = &worker.shared.requests;
        let kind = &requests.kinds[choice.kind];
        let (head, body) = requests.write_wire(choice, last, out);
        let expected = &kind.expected;
        reader.begin_answer(kind.head);
        response.begin_answer(expected);
        let total_length = head.len() + body.byte_length();
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
            while written < total_length && unwritable.is_none() {
                let unsent = head.get(written..).filter(|unsent| !unsent.is_empty());
                let wrote = match (unsent, body) {
                    (Some(unsent), RequestTail::Held(body)) if !body.is_empty() => {
                        let pieces = [IoSlice::new(unsent), IoSlice::new(body)];
                        stream.as_mut().poll_write_vectored(cx, &pieces)
                    }
                    (Some(unsent), _) => stream.as_mut().poll_write(cx, unsent),
                    (None, RequestTail::Held(body)) => {
                        let unsent = &body[written - head.len()..];
                        stream.as_mut().poll_write(cx, unsent)
                    }
                    (None, RequestTail::Long(long)) => {
                        let body_offset = written - head.len();
                        if body_offset == chunk_at + chunk.len() {
                            if let Err(error) = long.read_chunk(body_offset as u64, &mut chunk) {
                                let errno = error.raw_os_error().unwrap_or(EIO);
                                return Poll::Ready(ExchangeResult::Unread(errno));
                            }
                            chunk_at = body_offset;
                        }
                        stream
                            .as_mut()
                            .poll_write(cx, &chunk[body_offset - chunk_at..])
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
            if written == total_length && !flushed {
                match stream.as_mut().poll_flush(cx) {
                    Poll::Ready(Ok(())) => flushed = true,
                    Poll::Ready(Err(error)) => unwritable = Some(error),
                    Poll::Pending => {}
                }
            }
            let mut buffer = worker.buffer.borrow_mut();
            loop {
                let mut read_buffer = ReadBuf::new(&mut buffer);
                match stream.as_mut().poll_read(cx, &mut read_buffer) {
                    Poll::Ready(Ok(())) if read_buffer.filled().is_empty() => {
                        return Poll::Ready(if reader.end_of_connection() {
                            ExchangeResult::Whole
                        } else if let Some(error) = unwritable.take() {
                            ExchangeResult::Failed(error)
                        } else {
                            ExchangeResult::Ended
                        });
                    }
                    Poll::Ready(Ok(())) => {
                        let came = read_buffer.filled();
                        bytes += came.len() as u64;
                        if let Some((waited_since, at_once)) = rest.take() {
                            acks.record_wait(
                                clock.nanos_now().saturating_sub(waited_since),
                                at_once,
                            );
                        }
                        worker.alive.set(true);
                        let mut checking = ResponseChecker {
                            expected,
                            facts: response,
                        };
                        let consumed = match reader.feed_bytes(came, &mut checking) {
                            Ok(taken) => taken,
                            Err(fault) => return Poll::Ready(ExchangeResult::Fault(fault)),
                        };
                        if reader.is_done() {
                            return Poll::Ready(if consumed < came.len() {
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
        let phase = if written < total_length {
            RequestPhase::Write
        } else if reader.has_head() {
            RequestPhase::Body
        } else {
            RequestPhase::Head
        };
        (went, phase, bytes)
    }
}
