//! What a search leaves besides its report: its log, or a patch.

use super::error::CliError;
use crate::policy::Verdict;
use crate::prepare;
use crate::report::{self, Report};
use crate::state::State;
use crate::store::Folder;
use std::fs;
use std::path::Path;

/// Writes them into the folder of the run; returns what there is to say of them.
pub(super) fn write(
    state: &State,
    report: &Report,
    folder: &Folder,
) -> Result<Vec<String>, CliError> {
    let mut lines = Vec::new();
    if let Some(log) = report::log(report) {
        let path = folder.path().join("bisect.log");
        fs::write(&path, log).map_err(|error| cannot_write(&path, error))?;
        lines.push(format!(
            "  log: {}   to search on from it, as it is or changed: --log FILE",
            path.display()
        ));
    }
    if let (Verdict::Found, Some(space)) = (report.verdict, &state.plan.space)
        && state.reduction.is_some()
        && let [variant] = report::answer::kept(state).as_slice()
    {
        let reduced = prepare::reduced(space, state.plan.variant(*variant))?;
        let patch: Vec<u8> = reduced.iter().flat_map(|one| one.patch.clone()).collect();
        if space.apply {
            for one in &reduced {
                one.apply()?;
                lines.push(format!("  reduced: {}", one.path.display()));
            }
        } else if !patch.is_empty() {
            let path = folder.path().join("reduced.patch");
            fs::write(&path, patch).map_err(|error| cannot_write(&path, error))?;
            lines.push(format!(
                "  what is not needed leaves with: patch -p1 < {}",
                path.display()
            ));
        }
    }
    Ok(lines)
}

fn cannot_write(path: &Path, error: std::io::Error) -> CliError {
    let what = format!("cannot write `{}`", path.display());
    CliError::could_not(anyhow::Error::new(error).context(what))
}
