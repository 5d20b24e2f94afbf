//! Shows the first screen of a result: the answer, its evidence, and the next commands.

use super::document::{push_assumptions, push_facts, push_lines};
use super::screen::{Screen, split_note};
use super::table::{push_table, toned};
use super::{pictures, suite};
use console::style;
use provoke_model::{EvidenceDepth, Site, VariantId};
use provoke_questions::{DescribedVariants, PooledBaseline, Verdict};
use provoke_report::{
    CapturedFailure, CountRange, LateTrial, Report, SignatureReport, VariantReport,
    captured_failures, count_ranges, describe_last_lines, group_failures, headlines, host_lines,
    host_table, next_commands, source_line,
};
use provoke_words as words;
use provoke_words::document::{Place, SuggestedCommand, Tone};
use provoke_words::untrusted::Untrusted as _;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::slice;

/// Maximum number of listed trials.
const LISTED: usize = 12;
/// A rate per time is shown as well if one failure takes longer than this, in seconds.
const LONG: f64 = 10.0;

/// Returns the answer in one line, or why there is none.
pub fn format_verdict(report: &Report) -> String {
    let mut screen = Screen::new(None);
    write_headlines(&mut screen, report);
    let mut text = screen
        .into_text()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    text.push('\n');
    if report.verdict == Verdict::CouldNotTest {
        for note in &report.notes {
            let _ = writeln!(text, "note: {}", words::sanitize_line(note));
        }
    }
    text
}

/// Returns the first screen of a run, wrapped to this width. Commands name the run by this reference.
pub fn format_summary(
    report: &Report,
    folder: &Path,
    reference: &str,
    pooled: Option<PooledBaseline>,
    more_commands: Vec<SuggestedCommand>,
    width: Option<usize>,
) -> String {
    let mut screen = Screen::new(width);
    write_headlines(&mut screen, report);
    let document = report.document.as_ref();
    if let Some(document) = document {
        push_facts(&mut screen, document);
    }
    for table in report.tables(&[Place::Screen]) {
        push_table(&mut screen, &table);
    }
    match report.described_variants() {
        DescribedVariants::Each => {
            for variant in &report.variants {
                screen.push_gap();
                write_variant_details(&mut screen, report, variant, reference, folder);
            }
        }
        DescribedVariants::Captured => captured_by_variant(&mut screen, report),
        DescribedVariants::One(id, heading) => {
            describe_one(&mut screen, report, id, &heading, folder);
        }
        DescribedVariants::None => {}
    }
    if report.hosts.len() > 1 {
        push_table(&mut screen, &host_table(report));
    }
    push_lines(&mut screen, &host_lines(report));
    late_trials(&mut screen, report);
    screen.push_gap();
    if let Some(document) = document {
        push_assumptions(&mut screen, document);
    }
    for note in &report.notes {
        let mark = style("note:").yellow();
        let (text, output) = split_note(note);
        screen.push_text(2, &format!("{mark} {text}"));
        for line in &output {
            screen.push_row(line);
        }
    }
    screen.push_gap();
    let mut commands = next_commands(report, reference, pooled);
    commands.extend(more_commands);
    commands.push(saved_in_command(folder));
    screen.push_commands(&commands);
    screen.into_text()
}

/// Describes the failures of one variant, and the requests in flight.
fn describe_one(screen: &mut Screen, report: &Report, id: VariantId, heading: &str, folder: &Path) {
    let Some(variant) = report.variants.get(id.index()) else {
        return;
    };
    screen.push_gap();
    screen.push_text(2, &words::sanitize_line(heading));
    groups_of(screen, variant, folder);
    if let Some(load) = &variant.load {
        push_lines(screen, &load.death_lines());
    }
}

/// Writes the answer, or the rate of each variant if the question was only the rate.
fn write_headlines(screen: &mut Screen, report: &Report) {
    let document = report.document.as_ref();
    let tone = document.map_or(Tone::Plain, |document| document.tone);
    for sentence in headlines::answer_sentences(report) {
        screen.push_text(0, &toned(&sentence, tone).bold().to_string());
    }
}

