//! Describes the tests of a suite: how often each failed, with which failures, and which tests depend on each other.

use super::suite_order::{self, CaseCluster, OrderEffect};
use provoke_model::{CaseEnd, CaseName, CaseRunner, EvidenceDepth, SignatureId, Site, VariantId};
use provoke_questions::{RerunPolicy, StopRule};
use provoke_runners as runners;
use provoke_state::{CaseCounts, IsolatedCounts, State, SuiteCounts, Tally};
use provoke_stats as stats;
use provoke_words as words;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Share of the planned starts that did not happen from which it is said for a case.
const MANY_NOT_RUN: f64 = 0.05;

/// The tests of a suite, if a trial is one run of the suite.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SuiteReport {
    /// The runner that reported the tests.
    pub runner: String,
    /// The order in which the tests ran.
    pub order: CaseOrder,
    /// Trials in which the runner reported tests.
    pub trials: u64,
    /// Trials without any reported test, for example because the tests could not be collected.
    pub trials_without_tests: u64,
    /// Tests that failed in some trials, or in all.
    pub failing_cases: u64,
    /// Tests that ran and never failed.
    pub passing_cases: u64,
    /// Tests that never ran: skipped, or ended by others.
    pub unknown_cases: u64,
    /// Starts that were planned and did not happen.
    pub starts_not_run: u64,
    /// Trials in which more than half of the tests failed. Their cause is more likely the machine than the tests.
    pub wholesale_failures: Vec<u64>,
    /// Trials in which the runner repeated tests that had failed; the first attempt counts.
    pub retrying_trials: u64,
    /// Failing tests that were not run alone, because other tests failed more often (--rerun-failing).
    pub cases_not_rerun: u64,
    /// Names that occur in one trial only and differ in numbers or addresses, so that they may be one test.
    pub unstable_names: Vec<UnstableName>,
    /// Tests that fail together, in more trials than by chance.
    pub clusters: Vec<CaseCluster>,
    /// Problems of the reports of the runner, and in how many trials.
    pub complaints: BTreeMap<String, u64>,
    /// The tests: those that failed first, the worst of them first.
    pub cases: Vec<CaseReport>,
}

/// Names of tests that may be one test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UnstableName {
    /// The name with `*` for the parts that change.
    pub stem: String,
    /// The number of names.
    pub names: u64,
    /// A regular expression of the parts that change, for --case-strip.
    pub pattern: String,
}

/// The order in which tests ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaseOrder {
    /// The same order in every trial.
    Same,
    /// A random order in every trial, which the seed of the trial determines.
    Random,
    /// Orders that differ for another reason, such as parallel workers.
    Differing,
    /// Each test runs in a separate process.
    Isolated,
}

/// One test.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseReport {
    /// Its full name, for `--only test:NAME`.
    pub name: String,
    /// Its name, divided as its runner does.
    #[serde(skip)]
    #[cfg_attr(test, schemars(skip))]
    pub case: CaseName,
    /// Trials in which it passed or failed.
    pub trials: u64,
    /// Trials in which it failed.
    pub failures: u64,
    /// Trials by the end of the test.
    pub ends: BTreeMap<&'static str, u64>,
    /// The conclusion from its trials.
    pub verdict: CaseVerdict,
    /// The interval of its failure rate, for a test that was chosen before the run.
    pub interval: [f64; 2],
    /// The same for a test that was chosen because of its failures in this run: wider, so that the intervals of all tests
    /// hold at once. Null if it never passed or failed.
    pub selected_interval: Option<[f64; 2]>,
    /// The trials in which it failed.
    pub failing_trials: Vec<u64>,
    /// Its failures without the trials in which more than half of the tests failed.
    pub failures_alone: u64,
    /// Trials in which the runner repeated it.
    pub retried: u64,
    /// Its failures by signature, the most frequent first.
    pub signatures: Vec<CaseSignature>,
    /// The trials after the measurement in which it ran alone (--rerun-failing). They do not count in its rate.
    pub run_alone: Option<IsolatedTrials>,
    /// How its failures depend on the order of the tests; null if no dependence is known.
    pub order_effect: Option<OrderEffect>,
    /// Mean duration in seconds; null if it never ran to an end.
    pub mean_seconds: Option<f64>,
    /// Longest duration in seconds.
    pub longest_seconds: f64,
}

