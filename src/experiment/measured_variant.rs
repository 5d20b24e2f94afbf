//! Counts the failures of a variant that are the bug that a baseline or a search looks for.

use provoke_journal as journal;
use provoke_journal::StoreError;
use provoke_model::{
    BugFilter, CasePattern, EvidenceDepth, FailureName, KnownBug, MeasuredBaseline, Signature,
    SignatureId, Site, VariantId,
};
use provoke_questions as questions;
use provoke_questions::SearchedFailure;
use provoke_state::{SignatureFailures, State, Tally};
use provoke_survey as survey;
use std::collections::BTreeSet;
use std::path::Path;

/// The failures of a baseline that are the bug.
#[derive(Clone)]
pub(super) enum BaselineFilter {
    /// The failures that were the bug in its run.
    AsThere,
    /// All failures.
    Any,
    /// Failures of these kinds.
    Only(Vec<BugFilter>),
    /// Failures that share a name with one of these.
    Like(Vec<KnownBug>),
}

impl BaselineFilter {
    /// Returns the patterns of the cases whose failures are the bug; none if trials count by their own outcomes.
    pub(super) fn searched_cases(&self) -> Vec<CasePattern> {
        let Self::Only(filters) = self else {
            return Vec::new();
        };
        let patterns = filters.iter().filter_map(|filter| match filter {
            BugFilter::Test(pattern) => Some(pattern.clone()),
            _ => None,
        });
        patterns.collect()
    }
}

/// Reads a run. If failures of cases are the bug, its trials are judged by these cases.
pub(super) fn read_baseline_run(
    journal: &Path,
    filter: &BaselineFilter,
) -> Result<State, StoreError> {
    match filter.searched_cases().as_slice() {
        [] => journal::read_run(journal, questions::FOLD, |_, _| {}),
        patterns => journal::read_run_for_cases(journal, questions::FOLD, patterns),
    }
}

/// Counts the failures of a variant that are the bug: by the rules of the run, or by others.
pub(super) fn measure_variant(
    state: &State,
    variant: VariantId,
    filter: &BaselineFilter,
) -> MeasuredBaseline {
    measure_tally(
        state,
        variant,
        state.tally_of(variant),
        filter,
        &SearchedFailure::OfPlan,
    )
}

/// Does the same for the trials of a hunt with holds, and the failure that happens more often under the one that it found.
pub(super) fn measure_held(
    state: &State,
    filter: &BaselineFilter,
    failure: &SearchedFailure,
) -> MeasuredBaseline {
    let variant = VariantId(0);
    measure_tally(state, variant, state.held_tally(variant), filter, failure)
}

fn measure_tally(
    state: &State,
    variant: VariantId,
    tally: &Tally,
    filter: &BaselineFilter,
    failure: &SearchedFailure,
) -> MeasuredBaseline {
    let as_a_bug = |group: &SignatureFailures| {
        bug_names(
            group,
            state.captured_tally(variant),
            &state.trials.rules.only,
        )
    };
    let is_bug = |group: &SignatureFailures| {
        let shown = group.to_failure();
        failure.covers(&shown)
            && match filter {
                BaselineFilter::Any => true,
                BaselineFilter::AsThere => group.is_the_bug,
                BaselineFilter::Only(filters) => filters.iter().any(|only| {
                    // Reports name the signature of captured trials at the same instruction.
                    only.covers_failure(&shown)
                        || matches!(only, BugFilter::Signature(id) if as_a_bug(group).names.contains(id))
                }),
                BaselineFilter::Like(bugs) => bugs.iter().any(|bug| bug.is_same(&as_a_bug(group))),
            }
    };
    let bugs: Vec<&SignatureFailures> = tally
        .groups
        .values()
        .filter(|group| is_bug(group))
        .collect();
    let captured = state.captured_tally(variant).groups.values();
    let other_groups = tally
        .groups
        .values()
        .chain(captured)
        .filter(|group| !is_bug(group));
    let failures = bugs.iter().map(|group| group.trials.len() as u64).sum();
    // Often only captured trials have a stack.
    let captured_groups = state.captured_tally(variant).groups.values();
    let with_stacks = bugs
        .iter()
        .copied()
        .chain(captured_groups.filter(|group| is_bug(group)));
    let pass = tally.pass_times.quantile_at(0.5);
    MeasuredBaseline {
        one_life: state.shares_a_life(),
        pass_us: pass
            .and_then(|time| u64::try_from((time + state.mean_overhead()).as_micros()).ok()),
        run: Some(state.origin.run.clone()),
        program: state.trials.unwrapped_command(variant).first().cloned(),
        unfinished: !state.stage.is_finished() && !state.always_deadlocks(),
        conditions: Some(survey::variant_conditions(
            &state.trials,
            variant,
            &state.origin.host,
        )),
        others: other_groups
            .flat_map(|group| all_names(&group.signature))
            .collect(),
        bugs: bugs.iter().map(|group| as_a_bug(group)).collect(),
        functions: functions_of_groups(with_stacks),
        leading_points: questions::leading_points(state),
        ..questions::measure_variant(state, variant, failures)
    }
}

/// Returns the functions that failures point at, and their callers.
fn functions_of_groups<'a>(groups: impl Iterator<Item = &'a SignatureFailures>) -> Vec<String> {
    let mut functions = BTreeSet::new();
    for group in groups {
        let sites = group.sites.iter().flat_map(Site::with_callers);
        functions.extend(sites.filter_map(|site| site.function.clone()));
        functions.extend(group.functions.iter().cloned());
    }
    functions.into_iter().collect()
}

/// Returns the names that identify a bug in every build, from the best evidence: if only a line of the kernel's log is known,
/// from captured trials with that line.
///
/// If the run searched for a family, any failure of that family is the bug.
fn bug_names(group: &SignatureFailures, captured: &Tally, filters: &[BugFilter]) -> KnownBug {
    let signature = &group.signature;
    let weak = (signature.depth, signature.id);
    let deeper: Vec<&Signature> = captured
        .groups
        .values()
        .map(|group| &group.signature)
        .filter(|other_signature| {
            signature.depth == EvidenceDepth::Kernel && other_signature.also.contains(&weak)
        })
        .collect();
    let best = match deeper.as_slice() {
        [] => vec![signature],
        _ => deeper,
    };
    let widest = signature
        .names_at(EvidenceDepth::Status)
        .next()
        .unwrap_or(signature.id);
    let best_names: Vec<FailureName> = best
        .iter()
        .map(|signature| FailureName {
            kind: &group.kind,
            signature,
        })
        .collect();
    let depth = best_names
        .iter()
        .map(|name| name.portable_depth())
        .min()
        .unwrap_or_default();
    let families = best
        .iter()
        .flat_map(|other_signature| &other_signature.families)
        .map(|family| family.id)
        .filter(|id| filters.contains(&BugFilter::Signature(*id)));
    let names = best
        .iter()
        .flat_map(|other_signature| other_signature.names_at(depth))
        .chain(families);
    KnownBug {
        title: best[0].title.clone(),
        names: match depth {
            EvidenceDepth::Status => vec![widest],
            _ => names.collect(),
        },
        by_core: depth == EvidenceDepth::Stack && group.kind.is_crash(),
        widest,
        failures: group.trials.len() as u64,
    }
}

/// Returns the specific names of a failure: all but that of its exit status.
fn all_names(signature: &Signature) -> impl Iterator<Item = SignatureId> {
    signature
        .names()
        .filter(|(depth, _)| *depth != EvidenceDepth::Status)
        .map(|(_, id)| id)
}
