//! Tests that the paths of a trial's threads are recorded.

use super::bench::{Bench, LONG};
use provoke_model::{
    CodeScope, Ending, HoldPlan, PathDetail, PathPart, PathPlace, PathPlan, Signal, TrialPath,
};
use std::time::Duration;

const SOURCE: &str = r#"
#include <pthread.h>
#include <string.h>
#include <unistd.h>
void fall(int *into) { *into = 1; }
void *idle(void *none) { access("/nonexistent", F_OK); return none; }
int main(int count, char **words) {
    pthread_t other;
    pthread_create(&other, 0, idle, 0);
    pthread_join(other, 0);
    if (count > 1 && !strcmp(words[1], "hang")) for (;;) pause();
    if (count > 1 && !strcmp(words[1], "leave")) {
        if (fork()) return 0;
        for (;;) pause();
    }
    fall((int *)16);
}
"#;

fn record(bench: &mut Bench) {
    bench.hold = Some(HoldPlan::Record(PathPlan {
        scope: CodeScope::Own,
        detail: PathDetail::Blocks,
        arrivals: 4,
        part: PathPart::All,
        inside: Vec::new(),
        holds: Vec::new(),
        total_limit: Duration::ZERO,
    }));
}

/// Returns the path of the only trial, which has points of each kind and two threads.
fn complete_path(holds: Option<Box<provoke_model::HoldObservation>>) -> TrialPath {
    let holds = holds.unwrap();
    assert_eq!(holds.refused, None);
    let path = *holds.path.unwrap();
    let is_code = |place: &PathPlace| matches!(place, PathPlace::Code(..));
    assert!(path.points.iter().filter(|place| is_code(place)).count() > 5);
    let call = PathPlace::Call("access".into(), "ENOENT".into(), Some("nonexistent".into()));
    assert!(path.points.contains(&call), "{path:?}");
    assert!((0..2).all(|thread| path.events.0.iter().any(|event| event.thread == thread)));
    path
}

#[test]
fn the_path_to_a_crash_is_recorded() {
    for mut bench in [Bench::new(), Bench::without_root()] {
        record(&mut bench);
        let program = bench.compile("crashes", SOURCE);
        let seen = bench.run(&[&program], LONG);
        assert_eq!(seen.actors[0].ending, Ending::Signaled(Signal::SEGV, false));
        let path = complete_path(seen.holds);
        assert!(path.points.contains(&PathPlace::Signal(11)));
        assert!(
            path.ends
                .iter()
                .any(|end| end.thread == 0 && end.active.len() > 1)
        );
    }
}

#[test]
fn the_path_to_a_hang_is_recorded() {
    let mut bench = Bench::new();
    record(&mut bench);
    let program = bench.compile("hangs", SOURCE);
    let seen = bench.run(&[&program, "hang"], Duration::from_secs(2));
    assert!(seen.hang.is_some());
    let path = complete_path(seen.holds);
    assert!(
        path.ends
            .iter()
            .any(|end| end.thread == 0 && !end.active.is_empty())
    );
}

#[test]
fn a_process_that_is_left_behind_is_killed() {
    let mut bench = Bench::new();
    record(&mut bench);
    let program = bench.compile("leaves", SOURCE);
    let seen = bench.run(&[&program, "leave"], LONG);
    assert_eq!(seen.actors[0].ending, Ending::Exited(0));
    assert_eq!(seen.residue.leaked.len(), 1);
    assert_eq!(seen.residue.unkillable, []);
    complete_path(seen.holds);
}
