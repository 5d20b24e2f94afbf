//! Reads what a host sends, from the greeting of its worker to the files of a trial.
#![no_main]

use libfuzzer_sys::fuzz_target;
use provoke_fuzz::{InputFile, plan_of};
use provoke_hosts::fuzzing::receive;
use provoke_model::Plan;
use std::sync::LazyLock;

static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let file = InputFile::new("worker.toml");
    plan_of(file.write(b"command = ['true']")).expect("a scenario")
});

fuzz_target!(|messages: &[u8]| receive(&PLAN.trials, messages));
