//! `plan`: how many trials each question takes, and how long.

use super::baseline::Baseline;
use super::error::CliError;
use super::exit::Exit;
use crate::model::Measured;
use crate::report::words;
use crate::scenario::{Confidence, Rate, Span};
use crate::term;
use clap::Args;
use provoke_stats::search::{Channel, bisect_runs};
use provoke_stats::{self as stats, real};
use std::fmt::Write as _;
use std::num::NonZeroU32;

/// Calculate how many trials a question takes
///
/// Questions are: see a failure, measure its rate, confirm a fix, compare variants, bisect.
///
/// Give the failure rate (--rate) or a measurement (--baseline).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub(super) struct Planner {
    /// Failure rate, such as 10% or 0.1
    #[arg(long, value_name = "P", conflicts_with = "baseline")]
    rate: Option<Rate>,
    /// Measured failure rate: a run, or counts such as 3/30
    #[arg(long, value_name = "K/N|RUN")]
    baseline: Option<String>,
    /// Use this variant of the baseline
    #[arg(long, value_name = "VARIANT", requires = "baseline")]
    of: Option<String>,
    /// Do not count earlier runs of the same program under the same conditions
    #[arg(long, requires = "baseline")]
    ignore_earlier_runs: bool,
    /// Width of the confidence interval for measuring the rate
    #[arg(long, value_name = "W", default_value = "10%")]
    width: Rate,
    /// Confidence in percent
    #[arg(long, value_name = "PERCENT", default_value = "95")]
    conf: Confidence,
    /// Duration of one trial
    #[arg(long, value_name = "TIME")]
    time: Option<Span>,
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
  Plan for a failure seen 3 times in 30 trials of 4 seconds each:
    provoke plan --baseline 3/30 --time 4s
  Plan with an assumed failure rate, for 256 versions:
    provoke plan --rate 1% --versions 256";

/// How often a difference is found that is planned for.
const POWER: f64 = 0.8;

/// From this number of trials on, a search is worth a setting that raises the rate.
const LONG_SEARCH: f64 = 150.0;

/// What is planned for.
struct Prospect {
    rate: f64,
    baseline: Option<Measured>,
    alpha: f64,
}

impl Planner {
    pub(super) fn execute(self) -> Result<Exit, CliError> {
        if self.rate.is_none() && self.baseline.is_none() {
            let error = anyhow::anyhow!("the failure rate is missing");
            return Err(CliError::usage(error).hinted(
                "give a rate: --rate 5%; or a measurement: --baseline 3/30, or --baseline last",
            ));
        }
        let alone = self.ignore_earlier_runs;
        let read = |text: &String| Baseline::read(text, self.of.as_deref(), alone);
        let baseline = self.baseline.as_ref().map(read).transpose()?;
        let baseline = baseline.map(|found| found.measured);
        let seconds = self.time.map(|span| span.0.as_secs_f64());
        let seconds = seconds.or(baseline.as_ref().and_then(Measured::seconds));
        let prospect = Prospect::new(self.rate, baseline, self.conf.0.value())?;
        let mut table = Table {
            seconds,
            jobs: u64::from(self.jobs.get()),
            out: String::new(),
        };
        prospect.rows(
            &mut table,
            f64::from(self.width.0) / 1e6,
            u64::from(self.variants.get()),
            u64::from(self.versions.get()),
        );
        let mut out = format!("  {}\n\n{}\n", prospect.known(), table.out);
        let time = match (seconds, self.jobs.get()) {
            (None, _) => "add --time to see how long that takes".to_owned(),
            (Some(seconds), 1) => format!("each trial takes {}", words::seconds(seconds)),
            (Some(seconds), jobs) => {
                let seconds = words::seconds(seconds);
                format!("each trial takes {seconds}, also with {jobs} parallel trials")
            }
        };
        let _ = writeln!(
            out,
            "  assumes: independent trials and a constant failure rate; {} % confidence\n  {time}",
            self.conf.0.confidence()
        );
        term::tell(&out).map_err(CliError::could_not)?;
        Ok(Exit::Hoped)
    }
}

impl Prospect {
    fn new(rate: Option<Rate>, baseline: Option<Measured>, alpha: f64) -> Result<Self, CliError> {
        let rate = match (rate, &baseline) {
            (Some(Rate(millionths)), _) => f64::from(millionths) / 1e6,
            (None, Some(base)) if base.failures > 0 => real(base.failures) / real(base.trials),
            (None, base) => {
                let trials = base.as_ref().map_or(0, |base| base.trials);
                let bound = words::percent_bound(stats::clopper_pearson(0, trials, alpha).hi);
                let error = anyhow::anyhow!(
                    "none of {trials} trials failed: the rate is below {bound} %, which is not enough to plan with"
                );
                return Err(CliError::usage(error).hinted(
                    "reproduce the failure first, or plan with an assumed rate: provoke plan --rate 1%",
                ));
            }
        };
        Ok(Self {
            rate,
            baseline,
            alpha,
        })
    }

