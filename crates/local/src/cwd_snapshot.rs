//! Copies the working directory before the first trial, for trials that begin with such a copy.

use provoke_levers::TrialStart;
use provoke_model::{ItemKind, SearchSpace, Text, TrialConditions, TrialsPlan};
use provoke_prepare as prepare;
use provoke_sys::files;
use std::path::Path;

/// Name of the copy, beside the folders of trials.
const NAME: &str = ".working-directory";

/// Copies the working directory of the first variant, if any trial of a plan may begin with a copy. Returns the directory
/// and its copy; the error says why there is none.
pub(super) fn copy_before_trials(
    plan: &TrialsPlan,
    trials: &Path,
) -> Result<Option<(Text, Text)>, String> {
    let variants = plan.variants.iter();
    let mut conditions = variants
        .map(|variant| plan.conditions_of(variant))
        .chain(plan.space.iter().flat_map(searched_conditions));
    if !conditions.any(|conditions| copies_cwd(&conditions)) {
        return Ok(None);
    }
    let main = plan.variants.first().and_then(|first| first.main_actor());
    let cwd = &main.ok_or("there is no main process")?.cwd;
    let copy = trials.with_file_name(NAME);
    let run = copy.parent().unwrap_or(trials);
    // A run that was killed left its copy, which may be incomplete.
    let _ = files::remove_tree(&copy);
    prepare::copy_directory(Path::new(cwd.as_os_str()), &copy, &[run])
        .map_err(|refusal| format!("cannot copy the working directory: {}", refusal.message))?;
    Ok(Some((cwd.clone(), copy.as_os_str().into())))
}

fn copies_cwd(conditions: &TrialConditions) -> bool {
    // Another error is reported by the trials.
    TrialStart::new(conditions).is_ok_and(|start| start.cwd_copy.is_some())
}

/// Returns the conditions among which a search chooses.
fn searched_conditions(space: &SearchSpace) -> Vec<TrialConditions> {
    let items = space.choices.as_items().iter();
    let conditions = items.filter_map(|item| match &item.what {
        ItemKind::Condition(condition) => {
            let mut conditions = TrialConditions::default();
            conditions.set(&condition.lever, condition.value.clone());
            Some(conditions)
        }
        _ => None,
    });
    conditions.collect()
}
