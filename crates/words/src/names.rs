//! Finds the names that mistyped names mean.

use crate::equivalents::SETTINGS;
use std::collections::BTreeSet;

/// Returns the intended name: another spelling, or the equivalent of another tool's name.
pub fn known_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<_> = names.into_iter().collect();
    let plain = plain_spelling(word);
    let same = |wanted: &str| names.iter().find(|name| **name == wanted).copied();
    same(&plain).or_else(|| same(SETTINGS.of_name(&plain)?))
}

/// Returns the probably intended name: like [`known_name`], or a name that the word abbreviates or misspells.
pub fn intended_name<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let names: Vec<_> = names.into_iter().collect();
    let plain = plain_spelling(word);
    let begins = |name: &&&str| name.starts_with(&plain) || plain.starts_with(**name);
    let long = |name: &&&str| plain.len() >= 3 && name.len() >= 3;
    known_name(word, names.iter().copied())
        .or_else(|| nearest_name(&plain, names.iter().copied()))
        .or_else(|| {
            let other = nearest_name(&plain, SETTINGS.names_of(&names))?;
            known_name(other, names.iter().copied())
        })
        .or_else(|| {
            let mut long = names.iter().filter(long);
            long.find(begins).copied()
        })
}

fn plain_spelling(word: &str) -> String {
    let word = word.trim_start_matches('-').to_ascii_lowercase();
    word.replace(['_', ' '], "-")
}

/// Returns the name with the fewest typing errors, if they are few for its length; of several, one in which letters
/// were only omitted.
pub fn nearest_name<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .filter_map(|name| Some((typing_errors(word, name)?, name)))
        .min_by_key(|(errors, name)| (*errors, !is_left_of(word, name)))
        .map(|(_, name)| name)
}

/// Returns whether two names are probably of versions of one thing: one begins with the other, or few letters differ.
pub fn is_similar_name(name: &str, other: &str) -> bool {
    name.starts_with(other) || other.starts_with(name) || typing_errors(name, other).is_some()
}

/// Returns the names with few typing errors, the nearest first, at most three.
pub fn nearest_names(word: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let near: BTreeSet<(usize, String)> = names
        .into_iter()
        .filter_map(|name| Some((typing_errors(word, &name)?, name)))
        .collect();
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// Returns the number of typing errors by which a word differs from a name, if they are few for its length.
fn typing_errors(word: &str, name: &str) -> Option<usize> {
    let errors = strsim::osa_distance(&word.to_ascii_lowercase(), &name.to_ascii_lowercase());
    (errors <= word.len().max(name.len()) / 3).then_some(errors)
}

/// Returns whether a word is a name with some letters omitted.
fn is_left_of(word: &str, name: &str) -> bool {
    let mut letters = name.chars();
    word.chars()
        .all(|letter| letters.any(|other| other == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 8] = [
        "runs",
        "jobs",
        "fail-fast",
        "max-fail",
        "timeout",
        "env",
        "cwd",
        "description",
    ];

    #[test]
    fn misspelt_and_foreign_names_are_mapped_to_the_intended_name() {
        for (wrote, wanted) in [
            ("fail_fast", "fail-fast"),
            ("FailFast", "fail-fast"),
            ("--runs", "runs"),
            ("count", "runs"),
            ("n", "runs"),
            ("parallel", "jobs"),
            ("paralel", "jobs"),
            ("env-vars", "env"),
            ("ENV_VARS", "env"),
            ("workdir", "cwd"),
            ("tiemout", "timeout"),
            ("timeuot", "timeout"),
            ("max-failures", "max-fail"),
            ("desc", "description"),
            ("envs", "env"),
        ] {
            assert_eq!(intended_name(wrote, NAMES), Some(wanted), "{wrote}");
        }
    }

    #[test]
    fn an_unrelated_word_has_no_intended_name() {
        for word in ["", "zebra", "ü", "--", "x-y-z", "xy"] {
            assert_eq!(intended_name(word, NAMES), None, "{word}");
        }
    }
}
