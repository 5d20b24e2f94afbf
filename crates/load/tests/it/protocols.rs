//! Tests TLS, HTTP/2, and Unix sockets.

use super::{TrialEvents, assert_counts_add_up, count, drive_checked, load};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use provoke_model::{
    FilePick, HttpVersion, LoadObservation, LoadStage, ReadyCondition, RequestBody, RequestResult,
    Text,
};
use provoke_test_needs::{localhost, needs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/certificates");

fn certificate_file(name: &str) -> Text {
    Text::from(Path::new(CERTIFICATES).join(name))
}

/// Returns a digest of a body.
fn body_digest(body: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, body);
    format!("{digest:?}").replace(':', "-")
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let status = if request.uri().path() == "/" {
        200
    } else {
        404
    };
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let answer = Response::builder()
        .status(status)
        .header("x-kind", "test")
        .header("x-body", body_digest(&body));
    Ok(answer.body(Full::from("hello")).unwrap())
}

/// Starts a server in a thread that lives until the process ends. Returns the port.
fn serve(tls: Option<TlsAcceptor>, is_http2: bool) -> u16 {
    let (tell, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap().port()).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        None => serve_connection_of(stream, is_http2).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve_connection_of(stream, is_http2).await;
                            }
                        }
                    }
                });
            }
        });
    });
    port.recv().unwrap()
}

async fn serve_connection_of<S>(stream: S, is_http2: bool)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let service = service_fn(answer);
    // The end of a connection is not checked here.
    if is_http2 {
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(builder.serve_connection(io, service).await);
    } else {
        let builder = hyper::server::conn::http1::Builder::new();
        drop(builder.serve_connection(io, service).await);
    }
}

fn tls_acceptor(is_http2: bool) -> TlsAcceptor {
    let path = |name| Path::new(CERTIFICATES).join(name);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(path("server.pem")).unwrap()],
            PrivateKeyDer::from_pem_file(path("server.key")).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![if is_http2 {
        b"h2".to_vec()
    } else {
        b"http/1.1".to_vec()
    }];
    TlsAcceptor::from(Arc::new(config))
}

fn assert_all_succeeded(seen: &LoadObservation) {
    assert_eq!(
        (count(seen, &RequestResult::Ok), seen.served),
        (1000, 1000),
        "{seen:?}"
    );
}

#[test]
fn a_tls_service_with_a_custom_ca_is_loaded() {
    needs!(localhost());
    let port = serve(Some(tls_acceptor(false)), false);
    let mut load = load(&format!("https://localhost:{port}"), 8, 1000);
    load.target.ca = Some(certificate_file("ca.pem"));
    load.target.identity = Some((
        certificate_file("server.pem"),
        certificate_file("server.key"),
    ));
    load.requests[0].expect.body_regex = Some("^hello$".to_owned());
    let seen = drive_checked(&load);
    assert_all_succeeded(&seen);
    assert_eq!(seen.connections, 8);
}

#[test]
fn an_untrusted_certificate_is_reported() {
    let port = serve(Some(tls_acceptor(false)), false);
    let mut load = load(&format!("https://127.0.0.1:{port}"), 1, 2);
    let seen = drive_checked(&load);
    let tls = |ended: &RequestResult| matches!(ended, RequestResult::Tls(why) if why.contains("UnknownIssuer"));
    assert!(seen.ends.keys().all(tls), "{:?}", seen.ends);
    load.target.insecure = true;
    assert_eq!(drive_checked(&load).served, 2);
}

/// A wait for the connection would take an hour.
#[test]
fn an_impossible_tls_connection_fails_without_waiting() {
    let (plain, tls) = (serve(None, false), serve(Some(tls_acceptor(false)), false));
    for (port, insecure, http, words) in [
        (tls, false, HttpVersion::One, "not trusted"),
        (
            tls,
            true,
            HttpVersion::Two,
            "does not support HTTP/2: --http 1.1",
        ),
        (plain, true, HttpVersion::One, "use http:// in the URL"),
    ] {
        let mut load = load(&format!("https://127.0.0.1:{port}"), 1, 2);
        load.target.insecure = insecure;
        load.target.http = http;
        load.ready_limit = Duration::from_secs(3600);
        for ready in [
            ReadyCondition::Connects,
            ReadyCondition::Http {
                path: "/".to_owned(),
                status: None,
            },
        ] {
            load.ready = ready;
            let seen = TrialEvents::new().drive(&load);
            let trouble = seen.trouble.unwrap();
            assert!(trouble.contains(words), "{trouble}");
            assert_eq!((seen.stage, seen.sent), (LoadStage::Starting, 0));
        }
    }
}

#[test]
fn http2_streams_share_connections() {
    for secure in [false, true] {
        let port = serve(secure.then(|| tls_acceptor(true)), true);
        let scheme = if secure { "https" } else { "http" };
        let mut load = load(&format!("{scheme}://127.0.0.1:{port}"), 150, 1000);
        load.target.ca = Some(certificate_file("ca.pem"));
        load.target.http = if secure {
            HttpVersion::Two
        } else {
            HttpVersion::TwoPrior
        };
        load.requests[0].expect.headers = vec![("X-Kind".to_owned(), "test".to_owned())];
        load.requests[0].expect.body_regex = Some("^hello$".to_owned());
        let seen = drive_checked(&load);
        assert_all_succeeded(&seen);
        assert_eq!(seen.connections, 2);
    }
}

