//! Writes the journal during a run, and reads it from the beginning.

use super::lines::{Checksum, LineError, Lines};
use super::secrets::{Secrets, Shared};
use super::sequence::Sequence;
use super::{Damage, StoreError};
use crate::model::{Event, FORMAT};
use crate::state::{Sink, State};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// While nothing can be written, so many bytes wait for better times.
const WAITING: usize = 64 << 20;
/// Time limit for locking a journal.
const LOCK_WITHIN: Duration = Duration::from_secs(2);
/// Pause between two attempts to lock it.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// How every journal begins.
const FIRST_LINE: &[u8] = b"{\"run_started\":";

/// A journal that is being written.
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Whole lines that are not written yet.
    waiting: Vec<u8>,
    /// Where the last whole line ends.
    end: u64,
    /// That of the last line, written or waiting.
    checksum: Checksum,
    /// Why something could not be written.
    trouble: Option<io::Error>,
    /// An event was lost. Nothing after it is written, so that the journal can be resumed from there.
    lost: bool,
}

impl Journal {
    /// Opens a journal to write at its end, alone. A torn last line is cut off; a damaged journal is
    /// refused and left as it is.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let io = |what| {
            let path = path.to_owned();
            move |source| StoreError::Io { what, path, source }
        };
        let mut how = OpenOptions::new();
        let how = how
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let mut file = how.open(path).map_err(io("open"))?;
        if !lock(&file) {
            return Err(StoreError::Busy(path.parent().unwrap_or(path).to_owned()));
        }
        let (end, checksum) = whole_lines(path, &file)?;
        file.set_len(end).map_err(io("cut the torn last line of"))?;
        file.seek(SeekFrom::Start(end)).map_err(io("write"))?;
        let path = path.to_owned();
        Ok(Self {
            file,
            path,
            waiting: Vec::new(),
            end,
            checksum,
            trouble: None,
            lost: false,
        })
    }

    /// Adds an event that must not be lost: its failure is an error.
    pub fn add(&mut self, event: &Event) -> Result<(), StoreError> {
        self.push(event);
        self.flush();
        match self.trouble.take() {
            None => Ok(()),
            Some(source) => Err(StoreError::Io {
                what: "write",
                path: self.path.clone(),
                source,
            }),
        }
    }

    fn push(&mut self, event: &Event) {
        self.lost |= self.waiting.len() > WAITING;
        if self.lost {
            return;
        }
        let start = self.waiting.len();
        match serde_json::to_writer(&mut self.waiting, event) {
            Ok(()) => self.checksum.finish_line(&mut self.waiting, start),
            // A bug of ours: half a line would spoil those after it.
            Err(error) => {
                self.waiting.truncate(start);
                self.lost = true;
                self.trouble.get_or_insert(error.into());
            }
        }
    }

    /// Writes what waits. What cannot be written is tried again the next time, so a
    /// disk that was full for a while costs nothing.
    fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match self.file.write_all(&self.waiting) {
            Ok(()) => {
                self.end += self.waiting.len() as u64;
                self.waiting.clear();
            }
            Err(error) => {
                // Part of it may be there: the next attempt begins where this one did.
                let _ = self.file.set_len(self.end);
                let _ = self.file.seek(SeekFrom::Start(self.end));
                self.trouble.get_or_insert(error);
            }
        }
    }

    /// Returns why something could not be written, the first time it is asked.
    pub fn trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    /// Writes everything to the disk; true when the journal is complete.
    pub fn complete(&mut self) -> bool {
        self.flush();
        self.waiting.is_empty() && !self.lost && self.file.sync_data().is_ok()
    }
}

impl Sink for Journal {
    fn event(&mut self, event: &Event, _: &State) {
        self.push(event);
    }

    fn settle(&mut self, _: &State) {
        self.flush();
    }
}

/// Locks a journal. A slot that starts shares the lock of its provoke until its `exec`, so the lock of
/// a provoke that was just killed can last for a moment.
fn lock(file: &File) -> bool {
    let until = Instant::now() + LOCK_WITHIN;
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        sleep(LOCK_PAUSE);
    }
}

/// Returns where the last whole line ends, and its checksum.
fn whole_lines(path: &Path, file: &File) -> Result<(u64, Checksum), StoreError> {
    let mut lines = Lines::new(BufReader::with_capacity(1 << 20, file));
    loop {
        match lines.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok((lines.end, lines.checksum)),
            Err(error) => return Err(at_line(path, (lines.number, lines.start), error)),
        }
    }
}

/// Says what is wrong with the line of this number, which begins there.
fn at_line(path: &Path, (line, start): (u64, u64), error: LineError) -> StoreError {
    let path = path.to_owned();
    match error {
        LineError::Io(source) => StoreError::Io {
            what: "read",
            path,
            source,
        },
        LineError::Damage(damage) => StoreError::Damaged {
            path,
            line,
            start,
            damage,
        },
    }
}

