//! What is searched: an ordered list of which the first is good and the last one bad.

use super::plan::{History, Refusal, refuse};
use super::{Ask, Numbers, Scenario};
use std::collections::BTreeSet;

/// Places after the good end: each is a variant of the plan.
const MOST_POINTS: usize = 100_000;

impl Scenario {
    /// True where the first of an ordered list is searched that fails.
    pub(super) fn is_a_search(&self) -> bool {
        self.ask == Some(Ask::Bisect)
    }

    /// Returns what is searched, in order, each with what it is, where its name does not say it.
    pub(super) fn points(
        &self,
        history: Option<&History>,
    ) -> Result<Vec<(String, Option<String>)>, Refusal> {
        if let Some(history) = history {
            if !self.over.is_empty() || self.range.is_some() {
                return Err(refuse(
                    "there are both commits and a list",
                    &["git"],
                    "give one of the two",
                ));
            }
            let commits = history.commits.iter();
            return Ok(commits
                .map(|(hash, about)| (hash.clone(), Some(about.clone())))
                .collect());
        }
        if self.build.is_some() {
            return Err(refuse(
                "`build` is for commits, and there are none",
                &["build"],
                "a `setup` that holds `{variant}` is run for each of a list",
            ));
        }
        let points = self.listed()?.into_iter();
        Ok(points.map(|point| (point, None)).collect())
    }

    /// Returns what was listed.
    fn listed(&self) -> Result<Vec<String>, Refusal> {
        if !self.variants.is_empty() || !self.matrix.0.is_empty() {
            let field = if self.variants.is_empty() {
                "matrix"
            } else {
                "variant"
            };
            return Err(refuse(
                "a search goes along one list, and these are variants of another kind",
                &[field],
                "leave them out, or compare them: `provoke compare`",
            ));
        }
        let (field, points) = match (self.over.as_slice(), self.range) {
            ([], None) => {
                return Err(refuse(
                    "there is nothing to search",
                    &["over"],
                    "say what `{variant}` stands for: --over v1,v2,v3, --range 1..64, or --git v1.0..main",
                ));
            }
            ([_, ..], Some(_)) => {
                return Err(refuse(
                    "there are both a list and a range",
                    &["range"],
                    "give one of the two",
                ));
            }
            (over, None) => ("over", over.to_vec()),
            (_, Some(Numbers(first, last))) => {
                let most = first.saturating_add(MOST_POINTS as u64);
                let points = (first..=last.min(most)).map(|number| number.to_string());
                ("range", points.collect())
            }
        };
        // And the good end.
        if points.len() > MOST_POINTS + 1 {
            return Err(refuse(
                format!("more than {MOST_POINTS} cannot be searched"),
                &[field],
                "narrow it down first",
            ));
        }
        if points.len() < 2 {
            return Err(refuse(
                "a search needs two ends",
                &[field],
                "the first is good, the last one bad",
            ));
        }
        if points.iter().any(String::is_empty) {
            return Err(refuse(
                "a place of the list has no name",
                &[field],
                "leave out the comma at its end, or the one too many",
            ));
        }
        let mut known = BTreeSet::new();
        if let Some(twice) = points.iter().find(|point| !known.insert(*point)) {
            return Err(refuse(
                format!("`{twice}` is there twice"),
                &[field],
                "each has one place in the order",
            ));
        }
        Ok(points)
    }
}
