//! Answer of `bisect`: the first bad candidate.

use super::candidates::{
    CandidateReport, candidate_noun, candidates_of, candidates_seen, end_names, is_fixed,
    searched_section,
};
use super::culprit_checks::{
    EarlierFailingVersion, EarlierFailureMeaning, LocalCheck, RateRise, describe_contradiction,
    earlier_failing, local_check, rate_rise,
};
use super::{BisectPolicy, BisectProgress, CandidateBuilds, follows_boundary};
use crate::answer::{
    AnswerText, NOT_KNOWN, NOT_REPRODUCED, VariantSummary, format_confidence,
    independence_assumptions, one_of, sentence_and_assumptions, tested_variants,
};
use crate::search::{
    not_tested, reproduction_needed, search_assumptions, searches_any_failure, ways_to_reproduce,
};
use crate::{Answer, EarlierTrialsReport, Policy as _, RaiseReport, StopRule, Verdict};
use provoke_model::{Boundary, Candidate, VariantId};
use provoke_state::State;
use provoke_stats::search::SearchVerdict as Found;
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::document::Table;
use serde::Serialize;

/// Which candidate is the first bad one, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BisectAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// The first bad candidate; several if those between them are not testable. Empty until it is known.
    pub culprits: Vec<String>,
    /// The first good candidate, if a fix was searched; null otherwise.
    pub after_fix: Option<String>,
    /// The probability that it is one of these.
    pub probability: f64,
    /// The smallest set of candidates that contains it at this confidence, the likeliest first.
    pub credible: Vec<String>,
    /// The failure rate of bad candidates, at least and at most.
    pub rate: [f64; 2],
    /// The tested candidates, and those that may be the answer.
    pub points: Vec<CandidateReport>,
    /// The failures and trials of all bad candidates.
    #[serde(skip)]
    failing_counts: (u64, u64),
    /// How the first bad candidate compares with the one before it, by their own trials.
    pub local: Option<LocalCheck>,
    /// Why the results contradict a single boundary and one failure rate of all bad candidates; null if they do not.
    pub contradiction: Option<String>,
    /// A version before the first bad one that also fails, less often; null if none was seen.
    pub earlier: Option<EarlierFailingVersion>,
    /// The highest rate at which versions before the first bad one may still fail; null if less than a fifth of the rate
    /// of bad versions is left, or if a version failed.
    pub earlier_rate_bound: Option<f64>,
    /// The bad end, if it fails significantly more often than the culprit: another change between them may have raised
    /// the rate; null otherwise.
    pub rise: Option<RateRise>,
    /// `clean` was set, but the good end failed, less often than the bad end: the search continued without `clean`.
    pub clean_refuted: bool,
    /// The limit of trials at which the search gave up; null if it did not.
    pub limit: Option<u64>,
    /// The trials that were missing when a limit ended the check of the answer; null otherwise.
    pub unchecked: Option<UncheckedTrials>,
    /// Builds that are identical to an earlier one; 0 unless artifacts were named.
    pub identical_builds: u64,
    /// The probability that the answer is wrong.
    pub error_rate: f64,
    /// The merge commit that an earlier search found, if this search covers the commits that it brought; null
    /// otherwise.
    pub merge: Option<String>,
    /// The boundaries between bad and good versions, in the order of the list: that of this search, and with `all`,
    /// those of the searches before it.
    pub boundaries: Vec<Boundary>,
    /// The settings that were tried before the search, and the one that it used; null without `raise-rate`.
    pub raised: Option<RaiseReport>,
    /// What earlier runs measured of the bad end; null without any.
    pub earlier_runs: Option<EarlierTrialsReport>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
}

/// Trials that were missing when a limit ended the check of the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UncheckedTrials {
    /// The version to test.
    pub name: String,
    /// How many more trials of it.
    pub trials: u64,
}

