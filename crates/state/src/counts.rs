//! Counts of each variant: its measured, captured, held and isolated trials.

use super::{State, Tally};
use provoke_model::{CaseRecord, FailureKind, SignatureId, Trial, TrialPurpose, VariantId};

/// Number of trials of a candidate that may show other failures in any case before it is given up.
const OTHERS: u64 = 20;
/// The same if no trial ended in another way.
const ONLY_OTHERS: u64 = 5;

#[derive(Debug, Default)]
pub(super) struct VariantState {
    pub(super) measured: CountedTrials,
    /// Extra trials that capture evidence: they run under another setting, so their rate may differ.
    pub(super) captured: CountedTrials,
    /// Trials with held threads, unless all trials of the run hold them: their rate is another one.
    pub(super) held_counts: CountedTrials,
    /// Trials that ran one failing case of a suite alone.
    pub(super) isolated: CountedTrials,
    /// Whether its preparation is complete, or not needed.
    pub(super) is_made: bool,
}

#[derive(Debug, Default)]
pub(super) struct CountedTrials {
    pub(super) tally: Tally,
    /// Launched trials that are neither counted nor known to be inconclusive.
    pub(super) pending: u64,
    /// All launched trials, with any outcome.
    pub(super) launched: u64,
    /// Consecutive inconclusive trials of the variant, in launch order.
    pub(super) inconclusive_streak: u64,
}

impl VariantState {
    pub(super) fn new(slots: u32) -> Self {
        let counted = || CountedTrials {
            tally: Tally::new(slots),
            ..CountedTrials::default()
        };
        Self {
            measured: counted(),
            captured: counted(),
            held_counts: counted(),
            isolated: counted(),
            is_made: false,
        }
    }

    pub(super) fn counted_for(&mut self, trial: &Trial) -> &mut CountedTrials {
        match trial.purpose {
            TrialPurpose::Measure => &mut self.measured,
            TrialPurpose::CaptureEvidence => &mut self.captured,
            TrialPurpose::ExploreSchedule => &mut self.held_counts,
            TrialPurpose::RerunTest(_) => &mut self.isolated,
        }
    }
}

/// Counts of the trials in which a case ran alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct IsolatedCounts {
    /// Trials that are launched and not counted.
    pub underway: u64,
    /// Trials in which it passed.
    pub passes: u64,
    /// Trials in which it failed.
    pub failures: u64,
    /// Trials in which it neither passed nor failed.
    pub without_result: u64,
}

impl IsolatedCounts {
    /// Returns the number of trials that have ended.
    pub fn completed(self) -> u64 {
        self.passes + self.failures + self.without_result
    }
}

/// Failures of one signature in the order in which they came.
#[derive(Debug)]
pub(super) struct SignatureCounts {
    pub(super) kind: FailureKind,
    /// Failures of all trials.
    pub(super) total: u64,
    /// Failures of the measurement.
    pub(super) measured: u64,
}

impl SignatureCounts {
    pub(super) fn new(kind: FailureKind) -> Self {
        Self {
            kind,
            total: 0,
            measured: 0,
        }
    }
}

