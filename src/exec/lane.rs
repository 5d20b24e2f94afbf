//! One slot process and the line to it.

use super::Halt;
use crate::model::{HookSeen, Observation, Trial, VariantId};
use crate::slot;
use crate::slot::wire::{Hook, Order, Recipe, Reply};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// A slot that is up.
pub(super) struct Slot {
    child: Child,
    line: BufReader<UnixStream>,
    unread: Vec<u8>,
    knows: BTreeSet<VariantId>,
    /// The memory group that the slot made; we remove it if it could not.
    group: Option<PathBuf>,
    /// What the slot could not do.
    pub(super) complaints: Vec<String>,
}

impl Slot {
    /// Starts a slot from this very binary.
    pub(super) fn start(binary: &Path, name: &str) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (input, output) = (OwnedFd::from(theirs.try_clone()?), OwnedFd::from(theirs));
        let child = Command::new(binary)
            .args([slot::COMMAND, name])
            .stdin(Stdio::from(input))
            .stdout(Stdio::from(output))
            .spawn()?;
        Ok(Self {
            child,
            line: BufReader::new(UnixStream::from_std(ours)?),
            unread: Vec::new(),
            knows: BTreeSet::new(),
            group: None,
            complaints: Vec::new(),
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub(super) async fn learn(&mut self, id: VariantId, recipe: &Recipe) -> io::Result<()> {
        if self.knows.insert(id) {
            self.order(&Order::Learn(id, Box::new(recipe.clone())))
                .await?;
        }
        Ok(())
    }

    /// Runs a trial; an error means that the slot is lost.
    pub(super) async fn run(
        &mut self,
        trial: &Trial,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Observation> {
        self.order(&Order::Run(trial.clone())).await?;
        let mut told = Halt::No;
        loop {
            tokio::select! {
                reply = self.reply() => match reply? {
                    Reply::Finished(id, seen) if id == trial.id => return Ok(*seen),
                    _ => {}
                },
                level = raised(halt, told) => {
                    told = level;
                    self.order(&Order::Stop { now: level == Halt::Now }).await?;
                }
            }
        }
    }

    pub(super) async fn hook(
        &mut self,
        hook: &Hook,
        halt: &mut watch::Receiver<Halt>,
    ) -> io::Result<Option<HookSeen>> {
        self.order(&Order::Hook(hook.clone())).await?;
        let mut told = Halt::No;
        loop {
            tokio::select! {
                reply = self.reply() => if let Reply::Hooked(seen) = reply? {
                    return Ok(seen);
                },
                level = raised(halt, told) => {
                    told = level;
                    self.order(&Order::Stop { now: level == Halt::Now }).await?;
                }
            }
        }
    }

    pub(super) async fn keep(&mut self, folder: PathBuf) -> io::Result<()> {
        self.order(&Order::Keep(folder.into_os_string().into()))
            .await
    }

    /// Lets the slot end: it kills what lives below it first.
    pub(super) async fn close(mut self) -> Vec<String> {
        let _ = self.line.get_mut().shutdown().await;
        while self.reply().await.is_ok() {}
        let _ = self.child.wait();
        self.remove_group();
        self.complaints
    }

    /// Ends a slot that answers no more; returns how it ended.
    pub(super) fn end(&mut self) -> String {
        let _ = self.child.kill();
        let ended = self.child.wait();
        ended.map_or_else(|error| error.to_string(), |status| status.to_string())
    }

    /// Removes the slot's memory group, once nothing lives in it.
    pub(super) fn remove_group(&self) {
        let _ = self.group.as_deref().map(std::fs::remove_dir);
    }

    pub(super) async fn order(&mut self, order: &Order) -> io::Result<()> {
        let mut line = serde_json::to_vec(order)?;
        line.push(b'\n');
        self.line.get_mut().write_all(&line).await
    }

    /// Waits for the next reply. May be dropped halfway: what was read stays.
    pub(super) async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            self.line.read_until(b'\n', &mut self.unread).await?;
            let Some(line) = self.unread.strip_suffix(b"\n") else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let reply = serde_json::from_slice(line)?;
            self.unread.clear();
            match reply {
                Reply::Ready { group } => self.group = group.map(|path| path.as_os_str().into()),
                Reply::Complaint(text) => self.complaints.push(text),
                reply => return Ok(reply),
            }
        }
    }
}

/// Waits until more is asked for than was told.
pub(super) async fn raised(halt: &mut watch::Receiver<Halt>, told: Halt) -> Halt {
    let level = halt
        .wait_for(|level| *level > told)
        .await
        .map(|level| *level);
    match level {
        Ok(level) => level,
        // Nobody can ask any more.
        Err(_) => std::future::pending().await,
    }
}
