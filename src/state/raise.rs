//! Trials of the failing variant under several settings, before a search.

use super::{State, TrialFacts};
use crate::model::{
    EvidenceDepth, Failure, FailureKind, Outcome, Plan, Signature, SignatureId, VariantId,
};
use provoke_stats::raise::Sample;
use std::time::Duration;

/// The settings that are tried before a search.
#[derive(Debug)]
pub struct TriedSettings {
    /// The conditions of the plan first, then the settings.
    pub tried: Vec<TriedSetting>,
    /// The setting that the search uses, once it is chosen.
    pub chosen: Option<VariantId>,
}

/// The failing variant under one setting.
#[derive(Debug)]
pub struct TriedSetting {
    /// The variant of the plan with this setting.
    pub variant: VariantId,
    /// Number of parallel trials.
    pub jobs: u32,
    /// Trials in launch order: the number of the batch of parallel trials, and the outcome.
    pub outcomes: Vec<(u64, TriedOutcome)>,
    /// Working time of all of them.
    pub time: Duration,
}

/// How a trial under a setting ended.
#[derive(Debug)]
pub enum TriedOutcome {
    /// It passed.
    Passed,
    /// It failed after this time, probably by the bug.
    Failed(Box<Failure>, Duration),
    /// It failed in another way.
    Otherwise,
}

impl TriedSettings {
    pub(super) fn new(plan: &Plan) -> Option<Self> {
        let tried: Vec<TriedSetting> = plan
            .variant_settings()
            .map(|(variant, _)| TriedSetting {
                variant,
                jobs: plan.jobs_of(plan.variant_plan(variant)),
                outcomes: Vec::new(),
                time: Duration::ZERO,
            })
            .collect();
        (tried.len() > 1).then_some(Self {
            tried,
            chosen: None,
        })
    }

    /// Returns the trials under the conditions of the plan.
    pub fn natural_trials(&self) -> &TriedSetting {
        &self.tried[0]
    }

    /// Returns the trials under each setting.
    pub fn tried_settings(&self) -> &[TriedSetting] {
        &self.tried[1..]
    }

    pub(super) fn add_time(&mut self, variant: VariantId, time: Duration) {
        if let Some(tried) = self.tried.iter_mut().find(|one| one.variant == variant) {
            tried.time = tried.time.saturating_add(time);
        }
    }

    /// Adds the next trial of a variant, in launch order.
    pub(super) fn add_trial(&mut self, variant: VariantId, ended: &TrialFacts) {
        let Some(tried) = self.tried.iter_mut().find(|one| one.variant == variant) else {
            return;
        };
        let batch = tried.outcomes.len() as u64 / u64::from(tried.jobs.max(1));
        let outcome = match &ended.outcome {
            Outcome::Pass => TriedOutcome::Passed,
            Outcome::Fail(failure) => TriedOutcome::Failed(failure.clone(), ended.elapsed),
            Outcome::Other(_) => TriedOutcome::Otherwise,
            Outcome::Void(_) => return,
        };
        tried.outcomes.push((batch, outcome));
    }
}

impl State {
    /// Returns the settings that are being tried, until one is chosen.
    pub fn undecided_raise(&self) -> Option<&TriedSettings> {
        self.raise.as_ref().filter(|raise| raise.chosen.is_none())
    }

    /// Returns the variant whose failures define the bug: the failing variant under the conditions of the plan.
    pub fn shows_the_bug(&self) -> VariantId {
        let raise = self.raise.as_ref();
        let natural = raise.map(|raise| raise.natural_trials().variant);
        natural
            .filter(|natural| raise.is_some_and(|raise| raise.chosen != Some(*natural)))
            .unwrap_or(Self::FAILING)
    }

