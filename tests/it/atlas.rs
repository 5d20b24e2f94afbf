//! Compares digests of all outputs of many random states of each question.
//!
//! `ATLAS=DIRECTORY` writes the outputs themselves: written before and after a change, `diff -r` shows what changed.
//! `UPDATE_GOLDEN=1` writes the digests.

use provoke_model::{
    ActorRole, Baseline, CaseRunner, CasesPlan, Event, EvidenceDepth, FailingRate, Failure,
    FailureKind, HeldPlan, InconclusiveReason, MeasuredBaseline, Outcome, Plan, Question,
    RateDrift, RunCounts, Signal, SignalEvidence, StopCause, Survey, TrialId,
};
use provoke_report::{ExportOptions, HTML, PageOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::answered::{RecordedRun, crash};
use crate::answers::{
    SETTINGS, Simulation, compare_plan, confirm_plan, failure, hunt_plan, ramp_plan,
    reduction_plan, search_plan, why_plan,
};
use crate::golden::{EMPTY_DIGEST, GoldenFolder, all_outputs, continue_digest};
use crate::held_program::{
    hold_in_window, hold_threads, hold_threads_after_decision, hold_threads_in_large_code,
    hold_threads_of_fixed_program, hold_threads_of_moved_window,
};
use crate::loop_and_fold::{hash, plan};
use crate::observed::{self, Surroundings};

/// Number of states of each question that are written, that have a digest, and that share one.
const STATES: u64 = 400;
const DIGESTED: u64 = 60;
const STATES_OF_DIGEST: u64 = 10;

/// Random choices for a state.
pub(crate) struct Choices {
    seed: u64,
    made: u64,
}

impl Choices {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.made += 1;
        hash(self.seed, self.made) % limit
    }

    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let index = self.below(u64::try_from(values.len()).unwrap());
        values[usize::try_from(index).unwrap()]
    }

    pub(crate) fn count(&mut self, from: usize, to: usize) -> usize {
        from + usize::try_from(self.below(u64::try_from(to - from + 1).unwrap())).unwrap()
    }

    fn rate(&mut self) -> f64 {
        self.one_of(&[0.0, 0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0])
    }

    /// Returns a failure of any kind, with its own signature.
    fn failure(&mut self, number: i32) -> Failure {
        let segv = Signal::SEGV;
        let kind = match self.below(12) {
            0..=2 => return crash(),
            3 => FailureKind::Exit { code: 3 },
            4 => FailureKind::Hang { stopped: false },
            5 => FailureKind::Hang { stopped: true },
            6 => FailureKind::Leak,
            7 => FailureKind::Oom { masked: false },
            8 => FailureKind::Output,
            9 => FailureKind::Signal {
                signal: segv,
                evidence: SignalEvidence::ExitCode { code: 139 },
            },
            10 => FailureKind::Signal {
                signal: Signal::KILL,
                evidence: SignalEvidence::WaitStatus { core: false },
            },
            _ => FailureKind::Exit { code: 1 },
        };
        let mut failure = Failure {
            kind,
            ..failure(3 + number)
        };
        let titles = ["", "Error: a lost update", "exit 3", "<b>&\u{1b}[31m"];
        self.one_of(&titles)
            .clone_into(&mut failure.signature.title);
        failure.signature.depth = self.one_of(&[
            EvidenceDepth::Status,
            EvidenceDepth::Stack,
            EvidenceDepth::Kernel,
        ]);
        failure
    }

    /// Returns a limit that applies to every question, in the syntax of scenario files.
    fn limits(&mut self) -> String {
        let runs = self.one_of(&["", "", "runs = 5", "runs = 40", "runs = 200"]);
        let confidence = self.one_of(&["", "", "conf = 99", "conf = 80"]);
        format!("{runs}\n{confidence}\n")
    }
}

/// A question with the rates of its variants.
type Case = (Plan, Vec<f64>);

type AnyCase = fn(&mut Choices) -> Case;

const QUESTIONS: [(&str, AnyCase); 8] = [
    ("rate", rate_case),
    ("confirm", confirm_case),
    ("compare", compare_case),
    ("bisect", bisect_case),
    ("reduce", reduce_case),
    ("ramp", ramp_case),
    ("hunt", hunt_case),
    ("why", why_case),
];