impl BisectAnswer {
    pub(super) fn new(state: &State) -> Option<Self> {
        let search = BisectProgress::of_state(state)?;
        let alpha = state.goal.alpha.to_probability();
        let masses = search.bisection.posterior_masses();
        let candidates = candidates_of(state);
        let name = |index: usize| candidates[index].name.clone();
        let group = search.bisection.likeliest_group();
        let newest = candidates.len() - 1;
        let (k, n) = search.failing_counts();
        let rate = StopRule::Decision.interval(k, n, alpha);
        let culprit_indices = match search.current_verdict() {
            // The good end is assumed to be good.
            Found::Known(group) => group.first.max(1)..group.last.min(newest) + 1,
            _ => 0..0,
        };
        let probability = match culprit_indices.clone() {
            indices if indices.is_empty() => group.mass,
            indices => masses[indices].iter().sum(),
        };
        let culprits: Vec<String> = culprit_indices.map(name).collect();
        let credible = search.bisection.credible_set(1.0 - alpha).into_iter();
        let fix = if is_fixed(state) && !culprits.is_empty() {
            group.first.checked_sub(1).map(name)
        } else {
            None
        };
        let mut answer = Self {
            sentence: String::new(),
            culprits,
            after_fix: fix,
            probability,
            credible: credible
                .filter(|index| *index <= newest)
                .map(name)
                .collect(),
            rate: rate.ends(),
            failing_counts: (k, n),
            points: candidates_seen(state, &search, &masses),
            local: local_check(state, &search),
            contradiction: describe_contradiction(state, &search),
            earlier: earlier_failing(state, &search),
            earlier_rate_bound: match search.current_verdict() {
                Found::Known(group) => search.bisection.earlier_rate_bound(&search.stop, &group),
                _ => None,
            },
            rise: rate_rise(state, &search),
            clean_refuted: state
                .goal
                .question
                .as_search()
                .is_some_and(|question| question.clean)
                && search.bisection.allows_background(),
            limit: reached_limit(state, &search),
            unchecked: search
                .unchecked_candidate()
                .map(|(index, trials)| UncheckedTrials {
                    name: name(index),
                    trials,
                }),
            identical_builds: state.learned().map_or(0, CandidateBuilds::identical_builds),
            error_rate: alpha,
            merge: searched_merge(state).map(|merge| merge.name.clone()),
            boundaries: found_boundaries(state, &search),
            raised: RaiseReport::new(state),
            earlier_runs: EarlierTrialsReport::of_search(state),
            assumptions: list_assumptions(state),
        };
        answer.sentence = answer.write_sentence(state, &search);
        Some(answer)
    }

    fn write_sentence(&self, state: &State, search: &BisectProgress) -> String {
        let answer = match (BisectPolicy.verdict_of(state), search.current_verdict()) {
            (Verdict::Found, _) => self.describe_culprits(state),
            (Verdict::NotThere, Found::AlreadyBad(_)) => self.describe_equal_ends(state),
            (Verdict::NotThere, _) => self.describe_rare_end(state),
            (Verdict::CouldNotTest, _) => not_tested(state),
            (_, Found::Impossible) => {
                let way_out = if search.bisection.allows_background() {
                    "--only with one failure may help"
                } else {
                    "perhaps good versions fail, too (try without --clean)"
                };
                format!("NOT KNOWN: no boundary explains the results; {way_out}")
            }
            _ => self.describe_candidates_left(state),
        };
        // If the ends agree, the sentence already says so.
        let ends_differ = BisectPolicy.verdict_of(state) != Verdict::NotThere;
        match &self.contradiction {
            Some(contradiction) if ends_differ => format!("{answer}; but {contradiction}"),
            _ => answer,
        }
    }

