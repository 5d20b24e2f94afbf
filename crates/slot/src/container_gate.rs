//! Keeps the program of a container from starting until it is traced.
//!
//! A shell in the container waits at a named pipe, and then executes the program. So the program has the process that was
//! traced meanwhile, from its first instruction on.

use provoke_sys::held_folder::check_place;
use provoke_sys::{files, process, ptrace};
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Path of the pipe in the container.
const PATH_INSIDE: &str = "/provoke-gate";
/// Waits at the pipe, and executes the arguments.
const SCRIPT: &str = "read -r _ < /provoke-gate; exec \"$@\"";
/// Time limit for the start of a container.
const START_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

/// A named pipe at which the program of a container waits; dropping this value removes it.
pub(super) struct ContainerGate {
    pipe: PathBuf,
}

impl ContainerGate {
    /// Creates a pipe that every user can read.
    pub(super) fn create(folder: &Path, name: &str) -> io::Result<Self> {
        files::create_folders(folder)?;
        let pipe = folder.join(format!("gate-{name}"));
        files::create_pipe(&pipe)?;
        check_place(&pipe)?;
        Ok(Self { pipe })
    }

    /// Returns the options of a container whose program waits at the pipe.
    pub(super) fn options(&self) -> Vec<OsString> {
        let mut volume = self.pipe.clone().into_os_string();
        volume.push(":");
        volume.push(PATH_INSIDE);
        vec![
            "--volume".into(),
            volume,
            "--entrypoint".into(),
            "/bin/sh".into(),
        ]
    }

    /// Returns the arguments of the shell before the words of the program.
    pub(super) fn arguments() -> [OsString; 3] {
        ["-c", SCRIPT, "sh"].map(OsString::from)
    }

    /// Waits until the shell reads the pipe, traces it, and lets it execute the program. Returns its pid. `client` is the
    /// engine's client, without which the container does not start.
    pub(super) fn trace_program(
        &self,
        client: i32,
        find_program: impl FnOnce() -> Option<i32>,
    ) -> Result<i32, String> {
        let until = Instant::now() + START_LIMIT;
        let mut pipe = loop {
            // Without a reader, this fails.
            let mode = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            if let Ok(pipe) = rustix::fs::open(&self.pipe, mode, Mode::empty()) {
                break File::from(pipe);
            }
            let has_ended = process::process_state(client).is_none_or(|(state, _)| state == 'Z');
            if has_ended || Instant::now() > until {
                return Err("no shell, /bin/sh, started in its container".to_owned());
            }
            sleep(PAUSE);
        };
        let program =
            find_program().ok_or_else(|| "the engine does not name its process".to_owned());
        let traced = program.and_then(|program| {
            ptrace::follow_process(program)
                .map(|()| program)
                .map_err(|error| format!("cannot trace the process of its container: {error}"))
        });
        // If nothing reads the pipe, the container has ended.
        let _ = pipe.write_all(b"\n");
        traced
    }
}

impl Drop for ContainerGate {
    fn drop(&mut self) {
        let _ = files::remove_file(&self.pipe);
    }
}