#[test]
fn a_long_body_is_sent_as_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("body");
    let body = super::sent_requests::long_body();
    std::fs::write(&path, &body).unwrap();
    let sum = body_digest(&body);
    for (is_http2, base) in [
        (true, format!("http://127.0.0.1:{}", serve(None, true))),
        (
            false,
            format!(
                "https://127.0.0.1:{}",
                serve(Some(tls_acceptor(false)), false)
            ),
        ),
    ] {
        let mut load = load(&base, 2, 3);
        load.target.insecure = true;
        load.target.http = if is_http2 {
            HttpVersion::TwoPrior
        } else {
            HttpVersion::One
        };
        load.requests[0].method = "POST".to_owned();
        load.requests[0].body = RequestBody::Files {
            files: vec![Text::from(path.as_path())],
            pick: FilePick::Cycle,
        };
        load.requests[0].expect.headers = vec![("x-body".to_owned(), sum.clone())];
        let seen = drive_checked(&load);
        assert_eq!(count(&seen, &RequestResult::Ok), 3, "{:?}", seen.ends);
    }
}

#[test]
fn http2_without_alpn_agreement_is_reported() {
    let port = serve(Some(tls_acceptor(false)), false);
    let mut load = load(&format!("https://127.0.0.1:{port}"), 1, 2);
    load.target.insecure = true;
    load.target.http = HttpVersion::Two;
    let seen = drive_checked(&load);
    assert!(
        seen.ends
            .keys()
            .all(|ended| matches!(ended, RequestResult::Tls(_))),
        "{:?}",
        seen.ends
    );
}

/// Answers this many streams of a connection, sends GOAWAY, and ends.
fn answer_then_goaway(mut stream: std::net::TcpStream, most: u32) -> std::io::Result<()> {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface)?;
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])?;
    let mut answered = 0;
    while answered < most {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut rest = vec![0; length as usize];
        stream.read_exact(&mut rest)?;
        let id = &head[5..];
        match (head[3], head[4] & 1) {
            (SETTINGS, 0) => stream.write_all(&[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0])?,
            (HEADERS, _) => {
                // `:status: 200` is entry 8 of the static table.
                let answer = [&[0, 0, 1, HEADERS, 4 | 1], id, &[0x88]].concat();
                answered += 1;
                if answered == most {
                    // No error, and this stream was the last.
                    let goaway = [&[0, 0, 8, 7, 0, 0, 0, 0, 0], id, &[0, 0, 0, 0]].concat();
                    stream.write_all(&goaway)?;
                }
                stream.write_all(&answer)?;
            }
            _ => {}
        }
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    std::io::copy(&mut stream, &mut std::io::sink())?;
    Ok(())
}

#[test]
fn an_http2_connection_closed_with_goaway_is_not_a_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // It ends when the client does.
            std::thread::spawn(move || drop(answer_then_goaway(stream.unwrap(), 100)));
        }
    });
    let mut load = load(&base, 6, 3000);
    load.target.http = HttpVersion::TwoPrior;
    let seen = drive_checked(&load);
    assert_eq!(
        (count(&seen, &RequestResult::Ok), seen.served),
        (3000, 3000),
        "{:?}",
        seen.ends
    );
    assert!(
        count(&seen, &RequestResult::ClosedIdle) > 0,
        "{:?}",
        seen.ends
    );
    assert!((30..=31).contains(&seen.connections), "{seen:?}");
}

#[test]
fn http2_streams_in_flight_at_a_crash_are_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let events = TrialEvents::new();
    let death = events.death.clone();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The response to every request is an empty SETTINGS frame.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        let mut frames = Vec::new();
        while frames
            .windows(5)
            .filter(|bytes| bytes[0] == 1 && bytes[1] & 4 != 0)
            .count()
            < 1
        {
            let mut buffer = [0; 4096];
            let count = stream.read(&mut buffer).unwrap();
            frames.extend_from_slice(&buffer[..count]);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        death.send_replace(Some(Instant::now()));
        loop {
            std::thread::park(); // the connection stays open
        }
    });
    let mut load = load(&base, 5, 100);
    load.target.http = HttpVersion::TwoPrior;
    let seen = events.drive(&load);
    assert_counts_add_up(&seen);
    assert_eq!(count(&seen, &RequestResult::Died), 5, "{:?}", seen.ends);
    assert_eq!(seen.death.unwrap().in_flight, 5);
}

#[test]
fn a_service_on_a_unix_socket_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket-3");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                    drop(stream.write_all(answer));
                }
            });
        }
    });
    let mut load = load("", 4, 1000);
    load.target.unix = Some(Text::from(folder.path().join("socket-{slot}")));
    let events = TrialEvents::new();
    let mut trial = events.service_trial(&load);
    trial.fill = vec![("{slot}", "3".to_owned())];
    let seen = super::run(provoke_load::drive_service(trial));
    assert_all_succeeded(&seen);
    // This socket does not exist.
    load.target.unix = Some(Text::from(folder.path().join("none")));
    load.amount = provoke_model::LoadLimit::Requests(2);
    assert_eq!(count(&drive_checked(&load), &RequestResult::Refused), 2);
}
