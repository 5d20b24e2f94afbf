//! Groups the failures of one bug: measured trials together with captured trials.

use super::{SignatureReport, VariantReport};
use crate::model::EvidenceDepth;
use crate::words;

/// Measured failures that are one bug, as far as is known.
pub struct FailureGroup<'a> {
    /// Their signature, or that of captured trials if it is unambiguous.
    pub is: &'a SignatureReport,
    /// Failures with this signature, or at the same instruction.
    measured: Vec<&'a SignatureReport>,
    /// Failures with less evidence, which no other observed failure explains.
    probable: Vec<&'a SignatureReport>,
}

/// Returns the measured failures of a variant, the most frequent first.
pub fn group_failures(variant: &VariantReport) -> Vec<FailureGroup<'_>> {
    let captured = variant.captured_signatures();
    let mut groups: Vec<FailureGroup<'_>> = Vec::new();
    for seen in &variant.signatures {
        let better = |ids: &[String]| match ids {
            [id] => captured
                .iter()
                .chain(&variant.signatures)
                .find(|one| one.id == *id),
            _ => None,
        };
        let probable = better(&seen.perhaps).filter(|_| seen.is_the_bug);
        let is = better(&seen.same_as).or(probable).unwrap_or(seen);
        let at = groups
            .iter()
            .position(|group| group.is.id == is.id)
            .unwrap_or_else(|| {
                groups.push(FailureGroup {
                    is,
                    measured: Vec::new(),
                    probable: Vec::new(),
                });
                groups.len() - 1
            });
        if probable.is_some() {
            groups[at].probable.push(seen);
        } else {
            groups[at].measured.push(seen);
        }
    }
    groups
}

impl FailureGroup<'_> {
    /// Returns the measured trials.
    pub fn measured_trials(&self) -> impl Iterator<Item = u64> {
        let all = self.measured.iter().chain(&self.probable);
        all.flat_map(|seen| seen.trials.iter().copied())
    }

    /// Returns the number of trials with this failure.
    pub fn trial_count(&self) -> u64 {
        self.measured_trials().count() as u64
    }

    /// Describes the evidence for failures that do not show their signature themselves. Lists at most `most` trials.
    pub fn describe_evidence(&self, most: usize) -> Vec<String> {
        let is_itself = |seen: &&&SignatureReport| seen.id == self.is.id;
        let count = |all: &[&SignatureReport]| all.iter().map(|seen| seen.count).sum::<u64>();
        let total = self.trial_count();
        let mut known = Vec::new();
        if !self.measured.iter().any(|seen| is_itself(&seen)) {
            let caught = words::trial_list(&self.is.trials, most);
            known.push(match self.is.trials.len() {
                1 => format!("stack from extra trial {caught}, which ran only for evidence"),
                trials => {
                    format!(
                        "stack from {trials} extra trials, which ran only for evidence: {caught}"
                    )
                }
            });
            if !self.measured.is_empty() {
                known.push(format!(
                    "{} crashed at the same address (kernel log)",
                    subject(count(&self.measured), total)
                ));
            }
        }
        if !self.probable.is_empty() {
            let outcome = &self.probable[0].outcome;
            let (probable, of_kernel) = (count(&self.probable), self.measured.first());
            let is_logged = of_kernel.is_some_and(|seen| seen.depth == EvidenceDepth::Kernel);
            known.push(if is_logged {
                format!(
                    "the other {probable} also ended with {outcome}, but the kernel logged no address: probably this crash"
                )
            } else {
                format!(
                    "{} ended with {outcome} and left no stack: probably this crash",
                    subject(probable, total)
                )
            });
        }
        known
    }
}

/// Returns `all 3`, `both`, `1 of 3`.
fn subject(count: u64, total: u64) -> String {
    match count {
        1 if total == 1 => "the failure".to_owned(),
        2 if total == 2 => "both".to_owned(),
        _ if count == total => format!("all {total}"),
        _ => format!("{count} of {total}"),
    }
}
