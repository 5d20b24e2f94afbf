//! Reads scenario files, and makes their plans.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_fuzz::{InputFile, plan_of};

fuzz_target!(|scenario: &[u8]| {
    let file = InputFile::new("scenario.toml");
    if let Err(error) = plan_of(file.write(scenario)) {
        assert!(!error.render_message(true).is_empty());
    }
});
