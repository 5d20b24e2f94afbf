//! Learns the result of a search: the first bad candidate, or the smallest failing set.

use super::{State, TrialFacts, TriedOutcome};
use crate::model::{
    Failure, Outcome, Plan, Question, SearchQuestion, SearchSpace, Subset, Trial, VariantChoice,
    VariantChoices, VariantId,
};
use provoke_stats::fisher;
use provoke_stats::search::{Bisection, Count, ItemScreen, Reduction, SearchPrior, hedge_weights};

/// Required failures of the failing variant before the search begins; [`ALWAYS`] limits the trials if all of them fail.
const FAILURES: u64 = 3;
/// Number of trials that is enough if every trial fails: the variant may always fail.
const ALWAYS: u64 = 10;

/// Required failures of the bad end of a list if earlier runs count: the search detects soon if the rate has changed.
const FAILURES_AGAIN: u64 = 1;
/// Maximum number of earlier failures that count. More of them hardly save a trial, and mislead if the rate has
/// changed.
const MOST_EARLIER_FAILURES: u64 = 10;
/// Earlier runs do not count if the probability of the difference between their rate and the present one is below this.
const ALIKE: f64 = 0.05;

/// Whether earlier runs of the failing variant count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EarlierUse {
    /// Earlier runs do not exist.
    Nothing,
    /// Undecided, because the failing variant has not failed yet.
    Open,
    /// They count.
    Counted,
    /// They do not count, because the rate now differs; with the probability of such a difference at one rate.
    RateDiffers(f64),
    /// They do not count, because the variant failed in another way.
    KindDiffers,
}

/// Progress of reproducing the failure, before the search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReproductionProgress {
    /// At least this many more trials are needed.
    NotYet(u64),
    /// It failed often enough.
    Yes,
    /// It did not fail often enough within the limit, or is not testable.
    No,
}

impl State {
    /// The failing variant of a search: the bad end, or all items together.
    pub const FAILING: VariantId = VariantId(0);

    /// Returns the variant of a choice, if it was chosen.
    pub fn find_variant(&self, choice: &VariantChoice) -> Option<VariantId> {
        self.chosen.get(choice).copied()
    }

    /// Returns the index of a variant's candidate in the list.
    pub fn place_of_variant(&self, variant: VariantId) -> Option<usize> {
        match self.plan.variant_plan(variant).choice {
            Some(VariantChoice::Place(place)) => Some(place as usize),
            _ => None,
        }
    }

    /// Returns the variant of a candidate, if it was chosen.
    pub fn variant_at_place(&self, place: usize) -> Option<VariantId> {
        self.find_variant(&VariantChoice::Place(u32::try_from(place).ok()?))
    }

    /// Returns the items that a variant keeps.
    pub fn kept_set(&self, variant: VariantId) -> Option<Vec<usize>> {
        match &self.plan.variant_plan(variant).choice {
            Some(VariantChoice::Set(subset)) => Some(subset_indices(subset)),
            _ => None,
        }
    }

    /// Returns the progress of reproducing the failure.
    pub fn reproduction_progress(&self) -> ReproductionProgress {
        let Some(asked) = self.plan.question.as_search() else {
            return ReproductionProgress::No;
        };
        let tally = self.tally_of(Self::FAILING);
        let failures = tally.failures;
        let needed = self.failures_needed();
        let all = match self.earlier_use {
            EarlierUse::Open | EarlierUse::Counted => {
                self.with_earlier(failures, tally.counted_trials())
            }
            _ => (failures, tally.counted_trials()),
        };
        let always = all.0 == all.1;
        let in_vain = tally.finished_trials() >= asked.reproduce && failures < needed;
        if failures >= needed && (!always || all.1 >= ALWAYS) {
            ReproductionProgress::Yes
        } else if !self.is_testable(Self::FAILING) || in_vain {
            ReproductionProgress::No
        } else if always {
            ReproductionProgress::NotYet(ALWAYS.saturating_sub(all.1).max(1))
        } else {
            ReproductionProgress::NotYet(needed - failures)
        }
    }

    /// Returns the required number of failures of the failing variant.
    pub fn failures_needed(&self) -> u64 {
        match (&self.plan.question, self.earlier_use) {
            (Question::Bisect(_), EarlierUse::Open | EarlierUse::Counted) => FAILURES_AGAIN,
            _ => FAILURES,
        }
    }

