//! `provoke-victim KIND`: the victim as a separate program.

use clap::Parser;
use provoke_victim::VictimArgs;
use std::process::ExitCode;

/// Crash, hang, leak or fail on demand
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    victim: VictimArgs,
}

fn main() -> ExitCode {
    provoke_victim::run(Arguments::parse().victim)
}
