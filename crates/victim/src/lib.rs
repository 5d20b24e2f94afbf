//! Program that misbehaves on demand: `provoke victim KIND`, or `provoke-victim KIND`.
//!
//! The README of provoke uses it, and it gives tests real crashes, hangs and leaks instead of imitations. Whether it
//! misbehaves depends only on the trial's number or the seed, so a replayed trial fails again.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `chance` | does this run misbehave? (pure) |
//! | `parse` | values of options: durations, sizes, signals (pure) |
//! | `crash` | faults, signals, and exits that hide or translate them |
//! | `linger` | processes left behind |
//! | `race` | a race between two threads |
//! | `resource` | memory, output, processor time |

mod chance;
mod crash;
mod linger;
mod parse;
mod race;
mod resource;

pub use race::racing_function;

use std::env;
use std::io::{self, Write as _};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use chance::{ChanceInputs, Rate, Trials};
use parse::SignalNumber;

/// What the victim does when it misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Read address 0x10: a real SIGSEGV
    Segv,
    /// Call `abort()`: SIGABRT
    Abort,
    /// Run an invalid instruction: SIGILL
    Ill,
    /// Divide an integer by zero: SIGFPE
    Fpe,
    /// Access a mapped file that was truncated: SIGBUS
    Bus,
    /// Overflow the stack: SIGSEGV, as in most languages (Rust's own is SIGABRT)
    Overflow,
    /// Send SIGKILL to itself
    Kill,
    /// Send itself the signal named by --signal
    Signal,
    /// Exit with --code (default 1)
    Exit,
    /// Work during --delay, then crash with SIGSEGV in an exit handler, after all output
    SlowDeath,
    /// Let a child die of SIGSEGV under a shell, which exits with 139
    ShellSegv,
    /// Let a child die of SIGSEGV and exit with 245, like Python with -11
    PythonSegv,
    /// Let a child die of SIGSEGV and exit with 0
    Masked,
    /// Count in two threads without a lock: exits with 1 under a rare schedule (see `provoke hunt`)
    Race,
    /// Block forever
    Hang,
    /// Block forever and ignore SIGTERM
    HangStubborn,
    /// Keep a CPU busy forever
    Spin,
    /// Stop itself with SIGSTOP; exit with 0 once continued
    Stop,
    /// Leak a child that keeps stdout and stderr open
    Leak,
    /// Leak a daemon: own session, no parent, environment or streams
    LeakDetached,
    /// Leak a child that soon exits (--linger, default 200ms)
    LeakBrief,
    /// Leak a chain of --count forks, each of which outlives the previous one
    ForkStorm,
    /// Allocate memory until killed; refuses if other programs could be killed
    Oom,
    /// Write --bytes of hostile output to stdout, and as much to stderr
    Noise,
    /// Sleep for --linger without output (the process that leak kinds leave behind)
    #[value(hide = true)]
    Leftover,
}

/// The arguments of the victim.
#[derive(Clone, Debug, clap::Args)]
pub struct VictimArgs {
    /// How to misbehave
    #[arg(value_enum)]
    kind: Kind,

    /// Misbehave with this probability (0.1 or 10%); otherwise print "ok" and exit with 0
    #[arg(long, value_name = "P", default_value = "1")]
    rate: Rate,

    /// Misbehave in exactly these trials, by the number in PROVOKE_TRIAL (overrides --rate)
    #[arg(long, value_name = "3,7,20-25")]
    fail_on: Option<Trials>,

    /// Derive the decision from this number, so that a trial is repeatable [default: random]
    #[arg(long, value_name = "N", env = "PROVOKE_SEED", hide_env_values = true, value_parser = parse::seed)]
    seed: Option<u64>,

    /// Sleep this long first (20ms, 1.5s)
    #[arg(long, value_name = "DUR", default_value = "0", value_parser = parse::duration)]
    delay: Duration,

