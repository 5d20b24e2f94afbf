//! Random observations of simulated trials, and random events around them: what processes wrote and left behind, the tests
//! of a suite, the requests of clients, hosts, warnings, and hung trials.

use provoke_model::{
    ActorObservation, CaseEnd, CaseFailure, CaseFailures, CaseName, CaseRecord, CoreObservation,
    CrashedProcess, Ending, Event, EvidenceDepth, FailedHook, FailureKind, Frame, Hang, Host,
    HostId, HostPlan, HungThread, InconclusiveReason, JoinedHost, KernelLine, Latencies,
    LoadObservation, LoadStage, NoteLevel, NumberList, Observation, Outcome, ProcessObservation,
    RequestPhase, RequestResult, RequestsAtFailure, Signal, Signature, SignatureId, SlotId, Survey,
    TotalUsage, Trial, TrialId, TrialPurpose, TrialsPlan, WaitObject,
};
use provoke_report::story::RequestInFlight;
use provoke_state::State;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::answered::crash;
use crate::atlas::Choices;

const CASES: [(&str, &str); 6] = [
    ("shop", "test_order"),
    ("shop", "test_total[1]"),
    ("shop", "test_total[2]"),
    ("shop", "test_flaky"),
    ("", "test_<b>&"),
    ("shop", "test_last"),
];

/// Signature of a test that crashed, without its stack.
const CRASH_OF_TEST: SignatureId = SignatureId(78);

/// Returns the event that names all cases.
pub(crate) fn name_cases() -> Event {
    let names = CASES.map(|(suite, name)| CaseName {
        suite: suite.to_owned(),
        name: name.to_owned(),
    });
    Event::CasesNamed(names.to_vec())
}

/// Returns the failure of a case.
fn case_failures(signature: Signature, number: u32) -> CaseFailures {
    CaseFailures {
        signature_id: signature.id,
        signature: Some(Box::new(signature)),
        cases: NumberList::encode(&[number]),
        failure: Some(Box::new(CaseFailure {
            kind: "AssertionError".to_owned(),
            message: "the order is empty".to_owned(),
            ..CaseFailure::default()
        })),
    }
}

/// Returns the record of a trial in which the first case ended as the trial, and all others passed.
pub(crate) fn cases_of(outcome: &Outcome) -> CaseRecord {
    let failure = outcome.any_failure();
    let mut ends = vec![Some(CaseEnd::Passed); CASES.len()];
    if failure.is_some() {
        ends[0] = Some(CaseEnd::Failed);
    }
    CaseRecord {
        ends: CaseRecord::encode_ends(&ends),
        failures: (failure.iter())
            .map(|failure| case_failures(failure.signature.clone(), 0))
            .collect(),
        ..CaseRecord::default()
    }
}

/// What random observations of a run contain.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Surroundings {
    processes: bool,
    leftovers: bool,
    failing_case: usize,
    order_matters: bool,
    rising: bool,
    slow_requests: bool,
    trouble: Option<RequestResult>,
}

impl Surroundings {
    pub(crate) fn choose(choices: &mut Choices) -> Self {
        let trouble = match choices.below(8) {
            0 => Some(RequestResult::Status(503)),
            1 => Some(RequestResult::Status(500)),
            2 => Some(RequestResult::Refused),
            3 => Some(RequestResult::Timeout(RequestPhase::Head)),
            4 => Some(RequestResult::Local(24)),
            5 => Some(RequestResult::Check("json /ok".to_owned())),
            _ => None,
        };
        Self {
            processes: choices.below(4) > 0,
            leftovers: choices.below(3) == 0,
            failing_case: choices.count(0, CASES.len() - 1),
            order_matters: choices.below(2) == 0,
            rising: choices.below(3) == 0,
            slow_requests: choices.below(2) == 0,
            trouble,
        }
    }

    /// Adds observations to a trial.
    pub(crate) fn observe(
        &self,
        plan: &TrialsPlan,
        (trial, clients): (TrialId, Option<u32>),
        outcome: &Outcome,
        seen: &mut Observation,
        choices: &mut Choices,
    ) {
        seen.elapsed += Duration::from_micros(trial.0 * 500 % 5000);
        if self.processes {
            seen.actors = vec![self.process(trial, outcome, choices)];
            seen.around = (choices.below(2) == 0).then(|| self.usage(trial));
            Self::add_evidence(outcome, seen, choices);
        }
        if self.leftovers && choices.below(6) == 0 {
            leave_behind(seen, choices);
        }
        if plan.cases.is_some() {
            seen.case_record = Some(Box::new(self.cases(trial, outcome, choices)));
        }
        if let Some(load) = &plan.load {
            let kinds = load.requests.len() as u64;
            seen.load = Some(Box::new(self.load(
                (trial, clients),
                kinds,
                outcome,
                choices,
            )));
        }
        if *outcome == Outcome::Inconclusive(InconclusiveReason::Lost) {
            seen.lost = Some("its slot was lost".to_owned());
        }
        if *outcome == Outcome::Inconclusive(InconclusiveReason::Unprepared) {
            seen.prepare = Some(FailedHook {
                ending: Ending::Exited(1),
                output: "no space left".to_owned(),
            });
        }
    }

