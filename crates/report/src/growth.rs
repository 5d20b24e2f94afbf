//! Tests whether the processes that `setup` left running grow during a run.

use super::{GrowingQuantity, ProcessGrowth};
use provoke_model::TotalUsage;
use provoke_state::{RequestTotals, UsageSeries};
use provoke_stats::{self as stats, real};
use provoke_words as words;
use serde::Serialize;

/// Growth of memory below this, in KiB, is not reported: allocators and file caches grow by a few pages long after
/// their warm-up.
const LITTLE: u64 = 256;

/// A quantity that grew during trials.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GrownQuantity {
    /// What.
    pub what: GrowingQuantity,
    /// In how many trials.
    pub trials: u64,
    /// By how much per second, in the median one.
    pub per_second: f64,
}

/// Returns a quantity of a measurement.
type QuantityReader = fn(&TotalUsage) -> u64;

const QUANTITIES: [(GrowingQuantity, QuantityReader); 4] = [
    (GrowingQuantity::RssKib, |usage| usage.rss_kib),
    (GrowingQuantity::Processes, |usage| usage.processes),
    (GrowingQuantity::Threads, |usage| usage.threads),
    (GrowingQuantity::Descriptors, |usage| usage.descriptors),
];

/// Tests every quantity for growth; returns nothing if there are too few measurements.
pub(super) fn find_growth(series: &UsageSeries, alpha: f64) -> Vec<ProcessGrowth> {
    let Some((first, last)) = series.first_and_last() else {
        return Vec::new();
    };
    let growths = QUANTITIES.map(|(quantity, quantity_of)| {
        let kept_points = series.kept_points().iter();
        let points: Vec<_> = kept_points
            .map(|(trial, usage)| (real(trial.0), real(quantity_of(usage))))
            .collect();
        let varies = points
            .windows(2)
            .any(|two| two[0].1.total_cmp(&two[1].1).is_ne());
        (
            quantity,
            quantity_of,
            varies,
            stats::measure_growth(&points, alpha),
        )
    });
    // A constant quantity cannot raise an alarm, so it does not count as tested.
    let tested = growths.iter().filter(|(_, _, varies, _)| *varies).count();
    growths
        .into_iter()
        .filter_map(|(quantity, quantity_of, _, growth)| {
            let found_growth = growth?;
            let (start, end) = (quantity_of(&first), quantity_of(&last));
            let min_growth = if quantity == GrowingQuantity::RssKib {
                LITTLE
            } else {
                1
            };
            Some(ProcessGrowth {
                what: quantity,
                per_trial: found_growth.slope.middle,
                low: found_growth.slope.low,
                high: found_growth.slope.high,
                p_value: found_growth.p_value,
                from: start,
                to: end,
                warns: found_growth.warns_among(tested) && end >= start.saturating_add(min_growth),
            })
        })
        .collect()
}

/// Level of the interval of a slope.
const SLOPE_ALPHA: f64 = 0.05;

/// Growth per second of each quantity during a trial; `None` for a quantity that did not grow.
type TrialGrowth = [Option<f64>; QUANTITIES.len()];

/// Returns the growth of a service in the trials that were long enough to detect it.
pub(super) fn service_growth(totals: &RequestTotals) -> Vec<TrialGrowth> {
    totals
        .sizes
        .iter()
        .filter_map(|sizes| trial_growth(sizes))
        .collect()
}

fn trial_growth(sizes: &[(u64, TotalUsage)]) -> Option<TrialGrowth> {
    let growth = QUANTITIES.map(|(_, quantity_of)| {
        let points = sizes
            .iter()
            .map(|(ms, usage)| (real(*ms) / 1e3, real(quantity_of(usage))));
        stats::measure_growth(&points.collect::<Vec<_>>(), SLOPE_ALPHA)
    });
    growth[0]?;
    Some(growth.map(|growth| {
        let growth = growth.filter(|growth| growth.warns_among(QUANTITIES.len()));
        growth.map(|growth| growth.slope.middle)
    }))
}

/// Returns the quantities that grew, each with its median growth.
pub(super) fn median_growth(growth: &[TrialGrowth]) -> Vec<GrownQuantity> {
    let quantities = QUANTITIES.iter().enumerate();
    let median = |(index, (quantity, _)): (usize, &(GrowingQuantity, QuantityReader))| {
        let mut rates: Vec<f64> = growth.iter().filter_map(|trial| trial[index]).collect();
        rates.sort_by(f64::total_cmp);
        Some(GrownQuantity {
            what: *quantity,
            trials: rates.len() as u64,
            per_second: *rates.get(rates.len() / 2)?,
        })
    };
    quantities.filter_map(median).collect()
}

impl ProcessGrowth {
    /// Describes the growth.
    pub(super) fn describe_growth(&self) -> String {
        let [low, middle, high] =
            [self.low, self.per_trial, self.high].map(|x| self.format_amount(x));
        let [start_text, end_text] = [self.from, self.to].map(|x| self.format_amount(real(x)));
        let of_quantity = match self.what {
            GrowingQuantity::RssKib => " of memory",
            GrowingQuantity::Processes => " processes",
            GrowingQuantity::Threads => " threads",
            GrowingQuantity::Descriptors => " open files",
        };
        format!(
            "what `setup` left running grew by {middle}{of_quantity} a trial ({low} .. {high}), from {start_text} to {end_text}: later trials ran under other conditions than earlier ones"
        )
    }

    fn format_amount(&self, amount: f64) -> String {
        match self.what {
            GrowingQuantity::RssKib => words::format_bytes(stats::whole(amount * 1024.0)),
            _ => words::format_number(amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_described_with_its_unit() {
        let memory = ProcessGrowth {
            what: GrowingQuantity::RssKib,
            per_trial: 1229.0,
            low: 922.0,
            high: 1536.0,
            p_value: 1e-9,
            from: 20 << 10,
            to: 80 << 10,
            warns: true,
        };
        let files = ProcessGrowth {
            what: GrowingQuantity::Descriptors,
            per_trial: 0.05,
            low: 0.041,
            high: 1.0,
            from: 12,
            to: 37,
            ..memory
        };
        insta::assert_snapshot!(memory.describe_growth(), @"what `setup` left running grew by 1.2 MiB of memory a trial (922 KiB .. 1.5 MiB), from 20 MiB to 80 MiB: later trials ran under other conditions than earlier ones");
        insta::assert_snapshot!(files.describe_growth(), @"what `setup` left running grew by 0.050 open files a trial (0.041 .. 1), from 12 to 37: later trials ran under other conditions than earlier ones");
    }
}
