//! `plan`: calculates how many trials each question needs, and how long they take.

use super::error::CliError;
use super::exit::Exit;
use crate::experiment::{AskedForecast, ForecastRow, ResolvedBaseline, TrialForecast};
use crate::scenario::{Confidence, DurationValue, RateValue};
use crate::term::{self, Screen};
use crate::untrusted::Untrusted as _;
use crate::words;
use clap::Args;
use provoke_stats::real;
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
  Plan with an assumed failure rate, for 256 versions:
    provoke plan --rate 1% --versions 256";

/// From this number of trials on, a setting that raises the rate is suggested for a search.
const LONG_SEARCH: f64 = 150.0;

/// Up to this number of failures, a baseline leaves the rate so uncertain that a known rate takes far fewer trials.
const FEW_FAILURES: u64 = 2;

impl PlanArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let baseline = self.baseline()?;
        let seconds = self.time.map(|span| span.0.as_secs_f64()).or(baseline
            .as_ref()
            .and_then(|baseline| baseline.measured.pass_seconds()));
        let chosen_baseline = baseline
            .as_ref()
            .and_then(|baseline| baseline.chosen.as_ref());
        let newest = chosen_baseline.filter(|chosen| chosen.is_newest);
        let chosen = newest.map(|chosen| {
            let (run, command) = (chosen.run.to_safe(), chosen.command.to_safe());
            format!("measured by the newest `provoke run` with failures, {run}: {command}")
        });
        let measured = baseline.map(|baseline| baseline.measured);
        let known_rate = measured
            .as_ref()
            .filter(|base| base.run.is_none() && (1..=FEW_FAILURES).contains(&base.failures))
            .map(|base| words::format_percent(real(base.failures) / real(base.trials)));
        let forecast = TrialForecast::new(self.rate, measured, self.conf.0)?;
        let mut screen = Screen::on_stdout();
        screen.push_text(0, &forecast.describe_basis());
        if let Some(line) = chosen {
            screen.push_text(2, &line);
        }
        screen.push_gap();
        let versions = u64::from(self.versions.get());
        let rows = forecast.rows(&AskedForecast {
            width: self.width,
            max_rate: self.max_rate,
            variants: u64::from(self.variants.get()),
            versions,
        });
        for line in format_rows(&rows, seconds, u64::from(self.jobs.get())) {
            screen.push_row(&line);
        }
        screen.push_gap();
        if let Some(rate) = known_rate {
            let hint = format!(
                "note: if you know that the rate is {rate} %, fewer are enough: --rate {rate}%"
            );
            screen.push_text(2, &hint);
        }
        if forecast.bisection_trials(versions) >= LONG_SEARCH {
            let hint = "note: `bisect --raise-rate` first looks for a setting with more failures";
            screen.push_text(2, hint);
        }
        let time = match (seconds, self.jobs.get()) {
            (None, _) => "add --time to see how long that takes".to_owned(),
            (Some(seconds), 1) => format!("a trial takes {}", words::format_seconds(seconds)),
            (Some(seconds), jobs) => {
                let seconds = words::format_seconds(seconds);
                format!("a trial takes {seconds}, also with {jobs} parallel trials")
            }
        };
        let confidence = self.conf.0.confidence_percent();
        screen.push_text(
            2,
            &format!(
                "assumes: independent trials and a constant failure rate; {confidence} % confidence"
            ),
        );
        screen.push_text(2, &time);
        term::print_result(&screen.into_text()).map_err(CliError::could_not)?;
        Ok(Exit::Hoped)
    }

    /// Returns the baseline of the calculation; `None` if the rate is assumed.
    fn baseline(&self) -> Result<Option<ResolvedBaseline>, CliError> {
        let (reference, alone) = (self.of.as_deref(), self.ignore_earlier_runs);
        if self.rate.is_some() {
            return Ok(None);
        }
        if let Some(text) = &self.baseline {
            return Ok(Some(ResolvedBaseline::read_measured(
                text, reference, alone,
            )?));
        }
        let newest = ResolvedBaseline::newest_failing(reference, alone)?.ok_or_else(|| {
            CliError::usage(anyhow::anyhow!(
                "no failure rate is given, and no run stored here has failures"
            ))
            .with_hint(
                "give counts or a rate: provoke plan --baseline 3/30, or provoke plan --rate 5%",
            )
        })?;
        Ok(Some(newest))
    }
}

/// Returns a table of the questions with a header; with times, if the duration of a trial is known.
fn format_rows(rows: &[ForecastRow], seconds: Option<f64>, jobs: u64) -> Vec<String> {
    let time_of = |trials: u64| {
        let seconds = real(trials.div_ceil(jobs)) * seconds?;
        Some(words::format_seconds(seconds))
    };
    let header = [
        String::new(),
        "trials".to_owned(),
        seconds.map_or(String::new(), |_| "time".to_owned()),
    ];
    let cells = rows.iter().map(|row| {
        let trials = match (row.trials, row.is_mean) {
            (None, _) => "impossible".to_owned(),
            (Some(trials), true) => format!("about {trials}"),
            (Some(trials), false) => trials.to_string(),
        };
        let time = row.trials.and_then(time_of).unwrap_or_default();
        [row.question.clone(), trials, time]
    });
    let table: Vec<[String; 3]> = std::iter::once(header).chain(cells).collect();
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (question_width, trials_width, time_width) = (width(0), width(1), width(2));
    let line = |[question, trials, time]: &[String; 3]| {
        format!("  {question:question_width$}   {trials:>trials_width$}   {time:>time_width$}")
    };
    table.iter().map(line).collect()
}
