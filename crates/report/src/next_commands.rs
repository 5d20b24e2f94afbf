//! Suggests the commands that may follow a run: to continue it, to explain a failure, to confirm a fix.

use super::{
    CaseReport, FailureGroup, OrderEffect, Report, SuiteReport, VariantReport, group_failures,
};
use provoke_model::EvidenceDepth;
use provoke_questions::{
    AnswerText, PooledBaseline, RateMeaning, RequiredPasses, Verdict, required_by_default,
};
use provoke_runners::runner_named;
use provoke_stats as stats;
use provoke_words as words;
use provoke_words::document::SuggestedCommand;
use provoke_words::untrusted::{SafeText, shell_word};
use std::fmt::Write as _;

/// Maximum number of failures for which a command asks about one alone.
const SINGLE_BUGS: usize = 3;
/// Maximum length of the title of a failure in a remark.
const SHORT_TITLE: usize = 40;
/// Failure rates that a longer run can rule out.
const RARE: [f64; 2] = [0.01, 0.001];

/// Returns the suggested commands.
pub fn next_commands(
    report: &Report,
    reference: &str,
    pooled: Option<PooledBaseline>,
) -> Vec<SuggestedCommand> {
    let run = shell_word(reference.as_ref());
    let mut commands = Vec::new();
    if report.finished || report.same_deadlock {
        commands.extend(after_the_end(report, &run, pooled));
    } else {
        let resume = SuggestedCommand::new("continue", format!("provoke resume {run}"));
        commands.push(match (report.trials_left, report.seconds_left) {
            (Some((trials, seconds)), _) => resume.with_remark(format!(
                "at most {}, about {}",
                words::format_count(trials, "more trial"),
                words::format_seconds(seconds)
            )),
            (None, Some(remaining)) => {
                resume.with_remark(format!("at most {} more", words::format_seconds(remaining)))
            }
            (None, None) => resume,
        });
        if report.answer.is_none() && report.known_best().is_some() {
            commands.push(explain_command(report, &run));
        }
        commands.extend(report.late_trials.first().map(|late| {
            let line = format!("provoke explain {run}#{}", late.trial);
            SuggestedCommand::new("where it was stuck", line)
        }));
    }
    commands
}

fn explain_command(report: &Report, run: &SafeText) -> SuggestedCommand {
    let loads = report
        .variants
        .iter()
        .filter_map(|variant| variant.load.as_ref());
    let in_flight = loads.flat_map(|load| &load.in_flight_at_death);
    let purpose = if in_flight.sum::<u64>() > 0 {
        "the crash, and the requests in flight"
    } else if report.variants.iter().any(has_crash) {
        "details of the crash"
    } else {
        "details of the failure"
    };
    SuggestedCommand::new(purpose, format!("provoke explain {run}"))
}

/// Returns whether a signal ended a trial of a variant.
fn has_crash(variant: &VariantReport) -> bool {
    let mut kinds = variant.kinds.iter();
    kinds.any(|kind| kind.is_the_bug && kind.outcome.starts_with("SIG"))
}

fn after_the_end(
    report: &Report,
    run: &SafeText,
    pooled: Option<PooledBaseline>,
) -> Vec<SuggestedCommand> {
    let answer = report.answer_text();
    let own_commands = answer.map_or_else(Vec::new, |answer| answer.commands(run));
    let example = answer.and_then(AnswerText::example_trial);
    if let Some(trial) = example {
        let line = format!("provoke explain {run}#{trial}");
        let details = SuggestedCommand::new("details of the failure", line);
        return std::iter::once(details).chain(own_commands).collect();
    }
    // The failure with the most detailed evidence.
    let failing = report
        .variants
        .iter()
        .filter(|variant| variant.failures > 0);
    let variant = failing.min_by_key(|variant| variant.clean_runs_to_confirm);
    let Some((variant, trial)) =
        variant.and_then(|variant| Some((variant, typical_failure(variant)?)))
    else {
        // A runner can pass although tests failed.
        let suites = report.variants.iter();
        let commands: Vec<SuggestedCommand> = suites
            .flat_map(|variant| test_commands(variant, report, run))
            .collect();
        return if !commands.is_empty() {
            commands
        } else if !own_commands.is_empty() && report.rate_meaning() == RateMeaning::Searched {
            own_commands
        } else {
            rarer_failure_command(report).into_iter().collect()
        };
    };
    let mut commands: Vec<SuggestedCommand> = Vec::new();
    if report.known_best().is_some() {
        commands.push(explain_command(report, run));
    }
    match report.rate_meaning() {
        // The failure rate of the suite is not that of a test.
        RateMeaning::Measured | RateMeaning::Limited
            if report.answer.is_none() && variant.suite.is_some() =>
        {
            commands.extend(test_commands(variant, report, run));
        }
        RateMeaning::Measured | RateMeaning::Limited => {
            commands.extend(confirm_command(report, variant, run, pooled));
            commands.extend(confirm_one_commands(report, variant, run));
        }
        RateMeaning::OfFix | RateMeaning::Searched => {}
    }
    commands.extend(own_commands);
    commands.push(SuggestedCommand::new(
        "repeat one trial",
        format!("provoke replay {run}#{trial}"),
    ));
    commands
}