impl State {
    /// Returns the tally of a variant: all its trials before the first open trial.
    pub fn tally_of(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].measured.tally
    }

    /// Returns the tally of the captured trials of a variant.
    pub fn captured_tally(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].captured.tally
    }

    /// Returns the tally of the trials of a variant in which threads were held to find a schedule.
    pub fn held_tally(&self, variant: VariantId) -> &Tally {
        &self.variants[variant.index()].held_counts.tally
    }

    /// Returns the counts of the trials in which a case ran alone.
    pub fn isolated_counts(&self, variant: VariantId, number: u32) -> IsolatedCounts {
        let counts = self.isolated_cases.get(&(variant, number));
        counts.copied().unwrap_or_default()
    }

    /// Returns the counts of the case that runs alone in a trial.
    pub(super) fn isolated_counts_of(&mut self, trial: &Trial) -> Option<&mut IsolatedCounts> {
        let number = self.case_names.number_of(trial.rerun_test()?)?;
        Some(
            self.isolated_cases
                .entry((trial.variant, number))
                .or_default(),
        )
    }

    /// Counts a trial in which a case ran alone, by the end of this case.
    pub(super) fn count_isolated_trial(&mut self, trial: &Trial, record: Option<&CaseRecord>) {
        let number = trial
            .rerun_test()
            .and_then(|name| self.case_names.number_of(name));
        let ends = record.map_or_else(Vec::new, CaseRecord::decode_ends);
        let end = number.and_then(|number| ends.get(number as usize).copied().flatten());
        let Some(counts) = self.isolated_counts_of(trial) else {
            return;
        };
        counts.underway = counts.underway.saturating_sub(1);
        match end {
            Some(end) if end.is_failure() => counts.failures += 1,
            Some(end) if end.is_pass() => counts.passes += 1,
            _ => counts.without_result += 1,
        }
    }

    /// Returns every variant with its tally.
    pub fn all_tallies(&self) -> impl Iterator<Item = (VariantId, &Tally)> {
        (0..)
            .map(VariantId)
            .zip(self.variants.iter().map(|variant| &variant.measured.tally))
    }

    /// Returns the variants that show nothing but other failures: a search learns nothing from such a variant and would
    /// choose it forever.
    pub fn failing_otherwise(&self) -> impl Iterator<Item = VariantId> {
        let searched = self.trials.space.is_some() || self.trials.has_load_levels();
        let useless = |tally: &Tally| match tally.counted_trials() {
            0 => tally.other >= ONLY_OTHERS,
            passing => tally.other >= OTHERS.max(2 * passing),
        };
        let tallies = self
            .all_tallies()
            .filter(move |_| searched && !self.stage.runs_extra_trials());
        let useless_tallies =
            tallies.filter(move |(id, tally)| useless(tally) && self.is_testable(*id));
        useless_tallies.map(|(id, _)| id)
    }

    /// Returns the number of trials of a variant that run, or have ended and are not counted yet.
    pub fn in_flight(&self, variant: VariantId) -> u64 {
        self.variants[variant.index()].measured.pending
    }

    /// Returns the number of trials of a variant that are counted or may still be counted.
    pub fn expected_trials(&self, variant: VariantId) -> u64 {
        let CountedTrials { tally, pending, .. } = &self.variants[variant.index()].measured;
        tally.finished_trials() + pending
    }

    /// Returns the number of trials of a variant that were ever launched.
    pub fn launched_trials(&self, variant: VariantId) -> u64 {
        self.variants[variant.index()].measured.launched
    }

    /// Returns the number of captured trials of a variant that are counted or may still be counted.
    pub fn captures_underway(&self, variant: VariantId) -> u64 {
        let CountedTrials { tally, pending, .. } = &self.variants[variant.index()].captured;
        tally.finished_trials() + pending
    }

    /// Returns the number of failures with this signature so far, whether counted or not.
    pub fn arrived_failures(&self, variant: VariantId, signature: SignatureId) -> u64 {
        let counts = self.arrived.get(&(variant, signature));
        counts.map_or(0, |arrived| arrived.total)
    }

    /// Returns every kind of failure that measured trials have shown so far, in any order, with its number.
    pub fn arrivals_by_kind(&self) -> impl Iterator<Item = (&FailureKind, u64)> {
        let measured = self
            .arrived
            .values()
            .map(|arrived| (&arrived.kind, arrived.measured));
        measured.filter(|(_, count)| *count > 0)
    }

    /// Returns the number of inconclusive trials.
    pub fn inconclusive_trials(&self) -> u64 {
        self.variants
            .iter()
            .map(|variant| variant.measured.tally.void_total())
            .sum()
    }
}