    fn usage(&self, trial: TrialId) -> TotalUsage {
        let grown = if self.rising { trial.0 } else { trial.0 % 3 };
        TotalUsage {
            rss_kib: 20_000 + 100 * grown,
            processes: 1 + u64::from(self.rising && trial.0 > 10),
            threads: 8,
            descriptors: 13 + grown,
        }
    }

    fn process(
        &self,
        trial: TrialId,
        outcome: &Outcome,
        choices: &mut Choices,
    ) -> ActorObservation {
        let (ending, last_words) = match outcome {
            Outcome::Pass => (Ending::Exited(0), ""),
            Outcome::Fail(failure) | Outcome::Other(failure) => match failure.kind {
                FailureKind::Signal { signal, .. } => {
                    (Ending::Signaled(signal, true), "free(): invalid pointer")
                }
                FailureKind::Hang { .. } | FailureKind::Slow => {
                    let (state, killed) = ('S', choices.below(2) == 0);
                    (Ending::TimedOut { state, killed }, "waiting for a lock")
                }
                FailureKind::Exit { code } => (Ending::Exited(code), "assertion failed: <b>&"),
                _ => (Ending::Exited(0), "its output"),
            },
            Outcome::Inconclusive(InconclusiveReason::NotStarted) => {
                (Ending::NotStarted("no such file".to_owned()), "")
            }
            Outcome::Inconclusive(InconclusiveReason::NotReady) => {
                (Ending::Exited(1), "cannot bind")
            }
            Outcome::Inconclusive(_) => (Ending::Exited(125), "no device"),
        };
        let grown = if self.rising { trial.0 } else { 0 };
        let elapsed = Duration::from_millis(20 + choices.below(10) + grown);
        ActorObservation {
            pid: 100,
            ending,
            elapsed,
            cpu: elapsed / 2,
            max_rss: 2000 + choices.below(100) + 10 * grown,
            written: (choices.below(3), 10),
            crash_message: (choices.below(3) == 0 && !last_words.is_empty())
                .then(|| "terminate called without an active exception".to_owned()),
            last_words: last_words.to_owned(),
            ..ActorObservation::default()
        }
    }

    fn add_evidence(outcome: &Outcome, seen: &mut Observation, choices: &mut Choices) {
        let Some(failure) = outcome.any_failure() else {
            return;
        };
        match failure.kind {
            FailureKind::Signal { signal, .. } => {
                if choices.below(2) == 0 {
                    seen.kernel.push(KernelLine {
                        pid: 100,
                        text: "parse[100]: segfault at 18 ip 0000000000001145 sp 00007ffe error 4"
                            .to_owned(),
                        function: None,
                    });
                }
                if choices.below(3) == 0 {
                    seen.crashed_children.push(CrashedProcess {
                        pid: 101,
                        program: "worker".to_owned(),
                        signal: Some(signal),
                        core: false,
                    });
                }
                seen.oom_kills_on_host = (signal == Signal::KILL).then_some(1);
            }
            FailureKind::Hang { .. } => seen.hang = Some(hang(choices)),
            FailureKind::Oom { .. } => seen.oom_kills = Some(1),
            FailureKind::Leak => leave_behind(seen, choices),
            FailureKind::Output => seen.matched.push((0, "ERROR: lost <b>&".to_owned())),
            _ => {}
        }
        seen.refused_forks = choices.one_of(&[0, 0, 0, 3]);
    }

