//! Shows the window of a race: the lines around a held point, with the trials that held a thread there.

use super::held_trials::{Examination, HeldTrials, Neighbour};
use super::places::{base_name, line_name};
use crate::FailureCounts;
use provoke_model::HoldPoint;
use provoke_stats::real;
use provoke_words as words;
use serde::Serialize;
use std::collections::BTreeMap;

/// Limit of the lines of the window that are shown.
const SHOWN_LINES: usize = 8;
/// With two holds, a line belongs to the window if its failure rate is at least this part of that of the best hold.
const PAIR_WINDOW: f64 = 0.5;

/// A line of the source, with the trials in which a thread was held before one of its instructions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowLine {
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
    /// Name of the function.
    pub function: Option<String>,
    /// The line, if the file can be read.
    pub text: Option<String>,
    /// Number of instructions that were tried.
    pub instructions: u64,
    /// Number of those at which trials failed.
    pub failing_instructions: u64,
    /// Trials that were to hold a thread at one of them, whether or not they reached it.
    pub trials: u64,
    /// Those that failed.
    pub failures: u64,
    /// Whether only failing trials reached it: it may be on the path of the failure after its cause.
    pub only_failures: bool,
}

/// Counts the trials at the points around a hold by lines of the source.
pub(super) fn window_lines(
    held_trials: &HeldTrials,
    examined: &Examination,
    source_line: &dyn Fn(&str, u32) -> Option<String>,
) -> Vec<WindowLine> {
    // The lines of the program come before those of libraries.
    type LineKey = (bool, Option<String>, Option<u32>, Option<String>);
    let mut lines: BTreeMap<LineKey, WindowLine> = BTreeMap::new();
    for Neighbour { point, holds, .. } in examined.neighbours.iter().flatten() {
        let counts = held_trials.counts_of(holds);
        let Some(learned) = held_trials.points.get(point).map(|point| &point.learned) else {
            continue;
        };
        if counts.trials == 0 {
            continue;
        }
        let (file, number) = match point {
            HoldPoint::Line { file, line } => (Some(file.to_string()), Some(*line)),
            _ => learned.line.clone().unzip(),
        };
        let address = || {
            if number.is_some() {
                return None;
            }
            let point = point.as_code()?;
            let object = point.object.to_string();
            Some(format!("{}+0x{:x}", base_name(&object), point.address))
        };
        let function = learned.name.clone().or_else(address);
        let key = (learned.is_library, file.clone(), number, function.clone());
        let text = file
            .as_deref()
            .zip(number)
            .and_then(|(file, line)| source_line(file, line));
        let line = lines.entry(key).or_insert_with(|| WindowLine {
            text,
            file,
            line: number,
            function,
            instructions: 0,
            failing_instructions: 0,
            trials: 0,
            failures: 0,
            only_failures: true,
        });
        let all = counts.of_all_trials();
        line.instructions += 1;
        line.failing_instructions += u64::from(all.failures > 0);
        line.trials += all.trials;
        line.failures += all.failures;
        line.only_failures &= counts.is_on_failure_path();
    }
    lines.into_values().collect()
}

/// Describes the failing lines, and counts the others.
///
/// If two threads are held, one of them alone may make it fail sometimes. So lines far below the rate of both holds do not
/// count as failing then.
pub(super) fn describe_window(
    window: &[WindowLine],
    held: Option<FailureCounts>,
    is_pair: bool,
) -> Vec<String> {
    let rate = |failures: u64, trials: u64| real(failures) / real(trials.max(1));
    let held_rate = held.map_or(0.0, |held_counts| {
        rate(held_counts.failures, held_counts.trials)
    });
    let is_failing = |line: &&WindowLine| {
        line.failures > 0
            && (!is_pair || rate(line.failures, line.trials) > held_rate * PAIR_WINDOW)
    };
    let (on_path, others): (Vec<_>, Vec<_>) = window.iter().partition(|line| line.only_failures);
    let (failing, passing): (Vec<&WindowLine>, Vec<_>) = others.into_iter().partition(is_failing);
    let mut lines = Vec::new();
    for line in failing.iter().take(SHOWN_LINES) {
        let place_text = window_place(line);
        let text = line
            .text
            .as_ref()
            .map_or_else(String::new, |text| format!("  `{text}`"));
        lines.push(format!(
            "search: a thread held at {place_text}: {} of {} failed{text}",
            line.failures, line.trials
        ));
    }
    let hidden = &failing[failing.len().min(SHOWN_LINES)..];
    if !hidden.is_empty() {
        lines.push(format!(
            "and {} more with failures",
            words::format_count(hidden.len() as u64, "line")
        ));
    }
    if !on_path.is_empty() && !lines.is_empty() {
        let places: Vec<String> = on_path.into_iter().map(window_place).collect();
        lines.push(format!("only failing trials reach {}", places.join(", ")));
    }
    let (failures, trials) = passing.iter().fold((0, 0), |(failures, trials), line| {
        (failures + line.failures, trials + line.trials)
    });
    if !lines.is_empty() && trials > 0 {
        lines.push(format!(
            "search: a thread held at the other {}: {failures} of {trials} failed",
            words::format_count(passing.len() as u64, "line")
        ));
    }
    lines
}

/// Returns the place of a line of the window. Without debug information, it is an address.
fn window_place(line: &WindowLine) -> String {
    match (&line.function, line.line) {
        (Some(address), None) if address.contains("+0x") => address.clone(),
        _ => line_name(line.file.as_deref(), line.line, line.function.as_deref()),
    }
}
