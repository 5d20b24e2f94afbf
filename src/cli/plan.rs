//! `plan`: calculates how many trials each question needs, and how long they take.

use super::baseline::ResolvedBaseline;
use super::error::CliError;
use super::exit::Exit;
use crate::model::{Alpha, MeasuredBaseline};
use crate::report::words;
use crate::scenario::{Confidence, DurationValue, RateValue};
use crate::term::{self, Screen};
use crate::untrusted::Untrusted as _;
use clap::Args;
use provoke_stats::search::{Channel, bisect_runs};
use provoke_stats::{self as stats, real};
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
  Plan with an assumed failure rate, for 256 versions:
    provoke plan --rate 1% --versions 256";

/// Power for which a comparison is planned.
const POWER: f64 = 0.8;

/// From this number of trials on, a setting that raises the rate is suggested for a search.
const LONG_SEARCH: f64 = 150.0;

/// The failure rate and other inputs of the calculation.
struct PlanInputs {
    rate: f64,
    baseline: Option<MeasuredBaseline>,
    confidence: Alpha,
}

impl PlanArgs {
    pub(super) fn execute_command(self) -> Result<Exit, CliError> {
        let baseline = self.baseline()?;
        let seconds = self.time.map(|span| span.0.as_secs_f64());
        let seconds = seconds.or(baseline
            .as_ref()
            .and_then(|found| found.measured.pass_seconds()));
        let chosen = baseline.as_ref().and_then(|found| found.chosen.as_ref());
        let newest = chosen.filter(|chosen| chosen.is_newest);
        let chosen = newest.map(|chosen| {
            let (run, command) = (chosen.run.to_safe(), chosen.command.to_safe());
            format!("measured by the newest run with failures, {run}: {command}")
        });
        let measured = baseline.map(|found| found.measured);
        let prospect = PlanInputs::new(self.rate, measured, self.conf.0)?;
        let mut screen = Screen::on_stdout();
        screen.push_text(0, &prospect.describe_basis());
        if let Some(line) = chosen {
            screen.push_text(2, &line);
        }
        screen.push_gap();
        let mut table = PlanTable {
            seconds,
            jobs: u64::from(self.jobs.get()),
            rows: Vec::new(),
        };
        let variants = u64::from(self.variants.get());
        let versions = u64::from(self.versions.get());
        let search = prospect.add_rows(&mut table, self.width, variants, versions);
        for row in table.formatted_lines() {
            screen.push_row(&row);
        }
        screen.push_gap();
        if search >= LONG_SEARCH {
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
        let (of, alone) = (self.of.as_deref(), self.ignore_earlier_runs);
        if self.rate.is_some() {
            return Ok(None);
        }
        if let Some(text) = &self.baseline {
            return Ok(Some(ResolvedBaseline::read_measured(text, of, alone)?));
        }
        let newest = ResolvedBaseline::newest_failing(of, alone).ok_or_else(|| {
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

impl PlanInputs {
    fn new(
        rate: Option<RateValue>,
        baseline: Option<MeasuredBaseline>,
        confidence: Alpha,
    ) -> Result<Self, CliError> {
        let alpha = confidence.to_probability();
        let rate = match (rate, &baseline) {
            (Some(RateValue(millionths)), _) => f64::from(millionths) / 1e6,
            (None, Some(base)) if base.failures > 0 => real(base.failures) / real(base.trials),
            (None, base) => {
                let trials = base.as_ref().map_or(0, |base| base.trials);
                let bound = words::percent_bound(stats::clopper_pearson(0, trials, alpha).hi);
                let error = anyhow::anyhow!(
                    "none of {trials} trials failed: the rate is below {bound} %, which is not enough to plan with"
                );
                return Err(CliError::usage(error).with_hint(
                    "reproduce the failure first, or plan with an assumed rate: provoke plan --rate 1%",
                ));
            }
        };
        Ok(Self {
            rate,
            baseline,
            confidence,
        })
    }

    /// Describes the source of the rate.
    fn describe_basis(&self) -> String {
        let rate = words::format_percent(self.rate);
        match &self.baseline {
            None => format!("It fails in {rate} % of trials (assumed)."),
            Some(base) => {
                let alpha = self.confidence.to_probability();
                let within = stats::clopper_pearson(base.failures, base.trials, alpha);
                let runs = match base.run_count() {
                    0 | 1 => String::new(),
                    runs => format!(" in {runs} runs"),
                };
                format!(
                    "It fails in {rate} % of trials ({} of {}{runs}, {} % interval {}).",
                    base.failures,
                    base.trials,
                    self.confidence.confidence_percent(),
                    words::format_interval([within.lo, within.hi])
                )
            }
        }
    }

    /// Adds the questions; returns the number of trials of a bisection.
    fn add_rows(
        &self,
        table: &mut PlanTable,
        width: Option<RateValue>,
        variants: u64,
        versions: u64,
    ) -> f64 {
        let (rate, alpha) = (self.rate, self.confidence.to_probability());
        table.add_exact("see it once", stats::runs_to_see_one(rate, 1.0 - alpha));
        if let Some(base) = &self.baseline {
            let least = stats::clopper_pearson(base.failures, base.trials, alpha).lo;
            table.add_exact(
                &format!("  if it fails in only {} %", words::format_percent(least)),
                stats::runs_to_see_one(least, 1.0 - alpha),
            );
        }
        if let Some(RateValue(millionths)) = width {
            let width = f64::from(millionths) / 1e6;
            table.add_exact(
                &format!(
                    "measure the rate: interval {} points wide",
                    words::format_percent(width)
                ),
                stats::runs_for_width(rate, width, alpha),
            );
        }
        let failures = stats::cheapest_baseline(alpha);
        table.add_mean(
            &format!("get a baseline: {failures} failures"),
            real(failures) / rate,
        );
        let (clean, half) = match &self.baseline {
            None => (
                stats::clean_runs_at_known_rate(rate, alpha),
                stats::clean_runs_at_known_rate(rate / 2.0, alpha),
            ),
            Some(base) => {
                let ((k, n), effect) = (base.reference_counts(), base.design_effect());
                (
                    stats::clean_runs_needed_effective(k, n, effect, alpha),
                    stats::clean_runs_to_exclude_half(k, n, effect, alpha),
                )
            }
        };
        table.add_exact("confirm a fix: PROBABLY FIXED after", clean);
        table.add_exact("  FIXED (also excludes half the rate) after", half);
        for (what, other) in [
            ("compare with a variant that never fails", 0.0),
            ("  that fails a tenth as often", rate / 10.0),
            ("  that fails half as often", rate / 2.0),
        ] {
            let pairs = stats::pairs_to_tell(rate, other, alpha, POWER);
            table.add_exact(what, pairs.map(|pairs| pairs.saturating_mul(2)));
        }
        let race = match &self.baseline {
            None => stats::race_runs_measured(rate, variants, alpha),
            Some(base) => {
                let ((k, n), effect) = (base.reference_counts(), base.design_effect());
                stats::race_runs_against(k, n, effect, variants, alpha)
            }
        };
        table.add_mean(
            &format!("find the good one of {variants} variants (--variants)"),
            race,
        );
        // The search begins with its own baseline.
        let channel = Channel { p: rate, q: 0.0 };
        let search = real(failures) / rate + bisect_runs(versions, &channel, false, alpha);
        table.add_mean(
            &format!("find the first bad of {versions} versions (--versions)"),
            search,
        );
        search
    }
}

/// A question, and its number of trials.
struct PlanRow {
    question: String,
    trials: String,
    time: String,
}

/// The rows so far.
struct PlanTable {
    seconds: Option<f64>,
    jobs: u64,
    rows: Vec<PlanRow>,
}

impl PlanTable {
    /// Adds a number that is sufficient.
    fn add_exact(&mut self, question: &str, trials: Option<u64>) {
        let text = trials.map_or("impossible".to_owned(), |trials| trials.to_string());
        self.push_row(question, text, trials);
    }

    /// Adds a mean number.
    fn add_mean(&mut self, question: &str, trials: f64) {
        let known = trials.is_finite().then(|| stats::whole(trials));
        let text = known.map_or("impossible".to_owned(), |trials| format!("about {trials}"));
        self.push_row(question, text, known);
    }

    fn push_row(&mut self, question: &str, trials: String, count: Option<u64>) {
        let time = self.seconds.zip(count).map(|(seconds, count)| {
            let time = real(count.div_ceil(self.jobs)) * seconds;
            words::format_seconds(time)
        });
        self.rows.push(PlanRow {
            question: question.to_owned(),
            trials,
            time: time.unwrap_or_default(),
        });
    }

    /// Returns the table with a header.
    fn formatted_lines(&self) -> Vec<String> {
        let head = PlanRow {
            question: String::new(),
            trials: "trials".to_owned(),
            time: self.seconds.map_or(String::new(), |_| "time".to_owned()),
        };
        let rows = || std::iter::once(&head).chain(&self.rows);
        let width =
            |cell: fn(&PlanRow) -> &String| rows().map(|row| cell(row).len()).max().unwrap_or(0);
        let question = width(|row| &row.question);
        let (trials, time) = (width(|row| &row.trials), width(|row| &row.time));
        let line = |row: &PlanRow| {
            format!(
                "  {:question$}   {:>trials$}   {:>time$}",
                row.question, row.trials, row.time
            )
        };
        rows().map(line).collect()
    }
}
