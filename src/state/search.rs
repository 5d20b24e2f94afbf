//! What a search has learned: the place that fails first, or the smallest set that does.

use super::{Ended, State, TriedOutcome};
use crate::model::{
    Choice, Choices, Failure, Outcome, Plan, Question, Search, Space, Subset, Trial, VariantId,
};
use crate::stats::fisher;
use crate::stats::search::{Bisection, Count, Model, Reduction, Screen, hedged};

/// Failures of what fails before the search begins ...
const FAILURES: u64 = 3;
/// ... but where every trial fails, so many trials: it may well be that it always does.
const ALWAYS: u64 = 10;

/// What is still to be learned of the variant that fails, before anything is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reproduced {
    /// So many trials more, at least.
    NotYet(u64),
    /// It failed often enough.
    Yes,
    /// It did not fail often enough in so many trials, or cannot be tried.
    No,
}

impl State {
    /// Returns the variant that fails, of a search: the bad end, or everything together.
    pub const FAILING: VariantId = VariantId(0);

    /// Returns the variant of a choice, once it was chosen.
    pub fn find(&self, choice: &Choice) -> Option<VariantId> {
        self.chosen.get(choice).copied()
    }

    /// Returns the place of a variant in the list that is searched.
    pub fn place(&self, variant: VariantId) -> Option<usize> {
        match self.plan.variant(variant).choice {
            Some(Choice::Place(place)) => Some(place as usize),
            _ => None,
        }
    }

    /// Returns the variant of a place, if it was chosen.
    pub fn at(&self, place: usize) -> Option<VariantId> {
        self.find(&Choice::Place(u32::try_from(place).ok()?))
    }

    /// Returns the things that a variant keeps.
    pub fn set(&self, variant: VariantId) -> Option<Vec<usize>> {
        match &self.plan.variant(variant).choice {
            Some(Choice::Set(subset)) => Some(indices(subset)),
            _ => None,
        }
    }

    /// Says how far what fails is reproduced.
    pub fn reproduced(&self) -> Reproduced {
        let Some(asked) = self.plan.question.search() else {
            return Reproduced::No;
        };
        let tally = self.tally(Self::FAILING);
        let (failures, trials) = (tally.failures, tally.trials());
        let in_vain = tally.ran() >= asked.reproduce && failures < FAILURES;
        if failures >= FAILURES && (failures < trials || trials >= ALWAYS) {
            Reproduced::Yes
        } else if !self.is_testable(Self::FAILING) || in_vain {
            Reproduced::No
        } else if failures == trials {
            Reproduced::NotYet(ALWAYS - trials)
        } else {
            Reproduced::NotYet(FAILURES - failures)
        }
    }

    /// True unless a search saw what is known to fail end otherwise only: what else a variant
    /// ends with may come from what was left out of it, and is another matter.
    pub fn is_the_bug(&self, trial: &Trial, failure: &Failure) -> bool {
        let says_which = |asked: &Search| asked.any_failure || !self.plan.rules.only.is_empty();
        let asked = self.plan.question.search();
        let example = self.shows_the_bug();
        if trial.variant == example || asked.is_none_or(says_which) {
            return true;
        }
        let known = &self.tally(example).groups;
        let bugs = known.values().filter(|group| group.is_the_bug);
        let mut kinds = bugs.map(|group| group.kind.name()).peekable();
        kinds.peek().is_none() || kinds.any(|kind| kind == failure.kind.name())
    }

    /// Takes a trial into account that says whether a variant runs at all, whatever comes of it.
    pub(super) fn screen(&mut self, variant: VariantId, ran: bool) {
        self.screened(variant, |screen, set| screen.observe(set, ran));
    }

    fn screened(&mut self, variant: VariantId, tell: impl Fn(&mut Screen, &[usize])) {
        if let (Some(Choice::Set(subset)), Some(screen)) =
            (&self.plan.variant(variant).choice, &mut self.screen)
        {
            tell(screen, &indices(subset));
        }
        if let (Some(screen), Some(asked), None) =
            (&self.screen, self.plan.question.search(), &self.reduction)
            && screen.is_over()
        {
            self.reduction = Some(self.begin_reduction(asked, screen.free()));
        }
    }

    /// Returns the things of a set that may be left out: those that must stay are in every one.
    pub fn free_of(&self, mut set: Vec<usize>) -> Vec<usize> {
        let required = self.screen.as_ref().map_or(&[][..], Screen::required);
        set.retain(|thing| required.binary_search(thing).is_err());
        set
    }

    /// Returns a set with the things that must stay.
    pub fn with_required(&self, mut set: Vec<usize>) -> Choice {
        set.extend(self.screen.iter().flat_map(Screen::required));
        set.sort_unstable();
        set.dedup();
        let kept = set
            .into_iter()
            .filter_map(|thing| u32::try_from(thing).ok());
        Choice::Set(Subset(kept.collect()))
    }

