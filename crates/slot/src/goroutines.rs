//! Asks Go programs of a hung trial for their goroutines.
//!
//! A Go program that gets SIGQUIT prints the stacks of all goroutines to stderr and ends.

use super::Slot;
use super::process::TrialProcess;
use provoke_messages::parse_go_call;
use provoke_model::{Frame, Goroutine, Hang, Site};
use provoke_sys::{files, process, signals, threads};
use rustix::process::Signal;
use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Programs that are asked, and the time limit of each.
const ASKED: usize = 4;
const TIME: Duration = Duration::from_secs(1);
/// Goroutines and calls that are kept.
const LISTED: usize = 256;
const CALLS: usize = 32;
/// Bytes at the beginning of a program that contain its notes.
const NOTES: u64 = 16 * 1024;
/// The header of a note with the build ID of Go, without the length of the ID.
const BUILD_ID: &[u8] = b"\x04\0\0\0Go\0\0";

impl Slot {
    /// Adds the goroutines of the Go programs to a hang. This ends the programs.
    pub(super) fn add_goroutines(&mut self, hang: &mut Hang, processes: &mut [TrialProcess]) {
        let pids = self.examined_pids(processes).into_iter();
        let asked = pids.filter(|pid| threads::catches_signal(*pid, Signal::QUIT) && runs_go(*pid));
        // Children first: `go test` waits for its test, and passes on what that prints.
        for pid in asked.rev().take(ASKED).collect::<Vec<i32>>() {
            let text = self.text_after_quit(pid, processes);
            hang.goroutines.extend(parse_goroutines(pid, &text));
        }
        hang.goroutines.truncate(LISTED);
    }

    /// Sends SIGQUIT to a program, and returns what is written until it has ended and a goroutine is in the text. The text
    /// is not in the output of the trial.
    fn text_after_quit(&mut self, pid: i32, processes: &mut [TrialProcess]) -> String {
        let is_alive = || process::process_state(pid).is_some_and(|(state, _)| state != 'Z');
        self.divert_output(processes, |slot, processes| {
            let _ = signals::send_signal(pid, Signal::QUIT);
            let is_complete = |text: &str| text.contains("goroutine ") && !is_alive();
            slot.read_diverted(processes, Instant::now() + TIME, is_complete)
        })
    }
}

/// Returns whether a process runs a program that was compiled from Go.
fn runs_go(pid: i32) -> bool {
    let file = files::open_regular_file(Path::new(&format!("/proc/{pid}/exe")));
    let mut beginning = Vec::new();
    file.and_then(|file| file.take(NOTES).read_to_end(&mut beginning))
        .is_ok()
        && beginning
            .windows(BUILD_ID.len())
            .any(|part| part == BUILD_ID)
}

/// Parses the stacks of the goroutines. Those that only run the runtime are left out.
fn parse_goroutines(pid: i32, text: &str) -> Vec<Goroutine> {
    let blocks = text.split("\n\n");
    let goroutine = |block: &str| {
        let mut lines = block.trim_start().lines();
        let title = lines.next()?.strip_prefix("goroutine ")?;
        let (number, state) = title.split_once(" [")?;
        // `chan receive, 5 minutes`, `select (no cases)`, `sync.Mutex.Lock, locked to thread`
        let state = state.split([',', ']']).next()?;
        let lines: Vec<&str> = lines
            .take_while(|line| !line.starts_with("created by "))
            .collect();
        let sites = lines
            .windows(2)
            .filter_map(|pair| parse_go_call(pair[0], pair[1]));
        let calls: Vec<Frame> = sites.take(CALLS).map(frame_of_site).collect();
        (!calls.is_empty()).then(|| Goroutine {
            pid,
            number: number.parse().unwrap_or_default(),
            state: state.to_owned(),
            calls,
        })
    };
    blocks.filter_map(goroutine).take(LISTED).collect()
}

fn frame_of_site(site: Site) -> Frame {
    Frame {
        function: site.function,
        line: Some((site.file, site.line)),
        ..Frame::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goroutines_are_read_without_calls_of_the_runtime() {
        let text = "SIGQUIT: quit\nPC=0x45f123 m=0 sigcode=0\n\ngoroutine 0 [idle]:\nruntime.futex()\n\t/usr/lib/go/src/runtime/sys.s:560 +0x23 fp=0x7f\n\n\
            goroutine 1 [semacquire, 5 minutes]:\nruntime.gopark(0x0?)\n\t/usr/lib/go/src/runtime/proc.go:363 +0xd6\nsync.(*WaitGroup).Wait(0x0?)\n\t/usr/lib/go/src/sync/waitgroup.go:139 +0x52\n\
            main.main()\n\t/src/bank.go:6 +0xcf fp=0xc0\nruntime.main()\n\t/usr/lib/go/src/runtime/proc.go:250\n\n\
            goroutine 7 [sync.Mutex.Lock]:\nmain.credit(...)\n\t/src/bank.go:4\ncreated by main.main\n\t/src/bank.go:6 +0xa0\n\nrax 0xca\n";
        let [main, other] = &parse_goroutines(5, text)[..] else {
            panic!("two goroutines run the program");
        };
        assert_eq!(
            (main.pid, main.number, main.state.as_str()),
            (5, 1, "semacquire")
        );
        let functions: Vec<&str> = main
            .calls
            .iter()
            .filter_map(|call| call.function.as_deref())
            .collect();
        assert_eq!(functions, ["sync.(*WaitGroup).Wait", "main.main"]);
        assert_eq!((other.number, other.state.as_str()), (7, "sync.Mutex.Lock"));
        assert_eq!(other.calls[0].line, Some(("/src/bank.go".to_owned(), 4)));
        assert_eq!(other.calls.len(), 1);
    }

    #[test]
    fn another_text_has_no_goroutines() {
        assert_eq!(parse_goroutines(5, "goroutine\n\ngoroutine x\n\nquit"), []);
    }
}
