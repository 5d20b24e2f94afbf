//! Describes the hosts in the live line.

use provoke_state::State;
use provoke_words as words;
use std::fmt::Write as _;

/// Number of failing hosts that are named.
const FAILING: usize = 4;
/// Maximum width of a name.
const NAME: usize = 20;

/// The hosts on which trials run, and their trials.
pub(super) struct HostProgress {
    up: usize,
    planned: u64,
    trials_per_second: f64,
    lost_attempts: u64,
    /// Names and failures of hosts that failed, the most failures first.
    failures: Vec<(String, u64)>,
}

impl HostProgress {
    /// Returns the progress; `None` if all trials run on this machine.
    pub(super) fn of_state(state: &State, trials_per_second: f64) -> Option<Self> {
        let plan = state.trials.hosts.as_ref()?;
        let hosts = state.hosts.all();
        let failures = hosts.iter().map(|host| {
            let failures = host.counts.values().map(|counts| counts.failures).sum();
            (host.joined.destination.clone(), failures)
        });
        let mut failures: Vec<(String, u64)> = failures.filter(|(_, count)| *count > 0).collect();
        failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(Self {
            up: state.hosts.up().count(),
            planned: u64::from(plan.count()),
            trials_per_second,
            lost_attempts: hosts.iter().map(|host| host.lost_trials).sum(),
            failures,
        })
    }

    /// Returns the hosts that run trials, the trials per second, and the attempts that were lost.
    pub(super) fn describe_counts(&self) -> String {
        let Self { up, planned, .. } = self;
        let mut text = format!("{up} of {}", words::format_count(*planned, "host"));
        let rate = self.trials_per_second;
        if rate >= 9.95 {
            let _ = write!(text, ", {rate:.0}/s");
        } else if rate > 0.0 {
            let _ = write!(text, ", {rate:.1}/s");
        }
        if self.lost_attempts > 0 {
            let _ = write!(text, ", {} lost", self.lost_attempts);
        }
        text
    }

    /// Returns the failures of each host that failed; `None` if none did.
    pub(super) fn describe_failures(&self) -> Option<String> {
        let shown = self.failures.iter().take(FAILING).map(|(name, failures)| {
            let name = words::shorten_text(&words::sanitize_line(name), NAME);
            format!("{name} {failures}")
        });
        let mut shown: Vec<String> = shown.collect();
        let more = self.failures.len().saturating_sub(FAILING);
        if more > 0 {
            shown.push(format!("{more} more hosts"));
        }
        (!shown.is_empty()).then(|| format!("failed on {}", shown.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::live_fit::{Importance, StatusPart, fit_status};
    use super::*;

    #[test]
    fn a_narrow_terminal_shows_the_counts_and_a_wide_one_the_failing_hosts() {
        let failures = [("n3", 11), ("n1", 4), ("n7", 2), ("n2", 1), ("n5", 1)];
        let failures = failures.map(|(name, count)| (name.to_owned(), count));
        let progress = HostProgress {
            up: 7,
            planned: 8,
            trials_per_second: 52.4,
            lost_attempts: 4,
            failures: failures.to_vec(),
        };
        let parts = [
            (Importance::Progress, "412 of 1000 trials".to_owned()),
            (Importance::Count, "19 SIGSEGV".to_owned()),
            (Importance::Progress, progress.describe_counts()),
            (Importance::Progress, "8 s, 11 s left".to_owned()),
            (Importance::Detail, progress.describe_failures().unwrap()),
        ]
        .map(|(importance, text)| StatusPart::new(importance, text));
        let lines = [60, 80, 120].map(|columns| fit_status(parts.to_vec(), columns));
        insta::assert_snapshot!(lines.join("\n"), @"
        412 of 1000 trials   7 of 8 hosts, 52/s, 4 lost   8 s
        412 of 1000 trials   19 SIGSEGV   7 of 8 hosts, 52/s, 4 lost   8 s, 11 s left
        412 of 1000 trials   19 SIGSEGV   7 of 8 hosts, 52/s, 4 lost   8 s, 11 s left   failed on n3 11, n1 4, n7 2, n2 1
        ");
    }
}
