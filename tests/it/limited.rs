//! Waits for processes with a time limit, so that no test waits forever.

use std::io::{self, BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Time limit that only a hang exceeds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a command to its end and returns its output, as `Command::output` does; kills it and fails if it exceeds the
/// time limit.
pub(crate) fn output(command: &mut Command) -> io::Result<Output> {
    output_within(PATIENCE, command)
}

/// Does the same with another limit.
pub(crate) fn output_within(limit: Duration, command: &mut Command) -> io::Result<Output> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = read(child.stdout.take().unwrap());
    let stderr = read(child.stderr.take().unwrap());
    let status = wait_within(limit, &mut child);
    let all = |stream: Receiver<Vec<u8>>| {
        let bytes = stream.recv_timeout(PATIENCE);
        bytes.unwrap_or_else(|_| panic!("{command:?} left a process with its output open"))
    };
    Ok(Output {
        status,
        stdout: all(stdout),
        stderr: all(stderr),
    })
}

fn read(mut stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

/// Waits for the end of a process; kills it and fails if it exceeds the time limit.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    wait_within(PATIENCE, child)
}

fn wait_within(limit: Duration, child: &mut Child) -> ExitStatus {
    let ended = wait_or_kill(limit, child);
    ended.unwrap_or_else(|| panic!("process {} did not end in {limit:?}", child.id()))
}

/// Waits for the end of a process; kills it and returns `None` if it exceeds the time limit.
pub(crate) fn wait_or_kill(limit: Duration, child: &mut Child) -> Option<ExitStatus> {
    let started_at = Instant::now();
    while started_at.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Returns the lines of a stream as they arrive.
pub(crate) fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
