//! Forecasts how many trials each question takes.

use provoke_model::{Alpha, MeasuredBaseline};
use provoke_plan::RateValue;
use provoke_questions::StopRule;
use provoke_stats::search::{Channel, bisect_runs};
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;

/// Power for which a comparison or a check of the rate is planned.
const POWER: f64 = 0.8;

/// The failure rate and other inputs of a forecast.
#[derive(Debug)]
pub struct TrialForecast {
    rate: f64,
    baseline: Option<MeasuredBaseline>,
    confidence: Alpha,
}

/// Parameters of a forecast.
#[derive(Clone, Copy, Debug)]
pub struct AskedForecast {
    /// Width of a confidence interval.
    pub width: Option<RateValue>,
    /// The rate that `--max-rate` allows.
    pub max_rate: Option<RateValue>,
    /// Number of tests of a suite that fail at this rate.
    pub cases: Option<u64>,
    /// Number of variants of which one does not fail.
    pub variants: u64,
    /// Number of versions of a bisection.
    pub versions: u64,
    /// Duration of a trial in seconds, if it is known.
    pub trial_seconds: Option<f64>,
    /// Number of parallel trials.
    pub jobs: u64,
}

/// A question, and its number of trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastRow {
    /// The question.
    pub question: String,
    /// The number of trials; `None` if no number is enough.
    pub trials: Option<u64>,
    /// Whether it is a mean number.
    pub is_mean: bool,
}

/// The rows so far.
#[derive(Default)]
struct ForecastRows(Vec<ForecastRow>);

impl ForecastRows {
    /// Adds a number that is sufficient.
    fn add_exact(&mut self, question: &str, trials: Option<u64>) {
        self.0.push(ForecastRow {
            question: question.to_owned(),
            trials,
            is_mean: false,
        });
    }

    /// Adds a mean number.
    fn add_mean(&mut self, question: &str, trials: f64) {
        self.0.push(ForecastRow {
            question: question.to_owned(),
            trials: trials.is_finite().then(|| stats::whole(trials)),
            is_mean: true,
        });
    }
}

/// Failures and trials under a hold that a hunt finds, assumed for the forecast: half of the trials fail.
const HELD_BASELINE: (u64, u64) = (30, 60);

/// Up to this number of failures, a baseline leaves the rate so uncertain that a known rate takes far fewer trials.
const FEW_FAILURES: u64 = 2;

