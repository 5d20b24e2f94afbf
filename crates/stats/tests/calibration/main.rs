//! Do the numbers keep their promises? Each test compares a promise (95 % coverage, 5 % false
//! alarms) with what really happens, by exact enumeration where all outcomes can be counted and by
//! seeded simulation elsewhere.

mod chance;
mod clumps;
mod compare;
mod confirm;
mod dependence;
mod growth;
mod interval;
mod pool;
mod properties;
mod race;
mod ramp;
mod search;
mod trend;
