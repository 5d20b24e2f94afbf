//! A server that stops once, for testing how well a load generator measures: 1 ms per request by a timer, and one stop
//! of the whole server for 1000 ms, 3 s after the first request.
//!
//! `stall --port 8080`. At 1000 requests per second for 8 s an open-loop client measures the 90th percentile at 200 ms,
//! the 95th at 600, the 99th at 920 and the maximum at 1000 ms.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[path = "common/http.rs"]
mod http;

const WORK: Duration = Duration::from_millis(1);
const STOP_AFTER: Duration = Duration::from_secs(3);
const STOP_FOR: Duration = Duration::from_secs(1);

/// Waits until the stop is over, if it has begun.
fn stop(first: &OnceLock<Instant>) {
    let Some(first) = first.get() else {
        return;
    };
    let (begin, end) = (*first + STOP_AFTER, *first + STOP_AFTER + STOP_FOR);
    let now = Instant::now();
    if (begin..end).contains(&now) {
        std::thread::sleep(end - now);
    }
}

fn main() -> std::io::Result<()> {
    let first = Arc::new(OnceLock::new());
    let gate = Arc::clone(&first);
    http::serve(
        move || stop(&gate),
        move |request, stream| {
            let length = request.body.len();
            if !request.is("GET", "/healthz") {
                first.get_or_init(Instant::now);
                stop(&first);
                std::thread::sleep(WORK);
                stop(&first);
            }
            let body = format!("{{\"bytes\":{length}}}");
            stream.write_all(http::answer("200 OK", &body).as_bytes())?;
            Ok(true)
        },
    )
}
