//! Reads scenario files, and makes their plans.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_fuzz::{InputFile, plan_of};
use provoke_plan::render_in_file;

fuzz_target!(|scenario: &[u8]| {
    let file = InputFile::new("scenario.toml");
    if let Err(error) = plan_of(file.write(scenario)) {
        assert!(render_in_file(&error, true).is_some());
    }
});
