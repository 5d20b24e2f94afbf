//! Receives what a host sends, for the fuzz targets.

use super::connection::WorkerConnection;
use super::limits::ReplyLimits;
use super::remote_host::RemoteHost;
use super::wire::WorkerTask;
use provoke_exec::StopUrgency;
use provoke_model::{SlotId, Trial, TrialId, TrialPurpose, TrialsPlan, VariantId};
use provoke_sys::files;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;

/// Receives these messages from a worker that runs a trial, and the files of the trial.
pub fn receive(plan: &TrialsPlan, messages: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    let folder = format!("/dev/shm/provoke-fuzz-worker-{}", std::process::id());
    // What does not fit into the buffer of the socket is lost.
    let _ = runtime.block_on(receive_files(plan, messages, Path::new(&folder)));
    let _ = files::remove_tree(Path::new(&folder));
}

async fn receive_files(plan: &TrialsPlan, messages: &[u8], folder: &Path) -> io::Result<()> {
    let (stream, mut worker) = UnixStream::pair()?;
    let (errors, _) = UnixStream::pair()?;
    worker.set_nonblocking(true)?;
    let _ = worker.write(messages)?;
    worker.shutdown(std::net::Shutdown::Write)?;
    let carrier = Command::new("true").spawn()?;
    let connection = WorkerConnection::new("host", carrier, stream, errors)?;
    let task = WorkerTask {
        plan: Box::new(plan.clone()),
        shared_file: None,
    };
    let Ok((receiver, writer, _)) = connection.begin(&task).await else {
        return Ok(());
    };
    let folders = ("/there".into(), folder.to_owned());
    let limits = Arc::new(Mutex::new(ReplyLimits::of_plan(plan)));
    let host = RemoteHost::start(receiver, writer, limits, folders, drop);
    let slot = SlotId(0);
    host.keep_files(slot, folder.to_owned(), true);
    let trial = Trial {
        id: TrialId(1),
        variant: VariantId(0),
        slot,
        seed: 1,
        timeout: Duration::from_secs(1),
        purpose: TrialPurpose::Measure,
        hold: None,
    };
    let (_halt, halt) = watch::channel(StopUrgency::No);
    host.run_trials(slot, vec![trial], halt, Box::new(|_, _| {}))
        .await;
    host.close().await;
    Ok(())
}
