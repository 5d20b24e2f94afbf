//! Writes and reads the journal of a run, and cuts off a line that was not completed.

use super::lines::{Checksum, JournalLines, LONGEST_LINE, LineError};
use super::secrets::Secrets;
use super::sequence::EventSequence;
use super::shared_data::SharedData;
use super::{JournalDamage, StoreError, upgrade};
use provoke_model::{
    CasePattern, Event, FORMAT, Host, InconclusiveReason, Outcome, Plan, Survey,
    is_parsed_untrusted,
};
use provoke_runners::runner_named;
use provoke_state::{EventSink, Fold, State};
use provoke_sys::files;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum number of bytes that are buffered while writing fails.
const WAITING: usize = 64 << 20;
/// Time limit for locking a journal.
const LOCK_WITHIN: Duration = Duration::from_secs(2);
/// Pause between two attempts to lock it.
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Beginning of every journal.
const FIRST_LINE: &[u8] = b"{\"run_started\":";

/// The operations on the file of a journal. Tests record them, to create the files that a power failure may leave.
pub(super) trait JournalFile: Send + Sync {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, length: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
}

impl JournalFile for File {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A journal open for writing.
pub struct Journal {
    file: Arc<dyn JournalFile>,
    path: PathBuf,
    /// Complete lines that are not written yet.
    waiting: Vec<u8>,
    /// End of the last complete line.
    end: u64,
    /// Checksum of the last line, written or buffered.
    checksum: Checksum,
    /// The last write error.
    trouble: Option<io::Error>,
    /// Writes the lines before this offset to the disk, on another thread.
    syncing: Option<(u64, JoinHandle<io::Result<()>>)>,
    /// Whether an event was lost. No later event is written, so that the journal can be resumed from there.
    lost: bool,
    /// Finished trials that are not written yet, or lost.
    unwritten_trials: u64,
}

impl Journal {
    /// Opens a journal for exclusive writing at its end. An incomplete last line is cut off; a damaged journal is
    /// refused and left unchanged.
    pub fn open_for_append(path: &Path) -> Result<Self, StoreError> {
        let file = files::update_itself(path).map_err(StoreError::io("open", path))?;
        if !lock_journal(&file) {
            return Err(StoreError::Busy(path.parent().unwrap_or(path).to_owned()));
        }
        let whole_lines = whole_lines(path, &file)?;
        Self::append_to(Arc::new(file), path, whole_lines)
            .map_err(StoreError::io("cut the torn last line of", path))
    }