/// Writes the nonzero counts of a variant.
fn write_variant_details(
    screen: &mut Screen,
    report: &Report,
    variant: &VariantReport,
    reference: &str,
    folder: &Path,
) {
    if report.answer.is_some() && variant.failures > 0 {
        let headline = headlines::rate_headline(report, variant);
        screen.push_text(2, &style(headline).bold().to_string());
    }
    match &variant.suite {
        Some(tests) => suite::write_suite(screen, tests, report.confidence, reference),
        None => groups_of(screen, variant, folder),
    }
    push_lines(screen, &headlines::uncounted_lines(variant));
    if let Some(text) = format_durations(variant) {
        screen.push_text(2, &text);
    }
    if screen.width().is_some() {
        draw_distributions(screen, variant);
    }
    // The time of a hang is that of the timeout.
    let has_own_time = variant
        .signatures
        .iter()
        .any(|failure| failure.outcome != "hang");
    if has_own_time
        && let Some(pace) =
            headlines::describe_pace(&variant.time_between_failures, LONG, report.confidence)
    {
        screen.push_text(2, &pace);
    }
    if let Some(load) = &variant.load {
        push_lines(screen, &load.traffic_lines());
        let ranges = count_ranges(&load.served_before_death);
        let counts: Vec<u64> = ranges.iter().map(|range| range.count).collect();
        if pictures::has_two_peaks(&counts) {
            let ranges = ranges.into_iter().map(|range| {
                let CountRange { start, end, count } = range;
                ([start, end].map(|end| end.to_string()), count)
            });
            push_ranges(screen, &ranges.collect::<Vec<_>>());
        }
    }
}

/// Draws the failure rate during the run if it changed, and the times of failures if they have two peaks: the numbers do
/// not show either.
fn draw_distributions(screen: &mut Screen, variant: &VariantReport) {
    if pictures::rate_changed(&variant.windows)
        && let Some(text) = pictures::describe_windows(&variant.windows)
    {
        screen.push_text(2, &format!("failure rate over time: {text}"));
    }
    let counts: Vec<u64> = variant
        .failure_times
        .iter()
        .map(|range| range.count)
        .collect();
    if pictures::has_two_peaks(&counts) {
        screen.push_text(2, "time until the failure:");
        let ranges = variant.failure_times.iter();
        let ranges = ranges.map(|range| {
            let ends = [range.from, range.to].map(words::format_seconds);
            (ends, range.count)
        });
        push_ranges(screen, &ranges.collect::<Vec<_>>());
    }
}

/// Draws the number of values in each range.
fn push_ranges(screen: &mut Screen, ranges: &[([String; 2], u64)]) {
    for line in pictures::draw_ranges(ranges) {
        screen.push_row(&format!("    {}", style(line).dim()));
    }
}

fn format_durations(variant: &VariantReport) -> Option<String> {
    let times = ["pass", "fail"].map(|name| variant.durations.get(name));
    let [pass, fail] = times.map(|durations| {
        let pass_or_fail = durations?;
        let (median, max_text) = (
            words::format_seconds(pass_or_fail.p50),
            words::format_seconds(pass_or_fail.max),
        );
        Some(if pass_or_fail.max > 2.0 * pass_or_fail.p50 {
            format!("{median} (at most {max_text})")
        } else {
            median
        })
    });
    match (pass, fail) {
        (Some(pass), Some(fail)) => Some(format!("median time: pass {pass}, failure {fail}")),
        _ => None,
    }
}

/// Writes the failures of a variant, the most frequent first.
fn groups_of(screen: &mut Screen, variant: &VariantReport, folder: &Path) {
    for group in group_failures(variant) {
        let mut trials: Vec<u64> = group.measured_trials().collect();
        trials.sort_unstable();
        let aside = aside(group.signature);
        let count = format!("{}x", trials.len());
        screen.push_hanging_text(
            2,
            8,
            &format!(
                "{count:<5} {}{aside}",
                describe_signature(variant, group.signature)
            ),
        );
        write_sites(screen, &group.signature.sites);
        let rate = group
            .own_interval(variant)
            .map_or(String::new(), |interval| {
                format!("rate {}; ", words::format_interval(interval))
            });
        screen.push_text(8, &format!("{rate}{}", format_trial_numbers(&trials)));
        for text in group.describe_evidence(LISTED) {
            screen.push_text(8, &style(text).dim().to_string());
        }
        // Otherwise a stack or a message of the program is shown.
        let depth = group.signature.depth;
        if matches!(depth, EvidenceDepth::Status | EvidenceDepth::Kernel)
            && let Some(text) = describe_last_lines(folder, &trials)
        {
            screen.push_text(8, &style(text).dim().to_string());
        }
    }
    for failure in captured_failures(slice::from_ref(variant)) {
        let mark = style("also:").dim().to_string();
        let end = "; it is not known which of the failures above it is";
        write_captured(screen, &mark, &failure, end);
    }
}

/// Marks a failure that is not counted.
fn aside(signature: &SignatureReport) -> &'static str {
    if signature.is_the_bug {
        ""
    } else {
        "   (not the bug looked for)"
    }
}

