//! Provides a server with a thread for each connection, and a function that decides about each request.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A request as a server reads it.
pub(super) struct Request {
    /// Its first line.
    pub(super) line: String,
    pub(super) headers: Vec<String>,
    pub(super) body: Vec<u8>,
    /// Its number, of all requests and on its connection; both from 1.
    pub(super) number: u64,
    pub(super) number_on_connection: u64,
}

impl Request {
    pub(super) fn bytes(&self) -> String {
        let body = String::from_utf8_lossy(&self.body);
        format!("{}\n{}\n\n{body}", self.line, self.headers.join("\n"))
    }
}

/// The fate of a connection after a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Send these bytes, and continue.
    Send(Vec<u8>),
    /// Send these bytes one by one, and continue.
    SendByteByByte(Vec<u8>),
    /// Send these bytes, and close the connection.
    Close(Vec<u8>),
    /// Send these bytes, and reset the connection.
    Reset(Vec<u8>),
    /// Send nothing until the client closes the connection.
    Stall,
}

pub(super) fn ok(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

pub(super) struct Server {
    pub(super) base: String,
    /// Number of requests read so far.
    pub(super) read: Arc<AtomicU64>,
    pub(super) connections: Arc<AtomicU64>,
    pub(super) seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server that lives until the process ends.
    pub(super) fn new(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let server = Self {
            base,
            read: Arc::default(),
            connections: Arc::default(),
            seen: Arc::default(),
        };
        let answer = Arc::new(answer);
        let (read, connections) = (server.read.clone(), server.connections.clone());
        let seen = server.seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, read, seen) = (answer.clone(), read.clone(), seen.clone());
                connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let stream = stream.unwrap();
                    serve(&stream, &*answer, &read, &seen);
                });
            }
        });
        server
    }
}

fn serve(
    stream: &TcpStream,
    answer: &dyn Fn(&Request) -> Reply,
    read: &AtomicU64,
    seen: &Mutex<Vec<String>>,
) {
    stream.set_nodelay(true).unwrap();
    let mut input = BufReader::new(stream);
    for number_on_connection in 1.. {
        let Some(mut request) = receive(&mut input) else {
            return;
        };
        request.number = read.fetch_add(1, Ordering::SeqCst) + 1;
        request.number_on_connection = number_on_connection;
        seen.lock().unwrap().push(request.bytes());
        let mut output = stream;
        match answer(&request) {
            Reply::Send(bytes) => drop(output.write_all(&bytes)),
            Reply::SendByteByByte(bytes) => {
                for byte in bytes {
                    drop(output.write_all(&[byte]));
                }
            }
            Reply::Close(bytes) => {
                drop(output.write_all(&bytes));
                drop(stream.shutdown(Shutdown::Both));
                return;
            }
            Reply::Reset(bytes) => {
                drop(output.write_all(&bytes));
                let socket = rustix::net::sockopt::set_socket_linger(
                    stream,
                    Some(std::time::Duration::ZERO),
                );
                socket.unwrap();
                return;
            }
            Reply::Stall => {
                let _ = input.read(&mut [0]);
                return;
            }
        }
    }
}

fn receive(input: &mut impl std::io::BufRead) -> Option<Request> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        lines.push(line.to_owned());
    }
    let mut length = 0;
    for line in &lines {
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    let line = lines.remove(0);
    Some(Request {
        line,
        headers: lines,
        body,
        number: 0,
        number_on_connection: 0,
    })
}