    /// Says what the numbers rest on.
    fn known(&self) -> String {
        let rate = words::percent(self.rate);
        match &self.baseline {
            None => format!("assumed failure rate: {rate} %"),
            Some(base) => {
                let within = stats::clopper_pearson(base.failures, base.trials, self.alpha);
                let runs = match base.run_count() {
                    0 | 1 => String::new(),
                    runs => format!(" in {runs} runs"),
                };
                format!(
                    "measured failure rate, {}/{}{runs}: {rate} % (95 % interval {})",
                    base.failures,
                    base.trials,
                    words::interval([within.lo, within.hi])
                )
            }
        }
    }

    fn rows(&self, table: &mut Table, width: f64, variants: u64, versions: u64) {
        let (rate, alpha) = (self.rate, self.alpha);
        table.exact(
            "see a failure at least once",
            stats::runs_to_see_one(rate, 1.0 - alpha),
        );
        if let Some(base) = &self.baseline {
            let least = stats::clopper_pearson(base.failures, base.trials, alpha).lo;
            table.exact(
                &format!("  if the rate is only {} %", words::percent(least)),
                stats::runs_to_see_one(least, 1.0 - alpha),
            );
        }
        table.exact(
            &format!(
                "measure the rate to within {} points",
                words::percent(width)
            ),
            stats::runs_for_width(rate, width, alpha),
        );
        let failures = stats::cheapest_baseline(alpha);
        table.mean(
            &format!("measure a baseline ({failures} failures)"),
            real(failures) / rate,
        );
        let (clean, half) = match &self.baseline {
            None => (
                stats::clean_runs_at_known_rate(rate, alpha),
                stats::clean_runs_at_known_rate(rate / 2.0, alpha),
            ),
            Some(base) => {
                let ((k, n), effect) = (base.counts(), base.effect());
                (
                    stats::clean_runs_needed_effective(k, n, effect, alpha),
                    stats::clean_runs_to_exclude_half(k, n, effect, alpha),
                )
            }
        };
        table.exact("confirm a fix (no failure)", clean);
        table.exact("  also rule out a fix that halves the rate", half);
        if let Some(clean) = clean {
            table.mean(
                "  refute a fix that changes nothing",
                stats::confirm_mean_runs(rate, clean),
            );
        }
        for (what, other) in [
            ("compare with a variant that never fails", 0.0),
            ("  with a variant that fails a tenth as often", rate / 10.0),
            ("  with a variant that fails half as often", rate / 2.0),
        ] {
            let pairs = stats::pairs_to_tell(rate, other, alpha, POWER);
            table.exact(what, pairs.map(|pairs| pairs.saturating_mul(2)));
        }
        let race = match &self.baseline {
            None => stats::race_runs_measured(rate, variants, alpha),
            Some(base) => {
                let ((k, n), effect) = (base.counts(), base.effect());
                stats::race_runs_against(k, n, effect, variants, alpha)
            }
        };
        table.mean(
            &format!("find the one of {variants} variants that never fails"),
            race,
        );
        // The search begins with a baseline of its own.
        let channel = Channel { p: rate, q: 0.0 };
        let search = real(failures) / rate + bisect_runs(versions, &channel, false, alpha);
        table.mean(
            &format!("find the first bad one of {versions} versions"),
            search,
        );
        if search >= LONG_SEARCH {
            let hint = "  bisect --raise-rate first looks for a setting with more failures";
            let _ = writeln!(table.out, "{hint}");
        }
    }
}

/// The rows so far.
struct Table {
    seconds: Option<f64>,
    jobs: u64,
    out: String,
}

impl Table {
    /// Adds a number that is enough.
    fn exact(&mut self, what: &str, trials: Option<u64>) {
        let text = trials.map_or("impossible".to_owned(), |trials| {
            words::plural(trials, "trial")
        });
        self.row(what, &text, trials);
    }

    /// Adds a number that it takes on average.
    fn mean(&mut self, what: &str, trials: f64) {
        let text = if trials.is_finite() {
            format!("about {}", words::plural(stats::whole(trials), "trial"))
        } else {
            "impossible".to_owned()
        };
        let known = trials.is_finite().then(|| stats::whole(trials));
        self.row(what, &text, known);
    }

    fn row(&mut self, what: &str, text: &str, trials: Option<u64>) {
        let time = self
            .seconds
            .zip(trials)
            .map_or(String::new(), |(seconds, trials)| {
                let time = real(trials.div_ceil(self.jobs)) * seconds;
                format!("   {}", words::seconds(time))
            });
        let _ = writeln!(self.out, "  {what:<44} {text:>18}{time}");
    }
}
