//! Holds threads of a program at chosen points, until the others are blocked, to provoke rare schedules.
//!
#![doc = include_str!("../README.md")]

mod access;
pub mod code;
pub mod plan;
mod process;
pub mod run;
mod session;

pub use session::{HoldSession, LOOK_INTERVAL, LearnedPoint, RacingAccess};
