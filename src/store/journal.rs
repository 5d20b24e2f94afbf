//! The journal: written as it happens, read from the beginning.

use super::StoreError;
use crate::model::{Event, FORMAT};
use crate::state::{Sink, State};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// While nothing can be written, so many bytes wait for better times.
const WAITING: usize = 64 << 20;

/// A journal that is being written.
pub struct Journal {
    file: File,
    path: PathBuf,
    /// Whole lines that are not written yet.
    waiting: Vec<u8>,
    /// Where the last whole line ends.
    end: u64,
    /// Why something could not be written.
    trouble: Option<io::Error>,
    lost: bool,
}

impl Journal {
    /// Opens a journal to write at its end, alone. A torn last line is cut off.
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
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(StoreError::Busy(path.parent().unwrap_or(path).to_owned()));
        }
        let end = whole_lines(&mut file).map_err(io("read"))?;
        file.set_len(end).map_err(io("cut the torn last line of"))?;
        file.seek(SeekFrom::Start(end)).map_err(io("write"))?;
        let path = path.to_owned();
        Ok(Self {
            file,
            path,
            waiting: Vec::new(),
            end,
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
        if self.waiting.len() > WAITING {
            self.lost = true;
            return;
        }
        let before = self.waiting.len();
        match serde_json::to_writer(&mut self.waiting, event) {
            Ok(()) => self.waiting.push(b'\n'),
            // A bug of ours: half a line would spoil those after it.
            Err(error) => {
                self.waiting.truncate(before);
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

/// Returns where the last whole line ends.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    while end > 0 {
        let begin = end.saturating_sub(64 * 1024);
        let mut block = vec![0; usize::try_from(end - begin).unwrap_or_default()];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut block, begin)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Hands every event of a journal to `each`, in the order in which they happened, until it refuses.
pub fn events<E: From<StoreError>>(
    path: &Path,
    mut each: impl FnMut(Event) -> Result<(), E>,
) -> Result<(), E> {
    let io = |source| StoreError::Io {
        what: "read",
        path: path.to_owned(),
        source,
    };
    let mut lines = BufReader::with_capacity(1 << 20, File::open(path).map_err(io)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        lines.read_until(b'\n', &mut line).map_err(io)?;
        // Without its end a line is torn, and the trial it tells of did not end.
        let Some(text) = line.strip_suffix(b"\n") else {
            break;
        };
        let event = match (number, serde_json::from_slice(text)) {
            (1, Ok(Event::RunStarted { format, .. })) if format != FORMAT => {
                return Err(E::from(StoreError::Format {
                    path: path.to_owned(),
                    found: format,
                }));
            }
            (1, Ok(event @ Event::RunStarted { .. })) => event,
            (1, _) => return Err(E::from(StoreError::NotAJournal(path.to_owned()))),
            (_, Ok(event)) => event,
            (_, Err(source)) => {
                return Err(E::from(StoreError::Corrupt {
                    path: path.to_owned(),
                    line: number,
                    source,
                }));
            }
        };
        each(event)?;
    }
    Ok(())
}

/// Folds a journal, handing each event but the first to `each` before the state takes it in.
pub fn read(
    path: &Path,
    decided: impl Fn(&State) -> bool,
    mut each: impl FnMut(&Event, &State),
) -> Result<State, StoreError> {
    let mut state: Option<State> = None;
    events(path, |event| {
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
