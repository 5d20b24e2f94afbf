//! Answers under which schedule a rare failure happens in most runs, and where.
//!
//! One thread of a trial is held at one point until the other threads are blocked. First, trials find out which points
//! the program reaches. Then each point is tried, later pairs of points. A hold that made trials fail is repeated with
//! fresh trials, and the points around it show the window. Plain trials run alongside: they give the natural rate.

mod additions;
mod answer;
mod attempts;
mod examined_failure;
mod held_trials;
mod hold_choice;
mod memory;
mod neighbours;
mod other_failures;
mod places;
mod plan;
mod points;
mod policy;
mod progress;
mod races;
mod recording;
mod watching;
mod window;

pub use answer::HuntAnswer;
pub use places::HeldPlace;
pub(super) use places::{base_name, line_name};
pub(super) use points::HuntPoints;
pub use policy::HuntPolicy;
pub use races::{RaceReport, RaceSide};
pub use window::WindowLine;

use super::search::SearchedFailure;
use super::{FailureCounts, Policy, QuestionKind, boxed_memory};
use crate::answer::{AnswerContext, AnswerKind};
use memory::HuntMemory;
use provoke_model::{Goal, Hold, TrialsPlan};
use provoke_state::{Memory, State};

/// Under which schedule does it fail in most runs?
pub(super) struct HuntKind;

impl QuestionKind for HuntKind {
    fn searches_schedules(&self) -> bool {
        true
    }

    fn policy(&self, _: &Goal) -> &'static dyn Policy {
        &HuntPolicy
    }

    fn begin_memory(&self, goal: &Goal, _: &TrialsPlan) -> Box<dyn Memory> {
        let question = goal.question.as_hunt();
        boxed_memory(question.map(HuntMemory::new))
    }

    fn lines_before_start(&self, state: &State) -> Vec<String> {
        answer::lines_before_start(state)
    }

    fn progress(&self, state: &State) -> Option<String> {
        progress::describe_search(state)
    }

    fn answer(&self, state: &State, context: &AnswerContext<'_>) -> Option<AnswerKind> {
        HuntAnswer::new(state, context)
            .map(Box::new)
            .map(AnswerKind::Hunt)
    }
}

/// The hold that a hunt has found, for trials of other runs and builds.
#[derive(Debug)]
pub struct FoundHold {
    /// The places where threads are held.
    pub holds: Vec<Hold>,
    /// The failure that happens more often under the hold.
    pub failure: SearchedFailure,
    /// The fresh trials under the hold, and those that showed this failure.
    pub counts: FailureCounts,
}

/// Returns the hold that a hunt has found.
pub fn found_hold(state: &State) -> Option<FoundHold> {
    let memory: &HuntMemory = state.learned()?;
    let alpha = state.goal.alpha.to_probability();
    let examination = memory.held_trials.claimed_examination(alpha)?;
    let anchors = examination
        .anchors
        .iter()
        .cloned()
        .chain(std::iter::repeat(None));
    let holds = examination.holds.iter().cloned().zip(anchors);
    let holds = holds.map(|(hold, anchor)| Hold { anchor, ..hold });
    Some(FoundHold {
        holds: holds.collect(),
        failure: examination.failure.name.clone(),
        counts: examination.failure.held,
    })
}