    fn cases(&self, trial: TrialId, outcome: &Outcome, choices: &mut Choices) -> CaseRecord {
        let fails = outcome.any_failure().is_some();
        let mut ends = vec![Some(CaseEnd::Passed); CASES.len()];
        ends[4] = choices.one_of(&[
            Some(CaseEnd::Passed),
            Some(CaseEnd::Skipped),
            None,
            Some(CaseEnd::NotRun),
        ]);
        let end = choices.one_of(&[
            CaseEnd::Failed,
            CaseEnd::Failed,
            CaseEnd::Error,
            CaseEnd::TimedOut,
            CaseEnd::Crashed,
        ]);
        let mut failures = Vec::new();
        if fails {
            ends[self.failing_case] = Some(end);
            let number = u32::try_from(self.failing_case).unwrap();
            let (signature_id, depth, title) = match end {
                CaseEnd::Crashed => (CRASH_OF_TEST, EvidenceDepth::Kernel, "SIGSEGV in sum"),
                _ => (
                    SignatureId(77),
                    EvidenceDepth::Output,
                    "AssertionError: the order is empty",
                ),
            };
            let signature = Signature {
                id: signature_id,
                title: title.to_owned(),
                depth,
                also: Vec::new(),
                placed: false,
                family: None,
                families: Vec::new(),
            };
            failures.push(case_failures(signature, number));
        }
        let first = if fails { self.failing_case } else { 0 };
        let mut order: Vec<u32> = (0..6).collect();
        if self.order_matters {
            order.swap(0, first);
        } else {
            order.rotate_left(usize::try_from(trial.0 % 6).unwrap());
        }
        let times = (1..=6).map(|number| Duration::from_millis(number * (1 + choices.below(3))));
        CaseRecord {
            ends: CaseRecord::encode_ends(&ends),
            orders: vec![NumberList::encode(&order)],
            durations: CaseRecord::encode_durations(times),
            failures,
            retried: NumberList::encode(choices.one_of(&[&[], &[], &[3_u32]])),
            complaints: choices
                .one_of(&[None, None, None, Some("a test has no name")])
                .map(str::to_owned)
                .into_iter()
                .collect(),
        }
    }

    fn load(
        &self,
        (trial, clients): (TrialId, Option<u32>),
        kinds: u64,
        outcome: &Outcome,
        choices: &mut Choices,
    ) -> LoadObservation {
        let failed = outcome.any_failure();
        let not_ready = *outcome == Outcome::Inconclusive(InconclusiveReason::NotReady);
        let sent = 400 + choices.below(100);
        let served = if failed.is_some() { sent / 2 } else { sent };
        // A service that refuses requests refuses most of them from 5 clients on.
        let is_overloaded = clients.is_some_and(|clients| clients >= 5);
        let bad = if is_overloaded || choices.below(3) == 0 {
            served * 3 / 4
        } else {
            served / 20
        };
        let mut load = LoadObservation {
            stage: LoadStage::Over,
            clients: clients.unwrap_or(8),
            ready: Duration::from_millis(40),
            elapsed: Duration::from_millis(600 + choices.below(100)),
            sent,
            served,
            warmed: choices.one_of(&[0, 20]),
            bytes: served * 100,
            connections: 8,
            kinds: (0..kinds).map(|kind| sent / (kind + 1)).collect(),
            at_random: (0..kinds).map(|kind| kind % 3).collect(),
            overflows: choices.one_of(&[0, 0, 5]),
            queue: choices.one_of(&[0, 9]),
            latency: Latencies(vec![(120, served / 2), (400, served / 3), (90_000, 1)]),
            sizes: vec![(0, self.usage(TrialId(0))), (500, self.usage(trial))],
            ..LoadObservation::default()
        };
        if self.slow_requests {
            load.late = Latencies(vec![(9_000, served / 2)]);
            load.from_send = Latencies(vec![(100, served)]);
        }
        load.ends.insert(RequestResult::Ok, served);
        if let Some(trouble) = &self.trouble {
            load.ends.insert(RequestResult::Ok, served - bad);
            load.ends.insert(trouble.clone(), bad);
        }
        if not_ready {
            load.stage = LoadStage::Starting;
            load.trouble = choices
                .one_of(&[None, Some("it did not accept connections in time")])
                .map(str::to_owned);
        }
        if let Some(failure) = failed {
            load.ends.insert(RequestResult::Died, 4);
            load.ends.insert(RequestResult::Unreached, 3);
            load.stage = LoadStage::Loading;
            load.death = Some(RequestsAtFailure {
                hung: matches!(failure.kind, FailureKind::Hang { .. }),
                stopped: matches!(failure.kind, FailureKind::Hang { stopped: true }),
                in_flight: 4,
                answering: choices.below(3),
                kinds: (0..kinds)
                    .map(|kind| if kind == 0 { 3 } else { kind % 2 })
                    .collect(),
                ages_us: Some([100, 12_000]),
                answered_after: choices.one_of(&[0, 7]),
            });
        }
        load
    }
}

