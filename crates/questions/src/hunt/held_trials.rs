//! Counts the trials under each set of holds, and keeps the examinations of promising ones.

use super::examined_failure::{ExaminedFailure, ShownFailures, TrialEnd};
use super::points::HuntPoints;
use crate::FailureCounts;
use provoke_model::{
    CodeAnchor, FailureKind, Hold, HoldObservation, HoldPoint, HuntQuestion, Trial, TrialId,
};
use provoke_stats::{lower_one_sided, real};
use std::collections::{BTreeMap, BTreeSet};

/// Number of trials after which holds that failed once are judged.
const VERIFYING_TRIALS: u64 = 4;
/// Number of failures among these trials from which a hold is examined.
pub(super) const PROMISING_FAILURES: u64 = 3;
/// Number of trials of a hold that may all fail before a thread is held, until it counts as tried.
const UNJUDGED_TRIALS: u64 = 3;
/// Number of fresh trials after which the examination of a hold may be given up.
pub(super) const FIRST_FRESH_TRIALS: u64 = 8;
/// Number of fresh trials after which an examination without a claim is given up.
pub(super) const MAX_FRESH_TRIALS: u64 = 60;

/// Trials under one set of holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldCounts {
    /// Trials in which all holds held a thread.
    pub(super) trials: u64,
    /// Those that failed.
    pub(super) failures: u64,
    /// Trials in which a hold was not reached.
    pub(super) unreached: u64,
    /// Those of the unreached ones that failed.
    pub(super) failed_before: u64,
}

impl HeldCounts {
    pub(super) fn launched(self) -> u64 {
        self.trials + self.unreached
    }

    /// Returns all trials and their failures, also those in which a hold was not reached: that may depend on the outcome. A
    /// point on the path of the failure is reached by failing trials only, so the others would all fail.
    pub(super) fn of_all_trials(self) -> FailureCounts {
        FailureCounts {
            failures: self.failures + self.failed_before,
            trials: self.launched(),
        }
    }

    /// Returns whether some trials reached the hold and all of these failed, and some did not and all of these passed.
    pub(super) fn is_on_failure_path(self) -> bool {
        let are_reached_failing = self.trials > 0 && self.failures == self.trials;
        are_reached_failing && self.unreached > 0 && self.failed_before == 0
    }

    /// Returns the trials by which the search compares holds. A failure before the hold does not make the hold promising.
    pub(super) fn judged(self) -> u64 {
        self.launched() - self.failed_before
    }

    /// Returns the trials that passed, with or without a held thread.
    pub(super) fn passes(self) -> u64 {
        self.judged() - self.failures
    }

    /// Returns whether at least 90 % of the trials failed, or all but one of a few.
    pub(super) fn fails_nearly_always(self) -> bool {
        let are_few = 10 * self.passes() <= self.judged();
        let is_one = self.passes() == 1 && self.judged() >= FIRST_FRESH_TRIALS;
        self.failures > 0 && (are_few || is_one)
    }

    /// Returns whether fewer than a quarter of the trials failed, after enough trials.
    pub(super) fn is_seldom(self) -> bool {
        self.launched() >= FIRST_FRESH_TRIALS && 4 * self.failures < self.judged()
    }

    /// Returns the part of the trials that failed.
    pub(super) fn observed_rate(self) -> f64 {
        real(self.failures) / real(self.judged().max(1))
    }

    /// Returns a lower bound for the failure rate, so that few trials count less.
    pub(super) fn plausible_rate(self) -> f64 {
        lower_one_sided(self.failures, self.judged(), 0.25)
    }

    /// Returns whether nearly all trials failed.
    pub(super) fn is_promising(self) -> bool {
        self.failures >= PROMISING_FAILURES && self.passes() <= 1
    }

    /// Returns whether more trials than the open ones must show if a hold that failed once is promising.
    pub(super) fn needs_verification(self, open: u64) -> bool {
        self.launched() + open < VERIFYING_TRIALS
            && self.failures < PROMISING_FAILURES
            && self.passes() <= VERIFYING_TRIALS - PROMISING_FAILURES
    }
}

