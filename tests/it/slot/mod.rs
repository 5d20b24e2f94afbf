//! Tests the slot process itself: its evidence of trials that hang or crash, and the conditions of trials.

mod bench;
mod clocks;
mod conditions;
mod crashes;
mod deadlocks;
mod hangs;
mod leaks;
mod paths;
mod several;
mod trace;
