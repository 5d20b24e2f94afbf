//! Loses an update of a counter under a rare schedule.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// Adds one to the counter, in two steps: an update by another thread between them is lost.
#[inline(never)]
fn add_one() {
    store_count(COUNTER.load(Ordering::Relaxed) + 1);
}

/// Stores the counter. In a program as large as provoke, only the entries of functions are tried at first, so this one is
/// between the two steps.
#[inline(never)]
fn store_count(count: u32) {
    COUNTER.store(count, Ordering::Relaxed);
}

/// Counts in two threads; fails if one of the two updates is lost.
pub(crate) fn count_in_threads() -> ExitCode {
    let threads = [thread::spawn(add_one), thread::spawn(add_one)];
    for thread in threads {
        // The function cannot panic.
        let _ = thread.join();
    }
    match COUNTER.load(Ordering::Relaxed) {
        2 => ExitCode::SUCCESS,
        count => {
            crate::say(&format!("an update was lost: the counter is {count}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns the address of the function in which the threads race, in the memory of this process.
pub fn racing_function() -> usize {
    add_one as *const () as usize
}