    /// Appends to a file after its complete lines: their end and their checksum.
    pub(super) fn append_to(
        file: Arc<dyn JournalFile>,
        path: &Path,
        (end, checksum): (u64, Checksum),
    ) -> io::Result<Self> {
        file.set_len(end)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            waiting: Vec::new(),
            end,
            checksum,
            trouble: None,
            syncing: None,
            lost: false,
            unwritten_trials: 0,
        })
    }

    /// Adds an event that must not be lost; a failure is an error.
    pub fn add_event(&mut self, event: &Event) -> Result<(), StoreError> {
        self.push_event(event);
        self.flush_events();
        match self.trouble.take() {
            None => Ok(()),
            Some(error) => Err(StoreError::io("write", &self.path)(error)),
        }
    }

    fn push_event(&mut self, event: &Event) {
        self.unwritten_trials += u64::from(matches!(event, Event::TrialFinished { .. }));
        self.lost |= self.waiting.len() > WAITING;
        if self.lost {
            return;
        }
        let start = self.waiting.len();
        let written = event.write_json(&mut self.waiting).map_err(io::Error::from);
        let checked = written.and_then(|()| check_readable(&self.waiting[start..]));
        match checked {
            Ok(()) => self.checksum.finish_line(&mut self.waiting, start),
            // A partial line would damage those after it, and no reader reads a longer one.
            Err(error) => {
                self.waiting.truncate(start);
                self.lost = true;
                self.trouble.get_or_insert(error);
            }
        }
    }

    /// Writes the buffered lines. After an error they are tried again the next time, so a disk that is full for a while
    /// causes no loss.
    fn flush_events(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match self.file.write_all_at(&self.waiting, self.end) {
            Ok(()) => {
                self.end += self.waiting.len() as u64;
                self.waiting.clear();
                if !self.lost {
                    self.unwritten_trials = 0;
                }
            }
            Err(error) => {
                // A part of it may be written: the next attempt begins at the same offset.
                let _ = self.file.set_len(self.end);
                self.trouble.get_or_insert(error);
            }
        }
    }

    /// Returns the number of finished trials that are not in the journal.
    pub fn unwritten_trials(&self) -> u64 {
        self.unwritten_trials
    }

    /// Returns the last write error, once.
    pub fn take_trouble(&mut self) -> Option<io::Error> {
        self.trouble.take()
    }

    /// Begins to write everything to the disk, on another thread. [`Self::sync_to_disk`] then waits only for the rest.
    pub fn begin_sync(&mut self) {
        self.flush_events();
        let file = Arc::clone(&self.file);
        let thread = thread::Builder::new().spawn(move || file.sync_data());
        self.syncing = thread.ok().map(|thread| (self.end, thread));
    }

    /// Writes everything to the disk; returns whether the journal is complete.
    pub fn sync_to_disk(&mut self) -> bool {
        self.flush_events();
        let is_synced = match self.syncing.take() {
            // The kernel reports a lost write only once.
            Some((end, thread)) => {
                matches!(thread.join(), Ok(Ok(())))
                    && (end == self.end || self.file.sync_data().is_ok())
            }
            None => self.file.sync_data().is_ok(),
        };
        self.waiting.is_empty() && !self.lost && is_synced
    }
}

impl EventSink for Journal {
    fn on_event(&mut self, event: &Event, _: &State) {
        self.push_event(event);
    }

    fn before_wait(&mut self, _: &State) {
        self.flush_events();
    }
}

/// Refuses an event that no reader would read: only the plan of a search can have so many candidates.
fn check_readable(event: &[u8]) -> io::Result<()> {
    // The checksum follows.
    const LONGEST_EVENT: usize = LONGEST_LINE - 64;
    let problem = if event.len() > LONGEST_EVENT {
        format!("an event of {} MiB is too long", event.len() >> 20)
    } else if !is_parsed_untrusted(event) {
        "an event has too many parts".to_owned()
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::FileTooLarge, problem))
}

/// Locks a journal. A slot that starts shares the lock of its provoke until its `exec`, so the lock of a provoke that
/// was just killed can last for a few milliseconds.
fn lock_journal(file: &File) -> bool {
    let until = Instant::now() + LOCK_WITHIN;
    loop {
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(LOCK_PAUSE);
    }
}

/// Returns the end of the last complete line, and its checksum.
pub(super) fn whole_lines(path: &Path, file: &File) -> Result<(u64, Checksum), StoreError> {
    let mut lines = JournalLines::new(BufReader::with_capacity(1 << 20, file));
    loop {
        match lines.next_event() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok((lines.end, lines.checksum)),
            Err(error) => return Err(at_line(path, (lines.number, lines.start), error)),
        }
    }
}

/// Describes the error in the line with this number, which begins at this offset.
fn at_line(path: &Path, (line, start): (u64, u64), error: LineError) -> StoreError {
    match error {
        LineError::Io(error) => StoreError::io("read", path)(error),
        LineError::Damage(damage) => StoreError::Damaged {
            path: path.to_owned(),
            line,
            start,
            damage,
        },
    }
}

/// The facts about a run in the first event of its journal.
#[derive(Clone, Debug)]
pub struct RunStart {
    /// The plan of the run.
    pub plan: Box<Plan>,
    /// The machine.
    pub host: Host,
    /// Further facts of the environment.
    pub survey: Survey,
    /// Seconds since 1970.
    pub at: i64,
}

