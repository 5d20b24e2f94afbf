//! The first screen of a result: tally, rate, what was not seen, where the
//! evidence is, what to type next.

use crate::policy::{StopRule, Verdict};
use crate::report::{Report, Variant, words};
use console::style;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Trials that are listed one by one.
const LISTED: usize = 12;

/// Returns the first screen of a run.
pub fn summary(report: &Report, evidence: &Path) -> String {
    let mut out = String::new();
    for variant in &report.variants {
        if !variant.name.is_empty() {
            let _ = writeln!(out, "  {}", style(words::sanitize(&variant.name)).bold());
        }
        let _ = writeln!(out, "  {}", tally(variant));
        let _ = writeln!(out, "  {}", rate(report, variant));
        kinds(&mut out, variant);
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

fn tally(variant: &Variant) -> String {
    let mut counts: BTreeMap<&str, u64> =
        ["hang", "leak"].into_iter().map(|name| (name, 0)).collect();
    let failures = variant.outcomes.iter().filter(|(name, _)| *name != "pass");
    counts.extend(failures.map(|(name, count)| (name.as_str(), *count)));
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let ran = variant.trials + variant.other;
    let mut parts = vec![
        words::plural(ran, "trial"),
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
    let (k, n) = (variant.failures, variant.trials);
    let confidence = format!("{} %", report.confidence);
    if n == 0 {
        return "no trial says anything about the rate".to_owned();
    }
    let [lo, hi] = variant.rate.interval().map(words::percent);
    let kind = match variant.stop_rule {
        StopRule::PlannedN | StopRule::KthFailure => "",
        StopRule::Decision | StopRule::Time | StopRule::User => " any-time",
    };
    let interval = format!("{confidence}{kind} interval {lo} .. {hi} %");
    match variant.rate.point {
        _ if k == 0 && kind.is_empty() => {
            let bound = words::percent(variant.rate.upper_one_sided);
            format!(
                "no failure in {n}: rate {} ({confidence})",
                style(format!("below {bound} %")).bold()
            )
        }
        None if k == 0 => {
            format!(
                "no failure in {n} so far: rate {} ({confidence}, any-time)",
                style(format!("below {hi} %")).bold()
            )
        }
        None => format!(
            "first failure at trial {n} that counts: rate {}",
            style(interval).bold()
        ),
        Some(point) => {
            format!(
                "{k}/{n} failed: {} %   {}",
                words::percent(point),
                style(interval).bold()
            )
        }
    }
}

fn kinds(out: &mut String, variant: &Variant) {
    for kind in &variant.kinds {
        let label = kind
            .label
            .as_ref()
            .map_or(String::new(), |label| format!(" ({label})"));
        let aside = if kind.is_the_bug {
            ""
        } else {
            " [not the bug looked for]"
        };
        let _ = writeln!(
            out,
            "    {}x {}{label}{aside}: {}   {}",
            kind.count,
            style(&kind.outcome).red(),
            kind.words,
            words::trials(&kind.trials, LISTED),
        );
    }
    if variant.leaked_processes > 0 {
        let processes = match variant.leaked_processes {
            1 => "1 process".to_owned(),
            many => format!("{many} processes"),
        };
        let _ = writeln!(
            out,
            "    {processes} left behind in {}, and killed",
            words::plural(variant.leaking_trials, "trial"),
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

fn place(report: &Report, evidence: &Path) -> String {
    let here = std::env::current_dir().ok();
    let near = here.and_then(|here| evidence.strip_prefix(here).ok().map(Path::to_owned));
    let path = near.unwrap_or_else(|| evidence.to_owned());
    let failed = report
        .variants
        .iter()
        .any(|variant| variant.failures + variant.other > 0);
    if failed {
        format!("evidence: {}/trials/", path.display())
    } else {
        format!("journal: {}/events.jsonl", path.display())
    }
}

/// Returns what to type next.
fn next(report: &Report) -> Option<String> {
    if !report.finished {
        return Some(format!(
            "to go on: {}",
            style(format!("provoke resume {}", report.run)).bold()
        ));
    }
    let variant = report
        .variants
        .iter()
        .find(|variant| variant.failures > 0)?;
    let trial = variant.failing_trials.first()?;
    let replay = format!("one again: provoke replay {}#{trial}", report.run);
    if report.verdict == Verdict::CouldNotTest {
        return None;
    }
    let clean = variant.clean_runs_to_confirm?;
    Some(format!(
        "a fix will need {clean} clean trials: {}\n  {replay}",
        style(format!(
            "provoke run -n {clean} -x -- {}",
            words::sanitize(&variant.command)
        ))
        .bold(),
    ))
}