fn with_limits((mut plan, rates): Case, choices: &mut Choices) -> Case {
    let limited = self::plan(&choices.limits());
    plan.stop = limited.stop;
    plan.goal.alpha = limited.goal.alpha;
    (plan, rates)
}

fn rate_case(choices: &mut Choices) -> Case {
    let limit = choices.one_of(&["", "", "max-rate = 0.02", "max-rate = 0.2"]);
    let runs = choices.one_of(&["runs = 1", "runs = 5", "runs = 60", "runs = 200"]);
    let plan = plan(&format!("{runs}\n{limit}"));
    (plan, vec![choices.rate()])
}

fn confirm_case(choices: &mut Choices) -> Case {
    let trials = choices.one_of(&[3, 10, 100, 1000]);
    let failures = 1 + choices.below(trials);
    let drift = RateDrift {
        late: choices.below(2) == 0,
        p_value: 1000,
        failures: failures / 3,
        trials: trials / 2,
    };
    let first = RunCounts {
        run: "20261121-010203-aaaa".to_owned(),
        failures: failures / 2,
        trials: trials / 2,
        other_files: Vec::new(),
    };
    let second = RunCounts {
        run: "20261121-020304-bbbb".to_owned(),
        failures: failures - failures / 2,
        trials: trials - trials / 2,
        other_files: vec!["core.1".to_owned()],
    };
    let measured = MeasuredBaseline {
        failures,
        trials,
        design_effect: choices.one_of(&[None, None, Some(2_500_000)]),
        clumps: choices.one_of(&[None, None, Some(1 + failures / 4)]),
        drift: choices.one_of(&[None, Some(drift)]).filter(|_| trials > 10),
        one_life: choices.below(6) == 0,
        unfinished: choices.below(4) == 0,
        conditions: choices.one_of(&[None, None, Some(())]).map(|()| {
            let facts = BTreeMap::from([("cpu.model", "Other CPU"), ("libc", "2.36")]);
            serde_json::from_value(serde_json::json!({ "facts": facts })).unwrap()
        }),
        runs: if choices.below(4) == 0 {
            vec![first, second]
        } else {
            Vec::new()
        },
        ..MeasuredBaseline::default()
    };
    let mut plan = confirm_plan(failures, trials);
    if let Question::Confirm(asked) = &mut plan.goal.question {
        asked.baseline = match choices.below(6) {
            0 => Baseline::Assumed(50_000),
            _ => Baseline::Measured(Box::new(measured)),
        };
        asked.exclude_half = choices.one_of(&[None, Some(true), Some(false)]);
        asked.independent = choices.below(3) == 0;
        asked.earlier_attempts = choices.below(3);
    }
    if choices.below(3) == 0 {
        plan.trials.held = Some(Box::new(HeldPlan {
            run: "20261121-040506-cccc".to_owned(),
            holds: vec![hold_in_window()],
        }));
    }
    let rate = choices.one_of(&[0.0, 0.0, 0.02, 0.3]);
    with_limits((plan, vec![rate]), choices)
}

fn compare_case(choices: &mut Choices) -> Case {
    let find = choices.one_of(&["failing", "different"]);
    let variants = choices.count(2, 8);
    let limits = choices.one_of(&["runs = 5", "runs = 20", "runs = 100"]);
    let floor = choices.one_of(&["", "", "floor = 0.05"]);
    let more = if find == "failing" { floor } else { "" };
    let rates = (0..variants).map(|_| choices.rate()).collect();
    let settings = format!("{limits}\n{more}");
    if variants.is_multiple_of(2) && choices.below(2) == 0 {
        let values: Vec<String> = (0..variants / 2)
            .map(|value| format!("'{value}'"))
            .collect();
        let matrix = format!(
            "[matrix]\nmode = ['x', 'y']\nsize = [{}]",
            values.join(", ")
        );
        let text = format!("ask = 'compare'\nfind = '{find}'\n{settings}\n{matrix}");
        return (self::plan(&text), rates);
    }
    let mut plan = compare_plan(find, variants, &settings);
    if choices.below(8) == 0 {
        for variant in &mut plan.trials.variants {
            variant.name += &" with a long name".repeat(20);
        }
    }
    (plan, rates)
}

