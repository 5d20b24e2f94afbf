//! `plan`: how many trials, and how long.

use super::baseline::Baseline;
use super::error::CliError;
use super::exit::Exit;
use crate::model::Measured;
use crate::report::words;
use crate::scenario::{Confidence, Rate, Span};
use crate::stats;
use crate::term;
use clap::Args;
use std::fmt::Write as _;
use std::num::NonZeroU32;

/// Say how many trials it takes to see a failure, to measure its rate, to confirm a fix
#[derive(Args)]
#[group(skip)]
pub(super) struct Planner {
    /// The failure rate, such as 10% or 0.1
    #[arg(
        long,
        value_name = "P",
        required_unless_present = "baseline",
        conflicts_with = "baseline"
    )]
    rate: Option<Rate>,
    /// What was measured: 3/30, or a run
    #[arg(long, value_name = "K/N|RUN")]
    baseline: Option<String>,
    /// Width of the interval that is wanted
    #[arg(long, value_name = "W", default_value = "10%")]
    width: Rate,
    /// Confidence in per cent
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    conf: Confidence,
    /// How long one trial takes
    #[arg(long, value_name = "TIME")]
    time: Option<Span>,
    /// Trials side by side
    #[arg(short, long, value_name = "N", default_value = "1")]
    jobs: NonZeroU32,
}

impl Planner {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        let baseline = self
            .baseline
            .as_deref()
            .map(|text| Baseline::read(text, None));
        let baseline = baseline.transpose()?.map(|found| found.measured);
        let alpha = self.conf.0.value();
        let confidence = self.conf.0.confidence();
        let width = f64::from(self.width.0) / 1e6;
        let seconds = self
            .time
            .map(|span| span.0.as_secs_f64())
            .or(baseline.as_ref().and_then(Measured::seconds));
        let (rate, known) = match (self.rate, &baseline) {
            (Some(Rate(millionths)), _) => (f64::from(millionths) / 1e6, "the rate is known to be"),
            (
                None,
                Some(Measured {
                    failures: 0,
                    trials,
                    ..
                }),
            ) => {
                let bound = words::percent(stats::upper_one_sided(0, *trials, alpha));
                let error = anyhow::anyhow!(
                    "no failure in {trials} trials: the rate is below {bound} %, and nothing more is known"
                );
                return Err(CliError::usage(error).hinted(
                    "reproduce it first, or plan for an assumed rate: provoke plan --rate 1%",
                ));
            }
            #[expect(clippy::cast_precision_loss, reason = "counts of trials")]
            (None, Some(base)) => (
                base.failures as f64 / base.trials as f64,
                "the rate is as measured,",
            ),
            (None, None) => unreachable!("one of the two is required"),
        };
        let mut out = String::new();
        let _ = writeln!(
            out,
            "  {known} {} %; trials are independent; {confidence} % confidence",
            words::percent(rate)
        );
        let mut row = |what: &str, runs: Option<u64>| {
            let runs_text =
                runs.map_or("no number".to_owned(), |runs| words::plural(runs, "trial"));
            #[expect(clippy::cast_precision_loss, reason = "an estimate for the eye")]
            let time = runs.zip(seconds).map_or(String::new(), |(runs, seconds)| {
                let rounds = runs.div_ceil(u64::from(self.jobs.get()));
                format!("   about {}", words::seconds(rounds as f64 * seconds))
            });
            let _ = writeln!(out, "  {what:<52} {runs_text:>14}{time}");
        };
        row(
            "to see it at least once",
            stats::runs_to_see_one(rate, 1.0 - alpha),
        );
        row(
            &format!(
                "to know the rate within an interval of {} points",
                words::percent(width)
            ),
            stats::runs_for_width(rate, width, alpha),
        );
        match baseline {
            Some(base) => {
                row(
                    &format!(
                        "to confirm a fix against {}/{}, all clean",
                        base.failures, base.trials
                    ),
                    stats::clean_runs_needed(base.failures, base.trials, alpha),
                );
                let interval = stats::clopper_pearson(base.failures, base.trials, alpha);
                row(
                    &format!(
                        "to see it once, if the rate is {} %, as it may be",
                        words::percent(interval.lo)
                    ),
                    stats::runs_to_see_one(interval.lo, 1.0 - alpha),
                );
            }
            None => row(
                "to confirm a fix, all clean",
                stats::clean_runs_at_known_rate(rate, alpha),
            ),
        }
        term::tell(&out).map_err(CliError::could_not)?;
        Ok(Exit::Hoped)
    }
}
