//! Compares the reports of complete journals.

use super::{
    CSV, EXPORTERS, ExportOptions, Exporter, JSON, JSONL, JUNIT, JUNIT_TRIALS, MARKDOWN, MaskedRun,
    Report, export_report,
};
use provoke_journal as journal;
use provoke_journal::{Journal, RunFolder};
use provoke_model::{
    ActorObservation, Ending, Event, EvidenceDepth, FORMAT, FailedHook, Failure, FailureKind, Host,
    InconclusiveReason, NoteLevel, Observation, Outcome, Plan, ProcessObservation,
    RemainingProcesses, Signal, SignalEvidence, Signature, SignatureId, SlotId, StopCause, Trial,
    TrialId, TrialPurpose, VariantId, trial_seed,
};
use provoke_plan::{PlanContext, ProgramSettings, Scenario, TrialSettings};
use provoke_questions as questions;
use provoke_stats as stats;
use provoke_test_needs::{needs, program};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

pub(super) const SEGV: FailureKind = FailureKind::Signal {
    signal: Signal::SEGV,
    evidence: SignalEvidence::WaitStatus { core: true },
};

/// A run with artificial events, one second per trial.
pub(super) struct SimulatedRun {
    _place: tempfile::TempDir,
    pub(super) folder: RunFolder,
    journal: Journal,
    at: Duration,
}

pub(super) fn plan(runs: u64) -> Plan {
    let scenario = Scenario {
        program: ProgramSettings {
            command: Some(vec!["./neighbors.py".to_owned(), "--all of it".to_owned()]),
            ..ProgramSettings::default()
        },
        trials: TrialSettings {
            runs: Some(runs),
            jobs: 2.try_into().ok(),
            ..TrialSettings::default()
        },
        ..Scenario::default()
    };
    let plan_context = PlanContext {
        environment: Vec::new(),
        base: "/".into(),
        seed: 17,
        baseline: None,
        held: None,
        searched: None,
    };
    questions::plan(&scenario, plan_context).unwrap()
}

pub(super) fn died(ending: Ending, words: &str) -> Observation {
    let actor = ActorObservation {
        ending,
        elapsed: Duration::from_millis(250),
        cpu: Duration::from_millis(125),
        max_rss: 2400,
        written: (10, 20),
        last_words: words.to_owned(),
        ..ActorObservation::default()
    };
    Observation {
        elapsed: Duration::from_millis(250),
        actors: vec![actor],
        ..Observation::default()
    }
}

/// Returns options with which the values of variables are shown.
pub(super) fn shown() -> ExportOptions {
    ExportOptions {
        environment: true,
        ..ExportOptions::default()
    }
}

/// A failure known by its exit status alone.
pub(super) fn failure(kind: FailureKind) -> Failure {
    let title = kind.name();
    let id = SignatureId(
        title
            .bytes()
            .fold(0, |id, byte| id * 31 % 65_521 + u32::from(byte)),
    );
    let (depth, also, family) = (EvidenceDepth::Status, Vec::new(), None);
    let signature = Signature {
        placed: false,
        id,
        title,
        depth,
        also,
        family,
        families: Vec::new(),
    };
    Failure {
        kind,
        signature,
        sites: Vec::new(),
        functions: Vec::new(),
    }
}

pub(super) fn fail(kind: FailureKind) -> Outcome {
    Outcome::Fail(Box::new(failure(kind)))
}

pub(super) fn passed() -> (Observation, Outcome) {
    (died(Ending::Exited(0), ""), Outcome::Pass)
}

pub(super) fn crashed(words: &str) -> (Observation, Outcome) {
    (
        died(Ending::Signaled(Signal::SEGV, true), words),
        fail(SEGV),
    )
}

