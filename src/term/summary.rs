//! The first screen of a result: tally, rate, what was not seen, where the
//! evidence is, what to type next.

use super::table;
use crate::model::Depth;
use crate::policy::Verdict;
use crate::report::{Answer, LoadTotals, Report, SignatureSeen, Variant, bars, words};
use crate::untrusted::{SafeText, Untrusted as _, shell_word};
use console::style;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Trials that are listed one by one.
const LISTED: usize = 12;

/// Returns the first screen of a run.
pub fn summary(report: &Report, evidence: &Path) -> String {
    let mut out = String::new();
    if let Some(Answer::Compare(_)) = &report.answer {
        out.push_str(&table::variants(report));
        caught(&mut out, report);
    }
    if let Some(Answer::Bisect(answer)) = &report.answer {
        out.push_str(&table::points(answer));
    }
    if let Some(Answer::Ramp(answer)) = &report.answer {
        out.push_str(&table::levels(report, answer));
    }
    let one_by_one = matches!(report.answer, None | Some(Answer::Confirm(_)));
    for variant in report.variants.iter().filter(|_| one_by_one) {
        if !variant.name.is_empty() {
            let _ = writeln!(out, "  {}", style(words::sanitize(&variant.name)).bold());
        }
        let _ = writeln!(out, "  {}", tally(variant));
        let _ = writeln!(out, "  {}", rate(report, variant));
        kinds(&mut out, variant);
        if let Some(pace) = words::pace(&variant.time_between_failures, report.confidence) {
            let _ = writeln!(out, "    {pace}");
        }
        for line in variant.load.iter().flat_map(LoadTotals::lines) {
            let _ = writeln!(out, "    {}", words::sanitize(&line));
        }
        if let Some(load) = &variant.load {
            for line in bars::drawn(&load.served_before_death) {
                let _ = writeln!(out, "      {}", style(line).dim());
            }
        }
    }
    if let Some(given) = &report.answer {
        answer(&mut out, report, given);
    }
    for note in &report.notes {
        let _ = writeln!(
            out,
            "  {} {}",
            style("note:").yellow(),
            words::sanitize(note)
        );
    }
    let _ = writeln!(out, "  {}", place(report, evidence));
    if let Some(next) = next(report) {
        let _ = writeln!(out, "  {next}");
    }
    out
}

/// Writes the answer, and what it rests on.
fn answer(out: &mut String, report: &Report, answer: &Answer) {
    let sentence = style(words::sanitize(answer.sentence())).bold();
    let sentence = match report.verdict {
        Verdict::Fixed | Verdict::Clean | Verdict::NoDifference | Verdict::Found => {
            sentence.green()
        }
        Verdict::NotFixed | Verdict::Different | Verdict::Failing => sentence.red(),
        _ => sentence.yellow(),
    };
    let _ = writeln!(out, "  {sentence}");
    for line in answer.lines() {
        let _ = writeln!(out, "    {}", words::sanitize(&line));
    }
    for assumption in answer.assumptions() {
        let assumption = words::sanitize(assumption);
        let _ = writeln!(
            out,
            "    {}",
            style(format!("taken for granted: {assumption}")).dim()
        );
    }
}

fn tally(variant: &Variant) -> String {
    let mut counts: BTreeMap<&str, u64> =
        ["hang", "leak"].into_iter().map(|name| (name, 0)).collect();
    let failures = variant.outcomes.iter().filter(|(name, _)| *name != "pass");
    counts.extend(failures.map(|(name, count)| (name.as_str(), *count)));
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let ran = variant.trials + variant.other;
    let mut parts = vec![
        words::trials_or_lives(ran, variant.load.is_some()),
        format!("{} ok", variant.outcomes.get("pass").copied().unwrap_or(0)),
    ];
    parts.extend(counts.iter().map(|(name, count)| match count {
        0 => format!("0 {name}"),
        _ => style(format!("{count} {name}")).red().to_string(),
    }));
    if variant.other > 0 {
        parts.push(format!(
            "{} of these are not the bug looked for",
            variant.other
        ));
    }
    for (reason, count) in &variant.void_reasons {
        parts.push(format!("{count} {reason}, not counted"));
    }
    parts.join("   ")
}

