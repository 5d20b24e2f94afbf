//! Reads prior weights of candidates, and the log of an earlier search.

use crate::experiment::observer::{ExperimentMessage, ExperimentObserver};
use crate::model::{Candidate, CandidateFacts, VariantChoices};
use crate::scenario::PlanError;
use crate::untrusted::Untrusted as _;
use crate::words;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Reads a file whose lines begin with the name of a candidate.
fn lines_of<'a, T>(
    field: &str,
    file: &Path,
    text: &'a str,
    places: &BTreeMap<String, usize>,
    read: impl Fn(&[&'a str]) -> Option<(&'a str, T)>,
    wanted: &str,
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<(usize, T)>, PlanError> {
    let said = (1..)
        .zip(text.lines())
        .map(|(n, line)| (n, line, line.split('#').next().unwrap_or("").trim()));
    let (mut all, mut elsewhere) = (Vec::new(), Vec::new());
    for (number, line, said) in said.filter(|(_, _, said)| !said.is_empty()) {
        let words: Vec<&str> = said.split_whitespace().collect();
        let here = format!("{}:{number}: `{}`", file.to_safe(), line.trim_end());
        let Some((name, value)) = read(&words) else {
            return Err(PlanError::of_field(
                field,
                format!("cannot parse {here}"),
                wanted,
            ));
        };
        match places.get(name) {
            Some(place) => all.push((*place, value)),
            None => elsewhere.push((here, name)),
        }
    }
    // An earlier search may have covered more candidates, but some must be in this list.
    let strays = field != "log" || all.is_empty();
    if let Some((here, name)) = elsewhere.first().filter(|_| strays) {
        let what = format!("{here} names `{name}`, which is not a candidate");
        return Err(PlanError::of_field(
            field,
            what,
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
    Ok(all)
}

fn read_text_file(field: &str, file: &Path) -> Result<String, PlanError> {
    fs::read_to_string(file).map_err(|error| {
        let what = format!("cannot read `{}`: {error}", file.to_safe());
        PlanError::of_field(field, what, "give the path of a text file")
    })
}

/// Reads a list with one candidate per line.
pub(super) fn read_candidates(file: &Path) -> Result<VariantChoices, PlanError> {
    let text = read_text_file("over", file)?;
    let names = text
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty() && !name.starts_with('#'));
    let place = |name: &str| Candidate {
        name: name.to_owned(),
        about: None,
    };
    Ok(VariantChoices::Places(names.map(place).collect()))
}

/// Reads the weight of each candidate. Candidates that are not named have the smallest of the given weights.
pub(super) fn read_weights(
    file: &Path,
    places: &BTreeMap<String, usize>,
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<u64>, PlanError> {
    let text = read_text_file("prior", file)?;
    let wanted = "write a candidate and a whole number above 0 on each line: `v1.2 10`";
    let said = lines_of("prior", file, &text, places, parse_weight, wanted, observer)?;
    let least = said.iter().map(|(_, weight)| *weight).min();
    let mut weights = vec![u64::from(least.unwrap_or(1)); places.len()];
    for (place, weight) in said {
        weights[place] = u64::from(weight);
    }
    Ok(weights)
}

/// Reads the counts in the log of an earlier search.
pub(super) fn read_log(
    file: &Path,
    places: &BTreeMap<String, usize>,
    observer: &mut dyn ExperimentObserver,
) -> Result<Vec<CandidateFacts>, PlanError> {
    let text = read_text_file("log", file)?;
    let wanted = "write `bad NAME 3/10` (3 failures in 10 trials), `good NAME 0/20` or `skip NAME`";
    let said = lines_of("log", file, &text, places, parse_counts, wanted, observer)?;
    let known = said.into_iter().map(|(place, counts)| CandidateFacts {
        place: u32::try_from(place).unwrap_or(u32::MAX),
        counts,
    });
    Ok(known.collect())
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
            let (failures, trials) = counts.split_once('/')?;
            let (failures, trials) = (failures.parse().ok()?, trials.parse().ok()?);
            (failures <= trials).then_some((name, Some((failures, trials))))
        }
        _ => None,
    }
}
