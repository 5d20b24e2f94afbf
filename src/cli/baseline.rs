//! Reads the baseline: counts such as `3/30`, or a run.

use super::earlier_runs;
use super::error::CliError;
use crate::model::{
    self, BugFilter, ConfirmQuestion, Event, EvidenceDepth, Failure, FailureKind, Host, KnownBug,
    MeasuredBaseline, Plan, Question, Signature, SignatureId, StopCause, VariantId,
};
use crate::policy;
use crate::report;
use crate::scenario::{MEASURE_FIRST, PlanError, QuestionSettings, Scenario};
use crate::state::{SignatureFailures, State, Tally};
use crate::store::{self, RunFolder, StoreError, default_root};
use crate::survey;
use crate::term::PooledBaseline;
use crate::untrusted::Untrusted as _;
use provoke_stats as stats;

/// The failures of a baseline that are the bug.
#[derive(Clone)]
pub(super) enum BaselineFilter {
    /// The failures that were the bug in its run.
    AsThere,
    /// All failures.
    Any,
    /// Failures of these kinds.
    Only(Vec<BugFilter>),
    /// Failures that share a name with one of these.
    Like(Vec<KnownBug>),
}

/// A baseline, with the settings of its trials.
#[derive(Debug, Default)]
pub(super) struct ResolvedBaseline {
    pub(super) measured: MeasuredBaseline,
    /// The settings of its trials, if it is a run of provoke.
    pub(super) scenario: Option<Scenario>,
    /// The run, if it is one of provoke.
    pub(super) chosen: Option<BaselineRun>,
}

/// The run that is the baseline.
#[derive(Debug)]
pub(super) struct BaselineRun {
    /// Name of the run.
    pub(super) run: String,
    /// Command of its trials.
    pub(super) command: String,
    /// Number of its failing trials.
    failures: u64,
    trials: u64,
    /// It is the newest run with failures, because no flag names a run.
    pub(super) is_newest: bool,
}

impl BaselineRun {
    /// Prints the baseline of a fix, unless the user named it and the command is the same.
    pub(super) fn print_choice(&self, command: &str) {
        if !self.is_newest && self.command == command {
            return;
        }
        let other = if self.is_newest {
            " (--baseline changes it)"
        } else {
            ""
        };
        crate::term::print_message(&format!(
            "  baseline: run {}, {} of {} trials failed{other}\n    {}",
            self.run.to_safe(),
            self.failures,
            self.trials,
            self.command.to_safe(),
        ));
    }
}

impl ResolvedBaseline {
    /// Reads the baseline that a scenario names, if it names one.
    pub(super) fn of_scenario(scenario: &Scenario) -> Result<Option<Self>, PlanError> {
        let looked_for = match scenario.judge.only.as_slice() {
            _ if scenario.takes_any_failure() => BaselineFilter::Any,
            [] => BaselineFilter::AsThere,
            only => BaselineFilter::Only(only.iter().map(|only| only.0).collect()),
        };
        let Some(text) = &scenario.baseline.baseline else {
            let confirms = scenario.outline.ask == Some(QuestionSettings::Confirm)
                && scenario.confirm.assume_rate.is_none();
            return Ok(confirms
                .then(|| Self::find_newest_failing(scenario, &looked_for))
                .flatten());
        };
        match parse_counts(text) {
            Some(_) if scenario.baseline.of.is_some() => Err(refuse_field(
                "of",
                format!("the counts `{text}` have no variants"),
                "leave `of` out, or give a run as the baseline",
            )),
            Some(counts) => Ok(Some(Self {
                measured: counts?,
                ..Self::default()
            })),
            None => Self::of_run(text, scenario, &looked_for).map(Some),
        }
    }

    /// Reads `K/N`, or the run of this name. Only its counts are used; none of its commands are run.
    pub(super) fn read_measured(
        text: &str,
        of: Option<&str>,
        ignore_earlier_runs: bool,
    ) -> Result<Self, PlanError> {
        let mut scenario = counts_only(of, ignore_earlier_runs);
        scenario.baseline.baseline = Some(text.to_owned());
        Ok(Self::of_scenario(&scenario)?.unwrap_or_default())
    }

