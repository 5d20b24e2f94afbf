//! Summarizes a run in one line of a list: question, result and failure.

use super::{Report, group_failures};
use provoke_model::{CompareGoal, LoadGoal, Site};
use provoke_questions::{
    Answer, Bisection, Comparison, FailureCounts, HuntReport, Reduction, Shrinking, Threshold,
    VariantVerdict, Verdict,
};
use provoke_state::State;
use provoke_words as words;

/// The cells of a line. Text of other programs in them is not escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing {
    /// The command of provoke for this question.
    pub asked: &'static str,
    /// The answer.
    pub verdict: Verdict,
    /// The answer in a few words.
    pub result: String,
    /// The most frequent failure; empty without failures.
    pub crash: String,
    /// The command of its trials.
    pub command: String,
}

impl RunListing {
    /// Derives the line from the state of a run.
    pub fn new(state: &State) -> Self {
        let report = Report::new(state, true);
        let result = result_text(&report);
        Self {
            asked: subcommand_name(state),
            verdict: report.verdict,
            result: if report.finished || report.same_deadlock {
                result
            } else {
                let result = result.trim_end_matches(" yet");
                format!("{} so far", result.trim_end_matches(" failed"))
            },
            crash: most_frequent_failure(&report),
            command: report.command,
        }
    }
}

fn subcommand_name(state: &State) -> &'static str {
    if state.trials.load.is_some() {
        "load"
    } else {
        provoke_questions::of(state).command()
    }
}

fn result_text(report: &Report) -> String {
    if report.verdict == Verdict::CouldNotTest {
        return "not tested".to_owned();
    }
    match &report.answer {
        None => format_rate(report),
        // The sentence begins with the answer in capitals.
        Some(Answer::Confirm(answer)) => {
            format!(
                "{} {}",
                leading_capitals(&answer.sentence),
                format_counts(report)
            )
        }
        Some(Answer::Compare(answer)) => compare_result(answer, report.verdict),
        Some(Answer::Bisect(answer)) => bisect_result(answer, report.verdict),
        Some(Answer::Reduce(answer)) => reduce_result(answer, report.verdict),
        Some(Answer::Ramp(answer)) => load_result(answer),
        Some(Answer::Shrink(answer)) => shrink_result(answer, report.verdict),
        Some(Answer::Hunt(answer)) => hunt_result(answer),
    }
}

/// Returns `3 of 100`: failures and trials of all variants.
fn format_counts(report: &Report) -> String {
    let trials: u64 = report.variants.iter().map(|variant| variant.trials).sum();
    let failures: u64 = report.variants.iter().map(|variant| variant.failures).sum();
    format!("{failures} of {trials}")
}

fn format_rate(report: &Report) -> String {
    let counts = format_counts(report);
    let mut loads = report
        .variants
        .iter()
        .filter_map(|variant| variant.load.as_ref());
    let refused = if loads.any(|load| load.refuses) {
        ", refused requests"
    } else {
        ""
    };
    match report.max_rate.as_ref().map(|_| report.verdict) {
        None => format!("{counts} failed{refused}"),
        Some(Verdict::BelowMaxRate) => format!("PASS {counts}"),
        Some(Verdict::AboveMaxRate) => format!("FAIL {counts}"),
        Some(_) => format!("UNDECIDED {counts}"),
    }
}

/// Returns the leading capitalized words of a sentence.
fn leading_capitals(sentence: &str) -> String {
    let all_words = sentence.split(' ');
    let is_in_capitals =
        |word: &&str| word.chars().any(char::is_uppercase) && *word == word.to_uppercase();
    let words: Vec<&str> = all_words.take_while(is_in_capitals).collect();
    words.join(" ").trim_end_matches(':').to_owned()
}

fn compare_result(answer: &Comparison, verdict: Verdict) -> String {
    if let Some(rule) = &answer.fails_where {
        return rule.replace(" and ", " ");
    }
    let fails: Vec<&str> = answer
        .variants
        .iter()
        .filter(|result| result.standing == VariantVerdict::Fails)
        .map(|result| result.name.as_str())
        .collect();
    match (answer.find, verdict, fails.as_slice()) {
        (CompareGoal::Different, Verdict::Different, _) => {
            let rates_differ = answer.contrasts.iter().any(|contrast| contrast.differs);
            if rates_differ {
                "rates differ"
            } else {
                "failures differ"
            }
            .to_owned()
        }
        (CompareGoal::Different, Verdict::NoDifference, _) => "no difference".to_owned(),
        (CompareGoal::Failing, _, [name]) => format!("{name} fails"),
        (CompareGoal::Failing, _, fails) if !fails.is_empty() => {
            if fails.len() == answer.variants.len() {
                "all fail".to_owned()
            } else {
                format!("{} fail", fails.join(", "))
            }
        }
        (CompareGoal::Failing, Verdict::Clean | Verdict::NoDifference, _) => {
            "none fails".to_owned()
        }
        _ => NOT_KNOWN.to_owned(),
    }
}