/// Returns the first trial with the most frequent failure.
fn typical_failure(variant: &VariantReport) -> Option<u64> {
    let groups = group_failures(variant);
    let first = groups
        .first()
        .and_then(|group| group.measured_trials().next());
    first.or_else(|| variant.failing_trials.first().copied())
}

/// Returns the commands about the tests that failed: the one that confirms a fix of the worst, and the one that finds the
/// tests that another test fails after.
fn test_commands(
    variant: &VariantReport,
    report: &Report,
    run: &SafeText,
) -> Vec<SuggestedCommand> {
    let Some(suite) = &variant.suite else {
        return Vec::new();
    };
    let alpha = 1.0 - report.confidence / 100.0;
    let only_flag = |case: &CaseReport| {
        let filter = format!("test:{}", case.name);
        format!("--only {}", shell_word(filter.as_ref()))
    };
    let confirm = suite.failing().next().map(|case| {
        let line = format!("provoke confirm --baseline {run} {}", only_flag(case));
        let command = SuggestedCommand::new("is it fixed?", line);
        let needed = stats::clean_runs_needed_effective(case.failures, case.trials, 1.0, alpha);
        let half = stats::clean_runs_to_exclude_half(case.failures, case.trials, 1.0, alpha);
        match needed.zip(half) {
            Some((needed, half)) => {
                // Another test may fail in every trial.
                let time = ["pass", "fail"]
                    .iter()
                    .find_map(|end| variant.durations.get(*end));
                let pass = time.map(|time| time.p50);
                let required = required_passes(report, needed, half, pass);
                command.with_remark(describe_required(report, required, pass))
            }
            None => command,
        }
    });
    let order = order_commands(suite, run, only_flag);
    confirm.into_iter().chain(order).collect()
}

/// Returns the commands that show on what in the order of the tests the failures of a test depend: for the first test
/// that may fail after others, and for the first one that may need others to pass.
fn order_commands(
    suite: &SuiteReport,
    run: &SafeText,
    only_flag: impl Fn(&CaseReport) -> String,
) -> Vec<SuggestedCommand> {
    let find_case = |fits: &dyn Fn(&OrderEffect) -> bool| {
        let mut failing = suite.failing();
        failing.find(|case| case.order_effect.as_ref().is_some_and(fits))
    };
    let runner = runner_named(&suite.runner);
    if runner.is_none_or(|runner| runner.list_variable.is_none()) {
        // More orders distinguish another test from the place.
        let is_open = |effect: &OrderEffect| effect.tests.is_empty();
        let orders = 2 * suite.trials;
        let more_orders = find_case(&is_open).map(|_| {
            SuggestedCommand::new(
                "is it the place or another test?",
                format!("provoke resume {run} -n {orders}"),
            )
        });
        return more_orders.into_iter().collect();
    }
    let polluted = find_case(&OrderEffect::may_fail_after_tests).map(|case| {
        let line = format!("provoke reduce --polluters {run} {}", only_flag(case));
        SuggestedCommand::new("which tests does it fail after?", line)
    });
    let needing = find_case(&OrderEffect::may_need_tests).map(|case| {
        let line = format!("provoke reduce --needs {run} {}", only_flag(case));
        SuggestedCommand::new("which tests does it need to pass?", line)
    });
    polluted.into_iter().chain(needing).collect()
}

/// Returns the command of a run that would find a failure that is too rare for this one.
fn rarer_failure_command(report: &Report) -> Option<SuggestedCommand> {
    let [variant] = report.variants.as_slice() else {
        return None;
    };
    if report.answer.is_some() || variant.trials == 0 || report.verdict != Verdict::Clean {
        return None;
    }
    let alpha = 1.0 - report.confidence / 100.0;
    let needed = RARE.into_iter().find_map(|rate| {
        // Half of it, because the interval of the report has two sides.
        let needed = stats::clean_runs_at_known_rate(rate, alpha / 2.0)?;
        (needed > variant.trials).then_some((rate, needed))
    });
    let (rate, needed) = needed?;
    let pass = variant.durations.get("pass")?;
    let command = SuggestedCommand::new(
        &format!("exclude a rate of {} %", words::format_percent(rate)),
        format!("repeat this with -n {needed}"),
    );
    Some(command.with_remark(format!(
        "about {}",
        time_of_passes(report, pass.p50, needed)
    )))
}

