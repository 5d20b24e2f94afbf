//! Finds earlier runs of the same program under the same conditions, whose trials count as well.
//!
//! Whether a run counts depends on what was run, never on its results: a run may have been named as a baseline because
//! it failed, and runs without a failure must count as well.

use super::measured_variant::{BaselineFilter, measure_variant, read_baseline_run};
use provoke_journal as journal;
use provoke_journal::{RunFolder, RunStart, default_root};
use provoke_model::{
    EarlierTrials, ExcludedRun, ExpectedResult, Failure, FailureName, Goal, Host, MeasuredBaseline,
    Plan, RateMismatch, RunCounts, Survey, TrialsPlan, VariantId,
};
use provoke_questions as questions;
use provoke_state::State;
use provoke_stats::{self as stats, NamedRate};
use provoke_survey::{RunFacts, TrialSimilarity, compare_variants};
use provoke_words as words;
use std::collections::BTreeSet;
use std::path::Path;

/// The variant whose earlier trials are wanted.
struct EarlierQuery<'a> {
    side: RunFacts<'a>,
    variant: VariantId,
    /// Its own directory, if it is a stored run.
    folder: Option<&'a Path>,
    /// Whether it is the bad end of a search, for which the order of trials does not matter.
    searched: bool,
}

/// A run whose trials may count.
struct EarlierRun {
    run: String,
    measured: MeasuredBaseline,
    /// One of each of its failures.
    failed: Vec<Failure>,
    /// Files in the working directory in which the two runs differ.
    other_files: Vec<String>,
}

/// Adds the counts of other runs of the same program to a baseline, which is a variant of a run in this directory.
pub(super) fn add_to(
    mut base: MeasuredBaseline,
    state: &State,
    variant: VariantId,
    folder: &RunFolder,
    filter: &BaselineFilter,
) -> MeasuredBaseline {
    // In other questions, the outcomes of earlier trials determine which variant runs next; a rate that changed has no
    // single value that others could share.
    if !questions::of(state).only_measures() || base.drift.is_some() {
        return base;
    }
    let query = EarlierQuery {
        side: make_side(&state.trials, &state.origin.host, &state.origin.survey),
        variant,
        folder: Some(folder.path()),
        searched: false,
    };
    let default_filter = match filter {
        BaselineFilter::AsThere => BaselineFilter::Like(base.bugs.clone()),
        other_filter => other_filter.clone(),
    };
    let (runs, excluded_runs) = find_earlier_runs(&query, &default_filter);
    base.left_out = excluded_runs;
    let counts: Vec<(u64, u64)> = runs.iter().map(EarlierRun::failures_and_trials).collect();
    let pool = stats::pool((base.failures, base.trials), &counts);
    base.left_out.extend(
        pool.more_often
            .iter()
            .map(|(index, p_value)| runs[*index].failed_more_often(*p_value)),
    );
    let named = RunCounts {
        run: state.origin.run.clone(),
        failures: base.failures,
        trials: base.trials,
        other_files: Vec::new(),
    };
    let other_runs: Vec<&EarlierRun> = runs
        .iter()
        .enumerate()
        .filter(|(index, _)| {
            !pool
                .more_often
                .iter()
                .any(|(excluded, _)| excluded == index)
        })
        .map(|(_, run)| run)
        .collect();
    let rates = |more_often: bool, p_value: f64| RateMismatch {
        more_often,
        named: named.clone(),
        others: other_runs.len() as u64,
        failures: other_runs.iter().map(|run| run.measured.failures).sum(),
        trials: other_runs.iter().map(|run| run.measured.trials).sum(),
        p_value: questions::ceil_parts(p_value, 1e6),
    };
    base.rates = match pool.named {
        NamedRate::Alike => None,
        NamedRate::MoreOften(p_value) => Some(rates(true, p_value)),
        NamedRate::LessOften(p_value) => Some(rates(false, p_value)),
    };
    if pool.counted.is_empty() {
        return base;
    }
    base.runs = vec![named];
    for run in other_runs {
        base.design_effect = base.design_effect.max(run.measured.design_effect);
        base.unfinished |= run.measured.unfinished;
        base.runs.push(run.run_counts());
    }
    // Clumps are known per run; the design effect has their size.
    base.clumps = None;
    (base.failures, base.trials) = (pool.failures, pool.trials);
    base
}

