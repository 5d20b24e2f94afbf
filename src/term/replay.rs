//! Shows the result of a replayed trial, and suggests what to do next.

use super::print_message;
use super::screen::Screen;
use crate::experiment::{ReplayEnding, ReplayResult, RerunLimits};
use provoke_model::TrialId;
use provoke_words as words;
use provoke_words::document::SuggestedCommand;

/// Prints how often a trial is repeated at most.
pub fn print_rerun_limits(trial: TrialId, limits: &RerunLimits) {
    print_message(&format!(
        "  repeating {trial}, at most {} times or {} (-n and -d change this)",
        limits.trials,
        words::format_seconds(limits.time.as_secs_f64()),
    ));
}

/// Returns the result of a replay of the trial with this reference; `limits` are those of its repetitions, if it was
/// repeated.
pub fn format_replay(
    result: &ReplayResult,
    reference: &str,
    limits: Option<&RerunLimits>,
) -> String {
    let mut screen = Screen::on_stdout();
    screen.push_text(0, &result.sentence);
    for title in &result.others {
        screen.push_text(2, title);
    }
    if let Some(rate) = &result.rate {
        screen.push_text(0, rate);
    }
    if let Some(command) = suggest_next(result, reference, limits) {
        screen.push_gap();
        screen.push_commands(&[command]);
    }
    screen.into_text()
}

/// Suggests a debugger after a failure, and otherwise more repetitions.
fn suggest_next(
    result: &ReplayResult,
    reference: &str,
    limits: Option<&RerunLimits>,
) -> Option<SuggestedCommand> {
    let command = format!("provoke replay {reference}");
    match (result.ending, limits) {
        (ReplayEnding::Failed, _) if !result.suits_debugger => None,
        (ReplayEnding::Failed, _) => Some(SuggestedCommand::new(
            "in a debugger",
            format!("{command} --wrap 'gdb --args'"),
        )),
        (ReplayEnding::Inconclusive, None) => None,
        (_, limits) => {
            let limits_text = limits.map_or(String::new(), |limits| {
                format!(" -n {}", limits.trials.saturating_mul(10))
            });
            Some(SuggestedCommand::new(
                "until it fails",
                format!("{command} --until-fail{limits_text}"),
            ))
        }
    }
}
