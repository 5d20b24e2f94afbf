//! Describes the facts that distinguish failing from passing runs or variants.

use super::DistinguishingFact;
use provoke_stats::fisher;
use provoke_words as words;
use std::collections::BTreeSet;

/// A line about facts that distinguish the same runs.
pub struct DistinguishingLine<'a> {
    /// Text of the line.
    pub text: String,
    /// Why the facts may matter, if a reason is known.
    pub note: Option<&'a str>,
}

/// Returns one line for all facts that can share it, each with at most `max` names or values.
pub fn fact_lines(facts: &[DistinguishingFact], max: usize) -> Vec<DistinguishingLine<'_>> {
    let alike = facts.chunk_by(says_the_same_as);
    let line = |alike: &'_ [DistinguishingFact]| {
        let names = alike.iter().map(|fact| words::sanitize_line(&fact.name));
        let names = join_some(names.collect(), max, " ", " and ");
        let verb = if alike.len() == 1 { "is" } else { "are" };
        let (title, so) = (alike[0].group.title(), describe_values(&alike[0], max));
        format!("{title}: {names} {verb} {so}")
    };
    alike
        .map(|alike| DistinguishingLine {
            text: line(alike),
            note: alike[0].note.as_deref(),
        })
        .collect()
}

/// Returns the probability that a fact shared by this many belongs to exactly the failing ones by chance.
pub fn chance_of_coincidence(failing: u64, passing: u64) -> f64 {
    fisher(failing, failing, 0, passing).greater
}

/// Describes the significance of the facts, if this many failed.
pub fn describe_odds(noun: &str, failing: u64, passing: u64) -> String {
    let failing_text = words::format_count(failing, noun);
    let condition = match failing {
        1 => format!("exactly {failing_text} has"),
        _ => format!("exactly these {failing_text} have"),
    };
    format!(
        "{failing} of {} failed; a fact that {condition} occurs by chance in {} % of cases",
        words::format_count(failing + passing, noun),
        words::format_percent(chance_of_coincidence(failing, passing)),
    )
}

/// Returns whether one line can contain both facts.
fn says_the_same_as(a: &DistinguishingFact, b: &DistinguishingFact) -> bool {
    a.group == b.group && a.failing == b.failing && a.others == b.others && a.note == b.note
}

/// Describes the value in failing cases and the value elsewhere.
fn describe_values(fact: &DistinguishingFact, max: usize) -> String {
    let absent = BTreeSet::from([None]);
    let present = BTreeSet::from([Some("there".to_owned())]);
    match (&fact.failing, &fact.others) {
        (failing, passing) if *failing == absent && *passing == present => "absent".to_owned(),
        (failing, passing) if *failing == present && *passing == absent => "present".to_owned(),
        (failing, passing) => {
            format!(
                "{}; elsewhere {}",
                list_values(failing, max),
                list_values(passing, max)
            )
        }
    }
}

fn list_values(values: &BTreeSet<Option<String>>, max: usize) -> String {
    let values = values.iter().map(|value| match value {
        None => "absent".to_owned(),
        Some(value) if value.is_empty() => "empty".to_owned(),
        Some(value) => words::sanitize_line(value),
    });
    join_some(values.collect(), max, " or ", " or ")
}

/// Joins at most `max` texts, and adds how many more there are.
fn join_some(mut texts: Vec<String>, max: usize, separator: &str, last: &str) -> String {
    let rest = texts.len().saturating_sub(max);
    texts.truncate(max);
    let joined = texts.join(separator);
    match rest {
        0 => joined,
        rest => format!("{joined}{last}{rest} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FactGroup;

    fn fact(
        group: FactGroup,
        name: &str,
        failing: &[Option<&str>],
        others: &[Option<&str>],
    ) -> DistinguishingFact {
        let values = |all: &[Option<&str>]| all.iter().map(|one| one.map(str::to_owned)).collect();
        DistinguishingFact {
            group,
            name: name.to_owned(),
            failing: values(failing),
            others: values(others),
            note: None,
        }
    }

    #[test]
    fn facts_with_equal_values_share_a_line() {
        let flag = |name| fact(FactGroup::Processor, name, &[None], &[Some("there")]);
        let others = [Some("2.0"), Some("2.1"), Some("2.2")];
        let by = [
            fact(FactGroup::Package, "python.numpy", &[Some("1.0")], &others),
            flag("avx2"),
            flag("bmi1"),
            flag("fma"),
        ];
        let lines_of = |most| -> Vec<String> {
            fact_lines(&by, most)
                .into_iter()
                .map(|line| line.text)
                .collect()
        };
        let expected = [
            "packages: python.numpy is 1.0; elsewhere 2.0 or 2.1 or 2.2",
            "processor: avx2 bmi1 fma are absent",
        ];
        assert_eq!(lines_of(3), expected);
        let expected = [
            "packages: python.numpy is 1.0; elsewhere 2.0 or 2.1 or 1 more",
            "processor: avx2 bmi1 and 1 more are absent",
        ];
        assert_eq!(lines_of(2), expected);
    }

    #[test]
    fn a_fact_distinguishing_two_variants_occurs_by_chance_in_50_percent() {
        assert_eq!(
            describe_odds("variant", 1, 1),
            "1 of 2 variants failed; a fact that exactly 1 variant has occurs by chance in 50 % of cases"
        );
    }
}
