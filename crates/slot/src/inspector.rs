//! Speaks the protocol of the debugger of Node.js.

use provoke_model::{Frame, parse_untrusted_json};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Calls that are kept.
const CALLS: usize = 32;
/// Bytes that are read, and those of one message.
const LONGEST: u64 = 8 << 20;
const LONGEST_MESSAGE: u64 = 1 << 20;
/// The requests: events about each script, then the calls at the next statement.
const REQUESTS: [&str; 2] = [
    r#"{"id":1,"method":"Debugger.enable"}"#,
    r#"{"id":2,"method":"Debugger.pause"}"#,
];

/// Where a program listens for a debugger.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DebuggerAddress {
    pub(super) socket: SocketAddr,
    path: String,
}

impl DebuggerAddress {
    /// Parses `Debugger listening on ws://127.0.0.1:9229/9ad7f83c-…`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (_, address) = text.split_once("Debugger listening on ws://")?;
        let (address, _) = address.split_once('\n')?;
        let (socket, path) = address.split_once('/')?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let socket: SocketAddr = socket.parse().ok()?;
        (socket.ip().is_loopback() && path.chars().all(is_plain)).then(|| Self {
            socket,
            path: path.to_owned(),
        })
    }
}

/// A message of the debugger.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Script {
    script_id: String,
    url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pause {
    call_frames: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    function_name: String,
    location: Location,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    script_id: String,
    line_number: u32,
}

/// A connection that ends at a deadline, however slowly the other side writes.
struct Connection {
    stream: TcpStream,
    deadline: Instant,
}

impl io::Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// Returns the calls of the main thread, innermost first. The thread goes on when the connection ends.
pub(super) fn read_calls(address: &DebuggerAddress, deadline: Instant) -> io::Result<Vec<Frame>> {
    let left = deadline.saturating_duration_since(Instant::now());
    let stream = TcpStream::connect_timeout(&address.socket, left.max(Duration::from_millis(1)))?;
    let mut writer = stream.try_clone()?;
    let mut reader = io::BufReader::new(Connection { stream, deadline }.take(LONGEST));
    write!(
        writer,
        "GET /{} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        address.path, address.socket
    )?;
    skip_response(&mut reader)?;
    // Requests before the response are lost.
    for request in REQUESTS {
        writer.write_all(&text_frame(request))?;
    }
    let mut scripts = BTreeMap::new();
    loop {
        let message = read_message(&mut reader)?;
        match message.method.as_str() {
            "Debugger.scriptParsed" => {
                let script: Script = serde_json::from_value(message.params)?;
                scripts.insert(script.script_id, script.url);
            }
            "Debugger.paused" => {
                let pause: Pause = serde_json::from_value(message.params)?;
                let calls = pause.call_frames.iter().take(CALLS);
                return Ok(calls.map(|call| frame_of_call(call, &scripts)).collect());
            }
            _ => {}
        }
    }
}

/// Returns a text as a client sends it; the mask is zero.
fn text_frame(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap_or(0).min(125);
    let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
    frame.extend_from_slice(&text.as_bytes()[..usize::from(length)]);
    frame
}

/// Skips the response that begins the connection.
fn skip_response(reader: &mut impl io::BufRead) -> io::Result<()> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 101") {
        return Err(io::Error::other("no debugger"));
    }
    while line.trim_end() != "" {
        line.clear();
        reader.read_line(&mut line)?;
    }
    Ok(())
}

/// Reads a message, which Node.js sends as one frame.
fn read_message(reader: &mut impl io::Read) -> io::Result<Message> {
    let mut header = [0; 2];
    reader.read_exact(&mut header)?;
    let length = match header[1] {
        126 => {
            let mut bytes = [0; 2];
            reader.read_exact(&mut bytes)?;
            u64::from(u16::from_be_bytes(bytes))
        }
        127 => {
            let mut bytes = [0; 8];
            reader.read_exact(&mut bytes)?;
            u64::from_be_bytes(bytes)
        }
        short => u64::from(short),
    };
    if length > LONGEST_MESSAGE {
        return Err(io::Error::other("it sent too long a message"));
    }
    let mut text = Vec::new();
    reader.take(length).read_to_end(&mut text)?;
    Ok(parse_untrusted_json(&text)?)
}

fn frame_of_call(call: &Call, scripts: &BTreeMap<String, String>) -> Frame {
    let url = scripts.get(&call.location.script_id);
    let url = url.map_or("", |url| url.strip_prefix("file://").unwrap_or(url));
    let function = match call.function_name.as_str() {
        "" => "(anonymous)".to_owned(),
        name => name.to_owned(),
    };
    Frame {
        function: Some(function),
        module: url.starts_with("node:").then(|| "node".to_owned()),
        line: (!url.is_empty()).then(|| (url.to_owned(), call.location.line_number + 1)),
        ..Frame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_on_this_machine_is_a_debugger() {
        let parse = |address: &str| {
            DebuggerAddress::parse(&format!(
                "x\nDebugger listening on ws://{address}\nFor help"
            ))
        };
        let address = parse("127.0.0.1:9229/9ad7f83c-1814").unwrap();
        assert_eq!(address.socket.port(), 9229);
        assert_eq!(address.path, "9ad7f83c-1814");
        for other in [
            "192.0.2.7:9229/9ad7",
            "127.0.0.1:9229/a b",
            "localhost:9229/a",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn calls_have_their_scripts() {
        let paused = r#"{"method":"Debugger.paused","params":{"callFrames":[
            {"functionName":"read","location":{"scriptId":"7","lineNumber":3,"columnNumber":1}},
            {"functionName":"","location":{"scriptId":"9","lineNumber":0}},
            {"functionName":"emit","location":{"scriptId":"8","lineNumber":10}}]}}"#;
        let mut bytes = vec![0x81, 126];
        bytes.extend(u16::try_from(paused.len()).unwrap().to_be_bytes());
        bytes.extend(paused.as_bytes());
        let message = read_message(&mut bytes.as_slice()).unwrap();
        let pause: Pause = serde_json::from_value(message.params).unwrap();
        let scripts = [("7", "file:///app/job.js"), ("8", "node:events")];
        let scripts = scripts.map(|(id, url)| (id.to_owned(), url.to_owned()));
        let scripts = BTreeMap::from(scripts);
        let calls: Vec<Frame> = pause
            .call_frames
            .iter()
            .map(|call| frame_of_call(call, &scripts))
            .collect();
        assert_eq!(calls[0].line, Some(("/app/job.js".to_owned(), 4)));
        assert_eq!(calls[1].function.as_deref(), Some("(anonymous)"));
        assert_eq!((&calls[1].line, &calls[1].module), (&None, &None));
        assert_eq!(calls[2].module.as_deref(), Some("node"));
    }
}
