//! Answer of `confirm`: whether the bug is fixed.

use super::assumptions::list_assumptions;
use super::baseline_text::{
    describe_baseline, describe_bug, describe_dependence, describe_drift, describe_rarest,
    describe_unchanged,
};
use super::comparison::{in_turns, suggest_comparison};
use super::more_failures::MoreFailures;
use super::policy::clean_needed_for;
use super::sweep::{SweepMemory, SweepReport, is_never_reached};
use crate::answer::{
    AnswerText, DescribedVariants, RateMeaning, VariantSummary, counts_of_all, format_confidence,
    one_of, rate_row, rate_table, sentence_and_assumptions,
};
use crate::baseline::differing_from_baseline;
use crate::{BaselineReport, ConfirmProgress, FailureCounts, Policy as _, StopRule, Verdict};
use provoke_model::{
    Baseline, ConditionDifference, ConfirmQuestion, KnownBug, MeasuredBaseline, VariantId,
};
use provoke_state::State;
use provoke_stats::{self as stats, real};
use provoke_words as words;
use provoke_words::document::{SuggestedCommand, Table};
use provoke_words::untrusted::SafeText;
use serde::Serialize;

/// Whether the bug is fixed, with the numbers behind the answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfirmAnswer {
    /// The answer in one sentence.
    pub sentence: String,
    /// How often it failed before the fix; null if a rate was assumed.
    pub baseline: Option<BaselineReport>,
    /// The assumed failure rate, if there is no baseline.
    pub assumed_rate: Option<f64>,
    /// Passing trials so far.
    pub clean: u64,
    /// Passing trials needed for FIXED; null if no number is enough.
    pub clean_needed: Option<u64>,
    /// Passing trials that are enough if the failures of the baseline are independent; null if nothing shows that they are
    /// not.
    pub clean_if_independent: Option<u64>,
    /// Passing trials still missing.
    pub clean_missing: Option<u64>,
    /// The probability that an unchanged program passes as many trials.
    pub unchanged_p: f64,
    /// The probability of calling an unchanged program fixed.
    pub error_rate: f64,
    /// Upper bound of the failure rate now; null after a failure.
    pub rate_below: Option<f64>,
    /// Whether a fix that only halves the failure rate had to be excluded as well.
    pub excludes_half: bool,
    /// The probability that a fix that only halves the failure rate passes as many trials.
    pub half_fix_passes: Option<f64>,
    /// Passing trials that would exclude such a fix.
    pub clean_to_exclude_half: Option<u64>,
    /// More baseline failures that would have saved trials in all; null if none would.
    pub more_failures: Option<MoreFailures>,
    /// The separate bugs of the baseline, if there are several, with the passing trials that each of them needs alone.
    pub separate_bugs: Vec<SeparateBug>,
    /// Failures that are not the bug of the baseline.
    pub other_failures: u64,
    /// Earlier fixes that were tried against the same baseline.
    pub earlier_attempts: u64,
    /// The probability that one of all attempts is called FIXED if none of them changed anything.
    pub error_rate_of_attempts: f64,
    /// Trials at the points around the hold; null without `--held`.
    pub sweep: Option<SweepReport>,
    /// Says that the program is the same as in the baseline, so that it may not contain the fix; null if it differs, or if that
    /// is not known.
    pub unchanged_program: Option<String>,
    /// Conditions that differ from the baseline.
    pub differences: Vec<ConditionDifference>,
    /// The command that compares both programs in turns, if the rate may have changed without the fix; null if there is
    /// no sign of that.
    pub compare: Option<String>,
    /// The assumptions of the answer.
    pub assumptions: Vec<String>,
    /// The comparison that shows whether an insufficient fix helped.
    #[serde(skip)]
    did_it_help: Option<SuggestedCommand>,
}

