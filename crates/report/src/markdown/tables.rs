//! Writes the tables of a report in Markdown: counts, outcomes, signatures, and facts in which variants differ.

use super::escape::{escape_markdown, inline_code};
use crate::variant_facts::capitalize_first;
use crate::{FailureKindReport, LoadTotals, Masked, Report, SignatureReport, bars};
use provoke_model::EvidenceDepth;
use provoke_words as words;
use provoke_words::document::{Cell, Column, Content, Row, Table};
use std::fmt::Write as _;
use std::io;

/// Maximum length of a list of trials.
const LISTED: usize = 10;
/// Maximum number of rows of a table of the answer.
const ROWS: usize = 100;

/// Writes a table of a document.
pub(super) fn write_table(table: &Table, out: &mut dyn io::Write) -> io::Result<()> {
    let is_shown = |(index, column): &(usize, &Column)| {
        column.content != Content::Rates && table.has_content(*index)
    };
    let columns: Vec<(usize, &Column)> =
        table.columns.iter().enumerate().filter(is_shown).collect();
    let heads: Vec<&str> = columns
        .iter()
        .map(|(_, column)| column.head.as_str())
        .collect();
    let lines = columns.iter().map(|(_, column)| match column.content {
        Content::Words | Content::Remark | Content::Sentence => "---",
        Content::Numbers | Content::Shares | Content::Rates => "---:",
    });
    let lines: Vec<&str> = lines.collect();
    writeln!(out, "{}:", table.title)?;
    if !table.note.is_empty() {
        writeln!(out, "\n{}", escape_markdown(&table.note))?;
    }
    writeln!(out)?;
    writeln!(out, "| {} |\n| {} |", heads.join(" | "), lines.join(" | "))?;
    for row in table.all_rows().take(ROWS) {
        let (gap, mark) = match row {
            Row::Gap(text) | Row::Note(text, _) | Row::Command(text) => (Some(text), String::new()),
            Row::Answer(_, why) => (None, format!(" **← {why}**")),
            Row::Cells(_) => (None, String::new()),
        };
        let cells = columns.iter().enumerate().map(|(place, (index, column))| {
            match (row.cells().get(*index), gap) {
                (None, Some(text)) if place == 0 => escape_markdown(text),
                (Some(Cell::Text(name, _)), _)
                    if *index == 0 && column.content == Content::Words =>
                {
                    inline_code(name) + &mark
                }
                (Some(Cell::Text(text, _)), _) => escape_markdown(text),
                (Some(Cell::Share(share, _)), _) => format!("{} %", words::format_percent(*share)),
                _ => String::new(),
            }
        });
        writeln!(out, "| {} |", cells.collect::<Vec<_>>().join(" | "))?;
    }
    writeln!(out)?;
    if !table.legend.is_empty() {
        let legend = capitalize_first(&table.legend.join("; "));
        writeln!(out, "{}.\n", escape_markdown(&legend))?;
    }
    let rows_left = table.all_rows().count().saturating_sub(ROWS);
    if rows_left > 0 {
        let more_text = words::format_count(rows_left as u64, "more row");
        writeln!(out, "{more_text} in the JSON report.\n")?;
    }
    Ok(())
}

pub(super) fn write_tally(
    report: Masked<&Report>,
    several: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut head = vec!["trials", "passed", "failed"];
    let has_other_failures = report.variants.iter().any(|variant| variant.other > 0);
    if has_other_failures {
        head.push("failed in another way");
    }
    head.push("inconclusive");
    let confidence = format!("{} % interval", report.confidence);
    head.extend(["rate", &confidence]);
    if several {
        head.insert(0, "variant");
    }
    writeln!(out, "| {} |", head.join(" | "))?;
    let first = if several { "---" } else { "---:" };
    writeln!(out, "| {first} |{}", " ---: |".repeat(head.len() - 1))?;
    for variant in report.listed_variants() {
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
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)
}

pub(super) fn write_kinds(
    report: Masked<&Report>,
    several: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
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
    for variant in report.listed_variants() {
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

/// Maximum number of failing tests of a suite.
const TESTS: usize = 50;

/// Writes the tests of a suite that failed.
pub(super) fn write_suite(
    report: Masked<&Report>,
    several: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    for variant in report.listed_variants() {
        let Some(suite) = &variant.suite else {
            continue;
        };
        let name = if several {
            format!("{}: ", inline_code(&variant.name))
        } else {
            String::new()
        };
        writeln!(
            out,
            "### Tests\n\n{name}{}.\n",
            escape_markdown(&suite.headline())
        )?;
        if suite.failing_cases > 0 {
            writeln!(
                out,
                "| test | failed | started | {} % interval | failure |",
                report.confidence
            )?;
            writeln!(out, "| --- | ---: | ---: | ---: | --- |")?;
        }
        for case in suite.failing().take(TESTS) {
            let signature = case.signatures.first().map(|signature| {
                format!("{} (`{}`)", escape_markdown(&signature.title), signature.id)
            });
            let remarks = case.remarks().into_iter();
            let remarks = remarks.map(|remark| escape_markdown(&remark));
            let failure: Vec<String> = signature.into_iter().chain(remarks).collect();
            let failure = failure.join("<br>");
            writeln!(
                out,
                "| {} | {} | {} | {} | {failure} |",
                inline_code(&case.name),
                case.failures,
                case.trials,
                words::format_interval(case.shown_interval())
            )?;
        }
        if suite.failing_cases > 0 {
            writeln!(out)?;
        }
        for line in suite.remaining_lines() {
            writeln!(out, "- {}", escape_markdown(&line))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the signatures, if the evidence shows more than the exit status.
pub(super) fn write_signatures(
    report: Masked<&Report>,
    several: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let mut rows = Vec::new();
    for variant in report.listed_variants() {
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

/// Writes the number of responses before each crash of services.
pub(super) fn write_load_lines(
    report: Masked<&Report>,
    several: bool,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    for variant in report.listed_variants() {
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
