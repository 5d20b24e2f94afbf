//! Tests the analysis of real cores of real programs.

mod damage;
mod debugger;
mod examiner_process;
mod explain;
mod native;
pub(crate) mod python;
mod running;
pub(crate) mod victims;
