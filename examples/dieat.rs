//! A server that crashes at a given request, for tests of crash reports: it answers N-1 requests, and ends at the N-th.
//!
//! `dieat --at 500 --port 8080 --work 2 --signal SEGV`: 2 ms per request, and a signal (`SEGV` or `ABRT`) at the 500th.
//! Alternatives to `--signal`: with `--exit 3` it ends with this status. With `--hang` it keeps running, and answers
//! nothing any longer. With `--close` it closes that connection without an answer and continues; with `--eof-in-body`
//! it closes it in the middle of the answer. `--log FILE` writes a line for each request, with its path and its body.
//! With `--together 3` it ends not at a certain request, but as soon as three requests with a body are in work at once.
//!
//! Exactly N-1 answers are sent before the end, for any number of clients: the N-th request waits for the answers
//! before it, and later requests get no answer. `GET /healthz` is not counted.

#![expect(unsafe_code, reason = "a process dies of a signal by a system call")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[path = "common/http.rs"]
mod http;

/// The kind of end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Signal(i32),
    Exit(i32),
    Hang,
    Close,
    EofInBody,
}

impl End {
    fn asked() -> Self {
        let signal: Option<String> = http::value("--signal");
        match signal.as_deref() {
            Some("SEGV") => return Self::Signal(libc::SIGSEGV),
            Some("ABRT") => return Self::Signal(libc::SIGABRT),
            Some(other) => panic!("--signal: SEGV or ABRT, not {other:?}"),
            None => {}
        }
        match http::value("--exit") {
            Some(code) => Self::Exit(code),
            None if http::has("--hang") => Self::Hang,
            None if http::has("--close") => Self::Close,
            None if http::has("--eof-in-body") => Self::EofInBody,
            None => Self::Signal(libc::SIGSEGV),
        }
    }

    /// Returns whether no request is answered after it.
    fn is_last(self) -> bool {
        !matches!(self, Self::Close | Self::EofInBody)
    }
}

/// Counts of requests and answers so far.
#[derive(Default)]
struct Count {
    asked: u64,
    served: u64,
    /// Requests with a body in work.
    at_work: u64,
}

fn main() -> std::io::Result<()> {
    let together: Option<u64> = http::value("--together");
    let at: u64 = http::value("--at").unwrap_or(together.map_or(500, |_| u64::MAX));
    let work = Duration::from_millis(http::value("--work").unwrap_or(0));
    let end = End::asked();
    let log: Option<String> = http::value("--log");
    let log = log.map(|path| OpenOptions::new().create(true).append(true).open(path));
    let log = Mutex::new(log.transpose()?);
    let shared = Arc::new((Mutex::new(Count::default()), Condvar::new()));
    http::serve(
        || (),
        move |request, stream| {
            let (count, served_one) = &*shared;
            let lock = || count.lock().expect("nobody panics with it");
            let served = lock().served;
            let body = format!("{{\"served\":{served},\"bytes\":{}}}", request.body.len());
            let answer = http::answer("200 OK", &body);
            if request.is("GET", "/healthz") {
                if end == End::Hang && lock().asked >= at {
                    forever();
                }
                stream.write_all(answer.as_bytes())?;
                return Ok(true);
            }
            if let Some(log) = &mut *log.lock().expect("nobody panics with it") {
                let body = String::from_utf8_lossy(&request.body);
                writeln!(log, "{} {body}", request.path)?;
            }
            let number = {
                let mut count = lock();
                count.asked += 1;
                count.at_work += u64::from(!request.body.is_empty());
                if together.is_some_and(|together| count.at_work >= together) {
                    return die(end, stream, &answer);
                }
                count.asked
            };
            if number > at && end.is_last() {
                forever();
            }
            std::thread::sleep(work);
            if number == at {
                let before = |count: &mut Count| count.served < at - 1;
                drop(served_one.wait_while(lock(), before));
                return die(end, stream, &answer);
            }
            // A client that has its answer may send the next request at once, on another connection.
            lock().at_work -= u64::from(!request.body.is_empty());
            // An answer counts as sent even if the client does not read it.
            let sent = stream.write_all(answer.as_bytes());
            lock().served += 1;
            served_one.notify_all();
            sent.map(|()| true)
        },
    )
}

fn die(end: End, stream: &mut std::net::TcpStream, answer: &str) -> std::io::Result<bool> {
    match end {
        End::Signal(signal) => {
            // SAFETY: the default action of these signals, whatever handlers the standard library has installed, is to
            // end the process: nothing runs after that.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
            unreachable!("it died of the signal");
        }
        End::Exit(code) => {
            #[expect(clippy::exit, reason = "this is what it is for")]
            std::process::exit(code);
        }
        End::Hang => forever(),
        End::Close => {}
        End::EofInBody => stream.write_all(&answer.as_bytes()[..answer.len() - 2])?,
    }
    stream.shutdown(std::net::Shutdown::Both)?;
    Ok(false)
}

fn forever() -> ! {
    loop {
        std::thread::park();
    }
}
