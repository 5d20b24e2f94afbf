//! Tests that damaged reports end no reader, and that reports cannot use much memory.

use crate::samples::open_sample;
use provoke_model::TrialCases;
use provoke_runners::{ctest, go, gtest, junit, libtest, stream, tap};
use std::io::Read as _;
use std::path::Path;

type ReadBytes = fn(&[u8]) -> TrialCases;

const READERS: [(&str, ReadBytes); 9] = [
    ("junit", |input| junit::read_junit(input)),
    ("junit", |input| junit::read_nextest(input)),
    ("ctest", |input| junit::read_ctest(input)),
    ("ctest", |input| ctest::read_output(input)),
    ("pytest", |input| stream::read_stream(input)),
    ("go", |input| go::read_go(input)),
    ("gtest", |input| gtest::read_gtest(input)),
    ("tap", |input| tap::read_tap(input)),
    ("libtest", |input| {
        libtest::read_libtest(input, |_| vec!["a".to_owned(), "b".to_owned()])
    }),
];

fn samples_of(folder: &str) -> Vec<Vec<u8>> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let mut names: Vec<String> = std::fs::read_dir(samples.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let read = |name: &String| {
        let mut bytes = Vec::new();
        open_sample(&format!("{folder}/{name}"))
            .read_to_end(&mut bytes)
            .unwrap();
        bytes
    };
    names.iter().map(read).collect()
}

/// Changes, removes or repeats some bytes, differently for each seed.
fn damage_bytes(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % (limit as u64 + 1)).unwrap()
    };
    let mut damaged = bytes.to_vec();
    for _ in 0..=draw(4) {
        let start = draw(damaged.len());
        let end = (start + draw(40)).min(damaged.len());
        match draw(3) {
            0 => drop(damaged.drain(start..end)),
            1 => {
                let part = damaged[start..end].to_vec();
                damaged.splice(start..start, part);
            }
            2 => damaged[start..end].fill(b"\xc3<\"\\\n[(-:0"[draw(9)]),
            _ => damaged[start..end].reverse(),
        }
    }
    damaged
}

#[test]
fn damaged_reports_end_no_reader() {
    for (folder, read) in READERS {
        for sample in samples_of(folder) {
            for seed in 0..150 {
                let cases = read(&damage_bytes(&sample, seed));
                let names = cases.results.iter().map(|result| &result.case.name);
                assert!(
                    names.clone().all(|name| name.len() <= 2_000),
                    "{folder} {seed}"
                );
            }
        }
    }
}

#[test]
fn reports_of_another_format_have_no_failures() {
    for (folder, _) in READERS {
        for sample in samples_of(folder) {
            for (own_folder, read) in READERS {
                // The output of ctest may contain that of googletest.
                if own_folder == folder || (own_folder, folder) == ("gtest", "ctest") {
                    continue;
                }
                let is_xml = |name| matches!(name, "junit" | "ctest");
                if is_xml(own_folder) && is_xml(folder) {
                    continue;
                }
                let cases = read(&sample);
                let failed = cases.results.iter().find(|result| result.end.is_failure());
                assert_eq!(failed, None, "{folder} read as {own_folder}");
            }
        }
    }
}

#[test]
fn names_and_tests_are_limited() {
    let name = "x".repeat(100_000);
    let line = format!(
        "{{\"event\": \"end\", \"case\": \"{name}\", \"message\": \"{name}\", \"outcome\": \"failed\"}}\n"
    );
    let cases = stream::read_stream(line.as_bytes());
    assert_eq!(cases.results[0].case.name.len(), 2_000);
    let failure = cases.results[0].failure.as_ref().unwrap();
    assert_eq!(failure.message.len(), 2_000);
    let cases = tap::read_tap("ok\n".repeat(300_000).as_bytes());
    assert_eq!(cases.results.len(), 200_000);
    assert!(
        cases
            .complaints
            .contains(&"the trial has more than 200000 cases; the rest is ignored".to_owned())
    );
}
