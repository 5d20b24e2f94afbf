//! Report in Markdown, to paste into an issue.
//!
//! The name of the machine is left out: readers of an issue do not need it, and it may be confidential. Text that a
//! child process or the user chose is either code or escaped, so that it cannot become a table, a link, a mention or
//! HTML.

mod escape;
mod tables;

use super::issue::Issue;
use super::{Report, VariantReport, headlines};
use crate::model::Site;
use crate::questions::Answer;
use crate::words;
use escape::{escape_markdown, fence_code, inline_code};
use std::io;

/// Writes the report.
pub(super) fn write_markdown(
    report: &Report,
    issue: &Issue,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let several = report.variants.len() > 1;
    writeln!(out, "# {}\n", describe_title(report, issue))?;
    let so_far = if report.finished { "" } else { " so far" };
    let verdict = format!("**{}{so_far}.**", headlines::verdict_text(report.verdict));
    match report.variants.as_slice() {
        [variant] => writeln!(
            out,
            "{verdict} {}.\n",
            capitalize_first(&headlines::rate_headline(variant, report.confidence))
        )?,
        variants => {
            writeln!(out, "{verdict}\n")?;
            for variant in variants
                .iter()
                .filter(|variant| tables::is_shown(report, variant))
            {
                let headline = headlines::rate_headline(variant, report.confidence);
                writeln!(out, "- {}: {headline}", inline_code(&variant.name))?;
            }
            writeln!(out)?;
        }
    }
    if let Some(answer) = &report.answer {
        writeln!(
            out,
            "> {}.\n",
            capitalize_first(&escape_markdown(answer.text().sentence()))
        )?;
    }
    write_failure_source(issue, out)?;
    last_output(issue, out)?;
    write_reproduction(report, issue, out)?;
    write_builds(report, issue, out)?;
    after_a_fix(report, issue, out)?;
    writeln!(out, "<details><summary>All counts</summary>\n")?;
    tables::write_tally(report, several, out)?;
    tables::write_kinds(report, several, out)?;
    tables::write_signatures(report, several, out)?;
    tables::write_load_lines(report, several, out)?;
    tables::write_differing_facts(report, out)?;
    let mut lines = Vec::new();
    for variant in report
        .variants
        .iter()
        .filter(|variant| tables::is_shown(report, variant))
    {
        let of_variant = if several {
            format!("{}: ", inline_code(&variant.name))
        } else {
            String::new()
        };
        lines.extend(
            variant_facts(report, variant)
                .into_iter()
                .map(|fact| format!("{of_variant}{fact}")),
        );
    }
    if let Some(answer) = &report.answer {
        lines.extend(
            answer
                .text()
                .detail_lines()
                .iter()
                .map(|line| capitalize_first(&escape_markdown(line))),
        );
        let granted = answer.text().assumptions().iter();
        lines.extend(granted.map(|line| format!("Assumes: {}", escape_markdown(line))));
    }
    if let Some(difference) = &report.host_difference {
        let text = difference.text_lines();
        lines.extend(text.iter().map(|line| escape_markdown(line.trim())));
    }
    lines.extend(attempt_lines(report));
    for line in &lines {
        writeln!(out, "- {line}")?;
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "</details>\n")?;
    for note in &report.notes {
        writeln!(out, "- {}", escape_markdown(note))?;
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}", describe_origin(report))
}

/// Maximum length of the command in the title.
const TITLE_COMMAND: usize = 60;

/// Returns the command and its most frequent failure: `./crash`: SIGSEGV at crash.c:28, 3 of 100 trials.
fn describe_title(report: &Report, issue: &Issue) -> String {
    let command = inline_code(&words::shorten_text(&issue.command, TITLE_COMMAND));
    let Some(((title, _, count, _), (outcome, trials))) =
        issue.failure.as_ref().zip(issue.outcome.as_ref())
    else {
        return format!("{command}: {}", headlines::verdict_text(report.verdict));
    };
    let failure = match Site::naming_site(&issue.sites) {
        Some(site) => escape_markdown(&format!("{outcome} at {}", site.file_and_line())),
        None => escape_markdown(title),
    };
    match report.variants.as_slice() {
        [_] => format!(
            "{command}: {failure}, {count} of {}",
            words::format_count(*trials, "trial")
        ),
        _ => format!("{command}: {failure}"),
    }
}