/// The trials in which a test ran alone.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IsolatedTrials {
    /// Trials in which it passed or failed.
    pub trials: u64,
    /// Trials in which it failed.
    pub failures: u64,
    /// Trials in which it neither passed nor failed, for example because the runner did not find it.
    pub without_result: u64,
    /// The interval of its failure rate when it runs alone.
    pub interval: [f64; 2],
    /// The upper bound of this rate alone.
    pub upper_bound: f64,
}

impl IsolatedTrials {
    /// Describes the trials, for a test that fails at this rate with the others.
    fn describe(&self, rate_with_others: f64) -> String {
        let (failures, trials) = (self.failures, self.trials);
        match failures {
            _ if trials == 0 => format!(
                "alone, it did not run to an end in {}",
                words::format_count(self.without_result, "trial")
            ),
            0 => {
                let bound = words::percent_bound(self.upper_bound);
                if self.upper_bound < rate_with_others {
                    format!("never alone (0 of {trials}: below {bound} %)")
                } else {
                    format!(
                        "not alone (0 of {trials}: below {bound} %), but more trials may show it"
                    )
                }
            }
            _ => format!("fails alone too ({failures} of {trials})"),
        }
    }
}

/// The conclusion from the trials of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CaseVerdict {
    /// It ended the process in some trials.
    Crashes,
    /// It never passed.
    AlwaysFails,
    /// It passed and failed.
    Flaky,
    /// It never failed.
    Passes,
    /// It never ran to an end.
    NeverRan,
}

/// Failures of a test with one signature.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseSignature {
    /// Its ID, for `--only sig:ID`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The number of failures.
    pub count: u64,
    /// The line of source code that failed, if it is known.
    pub site: Option<Site>,
}

impl SuiteReport {
    /// Describes the tests of a variant; `None` if its trials have none.
    pub(super) fn new(
        state: &State,
        id: VariantId,
        tally: &Tally,
        stop_rule: StopRule,
    ) -> Option<Self> {
        let plan = state.trials.cases.as_ref()?;
        let suite = &tally.suite;
        let order_effects = suite_order::find_order_effects(state, &plan.runner, suite);
        let mut cases = describe_cases(state, id, stop_rule, order_effects);
        cases.sort_by(compare_cases);
        let count = |fits: &dyn Fn(CaseVerdict) -> bool| {
            cases.iter().filter(|case| fits(case.verdict)).count() as u64
        };
        let not_run = cases
            .iter()
            .filter_map(|case| case.ends.get(CaseEnd::NotRun.name()));
        Some(Self {
            runner: plan.runner.to_string(),
            order: order_of(&plan.runner, plan.shuffle, suite),
            trials: suite.trials,
            trials_without_tests: suite.empty_trials,
            failing_cases: count(&|verdict| verdict <= CaseVerdict::Flaky),
            passing_cases: count(&|verdict| verdict == CaseVerdict::Passes),
            unknown_cases: count(&|verdict| verdict == CaseVerdict::NeverRan),
            starts_not_run: not_run.sum(),
            wholesale_failures: suite
                .wholesale_failures
                .iter()
                .map(|trial| trial.0)
                .collect(),
            retrying_trials: suite.retrying_trials,
            cases_not_rerun: if plan.reruns > 0 {
                RerunPolicy::chosen_cases(state, id).1 as u64
            } else {
                0
            },
            unstable_names: find_unstable_names(state, suite),
            clusters: suite_order::find_clusters(state, suite),
            complaints: suite.complaints.clone(),
            cases,
        })
    }

    /// Returns the tests that failed, the worst first.
    pub fn failing(&self) -> impl Iterator<Item = &CaseReport> {
        self.cases
            .iter()
            .filter(|case| case.verdict <= CaseVerdict::Flaky)
    }

