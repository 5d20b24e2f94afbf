//! Tests that a power failure loses no synced trial, and changes none.
//!
//! A [`RecordedFile`] below a real journal records its file after every operation. After a power failure, each page of
//! the file has any of its contents since the last sync, or was written in part, and the file has any of its lengths.

use super::journal::{Journal, JournalFile, whole_lines};
use super::{JournalDamage, StoreError, read_run};
use provoke_model::Event;
use provoke_state::Fold;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{io, thread};

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// The file after an operation.
struct Moment {
    content: Vec<u8>,
    is_sync: bool,
}

/// A file of a journal, and its history.
struct RecordedFile {
    file: File,
    path: PathBuf,
    moments: Mutex<Vec<Moment>>,
}

impl RecordedFile {
    /// Opens a journal whose present content is on the disk.
    fn open_journal(path: &Path) -> (Arc<Self>, Journal) {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let recorded = Arc::new(Self {
            file: options.open(path).unwrap(),
            path: path.to_owned(),
            moments: Mutex::default(),
        });
        recorded.record(true);
        let whole_lines = whole_lines(path, &recorded.file).unwrap();
        let file = Arc::clone(&recorded) as Arc<dyn JournalFile>;
        (
            recorded,
            Journal::append_to(file, path, whole_lines).unwrap(),
        )
    }

    fn record(&self, is_sync: bool) {
        let content = fs::read(&self.path).unwrap();
        self.moments
            .lock()
            .unwrap()
            .push(Moment { content, is_sync });
    }

    /// Returns whether the last operation was a sync.
    fn is_synced(&self) -> bool {
        self.moments.lock().unwrap().last().unwrap().is_sync
    }
}

impl JournalFile for RecordedFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        JournalFile::write_all_at(&self.file, bytes, offset)?;
        self.record(false);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.record(false);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.record(true);
        Ok(())
    }
}

/// Chooses values that depend only on the sequence of calls (splitmix64).
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        usize::try_from((mixed ^ (mixed >> 27)) % limit as u64).unwrap()
    }
}

/// Replaces a part of a file by the same part of another version of it, which is zero after its end.
fn copy_part(file: &mut [u8], version: &[u8], (start, end): (usize, usize)) {
    for (offset, byte) in file.iter_mut().enumerate().take(end).skip(start) {
        *byte = version.get(offset).copied().unwrap_or(0);
    }
}

/// Returns files that a power failure may leave, if these are the contents of the file from the last sync to the
/// failure.
fn surviving_files(versions: &[&[u8]], choices: &mut Choices) -> Vec<Vec<u8>> {
    let (synced, newest) = (versions[0], versions[versions.len() - 1]);
    let before = versions[versions.len().saturating_sub(2)];
    // The end is torn: of the last write, at every 29th byte.
    let shorter = before.len().min(newest.len());
    let mut files: Vec<Vec<u8>> = (shorter..newest.len())
        .step_by(29)
        .map(|length| newest[..length].to_vec())
        .collect();
    files.push(newest.to_vec());
    let changed_pages = (0..newest.len().div_ceil(PAGE)).filter(|page| {
        let part = |version: &[u8]| {
            let end = version.len().min((page + 1) * PAGE);
            version.get(page * PAGE..end).map(<[u8]>::to_vec)
        };
        part(synced) != part(newest)
    });
    let first_change = (0..newest.len()).find(|at| synced.get(*at) != newest.get(*at));
    for page in changed_pages {
        let (start, end) = (page * PAGE, (page + 1) * PAGE);
        // Of this page, a part was written, or another block of the disk is in its place.
        for written in (start..end).step_by(SECTOR) {
            let mut torn = newest.to_vec();
            copy_part(&mut torn, synced, (written, end));
            files.push(torn);
        }
        let mut stale = newest.to_vec();
        let from = choices.below(newest.len());
        let start_of_change = start.max(first_change.unwrap_or(newest.len()));
        for (offset, byte) in stale[start_of_change..].iter_mut().take(PAGE).enumerate() {
            *byte = newest[(from + offset) % newest.len()];
        }
        files.push(stale);
        // Of the changed pages, only this one was written.
        let mut alone = newest.to_vec();
        copy_part(&mut alone, synced, (0, start));
        copy_part(&mut alone, synced, (end, newest.len()));
        files.push(alone);
    }
    // Each page has any of its contents, and the file any of its lengths.
    for _ in 0..8 {
        let longest = versions.iter().map(|version| version.len()).max();
        let mut mixed = vec![0; longest.unwrap_or(0)];
        for start in (0..mixed.len()).step_by(PAGE) {
            let version = versions[choices.below(versions.len())];
            copy_part(&mut mixed, version, (start, start + PAGE));
        }
        mixed.truncate(versions[choices.below(versions.len())].len());
        files.push(mixed);
    }
    files
}

/// A journal as it is without a power failure.
struct WholeJournal {
    bytes: Vec<u8>,
    /// The end of each line.
    ends: Vec<usize>,
    events: Vec<Event>,
}

