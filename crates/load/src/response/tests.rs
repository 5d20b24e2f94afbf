//! Tests with examples, with hyper as the reference, and with random bytes.

use super::*;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Stores the observed response.
#[derive(Debug, Default, PartialEq, Eq)]
struct ReceivedResponse {
    status: u16,
    headers: usize,
    body: Vec<u8>,
}

impl ResponseObserver for ReceivedResponse {
    fn on_head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.status = status;
        self.headers = headers.len();
    }

    fn on_body(&mut self, bytes: &[u8]) {
        self.body.extend_from_slice(bytes);
    }
}

/// Reads a response in pieces of this size. Returns the response, the number of remaining bytes,
/// whether the response is complete, and whether the connection can be reused.
fn read(
    answer: &[u8],
    piece: usize,
    head: bool,
) -> Result<(ReceivedResponse, usize, bool, bool), ResponseError> {
    let mut reader = ResponseReader::new();
    reader.begin_answer(head);
    let mut kept = ReceivedResponse::default();
    let mut used = 0;
    for part in answer.chunks(piece) {
        let taken = reader.feed_bytes(part, &mut kept)?;
        used += taken;
        if taken < part.len() {
            break;
        }
    }
    let done = reader.is_done();
    let ended = done || reader.end_of_connection();
    Ok((kept, answer.len() - used, ended, done && reader.is_kept()))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn responses_of_every_framing_are_read_in_pieces_of_every_size() {
    let cases: [(&str, u16, &str, bool, bool); 14] = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            200,
            "hello",
            true,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            200,
            "",
            true,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
            200,
            "hello",
            false,
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;a=\"b\"\r\nllo\r\n0\r\n\r\n",
            200,
            "hello",
            true,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\ncontent-length: 3\r\n\r\n5 \r\nhello\r\n0;x\r\nA: b\r\nC: d\r\n\r\n",
            200,
            "hello",
            true,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            200,
            "hel",
            false,
            false,
        ),
        (
            "HTTP/1.1 200 OK\r\n\r\nuntil the end",
            200,
            "until the end",
            true,
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
            true,
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
            true,
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
            200,
            "ok",
            true,
            false,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true, true),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            304,
            "",
            true,
            true,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!",
            200,
            "!",
            true,
            true,
        ),
        (
            "HTTP/1.1 200\nContent-Length: 2\n\nok",
            200,
            "ok",
            true,
            true,
        ),
    ];
    for (answer, status, body, whole, kept) in cases {
        for piece in 1..=answer.len() {
            let (seen, left, ended, keep) = read(answer.as_bytes(), piece, false).unwrap();
            assert_eq!(seen.status, status, "{answer:?} by {piece}");
            assert_eq!(seen.body, body.as_bytes(), "{answer:?} by {piece}");
            assert_eq!(
                (left, ended, keep),
                (0, whole, kept),
                "{answer:?} by {piece}"
            );
        }
    }
}

#[test]
fn the_response_to_a_head_request_has_no_body() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
    let (seen, left, ended, kept) = read(answer, 7, true).unwrap();
    assert_eq!((seen.status, left, ended, kept), (200, 0, true, true));
}

#[test]
fn bytes_after_a_response_are_not_consumed() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more";
    let (seen, left, _, _) = read(answer, 1000, false).unwrap();
    assert_eq!((&seen.body[..], left), (&b"ok"[..], 9));
}

#[test]
fn malformed_responses_are_errors() {
    let faults = [
        (
            "nonsense\r\n\r\n",
            ResponseError::Head(httparse::Error::Version),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            ResponseError::Length,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            ResponseError::Length,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            ResponseError::Length,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            ResponseError::TwoLengths,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            ResponseError::ChunkSize,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            ResponseError::ChunkSize,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
            ResponseError::ChunkSize,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello",
            ResponseError::ChunkEnd,
        ),
    ];
    for (answer, fault) in faults {
        for piece in 1..=answer.len() {
            assert_eq!(read(answer.as_bytes(), piece, false).unwrap_err(), fault);
        }
    }
}

#[test]
fn long_heads_chunk_sizes_and_trailers_are_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LONGEST_HEAD + 1));
    assert_eq!(
        read(long.as_bytes(), 1000, false).unwrap_err(),
        ResponseError::LongHead
    );
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let long = format!("{chunked}1;{}", "x".repeat(LONGEST_SIZE + 1));
    assert_eq!(
        read(long.as_bytes(), 1000, false).unwrap_err(),
        ResponseError::ChunkSize
    );
    let long = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(LONGEST_HEAD / 5));
    assert_eq!(
        read(long.as_bytes(), 1000, false).unwrap_err(),
        ResponseError::LongHead
    );
}