/// Writes a failure of captured trials.
fn write_captured(screen: &mut Screen, mark: &str, failure: &CapturedFailure<'_>, end: &str) {
    let (title, id) = (&failure.signature.title, &failure.signature.id);
    let title = style(words::sanitize_line(title)).red();
    let text = format!(
        "{mark} {title}   {}{}",
        style(id).dim(),
        aside(failure.signature)
    );
    screen.push_hanging_text(2, 8, &text);
    write_sites(screen, &failure.signature.sites);
    let trials = words::trial_list(&failure.trials, LISTED);
    let text = format!("in extra trials {trials}{end}");
    screen.push_text(8, &style(text).dim().to_string());
}

/// Returns `trial 4`, `trials 2, 5-9`.
fn format_trial_numbers(trials: &[u64]) -> String {
    let noun = if trials.len() == 1 { "trial" } else { "trials" };
    format!("{noun} {}", words::trial_list(trials, LISTED))
}

/// Writes the lines of source code of a failure, and the text of the first readable one.
fn write_sites(screen: &mut Screen, sites: &[Site]) {
    let mut is_shown = false;
    for site in sites {
        screen.push_text(8, &words::sanitize_line(&site.to_string()));
        if (site.is_wait() || !is_shown)
            && let Some(text) = source_line(site)
        {
            is_shown = true;
            let text = words::sanitize_line(&text);
            let head = format!("        {:>4} | ", site.line);
            let text = match screen.width() {
                Some(columns) => words::shorten_text(&text, columns.saturating_sub(head.len())),
                None => text,
            };
            screen.push_row(&format!("{}{text}", style(head).dim()));
        }
    }
}

/// Describes the trials that ran unusually long when the run was stopped.
fn late_trials(screen: &mut Screen, report: &Report) {
    let mut shown_titles: BTreeSet<&str> = BTreeSet::new();
    for late in &report.late_trials {
        if !shown_titles.insert(&late.title) {
            continue;
        }
        let same_title: Vec<&LateTrial> = report
            .late_trials
            .iter()
            .filter(|trial| trial.title == late.title)
            .collect();
        let trials: Vec<u64> = same_title.iter().map(|trial| trial.trial).collect();
        let longest = same_title
            .iter()
            .map(|trial| trial.seconds)
            .fold(0.0, f64::max);
        screen.push_gap();
        let text = format!(
            "{} still running after {} when the run was stopped:",
            format_trial_numbers(&trials),
            words::format_seconds(longest)
        );
        screen.push_text(2, &text);
        let title = style(words::sanitize_line(&late.title)).yellow();
        screen.push_text(8, &title.to_string());
        write_sites(screen, &late.sites);
    }
    let first = report.late_trials.iter().map(|late| late.trial).min();
    if let Some(first) = first {
        let text = format!("trial {first} and the trials that started after it are not counted");
        screen.push_text(8, &style(text).dim().to_string());
    }
}

/// Lists the captured failures that a comparison counts, each with its variants.
fn captured_by_variant(screen: &mut Screen, report: &Report) {
    let captured = captured_failures(&report.variants).into_iter();
    for failure in captured.filter(|failure| failure.signature.is_the_bug) {
        screen.push_gap();
        let names = words::sanitize_line(&failure.variant_names());
        write_captured(screen, &format!("{names}:"), &failure, "");
    }
}

/// Returns the most detailed title of a failure.
fn describe_signature(variant: &VariantReport, signature: &SignatureReport) -> String {
    let title = style(words::sanitize_line(&signature.title)).red();
    if signature.depth > EvidenceDepth::Output {
        return format!("{title}   {}", style(format!("sig:{}", signature.id)).dim());
    }
    let kinds: Vec<_> = variant
        .kinds
        .iter()
        .filter(|kind| kind.outcome == signature.outcome)
        .collect();
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
    match signature.depth {
        EvidenceDepth::Output => format!(
            "{title}{labels}   {}",
            style(format!("sig:{}", signature.id)).dim()
        ),
        _ => {
            let words = kinds.first().map_or("", |kind| &kind.words);
            format!("{title}{labels}: {words}")
        }
    }
}

fn saved_in_command(folder: &Path) -> SuggestedCommand {
    SuggestedCommand::new("saved in", relative_to_cwd(folder).to_safe().to_string())
}

/// Returns a path relative to the working directory, if it is below it.
pub(super) fn relative_to_cwd(path: &Path) -> &Path {
    let cwd = std::env::current_dir().ok();
    let near = cwd.and_then(|cwd| path.strip_prefix(cwd).ok());
    near.unwrap_or(path)
}