    /// Names the first bad candidate, or the candidates that it may be, with what changes the meaning of this answer.
    fn describe_culprits(&self, state: &State) -> String {
        let certain = words::format_percent(self.probability);
        let (end, noun) = (searched_end(state), candidate_noun(state));
        let began_earlier = self
            .earlier
            .as_ref()
            .filter(|earlier| earlier.meaning == EarlierFailureMeaning::BeganEarlier);
        let rate = if began_earlier.is_some_and(|earlier| earlier.less_often) {
            " at this failure rate"
        } else {
            ""
        };
        let kinds = super::kinds::describe_kinds(state, &self.points, &self.culprits);
        let culprit_text = match (self.culprits.as_slice(), &self.after_fix) {
            _ if let Some(kinds) = &kinds => format!("{kinds} ({certain} %)"),
            ([culprit], Some(fix)) => format!(
                "{culprit}{} is the last bad {noun}{rate}, {fix}{} the first good one ({certain} %)",
                self.candidate_note(culprit),
                self.candidate_note(fix)
            ),
            ([culprit], None) => {
                format!(
                    "{culprit}{} is the {end} bad {noun}{rate} ({certain} %)",
                    self.candidate_note(culprit)
                )
            }
            (culprits, _) => format!(
                "the {end} bad {noun}{rate} is one of {} ({certain} %): those between them are not testable",
                culprits.join(", ")
            ),
        };
        let mut parts = vec![culprit_text];
        parts.extend(began_earlier.map(|earlier| earlier.to_sentence(state)));
        parts.extend(self.describe_background());
        parts.extend(self.describe_earlier_bound(state));
        if kinds.is_none() {
            parts.extend(self.describe_other_failure(state));
        }
        parts.extend(self.describe_rise());
        parts.extend(self.describe_unchecked());
        parts.join("; ")
    }

    /// Says that the good end fails as the bad end does, and what may help.
    fn describe_equal_ends(&self, state: &State) -> String {
        let (first, last) = end_names(state);
        let agree = format!("{first}, the good end, fails as {last} does");
        if let Some(point) = self.turning_candidate(state) {
            return format!(
                "{agree}, but {} does not ({} of {}): the bug comes and goes",
                point.name, point.failures, point.trials
            );
        }
        if let Some(merge) = searched_merge(state)
            && is_fixed(state)
        {
            return format!("{agree}; {}", describe_merge_itself(merge, "fixed"));
        }
        let begin = if is_fixed(state) { "later" } else { "earlier" };
        match self.raising_setting() {
            Some(setting) => {
                format!("{agree} with {setting}; search again without --raise-rate")
            }
            None if searches_any_failure(&state.goal) => {
                format!("{agree}: start {begin}, or count one failure with --only")
            }
            None => format!("{agree}: start {begin}"),
        }
    }

    /// Says how many candidates may still be the first bad one.
    fn describe_candidates_left(&self, state: &State) -> String {
        let candidates_left =
            words::format_count(self.credible.len() as u64, candidate_noun(state));
        let likeliest = match &self.credible[..] {
            // If all are about equally likely, none is named.
            [name, _, ..] if self.probability * real(self.credible.len() as u64) > 2.0 => format!(
                ", most likely {name} ({} %)",
                words::format_percent(self.probability)
            ),
            _ => String::new(),
        };
        format!(
            "NOT KNOWN YET: {candidates_left} left ({}){likeliest}",
            format_confidence(&state.goal)
        )
    }

    /// Returns whether the sentence has a part that changes the meaning of the answer.
    pub fn has_caveat(&self) -> bool {
        self.contradiction.is_some()
            || self.earlier.is_some()
            || self.rise.is_some()
            || self.unchecked.is_some()
    }

