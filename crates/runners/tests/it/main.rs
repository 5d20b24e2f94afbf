//! Tests of the readers: with samples of real reports, and with the real runners.

mod damage;
mod pytest;
mod reports;
mod runners;
mod samples;
mod stream;