impl ConfirmAnswer {
    pub(super) fn new(state: &State) -> Option<Self> {
        let question = state.goal.question.as_confirm()?;
        let progress = ConfirmProgress::of_state(state)?;
        let alpha = state.goal.alpha.to_probability();
        let tally = state.tally_of(VariantId(0));
        let (baseline, assumed_rate) = match &question.baseline {
            Baseline::Measured(measured) => (Some(measured.as_ref()), None),
            Baseline::Assumed(millionths) => (None, Some(f64::from(*millionths) / 1e6)),
        };
        let half = crate::clean_needed(question, true, alpha);
        let differences = differing_from_baseline(state, baseline);
        let may_change = baseline.is_some_and(|base| base.clumps.is_some() || base.drift.is_some())
            || differences
                .iter()
                .any(|difference| difference.can_change_rate);
        Some(Self {
            sentence: write_sentence(state, question, &progress),
            baseline: baseline.map(|measured| BaselineReport::new(measured, None)),
            assumed_rate,
            clean: progress.clean,
            clean_needed: progress.needed,
            clean_if_independent: baseline
                .and_then(|base| passes_if_independent(base, progress.excludes_half, alpha)),
            clean_missing: progress.missing_trials(),
            unchanged_p: progress.unchanged,
            error_rate: alpha,
            rate_below: (progress.failures == 0 && progress.clean > 0)
                .then(|| rate_bound(progress.clean, baseline, alpha)),
            excludes_half: progress.excludes_half,
            half_fix_passes: progress.needed.map(|needed| half_passes(question, needed)),
            clean_to_exclude_half: half,
            more_failures: match baseline {
                Some(baseline) if !progress.excludes_half => {
                    MoreFailures::of_baseline(baseline, alpha)
                }
                _ => None,
            },
            separate_bugs: baseline
                .map_or_else(Vec::new, |base| separate_bugs(state, base, &progress)),
            other_failures: tally.other,
            earlier_attempts: question.earlier_attempts,
            error_rate_of_attempts: error_of_attempts(question, alpha),
            sweep: state
                .learned::<SweepMemory>()
                .and_then(|memory| memory.report(state)),
            compare: (may_change && state.trials.load.is_none())
                .then(|| in_turns(state, baseline, "")),
            unchanged_program: question.unchanged.as_ref().map(describe_unchanged),
            did_it_help: (progress.failures > 0 && state.trials.held.is_none())
                .then(|| baseline.and_then(|base| suggest_comparison(state, base, alpha)))
                .flatten(),
            assumptions: list_assumptions(state, question, baseline, &differences),
            differences,
        })
    }

    pub(crate) fn may_be_a_half_fix(&self) -> bool {
        !self.excludes_half
            && self
                .half_fix_passes
                .is_some_and(|passes| passes > self.error_rate)
    }
}

impl AnswerText for ConfirmAnswer {
    sentence_and_assumptions!();

    fn detail_lines(&self) -> Vec<String> {
        let base = self.baseline.as_ref();
        let mut lines: Vec<String> = self.unchanged_program.iter().cloned().collect();
        lines.extend(base.into_iter().flat_map(BaselineReport::say_runs));
        let clumps = self
            .baseline
            .as_ref()
            .is_some_and(|base| base.design_effect > 1.0);
        if clumps && let Some(bound) = self.rate_below {
            lines.push(format!(
                "the failure rate is at most {} % ({} % confidence), if failures come in clumps as in the baseline",
                words::percent_bound(bound),
                words::format_percent(1.0 - self.error_rate)
            ));
        }
        if self.rate_below.is_some()
            && self.clean_missing != Some(0)
            && let Some(enough) = self.clean_if_independent
        {
            lines.push(format!(
                "if failures do not come in clumps, {} are enough; a second run of the unfixed program tests this, and --independent assumes it",
                words::format_count(enough, "passing trial"),
            ));
        }
        let is_fixed = self.rate_below.is_some() && self.clean_missing == Some(0);
        let may_be_half = is_fixed && !self.excludes_half;
        if may_be_half && let Some(passes) = self.half_fix_passes {
            let passes = words::format_percent(passes);
            let half = self.clean_to_exclude_half.map_or(String::new(), |half| {
                let trials = words::format_count(half, "passing trial");
                format!("; --exclude-half excludes such a fix ({trials})")
            });
            lines.push(format!(
                "a fix that only halves the failure rate also passes, in {passes} % of cases{half}"
            ));
        }
        if self.rate_below.is_some() && self.clean_missing != Some(0) {
            lines.extend(self.more_failures.map(MoreFailures::to_advice));
        }
        if self.earlier_attempts > 0 && self.clean_missing == Some(0) {
            lines.push(suggest_confidence(self.earlier_attempts, self.error_rate));
        }
        if self.rate_below.is_some()
            && let Some(compare) = &self.compare
        {
            lines.push(format!(
                "the rate may have changed without the fix; an interleaved comparison excludes that: {compare}"
            ));
        }
        // NOT FIXED may be about one of several bugs.
        if self.separate_bugs.iter().any(|bug| bug.failures_here > 0) {
            let unseen = self
                .separate_bugs
                .iter()
                .filter(|bug| bug.failures_here == 0);
            lines.extend(unseen.map(|bug| {
                let title = words::sanitize_line(&bug.title);
                format!(
                    "{title} did not occur; --only {} asks about it alone",
                    bug.filter
                )
            }));
        }
        let sweep = self.sweep;
        let shown = sweep.filter(|sweep| sweep.trials > 0 || sweep.failures > 0);
        lines.extend(shown.map(describe_sweep));
        lines
    }