    /// Finds the newest run with failures that measured a rate. Only its counts are used; none of its commands are run.
    pub(super) fn newest_failing(of: Option<&str>, ignore_earlier_runs: bool) -> Option<Self> {
        let scenario = counts_only(of, ignore_earlier_runs);
        Self::find_newest_failing(&scenario, &BaselineFilter::AsThere)
    }

    /// Finds the newest run with failures that measured a rate, if one exists.
    fn find_newest_failing(asked: &Scenario, looked_for: &BaselineFilter) -> Option<Self> {
        let folders = RunFolder::all_runs(&default_root()).unwrap_or_default();
        let mut newest_first = folders.iter().rev();
        newest_first.find_map(|folder| {
            let Ok(Event::RunStarted { plan, .. }) = store::first_event(&folder.journal_path())
            else {
                return None;
            };
            // In other questions, the outcomes of earlier trials determine which variant runs next.
            let measures = match plan.question {
                Question::Rate => plan.variants.len() == 1 || asked.baseline.of.is_some(),
                Question::Compare(_) => asked.baseline.of.is_some(),
                _ => false,
            };
            if !measures {
                return None;
            }
            let found = Self::of_run(&folder.run_name(), asked, looked_for).ok()?;
            let chosen = found.chosen.filter(|chosen| chosen.failures > 0)?;
            Some(Self {
                chosen: Some(BaselineRun {
                    is_newest: true,
                    ..chosen
                }),
                ..found
            })
        })
    }

    fn of_run(
        name: &str,
        asked: &Scenario,
        looked_for: &BaselineFilter,
    ) -> Result<Self, PlanError> {
        let read = RunFolder::find_run(name, &default_root())
            .and_then(|folder| folder.check_trust(asked.trust))
            .and_then(|folder| {
                let state = store::read_run(&folder.journal_path(), policy::is_done, |_, _| {})?;
                Ok((folder, state))
            });
        if let Ok((_, state)) = &read
            && state.stopped == Some(StopCause::AllAlike)
        {
            return Err(refuse_field(
                "baseline",
                format!(
                    "the run {} stopped early, because every trial failed in the same way",
                    state.run
                ),
                format!("run the rest of its trials: provoke resume {}", state.run),
            ));
        }
        let (folder, state) = read.map_err(|error| {
            let none_is_stored =
                RunFolder::all_runs(&default_root()).map_or(true, |runs| runs.is_empty());
            let hint = match error {
                StoreError::NoRun { .. } if none_is_stored => Some(MEASURE_FIRST.to_owned()),
                _ => error.hint(),
            };
            let hint = hint.unwrap_or_else(|| "give counts instead: --baseline 3/30".to_owned());
            refuse_field(
                "baseline",
                format!("cannot read the baseline: {error}"),
                hint,
            )
        })?;
        let variant = find_variant(&state, asked.baseline.of.as_deref())?;
        let again = Scenario::of_variant_plan(&state.plan, state.plan.variant_plan(variant));
        let alone = asked.count.ignore_earlier_runs.unwrap_or(false);
        let measured = match &state.plan.question {
            // A further fix is compared with the baseline of the first one.
            Question::Confirm(asked) => baseline_of_confirm(&state, asked)?,
            _ if alone => measure_variant(&state, variant, looked_for),
            _ => {
                let base = measure_variant(&state, variant, looked_for);
                earlier_runs::add_to(base, &state, variant, &folder, looked_for)
            }
        };
        let chosen = BaselineRun {
            run: folder.run_name(),
            command: report::command_line(&state.plan, variant),
            failures: measured.failures,
            trials: measured.trials,
            is_newest: false,
        };
        Ok(Self {
            measured,
            scenario: again.ok(),
            chosen: Some(chosen),
        })
    }
}

