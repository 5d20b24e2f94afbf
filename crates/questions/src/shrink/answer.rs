//! Answer of `load --shrink`: the part of a load that the crash needs.

use super::{KEPT_ALPHA, LoadDimension, RATE_ALPHA, ShrinkPolicy, ShrinkProgress, ShrinkState};
use crate::answer::{
    AnswerText, NOT_KNOWN, NOT_REPRODUCED, VariantSummary, format_confidence,
    independence_assumptions, one_of,
};
use crate::search::not_tested;
use crate::{FailureCounts, Policy as _, StopRule, Verdict};
use provoke_model::{LoadPart, LoadPlan, ReducibleLoad, RequestPace, SearchSpace, Subset};
use provoke_state::State;
use provoke_stats::{self as stats, lower_one_sided};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Place, Table};
use serde::Serialize;
use std::collections::BTreeSet;

/// The scenario file in the directory of a run that sends the remaining load.
pub const SMALLEST: &str = "smallest.toml";
/// Maximum number of kinds listed in a sentence.
const MAX_LISTED: usize = 4;

/// Which parts of a load the crash needs, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShrinkAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The whole load.
    pub whole: LoadPartReport,
    /// The remaining load, as far as it is known.
    pub left: LoadPartReport,
    /// How often the whole load crashed the service.
    pub before: FailureCounts,
    /// How often the remaining load crashed the service, in trials after it was found; null before.
    pub alone: Option<FailureCounts>,
    /// The connections on which the remaining load crashes the service: `kept`, `fresh`, or `either`; null if that is
    /// not known.
    pub connections: Option<&'static str>,
    /// Passing trials after which a part was kept; null as long as the rate is not known.
    pub trials_each: Option<u64>,
    /// The steps, in order.
    pub tried: Vec<TriedLoadReport>,
    /// A scenario file in the run's directory that sends the remaining load; null if that is not known.
    pub file: Option<&'static str>,
    /// The probability that any of the kept parts is not needed.
    pub error_rate: f64,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// A load, or a part of it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPartReport {
    /// Clients, or connections.
    pub clients: u32,
    /// Requests per trial.
    pub requests: u64,
    /// The kinds of requests.
    pub kinds: Vec<LoadPartKindReport>,
    /// Whether each request has its own connection.
    pub fresh: bool,
}

/// A kind of request.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoadPartKindReport {
    /// Its name.
    pub name: String,
    /// The size of each of its bodies in bytes, as far as known; empty without a body.
    pub bodies: Vec<u64>,
}

/// A smaller load that was tried.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriedLoadReport {
    /// The difference, in words.
    pub what: String,
    /// Trials that crashed.
    pub crashed: u64,
    /// Counted trials.
    pub trials: u64,
    /// Whether it still crashes; null if not known.
    pub crashes: Option<bool>,
}

impl ShrinkAnswer {
    pub(super) fn new(state: &State) -> Option<Self> {
        let progress = ShrinkProgress::of_state(state)?;
        let cuts = state.trials.space.as_ref()?.choices.as_cuts()?;
        let counts = |(failures, trials)| FailureCounts { failures, trials };
        let is_over = progress.state == ShrinkState::Over;
        let tried_loads: Vec<TriedLoadReport> = progress
            .tried_loads
            .iter()
            .map(|load| TriedLoadReport {
                what: describe_less(cuts, &load.less),
                crashed: load.crashed,
                trials: load.trials,
                crashes: load.crashes,
            })
            .collect();
        // Each of these may crash after all, and all of them if the rate is below its bound.
        let accepted = progress.tried_loads.iter().filter(|load| {
            // A longer trial than necessary does not make the answer wrong.
            load.crashes == Some(false) && !matches!(load.less, LoadDimension::Requests(_))
        });
        let error_rate = stats::real(accepted.count() as u64).mul_add(KEPT_ALPHA, RATE_ALPHA);
        let mut assumptions = independence_assumptions(state);
        assumptions.push(
            "a load that kills it still does with more clients, kinds or requests".to_owned(),
        );
        assumptions.push("a smaller load kills it as often, or never".to_owned());
        let fresh = progress.smallest_load.fresh;
        let mut answer = Self {
            sentence: String::new(),
            whole: setting_of_cut(cuts, &cuts.whole),
            left: setting_of_cut(cuts, &progress.smallest_load),
            before: counts(progress.whole),
            alone: progress.again.map(counts),
            connections: progress
                .otherwise
                .map(|otherwise| match (otherwise, fresh) {
                    (true, _) => "either",
                    (false, true) => "fresh",
                    (false, false) => "kept",
                }),
            trials_each: progress.passes_needed,
            tried: tried_loads,
            file: is_over.then_some(SMALLEST),
            error_rate: error_rate.min(1.0),
            assumptions,
        };
        answer.sentence = answer.write_sentence(state, &progress.state);
        Some(answer)
    }