    fn tables(&self, variants: &[VariantSummary], _confidence: f64) -> Vec<Table> {
        let before = self.baseline.as_ref().and_then(|baseline| {
            let (failures, trials) = (baseline.failures, baseline.trials);
            let alpha = self.error_rate;
            let interval =
                StopRule::planned_interval(failures, trials, baseline.design_effect, alpha);
            rate_row(
                "before",
                FailureCounts { failures, trials },
                Some(interval.ends()),
            )
        });
        let tested = variants.iter().filter(|variant| variant.trials > 0);
        let now = tested.map(VariantSummary::rate_mark);
        let rows = before
            .into_iter()
            .chain(now.map(|rate| ("now".to_owned(), rate)));
        vec![rate_table(rows)]
    }

    fn result(&self, _: Verdict, variants: &[VariantSummary]) -> String {
        // The sentence begins with the answer in capitals.
        format!(
            "{} {}",
            leading_capitals(&self.sentence),
            counts_of_all(variants)
        )
    }

    fn is_doubtful(&self) -> bool {
        self.rate_below.is_some() && self.clean_missing == Some(0) && self.may_be_a_half_fix()
    }

    fn ci_test(&self) -> (&'static str, &'static str) {
        ("confirm", "the bug is fixed")
    }

    fn described_variants(&self) -> DescribedVariants {
        DescribedVariants::Each
    }

    fn rate_meaning(&self) -> RateMeaning {
        RateMeaning::OfFix
    }

    fn commands(&self, run: &SafeText) -> Vec<SuggestedCommand> {
        let line = format!("provoke confirm --baseline {run}");
        let next_fix = SuggestedCommand::new("try the next fix", line)
            .with_remark("with the baseline and the flags of this run");
        let comparison = self.did_it_help.clone();
        comparison.into_iter().chain([next_fix]).collect()
    }

    fn confirmed_run(&self) -> Option<&str> {
        self.baseline.as_ref()?.run.as_deref()
    }
}

/// Describes the trials at the points around a hold, and what they show.
fn describe_sweep(sweep: SweepReport) -> String {
    let SweepReport {
        failures, trials, ..
    } = sweep;
    let points = words::format_count(sweep.points, "point");
    let area = if sweep.of_whole_program {
        "of the program"
    } else {
        "near the old one"
    };
    let failing_trial = if failures > 0 {
        sweep.failing_trial
    } else {
        None
    };
    match failing_trial {
        Some(trial) if trials == 0 => {
            format!("#{trial} failed while threads stopped briefly at every point {area}")
        }
        Some(trial) => format!(
            "{} held a thread at {points} {area}: {failures} failed (#{trial})",
            words::format_count(trials, "more trial"),
        ),
        None => format!(
            "{} held a thread at {points} {area}: none failed (other schedules were not tried)",
            words::format_count(trials, "more trial"),
        ),
    }
}

/// Returns the approximate duration of clean trials, from the passing trials so far or from the passes of the baseline, if
/// it is known. In a baseline with holds, most trials crash, and a passing one waits longer.
fn describe_time(state: &State, question: &ConfirmQuestion, trials: u64) -> String {
    if state.trials.held.is_some() && state.tally_of(VariantId(0)).passes == 0 {
        return String::new();
    }
    let rounds = trials.div_ceil(u64::from(state.trials.jobs));
    crate::seconds_of_a_pass(state, question).map_or(String::new(), |seconds| {
        let time = real(rounds) * seconds;
        format!(", about {}", words::format_seconds(time))
    })
}

