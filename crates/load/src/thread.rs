//! Thread that runs some of the clients of a load.

use super::client::Client;
use super::fixed_rate_timer::Timer;
use super::http2_connection::SharedConnection;
use super::record::WorkerRecord;
use super::worker::{PhaseShared, Worker};
use provoke_model::HttpVersion;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;

/// Streams per shared HTTP/2 connection.
const STREAMS: u32 = 100;
/// Client polls between two checks of their connections, because a check costs more than a poll.
const EVENTS: u32 = 256;

/// Starts a thread that runs some of the clients. Returns the receiver of its record.
pub(super) fn spawn_worker(
    shared: &Arc<PhaseShared>,
    index: usize,
    clients: Range<u32>,
    ring: &Path,
) -> io::Result<oneshot::Receiver<io::Result<WorkerRecord>>> {
    let (sender, record) = oneshot::channel();
    let (shared, ring) = (shared.clone(), ring.to_owned());
    let thread = std::thread::Builder::new().name(format!("load-{index}"));
    thread.spawn(move || {
        // The receiver may already be dropped.
        let _ = sender.send(run_clients(shared, index, clients, &ring));
    })?;
    Ok(record)
}

/// Runs some of the clients until all have finished. Returns their record.
fn run_clients(
    shared: Arc<PhaseShared>,
    index: usize,
    clients: Range<u32>,
    ring: &Path,
) -> io::Result<WorkerRecord> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENTS)
        .build_local(LocalOptions::default())?;
    let kinds = shared.requests.kinds.len();
    let count = clients.end - clients.start;
    let mut record = WorkerRecord::new(ring, kinds, count, shared.phase.is_open())?;
    if shared.phase.log_all {
        record.log_to(&ring.with_file_name(format!("requests-{index}.csv")))?;
    }
    let worker = Rc::new(Worker::new(shared, index, record));
    runtime.block_on(run_all_clients(worker.clone(), clients))?;
    drop(runtime);
    let worker = Rc::into_inner(worker).expect("every client is done");
    Ok(worker.record.into_inner())
}

async fn run_all_clients(worker: Rc<Worker>, clients: Range<u32>) -> io::Result<()> {
    let phase = &worker.shared.phase;
    let timer = phase.is_open().then(Timer::new).transpose()?;
    let uses_http2 = phase.http != HttpVersion::One;
    let mut connection = Rc::<SharedConnection>::default();
    let clients: Vec<_> = clients
        .map(|id| {
            if id.is_multiple_of(STREAMS) {
                connection = Rc::default();
            }
            let connection = uses_http2.then(|| connection.clone());
            let client = Client::new(worker.clone(), worker.add_client(), id, connection);
            tokio::task::spawn_local(client.run_to_end())
        })
        .collect();
    let stopping = tokio::task::spawn_local(worker.clone().forward_stop());
    let ticking = tokio::task::spawn_local(worker.clone().tick_forever());
    let ringing = tokio::task::spawn_local({
        let worker = worker.clone();
        async move {
            if let Some(timer) = timer {
                worker.alarm.ring_forever(&timer, worker.shared.clock).await;
            }
        }
    });
    for client in clients {
        client.await.expect("a client does not panic");
    }
    for helper in [stopping, ticking, ringing] {
        helper.abort();
        let _ = helper.await; // the task was cancelled
    }
    worker.tick_once();
    Ok(())
}
