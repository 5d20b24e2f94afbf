//! Gives up variants whose trials are inconclusive, and stops a run in which no trial counts.

use super::LoopState;
use provoke_model::{Event, InconclusiveReason, NoteLevel, StopCause, TrialsPlan, VariantId};
use provoke_state::Tally;

/// Number of consecutive inconclusive trials after which a variant is given up.
const INCONCLUSIVE_STARTS: u64 = 10;
/// The same for trials whose slots were lost, each of them twice: the machine has a fault, or the trials kill their
/// slots.
const LOST_TRIALS: u64 = 3;
/// The same for trials of a service, which take longer.
const STARTS_OF_A_SERVICE: u64 = 3;
/// The same for trials of a suite without the test that the run looks for.
const MISSING_TEST: u64 = 2;
/// The same for trials that requested to be skipped, which may be random.
const SKIPPED_TRIALS: u64 = 100;
/// The same for skipped trials of a search: there, a skip means that the candidate is not testable, as in `git bisect`.
const SKIPS_OF_A_PLACE: u64 = 3;

impl LoopState<'_, '_> {
    /// Gives up the variants with too many consecutive inconclusive trials. Returns the cause of an interruption if no
    /// variant is left.
    pub(super) fn too_many_inconclusive(&mut self) -> Option<StopCause> {
        let state = &*self.driver.state;
        if state.inconclusive.lost_streak >= LOST_TRIALS && !state.stage.is_decided() {
            let reason = self
                .last_void
                .values()
                .find(|void_reason| void_reason.starts_with("lost"))
                .cloned()
                .unwrap_or_default();
            self.emit_warning(format!(
                "{LOST_TRIALS} consecutive trials could not run: {reason}"
            ));
            return Some(StopCause::NothingCounts);
        }
        let several = state.trials.variants.len() > 1 || state.trials.space.is_some();
        // A service that cannot start at one load level cannot start at any.
        let one_service = state.trials.has_load_levels();
        if !several || one_service || state.stage.runs_extra_trials() {
            let mut tallies = state.all_tallies().map(|(_, tally)| tally);
            let skipped =
                tallies.any(|tally| tally.void.contains_key(&InconclusiveReason::Skipped));
            let mut tallies = state.all_tallies().map(|(_, tally)| tally);
            let patience = if self.cannot_start {
                1
            } else if tallies.any(lacks_test) {
                MISSING_TEST
            } else {
                inconclusive_limit(&state.trials, skipped)
            };
            let is_too_long = state.inconclusive.streak >= patience;
            return is_too_long.then_some(StopCause::NothingCounts);
        }
        if state.stage.is_decided() {
            return None;
        }
        let useless_variant = |(id, (streak, skipped))| {
            let patience = if lacks_test(state.tally_of(id)) {
                MISSING_TEST
            } else {
                inconclusive_limit(&state.trials, skipped)
            };
            (state.is_testable(id) && streak >= patience).then_some((id, patience))
        };
        let streaks = (0..).map(VariantId).zip(state.inconclusive_streaks());
        let useless: Vec<(VariantId, u64)> = streaks.filter_map(useless_variant).collect();
        for (variant, patience) in useless {
            let last_reason = self.last_void.get(&variant);
            let reason_text = last_reason.map_or(String::new(), |reason| format!(": {reason}"));
            self.give_up(
                variant,
                &format!("{patience} consecutive trials were inconclusive{reason_text}"),
            );
        }
        let otherwise: Vec<VariantId> = self.driver.state.failing_otherwise().collect();
        for variant in otherwise {
            let other_failure = self.driver.state.tally_of(variant).title_of_others();
            let title = other_failure.map_or(String::new(), |title| format!(": {title}"));
            self.give_up(variant, &format!("it fails in another way{title}"));
        }
        (!self.driver.state.any_testable()).then_some(StopCause::NothingCounts)
    }

    /// Marks a variant as not testable, unless it is already. The reason is one line; the
    /// output of a command, and where it is, may follow in further lines.
    pub(super) fn give_up(&mut self, variant: VariantId, reason: &str) {
        let state = &*self.driver.state;
        if state.is_testable(variant) {
            let name = state.trials.variant_plan(variant).display_label();
            // In a reduction, many sets are not testable.
            let why = reason.lines().next().unwrap_or_default();
            let (level, shown_reason) = if self.driver.question.expects_untestable() {
                (NoteLevel::Info, why)
            } else {
                (NoteLevel::Warning, reason)
            };
            let text = format!("cannot test the variant `{name}`: {shown_reason}");
            self.emit_event(&Event::Note { level, text });
            let time = self.working_time();
            self.emit_event(&Event::VariantUntestable {
                variant,
                why: why.to_owned(),
                at: time,
            });
        }
    }
}

/// Returns whether the suite of a variant lacks the test that the run looks for.
fn lacks_test(tally: &Tally) -> bool {
    tally.void.contains_key(&InconclusiveReason::NoCase)
}

/// Returns the limit of consecutive inconclusive trials.
fn inconclusive_limit(trials: &TrialsPlan, skipped: bool) -> u64 {
    match (skipped, &trials.space) {
        (true, Some(_)) => SKIPS_OF_A_PLACE,
        (true, None) => SKIPPED_TRIALS,
        (false, _) if trials.load.is_some() => STARTS_OF_A_SERVICE,
        (false, _) => INCONCLUSIVE_STARTS,
    }
}
