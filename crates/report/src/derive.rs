//! Derives the report from the state.

use super::{
    CapturedTrials, ClumpsReport, Dependence, Durations, FORMAT, FailureKindReport, FailureRate,
    FamilyReport, IntervalBasis, LateTrial, LoadTotals, Mtbf, ProcessGrowth, Report,
    SignatureReport, SuiteReport, Trend, VariantReport,
    distribution::{rate_windows, time_ranges},
    group_failures,
    growth::find_growth,
    host_losses::host_losses,
    hosts::host_difference,
    hosts::host_reports,
    source_line,
};
use crate::failure_groups::describe_failures;
use crate::shared_failures::captured_failures;
use provoke_judge as judge;
use provoke_levers::typed_conditions;
use provoke_model::{
    CaptureMode, EvidenceDepth, FailureKind, Family, Signature, Site, StopCause, TrialId,
    TrialsPlan, VariantId,
};
use provoke_questions::{
    Answer, AnswerText, AssumptionChecks, CapturePolicy, MaxRateCheck, StopRule, VariantSummary,
    interval_at_any_time,
};
use provoke_state::{DurationHistogram, SignatureFailures, State, Tally};
use provoke_stats::{self as stats, real};
use provoke_words as words;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

impl Report {
    /// Derives the report from the state.
    pub fn new(state: &State, journal_complete: bool) -> Self {
        let variants: Vec<VariantReport> = state
            .all_tallies()
            .map(|(id, tally)| VariantReport::new(state, id, tally))
            .collect();
        let growth = find_growth(&state.usage, state.goal.alpha.to_probability());
        let testable = state
            .all_tallies()
            .zip(&variants)
            .filter(|((id, _), _)| state.is_testable(*id));
        let verdict = provoke_questions::policy_of(state).verdict_of(state);
        let weakest = testable.map(|(_, variant)| variant.stop_rule).max();
        let hosts = host_reports(state);
        let summaries = summarize(&variants);
        let mut report = Self {
            format: FORMAT,
            version: state.origin.version.clone(),
            run: state.origin.run.clone(),
            reference: state.origin.run.clone(),
            scenario: state.goal.scenario.as_ref().map(ToString::to_string),
            command: variants
                .first()
                .map(|variant| variant.command.clone())
                .unwrap_or_default(),
            verdict,
            answer: Answer::new(state, &summaries, &|file, line| {
                source_line(&Site {
                    file: file.to_owned(),
                    line,
                    ..Site::default()
                })
            }),
            expected: state.goal.expect,
            max_rate: MaxRateCheck::new(state, verdict),
            document: None,
            stop_rule: weakest.unwrap_or(StopRule::User),
            finished: state.stage.is_finished(),
            same_deadlock: state.always_deadlocks(),
            journal_complete,
            confidence: state.goal.alpha.confidence_percent(),
            started_at: jiff::Timestamp::from_second(state.origin.started_at)
                .unwrap_or_default()
                .to_string(),
            seconds: state.worked.as_secs_f64(),
            seconds_left: seconds_left(state),
            trials_left: trials_left(state),
            overhead_seconds: state.mean_overhead().as_secs_f64(),
            jobs: state.trials.jobs,
            seed: state.trials.seed,
            capture: state.trials.settings.capture,
            host: state.trial_environment().0,
            host_difference: host_difference(state, &hosts),
            host_losses: host_losses(state),
            hosts,
            notes: collect_notes(state, &variants, &growth, journal_complete),
            variants,
            growth,
            repeated_attempts: state.inconclusive.repeated,
            late_trials: late_trials(state),
            after_decision: state.after_decision,
            last_counted_trial: state.last_counted.0,
            with_another_failure: state.trials_with_others().iter().map(|id| id.0).collect(),
        };
        let answer = report.answer_text();
        report.document =
            answer.map(|answer| answer.document(verdict, &summaries, report.confidence));
        report
    }

