//! Shows the first screen of a result: the answer, its evidence, and the next commands.

use super::screen::{Screen, SuggestedCommand};
use super::table;
use crate::model::{EvidenceDepth, Site};
use crate::questions::{Answer, PooledBaseline, Threshold, Verdict, required_by_default};
use crate::report::{
    LateTrial, LoadTotals, Report, SignatureReport, VariantReport, bars, group_failures, headlines,
    source_line,
};
use crate::untrusted::{SafeText, Untrusted as _, shell_word};
use crate::words;
use console::style;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

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
    evidence: &Path,
    reference: &str,
    pooled: Option<PooledBaseline>,
    more_commands: Vec<SuggestedCommand>,
    width: Option<usize>,
) -> String {
    let mut screen = Screen::new(width);
    write_headlines(&mut screen, report);
    if let Some(answer) = &report.answer {
        for line in answer.text().detail_lines() {
            screen.push_text(2, &words::sanitize_line(&line));
        }
    }
    screen.push_gap();
    match &report.answer {
        Some(Answer::Compare(_)) => {
            write_table(&mut screen, &table::variant_table(report, width));
            captured_by_variant(&mut screen, report);
        }
        // Without a conclusive trial, every candidate is as likely as any other.
        Some(Answer::Bisect(_)) if report.verdict == Verdict::CouldNotTest => {}
        Some(Answer::Bisect(answer)) => {
            write_table(&mut screen, &table::candidate_table(answer, width));
        }
        Some(Answer::Ramp(answer)) => {
            write_table(&mut screen, &table::level_table(report, answer, width));
            if let Some(marks) = table::marks_of_levels(answer) {
                screen.push_text(2, &style(marks).dim().to_string());
            }
            lowest_failing_level(&mut screen, report, answer);
        }
        _ => {}
    }
    for variant in one_by_one(report) {
        screen.push_gap();
        write_variant_details(&mut screen, report, variant);
    }
    late_trials(&mut screen, report);
    screen.push_gap();
    for assumption in report
        .answer
        .iter()
        .flat_map(|answer| answer.text().assumptions())
    {
        let text = style(format!("assumes: {}", words::sanitize_line(assumption)));
        screen.push_text(2, &text.dim().to_string());
    }
    for note in &report.notes {
        let mark = style("note:").yellow();
        screen.push_text(2, &format!("{mark} {}", words::sanitize_line(note)));
    }
    screen.push_gap();
    let mut commands = next_commands(report, reference, pooled);
    commands.extend(more_commands);
    commands.push(saved_in_command(evidence));
    screen.push_commands(&commands);
    screen.into_text()
}

fn write_table(screen: &mut Screen, rows: &str) {
    for row in rows.lines() {
        screen.push_row(row);
    }
}

/// Returns the variants that are shown individually, not in a table.
fn one_by_one(report: &Report) -> impl Iterator<Item = &VariantReport> {
    let shows = matches!(report.answer, None | Some(Answer::Confirm(_)));
    report.variants.iter().filter(move |_| shows)
}

/// Describes the crash at the lowest failing level, and the requests in flight.
fn lowest_failing_level(screen: &mut Screen, report: &Report, answer: &Threshold) {
    let level = answer.lowest_failing();
    let Some(variant) = level.and_then(|level| report.variants.get(level)) else {
        return;
    };
    screen.push_gap();
    screen.push_text(
        2,
        &format!("at level {}:", words::sanitize_line(&variant.name)),
    );
    groups_of(screen, variant);
    for line in variant.load.iter().flat_map(LoadTotals::death_lines) {
        screen.push_text(2, &words::sanitize_line(&line));
    }
}

/// Writes the answer, or the rate of each variant if the question was only the rate.
fn write_headlines(screen: &mut Screen, report: &Report) {
    if let Some(limit) = &report.max_rate {
        let sentence = style(words::sanitize_line(&limit.sentence)).bold();
        let sentence = match report.verdict {
            Verdict::BelowMaxRate => sentence.green(),
            Verdict::AboveMaxRate => sentence.red(),
            _ => sentence.yellow(),
        };
        screen.push_text(0, &sentence.to_string());
        return;
    }
    let Some(answer) = &report.answer else {
        for variant in &report.variants {
            let name = match variant.name.as_str() {
                "" => String::new(),
                name => format!("{}: ", words::sanitize_line(name)),
            };
            let headline = headlines::rate_headline(variant, report.confidence);
            let text = style(format!("{name}{headline}")).bold();
            screen.push_text(0, &text.to_string());
        }
        return;
    };
    let sentence = style(words::sanitize_line(answer.text().sentence())).bold();
    let sentence = match report.verdict {
        Verdict::Fixed if answer.may_be_a_half_fix() => sentence.yellow(),
        Verdict::Fixed | Verdict::Clean | Verdict::NoDifference | Verdict::Found => {
            sentence.green()
        }
        Verdict::NotFixed | Verdict::Different | Verdict::Failing => sentence.red(),
        _ => sentence.yellow(),
    };
    screen.push_text(0, &sentence.to_string());
}

