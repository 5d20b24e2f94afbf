//! Searches the smallest set of items that keeps the failure.
//!
//! The method is repeated noisy bisection. The items have an order; the failure needs some shortest prefix of it, and
//! the last item of that prefix is needed. A [`Bisection`] over the lengths of the prefix finds this item. The item is
//! then always kept, and the search continues among the items before it, until the found items suffice alone. Each
//! stage starts with the rates learned in the stages before. Stage s may be wrong with probability delta/(s(s+1)),
//! which sums to delta for any number of stages.
//!
//! Once the last item is likely, it is also tried with nothing before it, in turns with the prefix that ends before it.
//! The next stage would try that anyway, and if nothing else is needed it fails soon, which saves most of the clean
//! runs: if failures are distinguished, a failing set contains everything that is needed.
//!
//! All this assumes that more items never hide the failure. The end check does not: the found set must fail alone, and
//! must be clean without any one of its groups by the exact rule of [`clean_runs_needed`]. If a group turns out not to
//! be needed the search begins anew within the found set, with that group last. A failure without the only found item
//! may come from the background, and to leave that item out ends the search. So its being needless must be shown at any
//! background, by a bound that holds after every run, and against the same number of runs of the item.
//!
//! A set may fail more rarely than all items together, because an item that was left out makes the failure more frequent.
//! [`rarer_set`] compares the two before the check ends.
//!
//! If some sets cannot be run, for example because one item needs another, the search may find a group of items that no
//! prefix divides. Other prefixes may divide it: so the search begins anew within the found set, in other orders, until
//! none of the last few orders improved the result.

mod rarer_set;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::convert::real;
use super::super::interval::{Interval, confidence_sequence};
use super::super::{cheapest_baseline, clean_runs_needed, fisher};
use super::batch::{BatchOptions, draw_uniform};
use super::capacity::{Channel, bisect_runs};
use super::grid::{Cell, Grid, SearchPrior, background_weights};
use super::posterior::{Bisection, times_ln};
use super::query::Costs;
use super::stop::{SearchVerdict, StopConditions};
use super::sums::ln_sum;

/// Number of set sizes in the prior.
const SIZES: u32 = 8;

/// Minimum probability of the last item before it is tried without the items before it. At a lower value, more of these
/// runs are useless.
const LIKELY: f64 = 0.8;

/// Expected failures of the last item alone after which it is no longer tried in turns: if it needs none of the items
/// before it, it has failed by then in seven of eight searches.
const TRIES: f64 = 2.0;

/// A set with this many failures in the end check that is still neither good nor bad fails at a rate in between.
const MANY: u64 = 100;

/// Number of times that the search goes back to all items. If that does not help either, the found set fails at another
/// rate than all items together, and the check reports this.
const BACKS: u64 = 2;

/// If a difference as large as the observed one is less likely than this by chance, the found set seems to fail less
/// often than larger sets. A lower value detects fewer real differences; 0.2 takes 2 % more runs.
const DOUBT: f64 = 0.1;

/// Number of other orders that are tried in a row without a gain.
const ORDERS: u64 = 3;

/// Returns the prior of the shortest failing prefix having length 0, 1, ..., `remaining`.
///
/// This is the distribution of the last element of k items spread evenly, with weight 2^-k. In the first stage,
/// "nothing more is needed" is impossible; later its prior is 1/2.
pub fn stage_prior(remaining: usize, first: bool) -> Vec<f64> {
    let mut prior = vec![0.0; remaining + 1];
    // The ratio choose(j-1, k-1) / choose(r, k), computed from k to k+1 by the ratio of neighbours.
    let r = real(remaining as u64);
    for (j, prior) in prior.iter_mut().enumerate().skip(1) {
        let mut share = r.recip();
        for k in 1..=SIZES {
            *prior += share / f64::from(1_u32 << k);
            let (j, k) = (real(j as u64), f64::from(k));
            if j <= k || r <= k {
                break;
            }
            share *= (j - k) / k * (k + 1.0) / (r - k);
        }
    }
    let total: f64 = prior.iter().sum();
    let of_more = if first { 1.0 } else { 0.5 };
    if total > 0.0 {
        for prior in &mut prior {
            *prior *= of_more / total;
        }
    }
    prior[0] = 1.0 - of_more;
    prior
}

/// Counted failures and runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    pub failures: u64,
    pub runs: u64,
}

impl Count {
    fn plus(self, other: Self) -> Self {
        Self {
            failures: self.failures + other.failures,
            runs: self.runs + other.runs,
        }
    }
}