    fn write_sentence(&self, state: &State, end: &ShrinkState) -> String {
        let FailureCounts { failures, trials } = self.before;
        if ShrinkPolicy.verdict_of(state) == Verdict::CouldNotTest {
            return not_tested(state);
        }
        match end {
            ShrinkState::Over => self.describe_smallest(state),
            ShrinkState::Lost => {
                let alpha = state.goal.alpha.to_probability();
                let bound = StopRule::PlannedN.interval(0, trials, alpha).hi;
                format!(
                    "{failures} of {} died again; the rate is below {} % ({} interval)",
                    words::format_count(trials, "trial"),
                    words::percent_bound(bound),
                    format_confidence(&state.goal)
                )
            }
            ShrinkState::Open(..) if self.trials_each.is_none() => format!(
                "NOT KNOWN YET: {failures} of {} died again so far",
                words::format_count(trials, "trial")
            ),
            ShrinkState::Open(..) => format!(
                "NOT KNOWN YET: {} is enough so far",
                self.left.in_words(state)
            ),
        }
    }

    fn describe_smallest(&self, state: &State) -> String {
        let connection_text = match self.connections {
            Some("either") => "on kept and on fresh connections",
            Some("fresh") => "on fresh connections only",
            _ => "on kept connections only",
        };
        let FailureCounts { failures, trials } = self.alone.unwrap_or(self.before);
        format!(
            "{}; {connection_text}; with {} a trial, {failures} of {trials} died",
            self.left.in_words(state),
            words::format_count(self.left.requests, "request"),
        )
    }
}

impl AnswerText for ShrinkAnswer {
    fn sentence(&self) -> &str {
        &self.sentence
    }

    fn detail_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.tried.iter().map(TriedLoadReport::in_words).collect();
        if let (Some(passes_needed), Some(_)) = (self.trials_each, self.file) {
            let FailureCounts { failures, trials } = self.before;
            let rate = lower_one_sided(failures, trials, RATE_ALPHA);
            lines.push(format!(
                "the whole load killed {failures} of {trials}: a rate of {} % or more, wrong in {} cases",
                words::format_percent(rate),
                one_of(RATE_ALPHA),
            ));
            lines.push(format!(
                "so each part that was kept survived {} or more without it: at that rate the chance of that is {}; for fewer requests, a quarter of them",
                words::format_count(passes_needed, "trial"),
                one_of(KEPT_ALPHA),
            ));
        }
        lines
    }

    fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    fn tables(&self, _: &[VariantSummary], _confidence: f64) -> Vec<Table> {
        let columns = vec![
            Column::words("load"),
            Column::numbers("died"),
            Column::numbers("trials"),
            Column::words("result"),
        ];
        let row = |load: &str, died: u64, trials: u64, result: &str| {
            let [died, trials] = [died, trials].map(|count| Cell::text(count.to_string()));
            vec![Cell::text(load), died, trials, Cell::text(result)]
        };
        let whole = row(
            "the whole load",
            self.before.failures,
            self.before.trials,
            "",
        );
        let tried = self.tried.iter().map(|load| {
            let result = match load.crashes {
                Some(true) => "still crashes",
                Some(false) if load.trials == 0 => "not testable",
                Some(false) => "needed",
                None => "not known yet",
            };
            row(&load.what, load.crashed, load.trials, result)
        });
        let alone = self.alone.map(|alone| {
            row(
                "the remaining load, in new trials",
                alone.failures,
                alone.trials,
                "",
            )
        });
        let rows = std::iter::once(whole).chain(tried).chain(alone);
        vec![Table::new("Smaller loads", Place::Page, columns).with_rows(rows)]
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        match verdict {
            Verdict::Found => format!(
                "{}, {}",
                words::format_count(u64::from(self.left.clients), "client"),
                words::format_count(self.left.requests, "request"),
            ),
            Verdict::NotThere => NOT_REPRODUCED.to_owned(),
            _ => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("shrink", "the smallest failing load is found")
    }
}

impl TriedLoadReport {
    fn in_words(&self) -> String {
        let Self {
            what: kinds_text,
            crashed,
            trials,
            crashes,
        } = self;
        match crashes {
            Some(true) => format!("{kinds_text}: {crashed} of {trials} died"),
            Some(false) if *trials == 0 => format!("{kinds_text}: not testable"),
            Some(false) if *crashed > 0 => {
                format!("{kinds_text}: {crashed} of {trials} died, too rarely to continue with")
            }
            Some(false) => format!("{kinds_text}: 0 of {trials} died"),
            None => format!("{kinds_text}: 0 of {trials} so far"),
        }
    }
}

