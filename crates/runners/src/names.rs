//! Names of cases that change from trial to trial.

use super::collector::merge_reports;
use provoke_model::{CaseName, TrialCases};
use std::collections::BTreeMap;

/// Removes parts of the names of cases, and joins the cases that then have the same name. The worst end counts.
pub fn join_names(mut cases: TrialCases, strip: impl Fn(&str) -> String) -> TrialCases {
    let results = cases.results.iter_mut().map(|result| &mut result.case);
    for case in cases.planned.iter_mut().flatten().chain(results) {
        case.name = strip(&case.name);
    }
    merge_reports([cases])
}

/// Names that occur in one trial each and differ only in numbers or addresses, so that they are probably one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnstableNames {
    /// The suite of the names.
    pub suite: String,
    /// The name with `*` for the parts that change.
    pub stem: String,
    /// The number of names.
    pub names: usize,
    /// A regular expression of the parts that change.
    pub pattern: String,
}

/// Parts of names that may change from trial to trial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum VariablePart {
    Address,
    Uuid,
    HexDigits,
    Number,
}

impl VariablePart {
    fn pattern(self) -> &'static str {
        match self {
            Self::Address => "0x[0-9a-fA-F]+",
            Self::Uuid => "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            Self::HexDigits => "[0-9a-fA-F]{8,}",
            Self::Number => "[0-9]+",
        }
    }
}

/// A name, split at the parts that may change.
struct SplitName<'a> {
    stem: String,
    parts: Vec<(VariablePart, &'a str)>,
}