impl WholeJournal {
    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let ends: Vec<usize> = memchr::memchr_iter(b'\n', &bytes)
            .map(|newline| newline + 1)
            .collect();
        let mut events = vec![super::journal::first_event(path).unwrap()];
        read_run(path, Fold::OF_COUNTS, |event, _| events.push(event.clone())).unwrap();
        assert_eq!(events.len(), ends.len());
        Self {
            bytes,
            ends,
            events,
        }
    }

    /// Returns the number of complete lines at the beginning of a file that are those of this journal.
    fn count_lines(&self, file: &[u8]) -> usize {
        let is_unchanged = |end: &&usize| file.get(..**end) == Some(&self.bytes[..**end]);
        self.ends.iter().take_while(is_unchanged).count()
    }

    /// Checks a file that a power failure left. Returns the damage if the file is refused.
    fn check_file(&self, path: &Path, file: &[u8], synced_lines: usize) -> Option<JournalDamage> {
        // ext4 writes a file to the disk if it is truncated and closed.
        let _ = fs::remove_file(path);
        fs::write(path, file).unwrap();
        let lines = self.count_lines(file);
        assert!(lines >= synced_lines, "a synced line is lost");
        let end = lines.checked_sub(1).map_or(0, |last| self.ends[last]);
        let mut events = Vec::new();
        let result = read_run(path, Fold::OF_COUNTS, |event, _| events.push(event.clone()));
        let known_events = self.events.iter().take(lines).skip(1);
        assert!(events.iter().eq(known_events));
        let refusal = match result {
            Ok(_) => {
                assert!(!file[end..].contains(&b'\n'), "a line is left out silently");
                None
            }
            Err(StoreError::NotAJournal(_)) => {
                assert_eq!(lines, 0);
                return None;
            }
            Err(StoreError::Damaged {
                line,
                start,
                damage,
                ..
            }) => {
                assert_eq!((line, start), (lines as u64 + 1, end as u64));
                let opened = Journal::open_for_append(path).map(drop);
                assert!(matches!(opened, Err(StoreError::Damaged { .. })));
                assert!(fs::read(path).unwrap() == file, "a damaged file is changed");
                // The command that the hint names.
                let writable = File::options().write(true).open(path).unwrap();
                writable.set_len(start).unwrap();
                Some(damage)
            }
            Err(error) => panic!("{error}"),
        };
        let mut journal = Journal::open_for_append(path).unwrap();
        let next_end = match self.events.get(lines) {
            Some(event) => {
                journal.add_event(event).unwrap();
                self.ends[lines]
            }
            None => end,
        };
        assert!(fs::read(path).unwrap() == self.bytes[..next_end]);
        refusal
    }

    /// Checks every file that a power failure may leave. Returns how many files were refused because they contain zero
    /// bytes, how many for another reason, and how many were read.
    fn check_power_failures(&self, recorded: &RecordedFile) -> [u32; 3] {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("events.jsonl");
        let moments = recorded.moments.lock().unwrap();
        let mut choices = Choices(0);
        let (mut last_sync, mut counts) = (0, [0; 3]);
        for (number, moment) in moments.iter().enumerate() {
            if moment.is_sync {
                last_sync = number;
            }
            let since_sync = &moments[last_sync..=number];
            let versions: Vec<&[u8]> = since_sync.iter().map(|moment| &*moment.content).collect();
            let synced_lines = self.count_lines(versions[0]);
            for file in surviving_files(&versions, &mut choices) {
                let damage = self.check_file(&path, &file, synced_lines);
                counts[match damage {
                    Some(JournalDamage::Zeros) => 0,
                    Some(_) => 1,
                    None => 2,
                }] += 1;
            }
        }
        counts
    }
}

/// Returns a complete journal of several pages: a stored run of every kind of failure.
fn journal_of_several_pages() -> WholeJournal {
    let stored = Path::new("../../tests/it/runs/run_kinds/events.jsonl");
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("events.jsonl");
    let mut journal = Journal::open_for_append(&path).unwrap();
    for event in WholeJournal::read(stored).events {
        journal.add_event(&event).unwrap();
    }
    drop(journal);
    let whole = WholeJournal::read(&path);
    assert!(whole.bytes.len() > 3 * PAGE, "{}", whole.bytes.len());
    whole
}

#[test]
fn a_power_failure_loses_and_changes_no_synced_trial() {
    let whole = journal_of_several_pages();
    let temporary = tempfile::tempdir().unwrap();
    let (recorded, mut journal) =
        RecordedFile::open_journal(&temporary.path().join("events.jsonl"));
    for (number, event) in whole.events.iter().enumerate() {
        journal.add_event(event).unwrap();
        if number == whole.events.len() / 3 {
            // The second sync only waits for the first.
            journal.begin_sync();
            assert!(journal.sync_to_disk());
            assert!(recorded.is_synced());
        } else if number == whole.events.len() / 2 {
            journal.begin_sync();
            while !recorded.is_synced() {
                thread::yield_now();
            }
        }
    }
    // The sync that began before the last events is not enough.
    assert!(journal.sync_to_disk());
    assert!(recorded.is_synced());
    assert!(fs::read(&recorded.path).unwrap() == whole.bytes);
    let [zeros, other, readable] = whole.check_power_failures(&recorded);
    assert!(
        zeros >= 100 && other >= 20 && readable >= 800,
        "{zeros} {other} {readable}"
    );
}

#[test]
fn a_power_failure_after_a_resumption_changes_no_earlier_trial() {
    let whole = journal_of_several_pages();
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("events.jsonl");
    // The last complete line is followed by an incomplete line of two pages, which the resumption cuts off.
    let lines = whole.ends.len() / 2;
    let mut torn = whole.bytes[..whole.ends[lines]].to_vec();
    torn.extend(b"{\"note\":{\"level\":\"warning\",\"text\":\"");
    torn.extend(b"old ".repeat(2 * PAGE / 4));
    fs::write(&path, torn).unwrap();
    let (recorded, mut journal) = RecordedFile::open_journal(&path);
    for event in &whole.events[lines + 1..] {
        journal.add_event(event).unwrap();
    }
    assert!(journal.sync_to_disk());
    let [_, other, readable] = whole.check_power_failures(&recorded);
    assert!(other >= 20 && readable >= 300, "{other} {readable}");
}