/// Result if the trials did not answer the question.
const NOT_KNOWN: &str = "not known yet";
/// Result if the failing variant did not fail.
const NOT_REPRODUCED: &str = "not reproduced";

fn bisect_result(answer: &Bisection, verdict: Verdict) -> String {
    match (verdict, answer.points.as_slice()) {
        (Verdict::Found, _) if answer.has_caveat() => {
            format!("{} (caveat)", answer.culprits.join(", "))
        }
        (Verdict::Found, _) => answer.culprits.join(", "),
        (Verdict::NotThere, [good, .., bad]) if good.failures > 0 && bad.failures > 0 => {
            "both ends fail".to_owned()
        }
        (Verdict::NotThere, _) => NOT_REPRODUCED.to_owned(),
        _ => NOT_KNOWN.to_owned(),
    }
}

fn reduce_result(answer: &Reduction, verdict: Verdict) -> String {
    let needed: Vec<&str> = answer
        .needed
        .iter()
        .flat_map(|item| &item.things)
        .map(|item| item_text(item))
        .collect();
    match verdict {
        Verdict::Found if needed.is_empty() => "no item is needed".to_owned(),
        Verdict::Found => needed.join(", "),
        Verdict::NotThere => NOT_REPRODUCED.to_owned(),
        _ => NOT_KNOWN.to_owned(),
    }
}

/// Returns the text of an item, without its line number: `import badlib` (line 4).
fn item_text(name: &str) -> &str {
    let text = name
        .strip_prefix('`')
        .and_then(|rest| rest.rsplit_once('`'));
    text.map_or(name, |(text, _)| text)
}

fn load_result(answer: &Threshold) -> String {
    let [fails, passes] = match answer.find {
        LoadGoal::Death => ["dies", "survives"],
        LoadGoal::Refusal => ["refuses or dies", "serves"],
    };
    let result = match (answer.fails_from, answer.clean_to) {
        (Some(clients), _) => format!("{fails} at {}", words::format_count(clients, "client")),
        (None, Some(clients)) => format!("{passes} {}", words::format_count(clients, "client")),
        (None, None) => NOT_KNOWN.to_owned(),
    };
    match &answer.refusals {
        Some(refusals) => format!("{result}, refuses at {}", refusals.from.clients),
        None => result,
    }
}

fn hunt_result(answer: &HuntReport) -> String {
    let in_words = |counts: FailureCounts| format!("{} of {}", counts.failures, counts.trials);
    match answer.held {
        Some(counts) => format!("{} failed under holds", in_words(counts)),
        None if answer.natural.failures > 0 => {
            format!("{} failed without a hold", in_words(answer.natural))
        }
        None => "no hold found".to_owned(),
    }
}

fn shrink_result(answer: &Shrinking, verdict: Verdict) -> String {
    match verdict {
        Verdict::Found => format!(
            "{}, {}",
            words::format_count(u64::from(answer.left.clients), "client"),
            words::format_count(answer.left.requests, "request"),
        ),
        Verdict::NotThere => NOT_REPRODUCED.to_owned(),
        _ => NOT_KNOWN.to_owned(),
    }
}

/// Returns the most frequent failure, with its line of source code if that is known.
fn most_frequent_failure(report: &Report) -> String {
    let groups: Vec<_> = report.variants.iter().flat_map(group_failures).collect();
    let bugs = groups.iter().filter(|group| group.signature.is_the_bug);
    let mut ids: Vec<(&str, usize)> = Vec::new();
    for group in bugs.clone() {
        let count = group.measured_trials().count();
        match ids.iter_mut().find(|(id, _)| *id == group.signature.id) {
            Some((_, sum)) => *sum += count,
            None => ids.push((&group.signature.id, count)),
        }
    }
    // Of equally frequent failures, the first.
    let most_frequent = ids.iter().rev().max_by_key(|(_, count)| *count);
    let Some(seen) =
        most_frequent.and_then(|(id, _)| bugs.clone().find(|group| group.signature.id == *id))
    else {
        return String::new();
    };
    let name = match Site::naming_site(&seen.signature.sites) {
        Some(site) => format!("{} {}", seen.signature.outcome, site.file_and_line()),
        None => seen.signature.title.clone(),
    };
    match ids.len() - 1 {
        0 => name,
        others => format!("{name} (+{others})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_in_capitals_is_the_result() {
        assert_eq!(leading_capitals("NOT YET: 5 passing trials"), "NOT YET");
        assert_eq!(leading_capitals("FIXED (95 %): 70 passing trials"), "FIXED");
        assert_eq!(leading_capitals("it does not"), "");
    }

    #[test]
    fn an_item_is_listed_without_its_line() {
        assert_eq!(item_text("`import badlib` (line 4)"), "import badlib");
        assert_eq!(item_text("-v"), "-v");
    }
}