    /// Says that the bad end failed too rarely to search, or not at all, and what may help.
    fn describe_rare_end(&self, state: &State) -> String {
        let last = end_names(state).1;
        let tally = state.tally_of(State::FAILING);
        let (failures, trials) = (tally.failures, tally.counted_trials());
        let counted = words::format_count(trials, "trial");
        let text = if failures == 0 {
            let bound = StopRule::PlannedN
                .interval(0, trials, state.goal.alpha.to_probability())
                .hi;
            format!(
                "{last}, the bad end, did not fail in {counted}: its failure rate is below {} % ({} interval)",
                words::percent_bound(bound),
                format_confidence(&state.goal)
            )
        } else {
            format!(
                "{last}, the bad end, failed in only {failures} of {counted}, too rarely to search"
            )
        };
        if let Some(point) = self.turning_candidate(state) {
            let more_often = if failures > 0 {
                " failed more often"
            } else {
                " did"
            };
            return format!(
                "{text}; but {}{more_often} ({} of {}): the bug comes and goes",
                point.name, point.failures, point.trials
            );
        }
        let between_text = match self.most_tried_between(|point| point.trials > 0) {
            Some(_) if failures > 0 => ", and no version tested between them failed more often",
            Some(_) => ", and no version tested between them failed",
            None => "",
        };
        let way_out = match searched_merge(state) {
            Some(merge) if !is_fixed(state) && state.is_testable(State::FAILING) => {
                format!("; {}", describe_merge_itself(merge, "brought"))
            }
            _ if follows_boundary(state) => String::new(),
            _ => format!("; {}", ways_to_reproduce(state)),
        };
        format!("{text}{between_text}{way_out}")
    }

    /// Returns the setting that the search used to raise the rate.
    fn raising_setting(&self) -> Option<&str> {
        self.raised.as_ref()?.setting.as_deref()
    }

    /// Returns the candidate between two ends that agree which differs from them.
    fn turning_candidate(&self, state: &State) -> Option<&CandidateReport> {
        let index = BisectPolicy::turns_at(state)? as u64;
        self.points.iter().find(|point| point.place == index)
    }

    /// Returns the most tested candidate between the ends with this property.
    fn most_tried_between(
        &self,
        is_wanted: impl Fn(&CandidateReport) -> bool,
    ) -> Option<&CandidateReport> {
        let inner_points = self.points.get(1..self.points.len().saturating_sub(1))?;
        let matching = inner_points.iter().filter(|point| is_wanted(point));
        matching.max_by_key(|point| point.trials)
    }

    /// Reports that another change may have raised the rate further.
    fn describe_rise(&self) -> Option<String> {
        let rise = self.rise.as_ref()?;
        Some(format!(
            "{}, the bad end, fails more often ({} of {}) than {} ({} of {}): another change between them may have raised the rate",
            rise.bad_end,
            rise.failures,
            rise.trials,
            rise.culprit,
            rise.culprit_failures,
            rise.culprit_trials
        ))
    }

    /// Reports that the version before the first bad one failed in another way: the bug may have had another name there.
    fn describe_other_failure(&self, state: &State) -> Option<String> {
        let first = self.culprits.first()?;
        let place = self.points.iter().position(|point| point.name == *first)?;
        let before = self.points.get(place.checked_sub(1)?)?;
        let title = before.other_failure.as_ref().filter(|_| before.other > 0)?;
        let side = if is_fixed(state) { "after" } else { "before" };
        Some(format!(
            "{} {side} it failed in another way in {} of {}: {}",
            before.name,
            before.other,
            before.trials + before.other,
            words::sanitize_line(title)
        ))
    }

    /// States the failure rate that versions before the first bad one may still have.
    fn describe_earlier_bound(&self, state: &State) -> Option<String> {
        let bound = words::percent_bound(self.earlier_rate_bound?);
        let side = if is_fixed(state) { "later" } else { "earlier" };
        Some(format!("{side} ones fail in at most {bound} % of trials"))
    }

    /// Reports that a limit ended the check of the answer.
    fn describe_unchecked(&self) -> Option<String> {
        let UncheckedTrials { name, trials } = self.unchecked.as_ref()?;
        Some(format!(
            "not checked whether an earlier version also fails, which takes {} of {name}",
            words::format_count(*trials, "more trial")
        ))
    }

