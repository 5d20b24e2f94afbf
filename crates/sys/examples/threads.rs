//! Lists the threads of a process, and what each of them waits for: `threads PID`.

#![expect(clippy::print_stdout, reason = "an example says what it found")]

use provoke_sys::threads;
use provoke_words::untrusted::Untrusted as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid: i32 = std::env::args()
        .nth(1)
        .ok_or("usage: threads PID")?
        .parse()?;
    let tids = threads::thread_ids(pid);
    for tid in &tids {
        let Some(sample) = threads::glance_at(pid, *tid) else {
            continue; // it has ended
        };
        let target = sample
            .call
            .and_then(|call| threads::wait_of_call(pid, *tid, call, &tids));
        let target = target.map_or_else(String::new, |target| format!(", for {target:?}"));
        println!(
            "{tid} {} {:.1?}: {}{target}",
            sample.name.to_safe(),
            sample.cpu,
            sample.waiting_reason(),
        );
    }
    Ok(())
}
