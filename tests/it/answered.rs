//! Runs of all questions with simulated trials, and their reports.

use provoke_journal::{Journal, RunFolder};
use provoke_model::{
    Event, EvidenceDepth, FORMAT, Failure, FailureKind, Host, Plan, Question, Signal,
    SignalEvidence, Signature, Site, Survey,
};
use provoke_questions as questions;
use provoke_report::{ExportOptions, Exporter, MaskedRun, Report, export_report};
use provoke_state::State;
use std::path::Path;
use std::time::Duration;

use crate::answers::{
    DIFFER, SETTINGS, Simulation, compare_plan, confirm_plan, failure, hunt_plan, ramp_plan,
    reduction_plan, search_plan, why_plan,
};
use crate::held_program::hold_threads;
use crate::host_trials::run_on_hosts;
use crate::loop_and_fold::plan;

/// The version in reports, which does not change with that of the program.
const VERSION: &str = "0.1.0";

/// A run with the events of its journal.
pub(crate) struct RecordedRun {
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
}

impl RecordedRun {
    pub(crate) fn begin(plan: Plan) -> Self {
        Self::begin_on(plan, Survey::default())
    }

    /// Begins a run on a machine with these facts.
    pub(crate) fn begin_on(plan: Plan, survey: Survey) -> Self {
        let started = Event::RunStarted {
            format: FORMAT,
            version: VERSION.to_owned(),
            run: "20261122-035210-ecbc".to_owned(),
            plan: Box::new(plan),
            host: Host::default(),
            survey,
            at: 1_763_704_800,
        };
        Self {
            state: State::begin_fold(started.clone(), questions::begin_memory).unwrap(),
            events: vec![started],
        }
    }

    pub(crate) fn apply(&mut self, event: Event) {
        self.state.apply_event(&event, questions::is_done);
        self.events.push(event);
    }

    /// Creates the directory of the run.
    pub(crate) fn write_folder(&self, path: &Path) -> RunFolder {
        let folder = RunFolder::create_run(Some(path), path.parent().unwrap()).unwrap();
        let mut journal = Journal::open_for_append(&folder.journal_path()).unwrap();
        for event in &self.events {
            journal.add_event(event).unwrap();
        }
        folder
    }

    pub(crate) fn report(&self) -> Report {
        Report {
            version: VERSION.to_owned(),
            ..Report::new(&self.state, true)
        }
    }

    /// Returns the report in a format. The directory was created by [`Self::write_folder`].
    pub(crate) fn export(&self, folder: &RunFolder, exporter: &Exporter) -> String {
        self.export_with(folder, exporter, &ExportOptions::default())
    }

