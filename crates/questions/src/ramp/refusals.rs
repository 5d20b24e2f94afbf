//! Finds from how many clients on a service refuses most requests, from trials at several load levels.

use provoke_model::{RefusalRules, RequestResult, VariantId};
use provoke_state::{State, Tally};
use provoke_words as words;
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of named kinds of refusals.
const KINDS: usize = 2;
/// Number of trials of the levels on both sides of the first refusals.
const PROBES: u64 = 3;

/// From how many clients on a service refuses most requests: every tried level from there on does. A count without an
/// error rate; `--find refusal` tests the level.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalReport {
    /// The level.
    pub from: RefusalCounts,
    /// The next lower tried level, which does not; null if no lower level was tried.
    pub below: Option<RefusalCounts>,
    /// Whether there are levels between the two, or below the level, that were not tried.
    pub untried: bool,
    /// How the requests were refused, the most frequent first.
    pub kinds: Vec<String>,
    /// What the service refuses: `most requests`, or the given share of them.
    #[serde(skip)]
    amount: String,
}

/// Refused requests of a load level.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RefusalCounts {
    /// The number of clients.
    pub clients: u64,
    /// Counted trials.
    pub trials: u64,
    /// Requests sent.
    pub requests: u64,
    /// Refused requests.
    pub refused: u64,
}

/// A tried level, and whether it refuses its load.
#[derive(Clone, Copy)]
struct TriedLevel {
    index: usize,
    counts: RefusalCounts,
    refuses: bool,
}

/// Returns what a service refuses that refuses its load.
pub(super) fn refused_amount(rules: &RefusalRules) -> String {
    match rules.share {
        500_000 => "most requests".to_owned(),
        share => {
            let share = words::format_percent(f64::from(share) / 1e6);
            format!("more than {share} % of the requests")
        }
    }
}

fn tried_levels(state: &State) -> Vec<TriedLevel> {
    let rules = &state.trials.rules.refusals;
    let tried = |(id, tally): (VariantId, &Tally)| {
        let (requests, index) = (tally.requests.sent, id.index());
        let refused = rules.count_refused(&tally.requests.ends);
        let counts = RefusalCounts {
            clients: u64::from(state.trials.variants[index].clients.unwrap_or(0)),
            trials: tally.requests.trials,
            requests,
            refused,
        };
        (requests > 0).then(|| TriedLevel {
            index,
            counts,
            refuses: rules.refuses_load(refused, requests),
        })
    };
    state.all_tallies().filter_map(tried).collect()
}

/// Returns the lowest level from which on every tried level refuses its load, and the tried level below it.
fn onset(levels: &[TriedLevel]) -> Option<(Option<TriedLevel>, TriedLevel)> {
    let first = levels.iter().rposition(|level| !level.refuses);
    let from = levels.get(first.map_or(0, |first| first + 1))?;
    Some((first.map(|first| levels[first]), *from))
}

/// Returns the level whose trial tells most about where refusals begin; `None` if that is known, or nothing is refused.
pub(super) fn level_to_probe(state: &State) -> Option<usize> {
    let levels = tried_levels(state);
    let (below, from) = onset(&levels)?;
    let is_free = |level: &usize| {
        let id = VariantId(u32::try_from(*level).unwrap_or(u32::MAX));
        state.is_testable(id) && state.in_flight(id) == 0
    };
    let lowest = below.map_or(0, |below| below.index + 1);
    if lowest < from.index {
        let middle = usize::midpoint(lowest, from.index);
        return Some(middle).filter(is_free);
    }
    let sides = [below, Some(from)].into_iter().flatten();
    let rare = sides.min_by_key(|level| level.counts.trials);
    let open = rare.filter(|level| level.counts.trials < PROBES);
    open.map(|level| level.index).filter(is_free)
}

impl RefusalReport {
    pub(super) fn new(state: &State) -> Option<Self> {
        let levels = tried_levels(state);
        let (below, from) = onset(&levels)?;
        let rules = &state.trials.rules.refusals;
        let mut ends: BTreeMap<RequestResult, u64> = BTreeMap::new();
        let refusing = state
            .all_tallies()
            .filter(|(id, _)| id.index() >= from.index);
        for (result, count) in refusing.flat_map(|(_, tally)| &tally.requests.ends) {
            *ends.entry(result.clone()).or_default() += count;
        }
        let kinds = rules.refusals(&ends).into_iter().take(KINDS);
        Some(Self {
            from: from.counts,
            below: below.map(|below| below.counts),
            untried: below.map_or(0, |below| below.index + 1) < from.index,
            kinds: kinds.map(|(result, _)| refusal_name(result)).collect(),
            amount: refused_amount(rules),
        })
    }

    /// Describes from how many clients on it refuses most requests, as a clause.
    pub(super) fn clause(&self) -> String {
        let Self { amount, .. } = self;
        let kinds = self.kinds.join(", ");
        let from = self.from.clients;
        match (&self.below, self.untried) {
            (_, false) if self.below.is_none() => {
                let clients = words::format_count(from, "client");
                format!("it refuses {amount} with {clients} already ({kinds})")
            }
            (Some(_), false) => format!("from {from} on it refuses {amount} ({kinds})"),
            (Some(below), true) => format!(
                "with {from} or more it refuses {amount} ({kinds}; {} to {} were not tried)",
                below.clients + 1,
                from.saturating_sub(1)
            ),
            (None, _) => format!(
                "with {from} or more it refuses {amount} ({kinds}; no lower level was tried)"
            ),
        }
    }

    /// Gives the counts of the levels on both sides.
    pub(super) fn counts_line(&self) -> String {
        let counts = |level: &RefusalCounts| {
            format!(
                "{} of {} with {} ({})",
                level.refused,
                words::format_count(level.requests, "request"),
                words::format_count(level.clients, "client"),
                words::format_count(level.trials, "trial"),
            )
        };
        let below = self.below.as_ref().map(counts);
        let below = below.map_or(String::new(), |below| format!("{below}, "));
        format!("refused: {below}{}", counts(&self.from))
    }
}

/// Returns the name of a refusal.
fn refusal_name(result: &RequestResult) -> String {
    match result {
        RequestResult::Refused => "connection refused".to_owned(),
        result => result.to_string(),
    }
}