    /// Returns the run whose failure `confirm` checks, if its baseline is a run.
    pub fn confirmed_run(&self) -> Option<&str> {
        self.answer_text()?.confirmed_run()
    }

    /// Returns the failing trial with the most detailed evidence, if any trial has more than an exit status.
    pub fn known_best(&self) -> Option<u64> {
        let example = self.answer_text().and_then(AnswerText::example_trial);
        if example.is_some() {
            return example;
        }
        let variants = self.variants.iter();
        let signatures = variants.flat_map(|variant| {
            variant
                .signatures
                .iter()
                .chain(variant.captured_signatures())
        });
        let deep = signatures.filter(|signature| signature.depth > EvidenceDepth::Status);
        let best_signature =
            deep.max_by_key(|signature| (signature.is_the_bug, signature.depth, signature.count))?;
        best_signature.trials.first().copied()
    }
}

impl VariantReport {
    /// Returns its name; that of a level of a load says what is counted.
    pub fn title(&self) -> String {
        match &self.load {
            Some(load) if self.name == load.clients.to_string() => {
                words::format_count(u64::from(load.clients), "client")
            }
            _ => self.name.clone(),
        }
    }

    /// Returns the signatures of the captured trials.
    pub fn captured_signatures(&self) -> &[SignatureReport] {
        let captured = self.captured.as_ref();
        captured.map_or(&[][..], |captured| &captured.signatures)
    }

    fn new(state: &State, id: VariantId, tally: &Tally) -> Self {
        let alpha = state.goal.alpha.to_probability();
        let (failures, trials) = (tally.failures, tally.counted_trials());
        let stop_rule = provoke_questions::policy_of(state).stop_rule(state, id);
        let AssumptionChecks { clumping, trend } = AssumptionChecks::of_variant(state, id);
        let at_first = stop_rule == StopRule::KthFailure && failures == 1;
        let mtbf = stats::mtbf(failures, tally.exposure.as_secs_f64(), alpha);
        let mut failing_trials: Vec<u64> = tally
            .failed
            .values()
            .flatten()
            .map(|trial| trial.0)
            .collect();
        failing_trials.sort_unstable();
        let drifts = trend.is_some_and(|trend| trend.warns());
        let (k, n) = if drifts {
            tally.quieter_half()
        } else {
            (failures, trials)
        };
        let effect = clumping.design_effect();
        // A fix must remove each of several failures.
        let rarest = tally
            .rarest_failure_count()
            .map_or(k, |rarest| rarest.min(k));
        Self {
            name: state.trials.variant_plan(id).display_label(),
            command: command_line(&state.trials, id),
            stop_rule,
            trials,
            failures,
            other: tally.other,
            void: tally.void_total(),
            outcomes: outcome_counts(tally),
            void_reasons: tally
                .void
                .iter()
                .map(|(reason, n)| (reason.to_string(), *n))
                .collect(),
            kinds: kinds_seen(tally),
            signatures: signatures_seen(stop_rule, alpha, tally, state.captured_tally(id)),
            captured: captured_trials(stop_rule, state, id),
            rate: FailureRate::new(tally, stop_rule, effect, alpha),
            failing_trials,
            rarest_failures: tally.rarest_failure_count(),
            clean_runs_to_confirm: stats::clean_runs_needed_effective(rarest, n, effect, alpha),
            clean_runs_to_exclude_half: stats::clean_runs_to_exclude_half(rarest, n, effect, alpha),
            durations: [("pass", &tally.pass_times), ("fail", &tally.fail_times)]
                .into_iter()
                .filter_map(|(name, times)| Some((name, Durations::new(times)?)))
                .collect(),
            failure_times: time_ranges(&tally.fail_times),
            windows: rate_windows(state, tally),
            time_between_failures: Mtbf {
                exposure: tally.exposure.as_secs_f64(),
                mean: if at_first { None } else { mtbf.estimate },
                low: mtbf.low,
                high: mtbf.high,
                low_one_sided: mtbf.low_one_sided,
            },
            leaking_trials: tally.leaks.trials,
            leaked_processes: tally.leaks.processes,
            unkillable_processes: tally.unkillable,
            trials_at_process_limit: tally.with_refused_forks,
            trials_ended_in_grace: tally.ended_in_grace,
            helpers_ended_early: tally.helpers_ended_early,
            load: state
                .trials
                .load
                .as_ref()
                .map(|load| LoadTotals::new(load, &state.trials.rules.refusals, &tally.requests)),
            suite: SuiteReport::new(state, id, tally, stop_rule),
            dependence: clumping.batches.map(|dependence| Dependence {
                batches: dependence.batches,
                p_value: dependence.p_value,
                icc: dependence.icc,
                warns: clumping.in_batches().is_some(),
            }),
            clumps: clumping.order.map(|clumps| ClumpsReport {
                clumps: clumps.clumps,
                p_value: clumps.p_value,
                warns: clumping.in_order().is_some(),
            }),
            trend: trend.map(|trend| Trend {
                u: trend.u,
                p_value: trend.p_value,
                warns: trend.warns(),
            }),
        }
    }
}

