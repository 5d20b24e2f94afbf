//! Describes rates, verdicts and stop rules in words.

use super::{LoadTotals, Mtbf, Report, VariantReport};
use provoke_model::InconclusiveReason;
use provoke_questions::{StopRule, Verdict};
use provoke_words::{
    format_count, format_interval, format_seconds, percent_bound, percent_within, plural_of,
};

/// Returns the answer, or a sentence for the rate of each variant if the question was only the rate.
pub fn answer_sentences(report: &Report) -> Vec<String> {
    match &report.document {
        Some(document) => vec![document.headline.clone()],
        None => report
            .variants
            .iter()
            .map(|variant| {
                let load = variant.load.as_ref();
                let refusal = load.and_then(LoadTotals::refusal_clause);
                let refusal = refusal.map_or(String::new(), |clause| format!("; {clause}"));
                let headline = rate_headline(report, variant) + &refusal;
                match variant.name.as_str() {
                    "" => headline,
                    name => format!("{name}: {headline}"),
                }
            })
            .collect(),
    }
}

/// Describes the failure rate of a variant in one sentence, with its interval.
pub fn rate_headline(report: &Report, variant: &VariantReport) -> String {
    let rate = describe_rate(report, variant);
    match variant
        .void_reasons
        .get(&InconclusiveReason::UnknownFailure.to_string())
    {
        Some(unknown_failures) => format!("{rate}; {unknown_failures} more may be failures, too"),
        None => rate,
    }
}

fn describe_rate(report: &Report, variant: &VariantReport) -> String {
    let confidence = report.confidence;
    let (k, n) = (variant.failures, variant.trials);
    let rate = &variant.rate;
    if n == 0 {
        return describe_counts(variant) + ": the failure rate is not known";
    }
    let interval_text = format_interval(rate.interval());
    let wider = match variant.stop_rule {
        StopRule::User => ", wider because the run ended early",
        // The intervals of other questions are explained with their answers.
        _ if report.answer.is_some() => "",
        StopRule::PlannedN | StopRule::KthFailure => "",
        StopRule::Decision | StopRule::Spent => ", wider because the results may end the run",
        StopRule::Time => ", wider because the time ends the run",
    };
    match rate.point {
        None if k == 0 => {
            let bound = percent_bound(rate.interval()[1]);
            let counts = describe_counts(variant);
            format!("{counts}: rate below {bound} % ({confidence} % interval{wider})")
        }
        None => {
            let passes = plural_of(n - 1, "pass", "passes");
            format!("first failure after {passes}: rate {interval_text} ({confidence} % interval)")
        }
        Some(point) => {
            let point = percent_within(point, rate.interval());
            let counts = describe_counts(variant);
            format!("{counts}: {point} % ({confidence} % interval {interval_text}{wider})")
        }
    }
}

/// Returns `SIGSEGV in 3 of 100 trials`.
pub(super) fn describe_counts(variant: &VariantReport) -> String {
    if variant.trials == 0 {
        return "no trial was conclusive".to_owned();
    }
    let (failures, trials) = (variant.failures, format_count(variant.trials, "trial"));
    match only_outcome(variant) {
        Some(outcome) => format!("{outcome} in {failures} of {trials}"),
        None => format!("{failures} of {trials} failed"),
    }
}

/// Returns the name of the failures, if all have the same name.
fn only_outcome(variant: &VariantReport) -> Option<&str> {
    let mut bugs = variant.kinds.iter().filter(|kind| kind.is_the_bug);
    let first = bugs.next()?.outcome.as_str();
    bugs.all(|kind| kind.outcome == first).then_some(first)
}

/// Lists the uncounted trials, with a line for each reason, and the processes that were left behind.
pub fn uncounted_lines(variant: &VariantReport) -> Vec<String> {
    let mut lines = Vec::new();
    if variant.other > 0 {
        let trials = format_count(variant.other, "trial");
        lines.push(format!(
            "{trials} failed in another way: not the bug looked for, not counted"
        ));
    }
    for (reason, count) in &variant.void_reasons {
        lines.push(format!(
            "{} not counted: {reason}",
            format_count(*count, "trial")
        ));
    }
    if variant.leaked_processes > 0 {
        let leftovers = plural_of(variant.leaked_processes, "process", "processes");
        let action = match variant.unkillable_processes {
            0 => ", and killed",
            _ => "",
        };
        let trials = format_count(variant.leaking_trials, "trial");
        lines.push(format!("{leftovers} left behind in {trials}{action}"));
    }
    lines
}

/// Describes the failure rate per time if one failure takes longer than `longer_than`; `None` if it is not known.
pub fn describe_pace(mtbf: &Mtbf, longer_than: f64, confidence: f64) -> Option<String> {
    let (mean, high) = (mtbf.mean?, mtbf.high?);
    (mean > longer_than).then(|| {
        format!(
            "on average, one failure in {} of running time ({confidence} % interval {} to {})",
            format_seconds(mean),
            format_seconds(mtbf.low),
            format_seconds(high),
        )
    })
}

/// Returns a verdict in words.
pub(crate) fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "No failure seen",
        Verdict::Failing => "Failures seen",
        Verdict::BelowMaxRate => "Pass: not above the maximum rate",
        Verdict::AboveMaxRate => "Fail: above the maximum rate",
        Verdict::Fixed => "Fixed",
        Verdict::NotFixed => "Not fixed",
        Verdict::Different => "Variants differ",
        Verdict::NoDifference => "No difference found",
        Verdict::Found => "Found",
        Verdict::NotThere => "Nothing found",
        Verdict::Undecided => "Undecided",
        Verdict::CouldNotTest => "Not testable",
    }
}

/// Returns why trials ended, in words.
pub(crate) fn stop_rule_text(rule: StopRule) -> &'static str {
    match rule {
        StopRule::PlannedN => "all planned trials ran (-n)",
        StopRule::KthFailure => "the requested number of failures was seen (--max-fail)",
        StopRule::Decision => "the question was answered",
        StopRule::Spent => "the limit of trials was reached",
        StopRule::Time => "the time was up (-d)",
        StopRule::User => "it was interrupted, or is still running",
    }
}