    /// Reports that good versions fail as well, or may fail, unless the sentence already says so.
    fn describe_background(&self) -> Option<String> {
        let earlier = self.earlier.as_ref()?;
        let good = self.points.first().filter(|point| point.place == 0)?;
        let EarlierFailingVersion {
            name,
            failures,
            trials,
            ..
        } = earlier;
        let end = format!("{}, the good end", good.name);
        match earlier.meaning {
            EarlierFailureMeaning::BeganEarlier => None,
            EarlierFailureMeaning::Background => {
                let (bad_failures, bad_trials) = self.failing_counts;
                let is_rarer = stats::fisher(bad_failures, bad_trials, good.failures, good.trials)
                    .greater
                    <= self.error_rate;
                let rarer = if is_rarer { ", less often" } else { "" };
                Some(format!(
                    "good versions also fail{rarer}: {end}, failed in {} of {}",
                    good.failures, good.trials
                ))
            }
            EarlierFailureMeaning::NotKnown => Some(format!(
                "{name} also failed, in {failures} of {trials}; {end}, in {} of {}: too few trials to tell an earlier start from background failures",
                good.failures, good.trials
            )),
        }
    }

    /// Returns the description of a candidate in brackets.
    fn candidate_note(&self, name: &str) -> String {
        let point = self.points.iter().find(|point| point.name == name);
        let subject = point.and_then(|point| point.about.as_deref());
        subject.map_or(String::new(), |about| format!(" \"{about}\""))
    }
}

impl AnswerText for BisectAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let counts = |name: &str| {
            let point = self.points.iter().find(|point| point.name == name);
            point.map_or_else(
                || "0 of 0".to_owned(),
                |point| format!("{} of {}", point.failures, point.trials),
            )
        };
        if let Some(local) = &self.local {
            let outcome = match local.missing {
                0 => "significant".to_owned(),
                missing => format!(
                    "not significant; {} of {} would make it so",
                    words::format_count(missing, "more passing trial"),
                    local.before
                ),
            };
            lines.push(format!(
                "{} failed in {}, {} {} it in {}: {}, {outcome}",
                local.culprit,
                counts(&local.culprit),
                local.before,
                if self.after_fix.is_some() {
                    "after"
                } else {
                    "before"
                },
                counts(&local.before),
                words::p_value(local.p_value)
            ));
        }
        if !self.culprits.is_empty() {
            lines.push(format!(
                "failure rate of bad versions: {} (one interval for all of them)",
                words::format_interval(self.rate)
            ));
        }
        let bad = self.points.last().zip(self.earlier_runs.as_ref());
        lines.extend(bad.and_then(|(bad, earlier)| earlier.describe_earlier_trials(&bad.name)));
        let good = self.points.first().filter(|point| point.place == 0);
        if self.clean_refuted
            && let Some(good) = good
        {
            lines.push(format!(
                "{}, the good end, also fails, less often ({} of {}): continued without --clean",
                good.name, good.failures, good.trials
            ));
        }
        lines.extend(self.raised.iter().flat_map(RaiseReport::summary_lines));
        if let Some(limit) = self.limit {
            lines.push(format!(
                "stopped at the limit of {}: -n allows more, and --log continues from these results",
                words::format_count(limit, "trial")
            ));
        }
        if self.identical_builds > 0 {
            lines.push(format!(
                "{} to an earlier one, so the commits between them are excluded (assuming that only the artifacts matter)",
                words::plural_of(self.identical_builds, "build was identical", "builds were identical")
            ));
        }
        if let Some(merge) = &self.merge {
            lines.push(format!(
                "these commits were merged by {merge}, which an earlier search found; each of the two answers is wrong in at most {} cases",
                one_of(self.error_rate)
            ));
        }
        if self.boundaries.len() > 1 {
            let boundaries: Vec<String> = self.boundaries.iter().map(say_boundary).collect();
            lines.push(format!(
                "boundaries: {}; each is wrong in at most {} cases",
                boundaries.join(", "),
                one_of(self.error_rate)
            ));
        }
        let other_failures: u64 = self.points.iter().map(|point| point.other).sum();
        let most_others = self.points.iter().max_by_key(|point| point.other);
        if let Some(title) = most_others.and_then(|point| point.other_failure.as_ref()) {
            lines.push(format!(
                "{} in another way, such as {}: not counted",
                words::plural_of(other_failures, "trial failed", "trials failed"),
                words::sanitize_line(title)
            ));
        }
        if !self.culprits.is_empty()
            && let Some(good) = self.points.first()
            && good.place == 0
            && good.trials == 0
        {
            lines.push(format!(
                "{}, the good end, was not tested: assumed good",
                good.name
            ));
        }
        lines
    }

    fn tables(&self, _: &[VariantSummary], _confidence: f64) -> Vec<Table> {
        vec![self.candidate_table()]
    }

    fn result(&self, verdict: Verdict, _: &[VariantSummary]) -> String {
        match (verdict, self.points.as_slice()) {
            (Verdict::Found, _) if self.has_caveat() => {
                format!("{} (caveat)", self.culprits.join(", "))
            }
            (Verdict::Found, _) => self.culprits.join(", "),
            (Verdict::NotThere, [good, .., bad]) if good.failures > 0 && bad.failures > 0 => {
                "both ends fail".to_owned()
            }
            (Verdict::NotThere, _) => NOT_REPRODUCED.to_owned(),
            _ => NOT_KNOWN.to_owned(),
        }
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("bisect", "the first bad candidate is found")
    }

    fn listed_variants(&self, variants: &[VariantSummary]) -> Option<Vec<String>> {
        // Candidates have the order of their list, not the one in which the search tried them.
        let mut names = tested_variants(variants);
        let place = |name: &String| {
            let point = self.points.iter().find(|point| point.name == *name);
            point.map_or(u64::MAX, |point| point.place)
        };
        names.sort_by_key(place);
        Some(names)
    }
}