/// Adds the counts of earlier runs of the bad end, or of all items together, to the plan of a search.
pub(super) fn add_to_search(goal: &mut Goal, trials: &TrialsPlan, host: &Host, survey: &Survey) {
    if questions::counts_earlier_trials(goal, trials) {
        let any_failure = questions::searches_any_failure(goal);
        let earlier = of_bad_end(trials, any_failure, host, survey);
        questions::set_earlier_trials(goal, earlier);
    }
}

fn of_bad_end(
    trials: &TrialsPlan,
    any_failure: bool,
    host: &Host,
    survey: &Survey,
) -> Option<EarlierTrials> {
    let query = EarlierQuery {
        side: make_side(trials, host, survey),
        variant: State::FAILING,
        folder: None,
        searched: true,
    };
    let says_which = !trials.rules.only.is_empty();
    let filter = if says_which {
        BaselineFilter::Only(trials.rules.only.clone())
    } else {
        BaselineFilter::Any
    };
    let (runs, mut excluded_runs) = find_earlier_runs(&query, &filter);
    let counts: Vec<(u64, u64)> = runs.iter().map(EarlierRun::failures_and_trials).collect();
    let pool = stats::pool((0, 0), &counts);
    excluded_runs.extend(
        pool.more_often
            .iter()
            .map(|(index, p_value)| runs[*index].failed_more_often(*p_value)),
    );
    let counted_runs: Vec<&EarlierRun> = pool.counted.iter().map(|index| &runs[*index]).collect();
    let mut failed: Vec<Failure> = Vec::new();
    if !(says_which || any_failure) {
        for failure in counted_runs.iter().flat_map(|run| &run.failed) {
            add_failure(&mut failed, failure);
        }
    }
    (!counted_runs.is_empty() || !excluded_runs.is_empty()).then(|| EarlierTrials {
        failures: pool.failures,
        trials: pool.trials,
        failed,
        runs: counted_runs.iter().map(|run| run.run_counts()).collect(),
        left_out: excluded_runs,
    })
}

/// Counts the stored runs that compared the same program with the same maximum rate. A check that is repeated until it passes
/// passes more often.
pub(super) fn count_checks(plan: &Plan, host: &Host, survey: &Survey) -> u64 {
    if !matches!(plan.goal.expect, ExpectedResult::MaxRate(_)) {
        return 0;
    }
    let side = make_side(&plan.trials, host, survey);
    let is_check = |folder: &RunFolder| {
        let Ok(start) = journal::read_start(&folder.journal_path()) else {
            return false;
        };
        let earlier = &start.plan;
        let of_first = ((side, VariantId(0)), (facts_of_start(&start), VariantId(0)));
        earlier.goal.expect == plan.goal.expect
            && earlier.trials.variants.len() == plan.trials.variants.len()
            && matches!(
                compare_variants(of_first.0, of_first.1),
                TrialSimilarity::Same(_)
            )
    };
    let folders = RunFolder::all_runs(&default_root()).unwrap_or_default();
    folders.iter().filter(|folder| is_check(folder)).count() as u64
}

/// Adds a failure, unless the same is there.
fn add_failure(failures: &mut Vec<Failure>, failure: &Failure) {
    let is_known = |known: &Failure| FailureName::from(known).is_same(failure.into());
    if !failures.iter().any(is_known) {
        failures.push(failure.clone());
    }
}

pub(super) fn make_side<'a>(
    plan: &'a TrialsPlan,
    host: &'a Host,
    survey: &'a Survey,
) -> RunFacts<'a> {
    RunFacts { plan, host, survey }
}

/// Returns the facts of a stored run.
pub(super) fn facts_of_start(start: &RunStart) -> RunFacts<'_> {
    make_side(&start.plan.trials, &start.host, &start.survey)
}

/// Finds the runs of the same program, the oldest first, and the runs of the same command that do not count.
fn find_earlier_runs(
    query: &EarlierQuery,
    filter: &BaselineFilter,
) -> (Vec<EarlierRun>, Vec<ExcludedRun>) {
    let (mut runs, mut excluded_runs) = (Vec::new(), Vec::new());
    let mut seeds = BTreeSet::from([query.side.plan.seed]);
    for folder in RunFolder::all_runs(&default_root()).unwrap_or_default() {
        if query.folder == folder.path().canonicalize().ok().as_deref() {
            continue;
        }
        let Some((variants, other_files, refused)) = matching_variants(&folder, query, &mut seeds)
        else {
            continue;
        };
        let measured = match refused {
            Some(reason) => Err(reason),
            None => read_measured(&folder, &variants, filter, query)
                .map(|run| EarlierRun { other_files, ..run }),
        };
        match measured {
            Ok(run) if run.measured.trials == 0 => {}
            Ok(run) => runs.push(run),
            Err(reason) => excluded_runs.push(ExcludedRun {
                run: folder.run_name(),
                why: reason,
            }),
        }
    }
    (runs, excluded_runs)
}