    /// Print this to stderr before misbehaving (may be empty) [default: a description]
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,

    /// Signal for the kind `signal`: SEGV, SIGTERM, 11
    #[arg(long, value_name = "NAME", required_if_eq("kind", "signal"))]
    signal: Option<SignalNumber>,

    /// Exit code for the kinds `exit` [default: 1] and `noise` [default: 0]
    #[arg(long, value_name = "N")]
    code: Option<u8>,

    /// How long leaked processes run [default: 200ms for leak-brief, otherwise 600s]
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    linger: Option<Duration>,

    /// Number of processes that `fork-storm` starts, one after the other
    #[arg(long, value_name = "N", default_value_t = 3000)]
    count: u32,

    /// Number of bytes that `noise` writes to each stream (64k, 10M, 1G)
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse::size)]
    bytes: u64,

    /// Size at which `oom` gives up if it has not been killed
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse::size)]
    limit: u64,

    /// Let `oom` run without a memory limit (other programs may be killed, too)
    #[arg(long)]
    yes: bool,
}

/// The subcommand of a program that includes the victim.
const SUBCOMMAND: &str = "victim";
/// Usage errors, and refusals.
const USAGE: u8 = 2;
/// The victim could not be what it was asked to be.
const COULD_NOT: u8 = 125;

/// Returns a command that starts this program again as a victim.
fn start_again() -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    if env::args_os().nth(1).is_some_and(|word| word == SUBCOMMAND) {
        command.arg(SUBCOMMAND);
    }
    Ok(command)
}

/// Misbehaves, or prints "ok"; returns only for the kinds that end by themselves.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the last thing the program does"
)]
#[inline(never)] // a frame of every stack, so that signatures are the same in all builds
pub fn run(args: VictimArgs) -> ExitCode {
    if args.kind == Kind::Leftover {
        thread::sleep(args.linger());
        return ExitCode::SUCCESS;
    }
    let odds = ChanceInputs {
        rate: args.rate,
        fail_on: args.fail_on.clone(),
        seed: args.seed.unwrap_or_else(chance::fresh_seed),
    };
    let misbehaves = match odds.decide(env::var("PROVOKE_TRIAL").ok().as_deref()) {
        Ok(misbehaves) => misbehaves,
        Err(error) => {
            say_error(&error);
            say("");
            say(
                "hint: `provoke run` sets it for each trial; by hand: PROVOKE_TRIAL=3 provoke victim …",
            );
            return ExitCode::from(USAGE);
        }
    };
    if args.kind == Kind::SlowDeath {
        work(args.delay);
    } else {
        thread::sleep(args.delay);
    }
    if !misbehaves {
        print("ok");
        return ExitCode::SUCCESS;
    }
    misbehave(&args).unwrap_or_else(|error| {
        say_error(&error);
        ExitCode::from(COULD_NOT)
    })
}

