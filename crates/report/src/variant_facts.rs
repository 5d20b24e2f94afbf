//! Describes further facts about a run in words: times, uncounted trials, the machine, the origin of the numbers.

use super::{Report, VariantReport, headlines};
use provoke_questions::RateMeaning;
use provoke_words as words;

/// Returns further facts about a variant.
pub(super) fn variant_facts(report: &Report, variant: &VariantReport) -> Vec<String> {
    let mut facts = Vec::new();
    if !variant.void_reasons.is_empty() {
        let reasons = variant
            .void_reasons
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"));
        facts.push(format!(
            "Not counted: {}",
            reasons.collect::<Vec<_>>().join(", ")
        ));
    }
    for (name, took) in &variant.durations {
        facts.push(format!(
            "Time of a {}: median {}, 90 % within {}, longest {}",
            match *name {
                "fail" => "failure",
                name => name,
            },
            words::format_seconds(took.p50),
            words::format_seconds(took.p90),
            words::format_seconds(took.max),
        ));
    }
    let pace = headlines::describe_pace(&variant.time_between_failures, 0.0, report.confidence);
    facts.extend(pace.map(|pace| capitalize_first(&pace)));
    if variant.leaked_processes > 0 {
        facts.push(format!(
            "Left behind and killed: {} of {}",
            words::plural_of(variant.leaked_processes, "process", "processes"),
            words::format_count(variant.leaking_trials, "trial"),
        ));
    }
    // The few trials of a tried fix are not a baseline.
    let is_tried_fix = report.rate_meaning() == RateMeaning::OfFix;
    if !is_tried_fix && let Some(clean) = variant.clean_runs_to_exclude_half {
        facts.push(format!(
            "To confirm a fix: {} in a row, at {} % confidence",
            words::format_count(clean, "passing trial"),
            report.confidence,
        ));
    }
    facts.push(format!(
        "Why the trials ended: {}",
        headlines::stop_rule_text(variant.stop_rule)
    ));
    facts
}

/// Describes the attempts that are not counted.
pub(super) fn attempt_lines(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if report.after_decision > 0 {
        let trials = words::format_count(report.after_decision, "trial");
        lines.push(format!(
            "Finished after the decision, not counted: {trials}"
        ));
    }
    if report.repeated_attempts > 0 {
        let attempts = words::format_count(report.repeated_attempts, "attempt");
        lines.push(format!("Interrupted or lost, and retried: {attempts}"));
    }
    lines
}

/// Returns the origin of the numbers.
pub(super) fn describe_origin(report: &Report) -> String {
    [
        format!("provoke {}", report.version),
        format!("run {}", report.run),
        format!("started {}", report.started_at),
        format!("{} of working time", words::format_seconds(report.seconds)),
        format!(
            "{} in parallel",
            words::format_count(u64::from(report.jobs), "trial")
        ),
        format!("seed {}", report.seed),
    ]
    .join("; ")
}

/// Describes the machine, without its name.
pub(super) fn describe_machine(report: &Report) -> String {
    let host = &report.host;
    let host_facts = [&host.kernel, &host.arch, &host.cpu].into_iter();
    let mut facts: Vec<String> = host_facts
        .filter(|fact| !fact.is_empty())
        .cloned()
        .collect();
    if host.cpus > 0 {
        let cpus = words::plural_of(u64::from(host.cpus), "processor", "processors");
        facts.push(format!(
            "{cpus}, {} of memory",
            words::format_bytes(host.memory)
        ));
    }
    facts.join("; ")
}

/// Returns text with a capital first letter.
pub(super) fn capitalize_first(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(rest).collect()
    })
}
