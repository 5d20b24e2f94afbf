//! What a core file says: who died, where, of what, and how it got there.

pub mod fault;
mod instruction;
mod models;
pub mod processor;
pub mod scene;
