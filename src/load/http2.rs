//! HTTP/2: requests are streams of a connection that clients share.
//!
//! `hyper` implements the protocol. It converts different errors to one text, so the connection
//! records the number of an error before `hyper` sees it.

use super::body::Http2Body;
use super::check::{ResponseChecker, ResponseVerdict};
use super::client::Client;
use super::connect::{ConnectionStream, classify_error};
use super::record::{RequestEnd, RingIndex};
use super::request::DrawnRequest;
use super::response::ResponseObserver as _;
use super::target::Target;
use super::worker::{ClientSignal, ClientStop, duration_nanos};
use crate::model::{RequestPhase, RequestResult};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2;
use hyper::header::HeaderName;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Mutex;

/// Receive windows of a stream and of a connection: each window update costs a frame.
const STREAM_WINDOW: u32 = 1 << 20;
const WINDOW: u32 = 16 << 20;

/// Error text of a connection that its server closed without an error.
const GOAWAY: &str = "connection error received: not a result of an error";

/// A shared connection, once it is open.
#[derive(Default)]
pub(super) struct SharedConnection(Mutex<Option<OpenConnection>>);

#[derive(Clone)]
pub(super) struct OpenConnection {
    sender: http2::SendRequest<Http2Body>,
    fate: Arc<ConnectionEnd>,
    /// No request has used the connection yet.
    fresh: Rc<Cell<bool>>,
}

/// How the connection ended.
#[derive(Default)]
struct ConnectionEnd {
    errno: AtomicI32,
    ended: AtomicBool,
    /// The connection rejected a request: later requests use another one, even before this one has
    /// ended.
    spent: AtomicBool,
}

/// Executor that runs the futures of `hyper` on the current thread.
#[derive(Clone)]
struct CurrentThreadExecutor;

