//! Answers what failing trials do differently before the failure.
//!
//! Some trials are plain, some are recorded, and some are recorded at a random half of the points. The first give the
//! natural rate, the second are compared by their paths, and the third show the points whose observation changes the rate.

mod answer;
mod functions;
mod memory;
mod places;
mod plan;
mod points;
mod policy;
mod statements;

pub use answer::DifferAnswer;
pub use policy::DifferPolicy;
pub(super) use policy::record_all;

use super::{Policy, QuestionKind, boxed_memory};
use crate::answer::{AnswerContext, AnswerKind};
pub(super) use memory::{DifferMemory, Recording};
use provoke_model::{Goal, HoldPoint, TrialsPlan};
use provoke_state::{Memory, State};

/// Returns what precedes the failure, in one sentence, if a run has found it.
pub fn found_difference(state: &State) -> Option<String> {
    let context = AnswerContext {
        variants: &[],
        source_line: &|_, _| None,
    };
    let answer = DifferAnswer::new(state, &context)?;
    answer.lead.is_some().then_some(answer.sentence)
}

/// Returns the same as a part of the answer of another question.
pub(super) fn describe_lead(memory: &DifferMemory) -> Option<String> {
    let comparison = memory.comparison()?;
    let narrator = statements::Narrator {
        points: &memory.points,
        source_line: &|_, _| None,
    };
    let lead = narrator.describe_lead(comparison)?;
    Some(format!(
        "in {} failing and {} passing observed trials, {}",
        lead.failing.in_words(),
        lead.passing.in_words(),
        lead.statement
    ))
}

/// Limit of the points that a hunt tries first.
const LEADING_POINTS: usize = 20;

/// Returns the points at which threads may be held to make the program fail, the most promising ones first: where failing
/// trials differ, and whose observation makes failures more frequent.
pub fn leading_points(state: &State) -> Vec<HoldPoint> {
    let memory = state.learned().map(points_of_differences);
    memory.unwrap_or_default()
}

/// Returns the same of a memory.
pub(super) fn points_of_differences(memory: &DifferMemory) -> Vec<HoldPoint> {
    let comparison = memory.comparison().into_iter();
    let numbers = comparison.flat_map(statements::leading_points);
    let points = numbers.filter_map(|number| memory.points.hold_point(number));
    let mut leading: Vec<HoldPoint> = Vec::new();
    for point in points {
        if leading.len() < LEADING_POINTS && !leading.contains(&point) {
            leading.push(point);
        }
    }
    leading
}

/// What do failing trials do differently?
pub(super) struct DifferKind;

impl QuestionKind for DifferKind {
    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &DifferPolicy
    }

    fn begin_memory(&self, goal: &Goal, _: &TrialsPlan) -> Box<dyn Memory> {
        let question = goal.question.as_differ();
        boxed_memory(question.map(DifferMemory::new))
    }

    fn explores(&self) -> bool {
        true
    }

    fn progress(&self, state: &State) -> Option<String> {
        answer::describe_progress(state)
    }

    fn answer(&self, state: &State, context: &AnswerContext<'_>) -> Option<AnswerKind> {
        DifferAnswer::new(state, context)
            .map(Box::new)
            .map(AnswerKind::Differ)
    }
}
