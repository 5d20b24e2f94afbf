//! Reads the replies of the worker of a host, and the files of its trials.

use super::awaited_replies::AwaitedReplies;
use super::connection::WorkerReceiver;
use super::wire::WorkerReply;
use provoke_sys::files;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as Register, MutexGuard};

/// A host that sends a larger file than this, which would be read and dropped, is lost.
const MAX_DROPPED: u64 = 64 << 30;

/// Reads the replies of a worker.
pub(super) struct ReplyReader {
    pub(super) receiver: WorkerReceiver,
    pub(super) awaited: Arc<Register<AwaitedReplies>>,
    /// Directories of trials there and here.
    pub(super) folders: (PathBuf, PathBuf),
}

impl ReplyReader {
    /// Passes the replies on until the worker has closed, or the host is lost. Reports the loss before the lost trials.
    pub(super) async fn read_to_end(mut self, report_loss: impl FnOnce(String)) {
        let given_up = Arc::clone(&self.lock().given_up);
        let reason = tokio::select! {
            reason = self.read_replies() => reason,
            () = given_up.notified() => Some(self.lock().lost_reason()),
        };
        let Some(reason) = reason else {
            self.lock().lose("the run is over".to_owned());
            self.close().await;
            return;
        };
        report_loss(reason.clone());
        self.lock().lose(reason);
        self.close().await;
    }

    /// Ends the process that carries the connection. That can take a moment, in which other hosts go on.
    async fn close(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self.receiver)).await;
    }

    /// Passes the replies on. Returns why the host was lost; `None` if the worker has closed at the end of the run.
    async fn read_replies(&mut self) -> Option<String> {
        loop {
            if self.lock().arrived.is_flood() {
                return Some("it sent too many messages".to_owned());
            }
            let awaited = &self.awaited;
            let add_part = |bytes| {
                let mut awaited = awaited.lock().expect("no panic");
                awaited.arrived.add_part_of_message(bytes);
            };
            match self.receiver.next_reply(add_part).await {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Some(error.to_string());
                }
                Err(error) => {
                    let message = self.receiver.last_message().await;
                    return Some(message.unwrap_or_else(|| match error.kind() {
                        io::ErrorKind::UnexpectedEof => "the connection was closed".to_owned(),
                        _ => error.to_string(),
                    }));
                }
                Ok(WorkerReply::Closed) if self.lock().is_closing => return None,
                Ok(WorkerReply::Closed) => return Some("its worker ended".to_owned()),
                Ok(WorkerReply::File { slot, path, size }) => {
                    let target = {
                        let mut awaited = self.lock();
                        let name = Path::new(path.as_os_str());
                        let target = awaited.reserve_file(slot, name, size);
                        awaited.arrived.end_message(target.is_some());
                        target
                    };
                    if let Err(error) = self.receive_file(target, size).await {
                        return Some(error.to_string());
                    }
                }
                Ok(reply) => {
                    let mut awaited = self.lock();
                    let was_awaited = awaited.pass_reply(reply, &self.folders);
                    awaited.arrived.end_message(was_awaited);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, AwaitedReplies> {
        self.awaited.lock().expect("no panic")
    }

    /// Writes a file of a trial. Without a path, the file is not awaited or too large: it is read and dropped.
    async fn receive_file(&mut self, target: Option<PathBuf>, size: u64) -> io::Result<()> {
        if size > MAX_DROPPED {
            return Err(io::Error::other(format!("it sent a file of {size} bytes")));
        }
        let mut file = target.and_then(|path| {
            files::create_folders(path.parent()?).ok()?;
            // An earlier attempt may have left a file.
            files::create_private(&path).ok()
        });
        let mut left = size;
        while left > 0 {
            let bytes = self.receiver.read_bytes(left).await?;
            left -= bytes.len() as u64;
            let Some(open) = &mut file else {
                continue;
            };
            let written = open.write_all(bytes);
            let mut awaited = self.awaited.lock().expect("no panic");
            awaited.arrived.add_part_of_file(bytes.len());
            if let Err(error) = written {
                awaited.complain(format!("cannot write a file of a trial: {error}"));
                drop(awaited);
                file = None;
            }
        }
        self.receiver.end_file();
        Ok(())
    }
}