impl FailureRate {
    fn new(tally: &Tally, stop_rule: StopRule, effect: f64, alpha: f64) -> Self {
        let (k, n) = (tally.failures, tally.counted_trials());
        let at_first = stop_rule == StopRule::KthFailure && k == 1;
        let planned = stop_rule.is_planned();
        Self {
            point: (k > 0 && !at_first).then(|| real(k) / real(n)),
            cp: StopRule::planned_interval(k, n, effect, alpha).ends(),
            cs: interval_at_any_time(tally, effect, alpha).ends(),
            upper_one_sided: StopRule::planned_upper_bound(k, n, alpha),
            basis: if planned {
                IntervalBasis::Cp
            } else {
                IntervalBasis::Cs
            },
            design_effect: effect,
        }
    }
}

impl Durations {
    fn new(times: &DurationHistogram) -> Option<Self> {
        let seconds = |share| times.quantile_at(share).map(|time| time.as_secs_f64());
        Some(Self {
            p50: seconds(0.5)?,
            p90: seconds(0.9)?,
            max: times.max_duration()?.as_secs_f64(),
        })
    }
}

/// Returns the title of the most frequent failure that is the bug, and how many other signatures there are.
fn most_frequent_crash(variant: &VariantReport) -> Option<String> {
    let mut crashes = group_failures(variant);
    crashes.retain(|group| group.signature.is_the_bug);
    let frequent = crashes.iter().max_by_key(|group| group.trial_count())?;
    Some(match crashes.len() as u64 - 1 {
        0 => frequent.signature.title.clone(),
        others => format!(
            "{}, and {}",
            frequent.signature.title,
            words::format_count(others, "other signature")
        ),
    })
}

fn outcome_counts(tally: &Tally) -> BTreeMap<String, u64> {
    let mut outcomes = BTreeMap::from([("pass".to_owned(), tally.passes)]);
    for (kind, trials) in tally.failed.iter().chain(&tally.failed_otherwise) {
        *outcomes.entry(kind.name()).or_default() += trials.len() as u64;
    }
    outcomes
}

fn kinds_seen(tally: &Tally) -> Vec<FailureKindReport> {
    let kind_report =
        |(kind, trials): (&FailureKind, &Vec<TrialId>), is_the_bug| FailureKindReport {
            outcome: kind.name(),
            label: kind.evidence_label(),
            words: kind.meaning_words(),
            is_the_bug,
            count: trials.len() as u64,
            trials: trials.iter().map(|trial| trial.0).collect(),
        };
    let mut kinds: Vec<FailureKindReport> = tally
        .failed
        .iter()
        .map(|entry| kind_report(entry, true))
        .collect();
    kinds.extend(
        tally
            .failed_otherwise
            .iter()
            .map(|entry| kind_report(entry, false)),
    );
    kinds.sort_by_key(|kind| (!kind.is_the_bug, std::cmp::Reverse(kind.count)));
    kinds
}

