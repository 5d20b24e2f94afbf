//! Answer of `differ`: what precedes the failure in failing trials only.

use super::memory::{DifferMemory, Recording};
use super::places::PathPlaceReport;
use super::statements::{DifferenceReport, Narrator, ObservedPoint};
use super::{DifferPolicy, Policy as _};
use crate::answer::{
    AnswerContext, AnswerText, NOT_KNOWN, RateMeaning, VariantSummary, independence_assumptions,
    rate_row, rate_table, sentence_and_assumptions,
};
use crate::{FailureCounts, StopRule, Verdict};
use provoke_model::VariantId;
use provoke_state::State;
use provoke_stats::Interval;
use provoke_stats::paths::{LOOKS, PathComparison, SecondCause};
use provoke_words as words;
use provoke_words::document::{Cell, Column, Figure, Place, SuggestedCommand, Table};
use provoke_words::untrusted::SafeText;
use serde::Serialize;

/// Differences that a table has at most.
const SHOWN: usize = 20;

/// What failing trials do differently, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DifferAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The difference that comes first among the clearest ones; null if none precedes the failure.
    pub lead: Option<DifferenceReport>,
    /// What precedes the failure in the failing trials in which the lead is not true.
    pub second: Option<DifferenceReport>,
    /// Where failing trials begin their way to the failure.
    pub failure_path: Option<FailurePathReport>,
    /// Points whose observation changes the failure rate.
    pub observed_points: Vec<ObservedPoint>,
    /// All significant differences, the lead first.
    pub differences: Vec<DifferenceReport>,
    /// Tested differences that chance may explain, the least likely first; at most 20.
    pub not_significant: Vec<DifferenceReport>,
    /// Number of differences that were tested.
    pub tests: u64,
    /// Whether some differences were not tested because there were too many.
    pub is_limited: bool,
    /// Trials that were not observed.
    pub plain: FailureCounts,
    /// Trials in which all points were observed.
    pub observed: FailureCounts,
    /// Trials in which a random half of the points was observed.
    pub half_observed: FailureCounts,
    /// Whether only the entries of functions were observed in the compared trials, because everything else takes too long, or
    /// decides how trials end.
    pub only_functions: bool,
    /// Earlier trials in which everything was observed, if nearly all of them failed or passed, and plain ones did not.
    pub ended_alike: Option<FailureCounts>,
    /// Trials in which only the entries of functions were observed, to choose those whose blocks were observed in later
    /// trials; null if all trials are of one kind.
    pub functions_observed: Option<FailureCounts>,
    /// Number of functions whose blocks were observed in the later trials.
    pub inside_functions: u64,
    /// Whether threads were held in all trials; arrivals where they were held are not observed.
    pub is_held: bool,
    /// Why the program could not be observed.
    pub refused: Option<String>,
    /// Probability that an answer names a difference although there is none.
    pub error_rate: f64,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// Where failing trials leave the way of passing ones.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailurePathReport {
    /// The point.
    pub place: PathPlaceReport,
    /// The function that it calls, from which failing trials do not return.
    pub calls: Option<PathPlaceReport>,
    /// Failing trials that end there.
    pub trials: u64,
}

impl DifferAnswer {
    pub(super) fn new(state: &State, context: &AnswerContext<'_>) -> Option<Self> {
        let memory: &DifferMemory = state.learned()?;
        let narrator = Narrator {
            points: &memory.points,
            source_line: context.source_line,
        };
        let comparison = memory.comparison();
        let tally = state.tally_of(VariantId(0));
        let mut answer = Self {
            sentence: String::new(),
            lead: comparison.and_then(|comparison| narrator.describe_lead(comparison)),
            second: comparison.and_then(|comparison| second_cause(&narrator, comparison)),
            failure_path: comparison.and_then(|comparison| {
                let path = comparison.failure_path.as_ref()?;
                Some(FailurePathReport {
                    place: narrator.place(path.point)?,
                    calls: path.callee.and_then(|callee| narrator.place(callee)),
                    trials: path.trials,
                })
            }),
            observed_points: comparison
                .map_or_else(Vec::new, |comparison| narrator.describe_arming(comparison)),
            differences: comparison.map_or_else(Vec::new, |comparison| {
                narrator.describe_groups(&comparison.groups, comparison)
            }),
            not_significant: comparison.map_or_else(Vec::new, |comparison| {
                narrator.describe_groups(&comparison.others, comparison)
            }),
            tests: comparison.map_or(0, |comparison| comparison.tests),
            is_limited: comparison.is_some_and(|comparison| comparison.is_limited),
            plain: FailureCounts::of_tally(tally),
            observed: memory.recorded(Recording::Full),
            half_observed: memory.recorded(Recording::Half),
            only_functions: memory.compares_functions(),
            ended_alike: memory.ended_alike(),
            functions_observed: memory.first_stage().map(|stage| stage.observed),
            inside_functions: memory.inside().len() as u64,
            is_held: state.trials.held.is_some(),
            refused: memory.refused().map(str::to_owned),
            error_rate: LOOKS.iter().map(|look| look.error).sum(),
            assumptions: independence_assumptions(state),
        };
        answer.sentence = answer.write_sentence(DifferPolicy.verdict_of(state));
        Some(answer)
    }

