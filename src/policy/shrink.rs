//! `load --shrink`: finds the part of a load that a crash needs.
//!
//! It does not try every subset of the load, but one dimension after another: kinds of requests,
//! bodies, concurrency, requests per trial, connections. Each answer is a number that people can use,
//! and the search takes far fewer trials.
//!
//! First the rate is measured, for a life that is silent says nothing by itself. One crash is
//! enough to go on with less; to keep what was left out takes so many silent lives that the whole
//! would have crashed in one of them.

use super::search::{self, is_spent};
use super::{Policy, Step, StopRule, Verdict, nothing_counts};
use crate::model::{Choice, Cut, Cuts, Question, Subset, VariantId};
use crate::state::State;
use provoke_stats::{lower_one_sided, runs_to_see_one};

/// Crashes of the whole, from which on its rate is known well enough: with fewer each question
/// takes more lives than they save.
const CRASHES: u64 = 10;
/// The whole is tried no more often, if it crashes at all, than so many times the lives after which
/// it is given up.
const PATIENCE: u64 = 10;
/// The chance that the rate is lower than the bound that all questions rest on.
pub const RATE_ALPHA: f64 = 0.05;
/// The chance that what was left out is kept, though it crashes as often without it.
pub const KEPT_ALPHA: f64 = 0.01;
/// More kinds than this are left out several at a time, first.
const FEW: usize = 8;
/// A shorter life crashes more rarely. One that does by much is no gain, so this part of the lives
/// must be enough to see it crash.
const SHORTER: u64 = 4;
/// Lives of what is left, at the end, as many times those of a question, and at least.
const AGAIN: u64 = 3;
const LEAST_AGAIN: u64 = 20;

/// Searches for less of a load that still kills.
pub struct Shrink;

/// How far that has come.
#[derive(Clone, Debug)]
pub struct Shrinking {
    /// Crashes and lives of the whole.
    pub whole: (u64, u64),
    /// Silent lives after which something is kept; nothing as long as the rate is not known.
    pub lives: Option<u64>,
    /// What is left so far.
    pub left: Cut,
    /// What was tried, in order.
    pub tried: Vec<Tried>,
    /// Crashes and lives of what is left, after the crash that it was accepted for.
    pub again: Option<(u64, u64)>,
    /// Whether it still crashes where connections are the other way: kept, or fresh.
    pub otherwise: Option<bool>,
    /// What it has come to.
    pub end: End,
}

/// What a search has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// So many lives of this are needed next.
    Open(Box<Cut>, u64),
    /// The whole does not crash any more.
    Lost,
    /// Nothing more can be left out.
    Over,
}

/// Less, that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// What was less.
    pub less: Less,
    /// All that was left then.
    pub cut: Cut,
    /// Crashes.
    pub crashed: u64,
    /// Lives that count.
    pub lives: u64,
    /// Whether it still crashes; nothing as long as that is not known.
    pub crashes: Option<bool>,
}

/// In which dimension there is less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Less {
    /// Without these kinds of requests.
    Kinds(Vec<u32>),
    /// Of a kind only these bodies.
    Bodies(u32, Subset),
    /// With so many clients.
    Clients(u32),
    /// With so many requests in a life.
    Requests(u64),
    /// With a connection for each request, or not: that is not less, but may be simpler.
    Fresh(bool),
}

/// The walk ends where more must be known.
struct Stop(End);

/// The walk through all questions, as far as the lives so far answer them.
struct Walk<'a> {
    state: &'a State,
    cuts: &'a Cuts,
    known: Shrinking,
}

impl Shrinking {
    /// Returns how far a search has come; nothing where another question was asked.
    pub fn of(state: &State) -> Option<Self> {
        let Question::Shrink(asked) = &state.plan.question else {
            return None;
        };
        let cuts = state.plan.space.as_ref()?.choices.cuts()?;
        let mut walk = Walk {
            state,
            cuts,
            known: Self {
                whole: (0, 0),
                lives: None,
                left: cuts.whole.clone(),
                tried: Vec::new(),
                again: None,
                otherwise: None,
                end: End::Over,
            },
        };
        if let Err(Stop(end)) = walk.all(asked.reproduce) {
            walk.known.end = end;
        }
        Some(walk.known)
    }
}

/// Returns how many silent lives are too many for something that crashes at least so often.
fn silent(crashed: u64, lives: u64) -> u64 {
    let rate = lower_one_sided(crashed, lives, RATE_ALPHA);
    runs_to_see_one(rate, 1.0 - KEPT_ALPHA).unwrap_or(u64::MAX)
}

