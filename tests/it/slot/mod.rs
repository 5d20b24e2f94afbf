//! The slot process itself: what it finds out of trials that hang or crash.

mod bench;
mod crashes;
mod hangs;
mod leaks;
mod trace;
