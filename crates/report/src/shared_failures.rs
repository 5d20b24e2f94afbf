//! Joins the failures of several variants, or of several runs, by their signatures.

use super::failure_groups::FailureGroup;
use super::{Report, SignatureReport, VariantReport, group_failures};
use provoke_words as words;
use std::collections::HashMap;

/// Maximum number of variants that are named.
const NAMES: usize = 8;

/// A failure in one or several variants.
pub(super) struct SharedFailure<'a> {
    /// Its signature.
    pub(super) signature: &'a SignatureReport,
    /// All of its measured trials, in order.
    pub(super) trials: Vec<u64>,
    /// Its group in each variant in which it occurred.
    pub(super) groups: Vec<VariantGroup<'a>>,
}

/// The failures of one signature in a variant.
pub(super) struct VariantGroup<'a> {
    /// The variant.
    pub(super) variant: &'a VariantReport,
    /// The number of the variant, and that of the group among the failures of the variant.
    pub(super) place: (usize, usize),
    /// The failures.
    pub(super) group: FailureGroup<'a>,
}

/// A failure of captured trials that no measured failure explains.
pub struct CapturedFailure<'a> {
    /// Its signature.
    pub signature: &'a SignatureReport,
    /// Its trials, in order.
    pub trials: Vec<u64>,
    /// Its variants.
    variants: Vec<&'a VariantReport>,
}

/// A failure in one or several runs.
pub(super) struct FailureOfRuns<'a> {
    /// The id of its signature.
    pub(super) id: &'a str,
    /// The title of its signature.
    pub(super) title: &'a str,
    /// The number of its trials in each run.
    pub(super) counts: Vec<u64>,
}

/// Returns the failures of all runs, the frequent before the rare.
pub(super) fn failures_of_runs<'a>(
    runs: impl ExactSizeIterator<Item = &'a Report>,
) -> Vec<FailureOfRuns<'a>> {
    let mut failures: Vec<FailureOfRuns<'_>> = Vec::new();
    let run_count = runs.len();
    for (run, report) in runs.enumerate() {
        for group in report.variants.iter().flat_map(group_failures) {
            let SignatureReport { id, title, .. } = group.signature;
            let known = failures.iter().position(|known| known.id == id);
            let index = known.unwrap_or_else(|| {
                let counts = vec![0; run_count];
                failures.push(FailureOfRuns { id, title, counts });
                failures.len() - 1
            });
            failures[index].counts[run] += group.trial_count();
        }
    }
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.counts.iter().sum::<u64>()));
    failures
}

/// Returns the failures of all variants: the bug before others, and the frequent before the rare.
pub(super) fn shared_failures(variants: &[VariantReport]) -> Vec<SharedFailure<'_>> {
    let mut failures: Vec<SharedFailure<'_>> = Vec::new();
    let mut indexes: HashMap<(&str, bool), usize> = HashMap::new();
    for (number, variant) in variants.iter().enumerate() {
        for (position, group) in group_failures(variant).into_iter().enumerate() {
            let signature = group.signature;
            let index = *indexes
                .entry((&signature.id, signature.is_the_bug))
                .or_insert_with(|| {
                    failures.push(SharedFailure {
                        signature,
                        trials: Vec::new(),
                        groups: Vec::new(),
                    });
                    failures.len() - 1
                });
            failures[index].trials.extend(group.measured_trials());
            failures[index].groups.push(VariantGroup {
                variant,
                place: (number, position),
                group,
            });
        }
    }
    for failure in &mut failures {
        failure.trials.sort_unstable();
    }
    failures.sort_by_key(|failure| {
        std::cmp::Reverse((failure.signature.is_the_bug, failure.trials.len()))
    });
    failures
}

/// Returns the failures of captured trials that no measured failure of the same variant explains.
pub fn captured_failures(variants: &[VariantReport]) -> Vec<CapturedFailure<'_>> {
    let mut captured: Vec<CapturedFailure<'_>> = Vec::new();
    for variant in variants {
        let groups = group_failures(variant);
        for signature in variant.captured_signatures() {
            if groups
                .iter()
                .any(|group| group.signature.id == signature.id)
            {
                continue;
            }
            let same = |failure: &CapturedFailure<'_>| failure.signature.id == signature.id;
            let index = captured.iter().position(same).unwrap_or_else(|| {
                captured.push(CapturedFailure {
                    signature,
                    trials: Vec::new(),
                    variants: Vec::new(),
                });
                captured.len() - 1
            });
            captured[index].trials.extend(&signature.trials);
            captured[index].variants.push(variant);
        }
    }
    for failure in &mut captured {
        failure.trials.sort_unstable();
    }
    captured
}

impl<'a> SharedFailure<'a> {
    /// Returns its group in the variant in which it is most frequent.
    pub(super) fn most_frequent(&self) -> &VariantGroup<'a> {
        let mut most_frequent = &self.groups[0];
        for group in &self.groups[1..] {
            if group.group.trial_count() > most_frequent.group.trial_count() {
                most_frequent = group;
            }
        }
        most_frequent
    }

    /// Names its variants, at most a few of them; empty if the run has only one.
    pub(super) fn variant_names(&self) -> String {
        list_names(self.groups.iter().map(|group| group.variant))
    }
}

impl CapturedFailure<'_> {
    /// Names its variants, at most a few of them; empty if the run has only one.
    pub fn variant_names(&self) -> String {
        list_names(self.variants.iter().copied())
    }
}

fn list_names<'a>(variants: impl ExactSizeIterator<Item = &'a VariantReport>) -> String {
    let names: Vec<String> = variants.map(VariantReport::title).collect();
    words::list_first(&names, NAMES)
}