    /// Adds the failures and trials of earlier runs, scaled to the maximum number of failures that count.
    fn with_earlier(&self, failures: u64, trials: u64) -> (u64, u64) {
        let asked = self.plan.question.as_search();
        let earlier = asked.and_then(|asked| asked.earlier.as_ref());
        earlier.map_or((failures, trials), |earlier| {
            let worth = earlier.failures.min(MOST_EARLIER_FAILURES);
            let of_trials = match earlier.failures {
                0 => earlier.trials,
                all => earlier.trials.saturating_mul(worth) / all,
            };
            (failures + worth, trials + of_trials)
        })
    }

    /// Returns the failures and trials that were added for earlier runs; 0 if these do not count.
    pub fn counted_earlier(&self) -> (u64, u64) {
        match self.earlier_use {
            EarlierUse::Counted => self.with_earlier(0, 0),
            _ => (0, 0),
        }
    }

    /// Decides whether earlier runs count, as soon as the failing variant has failed again: then the earlier failures
    /// were of the same kind, at a rate that may be the same.
    fn count_earlier(&mut self) {
        let asked = self.plan.question.as_search();
        let Some(earlier) = asked.and_then(|asked| asked.earlier.as_ref()) else {
            return;
        };
        let tally = self.tally_of(Self::FAILING);
        if self.earlier_use != EarlierUse::Open || tally.failures < self.failures_needed() {
            return;
        }
        let (failures, trials) = (earlier.failures, earlier.trials);
        let mut kinds = tally.groups.values().map(|group| group.kind.name());
        let same_kinds = earlier.kinds.is_empty()
            || earlier.kinds.len() == 1 && kinds.all(|kind| earlier.kinds.contains(&kind));
        let alike = fisher(tally.failures, tally.counted_trials(), failures, trials).two_sided;
        self.earlier_use = if !same_kinds {
            EarlierUse::KindDiffers
        } else if alike < ALIKE {
            EarlierUse::RateDiffers(alike)
        } else {
            EarlierUse::Counted
        };
        self.search_with_earlier();
    }

    /// Stops counting earlier runs as soon as the failing versions fail at another rate in this run.
    fn check_earlier(&mut self) {
        let asked = self.plan.question.as_search();
        let earlier = asked.and_then(|asked| asked.earlier.as_ref());
        let (Some(search), Some(earlier), EarlierUse::Counted) =
            (&self.search, earlier, self.earlier_use)
        else {
            return;
        };
        let worth = self.with_earlier(0, 0);
        let first = search.likeliest_group().first;
        let failing = search
            .tested_versions()
            .iter()
            .filter(|one| one.version >= first);
        let (failures, trials) =
            failing.fold((0, 0), |(k, n), one| (k + one.failures, n + one.runs));
        let now = (
            failures.saturating_sub(worth.0),
            trials.saturating_sub(worth.1),
        );
        let alike = fisher(now.0, now.1, earlier.failures, earlier.trials).two_sided;
        if alike < ALIKE {
            let newest = search.newest_version();
            self.search = Some(search.without_runs(newest, worth.0, worth.1));
            self.earlier_use = EarlierUse::RateDiffers(alike);
        }
    }

    /// Adds earlier runs to the posterior of a list, if they count.
    pub(super) fn search_with_earlier(&mut self) {
        let (failures, trials) = self.counted_earlier();
        if let Some(search) = &mut self.search
            && trials > 0
        {
            search.observe_many(search.newest_version(), failures, trials);
        }
    }

    /// Returns whether a failure is the bug. In a search with neither `any_failure` nor `only`, the bug is limited to the
    /// kinds of failure that the failing variant showed: other failures of a variant may come from the items that were
    /// left out.
    pub fn is_the_bug(&self, trial: &Trial, failure: &Failure) -> bool {
        let says_which =
            |asked: &SearchQuestion| asked.any_failure || !self.plan.rules.only.is_empty();
        let asked = self.plan.question.as_search();
        let example = self.shows_the_bug();
        if trial.variant == example || asked.is_none_or(says_which) {
            return true;
        }
        let known = &self.tally_of(example).groups;
        let bugs = known.values().filter(|group| group.is_the_bug);
        let mut kinds = bugs.map(|group| group.kind.name()).peekable();
        kinds.peek().is_none() || kinds.any(|kind| kind == failure.kind.name())
    }