fn bisect_case(choices: &mut Choices) -> Case {
    let places = choices.count(2, 30);
    let first = choices.count(0, places + 1);
    let rate = choices.one_of(&[1.0, 1.0, 0.6, 0.3]);
    let (mut plan, mut rates) = search_plan(places, first, rate);
    let settings = choices.one_of(&[
        "",
        "clean = true",
        "fixed = true",
        "all = true",
        "raise-rate = true",
    ]);
    let asked = self::plan(&format!(
        "ask = 'bisect'\nrange = '0..{places}'\n{settings}"
    ));
    plan.goal.question = asked.goal.question;
    if settings.starts_with("raise") {
        for rate in &mut rates {
            *rate *= 0.12;
        }
        plan.trials.add_settings(2);
    }
    // Sometimes the rate changes again, or versions before the first bad one fail rarely.
    let changed = choices.count(0, places);
    match choices.below(4) {
        0 => rates[changed..].fill(rate / 2.0),
        1 => rates[..changed.min(first)].fill(0.05),
        _ => {}
    }
    if settings.starts_with("fixed") {
        rates.reverse();
    }
    with_limits((plan, rates), choices)
}

fn reduce_case(choices: &mut Choices) -> Case {
    let things = choices.one_of(&[2, 5, 8, 9]);
    let (mut plan, mut rates) = reduction_plan(things, choices.one_of(&[1.0, 1.0, 0.6, 0.3, 0.0]));
    if choices.below(4) == 0
        && let Question::Reduce(asked) = &mut plan.goal.question
    {
        asked.failing_rate = FailingRate::Raised;
        rates[0] *= 0.12;
        plan.trials.add_settings(2);
    }
    with_limits((plan, rates), choices)
}

fn ramp_case(choices: &mut Choices) -> Case {
    let levels = &[1, 2, 4, 5, 6, 8, 12][..choices.count(1, 7)];
    let first = choices.count(0, levels.len());
    let (mut plan, mut rates) = ramp_plan(levels, first, choices.one_of(&[1.0, 0.9, 0.3]));
    if let Question::Ramp(asked) = &mut plan.goal.question {
        asked.detect = choices.one_of(&[100_000, 100_000, 900_000, 990_000]);
    }
    // Sometimes it fails less often with more clients.
    if choices.below(3) == 0 {
        rates.reverse();
    }
    with_limits((plan, rates), choices)
}

fn hunt_case(choices: &mut Choices) -> Case {
    let runs = choices.one_of(&[20, 200, 1000]);
    (
        hunt_plan(runs),
        vec![choices.one_of(&[0.0, 0.0, 0.1, 0.5, 1.0])],
    )
}

fn why_case(choices: &mut Choices) -> Case {
    let case = why_plan(choices.rate(), choices.rate());
    with_limits(case, choices)
}

/// Returns random trials. Calm ones are all conclusive.
fn random_simulation(
    (plan, rates): (&Plan, &[f64]),
    number: u64,
    is_calm: bool,
    choices: &mut Choices,
) -> Simulation {
    let setting = choices.one_of(&SETTINGS);
    let mut simulation = Simulation::new(number, rates, setting);
    let failures = choices.one_of(&[1, 1, 2, 3]);
    simulation.failures = (0..failures)
        .map(|number| choices.failure(number))
        .collect();
    simulation.other = choices.one_of(&[0.0, 0.0, 0.0, 0.05, 0.3]);
    let reason = choices.one_of(&[
        InconclusiveReason::Skipped,
        InconclusiveReason::UnknownFailure,
        InconclusiveReason::Lost,
        InconclusiveReason::NotStarted,
        InconclusiveReason::NotReady,
    ]);
    simulation.void = choices
        .one_of(&[None, None, Some(0.05), Some(0.5)])
        .map(|share| (reason, share));
    simulation.untestable = choices.one_of(&[None, None, None, Some(3), Some(5)]);
    simulation.time = Duration::from_millis(choices.one_of(&[1, 6, 400, 70_000]));
    simulation.hold = if plan.trials.held.is_some() {
        choices.one_of(&[
            hold_threads,
            hold_threads_of_fixed_program,
            hold_threads_of_moved_window,
        ])
    } else {
        choices.one_of(&[
            hold_threads,
            hold_threads_after_decision,
            hold_threads_in_large_code,
        ])
    };
    simulation.raise = choices.one_of(&[1.0, 4.0, 8.0]);
    let items = plan
        .trials
        .space
        .as_ref()
        .map_or(0, |space| space.choices.as_items().len());
    if items > 5 && choices.below(2) == 0 {
        simulation.needed = (0..u32::try_from(items).unwrap() - 2).collect();
    }
    if plan.goal.question.is_rate() {
        simulation.late = choices.one_of(&[0, 30, 100]);
    }
    if is_calm {
        (simulation.other, simulation.void, simulation.untestable) = (0.0, None, None);
    }
    simulation
}