/// The hold whose rate and neighbouring points are measured.
#[derive(Clone, Debug)]
pub(super) struct Examination {
    /// Number of this examination of the hunt, from 1.
    pub(super) number: u64,
    pub(super) holds: Vec<Hold>,
    /// The failure that the examination is about, in fresh trials and in control trials.
    pub(super) failure: ExaminedFailure,
    /// Trials in which the program was traced as for these holds, and no thread was held, with any failure.
    pub(super) control: FailureCounts,
    /// Trials since the examination began, with any failure: the hold was chosen because it had failed, so earlier trials do
    /// not count.
    pub(super) fresh: HeldCounts,
    /// Whether a trial under the hold was stopped although its threads could continue, so that the program may be slow.
    pub(super) may_hang: bool,
    /// Fresh trials that did not end in the time of a plain trial.
    pub(super) hung_trials: u64,
    /// A failing trial, to repeat it.
    pub(super) example: Option<TrialId>,
    /// For every hold, what identifies its instruction in another build.
    pub(super) anchors: Vec<Option<CodeAnchor>>,
    /// Rows of points around the holds.
    pub(super) neighbours: Vec<Vec<Neighbour>>,
}

impl Examination {
    /// Returns whether the failure happens more often under the hold than in the control trials.
    ///
    /// The hold was chosen among others, so the error rate `alpha` is divided among all examinations of the hunt:
    /// examination N gets 1/(N (N + 1)) of it.
    pub(super) fn is_claimed(&self, alpha: f64) -> bool {
        let number = real(self.number);
        self.failure
            .is_difference_known(alpha / (number * (number + 1.0)))
    }

    /// Returns whether other holds are worth more: most trials that pass without a hold pass with this one, too, or many
    /// trials did not show a difference.
    pub(super) fn is_worthless(&self, alpha: f64) -> bool {
        let fresh = self.fresh.of_all_trials();
        let control_rate = if self.control.trials < FIRST_FRESH_TRIALS {
            0.0
        } else {
            self.control.rate()
        };
        let is_rare =
            fresh.trials >= FIRST_FRESH_TRIALS && 1.0 - fresh.rate() > (1.0 - control_rate) / 2.0;
        is_rare || fresh.trials >= MAX_FRESH_TRIALS && !self.is_claimed(alpha)
    }

    fn add_fresh_trial(&mut self, is_reached: bool, end: TrialEnd) {
        count_trial(&mut self.fresh, is_reached, end.is_failure());
        self.failure.add_held_trial(end);
    }

    fn add_control_trial(&mut self, end: TrialEnd) {
        self.control.add_trial(end.is_failure());
        self.failure.add_control_trial(end);
    }
}

/// A point around an examined hold.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    pub(super) point: HoldPoint,
    /// The examined holds, one of them moved to this point.
    pub(super) holds: Vec<Hold>,
    /// Number of points from there to the examined one. Calls have no order, so it is 0 for each of them.
    pub(super) distance: usize,
}

/// The points that the program reaches, and the trials under holds at these points.
#[derive(Debug, Default)]
pub(super) struct HeldTrials {
    pub(super) points: HuntPoints,
    /// The trials under each set of holds; the holds do not watch memory.
    pub(super) tried_holds: BTreeMap<Vec<Hold>, HeldCounts>,
    /// The points that were tried alone.
    pub(super) tried_alone: BTreeSet<HoldPoint>,
    /// The sets of holds under which a trial failed, with its failures.
    pub(super) failing: BTreeMap<Vec<Hold>, ShownFailures>,
    /// The sets of holds under which a trial was stopped early, so that it may hang.
    pub(super) stopped_early: BTreeSet<Vec<Hold>>,
    /// The hold whose rate and neighbouring points are measured.
    pub(super) examined: Option<Examination>,
    /// Earlier examinations, which found a low rate.
    pub(super) earlier: Vec<Examination>,
}