/// Returns the upper bound of the probability of a false FIXED among all attempts against a baseline.
fn error_of_attempts(question: &ConfirmQuestion, alpha: f64) -> f64 {
    (real(question.earlier_attempts + 1) * alpha).min(1.0)
}

/// Says how often one of several checks against the same baseline is wrong.
fn describe_attempts(question: &ConfirmQuestion, alpha: f64) -> String {
    if question.earlier_attempts == 0 {
        return String::new();
    }
    let attempts = question.earlier_attempts + 1;
    format!(
        ". This is check {attempts} against this baseline: the chance that one of them is a wrong FIXED is up to {} %",
        words::format_percent(error_of_attempts(question, alpha)),
    )
}

/// Suggests the confidence at which several checks against the same baseline keep the error level together.
fn suggest_confidence(earlier: u64, alpha: f64) -> String {
    let level = alpha / real(earlier + 1);
    // Rounded up, so that all checks together keep the level. The highest confidence has four decimals.
    let parts = if level < 1e-4 { 1e6 } else { 1e4 };
    let confidence = 100.0 * (parts - (parts * level).floor()) / parts;
    format!(
        "with --conf {confidence}, that chance stays at {} % for all {}",
        words::format_percent(alpha),
        words::format_count(earlier + 1, "check"),
    )
}

/// Mentions failures that are not the bug of the baseline.
fn describe_others(state: &State) -> String {
    let tally = state.tally_of(VariantId(0));
    match tally.title_of_others() {
        Some(title) => format!(
            "; it failed in another way in {} of {}: {}",
            tally.other,
            words::format_count(tally.finished_trials(), "trial"),
            words::sanitize_line(&title),
        ),
        None => String::new(),
    }
}

/// Describes the number and the duration of the required clean trials before the start.
pub(super) fn lines_before_start(state: &State, question: &ConfirmQuestion) -> Vec<String> {
    let against = describe_baseline(&question.baseline);
    let alpha = state.goal.alpha.to_probability();
    let needed_for = |half| crate::clean_needed(question, half, alpha);
    let Some((min, half)) = needed_for(false).zip(needed_for(true)) else {
        return vec![format!(
            "no number of passing trials is enough against {against}"
        )];
    };
    let takes = |needed| {
        let trials = words::format_count(needed, "passing trial");
        format!("{trials}{}", describe_time(state, question, needed))
    };
    let excludes_half =
        ConfirmProgress::of_state(state).is_some_and(|progress| progress.excludes_half);
    let (needed, goal) = if excludes_half {
        (half, format!("FIXED needs {}", takes(half)))
    } else {
        (
            min,
            format!("PROBABLY FIXED needs {}, FIXED {half}", takes(min)),
        )
    };
    let mut lines = vec![format!(
        "{against} failed; {goal}; the first failure means NOT FIXED",
    )];
    lines.extend(question.unchanged.as_ref().map(describe_unchanged));
    if let Baseline::Measured(base) = &question.baseline {
        lines.extend(BaselineReport::new(base, None).runs_beforehand());
        lines.extend(base.drift.map(describe_drift));
        lines.extend(
            passes_if_independent(base, excludes_half, alpha)
                .map(|enough| describe_dependence(base, enough)),
        );
        lines.extend(describe_bug(base, &state.trials.rules.only));
        lines.extend(describe_rarest(base).map(|rarest| {
            format!("the rarest failure determines this number: {rarest} (--only selects another failure)")
        }));
        lines.extend(MoreFailures::of_baseline(base, alpha).map(MoreFailures::to_advice));
    }
    if let Some(trial_limit) = state.stop.trials.filter(|limit| *limit < needed) {
        let trials = words::format_count(trial_limit, "trial");
        lines.push(format!("-n allows at most {trials}: too few for FIXED"));
    }
    lines
}

/// Returns how many passing trials are enough if the failures of the baseline are independent, although they came in clumps.
fn passes_if_independent(base: &MeasuredBaseline, excludes_half: bool, alpha: f64) -> Option<u64> {
    let depends = base.design_effect() > 1.0;
    let enough = || clean_needed_for(base.reference_counts(), 1.0, excludes_half, alpha);
    depends.then(enough).flatten()
}

