//! `load --shrink`: finds the part of a load that a crash needs.
//!
//! It does not try every subset of the load, but one dimension after another: kinds of requests, bodies, concurrency,
//! requests per trial, connections. Each answer is a number that people can use, and the search takes far fewer trials.
//!
//! First it measures the crash rate, because a single passing trial shows nothing. One crash is enough to continue with
//! the smaller load. To keep a part, the load without it must pass enough trials that the whole load would have
//! crashed in one of them.

use crate::search::{self, is_spent};
use crate::{Policy, Step, StopRule, Verdict, nothing_counts};
use provoke_model::{LoadPart, ReducibleLoad, Subset, VariantChoice, VariantId};
use provoke_state::State;
use provoke_stats::{lower_one_sided, runs_to_see_one};

/// Number of crashes of the whole load after which its rate is known well enough: with fewer crashes each question
/// takes more trials than they save.
const CRASHES: u64 = 10;
/// Limit of the trials of the whole load once it has crashed, as a multiple of the trials after which it is given up
/// without a crash.
const PATIENCE: u64 = 10;
/// Probability that the rate is below the bound that all questions use.
pub(crate) const RATE_ALPHA: f64 = 0.05;
/// Probability that a part is kept although the load crashes as often without it.
pub(crate) const KEPT_ALPHA: f64 = 0.01;
/// With more kinds than this, several are left out at a time first.
const FEW_KINDS: usize = 8;
/// A shorter trial crashes less often. A trial that crashes much less often is not an improvement, so this part of the
/// trials must be enough to see it crash.
const SHORTER: u64 = 4;
/// Trials of the remaining load at the end, as a multiple of the trials of a question.
const FINAL_TRIALS_FACTOR: u64 = 3;
const MIN_FINAL_TRIALS: u64 = 20;

/// Searches for less load that still crashes the service.
pub struct ShrinkPolicy;

/// Progress of the search.
#[derive(Clone, Debug)]
pub struct ShrinkProgress {
    /// Crashes and trials of the whole load.
    pub whole: (u64, u64),
    /// Passing trials after which a part is kept; `None` as long as the rate is not known.
    pub passes_needed: Option<u64>,
    /// The remaining load so far.
    pub smallest_load: LoadPart,
    /// The steps so far, in order.
    pub tried_loads: Vec<TriedLoad>,
    /// Crashes and trials of the remaining load, after the crash for which it was accepted.
    pub again: Option<(u64, u64)>,
    /// Whether it still crashes with the other kind of connections: kept, or fresh.
    pub otherwise: Option<bool>,
    /// The present result.
    pub state: ShrinkState,
}

/// The present result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShrinkState {
    /// The load to run next, and the required number of its trials.
    Open(Box<LoadPart>, u64),
    /// The whole load no longer crashes the service.
    Lost,
    /// Nothing more can be left out.
    Over,
}

/// A smaller load that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedLoad {
    /// The difference.
    pub less: LoadDimension,
    /// The load.
    pub cut: LoadPart,
    /// Crashes.
    pub crashed: u64,
    /// Counted trials.
    pub trials: u64,
    /// Whether it still crashes; `None` if not known yet.
    pub crashes: Option<bool>,
}

/// The dimension in which a load is smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadDimension {
    /// Without these kinds of requests.
    Kinds(Vec<u32>),
    /// Only these bodies of a kind.
    Bodies(u32, Subset),
    /// This number of clients.
    Clients(u32),
    /// This number of requests per trial.
    Requests(u64),
    /// Whether each request has its own connection: this is not less load, but may be simpler.
    Fresh(bool),
}

/// Ends the walk, because more trials are needed or the search is over.
struct WalkEnd(ShrinkState);

/// The walk through all questions, as far as the trials so far answer them.
struct QuestionWalk<'a> {
    state: &'a State,
    cuts: &'a ReducibleLoad,
    progress: ShrinkProgress,
}