/// Writes the most frequent failure and its source lines.
fn write_failure_source(issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    let Some((title, id, count, total)) = &issue.failure else {
        return Ok(());
    };
    let of_failures = match (*count, *total) {
        (1, 1) => "The only failed trial".to_owned(),
        (count, all) if count == all => format!("All {all} failed trials"),
        (count, all) => format!("{count} of {all} failed trials"),
    };
    writeln!(
        out,
        "### {}\n\n{of_failures}: {} (`{id}`)\n",
        if count == total {
            "Failure"
        } else {
            "Most frequent failure"
        },
        escape_markdown(title)
    )?;
    for site in &issue.sites {
        writeln!(out, "- {}", inline_code(&site.to_string()))?;
    }
    if !issue.sites.is_empty() {
        writeln!(out)?;
    }
    if !issue.source.is_empty() {
        writeln!(out, "{}", fence_code("text", &issue.source.join("\n")))?;
    }
    if !issue.stack.is_empty() {
        writeln!(out, "{}", fence_code("text", &issue.stack.join("\n")))?;
    }
    Ok(())
}

fn last_output(issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    let Some((trial, text)) = &issue.output else {
        return Ok(());
    };
    writeln!(out, "### Last output (trial {})\n", trial.0)?;
    writeln!(out, "{}", fence_code("text", text))
}

/// Writes the command, and the other parts of a trial.
fn write_reproduction(report: &Report, issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "### Reproduce\n")?;
    let mut commands: Vec<&str> = report.variants.iter().map(|v| v.command.as_str()).collect();
    commands.dedup();
    match commands.as_slice() {
        [_] => writeln!(out, "{}", fence_code("sh", &issue.command))?,
        several => writeln!(out, "{}", fence_code("sh", &several.join("\n")))?,
    }
    for line in &issue.load {
        writeln!(out, "- {}", capitalize_first(&escape_markdown(line)))?;
    }
    if !issue.load.is_empty() {
        writeln!(out)?;
    }
    if let Some((trials, words)) = &issue.repeat {
        writeln!(
            out,
            "At the measured failure rate, this shows a failure with a probability of {} %:\n",
            report.confidence
        )?;
        let command = format!("provoke run -n {trials} {words}");
        writeln!(out, "{}", fence_code("sh", &command))?;
    }
    Ok(())
}

fn write_builds(report: &Report, issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "### Versions\n")?;
    for line in issue.describe_builds() {
        writeln!(out, "- {}", escape_markdown(&line))?;
    }
    writeln!(out, "- {}\n", describe_machine(report))
}

/// Writes how to confirm a fix without access to this run.
fn after_a_fix(report: &Report, issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    let [variant] = report.variants.as_slice() else {
        return Ok(());
    };
    let (Some(needed), Some((_, words))) = (variant.clean_runs_to_exclude_half, &issue.repeat)
    else {
        return Ok(());
    };
    writeln!(
        out,
        "### After a fix\n\nFIXED at {} % takes {}, with this run alone as the baseline:\n",
        report.confidence,
        words::format_count(needed, "passing trial")
    )?;
    let command = format!(
        "provoke confirm --baseline {}/{} {words}",
        variant.failures, variant.trials
    );
    writeln!(out, "{}", fence_code("sh", &command))
}

/// Returns further facts about a variant.
fn variant_facts(report: &Report, variant: &VariantReport) -> Vec<String> {
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
    if let Some(leftovers) = words::left_behind(variant.leaked_processes, variant.leaked_objects) {
        facts.push(format!(
            "Left behind and killed: {leftovers} of {}",
            words::format_count(variant.leaking_trials, "trial"),
        ));
    }
    // The few trials of a tried fix are not a baseline.
    let is_tried_fix = matches!(report.answer, Some(Answer::Confirm(_)));
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
fn describe_origin(report: &Report) -> String {
    let facts = [
        format!("provoke {}", report.version),
        format!("run {}", report.run),
        format!("started {}", report.begun),
        format!("{} of working time", words::format_seconds(report.seconds)),
        format!(
            "{} in parallel",
            words::format_count(u64::from(report.jobs), "trial")
        ),
        format!("seed {}", report.seed),
    ];
    escape_markdown(&facts.join("; "))
}

/// Describes the machine, without its name.
fn describe_machine(report: &Report) -> String {
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
    escape_markdown(&facts.join("; "))
}

fn capitalize_first(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(rest).collect()
    })
}
