//! Groups the failures of one bug: measured trials together with captured trials.

use super::{SignatureReport, VariantReport};
use provoke_model::EvidenceDepth;
use provoke_words as words;

/// Measured failures that are one bug, as far as is known.
pub struct FailureGroup<'a> {
    /// Their signature, or that of captured trials if it is unambiguous.
    pub signature: &'a SignatureReport,
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
        let signatures = || captured.iter().chain(&variant.signatures);
        let sole_signature = |ids: &[String]| match ids {
            [id] => signatures().find(|signature| signature.id == *id),
            _ => None,
        };
        // Signatures at one address differ in the callers, which the kernel's log does not contain.
        let frequent_signature = |ids: &[String]| {
            let same = signatures().filter(|signature| ids.contains(&signature.id));
            same.min_by_key(|signature| std::cmp::Reverse(signature.count))
        };
        let probable = if seen.is_the_bug {
            sole_signature(&seen.perhaps)
        } else {
            None
        };
        let same = match seen.depth {
            EvidenceDepth::Kernel => frequent_signature(&seen.same_as),
            _ => sole_signature(&seen.same_as),
        };
        let signature = same
            .or(probable)
            .unwrap_or_else(|| heap_signature(variant, seen));
        let index = groups
            .iter()
            .position(|group| group.signature.id == signature.id)
            .unwrap_or_else(|| {
                groups.push(FailureGroup {
                    signature,
                    measured: Vec::new(),
                    probable: Vec::new(),
                });
                groups.len() - 1
            });
        if probable.is_some() {
            groups[index].probable.push(seen);
        } else {
            groups[index].measured.push(seen);
        }
    }
    groups
}

/// Returns the most frequent signature of the same damaged heap, found at the same lines: which of its checks the C
/// library reports first is random. Returns the signature itself if there is none.
fn heap_signature<'a>(
    variant: &'a VariantReport,
    signature: &'a SignatureReport,
) -> &'a SignatureReport {
    let is_same = |other: &&SignatureReport| {
        let family = (&other.family, &other.sites) == (&signature.family, &signature.sites);
        family && other.is_the_bug == signature.is_the_bug
    };
    if signature.family.is_none() || signature.sites.is_empty() {
        return signature;
    }
    // The most frequent signature is the first.
    variant.signatures.iter().find(is_same).unwrap_or(signature)
}

impl FailureGroup<'_> {
    /// Returns the measured trials.
    pub fn measured_trials(&self) -> impl Iterator<Item = u64> {
        let signatures = self.measured.iter().chain(&self.probable);
        signatures.flat_map(|signature| signature.trials.iter().copied())
    }

    /// Returns the number of trials with this failure.
    pub fn trial_count(&self) -> u64 {
        self.measured_trials().count() as u64
    }

    /// Describes the evidence for failures that do not show their signature themselves. Lists at most `max` trials.
    pub fn describe_evidence(&self, max: usize) -> Vec<String> {
        let is_itself = |signature: &&&SignatureReport| signature.id == self.signature.id;
        let count = |signatures: &[&SignatureReport]| {
            signatures
                .iter()
                .map(|signature| signature.count)
                .sum::<u64>()
        };
        let total = self.trial_count();
        let mut lines = Vec::new();
        if !self.measured.iter().any(|signature| is_itself(&signature)) {
            let caught = words::trial_list(&self.signature.trials, max);
            lines.push(match self.signature.trials.len() {
                1 => format!("stack from extra trial {caught}, which ran only for evidence"),
                trials => {
                    format!(
                        "stack from {trials} extra trials, which ran only for evidence: {caught}"
                    )
                }
            });
            if !self.measured.is_empty() {
                lines.push(format!(
                    "{} crashed at the same address (kernel log)",
                    subject(count(&self.measured), total)
                ));
            }
        }
        let other_reports =
            |signature: &&&SignatureReport| signature.family.is_some() && !is_itself(signature);
        let others = self.measured.iter().filter(other_reports);
        let others = others.map(|signature| signature.count).sum::<u64>();
        if others > 0 && self.measured.iter().any(|signature| is_itself(&signature)) {
            let subject = subject(others, total);
            lines.push(format!(
                "{subject} reported another damage of the heap at this line"
            ));
        }
        if !self.probable.is_empty() {
            let outcome = &self.probable[0].outcome;
            let (probable, of_kernel) = (count(&self.probable), self.measured.first());
            let is_logged =
                of_kernel.is_some_and(|signature| signature.depth == EvidenceDepth::Kernel);
            let failure = if outcome == "hang" { "hang" } else { "crash" };
            lines.push(if is_logged {
                format!(
                    "the other {probable} also ended with {outcome}, but the kernel logged no address: probably this {failure}"
                )
            } else {
                format!(
                    "{} ended with {outcome} and left no stack: probably this {failure}",
                    subject(probable, total)
                )
            });
        }
        lines
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