    /// Describes the suite in a few words, such as `6 tests, in random order`.
    pub fn headline(&self) -> String {
        let tests = words::format_count(self.cases.len() as u64, "test");
        let order = match self.order {
            CaseOrder::Same => ", in the same order in every trial",
            CaseOrder::Random => ", in random order",
            CaseOrder::Differing => ", in different orders",
            CaseOrder::Isolated => ", each in a separate process",
        };
        let without = match self.trials_without_tests {
            0 => String::new(),
            trials => format!(
                "; no tests reported in {}",
                words::format_count(trials, "trial")
            ),
        };
        format!("{tests}{order}{without}")
    }

    /// Describes what the table of the failing tests leaves out.
    pub fn remaining_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let others = if self.failing_cases > 0 { "other " } else { "" };
        let passing = format!(
            "{} never failed",
            words::format_count(self.passing_cases, &format!("{others}test"))
        );
        let unknown = match self.unknown_cases {
            0 => String::new(),
            cases => format!(
                "; {} never ran to an end",
                words::format_count(cases, "test")
            ),
        };
        lines.push(format!("{passing}{unknown}"));
        let known = self.failing_cases + self.passing_cases;
        if self.failing_cases > 0 && known > 1 {
            lines.push(format!(
                "the intervals hold for all {known} tests at once, so they are wider than for a single test"
            ));
        }
        if self.starts_not_run > 0 {
            let crashing: Vec<&str> = self
                .cases
                .iter()
                .filter(|case| case.verdict == CaseVerdict::Crashes)
                .map(|case| case.name.as_str())
                .collect();
            let cause = match crashing.as_slice() {
                [] => String::new(),
                [name] => format!(", because {name} ended the process"),
                names => format!(", because {} tests ended the process", names.len()),
            };
            let starts = words::format_count(self.starts_not_run, "planned start");
            lines.push(format!("{starts} did not happen{cause}"));
        }
        for cluster in &self.clusters {
            lines.push(format!(
                "{} fail together, in trials {}: {}",
                words::format_count(cluster.cases.len() as u64, "test"),
                words::trial_list(&cluster.trials, 12),
                words::list_first(&cluster.cases, 3)
            ));
        }
        if !self.wholesale_failures.is_empty() {
            let trials = words::trial_list(&self.wholesale_failures, 12);
            lines.push(format!(
                "more than half of the tests failed in trial {trials}: the machine is a more likely cause than the tests; without such trials: {}",
                self.describe_failures_alone()
            ));
        }
        if let Some(group) = self.unstable_names.first() {
            let names: u64 = self.unstable_names.iter().map(|group| group.names).sum();
            lines.push(format!(
                "{} in one trial only, such as {}: if such names are one test, --case-strip '{}' joins them",
                words::plural_of(names, "test ran", "tests ran"),
                group.stem,
                group.pattern
            ));
        }
        if self.cases_not_rerun > 0 {
            lines.push(format!(
                "{} not run alone: only the {} with the most failures are",
                words::format_count(self.cases_not_rerun, "failing test"),
                self.failing_cases.saturating_sub(self.cases_not_rerun)
            ));
        }
        if self.retrying_trials > 0 {
            lines.push(format!(
                "the runner repeats failed tests ({}): the first attempt counts here; switch retries off to measure the outcome of the suite as well",
                words::format_count(self.retrying_trials, "trial")
            ));
        }
        for (complaint, trials) in &self.complaints {
            let trials = words::format_count(*trials, "trial");
            lines.push(format!("{complaint} ({trials})"));
        }
        lines
    }

    fn describe_failures_alone(&self) -> String {
        let trials = self.wholesale_failures.len() as u64;
        let alone = self.failing().filter(|case| case.failures_alone > 0);
        let texts: Vec<String> = alone
            .take(3)
            .map(|case| {
                format!(
                    "{} {} of {}",
                    case.name,
                    case.failures_alone,
                    case.trials.saturating_sub(trials)
                )
            })
            .collect();
        if texts.is_empty() {
            "no test failed".to_owned()
        } else {
            texts.join(", ")
        }
    }
}