impl ShrinkProgress {
    /// Returns the progress of the search; `None` for any other question.
    pub fn of_state(state: &State) -> Option<Self> {
        let question = state.goal.question.as_shrink()?;
        let cuts = state.trials.space.as_ref()?.choices.as_cuts()?;
        let mut walk = QuestionWalk {
            state,
            cuts,
            progress: Self {
                whole: (0, 0),
                passes_needed: None,
                smallest_load: cuts.whole.clone(),
                tried_loads: Vec::new(),
                again: None,
                otherwise: None,
                state: ShrinkState::Over,
            },
        };
        if let Err(WalkEnd(end)) = walk.shrink_all(question.reproduce) {
            walk.progress.state = end;
        }
        Some(walk.progress)
    }
}

/// Returns how many passing trials exclude a load that crashes at least as often as these counts show.
fn silent_limit(crashed: u64, trials: u64) -> u64 {
    let rate = lower_one_sided(crashed, trials, RATE_ALPHA);
    runs_to_see_one(rate, 1.0 - KEPT_ALPHA).unwrap_or(u64::MAX)
}

impl QuestionWalk<'_> {
    fn shrink_all(&mut self, reproduce: u64) -> Result<(), WalkEnd> {
        let passes_needed = self.measure_rate(reproduce)?;
        self.shrink_kinds(passes_needed)?;
        self.shrink_bodies(passes_needed)?;
        self.shrink_clients(passes_needed)?;
        self.shrink_requests(passes_needed)?;
        // Shorter trials crash less often, so the next questions use the rate of the present trials.
        let passes_left = self.confirm_smallest(passes_needed)?;
        self.try_connections(passes_left)
    }

    /// Measures the crash rate of the whole load.
    fn measure_rate(&mut self, reproduce: u64) -> Result<u64, WalkEnd> {
        let whole_load = self.cuts.whole.clone();
        let (crashed, trials) = self.crash_counts(&whole_load);
        self.progress.whole = (crashed, trials);
        let max_trials = reproduce.saturating_mul(PATIENCE);
        if crashed == 0 && (trials >= reproduce || !self.is_testable(&whole_load)) {
            return Err(WalkEnd(ShrinkState::Lost));
        }
        if crashed < CRASHES && trials < max_trials {
            let wanted_crashes = if crashed == 0 { reproduce } else { max_trials };
            // At most the number that may still be needed.
            let crashes_left = wanted_crashes.min(trials + CRASHES - crashed);
            return Err(WalkEnd(ShrinkState::Open(
                Box::new(whole_load),
                crashes_left,
            )));
        }
        let needed = silent_limit(crashed, trials);
        self.progress.passes_needed = Some(needed);
        Ok(needed)
    }

    /// Leaves out kinds of requests: one at a time or, if there are many, several at first.
    fn shrink_kinds(&mut self, passes_needed: u64) -> Result<(), WalkEnd> {
        let count = self.progress.smallest_load.kinds.0.len();
        let mut at_once = if count > FEW_KINDS { count / 2 } else { 1 };
        loop {
            let mut position = 0;
            while position < self.progress.smallest_load.kinds.0.len() {
                let kinds = &self.progress.smallest_load.kinds.0;
                let end = kinds.len().min(position + at_once);
                let mut rest = kinds.clone();
                let removed: Vec<u32> = rest.drain(position..end).collect();
                if rest.is_empty() {
                    break;
                }
                let mut cut = self.progress.smallest_load.clone();
                cut.kinds = Subset(rest);
                if !self.accepts_cut(LoadDimension::Kinds(removed), cut, passes_needed)? {
                    position = end;
                }
            }
            if at_once == 1 {
                return Ok(());
            }
            at_once /= 2;
        }
    }

    /// Leaves out bodies: all but one, or repeatedly half of them.
    fn shrink_bodies(&mut self, passes_needed: u64) -> Result<(), WalkEnd> {
        for kind in self.progress.smallest_load.kinds.0.clone() {
            let count = self.cuts.bodies_of(&self.progress.smallest_load, kind);
            let mut bodies: Vec<u32> = (0..).take(count).collect();
            if count < 2 || self.accepts_bodies(kind, &bodies[..1], passes_needed)? {
                continue;
            }
            while bodies.len() > 1 {
                let (first, second) = bodies.split_at(bodies.len() / 2);
                // The first body alone passes, as was tried above.
                let half = if first.len() > 1 && self.accepts_bodies(kind, first, passes_needed)? {
                    first
                } else if self.accepts_bodies(kind, second, passes_needed)? {
                    second
                } else {
                    break;
                };
                bodies = half.to_vec();
            }
        }
        Ok(())
    }

    /// Returns whether the service still crashes if a kind has only these bodies.
    fn accepts_bodies(
        &mut self,
        kind: u32,
        bodies: &[u32],
        passes_needed: u64,
    ) -> Result<bool, WalkEnd> {
        let bodies = Subset(bodies.to_vec());
        let mut cut = self.progress.smallest_load.clone();
        cut.bodies.insert(kind, bodies.clone());
        self.accepts_cut(LoadDimension::Bodies(kind, bodies), cut, passes_needed)
    }

    /// Searches the minimum number of clients, assuming that a crash with some clients also occurs with more.
    fn shrink_clients(&mut self, passes_needed: u64) -> Result<(), WalkEnd> {
        let mut silent = 0;
        while self.progress.smallest_load.clients - silent > 1 {
            let middle = silent + (self.progress.smallest_load.clients - silent) / 2;
            if !self.accepts_clients(middle, passes_needed)? {
                silent = middle;
            }
        }
        Ok(())
    }

    fn accepts_clients(&mut self, clients: u32, passes_needed: u64) -> Result<bool, WalkEnd> {
        let cut = LoadPart {
            clients,
            ..self.progress.smallest_load.clone()
        };
        self.accepts_cut(LoadDimension::Clients(clients), cut, passes_needed)
    }

    /// Shortens trials by halves.
    fn shrink_requests(&mut self, passes_needed: u64) -> Result<(), WalkEnd> {
        let passes_needed = passes_needed.div_ceil(SHORTER);
        loop {
            let requests = self.progress.smallest_load.requests / 2;
            if requests < u64::from(self.progress.smallest_load.clients) {
                return Ok(());
            }
            let cut = LoadPart {
                requests,
                ..self.progress.smallest_load.clone()
            };
            if !self.accepts_cut(LoadDimension::Requests(requests), cut, passes_needed)? {
                return Ok(());
            }
        }
    }

    /// Tries the remaining load again, and with one client fewer, until that passes. Returns how many passing trials
    /// are needed to decide, at the observed rate.
    fn confirm_smallest(&mut self, passes_needed: u64) -> Result<u64, WalkEnd> {
        loop {
            let smallest = self.progress.smallest_load.clone();
            let (crashed, ran) = self.since_accepted(&smallest);
            self.progress.again = Some((crashed, ran));
            let enough = self.trials_enough();
            if smallest != self.cuts.whole && crashed < CRASHES && ran < enough {
                let more_trials = (enough - ran).min(CRASHES - crashed);
                let (_, trials) = self.crash_counts(&smallest);
                return Err(WalkEnd(ShrinkState::Open(
                    Box::new(smallest),
                    trials + more_trials,
                )));
            }
            let passes_needed = passes_needed.max(silent_limit(crashed, ran));
            if smallest.clients == 1
                || !self.accepts_clients(smallest.clients - 1, passes_needed)?
            {
                return Ok(passes_needed);
            }
        }
    }

    /// Tries the other kind of connections. The remaining load stays unchanged, because neither kind is less load.
    fn try_connections(&mut self, passes_needed: u64) -> Result<(), WalkEnd> {
        let smallest = self.progress.smallest_load.clone();
        let fresh = !smallest.fresh;
        let cut = LoadPart {
            fresh,
            ..smallest.clone()
        };
        let crashes = self.accepts_cut(LoadDimension::Fresh(fresh), cut, passes_needed)?;
        self.progress.smallest_load = smallest;
        self.progress.otherwise = Some(crashes);
        Ok(())
    }

    /// Returns how many trials of the remaining load show that its crash was not a single event.
    fn trials_enough(&self) -> u64 {
        let passes_needed = self.progress.passes_needed.unwrap_or(0);
        MIN_FINAL_TRIALS.max(passes_needed.saturating_mul(FINAL_TRIALS_FACTOR))
    }

    /// Continues with a smaller load if it still crashes. A load that crashed once and then passed many trials does not
    /// have the searched crash.
    fn accepts_cut(
        &mut self,
        less: LoadDimension,
        cut: LoadPart,
        passes_needed: u64,
    ) -> Result<bool, WalkEnd> {
        let (crashed, ran) = self.crash_counts(&cut);
        let (again, trials) = self.since_accepted(&cut);
        let crashes = if crashed > 0 {
            Some(again > 0 || trials < self.trials_enough())
        } else {
            // A load that is not testable does not count as less load.
            (ran >= passes_needed || !self.is_testable(&cut)).then_some(false)
        };
        // A load that is tried again, for more trials, is listed once.
        self.progress.tried_loads.retain(|load| load.cut != cut);
        self.progress.tried_loads.push(TriedLoad {
            less,
            cut: cut.clone(),
            crashed,
            trials: ran,
            crashes,
        });
        match crashes {
            Some(true) => {
                self.progress.smallest_load = cut;
                Ok(true)
            }
            Some(false) => Ok(false),
            None => Err(WalkEnd(ShrinkState::Open(Box::new(cut), passes_needed))),
        }
    }

    fn find_variant(&self, cut: &LoadPart) -> Option<VariantId> {
        self.state
            .find_variant(&VariantChoice::Cut(Box::new(cut.clone())))
    }

    fn is_testable(&self, cut: &LoadPart) -> bool {
        let variant = self.find_variant(cut);
        variant.is_none_or(|id| self.state.is_testable(id))
    }

    /// Returns crashes and trials of a load.
    fn crash_counts(&self, cut: &LoadPart) -> (u64, u64) {
        self.find_variant(cut).map_or((0, 0), |id| {
            let tally = self.state.tally_of(id);
            (tally.failures, tally.counted_trials())
        })
    }

    /// Returns the same without the crash for which the load was accepted and the trials before it: the load was chosen
    /// because it crashed.
    fn since_accepted(&self, cut: &LoadPart) -> (u64, u64) {
        let (crashed, trials) = self.crash_counts(cut);
        if *cut == self.cuts.whole {
            return (crashed, trials);
        }
        let tally = self.find_variant(cut).map(|id| self.state.tally_of(id));
        let first = tally.and_then(|tally| tally.early_failures.first());
        first.map_or((0, 0), |(_, trial)| (crashed - 1, trials - trial))
    }
}

impl Policy for ShrinkPolicy {
    fn next_step(&self, state: &State) -> Step {
        let Some(progress) = ShrinkProgress::of_state(state) else {
            return Step::Done;
        };
        let ShrinkState::Open(cut, passes_needed) = progress.state else {
            return Step::wait_or_done(state);
        };
        if is_spent(state) {
            return Step::wait_or_done(state);
        }
        let choice = VariantChoice::Cut(cut);
        match state.find_variant(&choice) {
            None => Step::Choose(choice),
            Some(id)
                if state.tally_of(id).counted_trials() + state.in_flight(id) < passes_needed =>
            {
                Step::Launch(id)
            }
            Some(_) => Step::Wait,
        }
    }

    fn verdict_of(&self, state: &State) -> Verdict {
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match ShrinkProgress::of_state(state).map(|progress| progress.state) {
            Some(ShrinkState::Over) => Verdict::Found,
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        match ShrinkProgress::of_state(state).map(|progress| progress.state) {
            Some(ShrinkState::Lost) => StopRule::Decision,
            _ => search::stop_rule(state, self.verdict_of(state)),
        }
    }
}
