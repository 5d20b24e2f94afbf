//! Asks Node.js programs of a hung trial for the JavaScript calls of their busy main thread.
//!
//! A program that gets SIGUSR1 listens for a debugger, and writes its address to stderr. The debugger stops the program
//! at the next statement. A program that waits for events runs no statement, and is not asked.

use super::Slot;
use super::inspector::{self, DebuggerAddress};
use super::process::TrialProcess;
use provoke_model::{CallLanguage, Frame, Hang, HungThread, ThreadActivity};
use provoke_sys::{signals, sockets, threads};
use rustix::process::Signal;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// Programs that are asked, and the time limit of each.
const ASKED: usize = 4;
const TIME: Duration = Duration::from_secs(1);
/// Interval between two signals if another program uses the port, and time limit of the last words of the debugger.
const PAUSE: Duration = Duration::from_millis(50);

impl Slot {
    /// Adds the JavaScript calls of busy programs to a hang.
    pub(super) fn add_node_calls(&mut self, hang: &mut Hang, processes: &mut [TrialProcess]) {
        let is_asked = |thread: &&mut HungThread| {
            let is_busy = thread.current_activity() == ThreadActivity::Busy;
            thread.tid == thread.pid && is_busy && runs_node(thread.pid)
        };
        for thread in hang.threads.iter_mut().filter(is_asked).take(ASKED) {
            let pid = thread.pid;
            let calls = self.divert_output(processes, |slot, processes| {
                slot.ask_debugger(pid, processes)
            });
            match calls {
                Ok(calls) => {
                    thread.calls = calls;
                    thread.language = CallLanguage::JavaScript;
                }
                Err(error) => tracing::debug!(target: "slot", pid, %error, "no JavaScript calls"),
            }
        }
    }

    /// Returns the calls of a program. It gets nothing unless it listens itself at the address that was written.
    fn ask_debugger(&mut self, pid: i32, processes: &mut [TrialProcess]) -> io::Result<Vec<Frame>> {
        let deadline = Instant::now() + TIME;
        let address = loop {
            signals::send_signal(pid, Signal::USR1)?;
            let is_complete = |text: &str| text.contains("inspector") && text.ends_with('\n');
            let text = self.read_diverted(processes, deadline, is_complete);
            if let Some(address) = DebuggerAddress::parse(&text) {
                break address;
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        };
        let listeners = sockets::listening_sockets(address.socket);
        if !sockets::holds_socket(pid, &listeners) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let calls = inspector::read_calls(&address, deadline);
        self.read_diverted(processes, Instant::now() + PAUSE, |text| {
            text.contains("Debugger ending") && text.ends_with('\n')
        });
        calls
    }
}

/// Returns whether a process runs Node.js, which handles SIGUSR1.
fn runs_node(pid: i32) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    let is_node = program.is_ok_and(|path| path.ends_with("node") || path.ends_with("nodejs"));
    is_node && threads::catches_signal(pid, Signal::USR1)
}