impl CaseReport {
    /// Returns the interval to show. Every form of the report shows it: that for a test that was chosen because of its
    /// failures.
    pub fn shown_interval(&self) -> [f64; 2] {
        self.selected_interval.unwrap_or(self.interval)
    }

    /// Returns the failure rate.
    pub fn rate(&self) -> Option<f64> {
        (self.trials > 0).then(|| stats::real(self.failures) / stats::real(self.trials))
    }

    /// Describes its failures, one line for each signature.
    pub fn signature_lines(&self) -> Vec<String> {
        let is_single = self.signatures.len() == 1;
        let lines = self.signatures.iter().map(|signature| {
            let count = if is_single {
                String::new()
            } else {
                format!("{}x ", signature.count)
            };
            let site = signature
                .site
                .as_ref()
                .map_or_else(String::new, |site| format!(" ({})", site.file_and_line()));
            format!("{count}{}{site}   sig:{}", signature.title, signature.id)
        });
        lines.collect()
    }

    /// Returns what a reader must know about the counts of the test.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = self
            .order_effect
            .as_ref()
            .map_or_else(Vec::new, OrderEffect::lines);
        let rate = self.rate().unwrap_or_default();
        remarks.extend(self.run_alone.as_ref().map(|alone| alone.describe(rate)));
        let count_of = |end: CaseEnd| self.ends.get(end.name()).copied().unwrap_or(0);
        let planned: u64 = self.ends.values().sum();
        match self.verdict {
            CaseVerdict::Crashes => {
                let crashed = count_of(CaseEnd::Crashed);
                let other = self.failures - crashed;
                remarks.push(if other == 0 {
                    "it ended the process".to_owned()
                } else {
                    format!(
                        "it ended the process in {}",
                        words::format_count(crashed, "trial")
                    )
                });
            }
            CaseVerdict::AlwaysFails if self.trials > 1 => {
                remarks.push("it never passed".to_owned());
            }
            _ => {}
        }
        let not_run = count_of(CaseEnd::NotRun);
        if stats::real(not_run) > MANY_NOT_RUN * stats::real(planned) {
            remarks.push(format!(
                "it did not run in {not_run} of {}",
                words::format_count(planned, "trial")
            ));
        }
        let timed_out = count_of(CaseEnd::TimedOut);
        if timed_out > 0 {
            remarks.push(format!(
                "it timed out in {}",
                words::format_count(timed_out, "trial")
            ));
        }
        remarks
    }
}

fn order_of(runner: &CaseRunner, is_shuffled: bool, suite: &SuiteCounts) -> CaseOrder {
    if runners::isolates_cases(runner) {
        CaseOrder::Isolated
    } else if is_shuffled {
        CaseOrder::Random
    } else if suite.reordered_trials > 0 {
        CaseOrder::Differing
    } else {
        CaseOrder::Same
    }
}

/// Describes every case that the variant has planned or run.
fn describe_cases(
    state: &State,
    id: VariantId,
    stop_rule: StopRule,
    mut order_effects: BTreeMap<u32, OrderEffect>,
) -> Vec<CaseReport> {
    let (suite, captured) = (&state.tally_of(id).suite, state.captured_tally(id));
    let alpha = state.goal.alpha.to_probability();
    let known = suite.cases.iter().filter(|case| case.counted_trials() > 0);
    let selected_alpha = stats::cases::selected_alpha(alpha, known.count() as u64);
    let interval_of =
        |failures: u64, trials: u64, alpha: f64| stop_rule.interval(failures, trials, alpha).ends();
    let numbered = (0..).zip(&suite.cases);
    let planned = numbered.filter(|(_, case)| case.planned_trials() > 0);
    planned
        .filter_map(|(number, counts)| {
            let name = state.case_names.name_of(number)?;
            let (failures, trials) = (counts.failures(), counts.counted_trials());
            let ends = CaseEnd::ALL
                .into_iter()
                .map(|end| (end.name(), counts.count_of(end)))
                .filter(|(_, count)| *count > 0);
            Some(CaseReport {
                name: name.to_string(),
                case: name.clone(),
                trials,
                failures,
                ends: ends.collect(),
                verdict: verdict_of(counts),
                interval: interval_of(failures, trials, alpha),
                selected_interval: (trials > 0)
                    .then(|| interval_of(failures, trials, selected_alpha)),
                failing_trials: counts
                    .failing_trials
                    .iter()
                    .map(|trial| u64::from(*trial))
                    .collect(),
                failures_alone: failures - suite.wholesale_failures_of(number).min(failures),
                retried: u64::from(counts.retried),
                signatures: describe_signatures(state, captured, counts),
                run_alone: isolated_trials(state.isolated_counts(id, number), alpha),
                order_effect: order_effects.remove(&number),
                mean_seconds: counts.mean_time().map(|time| time.as_secs_f64()),
                longest_seconds: counts.longest.as_secs_f64(),
            })
        })
        .collect()
}