/// Returns the observed failures, the bug before others, the frequent before the rare. If captured trials showed the
/// same failures, their more detailed signatures are linked.
fn signatures_seen(
    stop_rule: StopRule,
    alpha: f64,
    tally: &Tally,
    captured: &Tally,
) -> Vec<SignatureReport> {
    let trials = tally.counted_trials();
    let signature_report = |group: &SignatureFailures| {
        let count = group.trials.len() as u64;
        // Other failures are not among the counted trials, so their rate includes the trials with other failures.
        let among = trials + if group.has_uncounted { tally.other } else { 0 };
        let interval = stop_rule.interval(count, among, alpha);
        let groups = captured.groups.values().chain(tally.groups.values());
        let signatures = groups.map(|group| &group.signature);
        let deeper = |signature: &Signature| {
            let weaker = (signature.depth, signature.id);
            signatures
                .clone()
                .filter(move |other_signature| other_signature.also.contains(&weaker))
        };
        // An exit leaves no stack. Without a message it may be any exit with this code, unless a crash caused it. A
        // timeout of which no thread is known may be any hang, or a trial that was only slow.
        let is_unknown_hang = matches!(group.kind, FailureKind::Hang { .. })
            && group.signature.depth == EvidenceDepth::Status
            && group.signature.also.is_empty();
        let explains = |signature: &Signature| {
            !is_unknown_hang && (group.kind.has_stack() || signature.depth >= EvidenceDepth::Kernel)
        };
        let same_ids: Vec<String> = deeper(&group.signature)
            .filter(|signature| deeper(signature).next().is_none() && explains(signature))
            .map(|signature| signature.id.to_string())
            .collect();
        let exact = group.signature.depth >= EvidenceDepth::Kernel;
        SignatureReport {
            id: group.signature.id.to_string(),
            title: group.signature.title.clone(),
            depth: group.signature.depth,
            outcome: group.kind.name(),
            sites: group.sites.clone(),
            family: group.signature.family.clone(),
            families: families_of(&group.signature),
            is_the_bug: group.is_the_bug,
            count,
            trials: group.trials.iter().map(|trial| trial.0).collect(),
            interval: interval.ends(),
            same_as: if exact { same_ids.clone() } else { Vec::new() },
            perhaps: if exact { Vec::new() } else { same_ids },
        }
    };
    let mut signatures: Vec<SignatureReport> =
        tally.groups.values().map(signature_report).collect();
    signatures.sort_by_key(|signature| (!signature.is_the_bug, std::cmp::Reverse(signature.count)));
    signatures
}

/// Returns what answers need to know about variants.
pub(super) fn summarize(variants: &[VariantReport]) -> Vec<VariantSummary> {
    let summarize = |variant: &VariantReport| VariantSummary {
        name: variant.name.clone(),
        trials: variant.trials,
        failures: variant.failures,
        uncounted: variant.other + variant.void,
        interval: variant.rate.interval(),
        point: variant.rate.point,
        times: ["pass", "fail"].map(|name| Some(variant.durations.get(name)?.p50)),
        crash: most_frequent_crash(variant),
        failures_text: describe_failures(variant),
    };
    variants.iter().map(summarize).collect()
}

fn captured_trials(stop_rule: StopRule, state: &State, id: VariantId) -> Option<CapturedTrials> {
    let tally = state.captured_tally(id);
    (tally.finished_trials() > 0).then(|| CapturedTrials {
        trials: tally.finished_trials(),
        failures: tally.failures,
        other: tally.other,
        signatures: signatures_seen(stop_rule, state.goal.alpha.to_probability(), tally, tally),
    })
}