/// Returns the probability that a fix which only halves the rate passes: its clean trials are about as likely as half
/// as many of the unfixed program.
fn half_passes(question: &ConfirmQuestion, needed: u64) -> f64 {
    match &question.baseline {
        Baseline::Measured(base) => {
            let (failures, trials) = base.reference_counts();
            stats::unchanged_p_value_effective(failures, trials, needed / 2, base.design_effect())
        }
        Baseline::Assumed(millionths) => {
            let halved = f64::from(*millionths) / 2e6;
            1.0 - stats::chance_to_see(halved, needed)
        }
    }
}

/// Returns the upper bound of the rate after these clean trials, with the design effect of the baseline.
fn rate_bound(clean: u64, baseline: Option<&MeasuredBaseline>, alpha: f64) -> f64 {
    let effect = baseline.map_or(1.0, MeasuredBaseline::design_effect);
    1.0 - alpha.powf(effect / real(clean))
}

/// Says that the user must decide whether a failure under another name is another bug.
fn describe_doubt(state: &State, question: &ConfirmQuestion, clean: &str) -> String {
    let groups: Vec<_> = crate::doubtful_failures(state, question).collect();
    let trials: Vec<u64> = groups
        .iter()
        .flat_map(|group| group.trials.iter().map(|trial| trial.0))
        .collect();
    let title = groups.first().map_or("", |group| &group.signature.title);
    let filters: Vec<String> = match &question.baseline {
        Baseline::Measured(base) => {
            let names = base.bugs.iter().filter_map(|bug| bug.names.first());
            names.map(|id| format!("sig:{id}")).collect()
        }
        Baseline::Assumed(_) => Vec::new(),
    };
    format!(
        "NOT KNOWN: {clean}, but {} failed with the bug's exit status and another signature ({title}): if that is another bug, exclude it with --only {}; if not, it is NOT FIXED",
        words::format_trial_ids(&trials, 3),
        filters.join(","),
    )
}

/// A bug of a baseline with several bugs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeparateBug {
    /// Its title.
    pub title: String,
    /// Its failures in the baseline.
    pub failures: u64,
    /// Trials of that baseline.
    pub trials: u64,
    /// Passing trials that show that this bug is fixed; null if no number does.
    pub clean_needed: Option<u64>,
    /// Trials of this run that showed it.
    pub failures_here: u64,
    /// What `--only` selects it by.
    pub filter: String,
}

fn separate_bugs(
    state: &State,
    base: &MeasuredBaseline,
    progress: &ConfirmProgress,
) -> Vec<SeparateBug> {
    let alpha = state.goal.alpha.to_probability();
    let trials = base.trials_of_bugs();
    let failures_of = |bug: &KnownBug| {
        let groups = state.tally_of(VariantId(0)).groups.values();
        let same = groups.filter(|group| bug.has_signature(&group.signature));
        same.map(|group| group.trials.len() as u64).sum()
    };
    let bugs = base.separate_bugs().into_iter();
    bugs.map(|bug| SeparateBug {
        failures_here: failures_of(&bug),
        filter: format!("sig:{}", bug.names.first().unwrap_or(&bug.widest)),
        title: bug.title,
        failures: bug.failures,
        trials,
        clean_needed: clean_needed_for(
            (bug.failures, trials),
            base.design_effect(),
            progress.excludes_half,
            alpha,
        ),
    })
    .collect()
}

/// Returns the verdict before enough trials have passed, which names the bugs that are fixed already.
fn describe_partial_fix(
    state: &State,
    question: &ConfirmQuestion,
    progress: &ConfirmProgress,
) -> String {
    let Baseline::Measured(base) = &question.baseline else {
        return "NOT YET".to_owned();
    };
    let bugs = separate_bugs(state, base, progress);
    let is_fixed = |bug: &SeparateBug| {
        bug.clean_needed
            .is_some_and(|needed| progress.clean >= needed)
    };
    let titles = |fixed: bool| -> String {
        let chosen = bugs.iter().filter(|bug| is_fixed(bug) == fixed);
        let titles: Vec<String> = chosen.map(|bug| words::sanitize_line(&bug.title)).collect();
        titles.join(", ")
    };
    if !bugs.iter().any(is_fixed) {
        return "NOT YET".to_owned();
    }
    let fixed = if progress.excludes_half {
        "FIXED"
    } else {
        "PROBABLY FIXED"
    };
    format!(
        "NOT YET for {}, {fixed} for {} ({})",
        titles(false),
        titles(true),
        format_confidence(&state.goal)
    )
}

