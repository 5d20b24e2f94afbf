//! Starts podman's API service for the duration of a run.
//!
//! The service responds like Docker's daemon. A separate client for each query would take half as
//! long as a short trial.

use super::Engine;
use crate::{files, held_folder, tool};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Idle time in seconds after which the service exits.
const ALONE: &str = "3";
/// Time limit for the start of the service.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(10);
/// Limit of the path of the folder: with the name of the socket it must fit into 107 bytes.
const LONGEST: usize = 95;

/// A service that provoke started.
pub struct PodmanService {
    child: Child,
    /// Folder that was created for the socket.
    folder: PathBuf,
    socket: PathBuf,
}

impl PodmanService {
    /// Starts the API service of an engine, if it has one.
    ///
    /// The service listens after a short time, below this folder if possible. Before that, or if it
    /// could not be started, queries use the command line client.
    pub fn start_for_engine(engine: &Engine, below: &Path) -> io::Result<Self> {
        if !engine.podman || std::env::var_os("CONTAINER_HOST").is_some() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let folder = create_socket_folder(below)?;
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
            // Ctrl-C must not reach the service; and without root it may consist of two processes.
            .process_group(0);
        tool::dies_with_us(&mut command);
        let child = command.spawn()?;
        let line = socket.clone();
        thread::spawn(move || hold_service(&line));
        Ok(Self {
            child,
            folder,
            socket,
        })
    }

    /// Returns the path of the socket.
    pub fn socket_path(&self) -> &Path {
        &self.socket
    }

    /// Returns the pid of the service.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }
}

impl Drop for PodmanService {
    fn drop(&mut self) {
        tool::kill_group(&self.child);
        let _ = self.child.wait();
        let _ = files::remove_tree(&self.folder);
    }
}

/// Keeps the service alive with a request whose response does not end as long as this process
/// lives.
///
/// Without root, the service loses the kernel setting that kills it when this process ends. After
/// the request has ended, the service exits because it is idle.
fn hold_service(socket: &Path) {
    let until = Instant::now() + START;
    let mut line = loop {
        match UnixStream::connect(socket) {
            Ok(line) => break line,
            Err(_) if Instant::now() >= until => return,
            Err(_) => thread::sleep(PAUSE),
        }
    };
    // There are few events of volumes.
    let request = "GET /events?filters=%7B%22type%22%3A%5B%22volume%22%5D%7D HTTP/1.0\r\nHost: podman\r\n\r\n";
    if line.write_all(request.as_bytes()).is_ok() {
        let _ = io::copy(&mut line, &mut io::sink());
    }
}

/// Creates the folder for the socket, below this folder if the path is short enough, otherwise in the folder for
/// temporary files.
fn create_socket_folder(below: &Path) -> io::Result<PathBuf> {
    let mut folder = below.join(".podman");
    if folder.as_os_str().len() > LONGEST {
        folder = std::env::temp_dir().join(format!("provoke.podman-{}", std::process::id()));
    }
    // A killed process may have left the folder.
    let _ = files::remove_tree(&folder);
    // Creation must fail if the folder exists: its owner could impersonate the engine.
    files::create_private_folder(&folder)?;
    held_folder::check_place(&folder)?;
    Ok(folder)
}