/// Writes the nonzero counts of a variant.
fn write_variant_details(screen: &mut Screen, report: &Report, variant: &VariantReport) {
    if report.answer.is_some() && variant.failures > 0 {
        let headline = headlines::rate_headline(variant, report.confidence);
        screen.push_text(2, &style(headline).bold().to_string());
    }
    groups_of(screen, variant);
    for text in headlines::uncounted_lines(variant) {
        screen.push_text(2, &text);
    }
    if let Some(leftovers) = words::left_behind(variant.leaked_processes, variant.leaked_objects) {
        let action = match (variant.unkillable_processes, variant.leaked_objects) {
            (0, 0) => ", and killed",
            (0, _) => ", and removed",
            _ => "",
        };
        let trials = words::format_count(variant.leaking_trials, "trial");
        screen.push_text(2, &format!("{leftovers} left behind in {trials}{action}"));
    }
    if let Some(text) = format_durations(variant) {
        screen.push_text(2, &text);
    }
    if let Some(pace) =
        headlines::describe_pace(&variant.time_between_failures, LONG, report.confidence)
    {
        screen.push_text(2, &pace);
    }
    for line in variant.load.iter().flat_map(LoadTotals::traffic_lines) {
        screen.push_text(2, &words::sanitize_line(&line));
    }
    if let Some(load) = &variant.load {
        for line in bars::draw_bars(&load.served_before_death) {
            screen.push_row(&format!("    {}", style(line).dim()));
        }
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
        (Some(pass), Some(fail)) => Some(format!("time: pass {pass}, failure {fail}")),
        _ => None,
    }
}

