//! Orders stored runs by start, or by the commit that was checked out.

use super::stored_runs::StoredReport;
use provoke_model::Survey;
use provoke_prepare::order_commits;
use provoke_report::RunOrder;
use provoke_words::diagnostic::Diagnostic;
use provoke_words::untrusted::shell_word;
use std::collections::HashMap;
use std::path::Path;

/// Orders runs; runs at the same place keep their order.
pub fn order_runs(runs: &mut [StoredReport], order: RunOrder) -> Result<(), Diagnostic> {
    match order {
        RunOrder::Given => {}
        RunOrder::Time => runs.sort_by_key(|run| run.state.origin.started_at),
        RunOrder::Commit => {
            let positions = commit_positions(runs)?;
            let position = |run: &StoredReport| positions.get(commit_of(run)?).copied();
            runs.sort_by_key(|run| (position(run), run.state.origin.started_at));
        }
    }
    Ok(())
}

/// Returns the position of each run's commit in the history.
fn commit_positions(runs: &[StoredReport]) -> Result<HashMap<String, usize>, Diagnostic> {
    if let Some(run) = runs.iter().find(|run| commit_of(run).is_none()) {
        let name = shell_word(run.report.reference.as_ref());
        let message = format!("the run {name} did not start in a git repository with a commit");
        return Err(Diagnostic::usage(message).with_hint("order the runs by start: --by time"));
    }
    let mut commits: Vec<&str> = runs.iter().filter_map(commit_of).collect();
    commits.sort_unstable();
    commits.dedup();
    let history = order_commits(Path::new("."), &commits)?.into_iter();
    Ok(history.zip(0..).collect())
}

/// Returns the recorded commit. Anything else in a journal from elsewhere could be an option of git.
fn commit_of(run: &StoredReport) -> Option<&str> {
    let commit = run.state.origin.survey.get_fact(Survey::COMMIT)?;
    commit
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then_some(commit)
}