/// Returns the remaining time of the time budget.
fn seconds_left(state: &State) -> Option<f64> {
    if state.stage.is_finished() {
        return None;
    }
    let limit = state.stop.time_budget()?;
    Some(limit.saturating_sub(state.worked).as_secs_f64())
}

/// Returns how many trials are still to run at most, and their expected duration in seconds.
fn trials_left(state: &State) -> Option<(u64, f64)> {
    if state.stage.is_finished() {
        return None;
    }
    let remaining = provoke_questions::policy_of(state).remaining_trials(state)?;
    let completed = state.completed_trials();
    let seconds_per_trial = state.worked.as_secs_f64() / real(completed);
    let seconds = real(remaining) * seconds_per_trial;
    let limit = seconds_left(state).unwrap_or(f64::INFINITY);
    (remaining > 0 && completed > 0).then_some((remaining, seconds.min(limit)))
}

fn late_trials(state: &State) -> Vec<LateTrial> {
    let late = state
        .inconclusive
        .late
        .iter()
        .filter_map(|(trial, observation)| {
            let hang = judge::seeming_hang(state.trials.variant_plan(trial.variant), observation);
            let load = observation.load.as_ref();
            // A service that was not ready is not known to hang.
            let wait = load.and_then(|load| load.stopped_wait());
            let (title, sites) = match (wait, hang) {
                (Some(wait), Some(hang)) => {
                    let service = hang.signature.title.trim_start_matches("hang: ").to_owned();
                    (format!("{wait}; the service: {service}"), hang.sites)
                }
                (Some(wait), None) => (wait.to_owned(), Vec::new()),
                (None, hang) => hang.map(|hang| (hang.signature.title, hang.sites))?,
            };
            Some(LateTrial {
                trial: trial.id.0,
                seconds: observation.elapsed.as_secs_f64(),
                title,
                sites,
            })
        });
    late.collect()
}

fn collect_notes(
    state: &State,
    variants: &[VariantReport],
    growth: &[ProcessGrowth],
    journal_complete: bool,
) -> Vec<String> {
    let grown = growth.iter().filter(|growth| growth.warns);
    let mut notes: Vec<String> = grown.map(ProcessGrowth::describe_growth).collect();
    if let Some(held_plan) = &state.trials.held {
        notes.push(format!(
            "threads were held at the place that {} found, so the failure rate is not the natural one",
            held_plan.run
        ));
    }
    let conditions = typed_conditions(&state.trials.conditions);
    if !conditions.is_empty() {
        notes.push(format!(
            "all trials ran under {}, so the failure rate is not the natural one",
            conditions.join(" and ")
        ));
    }
    notes.extend(
        state
            .inconclusive
            .late
            .iter()
            .filter_map(|(trial, observation)| {
                let load = observation
                    .load
                    .as_ref()
                    .filter(|load| !load.seems_hung())?;
                Some(format!(
                    "trial {} was stopped after {} under load; the service was responding",
                    trial.id.0,
                    words::format_seconds(load.elapsed.as_secs_f64())
                ))
            }),
    );
    notes.extend(describe_heap_damage(variants));
    for variant in variants {
        let of_variant = match variant.name.as_str() {
            "" => String::new(),
            name => format!("{name}: "),
        };
        let described = notes_of_variant(variant).into_iter();
        notes.extend(described.map(|text| format!("{of_variant}{text}")));
    }
    notes.extend(describe_unexpected_responses(variants));
    if CapturePolicy::has_crashes(state)
        && state.trials.settings.capture != CaptureMode::Off
        && let Some(reason) = &state.trials.settings.no_cores
    {
        notes.push(format!("no core was captured: {reason}"));
    }
    let searched =
        state.trials.settings.capture == CaptureMode::Auto && CapturePolicy::has_run(state);
    if searched && !CapturePolicy::has_stack(state) && state.trials.settings.no_cores.is_none() {
        notes.push(
            "no core was captured in extra trials: --capture on dumps cores in every trial"
                .to_owned(),
        );
    }
    let unknown_failures = provoke_questions::trials_without_known_failure(state);
    if unknown_failures > 0 {
        notes.push(format!(
            "{} failed without evidence of which failure it was; each may be the bug looked for, so the rate may be higher",
            words::format_count(unknown_failures, "trial"),
        ));
    }
    notes.extend(describe_stop(state));
    if !journal_complete {
        notes.push("the journal is incomplete: the last events could not be written".to_owned());
    }
    let mut shown_outputs = BTreeSet::new();
    for (note, count) in &state.notes {
        let (text, details) = note.split_once('\n').unwrap_or((note, ""));
        let mut note = text.to_owned();
        if *count > 1 {
            let _ = write!(note, " ({count} times)");
        }
        // Several builds often fail alike; the last line names the file of each.
        let details = match details.rsplit_once('\n') {
            _ if !shown_outputs.insert(details) => "",
            Some((output, place)) if !shown_outputs.insert(output) => place,
            _ => details,
        };
        if !details.is_empty() {
            let _ = write!(note, "\n{details}");
        }
        notes.push(note);
    }
    notes
}

