//! Writes cores of living processes of a trial, into a separate folder.

use provoke_model::{CoreObservation, ProcessObservation, Text};
use provoke_sys::snapshot::CoreThreads;
use provoke_sys::{files, process, snapshot};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Time limit for stopping a thread; a thread that takes longer is stuck in the kernel.
const STOP: Duration = Duration::from_millis(500);

/// Leaked processes whose stacks are kept, and the time limit for all of them.
const MAX_LEAKS: usize = 3;
const LEAKS: Duration = Duration::from_secs(2);

/// Folder for cores of living processes, if they are wanted.
#[derive(Clone, Default)]
pub(super) struct SnapshotFolder {
    pub(super) folder: Option<PathBuf>,
}

impl SnapshotFolder {
    /// Writes cores of leaked processes: of the first process of each command line.
    pub(super) fn of_leaks(&self, leaked: &mut [ProcessObservation]) {
        let deadline = Instant::now() + LEAKS;
        let mut commands: Vec<&[Text]> = Vec::new();
        for process in leaked {
            if commands.len() < MAX_LEAKS && !commands.contains(&&*process.command) {
                process.core = self.write_core("leak", process.pid, CoreThreads::All, deadline);
                commands.push(&process.command);
            }
        }
    }

    /// Writes the core of a process as `KIND.PID.core`, unless the process has ended.
    ///
    /// If the core cannot be written, the result contains the reason.
    pub(super) fn write_core(
        &self,
        kind: &str,
        pid: i32,
        threads: CoreThreads<'_>,
        deadline: Instant,
    ) -> Option<CoreObservation> {
        let folder = self.folder.as_ref()?;
        let file = folder.join(format!("{kind}.{pid}.core"));
        let until = deadline.min(Instant::now() + STOP);
        process::process_state(pid).filter(|(state, _)| *state != 'Z')?;
        let written = files::create_folders(folder)
            .and_then(|()| snapshot::write_core(pid, threads, &file, until));
        let mut core = CoreObservation {
            pid,
            file: file.as_os_str().into(),
            ..CoreObservation::default()
        };
        match written {
            Ok(size) => core.size = size,
            // The process ended meanwhile.
            Err(_) if process::process_state(pid).is_none_or(|(state, _)| state == 'Z') => {
                let _ = files::remove_file(&file);
                return None;
            }
            Err(error) => {
                let _ = files::remove_file(&file);
                let way = match error.kind() {
                    io::ErrorKind::PermissionDenied => "; root can inspect every process",
                    _ => "",
                };
                core.unread = Some(format!("cannot write it: {error}{way}"));
            }
        }
        Some(core)
    }
}
