//! Sends one request on a separate connection, to test whether a service responds.

use super::body::{FileBody, Http2Body};
use super::connect::{ConnectError, Dialer};
use super::http2_connection;
use super::response::{ResponseObserver, ResponseReader};
use super::tls;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Sends one request to a service.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) dialer: Arc<Dialer>,
    /// Bytes of the request, without a body that is not in memory.
    pub(super) bytes: Vec<u8>,
    pub(super) long: Option<FileBody>,
    pub(super) head: bool,
    pub(super) limit: Duration,
    /// The request for HTTP/2, if the target uses it.
    pub(super) two: Option<hyper::Request<Http2Body>>,
}

/// Reason for a missing response.
pub(super) struct ProbeError {
    pub(super) why: String,
    /// Another try would fail in the same way.
    pub(super) lasts: bool,
}

impl ProbeError {
    fn new(error: &io::Error) -> Self {
        let obstacle = tls::tls_obstacle(error);
        Self {
            lasts: obstacle.is_some(),
            why: obstacle.unwrap_or_else(|| error.to_string()),
        }
    }
}

impl From<String> for ProbeError {
    fn from(message: String) -> Self {
        Self {
            why: message,
            lasts: false,
        }
    }
}

#[derive(Default)]
struct ResponseStatus(u16);

impl ResponseObserver for ResponseStatus {
    fn on_head(&mut self, status: u16, _: &[httparse::Header<'_>]) {
        self.0 = status;
    }

    fn on_body(&mut self, _: &[u8]) {}
}

impl Probe {
    /// Sends the request. Returns the status of the response, or the reason why there is none.
    pub(super) async fn ask_status(&self) -> Result<u16, ProbeError> {
        match tokio::time::timeout(self.limit, self.exchange_request()).await {
            Ok(answer) => answer.map_err(|error| ProbeError::new(&error)),
            Err(_) => Err(format!("no response within {:?}", self.limit).into()),
        }
    }

    /// Connects without sending a request. Returns the reason if that fails.
    pub(super) async fn connect_only(&self) -> Result<(), ProbeError> {
        match tokio::time::timeout(self.limit, self.dialer.connect_target()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(ProbeError::new(&io::Error::from(error))),
            Err(_) => Err(format!("no connection within {:?}", self.limit).into()),
        }
    }

    async fn exchange_request(&self) -> io::Result<u16> {
        let mut stream = self.dialer.connect_target().await?;
        if let Some(request) = &self.two {
            return http2_connection::ask_status(stream, request.clone()).await;
        }
        stream.write_all(&self.bytes).await?;
        let (mut chunk, mut sent) = (Vec::new(), 0);
        while let Some(long) = self.long.as_ref().filter(|long| sent < long.length) {
            long.read_chunk(sent, &mut chunk)?;
            sent += chunk.len() as u64;
            stream.write_all(&chunk).await?;
        }
        stream.flush().await?;
        let mut reader = ResponseReader::new();
        reader.begin_answer(self.head);
        let mut status = ResponseStatus::default();
        let mut buffer = [0; 4096];
        while !reader.has_head() {
            let count = stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let read = reader.feed_bytes(&buffer[..count], &mut status);
            read.map_err(io::Error::other)?;
        }
        Ok(status.0)
    }
}

impl From<ConnectError> for io::Error {
    fn from(cause: ConnectError) -> Self {
        match cause {
            ConnectError::Io(error) => error,
            ConnectError::Dns(message) => Self::other(message),
        }
    }
}
