//! A failure that came and went: the two searches that follow one whose ends are both good, though a
//! place between them fails. The first finds where it began, the second where it ended.

use super::merge::{bugs, with_what_is_left};
use crate::model::{Choices, Plan, Question, Stretch};
use crate::policy::Verdict;
use crate::report::{Answer, Report};
use crate::state::State;

/// Returns the next of these searches, with what is left to be spent, and says what it searches.
pub(super) fn search(state: &State, report: &Report) -> Option<(Plan, String)> {
    let Some(Answer::Bisect(answer)) = &report.answer else {
        return None;
    };
    let mut plan = state.plan.clone();
    let space = plan.space.as_mut()?;
    let Question::Bisect(asked) = &mut plan.question else {
        return None;
    };
    let before = space.stretch.take();
    let text = match (before, report.verdict) {
        (Some(Stretch { after, .. }), Verdict::Found) if !after.is_empty() => {
            space.choices = Choices::Places(after.into_iter().rev().collect());
            space.stretch = Some(Stretch {
                after: Vec::new(),
                began: answer.culprits.clone(),
            });
            asked.fixed = true;
            if plan.rules.only.is_empty() && !asked.any_failure {
                plan.rules.only = bugs(state);
            }
            "  going on with where it ends".to_owned()
        }
        (None, Verdict::NotThere) if !asked.fixed && state.tally(State::FAILING).failures == 0 => {
            let place = usize::try_from(answer.fails_inside()?.place).ok()?;
            let places = space.choices.places();
            let (first, after) = (places[..=place].to_vec(), places[place..].to_vec());
            let text = format!(
                "  it comes and goes: going on with the places up to {}, to find where it begins, and then with those after it",
                places[place].name
            );
            space.choices = Choices::Places(first);
            space.stretch = Some(Stretch {
                after,
                began: Vec::new(),
            });
            text
        }
        _ => return None,
    };
    // They are of other places, and of a search for something else.
    (space.known, space.weights) = (Vec::new(), Vec::new());
    Some((with_what_is_left(plan, state)?, text))
}