impl<F> hyper::rt::Executor<F> for CurrentThreadExecutor
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// Returns a GET request without headers and body.
pub(super) fn plain_request(target: &Target, path: &str) -> hyper::Request<Http2Body> {
    let scheme = if target.secure { "https" } else { "http" };
    let uri = format!("{scheme}://{}{path}", target.authority);
    let mut request = hyper::Request::new(Http2Body::default());
    if let Ok(uri) = uri.parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Returns whether this header belongs to the connection, for which HTTP/2 has other means.
pub(super) fn means_a_connection(name: &HeaderName) -> bool {
    let names = [
        "connection",
        "host",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ];
    names.contains(&name.as_str())
}

/// Sends a request on a separate connection. Returns the status of the response.
pub(super) async fn ask_status(
    stream: ConnectionStream,
    request: hyper::Request<Http2Body>,
) -> io::Result<u16> {
    let made = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = made.map_err(io::Error::other)?;
    let asked = sender.send_request(request);
    tokio::select! {
        answer = asked => Ok(answer.map_err(io::Error::other)?.status().as_u16()),
        ended = connection => Err(match ended {
            Ok(()) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => io::Error::other(error),
        }),
    }
}

impl Client {
    /// Returns the shared connection; opens a new one if it has ended.
    pub(super) async fn shared_connection(
        &mut self,
        lane: &SharedConnection,
    ) -> Result<OpenConnection, RequestResult> {
        let slot = self.slot.clone();
        let limit = duration_nanos(self.worker.shared.phase.connect_limit);
        let until = self.worker.shared.clock.nanos_now().saturating_add(limit);
        slot.set_deadline(until);
        let mut held = match slot.unless_kicked(lane.0.lock()).await {
            Ok(held) => held,
            Err(ClientSignal::Late) => return Err(RequestResult::Timeout(RequestPhase::Connect)),
            Err(ClientSignal::Stop) => return Err(self.stopped_result()),
        };
        let usable =
            |shared: &&OpenConnection| !shared.sender.is_closed() && !shared.fate.is_spent();
        if let Some(shared) = held.as_ref().filter(usable) {
            return Ok(shared.clone());
        }
        *held = None;
        let stream = self.connect_stream().await?;
        let fate = Arc::<ConnectionEnd>::default();
        let noted = MonitoredConnection {
            stream,
            fate: fate.clone(),
        };
        slot.set_deadline(until);
        let made = slot
            .unless_kicked(
                http2::Builder::new(CurrentThreadExecutor)
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(WINDOW)
                    .handshake(TokioIo::new(noted)),
            )
            .await;
        slot.set_deadline(0);
        let (sender, connection) = match made {
            Ok(Ok(made)) => made,
            Ok(Err(error)) => return Err(fate.classify_end(&error, RequestPhase::Connect)),
            Err(ClientSignal::Late) => return Err(RequestResult::Timeout(RequestPhase::Connect)),
            Err(ClientSignal::Stop) => return Err(self.stopped_result()),
        };
        // The clients that wait for responses see how the connection ends.
        tokio::task::spawn_local(async move { drop(connection.await) });
        let shared = OpenConnection {
            sender,
            fate,
            fresh: Rc::new(Cell::new(true)),
        };
        *held = Some(shared.clone());
        Ok(shared)
    }

    /// Sends a request as a stream.
    pub(super) async fn sent_as_stream(
        &mut self,
        lane: &SharedConnection,
        choice: &DrawnRequest,
        place: RingIndex,
    ) -> RequestEnd {
        let worker = self.worker.clone();
        let limit = duration_nanos(worker.shared.phase.request_limit);
        let mut again = false;
        loop {
            let mut shared = match self.shared_connection(lane).await {
                Ok(shared) => shared,
                Err(ended) => return self.make_end(ended, RequestPhase::Connect, 0, true, false),
            };
            let fresh = shared.fresh.replace(false);
            self.slot.set_deadline(self.now.saturating_add(limit));
            let (went, part, bytes) = self.request_stream(&mut shared, choice, fresh).await;
            self.slot.set_deadline(0);
            let ended = match went {
                Ok(verdict) => {
                    let ended = match verdict {
                        ResponseVerdict::Good => RequestResult::Ok,
                        ResponseVerdict::Status(status) => RequestResult::Status(status),
                        ResponseVerdict::Check(name) => RequestResult::Check(name),
                    };
                    return self.make_end(ended, RequestPhase::Body, bytes, fresh, true);
                }
                Err(Http2Error::Refused(_)) if !again && worker.stop.get() == ClientStop::No => {
                    again = true;
                    shared.fate.spent.store(true, Ordering::Relaxed);
                    let now = worker.shared.clock.nanos_now();
                    worker.record.borrow_mut().note_resent(place, now);
                    continue;
                }
                Err(Http2Error::Refused(ended) | Http2Error::Failed(ended)) => ended,
                Err(Http2Error::Kicked(ClientSignal::Late)) => RequestResult::Timeout(part),
                Err(Http2Error::Kicked(ClientSignal::Stop)) => self.stopped_result(),
            };
            return self.make_end(ended, part, bytes, fresh, false);
        }
    }

    async fn request_stream(
        &mut self,
        shared: &mut OpenConnection,
        choice: &DrawnRequest,
        fresh: bool,
    ) -> (Result<ResponseVerdict, Http2Error>, RequestPhase, u64) {
        let worker = self.worker.clone();
        let requests = &worker.shared.requests;
        let expected = &requests.kinds[choice.kind].expected;
        self.seen.begin_answer(expected);
        let request = requests.http2_request(&worker.shared.target, choice);
        let answer = match self
            .slot
            .unless_kicked(shared.sender.send_request(request))
            .await
        {
            Ok(Ok(answer)) => answer,
            // The request was not sent, because the connection was being closed.
            Ok(Err(error)) if error.is_canceled() && !shared.fate.is_known() => {
                let ended = RequestResult::ClosedEarly(RequestPhase::Write);
                return (Err(Http2Error::Refused(ended)), RequestPhase::Write, 0);
            }
            // A server may close a connection at any time. It is not always known whether it saw
            // the request before.
            Ok(Err(error)) if !fresh && shared.fate.is_ordinary(&error) => {
                let ended = shared.fate.classify_end(&error, RequestPhase::Head);
                return (Err(Http2Error::Refused(ended)), RequestPhase::Head, 0);
            }
            Ok(Err(error)) => {
                let ended = shared.fate.classify_end(&error, RequestPhase::Head);
                return (Err(Http2Error::Failed(ended)), RequestPhase::Head, 0);
            }
            Err(kick) => return (Err(Http2Error::Kicked(kick)), RequestPhase::Head, 0),
        };
        worker.alive.set(true);
        let mut checking = ResponseChecker {
            expected,
            seen: &mut self.seen,
        };
        let status = answer.status().as_u16();
        if expected.has_headers() {
            let headers: Vec<httparse::Header<'_>> = answer
                .headers()
                .iter()
                .map(|(name, value)| httparse::Header {
                    name: name.as_str(),
                    value: value.as_bytes(),
                })
                .collect();
            checking.on_head(status, &headers);
        } else {
            checking.on_head(status, &[]);
        }
        // The size of the headers in HTTP/1.1: names, values and separators.
        let lines = answer.headers().iter();
        let lines = lines.map(|(name, value)| name.as_str().len() + value.len() + 4);
        let mut bytes = lines.sum::<usize>() as u64;
        let mut body = answer.into_body();
        loop {
            match self.slot.unless_kicked(body.frame()).await {
                Ok(None) => break,
                Ok(Some(Ok(frame))) => {
                    worker.alive.set(true);
                    if let Some(data) = frame.data_ref() {
                        bytes += data.len() as u64;
                        let mut checking = ResponseChecker {
                            expected,
                            seen: &mut self.seen,
                        };
                        checking.on_body(data);
                    }
                }
                Ok(Some(Err(error))) => {
                    let ended = shared.fate.classify_end(&error, RequestPhase::Body);
                    return (Err(Http2Error::Failed(ended)), RequestPhase::Body, bytes);
                }
                Err(kick) => return (Err(Http2Error::Kicked(kick)), RequestPhase::Body, bytes),
            }
        }
        (
            Ok(self.seen.judge_answer(expected)),
            RequestPhase::Body,
            bytes,
        )
    }
}

/// Reason for a missing response.
enum Http2Error {
    /// The request was not sent, or its connection was about to end. Contains the result of the
    /// request if it is not sent again.
    Refused(RequestResult),
    Failed(RequestResult),
    Kicked(ClientSignal),
}

impl ConnectionEnd {
    fn is_known(&self) -> bool {
        self.errno.load(Ordering::Relaxed) != 0 || self.ended.load(Ordering::Relaxed)
    }

    /// Returns whether the connection accepts no further requests.
    fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed) || self.is_known()
    }

    /// Returns whether the connection was closed normally before the response.
    fn is_ordinary(&self, error: &hyper::Error) -> bool {
        let clean = self.errno.load(Ordering::Relaxed) == 0 && self.ended.load(Ordering::Relaxed);
        clean || error.is_canceled() || went_away(error)
    }

    /// Returns the result of a request on this connection.
    fn classify_end(&self, error: &hyper::Error, part: RequestPhase) -> RequestResult {
        let errno = self.errno.load(Ordering::Relaxed);
        if errno != 0 {
            return classify_error(&io::Error::from_raw_os_error(errno), part);
        }
        if self.ended.load(Ordering::Relaxed) || went_away(error) {
            return RequestResult::ClosedEarly(part);
        }
        let mut said = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(why) = cause {
            said = format!("{said}: {why}");
            cause = why.source();
        }
        RequestResult::Protocol(said)
    }
}

/// Returns whether the server announced, without an error, that it accepts no further requests on
/// this connection.
fn went_away(error: &hyper::Error) -> bool {
    // Match the text of a GOAWAY with NO_ERROR, because only a library below `hyper` knows its
    // number.
    let mut cause = std::error::Error::source(error);
    while let Some(why) = cause {
        if why.to_string().starts_with(GOAWAY) {
            return true;
        }
        cause = why.source();
    }
    false
}

/// A connection that records how it ends.
struct MonitoredConnection {
    stream: ConnectionStream,
    fate: Arc<ConnectionEnd>,
}

impl MonitoredConnection {
    fn note_error<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &result {
            match error.raw_os_error() {
                Some(errno) => self.fate.errno.store(errno, Ordering::Relaxed),
                None => self.fate.ended.store(true, Ordering::Relaxed),
            }
        }
        result
    }
}

impl AsyncRead for MonitoredConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, to);
        if matches!(read, Poll::Ready(Ok(()))) && to.filled().len() == before {
            self.fate.ended.store(true, Ordering::Relaxed);
        }
        self.note_error(read)
    }
}

impl AsyncWrite for MonitoredConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_error(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.note_error(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.note_error(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.note_error(shut)
    }
}