fn write_sentence(state: &State, question: &ConfirmQuestion, progress: &ConfirmProgress) -> String {
    let tally = state.tally_of(VariantId(0));
    let against = describe_baseline(&question.baseline);
    let clean = words::format_count(progress.clean, "passing trial");
    match crate::ConfirmPolicy.verdict_of(state) {
        Verdict::Fixed => {
            let fixed = if progress.excludes_half { "FIXED" } else { "PROBABLY FIXED" };
            let rarest = match &question.baseline {
                Baseline::Measured(base) => describe_rarest(base),
                Baseline::Assumed(_) => None,
            };
            let rate = match (rarest, progress.excludes_half) {
                (None, true) => "Even at half that rate".to_owned(),
                (None, false) => "At that rate".to_owned(),
                (Some(rarest), true) => {
                    format!("Even at half the rate of the rarest failure ({rarest})")
                }
                (Some(rarest), false) => format!("At the rate of the rarest failure ({rarest})"),
            };
            let alpha = state.goal.alpha.to_probability();
            format!(
                "{fixed} ({}): {clean}; before, {against} failed. {rate}, this many passes would occur by chance in at most {} cases{}{}",
                format_confidence(&state.goal),
                one_of(alpha),
                describe_others(state),
                describe_attempts(question, alpha),
            )
        }
        Verdict::NotFixed => {
            let first = tally.early_failures.first().map(|(trial, _)| *trial);
            let of_sweep = || state.learned::<SweepMemory>()?.failing_trial();
            let first = first.or_else(of_sweep);
            let trial = first.map_or(String::new(), |trial| trial.to_string());
            let after = match progress.clean {
                0 => String::new(),
                _ => format!(" after {clean}"),
            };
            format!("NOT FIXED: trial {trial} failed{after}; before, {against} failed")
        }
        _ if is_never_reached(state) => format!(
            "NOT KNOWN: no trial reached the hold, so the fix may have removed that code; before, {against} failed"
        ),
        Verdict::CouldNotTest => "NOT TESTED: no trial was conclusive".to_owned(),
        _ if progress.one_life => "NOT KNOWN: all trials share what `setup` started, so they may count as a single one; start it in `prepare`, or pass --independent if trials cannot influence each other through it".to_owned(),
        _ if progress.doubtful > 0 => describe_doubt(state, question, &clean),
        _ if crate::trials_without_known_failure(state) > 0 => format!(
            "NOT KNOWN: {clean}, but {} failed without evidence of which failure it was",
            words::format_count(crate::trials_without_known_failure(state), "trial"),
        ),
        _ if progress.clean == 0 && tally.other > 0 => format!(
            "NOT KNOWN: no trial could show whether the failure of the baseline is gone{}; before, {against} failed",
            describe_others(state)
        ),
        _ => {
            let missing_text = progress.missing_trials().map_or_else(
                || "no number of trials is enough".to_owned(),
                |missing| format!("{missing} more needed{}", describe_time(state, question, missing)),
            );
            let verdict = describe_partial_fix(state, question, progress);
            format!(
                "{verdict}: {clean}, {missing_text}; before, {against} failed, and an unfixed program passes as often in {} % of cases{}",
                words::format_percent(progress.unchanged),
                describe_others(state)
            )
        }
    }
}

/// Returns the leading capitalized words of a sentence.
fn leading_capitals(sentence: &str) -> String {
    let all_words = sentence.split(' ');
    let is_in_capitals =
        |word: &&str| word.chars().any(char::is_uppercase) && *word == word.to_uppercase();
    let words: Vec<&str> = all_words.take_while(is_in_capitals).collect();
    words.join(" ").trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_confidence_can_be_given() {
        for (earlier, alpha, confidence) in
            [(1, 0.05, "97.5"), (2, 0.05, "98.34"), (1, 1e-4, "99.995")]
        {
            let text = suggest_confidence(earlier, alpha);
            let flag = format!("with --conf {confidence}, ");
            assert!(text.starts_with(&flag), "{text}");
        }
    }

    #[test]
    fn the_answer_in_capitals_is_the_result() {
        assert_eq!(leading_capitals("NOT YET: 5 passing trials"), "NOT YET");
        assert_eq!(leading_capitals("FIXED (95 %): 70 passing trials"), "FIXED");
        assert_eq!(leading_capitals("it does not"), "");
    }
}
