//! Opens connections, and classifies their errors.

use super::target::{Target, resolver_said};
use super::tls::{self, Tls};
use provoke_model::{RequestPhase, RequestResult};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// Time between tries if the queue of a Unix socket is full.
const PAUSE: Duration = Duration::from_millis(1);

/// Connects to a target.
pub(super) struct Dialer {
    address: TargetAddress,
    /// Index of the address that accepted last: often a service listens at only one address of a
    /// name.
    preferred: AtomicUsize,
    tls: Option<Tls>,
}

enum TargetAddress {
    Unix(PathBuf),
    Addresses(Vec<SocketAddr>),
    /// The name is resolved for each connection.
    Name(String, u16),
}

/// A connection, plain or TLS.
pub(super) enum ConnectionStream {
    Plain(PlainStream),
    Secure(Box<TlsStream<PlainStream>>),
}

/// A connection of the operating system.
pub(super) enum PlainStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl ConnectionStream {
    /// Acknowledges received data at once, instead of with the next data to send: a service that writes head and body of a
    /// response in two pieces, with Nagle's algorithm on, sends the second piece when the first is acknowledged.
    pub(super) fn acknowledge_now(&self) {
        let plain = match self {
            Self::Plain(plain) => plain,
            Self::Secure(stream) => stream.get_ref().0,
        };
        if let PlainStream::Tcp(stream) = plain {
            // On an error, the acknowledgement is merely late.
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
        }
    }
}

/// Reason why a connection failed.
#[derive(Debug)]
pub(super) enum ConnectError {
    Io(io::Error),
    Dns(String),
}

impl ConnectError {
    pub(super) fn into_ended(self) -> RequestResult {
        match self {
            Self::Io(error) => classify_error(&error, RequestPhase::Connect),
            Self::Dns(error) => RequestResult::Dns(error),
        }
    }
}

impl Dialer {
    /// Creates a dialer. The name of the target is resolved for each connection if `resolve_each` is set, otherwise
    /// once.
    pub(super) fn new(
        target: &Target,
        resolve_each: bool,
        tls: Option<Tls>,
    ) -> Result<Self, String> {
        let way = match &target.unix {
            Some(path) => TargetAddress::Unix(path.clone()),
            None if resolve_each => TargetAddress::Name(target.host.clone(), target.port),
            None => TargetAddress::Addresses(target.resolve_addresses()?),
        };
        Ok(Self {
            address: way,
            preferred: AtomicUsize::new(0),
            tls,
        })
    }

    pub(super) async fn connect_target(&self) -> Result<ConnectionStream, ConnectError> {
        let plain = self.connect_plain().await?;
        let Some(tls) = &self.tls else {
            return Ok(ConnectionStream::Plain(plain));
        };
        let stream = tls
            .connector
            .connect(tls.name.clone(), plain)
            .await
            .map_err(ConnectError::Io)?;
        if tls.two && stream.get_ref().1.alpn_protocol() != Some(tls::H2) {
            return Err(ConnectError::Io(io::Error::other(tls::Http2Rejected)));
        }
        Ok(ConnectionStream::Secure(Box::new(stream)))
    }

    async fn connect_plain(&self) -> Result<PlainStream, ConnectError> {
        match &self.address {
            TargetAddress::Unix(path) => loop {
                match UnixStream::connect(path).await {
                    Ok(stream) => return Ok(PlainStream::Unix(stream)),
                    Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => return Err(ConnectError::Io(error)),
                }
            },
            TargetAddress::Addresses(addresses) => self.connect_first_reachable(addresses).await,
            TargetAddress::Name(host, port) => {
                let lookup = tokio::net::lookup_host((&host[..], *port)).await;
                let addresses: Vec<SocketAddr> = match lookup {
                    Ok(found_addresses) => found_addresses.collect(),
                    Err(error) => return Err(ConnectError::Dns(resolver_said(&error))),
                };
                self.connect_first_reachable(&addresses).await
            }
        }
    }

    async fn connect_first_reachable(
        &self,
        addresses: &[SocketAddr],
    ) -> Result<PlainStream, ConnectError> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let mut failed = ConnectError::Dns(String::from("no address"));
        for turn in 0..addresses.len() {
            let index = (preferred + turn) % addresses.len();
            match TcpStream::connect(addresses[index]).await {
                Ok(stream) => {
                    if turn > 0 {
                        self.preferred.store(index, Ordering::Relaxed);
                    }
                    // Disable Nagle's algorithm: a request in two pieces might wait for an
                    // acknowledgement.
                    stream.set_nodelay(true).map_err(ConnectError::Io)?;
                    return Ok(PlainStream::Tcp(stream));
                }
                Err(error) => failed = ConnectError::Io(error),
            }
        }
        Err(failed)
    }
}

/// Returns the result of a request whose connection failed in this part.
pub(super) fn classify_error(error: &io::Error, phase: RequestPhase) -> RequestResult {
    let Some(errno) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => RequestResult::ClosedEarly(phase),
            _ if phase == RequestPhase::Connect => RequestResult::Tls(error.to_string()),
            _ => RequestResult::Protocol(error.to_string()),
        };
    };
    match Errno::from_raw_os_error(errno) {
        Errno::CONNREFUSED => RequestResult::Refused,
        Errno::NOENT if phase == RequestPhase::Connect => RequestResult::Refused, // the socket file does not exist
        Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM => {
            RequestResult::Local(errno)
        }
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
            RequestResult::Unreachable(errno)
        }
        Errno::TIMEDOUT => RequestResult::Timeout(phase),
        _ => RequestResult::Reset(errno, phase),
    }
}

/// Delegates reading and writing to one of two stream types.
macro_rules! either {
    ($($stream:ident: $one:ident | $other:ident;)*) => {$(
        impl AsyncRead for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                to: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::$one(stream) => Pin::new(stream).poll_read(cx, to),
                    Self::$other(stream) => Pin::new(stream).poll_read(cx, to),
                }
            }
        }

        impl AsyncWrite for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::$one(stream) => Pin::new(stream).poll_write(cx, bytes),
                    Self::$other(stream) => Pin::new(stream).poll_write(cx, bytes),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                pieces: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match self.get_mut() {
                    Self::$one(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
                    Self::$other(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
                }
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::$one(stream) => Pin::new(stream).poll_flush(cx),
                    Self::$other(stream) => Pin::new(stream).poll_flush(cx),
                }
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                match self.get_mut() {
                    Self::$one(stream) => Pin::new(stream).poll_shutdown(cx),
                    Self::$other(stream) => Pin::new(stream).poll_shutdown(cx),
                }
            }
        }
    )*};
}

either! {
    ConnectionStream: Plain | Secure;
    PlainStream: Tcp | Unix;
}
