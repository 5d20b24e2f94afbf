//! The operating system: the only code of the engine that may be unsafe.
//!
//! Knows nothing of trials. Linux only: a slot needs child subreapers, `wait4`
//! and `/proc/PID/task/TID/children`.

pub mod cgroup;
pub mod child;
pub mod files;
pub mod host;
pub mod limits;
pub mod process;
pub mod signals;
pub mod spawn;
