//! Puts load on a URL and prints the cost: `pound URL CLIENTS SECONDS [http]`.
//!
//! It is for the comparison in `benches/load.py`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example talks"
)]

use provoke_load::load_running_service;
use provoke_model::{HttpVersion, LoadLimit, LoadPlan};
use std::fs;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, clients, seconds, rest @ ..] = &arguments[..] else {
        eprintln!("pound URL CLIENTS SECONDS [1.1|2|2-prior-knowledge]");
        std::process::exit(2);
    };
    let clients = clients.parse().expect("a number of clients");
    let seconds = seconds.parse().expect("a number of seconds");
    let amount = LoadLimit::Time(Duration::from_secs_f64(seconds));
    let mut load = LoadPlan::from_url(url, clients, amount);
    load.target.insecure = true;
    load.target.http = match rest {
        [http] if http == "2" => HttpVersion::Two,
        [http] if http == "2-prior-knowledge" => HttpVersion::TwoPrior,
        _ => HttpVersion::One,
    };
    let folder = std::env::temp_dir().join(format!("pound-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let before = cpu();
    let seen = runtime
        .block_on(load_running_service(load, 1, folder.clone()))
        .expect("a target on this machine");
    let cpu = cpu() - before;
    let _ = fs::remove_dir_all(folder); // it is empty, and usually removed already
    let micros = |share| {
        seen.latency
            .time_quantile(share)
            .unwrap_or_default()
            .as_micros()
    };
    println!(
        "{{\"requests\": {}, \"seconds\": {:.6}, \"cpu\": {cpu:.6}, \"p50_us\": {}, \"p99_us\": {}}}",
        seen.served,
        seen.elapsed.as_secs_f64(),
        micros(0.5),
        micros(0.99),
    );
    if seen.trouble.is_some() || seen.ends.len() > 1 {
        eprintln!("{:?} {:?}", seen.trouble, seen.ends);
    }
}

/// Returns the CPU time that this process has used, in seconds.
fn cpu() -> f64 {
    let usage = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = usage
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks: f64 =
        fields[11].parse::<f64>().unwrap_or(0.0) + fields[12].parse::<f64>().unwrap_or(0.0);
    ticks / 100.0 // clock ticks per second, the same on all present Linux machines
}
