//! Forecasts how many trials each question takes.

use provoke_model::{Alpha, MeasuredBaseline};
use provoke_plan::RateValue;
use provoke_questions::StopRule;
use provoke_stats::search::{Channel, bisect_runs};
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::document::{Cell, Column, Document, Place, Row, Table, Tone};

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

/// The rows of the table so far.
struct ForecastRows<'a> {
    asked: &'a AskedForecast,
    rows: Vec<Row>,
}

impl ForecastRows<'_> {
    /// Adds a number that is sufficient; `None` if no number is.
    fn add_exact(&mut self, question: &str, trials: Option<u64>) {
        let text = trials.map_or("impossible".to_owned(), |trials| trials.to_string());
        self.add(question, text, trials);
    }

    /// Adds a mean number.
    fn add_mean(&mut self, question: &str, trials: f64) {
        if trials.is_finite() {
            let trials = stats::whole(trials);
            self.add(question, format!("about {trials}"), Some(trials));
        } else {
            self.add_exact(question, None);
        }
    }

    fn add(&mut self, question: &str, text: String, trials: Option<u64>) {
        let time =
            trials
                .zip(self.asked.trial_seconds)
                .map_or(String::new(), |(trials, seconds)| {
                    words::format_seconds(real(trials.div_ceil(self.asked.jobs)) * seconds)
                });
        let cells = [question.to_owned(), text, time];
        self.rows.push(Row::Cells(cells.map(Cell::text).to_vec()));
    }
}

/// From this number of trials on, a setting that raises the rate is suggested for a search.
const LONG_SEARCH: f64 = 150.0;

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

    /// Returns how many trials each question takes. `source` says which run gave the rate, if it was not named.
    pub fn document(&self, asked: &AskedForecast, source: Option<String>) -> Document {
        let uncertain = self.uncertain_rate().map(|rate| {
            let rate = words::format_percent(rate);
            format!("if you know that the rate is {rate} %, fewer are enough: --rate {rate}%")
        });
        let confidence = self.confidence.confidence_percent();
        Document {
            headline: self.describe_basis(),
            facts: source
                .into_iter()
                .chain(uncertain)
                .chain([describe_trial_time(asked)])
                .collect(),
            tables: vec![self.table(asked)],
            assumptions: vec![format!(
                "independent trials and a constant failure rate; {confidence} % confidence"
            )],
            ..Document::default()
        }
    }

    /// Returns the measured rate, if it comes from counts with so few failures that a known rate takes far fewer trials.
    fn uncertain_rate(&self) -> Option<f64> {
        let base = self.baseline.as_ref()?;
        let is_uncertain = base.run.is_none() && (1..=FEW_FAILURES).contains(&base.failures);
        is_uncertain.then_some(self.rate)
    }

    /// Describes the source of the rate.
    fn describe_basis(&self) -> String {
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
                    words::format_interval(within.ends())
                )
            }
        }
    }

    /// Returns the questions with their numbers of trials, and the time if that of a trial is known.
    fn table(&self, question: &AskedForecast) -> Table {
        let (variants, versions) = (question.variants, question.versions);
        let mut rows = ForecastRows {
            asked: question,
            rows: Vec::new(),
        };
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
            let levels = stats::ComparisonLevels::with_planned_look(alpha);
            let pairs = stats::pairs_to_tell(rate, other, levels, POWER);
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
        if self.bisection_trials(versions) >= LONG_SEARCH {
            let hint = "`bisect --raise-rate` first looks for a setting with more failures";
            rows.rows.push(Row::Note(hint.to_owned(), Tone::Plain));
        }
        let columns = vec![
            Column::sentences(""),
            Column::numbers("trials"),
            Column::numbers("time"),
        ];
        let mut table = Table::new("Trials of each question", Place::Screen, columns);
        table.rows = rows.rows;
        table
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
    fn bisection_trials(&self, versions: u64) -> f64 {
        let (rate, alpha) = (self.rate, self.confidence.to_probability());
        let channel = Channel { p: rate, q: 0.0 };
        real(stats::cheapest_baseline(alpha)) / rate + bisect_runs(versions, &channel, false, alpha)
    }
}

fn describe_trial_time(asked: &AskedForecast) -> String {
    let Some(seconds) = asked.trial_seconds else {
        return "add --time to see how long the trials take".to_owned();
    };
    let seconds = words::format_seconds(seconds);
    match asked.jobs {
        1 => format!("a trial takes {seconds}"),
        jobs => format!("a trial takes {seconds}, also with {jobs} parallel trials"),
    }
}