    /// Adds a trial that shows whether a variant runs at all, with any outcome.
    pub(super) fn screen_run(&mut self, variant: VariantId, ran: bool) {
        self.update_screen(variant, |screen, set| screen.observe_run(set, ran));
    }

    fn update_screen(&mut self, variant: VariantId, tell: impl Fn(&mut ItemScreen, &[usize])) {
        if let (Some(VariantChoice::Set(subset)), Some(screen)) =
            (&self.plan.variant_plan(variant).choice, &mut self.screen)
        {
            tell(screen, &subset_indices(subset));
        }
        if let (Some(screen), Some(asked), None) = (
            &self.screen,
            self.plan.question.as_search(),
            &self.reduction,
        ) && screen.is_over()
        {
            self.reduction = Some(self.begin_reduction(asked, screen.free_items()));
        }
    }

    /// Returns the items of a set that may be left out, without the required ones.
    pub fn free_of(&self, mut set: Vec<usize>) -> Vec<usize> {
        let required = self
            .screen
            .as_ref()
            .map_or(&[][..], ItemScreen::required_items);
        set.retain(|thing| required.binary_search(thing).is_err());
        set
    }

    /// Returns a set together with the required items.
    pub fn with_required(&self, mut set: Vec<usize>) -> VariantChoice {
        set.extend(self.screen.iter().flat_map(ItemScreen::required_items));
        set.sort_unstable();
        set.dedup();
        let kept = set
            .into_iter()
            .filter_map(|thing| u32::try_from(thing).ok());
        VariantChoice::Set(Subset(kept.collect()))
    }

    /// Adds a counted trial.
    pub(super) fn learn_from_trial(&mut self, trial: &Trial, ended: &TrialFacts) {
        if trial.variant == Self::FAILING {
            self.count_earlier();
        }
        let failure = match &ended.outcome {
            Outcome::Fail(failure) => Some(failure),
            _ => None,
        };
        let failed = failure.is_some();
        let asked = self.plan.question.as_search();
        let all_alike = asked.is_some_and(|asked| asked.any_failure);
        if let Some(search) = &mut self.search
            && let Some(VariantChoice::Place(place)) = self.plan.variant_plan(trial.variant).choice
        {
            let failure = failure.filter(|_| !all_alike);
            let features = failure.map(|failure| self.features.features_of(failure, ended.elapsed));
            search.observe_with_features(place as usize, failed, features.unwrap_or_default());
            self.allow_background();
            self.check_earlier();
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.observe_life(trial.variant.index(), failed);
        }
        if self.reduction.is_some() {
            let set = self.kept_set(trial.variant).map(|set| self.free_of(set));
            if let (Some(reduction), Some(set)) = (&mut self.reduction, set) {
                reduction.observe_run(&set, failed);
            }
        } else if self.screen.is_some() {
            self.screen_run(trial.variant, true);
        } else {
            self.begin_screen();
        }
    }

    /// Begins to search for items that can be left out, once all items together have failed often enough.
    fn begin_screen(&mut self) {
        if matches!(self.plan.question, Question::Reduce(_))
            && self.reproduction_progress() == ReproductionProgress::Yes
        {
            let things = self.plan.space.as_ref().map_or(0, SearchSpace::len);
            self.screen = Some(ItemScreen::new(things));
        }
    }

    /// Adds the trials of the failing variant that ran before the search.
    pub(super) fn learn_reproduction(&mut self) {
        let alike = self
            .plan
            .question
            .as_search()
            .is_some_and(|asked| asked.any_failure);
        if let (Some(raise), Some(search)) = (&self.raise, &mut self.search) {
            let newest = search.newest_version();
            for (_, ended) in &raise.natural_trials().outcomes {
                match ended {
                    TriedOutcome::Passed => search.observe_run(newest, false),
                    TriedOutcome::Failed(_, _) if alike => search.observe_run(newest, true),
                    TriedOutcome::Failed(failure, time) => {
                        let features = self.features.features_of(failure, *time);
                        search.observe_with_features(newest, true, features);
                    }
                    TriedOutcome::Otherwise => {}
                }
            }
        }
        self.begin_screen();
    }

