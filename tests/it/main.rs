//! The only integration test binary, with one module per subject.

#![expect(clippy::disallowed_methods, reason = "tests show names that they made")]

mod answered;
mod answers;
mod atlas;
mod autopsy;
mod cli;
mod coverage;
mod damage;
mod design;
mod docs;
mod file_access;
mod flags;
mod golden;
mod held_program;
mod host_trials;
mod layers;
mod leases;
mod limited;
mod live_lines;
mod loop_and_fold;
mod observed;
mod packages;
mod pages;
mod preparation;
mod raise;
mod ramp;
mod scenarios;
mod screens;
mod slot;

use provoke_test_needs as needs;