/// How often the found set fails, compared with all items together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReductionRates {
    pub of_all: Interval,
    pub of_found: Interval,
}

impl ReductionRates {
    /// Returns the lower and upper bound of the factor by which the set fails less often than all items together, if it
    /// certainly does.
    pub fn times_rarer(&self) -> Option<(f64, f64)> {
        let min = self.of_all.lo / self.of_found.hi;
        (min > 1.0).then(|| (min, self.of_all.hi / self.of_found.lo))
    }
}

/// The present answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ReductionAnswer {
    /// The needed items, in groups that could not be divided.
    pub needed: Vec<Vec<usize>>,
    /// Whether they suffice.
    pub sufficient: bool,
    /// Indices of the groups that were not shown to be needed.
    pub open: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReductionPhase {
    Searching,
    Checking,
    Over,
}

/// A search for the smallest set of items that keeps a failure.
#[derive(Debug, Clone)]
pub struct Reduction {
    /// All items, the most suspicious first, and in ascending order.
    all_items: Vec<usize>,
    everything: Vec<usize>,
    clean: bool,
    delta: f64,
    baseline: Count,
    cells: Vec<Cell>,
    /// The cells before the first run.
    unseen: Vec<Cell>,
    /// The undecided items, the most suspicious first.
    order: Vec<usize>,
    found_groups: Vec<Vec<usize>>,
    stage: u64,
    search: Bisection,
    counts: BTreeMap<Vec<usize>, Count>,
    /// Sets that cannot be run.
    untestable: Vec<Vec<usize>>,
    phase: ReductionPhase,
    restarts: usize,
    /// How often an item that was left out turned out to be needed.
    backs: u64,
    /// The answer so far, while another order is tried.
    final_sets: Option<Vec<Vec<usize>>>,
    /// Number of other orders tried, and the number of them in a row without a gain.
    orders: u64,
    fruitless_orders: u64,
    /// Required failures of the set alone, in the end check.
    failures: u64,
    /// The cached number of clean runs that show a group to be needed, with the counts of the set alone and the number
    /// of groups for which it was computed.
    wanted: ((Count, usize), Option<u64>),
}

impl Reduction {
    /// Returns a search among the items 0..n, in the order of suspicion, after the baseline counts with all items.
    pub fn new(order: Vec<usize>, clean: bool, baseline: Count, delta: f64) -> Self {
        let model = SearchPrior {
            clean,
            already_bad: 0.0,
            none: 0.0,
        };
        let cells = Grid::new(&model).cells().to_vec();
        let item_count = order.len();
        let mut everything = order.clone();
        everything.sort_unstable();
        let mut reduction = Self {
            all_items: order.clone(),
            counts: BTreeMap::from([(everything.clone(), baseline)]),
            everything,
            clean,
            delta,
            baseline,
            search: Bisection::with_grid(
                Grid::of_cells(cells.clone()),
                &stage_hypotheses(item_count, false, 0.0),
            ),
            unseen: cells.clone(),
            cells,
            order,
            found_groups: Vec::new(),
            stage: 1,
            untestable: Vec::new(),
            phase: ReductionPhase::Searching,
            restarts: 0,
            backs: 0,
            final_sets: None,
            orders: 0,
            fruitless_orders: 0,
            failures: cheapest_baseline(delta),
            wanted: ((Count::default(), 0), None),
        };
        if item_count == 0 {
            reduction.begin_check();
        } else {
            // A single item needs no search.
            reduction.begin_anew(reduction.order.clone());
        }
        reduction
    }

    fn stage_stop(&self) -> StopConditions {
        let stage = real(self.stage);
        StopConditions::without_margin(self.delta / (stage * (stage + 1.0)))
    }

    /// Returns the found items and the first `length` of the rest; one more is all items.
    fn prefix_set(&self, length: usize) -> Vec<usize> {
        if length > self.order.len() {
            return self.everything.clone();
        }
        let found_items = self.found_groups.iter().flatten();
        let mut set: Vec<usize> = found_items.chain(&self.order[..length]).copied().collect();
        set.sort_unstable();
        set
    }