impl HeldTrials {
    /// Returns no trials yet.
    pub(super) fn of_question(question: &HuntQuestion) -> Self {
        Self {
            points: HuntPoints::of_question(question),
            ..Self::default()
        }
    }

    /// Returns the counts of a set of holds.
    pub(super) fn counts_of(&self, holds: &[Hold]) -> HeldCounts {
        self.tried_holds.get(holds).copied().unwrap_or_default()
    }

    /// Returns whether a set of holds has no trial that shows something, and a few more may give one.
    pub(super) fn is_unjudged(&self, holds: &[Hold]) -> bool {
        let counts = self.counts_of(holds);
        counts.judged() == 0 && counts.launched() < UNJUDGED_TRIALS
    }

    /// Returns a lower bound for the failure rate under a set of holds, so that few trials count less.
    pub(super) fn plausible_rate(&self, holds: &[Hold]) -> f64 {
        self.counts_of(holds).plausible_rate()
    }

    /// Counts a trial under these holds, also for their examination.
    pub(super) fn add_trial(
        &mut self,
        trial: &Trial,
        holds: &[Hold],
        observation: &HoldObservation,
        end: TrialEnd,
    ) {
        let is_reached = observation.times.iter().all(|times| *times > 0);
        let counts = self.tried_holds.entry(holds.to_vec()).or_default();
        count_trial(counts, is_reached, end.is_failure());
        if let [hold] = holds
            && !self.is_unjudged(holds)
        {
            self.tried_alone.insert(hold.point.clone());
        }
        if end.is_failure() && is_reached {
            let shown = self.failing.entry(holds.to_vec()).or_default();
            shown.add_end(end);
        }
        if let Some(examined) = self
            .examined
            .as_mut()
            .filter(|examination| examination.holds == holds)
        {
            let is_hang = matches!(
                end,
                TrialEnd::Failed(failure) if matches!(failure.kind, FailureKind::Hang { .. })
            );
            examined.hung_trials += u64::from(is_hang);
            let is_stopped_early = end == TrialEnd::StoppedEarly;
            examined.may_hang |= is_stopped_early;
            if is_stopped_early && examined.hung_trials == 0 {
                // Until a trial with more time hangs, the program may only be slow.
                return;
            }
            examined.add_fresh_trial(is_reached, end);
            if examined.anchors.is_empty() {
                examined.anchors.clone_from(&observation.anchors);
            }
            if examined.failure.is_shown_by(end) && is_reached {
                examined.example.get_or_insert(trial.id);
            }
        }
    }

    /// Counts a trial that was traced as for these holds, but in which no thread was held.
    pub(super) fn add_control_trial(&mut self, holds: &[Hold], end: TrialEnd) {
        let mut examinations = self.examined.iter_mut().chain(&mut self.earlier);
        if let Some(examination) = examinations.find(|examination| examination.holds == holds) {
            examination.add_control_trial(end);
        }
    }

    /// Returns the trials of all examinations in which the program was only traced.
    pub(super) fn control_total(&self) -> FailureCounts {
        let examinations = self.examined.iter().chain(&self.earlier);
        examinations.fold(FailureCounts::default(), |total, examination| {
            FailureCounts {
                failures: total.failures + examination.control.failures,
                trials: total.trials + examination.control.trials,
            }
        })
    }

    /// Returns whether a set of holds is or was examined.
    pub(super) fn was_examined(&self, holds: &[Hold]) -> bool {
        let mut examinations = self.examined.iter().chain(&self.earlier);
        examinations.any(|examination| examination.holds == holds)
    }

    /// Returns the number of holds that were examined, of which the answer reports the best.
    pub(super) fn examination_count(&self) -> u64 {
        self.earlier.len() as u64 + u64::from(self.examined.is_some())
    }