impl TrialForecast {
    /// Begins a forecast for an assumed rate or a measured baseline.
    pub fn new(
        rate: Option<RateValue>,
        baseline: Option<MeasuredBaseline>,
        confidence: Alpha,
    ) -> Result<Self, Diagnostic> {
        let alpha = confidence.to_probability();
        let rate = match (rate, &baseline) {
            (Some(RateValue(millionths)), _) => f64::from(millionths) / 1e6,
            (None, Some(base)) if base.failures > 0 => real(base.failures) / real(base.trials),
            (None, base) => {
                let trials = base.as_ref().map_or(0, |base| base.trials);
                let bound = words::percent_bound(StopRule::PlannedN.interval(0, trials, alpha).hi);
                let message = format!(
                    "none of {trials} trials failed: the rate is below {bound} %, which is not enough to plan with"
                );
                return Err(Diagnostic::usage(message).with_hint(
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

    /// Returns the confidence in percent.
    pub fn confidence_percent(&self) -> f64 {
        self.confidence.confidence_percent()
    }

    /// Returns the measured rate, if it comes from counts with so few failures that a known rate takes far fewer trials.
    pub fn uncertain_rate(&self) -> Option<f64> {
        let base = self.baseline.as_ref()?;
        let is_uncertain = base.run.is_none() && (1..=FEW_FAILURES).contains(&base.failures);
        is_uncertain.then_some(self.rate)
    }

    /// Describes the source of the rate.
    pub fn describe_basis(&self) -> String {
        let rate = words::format_percent(self.rate);
        match &self.baseline {
            None => format!("It fails in {rate} % of trials (assumed)."),
            Some(base) => {
                let alpha = self.confidence.to_probability();
                let within = StopRule::PlannedN.interval(base.failures, base.trials, alpha);
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

    /// Returns the questions with their numbers of trials.
    pub fn rows(&self, question: &AskedForecast) -> Vec<ForecastRow> {
        let (variants, versions) = (question.variants, question.versions);
        let mut rows = ForecastRows::default();
        let (rate, alpha) = (self.rate, self.confidence.to_probability());
        rows.add_exact("see it once", stats::runs_to_see_one(rate, 1.0 - alpha));
        if let Some(base) = &self.baseline {
            let min = StopRule::PlannedN
                .interval(base.failures, base.trials, alpha)
                .lo;
            rows.add_exact(
                &format!(
                    "  if the true rate is the lower limit, {} %",
                    words::percent_at_least(min)
                ),
                stats::runs_to_see_one(min, 1.0 - alpha),
            );
        }
        if let Some(cases) = question.cases {
            rows.add_exact(
                &format!(
                    "see each of {} fail at this rate",
                    words::format_count(cases, "test")
                ),
                stats::cases::runs_to_see_every(cases, rate, 1.0 - alpha),
            );
            rows.add_exact(
                &format!(
                    "confirm a fix of one of {} that was selected by its failures",
                    words::format_count(cases, "test")
                ),
                stats::clean_runs_at_known_rate(rate, alpha / real(cases)),
            );
        }
        if let Some(RateValue(millionths)) = question.max_rate {
            let allowed = f64::from(millionths) / 1e6;
            let result = if rate < allowed { "PASS" } else { "FAIL" };
            let allowed_percent = words::format_percent(allowed);
            rows.add_exact(
                &format!("{result} with --max-rate {allowed_percent}%, in 80 % of cases"),
                stats::runs_to_check_rate(rate, allowed, alpha, POWER),
            );
        }
        if let Some(RateValue(millionths)) = question.width {
            let width = f64::from(millionths) / 1e6;
            rows.add_exact(
                &format!(
                    "measure the rate: interval {} points wide",
                    words::format_percent(width)
                ),
                stats::runs_for_width(rate, width, alpha),
            );
        }
        let failures = stats::cheapest_baseline(alpha);
        rows.add_mean(
            &format!("get a baseline: {failures} failures"),
            real(failures) / rate,
        );
        self.add_confirm_rows(&mut rows);
        for (title, other) in [
            ("compare with a variant that never fails", 0.0),
            ("  that fails a tenth as often", rate / 10.0),
            ("  that fails half as often", rate / 2.0),
        ] {
            let pairs = stats::pairs_to_tell(rate, other, alpha, POWER);
            rows.add_exact(title, pairs.map(|pairs| pairs.saturating_mul(2)));
        }
        let race = match &self.baseline {
            None => stats::race_runs_measured(rate, variants, alpha),
            Some(base) => {
                let ((k, n), effect) = (base.counts_of_all_bugs(), base.design_effect());
                stats::race_runs_against(k, n, effect, variants, alpha)
            }
        };
        rows.add_mean(
            &format!("find the good one of {variants} variants (--variants)"),
            race,
        );
        rows.add_mean(
            &format!("find the first bad of {versions} versions (--versions)"),
            self.bisection_trials(versions),
        );
        rows.0
    }

    /// Adds the numbers of passing trials after which `confirm` decides.
    fn add_confirm_rows(&self, rows: &mut ForecastRows) {
        let (rate, alpha) = (self.rate, self.confidence.to_probability());
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
        rows.add_exact("confirm a fix: PROBABLY FIXED after", clean);
        rows.add_exact("  FIXED (also excludes half the rate) after", half);
        let (failures, trials) = HELD_BASELINE;
        let held_trials = stats::clean_runs_to_exclude_half(failures, trials, 1.0, alpha);
        if held_trials
            .zip(half)
            .is_none_or(|(held, plain)| held < plain)
        {
            rows.add_exact("  FIXED, if `hunt` makes half of trials fail", held_trials);
        }
    }

    /// Returns the mean number of trials of a bisection, which begins with its own baseline.
    pub fn bisection_trials(&self, versions: u64) -> f64 {
        let (rate, alpha) = (self.rate, self.confidence.to_probability());
        let channel = Channel { p: rate, q: 0.0 };
        real(stats::cheapest_baseline(alpha)) / rate + bisect_runs(versions, &channel, false, alpha)
    }
}
