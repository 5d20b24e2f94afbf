//! Describes the baseline of a fix: its counts, its bug, and why its failures count as fewer.

use provoke_model::{Baseline, BugFilter, KnownBug, MeasuredBaseline, RateDrift, UnchangedProgram};
use provoke_words as words;

/// Returns the reference of the fix: `3/30`, `an assumed 1 %`.
pub(super) fn describe_baseline(baseline: &Baseline) -> String {
    match baseline {
        Baseline::Measured(base) => {
            let (failures, trials) = base.counts_of_all_bugs();
            match base.runs.len() {
                0 => format!("{failures} of {trials}"),
                runs => format!("{failures} of {trials} in {runs} runs"),
            }
        }
        Baseline::Assumed(millionths) => {
            format!(
                "an assumed {} %",
                words::format_percent(f64::from(*millionths) / 1e6)
            )
        }
    }
}

/// Names the rarest of several bugs, which determines the number of passing trials.
pub(super) fn describe_rarest(base: &MeasuredBaseline) -> Option<String> {
    let rarest = base.rarest_bug()?;
    Some(format!(
        "{} in {} of {}",
        words::sanitize_line(&rarest.title),
        rarest.failures,
        base.trials_of_bugs()
    ))
}

/// Names the bug of the baseline, if these filters select it.
pub(super) fn describe_bug(base: &MeasuredBaseline, filters: &[BugFilter]) -> Option<String> {
    let all_titles = base.bugs.iter().map(|bug| bug.title.as_str());
    // A title with less evidence begins like the one with more.
    let is_part_of_another = |title: &str| {
        let named_after = |prefix: &str| {
            let rest = title.split_once(": ").map(|(_, rest)| rest);
            rest.is_some_and(|rest| prefix.starts_with(rest))
        };
        all_titles
            .clone()
            .any(|prefix| prefix != title && (prefix.starts_with(title) || named_after(prefix)))
    };
    let titles = all_titles
        .clone()
        .filter(|title| !is_part_of_another(title));
    let bugs: Vec<String> = titles.map(words::sanitize_line).collect();
    if bugs.is_empty() || filters.is_empty() {
        return None;
    }
    let tests: Vec<String> = filters
        .iter()
        .filter(|filter| matches!(filter, BugFilter::Test(_)))
        .map(|filter| words::sanitize_line(&filter.to_string()))
        .collect();
    if !tests.is_empty() {
        return Some(format!("the bug: every failure of {}", tests.join(", ")));
    }
    let bugs = bugs.join(", or ");
    let by_name = filters.iter().any(|filter| {
        matches!(filter, BugFilter::Signature(id) if base.bugs.iter().any(|bug| bug.widest != *id && bug.names.contains(id)))
    });
    let is_hang = |bug: &KnownBug| bug.title.starts_with("hang");
    Some(if by_name || base.bugs.iter().all(is_hang) {
        format!("the bug: {bugs}")
    } else {
        format!("the bug: {bugs}, or another failure with the same exit status")
    })
}

/// Says that the program is the same as in the baseline.
pub(super) fn describe_unchanged(unchanged: &UnchangedProgram) -> String {
    let same = "the program is the same as in the baseline";
    let Some((file, others)) = unchanged.changed_files.split_first() else {
        return format!("{same}, so it may not contain the fix");
    };
    let file = words::sanitize_line(file);
    let others = match others.len() as u64 {
        0 => String::new(),
        others => format!(" and {}", words::format_count(others, "other file")),
    };
    format!("{same}, although `{file}`{others} changed: was it rebuilt after the fix?")
}

/// Says that the rate changed while the baseline ran, and how that is taken into account.
pub(super) fn describe_drift(drift: RateDrift) -> String {
    format!(
        "the failure rate {} during the baseline ({}): the fix is compared with its {} half, {} of {}",
        if drift.late { "rose" } else { "fell" },
        words::p_value(f64::from(drift.p_value) / 1e6),
        quieter_half_name(drift),
        drift.failures,
        drift.trials,
    )
}

/// Returns which half of a baseline has fewer failures.
pub(super) fn quieter_half_name(drift: RateDrift) -> &'static str {
    if drift.late { "first" } else { "second" }
}

/// Says that failures of the baseline depend on each other, how that is taken into account, and how many passing trials are
/// enough if they do not.
pub(super) fn describe_dependence(base: &MeasuredBaseline, if_independent: u64) -> String {
    let counted = match base.clumps {
        Some(clumps) => format!(
            "{} of the baseline came in {}: each clump counts as one failure",
            words::format_count(base.failures, "failure"),
            words::format_count(clumps, "clump"),
        ),
        None => format!(
            "failures of the baseline depend on each other: {} trials count as one",
            words::format_number(base.design_effect()),
        ),
    };
    format!(
        "{counted}; if that was chance, {} are enough (--independent)",
        words::format_count(if_independent, "passing trial"),
    )
}