fn leave_behind(seen: &mut Observation, choices: &mut Choices) {
    let process = ProcessObservation {
        pid: 120,
        ppid: 1,
        session: 120,
        state: 'S',
        age: Duration::from_secs(3),
        rss_kib: 1200,
        threads: 1,
        command: vec!["sleep".into(), "60".into()],
        waiting: "nanosleep".to_owned(),
        ..ProcessObservation::default()
    };
    seen.residue.leaked = vec![process.clone(); choices.count(0, 4)];
    if choices.below(4) == 0 {
        seen.residue.unkillable.push(process);
        seen.residue.unlisted = 2;
    }
    if choices.below(2) == 0 {
        let object = |sort: &str| BTreeMap::from([("sort".to_owned(), sort.to_owned())]);
        seen.residue.objects = ["container", "volume"].map(object).to_vec();
    }
    seen.residue.ended_in_grace = Duration::from_millis(choices.one_of(&[0, 0, 300]));
}

/// Returns the threads of a hung process.
pub(crate) fn hang(choices: &mut Choices) -> Hang {
    let cycles = choices.below(2) == 0;
    let states: &[char] = if choices.below(6) == 0 {
        &['T']
    } else {
        &['S', 'S', 'R', 'D', 'T', 'Z', 'I']
    };
    let mut thread = |tid, other, function: &str| HungThread {
        pid: 100,
        tid,
        name: "parse".to_owned(),
        state: choices.one_of(states),
        call: "futex".to_owned(),
        waits_on: Some(WaitObject::Mutex),
        waits_for: cycles.then_some(other),
        lock_at: Some(0x4040),
        lock: Some("audit".to_owned()),
        frames: vec![Frame {
            offset: 0x1145,
            module: Some("parse".to_owned()),
            function: Some(function.to_owned()),
            line: Some(("/src/parse.c".to_owned(), 20)),
            ..Frame::default()
        }],
        calls: (0..choices.one_of(&[0, 2, 9]))
            .map(|line| Frame {
                function: Some("poll".to_owned()),
                line: Some(("/src/job.py".to_owned(), line)),
                ..Frame::default()
            })
            .collect(),
        ..HungThread::default()
    };
    Hang {
        threads: vec![
            thread(100, 101, "lock_audit"),
            thread(101, 100, "lock_pool"),
        ],
        unlisted: if cycles { 0 } else { 3 },
        cycle: if cycles { vec![100, 101] } else { Vec::new() },
        cores: vec![CoreObservation {
            pid: 100,
            unread: (!cycles).then(|| "it is not complete <b>&".to_owned()),
            ..CoreObservation::default()
        }],
        ended_before: Duration::from_secs(choices.one_of(&[0, 60])),
        programs: vec![(100, "parse".to_owned())],
        ..Hang::default()
    }
}

/// Returns what a trial observed that was stopped with the run.
pub(crate) fn interrupted(plan: &TrialsPlan, choices: &mut Choices) -> Observation {
    let mut seen = Observation {
        elapsed: Duration::from_secs(30 + choices.below(90)),
        interrupted: true,
        ..Observation::default()
    };
    if choices.below(2) == 0 {
        seen.hang = Some(hang(choices));
    }
    if plan.load.is_some() {
        let stage = choices.one_of(&[LoadStage::Starting, LoadStage::Loading]);
        seen.load = Some(Box::new(LoadObservation {
            stage,
            trouble: (stage == LoadStage::Starting)
                .then(|| "it did not accept connections yet".to_owned()),
            elapsed: Duration::from_secs(20),
            silent: Duration::from_secs(choices.one_of(&[0, 9])),
            ..LoadObservation::default()
        }));
    }
    seen
}

/// Returns trials after the measurement of a run that capture the evidence of its failures: the same crash, or another.
pub(crate) fn captures(state: &State, choices: &mut Choices) -> Vec<Event> {
    let failed = state.all_tallies().find(|(_, tally)| tally.failures > 0);
    let Some((variant, _)) = failed else {
        return Vec::new();
    };
    let of_test = state.trials.cases.as_ref();
    let weaker = of_test.map(|_| (EvidenceDepth::Kernel, CRASH_OF_TEST));
    let at = Duration::ZERO;
    let mut events = vec![Event::CaptureStarted { at }];
    for number in 0..choices.count(1, 3) {
        let mut failure = crash();
        if choices.below(2) == 0 {
            failure.signature.id = SignatureId(90);
            "SIGSEGV in <b>& free".clone_into(&mut failure.signature.title);
        }
        failure.signature.also.extend(weaker);
        let id = TrialId(state.next_id().0 + u64::try_from(number).unwrap());
        events.push(Event::TrialStarted(Trial {
            id,
            variant,
            slot: SlotId(0),
            seed: 0,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::CaptureEvidence,
            hold: None,
        }));
        events.push(Event::TrialFinished {
            trial: id,
            at,
            seen: Box::default(),
            outcome: Outcome::Fail(Box::new(failure)),
        });
    }
    events
}