/// Returns the duration of this many passing trials.
fn time_of_passes(report: &Report, pass: f64, trials: u64) -> String {
    let rounds = trials.div_ceil(u64::from(report.jobs));
    words::format_seconds((pass + report.overhead_seconds) * stats::real(rounds))
}

/// Returns the command that confirms a fix of this variant.
fn confirm_command(
    report: &Report,
    variant: &VariantReport,
    run: &SafeText,
    pooled: Option<PooledBaseline>,
) -> Option<SuggestedCommand> {
    let (needed, half) = variant
        .clean_runs_to_confirm
        .zip(variant.clean_runs_to_exclude_half)?;
    let pass = variant.durations.get("pass").map(|pass| pass.p50);
    let required = pooled.map_or_else(
        || required_passes(report, needed, half, pass),
        |pooled| pooled.required,
    );
    let mut line = format!("provoke confirm --baseline {run}");
    if !variant.name.is_empty() {
        let separator = if variant.name.starts_with('-') {
            '='
        } else {
            ' '
        };
        let name = shell_word(variant.name.as_ref());
        let _ = write!(line, " --of{separator}{name}");
    }
    let passes = describe_required(report, required, pass);
    let counted = pooled.map_or(String::new(), |pooled| {
        let other_runs = words::format_count(pooled.runs.saturating_sub(1), "earlier run");
        format!("; baseline: this run and {other_runs}")
    });
    Some(SuggestedCommand::new("is it fixed?", line).with_remark(format!("{passes}{counted}")))
}

/// Returns the commands that confirm a fix of one of several failures, the most frequent first. Together, the rarest one
/// determines the number of passing trials.
fn confirm_one_commands(
    report: &Report,
    variant: &VariantReport,
    run: &SafeText,
) -> Vec<SuggestedCommand> {
    let alpha = 1.0 - report.confidence / 100.0;
    let effect = variant.rate.design_effect;
    let pass = variant.durations.get("pass").map(|pass| pass.p50);
    let mut bugs = group_failures(variant);
    bugs.retain(|group| group.signature.is_the_bug);
    if bugs.len() < 2 || !variant.name.is_empty() {
        return Vec::new();
    }
    // Every failure that ends alike has the signature of the exit status.
    bugs.retain(|group| group.signature.depth > EvidenceDepth::Status);
    bugs.sort_by_key(|group| std::cmp::Reverse(group.trial_count()));
    let command = |group: &FailureGroup<'_>| {
        let count = group.trial_count();
        // The trials with the other failures do not count.
        let trials = variant.trials - (variant.failures - count);
        let needed = stats::clean_runs_needed_effective(count, trials, effect, alpha)?;
        let half = stats::clean_runs_to_exclude_half(count, trials, effect, alpha)?;
        let required = required_passes(report, needed, half, pass);
        let id = &group.signature.id;
        let line = format!("provoke confirm --baseline {run} --only sig:{id}");
        let title = words::shorten_text(&group.signature.title, SHORT_TITLE);
        let remark = format!("{title}: {}", describe_required(report, required, pass));
        Some(SuggestedCommand::new("is this one fixed?", line).with_remark(remark))
    };
    bugs.iter().take(SINGLE_BUGS).filter_map(command).collect()
}

/// Returns how many trials must pass by default after a fix, if a passing trial takes `pass` seconds.
fn required_passes(report: &Report, needed: u64, half: u64, pass: Option<f64>) -> RequiredPasses {
    let seconds = pass.map(|pass| pass + report.overhead_seconds);
    required_by_default(needed, half, report.jobs, seconds)
}

/// Describes how many trials must pass, for which answer, and how long that takes.
fn describe_required(report: &Report, required: RequiredPasses, pass: Option<f64>) -> String {
    let time = pass.map_or(String::new(), |pass| {
        format!(", about {}", time_of_passes(report, pass, required.trials))
    });
    let trials = words::format_count(required.trials, "passing trial");
    let verdict = if required.excludes_half {
        ""
    } else {
        " for PROBABLY FIXED"
    };
    format!("{trials}{verdict}{time}")
}
