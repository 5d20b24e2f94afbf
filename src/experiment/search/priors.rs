//! Reads prior weights of candidates, and the log of an earlier search.

use crate::experiment::observer::{ExperimentMessage, ExperimentObserver};
use provoke_model::{Candidate, CandidateFacts, VariantChoices};
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reads a file whose lines begin with the name of a candidate.
fn lines_of<'a, T>(
    field: &str,
    file: &Path,
    text: &'a str,
    indices: &BTreeMap<String, usize>,
    read: impl Fn(&[&'a str]) -> Option<(&'a str, T)>,
    expected: &str,
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<(usize, T)>, Diagnostic> {
    let stripped_lines = (1..)
        .zip(text.lines())
        .map(|(n, line)| (n, line, line.split('#').next().unwrap_or("").trim()));
    let (mut values, mut elsewhere) = (Vec::new(), Vec::new());
    for (number, line, stripped) in stripped_lines.filter(|(_, _, stripped)| !stripped.is_empty()) {
        let words: Vec<&str> = stripped.split_whitespace().collect();
        let source_line = format!("{}:{number}: `{}`", file.to_safe(), line.trim_end());
        let Some((name, value)) = read(&words) else {
            return Err(Diagnostic::of_field(
                field,
                format!("cannot parse {source_line}"),
                expected,
            ));
        };
        match indices.get(name) {
            Some(index) => values.push((*index, value)),
            None => elsewhere.push((source_line, name)),
        }
    }
    // An earlier search may have covered more candidates, but some must be in this list.
    let strays = field != "log" || values.is_empty();
    if strays && let Some((source_line, name)) = elsewhere.first() {
        let message = format!("{source_line} names `{name}`, which is not a candidate");
        return Err(Diagnostic::of_field(
            field,
            message,
            "remove the line, or search a longer list",
        ));
    }
    if !elsewhere.is_empty() {
        let names: Vec<&str> = elsewhere.iter().map(|(_, name)| *name).collect();
        observer.on_message(ExperimentMessage::Step(format!(
            "ignored lines of `{}`, which name no candidate: {}",
            file.to_safe(),
            words::sanitize_line(&names.join(", "))
        )));
    }
    Ok(values)
}

fn read_text_file(field: &str, file: &Path) -> Result<String, Diagnostic> {
    fs::read_to_string(file).map_err(|error| {
        let message = format!("cannot read `{}`: {error}", file.to_safe());
        Diagnostic::of_field(field, message, "give the path of a text file")
    })
}

/// Reads a list with one candidate per line.
pub(super) fn read_candidates(file: &Path) -> Result<VariantChoices, Diagnostic> {
    let text = read_text_file("over", file)?;
    let names = text
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.starts_with('#'));
    let candidate_of = |name: &str| Candidate {
        name: name.to_owned(),
        about: None,
    };
    Ok(VariantChoices::Candidates(
        names.map(candidate_of).collect(),
    ))
}

/// Reads the weight of each candidate. Candidates that are not named have the smallest of the given weights.
pub(super) fn read_weights(
    file: &Path,
    indices: &BTreeMap<String, usize>,
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<u64>, Diagnostic> {
    let text = read_text_file("prior", file)?;
    let expected = "write a candidate and a whole number above 0 on each line: `v1.2 10`";
    let numbered_weights = lines_of(
        "prior",
        file,
        &text,
        indices,
        parse_weight,
        expected,
        observer,
    )?;
    let min = numbered_weights.iter().map(|(_, weight)| *weight).min();
    let mut weights = vec![u64::from(min.unwrap_or(1)); indices.len()];
    for (index, weight) in numbered_weights {
        weights[index] = u64::from(weight);
    }
    Ok(weights)
}

/// Reads the counts in the log of an earlier search.
pub(super) fn read_log(
    file: &Path,
    indices: &BTreeMap<String, usize>,
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<CandidateFacts>, Diagnostic> {
    let text = read_text_file("log", file)?;
    let expected =
        "write `bad NAME 3/10` (3 failures in 10 trials), `good NAME 0/20` or `skip NAME`";
    let entries = lines_of(
        "log",
        file,
        &text,
        indices,
        parse_counts,
        expected,
        observer,
    )?;
    let facts = entries.into_iter().map(|(index, counts)| CandidateFacts {
        place: u32::try_from(index).unwrap_or(u32::MAX),
        counts,
    });
    Ok(facts.collect())
}

fn parse_weight<'a>(words: &[&'a str]) -> Option<(&'a str, u32)> {
    match words {
        [name, weight] => Some((name, weight.parse().ok().filter(|weight| *weight > 0)?)),
        _ => None,
    }
}

fn parse_counts<'a>(words: &[&'a str]) -> Option<(&'a str, Option<(u64, u64)>)> {
    match words {
        ["skip", name, ..] => Some((name, None)),
        ["good" | "bad", name, counts, ..] => {
            let (failures_text, trials_text) = counts.split_once('/')?;
            let (failures, trials) = (failures_text.parse().ok()?, trials_text.parse().ok()?);
            (failures <= trials).then_some((name, Some((failures, trials))))
        }
        _ => None,
    }
}
