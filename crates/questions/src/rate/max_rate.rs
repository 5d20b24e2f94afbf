//! Decides whether the failure rate is at most the allowed one (`--max-rate`).

use super::cases::{CaseBounds, case_bounds, compares_cases};
use super::policy::rate_bounds;
use crate::answer::{counts_of_all, variant_rates};
use crate::{
    AnswerText, DescribedVariants, RateMeaning, StopRule, VariantSummary, Verdict, policy_of,
};
use provoke_model::{ExpectedResult, VariantId};
use provoke_state::{State, Tally};
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::document::Table;
use serde::Serialize;

/// Maximum number of trials that is suggested.
const MAX_MISSING: u64 = 10_000_000;

/// The failure rate compared with the allowed one.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MaxRateCheck {
    /// The comparison in one sentence.
    pub sentence: String,
    /// The allowed rate.
    pub allowed: f64,
    /// One-sided lower bound of the rate, of the variant that failed most.
    pub at_least: f64,
    /// One-sided upper bound of the rate, of the variant that failed most.
    pub at_most: f64,
    /// The number of trials that would decide it if no more of them fail; null if it is decided, or if no number would.
    pub trials_to_pass: Option<u64>,
}

impl MaxRateCheck {
    /// Compares the rates of all variants; returns `None` without a maximum rate.
    pub fn new(state: &State, verdict: Verdict) -> Option<Self> {
        let ExpectedResult::MaxRate(millionths) = state.goal.expect else {
            return None;
        };
        let alpha = state.goal.alpha.to_probability();
        if compares_cases(&state.trials) {
            return Some(Self::of_cases(state, verdict, f64::from(millionths) / 1e6));
        }
        let bounds = |(id, tally): (VariantId, &Tally)| {
            let rule = policy_of(state).stop_rule(state, id);
            rate_bounds(state, rule, tally)
        };
        let (id, tally) = state
            .all_tallies()
            .max_by(|a, b| bounds(*a).hi.total_cmp(&bounds(*b).hi))?;
        let ends = bounds((id, tally));
        let allowed = f64::from(millionths) / 1e6;
        let mut check = Self {
            sentence: String::new(),
            allowed,
            at_least: ends.lo,
            at_most: ends.hi,
            trials_to_pass: (verdict == Verdict::Undecided)
                .then(|| trials_to_pass(tally, allowed, alpha))
                .flatten(),
        };
        let is_planned = policy_of(state).stop_rule(state, id) == StopRule::PlannedN;
        check.sentence = check.write_sentence(state, verdict, (id, tally), is_planned);
        Some(check)
    }

    /// Compares the rate of each test of the suite.
    fn of_cases(state: &State, verdict: Verdict, allowed: f64) -> Self {
        let alpha = state.goal.alpha.to_probability();
        let policy = policy_of(state);
        let tallies = state.all_tallies();
        let bounds: Vec<CaseBounds> = tallies
            .flat_map(|(id, tally)| case_bounds(policy.stop_rule(state, id), tally, alpha))
            .collect();
        let highest = |end: fn(&CaseBounds) -> f64| {
            let pairs = bounds.iter().max_by(|a, b| end(a).total_cmp(&end(b)));
            pairs.copied()
        };
        let worst = match verdict {
            Verdict::AboveMaxRate => highest(|bounds| bounds.rate.lo),
            _ => highest(|bounds| bounds.rate.hi),
        };
        let allowed_percent = words::format_percent(allowed);
        let confidence = state.goal.alpha.confidence_percent();
        let tests = words::format_count(bounds.len() as u64, "test");
        let describe = |bounds: &CaseBounds| {
            let name = state.case_names.name_of(bounds.number);
            let name = name.map_or_else(String::new, ToString::to_string);
            format!(
                "{} failed in {} of {}",
                words::sanitize_line(&name),
                bounds.failures,
                words::format_count(bounds.trials, "trial")
            )
        };
        let sentence = match (verdict, &worst) {
            (Verdict::AboveMaxRate, Some(worst)) => format!(
                "FAIL: {}, so its rate is at least {} % ({confidence} % confidence for all {tests}); {allowed_percent} % is allowed",
                describe(worst),
                words::percent_at_least(worst.rate.lo)
            ),
            (Verdict::BelowMaxRate, Some(worst)) => format!(
                "PASS: the rate of each of {tests} is at most {} % ({confidence} % confidence for all); {allowed_percent} % is allowed",
                words::percent_bound(worst.rate.hi)
            ),
            (Verdict::CouldNotTest, _) | (_, None) => {
                "NOT TESTED: no test of the suite ran".to_owned()
            }
            (_, Some(worst)) => {
                let open = bounds.iter().filter(|bounds| bounds.rate.hi > allowed);
                format!(
                    "UNDECIDED: {} of {tests} may be above {allowed_percent} % ({confidence} % confidence for all): {}",
                    open.count(),
                    describe(worst)
                )
            }
        };
        Self {
            sentence,
            allowed,
            at_least: worst.map_or(0.0, |worst| worst.rate.lo),
            at_most: worst.map_or(1.0, |worst| worst.rate.hi),
            trials_to_pass: None,
        }
    }

