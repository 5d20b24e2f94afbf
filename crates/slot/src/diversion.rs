//! Keeps apart what programs of a hung trial write because provoke asked them.

use super::Slot;
use super::capture::OutputPatterns;
use super::process::{OutputStream, TrialProcess};
use std::time::Instant;

/// Bytes of text that are read.
const LONGEST: usize = 1 << 20;

impl Slot {
    /// Runs `ask` while later output is kept apart from that of the trial.
    pub(super) fn divert_output<T>(
        &mut self,
        processes: &mut [TrialProcess],
        ask: impl FnOnce(&mut Self, &mut [TrialProcess]) -> T,
    ) -> T {
        self.wait_for_activity(processes, &OutputPatterns::default(), Instant::now());
        for_each_stream(processes, OutputStream::divert);
        let answer = ask(self, processes);
        for_each_stream(processes, OutputStream::end_diversion);
        answer
    }

    /// Reads diverted output until it is complete, too long or late.
    pub(super) fn read_diverted(
        &mut self,
        processes: &mut [TrialProcess],
        deadline: Instant,
        is_complete: impl Fn(&str) -> bool,
    ) -> String {
        let mut text = String::new();
        while !is_complete(&text) && text.len() < LONGEST && Instant::now() < deadline {
            self.wait_for_activity(processes, &OutputPatterns::default(), deadline);
            for_each_stream(processes, |stream| text.push_str(&stream.take_diverted()));
        }
        text
    }
}

fn for_each_stream(processes: &mut [TrialProcess], mut change: impl FnMut(&mut OutputStream)) {
    for process in processes {
        change(&mut process.err);
        change(&mut process.stdout);
    }
}