fn misbehave(args: &VictimArgs) -> io::Result<ExitCode> {
    if args.kind == Kind::Oom
        && let Err(refusal) = resource::oom_is_contained(args.yes)
    {
        say_error(&refusal);
        say("");
        say(
            "hint: give it a limit, e.g. `ulimit -v 1000000` or a memory cgroup; or pass --yes on a machine you can lose",
        );
        return Ok(ExitCode::from(USAGE));
    }
    if args.kind == Kind::HangStubborn {
        crash::ignore_sigterm();
    }
    match &args.message {
        Some(message) if message.is_empty() => {}
        Some(message) => say(message),
        None => say(&format!("victim: {}", args.intention())),
    }
    match args.kind {
        Kind::Segv => crash::segv(),
        Kind::Abort => std::process::abort(),
        Kind::Ill => crash::ill(),
        Kind::Fpe => crash::fpe(),
        Kind::Bus => crash::bus(),
        Kind::Overflow => crash::overflow(),
        Kind::Kill => Ok(crash::send_to_self(SignalNumber::KILL)),
        Kind::Stop => Ok(crash::send_to_self(SignalNumber::STOP)),
        Kind::Signal => Ok(crash::send_to_self(
            args.signal.unwrap_or(SignalNumber::KILL),
        )),
        Kind::Exit => Ok(ExitCode::from(args.code.unwrap_or(1))),
        Kind::SlowDeath => crash::at_exit(),
        Kind::ShellSegv => crash::shell_segv(),
        Kind::PythonSegv => crash::child_segv(245),
        Kind::Masked => crash::child_segv(0),
        Kind::Race => Ok(race::count_in_threads()),
        Kind::Hang | Kind::HangStubborn => loop {
            thread::park();
        },
        Kind::Spin => resource::spin(),
        Kind::Leak | Kind::LeakBrief => linger::child(args.linger()),
        Kind::LeakDetached => linger::daemon(args.linger()),
        Kind::ForkStorm => linger::fork_storm(args.count),
        Kind::Oom => Ok(resource::oom(args.limit)),
        Kind::Noise => resource::noise(args.bytes, ExitCode::from(args.code.unwrap_or(0))),
        Kind::Leftover => Ok(ExitCode::SUCCESS), // `run` has dealt with it
    }
}

impl VictimArgs {
    fn linger(&self) -> Duration {
        let default = match self.kind {
            Kind::LeakBrief => Duration::from_millis(200),
            _ => Duration::from_secs(600),
        };
        self.linger.unwrap_or(default)
    }

    /// Says what is about to happen, to stand after "victim: ".
    fn intention(&self) -> String {
        match self.kind {
            Kind::Segv => format!("about to read address {:#x}", crash::BAD_ADDRESS),
            Kind::Abort => "about to call abort()".into(),
            Kind::Ill => "about to run an invalid instruction".into(),
            Kind::Fpe => "about to divide by zero".into(),
            Kind::Bus => "about to read a mapped file past its end".into(),
            Kind::Overflow => "about to overflow the stack".into(),
            Kind::Kill => "about to send itself SIGKILL".into(),
            Kind::Race => "about to count in two threads".into(),
            Kind::Stop => "about to send itself SIGSTOP".into(),
            Kind::Signal => match self.signal {
                Some(signal) => format!("about to send itself {signal}"),
                None => "about to send itself a signal".into(),
            },
            Kind::Exit => format!("about to exit with code {}", self.code.unwrap_or(1)),
            Kind::SlowDeath => "work done, now shutting down".into(),
            Kind::ShellSegv | Kind::PythonSegv | Kind::Masked => {
                "about to start a child that crashes".into()
            }
            Kind::Hang => "about to block for ever".into(),
            Kind::HangStubborn => "about to block for ever, ignoring SIGTERM".into(),
            Kind::Spin => "about to spin for ever".into(),
            Kind::Leak | Kind::LeakBrief => "about to leave a child behind".into(),
            Kind::LeakDetached => "about to leave a daemon behind".into(),
            Kind::ForkStorm => "about to leave a chain of forks behind".into(),
            Kind::Oom => "about to allocate memory until killed".into(),
            Kind::Noise => format!("about to write {} bytes to each stream", self.bytes),
            Kind::Leftover => "left behind".into(),
        }
    }
}

/// Shows progress for as long as `delay`, like a program whose real work goes well.
fn work(delay: Duration) {
    const STEPS: u32 = 5;
    for step in 1..=STEPS {
        thread::sleep(delay / STEPS);
        print(&format!("step {step} of {STEPS} done"));
    }
}

/// Prints a line of data; a closed stdout is no reason to misbehave in another way than asked.
fn print(line: &str) {
    writeln!(io::stdout().lock(), "{line}").ok();
}

/// Prints a line of talk, in one write so that it stays whole beside other writers.
fn say(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}

fn say_error(error: &dyn std::fmt::Display) {
    say(&format!("error: {error}"));
}
