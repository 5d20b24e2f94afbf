//! Operating system: the only crate of the program that may use unsafe code.
//!
#![doc = include_str!("../README.md")]

pub mod call_filter;
pub mod calls;
pub mod cgroup;
pub mod child;
pub mod core_file;
pub mod core_pattern;
pub mod emulator;
pub mod engine;
pub mod exits;
pub mod files;
pub mod held_folder;
pub mod helper;
pub mod host;
pub mod jvm;
pub mod kernel_log;
pub mod libraries;
pub mod limits;
pub mod mapped;
pub mod memory;
pub mod pidfd;
pub mod private_folder;
pub mod process;
pub mod processor;
pub mod ptrace;
pub mod python;
pub mod sandbox;
pub mod signals;
pub mod snapshot;
pub mod sockets;
pub mod spawn;
pub mod start_step;
mod stat;
pub mod terminal;
pub mod threads;
pub mod time_calls;
pub mod timed_wait;
pub mod tool;
pub mod tracee;
mod tree_removal;
pub mod user;
pub mod vdso;
pub mod waits;
