//! Tests that a damaged journal never crashes the program: it is refused with the number of the line or, if its end is
//! missing, read up to that point.

use crate::loop_and_fold::{begin, exited, hash, plan, run};
use proptest::prelude::*;
use provoke_journal::{Journal, StoreError, read_run};
use provoke_model::{Event, Trial};
use provoke_questions as questions;
use provoke_report::Report;
use std::fs;
use std::time::Duration;

/// Returns the events of a run with every kind of outcome.
fn history(seed: u64) -> Vec<Event> {
    let (first, mut state) = begin(plan("runs = 20\njobs = 3\nonly = ['code:1']"));
    let codes = [0, 1, 125, 139, 2];
    let script = move |trial: &Trial| {
        let pick = usize::try_from(hash(seed, trial.id.0) % 5).unwrap();
        (
            Duration::from_millis(hash(seed, trial.id.0) % 50),
            exited(codes[pick]),
        )
    };
    let events = run(&mut state, script, None);
    std::iter::once(first).chain(events).collect()
}

/// Returns a journal without checksums, as earlier versions wrote it.
fn journal(seed: u64) -> Vec<u8> {
    let lines = history(seed)
        .into_iter()
        .map(|event| serde_json::to_string(&event).unwrap() + "\n");
    lines.collect::<String>().into_bytes()
}

/// Returns a journal in the present format.
fn journal_with_sums(seed: u64) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let mut journal = Journal::open_for_append(&path).unwrap();
    for event in history(seed) {
        journal.add_event(&event).unwrap();
    }
    fs::read(path).unwrap()
}

/// Reads a journal and creates the report, as `provoke report` does.
fn digest(bytes: &[u8]) -> Result<serde_json::Value, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fs::write(&path, bytes).unwrap();
    let state = read_run(&path, questions::FOLD, |_, _| {})?;
    let report = Report::new(&state, state.stage.is_finished());
    Ok(serde_json::to_value(&report).unwrap())
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns a journal with one damage of this kind.
fn damaged(bytes: &[u8], kind: u64, chance: u64) -> Vec<u8> {
    let pick = |of: usize, salt: u64| usize::try_from(hash(chance, salt) % of as u64).unwrap();
    let mut rows = lines(bytes);
    let (at, other) = (pick(rows.len(), 1), pick(rows.len(), 2));
    match kind {
        0 => drop(rows.remove(at)),
        1 => rows.insert(at, rows[at]),
        2 => rows.insert(other, rows[at]),
        3 => rows.swap(at, other),
        _ => {}
    }
    let mut changed = rows.concat();
    let at = pick(changed.len(), 3);
    match kind {
        4 => changed[at] ^= 1 << pick(8, 4),
        5 => {
            let digits = changed
                .iter()
                .enumerate()
                .filter(|(_, byte)| byte.is_ascii_digit());
            let places: Vec<usize> = digits.map(|(place, _)| place).collect();
            changed[places[pick(places.len(), 5)]] = b"0123456789"[pick(10, 6)];
        }
        6 => drop(changed.drain(at..(at + 1 + pick(300, 7)).min(bytes.len()))),
        7 => changed.truncate(at),
        _ => {}
    }
    changed
}

#[test]
fn a_damaged_journal_never_gives_a_wrong_report() {
    let (mut refused, mut shorter) = (0, 0);
    let journals: Vec<Vec<u8>> = (0..5).map(journal_with_sums).collect();
    for case in 0..600 {
        let bytes = &journals[usize::try_from(case % 5).unwrap()];
        let changed = damaged(bytes, case % 8, case);
        if changed == *bytes {
            continue;
        }
        let (before, after) = (lines(bytes), lines(&changed));
        let same = before
            .iter()
            .zip(&after)
            .take_while(|(a, b)| a == b)
            .count();
        match digest(&changed) {
            // Only a beginning of the journal is read without error, like that of a killed run.
            Ok(report) => {
                assert!(after.len() <= same + 1, "case {case}");
                assert!(!changed[before[..same].concat().len()..].ends_with(b"\n"));
                assert_eq!(report, digest(&before[..same].concat()).unwrap());
                assert_eq!(report["finished"], false, "case {case}");
                assert_eq!(report["journal_complete"], false, "case {case}");
                shorter += 1;
            }
            Err(StoreError::Damaged { line, .. }) => {
                assert_eq!(line, same as u64 + 1, "case {case}");
                refused += 1;
            }
            Err(StoreError::NotAJournal(_)) => {
                assert_eq!(same, 0, "case {case}");
                refused += 1;
            }
            Err(error) => panic!("case {case}: {error}"),
        }
    }
    assert!(refused >= 400 && shorter >= 60, "{refused} and {shorter}");
}

