//! Reads HTTP responses, whole and in pieces. The first byte is the length of a piece.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_load::fuzzing::read_response;

fuzz_target!(|input: &[u8]| {
    let Some((length, response)) = input.split_first() else {
        return;
    };
    let pieces = read_response(response, usize::from(*length).max(1));
    let whole = read_response(response, usize::MAX);
    // An error may be seen before or after the rest arrives.
    if whole.is_complete || pieces.is_complete {
        assert_eq!(whole, pieces);
    }
});
