//! Reads reports of test runners. The first byte chooses the reader.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_runners::{ctest, go, gtest, junit, libtest, stream, tap};

fuzz_target!(|input: &[u8]| {
    let Some((reader, report)) = input.split_first() else {
        return;
    };
    let _ = match reader % 9 {
        0 => junit::read_junit(report),
        1 => junit::read_nextest(report),
        2 => junit::read_ctest(report),
        3 => ctest::read_output(report),
        4 => stream::read_stream(report),
        5 => go::read_go(report),
        6 => gtest::read_gtest(report),
        7 => tap::read_tap(report),
        _ => libtest::read_libtest(report, |_| vec!["a".to_owned()]),
    };
});