fn rate(report: &Report, variant: &Variant) -> String {
    style(words::headline(variant, report.confidence))
        .bold()
        .to_string()
}

fn kinds(out: &mut String, variant: &Variant) {
    let captured = variant.captured_signatures();
    let groups = groups(variant);
    for group in &groups {
        let aside = match group.is.perhaps.as_slice() {
            _ if !group.is.is_the_bug => " [not the bug looked for]".to_owned(),
            [id] => format!(" [perhaps {id}]"),
            _ => String::new(),
        };
        let mut trials: Vec<u64> = group.trials().collect();
        trials.sort_unstable();
        let _ = writeln!(
            out,
            "    {}x {}{aside}   {}",
            trials.len(),
            what(variant, group.is),
            words::trials(&trials, LISTED),
        );
        if let Some(known) = group.known() {
            let _ = writeln!(out, "       {}", style(known).dim());
        }
    }
    let shown = |one: &&SignatureSeen| groups.iter().any(|group| group.is.id == one.id);
    let perhaps = |one: &SignatureSeen| {
        let mut all = variant.signatures.iter();
        all.any(|seen| seen.perhaps.contains(&one.id))
    };
    for other in captured.iter().filter(|one| !shown(one)) {
        let _ = writeln!(
            out,
            "       {}: {}   {}  {}",
            style(if perhaps(other) {
                "caught later, perhaps the same"
            } else {
                "caught later"
            })
            .dim(),
            style(words::sanitize(&other.title)).red(),
            style(&other.id).dim(),
            words::trials(&other.trials, LISTED),
        );
    }
    if let Some(left) = words::left_behind(variant.leaked_processes, variant.leaked_objects) {
        let _ = writeln!(
            out,
            "    {left} left behind in {}{}",
            words::trials_or_lives(variant.leaking_trials, variant.load.is_some()),
            match (variant.unkillable_processes, variant.leaked_objects) {
                (0, 0) => ", and killed",
                (0, _) => ", and removed",
                _ => "",
            },
        );
    }
    if let [Some(pass), Some(fail)] = ["pass", "fail"].map(|name| variant.durations.get(name)) {
        let _ = writeln!(
            out,
            "    a pass takes {} (at most {}), a failure {} (at most {})",
            words::seconds(pass.p50),
            words::seconds(pass.max),
            words::seconds(fail.p50),
            words::seconds(fail.max),
        );
    }
}

/// Names what was caught after a comparison, each with the variants it was caught of.
fn caught(out: &mut String, report: &Report) {
    let mut found: Vec<(&SignatureSeen, Vec<u64>, Vec<&str>)> = Vec::new();
    for variant in &report.variants {
        let groups = groups(variant);
        let shown = |one: &&SignatureSeen| groups.iter().any(|group| group.is.id == one.id);
        for one in variant
            .captured_signatures()
            .iter()
            .filter(|one| !shown(one))
        {
            match found.iter_mut().find(|(known, ..)| known.id == one.id) {
                Some((_, trials, names)) => {
                    trials.extend(&one.trials);
                    names.push(&variant.name);
                }
                None => found.push((one, one.trials.clone(), vec![&variant.name])),
            }
        }
    }
    for (what, mut trials, names) in found {
        trials.sort_unstable();
        let _ = writeln!(
            out,
            "  {} {}: {}   {}  {}",
            style("caught later, with").dim(),
            words::sanitize(&names.join(", ")),
            style(words::sanitize(&what.title)).red(),
            style(&what.id).dim(),
            words::trials(&trials, LISTED),
        );
    }
}

/// Returns what a failure is, as deeply as it is known.
fn what(variant: &Variant, seen: &SignatureSeen) -> String {
    let title = style(words::sanitize(&seen.title)).red();
    if seen.depth > Depth::Output {
        return format!("{title}   {}", style(&seen.id).dim());
    }
    let kinds = variant.kinds.iter();
    let kinds: Vec<_> = kinds.filter(|kind| kind.outcome == seen.outcome).collect();
    let mut labels: Vec<&str> = kinds
        .iter()
        .filter_map(|kind| kind.label.as_deref())
        .collect();
    labels.sort_unstable();
    labels.dedup();
    let labels = match labels.as_slice() {
        [] => String::new(),
        labels => format!(" ({})", labels.join("; ")),
    };
    let words = kinds.first().map_or("", |kind| &kind.words);
    let id = match seen.depth {
        Depth::Output => format!("   {}", style(&seen.id).dim()),
        _ => String::new(),
    };
    format!("{title}{labels}: {words}{id}")
}

