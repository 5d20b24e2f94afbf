//! A damaged journal never brings the program down: it is read as far as it goes, or
//! refused with the line.

use crate::loop_and_fold::{begin, exited, hash, plan, run};
use proptest::prelude::*;
use provoke::model::Trial;
use provoke::policy;
use provoke::report::Report;
use provoke::store::{StoreError, read};
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

/// The journal of a run with every kind of outcome.
fn journal(world: u64) -> Vec<u8> {
    let (first, mut state) = begin(plan("runs = 20\njobs = 3\nonly = ['code:1']"));
    let mut text = serde_json::to_string(&first).unwrap() + "\n";
    let codes = [0, 1, 125, 139, 2];
    let script = move |trial: &Trial| {
        let pick = usize::try_from(hash(world, trial.id.0) % 5).unwrap();
        (
            Duration::from_millis(hash(world, trial.id.0) % 50),
            exited(codes[pick]),
        )
    };
    for event in run(&mut state, script, None) {
        writeln!(text, "{}", serde_json::to_string(&event).unwrap()).unwrap();
    }
    text.into_bytes()
}

/// Reads a journal and makes the report, as `provoke report` does.
fn digest(bytes: &[u8]) -> Result<(), StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    fs::write(&path, bytes).unwrap();
    let state = read(&path, policy::is_done, |_, _| {})?;
    let report = Report::new(&state, true);
    serde_json::to_string(&report).unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_journal_may_be_cut_anywhere(world in any::<u64>(), at in any::<prop::sample::Index>()) {
        let bytes = journal(world);
        let first_line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
        let cut = at.index(bytes.len());
        prop_assert_eq!(digest(&bytes[..cut]).is_ok(), cut > first_line);
    }

    #[test]
    fn bytes_may_be_changed_anywhere(
        world in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = journal(world);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = digest(&bytes);
    }

    #[test]
    fn digits_may_be_changed_so_that_every_line_still_reads(
        world in any::<u64>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), b'0'..=b'9'), 1..50),
    ) {
        let mut bytes = journal(world);
        let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
        for (at, digit) in changes {
            bytes[digits[at.index(digits.len())]] = digit;
        }
        let _ = digest(&bytes);
    }

    #[test]
    fn lines_may_be_lost_doubled_and_swapped(
        world in any::<u64>(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..80),
    ) {
        let bytes = journal(world);
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let mut mixed = lines[0].to_vec();
        for pick in picks {
            mixed.extend_from_slice(lines[pick.index(lines.len())]);
        }
        let _ = digest(&mixed);
    }
}