/// Answers a question with random trials, and ends the run in a random way.
fn random_run(case: fn(&mut Choices) -> Case, number: u64) -> RecordedRun {
    let mut choices = Choices {
        seed: number,
        made: 0,
    };
    let (plan, rates) = case(&mut choices);
    // Half of the states find their answer without trouble.
    let is_calm = number % 4 >= 2;
    let mut plan = plan;
    if is_calm
        && (plan.goal.question.as_search().is_some() || plan.goal.question.as_ramp().is_some())
    {
        plan.stop.trials = None;
    }
    let simulation = random_simulation((&plan, &rates), number, is_calm, &mut choices);
    let surrounded = number % 2 == 1;
    let surroundings = Surroundings::choose(&mut choices);
    let plan = if surrounded {
        surrounded_plan(plan, &mut choices)
    } else {
        plan
    };
    let whole = simulation.record_answer(&plan);
    let at = simulation.time * 100;
    let stop = |why| Event::RunStopped { why, at };
    let end = match choices.below(8) {
        _ if is_calm => Some(Event::RunFinished { at }),
        // provoke was killed.
        0 => None,
        1 => Some(stop(StopCause::Signal(Signal::INT))),
        2 => Some(stop(StopCause::NothingCounts)),
        3 => Some(stop(StopCause::CannotMake)),
        4 => Some(stop(StopCause::AllAlike)),
        _ => Some(Event::RunFinished { at }),
    };
    let mut events = whole.events;
    if surrounded {
        events = observed::add_events(&plan.trials, events, &mut choices);
    }
    let kept = match end {
        Some(Event::RunFinished { .. }) => events.len(),
        _ => choices.count(1, events.len()),
    };
    events.truncate(kept);
    if matches!(end, Some(Event::RunFinished { .. })) && choices.below(2) == 0 {
        events.extend(observed::captures(&whole.state, &mut choices));
    }
    let trials = whole.state.trials.clone();
    let survey = if surrounded {
        observed::facts_of_variants(&trials)
    } else {
        Survey::default()
    };
    let mut run = RecordedRun::begin_on(begun_plan(&events[0]), survey);
    let mut clients = BTreeMap::new();
    for mut event in events.into_iter().skip(1) {
        if let Event::TrialStarted(trial) = &event {
            clients.insert(trial.id, trials.variant_plan(trial.variant).clients);
        }
        if surrounded
            && let Event::TrialFinished {
                trial,
                seen,
                outcome,
                ..
            } = &mut event
        {
            let clients = clients.get(trial).copied().flatten();
            surroundings.observe(&trials, (*trial, clients), outcome, seen, &mut choices);
        }
        run.apply(event);
    }
    if let Some(end) = end {
        for trial in running_trials(&run.events) {
            let mut seen = Box::default();
            if surrounded {
                *seen = observed::interrupted(&trials, &mut choices);
            }
            run.apply(Event::TrialFinished {
                trial,
                at,
                seen,
                outcome: Outcome::Inconclusive(InconclusiveReason::Interrupted),
            });
        }
        run.apply(end);
    }
    run
}

fn begun_plan(first: &Event) -> Plan {
    match first {
        Event::RunStarted { plan, .. } => Plan::clone(plan),
        _ => panic!("the first event has the plan"),
    }
}