impl LoadPartReport {
    /// Returns `10 requests at once, of 2 kinds: A (body 4 KiB) and B`.
    fn in_words(&self, state: &State) -> String {
        let open = |load: &LoadPlan| matches!(load.pace, RequestPace::Open { .. });
        let at_once = match self.clients {
            _ if state.trials.load.as_ref().is_some_and(open) => {
                words::format_count(u64::from(self.clients), "connection")
            }
            1 => "requests one after another".to_owned(),
            clients => format!("{clients} requests at once"),
        };
        let names: Vec<String> = self
            .kinds
            .iter()
            .map(LoadPartKindReport::in_words)
            .collect();
        match names.as_slice() {
            [name] => format!("{at_once}, of 1 kind: {name}"),
            [first_names @ .., last] if names.len() <= MAX_LISTED => {
                let names_text = first_names.join(", ");
                format!(
                    "{at_once}, of {} kinds: {names_text} and {last}",
                    names.len()
                )
            }
            names => format!("{at_once}, of {} kinds", names.len()),
        }
    }
}

impl LoadPartKindReport {
    fn in_words(&self) -> String {
        let name = words::sanitize_line(&self.name);
        let sizes: BTreeSet<u64> = self.bodies.iter().copied().collect();
        let size = |bytes: &u64| words::format_bytes(*bytes);
        match (self.bodies.len(), sizes.first().zip(sizes.last())) {
            (1, Some((body, _))) => format!("{name} (body {})", size(body)),
            (_, Some((first, last))) if first < last => format!(
                "{name} ({} body sizes, {} to {})",
                sizes.len(),
                size(first),
                size(last)
            ),
            (bodies, Some((body, _))) => format!("{name} ({bodies} bodies of {})", size(body)),
            (_, None) => name,
        }
    }
}

fn setting_of_cut(cuts: &ReducibleLoad, cut: &LoadPart) -> LoadPartReport {
    let kinds = cut.kinds.0.iter().filter_map(|index| {
        let kind = cuts.kinds.get(*index as usize)?;
        let bodies = match cut.bodies.get(index) {
            Some(Subset(kept_items)) => {
                let kept = kept_items.iter();
                kept.filter_map(|body| kind.bodies.get(*body as usize).copied())
                    .collect()
            }
            None => kind.bodies.clone(),
        };
        Some(LoadPartKindReport {
            name: kind.name.clone(),
            bodies,
        })
    });
    LoadPartReport {
        clients: cut.clients,
        requests: cut.requests,
        kinds: kinds.collect(),
        fresh: cut.fresh,
    }
}

fn kind_name(cuts: &ReducibleLoad, kind: u32) -> String {
    let kind = cuts.kinds.get(kind as usize);
    kind.map_or(String::new(), |kind| words::sanitize_line(&kind.name))
}

/// Describes the difference of a smaller load.
pub(super) fn describe_less(cuts: &ReducibleLoad, less: &LoadDimension) -> String {
    match less {
        LoadDimension::Kinds(kinds) if kinds.len() > MAX_LISTED => {
            format!("without {} kinds", kinds.len())
        }
        LoadDimension::Kinds(kinds) => {
            let names: Vec<String> = kinds.iter().map(|kind| kind_name(cuts, *kind)).collect();
            format!("without {}", names.join(", "))
        }
        LoadDimension::Bodies(kind, kept_subset) => {
            format!(
                "{} with {}",
                kind_name(cuts, *kind),
                kept_subset.describe_bodies()
            )
        }
        LoadDimension::Clients(clients) => {
            format!(
                "with {}",
                words::format_count(u64::from(*clients), "client")
            )
        }
        LoadDimension::Requests(requests) => {
            format!("with {} a trial", words::format_count(*requests, "request"))
        }
        LoadDimension::Fresh(true) => "on fresh connections".to_owned(),
        LoadDimension::Fresh(false) => "on kept connections".to_owned(),
    }
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(state: &State) -> Vec<String> {
    let kinds = state.trials.space.as_ref().map_or(0, SearchSpace::len);
    vec![format!(
        "minimizing {} of requests, their number and the concurrency; the rate may be wrong in {} cases, each step in {}",
        words::format_count(kinds as u64, "kind"),
        one_of(RATE_ALPHA),
        one_of(KEPT_ALPHA),
    )]
}

/// Describes the step that is being tried.
pub(super) fn describe_attempt(state: &State) -> Option<String> {
    let progress = ShrinkProgress::of_state(state)?;
    let cuts = state.trials.space.as_ref()?.choices.as_cuts()?;
    Some(
        match (progress.tried_loads.last(), progress.passes_needed) {
            (_, None) => format!(
                "the whole load: {} of {} died",
                progress.whole.0, progress.whole.1
            ),
            (Some(load), _) if load.crashes.is_none() => {
                format!("{}: 0 of {}", describe_less(cuts, &load.less), load.trials)
            }
            _ => match progress.again {
                Some((crashed, trials)) => {
                    format!("the remaining load: {crashed} of {trials} died")
                }
                None => String::new(),
            },
        },
    )
}
