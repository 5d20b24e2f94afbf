//! Runs trials on this machine, and collects what a failure leaves.
//!
#![doc = include_str!("../README.md")]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests show names that they made")
)]

mod case_reports;
mod core_search;
mod cwd_snapshot;
mod evidence;
mod executor;
mod hold_names;
mod image;
mod logged_places;
mod path_names;
mod running_service;
mod service;
mod setup_usage;
mod slot_handle;

pub use executor::{LocalExecutor, longest_trial};
pub use provoke_slot::HOOK_TIMEOUT;
pub use slot_handle::StartedSlot;