    fn write_sentence(&self, verdict: Verdict) -> String {
        let FailureCounts { failures, trials } = self.observed;
        if let Some(lead) = &self.lead {
            return format!(
                "Before the failure, in {} failing and {} passing trials: {}",
                lead.failing.in_words(),
                lead.passing.in_words(),
                lead.statement
            );
        }
        if let Some(reason) = &self.refused {
            return format!("NOT KNOWN: the program cannot be observed ({reason})");
        }
        let compared = format!(
            "{failures} failing and {} passing trials",
            trials - failures
        );
        match verdict {
            Verdict::CouldNotTest => "NOT TESTED: no trial was conclusive".to_owned(),
            Verdict::NotThere => format!(
                "NO DIFFERENCE before the failure: {} tested in {compared}",
                words::format_count(self.tests, "difference")
            ),
            _ if self.separating_difference().is_some() => {
                format!("NOT KNOWN: no difference before the failure in {compared}")
            }
            _ if self.tests > 0 => {
                format!("NOT KNOWN YET: no difference before the failure in {compared}")
            }
            _ if failures == 0 && self.plain.failures > 0 => format!(
                "NOT KNOWN: it never failed while it was observed ({trials} trials); plain, {} failed",
                self.plain.in_words()
            ),
            _ if failures > 0 && failures == trials => format!(
                "NOT KNOWN: all {trials} observed trials failed, so there is nothing to compare them with"
            ),
            _ => format!(
                "NOT KNOWN YET: {compared} while observed; about 5 and 20 are needed, and -d gives more time"
            ),
        }
    }

    /// Returns the difference on the way to the failure that is true in all failing trials and in no passing one. More
    /// trials would show it again.
    fn separating_difference(&self) -> Option<&DifferenceReport> {
        let mut after = self.differences.iter();
        after.find(|report| {
            let (failing, passing) = (report.failing, report.passing);
            report.is_after_failure && failing.count == failing.trials && passing.count == 0
        })
    }

    /// Returns a difference that distinguishes the trials better than the lead, which comes before it.
    fn clearer_difference(&self) -> Option<&DifferenceReport> {
        let lead = self.lead.as_ref()?;
        let before = self
            .differences
            .iter()
            .filter(|report| !report.is_after_failure);
        let clearer = before.filter(|report| {
            report.failing.count >= lead.failing.count && report.passing.count < lead.passing.count
        });
        clearer.min_by_key(|report| report.passing.count)
    }

