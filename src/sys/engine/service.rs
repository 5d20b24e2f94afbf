//! The service of podman, which has no daemon: it answers as that of Docker does, for the length of
//! a run. To start a client for each question takes half as long as a short trial.

use super::Engine;
use crate::sys::tool;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The path of a socket is no longer than this.
const LONGEST: usize = 107;
/// Seconds that it lives on when nobody talks to it.
const ALONE: &str = "3";
/// One that does not listen by then will not.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);

/// One of our own.
pub struct Service {
    child: Child,
    socket: PathBuf,
    /// Made for the socket.
    folder: Option<PathBuf>,
}

impl Service {
    /// Starts that of an engine, if it has one. It listens soon, below this folder if its path is
    /// not too long; who asks before that, or where it could not start, asks by a client.
    pub fn start(engine: &Engine, below: &Path) -> io::Result<Self> {
        if !engine.podman || std::env::var_os("CONTAINER_HOST").is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let name = ".podman.sock";
        let own = Some(below.join(name)).filter(|path| path.as_os_str().len() <= LONGEST);
        let (socket, folder) = if let Some(path) = own {
            (path, None)
        } else {
            let folder =
                std::env::temp_dir().join(format!("provoke-podman-{}", std::process::id()));
            // Whoever made it before us would be asked in its place.
            DirBuilder::new().mode(0o700).create(&folder)?;
            (folder.join(name), Some(folder))
        };
        // One that was killed may have left it.
        let _ = fs::remove_file(&socket);
        let mut address = std::ffi::OsString::from("unix://");
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
            socket,
            folder,
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
        let _ = fs::remove_file(&self.socket);
        let _ = self.folder.as_ref().map(fs::remove_dir);
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