/// Returns a scenario that uses only the counts of a baseline.
fn counts_only(of: Option<&str>, ignore_earlier_runs: bool) -> Scenario {
    let mut scenario = Scenario {
        trust: true,
        ..Scenario::default()
    };
    scenario.baseline.of = of.map(str::to_owned);
    scenario.count.ignore_earlier_runs = Some(ignore_earlier_runs);
    scenario
}

fn refuse_field(field: &str, what: impl Into<String>, hint: impl Into<String>) -> PlanError {
    PlanError {
        what: what.into(),
        at: vec![field.to_owned()],
        hint: hint.into(),
    }
}

/// Reads `3/30`; returns `None` for text of any other form.
fn parse_counts(text: &str) -> Option<Result<MeasuredBaseline, PlanError>> {
    let (failures, trials) = text.split_once('/')?;
    let (failures, trials): (u64, u64) = (failures.parse().ok()?, trials.parse().ok()?);
    Some(if failures > trials || trials == 0 {
        let what = format!("`{text}` is not FAILURES/TRIALS");
        let hint = "write it as 3/30: 3 failures in 30 trials";
        Err(refuse_field("baseline", what, hint))
    } else {
        Ok(MeasuredBaseline {
            failures,
            trials,
            ..MeasuredBaseline::default()
        })
    })
}

/// Returns the baseline of a run of `confirm`.
fn baseline_of_confirm(
    state: &State,
    asked: &ConfirmQuestion,
) -> Result<MeasuredBaseline, PlanError> {
    match &asked.baseline {
        model::Baseline::Measured(measured) => Ok(measured.as_ref().clone()),
        model::Baseline::Assumed(_) => Err(refuse_field(
            "baseline",
            format!(
                "the run {} has no measured baseline: its failure rate was assumed",
                state.run
            ),
            "give the rate again: --assume-rate P; or a measurement: --baseline 3/30",
        )),
    }
}

/// Returns the variant with this name.
fn find_variant(state: &State, of: Option<&str>) -> Result<VariantId, PlanError> {
    let variants = || (0..).map(VariantId).zip(&state.plan.variants);
    let names = || {
        let names = variants().map(|(_, variant)| format!("`{}`", variant.name));
        names.collect::<Vec<_>>().join(", ")
    };
    let run = &state.run;
    match (of, state.plan.variants.len()) {
        (None, 1) => Ok(VariantId(0)),
        (None, several) => Err(refuse_field(
            "baseline",
            format!("the run {run} has {several} variants"),
            format!("choose the variant with --of: {}", names()),
        )),
        (Some(name), _) => {
            let found = variants().find(|(_, variant)| variant.name == name);
            found.map(|(id, _)| id).ok_or_else(|| {
                let what = format!("the run {run} has no variant `{name}`");
                refuse_field("of", what, format!("its variants: {}", names()))
            })
        }
    }
}

/// Counts the failures of a variant that are the bug: by the rules of the run, or by others.
pub(super) fn measure_variant(
    state: &State,
    variant: VariantId,
    looked_for: &BaselineFilter,
) -> MeasuredBaseline {
    let tally = state.tally_of(variant);
    let as_a_bug = |group: &SignatureFailures| {
        bug_names(group, state.captured_tally(variant), &state.plan.rules.only)
    };
    let is_bug = |group: &SignatureFailures| {
        let failure = Failure {
            kind: group.kind.clone(),
            signature: group.signature.clone(),
            sites: group.sites.clone(),
        };
        match looked_for {
            BaselineFilter::Any => true,
            BaselineFilter::AsThere => group.is_the_bug,
            BaselineFilter::Only(only) => only.iter().any(|only| only.covers_failure(&failure)),
            BaselineFilter::Like(bugs) => bugs.iter().any(|known| is_same(known, &as_a_bug(group))),
        }
    };
    let bugs: Vec<&SignatureFailures> = tally
        .groups
        .values()
        .filter(|group| is_bug(group))
        .collect();
    let captured = state.captured_tally(variant).groups.values();
    let others = tally.groups.values().chain(captured);
    let others = others.filter(|group| !is_bug(group));
    let failures = bugs.iter().map(|group| group.trials.len() as u64).sum();
    let pass = tally.pass_times.quantile_at(0.5);
    MeasuredBaseline {
        one_life: state.shares_a_life(),
        pass_us: pass
            .and_then(|time| u64::try_from((time + state.mean_overhead()).as_micros()).ok()),
        run: Some(state.run.clone()),
        unfinished: !state.finished,
        conditions: Some(survey::variant_conditions(
            &state.plan,
            variant,
            &state.host,
        )),
        others: others
            .flat_map(|group| all_names(&group.signature))
            .collect(),
        bugs: bugs.iter().map(|group| as_a_bug(group)).collect(),
        ..policy::measure_variant(state, variant, failures)
    }
}