/// Reads how a run began.
pub fn read_start(journal: &Path) -> Result<RunStart, StoreError> {
    match first_event(journal)? {
        Event::RunStarted {
            plan,
            host,
            survey,
            at,
            ..
        } => Ok(RunStart {
            plan,
            host,
            survey,
            at,
        }),
        _ => Err(StoreError::NotAJournal(journal.to_owned())),
    }
}

/// Returns the first event of a journal.
pub(super) fn first_event(journal: &Path) -> Result<Event, StoreError> {
    EventReader::open(journal, Secrets::default())?
        .next_event()?
        .ok_or_else(|| StoreError::NotAJournal(journal.to_owned()))
}

/// Reads the events of a journal, in order. It fails at the first invalid line, so that a damaged journal is not used.
pub struct EventReader<'p> {
    path: &'p Path,
    /// Secrets that are masked.
    secrets: Secrets,
    lines: JournalLines<BufReader<File>>,
    sequence: EventSequence,
}

impl<'p> EventReader<'p> {
    /// Opens a journal. The secrets of its run are masked.
    pub fn open_masked(path: &'p Path) -> Result<Self, StoreError> {
        Self::open(path, Secrets::of_run(path)?)
    }

    fn open(path: &'p Path, secrets: Secrets) -> Result<Self, StoreError> {
        let file = files::regular_itself(path)
            .map_err(|error| at_line(path, (0, 0), LineError::Io(error)))?;
        Ok(Self {
            path,
            secrets,
            lines: JournalLines::new(BufReader::with_capacity(1 << 20, file)),
            sequence: EventSequence::default(),
        })
    }

    /// Returns the next event; `None` at the end.
    pub fn next_event(&mut self) -> Result<Option<Event>, StoreError> {
        let path = self.path;
        let (parsed, is_first) = match self.lines.next_event() {
            Ok(Some(json)) => (
                self.secrets.parse_masked(json, upgrade::parse_event),
                json.starts_with(FIRST_LINE),
            ),
            Ok(None) => return Ok(None),
            Err(error) => {
                return Err(at_line(path, (self.lines.number, self.lines.start), error));
            }
        };
        let (number, start) = (self.lines.number, self.lines.start);
        let damaged = |damage| at_line(path, (number, start), LineError::Damage(damage));
        let has_sums = self.lines.has_sums;
        let unreadable = |source| {
            if has_sums {
                let path = path.to_owned();
                StoreError::OtherVersion { path, source }
            } else {
                damaged(JournalDamage::Unreadable(source))
            }
        };
        let event = match (number, parsed) {
            (1, Ok(Event::RunStarted { format, .. })) if format != FORMAT => {
                return Err(StoreError::Format {
                    path: path.to_owned(),
                    found: format,
                });
            }
            (1, Ok(event @ Event::RunStarted { .. })) => {
                if let Some(runner) = unknown_runner(&event) {
                    let path = path.to_owned();
                    return Err(StoreError::UnknownRunner { path, runner });
                }
                event
            }
            (1, Err(source)) if is_first => return Err(unreadable(source)),
            (1, _) => return Err(StoreError::NotAJournal(path.to_owned())),
            (_, Ok(event)) => event,
            (_, Err(source)) => return Err(unreadable(source)),
        };
        self.sequence.add_event(&event).map_err(damaged)?;
        Ok(Some(event))
    }
}

/// Returns the test runner of a run, if this version does not know it.
fn unknown_runner(start: &Event) -> Option<String> {
    let Event::RunStarted { plan, .. } = start else {
        return None;
    };
    let name = &plan.trials.cases.as_ref()?.runner.name;
    runner_named(name).is_none().then(|| name.clone())
}

impl Secrets {
    /// Finds the secrets of a run.
    pub fn of_run(journal: &Path) -> Result<Self, StoreError> {
        Ok(Self::of_trials(&read_start(journal)?.plan.trials))
    }
}