/// Returns the variants of a run with the same command, the files in which the two runs differ, and the reason if
/// the run does not count; `None` if the run has no such variant.
fn matching_variants(
    folder: &RunFolder,
    query: &EarlierQuery,
    seeds: &mut BTreeSet<u64>,
) -> Option<(Vec<VariantId>, Vec<String>, Option<String>)> {
    let start = journal::read_start(&folder.journal_path()).ok()?;
    let plan = &start.plan;
    let is_search = plan.trials.space.is_some();
    let ids = (0..)
        .map(VariantId)
        .take(plan.trials.variants.len())
        .filter(|id| !is_search || *id == State::FAILING);
    let (mut same, mut unlike, mut other_files) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        match compare_variants((query.side, query.variant), (facts_of_start(&start), id)) {
            TrialSimilarity::Same(files) => {
                same.push(id);
                other_files = files;
            }
            TrialSimilarity::Unlike(reason) => unlike.push(reason),
            TrialSimilarity::OtherCommand => {}
        }
    }
    let question = questions::of_goal(&plan.goal);
    // With `raise_rate`, some of its trials ran under another setting.
    let searches = is_search && !questions::raises_rate(&plan.goal);
    let counts =
        question.only_measures() || query.searched && (question.measures_variants() || searches);
    if same.is_empty() && unlike.is_empty() {
        return None;
    }
    let refused = if question.tests_a_fix() {
        Some("`confirm` runs are not part of the baseline".to_owned())
    } else if same.is_empty() {
        unlike.pop()
    } else if !counts {
        Some("the run chose its trials by the outcomes of earlier trials".to_owned())
    } else if let Err(error) = folder.clone().check_trust(false) {
        Some(error.to_string())
    } else if !seeds.insert(plan.trials.seed) {
        Some("the run has the same seed as another run, so its trials may be the same".to_owned())
    } else {
        None
    };
    Some((same, other_files, refused))
}

/// Reads the counts of a run, or returns why they do not count.
fn read_measured(
    folder: &RunFolder,
    variants: &[VariantId],
    filter: &BaselineFilter,
    query: &EarlierQuery,
) -> Result<EarlierRun, String> {
    let state =
        read_baseline_run(&folder.journal_path(), filter).map_err(|error| error.to_string())?;
    if state.is_probably_mistyped() {
        return Err("the run stopped early, because every trial failed in the same way".to_owned());
    }
    let mut run = EarlierRun {
        run: folder.run_name(),
        measured: MeasuredBaseline::default(),
        failed: Vec::new(),
        other_files: Vec::new(),
    };
    for &id in variants {
        let baseline = measure_variant(&state, id, filter);
        if baseline.drift.is_some() {
            return Err("its failure rate changed while it ran".to_owned());
        }
        if query.searched && baseline.design_effect() > 1.0 {
            return Err("its failures came in clumps".to_owned());
        }
        let groups = state.tally_of(id).groups.values();
        for group in groups {
            add_failure(&mut run.failed, &group.to_failure());
        }
        let measured = &mut run.measured;
        measured.failures += baseline.failures;
        measured.trials += baseline.trials;
        measured.design_effect = measured.design_effect.max(baseline.design_effect);
        measured.unfinished |= baseline.unfinished;
    }
    Ok(run)
}

impl EarlierRun {
    fn failures_and_trials(&self) -> (u64, u64) {
        (self.measured.failures, self.measured.trials)
    }

    fn run_counts(&self) -> RunCounts {
        let (failures, trials) = self.failures_and_trials();
        RunCounts {
            run: self.run.clone(),
            failures,
            trials,
            other_files: self.other_files.clone(),
        }
    }

    /// Returns why it does not count: it failed more often than the others.
    fn failed_more_often(&self, p_value: f64) -> ExcludedRun {
        let ((failures, trials), chance) = (self.failures_and_trials(), words::p_value(p_value));
        ExcludedRun {
            run: self.run.clone(),
            why: format!(
                "the run failed more often than the others ({failures}/{trials}, {chance})"
            ),
        }
    }
}
