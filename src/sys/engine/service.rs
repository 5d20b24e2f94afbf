//! Starts podman's service, which responds like Docker's daemon, for the length of a run. A separate
//! client for each question would take half as long as a short trial.

use super::Engine;
use crate::sys::tool;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Seconds that it lives on when nobody talks to it.
const ALONE: &str = "3";
/// One that does not listen by then will not.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);

/// One of our own.
pub struct Service {
    child: Child,
    /// Made for the socket.
    folder: PathBuf,
    socket: PathBuf,
}

impl Service {
    /// Starts that of an engine, if it has one. It listens soon, below this folder if it can; who
    /// asks before that, or where it could not start, asks by a client.
    pub fn start(engine: &Engine, below: &Path) -> io::Result<Self> {
        if !engine.podman || std::env::var_os("CONTAINER_HOST").is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let folder = super::folder_for_sockets(below, ".podman")?;
        let socket = folder.join("sock");
        let mut address = OsString::from("unix://");
        address.push(&socket);
        let mut command = Command::new(&engine.program);
        command
            .args(["system", "service", "--time", ALONE])
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is not for it; and without root it may be two processes.
            .process_group(0);
        tool::dies_with_us(&mut command);
        let child = command.spawn()?;
        let line = socket.clone();
        thread::spawn(move || hold(&line));
        Ok(Self {
            child,
            folder,
            socket,
        })
    }

    /// Returns where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns its process.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        tool::kill(&self.child);
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Holds it with a question whose answer does not end as long as we live. Without root it loses the
/// kernel's promise that it is killed when we are.
fn hold(socket: &Path) {
    let until = Instant::now() + START;
    let mut line = loop {
        match UnixStream::connect(socket) {
            Ok(line) => break line,
            Err(_) if Instant::now() >= until => return,
            Err(_) => thread::sleep(PAUSE),
        }
    };
    // Of volumes there is little to tell.
    let wanted = "GET /events?filters=%7B%22type%22%3A%5B%22volume%22%5D%7D HTTP/1.0\r\nHost: podman\r\n\r\n";
    if line.write_all(wanted.as_bytes()).is_ok() {
        let _ = io::copy(&mut line, &mut io::sink());
    }
}
