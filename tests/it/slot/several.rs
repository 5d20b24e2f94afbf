//! Tests orders for several trials.

use super::bench::{Bench, LONG};
use provoke_model::{Ending, TrialId};
use std::fs;

#[test]
fn a_slot_runs_trials_in_turn_until_one_is_not_plain() {
    let mut slot = Bench::new();
    let script = "echo {trial} >> order; exit $(({trial} == 3))";
    slot.order_trials(&["sh", "-c", script], LONG, 5);
    for (id, code) in [(1, 0), (2, 0), (3, 1)] {
        let (trial, seen) = slot.next_observation();
        let ending = &seen.actors[0].ending;
        assert_eq!((trial, ending), (TrialId(id), &Ending::Exited(code)));
        assert_eq!(seen.is_plain(), code == 0);
    }
    // The next order begins after the failed trial, and the slot has dropped the rest of this one.
    let seen = slot.run(&["sh", "-c", "echo {trial} >> order"], LONG);
    assert!(seen.is_plain());
    let order = fs::read_to_string(slot.path("order")).unwrap();
    assert_eq!(order, "1\n2\n3\n6\n");
}

#[test]
fn results_do_not_wait_for_the_end_of_the_next_trial() {
    let mut slot = Bench::new();
    let script = "test {trial} = 1 || while test ! -e go; do sleep 0.01; done";
    slot.order_trials(&["sh", "-c", script], LONG, 2);
    assert_eq!(slot.next_observation().0, TrialId(1));
    fs::write(slot.path("go"), "").unwrap();
    assert_eq!(slot.next_observation().0, TrialId(2));
}

#[test]
fn every_trial_of_an_order_has_its_own_output_and_directory() {
    let mut slot = Bench::new();
    slot.order_trials(
        &["sh", "-c", "echo {trial}; exit $(({trial} == 2))"],
        LONG,
        2,
    );
    let (_, first) = slot.next_observation();
    let (_, second) = slot.next_observation();
    assert_eq!(first.actors[0].written, (2, 0));
    assert_eq!(second.actors[0].last_words, "2");
}
