//! Report in Markdown, to paste into an issue.
//!
//! The name of the machine is left out: readers of an issue do not need it, and it may be confidential. Text that a
//! child process or the user chose is either code or escaped, so that it cannot become a table, a link, a mention or
//! HTML.

mod escape;
mod tables;

use super::issue::Issue;
use super::results_table::{failure_table, results_table, times_table};
use super::variant_facts::{describe_machine, describe_origin, measurement_lines};
use super::{
    ExportError, ExportOptions, Exporter, Masked, MaskedRun, Report, SuiteReport, headlines,
    host_lines, host_table,
};
use escape::{escape_markdown, fence_code, inline_code};
use provoke_model::Site;
use provoke_questions::{AnswerText, RateMeaning, Verdict};
use provoke_stats as stats;
use provoke_words as words;
use provoke_words::capitalize_first;
use provoke_words::document::Place;
use provoke_words::untrusted::shell_word;
use std::io;

/// Markdown, for an issue.
pub static MARKDOWN: Exporter = Exporter::new("md", "Write Markdown for a bug report", write);

fn write(
    run: &MaskedRun<'_>,
    options: &ExportOptions,
    out: &mut dyn io::Write,
) -> Result<(), ExportError> {
    let issue = Issue::read_from(run, options.environment)?;
    Ok(write_markdown(run.report(), &issue, out)?)
}

fn write_markdown(
    report: Masked<&Report>,
    issue: &Issue,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    writeln!(out, "# {}\n", describe_title(report, issue))?;
    let so_far = if report.finished { "" } else { " so far" };
    let verdict = format!("**{}{so_far}.**", headlines::verdict_text(report.verdict));
    match report.variants.as_slice() {
        [variant] => {
            let mut headline = headlines::rate_headline(&report, variant);
            if report.verdict == Verdict::Failing && variant.failures == 0 {
                // Only trials that were changed failed.
                headline.insert_str(0, "plain trials: ");
            }
            writeln!(out, "{verdict} {}.\n", capitalize_first(&headline))?;
            write_sentence(report, out)?;
        }
        _ => {
            writeln!(out, "{verdict}\n")?;
            write_sentence(report, out)?;
            for variant in report.listed_variants() {
                // The results of a search chose the number of trials, so the answer has its own intervals.
                let headline = match report.rate_meaning() {
                    RateMeaning::Searched => headlines::describe_counts(variant),
                    _ => headlines::rate_headline(&report, variant),
                };
                writeln!(out, "- {}: {headline}", inline_code(&variant.name))?;
            }
            writeln!(out)?;
        }
    }
    write_figures(report, out)?;
    tables::write_suite(report, out)?;
    write_failure_source(report, issue, out)?;
    last_output(issue, out)?;
    write_reproduction(report, issue, out)?;
    write_builds(report, issue, out)?;
    after_a_fix(report, issue, out)?;
    writeln!(out, "<details><summary>All counts</summary>\n")?;
    let own_tables = [
        results_table(&report),
        tables::with_notes_in_cells(failure_table(&report)),
        times_table(&report),
    ];
    for table in report.tables(&Place::ALL).iter().chain(&own_tables) {
        tables::write_table(table, out)?;
    }
    if report.hosts.len() > 1 {
        tables::write_table(&host_table(&report), out)?;
    }
    tables::write_load_lines(report, out)?;
    let facts = measurement_lines(&report, usize::MAX);
    let mut lines: Vec<String> = facts.iter().map(|fact| escape_markdown(fact)).collect();
    if let Some(document) = &report.document {
        let facts = document.facts.iter();
        lines.extend(facts.map(|line| capitalize_first(&escape_markdown(line))));
        let granted = document.assumptions.iter();
        lines.extend(granted.map(|line| format!("Assumes: {}", escape_markdown(line))));
    }
    let host_lines = host_lines(&report);
    lines.extend(host_lines.iter().map(|line| escape_markdown(line.trim())));
    for line in &lines {
        writeln!(out, "- {line}")?;
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "</details>\n")?;
    for note in &report.notes {
        let (text, output) = note.split_once('\n').unwrap_or((note, ""));
        writeln!(out, "- {}", escape_markdown(text))?;
        if !output.is_empty() {
            writeln!(out, "\n{}", fence_code("text", output))?;
        }
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}", escape_markdown(&describe_origin(&report)))
}

/// Maximum number of sentences in a short summary.
const MAX_SENTENCES: usize = 20;
/// Maximum length of a sentence in a short summary, in characters.
const MAX_SENTENCE: usize = 1000;