impl SimulatedRun {
    pub(super) fn new(plan: Plan) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("20251121-060000-a1b2");
        let folder = RunFolder::create_run(Some(&path), place.path()).unwrap();
        let journal = Journal::open_for_append(&folder.journal_path()).unwrap();
        let host = Host {
            name: "workstation".to_owned(),
            kernel: "Linux 6.12.1".to_owned(),
            arch: "x86_64".to_owned(),
            cpu: "A Processor (TM)".to_owned(),
            cpus: 16,
            memory: 64 << 30,
        };
        let mut simulated_run = Self {
            _place: place,
            folder,
            journal,
            at: Duration::ZERO,
        };
        simulated_run.event(&Event::RunStarted {
            format: FORMAT,
            version: "0.1.0".to_owned(),
            run: "20251121-060000-a1b2".to_owned(),
            plan: Box::new(plan),
            host,
            survey: provoke_model::Survey::default(),
            at: 1_763_704_800,
        });
        simulated_run
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.journal.add_event(event).unwrap();
    }

    pub(super) fn start(&mut self, id: u64, variant: u32) {
        self.start_trial(id, variant, TrialPurpose::Measure);
    }

    /// Adds a trial in which a hunt held threads.
    pub(super) fn held_trial(&mut self, id: u64, what: (Observation, Outcome)) {
        self.start_trial(id, 0, TrialPurpose::ExploreSchedule);
        self.end(id, what);
    }

    fn start_trial(&mut self, id: u64, variant: u32, purpose: TrialPurpose) {
        let slot = SlotId(u32::try_from((id + 1) % 2).unwrap());
        let seed = trial_seed(17, TrialId(id));
        let (id, variant) = (TrialId(id), VariantId(variant));
        self.event(&Event::TrialStarted(Trial {
            id,
            variant,
            slot,
            seed,
            timeout: Duration::from_secs(60),
            purpose,
            hold: None,
        }));
    }

    pub(super) fn end(&mut self, id: u64, (seen, outcome): (Observation, Outcome)) {
        self.at += Duration::from_secs(1);
        let (trial, at) = (TrialId(id), self.at);
        self.event(&Event::TrialFinished {
            trial,
            at,
            seen: Box::new(seen),
            outcome,
        });
    }

    pub(super) fn trial(&mut self, id: u64, what: (Observation, Outcome)) {
        self.start(id, 0);
        self.end(id, what);
    }

    pub(super) fn finish(&mut self) {
        self.event(&Event::RunFinished { at: self.at });
    }

    pub(super) fn note(&mut self, text: &str) {
        self.event(&Event::Note {
            level: NoteLevel::Warning,
            text: text.to_owned(),
        });
    }

    pub(super) fn keep(&self, id: u64, name: &str, bytes: &[u8]) {
        let folder = self.folder.trials_path().join(id.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    pub(super) fn report(&self) -> Report {
        let state =
            journal::read_run(&self.folder.journal_path(), questions::FOLD, |_, _| {}).unwrap();
        Report::new(&state, true)
    }

    pub(super) fn export(&self, exporter: &Exporter) -> String {
        let mut out = Vec::new();
        let report = self.report();
        let run = MaskedRun::new(&self.folder, &report).unwrap();
        export_report(exporter, &run, &shown(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}

/// Returns a run with every kind of ending that has its own row.
#[expect(clippy::too_many_lines, reason = "a list of trials")]
pub(super) fn run_with_every_ending() -> SimulatedRun {
    let mut run = SimulatedRun::new(plan(9));
    run.trial(1, passed());
    run.keep(2, "stdout", b"");
    run.keep(2, "stderr", b"\x1b[31mterminate\x1b[0m called\n");
    run.trial(2, crashed("terminate called"));
    run.trial(
        3,
        (
            died(Ending::Exited(125), "no such device"),
            Outcome::Inconclusive(InconclusiveReason::Skipped),
        ),
    );
    let evidence = SignalEvidence::ExitCode { code: 139 };
    let failure_kind = FailureKind::Signal {
        signal: Signal::SEGV,
        evidence,
    };
    run.trial(4, (died(Ending::Exited(139), ""), fail(failure_kind)));
    run.trial(
        5,
        (
            died(Ending::Exited(3), "error: 3"),
            Outcome::Other(Box::new(failure(FailureKind::Exit { code: 3 }))),
        ),
    );
    let stuck = Ending::TimedOut {
        state: 'S',
        killed: true,
    };
    run.trial(
        6,
        (
            died(stuck, "waiting"),
            fail(FailureKind::Hang { stopped: false }),
        ),
    );
    let mut leak = passed();
    let left = ProcessObservation {
        command: vec!["sleep".into(), "1000".into()],
        ..ProcessObservation::default()
    };
    leak.0.residue = RemainingProcesses {
        leaked: vec![left],
        unlisted: 2,
        ..RemainingProcesses::default()
    };
    leak.1 = fail(FailureKind::Leak);
    run.trial(7, leak);
    let mut output = passed();
    output.0.matched = vec![(0, "WARNING: data race".to_owned())];
    output.1 = fail(FailureKind::Output);
    run.trial(8, output);
    run.start(9, 0);
    run.start(10, 0);
    let lost = Observation {
        lost: Some("its slot was lost (SIGKILL)".to_owned()),
        ..Observation::default()
    };
    run.end(9, (lost, Outcome::Inconclusive(InconclusiveReason::Lost)));
    run.start(9, 0);
    run.end(
        9,
        (
            died(Ending::Signaled(Signal::KILL, false), ""),
            fail(FailureKind::Oom { masked: false }),
        ),
    );
    let gone = Ending::NotStarted("cannot execute `./neighbors.py`: text file busy".to_owned());
    run.end(
        10,
        (
            died(gone, ""),
            Outcome::Inconclusive(InconclusiveReason::NotStarted),
        ),
    );
    let hook = FailedHook {
        ending: Ending::Exited(1),
        output: "no space\nleft\n".to_owned(),
    };
    run.trial(
        11,
        (
            Observation {
                prepare: Some(hook),
                ..Observation::default()
            },
            Outcome::Inconclusive(InconclusiveReason::Unprepared),
        ),
    );
    run.start(12, 0);
    run.start(13, 0);
    run.end(12, passed());
    run.end(
        13,
        (
            Observation {
                interrupted: true,
                ..died(Ending::Stopped, "")
            },
            Outcome::Inconclusive(InconclusiveReason::Interrupted),
        ),
    );
    run.finish();
    run
}

/// Returns a table without the columns that are the same in every row.
fn columns(csv: &str, names: &[&str]) -> String {
    let mut table = ::csv::Reader::from_reader(csv.as_bytes());
    let head = table.headers().unwrap().clone();
    let at: Vec<usize> = names
        .iter()
        .map(|name| head.iter().position(|known| known == *name).unwrap())
        .collect();
    let row = |row: &::csv::StringRecord| {
        at.iter()
            .map(|at| &row[*at])
            .collect::<Vec<_>>()
            .join(" | ")
    };
    let rows = table.records().map(|record| row(&record.unwrap()));
    [row(&head)]
        .into_iter()
        .chain(rows)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_table_has_a_row_for_every_ending() {
    let csv = run_with_every_ending().export(&CSV);
    let names = [
        "trial",
        "attempt",
        "outcome",
        "class",
        "detail",
        "exit_code",
        "signal",
        "core_dumped",
        "leaked_processes",
    ];
    insta::assert_snapshot!(columns(&csv, &names), @r"
    trial | attempt | outcome | class | detail | exit_code | signal | core_dumped | leaked_processes
    1 | 1 | pass | pass |  | 0 |  |  | 0
    2 | 1 | SIGSEGV | fail | core dumped |  | SIGSEGV | true | 0
    3 | 1 | void | void | skipped | 125 |  |  | 0
    4 | 1 | SIGSEGV | fail | inferred from exit 139 | 139 |  |  | 0
    5 | 1 | exit 3 | other |  | 3 |  |  | 0
    6 | 1 | hang | fail |  |  |  |  | 0
    7 | 1 | leak | fail | sleep 1000 | 0 |  |  | 3
    8 | 1 | output | fail | WARNING: data race | 0 |  |  | 0
    9 | 2 | oom | fail |  |  | SIGKILL | false | 0
    10 | 1 | void | void | not started: cannot execute `./neighbors.py`: text file busy |  |  |  | 0
    11 | 1 | void | void | prepare failed: no space\nleft |  |  |  | 0
    12 | 1 | pass | pass |  | 0 |  |  | 0
    13 | 1 | void | after_decision | interrupted |  |  |  | 0
    ");
    insta::assert_snapshot!(csv.lines().take(4).collect::<Vec<_>>().join("\n"), @"
    trial,variant,slot,seed,attempt,started,seconds,outcome,class,signature,title,depth,detail,exit_code,signal,core_dumped,cpu_seconds,max_rss_kib,leaked_processes,stdout_bytes,stderr_bytes,stage,clients,requests,answers,errors,ends,served_before_death,in_flight_at_death,last_words,kept,host,verdict,lane
    1,,0,4521804886826094,1,2025-11-21T06:00:00.750Z,0.25,pass,pass,,,,,0,,,0.125,2400,0,10,20,,,,,,,,,,,,failing,0
    2,,1,3525721143549213,1,2025-11-21T06:00:01.750Z,0.25,SIGSEGV,fail,00002393,SIGSEGV,status,core dumped,,SIGSEGV,true,0.125,2400,0,10,20,,,,,,,,,terminate called,trials/2,,failing,1
    3,,0,2957332059282051,1,2025-11-21T06:00:02.750Z,0.25,void,void,,,,skipped,125,,,0.125,2400,0,10,20,,,,,,,,,no such device,,,failing,0
    ");
}

#[test]
fn a_json_line_has_the_columns_of_the_table() {
    let run = run_with_every_ending();
    let lines = run.export(&JSONL);
    insta::assert_snapshot!(lines.lines().nth(1).unwrap(), @r#"{"trial":2,"variant":"","slot":1,"seed":3525721143549213,"attempt":1,"started":"2025-11-21T06:00:01.750Z","seconds":0.25,"outcome":"SIGSEGV","class":"fail","signature":"00002393","title":"SIGSEGV","depth":"status","detail":"core dumped","exit_code":null,"signal":"SIGSEGV","core_dumped":true,"cpu_seconds":0.125,"max_rss_kib":2400,"leaked_processes":0,"stdout_bytes":10,"stderr_bytes":20,"stage":null,"clients":null,"requests":null,"answers":null,"errors":null,"ends":null,"served_before_death":null,"in_flight_at_death":null,"last_words":"terminate called","kept":"trials/2","host":"","verdict":"failing","lane":1}"#);
    let csv = run.export(&CSV);
    assert_eq!(lines.lines().count() + 1, csv.lines().count());
    for line in lines.lines() {
        let row: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
        let names: BTreeSet<&str> = row.keys().map(String::as_str).collect();
        assert_eq!(names, super::csv::COLUMNS.into_iter().collect());
        let place = |name: &str| line.find(&format!("\"{name}\":")).unwrap();
        assert!(super::csv::COLUMNS.map(place).is_sorted(), "{line}");
    }
}

#[test]
fn the_rows_of_each_class_equal_the_counts_of_the_report() {
    let run = run_with_every_ending();
    let (lines, report) = (run.export(&JSONL), run.report());
    let count = |class: &str| lines.matches(&format!("\"class\":\"{class}\"")).count() as u64;
    let [variant] = report.variants.as_slice() else {
        panic!()
    };
    assert_eq!(count("pass") + count("fail"), variant.trials);
    assert_eq!(count("fail"), variant.failures);
    assert_eq!(count("other"), variant.other);
    assert_eq!(count("void"), variant.void);
    assert_eq!(count("after_decision"), report.after_decision);
    assert_eq!(report.last_counted_trial, 12);
}

#[test]
fn markdown_contains_the_facts_for_an_issue() {
    insta::assert_snapshot!(run_with_every_ending().export(&MARKDOWN), @r"
    # `./neighbors.py '--all of it'`: SIGSEGV, 2 of 8 trials

    **Failures seen.** 6 of 8 trials failed: 75 % (95 % interval 34 to 97 %).

    ### Most frequent failure

    2 of 6 failed trials: SIGSEGV (`00002393`)

    ### Last output (trial 2)

    ```text
    terminate called
    ```

    ### Reproduce

    ```sh
    ./neighbors.py '--all of it'
    ```

    At the measured failure rate, this shows a failure with a probability of 95 %:

    ```sh
    provoke run -n 3 --env-clear -j 2 -- ./neighbors.py '--all of it'
    ```

    ### Versions

    - Linux 6.12.1; x86\_64; A Processor (TM); 16 processors, 64 GiB of memory

    ### After a fix

    FIXED at 95 % takes 314 passing trials, with this run alone as the baseline:

    ```sh
    provoke confirm --baseline 1/8 --env-clear -j 2 -- ./neighbors.py '--all of it'
    ```

    <details><summary>All counts</summary>

    How often:

    | failed | trials | rate | interval |
    | ---: | ---: | ---: | ---: |
    | 6 | 8 | 75 % | 34 to 97 % |

    Trials by result:

    | result | trials | share | evidence | meaning | which |
    | --- | ---: | ---: | --- | --- | --- |
    | `passed` | 2 | 25 % |  |  |  |
    | `SIGSEGV` | 1 | 13 % | core dumped | segmentation fault: invalid memory access | 2 |
    | `SIGSEGV` | 1 | 13 % | inferred from exit 139 | segmentation fault: invalid memory access | 4 |
    | `hang` | 1 | 13 % |  | did not end in time | 6 |
    | `leak` | 1 | 13 % |  | left processes or containers behind | 7 |
    | `oom` | 1 | 13 % |  | killed by the kernel because memory ran out | 9 |
    | `output` | 1 | 13 % |  | its output matched a failure rule | 8 |
    | `exit 3` | 1 |  |  | the program reported failure (not the bug looked for) | 5 |
    | `inconclusive` | 1 |  |  | not started |  |
    | `inconclusive` | 1 |  |  | prepare failed |  |
    | `inconclusive` | 1 |  |  | skipped |  |

    Times of trials:

    | result | median | 90 % within | longest |
    | --- | ---: | ---: | ---: |
    | `passed` | 251 ms | 251 ms | 251 ms |
    | `failed` | 251 ms | 251 ms | 251 ms |

    - 1 trial failed in another way: not the bug looked for, not counted
    - 1 trial not counted: not started
    - 1 trial not counted: prepare failed
    - 1 trial not counted: skipped
    - 3 processes left behind in 1 trial, and killed
    - On average, one failure in 333 ms of running time (95 % interval 153 ms to 908 ms)
    - To confirm a fix: 314 passing trials in a row, at 95 % confidence
    - Why the trials ended: all planned trials ran (-n)
    - Failures of parallel trials are not clearly dependent (p = 0.86)
    - Failures do not clearly come in clumps (p = 0.12)
    - The rate did not clearly change during the run (Laplace's trend test, p = 1)
    - Finished after the decision, not counted: 1 trial
    - Interrupted or lost, and retried: 1 attempt

    </details>

    provoke 0.1.0; run 20251121-060000-a1b2; started 2025-11-21T06:00:00Z; 14.0 s of working time; 2 trials in parallel; seed 17
    ");
}

/// Returns a run of 100 trials with two failures at different lines: one in 10 trials, and one in 2.
fn run_with_two_failures() -> SimulatedRun {
    let mut run = SimulatedRun::new(plan(100));
    let failed_at = |line: u32| {
        let mut failure = failure(SEGV);
        failure.signature.id = SignatureId(line);
        failure.signature.title = format!("SIGSEGV in line_{line}");
        failure.signature.depth = EvidenceDepth::Stack;
        failure.sites = vec![provoke_model::Site {
            file: "app.c".to_owned(),
            line,
            ..provoke_model::Site::default()
        }];
        let seen = died(Ending::Signaled(Signal::SEGV, true), "");
        (seen, Outcome::Fail(Box::new(failure)))
    };
    for number in 1..=100 {
        run.trial(
            number,
            match number {
                20 | 70 => failed_at(17),
                _ if number % 10 == 5 => failed_at(28),
                _ => passed(),
            },
        );
    }
    run.finish();
    run
}

#[test]
fn markdown_contains_the_place_of_each_failure() {
    let markdown = run_with_two_failures().export(&MARKDOWN);
    for expected in [
        "10 of 12 failed trials: SIGSEGV in line\\_28",
        "- `app.c:28`",
        "### Other failures\n\n2 failed trials: SIGSEGV in line\\_17",
        "- `app.c:17`",
    ] {
        assert!(markdown.contains(expected), "no {expected}:\n{markdown}");
    }
}

#[test]
fn each_of_several_failures_has_a_command_that_confirms_its_fix() {
    let commands = super::next_commands(&run_with_two_failures().report(), "a1b2", None);
    let confirm = commands
        .iter()
        .filter(|command| command.line.contains("confirm"));
    let lines = confirm.map(|command| format!("{} # {}", command.line, command.remark));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    provoke confirm --baseline a1b2 # 346 passing trials for PROBABLY FIXED, about 5m 46s
    provoke confirm --baseline a1b2 --only sig:0000001c # SIGSEGV in line_28: 68 passing trials, about 1m 08s
    provoke confirm --baseline a1b2 --only sig:00000011 # SIGSEGV in line_17: 311 passing trials for PROBABLY FIXED, about 5m 12s
    ");
}

#[test]
fn junit_has_a_case_for_the_verdict_and_for_each_failure() {
    insta::assert_snapshot!(run_with_every_ending().export(&JUNIT), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="20251121-060000-a1b2" tests="7" skipped="0" errors="1" failures="6" timestamp="2025-11-21T06:00:00Z" time="14.000">
        <testsuite name="provoke run" tests="7" skipped="0" errors="1" failures="6" timestamp="2025-11-21T06:00:00Z" time="14.000" hostname="workstation">
            <properties>
                <property name="command" value="./neighbors.py &apos;--all of it&apos;"/>
                <property name="verdict" value="Failures seen"/>
                <property name="stop_rule" value="all planned trials ran (-n)"/>
                <property name="rate" value="6 of 8 trials failed: 75 % (95 % interval 34 to 97 %)"/>
                <property name="rate.low" value="0.349144205587174"/>
                <property name="rate.high" value="0.9681459737500561"/>
                <property name="rate.upper_one_sided" value="0.9536107360203893"/>
                <property name="rate.basis" value="cp"/>
                <property name="confidence" value="95"/>
                <property name="trials" value="8"/>
                <property name="failures" value="6"/>
                <property name="other" value="1"/>
                <property name="void" value="3"/>
                <property name="jobs" value="2"/>
                <property name="seed" value="17"/>
                <property name="provoke" value="0.1.0"/>
                <property name="rate.point" value="0.75"/>
            </properties>
            <testcase name="no trial fails" classname="provoke">
                <failure message="6 of 8 trials failed: 75 % (95 % interval 34 to 97 %)" type="Failures seen"/>
                <system-out>6 of 8 trials failed: 75 % (95 % interval 34 to 97 %)
    1 trial failed in another way: not the bug looked for, not counted
    1 trial not counted: not started
    1 trial not counted: prepare failed
    1 trial not counted: skipped
    3 processes left behind in 1 trial, and killed</system-out>
            </testcase>
            <testcase name="SIGSEGV" classname="provoke">
                <properties>
                    <property name="failures" value="2"/>
                    <property name="signature" value="00002393"/>
                </properties>
                <failure message="2 of 8 trials failed: segmentation fault: invalid memory access" type="SIGSEGV">trials: 2, 4
    kept in: trials/2
    repeat it: provoke replay 20251121-060000-a1b2#2</failure>
                <system-err>terminate called
    </system-err>
            </testcase>
            <testcase name="output" classname="provoke">
                <properties>
                    <property name="failures" value="1"/>
                    <property name="signature" value="000096a5"/>
                </properties>
                <failure message="1 of 8 trials failed: its output matched a failure rule" type="output">trial: 8
    repeat it: provoke replay 20251121-060000-a1b2#8</failure>
            </testcase>
            <testcase name="leak" classname="provoke">
                <properties>
                    <property name="failures" value="1"/>
                    <property name="signature" value="0000a251"/>
                </properties>
                <failure message="1 of 8 trials failed: left processes or containers behind" type="leak">trial: 7
    repeat it: provoke replay 20251121-060000-a1b2#7</failure>
            </testcase>
            <testcase name="oom" classname="provoke">
                <properties>
                    <property name="failures" value="1"/>
                    <property name="signature" value="0000ae9c"/>
                </properties>
                <failure message="1 of 8 trials failed: killed by the kernel because memory ran out" type="oom">trial: 9
    repeat it: provoke replay 20251121-060000-a1b2#9</failure>
            </testcase>
            <testcase name="hang" classname="provoke">
                <properties>
                    <property name="failures" value="1"/>
                    <property name="signature" value="0000c342"/>
                </properties>
                <failure message="1 of 8 trials failed: did not end in time" type="hang">trial: 6
    repeat it: provoke replay 20251121-060000-a1b2#6</failure>
            </testcase>
            <testcase name="exit 3" classname="provoke">
                <properties>
                    <property name="failures" value="1"/>
                    <property name="signature" value="00006d81"/>
                </properties>
                <error message="1 trial failed, not the bug looked for: the program reported failure" type="exit 3">trial: 5
    repeat it: provoke replay 20251121-060000-a1b2#5</error>
            </testcase>
        </testsuite>
    </testsuites>
    "#);
}

#[test]
fn junit_folds_the_cases_of_many_failures() {
    let mut run = SimulatedRun::new(plan(150));
    for code in 1..=150 {
        let seen = died(Ending::Exited(code), "");
        run.trial(
            code.unsigned_abs().into(),
            (seen, fail(FailureKind::Exit { code })),
        );
    }
    run.finish();
    let junit = quick_junit::Report::deserialize_from_str(&run.export(&JUNIT)).unwrap();
    let suite = &junit.test_suites[0];
    assert_eq!((suite.tests, suite.failures), (102, 102));
    let names: BTreeSet<&str> = suite
        .test_cases
        .iter()
        .map(|case| case.name.as_str())
        .collect();
    assert_eq!(names.len(), 102);
    assert!(names.contains("further failures"));
}

#[test]
fn junit_trials_has_a_case_for_every_trial() {
    insta::assert_snapshot!(run_with_every_ending().export(&JUNIT_TRIALS), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="20251121-060000-a1b2" tests="13" skipped="4" errors="1" failures="6" timestamp="2025-11-21T06:00:00Z" time="14.000">
        <testsuite name="./neighbors.py &apos;--all of it&apos;" tests="13" skipped="4" errors="1" failures="6" timestamp="2025-11-21T06:00:00Z" time="2.000" hostname="workstation">
            <properties>
                <property name="command" value="./neighbors.py &apos;--all of it&apos;"/>
                <property name="verdict" value="Failures seen"/>
                <property name="stop_rule" value="all planned trials ran (-n)"/>
                <property name="rate" value="6 of 8 trials failed: 75 % (95 % interval 34 to 97 %)"/>
                <property name="rate.low" value="0.349144205587174"/>
                <property name="rate.high" value="0.9681459737500561"/>
                <property name="rate.upper_one_sided" value="0.9536107360203893"/>
                <property name="rate.basis" value="cp"/>
                <property name="confidence" value="95"/>
                <property name="trials" value="8"/>
                <property name="failures" value="6"/>
                <property name="other" value="1"/>
                <property name="void" value="3"/>
                <property name="jobs" value="2"/>
                <property name="seed" value="17"/>
                <property name="provoke" value="0.1.0"/>
                <property name="rate.point" value="0.75"/>
            </properties>
            <testcase name="trial 1" classname="provoke" timestamp="2025-11-21T06:00:00.750Z" time="0.250"/>
            <testcase name="trial 2" classname="provoke" timestamp="2025-11-21T06:00:01.750Z" time="0.250">
                <failure message="segmentation fault: invalid memory access: core dumped" type="SIGSEGV">last output: terminate called
    kept in: trials/2
    repeat it: provoke replay 20251121-060000-a1b2#2</failure>
                <system-err>terminate called
    </system-err>
            </testcase>
            <testcase name="trial 3" classname="provoke" timestamp="2025-11-21T06:00:02.750Z" time="0.250">
                <skipped message="inconclusive: skipped"/>
            </testcase>
            <testcase name="trial 4" classname="provoke" timestamp="2025-11-21T06:00:03.750Z" time="0.250">
                <failure message="segmentation fault: invalid memory access: inferred from exit 139" type="SIGSEGV">repeat it: provoke replay 20251121-060000-a1b2#4</failure>
            </testcase>
            <testcase name="trial 5" classname="provoke" timestamp="2025-11-21T06:00:04.750Z" time="0.250">
                <error message="not the bug looked for: the program reported failure" type="exit 3">last output: error: 3
    repeat it: provoke replay 20251121-060000-a1b2#5</error>
            </testcase>
            <testcase name="trial 6" classname="provoke" timestamp="2025-11-21T06:00:05.750Z" time="0.250">
                <failure message="did not end in time" type="hang">last output: waiting
    repeat it: provoke replay 20251121-060000-a1b2#6</failure>
            </testcase>
            <testcase name="trial 7" classname="provoke" timestamp="2025-11-21T06:00:06.750Z" time="0.250">
                <failure message="left processes or containers behind: sleep 1000" type="leak">repeat it: provoke replay 20251121-060000-a1b2#7</failure>
            </testcase>
            <testcase name="trial 8" classname="provoke" timestamp="2025-11-21T06:00:07.750Z" time="0.250">
                <failure message="its output matched a failure rule: WARNING: data race" type="output">repeat it: provoke replay 20251121-060000-a1b2#8</failure>
            </testcase>
            <testcase name="trial 9" classname="provoke" timestamp="2025-11-21T06:00:09.750Z" time="0.250">
                <failure message="killed by the kernel because memory ran out" type="oom">repeat it: provoke replay 20251121-060000-a1b2#9</failure>
            </testcase>
            <testcase name="trial 10" classname="provoke" timestamp="2025-11-21T06:00:10.750Z" time="0.250">
                <skipped message="inconclusive: not started: cannot execute `./neighbors.py`: text file busy"/>
            </testcase>
            <testcase name="trial 11" classname="provoke" timestamp="2025-11-21T06:00:12.000Z" time="0.000">
                <skipped message="inconclusive: prepare failed: no space\nleft"/>
            </testcase>
            <testcase name="trial 12" classname="provoke" timestamp="2025-11-21T06:00:12.750Z" time="0.250"/>
            <testcase name="trial 13" classname="provoke" timestamp="2025-11-21T06:00:13.750Z" time="0.250">
                <skipped message="not counted: ended after the decision (void): interrupted"/>
            </testcase>
        </testsuite>
    </testsuites>
    "#);
}

#[test]
fn waiting_and_interrupted_trials_are_distinguished() {
    let mut run = SimulatedRun::new(plan(9));
    run.trial(1, passed());
    run.start(2, 0);
    run.start(3, 0);
    run.end(3, passed());
    run.start(4, 0);
    let interrupted = || {
        (
            Observation {
                interrupted: true,
                ..died(Ending::Stopped, "")
            },
            Outcome::Inconclusive(InconclusiveReason::Interrupted),
        )
    };
    run.end(2, interrupted());
    run.end(4, interrupted());
    run.event(&Event::RunStopped {
        why: StopCause::Signal(Signal::INT),
        at: run.at,
    });
    let names = ["trial", "attempt", "started", "seconds", "class"];
    insta::assert_snapshot!(columns(&run.export(&CSV), &names), @"
    trial | attempt | started | seconds | class
    1 | 1 | 2025-11-21T06:00:00.750Z | 0.25 | pass
    3 | 1 | 2025-11-21T06:00:01.750Z | 0.25 | waiting
    ");
    run.event(&Event::RunResumed { at: 1_763_791_200 });
    run.trial(2, passed());
    insta::assert_snapshot!(columns(&run.export(&CSV), &names), @"
    trial | attempt | started | seconds | class
    1 | 1 | 2025-11-21T06:00:00.750Z | 0.25 | pass
    2 | 2 | 2025-11-22T06:00:00.750Z | 0.25 | pass
    3 | 1 | 2025-11-21T06:00:01.750Z | 0.25 | pass
    ");
}

#[test]
fn without_failures_the_report_has_an_upper_bound_and_no_rate() {
    let mut run = SimulatedRun::new(plan(427));
    (1..=427).for_each(|id| run.trial(id, passed()));
    run.finish();
    let report = run.report();
    let headline = headline_of(&report);
    insta::assert_snapshot!(headline, @"0 of 427 trials failed: rate below 0.87 % (95 % interval)");
    insta::assert_snapshot!(run.export(&MARKDOWN), @r"
    # `./neighbors.py '--all of it'`: No failure seen

    **No failure seen.** 0 of 427 trials failed: rate below 0.87 % (95 % interval).

    ### Reproduce

    ```sh
    ./neighbors.py '--all of it'
    ```

    ### Versions

    - Linux 6.12.1; x86\_64; A Processor (TM); 16 processors, 64 GiB of memory

    <details><summary>All counts</summary>

    How often:

    | failed | trials | rate | interval |
    | ---: | ---: | ---: | ---: |
    | 0 | 427 | – | 0 to 0.87 % |

    Times of trials:

    | result | median | 90 % within | longest |
    | --- | ---: | ---: | ---: |
    | `passed` | 251 ms | 251 ms | 251 ms |

    - Why the trials ended: all planned trials ran (-n)

    </details>

    provoke 0.1.0; run 20251121-060000-a1b2; started 2025-11-21T06:00:00Z; 7m 07s of working time; 2 trials in parallel; seed 17
    ");
}

/// Runs trials that fail at regular intervals, up to the last one; returns the ends of the interval in the headline.
fn headline_interval(mut plan: Plan, failures: u64, trials: u64) -> [f64; 2] {
    plan.trials.jobs = 1;
    let mut run = SimulatedRun::new(plan);
    for id in 1..=trials {
        let fails = id * failures / trials > (id - 1) * failures / trials;
        run.trial(id, if fails { crashed("") } else { passed() });
    }
    run.finish();
    let headline = headline_of(&run.report());
    let ends = match headline.split_once("rate below ") {
        Some((_, bound)) => format!("0 to {bound}"),
        None => headline.split_once("interval ").unwrap().1.to_owned(),
    };
    let (lo, hi) = ends.split_once(" to ").unwrap();
    let hi = hi.split_once(" %").unwrap().0;
    [lo, hi].map(|end| end.parse::<f64>().unwrap() / 100.0)
}

/// Returns the probability of this number of failures.
fn binomial(failures: u64, trials: u64, p: f64) -> f64 {
    let power = |p: f64, count: u64| p.powi(i32::try_from(count).unwrap());
    let ways = (1..=failures).map(|i| stats::real(trials + 1 - i) / stats::real(i));
    ways.product::<f64>() * power(p, failures) * power(1.0 - p, trials - failures)
}

/// Probability of an end of a run, as a function of the failure rate.
type ChanceAtRate = Box<dyn Fn(f64) -> f64>;

#[test]
fn the_interval_of_the_headline_has_95_percent_coverage_at_every_rate() {
    for (trials, stop) in [
        (10, None),
        (30, None),
        (60, None),
        (30, Some(3)),
        (60, Some(5)),
    ] {
        let mut plan = plan(trials);
        plan.stop.failures = stop;
        // All ends of the run with their probabilities: all trials, or the last allowed failure.
        let mut ends: Vec<([f64; 2], ChanceAtRate)> = Vec::new();
        for failures in 0..stop.unwrap_or(trials + 1) {
            let chance = move |p| binomial(failures, trials, p);
            ends.push((
                headline_interval(plan.clone(), failures, trials),
                Box::new(chance),
            ));
        }
        for (last, most) in stop
            .into_iter()
            .flat_map(|most| (most..=trials).map(move |n| (n, most)))
        {
            let chance = move |p| p * binomial(most - 1, last - 1, p);
            ends.push((
                headline_interval(plan.clone(), most, last),
                Box::new(chance),
            ));
        }
        for step in 1..1000 {
            let p = f64::from(step) / 1000.0;
            let all: f64 = ends.iter().map(|(_, chance)| chance(p)).sum();
            assert!((all - 1.0).abs() < 1e-9, "{trials}, {stop:?}, {p}: {all}");
            let true_ends = ends.iter().filter(|([lo, hi], _)| (*lo..=*hi).contains(&p));
            let covered: f64 = true_ends.map(|(_, chance)| chance(p)).sum();
            assert!(covered >= 0.95, "{trials}, {stop:?}, {p}: {covered}");
        }
    }
}

#[test]
fn a_stop_at_the_first_failure_gives_an_interval_without_a_rate() {
    let mut plan = plan(100);
    plan.stop.failures = Some(1);
    let mut run = SimulatedRun::new(plan);
    run.trial(1, passed());
    run.trial(2, passed());
    run.trial(3, crashed(""));
    run.finish();
    let report = run.report();
    let headline = headline_of(&report);
    insta::assert_snapshot!(headline, @"first failure after 2 passes: rate 0.8 to 91 % (95 % interval)");
    assert!(run.export(&MARKDOWN).contains("| 1 | 3 | – | "));
}

#[test]
fn a_run_that_ended_early_has_an_any_time_interval() {
    let mut run = SimulatedRun::new(plan(100));
    (1..=20).for_each(|id| run.trial(id, passed()));
    let headline = |run: &SimulatedRun| headline_of(&run.report());
    let without = headline(&run);
    run.trial(21, crashed(""));
    insta::assert_snapshot!(format!("{without}\n{}", headline(&run)), @"
    0 of 20 trials failed: rate below 23 % (95 % interval, wider because the run ended early)
    SIGSEGV in 1 of 21 trials: 4.8 % (95 % interval 0.01 to 24 %, wider because the run ended early)
    ");
    assert_eq!(
        headline_of(&SimulatedRun::new(plan(1)).report()),
        "no trial was conclusive: the failure rate is not known"
    );
}

#[test]
fn a_long_note_of_a_hostile_journal_is_cut() {
    let mut run = SimulatedRun::new(plan(1));
    run.note(&"x".repeat(1 << 20));
    run.note(&"x".repeat(2 << 20));
    let notes = run.report().notes;
    assert_eq!(notes.len(), 1);
    assert!(notes[0].len() < 5000, "{}", notes[0].len());
}

/// Returns the rate of the first variant in words.
fn headline_of(report: &Report) -> String {
    super::headlines::rate_headline(report, &report.variants[0])
}

#[test]
fn several_variants_are_reported_separately() {
    let mut plan = plan(2);
    let mut other = plan.trials.variants[0].clone();
    plan.trials.variants[0].name = "plain".to_owned();
    other.name = "a|b`c\\<i>".to_owned();
    plan.trials.variants.push(other);
    let mut run = SimulatedRun::new(plan);
    for (id, what) in [
        (1, passed()),
        (2, passed()),
        (3, passed()),
        (4, crashed("")),
    ] {
        run.start(id, u32::try_from(id + 1).unwrap() % 2);
        run.end(id, what);
    }
    run.finish();
    insta::assert_snapshot!(run.export(&MARKDOWN), @r"
    # `./neighbors.py '--all of it'`: SIGSEGV

    **Failures seen.**

    - `plain`: 0 of 2 trials failed: rate below 85 % (95 % interval)
    - <code>a&#124;b&#96;c&#92;&#60;i&#62;</code>: SIGSEGV in 1 of 2 trials: 50 % (95 % interval 1.2 to 99 %)

    ### Failure

    The only failed trial of <code>a&#124;b&#96;c&#92;&#60;i&#62;</code>: SIGSEGV (`00002393`)

    ### Reproduce

    ```sh
    ./neighbors.py '--all of it'
    ```

    ### Versions

    - Linux 6.12.1; x86\_64; A Processor (TM); 16 processors, 64 GiB of memory

    <details><summary>All counts</summary>

    How often:

    | measured | failed | trials | rate | interval |
    | --- | ---: | ---: | ---: | ---: |
    | `plain` | 0 | 2 | – | 0 to 85 % |
    | <code>a&#124;b&#96;c&#92;&#60;i&#62;</code> | 1 | 2 | 50 % | 1.2 to 99 % |

    Trials by result:

    | variant | result | trials | share | evidence | meaning | which |
    | --- | --- | ---: | ---: | --- | --- | --- |
    | <code>a&#124;b&#96;c&#92;&#60;i&#62;</code> | passed | 1 | 50 % |  |  |  |
    | <code>a&#124;b&#96;c&#92;&#60;i&#62;</code> | SIGSEGV | 1 | 50 % | core dumped | segmentation fault: invalid memory access | 4 |

    Times of trials:

    | variant | result | median | 90 % within | longest |
    | --- | --- | ---: | ---: | ---: |
    | `plain` | passed | 251 ms | 251 ms | 251 ms |
    | <code>a&#124;b&#96;c&#92;&#60;i&#62;</code> | passed | 251 ms | 251 ms | 251 ms |
    | <code>a&#124;b&#96;c&#92;&#60;i&#62;</code> | failed | 251 ms | 251 ms | 251 ms |

    - plain: Why the trials ended: all planned trials ran (-n)
    - a\|b\`c\\\<i\>: On average, one failure in 500 ms of running time (95 % interval 90 ms to 19.7 s)
    - a\|b\`c\\\<i\>: To confirm a fix: 85 passing trials in a row, at 95 % confidence
    - a\|b\`c\\\<i\>: Why the trials ended: all planned trials ran (-n)
    - a\|b\`c\\\<i\>: Failures of parallel trials are not clearly dependent (p = 1)
    - a\|b\`c\\\<i\>: The rate did not clearly change during the run (Laplace's trend test, p = 0.39)

    </details>

    provoke 0.1.0; run 20251121-060000-a1b2; started 2025-11-21T06:00:00Z; 4.00 s of working time; 2 trials in parallel; seed 17
    ");
    let junit = quick_junit::Report::deserialize_from_str(&run.export(&JUNIT_TRIALS)).unwrap();
    let suites: Vec<_> = junit
        .test_suites
        .iter()
        .map(|suite| (suite.name.as_str(), suite.tests, suite.failures))
        .collect();
    assert_eq!(suites, [("plain", 2, 0), ("a|b`c\\<i>", 2, 1)]);
}

#[test]
fn junit_trials_folds_the_cases_of_a_large_run() {
    let mut run = SimulatedRun::new(plan(12_000));
    for id in 1..=12_000 {
        run.start(id, 0);
        let seen = if id % 4 == 0 { crashed("x") } else { passed() };
        let event = Event::TrialFinished {
            trial: TrialId(id),
            at: Duration::from_millis(id),
            seen: Box::new(seen.0),
            outcome: seen.1,
        };
        run.event(&event);
    }
    run.finish();
    let junit = quick_junit::Report::deserialize_from_str(&run.export(&JUNIT_TRIALS)).unwrap();
    let suite = &junit.test_suites[0];
    assert_eq!((suite.tests, suite.failures), (1002, 1001));
    let folded: Vec<&str> = suite.test_cases[1000..]
        .iter()
        .map(|case| case.name.as_str())
        .collect();
    assert_eq!(
        folded,
        ["9000 more trials that passed", "2000 more trials: SIGSEGV"]
    );
    assert!(
        suite
            .properties
            .iter()
            .any(|p| p.name.as_str() == "trials" && p.value.as_str() == "12000")
    );
}

/// Returns text that could break a parser, a terminal or a page.
fn hostile() -> (String, Vec<u8>) {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend("\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{1b}]8;; ]]> <!-- --> <script>alert(1)</script> &amp; | ` ``` \u{202e}abc\u{2066} \u{fffe}\u{ffff} \u{0085}\u{2028} @somebody #1 https://example.org www.example.org\r\n=cmd|' /C calc'!A0".as_bytes());
    (String::from_utf8_lossy(&bytes).into_owned(), bytes)
}

pub(super) fn hostile_run() -> SimulatedRun {
    let (text, bytes) = hostile();
    let mut run = SimulatedRun::new({
        let mut plan = plan(3);
        plan.trials.variants[0].actors[0]
            .command
            .push(text.replace('\0', "").as_str().into());
        plan
    });
    run.trial(1, crashed(&text));
    run.keep(1, "stdout", &bytes);
    run.keep(1, "stderr", &bytes.repeat(100));
    run.trial(
        2,
        (
            died(Ending::NotStarted(text.clone()), ""),
            Outcome::Inconclusive(InconclusiveReason::NotStarted),
        ),
    );
    run.trial(3, crashed("=HYPERLINK(\"http://example.org\")"));
    run.note(&text);
    run.note("1. not a list, - nor + this * and _that_ [x](y) ![z](z)");
    run.finish();
    run
}

#[test]
fn hostile_output_does_not_break_csv() {
    let csv = hostile_run().export(&CSV);
    assert_eq!(csv.lines().count(), 4);
    assert!(!csv.chars().any(|c| c.is_control() && c != '\n'), "{csv}");
    let words = columns(&csv, &["last_words", "detail"]);
    assert!(words.contains("'=HYPERLINK"), "{words}");
}

#[test]
fn hostile_output_is_unchanged_in_a_json_line() {
    let lines = hostile_run().export(&JSONL);
    let row: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(row["last_words"], hostile().0);
}

#[test]
fn hostile_output_keeps_the_xml_well_formed() {
    let run = hostile_run();
    let xml = run.export(&JUNIT_TRIALS);
    let junit = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    let case = &junit.test_suites[0].test_cases[0];
    let (out, err) = (
        case.system_out.as_ref().unwrap().as_str(),
        case.system_err.as_ref().unwrap().as_str(),
    );
    assert!(
        out.contains("]]> <!-- --> <script>alert(1)</script> &amp;"),
        "{out}"
    );
    assert!(
        out.contains("\\u{202e}abc") && out.contains("red \\x1b]0;title"),
        "{out}"
    );
    assert!(
        err.starts_with('[') && err.len() < 4 * 8192,
        "{}",
        err.len()
    );
    assert!(quick_junit::Report::deserialize_from_str(&run.export(&JUNIT)).is_ok());
    let file = run.folder.path().join("junit.xml");
    fs::write(&file, &xml).unwrap();
    let script = "import sys, xml.etree.ElementTree as e; print(len(e.parse(sys.argv[1]).findall('.//testcase')))";
    // Without Python the test uses the deserializer of the library.
    needs!(program("python3"));
    let python = Command::new("python3")
        .args(["-c", script])
        .arg(&file)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&python.stderr);
    assert_eq!(
        String::from_utf8_lossy(&python.stdout).trim(),
        "3",
        "{stderr}"
    );
}

/// Returns Markdown without its blocks of code.
fn without_code(markdown: &str) -> String {
    let mut fence: Option<String> = None;
    let mut outside = String::new();
    for line in markdown.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        match &fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if ticks.len() >= 3 => fence = Some(ticks),
            None => outside.extend([line, "\n"]),
        }
    }
    assert_eq!(fence, None, "{markdown}");
    outside
}

#[test]
fn hostile_output_is_escaped_in_markdown() {
    let markdown = hostile_run().export(&MARKDOWN);
    assert!(
        !markdown
            .chars()
            .any(|c| c.is_control() && !matches!(c, '\n' | '\t')),
        "{markdown}"
    );
    let outside = without_code(&markdown);
    for bad in ["<script", "@somebody", "#1 ", "https://", "www.example"] {
        assert!(
            !outside.replace("\\<", "").contains(bad),
            "{bad} in {outside}"
        );
    }
    let note = outside
        .lines()
        .find(|line| line.contains("not a list"))
        .unwrap();
    insta::assert_snapshot!(note, @r"- 1\. not a list, - nor + this \* and \_that\_ \[x\](y) \!\[z\](z)");
}

#[test]
fn a_report_does_not_follow_symlinks_in_the_evidence() {
    let run = run_with_every_ending();
    let folder = run.folder.trials_path().join("4");
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("stdout")).unwrap();
    for exporter in [&JUNIT, &JUNIT_TRIALS] {
        assert!(!run.export(exporter).contains("root:"));
    }
}

#[test]
fn a_broken_pipe_is_distinguished_from_other_write_errors() {
    struct BrokenPipe;
    impl io::Write for BrokenPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let run = run_with_every_ending();
    let report = run.report();
    let run = MaskedRun::new(&run.folder, &report).unwrap();
    for exporter in EXPORTERS.iter().copied() {
        let error = export_report(exporter, &run, &shown(), &mut BrokenPipe).unwrap_err();
        assert!(error.is_broken_pipe(), "{exporter:?}: {error}");
    }
}

/// Checks a value against the part of JSON Schema that the report's schema uses.
fn assert_matches_schema(schema: &Value, root: &Value, value: &Value, at: &str) {
    if let Some(target) = schema["$ref"].as_str() {
        let target = root.pointer(target.strip_prefix('#').unwrap()).unwrap();
        return assert_matches_schema(target, root, value, at);
    }
    if let Some(several) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let fits = |one: &Value| match (&one["const"], &one["type"]) {
            (Value::Null, kind) => (kind == "null") == value.is_null(),
            (only, _) => only == value,
        };
        let one = several
            .iter()
            .find(|one| fits(one))
            .unwrap_or_else(|| panic!("{at}: {value}"));
        return assert_matches_schema(one, root, value, at);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let known = |wanted: &Value| wanted == kind || (wanted == "number" && kind == "integer");
    let wanted = &schema["type"];
    let fits = wanted
        .as_array()
        .map_or_else(|| known(wanted), |all| all.iter().any(known));
    assert!(fits, "{at} is {kind}, not {wanted}");
    if let Some(all) = schema["enum"].as_array() {
        assert!(all.contains(value), "{at}: {value}");
    }
    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
        assert_matches_schema(&schema["items"], root, item, &format!("{at}[{place}]"));
    }
    let Some(fields) = value.as_object() else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(
            fields.contains_key(name.as_str().unwrap()),
            "{at} has no {name}"
        );
    }
    let is_old = |name: &str| {
        super::json::OLD_NAMES
            .iter()
            .any(|(_, old, _)| *old == name)
    };
    for (name, field) in fields {
        if is_old(name) && schema["properties"].get(name).is_none() {
            continue;
        }
        let part = schema["properties"]
            .get(name)
            .unwrap_or(&schema["additionalProperties"]);
        assert!(part.is_object(), "{at}.{name} is not in the schema");
        assert_matches_schema(part, root, field, &format!("{at}.{name}"));
    }
}

#[test]
fn a_report_matches_its_schema() {
    let schema = schemars::schema_for!(Report).to_value();
    let several = {
        let mut plan = plan(50);
        plan.trials.variants.push(plan.trials.variants[0].clone());
        SimulatedRun::new(plan)
    };
    for run in [
        run_with_every_ending(),
        hostile_run(),
        SimulatedRun::new(plan(1)),
        several,
    ] {
        let value: Value = serde_json::from_str(&run.export(&JSON)).unwrap();
        assert_matches_schema(&schema, &schema, &value, "report");
    }
}

#[test]
fn the_checked_in_report_schema_is_up_to_date() {
    let schema = serde_json::to_string_pretty(&schemars::schema_for!(Report)).unwrap() + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(path, &schema).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == schema,
        "set UPDATE_SCHEMA=1 to write {path} anew; a field that changed its meaning or went needs a new FORMAT"
    );
}

#[test]
fn the_schema_describes_every_field() {
    fn add_undescribed(schema: &Value, missing: &mut Vec<String>) {
        if let Some(fields) = schema["properties"].as_object() {
            // The description of an answer is beside its only field.
            let is_answer = schema["description"].is_string() && fields.len() == 1;
            let fields = fields.iter().filter(|_| !is_answer);
            let undescribed = fields.filter(|(_, field)| !field["description"].is_string());
            missing.extend(undescribed.map(|(name, _)| name.clone()));
        }
        match schema {
            Value::Object(parts) => parts
                .values()
                .for_each(|part| add_undescribed(part, missing)),
            Value::Array(parts) => parts.iter().for_each(|part| add_undescribed(part, missing)),
            _ => {}
        }
    }
    let schema = schemars::schema_for!(Report).to_value();
    assert!(schema["$defs"]["FailureRate"]["properties"]["upper_one_sided"].is_object());
    let mut missing = Vec::new();
    add_undescribed(&schema, &mut missing);
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_page_about_reports_names_every_column() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.md")).unwrap();
    let classes = [
        "other",
        "void",
        "capture",
        "held",
        "alone",
        "after_decision",
        "waiting",
    ];
    let mut names = super::csv::COLUMNS.into_iter().chain(classes);
    let missing = names.find(|name| !page.contains(&format!("`{name}`")));
    assert_eq!(missing, None);
}