/// Measured failures that are one, as far as is known.
pub(super) struct Group<'a> {
    /// What they are: as captured trials showed it, where those leave no doubt.
    pub(super) is: &'a SignatureSeen,
    measured: Vec<&'a SignatureSeen>,
}

/// Returns the measured failures of a variant, the most frequent first.
pub(super) fn groups(variant: &Variant) -> Vec<Group<'_>> {
    let captured = variant.captured_signatures();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for seen in &variant.signatures {
        let is = match seen.same_as.as_slice() {
            [id] => captured.iter().find(|one| one.id == *id).unwrap_or(seen),
            _ => seen,
        };
        match groups.iter_mut().find(|group| group.is.id == is.id) {
            Some(group) => group.measured.push(seen),
            None => groups.push(Group {
                is,
                measured: vec![seen],
            }),
        }
    }
    groups
}

impl Group<'_> {
    fn trials(&self) -> impl Iterator<Item = u64> {
        self.measured.iter().flat_map(|seen| seen.trials.clone())
    }

    /// Says how it is known what they are, where they do not say it themselves.
    fn known(&self) -> Option<String> {
        if self.measured.iter().any(|seen| seen.id == self.is.id) {
            return None;
        }
        let caught = words::trials(&self.is.trials, LISTED);
        Some(format!(
            "its stack was caught in {caught}; it is the same instruction by the kernel's log"
        ))
    }
}

fn place(report: &Report, evidence: &Path) -> String {
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| evidence.strip_prefix(here).ok().map(Path::to_owned));
    let path = near.unwrap_or_else(|| evidence.to_owned());
    let failed = report
        .variants
        .iter()
        .any(|variant| variant.failures + variant.other > 0);
    if failed {
        format!("evidence: {}/trials/", path.safe())
    } else {
        format!("journal: {}/events.jsonl", path.safe())
    }
}

/// Returns the run as it is typed in a command.
fn typed(report: &Report) -> SafeText {
    shell_word(report.reference.as_ref())
}

/// Returns what to type next.
fn next(report: &Report) -> Option<String> {
    if !report.finished {
        let resume = format!("provoke resume {}", typed(report));
        return Some(format!("to go on: {}", style(resume).bold()));
    }
    // The one that is known best.
    let failing = report.variants.iter().filter(|one| one.failures > 0);
    let variant = failing.min_by_key(|one| one.clean_runs_to_confirm)?;
    let trial = variant.failing_trials.first()?;
    let confirm = match &report.answer {
        Some(Answer::Confirm(_)) => Some(format!(
            "the next fix: {}",
            style(format!("provoke confirm --baseline {}", typed(report))).bold()
        )),
        // How often each was tried was chosen by how often it failed.
        Some(Answer::Bisect(_) | Answer::Reduce(_) | Answer::Ramp(_) | Answer::Shrink(_)) => None,
        _ => confirm(report, variant),
    };
    let explained = report
        .known_best()
        .map(|trial| format!("what happened: provoke explain {}#{trial}", typed(report)));
    let replay = format!("one again: provoke replay {}#{trial}", typed(report));
    let all = [confirm, explained, Some(replay)];
    Some(all.into_iter().flatten().collect::<Vec<_>>().join("\n  "))
}

/// Returns how a fix of this variant is confirmed.
fn confirm(report: &Report, variant: &Variant) -> Option<String> {
    let clean = variant.clean_runs_to_confirm?;
    let mut again = format!("provoke confirm --baseline {}", typed(report));
    if !variant.name.is_empty() {
        let between = if variant.name.starts_with('-') {
            '='
        } else {
            ' '
        };
        let name = shell_word(variant.name.as_ref());
        let _ = write!(again, " --of{between}{name}");
    }
    Some(format!(
        "a fix will need {}: {}",
        match variant.load {
            Some(_) => words::plural_of(clean, "clean life", "clean lives"),
            None => words::plural(clean, "clean trial"),
        },
        style(again).bold(),
    ))
}
