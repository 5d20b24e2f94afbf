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

/// Say how many trials it takes to see a failure, to measure its rate, to confirm a fix, to compare
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
    /// Of a baseline with several variants, which one
    #[arg(long, value_name = "VARIANT", requires = "baseline")]
    of: Option<String>,
    /// Do not count earlier runs of the program that the baseline ran
    #[arg(long, requires = "baseline")]
    ignore_earlier_runs: bool,
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
    /// Variants among which those are to be found that do not fail
    #[arg(long, value_name = "K", default_value = "4")]
    variants: NonZeroU32,
    /// Versions among which the first that fails is to be found
    #[arg(long, value_name = "N", default_value = "64")]
    versions: NonZeroU32,
}

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
            (None, _) => "; --time says how long a trial takes".to_owned(),
            (Some(seconds), 1) => format!("; each takes {}", words::seconds(seconds)),
            (Some(seconds), jobs) => {
                let seconds = words::seconds(seconds);
                format!("; each takes {seconds}, also with {jobs} side by side")
            }
        };
        let _ = writeln!(
            out,
            "  taken for granted: trials are independent and the rate stays as it is; {} % confidence{time}",
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
                    "no failure in {trials} trials: the rate is below {bound} %, and nothing more is known"
                );
                return Err(CliError::usage(error).hinted(
                    "reproduce it first, or plan for an assumed rate: provoke plan --rate 1%",
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
            None => format!("the rate is known to be {rate} %"),
            Some(base) => {
                let within = stats::clopper_pearson(base.failures, base.trials, self.alpha);
                let runs = match base.run_count() {
                    0 | 1 => String::new(),
                    runs => format!(" in {runs} runs"),
                };
                format!(
                    "the rate is as measured, {}/{}{runs}: {rate} % (it may be {})",
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
            "see it at least once",
            stats::runs_to_see_one(rate, 1.0 - alpha),
        );
        if let Some(base) = &self.baseline {
            let least = stats::clopper_pearson(base.failures, base.trials, alpha).lo;
            table.exact(
                &format!("  if the rate is {} % only", words::percent(least)),
                stats::runs_to_see_one(least, 1.0 - alpha),
            );
        }
        table.exact(
            &format!("know the rate within {} points", words::percent(width)),
            stats::runs_for_width(rate, width, alpha),
        );
        let failures = stats::cheapest_baseline(alpha);
        table.mean(
            &format!("measure a baseline: until {failures} failures"),
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
        table.exact("confirm a fix: all clean", clean);
        table.exact("  and exclude one that only halves the rate", half);
        if let Some(clean) = clean {
            table.mean(
                "  until it is known that it is none",
                stats::confirm_mean_runs(rate, clean),
            );
        }
        for (what, other) in [
            ("compare with a variant that never fails", 0.0),
            ("  with one that fails a tenth as often", rate / 10.0),
            ("  with one that fails half as often", rate / 2.0),
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
            &format!("find which one of {variants} variants does not fail"),
            race,
        );
        // The search begins with a baseline of its own.
        let channel = Channel { p: rate, q: 0.0 };
        let search = real(failures) / rate + bisect_runs(versions, &channel, false, alpha);
        table.mean(
            &format!("find the first of {versions} versions that fails"),
            search,
        );
        if search >= LONG_SEARCH {
            let hint =
                "  bisect --raise-rate first looks for a setting under which it fails more often";
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
        let text = trials.map_or("no number".to_owned(), |trials| {
            words::plural(trials, "trial")
        });
        self.row(what, &text, trials);
    }

    /// Adds a number that it takes on average.
    fn mean(&mut self, what: &str, trials: f64) {
        let text = if trials.is_finite() {
            format!("about {}", words::plural(stats::whole(trials), "trial"))
        } else {
            "no number".to_owned()
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
        let _ = writeln!(self.out, "  {what:<52} {text:>18}{time}");
    }
}
