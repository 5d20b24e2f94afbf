//! HTTP/2 connections, which clients share.
//!
//! `hyper` implements the protocol. It converts different errors to one text, so the connection
//! records the number of an error before `hyper` sees it.

use super::body::Http2Body;
use super::connect::{ConnectionStream, classify_error};
use super::target::Target;
use hyper::client::conn::http2;
use hyper::header::HeaderName;
use hyper_util::rt::{TokioExecutor, TokioIo};
use provoke_model::{RequestPhase, RequestResult};
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
pub(super) struct SharedConnection(pub(super) Mutex<Option<OpenConnection>>);

#[derive(Clone)]
pub(super) struct OpenConnection {
    pub(super) sender: http2::SendRequest<Http2Body>,
    pub(super) fate: Arc<ConnectionEnd>,
    /// No request has used the connection yet.
    pub(super) fresh: Rc<Cell<bool>>,
}

impl OpenConnection {
    /// Opens HTTP/2 on a stream. The current thread drives the connection from now on.
    pub(super) async fn open(stream: ConnectionStream) -> Result<Self, RequestResult> {
        let fate = Arc::<ConnectionEnd>::default();
        let monitored = MonitoredConnection {
            stream,
            fate: fate.clone(),
        };
        let (sender, connection) = http2::Builder::new(CurrentThreadExecutor)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(monitored))
            .await
            .map_err(|error| fate.classify_end(&error, RequestPhase::Connect))?;
        // The clients that wait for responses see how the connection ends.
        tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Self {
            sender,
            fate,
            fresh: Rc::new(Cell::new(true)),
        })
    }

    /// Returns whether the connection accepts requests.
    pub(super) fn is_usable(&self) -> bool {
        !self.sender.is_closed() && !self.fate.is_spent()
    }
}

/// How the connection ended.
#[derive(Default)]
pub(super) struct ConnectionEnd {
    errno: AtomicI32,
    has_ended: AtomicBool,
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
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(io::Error::other)?;
    let response = sender.send_request(request);
    tokio::select! {
        answer = response => Ok(answer.map_err(io::Error::other)?.status().as_u16()),
        ended = connection => Err(match ended {
            Ok(()) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => io::Error::other(error),
        }),
    }
}

impl ConnectionEnd {
    /// Returns whether the connection has ended.
    pub(super) fn is_known(&self) -> bool {
        self.errno.load(Ordering::Relaxed) != 0 || self.has_ended.load(Ordering::Relaxed)
    }

    /// Uses another connection for later requests.
    pub(super) fn mark_spent(&self) {
        self.spent.store(true, Ordering::Relaxed);
    }

    /// Returns whether the connection accepts no further requests.
    fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed) || self.is_known()
    }

    /// Returns whether the connection was closed normally before the response.
    pub(super) fn is_ordinary(&self, error: &hyper::Error) -> bool {
        let clean =
            self.errno.load(Ordering::Relaxed) == 0 && self.has_ended.load(Ordering::Relaxed);
        clean || error.is_canceled() || went_away(error)
    }

    /// Returns the result of a request on this connection.
    pub(super) fn classify_end(&self, error: &hyper::Error, phase: RequestPhase) -> RequestResult {
        let errno = self.errno.load(Ordering::Relaxed);
        if errno != 0 {
            return classify_error(&io::Error::from_raw_os_error(errno), phase);
        }
        if self.has_ended.load(Ordering::Relaxed) || went_away(error) {
            return RequestResult::ClosedEarly(phase);
        }
        let mut description = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            description = format!("{description}: {source}");
            cause = source.source();
        }
        RequestResult::Protocol(description)
    }
}

/// Returns whether the server announced, without an error, that it accepts no further requests on
/// this connection.
fn went_away(error: &hyper::Error) -> bool {
    // Match the text of a GOAWAY with NO_ERROR, because only a library below `hyper` knows its
    // number.
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        if source.to_string().starts_with(GOAWAY) {
            return true;
        }
        cause = source.source();
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
                None => self.fate.has_ended.store(true, Ordering::Relaxed),
            }
        }
        result
    }
}

impl AsyncRead for MonitoredConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled_before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == filled_before {
            self.fate.has_ended.store(true, Ordering::Relaxed);
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
