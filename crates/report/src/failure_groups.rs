//! Groups the failures of one bug: measured trials together with captured trials.

use super::{SignatureReport, VariantReport};
use provoke_model::{EvidenceDepth, FailureKind};
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

    /// Returns the interval of its own rate, if all of its trials have the same measured signature, and other trials
    /// failed in another way.
    pub fn own_interval(&self, variant: &VariantReport) -> Option<[f64; 2]> {
        let count = self.trial_count();
        let mut measured = variant.signatures.iter();
        let own = measured.find(|seen| seen.id == self.signature.id && seen.count == count);
        let is_own = !self.signature.is_the_bug || count < variant.failures;
        own.map(|seen| seen.interval)
            .filter(|_| is_own && variant.trials > 0)
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
        if self.signature.outcome == FailureKind::Slow.name() {
            lines.push("only slow, no hang: a longer time limit (-t) lets it end".to_owned());
        }
        if !self.measured.iter().any(|signature| is_itself(&signature)) {
            let caught = words::trial_list(&self.signature.trials, max);
            lines.push(match self.signature.trials.len() {
                1 => format!("stack from trial {caught} after the run, only for evidence"),
                trials => {
                    format!("stack from {trials} trials after the run, only for evidence: {caught}")
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

/// Returns its failures, the most frequent first, and its other results.
pub(super) fn describe_failures(variant: &VariantReport) -> String {
    let mut parts = Vec::new();
    let groups = group_failures(variant);
    let mut bugs = groups.iter().filter(|group| group.signature.is_the_bug);
    if let Some(first) = bugs.next() {
        parts.push(first.signature.title.clone());
    }
    let other_failures = bugs.count();
    if other_failures > 0 {
        parts.push(words::format_count(
            other_failures as u64,
            "other signature",
        ));
    }
    if variant.other > 0 {
        parts.push(format!("{} other failures", variant.other));
    }
    if variant.void > 0 {
        parts.push(format!("{} inconclusive", variant.void));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use crate::tests::{SEGV, SimulatedRun, died, plan};
    use provoke_judge::signature::signature_of_failure;
    use provoke_model::{
        CoreObservation, Crash, Ending, Failure, FailureKind, Frame, Hang, HungThread, KernelLine,
        Observation, Outcome, Signal,
    };
    use std::time::Duration;

    fn frames(stack: &str) -> Vec<Frame> {
        let frame = |name: &str| Frame {
            module: Some("crash".to_owned()),
            function: Some(name.to_owned()),
            ..Frame::default()
        };
        stack
            .split(" < ")
            .filter(|name| !name.is_empty())
            .map(frame)
            .collect()
    }

    /// Returns the trials and the evidence of each group of a run that saw these failures.
    fn groups(seen: Vec<(FailureKind, Observation)>) -> Vec<(Vec<u64>, Vec<String>)> {
        let plan = plan(seen.len() as u64);
        let variant = plan.trials.variants[0].clone();
        let mut run = SimulatedRun::new(plan);
        for (id, (kind, seen)) in (1..).zip(seen) {
            let failure = Failure {
                signature: signature_of_failure(&kind, &variant, &seen),
                kind,
                sites: Vec::new(),
                functions: Vec::new(),
            };
            run.trial(id, (seen, Outcome::Fail(Box::new(failure))));
        }
        run.finish();
        let report = run.report();
        let groups = super::group_failures(&report.variants[0]).into_iter();
        let groups = groups.map(|group| {
            let mut trials: Vec<u64> = group.measured_trials().collect();
            trials.sort_unstable();
            (trials, group.describe_evidence(9))
        });
        groups.collect()
    }

    /// Returns a hang in which a thread with this stack used the CPU.
    fn busy_loop(stack: &str) -> Observation {
        let thread = HungThread {
            pid: 77,
            tid: 77,
            state: 'R',
            never_slept: true,
            cpu: Duration::from_millis(199),
            cpu_available: Duration::from_millis(200),
            frames: frames(stack),
            ..HungThread::default()
        };
        let ending = Ending::TimedOut {
            state: 'R',
            killed: true,
        };
        let mut seen = died(ending, "");
        seen.actors[0].pid = 77;
        seen.hang = Some(Hang {
            threads: vec![thread],
            ..Hang::default()
        });
        seen
    }

    #[test]
    fn a_busy_loop_without_a_stack_joins_the_only_busy_loop() {
        let hang = |stack| (FailureKind::Hang { stopped: false }, busy_loop(stack));
        let (parse, wait) = ("parse < main", "wait < main");
        let one_loop = groups([parse, "", parse].map(hang).to_vec());
        let evidence = "1 of 3 ended with hang and left no stack: probably this hang";
        assert_eq!(one_loop, [(vec![1, 2, 3], vec![evidence.to_owned()])]);
        // It may be either of two loops.
        let two_loops = groups([parse, "", wait].map(hang).to_vec());
        let trials: Vec<&[u64]> = two_loops.iter().map(|(trials, _)| &trials[..]).collect();
        assert_eq!(trials.len(), 3, "{two_loops:?}");
    }

    #[test]
    fn a_timeout_without_a_stack_never_joins_a_hang() {
        let hang = FailureKind::Hang { stopped: false };
        let mut without_stack = busy_loop("");
        without_stack.hang = Some(Hang::default());
        let advice = "only slow, no hang: a longer time limit (-t) lets it end";
        let mut groups = groups(vec![
            (hang.clone(), busy_loop("parse < main")),
            (hang, without_stack.clone()),
            (FailureKind::Slow, without_stack),
        ]);
        groups.sort();
        assert_eq!(
            groups,
            [
                (vec![1], Vec::new()),
                (vec![2], Vec::new()),
                (vec![3], vec![advice.to_owned()])
            ]
        );
    }

    /// Returns a crash that the kernel logged at an offset of the program, with this stack if there is a core.
    fn crash_at(place: u64, stack: &str) -> Observation {
        let mut seen = died(Ending::Signaled(Signal::SEGV, !stack.is_empty()), "");
        seen.actors[0].pid = 77;
        let base: u64 = 0x55d0_c6a0_0000;
        let address = base + place;
        seen.kernel = vec![KernelLine {
            pid: 77,
            text: format!(
                "crash[77]: segfault at 0 ip {address:016x} sp 00007ffd00000000 error 4 in crash[{place:x},{base:x}+1000]"
            ),
            function: None,
        }];
        let crash = Crash {
            pid: 77,
            program: "crash".to_owned(),
            signal: Some(Signal::SEGV),
            frames: frames(stack),
            place: Some(place),
            ..Crash::default()
        };
        let has_core = !stack.is_empty();
        seen.cores = has_core
            .then(|| CoreObservation {
                pid: 77,
                crash: Some(Box::new(crash)),
                ..CoreObservation::default()
            })
            .into_iter()
            .collect();
        seen
    }

    #[test]
    fn an_address_in_the_kernel_log_joins_the_most_frequent_stack_at_that_address() {
        let seen = vec![
            crash_at(0x179, "read < save < main"),
            crash_at(0x179, "read < load < main"),
            crash_at(0x179, ""),
            crash_at(0x179, "read < load < main"),
            crash_at(0x2f0, ""),
        ];
        let groups = groups(seen.into_iter().map(|seen| (SEGV, seen)).collect());
        let trials: Vec<&[u64]> = groups.iter().map(|(trials, _)| &trials[..]).collect();
        assert_eq!(trials, [&[2, 3, 4][..], &[1], &[5]], "{groups:?}");
    }
}
