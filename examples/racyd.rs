//! A server with a race that needs a certain number of concurrent requests, for tests of load searches. **Its undefined
//! behaviour is deliberate: never copy anything from here.**
//!
//! A request works in one of K-1 slots, which it takes from a list under a lock. The bug: if no slot is free it takes
//! the first one, which another request is using. So fewer than K concurrent requests never share a slot, whatever the
//! scheduling; K requests may. A slot has a block that is replaced by a larger or smaller one without any lock: two
//! concurrent requests free the same block, and the process dies, by the checks of the C library or by a bad address.
//!
//! `racyd --port 8080`, with
//! * `--slots K`: minimum number of concurrent requests for the race (10);
//! * `--work US`: duration of a request, without CPU time (1000);
//! * `--grow-every N`: every N-th request replaces the block (2). With 0 a request replaces it if the length of its
//!   body differs from that of the request before it: then only bodies of different lengths can crash the server;
//! * `--fixed`: adds a lock around the slot, which is the fix.
//!
//! `POST /classify` does the work, `GET /healthz` returns the number of served requests, and their maximum concurrency.

#![expect(
    unsafe_code,
    reason = "the race is the point: a block of memory behind a raw pointer, without a lock"
)]

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[path = "common/http.rs"]
mod http;

/// Time in which a block is being replaced: the window of the race.
const WINDOW: Duration = Duration::from_micros(20);

/// A block of the C library and its size, without a lock.
struct Slot {
    block: *mut u8,
    size: usize,
}

/// The slots. Raw pointers and volatile accesses prevent that a compiler draws conclusions from the race.
struct Slots(*mut Slot, usize);

// SAFETY: not safe. Threads that share the first slot are the bug.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    fn new(count: usize) -> Self {
        let empty = || Slot {
            block: std::ptr::null_mut(),
            size: 0,
        };
        let all: Vec<Slot> = std::iter::repeat_with(empty).take(count).collect();
        Self(Box::leak(all.into_boxed_slice()).as_mut_ptr(), count)
    }

    /// Works in a slot: replaces its block, if its size must change, and writes to it.
    fn work(&self, index: usize, size: usize) {
        assert!(index < self.1);
        // SAFETY: the index is that of a slot, and slots are never freed. A request that is alone in the slot finds its
        // block and size as the one before left them. Two concurrent requests are undefined behaviour: they free one
        // block twice, or write to one that the other has freed.
        unsafe {
            let slot = self.0.add(index);
            let block = (&raw mut (*slot).block).read_volatile();
            if (&raw mut (*slot).size).read_volatile() != size {
                let new = libc::malloc(size).cast::<u8>();
                let begin = Instant::now();
                while begin.elapsed() < WINDOW {
                    std::hint::spin_loop();
                }
                libc::free(block.cast());
                (&raw mut (*slot).block).write_volatile(new);
                (&raw mut (*slot).size).write_volatile(size);
            }
            let block = (&raw mut (*slot).block).read_volatile();
            block.write_volatile(1);
        }
    }
}

fn main() -> std::io::Result<()> {
    let slots: usize = http::value("--slots").unwrap_or(10);
    let work = Duration::from_micros(http::value("--work").unwrap_or(1000));
    let grow_every: u64 = http::value("--grow-every").unwrap_or(2);
    let fixed = http::has("--fixed").then(|| Mutex::new(()));
    assert!(slots > 1, "--slots: two or more");
    let memory = Slots::new(slots - 1);
    let free = Arc::new(Mutex::new((0..slots - 1).rev().collect::<Vec<usize>>()));
    let (served, now, peak) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    http::serve(
        || (),
        move |request, stream| {
            if request.is("GET", "/healthz") {
                let (served, peak) = (served.load(Ordering::SeqCst), peak.load(Ordering::SeqCst));
                let body = format!("{{\"served\":{served},\"peak\":{peak}}}");
                stream.write_all(http::answer("200 OK", &body).as_bytes())?;
                return Ok(true);
            }
            if !request.is("POST", "/classify") {
                stream.write_all(http::answer("404 Not Found", "{}").as_bytes())?;
                return Ok(true);
            }
            let at_once = now.fetch_add(1, Ordering::SeqCst) + 1;
            peak.fetch_max(at_once, Ordering::SeqCst);
            let list = || free.lock().expect("nobody panics with it");
            let mine = list().pop();
            // The bug.
            let slot = mine.unwrap_or(0);
            let number = served.load(Ordering::Relaxed);
            let size = match number.checked_div(grow_every) {
                Some(turn) => 64 + 16 * usize::try_from(turn % 61).unwrap_or(0),
                None => 64 + request.body.len(),
            };
            let repaired = fixed.as_ref().map(|fixed| fixed.lock());
            memory.work(slot, size);
            drop(repaired);
            std::thread::sleep(work);
            if let Some(mine) = mine {
                list().push(mine);
            }
            now.fetch_sub(1, Ordering::SeqCst);
            served.fetch_add(1, Ordering::SeqCst);
            let body = format!("{{\"class\":{}}}", size % 10);
            stream.write_all(http::answer("200 OK", &body).as_bytes())?;
            Ok(true)
        },
    )
}
