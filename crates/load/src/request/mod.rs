//! Prepares the requests of a plan, once for each trial.
//!
//! `kind` prepares the kinds of requests, `template` fills in values from `rows` for each request, and `client_draws`
//! selects the next request of a client. Every request can be reproduced byte by byte.

mod client_draws;
mod draw;
mod kind;
mod requests;
mod rows;
mod template;

pub(super) use client_draws::RequestDraws;
pub(super) use draw::{DrawnRequest, hash_number};
pub(super) use requests::Requests;

#[cfg(test)]
mod tests;
