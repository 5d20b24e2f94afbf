//! The `provoke` program; everything is in the library.

use std::process::ExitCode;

use clap::Parser as _;

#[derive(clap::Parser)]
#[command(name = "provoke", version, about)]
enum Command {
    /// A program that misbehaves on demand
    Victim(provoke::victim::VictimArgs),
}

fn main() -> ExitCode {
    let Command::Victim(args) = Command::parse();
    provoke::victim::run(args)
}
