//! Holds threads of a program at chosen points, until the others are blocked, to provoke rare schedules.
//!
#![doc = include_str!("../README.md")]

mod access;
pub mod code;
mod process;
pub mod run;
mod scope;
mod session;

pub use session::{HoldSession, LOOK_INTERVAL};