    /// Returns the trials of a setting that count: passes, and failures whose name also occurred under the conditions
    /// of the plan. Until a failure occurs there, every failure counts.
    pub fn counted_sample(&self, raise: &TriedSettings, tried: &TriedSetting) -> Sample {
        let natural = raise.natural_trials();
        let known = natural
            .outcomes
            .iter()
            .filter_map(|(_, ended)| match ended {
                TriedOutcome::Failed(failure, _) => Some(&**failure),
                _ => None,
            });
        let known: Vec<&Failure> = known.collect();
        let any_will_do =
            self.takes_any_failure() || tried.variant == natural.variant || known.is_empty();
        let is_bug =
            |failure: &Failure| any_will_do || known.iter().any(|bug| is_same_bug(bug, failure));
        let runs = tried
            .outcomes
            .iter()
            .filter_map(|(batch, ended)| match ended {
                TriedOutcome::Passed => Some((*batch, false)),
                TriedOutcome::Failed(failure, _) => is_bug(failure).then_some((*batch, true)),
                TriedOutcome::Otherwise => None,
            });
        Sample {
            runs: runs.collect(),
            seconds: tried.time.as_secs_f64(),
        }
    }

    /// Returns whether the plan itself defines which failures are the bug.
    pub fn takes_any_failure(&self) -> bool {
        let asked = self.plan.question.as_search();
        asked.is_none_or(|asked| asked.any_failure) || !self.plan.rules.only.is_empty()
    }
}

/// Returns whether two failures of the same program share a name from the best evidence that both have.
fn is_same_bug(bug: &Failure, failure: &Failure) -> bool {
    let seen = &bug.signature;
    let named = !matches!(bug.kind, FailureKind::Hang { .. })
        && seen.family.is_none()
        && matches!(
            seen.depth,
            EvidenceDepth::Output | EvidenceDepth::Kernel | EvidenceDepth::Stack
        );
    // The kernel's log drops lines, and a core may be missing.
    let may_lack = matches!(seen.depth, EvidenceDepth::Kernel | EvidenceDepth::Stack);
    let lacks = may_lack && names_at(&failure.signature, seen.depth).next().is_none();
    let depth = if named && !lacks {
        seen.depth
    } else {
        EvidenceDepth::Status
    };
    let names: Vec<SignatureId> = names_at(seen, depth).collect();
    let same = names_at(&failure.signature, depth).any(|name| names.contains(&name));
    same && bug.kind.name() == failure.kind.name()
}

fn names_at(signature: &Signature, depth: EvidenceDepth) -> impl Iterator<Item = SignatureId> {
    let names = [(signature.depth, signature.id)].into_iter();
    let names = names.chain(signature.also.iter().copied());
    names.filter(move |(of, _)| *of == depth).map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32, depth: EvidenceDepth, id: u32, also: &[(EvidenceDepth, u32)]) -> Failure {
        Failure {
            kind: FailureKind::Exit { code },
            signature: Signature {
                id: SignatureId(id),
                title: String::new(),
                depth,
                also: also
                    .iter()
                    .map(|(depth, id)| (*depth, SignatureId(*id)))
                    .collect(),
                placed: false,
                family: None,
                families: Vec::new(),
            },
            sites: Vec::new(),
        }
    }

    #[test]
    fn a_failure_is_known_again_by_its_best_name() {
        let status = [(EvidenceDepth::Status, 1)];
        let bug = failure(3, EvidenceDepth::Output, 7, &status);
        assert!(is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Output, 7, &status)
        ));
        // Another message, or no message.
        assert!(!is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Output, 8, &status)
        ));
        assert!(!is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Status, 1, &[])
        ));
        assert!(!is_same_bug(
            &bug,
            &failure(4, EvidenceDepth::Output, 7, &status)
        ));
        // One of them has more detailed evidence.
        let deeper = [(EvidenceDepth::Output, 7), (EvidenceDepth::Status, 1)];
        assert!(is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Stack, 9, &deeper)
        ));
    }

    #[test]
    fn without_a_better_name_the_exit_status_will_do() {
        let status = [(EvidenceDepth::Status, 1)];
        let bug = failure(3, EvidenceDepth::Status, 1, &[]);
        assert!(is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Output, 8, &status)
        ));
        assert!(!is_same_bug(
            &bug,
            &failure(3, EvidenceDepth::Status, 2, &[])
        ));
        // A line of the kernel's log, or a core, may be missing.
        let logged = failure(3, EvidenceDepth::Kernel, 7, &status);
        assert!(is_same_bug(
            &logged,
            &failure(3, EvidenceDepth::Status, 1, &[])
        ));
        assert!(!is_same_bug(
            &logged,
            &failure(3, EvidenceDepth::Kernel, 8, &status)
        ));
    }
}