/// Returns the number of passing trials that a fix of a run needs if other runs of the same program count, too, as they
/// do in `confirm`.
pub(super) fn with_other_runs(state: &State, folder: &RunFolder) -> Option<PooledBaseline> {
    let [_] = state.plan.variants.as_slice() else {
        return None;
    };
    let alone = measure_variant(state, VariantId(0), &BaselineFilter::AsThere);
    let alike = state.stopped == Some(StopCause::AllAlike);
    if alone.failures == 0 || alone.one_life || alike {
        return None;
    }
    let base = earlier_runs::add_to(alone, state, VariantId(0), folder, &BaselineFilter::AsThere);
    let ((failures, trials), alpha) = (base.reference_counts(), state.plan.alpha.to_probability());
    let effect = base.design_effect();
    let least = stats::clean_runs_needed_effective(failures, trials, effect, alpha)?;
    let half = stats::clean_runs_to_exclude_half(failures, trials, effect, alpha)?;
    let needed = policy::needed_by_default(least, half, state.plan.jobs, base.pass_seconds());
    (base.runs.len() > 1).then_some(PooledBaseline {
        needed,
        runs: base.runs.len() as u64,
    })
}

/// Returns whether two failures share a name. If only the exit status of one is known, they count as the same: an
/// interrupted run has no stacks, and must not count as if it had only passed.
fn is_same(known: &KnownBug, seen: &KnownBug) -> bool {
    let is_only_status = |bug: &KnownBug| bug.names == [bug.widest];
    let by_status = is_only_status(known) || is_only_status(seen);
    by_status && known.widest == seen.widest
        || known.names.iter().any(|name| seen.names.contains(name))
}

/// Counts the stored runs that tested a fix against the same baseline.
fn earlier_attempts(baseline: &MeasuredBaseline) -> u64 {
    let folders = RunFolder::all_runs(&default_root()).unwrap_or_default();
    let same = |folder: &RunFolder| match store::first_event(&folder.journal_path()) {
        Ok(Event::RunStarted { plan, .. }) => match &plan.question {
            Question::Confirm(asked) => {
                matches!(&asked.baseline, model::Baseline::Measured(base) if base.run.as_ref().is_some_and(|run| baseline.has_run(run)))
            }
            _ => false,
        },
        _ => false,
    };
    folders.iter().filter(|folder| same(folder)).count() as u64
}

/// Completes the question of a plan with a baseline. Refuses a baseline that cannot give an answer, because the failure
/// rate may differ from it for another reason than the fix.
pub(super) fn complete_question(plan: &mut Plan, host: &Host) -> Result<(), CliError> {
    let (base, accepts, answer) = match &mut plan.question {
        Question::Confirm(asked) => {
            let model::Baseline::Measured(base) = &asked.baseline else {
                return Ok(());
            };
            asked.earlier_attempts = earlier_attempts(base);
            refuse_drift(base)?;
            (base.clone(), asked.accept_conditions, "confirm")
        }
        Question::Compare(asked) => {
            let Some(base) = &asked.baseline else {
                return Ok(());
            };
            (base.clone(), asked.accept_conditions, "compare")
        }
        _ => return Ok(()),
    };
    let unlike = base
        .conditions
        .as_ref()
        .map(|there| survey::differing_conditions(plan, host, there));
    let mut unlike = unlike.unwrap_or_default();
    unlike.retain(|difference| difference.can_change_rate);
    if unlike.is_empty() || accepts {
        return Ok(());
    }
    let lines: Vec<String> = unlike.iter().map(ToString::to_string).collect();
    let error = anyhow::anyhow!("{}", lines.join("\n    ")).context(
        "cannot compare with the baseline: its conditions differ, which may change the failure rate",
    );
    Err(CliError::undecided(error).with_hint(format!(
        "{answer} under the conditions of the baseline, or measure a baseline under these conditions; if the differences cannot change the failure rate, add --accept-different-conditions",
    )))
}

