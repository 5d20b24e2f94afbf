//! Counts the trials of a run for the pictures of a page, while they stream from its journal.

use crate::rows::{RecordedPlan, for_each_row};
use crate::{ExportError, Masked, MaskedRun, Report, TrialClass, TrialRow};
use std::collections::BTreeMap;

/// Failures with their own kind; further ones share the last kind of failures.
const OWN_KINDS: usize = 5;
/// Number of kinds: passes, failures, other failures, inconclusive trials, and passes and failures under a hold.
const KINDS: usize = OWN_KINDS + 5;
/// The last kinds of each run, with the classes of their marks.
const FIXED_KINDS: [(&str, &str); 3] = [
    ("inconclusive", "void"),
    ("passed under a hold", "held"),
    ("failed under a hold", "k1"),
];
/// Maximum number of columns of a strip.
const COLUMNS: usize = 2000;
/// Times that are kept exactly; more are counted in classes.
const EXACT_TIMES: usize = 1000;
/// Classes of times per decade.
const CLASSES: f64 = 40.0;
/// Lower end of the classes of times, in seconds.
const SHORTEST: f64 = 1e-6;
/// Number of classes of times: 12 decades.
const CLASS_COUNT: usize = 480;
/// Number of hung trials with a mark.
const HANGS: usize = 100;

/// The trials of a run, counted.
pub(super) struct TrialTotals {
    /// The kinds of results: first passes, then failures, then [`FIXED_KINDS`].
    pub(super) kinds: Vec<ResultKind>,
    pub(super) strip: StripCounts,
    /// By slot.
    pub(super) slots: BTreeMap<u32, SlotTotals>,
    pub(super) pass_times: TimeCounts,
    pub(super) fail_times: TimeCounts,
    /// The times of hung trials, in seconds.
    pub(super) hangs: Vec<f64>,
    /// The plan and the environment of the run, with secrets masked.
    pub(super) recorded: RecordedPlan,
}

/// A kind of results.
pub(super) struct ResultKind {
    /// Its name.
    pub(super) name: String,
    /// Class of its marks.
    pub(super) class: &'static str,
    /// Number of trials.
    pub(super) count: u64,
}

/// The counted trials of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotTotals {
    pub(super) trials: u64,
    pub(super) failures: u64,
}

impl TrialTotals {
    /// Counts the trials of a run.
    pub(super) fn read_from(run: &MaskedRun<'_>) -> Result<Self, ExportError> {
        let mut totals = Self::new(run.report());
        let recorded = for_each_row(run, |row| {
            totals.add_row(&row);
            Ok(())
        })?;
        Ok(Self { recorded, ..totals })
    }

    fn new(report: Masked<&Report>) -> Self {
        // The most frequent failures have their own kinds.
        let mut failures: BTreeMap<&str, (bool, u64)> = BTreeMap::new();
        for kind in report.variants.iter().flat_map(|variant| &variant.kinds) {
            let (is_the_bug, count) = failures.entry(&kind.outcome).or_default();
            *is_the_bug |= kind.is_the_bug;
            *count += kind.count;
        }
        let mut names: Vec<(&str, (bool, u64))> = failures.into_iter().collect();
        names.sort_by_key(|(_, rank)| std::cmp::Reverse(*rank));
        let named = names.iter().take(OWN_KINDS).map(|(name, _)| *name);
        let others = (names.len() > OWN_KINDS).then_some("other failures");
        let classes = ["pass", "k1", "k2", "k3", "k4", "k5", "k6"];
        let kinds = std::iter::once("pass").chain(named).chain(others);
        let kind = |(name, class): (&str, &'static str)| ResultKind {
            name: name.to_owned(),
            class,
            count: 0,
        };
        let kinds = kinds.zip(classes).chain(FIXED_KINDS);
        Self {
            kinds: kinds.map(kind).collect(),
            strip: StripCounts::default(),
            slots: BTreeMap::new(),
            pass_times: TimeCounts::default(),
            fail_times: TimeCounts::default(),
            hangs: Vec::new(),
            recorded: RecordedPlan::default(),
        }
    }

    fn add_row(&mut self, row: &TrialRow) {
        let inconclusive = self.kinds.len() - FIXED_KINDS.len();
        let kind = match row.class {
            TrialClass::Pass => 0,
            TrialClass::Fail | TrialClass::Other => {
                let mut kinds = self.kinds[1..inconclusive].iter();
                let own = kinds.position(|kind| kind.name == row.outcome);
                own.map_or(inconclusive.saturating_sub(1).max(1), |index| index + 1)
            }
            TrialClass::Inconclusive => inconclusive,
            TrialClass::Held => match row.outcome.as_str() {
                "void" => inconclusive,
                "pass" => inconclusive + 1,
                _ => inconclusive + 2,
            },
            _ => return,
        };
        self.kinds[kind].count += 1;
        let is_failure = row.class == TrialClass::Fail;
        let is_counted = is_failure || row.class == TrialClass::Pass;
        self.strip.add_trial(kind);
        if !is_counted {
            return;
        }
        let slot = self.slots.entry(row.slot).or_default();
        slot.trials += 1;
        slot.failures += u64::from(is_failure);
        let Some(seconds) = row.seconds else { return };
        if is_failure {
            self.fail_times.add_time(seconds);
            if row.outcome == "hang" && self.hangs.len() < HANGS {
                self.hangs.push(seconds);
            }
        } else {
            self.pass_times.add_time(seconds);
        }
    }
}

