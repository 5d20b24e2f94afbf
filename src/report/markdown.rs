//! Report in Markdown, to paste into an issue.
//!
//! The name of the machine is left out: readers of an issue do not need it, and it may be confidential. Text that a
//! child process or the user chose is either code or escaped, so that it cannot become a table, a link, a mention or
//! HTML.

use super::issue::Issue;
use super::{
    FailureKindReport, LoadTotals, Report, SignatureReport, VariantReport, bars, headlines,
};
use crate::model::{EvidenceDepth, Site};
use crate::questions::{Answer, VariantResult};
use crate::words;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

/// Maximum length of a list of trials.
const LISTED: usize = 10;
/// Maximum number of facts in which variants differ.
const FACTS: usize = 20;

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
            for variant in variants.iter().filter(|variant| is_shown(report, variant)) {
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
    write_tally(report, several, out)?;
    write_kinds(report, several, out)?;
    write_signatures(report, several, out)?;
    write_load_lines(report, several, out)?;
    write_differing_facts(report, out)?;
    let mut lines = Vec::new();
    for variant in report
        .variants
        .iter()
        .filter(|variant| is_shown(report, variant))
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

/// Returns the result of each variant, if the question was a comparison.
fn variant_standings(report: &Report) -> Option<&[VariantResult]> {
    match &report.answer {
        Some(Answer::Compare(answer)) => Some(&answer.variants),
        _ => None,
    }
}

fn write_tally(report: &Report, several: bool, out: &mut dyn io::Write) -> io::Result<()> {
    let mut head = vec!["trials", "passed", "failed"];
    let has_other_failures = report.variants.iter().any(|variant| variant.other > 0);
    if has_other_failures {
        head.push("failed in another way");
    }
    head.push("inconclusive");
    let standings = variant_standings(report);
    let confidence = format!("{} % interval", report.confidence);
    head.extend(["rate", &confidence]);
    if several {
        head.insert(0, "variant");
    }
    if standings.is_some() {
        head.push("known");
    }
    writeln!(out, "| {} |", head.join(" | "))?;
    let first = if several { "---" } else { "---:" };
    writeln!(out, "| {first} |{}", " ---: |".repeat(head.len() - 1))?;
    for variant in report
        .variants
        .iter()
        .filter(|variant| is_shown(report, variant))
    {
        let mut cells = Vec::new();
        if several {
            cells.push(inline_code(&variant.name));
        }
        let passed = variant.trials - variant.failures;
        cells.extend([variant.trials, passed, variant.failures].map(|n| n.to_string()));
        if has_other_failures {
            cells.push(variant.other.to_string());
        }
        cells.push(variant.void.to_string());
        let point = variant.rate.point;
        cells.push(point.map_or("–".to_owned(), |point| {
            format!(
                "{} %",
                words::percent_within(point, variant.rate.interval())
            )
        }));
        cells.push(words::format_interval(variant.rate.interval()));
        if let Some(standings) = standings {
            let variant_result = standings.iter().find(|result| result.name == variant.name);
            cells.push(
                variant_result
                    .map_or("", |result| {
                        headlines::standing_word(result.standing, variant.failures)
                    })
                    .to_owned(),
            );
        }
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)
}

/// Returns false for a variant of a search without a trial, such as a setting that was not tried.
fn is_shown(report: &Report, variant: &VariantReport) -> bool {
    let searches = matches!(
        report.answer,
        Some(Answer::Bisect(_) | Answer::Reduce(_) | Answer::Ramp(_))
    );
    !searches || report.variants.len() == 1 || variant.trials + variant.other + variant.void > 0
}

fn write_kinds(report: &Report, several: bool, out: &mut dyn io::Write) -> io::Result<()> {
    if report
        .variants
        .iter()
        .all(|variant| variant.kinds.is_empty())
    {
        return Ok(());
    }
    let (head, line) = if several {
        ("| variant ", "| --- ")
    } else {
        ("", "")
    };
    let mut kinds = report.variants.iter().flat_map(|variant| &variant.kinds);
    let has_labels = kinds.any(|kind| kind.label.as_deref().is_some_and(|label| !label.is_empty()));
    let (label_head, label_line) = if has_labels {
        (" evidence |", " --- |")
    } else {
        ("", "")
    };
    writeln!(out, "{head}| outcome |{label_head} count | trials |")?;
    writeln!(out, "{line}| --- |{label_line} ---: | --- |")?;
    for variant in &report.variants {
        for kind in &variant.kinds {
            let of_variant = if several {
                format!("| {} ", inline_code(&variant.name))
            } else {
                String::new()
            };
            let FailureKindReport {
                outcome,
                label,
                words: meaning,
                is_the_bug,
                count,
                trials,
            } = kind;
            let aside = if *is_the_bug {
                ""
            } else {
                " (not the bug looked for)"
            };
            let label_cell = if has_labels {
                format!(" {} |", label.as_deref().unwrap_or_default())
            } else {
                String::new()
            };
            let list = words::trial_list(trials, LISTED);
            writeln!(
                out,
                "{of_variant}| **{outcome}**: {meaning}{aside} |{label_cell} {count} | {list} |"
            )?;
        }
    }
    writeln!(out)
}

/// Writes the number of responses before each crash of services.
fn write_load_lines(report: &Report, several: bool, out: &mut dyn io::Write) -> io::Result<()> {
    for variant in &report.variants {
        for line in variant.load.iter().flat_map(LoadTotals::traffic_lines) {
            writeln!(out, "* {}", words::sanitize_line(&line))?;
        }
        if variant.load.is_some() {
            writeln!(out)?;
        }
        let served = variant.load.iter().map(|load| &load.served_before_death);
        let bars: Vec<String> = served.flat_map(|served| bars::draw_bars(served)).collect();
        if bars.is_empty() {
            continue;
        }
        let of_variant = if several {
            format!(" of {}", inline_code(&variant.name))
        } else {
            String::new()
        };
        writeln!(out, "Responses before each death{of_variant}:\n")?;
        writeln!(out, "```text\n{}\n```\n", bars.join("\n"))?;
    }
    Ok(())
}

/// Writes the signatures, if the evidence shows more than the exit status.
fn write_signatures(report: &Report, several: bool, out: &mut dyn io::Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for variant in &report.variants {
        let captured = variant.captured.iter();
        let captured = captured.flat_map(|captured| &captured.signatures);
        let measured = variant
            .signatures
            .iter()
            .map(|signature| (signature, "counted"));
        // A crash that the kernel's log names and the stack of an extra trial shows has two signatures.
        let with_stack = |signature: &SignatureReport| match signature.same_as.as_slice() {
            [id] => variant
                .captured_signatures()
                .iter()
                .find(|captured_signature| captured_signature.id == *id),
            _ => None,
        };
        let shown: Vec<&str> = variant
            .signatures
            .iter()
            .filter_map(|signature| Some(with_stack(signature)?.id.as_str()))
            .collect();
        let captured = captured.filter(|signature| !shown.contains(&signature.id.as_str()));
        for (signature, origin) in
            measured.chain(captured.map(|signature| (signature, "extra, not counted")))
        {
            if signature.depth == EvidenceDepth::Status && signature.same_as.is_empty() {
                continue;
            }
            let better = with_stack(signature);
            let of_variant = if several {
                format!("| {} ", inline_code(&variant.name))
            } else {
                String::new()
            };
            let mut list = words::trial_list(&signature.trials, LISTED);
            if let Some(better) = better {
                let stacks = words::trial_list(&better.trials, LISTED);
                let _ = write!(list, "; stack in extra trials {stacks}");
            }
            let ids = match (better, signature.same_as.as_slice()) {
                (Some(better), _) => {
                    format!("`{}`; in the kernel log: `{}`", better.id, signature.id)
                }
                (None, []) => format!("`{}`", signature.id),
                (None, other_ids) => {
                    format!("`{}`, also `{}`", signature.id, other_ids.join("`, `"))
                }
            };
            let title = escape_markdown(&better.unwrap_or(signature).title);
            rows.push(format!(
                "{of_variant}| {title} | {ids} | {origin} | {} | {list} |",
                signature.count
            ));
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    let (head, line) = if several {
        ("| variant ", "| --- ")
    } else {
        ("", "")
    };
    writeln!(
        out,
        "{head}| failure | signature | trials | count | which |"
    )?;
    writeln!(out, "{line}| --- | --- | --- | ---: | --- |")?;
    for row in rows {
        writeln!(out, "{row}")?;
    }
    writeln!(out)
}

/// Writes the facts in which the variants of a comparison differ, besides those varied on purpose.
fn write_differing_facts(report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
    let Some(Answer::Compare(answer)) = &report.answer else {
        return Ok(());
    };
    if answer.facts.is_empty() {
        return Ok(());
    }
    writeln!(out, "| fact | value | variants |\n| --- | --- | --- |")?;
    for fact in answer.facts.iter().take(FACTS) {
        let mut alike: BTreeMap<&Option<String>, Vec<String>> = BTreeMap::new();
        for (variant, value) in &fact.values {
            alike.entry(value).or_default().push(inline_code(variant));
        }
        for (value, variants) in alike {
            let value = value
                .as_deref()
                .filter(|value| !value.is_empty())
                .map_or("–".to_owned(), inline_code);
            let variants = variants.join(", ");
            writeln!(
                out,
                "| {} | {value} | {variants} |",
                inline_code(&fact.name)
            )?;
        }
    }
    writeln!(out)?;
    let facts_left = answer.facts.len().saturating_sub(FACTS);
    if facts_left > 0 {
        let more_text = words::format_count(facts_left as u64, "more fact");
        writeln!(out, "{more_text} in the JSON report.\n")?;
    }
    Ok(())
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

/// Returns text as a code block, fenced by more backticks than it contains in a row.
fn fence_code(language: &str, text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!(
        "{fence}{language}\n{}\n{fence}\n",
        words::sanitize_lines(text)
    )
}

/// Returns text as code that is valid in a cell of a table.
fn inline_code(text: &str) -> String {
    let text = words::sanitize_line(text);
    if !text.contains(['`', '|', '\\']) && text == text.trim() && !text.is_empty() {
        return format!("`{text}`");
    }
    // Some text cannot be quoted with backticks in every dialect; character references always work.
    let mut code = "<code>".to_owned();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            let _ = write!(code, "&#{};", u32::from(c));
        } else {
            code.push(c);
        }
    }
    code + "</code>"
}

/// Escapes text so that nothing in it has a meaning in Markdown, in HTML or on a forge.
fn escape_markdown(text: &str) -> String {
    let text = words::sanitize_line(text.trim());
    let mut safe = String::with_capacity(text.len());
    let mut previous = ' ';
    for (position, c) in text.char_indices() {
        let next = text[position..].chars().nth(1).unwrap_or(' ');
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '!' | '$' => {
                safe.extend(['\\', c]);
            }
            '-' | '+' | '=' if position == 0 => safe.extend(['\\', c]),
            // `1.` begins a list.
            '.' | ')' if text[..position].bytes().all(|byte| byte.is_ascii_digit()) => {
                safe.extend(['\\', c]);
            }
            // A mention, an issue, a link: forges recognize these in the text after Markdown is rendered.
            '@' | '#' => {
                safe.push(c);
                safe.push_str("&#8203;");
            }
            ':' if next == '/' => safe.push_str(":&#8203;"),
            '.' if previous.eq_ignore_ascii_case(&'w') => safe.push_str("&#8203;."),
            _ => safe.push(c),
        }
        previous = c;
    }
    safe
}
