//! Starts two further searches if the ends of a search agree, but a candidate between them differs. With `--all`, two
//! more follow every search that found a boundary.

use super::answer::boundaries_of;
use super::candidates::searched_section;
use super::{BisectPolicy, BisectProgress};
use crate::{Answer, Verdict};
use provoke_model::{
    AlternatingSection, BugFilter, Candidate, Plan, SearchSpace, UnsearchedSection, VariantChoices,
    trial_seed,
};
use provoke_state::State;
use std::collections::BTreeMap;

/// Returns the next search within the remaining budget, with its description.
pub fn next_search(
    state: &State,
    verdict: Verdict,
    answer: Option<&Answer>,
) -> Option<(Plan, String)> {
    let mut plan = state.plan();
    let space = plan.trials.space.as_mut()?;
    let question = plan.goal.question.as_bisect_mut()?;
    if space.merge.is_some() {
        return None;
    }
    let whole = whole_section(space, question.fixed);
    let AlternatingSection {
        mut next,
        reproduce,
        ..
    } = space.section.take().unwrap_or_else(|| AlternatingSection {
        reproduce: question.search.reproduce,
        ..AlternatingSection::default()
    });
    let sections = match verdict {
        Verdict::NotThere => split_sections(state, &whole),
        Verdict::Found if question.all => surrounding_sections(state, &whole),
        _ => Vec::new(),
    };
    let came_and_went = verdict == Verdict::NotThere && !sections.is_empty();
    next.splice(0..0, sections);
    if next.is_empty() {
        return None;
    }
    let section = next.remove(0);
    let text = describe_section(&section, came_and_went);
    space.section = Some(AlternatingSection {
        from: section.from,
        reproduce,
        next,
        found: answer.map_or_else(Vec::new, |answer| boundaries_of(answer).to_vec()),
    });
    space.choices = VariantChoices::Candidates(section.places);
    // The counts and weights are for other candidates, in a search for another boundary.
    (space.known, space.weights) = (Vec::new(), Vec::new());
    question.search.keep_setting();
    question.fixed = section.fixed;
    question.inside = section.agree;
    question.search.reproduce = section.agree.unwrap_or(reproduce);
    let bugs = searched_bugs(state);
    if plan.trials.rules.only.is_empty() && !question.search.any_failure && !bugs.is_empty() {
        plan.trials.rules.only = bugs;
    }
    Some((with_what_is_left(plan, state)?, text))
}

/// Returns the search of the commits of a merge within the remaining budget.
pub fn search_merged(
    state: &State,
    merge: Candidate,
    mut candidates: Vec<Candidate>,
) -> Option<Plan> {
    let mut plan = state.plan();
    let space = plan.trials.space.as_mut()?;
    let question = plan.goal.question.as_bisect_mut()?;
    if question.fixed {
        candidates.reverse();
    }
    space.choices = VariantChoices::Candidates(candidates);
    space.merge = Some(merge);
    // The counts and weights are for other candidates; the setting of this search is kept.
    question.search.keep_setting();
    (space.known, space.weights) = (Vec::new(), Vec::new());
    // A branch that does not fail in this many trials does not fail at the rate of the merge.
    let alpha = plan.goal.alpha.to_probability();
    let clean =
        BisectProgress::of_state(state).and_then(|search| search.clean_trials_needed(alpha));
    question.search.reproduce = question.search.reproduce.max(clean.unwrap_or(0));
    if plan.trials.rules.only.is_empty() && !question.search.any_failure {
        plan.trials.rules.only = searched_bugs(state);
    }
    with_what_is_left(plan, state)
}

/// Returns whether an earlier search found a boundary, so that this one may well find none.
pub fn follows_boundary(state: &State) -> bool {
    searched_section(state).is_some_and(|section| !section.found.is_empty())
}

/// Returns the searched list as a section of the longer list.
fn whole_section(space: &SearchSpace, fixed: bool) -> UnsearchedSection {
    UnsearchedSection {
        from: space.section.as_ref().map_or(0, |section| section.from),
        places: space.choices.as_candidates().to_vec(),
        fixed,
        agree: None,
    }
}

