//! Describes further facts about a run in words: times, uncounted trials, the machine, the origin of the numbers.

use super::{Report, VariantReport, headlines};
use provoke_questions::RateMeaning;
use provoke_words as words;
use provoke_words::capitalize_first;

/// Returns further facts about the listed variants, at most about this many, and about attempts that are not counted.
pub(super) fn measurement_lines(report: &Report, max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for variant in report.listed_variants().into_iter().take(max) {
        let facts = variant_facts(report, variant).into_iter();
        let facts = facts.chain(check_lines(variant));
        lines.extend(facts.map(|fact| match variant.name.as_str() {
            "" => fact,
            name => format!("{name}: {fact}"),
        }));
    }
    lines.extend(attempt_lines(report));
    lines
}

/// Returns further facts about a variant.
fn variant_facts(report: &Report, variant: &VariantReport) -> Vec<String> {
    let uncounted = headlines::uncounted_lines(variant);
    let mut facts: Vec<String> = uncounted
        .iter()
        .map(|line| capitalize_first(line))
        .collect();
    let pace = headlines::describe_pace(&variant.time_between_failures, 0.0, report.confidence);
    facts.extend(pace.map(|pace| capitalize_first(&pace)));
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

/// Describes the tests of the assumptions that did not cause a note.
fn check_lines(variant: &VariantReport) -> Vec<String> {
    let dependence = variant
        .dependence
        .filter(|check| !check.warns)
        .map(|check| {
            format!(
                "Failures of parallel trials are not clearly dependent ({})",
                words::p_value(check.p_value)
            )
        });
    let clumps = variant.clumps.filter(|check| !check.warns).map(|check| {
        format!(
            "Failures do not clearly come in clumps ({})",
            words::p_value(check.p_value)
        )
    });
    let trend = variant.trend.filter(|check| !check.warns).map(|check| {
        format!(
            "The rate did not clearly change during the run (Laplace's trend test, {})",
            words::p_value(check.p_value)
        )
    });
    [dependence, clumps, trend].into_iter().flatten().collect()
}

/// Describes the attempts that are not counted.
fn attempt_lines(report: &Report) -> Vec<String> {
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