/// Finds names that change from trial to trial, from all names of a run and the number of trials that have each.
///
/// A name counts if it occurs in a single trial although there are more, and if another name with the same stem does
/// too. The groups with the most names come first.
pub fn find_unstable_names<'a>(
    names: impl IntoIterator<Item = (&'a CaseName, u64)>,
    trials: u64,
) -> Vec<UnstableNames> {
    if trials < 2 {
        return Vec::new();
    }
    let mut groups: BTreeMap<(&str, String), Vec<(&str, SplitName<'_>)>> = BTreeMap::new();
    for (case, occurrences) in names {
        if occurrences == 1 {
            let split = split_name(&case.name);
            if !split.parts.is_empty() {
                let group = groups.entry((&case.suite, split.stem.clone()));
                group.or_default().push((&case.name, split));
            }
        }
    }
    let mut unstable: Vec<UnstableNames> = groups
        .into_iter()
        .filter(|(_, members)| members.len() > 1)
        .map(|((suite, stem), members)| UnstableNames {
            suite: suite.to_owned(),
            stem,
            names: members.len(),
            pattern: changing_pattern(&members),
        })
        .collect();
    unstable.sort_by_key(|group| std::cmp::Reverse(group.names));
    unstable
}

/// Returns a regular expression of the parts in which the names differ.
fn changing_pattern(members: &[(&str, SplitName<'_>)]) -> String {
    let first = &members[0].1.parts;
    let mut kinds: Vec<VariablePart> = first
        .iter()
        .enumerate()
        .filter(|(index, part)| {
            members
                .iter()
                .any(|(_, split)| split.parts.get(*index) != Some(part))
        })
        .map(|(_, (kind, _))| *kind)
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let patterns: Vec<&str> = kinds.into_iter().map(VariablePart::pattern).collect();
    patterns.join("|")
}

fn split_name(name: &str) -> SplitName<'_> {
    let mut split = SplitName {
        stem: String::new(),
        parts: Vec::new(),
    };
    let mut rest = name;
    let mut is_word_start = true;
    while let Some(c) = rest.chars().next() {
        // A part begins at a digit, or at a hexadecimal letter that does not continue a word.
        let part = if is_word_start || c.is_ascii_digit() {
            variable_part(rest)
        } else {
            None
        };
        let length = match part {
            Some((kind, length)) => {
                split.parts.push((kind, &rest[..length]));
                split.stem.push('*');
                length
            }
            None => {
                split.stem.push(c);
                c.len_utf8()
            }
        };
        is_word_start = !rest[..length].ends_with(|c: char| c.is_alphanumeric());
        rest = &rest[length..];
    }
    split
}

/// Returns the part that may change at the beginning of a text, and its length.
fn variable_part(text: &str) -> Option<(VariablePart, usize)> {
    let hex_length = |text: &str| text.bytes().take_while(u8::is_ascii_hexdigit).count();
    if let Some(digits) = text.strip_prefix("0x") {
        let length = hex_length(digits);
        return (length > 0).then_some((VariablePart::Address, length + 2));
    }
    if is_uuid(text) {
        return Some((VariablePart::Uuid, 36));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length = hex_length(text);
    let is_whole_word = !text[length..].starts_with(|c: char| c.is_alphanumeric());
    let has_digit = text[..length].bytes().any(|byte| byte.is_ascii_digit());
    if length >= 8 && is_whole_word && has_digit && digits < length {
        return Some((VariablePart::HexDigits, length));
    }
    (digits > 0).then_some((VariablePart::Number, digits))
}

fn is_uuid(text: &str) -> bool {
    let Some(uuid) = text.get(..36) else {
        return false;
    };
    uuid.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use provoke_model::{CaseEnd, CaseResult};

    #[test]
    fn runs_of_a_repeated_test_are_one_case() {
        let result = |name: &str, end| CaseResult {
            case: CaseName::without_suite(name),
            end,
            ..CaseResult::default()
        };
        let cases = TrialCases {
            results: vec![
                result("a[1-2]", CaseEnd::Failed),
                result("b", CaseEnd::Passed),
                result("a[2-2]", CaseEnd::Passed),
            ],
            ..TrialCases::default()
        };
        let joined = join_names(cases, |name| {
            name.trim_end_matches(|c| "[1-2]".contains(c)).to_owned()
        })
        .results;
        assert_eq!(joined.len(), 2);
        assert_eq!((joined[0].end, joined[0].attempts), (CaseEnd::Failed, 2));
    }

    fn unstable(names: &[(&str, u64)]) -> Vec<UnstableNames> {
        let names: Vec<(CaseName, u64)> = names
            .iter()
            .map(|(name, trials)| (CaseName::without_suite(*name), *trials))
            .collect();
        find_unstable_names(names.iter().map(|(case, trials)| (case, *trials)), 10)
    }

    #[test]
    fn names_that_occur_once_and_differ_in_an_address_are_unstable() {
        let groups = unstable(&[
            ("test_a[<object at 0x7f01>-1]", 1),
            ("test_a[<object at 0x7f02>-1]", 1),
            ("test_a[<object at 0x7faa>-1]", 1),
            ("test_stable[1]", 10),
            ("test_stable[2]", 10),
            ("test_new[5]", 1),
        ]);
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].stem, "test_a[<object at *>-*]");
        assert_eq!(groups[0].names, 3);
        assert_eq!(groups[0].pattern, "0x[0-9a-fA-F]+");
    }

    #[test]
    fn numbers_and_identifiers_are_parts_that_change() {
        for (first, second, stem, pattern) in [
            ("t[2026-11-24]", "t[2026-11-25]", "t[*-*-*]", "[0-9]+"),
            (
                "t[123e4567-e89b-12d3-a456-426614174000]",
                "t[00000000-0000-0000-0000-000000000000]",
                "t[*]",
                "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
            ),
            ("t[deadbeef01]", "t[0badcafe02]", "t[*]", "[0-9a-fA-F]{8,}"),
        ] {
            let groups = unstable(&[(first, 1), (second, 1)]);
            assert_eq!(groups.len(), 1, "{first}");
            assert_eq!((&*groups[0].stem, &*groups[0].pattern), (stem, pattern));
        }
        assert!(unstable(&[("test_decade", 1), ("test_facade", 1), ("é", 1)]).is_empty());
        let case = CaseName::without_suite("a1");
        assert!(find_unstable_names([(&case, 1), (&case, 1)], 1).is_empty());
    }
}
