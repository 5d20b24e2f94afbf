//! `plan`: calculates how many trials each question needs, and how long they take.

use super::execute::Execute;
use super::exit::Exit;
use crate::experiment::{AskedForecast, ResolvedBaseline, TrialForecast};
use crate::term;
use clap::Args;
use provoke_model::MeasuredBaseline;
use provoke_plan::{Confidence, DurationValue, RateValue};
use provoke_words::diagnostic::Diagnostic;
use std::num::NonZeroU32;

/// Calculate how many trials a question takes
///
/// Questions are: see a failure, measure its rate, confirm a fix, compare variants, bisect.
///
/// Without --rate and --baseline, the rate is that of the newest run with failures.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub(super) struct PlanArgs {
    /// Failure rate, such as 10% or 0.1
    #[arg(long, value_name = "P", conflicts_with = "baseline")]
    rate: Option<RateValue>,
    /// Measured failure rate: a run, or counts such as 3/30 [default: the newest run with failures]
    #[arg(long, value_name = "K/N|RUN")]
    baseline: Option<String>,
    /// Use this variant of the baseline
    #[arg(long, value_name = "VARIANT", conflicts_with = "rate")]
    of: Option<String>,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, conflicts_with = "rate")]
    ignore_earlier_runs: bool,
    /// Also plan for a confidence interval of this width, such as 2%
    #[arg(long, value_name = "W")]
    width: Option<RateValue>,
    /// Also plan for a check that the rate is at most this, such as 10%
    ///
    /// Shows the number of trials after which `provoke run --max-rate P` prints PASS or FAIL with a probability of 80 %.
    #[arg(long, value_name = "P")]
    max_rate: Option<RateValue>,
    /// Also plan for a suite with this many flaky tests, to see each of them fail
    #[arg(long, value_name = "M")]
    cases: Option<NonZeroU32>,
    /// Confidence in percent
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    conf: Confidence,
    /// Duration of one trial
    #[arg(long, value_name = "TIME")]
    time: Option<DurationValue>,
    /// Parallel trials
    #[arg(short, long, value_name = "N", default_value = "1")]
    jobs: NonZeroU32,
    /// Number of variants when searching for one that does not fail
    #[arg(long, value_name = "K", default_value = "4")]
    variants: NonZeroU32,
    /// Number of versions when searching for the first bad one
    #[arg(long, value_name = "N", default_value = "64")]
    versions: NonZeroU32,
}

const EXAMPLES: &str = "\
Examples:
  Plan for the failure of the last run:
    provoke plan
  Plan for a failure seen 3 times in 30 trials of 4 seconds each:
    provoke plan --baseline 3/30 --time 4s
  Plan a check that a test fails in at most 10 % of its runs, if it fails in 2 %:
    provoke plan --rate 2% --max-rate 10%
  Plan to see each of 50 tests fail, if each fails in 3 % of its runs:
    provoke plan --rate 3% --cases 50
  Plan with an assumed failure rate, for 256 versions:
    provoke plan --rate 1% --versions 256";

impl Execute for PlanArgs {
    fn execute_command(self) -> Result<Exit, Diagnostic> {
        // An assumed rate needs no baseline.
        let baseline = match self.rate {
            Some(_) => None,
            None => Some(ResolvedBaseline::of_forecast(
                self.baseline.as_deref(),
                self.of.as_deref(),
                self.ignore_earlier_runs,
            )?),
        };
        let source = baseline
            .as_ref()
            .and_then(ResolvedBaseline::describe_default);
        let measured = baseline.map(|baseline| baseline.measured);
        let time = self.time.map(|span| span.0.as_secs_f64());
        let asked = AskedForecast {
            width: self.width,
            max_rate: self.max_rate,
            cases: self.cases.map(|cases| u64::from(cases.get())),
            variants: u64::from(self.variants.get()),
            versions: u64::from(self.versions.get()),
            trial_seconds: time.or(measured.as_ref().and_then(MeasuredBaseline::pass_seconds)),
            jobs: u64::from(self.jobs.get()),
        };
        let forecast = TrialForecast::new(self.rate, measured, self.conf.0)?;
        let document = forecast.document(&asked, source);
        term::print_result(&term::format_documents(&[document], term::stdout_width()))?;
        Ok(Exit::GoodAnswer)
    }
}
