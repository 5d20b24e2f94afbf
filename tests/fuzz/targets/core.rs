//! Examines cores.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_autopsy::{Examiner, ExaminerSettings, core_owner, mapped_paths, start_variable};
use provoke_fuzz::InputFile;

fuzz_target!(|core: &[u8]| {
    let file = InputFile::new("core");
    let path = file.write(core);
    let _ = core_owner(path);
    let _ = mapped_paths(path);
    let _ = start_variable(path, "PATH");
    // The core names files of this machine, which another target reads: here they would only take time.
    let mut examiner = Examiner::new(ExaminerSettings {
        debug_dirs: Vec::new(),
        root: Some("/nonexistent".into()),
        ..ExaminerSettings::default()
    });
    let _ = examiner.examine_core(path);
    let _ = examiner.variables_at(path, &[0x1000, u64::MAX]);
});