#[test]
fn a_damaged_journal_cannot_be_opened_for_writing() {
    let bytes = journal_with_sums(1);
    let mut changed = lines(&bytes);
    changed.remove(4);
    let changed = changed.concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fs::write(&path, [&changed[..], b"torn"].concat()).unwrap();
    let refused = Journal::open_for_append(&path).map(drop).unwrap_err();
    assert!(
        matches!(refused, StoreError::Damaged { line: 5, .. }),
        "{refused}"
    );
    assert!(fs::read(&path).unwrap().ends_with(b"torn"));
}

#[test]
fn missing_and_repeated_trials_are_found_without_checksums() {
    let bytes = journal(3);
    digest(&bytes).unwrap();
    let rows = lines(&bytes);
    let is_of_a_trial = |row: &[u8]| row.starts_with(b"{\"trial_");
    for at in (0..rows.len()).filter(|at| is_of_a_trial(rows[*at])) {
        let mut missing = rows.clone();
        missing.remove(at);
        let missing = digest(&missing.concat());
        assert!(matches!(missing, Err(StoreError::Damaged { .. })), "{at}");
        let mut repeated = rows.clone();
        repeated.insert(at, rows[at]);
        let repeated = digest(&repeated.concat());
        let found =
            matches!(repeated, Err(StoreError::Damaged { line, .. }) if line == at as u64 + 2);
        assert!(found, "{at}");
    }
}

#[test]
fn a_resumed_journal_without_checksums_gets_checksums() {
    let bytes = journal(3);
    let rows = lines(&bytes);
    let started_at = rows[..rows.len() / 2].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fs::write(&path, &started_at).unwrap();
    let mut journal = Journal::open_for_append(&path).unwrap();
    journal.add_event(&Event::RunResumed { at: 7 }).unwrap();
    drop(journal);
    let resumed = fs::read(&path).unwrap();
    assert!(resumed.starts_with(&started_at));
    digest(&resumed).unwrap();
    let mut changed = resumed;
    let at = started_at.len() - 20;
    changed[at] ^= 1;
    let refused = digest(&changed);
    assert!(matches!(refused, Err(StoreError::Damaged { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_journal_cut_after_its_first_line_is_readable(seed in any::<u64>(), at in any::<prop::sample::Index>()) {
        let bytes = journal(seed);
        let first_line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let cut = at.index(bytes.len());
        prop_assert_eq!(digest(&bytes[..cut]).is_ok(), cut > first_line);
    }

    #[test]
    fn changed_bytes_do_not_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = journal(seed);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = digest(&bytes);
    }

    #[test]
    fn changed_digits_do_not_panic(
        seed in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), b'0'..=b'9'), 1..50),
    ) {
        let mut bytes = journal(seed);
        let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
        for (at, digit) in changes {
            bytes[digits[at.index(digits.len())]] = digit;
        }
        let _ = digest(&bytes);
    }

    #[test]
    fn lost_repeated_and_swapped_lines_do_not_panic(
        seed in any::<u64>(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..80),
    ) {
        let bytes = journal(seed);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let mut mixed = lines[0].to_vec();
        for pick in picks {
            mixed.extend_from_slice(lines[pick.index(lines.len())]);
        }
        let _ = digest(&mixed);
    }
}