/// Describes the trials in which a test ran alone, if there are any.
fn isolated_trials(counts: IsolatedCounts, alpha: f64) -> Option<IsolatedTrials> {
    let trials = counts.passes + counts.failures;
    (counts.completed() > 0).then(|| IsolatedTrials {
        trials,
        failures: counts.failures,
        without_result: counts.without_result,
        interval: {
            StopRule::PlannedN
                .interval(counts.failures, trials, alpha)
                .ends()
        },
        upper_bound: StopRule::planned_upper_bound(counts.failures, trials, alpha),
    })
}

/// Finds the names that change from trial to trial.
fn find_unstable_names(state: &State, suite: &SuiteCounts) -> Vec<UnstableName> {
    let numbered = (0..).zip(&suite.cases);
    let names = numbered.filter_map(|(number, case)| {
        Some((state.case_names.name_of(number)?, case.planned_trials()))
    });
    let groups = runners::names::find_unstable_names(names, suite.trials).into_iter();
    groups
        .map(|group| UnstableName {
            stem: group.stem,
            names: group.names as u64,
            pattern: group.pattern,
        })
        .collect()
}

fn verdict_of(counts: &CaseCounts) -> CaseVerdict {
    let (failures, trials) = (counts.failures(), counts.counted_trials());
    if counts.count_of(CaseEnd::Crashed) > 0 {
        CaseVerdict::Crashes
    } else if trials == 0 {
        CaseVerdict::NeverRan
    } else if failures == 0 {
        CaseVerdict::Passes
    } else if failures == trials {
        CaseVerdict::AlwaysFails
    } else {
        CaseVerdict::Flaky
    }
}

fn describe_signatures(state: &State, captured: &Tally, counts: &CaseCounts) -> Vec<CaseSignature> {
    let describe = |(id, count): &(SignatureId, u32)| {
        let measured = state.case_names.signature_of(*id);
        // A captured trial of the same crash shows more.
        let best = measured.map(|signature| {
            let weaker = (signature.depth, signature.id);
            let mut deeper = captured
                .groups
                .values()
                .map(|group| &group.signature)
                .filter(|other_signature| other_signature.also.contains(&weaker));
            match (deeper.next(), deeper.next()) {
                (Some(deeper), None) if signature.depth >= EvidenceDepth::Kernel => deeper,
                _ => signature,
            }
        });
        CaseSignature {
            id: best.map_or(*id, |signature| signature.id).to_string(),
            title: best.map_or_else(String::new, |signature| signature.title.clone()),
            count: u64::from(*count),
            site: state
                .case_names
                .words_of(*id)
                .and_then(|failure| failure.site.clone()),
        }
    };
    let mut signatures: Vec<CaseSignature> = counts.signatures.iter().map(describe).collect();
    signatures.sort_by_key(|signature| std::cmp::Reverse(signature.count));
    signatures
}

/// Sorts the cases that ended the process first, then those that always fail, then by the lower end of the interval.
fn compare_cases(case: &CaseReport, other_case: &CaseReport) -> Ordering {
    let lower_end = |case: &CaseReport| case.shown_interval()[0];
    case.verdict
        .cmp(&other_case.verdict)
        .then(lower_end(other_case).total_cmp(&lower_end(case)))
        .then(other_case.failures.cmp(&case.failures))
}
