//! Compares each promise of the crate (95 % coverage, 5 % false alarms) with the true rate, by exact enumeration if all
//! outcomes can be counted and by seeded simulation otherwise.

mod cases;
mod chance;
mod clumps;
mod compare;
mod confirm;
mod dependence;
mod growth;
mod hosts;
mod interval;
mod paths;
mod pool;
mod properties;
mod race;
mod ramp;
mod screen;
mod search;
mod simulated_paths;
mod simulated_screen;
mod trend;