/// Hands every event of a journal to `each`, in the order in which they happened, until it refuses.
/// Fails at the first line that does not belong where it is: nothing is made of a damaged journal.
pub fn events<E: From<StoreError>>(
    path: &Path,
    each: impl FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    read_events(path, &Secrets::default(), each)
}

/// The same with the secrets of the run masked.
pub fn masked_events<E: From<StoreError>>(
    path: &Path,
    each: impl FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    read_events(path, &Secrets::of_run(path)?, each)
}

fn read_events<E: From<StoreError>>(
    path: &Path,
    secrets: &Secrets,
    mut each: impl FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    let file = File::open(path).map_err(|error| at_line(path, (0, 0), LineError::Io(error)))?;
    let mut lines = Lines::new(BufReader::with_capacity(1 << 20, file));
    let mut sequence = Sequence::default();
    loop {
        let (parsed, is_first) = match lines.next() {
            Ok(Some(json)) => (secrets.parse_masked(json), json.starts_with(FIRST_LINE)),
            Ok(None) => return Ok(()),
            Err(error) => return Err(E::from(at_line(path, (lines.number, lines.start), error))),
        };
        let damaged = |damage| {
            let error = LineError::Damage(damage);
            E::from(at_line(path, (lines.number, lines.start), error))
        };
        let event = match (lines.number, parsed) {
            (1, Ok(Event::RunStarted { format, .. })) if format != FORMAT => {
                return Err(E::from(StoreError::Format {
                    path: path.to_owned(),
                    found: format,
                }));
            }
            (1, Ok(event @ Event::RunStarted { .. })) => event,
            (1, Err(source)) if is_first => return Err(damaged(Damage::Unreadable(source))),
            (1, _) => return Err(E::from(StoreError::NotAJournal(path.to_owned()))),
            (_, Ok(event)) => event,
            (_, Err(source)) => return Err(damaged(Damage::Unreadable(source))),
        };
        sequence.add(&event).map_err(damaged)?;
        each(event)?;
    }
}

/// Returns the first event of a journal.
pub fn first_event(journal: &Path) -> Result<Event, StoreError> {
    /// Ends the reading.
    enum End {
        First(Box<Event>),
        Error(StoreError),
    }
    impl From<StoreError> for End {
        fn from(error: StoreError) -> Self {
            Self::Error(error)
        }
    }
    match events(journal, |event| Err(End::First(Box::new(event)))) {
        Err(End::First(event)) => Ok(*event),
        Err(End::Error(error)) => Err(error),
        Ok(()) => Err(StoreError::NotAJournal(journal.to_owned())),
    }
}

impl Secrets {
    /// Finds the secrets of a run.
    pub fn of_run(journal: &Path) -> Result<Self, StoreError> {
        Ok(match first_event(journal)? {
            Event::RunStarted { plan, .. } => Self::of(&plan),
            _ => Self::default(),
        })
    }
}

/// Writes a journal anew, without what is not `shared` and with the secrets of the run masked.
pub fn copy_to_share(
    journal: &Path,
    shared: Shared,
    to: &mut dyn io::Write,
) -> Result<(), StoreError> {
    let mut checksum = Checksum::default();
    let mut line = Vec::new();
    masked_events(journal, |event| {
        line.clear();
        let written = serde_json::to_writer(&mut line, &shared.stripped(event));
        let written = written.map_err(io::Error::from).and_then(|()| {
            checksum.finish_line(&mut line, 0);
            to.write_all(&line)
        });
        written.map_err(|source| StoreError::Io {
            what: "copy",
            path: journal.to_owned(),
            source,
        })
    })
}

/// Folds a journal, handing each event but the first to `each` before the state takes it in.
pub fn read(
    path: &Path,
    decided: impl Fn(&State) -> bool,
    each: impl FnMut(&Event, &State),
) -> Result<State, StoreError> {
    read_state(path, &Secrets::default(), decided, each)
}

/// The same with the secrets of the run masked: what reports that are handed on are made of.
pub fn read_masked(path: &Path, decided: impl Fn(&State) -> bool) -> Result<State, StoreError> {
    read_state(path, &Secrets::of_run(path)?, decided, |_, _| {})
}

fn read_state(
    path: &Path,
    secrets: &Secrets,
    decided: impl Fn(&State) -> bool,
    mut each: impl FnMut(&Event, &State),
) -> Result<State, StoreError> {
    let mut state: Option<State> = None;
    read_events(path, secrets, |event| {
        if let Some(state) = &mut state {
            each(&event, state);
            state.apply(&event, &decided);
        } else {
            state = State::begin(event);
        }
        Ok::<(), StoreError>(())
    })?;
    state.ok_or_else(|| StoreError::NotAJournal(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_is_locked_for_a_moment_is_waited_for() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("events.jsonl");
        let first = Journal::open(&path).unwrap();
        let other = std::thread::spawn(move || {
            sleep(LOCK_PAUSE * 5);
            drop(first);
        });
        assert!(Journal::open(&path).is_ok());
        other.join().unwrap();
    }
}
