//! Draws tables of variants, candidates and load levels: one line each.

use super::columns::Columns;
use super::pictures;
use console::{Alignment, measure_text_width, pad_str, style, truncate_str};
use provoke_model::{CompareGoal, LoadGoal};
use provoke_questions::{
    Answer, Bisection, CandidateReport, LoadLevelReport, Threshold, VariantVerdict,
};
use provoke_report::{RateAxis, Report, VariantReport, group_failures, headlines};
use provoke_stats as stats;
use provoke_words as words;
use std::fmt::Write as _;

/// Minimum width of the title of a failure on a narrow terminal.
const TITLE: usize = 16;
/// From this number on, variants that passed share a row.
const MANY: usize = 4;
/// Head of the column of signatures.
const SIGNATURE: &str = "signature";
/// Number of cells of a row before its failures.
const CELLS: usize = 8;
/// Columns to leave out on a narrow terminal, from wide to narrow: the times, the rate, or if the interval is too wide,
/// the interval instead, and both.
const LEFT_OUT: [&[usize]; 6] = [&[], &[6], &[6, 7], &[6, 7, 4], &[6, 7, 5], &[6, 7, 4, 5]];

/// Returns a table of the variants.
pub(super) fn variant_table(report: &Report, terminal: Option<usize>) -> String {
    let confidence = format!("{} %", report.confidence);
    let heads = [
        "",
        "",
        "trials",
        "failed",
        "rate",
        &confidence,
        "pass",
        "failure",
    ];
    let rows = variant_rows(report);
    let named = rows.iter().any(|row| !row.failures.is_empty());
    let axis = RateAxis::covering(rows.iter().filter_map(|row| row.interval));
    let head = VariantRow {
        cells: heads.map(|head| style(head).dim().to_string()),
        interval: None,
        point: None,
        failures: style(if named { SIGNATURE } else { "" }).dim().to_string(),
    };
    let mut full = Columns::fit_to(rows.iter().map(|row| &row.cells), 2);
    for (width, head) in full.widths.iter_mut().zip(heads) {
        // An empty column has no head.
        if *width > 0 {
            *width = head.len().max(*width);
        }
    }
    let longest = rows.iter().map(|row| measure_text_width(&row.failures));
    let min_width = match longest.max() {
        Some(longest) if named => longest.clamp(SIGNATURE.len(), TITLE),
        _ => 0,
    };
    let columns_without = |left_out: &[usize]| {
        let mut columns = full;
        for column in left_out {
            columns.widths[*column] = 0;
        }
        columns
    };
    let fits = |columns: &Columns<CELLS>| {
        terminal.is_none_or(|terminal| columns.line_width() + 4 + min_width <= terminal)
    };
    let [choices @ .., narrowest] = LEFT_OUT.map(columns_without);
    let columns = choices.into_iter().find(fits).unwrap_or(narrowest);
    // Intervals are drawn if nothing has to be left out for them.
    let full_width = full.line_width() + 4 + min_width + pictures::INTERVAL_WIDTH + 2;
    let draws_intervals = terminal.is_some_and(|terminal| full_width <= terminal);
    let picture = |row: Option<&VariantRow>| {
        let picture = match row {
            _ if !draws_intervals => return String::new(),
            None => style(pictures::interval_head(axis)).dim().to_string(),
            Some(row) => row.interval.map_or(String::new(), |interval| {
                pictures::draw_interval(interval, row.point, axis)
            }),
        };
        let width = pictures::INTERVAL_WIDTH + 2;
        pad_str(&picture, width, Alignment::Left, None).into_owned()
    };
    let used_width = columns.line_width() + 4 + measure_text_width(&picture(None));
    let room = terminal.map_or(usize::MAX, |width| {
        width.saturating_sub(used_width).max(min_width)
    });
    let mut out = String::new();
    let lines = std::iter::once((&head, picture(None)));
    for (row, picture) in lines.chain(rows.iter().map(|row| (row, picture(Some(row))))) {
        let cut_failures = truncate_str(&row.failures, room, "…");
        let line = format!("  {}  {picture}{cut_failures}", columns.line(&row.cells));
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// A row of the table of variants.
struct VariantRow {
    cells: [String; CELLS],
    interval: Option<[f64; 2]>,
    /// The estimate; zero if no trial failed.
    point: Option<f64>,
    failures: String,
}

/// Returns the candidates of a search: the tested ones, and possible culprits.
pub(super) fn candidate_table(answer: &Bisection, terminal: Option<usize>) -> String {
    let rows: Vec<[String; 5]> = answer
        .points
        .iter()
        .map(|point| candidate_cells(answer, point))
        .collect();
    let head = ["", "", "failed", "", "likely"].map(|head| style(head).dim().to_string());
    let columns = Columns::fit_to(std::iter::once(&head).chain(&rows), 2);
    let used_width = columns.line_width() + 2;
    let room = terminal.map_or(TITLE * 2, |width| {
        width.saturating_sub(used_width).max(TITLE)
    });
    let line = |cells: &[String; 5], about: &str| {
        let note = style(truncate_str(about, room, "…")).dim();
        let line = format!("{}  {note}", columns.line(cells));
        line.trim_end().to_owned()
    };
    let mut out = String::new();
    let _ = writeln!(out, "{}", line(&head, ""));
    let mut previous_place = None;
    for (point, row) in answer.points.iter().zip(&rows) {
        if let Some(skipped) = previous_place
            .and_then(|before| (point.place - 1_u64).checked_sub(before))
            .filter(|skipped| *skipped > 0)
        {
            let text = format!("     {skipped} not tried");
            let _ = writeln!(out, "{}", style(text).dim());
        }
        previous_place = Some(point.place);
        let about = point
            .about
            .as_deref()
            .map_or(String::new(), words::sanitize_line);
        let _ = writeln!(out, "{}", line(row, &about));
    }
    out
}

/// Returns the cells of a candidate: a mark at the culprit, its name, failures, rate and probability.
fn candidate_cells(answer: &Bisection, point: &CandidateReport) -> [String; 5] {
    let is_culprit = answer.culprits.contains(&point.name);
    let mut failed = match (point.untestable.as_deref(), point.trials) {
        (Some(_), _) if point.other > 0 => "given up".to_owned(),
        (Some(_), _) => "not testable".to_owned(),
        (None, 0) if point.other == 0 => String::new(),
        (None, trials) => format!("{} of {trials}", point.failures),
    };
    if point.other > 0 {
        let _ = write!(failed, ", {} in another way", point.other);
    }
    let rate = stats::real(point.failures) / stats::real(point.trials.max(1));
    let percent_if = |share: f64, min: f64| {
        if share > min {
            format!("{} %", words::format_percent(share))
        } else {
            String::new()
        }
    };
    let mark = if is_culprit {
        style(" >").red().bold().to_string()
    } else {
        "  ".to_owned()
    };
    let name = words::sanitize_line(&point.name);
    let name = if is_culprit {
        style(name).red().bold().to_string()
    } else {
        name
    };
    [
        mark,
        name,
        failed,
        percent_if(rate, 0.0),
        percent_if(point.probability, 0.005),
    ]
}

/// Returns the tested load levels, and the crashes of the service at each. Neighbours without failures share a row.
pub(super) fn level_table(report: &Report, answer: &Threshold, terminal: Option<usize>) -> String {
    let interval = format!("{} %", report.confidence);
    let failed = match answer.find {
        LoadGoal::Death => "died",
        LoadGoal::Refusal => "failed",
    };
    let has_refusals = answer.levels.iter().any(|level| level.refused > 0);
    let has_deaths = answer
        .levels
        .iter()
        .any(|level| level.served_before_death.is_some());
    let refused_head = if has_refusals { "refused" } else { "" };
    let served_head = if has_deaths { "served before" } else { "" };
    let heads = [
        "clients",
        "trials",
        failed,
        &interval,
        refused_head,
        served_head,
    ];
    let axis = RateAxis::covering(answer.levels.iter().filter_map(|level| level.interval));
    let picture = |levels: &[&LoadLevelReport]| {
        let [level] = levels else {
            return String::new();
        };
        let share = stats::real(level.failures) / stats::real(level.trials.max(1));
        level.interval.map_or(String::new(), |interval| {
            pictures::draw_interval(interval, Some(share), axis)
        })
    };
    let levels = answer.levels.iter().zip(&report.variants);
    let tried_levels: Vec<(&LoadLevelReport, String)> = levels
        .filter(|(level, _)| level.trials > 0)
        .map(|(level, variant)| (level, describe_failures(variant)))
        .collect();
    let shares_row = |a: &(&LoadLevelReport, String), b: &(&LoadLevelReport, String)| {
        let is_plain = |(level, crashes): &(&LoadLevelReport, String)| {
            level.failures == 0 && crashes.is_empty() && answer.clean_to != Some(level.clients)
        };
        is_plain(a) && is_plain(b) && refuses_load(answer, a.0) == refuses_load(answer, b.0)
    };
    let rows: Vec<([String; 6], String, &str)> = tried_levels
        .chunk_by(shares_row)
        .map(|group| {
            let levels: Vec<&LoadLevelReport> = group.iter().map(|(level, _)| *level).collect();
            let cells = level_cells(&levels, has_refusals);
            (cells, picture(&levels), group[0].1.as_str())
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let named = rows.iter().any(|(.., crashes)| !crashes.is_empty());
    let head = heads.map(str::to_owned);
    let numbers = rows.iter().map(|(row, ..)| row);
    let columns = Columns::fit_to(std::iter::once(&head).chain(numbers), 0);
    let picture_width = pictures::INTERVAL_WIDTH + 2;
    let used_width = columns.line_width() + 4;
    let draws_intervals =
        terminal.is_some_and(|terminal| used_width + picture_width + TITLE <= terminal);
    let used_width = used_width + if draws_intervals { picture_width } else { 0 };
    let room = terminal.map_or(usize::MAX, |width| width.saturating_sub(used_width));
    let full = |row: &[String; 6], picture: &str, crashes: &str| {
        let picture = if draws_intervals {
            pad_str(picture, picture_width, Alignment::Left, None)
        } else {
            "".into()
        };
        let crashes = if room < TITLE {
            "".into()
        } else {
            truncate_str(crashes, room, "…")
        };
        let line = format!("  {}  {picture}{crashes}", columns.line(row));
        line.trim_end().to_owned()
    };
    let head_of_crashes = if named { SIGNATURE } else { "" };
    let head = full(&head, &pictures::interval_head(axis), head_of_crashes);
    let mut out = format!("{}\n", style(head).dim());
    for (row, picture, crashes) in &rows {
        let _ = writeln!(out, "{}", full(row, picture, crashes));
    }
    out
}

/// Returns the cells of neighbouring load levels that share a row.
fn level_cells(levels: &[&LoadLevelReport], has_refusals: bool) -> [String; 6] {
    let [first, last] = [levels[0], levels[levels.len() - 1]];
    let clients = match levels.len() {
        1 => first.clients.to_string(),
        _ => format!("{} to {}", first.clients, last.clients),
    };
    let sum = |count: fn(&LoadLevelReport) -> u64| -> u64 {
        levels.iter().map(|level| count(level)).sum()
    };
    let (refused, requests) = (sum(|level| level.refused), sum(|level| level.requests));
    // A bound for all levels of a row together would be no bound for any of them.
    let interval = first.interval.filter(|_| levels.len() == 1);
    let rate = interval.map_or(String::new(), |ends| {
        if first.one_sided {
            format!("at most {} %", words::percent_bound(ends[1]))
        } else {
            words::format_interval(ends)
        }
    });
    let share = stats::real(refused) / stats::real(requests.max(1));
    let served = first.served_before_death.as_ref();
    [
        clients,
        sum(|level| level.trials).to_string(),
        sum(|level| level.failures).to_string(),
        rate,
        if has_refusals {
            format!("{} %", words::format_percent(share))
        } else {
            String::new()
        },
        served.map_or(String::new(), |[min, median, max]| {
            format!("{min} / {median} / {max}")
        }),
    ]
}

/// Returns whether a level is one of those from which on the service refuses its load.
fn refuses_load(answer: &Threshold, level: &LoadLevelReport) -> bool {
    let refusals = answer.refusals.as_ref();
    refusals.is_some_and(|refusals| level.clients >= refusals.from.clients)
}

/// Explains the columns in the table of levels that need it.
pub(super) fn marks_of_levels(answer: &Threshold) -> Option<String> {
    let has = |is_marked: fn(&LoadLevelReport) -> bool| answer.levels.iter().any(is_marked);
    let marks = [
        (
            has(|level| level.one_sided),
            "at most: upper limit, because no trial failed",
        ),
        (
            has(|level| level.refused > 0),
            "refused: share of the requests",
        ),
        (
            has(|level| level.served_before_death.is_some()),
            "served before: responses before the death (min / median / max)",
        ),
    ];
    let shown: Vec<&str> = marks
        .into_iter()
        .filter_map(|(is_shown, text)| is_shown.then_some(text))
        .collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// Returns a row for each variant, but a single row for many variants that passed.
fn variant_rows(report: &Report) -> Vec<VariantRow> {
    let passed = |variant: &&VariantReport| {
        let has_passed = standing_of(report, variant).is_some_and(VariantVerdict::has_passed);
        has_passed && describe_failures(variant).is_empty()
    };
    let (passed, other_variants): (Vec<&VariantReport>, Vec<&VariantReport>) =
        report.variants.iter().partition(passed);
    let row_of = |variant: &VariantReport| VariantRow {
        cells: variant_row(report, variant),
        interval: (variant.trials > 0).then(|| variant.rate.interval()),
        point: match variant.failures {
            0 => Some(0.0),
            _ => variant.rate.point,
        },
        failures: describe_failures(variant),
    };
    if passed.len() < MANY {
        return report.variants.iter().map(row_of).collect();
    }
    let mut rows: Vec<_> = other_variants.into_iter().map(row_of).collect();
    let trials = passed.iter().map(|variant| variant.trials);
    let (min, max) = (trials.clone().min(), trials.max());
    let trials = match (min, max) {
        (Some(min), Some(max)) if min < max => format!("{min}-{max}"),
        _ => min.unwrap_or(0).to_string(),
    };
    let mut summed: [String; CELLS] = Default::default();
    summed[0] = style(format!("{} others", passed.len())).bold().to_string();
    summed[1] = describe_standing(report, passed[0]);
    summed[2] = trials;
    "0 each".clone_into(&mut summed[3]);
    // The variant with the fewest trials has the widest interval.
    let widest = passed.iter().min_by_key(|variant| variant.trials);
    let interval = widest.map(|variant| variant.rate.interval());
    summed[5] = interval.map_or(String::new(), words::format_interval);
    rows.push(VariantRow {
        cells: summed,
        interval,
        point: Some(0.0),
        failures: String::new(),
    });
    rows
}

fn variant_row(report: &Report, variant: &VariantReport) -> [String; CELLS] {
    let rate = &variant.rate;
    let time = |time_of: &str| {
        let took = variant.durations.get(time_of);
        took.map_or(String::new(), |took| words::format_seconds(took.p50))
    };
    let none = variant.trials == 0;
    let failed = match variant.failures {
        0 => "0".to_owned(),
        failures => style(failures).red().to_string(),
    };
    [
        style(words::sanitize_line(&variant.name))
            .bold()
            .to_string(),
        describe_standing(report, variant),
        variant.trials.to_string(),
        failed,
        match rate.point {
            Some(point) => format!("{} %", words::percent_within(point, rate.interval())),
            None if variant.failures == 0 => String::new(),
            // The variant ended with its first failure, so the share of failures is no estimate of the rate.
            None => "-".to_owned(),
        },
        if none {
            String::new()
        } else {
            words::format_interval(rate.interval())
        },
        time("pass"),
        time("fail"),
    ]
}

fn standing_of(report: &Report, variant: &VariantReport) -> Option<VariantVerdict> {
    let Some(Answer::Compare(answer)) = &report.answer else {
        return None;
    };
    let variant_result = answer
        .variants
        .iter()
        .find(|result| result.name == variant.name);
    variant_result.map(|result| result.standing)
}

fn describe_standing(report: &Report, variant: &VariantReport) -> String {
    let Some(Answer::Compare(answer)) = &report.answer else {
        return String::new();
    };
    let Some(verdict) = standing_of(report, variant) else {
        return String::new();
    };
    let word = style(headlines::standing_word(verdict, variant.failures));
    match verdict {
        VariantVerdict::Fails => word.red().to_string(),
        VariantVerdict::FailsLess | VariantVerdict::Clean => word.green().to_string(),
        VariantVerdict::Untestable => word.yellow().to_string(),
        // In a comparison of rates, this was not the question.
        VariantVerdict::Open if answer.find == CompareGoal::Different => String::new(),
        VariantVerdict::Open => word.dim().to_string(),
    }
}

/// Returns its failures, the most frequent first, and its other results.
fn describe_failures(variant: &VariantReport) -> String {
    let mut parts = Vec::new();
    let groups = group_failures(variant);
    let mut bugs = groups.iter().filter(|group| group.signature.is_the_bug);
    if let Some(first) = bugs.next() {
        parts.push(words::sanitize_line(&first.signature.title));
    }
    let other_failures = bugs.count();
    if other_failures > 0 {
        parts.push(words::format_count(
            other_failures as u64,
            "other signature",
        ));
    }
    if variant.other > 0 {
        parts.push(format!("{} other failures", variant.other));
    }
    if variant.void > 0 {
        parts.push(format!("{} inconclusive", variant.void));
    }
    parts.join(", ")
}