/// Returns the notes on the statistics and the processes of a variant.
fn notes_of_variant(variant: &VariantReport) -> Vec<String> {
    let mut notes: Vec<String> = describe_families(variant).collect();
    if let Some(dependence) = variant.dependence.filter(|dependence| dependence.warns) {
        notes.push(format!(
            "failures of parallel trials are not independent ({}): {:.1} trials count as one, so the interval is wider",
            words::p_value(dependence.p_value), variant.rate.design_effect,
        ));
    }
    if let Some(clumps) = variant.clumps.filter(|clumps| clumps.warns) {
        notes.push(format!(
            "{} came in {} ({}), so one cause may have hit several trials: the interval and `confirm` count each clump as one failure; if a second run has none, use `confirm --independent`",
            words::format_count(variant.failures, "failure"),
            words::format_count(clumps.clumps, "clump"),
            words::p_value(clumps.p_value),
        ));
    }
    if let Some(trend) = variant.trend.filter(|trend| trend.warns) {
        let (moved, reason) = if trend.u > 0.0 {
            ("rose", "a leak")
        } else {
            ("fell", "a warm-up")
        };
        notes.push(format!(
            "the failure rate {moved} during the run (Laplace's trend test, {}; possibly {reason}): the rate above is an average, and `confirm` uses the half with fewer failures",
            words::p_value(trend.p_value),
        ));
    }
    if variant.unkillable_processes > 0 {
        notes.push(format!(
            "{} could not be killed and may still run; see `unkillable` in the journal",
            words::plural_of(variant.unkillable_processes, "process", "processes")
        ));
    }
    if variant.trials_at_process_limit > 0 {
        notes.push(format!(
            "in {} the limit of processes and threads was reached, and the kernel refused to start more; --pids N sets another limit",
            words::format_count(variant.trials_at_process_limit, "trial")
        ));
    }
    if variant.helpers_ended_early > 0 {
        notes.push(format!(
            "a helper process ended before the main process in {}",
            words::format_count(variant.helpers_ended_early, "trial")
        ));
    }
    notes
}

/// Describes why the run stopped before its question was answered.
fn describe_stop(state: &State) -> Option<String> {
    match state.stage.stop_cause()? {
        StopCause::NothingCounts => {
            let reason = state.inconclusive.last_reason.as_ref();
            let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
            Some(format!(
                "stopped: too many trials in a row were inconclusive{reason}"
            ))
        }
        StopCause::HostsLost => Some("stopped: no host is left".to_owned()),
        StopCause::CannotMake => {
            Some("stopped: a variant could not be prepared on this machine".to_owned())
        }
        _ => None,
    }
}