/// Returns the boundaries that a search found in a list.
pub(super) fn boundaries_of(answer: &Answer) -> &[Boundary] {
    answer
        .numbers()
        .map_or(&[], |answer: &BisectAnswer| &answer.boundaries)
}

/// Returns whether a variant is the answer of a search, or one of several.
pub fn is_culprit(answer: &Answer, variant: &str) -> bool {
    let answer: Option<&BisectAnswer> = answer.numbers();
    answer.is_some_and(|answer| answer.culprits.iter().any(|name| name == variant))
}

/// Returns the name of the variant whose change made the difference, if it is a single one.
pub fn deciding_variant(answer: &Answer) -> Option<&str> {
    let answer: &BisectAnswer = answer.numbers()?;
    match answer.culprits.as_slice() {
        [culprit] => Some(answer.after_fix.as_ref().unwrap_or(culprit)),
        _ => None,
    }
}

/// Returns a log with which the search can be continued.
pub fn search_log(answer: &Answer) -> Option<String> {
    answer.numbers().map(BisectAnswer::log)
}

/// Returns whether the first or the last bad candidate is searched, in the order of the user's list.
fn searched_end(state: &State) -> &'static str {
    if is_fixed(state) { "last" } else { "first" }
}

/// Returns the merge that an earlier search found.
fn searched_merge(state: &State) -> Option<&Candidate> {
    let space = state.trials.space.as_ref();
    space.and_then(|space| space.merge.as_ref())
}