    fn rates(&self) -> [(&'static str, FailureCounts); 3] {
        [
            ("without observation", self.plain),
            ("with all points observed", self.observed),
            ("with a random half of them", self.half_observed),
        ]
    }

    /// Says which points were observed, if not all.
    fn describe_stages(&self) -> Option<String> {
        let only_functions = match self.ended_alike {
            Some(earlier) => format!(
                "these trials observed only calls of functions: otherwise, {} failed",
                earlier.in_words()
            ),
            None => {
                "these trials observed only calls of functions: the program is too slow otherwise"
                    .to_owned()
            }
        };
        let Some(functions) = self.functions_observed else {
            return self.only_functions.then_some(only_functions);
        };
        if self.inside_functions == 0 && !self.only_functions {
            return None;
        }
        let chosen = words::format_count(self.inside_functions, "function");
        Some(if self.only_functions {
            format!(
                "{only_functions}; later ones, which also observed the blocks of {chosen}, show no difference so far"
            )
        } else {
            format!(
                "these trials observed the blocks of {chosen}, chosen after {} with calls of functions only",
                words::format_count(functions.trials, "other trial")
            )
        })
    }

    fn describe_failure_path(&self) -> Option<String> {
        let path = self.failure_path.as_ref()?;
        let calls = path.calls.as_ref();
        let callee = calls.map_or_else(String::new, |callee| {
            let name = callee.function.as_ref();
            let name = name.map_or_else(|| callee.place.clone(), |name| format!("{name}()"));
            format!(", which calls {name}")
        });
        Some(format!(
            "the failure itself begins at {}{callee}: no passing trial goes on in this way",
            path.place.with_function()
        ))
    }
}

/// Describes the difference in the failing trials that the lead does not cover.
fn second_cause(narrator: &Narrator<'_>, comparison: &PathComparison) -> Option<DifferenceReport> {
    let SecondCause {
        failing,
        passing,
        group,
        ..
    } = comparison.second.as_ref()?;
    narrator.describe_group(group, *failing, *passing)
}

impl AnswerText for DifferAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(lead) = &self.lead {
            let corrected = match self.tests {
                0 | 1 => String::new(),
                tests => format!(", corrected for {tests} tested differences"),
            };
            lines.push(words::p_value(lead.adjusted_p) + &corrected);
        }
        if let Some(clearer) = self.clearer_difference() {
            lines.push(format!(
                "also, in {} failing and {} passing trials: {}",
                clearer.failing.in_words(),
                clearer.passing.in_words(),
                clearer.statement
            ));
        }
        if self.lead.is_none()
            && let Some(after) = self.separating_difference()
        {
            lines.push(format!(
                "in failing trials only, {} ({}; passing trials: {})",
                after.statement,
                after.failing.in_words(),
                after.passing.in_words(),
            ));
        }
        let rates = self
            .rates()
            .into_iter()
            .filter(|(_, counts)| counts.trials > 0);
        let rates: Vec<String> = rates
            .map(|(name, counts)| {
                let share = words::format_percent(counts.rate());
                format!("{share} % {name} ({})", counts.in_words())
            })
            .collect();
        if !rates.is_empty() {
            lines.push(format!("failure rate: {}", rates.join(", ")));
        }
        if let Some(second) = &self.second {
            lines.push(format!(
                "in {} other failing and {} passing trials: {}",
                second.failing.in_words(),
                second.passing.in_words(),
                second.statement
            ));
        }
        lines.extend(self.describe_failure_path());
        for point in self.observed_points.iter().take(1) {
            let effect = if point.observed.rate() > point.not_observed.rate() {
                "raises"
            } else {
                "lowers"
            };
            lines.push(format!(
                "observing {} {effect} the failure rate: {} trials failed with it, {} without",
                point.place.with_function(),
                point.observed.in_words(),
                point.not_observed.in_words()
            ));
        }
        lines.extend(self.describe_stages());
        if self.is_held {
            lines
                .push("arrivals at the places where threads are held were not observed".to_owned());
        }
        if self.is_limited {
            lines.push("not all differences were tested: there are too many".to_owned());
        }
        lines
    }

    fn figures(&self) -> Vec<Figure> {
        let mut places: Vec<&PathPlaceReport> = Vec::new();
        for place in self.lead.iter().flat_map(|lead| &lead.places) {
            let is_same =
                |other: &&PathPlaceReport| (&other.file, other.line) == (&place.file, place.line);
            if place.text.is_some() && !places.iter().any(is_same) {
                places.push(place);
            }
        }
        let lines = places.iter().filter_map(|place| {
            let text = place.text.as_ref()?;
            Some(format!("{:>5} | {text}", place.line?))
        });
        let lines: Vec<String> = lines.collect();
        let title = "Source";
        (!lines.is_empty())
            .then_some(Figure { title, lines })
            .into_iter()
            .collect()
    }

    fn tables(&self, _: &[VariantSummary], _confidence: f64) -> Vec<Table> {
        let columns = || {
            vec![
                Column::sentences("difference"),
                Column::numbers("failing"),
                Column::numbers("passing"),
                Column::numbers("p"),
            ]
        };
        let row = |report: &DifferenceReport| {
            vec![
                Cell::text(words::capitalize_first(&report.statement)),
                Cell::text(report.failing.in_words()),
                Cell::text(report.passing.in_words()),
                Cell::text(words::p_value_cell(report.adjusted_p)),
            ]
        };
        let rows = |is_after: bool| {
            let differences = self.differences.iter();
            let chosen = differences.filter(move |report| report.is_after_failure == is_after);
            chosen.take(SHOWN).map(row)
        };
        let points = vec![
            Column::words("point"),
            Column::numbers("observed"),
            Column::numbers("not observed"),
            Column::numbers("p"),
        ];
        let point_rows = self.observed_points.iter().take(SHOWN).map(|point| {
            vec![
                Cell::text(point.place.with_function()),
                Cell::text(point.observed.in_words()),
                Cell::text(point.not_observed.in_words()),
                Cell::text(words::p_value_cell(point.adjusted_p)),
            ]
        });
        let interval = |counts: FailureCounts| {
            let alpha = self.error_rate;
            let of = |counts: FailureCounts| {
                StopRule::Decision.interval(counts.failures, counts.trials, alpha)
            };
            (counts.trials > 0).then(|| of(counts)).map(Interval::ends)
        };
        let rates = self
            .rates()
            .map(|(name, counts)| rate_row(name, counts, interval(counts)));
        vec![
            Table::new("Differences before the failure", Place::Page, columns())
                .with_rows(rows(false)),
            Table::new(
                "Differences on the way to the failure",
                Place::Details,
                columns(),
            )
            .with_rows(rows(true)),
            Table::new(
                "Differences that chance may explain",
                Place::Details,
                columns(),
            )
            .with_rows(self.not_significant.iter().map(row)),
            Table::new(
                "Points whose observation changes the rate",
                Place::Page,
                points,
            )
            .with_rows(point_rows),
            rate_table(rates.into_iter().flatten()),
        ]
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        match (&self.lead, verdict) {
            (Some(lead), _) => lead.statement.clone(),
            (None, Verdict::NotThere) => "no difference found".to_owned(),
            (None, _) => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("differ", "a difference before the failure is found")
    }

    fn rate_meaning(&self) -> RateMeaning {
        // The number of plain trials depends on how observed ones end.
        RateMeaning::Measured
    }

    fn commands(&self, run: &SafeText) -> Vec<SuggestedCommand> {
        let Some(lead) = &self.lead else {
            return Vec::new();
        };
        let mut commands = Vec::new();
        if lead.is_order {
            commands.push(SuggestedCommand::new(
                "try to force it",
                format!("provoke hunt --baseline {run}"),
            ));
        }
        commands.push(SuggestedCommand::new(
            "all differences",
            format!("provoke report {run} --md"),
        ));
        commands
    }
}