/// Copies a journal without the parts that are not `shared`, and with the secrets of the run masked.
pub fn copy_to_share(
    journal: &Path,
    shared: SharedData,
    output: &mut dyn io::Write,
) -> Result<(), StoreError> {
    let mut checksum = Checksum::default();
    let mut line = Vec::new();
    let mut events = EventReader::open_masked(journal)?;
    while let Some(event) = events.next_event()? {
        line.clear();
        let written = shared
            .strip_event(event)
            .write_json(&mut line)
            .map_err(io::Error::from)
            .and_then(|()| {
                checksum.finish_line(&mut line, 0);
                output.write_all(&line)
            });
        written.map_err(StoreError::io("copy", journal))?;
    }
    Ok(())
}

/// Folds a journal, passing each event but the first to `on_event` before the state.
pub fn read_run(
    path: &Path,
    fold: Fold,
    mut on_event: impl FnMut(&Event, &State),
) -> Result<State, StoreError> {
    read_state(path, Secrets::default(), fold, &mut on_event)
}

/// Folds a journal as if its run had looked for failures of certain cases.
pub fn read_run_for_cases(
    path: &Path,
    fold: Fold,
    patterns: &[CasePattern],
) -> Result<State, StoreError> {
    let mut events = EventReader::open(path, Secrets::default())?;
    let mut state = None;
    while let Some(event) = events.next_event()? {
        let judged_event = judge_by_cases(state.as_ref(), event, patterns);
        fold.add_event(&mut state, judged_event);
    }
    state.ok_or_else(|| StoreError::NotAJournal(path.to_owned()))
}

/// Replaces the outcome of a trial by that of its cases.
fn judge_by_cases(state: Option<&State>, event: Event, patterns: &[CasePattern]) -> Event {
    match event {
        Event::TrialFinished {
            trial,
            at,
            seen,
            outcome,
        } => {
            let is_judged = match &outcome {
                Outcome::Inconclusive(reason) => matches!(
                    reason,
                    InconclusiveReason::CaseNotRun
                        | InconclusiveReason::NoCase
                        | InconclusiveReason::Skipped
                        | InconclusiveReason::UnknownFailure
                ),
                _ => true,
            };
            let record = seen.case_record.as_deref();
            let outcome = match (record, state) {
                (Some(record), Some(state)) if is_judged => {
                    state.case_names.judge_record(record, patterns, &outcome)
                }
                (None, _) if is_judged => Outcome::Inconclusive(InconclusiveReason::CaseNotRun),
                _ => outcome,
            };
            Event::TrialFinished {
                trial,
                at,
                seen,
                outcome,
            }
        }
        event => event,
    }
}

/// Does the same as [`read_run`] with the secrets of the run masked, for reports that are shared.
pub fn read_masked(path: &Path, fold: Fold) -> Result<State, StoreError> {
    let secrets = Secrets::of_run(path)?;
    read_state(path, secrets, fold, &mut |_, _| {})
}

fn read_state(
    path: &Path,
    secrets: Secrets,
    fold: Fold,
    on_event: &mut dyn FnMut(&Event, &State),
) -> Result<State, StoreError> {
    let mut events = EventReader::open(path, secrets)?;
    let mut state = None;
    while let Some(event) = events.next_event()? {
        if let Some(state) = &state {
            on_event(&event, state);
        }
        fold.add_event(&mut state, event);
    }
    state.ok_or_else(|| StoreError::NotAJournal(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_a_journal_waits_for_a_short_lock() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("events.jsonl");
        let first = Journal::open_for_append(&path).unwrap();
        let other = std::thread::spawn(move || {
            thread::sleep(LOCK_PAUSE * 5);
            drop(first);
        });
        assert!(Journal::open_for_append(&path).is_ok());
        other.join().unwrap();
    }
}