/// Returns the boundaries found so far.
fn found_boundaries(state: &State, search: &BisectProgress) -> Vec<Boundary> {
    let section = searched_section(state);
    let (first, mut boundaries) = section.map_or((0, Vec::new()), |section| {
        (section.from, section.found.clone())
    });
    let candidates = candidates_of(state);
    if let (Verdict::Found, Found::Known(group)) =
        (BisectPolicy.verdict_of(state), search.current_verdict())
        && let Some(passes) = group.first.checked_sub(1)
    {
        let index = if is_fixed(state) {
            candidates.len() - 1 - passes
        } else {
            group.first
        };
        let last = group.last.min(candidates.len() - 1);
        let fails = candidates.get(group.first..=last).unwrap_or_default();
        boundaries.push(Boundary {
            place: u64::from(first) + index as u64,
            fails: fails
                .iter()
                .map(|candidate| candidate.name.clone())
                .collect(),
            passes: candidates[passes].name.clone(),
            begins: !is_fixed(state),
        });
    }
    boundaries.sort_by_key(|boundary| boundary.place);
    boundaries
}

fn say_boundary(boundary: &Boundary) -> String {
    let fails = boundary.fails.join(" or ");
    if boundary.begins {
        format!("first bad: {fails}")
    } else {
        format!("last bad: {fails}, before {}", boundary.passes)
    }
}

/// Says that the merge itself is the culprit, or the fix, and none of the merged commits.
fn describe_merge_itself(merge: &Candidate, did: &str) -> String {
    let about = merge.about.as_ref();
    let subject_text = about.map_or(String::new(), |about| format!(" \"{about}\""));
    format!(
        "so the merge itself, {}{subject_text}, {did} it: the combination of both parents, not one of the merged commits",
        merge.name
    )
}

/// Returns the variants of the first bad candidate and of the one before it, among those tested.
pub(super) fn kept_variants(state: &State) -> Vec<VariantId> {
    let Some(search) = BisectProgress::of_state(state) else {
        return Vec::new();
    };
    let group = search.bisection.likeliest_group();
    let boundary_places = [group.first.checked_sub(1), Some(group.last)];
    boundary_places
        .into_iter()
        .flatten()
        .filter_map(|index| state.variant_at_place(index))
        .collect()
}

/// Returns the limit that ended the search before its answer, or before the check of its answer.
fn reached_limit(state: &State, search: &BisectProgress) -> Option<u64> {
    let ran: u64 = state
        .all_tallies()
        .map(|(_, tally)| tally.finished_trials())
        .sum();
    let open = match BisectPolicy.verdict_of(state) {
        Verdict::Found => search.unchecked_candidate().is_some(),
        verdict => verdict == Verdict::Undecided,
    };
    crate::trial_limit(state).filter(|limit| open && ran >= *limit)
}

/// Describes the search before it starts.
pub(super) fn lines_before_start(state: &State) -> Vec<String> {
    let (good, bad) = end_names(state);
    let count = words::format_count(candidates_of(state).len() as u64 - 1, candidate_noun(state));
    let (good, bad) = (words::sanitize_line(good), words::sanitize_line(bad));
    let (earlier_trials, limit_text) = reproduction_needed(state);
    let mut lines = vec![if is_fixed(state) {
        format!(
            "searching {count}: {bad} is bad, {good} is good; first, {bad} must fail {limit_text}"
        )
    } else {
        format!(
            "searching {count}: {good} is good, {bad} is bad; first, {bad} must fail {limit_text}"
        )
    }];
    lines.extend(
        earlier_trials
            .iter()
            .flat_map(|earlier_trials| earlier_trials.lines_before_start(&bad)),
    );
    lines
}

fn list_assumptions(state: &State) -> Vec<String> {
    let mut assumptions = independence_assumptions(state);
    let end = if is_fixed(state) {
        "up to the last bad one fails"
    } else {
        "from the first bad one on fails"
    };
    assumptions.push(format!("every version {end} at the same rate"));
    if state
        .goal
        .question
        .as_bisect()
        .is_some_and(|question| !question.all)
    {
        assumptions.push("there is only one boundary (--all searches for more)".to_owned());
    }
    assumptions.extend(search_assumptions(state));
    assumptions
}
