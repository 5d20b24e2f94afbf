//! Lists the assumptions under which a fix is confirmed.

use super::baseline_text::quieter_half_name;
use super::policy::ConfirmPolicy;
use crate::answer::{independence_assumptions, unrecorded_assumption};
use crate::{Policy as _, Verdict};
use provoke_model::{ConditionDifference, ConfirmQuestion, MeasuredBaseline, VariantId};
use provoke_state::State;
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::untrusted::shell_word;

/// Up to this number of failures, a baseline seldom shows that they clump.
const TOO_FEW_FOR_CLUMPS: u64 = 5;

/// Lists the assumptions of the answer.
pub(super) fn list_assumptions(
    state: &State,
    question: &ConfirmQuestion,
    baseline: Option<&MeasuredBaseline>,
    differences: &[ConditionDifference],
) -> Vec<String> {
    let mut assumptions = if question.independent {
        independence_assumptions(state)
    } else {
        Vec::new()
    };
    match baseline {
        None => {
            assumptions.push("the failure rate before the fix, which was not measured".to_owned());
        }
        Some(base) => {
            let program = state.trials.unwrapped_command(VariantId(0)).first();
            if let (Some(before), Some(now)) = (&base.program, program)
                && before != now
            {
                assumptions.push(format!(
                    "{} is the fixed version of {}",
                    shell_word(now.as_os_str()),
                    shell_word(before.as_os_str())
                ));
            }
            if base.unfinished {
                assumptions.push(
                    "the baseline was interrupted for a reason unrelated to its results".to_owned(),
                );
            }
            if !base.runs.is_empty() {
                assumptions.extend(unrecorded_assumption(
                    "the runs of the baseline",
                    &base.runs,
                ));
            }
            if base.run.is_none() {
                assumptions.push(
                    "the trials of the baseline were independent (requests to one server are not) and ran under the same conditions".to_owned(),
                );
            }
            assumptions.extend(
                differences
                    .iter()
                    .map(|difference| format!("the failure rate does not depend on {difference}")),
            );
            let is_refuted = ConfirmPolicy.verdict_of(state) == Verdict::NotFixed;
            match base.drift {
                Some(drift) => assumptions.push(format!(
                    "the failure rate is still at least that of the {} half of the baseline, {} of {}",
                    quieter_half_name(drift),
                    drift.failures,
                    drift.trials
                )),
                None if is_refuted => {}
                None => assumptions.push(
                    "the bug does not come and go by itself, for example from hour to hour".to_owned(),
                ),
            }
            let has_measured_effect = base.run.is_some() && base.design_effect.is_none();
            if has_measured_effect && (2..=TOO_FEW_FOR_CLUMPS).contains(&base.failures) {
                let (failures, trials) = base.counts_of_all_bugs();
                let effect = real(base.failures);
                let alpha = state.goal.alpha.to_probability();
                let needed_if_clean = (!is_refuted)
                    .then(|| stats::clean_runs_to_exclude_half(failures, trials, effect, alpha))
                    .flatten();
                let needed = needed_if_clean.map_or(String::new(), |needed| {
                    format!(
                        ". If one event, such as a full disk, caused all of them, FIXED needs {}",
                        words::format_count(needed, "passing trial")
                    )
                });
                assumptions.push(format!(
                    "the {} of the baseline were independent of each other (too few to test this){needed}",
                    words::format_count(base.failures, "failure"),
                ));
            }
            assumptions.extend(dependence_assumption(base));
        }
    }
    assumptions
}

/// Says how failures of a program that depend on each other in the baseline do so now.
fn dependence_assumption(base: &MeasuredBaseline) -> Option<String> {
    let clumps = base.clumps.map(|clumps| {
        format!(
            "{} in {}",
            words::format_count(base.failures, "failure"),
            words::format_count(clumps, "clump")
        )
    });
    Some(match clumps {
        Some(clumps) if base.assumed_independent => format!(
            "failures are independent, and came in clumps by chance in the baseline, with {clumps}"
        ),
        Some(clumps) => format!(
            "clumps of failures are as large and as frequent as in the baseline, with {clumps}"
        ),
        None if base.design_effect.is_none() => return None,
        None if base.assumed_independent => {
            "failures are independent, and depended on each other by chance in the baseline"
                .to_owned()
        }
        None => format!(
            "failures depend on each other as they did in the baseline, where {} trials counted as one",
            words::format_number(base.design_effect()),
        ),
    })
}
