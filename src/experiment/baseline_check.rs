//! Checks that the baseline of a question can give an answer.

use super::earlier_runs::{facts_of_start, make_side};
use provoke_journal as journal;
use provoke_journal::{RunFolder, RunStart, default_root};
use provoke_model::{Goal, Host, MeasuredBaseline, Survey, TrialsPlan, VariantId};
use provoke_questions as questions;
use provoke_survey::{self as survey, find_unchanged_program};
use provoke_words::diagnostic::Diagnostic;

/// Refuses a baseline that cannot give an answer, because the failure rate may differ from it for another reason than
/// the fix. Counts the fixes that were tried against it.
pub(super) fn check_baseline(
    goal: &mut Goal,
    trials: &TrialsPlan,
    host: &Host,
) -> Result<(), Diagnostic> {
    let question = questions::of_goal(goal);
    let Some(compared) = question.baseline(goal) else {
        return Ok(());
    };
    let attempts = if question.tests_a_fix() {
        refuse_drift(compared.measured)?;
        earlier_attempts(compared.measured)
    } else {
        0
    };
    let mut unlike = compared
        .measured
        .conditions
        .as_ref()
        .map(|there| survey::differing_conditions(trials, host, there))
        .unwrap_or_default();
    unlike.retain(|difference| difference.can_change_rate);
    if unlike.is_empty() || compared.accepts_conditions {
        question.set_earlier_attempts(goal, attempts);
        return Ok(());
    }
    let lines: Vec<String> = unlike.iter().map(ToString::to_string).collect();
    let what = "cannot compare with the baseline: its conditions differ, which may change the failure rate";
    let error = Diagnostic::undecided(what).because(lines.join("\n    "));
    Err(error.with_hint(format!(
        "{} under the conditions of the baseline, or measure a baseline under these conditions; if the differences cannot change the failure rate, add --accept-different-conditions",
        question.command()
    )))
}

/// Notes in a check of a fix whether the program is the same as in the run of the baseline.
pub(super) fn note_unchanged_program(
    goal: &mut Goal,
    trials: &TrialsPlan,
    host: &Host,
    survey: &Survey,
) {
    let question = questions::of_goal(goal);
    let baseline = question.baseline(goal).filter(|_| question.tests_a_fix());
    let run = baseline.and_then(|baseline| baseline.measured.run.as_ref());
    let folder = run.and_then(|run| RunFolder::find_run(run, &default_root()).ok());
    let Some(Ok(start)) = folder.map(|folder| journal::read_start(&folder.journal_path())) else {
        return;
    };
    let now = make_side(trials, host, survey);
    let before = facts_of_start(&start);
    let mut variants = (0..).map(VariantId).take(before.plan.variants.len());
    let unchanged =
        variants.find_map(|id| find_unchanged_program((now, VariantId(0)), (before, id)));
    if let Some(unchanged) = unchanged {
        question.set_unchanged_program(goal, unchanged);
    }
}

/// Refuses a baseline whose rate changed, if its half that counts has no failure.
fn refuse_drift(base: &MeasuredBaseline) -> Result<(), Diagnostic> {
    let Some(drift) = base.drift.filter(|drift| drift.failures == 0) else {
        return Ok(());
    };
    let error = format!(
        "cannot use the baseline: its failure rate changed while it ran, and none of the {} trials of its {} half failed, so no number of passing trials shows a fix",
        drift.trials,
        if drift.late { "first" } else { "second" },
    );
    Err(Diagnostic::undecided(error).with_hint(
        "measure the baseline again; or run the old and the new program in turns, so that a changing rate affects both: provoke compare --find different",
    ))
}

/// Counts the stored runs that tested a fix against the same baseline.
fn earlier_attempts(baseline: &MeasuredBaseline) -> u64 {
    let folders = RunFolder::all_runs(&default_root()).unwrap_or_default();
    let same = |folder: &RunFolder| {
        let Ok(RunStart { plan, .. }) = journal::read_start(&folder.journal_path()) else {
            return false;
        };
        let question = questions::of_goal(&plan.goal);
        let base = question.baseline(&plan.goal);
        let base = base.filter(|_| question.tests_a_fix());
        let run = base.and_then(|base| base.measured.run.as_ref());
        run.is_some_and(|run| baseline.has_run(run))
    };
    folders.iter().filter(|folder| same(folder)).count() as u64
}
