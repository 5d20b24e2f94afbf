//! Tests the slot process itself: its evidence of trials that hang or crash.

mod bench;
mod conditions;
mod crashes;
mod deadlocks;
mod hangs;
mod leaks;
mod several;
mod trace;