/// Reads a response in these pieces, and then the end of the connection. Returns the response if it
/// is complete.
fn read_pieces(pieces: &[&[u8]]) -> Option<(u16, Vec<u8>)> {
    let mut reader = ResponseReader::new();
    reader.begin_answer(false);
    let mut kept = ReceivedResponse::default();
    for piece in pieces {
        let taken = reader.feed_bytes(piece, &mut kept).ok()?;
        assert!(taken <= piece.len());
        if reader.is_done() {
            break;
        }
        assert_eq!(taken, piece.len(), "all is taken as long as more is wanted");
    }
    (reader.is_done() || reader.end_of_connection()).then_some((kept.status, kept.body))
}

/// Reads a response and the end of the connection with hyper.
fn read_with_hyper(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (here, mut there) = tokio::io::duplex(1 << 20);
        let io = hyper_util::rt::TokioIo::new(here);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
        let request = hyper::Request::new(Empty::<Bytes>::new());
        let asked = async {
            let answer = sender.send_request(request).await.ok()?;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.ok()?;
            Some((status, body.to_bytes().to_vec()))
        };
        let answered = async {
            // hyper reads a response only after it has sent a request.
            let _ = there.read(&mut [0; 1024]).await;
            let _ = there.write_all(answer).await;
            drop(there);
        };
        let connected = async { drop(connection.await) };
        tokio::join!(asked, answered, connected).0
    })
}

/// Returns valid and nearly valid responses.
fn any_response() -> impl Strategy<Value = Vec<u8>> {
    let before = select(vec![
        "",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    ]);
    let line = select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 304 Not Modified\r\n",
        "HTTP/1.1 404 \r\n",
        "HTTP/1.1 500\r\n",
    ]);
    let headers = vec(
        select(vec![
            "Connection: close\r\n",
            "connection: Keep-Alive\r\n",
            "X-Empty:\r\n",
            "X-A: b: c\r\n",
            "Content-Type: text/plain\r\n",
            "Content-Length: 3\r\n",
        ]),
        0..3,
    );
    let sizes = vec(0_usize..40, 0..4);
    let framing = 0..6_u8;
    let parts = (before, line, headers, framing, sizes, any::<bool>());
    parts.prop_map(|(before, line, headers, framing, sizes, cut)| {
        let mut answer = [before, line, &headers.concat()].concat().into_bytes();
        let all = sizes.iter().sum::<usize>();
        match framing {
            0 => {
                answer.extend(format!("Content-Length: {all}\r\n\r\n").into_bytes());
                answer.resize(answer.len() + all, b'b');
            }
            1 => {
                answer.extend(b"\r\n");
                answer.resize(answer.len() + all, b'b');
            }
            2 => answer.extend(b"Content-Length: 0\r\n\r\n"),
            _ => {
                answer.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for size in sizes.into_iter().filter(|size| *size > 0) {
                    let extension = if framing == 3 { ";a=b; c=\"d\"" } else { "" };
                    let size_line = if framing == 4 {
                        format!("{size:04X}{extension}\r\n")
                    } else {
                        format!("{size:x}{extension}\r\n")
                    };
                    answer.extend(size_line.into_bytes());
                    answer.resize(answer.len() + size, b'b');
                    answer.extend(b"\r\n");
                }
                answer.extend(b"0\r\n");
                if framing == 5 {
                    answer.extend(b"Trailer: x\r\nOther: y\r\n");
                }
                answer.extend(b"\r\n");
            }
        }
        if cut {
            answer.pop();
        }
        answer
    })
}

/// Cuts a response at these positions.
fn cut<'a>(answer: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(answer.len() + 1)).collect();
    cuts.extend([0, answer.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| &answer[pair[0]..pair[1]])
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_reader_agrees_with_hyper(answer in any_response(), cuts in vec(any::<Index>(), 0..10)) {
        let ours = read_pieces(&cut(&answer, &cuts));
        let text = String::from_utf8_lossy(&answer).into_owned();
        prop_assert_eq!(ours, read_with_hyper(&answer), "{}", text);
    }

    #[test]
    fn a_damaged_response_is_read_the_same_in_any_pieces(
        answer in any_response(),
        noise in vec((any::<Index>(), any::<u8>(), 0..4_u8), 1..4),
        cuts in vec(any::<Index>(), 0..10),
    ) {
        let mut answer = answer;
        for (place, byte, what) in noise {
            let at = place.index(answer.len().max(1));
            match what {
                _ if answer.is_empty() => {}
                0 => answer[at] = byte,
                1 => answer.insert(at, byte),
                2 => drop(answer.remove(at)),
                _ => answer[at] = b"\r\n :;,0"[usize::from(byte) % 7],
            }
        }
        let whole = read_pieces(&[&answer]);
        let single: Vec<&[u8]> = answer.chunks(1).collect();
        prop_assert_eq!(&whole, &read_pieces(&cut(&answer, &cuts)));
        prop_assert_eq!(&whole, &read_pieces(&single));
    }

    #[test]
    fn random_bytes_do_not_panic(noise in vec(any::<u8>(), 0..300), cuts in vec(any::<Index>(), 0..10)) {
        let _ = read_pieces(&cut(&noise, &cuts));
    }
}
