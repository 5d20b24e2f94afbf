//! Time limits within which a host must reply, and the time that large replies need to arrive.

use provoke_local::{HOOK_TIMEOUT, longest_trial};
use provoke_model::{Hooks, Trial, TrialSettings, TrialsPlan, VariantPlan};
use std::time::Duration;
use tokio::time::Instant;

/// Time after all other limits in which a reply must arrive: for collecting evidence, and for a slow host.
pub(super) const REPLY_WITHIN: Duration = Duration::from_secs(180);
/// Time in which a host must kill its trials or a hook.
pub(super) const KILL_WITHIN: Duration = Duration::from_secs(10);
/// Number of messages that were not asked for, and how many more there may be in each second: a worker sends one.
const MAX_UNWANTED: u64 = 1000;
const MAX_UNWANTED_PER_SECOND: u64 = 10;
/// Data that arrives at this rate, in bytes per second, extends a limit by the time that it takes.
const LOWEST_RATE: u64 = 64 << 10;

/// The time limits of a plan.
#[derive(Debug)]
pub(super) struct ReplyLimits {
    settings: TrialSettings,
    make_limit: Duration,
    /// Whether any trial has a `prepare` hook, or a `conclude` hook.
    has_prepare: bool,
    has_conclude: bool,
    /// Whether the runner reports the tests of each trial.
    pub(super) counts_cases: bool,
}

impl ReplyLimits {
    /// Returns the limits of trials with these settings and without hooks.
    pub(super) fn of_settings(settings: TrialSettings) -> Self {
        Self {
            settings,
            make_limit: Duration::ZERO,
            has_prepare: false,
            has_conclude: false,
            counts_cases: false,
        }
    }

    pub(super) fn of_plan(plan: &TrialsPlan) -> Self {
        let mut limits = Self::of_settings(plan.settings.clone());
        limits.make_limit = plan.make_limit;
        limits.counts_cases = plan.cases.is_some();
        limits.add_hooks(&plan.hooks);
        for variant in &plan.variants {
            limits.learn_variant(variant);
        }
        limits
    }

    pub(super) fn learn_variant(&mut self, variant: &VariantPlan) {
        self.add_hooks(&variant.hooks);
    }

    fn add_hooks(&mut self, hooks: &Hooks) {
        self.has_prepare |= hooks.prepare.is_some();
        self.has_conclude |= hooks.conclude.is_some();
    }

    /// Returns the limit for the result of a trial after the one before it.
    pub(super) fn of_trial(&self, trial: &Trial) -> Duration {
        let hook_count = u32::from(self.has_prepare) + u32::from(self.has_conclude);
        longest_trial(trial.timeout, &self.settings, hook_count).saturating_add(REPLY_WITHIN)
    }

    pub(super) fn of_hook(&self) -> Duration {
        let limits = [HOOK_TIMEOUT, self.settings.grace];
        limits
            .into_iter()
            .fold(REPLY_WITHIN, Duration::saturating_add)
    }

    /// Returns the limit for the preparation of a variant, which may run its `setup`.
    pub(super) fn of_preparation(&self) -> Duration {
        self.of_hook().saturating_add(self.make_limit)
    }
}

/// The data that arrived from a host.
#[derive(Debug)]
pub(super) struct ArrivedData {
    since: Instant,
    /// Number of messages that were not asked for.
    unwanted_messages: u64,
    /// When the last data arrived.
    last: Instant,
    /// Time that files and messages took that were wanted.
    wanted: Duration,
    /// Time that the message takes that arrives now.
    of_message: Duration,
}

impl Default for ArrivedData {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            unwanted_messages: 0,
            last: Instant::now(),
            wanted: Duration::ZERO,
            of_message: Duration::ZERO,
        }
    }
}

impl ArrivedData {
    pub(super) fn add_part_of_message(&mut self, bytes: usize) {
        let time = self.time_of(bytes);
        self.of_message += time;
    }

    /// Returns the time since the last data, but at most the time that this much takes at the lowest rate.
    fn time_of(&mut self, bytes: usize) -> Duration {
        let now = Instant::now();
        let since = now - std::mem::replace(&mut self.last, now);
        since.min(Duration::from_millis(bytes as u64 * 1000 / LOWEST_RATE))
    }

    pub(super) fn end_message(&mut self, is_wanted: bool) {
        let time = std::mem::take(&mut self.of_message);
        if is_wanted {
            self.wanted += time;
        } else {
            self.unwanted_messages += 1;
        }
    }

    /// Returns whether more messages arrived without being asked for than a worker sends.
    pub(super) fn is_flood(&self) -> bool {
        let of_time = MAX_UNWANTED_PER_SECOND * self.since.elapsed().as_secs();
        self.unwanted_messages > MAX_UNWANTED + of_time
    }

    pub(super) fn add_part_of_file(&mut self, bytes: usize) {
        let time = self.time_of(bytes);
        self.wanted += time;
    }

    /// Returns the time that wanted data took so far.
    pub(super) fn time_taken(&self) -> Duration {
        self.wanted + self.of_message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{SlotId, TrialId, TrialPurpose, VariantId};

    #[test]
    fn limits_include_those_of_the_trial_and_its_hooks() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let settings = TrialSettings {
            grace: minutes(4),
            leak_grace: minutes(1),
            ..TrialSettings::default()
        };
        let mut limits = ReplyLimits::of_settings(settings);
        let trial = Trial {
            id: TrialId(7),
            variant: VariantId(0),
            slot: SlotId(0),
            seed: 7,
            timeout: minutes(3),
            purpose: TrialPurpose::Measure,
            hold: None,
        };
        // Two minutes to kill the processes, and three for the reply.
        assert_eq!(limits.of_trial(&trial), minutes(3 + 4 + 1 + 2 + 3));
        assert_eq!(limits.of_hook(), minutes(10 + 4 + 3));
        limits.add_hooks(&Hooks {
            conclude: Some("true".into()),
            ..Hooks::default()
        });
        assert_eq!(limits.of_trial(&trial), minutes(13 + 14));
    }

    #[tokio::test(start_paused = true)]
    async fn only_wanted_data_extends_a_limit_by_the_time_that_it_takes() {
        let seconds = Duration::from_secs;
        let mut arrived = ArrivedData::default();
        tokio::time::advance(seconds(300)).await;
        arrived.add_part_of_message(1 << 20);
        assert_eq!(arrived.time_taken(), seconds(16));
        arrived.end_message(false);
        assert_eq!(arrived.time_taken(), Duration::ZERO);
        tokio::time::advance(seconds(5)).await;
        arrived.add_part_of_message(1 << 20);
        arrived.end_message(true);
        tokio::time::advance(seconds(30)).await;
        arrived.add_part_of_file(1 << 20);
        // A burst needs no time.
        arrived.add_part_of_file(1 << 30);
        assert_eq!(arrived.time_taken(), seconds(5 + 16));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_may_send_a_message_every_second() {
        let mut arrived = ArrivedData::default();
        for _ in 0..100_000 {
            tokio::time::advance(Duration::from_secs(1)).await;
            arrived.end_message(false);
        }
        assert!(!arrived.is_flood());
        let mut arrived = ArrivedData::default();
        for _ in 0..10_000 {
            arrived.end_message(true);
        }
        assert!(!arrived.is_flood());
        for _ in 0..10_000 {
            arrived.end_message(false);
        }
        assert!(arrived.is_flood());
    }
}
