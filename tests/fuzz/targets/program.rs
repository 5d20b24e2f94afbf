//! Reads programs: their symbols, and their debug information at two addresses, which precede the program.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_autopsy::{Examiner, ExaminerSettings};
use provoke_fuzz::InputFile;

fuzz_target!(|input: ([u32; 2], &[u8])| {
    let (addresses, program) = input;
    let file = InputFile::new("program");
    let path = file.write(program);
    let mut examiner = Examiner::new(ExaminerSettings {
        debug_dirs: Vec::new(),
        ..ExaminerSettings::default()
    });
    for address in addresses.map(u64::from) {
        let _ = examiner.frames_at(path, address);
        let _ = examiner.frames_at_offset(path, address);
    }
});
