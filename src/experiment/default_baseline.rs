//! Chooses the baseline if no flag names one.

use super::baseline_run::{BaselineRun, ResolvedBaseline, StoredBaseline};
use super::hunt_holds::measure_hunt;
use super::measured_variant::{BaselineFilter, measure_variant, read_baseline_run};
use super::stored_runs::read_state;
use provoke_journal as journal;
use provoke_journal::{RunFolder, RunStart, default_root};
use provoke_model::{Plan, Text, VariantId};
use provoke_plan::Scenario;
use provoke_questions as questions;
use provoke_report as report;
use provoke_words as words;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::names::is_similar_name;
use provoke_words::untrusted::{Untrusted as _, shell_word};

/// At most this many runs are listed if several could be the baseline.
const MAX_LISTED: usize = 4;

/// Finds the newest run with failures that measured a rate, of the typed command if there is one.
///
/// A fix may have another name than the program that failed. So if no run of the typed command failed, the newest run of
/// another command counts, unless runs of several commands or a hunt could be meant.
pub(super) fn find_default(
    asked: &Scenario,
    looked_for: &BaselineFilter,
) -> Result<Option<ResolvedBaseline>, Diagnostic> {
    let typed = asked.typed_command();
    let typed = typed.map(|words| words.into_iter().map(Text::from).collect::<Vec<_>>());
    let folders = RunFolder::all_runs(&default_root()).unwrap_or_default();
    // The newest failing run of each other command.
    let mut of_other_commands: Vec<(Vec<Text>, String)> = Vec::new();
    let mut hunt = None;
    for folder in folders.iter().rev() {
        let Ok(RunStart { plan, .. }) = journal::read_start(&folder.journal_path()) else {
            continue;
        };
        if hunt.is_none() && typed.is_some() {
            hunt = describe_hunt(folder, &plan, looked_for);
        }
        let Some(command) = measured_command(&plan, asked) else {
            continue;
        };
        let is_listed = of_other_commands.iter().any(|(other, _)| *other == command);
        if is_listed {
            continue;
        }
        let name = folder.run_name();
        let Some(stored) = read_failing(&name, asked, looked_for) else {
            continue;
        };
        if typed.as_ref().is_none_or(|typed| *typed == command) {
            return resolve_newest(stored, asked, looked_for).map(Some);
        }
        of_other_commands.push((command, name));
    }
    let resolve = |name: &str| {
        let stored = read_failing(name, asked, looked_for)?;
        resolve_newest(stored, asked, looked_for).ok()
    };
    if of_other_commands.len() > 1 || hunt.is_some() {
        return Err(refuse_choice(
            typed.as_deref(),
            of_other_commands,
            resolve,
            hunt,
        ));
    }
    if of_other_commands.is_empty() && asked.baseline.of.is_none() {
        let mut newest_first = folders.iter().rev();
        let variant = newest_first.find_map(|folder| describe_variant(folder, looked_for));
        if let Some(line) = variant {
            return Err(refuse_to_choose(
                "only runs of several variants have failures; which variant shows the bug?",
                &[line],
            ));
        }
    }
    Ok(of_other_commands.pop().and_then(|(_, name)| resolve(&name)))
}

/// Returns the command of a run that measured a rate.
fn measured_command(plan: &Plan, asked: &Scenario) -> Option<Vec<Text>> {
    // In other questions, the outcomes of earlier trials determine which variant runs next.
    let question = questions::of_goal(&plan.goal);
    let one = question.only_measures() && plan.trials.variants.len() == 1;
    let counts = one || question.measures_variants() && asked.baseline.of.is_some();
    let command = plan.trials.unwrapped_command(VariantId(0));
    (counts && !command.is_empty()).then(|| command.to_vec())
}

/// Reads a run as a baseline, if it has failures.
fn read_failing(
    name: &str,
    asked: &Scenario,
    looked_for: &BaselineFilter,
) -> Option<StoredBaseline> {
    let stored = StoredBaseline::read(name, asked, looked_for).ok()?;
    stored.has_failures(looked_for).then_some(stored)
}