/// Adds hosts, tests, a load or filters to a plan.
fn surrounded_plan(plan: Plan, choices: &mut Choices) -> Plan {
    const TIMED: &str = "[load]\nurl = 'http://127.0.0.1:1'\nclients = 8\ntime = '3m'";
    const LOAD: &str = "[load]\nurl = 'http://127.0.0.1:1'\nclients = 8\nrequests = 500\n[[request]]\npath = '/a'\n[[request]]\npath = '/b'";
    let mut plan = plan;
    let is_load = plan.trials.load.is_some() || plan.goal.question.as_ramp().is_some();
    let is_hunt = plan.goal.question.as_hunt().is_some();
    if is_load || choices.below(5) == 0 && plan.trials.space.is_none() && !is_hunt {
        let load = choices.one_of(&[LOAD, LOAD, TIMED]);
        plan.trials.load = plan.trials.load.or_else(|| self::plan(load).trials.load);
        plan.trials.rules.refusals.fails = choices.below(4) == 0;
        for variant in &mut plan.trials.variants {
            variant.actors[0].role = ActorRole::Service;
        }
    } else if choices.below(3) == 0 && !is_hunt {
        let shuffle = choices.below(2) == 0;
        let isolated = choices.below(4) == 0;
        plan.trials.cases = Some(Box::new(CasesPlan {
            runner: CaseRunner {
                name: if isolated { "nextest" } else { "pytest" }.to_owned(),
                argument: None,
            },
            shuffle,
            reruns: 0,
            strip: None,
            select: Vec::new(),
        }));
    } else if choices.below(3) == 0 {
        let hosts = "alice,bob,carol,dave,erin,frank,grace,heidi";
        plan.trials.hosts = self::plan(&format!("on = 'ssh:{hosts}'")).trials.hosts;
    }
    plan.goal.earlier_checks = choices.one_of(&[0, 0, 2]);
    if choices.below(3) == 0 {
        plan.trials.rules.only = self::plan("only = ['SIGSEGV']").trials.rules.only;
    }
    plan
}

/// Returns the first states of each question, with their names.
pub(crate) fn random_runs(states: u64) -> impl Iterator<Item = (String, RecordedRun)> {
    QUESTIONS.into_iter().flat_map(move |(question, case)| {
        (0..states).map(move |number| (format!("{question}-{number}"), random_run(case, number)))
    })
}

fn running_trials(events: &[Event]) -> BTreeSet<TrialId> {
    let mut running = BTreeSet::new();
    for event in events {
        match event {
            Event::TrialStarted(trial) => drop(running.insert(trial.id)),
            Event::TrialFinished { trial, .. } => drop(running.remove(trial)),
            _ => {}
        }
    }
    running
}

/// Compares the digests of a question's states.
fn assert_digests(question: &str, case: fn(&mut Choices) -> Case) {
    let dump = std::env::var_os("ATLAS");
    let place = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    let mut digests = BTreeMap::new();
    let states = if dump.is_some() { STATES } else { DIGESTED };
    for number in 0..states {
        let run = random_run(case, number);
        let name = format!("{question}-{number}");
        let folder = run.write_folder(&place.path().join(&name));
        let mut outputs = all_outputs(&run, &folder);
        if number % 10 == 1 {
            let without_output = ExportOptions {
                page: PageOptions {
                    without_output: true,
                    with_host: true,
                    ..PageOptions::default()
                },
                ..ExportOptions::default()
            };
            let page = run.export_with(&folder, &HTML, &without_output);
            outputs.push(("without_output.html".to_owned(), page));
        }
        for (file, text) in outputs {
            let digest = digests.entry(file.clone()).or_insert(EMPTY_DIGEST);
            *digest = continue_digest(*digest, &text);
            if let Some(dump) = &dump {
                let path = Path::new(dump).join(&name);
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join(file), text).unwrap();
            }
        }
        fs::remove_dir_all(folder.path()).unwrap();
        if (number + 1).is_multiple_of(STATES_OF_DIGEST) && number < DIGESTED {
            for (file, digest) in std::mem::take(&mut digests) {
                let _ = writeln!(lines, "{number} {file} {digest:016x}");
            }
        }
    }
    let mut golden = GoldenFolder::open(&format!("atlas/{question}"));
    golden.compare("digests.txt", &lines);
    golden.finish();
}

#[test]
fn the_outputs_of_random_failure_rates_are_golden() {
    assert_digests("rate", rate_case);
}

#[test]
fn the_outputs_of_random_confirmations_are_golden() {
    assert_digests("confirm", confirm_case);
}

#[test]
fn the_outputs_of_random_comparisons_are_golden() {
    assert_digests("compare", compare_case);
}

#[test]
fn the_outputs_of_random_bisections_are_golden() {
    assert_digests("bisect", bisect_case);
}

#[test]
fn the_outputs_of_random_reductions_are_golden() {
    assert_digests("reduce", reduce_case);
}

#[test]
fn the_outputs_of_random_ramps_are_golden() {
    assert_digests("ramp", ramp_case);
}

#[test]
fn the_outputs_of_random_hunts_are_golden() {
    assert_digests("hunt", hunt_case);
}