/// Writes the verdict and the failure rates, for a place with too little room for the report.
pub fn export_short_summary(run: &MaskedRun<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let report = run.report();
    let command = inline_code(&words::shorten_text(&report.command, TITLE_COMMAND));
    let verdict = headlines::verdict_text(report.verdict);
    writeln!(out, "# {command}: {verdict}\n")?;
    let sentences = headlines::answer_sentences(&report);
    for sentence in sentences.iter().take(MAX_SENTENCES) {
        let sentence = words::shorten_text(sentence, MAX_SENTENCE);
        writeln!(out, "- {}", escape_markdown(&capitalize_first(&sentence)))?;
    }
    let unshown = sentences.len().saturating_sub(MAX_SENTENCES) as u64;
    if unshown > 0 {
        let more = words::plural_of(unshown, "more variant", "more variants");
        writeln!(out, "- {more}")?;
    }
    writeln!(
        out,
        "\nThe whole report is too long for this page: `--md=FILE` writes it.\n"
    )
}

/// Returns the headline of a document, and its first facts.
pub fn summarize_document(document: &provoke_words::document::Document, facts: usize) -> String {
    let headline = format!("**{}**\n\n", escape_markdown(&document.headline));
    let facts = document.facts.iter().take(facts);
    let facts = facts.map(|fact| format!("- {}\n", escape_markdown(fact)));
    headline + &facts.collect::<String>()
}

/// Maximum length of the command in the title.
const TITLE_COMMAND: usize = 60;

