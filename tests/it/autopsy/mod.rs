//! What is said of real cores of real programs.

mod damage;
mod debugger;
mod explain;
mod living;
mod native;
mod python;
mod victims;
