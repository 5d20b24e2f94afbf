//! Tests the analysis of real cores of real programs.

mod damage;
mod debugger;
mod explain;
mod living;
mod native;
pub(crate) mod python;
pub(crate) mod victims;
