//! Patterns that select cases by their names.

use super::CaseName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A pattern for the names of cases, in which a `*` stands for any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CasePattern(String);

impl CasePattern {
    /// Creates a pattern from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name that the pattern stands for, if it contains no `*`.
    pub fn exact_name(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(&*self.0)
    }

    /// Returns whether the pattern matches a text.
    pub fn matches_text(&self, text: &str) -> bool {
        matches_text(&self.0, text)
    }

    /// Returns whether the pattern matches the full name of a case, or its name within its suite.
    pub fn matches_case(&self, case: &CaseName) -> bool {
        matches_text(&self.0, &case.to_string()) || matches_text(&self.0, &case.name)
    }
}

impl fmt::Display for CasePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a text matches a pattern. The time is at most the product of the lengths.
fn matches_text(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first_part = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first_part) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last_part) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(suite: &str, name: &str) -> CaseName {
        CaseName {
            suite: suite.to_owned(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_star_stands_for_any_text_and_a_bracket_for_itself() {
        let id = case("", "tests/test_a.py::test_x[1-*a]");
        for matching in [
            "tests/test_a.py::test_x[1-*a]",
            "*",
            "*test_x*",
            "tests/*::test_x[*]",
            "*[1-*",
            "**a]",
        ] {
            assert!(CasePattern::new(matching).matches_case(&id), "{matching}");
        }
        for other in [
            "",
            "test_x",
            "*test_y*",
            "tests/*]x",
            "*[1-*a]*b",
            "tests/test_a.py",
        ] {
            assert!(!CasePattern::new(other).matches_case(&id), "{other}");
        }
        // The parts of a pattern must not overlap.
        assert!(!CasePattern::new("ab*ba").matches_case(&case("", "aba")));
    }

    #[test]
    fn a_pattern_may_leave_out_the_suite() {
        let id = case("dates", "parses");
        assert!(CasePattern::new("parses").matches_case(&id));
        assert!(CasePattern::new("dates::parses").matches_case(&id));
        assert!(!CasePattern::new("dates").matches_case(&id));
    }
}