    /// Returns the found items without one group.
    fn without_group(&self, group: usize) -> Vec<usize> {
        let other_groups = self
            .found_groups
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != group);
        let mut set: Vec<usize> = other_groups.flat_map(|(_, group)| group).copied().collect();
        set.sort_unstable();
        set
    }

    /// Returns the length of the prefix that equals a set in this stage.
    fn prefix_length(&self, set: &[usize]) -> Option<usize> {
        if set == self.everything {
            return Some(self.search.newest_version());
        }
        let found_count: usize = self.found_groups.iter().map(Vec::len).sum();
        let length = set.len().checked_sub(found_count)?;
        (length <= self.order.len() && self.prefix_set(length) == set).then_some(length)
    }

    fn count_of(&self, set: &[usize]) -> Count {
        self.counts.get(set).copied().unwrap_or_default()
    }

    /// Returns the set to run next, in ascending order, or `None` at the end.
    pub fn next_set(&self) -> Option<Vec<usize>> {
        self.next_batch(&[], 1, 0).pop()
    }

    /// Returns the sets to run in the free slots while others are in flight.
    pub fn next_batch(&self, in_flight: &[Vec<usize>], free: usize, seed: u64) -> Vec<Vec<usize>> {
        match self.phase {
            ReductionPhase::Over => Vec::new(),
            ReductionPhase::Checking => self.missing_checks(in_flight, free),
            ReductionPhase::Searching => {
                let alone = self.alone_set().filter(|set| !in_flight.contains(set));
                let free = free - usize::from(alone.is_some());
                alone
                    .into_iter()
                    .chain(self.choose_prefixes(in_flight, free, seed))
                    .collect()
            }
        }
    }

    /// Returns the prefixes with the most information.
    fn choose_prefixes(&self, in_flight: &[Vec<usize>], free: usize, seed: u64) -> Vec<Vec<usize>> {
        let lengths = match free {
            0 => Vec::new(),
            1 if in_flight.is_empty() => {
                let query = self.search.choose_query(&self.stage_stop(), &Costs::RUNS);
                query.iter().map(|query| query.version).collect()
            }
            _ => {
                let lengths = in_flight.iter().filter_map(|set| self.prefix_length(set));
                let slots = BatchOptions {
                    free,
                    in_flight: &lengths.collect::<Vec<_>>(),
                    built: &[],
                    builds: usize::MAX,
                    seed,
                };
                self.search.choose_batch(&self.stage_stop(), &slots)
            }
        };
        let prefixes = lengths.into_iter().map(|length| self.prefix_set(length));
        prefixes.collect()
    }

    /// Returns the found items together with the likeliest last item, if it is time to test whether they suffice.
    fn alone_set(&self) -> Option<Vec<usize>> {
        let likeliest = self.search.likeliest_group();
        if !self.clean || likeliest.first < 2 || likeliest.mass < LIKELY {
            return None;
        }
        let found_items = self.found_groups.iter().flatten();
        let last = &self.order[likeliest.first - 1..likeliest.last];
        let mut set: Vec<usize> = found_items.chain(last).copied().collect();
        set.sort_unstable();
        let (alone, count_before) = (
            self.count_of(&set),
            self.count_of(&self.prefix_set(likeliest.first - 1)),
        );
        let (rate, _, _) = self.search.rate_range(self.delta);
        let in_turn = alone.runs <= count_before.runs && real(alone.runs) * rate < TRIES;
        (alone.failures == 0 && in_turn && !self.untestable.contains(&set)).then_some(set)
    }

    /// Adds a run.
    pub fn observe_run(&mut self, set: &[usize], failed: bool) {
        let count = self.counts.entry(set.to_vec()).or_default();
        count.runs += 1;
        count.failures += u64::from(failed);
        match self.phase {
            ReductionPhase::Searching => {
                if let Some(length) = self.prefix_length(set) {
                    self.search.observe_run(length, failed);
                    self.advance_stage();
                } else if failed
                    && self.clean
                    && self.prefix_set(0).iter().all(|item| set.contains(item))
                {
                    // The set holds the last needed item.
                    let item_at = |last: usize| self.order.get(last.checked_sub(1)?);
                    let holds = |last| item_at(last).is_none_or(|item| set.contains(item));
                    self.search.retain_hypotheses(holds);
                    self.advance_stage();
                }
            }
            ReductionPhase::Checking => self.finish_check(),
            ReductionPhase::Over => {}
        }
    }

    /// Marks a set as not testable.
    pub fn mark_untestable(&mut self, set: &[usize]) {
        self.untestable.push(set.to_vec());
        match self.phase {
            ReductionPhase::Searching => {
                if let Some(length) = self.prefix_length(set) {
                    self.search.mark_untestable(length);
                    self.advance_stage();
                }
            }
            ReductionPhase::Checking => self.finish_check(),
            ReductionPhase::Over => {}
        }
    }

    /// Continues with the next stage if this one is decided.
    fn advance_stage(&mut self) {
        while self.phase == ReductionPhase::Searching {
            let group = match self.search.current_verdict(&self.stage_stop()) {
                SearchVerdict::Known(group) => group,
                SearchVerdict::AlreadyBad(_) => {
                    self.begin_check();
                    return;
                }
                SearchVerdict::NoneBad(_) | SearchVerdict::Impossible => {
                    self.phase = ReductionPhase::Over;
                    return;
                }
                SearchVerdict::Open(_) => return,
            };
            if group.first > self.order.len() {
                self.go_back();
                return;
            }
            let masses = self.search.posterior_masses();
            let omitted_mass = masses[group.last + 1..].iter().sum();
            let first = group.first.max(1) - 1;
            self.found_groups
                .push(self.order[first..group.last].to_vec());
            self.order.truncate(first);
            self.stage += 1;
            self.cells = weighted_cells(&self.search);
            self.begin_stage(false, omitted_mass);
            if self.order.is_empty() && self.search.newest_version() == 0 {
                self.begin_check();
            }
        }
    }

    /// Starts a new search among these items, with all known counts of their prefixes.
    fn begin_anew(&mut self, order: Vec<usize>) {
        let omitted_mass = if order.len() < self.all_items.len() {
            self.delta
        } else {
            0.0
        };
        self.found_groups.clear();
        self.order = order;
        self.cells.clone_from(&self.unseen);
        self.phase = ReductionPhase::Searching;
        self.begin_stage(true, omitted_mass);
        let longest = self.order.len();
        self.learn_length(longest, &self.prefix_set(longest));
        if longest < self.all_items.len() {
            self.learn_length(self.search.newest_version(), &self.everything.clone());
        }
        self.advance_stage();
    }

    /// Adds the known counts of a set, as the prefix of this length.
    fn learn_length(&mut self, length: usize, set: &[usize]) {
        let count = self.count_of(set);
        self.search.observe_many(length, count.failures, count.runs);
    }

    /// Goes back to all items, because an item that was left out is needed after all.
    fn go_back(&mut self) {
        if self.backs == BACKS {
            if self.phase == ReductionPhase::Checking {
                self.phase = ReductionPhase::Over;
                return;
            }
            if self.found_groups.is_empty() {
                self.found_groups = self.order.drain(..).map(|item| vec![item]).collect();
            }
            return self.begin_check();
        }
        self.backs += 1;
        self.stage += 1;
        self.begin_anew(self.all_items.clone());
    }

    /// Begins a stage; `omitted_mass` is the probability that an item which was left out is needed.
    fn begin_stage(&mut self, first: bool, omitted_mass: f64) {
        let prior_omitted = if self.clean { 0.0 } else { omitted_mass };
        let prior = stage_hypotheses(self.order.len(), first, prior_omitted);
        self.search = Bisection::with_grid(Grid::of_cells(self.cells.clone()), &prior);
        // The longest prefix was tried before, too, so its runs are in the cells.
        for length in 0..self.order.len() {
            self.learn_length(length, &self.prefix_set(length));
        }
        for length in 0..=self.order.len() {
            if self.untestable.contains(&self.prefix_set(length)) {
                self.search.mark_untestable(length);
            }
        }
    }

    fn begin_check(&mut self) {
        self.phase = ReductionPhase::Checking;
        self.finish_check();
    }

    fn check_level(&self) -> f64 {
        self.delta / real(self.found_groups.len().max(1) as u64)
    }

    /// Returns how many clean runs show that a group is needed.
    fn clean_runs(&self) -> Option<u64> {
        let alone = self.count_of(&self.prefix_set(0));
        let (wanted_count, known_runs) = self.wanted;
        if wanted_count == (alone, self.found_groups.len()) {
            return known_runs;
        }
        let reference = self.with_larger_sets(alone);
        clean_runs_needed(reference.failures, reference.runs, self.check_level())
    }

    /// Returns the runs of the found set, together with the runs of all larger sets, which fail at the same rate. If the
    /// found set seems to fail less often than they do, only its own runs count.
    fn with_larger_sets(&self, alone: Count) -> Count {
        let found_items = self.prefix_set(0);
        let larger = self
            .counts
            .iter()
            .filter(|(set, _)| {
                set.len() > found_items.len()
                    && found_items
                        .iter()
                        .all(|item| set.binary_search(item).is_ok())
            })
            .fold(Count::default(), |sum, (_, count)| sum.plus(*count));
        let rarer = fisher(larger.failures, larger.runs, alone.failures, alone.runs).greater;
        if alone.failures == 0 || rarer < DOUBT {
            return alone;
        }
        alone.plus(larger)
    }

    /// Returns how many more runs each set of the end check needs.
    fn missing_runs(&self) -> Vec<(Vec<usize>, u64)> {
        let whole_set = self.prefix_set(0);
        let alone = self.count_of(&whole_set);
        if !self.found_groups.is_empty()
            && alone.failures < self.failures
            && !self.untestable.contains(&whole_set)
        {
            return vec![(whole_set, self.failures - alone.failures)];
        }
        if let Some(set) = self.missing_comparison() {
            return vec![(set, 1)];
        }
        let needed = self.clean_runs();
        let missing = (0..self.found_groups.len()).filter_map(|group| {
            let set = self.without_group(group);
            if self.untestable.contains(&set) {
                return None;
            }
            let count = self.count_of(&set);
            let missing = if count.failures == 0 {
                needed?.saturating_sub(count.runs)
            } else {
                u64::from(
                    count.failures < MANY
                        && self.improbability_of(count, true) > self.check_level(),
                )
            };
            // The rate without any item is only distinguishable from the rate of the item if that rate is known as
            // well.
            let is_single_item =
                self.found_groups.len() == 1 && !self.untestable.contains(&whole_set);
            if missing > 0 && count.failures > 0 && is_single_item && alone.runs < count.runs {
                return Some((whole_set.clone(), missing));
            }
            (missing > 0).then_some((set, missing))
        });
        missing.collect()
    }

    /// Returns the log likelihood of the runs of a set, given its rate in each cell; for a single item, together with
    /// the runs of that item alone.
    fn ln_likelihood(&self, count: Count, rate: impl Fn(&Cell) -> f64) -> f64 {
        let alone = if self.found_groups.len() == 1 {
            self.count_of(&self.prefix_set(0))
        } else {
            Count::default()
        };
        let ln_chance_of = |cell: &Cell| {
            cell.weight.ln() + ln_chance(alone, cell.p) + ln_chance(count, rate(cell))
        };
        let terms: Vec<f64> = self.cells.iter().map(ln_chance_of).collect();
        ln_sum(&terms)
    }

    /// Returns the probability that a set with these counts is bad, if `bad`, or good, with a prior of 1/2 for each.
    fn improbability_of(&self, count: Count, bad: bool) -> f64 {
        let if_bad = self.ln_likelihood(count, |cell| cell.p);
        let if_good = self.ln_likelihood(count, |cell| cell.q);
        let against = if bad {
            if_good - if_bad
        } else {
            if_bad - if_good
        };
        (1.0 + against.exp()).recip()
    }

    /// Returns whether a set with these counts is bad, such that a good set is ever called bad with probability
    /// [`level`](Self::level) at most, however often this is tested.
    ///
    /// This holds at every background, not on average: the test uses the background that explains the counts best, not
    /// the prior weights. With prior weights, the first failure of a background of 1 % would be enough, because most of
    /// the weight is on no background.
    fn is_bad_at_any_background(&self, count: Count) -> bool {
        let likeliest = |cell: &Cell| {
            let possible = background_weights(cell.p).into_iter().map(|(q, _)| q);
            let best =
                possible.max_by(|a, b| ln_chance(count, *a).total_cmp(&ln_chance(count, *b)));
            best.unwrap_or(cell.q)
        };
        let if_good = self.ln_likelihood(count, likeliest);
        self.ln_likelihood(count, |cell| cell.p) - if_good >= -self.check_level().ln()
    }

    /// Returns whether the runs without a group show that it is not needed.
    fn is_needless(&self, without_count: Count) -> bool {
        let is_shown = || {
            // A search that begins anew can find a group again. Leaving out the only group ends the search.
            if self.found_groups.len() == 1 {
                self.is_bad_at_any_background(without_count)
            } else {
                self.improbability_of(without_count, false) <= self.check_level()
            }
        };
        without_count.failures > 0 && (self.clean || is_shown())
    }

    fn missing_checks(&self, in_flight: &[Vec<usize>], free: usize) -> Vec<Vec<usize>> {
        let mut sets = Vec::new();
        for (set, missing) in self.missing_runs() {
            let under_way = in_flight
                .iter()
                .filter(|open_set| **open_set == set)
                .count() as u64;
            for _ in under_way..missing {
                if sets.len() == free {
                    return sets;
                }
                sets.push(set.clone());
            }
        }
        sets
    }

    /// Ends the check if nothing is missing, or begins anew if a group is not needed.
    fn finish_check(&mut self) {
        let alone = self.count_of(&self.prefix_set(0));
        self.wanted = ((alone, self.found_groups.len()), self.clean_runs());
        let baseline = self.baseline;
        let runs_if_lost = clean_runs_needed(baseline.failures, baseline.runs, self.check_level());
        if alone.failures == 0 && runs_if_lost.is_some_and(|lost| alone.runs >= lost) {
            return self.go_back();
        }
        let needless = (0..self.found_groups.len())
            .find(|&group| self.is_needless(self.count_of(&self.without_group(group))));
        match needless {
            // Without the only group no item is left, and the program still fails.
            Some(_) if self.found_groups.len() == 1 => {
                self.found_groups.clear();
                self.order.clear();
                if self.missing_comparison().is_none() {
                    self.phase = ReductionPhase::Over;
                }
            }
            Some(group) if self.restarts < self.all_items.len() => {
                let last = self.found_groups.remove(group);
                let order = self.found_groups.drain(..).flatten().chain(last).collect();
                self.restarts += 1;
                self.stage += 1;
                self.begin_anew(order);
            }
            _ if self.missing_runs().is_empty() => self.end_search(),
            _ => {}
        }
    }

    /// Ends the search, unless another order may divide a group.
    fn end_search(&mut self) {
        if let Some(final_sets) = self.final_sets.take() {
            if unsettled_items(&final_sets) <= unsettled_items(&self.found_groups) {
                self.found_groups = final_sets;
                self.fruitless_orders += 1;
            } else {
                self.fruitless_orders = 0;
            }
        }
        if self.found_groups.iter().all(|group| group.len() == 1) || self.fruitless_orders == ORDERS
        {
            self.phase = ReductionPhase::Over;
            return;
        }
        self.orders += 1;
        let mut order = self.found_groups.concat();
        let draw_order = |item: &usize| draw_uniform(0, self.orders, *item as u64);
        order.sort_by(|a, b| draw_order(a).total_cmp(&draw_order(b)));
        self.final_sets = Some(std::mem::take(&mut self.found_groups));
        self.stage += 1;
        self.begin_anew(order);
    }

    /// Returns the search as it was before it tried another order.
    fn as_final(&self) -> Cow<'_, Self> {
        let Some(final_sets) = &self.final_sets else {
            return Cow::Borrowed(self);
        };
        Cow::Owned(Self {
            found_groups: final_sets.clone(),
            final_sets: None,
            phase: ReductionPhase::Checking,
            ..self.clone()
        })
    }

    /// Returns the approximate number of remaining runs if at most one of the undecided items is needed.
    pub fn runs_left(&self) -> f64 {
        let missing = || {
            self.missing_runs()
                .iter()
                .map(|(_, missing)| real(*missing))
                .sum()
        };
        match self.phase {
            ReductionPhase::Over => 0.0,
            ReductionPhase::Checking => missing(),
            ReductionPhase::Searching => {
                let Count { failures, runs } = self.baseline;
                let p = real(failures) / real(runs.max(1));
                let open = self.search.credible_set(1.0 - self.delta).len() as u64;
                let groups = real(self.found_groups.len() as u64 + 1);
                let clean = clean_runs_needed(failures, runs, self.check_level()).unwrap_or(0);
                let search = bisect_runs(open, &Channel { p, q: 0.0 }, true, self.delta);
                search + groups * real(clean) + real(self.failures) / p
            }
        }
    }

    /// Returns whether the search needs no further run.
    pub fn is_over(&self) -> bool {
        self.phase == ReductionPhase::Over
    }

    /// Returns whether the set is found, so that only the end check is left.
    pub fn is_found(&self) -> bool {
        self.final_sets.is_some() || self.phase != ReductionPhase::Searching
    }

    /// Returns the present answer.
    pub fn current_answer(&self) -> ReductionAnswer {
        let final_sets = self.as_final();
        let alone = final_sets.count_of(&final_sets.prefix_set(0));
        let needed = final_sets.clean_runs();
        let is_open = |group: &usize| {
            let count = final_sets.count_of(&final_sets.without_group(*group));
            match (count.failures, needed) {
                (0, Some(needed)) => count.runs < needed,
                (0, None) => true,
                _ => {
                    final_sets.clean
                        || final_sets.improbability_of(count, true) > final_sets.check_level()
                }
            }
        };
        ReductionAnswer {
            sufficient: final_sets.is_found() && alone.failures > 0,
            open: (0..final_sets.found_groups.len()).filter(is_open).collect(),
            needed: final_sets.found_groups.clone(),
        }
    }

    /// Returns the rates of the found set and of all items together; each interval holds at all times with probability
    /// 1 - alpha/2, so both do with 1 - alpha.
    pub fn found_rates(&self, alpha: f64) -> ReductionRates {
        let final_sets = self.as_final();
        let interval = |count: Count| confidence_sequence(count.failures, count.runs, alpha / 2.0);
        ReductionRates {
            of_all: interval(self.count_of(&self.everything)),
            of_found: interval(final_sets.count_of(&final_sets.prefix_set(0))),
        }
    }
}