    /// Returns the examined hold with the highest failure rate, of those under which the program fails more often than
    /// without a hold.
    pub(super) fn claimed_examination(&self, alpha: f64) -> Option<&Examination> {
        self.best_of_examinations(|examination| examination.is_claimed(alpha))
    }

    /// Returns the examined hold with the highest failure rate.
    pub(super) fn best_examination(&self) -> Option<&Examination> {
        self.best_of_examinations(|examination| examination.fresh.of_all_trials().failures > 0)
    }

    fn best_of_examinations(
        &self,
        is_wanted: impl Fn(&Examination) -> bool,
    ) -> Option<&Examination> {
        let rate = |examination: &&Examination| examination.fresh.plausible_rate();
        let examined = self.examined.iter().chain(&self.earlier);
        let wanted = examined.filter(|examination| is_wanted(examination));
        wanted.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    }
}

fn count_trial(counts: &mut HeldCounts, is_reached: bool, failed: bool) {
    counts.trials += u64::from(is_reached);
    counts.failures += u64::from(is_reached && failed);
    counts.unreached += u64::from(!is_reached);
    counts.failed_before += u64::from(!is_reached && failed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::exit;
    use provoke_model::trial_seed;

    #[test]
    fn a_hold_is_tried_again_if_the_program_failed_before_it() {
        let holds = samples::examination(&[1], 0).holds;
        let is_unjudged = |trials: &[(bool, bool)]| {
            let mut held_trials = HeldTrials::default();
            let counts = held_trials.tried_holds.entry(holds.clone()).or_default();
            for (is_reached, failed) in trials {
                count_trial(counts, *is_reached, *failed);
            }
            held_trials.is_unjudged(&holds)
        };
        let failed_before = (false, true);
        assert!(is_unjudged(&[]));
        assert!(is_unjudged(&[failed_before]));
        assert!(!is_unjudged(&[failed_before; 3]));
        assert!(!is_unjudged(&[failed_before, (true, true)]));
        assert!(!is_unjudged(&[(false, false)]));
    }

    #[test]
    fn a_failure_before_the_hold_says_nothing_about_it() {
        let counts = HeldCounts {
            trials: 8,
            failures: 8,
            unreached: 3,
            failed_before: 3,
        };
        assert!(counts.fails_nearly_always());
        let not_reached = HeldCounts {
            failed_before: 1,
            ..counts
        };
        assert!(!not_reached.fails_nearly_always());
        assert!(not_reached.plausible_rate() < counts.plausible_rate());
        let never_reached = HeldCounts {
            trials: 0,
            failures: 0,
            ..counts
        };
        assert!(!never_reached.fails_nearly_always());
    }

    /// Failure rates of the trials with a hold and of the control trials, and whether only failing trials reach the hold.
    #[derive(Clone, Copy)]
    struct Program {
        held_rate: f64,
        control_rate: f64,
        is_on_failure_path: bool,
    }

    /// Examines a hold until it is claimed, at most with all fresh trials. The random numbers follow from `seed`.
    fn examine(program: Program, number: u64, seed: u64) -> Examination {
        let crash = exit(1);
        let mut drawn = 0;
        let mut fails = |rate: f64| {
            drawn += 1;
            real(trial_seed(seed, TrialId(drawn)) % 10_000) < rate * 10_000.0
        };
        let mut examination = Examination {
            number,
            fresh: HeldCounts::default(),
            ..samples::examination(&[1], 0)
        };
        while examination.fresh.launched() < MAX_FRESH_TRIALS && !examination.is_claimed(0.05) {
            let failed = fails(program.held_rate);
            let end = |failed: bool| {
                if failed {
                    TrialEnd::Failed(&crash)
                } else {
                    TrialEnd::Passed
                }
            };
            examination.add_fresh_trial(failed || !program.is_on_failure_path, end(failed));
            examination.add_control_trial(end(fails(program.control_rate)));
        }
        examination
    }

    #[test]
    fn a_hold_that_only_failing_trials_reach_is_not_claimed() {
        let program = Program {
            held_rate: 0.4,
            control_rate: 0.4,
            is_on_failure_path: true,
        };
        let mut most_failures = 0;
        for seed in 0..20 {
            let examination = examine(program, 1, seed);
            let fresh = examination.fresh;
            assert_eq!(fresh.failures, fresh.trials);
            assert!(fresh.is_on_failure_path());
            assert!(!examination.is_claimed(0.05), "{fresh:?}");
            most_failures = most_failures.max(fresh.failures);
        }
        assert!(most_failures > 20);
    }

    #[test]
    fn a_hunt_without_a_difference_seldom_claims_one_of_its_holds() {
        for rate in [0.05, 0.4, 0.9] {
            let program = Program {
                held_rate: rate,
                control_rate: rate,
                is_on_failure_path: false,
            };
            let claims = |hunt: u64| {
                (1..=8).any(|number| examine(program, number, hunt * 8 + number).is_claimed(0.05))
            };
            let wrong_hunts = (0..500).filter(|hunt| claims(*hunt)).count();
            assert!(wrong_hunts <= 25, "{wrong_hunts} of 500 at {rate}");
        }
    }

    #[test]
    fn a_hold_that_fails_in_most_trials_is_claimed_after_many_others() {
        for (held_rate, control_rate, number) in [(1.0, 0.0, 30), (0.9, 0.2, 10), (0.5, 0.0, 5)] {
            let program = Program {
                held_rate,
                control_rate,
                is_on_failure_path: false,
            };
            let claimed = (0..100).filter(|seed| examine(program, number, *seed).is_claimed(0.05));
            assert!(claimed.count() >= 95, "{held_rate} {control_rate}");
        }
    }

    #[test]
    fn a_hold_is_worthless_if_most_trials_that_pass_without_it_pass_with_it() {
        let with = |failures: u64, control_failures: u64| Examination {
            control: FailureCounts {
                failures: control_failures,
                trials: 10,
            },
            ..samples::examination(&[1], failures)
        };
        assert!(!with(6, 0).is_worthless(0.05));
        assert!(with(4, 0).is_worthless(0.05));
        assert!(with(7, 6).is_worthless(0.05));
        assert!(!with(9, 6).is_worthless(0.05));
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::*;
    use crate::hunt::attempts::hold_at;
    use crate::search::SearchedFailure;
    use provoke_model::{CodePoint, LearnedPoint};

    pub(in crate::hunt) fn point(address: u64) -> HoldPoint {
        HoldPoint::Code(CodePoint {
            object: "/program".into(),
            address,
        })
    }

    /// Returns an instruction that accesses memory, in a thread that the program started.
    pub(in crate::hunt) fn learned_point(address: u64) -> LearnedPoint {
        LearnedPoint {
            point: point(address),
            thread: 1,
            function: 0,
            accesses_memory: true,
            name: None,
            line: None,
            is_library: false,
        }
    }

    /// Returns an examination's failure that covers any.
    pub(in crate::hunt) fn any_failure() -> ExaminedFailure {
        ExaminedFailure::new(SearchedFailure::Open)
    }

    pub(in crate::hunt) fn examination(addresses: &[u64], failures: u64) -> Examination {
        Examination {
            holds: addresses
                .iter()
                .map(|address| hold_at(&point(*address), 0))
                .collect(),
            fresh: HeldCounts {
                trials: 10,
                failures,
                unreached: 0,
                failed_before: 0,
            },
            number: 1,
            failure: any_failure(),
            control: FailureCounts::default(),
            may_hang: false,
            hung_trials: 0,
            example: None,
            anchors: Vec::new(),
            neighbours: Vec::new(),
        }
    }

    pub(in crate::hunt) fn addresses(holds: &[Hold]) -> Vec<u64> {
        holds
            .iter()
            .filter_map(|hold| Some(hold.point.as_code()?.address))
            .collect()
    }
}
