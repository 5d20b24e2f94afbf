//! Exchanges requests and responses over HTTP/1.1.

use super::body::{FileBody, RequestTail};
use super::check::ResponseChecker;
use super::client::{Client, KeptConnection};
use super::client_deadline::{ClientSignal, ClientStop};
use super::clock::duration_nanos;
use super::connect::{ConnectionStream, classify_error};
use super::record::{RequestEnd, RingIndex};
use super::request::DrawnRequest;
use super::response::{ResponseError, ResponseReader};
use provoke_model::{ConnectionReuse, RequestPhase, RequestResult};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
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
    Stopped(ClientSignal),
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
                    let result = self.facts.judge_answer(expected).into_result();
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
                ExchangeResult::Stopped(ClientSignal::Late) => RequestResult::Timeout(phase),
                ExchangeResult::Stopped(ClientSignal::Stop) => self.stopped_result(),
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
        reader.begin_answer(kind.head);
        response.begin_answer(&kind.expected);
        let mut request = RequestWriter::new(head, body);
        let mut receiver = ResponseReceiver {
            reader,
            checker: ResponseChecker {
                expected: &kind.expected,
                facts: response,
            },
            received: 0,
            is_acknowledged: false,
        };
        let went = std::future::poll_fn(|cx| {
            let mut stream = Pin::new(&mut connection.stream);
            if let Err(errno) = request.write_available(stream.as_mut(), cx) {
                return Poll::Ready(ExchangeResult::Unread(errno));
            }
            let mut buffer = worker.buffer.borrow_mut();
            loop {
                let mut read_buffer = ReadBuf::new(&mut buffer);
                match stream.as_mut().poll_read(cx, &mut read_buffer) {
                    Poll::Ready(Ok(())) if read_buffer.filled().is_empty() => {
                        return Poll::Ready(if receiver.reader.end_of_connection() {
                            ExchangeResult::Whole
                        } else if let Some(error) = request.error.take() {
                            ExchangeResult::Failed(error)
                        } else {
                            ExchangeResult::Ended
                        });
                    }
                    Poll::Ready(Ok(())) => {
                        worker.alive.set(true);
                        if let Some(result) = receiver.check_bytes(read_buffer.filled()) {
                            return Poll::Ready(result);
                        }
                    }
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(ExchangeResult::Failed(
                            request.error.take().unwrap_or(error),
                        ));
                    }
                    Poll::Pending => {
                        if let Some(error) = request.error.take() {
                            return Poll::Ready(ExchangeResult::Failed(error));
                        }
                        receiver.acknowledge_beginning(&connection.stream);
                        let client_stop = slot.poll_stop(cx);
                        return client_stop.map_or(Poll::Pending, |client_stop| {
                            Poll::Ready(ExchangeResult::Stopped(client_stop))
                        });
                    }
                }
            }
        })
        .await;
        let received = receiver.received;
        let phase = if !request.is_written() {
            RequestPhase::Write
        } else if reader.has_head() {
            RequestPhase::Body
        } else {
            RequestPhase::Head
        };
        (went, phase, received)
    }
}

/// A request that is written in the parts that the connection accepts.
struct RequestWriter<'a> {
    head: &'a [u8],
    body: RequestTail<'a>,
    written: usize,
    is_flushed: bool,
    /// Chunk of a long body, and the chunk's offset.
    chunk: Vec<u8>,
    chunk_at: usize,
    /// Error of the connection. The service may have sent a response before it closed the connection.
    error: Option<io::Error>,
}

impl<'a> RequestWriter<'a> {
    fn new(head: &'a [u8], body: RequestTail<'a>) -> Self {
        Self {
            head,
            body,
            written: 0,
            is_flushed: false,
            chunk: Vec::new(),
            chunk_at: 0,
            error: None,
        }
    }

    fn is_written(&self) -> bool {
        self.written == self.head.len() + self.body.byte_length()
    }

    /// Writes what the connection accepts now. Fails with errno if the data to send cannot be read.
    fn write_available(
        &mut self,
        mut stream: Pin<&mut ConnectionStream>,
        cx: &mut Context<'_>,
    ) -> Result<(), i32> {
        while !self.is_written() && self.error.is_none() {
            match self.poll_write(stream.as_mut(), cx)? {
                Poll::Ready(Ok(0)) => self.error = Some(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => self.error = Some(error),
                Poll::Pending => break,
            }
        }
        if self.is_written() && !self.is_flushed {
            match stream.poll_flush(cx) {
                Poll::Ready(Ok(())) => self.is_flushed = true,
                Poll::Ready(Err(error)) => self.error = Some(error),
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    /// Writes once: head and short body together, or the unsent part of one of them.
    fn poll_write(
        &mut self,
        stream: Pin<&mut ConnectionStream>,
        cx: &mut Context<'_>,
    ) -> Result<Poll<io::Result<usize>>, i32> {
        let unsent_head = self.head.get(self.written..);
        let unsent_head = unsent_head.filter(|unsent| !unsent.is_empty());
        Ok(match (unsent_head, self.body) {
            (Some(unsent), RequestTail::Held(body)) if !body.is_empty() => {
                let pieces = [IoSlice::new(unsent), IoSlice::new(body)];
                stream.poll_write_vectored(cx, &pieces)
            }
            (Some(unsent), _) => stream.poll_write(cx, unsent),
            (None, RequestTail::Held(body)) => {
                stream.poll_write(cx, &body[self.written - self.head.len()..])
            }
            (None, RequestTail::Long(long)) => stream.poll_write(cx, self.unsent_chunk(long)?),
        })
    }

    /// Returns the unsent part of the chunk of a long body; reads the next chunk if there is none.
    fn unsent_chunk(&mut self, long: &FileBody) -> Result<&[u8], i32> {
        let body_offset = self.written - self.head.len();
        if body_offset == self.chunk_at + self.chunk.len() {
            long.read_chunk(body_offset as u64, &mut self.chunk)
                .map_err(|error| error.raw_os_error().unwrap_or(EIO))?;
            self.chunk_at = body_offset;
        }
        Ok(&self.chunk[body_offset - self.chunk_at..])
    }
}

/// A response that is checked while it arrives.
struct ResponseReceiver<'a> {
    reader: &'a mut ResponseReader,
    checker: ResponseChecker<'a>,
    /// Number of received bytes.
    received: u64,
    is_acknowledged: bool,
}

impl ResponseReceiver<'_> {
    /// Checks received bytes. Returns the result if the exchange ends with them.
    fn check_bytes(&mut self, bytes: &[u8]) -> Option<ExchangeResult> {
        self.received += bytes.len() as u64;
        match self.reader.feed_bytes(bytes, &mut self.checker) {
            Err(fault) => Some(ExchangeResult::Fault(fault)),
            Ok(_) if !self.reader.is_done() => None,
            Ok(consumed) if consumed < bytes.len() => {
                Some(ExchangeResult::Fault(ResponseError::After))
            }
            Ok(_) => Some(ExchangeResult::Whole),
        }
    }

    /// Acknowledges the beginning of the response, once.
    fn acknowledge_beginning(&mut self, stream: &ConnectionStream) {
        if self.received > 0 && !self.is_acknowledged {
            stream.acknowledge_now();
            self.is_acknowledged = true;
        }
    }
}