/// Describes how far the search is.
pub(super) fn describe_progress(state: &State) -> Option<String> {
    let memory: &DifferMemory = state.learned()?;
    let observed = memory.recorded(Recording::Full);
    Some(match observed.trials {
        0 => "runs without observation".to_owned(),
        _ => format!("observed: {} failed", observed.in_words()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::statements::TrueIn;
    use super::*;

    /// Returns an answer of which only a difference on the way to the failure is known.
    fn answer(passing: u64) -> DifferAnswer {
        let after = DifferenceReport {
            statement: "the program reached silent.py:5".to_owned(),
            places: Vec::new(),
            failing: TrueIn {
                count: 10,
                trials: 10,
            },
            passing: TrueIn {
                count: passing,
                trials: 29,
            },
            adjusted_p: 0.0001,
            score: 1.0,
            is_after_failure: true,
            same_trials: Vec::new(),
            is_order: false,
        };
        DifferAnswer {
            sentence: String::new(),
            lead: None,
            second: None,
            failure_path: None,
            observed_points: Vec::new(),
            differences: vec![after],
            not_significant: Vec::new(),
            tests: 1,
            is_limited: false,
            plain: FailureCounts::default(),
            observed: FailureCounts {
                failures: 10,
                trials: 39,
            },
            half_observed: FailureCounts::default(),
            only_functions: false,
            ended_alike: None,
            functions_observed: None,
            inside_functions: 0,
            is_held: false,
            refused: None,
            error_rate: 0.05,
            assumptions: Vec::new(),
        }
    }

    #[test]
    fn the_place_that_only_failing_trials_reach_is_named() {
        let known = answer(0);
        assert_eq!(
            known.write_sentence(Verdict::Undecided),
            "NOT KNOWN: no difference before the failure in 10 failing and 29 passing trials"
        );
        assert_eq!(
            known.detail_lines()[0],
            "in failing trials only, the program reached silent.py:5 (10 of 10; passing trials: 0 of 29)"
        );
        let vague = answer(3);
        let sentence = vague.write_sentence(Verdict::Undecided);
        assert!(sentence.starts_with("NOT KNOWN YET"), "{sentence}");
        assert!(!vague.detail_lines()[0].contains("silent.py"));
    }
}