    /// Records the build of a candidate: between two candidates with identical builds no failure begins.
    pub(super) fn identify_build(&mut self, variant: VariantId, build: Option<&str>) {
        let (Some(build), Some(place)) = (build, self.place_of_variant(variant)) else {
            return;
        };
        let same = self.builds.entry(build.to_owned()).or_default();
        same.push(place);
        let (first, last) = same.iter().fold((place, place), |(first, last), other| {
            (first.min(*other), last.max(*other))
        });
        if let Some(search) = &mut self.search {
            search.mark_identical(first, last);
        }
    }

    /// Returns the number of builds that are identical to one that was prepared before.
    pub fn identical_builds(&self) -> u64 {
        let more = self.builds.values().map(|places| {
            let mut places = places.clone();
            places.sort_unstable();
            places.dedup();
            places.len() as u64 - 1
        });
        more.sum()
    }

    /// Allows a background if good versions were assumed never to fail, but the good end does fail, less often than the
    /// bad end.
    fn allow_background(&mut self) {
        let alpha = self.plan.alpha.to_probability();
        let clean = self
            .plan
            .question
            .as_search()
            .is_some_and(|asked| asked.clean);
        let Some(search) = self
            .search
            .as_mut()
            .filter(|search| clean && !search.allows_background())
        else {
            return;
        };
        let (good, bad) = (
            search.failures_and_runs(0),
            search.failures_and_runs(search.newest_version()),
        );
        if good.0 > 0 && fisher(bad.0, bad.1, good.0, good.1).greater <= alpha {
            *search = search.with_background();
        }
    }

    fn begin_reduction(&self, asked: &SearchQuestion, free: &[usize]) -> Reduction {
        let tally = self.tally_of(Self::FAILING);
        let (failures, runs) = match self.earlier_use {
            EarlierUse::Counted => self.with_earlier(tally.failures, tally.counted_trials()),
            _ => (tally.failures, tally.counted_trials()),
        };
        let baseline = Count { failures, runs };
        let delta = self.plan.alpha.to_probability();
        Reduction::new(free.to_vec(), asked.clean, baseline, delta)
    }

    /// Marks a variant as not testable in the search.
    pub(super) fn forget_variant(&mut self, variant: VariantId) {
        if let Some(ramp) = &mut self.ramp {
            ramp.mark_untestable(variant.index());
        }
        match &self.plan.variant_plan(variant).choice {
            Some(VariantChoice::Place(place)) => {
                if let Some(search) = &mut self.search {
                    search.mark_untestable(*place as usize);
                }
            }
            Some(VariantChoice::Set(subset)) => {
                let set = self.free_of(subset_indices(subset));
                match &mut self.reduction {
                    Some(reduction) => reduction.mark_untestable(&set),
                    None => self.update_screen(variant, ItemScreen::mark_untestable),
                }
            }
            Some(VariantChoice::Cut(_)) | None => {}
        }
    }
}

fn subset_indices(subset: &Subset) -> Vec<usize> {
    subset.0.iter().map(|index| *index as usize).collect()
}

/// Returns whether earlier runs may count.
pub(super) fn earlier_use(plan: &Plan) -> EarlierUse {
    let asked = plan.question.as_search();
    let earlier = asked.and_then(|asked| asked.earlier.as_ref());
    match earlier {
        Some(earlier) if earlier.trials > 0 => EarlierUse::Open,
        _ => EarlierUse::Nothing,
    }
}

/// Returns the prior of a list before the first trial.
pub(super) fn initial_bisection(plan: &Plan) -> Option<Bisection> {
    let Question::Bisect(asked) = &plan.question else {
        return None;
    };
    let space = plan.space.as_ref()?;
    let VariantChoices::Places(places) = &space.choices else {
        return None;
    };
    let model = SearchPrior {
        clean: asked.clean,
        ..SearchPrior::default()
    };
    // The first candidate is good; the weights are for each of the others to be the first bad one.
    #[expect(clippy::cast_precision_loss, reason = "weights, not counts")]
    let weights: Vec<f64> = space.weights.iter().skip(1).map(|w| *w as f64).collect();
    // The user's weights may be wrong.
    let weights = (!weights.is_empty()).then(|| hedge_weights(&weights));
    let mut search = Bisection::new(places.len() - 1, &model, weights.as_deref());
    for known in &space.known {
        let place = known.place as usize;
        match known.counts {
            Some((failures, trials)) => search.observe_many(place, failures, trials),
            None => search.mark_untestable(place),
        }
    }
    Some(search)
}