/// Adds the trials of other runs to the newest run with failures.
fn resolve_newest(
    stored: StoredBaseline,
    asked: &Scenario,
    looked_for: &BaselineFilter,
) -> Result<ResolvedBaseline, Diagnostic> {
    let found = ResolvedBaseline::of_stored(stored, asked, looked_for)?;
    Ok(ResolvedBaseline {
        chosen: found.chosen.map(|chosen| BaselineRun {
            is_newest: true,
            ..chosen
        }),
        ..found
    })
}

/// Returns the flag that repeats the hold of a hunt, with a description, if the program failed under it.
fn describe_hunt(folder: &RunFolder, plan: &Plan, looked_for: &BaselineFilter) -> Option<String> {
    if !questions::of_goal(&plan.goal).searches_schedules() {
        return None;
    }
    let state = read_state(folder).ok()?;
    let held = measure_hunt(&state, looked_for).filter(|held| held.failures > 0)?;
    Some(format!(
        "--held {}   # {} of {} trials failed under its hold: {}",
        folder.shortest_reference(&default_root()).to_safe(),
        held.failures,
        held.trials,
        report::command_line(&plan.trials, VariantId(0)).to_safe()
    ))
}

/// Returns the flags that make the variant with the most failures the baseline, with a description, if a run has several
/// variants.
fn describe_variant(folder: &RunFolder, looked_for: &BaselineFilter) -> Option<String> {
    let plan = journal::read_start(&folder.journal_path()).ok()?.plan;
    if !questions::of_goal(&plan.goal).measures_variants() || plan.trials.variants.len() < 2 {
        return None;
    }
    let state = read_baseline_run(&folder.journal_path(), looked_for).ok()?;
    let measured = (0..).zip(&plan.trials.variants).map(|(number, variant)| {
        let measured = measure_variant(&state, VariantId(number), looked_for);
        (VariantId(number), variant, measured)
    });
    let failing = measured.filter(|(.., measured)| measured.failures > 0);
    let (id, variant, measured) = failing.max_by_key(|(.., measured)| measured.failures)?;
    Some(format!(
        "--baseline {} --of {}   # {} of {} trials failed: {}",
        folder.shortest_reference(&default_root()).to_safe(),
        shell_word(variant.name.as_ref()),
        measured.failures,
        measured.trials,
        report::command_line(&plan.trials, id).to_safe()
    ))
}

/// Refuses to choose among runs of several commands and a hunt. Runs whose command is similar to the typed one are listed
/// first, the newest first. Only those that are listed are resolved: that reads the other runs of their commands.
fn refuse_choice(
    typed: Option<&[Text]>,
    newest_first: Vec<(Vec<Text>, String)>,
    resolve: impl Fn(&str) -> Option<ResolvedBaseline>,
    hunt: Option<String>,
) -> Diagnostic {
    let typed_line = typed.map(words::shell_line);
    let is_similar = |command: &[Text]| {
        let typed_line = typed_line.as_deref();
        typed_line
            .is_some_and(|typed_line| is_similar_name(typed_line, &words::shell_line(command)))
    };
    let count = newest_first.len();
    let (similar, others): (Vec<_>, Vec<_>) = newest_first
        .into_iter()
        .partition(|(command, _)| is_similar(command));
    let listed = similar.into_iter().chain(others).take(MAX_LISTED);
    let chosen = listed.filter_map(|(_, name)| resolve(&name)?.chosen);
    let lines = chosen.map(|run| {
        format!(
            "--baseline {}   # {} of {} trials failed: {}",
            run.reference.to_safe(),
            run.failures,
            run.trials,
            run.command.to_safe()
        )
    });
    let more = count.saturating_sub(MAX_LISTED);
    let more = (more > 0).then(|| {
        format!(
            "{} in `provoke list`",
            words::format_count(more as u64, "more command")
        )
    });
    let lines: Vec<String> = hunt.into_iter().chain(lines).chain(more).collect();
    let message = match typed_line {
        Some(line) => {
            format!("no `provoke run` of `{line}` has failures; which run shows the bug?")
        }
        None => "runs of several commands have failures; which run shows the bug?".to_owned(),
    };
    refuse_to_choose(&message, &lines)
}

fn refuse_to_choose(message: &str, lines: &[String]) -> Diagnostic {
    Diagnostic::of_field(
        "baseline",
        message,
        format!(
            "name the run before the fix:\n      {}",
            lines.join("\n      ")
        ),
    )
}