/// Writes the failures of a variant, the most frequent first.
fn groups_of(screen: &mut Screen, variant: &VariantReport) {
    let groups = group_failures(variant);
    for group in &groups {
        let mut trials: Vec<u64> = group.measured_trials().collect();
        trials.sort_unstable();
        let aside = if group.signature.is_the_bug {
            ""
        } else {
            "   (not the bug looked for)"
        };
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
        screen.push_text(8, &format_trial_numbers(&trials));
        for text in group.describe_evidence(LISTED) {
            screen.push_text(8, &style(text).dim().to_string());
        }
    }
    let is_shown = |signature: &&SignatureReport| {
        groups
            .iter()
            .any(|group| group.signature.id == signature.id)
    };
    for other_signature in variant
        .captured_signatures()
        .iter()
        .filter(|signature| !is_shown(signature))
    {
        screen.push_hanging_text(
            2,
            8,
            &format!(
                "{} {}   {}",
                style("also:").dim(),
                style(words::sanitize_line(&other_signature.title)).red(),
                style(&other_signature.id).dim(),
            ),
        );
        for site in &other_signature.sites {
            screen.push_text(8, &words::sanitize_line(&site.to_string()));
        }
        let trials = words::trial_list(&other_signature.trials, LISTED);
        let text =
            format!("in extra trials {trials}; it is not known which of the failures above it is");
        screen.push_text(8, &style(text).dim().to_string());
    }
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
            let number = style(format!("{:>4} |", site.line)).dim();
            screen.push_row(&format!("        {number} {text}"));
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
            "{} still running after {} when you stopped the run:",
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

/// Lists the captured failures of a comparison, each with its variants.
fn captured_by_variant(screen: &mut Screen, report: &Report) {
    let mut captured: Vec<(&SignatureReport, Vec<u64>, Vec<&str>)> = Vec::new();
    for variant in &report.variants {
        let groups = group_failures(variant);
        let is_shown = |signature: &&SignatureReport| {
            groups
                .iter()
                .any(|group| group.signature.id == signature.id)
        };
        for signature in variant
            .captured_signatures()
            .iter()
            .filter(|signature| !is_shown(signature))
        {
            match captured
                .iter_mut()
                .find(|(captured_signature, ..)| captured_signature.id == signature.id)
            {
                Some((_, trials, names)) => {
                    trials.extend(&signature.trials);
                    names.push(&variant.name);
                }
                None => captured.push((signature, signature.trials.clone(), vec![&variant.name])),
            }
        }
    }
    for (signature, mut trials, names) in captured {
        trials.sort_unstable();
        screen.push_gap();
        screen.push_hanging_text(
            2,
            8,
            &format!(
                "{}: {}   {}",
                words::sanitize_line(&names.join(", ")),
                style(words::sanitize_line(&signature.title)).red(),
                style(&signature.id).dim(),
            ),
        );
        write_sites(screen, &signature.sites);
        let trials = words::trial_list(&trials, LISTED);
        screen.push_text(
            8,
            &style(format!("in extra trials {trials}")).dim().to_string(),
        );
    }
}

/// Returns the most detailed title of a failure.
fn describe_signature(variant: &VariantReport, signature: &SignatureReport) -> String {
    let title = style(words::sanitize_line(&signature.title)).red();
    if signature.depth > EvidenceDepth::Output {
        return format!("{title}   {}", style(&signature.id).dim());
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
        EvidenceDepth::Output => format!("{title}{labels}   {}", style(&signature.id).dim()),
        _ => {
            let words = kinds.first().map_or("", |kind| &kind.words);
            format!("{title}{labels}: {words}")
        }
    }
}

/// Returns the suggested commands.
fn next_commands(
    report: &Report,
    reference: &str,
    pooled: Option<PooledBaseline>,
) -> Vec<SuggestedCommand> {
    let run = shell_word(reference.as_ref());
    let mut commands = Vec::new();
    if report.finished || report.same_deadlock {
        commands.extend(after_the_end(report, &run, pooled));
    } else {
        let resume = SuggestedCommand::new("continue", format!("provoke resume {run}"));
        commands.push(match (report.trials_left, report.seconds_left) {
            (Some((trials, seconds)), _) => resume.with_remark(format!(
                "at most {}, about {}",
                words::format_count(trials, "more trial"),
                words::format_seconds(seconds)
            )),
            (None, Some(remaining)) => {
                resume.with_remark(format!("at most {} more", words::format_seconds(remaining)))
            }
            (None, None) => resume,
        });
        if report.answer.is_none() && report.known_best().is_some() {
            commands.push(explain_command(report, &run));
        }
        commands.extend(report.late_trials.first().map(|late| {
            let line = format!("provoke explain {run}#{}", late.trial);
            SuggestedCommand::new("where it was stuck", line)
        }));
    }
    commands
}

fn saved_in_command(evidence: &Path) -> SuggestedCommand {
    SuggestedCommand::new("saved in", relative_to_cwd(evidence).to_safe().to_string())
}

/// Returns a path relative to the working directory, if it is below it.
pub(super) fn relative_to_cwd(path: &Path) -> &Path {
    let cwd = std::env::current_dir().ok();
    let near = cwd.and_then(|cwd| path.strip_prefix(cwd).ok());
    near.unwrap_or(path)
}

fn explain_command(report: &Report, run: &SafeText) -> SuggestedCommand {
    let loads = report
        .variants
        .iter()
        .filter_map(|variant| variant.load.as_ref());
    let in_flight = loads.flat_map(|load| &load.in_flight_at_death);
    let purpose = if in_flight.sum::<u64>() > 0 {
        "the crash, and the requests in flight"
    } else if report.variants.iter().any(has_crash) {
        "details of the crash"
    } else {
        "details of the failure"
    };
    SuggestedCommand::new(purpose, format!("provoke explain {run}"))
}

/// Returns whether a signal ended a trial of a variant.
fn has_crash(variant: &VariantReport) -> bool {
    let mut kinds = variant.kinds.iter();
    kinds.any(|kind| kind.is_the_bug && kind.outcome.starts_with("SIG"))
}

fn after_the_end(
    report: &Report,
    run: &SafeText,
    pooled: Option<PooledBaseline>,
) -> Vec<SuggestedCommand> {
    if let Some(Answer::Hunt(hunt)) = &report.answer
        && let Some(trial) = hunt.example
    {
        return vec![
            SuggestedCommand::new(
                "details of the failure",
                format!("provoke explain {run}#{trial}"),
            ),
            SuggestedCommand::new("is it fixed?", format!("provoke confirm --held {run}")),
            SuggestedCommand::new(
                "hold the thread again",
                format!("provoke replay {run}#{trial}"),
            ),
        ];
    }
    // The failure with the most detailed evidence.
    let failing = report
        .variants
        .iter()
        .filter(|variant| variant.failures > 0);
    let variant = failing.min_by_key(|variant| variant.clean_runs_to_confirm);
    let Some((variant, trial)) =
        variant.and_then(|variant| Some((variant, variant.failing_trials.first()?)))
    else {
        return rarer_failure_command(report).into_iter().collect();
    };
    let mut commands: Vec<SuggestedCommand> = Vec::new();
    if report.known_best().is_some() {
        commands.push(explain_command(report, run));
    }
    match &report.answer {
        Some(Answer::Confirm(_)) => commands.push(
            SuggestedCommand::new(
                "try the next fix",
                format!("provoke confirm --baseline {run}"),
            )
            .with_remark("same baseline and flags"),
        ),
        Some(Answer::Ramp(answer)) => {
            commands.extend(settle_command(report, run));
            commands.extend(answer.untried_gap().map(|(clean, fails)| {
                SuggestedCommand::new(
                    "try the levels between",
                    format!("repeat this with -c {clean}..{fails}"),
                )
            }));
        }
        // The number of trials of each variant depended on its failures, so their share is not a rate.
        Some(Answer::Bisect(_) | Answer::Reduce(_) | Answer::Shrink(_)) => {}
        _ => commands.extend(confirm_command(report, variant, run, pooled)),
    }
    commands.push(SuggestedCommand::new(
        "repeat one trial",
        format!("provoke replay {run}#{trial}"),
    ));
    commands
}

/// Returns the command that answers the open question of a search for a load level.
fn settle_command(report: &Report, run: &SafeText) -> Option<SuggestedCommand> {
    let Some(Answer::Ramp(answer)) = &report.answer else {
        return None;
    };
    let needed = answer.trials_needed?;
    Some(SuggestedCommand::new(
        "settle it",
        format!("provoke resume {run} -n {needed}"),
    ))
}

/// Failure rates that a longer run can rule out.
const RARE: [f64; 2] = [0.01, 0.001];

/// Returns the command of a run that would find a failure that is too rare for this one.
fn rarer_failure_command(report: &Report) -> Option<SuggestedCommand> {
    let [variant] = report.variants.as_slice() else {
        return None;
    };
    if report.answer.is_some() || variant.trials == 0 || report.verdict != Verdict::Clean {
        return None;
    }
    let alpha = 1.0 - report.confidence / 100.0;
    let needed = RARE.into_iter().find_map(|rate| {
        // Half of it, because the interval of the report has two sides.
        let needed = provoke_stats::clean_runs_at_known_rate(rate, alpha / 2.0)?;
        (needed > variant.trials).then_some((rate, needed))
    });
    let (rate, needed) = needed?;
    let pass = variant.durations.get("pass")?;
    let command = SuggestedCommand::new(
        &format!("exclude a rate of {} %", words::format_percent(rate)),
        format!("repeat this with -n {needed}"),
    );
    Some(command.with_remark(format!(
        "about {}",
        time_of_passes(report, pass.p50, needed)
    )))
}

/// Returns the duration of this many passing trials.
fn time_of_passes(report: &Report, pass: f64, trials: u64) -> String {
    let rounds = trials.div_ceil(u64::from(report.jobs));
    words::format_seconds((pass + report.overhead_seconds) * provoke_stats::real(rounds))
}

/// Returns the command that confirms a fix of this variant.
fn confirm_command(
    report: &Report,
    variant: &VariantReport,
    run: &SafeText,
    pooled: Option<PooledBaseline>,
) -> Option<SuggestedCommand> {
    let (needed, half) = variant
        .clean_runs_to_confirm
        .zip(variant.clean_runs_to_exclude_half)?;
    let pass = variant.durations.get("pass").map(|pass| pass.p50);
    let seconds = pass.map(|pass| pass + report.overhead_seconds);
    let required = pooled.map_or_else(
        || required_by_default(needed, half, report.jobs, seconds),
        |pooled| pooled.required,
    );
    let mut line = format!("provoke confirm --baseline {run}");
    if !variant.name.is_empty() {
        let separator = if variant.name.starts_with('-') {
            '='
        } else {
            ' '
        };
        let name = shell_word(variant.name.as_ref());
        let _ = write!(line, " --of{separator}{name}");
    }
    let time = pass.map_or(String::new(), |pass| {
        format!(", about {}", time_of_passes(report, pass, required.trials))
    });
    let trials = words::format_count(required.trials, "passing trial");
    let verdict = if required.excludes_half {
        ""
    } else {
        " for PROBABLY FIXED"
    };
    let counted = pooled.map_or(String::new(), |pooled| {
        let other_runs = words::format_count(pooled.runs.saturating_sub(1), "earlier run");
        format!("; baseline: this run and {other_runs}")
    });
    Some(
        SuggestedCommand::new("is it fixed?", line)
            .with_remark(format!("{trials}{verdict}{time}{counted}")),
    )
}
