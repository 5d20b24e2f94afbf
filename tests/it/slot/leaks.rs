//! Tests the evidence of processes that outlive a trial.

use super::bench::{Bench, LONG};

#[test]
fn leaked_processes_with_equal_commands_have_one_core() {
    let mut bench = Bench::new();
    let seen = bench.run(
        &["sh", "-c", "sleep 1001 & sleep 1001 & sleep 1002 &"],
        LONG,
    );
    let leaked = &seen.residue.leaked;
    let cores: Vec<_> = leaked.iter().filter_map(|one| one.core.as_ref()).collect();
    assert_eq!((leaked.len(), cores.len()), (3, 2), "{leaked:#?}");
    for core in cores {
        let name = format!("leak.{}.core", core.pid);
        assert!(core.file.as_os_str().to_str().unwrap().ends_with(&name));
        assert_eq!(core.unread, None);
        assert!(std::fs::metadata(core.file.as_os_str()).unwrap().len() == core.size);
    }
    assert!(leaked.iter().all(|one| one.waiting.ends_with("nanosleep")));
    assert_eq!(seen.crashed_children, []);
}