/// Describes that most requests of some variants did not get the expected response, in one note for all of them.
fn describe_unexpected_responses(variants: &[VariantReport]) -> Option<String> {
    let wrong = variants.iter().filter_map(|variant| {
        let load = variant.load.as_ref().filter(|load| load.mostly_errors())?;
        Some((variant.name.as_str(), load))
    });
    let wrong: Vec<(&str, &LoadTotals)> = wrong.collect();
    let (first, last) = (wrong.first()?.0, wrong.last()?.0);
    let of_variants = match wrong.as_slice() {
        [("", _)] => String::new(),
        [(name, _)] => format!("{name}: "),
        _ => format!("{first} to {last}: "),
    };
    let sum =
        |count: fn(&LoadTotals) -> u64| wrong.iter().map(|(_, load)| count(load)).sum::<u64>();
    Some(format!(
        "{of_variants}only {} of {} requests got the expected response: check the requests",
        sum(|load| load.ends.get("ok").copied().unwrap_or(0)),
        sum(|load| load.requests),
    ))
}

/// Suggests that failures with different signatures have one cause, if all of them are of a damaged heap.
fn describe_heap_damage(variants: &[VariantReport]) -> Option<String> {
    let measured = variants.iter().flat_map(group_failures);
    let measured = measured.map(|group| group.signature);
    let captured = captured_failures(variants).into_iter();
    let damaged: BTreeSet<&str> = measured
        .chain(captured.map(|failure| failure.signature))
        .filter(|signature| signature.family.is_some())
        .map(|signature| signature.id.as_str())
        .collect();
    (damaged.len() > 1).then(|| {
        format!(
            "{} signatures come from a damaged heap and are often one bug: their stacks show where the damage was noticed, not where it was done",
            damaged.len()
        )
    })
}

fn families_of(signature: &Signature) -> Vec<FamilyReport> {
    let families = signature.families.iter();
    let family_report = |family: &Family| FamilyReport {
        id: family.id.to_string(),
        title: family.title.clone(),
    };
    families.map(family_report).collect()
}

/// Suggests families for measured signatures of one signal in one function, or in one library.
fn describe_families(variant: &VariantReport) -> impl Iterator<Item = String> {
    let captured = variant.captured_signatures();
    // The signatures of each family, and the number of their trials.
    let mut family_counts: BTreeMap<FamilyReport, (BTreeSet<&str>, u64)> = BTreeMap::new();
    for signature in &variant.signatures {
        // A later capture of the same failure has more detailed evidence.
        let best_signature = match signature.same_as.as_slice() {
            [id] => captured
                .iter()
                .find(|family_signature| family_signature.id == *id)
                .unwrap_or(signature),
            _ => signature,
        };
        for family in &best_signature.families {
            let (signatures, count) = family_counts.entry(family.clone()).or_default();
            signatures.insert(&best_signature.id);
            *count += signature.count;
        }
    }
    family_counts.retain(|_, (signatures, _)| signatures.len() > 1);
    let mut sorted_families: Vec<_> = family_counts.into_iter().collect();
    // Of two families with the same signatures, that of the function is more specific.
    sorted_families.sort_by_key(|(family, (signatures, _))| {
        (signatures.len(), std::cmp::Reverse(family.title.len()))
    });
    sorted_families.dedup_by(|later, earlier| later.1.0 == earlier.1.0);
    sorted_families.into_iter().map(|(family, (signatures, count))| {
        format!(
            "{} of {} signatures are {}, which may be one bug: --only sig:{} selects all of them",
            words::format_count(count, "failure"),
            signatures.len(),
            family.title,
            family.id
        )
    })
}

/// Returns the command of a variant as a shell line.
pub fn command_line(trials: &TrialsPlan, variant: VariantId) -> String {
    let main = trials.variant_plan(variant).main_actor();
    main.map_or_else(String::new, |main| words::shell_line(&main.command))
}
