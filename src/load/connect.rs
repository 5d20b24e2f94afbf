//! Opens connections, and classifies their errors.

use super::acks::Acks;
use super::target::Target;
use super::tls::{self, Tls};
use crate::model::{Ended, Part};
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
    way: Way,
    /// Index of the address that accepted last: often a service listens at only one address of a
    /// name.
    preferred: AtomicUsize,
    tls: Option<Tls>,
    /// Detection of responses that wait for a delayed acknowledgement.
    pub(super) acks: Acks,
}

enum Way {
    Unix(PathBuf),
    Addresses(Vec<SocketAddr>),
    /// The name is resolved for each connection.
    Name(String, u16),
}

/// A connection, plain or TLS.
pub(super) enum Stream {
    Plain(Plain),
    Secure(Box<TlsStream<Plain>>),
}

/// A connection of the operating system.
pub(super) enum Plain {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Acknowledges received data at once, instead of with the next data to send.
    pub(super) fn acknowledge_now(&self) {
        let plain = match self {
            Self::Plain(plain) => plain,
            Self::Secure(stream) => stream.get_ref().0,
        };
        if let Plain::Tcp(stream) = plain {
            // On an error, the acknowledgement is merely late.
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, true);
        }
    }
}

/// Reason why a connection failed.
#[derive(Debug)]
pub(super) enum NoWay {
    Io(io::Error),
    Dns(String),
}

impl NoWay {
    pub(super) fn into_ended(self) -> Ended {
        match self {
            Self::Io(error) => classify_error(&error, Part::Connect),
            Self::Dns(said) => Ended::Dns(said),
        }
    }
}

impl Dialer {
    /// Creates a dialer, and resolves the name of the target unless `each` connection resolves it.
    pub(super) fn new(target: &Target, each: bool, tls: Option<Tls>) -> Result<Self, String> {
        let way = match &target.unix {
            Some(path) => Way::Unix(path.clone()),
            None if each => Way::Name(target.host.clone(), target.port),
            None => Way::Addresses(target.resolve_addresses()?),
        };
        Ok(Self {
            way,
            preferred: AtomicUsize::new(0),
            tls,
            acks: Acks::default(),
        })
    }

    pub(super) async fn connect_target(&self) -> Result<Stream, NoWay> {
        let plain = self.connect_plain().await?;
        let Some(tls) = &self.tls else {
            return Ok(Stream::Plain(plain));
        };
        let stream = tls.connector.connect(tls.name.clone(), plain).await;
        let stream = stream.map_err(NoWay::Io)?;
        if tls.two && stream.get_ref().1.alpn_protocol() != Some(tls::H2) {
            return Err(NoWay::Io(io::Error::other(tls::OtherHttp)));
        }
        Ok(Stream::Secure(Box::new(stream)))
    }

    async fn connect_plain(&self) -> Result<Plain, NoWay> {
        match &self.way {
            Way::Unix(path) => loop {
                match UnixStream::connect(path).await {
                    Ok(stream) => return Ok(Plain::Unix(stream)),
                    Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => return Err(NoWay::Io(error)),
                }
            },
            Way::Addresses(addresses) => self.connect_first_reachable(addresses).await,
            Way::Name(host, port) => {
                let found = tokio::net::lookup_host((&host[..], *port)).await;
                let found: Vec<SocketAddr> = match found {
                    Ok(found) => found.collect(),
                    Err(error) => return Err(NoWay::Dns(resolver_said(&error))),
                };
                self.connect_first_reachable(&found).await
            }
        }
    }

    async fn connect_first_reachable(&self, addresses: &[SocketAddr]) -> Result<Plain, NoWay> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let mut failed = NoWay::Dns(String::from("no address"));
        for turn in 0..addresses.len() {
            let at = (preferred + turn) % addresses.len();
            match TcpStream::connect(addresses[at]).await {
                Ok(stream) => {
                    if turn > 0 {
                        self.preferred.store(at, Ordering::Relaxed);
                    }
                    // Disable Nagle's algorithm: a request in two pieces might wait for an
                    // acknowledgement.
                    stream.set_nodelay(true).map_err(NoWay::Io)?;
                    return Ok(Plain::Tcp(stream));
                }
                Err(error) => failed = NoWay::Io(error),
            }
        }
        Err(failed)
    }
}

/// Returns the resolver's message without the prefix of all such errors.
pub(super) fn resolver_said(error: &io::Error) -> String {
    let said = error.to_string();
    let prefix = "failed to lookup address information: ";
    said.strip_prefix(prefix).unwrap_or(&said).to_owned()
}

/// Returns the result of a request whose connection failed in this part.
pub(super) fn classify_error(error: &io::Error, part: Part) -> Ended {
    let Some(errno) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => Ended::ClosedEarly(part),
            _ if part == Part::Connect => Ended::Tls(error.to_string()),
            _ => Ended::Protocol(error.to_string()),
        };
    };
    match Errno::from_raw_os_error(errno) {
        Errno::CONNREFUSED => Ended::Refused,
        Errno::NOENT if part == Part::Connect => Ended::Refused, // the socket file does not exist
        Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::NOMEM => {
            Ended::Local(errno)
        }
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
            Ended::Unreachable(errno)
        }
        Errno::TIMEDOUT => Ended::Timeout(part),
        _ => Ended::Reset(errno, part),
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
    Stream: Plain | Secure;
    Plain: Tcp | Unix;
}