    /// Returns the report in a format, with options.
    pub(crate) fn export_with(
        &self,
        folder: &RunFolder,
        exporter: &Exporter,
        options: &ExportOptions,
    ) -> String {
        let mut text = Vec::new();
        let report = self.report();
        let run = MaskedRun::new(folder, &report).unwrap();
        export_report(exporter, &run, options, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }
}

/// Returns a crash with a known stack and source line.
pub(crate) fn crash() -> Failure {
    let site = |line, function: &str, caller| Site {
        file: "/src/crash.c".to_owned(),
        line,
        function: Some(function.to_owned()),
        caller,
        ..Site::default()
    };
    let main = Box::new(site(30, "main", None));
    Failure {
        kind: FailureKind::Signal {
            signal: Signal::SEGV,
            evidence: SignalEvidence::WaitStatus { core: true },
        },
        signature: Signature {
            title: "SIGSEGV, null pointer + 0x18, in sum < main".to_owned(),
            depth: EvidenceDepth::Stack,
            ..failure(1).signature
        },
        sites: vec![site(20, "sum", Some(main))],
        functions: Vec::new(),
    }
}

/// Answers a question with trials that fail at these rates.
pub(crate) fn answered(plan: &Plan, rates: &[f64]) -> RecordedRun {
    let mut simulation = Simulation::new(7, rates, SETTINGS[0]);
    simulation.failures = vec![crash()];
    simulation.time = Duration::from_millis(6);
    finish(simulation.record_answer(plan))
}

fn finish(mut run: RecordedRun) -> RecordedRun {
    let at = Duration::from_secs(2);
    run.apply(Event::RunFinished { at });
    run
}

pub(crate) fn confirmation(exclude_half: Option<bool>) -> Plan {
    let mut plan = confirm_plan(10, 100);
    if let Question::Confirm(asked) = &mut plan.goal.question {
        asked.exclude_half = exclude_half;
    }
    plan
}

pub(crate) fn answered_hunt() -> RecordedRun {
    let plan = hunt_plan(5000);
    let mut simulation = Simulation::new(7, &[0.0], SETTINGS[0]);
    simulation.failures = vec![crash()];
    simulation.time = Duration::from_millis(6);
    simulation.hold = hold_threads;
    finish(simulation.record_answer(&plan))
}

/// Returns a search for the conditions under which the tests of a suite fail.
fn answered_suite_search() -> RecordedRun {
    let (mut searched, rates) = why_plan(1.0, 0.0);
    searched.trials.cases = plan("cases = 'pytest'").trials.cases;
    let mut simulation = Simulation::new(7, &rates, SETTINGS[0]);
    simulation.failures = vec![crash()];
    simulation.time = Duration::from_millis(6);
    simulation.runs_suite = true;
    finish(simulation.record_answer(&searched))
}

/// Returns a run for each verdict, with its name.
pub(crate) fn answered_questions() -> Vec<(&'static str, RecordedRun)> {
    let repeated = vec![
        ("run", plan("runs = 100"), vec![0.03]),
        ("run_clean", plan("runs = 100"), vec![0.0]),
        ("run_always", plan("runs = 10"), vec![1.0]),
        (
            "run_variables",
            plan("runs = 40\nenv.ADDED = 'a b'\nenv.REMOVED = false\nenv.Z = '1'"),
            vec![0.5],
        ),
        (
            "max_rate_pass",
            plan("runs = 200\nmax-rate = 0.02"),
            vec![0.0],
        ),
        (
            "max_rate_fail",
            plan("runs = 200\nmax-rate = 0.02"),
            vec![0.2],
        ),
        (
            "max_rate_undecided",
            plan("runs = 100\nmax-rate = 0.02"),
            vec![0.0],
        ),
        ("confirm_fixed", confirmation(None), vec![0.0]),
        ("confirm_probably", confirmation(Some(false)), vec![0.0]),
        ("confirm_not_fixed", confirmation(None), vec![0.1]),
        (
            "compare",
            compare_plan("failing", 4, ""),
            vec![0.0, 0.3, 0.3, 0.0],
        ),
        (
            "compare_many",
            compare_plan("failing", 12, ""),
            [[0.0; 10].as_slice(), &[0.3, 0.3]].concat(),
        ),
        (
            "compare_rates",
            compare_plan("different", 2, "runs = 60"),
            vec![0.3, 0.0],
        ),
        (
            "compare_not_known",
            compare_plan("different", 2, "runs = 20"),
            vec![0.3, 0.2],
        ),
    ];
    let searches = [
        ("bisect", search_plan(29, 18, 0.2)),
        ("reduce", reduction_plan(6, 0.6)),
        ("why", why_plan(1.0, 0.0)),
        ("why_none", why_plan(0.0, 0.0)),
        ("load", ramp_plan(&[1, 2, 4, 5, 6, 8], 4, 0.9)),
        ("load_clean", ramp_plan(&[1, 2, 4], 3, 0.0)),
    ];
    let repeated = repeated
        .into_iter()
        .map(|(name, plan, rates)| (name, answered(&plan, &rates)));
    let searches = searches
        .into_iter()
        .map(|(name, (plan, rates))| (name, answered(&plan, &rates)));
    let others = [
        ("hunt", answered_hunt()),
        ("why_suite", answered_suite_search()),
        ("differ", answered(&plan(DIFFER), &[0.2])),
        ("hosts", run_on_hosts(4, 80)),
    ];
    repeated.chain(searches).chain(others).collect()
}