/// Returns facts in which the variants of a plan differ.
pub(crate) fn facts_of_variants(plan: &TrialsPlan) -> Survey {
    let mut survey = Survey::default();
    for (number, variant) in plan.variants.iter().enumerate() {
        let (flags, version) = if number % 2 == 0 {
            ("sse2 avx2", "2.1 <b>&")
        } else {
            ("sse2", "2.0")
        };
        let name = &variant.name;
        survey.set_fact(format!("cpu[{name}].flags"), flags);
        survey.set_fact(format!("program[{name}].path"), "/src/parse");
        survey.set_fact(format!("library[{name}].libparse.so"), version);
    }
    survey
}

/// Returns requests in flight at the end of a service.
pub(crate) fn requests_in_flight() -> Vec<RequestInFlight> {
    let parts = ["connect", "write", "head", "body"].repeat(5);
    let request = |(client, part): (u64, &str)| RequestInFlight {
        request: "GET /a?<b>&".to_owned(),
        client,
        age: 2.5 / provoke_stats::real(client),
        part: part.to_owned(),
        received: 100 * client,
    };
    (1..).zip(parts).map(request).collect()
}

/// Returns a machine, with facts that differ between machines.
pub(crate) fn machine(number: u32) -> (Host, Survey) {
    let mut survey = Survey::default();
    survey.set_fact(
        "cpu.flags",
        if number.is_multiple_of(2) {
            "sse2 avx2"
        } else {
            "sse2"
        },
    );
    survey.set_fact("kernel.core_pattern", "core");
    survey.set_fact("libc", "Debian GLIBC 2.36");
    let host = Host {
        name: format!("node{number}"),
        kernel: "Linux 6.1.0".to_owned(),
        arch: "x86_64".to_owned(),
        cpu: "Example CPU".to_owned(),
        cpus: 4,
        memory: 8 << 30,
    };
    (host, survey)
}

/// Adds the events of hosts, tests and warnings to those of a run.
pub(crate) fn add_events(
    plan: &TrialsPlan,
    events: Vec<Event>,
    choices: &mut Choices,
) -> Vec<Event> {
    let mut added = Vec::new();
    let at = Duration::ZERO;
    let hosts = plan.hosts.as_ref().map_or(0, HostPlan::count);
    for number in 0..hosts {
        let (host, survey) = machine(number);
        let name = host.name.clone();
        if number > 0 && choices.below(6) == 0 {
            let why = "no route to host".to_owned();
            added.push(Event::HostMissing { name, why, at });
            continue;
        }
        added.push(Event::HostJoined {
            joined: Box::new(JoinedHost {
                destination: name,
                machine: host,
                survey,
                first_slot: SlotId(number * 2),
                slots: 2,
            }),
            at,
        });
    }
    if plan.cases.is_some() {
        added.push(name_cases());
    }
    let joined = added
        .iter()
        .filter(|event| matches!(event, Event::HostJoined { .. }));
    let joined = u32::try_from(joined.count()).unwrap();
    let lost_after = choices.one_of(&[None, None, Some(4), Some(20)]);
    let warned_after = choices.one_of(&[None, Some(2), Some(9)]);
    let mut events = events.into_iter();
    let first = events.next();
    let rest = events.enumerate().flat_map(|(index, mut event)| {
        if let Event::TrialStarted(trial) = &mut event
            && hosts > 0
        {
            trial.slot = SlotId(u32::try_from(trial.id.0).unwrap() % (hosts * 2));
        }
        let mut group = vec![event];
        if Some(index) == lost_after && joined > 1 {
            group.push(Event::HostLost {
                host: HostId(joined - 1),
                why: "the connection was closed".to_owned(),
                at,
            });
        }
        if warned_after.is_some_and(|every| index % every == every - 1 && index < 30) {
            let level = if index % 2 == 0 {
                NoteLevel::Warning
            } else {
                NoteLevel::Info
            };
            let text = format!("the disk is almost full <b>& ({})", index / 10);
            group.push(Event::Note { level, text });
        }
        group
    });
    let rest: Vec<Event> = rest.collect();
    first.into_iter().chain(added).chain(rest).collect()
}
