//! Reads journals.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_fuzz::InputFile;
use provoke_journal as journal;
use provoke_questions as questions;

fuzz_target!(|journal: &[u8]| {
    let file = InputFile::new("journal");
    let _ = journal::read_run(file.write(journal), questions::FOLD, |_, _| {});
});