    /// Takes a trial that counts into account.
    pub(super) fn learn(&mut self, trial: &Trial, ended: &Ended) {
        let failure = match &ended.outcome {
            Outcome::Fail(failure) => Some(failure),
            _ => None,
        };
        let failed = failure.is_some();
        let asked = self.plan.question.search();
        let all_alike = asked.is_some_and(|asked| asked.any_failure);
        if let Some(search) = &mut self.search
            && let Some(Choice::Place(place)) = self.plan.variant(trial.variant).choice
        {
            let failure = failure.filter(|_| !all_alike);
            let features = failure.map(|failure| self.features.of(failure, ended.elapsed));
            search.observe_with_features(place as usize, failed, features.unwrap_or_default());
            self.allow_background();
        }
        if let Some(ramp) = &mut self.ramp {
            ramp.observe(trial.variant.index(), failed);
        }
        if self.reduction.is_some() {
            let set = self.set(trial.variant).map(|set| self.free_of(set));
            if let (Some(reduction), Some(set)) = (&mut self.reduction, set) {
                reduction.observe(&set, failed);
            }
        } else if self.screen.is_some() {
            self.screen(trial.variant, true);
        } else {
            self.begin_screen();
        }
    }

    /// Begins to look for what can be left out, once everything together has failed often enough.
    fn begin_screen(&mut self) {
        if matches!(self.plan.question, Question::Reduce(_)) && self.reproduced() == Reproduced::Yes
        {
            let things = self.plan.space.as_ref().map_or(0, Space::len);
            self.screen = Some(Screen::new(things));
        }
    }

    /// Takes into account the trials of the failing variant that were run before the search.
    pub(super) fn learn_reproduction(&mut self) {
        let alike = self
            .plan
            .question
            .search()
            .is_some_and(|asked| asked.any_failure);
        if let (Some(raise), Some(search)) = (&self.raise, &mut self.search) {
            let newest = search.newest();
            for (_, ended) in &raise.natural().outcomes {
                match ended {
                    TriedOutcome::Passed => search.observe(newest, false),
                    TriedOutcome::Failed(_, _) if alike => search.observe(newest, true),
                    TriedOutcome::Failed(failure, time) => {
                        let looks = self.looks.of(failure, *time);
                        search.observe_looks(newest, true, looks);
                    }
                    TriedOutcome::Otherwise => {}
                }
            }
        }
        self.begin_screen();
    }

    /// Takes into account which build a place has: between two places with identical builds nothing begins to
    /// fail.
    pub(super) fn identify(&mut self, variant: VariantId, build: Option<&str>) {
        let (Some(build), Some(place)) = (build, self.place(variant)) else {
            return;
        };
        let same = self.builds.entry(build.to_owned()).or_default();
        same.push(place);
        let (first, last) = same.iter().fold((place, place), |(first, last), other| {
            (first.min(*other), last.max(*other))
        });
        if let Some(search) = &mut self.search {
            search.identical(first, last);
        }
    }

    /// Returns how many builds are identical to one that was made before.
    pub fn identical_builds(&self) -> u64 {
        let more = self.builds.values().map(|places| {
            let mut places = places.clone();
            places.sort_unstable();
            places.dedup();
            places.len() as u64 - 1
        });
        more.sum()
    }

    /// Searches with a background where good versions were said never to fail, and the good end
    /// does, but less often than the bad end.
    fn allow_background(&mut self) {
        let alpha = self.plan.alpha.value();
        let clean = self.plan.question.search().is_some_and(|asked| asked.clean);
        let Some(search) = self
            .search
            .as_mut()
            .filter(|search| clean && !search.allows_background())
        else {
            return;
        };
        let (good, bad) = (search.counts(0), search.counts(search.newest()));
        if good.0 > 0 && fisher(bad.0, bad.1, good.0, good.1).greater <= alpha {
            *search = search.with_background();
        }
    }

    fn begin_reduction(&self, asked: &Search, free: &[usize]) -> Reduction {
        let tally = self.tally(Self::FAILING);
        let baseline = Count {
            failures: tally.failures,
            runs: tally.trials(),
        };
        let delta = self.plan.alpha.value();
        Reduction::new(free.to_vec(), asked.clean, baseline, delta)
    }

    /// Takes into account that a variant cannot be tried.
    pub(super) fn forget(&mut self, variant: VariantId) {
        if let Some(ramp) = &mut self.ramp {
            ramp.untestable(variant.index());
        }
        match &self.plan.variant(variant).choice {
            Some(Choice::Place(place)) => {
                if let Some(search) = &mut self.search {
                    search.untestable(*place as usize);
                }
            }
            Some(Choice::Set(subset)) => {
                let set = self.free_of(indices(subset));
                match &mut self.reduction {
                    Some(reduction) => reduction.untestable(&set),
                    None => self.screened(variant, Screen::untestable),
                }
            }
            Some(Choice::Cut(_)) | None => {}
        }
    }
}

fn indices(subset: &Subset) -> Vec<usize> {
    subset.0.iter().map(|index| *index as usize).collect()
}

/// Returns what is known of a list before the first trial.
pub(super) fn bisection(plan: &Plan) -> Option<Bisection> {
    let Question::Bisect(asked) = &plan.question else {
        return None;
    };
    let space = plan.space.as_ref()?;
    let Choices::Places(places) = &space.choices else {
        return None;
    };
    let model = Model {
        clean: asked.clean,
        ..Model::default()
    };
    // The first is good: that the others are the first that fails is what is weighed.
    #[expect(clippy::cast_precision_loss, reason = "weights, not counts")]
    let weights: Vec<f64> = space.weights.iter().skip(1).map(|w| *w as f64).collect();
    // Whoever gave them may be wrong.
    let weights = (!weights.is_empty()).then(|| hedged(&weights));
    let mut search = Bisection::new(places.len() - 1, &model, weights.as_deref());
    for known in &space.known {
        let place = known.place as usize;
        match known.counts {
            Some((failures, trials)) => search.observe_many(place, failures, trials),
            None => search.untestable(place),
        }
    }
    Some(search)
}