/// Returns the logarithm of the probability of these runs, in their order, at a rate.
fn ln_chance(count: Count, rate: f64) -> f64 {
    times_ln(count.failures, rate.ln()) + times_ln(count.runs - count.failures, (-rate).ln_1p())
}

/// Returns the size of an answer for comparison: its number of items, then the number of items in undivided groups.
fn unsettled_items(groups: &[Vec<usize>]) -> (usize, usize) {
    let item_count: usize = groups.iter().map(Vec::len).sum();
    (item_count, item_count - groups.len())
}

/// Returns the prior of a stage as that of a bisection: "not even all items fail" has weight 0. With a probability for
/// items that were left out, the set of all items is one more candidate, after the longest prefix.
fn stage_hypotheses(remaining: usize, first: bool, omitted_mass: f64) -> Vec<f64> {
    let mut prior = stage_prior(remaining, first);
    let total: f64 = prior.iter().sum();
    for prior in &mut prior {
        *prior *= (1.0 - omitted_mass) / total;
    }
    prior.extend((omitted_mass > 0.0).then_some(omitted_mass));
    prior.push(0.0);
    prior
}

/// Returns the cells with their present weights.
fn weighted_cells(search: &Bisection) -> Vec<Cell> {
    let cells = search.grid().cells().iter().zip(search.cell_masses());
    cells
        .map(|(&cell, weight)| Cell { weight, ..cell })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASELINE: Count = Count {
        failures: 10,
        runs: 10,
    };

    /// Runs a reduction to its end; every set always fails or never does.
    fn reduce(n: usize, untestable: &[&[usize]], fails: impl Fn(&[usize]) -> bool) -> Reduction {
        let mut search = Reduction::new((0..n).collect(), true, BASELINE, 0.05);
        for set in untestable {
            search.mark_untestable(set);
        }
        for _ in 0..1000 {
            let Some(set) = search.next_set() else {
                return search;
            };
            search.observe_run(&set, fails(&set));
        }
        panic!("no end");
    }

    fn needed_items(search: &Reduction) -> Vec<usize> {
        let mut found = search.current_answer().needed.concat();
        found.sort_unstable();
        found
    }

    #[test]
    fn items_that_are_needed_together_are_found() {
        let search = reduce(16, &[], |set| set.contains(&3) && set.contains(&11));
        assert_eq!(needed_items(&search), [3, 11]);
        let answer = search.current_answer();
        assert!(answer.sufficient && answer.open.is_empty(), "{answer:?}");
        let all = reduce(3, &[], |set| set.len() == 3);
        assert_eq!(needed_items(&all), [0, 1, 2]);
        assert!(
            all.current_answer().open.is_empty(),
            "{:?}",
            all.current_answer()
        );
    }

    #[test]
    fn the_estimated_runs_left_are_near_the_actual_runs() {
        for n in [4, 16, 64] {
            let reduction = Reduction::new((0..n).collect(), true, BASELINE, 0.05);
            let search = reduce(n, &[], |set| set.contains(&(n / 2)));
            let runs: u64 = search.counts.values().map(|count| count.runs).sum();
            let runs = real(runs - BASELINE.runs);
            let expected = reduction.runs_left();
            assert!(
                (0.5..=2.0).contains(&(expected / runs)),
                "{n}: {expected} {runs}"
            );
            assert!(search.runs_left() < 1.0);
        }
    }

    #[test]
    fn an_unneeded_item_is_left_out() {
        // Item 2 hides the failure unless item 5 is kept as well.
        let hidden = |set: &[usize]| set.contains(&1) && (!set.contains(&2) || set.contains(&5));
        let search = reduce(8, &[], hidden);
        assert_eq!(needed_items(&search), [1]);
        assert!(search.current_answer().open.is_empty());
    }

    #[test]
    fn a_search_works_with_one_item_and_with_none() {
        let search = reduce(1, &[], |set| set == [0]);
        assert_eq!(search.current_answer().needed, [vec![0]]);
        assert!(search.current_answer().open.is_empty());
        let none = reduce(0, &[], |_| true);
        assert!(none.current_answer().sufficient && none.current_answer().needed.is_empty());
    }

    #[test]
    fn the_answer_is_empty_if_no_item_is_needed() {
        let search = reduce(8, &[], |_| true);
        let answer = search.current_answer();
        assert!(answer.sufficient && answer.needed.is_empty(), "{answer:?}");
    }

    #[test]
    fn items_that_cannot_be_distinguished_are_reported_as_a_group() {
        let mut sets: Vec<&[usize]> = vec![&[0, 1, 2], &[0, 1, 2, 3]];
        sets.extend([&[2][..], &[3], &[4], &[2, 3], &[2, 4], &[3, 4]]);
        let search = reduce(8, &sets, |set| set.contains(&3));
        assert_eq!(search.current_answer().needed, [vec![2, 3, 4]]);
        assert!(search.current_answer().open.is_empty());
    }

    #[test]
    fn a_different_order_of_items_divides_a_group() {
        let search = reduce(8, &[&[0, 1, 2], &[0, 1, 2, 3]], |set| set.contains(&3));
        assert_eq!(search.current_answer().needed, [vec![3]]);
    }

    #[test]
    fn the_likeliest_item_is_tried_alone_early() {
        let baseline = Count {
            failures: 5,
            runs: 50,
        };
        let mut search = Reduction::new((0..8).collect(), true, baseline, 0.05);
        search.observe_run(&[0, 1, 2, 3, 4, 5], true);
        let mut runs = 0;
        while search.next_set() != Some(vec![5]) {
            search.observe_run(&search.next_set().unwrap(), false);
            runs += 1;
        }
        assert!(!search.is_found() && runs < 50, "{runs}");
        search.observe_run(&[5], true);
        assert!(search.is_found());
        assert_eq!(search.current_answer().needed, [vec![5]]);
    }

    #[test]
    fn a_search_misled_by_background_failures_is_corrected() {
        let baseline = Count {
            failures: 5,
            runs: 10,
        };
        let misled = |seed: &u64| {
            let mut search = Reduction::new((0..4).collect(), false, baseline, 0.05);
            for run in 0.. {
                let Some(set) = search.next_set() else {
                    break;
                };
                assert!(run < 3000, "{seed}: no end");
                // At first it fails without item 3 as well.
                let bad = set.contains(&1) && (set.contains(&3) || run < 8);
                let rate = if bad { 0.5 } else { 0.05 };
                search.observe_run(&set, draw_uniform(*seed, run, 1) < rate);
            }
            needed_items(&search) != [1, 3]
        };
        let misled = (0..100).filter(misled).count();
        assert!(misled <= 6, "{misled} of 100");
    }

    /// Returns in how many of 300 end checks a single item is found to be needless, if it fails at rate .5 and the
    /// empty set at rate `q`.
    fn unneeded_count(q: f64) -> usize {
        let baseline = Count {
            failures: 5,
            runs: 10,
        };
        let is_unneeded = |seed: &u64| {
            let mut search = Reduction::new(vec![0], false, baseline, 0.05);
            for run in 0..20_000 {
                let Some(set) = search.next_set() else {
                    break;
                };
                let rate = if set.is_empty() { q } else { 0.5 };
                search.observe_run(&set, draw_uniform(*seed, run, 0) < rate);
            }
            search.current_answer().needed.is_empty()
        };
        (0..300).filter(is_unneeded).count()
    }

    #[test]
    fn a_background_failure_does_not_make_the_only_item_unneeded() {
        let (background, nothing_needed) = (unneeded_count(0.03), unneeded_count(0.5));
        assert!(
            background <= 2 && nothing_needed >= 280,
            "{background}, {nothing_needed}"
        );
    }

    #[test]
    fn a_found_set_with_a_much_lower_rate_is_reported() {
        let mut search = reduce(4, &[], |set| set.contains(&2));
        assert_eq!(search.found_rates(0.05).times_rarer(), None);
        let rarely = Count {
            failures: 10,
            runs: 100,
        };
        search.counts.insert(vec![2], rarely);
        let (least, most) = search.found_rates(0.05).times_rarer().unwrap();
        assert!(
            least > 2.0 && least < 10.0 && most > 10.0,
            "{least}, {most}"
        );
    }
}
