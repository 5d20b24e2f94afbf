//! Describes the facts that distinguish failing from passing runs or variants.

use super::DistinguishingFact;
use crate::words;
use provoke_stats::fisher;
use std::collections::BTreeSet;

/// A line about facts that distinguish the same runs.
pub struct DistinguishingLine<'a> {
    /// Text of the line.
    pub text: String,
    /// Why the facts may matter, if a reason is known.
    pub note: Option<&'a str>,
}

/// Returns one line for all facts that can share it, each with at most `most` names or values.
pub fn fact_lines(by: &[DistinguishingFact], most: usize) -> Vec<DistinguishingLine<'_>> {
    let alike = by.chunk_by(is_told_with);
    let line = |alike: &'_ [DistinguishingFact]| {
        let names = alike.iter().map(|one| words::sanitize_line(&one.name));
        let names = join_some(names.collect(), most, " ", " and ");
        let verb = if alike.len() == 1 { "is" } else { "are" };
        let (title, so) = (alike[0].group.title(), describe_values(&alike[0], most));
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
pub fn chance_of_coincidence(failing: u64, others: u64) -> f64 {
    fisher(failing, failing, 0, others).greater
}

/// Describes the significance of the facts, if this many failed.
pub fn describe_odds(what: &str, failing: u64, others: u64) -> String {
    let some = words::format_count(failing, what);
    let given = match failing {
        1 => format!("exactly {some} has"),
        _ => format!("exactly these {some} have"),
    };
    format!(
        "{failing} of {} failed; a fact that {given} occurs by chance in {} % of cases",
        words::format_count(failing + others, what),
        words::format_percent(chance_of_coincidence(failing, others)),
    )
}

/// Returns whether one line can contain both facts.
fn is_told_with(a: &DistinguishingFact, b: &DistinguishingFact) -> bool {
    a.group == b.group && a.failing == b.failing && a.others == b.others && a.note == b.note
}

/// Describes the value in failing cases and the value elsewhere.
fn describe_values(one: &DistinguishingFact, most: usize) -> String {
    let nothing = BTreeSet::from([None]);
    let there = BTreeSet::from([Some("there".to_owned())]);
    match (&one.failing, &one.others) {
        (failing, others) if *failing == nothing && *others == there => "absent".to_owned(),
        (failing, others) if *failing == there && *others == nothing => "present".to_owned(),
        (failing, others) => {
            format!(
                "{}; elsewhere {}",
                list_values(failing, most),
                list_values(others, most)
            )
        }
    }
}

fn list_values(values: &BTreeSet<Option<String>>, most: usize) -> String {
    let values = values.iter().map(|value| match value {
        None => "absent".to_owned(),
        Some(value) if value.is_empty() => "empty".to_owned(),
        Some(value) => words::sanitize_line(value),
    });
    join_some(values.collect(), most, " or ", " or ")
}

/// Joins at most `most` texts, and adds how many more there are.
fn join_some(mut all: Vec<String>, most: usize, between: &str, last: &str) -> String {
    let rest = all.len().saturating_sub(most);
    all.truncate(most);
    let all = all.join(between);
    match rest {
        0 => all,
        rest => format!("{all}{last}{rest} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::FactGroup;

    fn parting(
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
    fn what_parts_alike_is_said_at_once() {
        let flag = |name| parting(FactGroup::Processor, name, &[None], &[Some("there")]);
        let others = [Some("2.0"), Some("2.1"), Some("2.2")];
        let by = [
            parting(FactGroup::Package, "python.numpy", &[Some("1.0")], &others),
            flag("avx2"),
            flag("bmi1"),
            flag("fma"),
        ];
        let said = |most| -> Vec<String> {
            fact_lines(&by, most)
                .into_iter()
                .map(|line| line.text)
                .collect()
        };
        let expected = [
            "packages: python.numpy is 1.0; elsewhere 2.0 or 2.1 or 2.2",
            "processor: avx2 bmi1 fma are absent",
        ];
        assert_eq!(said(3), expected);
        let expected = [
            "packages: python.numpy is 1.0; elsewhere 2.0 or 2.1 or 1 more",
            "processor: avx2 bmi1 and 1 more are absent",
        ];
        assert_eq!(said(2), expected);
    }

    #[test]
    fn what_parts_two_is_chance_in_half_of_all_cases() {
        assert_eq!(
            describe_odds("variant", 1, 1),
            "1 of 2 variants failed; a fact that exactly 1 variant has occurs by chance in 50 % of cases"
        );
    }
}