/// Returns the two sections on either side of a candidate that differs from the ends: first the one in which the
/// failures begin.
fn split_sections(state: &State, whole: &UnsearchedSection) -> Vec<UnsearchedSection> {
    let Some(index) = BisectPolicy::turns_at(state) else {
        return Vec::new();
    };
    let both_fail = BisectPolicy::bad_end_fails(state);
    let (first_section, other_section) = (
        cut_section(whole, 0, index),
        cut_section(whole, index, whole.places.len() - 1),
    );
    let mut sections = vec![other_section, first_section];
    // The good end comes first.
    sections[usize::from(both_fail)] =
        reverse_section(std::mem::take(&mut sections[usize::from(both_fail)]));
    sections.sort_by_key(|section| section.fixed);
    sections
}

/// Returns the sections before and after the found boundary.
fn surrounding_sections(state: &State, whole: &UnsearchedSection) -> Vec<UnsearchedSection> {
    let Some(search) = BisectProgress::of_state(state) else {
        return Vec::new();
    };
    let group = search.bisection.likeliest_group();
    let clean = search.clean_trials_needed(state.goal.alpha.to_probability());
    let good = UnsearchedSection {
        agree: clean,
        ..cut_section(whole, 0, group.first.saturating_sub(1))
    };
    let bad = cut_section(whole, group.last, whole.places.len() - 1);
    let sections = [good, bad].into_iter();
    sections
        .filter(|section| section.places.len() > 2)
        .collect()
}

/// Returns a range of candidates, both ends included.
fn cut_section(section: &UnsearchedSection, first: usize, last: usize) -> UnsearchedSection {
    let before = if section.fixed {
        section.places.len() - 1 - last
    } else {
        first
    };
    UnsearchedSection {
        from: section.from + u32::try_from(before).unwrap_or(u32::MAX),
        places: section.places[first..=last].to_vec(),
        fixed: section.fixed,
        agree: None,
    }
}

/// Reverses a section.
fn reverse_section(mut section: UnsearchedSection) -> UnsearchedSection {
    section.places.reverse();
    section.fixed = !section.fixed;
    section
}

/// Describes the next search.
fn describe_section(section: &UnsearchedSection, came_and_went: bool) -> String {
    let name = |place: Option<&Candidate>| place.map_or("", |candidate| &candidate.name).to_owned();
    let (first, last) = (name(section.places.first()), name(section.places.last()));
    let (first, last) = if section.fixed {
        (last, first)
    } else {
        (first, last)
    };
    let reason = if came_and_went {
        "the failure comes and goes: "
    } else {
        ""
    };
    format!("{reason}searching {first} to {last} next")
}

/// Limits the plan of a following search to the remaining trials and time; returns `None` if none are left. It has
/// another seed, so its trials are not those of this search again, and the trials of this search count as earlier ones.
fn with_what_is_left(mut plan: Plan, state: &State) -> Option<Plan> {
    let remaining =
        |limit: u64, spent: u64| limit.checked_sub(spent).filter(|remaining| *remaining > 0);
    if let Some(max) = plan.stop.trials {
        let ran = state
            .all_tallies()
            .map(|(_, tally)| tally.finished_trials())
            .sum();
        plan.stop.trials = Some(remaining(max, ran)?);
    }
    if let Some(max) = plan.stop.duration_us {
        let worked = u64::try_from(state.worked.as_micros()).unwrap_or(u64::MAX);
        plan.stop.duration_us = Some(remaining(max, worked)?);
    }
    plan.trials.seed = trial_seed(plan.trials.seed, state.next_id());
    Some(plan)
}

/// Returns the searched failures: a following search looks for the same ones.
fn searched_bugs(state: &State) -> Vec<BugFilter> {
    let groups = state.tally_of(State::FAILING).groups.values();
    let bugs: BTreeMap<String, BugFilter> = groups
        .filter(|group| group.is_the_bug)
        .map(|group| (group.kind.name(), BugFilter::of_kind(&group.kind)))
        .collect();
    bugs.into_values().collect()
}
