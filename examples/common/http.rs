//! Shared code of the example servers: flags, and HTTP/1.1 with a thread for each connection.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;

/// The parts of a request that these servers need.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    close: bool,
}

impl Request {
    /// Returns whether the request has this method and path.
    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        let asked = self.path.split('?').next();
        self.method == method && asked == Some(path)
    }
}

/// Returns the value of a flag, `--flag value`.
pub(crate) fn value<T: FromStr>(flag: &str) -> Option<T> {
    if !has(flag) {
        return None;
    }
    let mut args = std::env::args().skip_while(|arg| arg != flag);
    let value = args.nth(1).and_then(|value| value.parse().ok());
    assert!(value.is_some(), "{flag}: its value makes no sense");
    value
}

/// Returns whether a flag is given.
pub(crate) fn has(flag: &str) -> bool {
    std::env::args().any(|arg| arg == flag)
}

/// Returns a complete response.
pub(crate) fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Serves at `--port` forever; without the flag, at any free port, which is printed.
///
/// `gate` is called before each connection is accepted. `handle` answers a request, and returns whether the connection
/// is kept.
pub(crate) fn serve(
    gate: impl Fn(),
    handle: impl Fn(&Request, &mut TcpStream) -> io::Result<bool> + Send + Sync + 'static,
) -> io::Result<()> {
    let port: u16 = value("--port").unwrap_or(0);
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
    let handle = Arc::new(handle);
    for stream in listener.incoming() {
        gate();
        let (stream, handle) = (stream?, Arc::clone(&handle));
        // Errors of a connection are not handled.
        let _ = stream.set_nodelay(true);
        std::thread::spawn(move || follow(stream, &*handle));
    }
    Ok(())
}

fn follow(
    mut stream: TcpStream,
    handle: &dyn Fn(&Request, &mut TcpStream) -> io::Result<bool>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read(&mut reader)? {
        if !handle(&request, &mut stream)? || request.close {
            break;
        }
    }
    Ok(())
}

/// Reads the next request; `None` at the end of the connection.
fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let (mut length, mut close) = (0, false);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().map_err(io::Error::other)?,
            "connection" => close = value.eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request {
        method,
        path,
        body,
        close,
    }))
}
