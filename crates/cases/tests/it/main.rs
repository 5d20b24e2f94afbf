//! Tests of the readers: with samples of real reports, and with the real runners.

mod pytest;
mod reports;
mod samples;
mod stream;