impl Walk<'_> {
    fn all(&mut self, reproduce: u64) -> Result<(), Stop> {
        let lives = self.rate(reproduce)?;
        self.kinds(lives)?;
        self.bodies(lives)?;
        self.clients(lives)?;
        self.requests(lives)?;
        // Shorter lives crash more rarely, so what follows rests on how often these do.
        let lives = self.again(lives)?;
        self.connections(lives)
    }

    /// Measures how often the whole crashes.
    fn rate(&mut self, reproduce: u64) -> Result<u64, Stop> {
        let whole = self.cuts.whole.clone();
        let (crashed, lives) = self.counts(&whole);
        self.known.whole = (crashed, lives);
        let most = reproduce.saturating_mul(PATIENCE);
        if crashed == 0 && (lives >= reproduce || !self.is_testable(&whole)) {
            return Err(Stop(End::Lost));
        }
        if crashed < CRASHES && lives < most {
            let wanted = if crashed == 0 { reproduce } else { most };
            // No more at once than may still be needed.
            let wanted = wanted.min(lives + CRASHES - crashed);
            return Err(Stop(End::Open(Box::new(whole), wanted)));
        }
        let needed = silent(crashed, lives);
        self.known.lives = Some(needed);
        Ok(needed)
    }

    /// Leaves kinds of requests out: one at a time, or of many first several.
    fn kinds(&mut self, lives: u64) -> Result<(), Stop> {
        let count = self.known.left.kinds.0.len();
        let mut at_once = if count > FEW { count / 2 } else { 1 };
        loop {
            let mut at = 0;
            while at < self.known.left.kinds.0.len() {
                let kinds = &self.known.left.kinds.0;
                let end = kinds.len().min(at + at_once);
                let mut rest = kinds.clone();
                let without: Vec<u32> = rest.drain(at..end).collect();
                if rest.is_empty() {
                    break;
                }
                let mut cut = self.known.left.clone();
                cut.kinds = Subset(rest);
                if !self.accepts(Less::Kinds(without), cut, lives)? {
                    at = end;
                }
            }
            if at_once == 1 {
                return Ok(());
            }
            at_once /= 2;
        }
    }

    /// Leaves bodies out: all but one, or half of them again and again.
    fn bodies(&mut self, lives: u64) -> Result<(), Stop> {
        for kind in self.known.left.kinds.0.clone() {
            let count = self.cuts.bodies_of(&self.known.left, kind);
            let mut bodies: Vec<u32> = (0..).take(count).collect();
            if count < 2 || self.takes(kind, &bodies[..1], lives)? {
                continue;
            }
            while bodies.len() > 1 {
                let (first, second) = bodies.split_at(bodies.len() / 2);
                // The first alone is silent: that was tried.
                let half = if first.len() > 1 && self.takes(kind, first, lives)? {
                    first
                } else if self.takes(kind, second, lives)? {
                    second
                } else {
                    break;
                };
                bodies = half.to_vec();
            }
        }
        Ok(())
    }

    /// Does it still crash where a kind has only these bodies?
    fn takes(&mut self, kind: u32, bodies: &[u32], lives: u64) -> Result<bool, Stop> {
        let bodies = Subset(bodies.to_vec());
        let mut cut = self.known.left.clone();
        cut.bodies.insert(kind, bodies.clone());
        self.accepts(Less::Bodies(kind, bodies), cut, lives)
    }

    /// Searches the fewest clients: what crashes with some, crashes with more.
    fn clients(&mut self, lives: u64) -> Result<(), Stop> {
        let mut silent = 0;
        while self.known.left.clients - silent > 1 {
            let middle = silent + (self.known.left.clients - silent) / 2;
            if !self.accepts_clients(middle, lives)? {
                silent = middle;
            }
        }
        Ok(())
    }

    fn accepts_clients(&mut self, clients: u32, lives: u64) -> Result<bool, Stop> {
        let cut = Cut {
            clients,
            ..self.known.left.clone()
        };
        self.accepts(Less::Clients(clients), cut, lives)
    }

    /// Makes lives shorter by halves.
    fn requests(&mut self, lives: u64) -> Result<(), Stop> {
        let lives = lives.div_ceil(SHORTER);
        loop {
            let requests = self.known.left.requests / 2;
            if requests < u64::from(self.known.left.clients) {
                return Ok(());
            }
            let cut = Cut {
                requests,
                ..self.known.left.clone()
            };
            if !self.accepts(Less::Requests(requests), cut, lives)? {
                return Ok(());
            }
        }
    }

    /// Tries what is left again, and with one client fewer, until that one is silent. Returns how
    /// many silent lives are needed to tell, at the rate that was seen.
    fn again(&mut self, lives: u64) -> Result<u64, Stop> {
        loop {
            let left = self.known.left.clone();
            let (crashed, ran) = self.since_accepted(&left);
            self.known.again = Some((crashed, ran));
            let enough = self.enough();
            if left != self.cuts.whole && crashed < CRASHES && ran < enough {
                let more = (enough - ran).min(CRASHES - crashed);
                let (_, all) = self.counts(&left);
                return Err(Stop(End::Open(Box::new(left), all + more)));
            }
            let lives = lives.max(silent(crashed, ran));
            if left.clients == 1 || !self.accepts_clients(left.clients - 1, lives)? {
                return Ok(lives);
            }
        }
    }

    /// Tries connections the other way. What is found stays as it was: neither is less.
    fn connections(&mut self, lives: u64) -> Result<(), Stop> {
        let left = self.known.left.clone();
        let fresh = !left.fresh;
        let cut = Cut {
            fresh,
            ..left.clone()
        };
        let crashes = self.accepts(Less::Fresh(fresh), cut, lives)?;
        self.known.left = left;
        self.known.otherwise = Some(crashes);
        Ok(())
    }

    /// Returns how many lives of what is left show that it crashes, and not once only.
    fn enough(&self) -> u64 {
        let lives = self.known.lives.unwrap_or(0);
        LEAST_AGAIN.max(lives.saturating_mul(AGAIN))
    }

    /// Goes on with less, if it still crashes. What crashed once and then never in many lives is
    /// not what was looked for.
    fn accepts(&mut self, less: Less, cut: Cut, lives: u64) -> Result<bool, Stop> {
        let (crashed, ran) = self.counts(&cut);
        let (again, since) = self.since_accepted(&cut);
        let crashes = if crashed > 0 {
            Some(again > 0 || since < self.enough())
        } else {
            // What cannot be tried is not less of the same.
            (ran >= lives || !self.is_testable(&cut)).then_some(false)
        };
        // What is tried once more, for more lives, is said once.
        self.known.tried.retain(|known| known.cut != cut);
        self.known.tried.push(Tried {
            less,
            cut: cut.clone(),
            crashed,
            lives: ran,
            crashes,
        });
        match crashes {
            Some(true) => {
                self.known.left = cut;
                Ok(true)
            }
            Some(false) => Ok(false),
            None => Err(Stop(End::Open(Box::new(cut), lives))),
        }
    }

    fn variant(&self, cut: &Cut) -> Option<VariantId> {
        self.state.find(&Choice::Cut(Box::new(cut.clone())))
    }

    fn is_testable(&self, cut: &Cut) -> bool {
        let variant = self.variant(cut);
        variant.is_none_or(|id| self.state.is_testable(id))
    }

    /// Returns crashes and lives.
    fn counts(&self, cut: &Cut) -> (u64, u64) {
        self.variant(cut).map_or((0, 0), |id| {
            let tally = self.state.tally(id);
            (tally.failures, tally.trials())
        })
    }

    /// The same without the crash that something was accepted for, and what came before: it was
    /// chosen because it crashed.
    fn since_accepted(&self, cut: &Cut) -> (u64, u64) {
        let (crashed, lives) = self.counts(cut);
        if *cut == self.cuts.whole {
            return (crashed, lives);
        }
        let tally = self.variant(cut).map(|id| self.state.tally(id));
        let first = tally.and_then(|tally| tally.early_failures.first());
        first.map_or((0, 0), |(_, place)| (crashed - 1, lives - place))
    }
}

impl Policy for Shrink {
    fn next(&self, state: &State) -> Step {
        let Some(known) = Shrinking::of(state) else {
            return Step::Done;
        };
        let End::Open(cut, lives) = known.end else {
            return Step::finish(state);
        };
        if is_spent(state) {
            return Step::finish(state);
        }
        let choice = Choice::Cut(cut);
        match state.find(&choice) {
            None => Step::Choose(choice),
            Some(id) if state.tally(id).trials() + state.in_flight(id) < lives => Step::Launch(id),
            Some(_) => Step::Wait,
        }
    }

    fn verdict(&self, state: &State) -> Verdict {
        if nothing_counts(state) {
            return Verdict::CouldNotTest;
        }
        match Shrinking::of(state).map(|known| known.end) {
            Some(End::Over) => Verdict::Found,
            _ => Verdict::Undecided,
        }
    }

    fn stop_rule(&self, state: &State, _: VariantId) -> StopRule {
        match Shrinking::of(state).map(|known| known.end) {
            Some(End::Lost) => StopRule::Decision,
            _ => search::stop_rule(state, self.verdict(state)),
        }
    }

    fn left(&self, _: &State) -> Option<u64> {
        None
    }
}
