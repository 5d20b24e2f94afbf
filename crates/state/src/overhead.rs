//! Measures the time per trial in which the program does not run: hooks, delays, evidence and the journal.

use std::time::Duration;

/// Sums over the trials of the measurement.
#[derive(Debug, Default)]
pub(super) struct Overhead {
    trials: u32,
    /// Time from the end of one trial to the end of the next.
    passed: Duration,
    /// Time in which the programs of trials ran.
    running: Duration,
}

impl Overhead {
    pub(super) fn add_trial(&mut self, passed: Duration, running: Duration) {
        self.trials = self.trials.saturating_add(1);
        self.passed = self.passed.saturating_add(passed);
        self.running = self.running.saturating_add(running);
    }

    /// Returns the mean for one trial, with this number of parallel trials.
    pub(super) fn per_trial(&self, jobs: u32) -> Duration {
        let passed = self.passed.saturating_mul(jobs);
        passed.saturating_sub(self.running) / self.trials.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_the_slot_time_without_the_time_of_the_program() {
        let ms = Duration::from_millis;
        let mut overhead = Overhead::default();
        assert_eq!(overhead.per_trial(1), Duration::ZERO);
        overhead.add_trial(ms(3), ms(1));
        overhead.add_trial(ms(5), ms(1));
        assert_eq!(overhead.per_trial(1), ms(3));
        // With two slots, a trial takes 16 ms of slot time, of which its program runs for 2 ms.
        assert_eq!(overhead.per_trial(2), ms(7));
    }
}