/// Refuses a baseline whose rate changed, if its half that counts has no failure.
fn refuse_drift(base: &MeasuredBaseline) -> Result<(), CliError> {
    let Some(drift) = base.drift.filter(|drift| drift.failures == 0) else {
        return Ok(());
    };
    let error = anyhow::anyhow!(
        "cannot use the baseline: its failure rate changed while it ran, and none of the {} trials of its {} half failed, so no number of passing trials shows a fix",
        drift.trials,
        if drift.late { "first" } else { "second" },
    );
    Err(CliError::undecided(error).with_hint(
        "measure the baseline again; or run the old and the new program in turns, so that a changing rate affects both: provoke compare --find different",
    ))
}

/// Returns the names that identify a bug: those from the best evidence, if it is available in every build.
///
/// A line of the kernel's log identifies an instruction in one build only, and many bugs share an exit status. But to
/// miss the bug is worse than to take another failure for it, so in these cases any failure with that status is the
/// bug. The same applies if heap damage was found, which appears in many places; if a call has no name but its offset
/// in a file; and to a hang, whose threads may be anywhere in their loop when their stacks are read.
///
/// If the run searched for a family, any failure of that family is the bug.
fn bug_names(group: &SignatureFailures, captured: &Tally, only: &[BugFilter]) -> KnownBug {
    let seen = &group.signature;
    let weak = (seen.depth, seen.id);
    let deeper = captured.groups.values().map(|group| &group.signature);
    let deeper: Vec<&Signature> = deeper
        .filter(|one| seen.depth == EvidenceDepth::Kernel && one.also.contains(&weak))
        .collect();
    let best = match deeper.as_slice() {
        [] => vec![seen],
        _ => deeper,
    };
    let widest = of_depth(seen, EvidenceDepth::Status)
        .next()
        .unwrap_or(seen.id);
    let hangs = matches!(group.kind, FailureKind::Hang { .. });
    let known = !hangs && best.iter().all(|one| one.is_same_in_any_build());
    let families = best.iter().flat_map(|one| &one.families);
    let families = families.map(|family| family.id);
    let families = families.filter(|id| only.contains(&BugFilter::Signature(*id)));
    let names = best.iter().flat_map(|one| of_depth(one, one.depth));
    let names = names.chain(families);
    KnownBug {
        title: best[0].title.clone(),
        names: if known { names.collect() } else { vec![widest] },
        by_core: known && best[0].depth == EvidenceDepth::Stack && group.kind.is_crash(),
        widest,
    }
}

/// Returns the specific names of a failure: all but that of its exit status.
fn all_names(signature: &Signature) -> impl Iterator<Item = SignatureId> {
    let names = [(signature.depth, signature.id)].into_iter();
    let names = names.chain(signature.also.iter().copied());
    names
        .filter(|(of, _)| *of != EvidenceDepth::Status)
        .map(|(_, id)| id)
}

fn of_depth(signature: &Signature, depth: EvidenceDepth) -> impl Iterator<Item = SignatureId> {
    let names = [(signature.depth, signature.id)].into_iter();
    let names = names.chain(signature.also.iter().copied());
    names.filter(move |(of, _)| *of == depth).map(|(_, id)| id)
}