/// Returns the command and its failure: `./crash`: SIGSEGV at crash.c:28, 3 of 100 trials. All failures of a
/// hunt may be under holds.
fn describe_title(report: Masked<&Report>, issue: &Issue) -> String {
    let command = inline_code(&words::shorten_text(&issue.command, TITLE_COMMAND));
    let Some(((title, _, count, _), (outcome, trials))) =
        issue.failure.as_ref().zip(issue.outcome.as_ref())
    else {
        let crash = report.answer_text().and_then(AnswerText::crash);
        let verdict = headlines::verdict_text(report.verdict);
        let result = crash.map_or_else(|| verdict.to_owned(), escape_markdown);
        return format!("{command}: {result}");
    };
    let site = Site::naming_site(&issue.sites);
    if let (None, [variant]) = (site, report.variants.as_slice())
        && let Some(test) = variant.suite.as_ref().and_then(|suite| suite.cases.first())
        && test.failures > 0
    {
        // Other tests may have failed in the same trials.
        let name = escape_markdown(&words::sanitize_line(&test.name));
        let trials = words::format_count(test.trials, "trial");
        return format!("{command}: {name}, {} of {trials}", test.failures);
    }
    let failure = match site {
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

/// Writes the answer of a question.
fn write_sentence(report: Masked<&Report>, out: &mut dyn io::Write) -> io::Result<()> {
    let Some(document) = &report.document else {
        return Ok(());
    };
    let sentence = capitalize_first(&escape_markdown(&document.headline));
    writeln!(out, "> {sentence}.\n")
}

/// Writes the drawings of the answer.
fn write_figures(report: Masked<&Report>, out: &mut dyn io::Write) -> io::Result<()> {
    for figure in report
        .document
        .iter()
        .flat_map(|document| &document.figures)
    {
        writeln!(out, "### {}\n", figure.title)?;
        writeln!(out, "{}", fence_code("text", &figure.lines.join("\n")))?;
    }
    Ok(())
}

/// Writes the failure and its source lines.
fn write_failure_source(
    report: Masked<&Report>,
    issue: &Issue,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let Some((title, id, count, total)) = &issue.failure else {
        return Ok(());
    };
    let of_failures = match (*count, *total) {
        (1, 1) => "The only failed trial".to_owned(),
        (count, all) if count == all => format!("All {all} failed trials"),
        (count, all) => format!("{count} of {all} failed trials"),
    };
    // The title counts a test also in the trials in which others failed.
    let has_tests = report
        .variants
        .iter()
        .any(|variant| variant.suite.is_some());
    let only = if has_tests && issue.sites.is_empty() {
        " with only these failures"
    } else {
        ""
    };
    let of_variant = issue
        .variant
        .as_ref()
        .map_or(String::new(), |name| format!(" of {}", inline_code(name)));
    writeln!(
        out,
        "### {}\n\n{of_failures}{only}{of_variant}: {} (`{id}`)\n",
        if count == total {
            "Failure"
        } else {
            "Most frequent failure"
        },
        escape_markdown(title)
    )?;
    write_place(&issue.sites, &issue.source, &issue.stack, out)?;
    if issue.others.is_empty() {
        return Ok(());
    }
    writeln!(out, "### Other failures\n")?;
    for other in &issue.others {
        let trials = words::format_count(other.count, "failed trial");
        let title = escape_markdown(&other.title);
        writeln!(out, "{trials}: {title} (`{}`)\n", other.id)?;
        write_place(&other.sites, &other.source, &other.stack, out)?;
    }
    Ok(())
}

/// Writes the source lines and the stack of a failure.
fn write_place(
    sites: &[Site],
    source: &[String],
    stack: &[String],
    out: &mut dyn io::Write,
) -> io::Result<()> {
    for site in sites {
        writeln!(out, "- {}", inline_code(&site.to_string()))?;
    }
    if !sites.is_empty() {
        writeln!(out)?;
    }
    for lines in [source, stack]
        .into_iter()
        .filter(|lines| !lines.is_empty())
    {
        writeln!(out, "{}", fence_code("text", &lines.join("\n")))?;
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
fn write_reproduction(
    report: Masked<&Report>,
    issue: &Issue,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    writeln!(out, "### Reproduce\n")?;
    let mut variants = report.listed_variants();
    if variants.iter().any(|variant| variant.failures > 0) {
        variants.retain(|variant| variant.failures > 0);
    }
    let commands = variants.iter().map(|variant| variant.command.as_str());
    let mut commands: Vec<&str> = commands.collect();
    commands.dedup();
    match commands.as_slice() {
        [_] => writeln!(out, "{}", fence_code("sh", &issue.command))?,
        several => writeln!(out, "{}", fence_code("sh", &several.join("\n")))?,
    }
    for line in &issue.around {
        writeln!(out, "- {}", capitalize_first(&escape_markdown(line)))?;
    }
    if !issue.around.is_empty() {
        writeln!(out)?;
    }
    if let Some(arguments) = &issue.hunt {
        writeln!(out, "This searches the hold again:\n")?;
        let command = format!("provoke hunt {arguments}");
        writeln!(out, "{}", fence_code("sh", &command))?;
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

fn write_builds(report: Masked<&Report>, issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "### Versions\n")?;
    for line in issue.describe_builds() {
        writeln!(out, "- {}", escape_markdown(&line))?;
    }
    let machine = escape_markdown(&describe_machine(&report));
    writeln!(out, "- {machine}\n")
}

/// Tests for which the command that confirms a fix is written.
const TESTS_TO_FIX: usize = 5;

/// Writes how to confirm fixes of the tests that failed, without access to this run.
fn after_a_fix_of_tests(
    suite: &SuiteReport,
    (alpha, words): (f64, &str),
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let commands = suite.failing().take(TESTS_TO_FIX).filter_map(|case| {
        let (failures, trials) = (case.failures, case.trials);
        let needed = stats::clean_runs_to_exclude_half(failures, trials, 1.0, alpha)?;
        let needed = words::format_count(needed, "passing trial");
        let only = format!("test:{}", case.name);
        let only = shell_word(only.as_ref());
        let baseline = format!("--baseline {failures}/{trials}");
        Some(format!(
            "provoke confirm {baseline} --only {only} {words}   # {needed}"
        ))
    });
    let commands: Vec<String> = commands.collect();
    if commands.is_empty() {
        return Ok(());
    }
    let confidence = words::format_percent(1.0 - alpha);
    writeln!(
        out,
        "### After a fix\n\nFIXED at {confidence} % takes, with this run alone as the baseline:\n"
    )?;
    writeln!(out, "{}", fence_code("sh", &commands.join("\n")))
}

/// Writes how to confirm a fix without access to this run.
fn after_a_fix(report: Masked<&Report>, issue: &Issue, out: &mut dyn io::Write) -> io::Result<()> {
    let [variant] = report.variants.as_slice() else {
        return Ok(());
    };
    let (Some(needed), Some((_, words))) = (variant.clean_runs_to_exclude_half, &issue.repeat)
    else {
        return Ok(());
    };
    let alpha = (100.0 - report.confidence) / 100.0;
    if let Some(suite) = &variant.suite {
        return after_a_fix_of_tests(suite, (alpha, words), out);
    }
    let failures = variant.rarest_failures.unwrap_or(variant.failures);
    let alone = if variant.rate.design_effect > 1.0
        && let Some(enough) =
            stats::clean_runs_to_exclude_half(failures, variant.trials, 1.0, alpha)
    {
        let enough = words::format_count(enough, "passing trial");
        format!(
            "because the failures of this run come in clumps, or {enough} if that was chance, which a second run of the unfixed program tests. The command asks for {enough}"
        )
    } else {
        "with this run alone as the baseline".to_owned()
    };
    writeln!(
        out,
        "### After a fix\n\nFIXED at {} % takes {}, {alone}:\n",
        report.confidence,
        words::format_count(needed, "passing trial")
    )?;
    let command = format!(
        "provoke confirm --baseline {failures}/{} {words}",
        variant.trials
    );
    writeln!(out, "{}", fence_code("sh", &command))
}
