//! Holds threads of a program at chosen points, until the others are blocked, to provoke rare schedules.
//!
#![doc = include_str!("../README.md")]

mod access;
pub mod blocks;
mod call_result;
pub mod code;
mod loader;
mod moved_code;
mod process;
pub mod python;
pub mod run;
mod scope;
mod session;

pub use provoke_sys::call_filter::{TRACED_CALLS, call_name};
pub use session::{HoldSession, LOOK_INTERVAL, traced_calls};
