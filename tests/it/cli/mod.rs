//! The real program against real processes.

mod errors;
mod growth;
mod hooks;
mod left_behind;
mod outcomes;
mod stopping;
mod storage;
mod support;
mod surroundings;