/// The results of trials in columns of equal numbers of trials, in the order of their launch.
#[derive(Default)]
pub(super) struct StripCounts {
    columns: Vec<StripColumn>,
    /// Trials of a full column; 1 until there are too many columns.
    width: u64,
}

/// The trials of a column.
#[derive(Clone, Copy, Default)]
struct StripColumn {
    kinds: [u64; KINDS],
    total: u64,
}

impl StripColumn {
    fn add_column(&mut self, other: &Self) {
        for (own, count) in self.kinds.iter_mut().zip(other.kinds) {
            *own += count;
        }
        self.total += other.total;
    }
}

impl StripCounts {
    fn add_trial(&mut self, kind: usize) {
        self.width = self.width.max(1);
        if self
            .columns
            .last()
            .is_none_or(|column| column.total >= self.width)
        {
            if self.columns.len() == COLUMNS {
                self.columns = merge_columns(&self.columns, 2);
                self.width *= 2;
            }
            self.columns.push(StripColumn::default());
        }
        if let Some(column) = self.columns.last_mut() {
            column.kinds[kind.min(KINDS - 1)] += 1;
            column.total += 1;
        }
    }

    /// Returns the kind of each trial, if there are few.
    pub(super) fn cells(&self) -> Option<Vec<u8>> {
        let kind = |column: &StripColumn| {
            let kind = column.kinds.iter().position(|count| *count > 0);
            u8::try_from(kind.unwrap_or(0)).unwrap_or(0)
        };
        (self.width == 1).then(|| self.columns.iter().map(kind).collect())
    }

    /// Returns the number of trials of each kind in at most this number of columns, and the trials of a column.
    pub(super) fn columns(&self, at_most: usize) -> (Vec<[u64; KINDS]>, u64) {
        let factor = self.columns.len().div_ceil(at_most).max(1);
        let merged = merge_columns(&self.columns, factor);
        let counts = merged.iter().map(|column| column.kinds).collect();
        (counts, self.width * factor as u64)
    }
}

/// Merges this number of neighbours into one column.
fn merge_columns(columns: &[StripColumn], factor: usize) -> Vec<StripColumn> {
    let chunks = columns.chunks(factor);
    chunks
        .map(|chunk| {
            let mut merged = StripColumn::default();
            for column in chunk {
                merged.add_column(column);
            }
            merged
        })
        .collect()
}

/// Times of trials: all of them, or if there are many, how many are in each class of similar times.
#[derive(Default)]
pub(super) struct TimeCounts {
    exact: Vec<f64>,
    classes: Vec<u64>,
    count: u64,
}

impl TimeCounts {
    fn add_time(&mut self, seconds: f64) {
        self.count += 1;
        if self.classes.is_empty() && self.exact.len() < EXACT_TIMES {
            self.exact.push(seconds);
            return;
        }
        if self.classes.is_empty() {
            self.classes = vec![0; CLASS_COUNT];
            for time in std::mem::take(&mut self.exact) {
                self.classes[class_of_time(time)] += 1;
            }
        }
        self.classes[class_of_time(seconds)] += 1;
    }

    /// Returns times in ascending order, each with the share of all that are not longer.
    pub(super) fn cumulative_shares(&self) -> Vec<(f64, f64)> {
        let mut times = self.exact.clone();
        times.sort_by(f64::total_cmp);
        let exact = times.into_iter().map(|time| (time, 1));
        let classes = (1_u32..)
            .zip(&self.classes)
            .map(|(class, count)| (SHORTEST * 10_f64.powf(f64::from(class) / CLASSES), *count));
        let mut sum = 0;
        let counted = exact.chain(classes).filter(|(_, count)| *count > 0);
        counted
            .map(|(time, count)| {
                sum += count;
                (
                    time,
                    provoke_stats::real(sum) / provoke_stats::real(self.count),
                )
            })
            .collect()
    }
}

fn class_of_time(seconds: f64) -> usize {
    let class = (seconds.max(SHORTEST) / SHORTEST).log10() * CLASSES;
    usize::try_from(provoke_stats::whole(class)).map_or(0, |class| class.min(CLASS_COUNT - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_columns_keep_every_trial() {
        let mut strip = StripCounts::default();
        for trial in 0..10_001_u64 {
            strip.add_trial(usize::from(trial % 10 == 0));
        }
        assert!(strip.cells().is_none());
        let (columns, width) = strip.columns(480);
        assert!(columns.len() <= 480);
        let sum = |kind: usize| columns.iter().map(|column| column[kind]).sum::<u64>();
        assert_eq!((sum(0), sum(1)), (9000, 1001));
        let full = &columns[..columns.len() - 1];
        assert!(
            full.iter()
                .all(|column| column.iter().sum::<u64>() == width)
        );
    }

    #[test]
    fn few_trials_have_a_cell_each() {
        let mut strip = StripCounts::default();
        for kind in [0, 1, 0, 7] {
            strip.add_trial(kind);
        }
        assert_eq!(strip.cells(), Some(vec![0, 1, 0, 7]));
    }

    #[test]
    fn classes_of_times_are_narrow() {
        let mut times = TimeCounts::default();
        for index in 0..5000_u32 {
            times.add_time(0.001 * f64::from(index + 1));
        }
        let shares = times.cumulative_shares();
        let (median, _) = shares.iter().find(|(_, share)| *share >= 0.5).unwrap();
        assert!((2.4..2.7).contains(median), "{median}");
        assert!(shares.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
    }
}