    fn write_sentence(
        &self,
        state: &State,
        verdict: Verdict,
        (id, tally): (VariantId, &Tally),
        is_planned: bool,
    ) -> String {
        let allowed = words::format_percent(self.allowed);
        let confidence = state.goal.alpha.confidence_percent();
        let name = match state.trials.variant_plan(id).display_label() {
            name if name.is_empty() => String::new(),
            name => format!("{}: ", words::sanitize_line(&name)),
        };
        let trials = words::format_count(tally.counted_trials(), "trial");
        let share = real(tally.failures) / real(tally.counted_trials().max(1));
        let share_text = match tally.failures {
            0 => String::new(),
            _ => format!(" ({} %)", words::format_percent(share)),
        };
        let counts_text = format!("{name}{} of {trials} failed{share_text}", tally.failures);
        let bound = if is_planned {
            format!("{confidence} % confidence")
        } else {
            format!("{confidence} % confidence, although the run could stop early")
        };
        match verdict {
            Verdict::BelowMaxRate => format!(
                "PASS: {counts_text}, so the rate is at most {} % ({bound}); {allowed} % is allowed{}",
                words::percent_bound(self.at_most),
                describe_earlier_checks(state)
            ),
            Verdict::AboveMaxRate => format!(
                "FAIL: {counts_text}, so the rate is at least {} % ({bound}); {allowed} % is allowed",
                words::percent_at_least(self.at_least)
            ),
            Verdict::CouldNotTest => "NOT TESTED: no trial was conclusive".to_owned(),
            _ => {
                let needed_text = match self.trials_to_pass {
                    Some(needed) => format!(
                        "; it passes after {needed} trials if no more of them fail (provoke resume -n {needed})"
                    ),
                    None => String::new(),
                };
                format!(
                    "UNDECIDED: {counts_text}, so the rate is at most {} % ({bound}); {allowed} % is allowed{needed_text}",
                    words::percent_bound(self.at_most)
                )
            }
        }
    }
}

impl AnswerText for MaxRateCheck {
    fn sentence(&self) -> &str {
        &self.sentence
    }

    fn detail_lines(&self) -> Vec<String> {
        Vec::new()
    }

    fn assumptions(&self) -> &[String] {
        &[]
    }

    fn tables(&self, variants: &[VariantSummary], _: f64) -> Vec<Table> {
        let allowed = words::format_percent(self.allowed);
        vec![Table {
            note: format!("Vertical line: the allowed rate of {allowed} %."),
            ..variant_rates(variants, Some(self.allowed))
        }]
    }

    fn result(&self, verdict: Verdict, variants: &[VariantSummary]) -> String {
        let word = match verdict {
            Verdict::BelowMaxRate => "PASS",
            Verdict::AboveMaxRate => "FAIL",
            _ => "UNDECIDED",
        };
        format!("{word} {}", counts_of_all(variants))
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("max-rate", "the failure rate is at most the maximum")
    }

    fn described_variants(&self) -> DescribedVariants {
        DescribedVariants::Each
    }

    fn rate_meaning(&self) -> RateMeaning {
        RateMeaning::Limited
    }

    fn allowed_rate(&self) -> Option<f64> {
        Some(self.allowed)
    }
}

/// Says how often one of several checks of the same program passes by chance.
fn describe_earlier_checks(state: &State) -> String {
    match state.goal.earlier_checks {
        0 => String::new(),
        earlier => {
            let checks = earlier + 1;
            let any_pass = (real(checks) * state.goal.alpha.to_probability()).min(1.0);
            format!(
                "; this is check {checks} of this program: one at the limit passes at least one of {checks} in up to {} % of cases",
                words::format_percent(any_pass)
            )
        }
    }
}

/// Returns the minimum number of trials with which the present number of failures is below the allowed rate, if the run is
/// resumed.
fn trials_to_pass(tally: &Tally, allowed: f64, alpha: f64) -> Option<u64> {
    let k = tally.failures;
    let is_enough = |passes| stats::bounds_at_any_time(k, k + passes, alpha).hi <= allowed;
    Some(k + stats::first_true(MAX_MISSING, is_enough)?)
}
