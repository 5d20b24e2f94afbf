//! Trials on simulated hosts, half of which have a processor without AVX2.

use provoke_exec::{Executor, ExecutorFuture, HostChange, StopUrgency};
use provoke_model::{
    Event, Host, HostId, InconclusiveReason, JoinedHost, Observation, Outcome, SlotId, Survey,
    Trial, TrialId, TrialPurpose, VariantId,
};
use provoke_questions as questions;
use provoke_report::Report;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::answered::RecordedRun;
use crate::answers::failure;
use crate::loop_and_fold::{begin, plan, run_with};

/// Runs trials on this number of hosts in turn; those on the hosts without AVX2 fail.
pub(crate) fn run_on_hosts(hosts: u32, trials: u64) -> RecordedRun {
    let names: Vec<String> = (1..=hosts).map(|host| format!("node{host}")).collect();
    let settings = format!("on = 'ssh:{}'\nruns = {trials}", names.join(","));
    let mut run = RecordedRun::begin(plan(&settings));
    let at = Duration::ZERO;
    for (slot, name) in (0..).map(SlotId).zip(names) {
        let has_avx2 = slot.0.is_multiple_of(2);
        let mut survey = Survey::default();
        let flags = if has_avx2 { "sse2 avx2 bmi2" } else { "sse2" };
        survey.set_fact("cpu.flags", flags);
        let joined = JoinedHost {
            destination: name,
            machine: Host::default(),
            survey,
            first_slot: slot,
            slots: 1,
        };
        let joined = Box::new(joined);
        run.apply(Event::HostJoined { joined, at });
    }
    for trial in 1..=trials {
        let id = TrialId(trial);
        let slot = SlotId(u32::try_from(trial).unwrap() % hosts);
        run.apply(Event::TrialStarted(Trial {
            id,
            variant: VariantId(0),
            slot,
            seed: 0,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        }));
        let outcome = if slot.0.is_multiple_of(2) {
            Outcome::Pass
        } else {
            Outcome::Fail(Box::new(failure(132)))
        };
        run.apply(Event::TrialFinished {
            trial: id,
            at,
            seen: Box::new(Observation {
                elapsed: Duration::from_millis(6),
                ..Observation::default()
            }),
            outcome,
        });
    }
    let why = "the connection was closed".to_owned();
    let host = HostId(0);
    run.apply(Event::HostLost { host, why, at });
    run.apply(Event::RunFinished { at });
    run
}

#[test]
fn the_facts_of_failing_hosts_are_named_with_an_honest_p_value() {
    for (hosts, p_value) in [(4, 1.0 / 3.0), (8, 2.0 / 70.0)] {
        let report = run_on_hosts(hosts, 80).report();
        let difference = report.host_difference.unwrap();
        let names: Vec<&str> = difference.facts.iter().map(|fact| &*fact.name).collect();
        assert_eq!(names, ["avx2", "bmi2"], "{hosts} hosts");
        assert!(
            (difference.p_value - p_value).abs() < 1e-12,
            "{difference:?}"
        );
        assert!((difference.smallest_p_value - p_value).abs() < 1e-12);
        assert_eq!(difference.hosts_needed, Some(8));
        let half = u64::from(hosts) / 2;
        assert_eq!(
            (difference.failing.hosts, difference.failing.failures),
            (half, 40)
        );
        assert_eq!(
            (difference.others.hosts, difference.others.failures),
            (half, 0)
        );
    }
}

#[test]
fn the_trials_of_a_host_that_joins_again_are_added() {
    let mut state = run_on_hosts(2, 10).state;
    let joined = state.hosts.all()[0].joined.clone();
    let at = Duration::ZERO;
    let joined = Box::new(joined);
    state.apply_event(&Event::HostJoined { joined, at }, questions::is_done);
    let report = Report::new(&state, true);
    let hosts: Vec<_> = report
        .hosts
        .iter()
        .map(|host| (&*host.name, host.trials))
        .collect();
    assert_eq!(hosts, [("node1", 5), ("node2", 5)]);
    assert_eq!(report.hosts[0].lost, None);
}

#[test]
fn no_host_is_up_after_an_interruption_until_hosts_join_again() {
    let mut state = run_on_hosts(2, 10).state;
    assert_eq!(state.hosts.up().count(), 1);
    state.apply_event(&Event::RunResumed { at: 0 }, questions::is_done);
    assert_eq!(state.hosts.up().count(), 0);
    assert_eq!(state.hosts.of_slot(SlotId(1)), None);
}

#[test]
fn a_variant_that_loses_its_hosts_more_often_is_reported() {
    let names: Vec<String> = (0..8).map(|host| format!("node{host}")).collect();
    let settings = format!(
        "on = 'ssh:{}'\nruns = 30\nask = 'compare'\n[matrix]\nmode = ['x', 'y']\n",
        names.join(",")
    );
    let (_, mut state) = begin(plan(&settings));
    let mut apply = |event: &Event| state.apply_event(event, |_| false);
    let at = Duration::ZERO;
    for (slot, name) in (0..).map(SlotId).zip(&names) {
        let joined = Box::new(JoinedHost {
            destination: name.clone(),
            machine: Host::default(),
            survey: Survey::default(),
            first_slot: slot,
            slots: 1,
        });
        apply(&Event::HostJoined { joined, at });
    }
    let start = |id: u64, slot: u32, apply: &mut dyn FnMut(&Event)| {
        apply(&Event::TrialStarted(Trial {
            id: TrialId(id),
            variant: VariantId(u32::try_from(id % 2).unwrap()),
            slot: SlotId(slot),
            seed: 0,
            timeout: Duration::from_secs(1),
            purpose: TrialPurpose::Measure,
            hold: None,
        }));
    };
    let finish = |id: u64, lost: bool, apply: &mut dyn FnMut(&Event)| {
        let outcome = if lost {
            Outcome::Inconclusive(InconclusiveReason::Lost)
        } else {
            Outcome::Pass
        };
        apply(&Event::TrialFinished {
            trial: TrialId(id),
            at,
            seen: Box::new(Observation::default()),
            outcome,
        });
    };
    for id in 1..=20 {
        start(id, 0, &mut apply);
        finish(id, false, &mut apply);
    }
    // Seven hosts are lost during trials of the second variant; one trial loses two of them.
    let losing_trials = [21, 21, 23, 25, 27, 29, 31];
    for (id, slot) in losing_trials.into_iter().zip(1..) {
        start(id, slot, &mut apply);
        let why = "the connection was closed".to_owned();
        let host = HostId(slot);
        apply(&Event::HostLost { host, why, at });
        finish(id, true, &mut apply);
    }
    let report = Report::new(&state, true);
    let [losses] = &report.host_losses[..] else {
        panic!("{:?}", report.host_losses);
    };
    assert_eq!((losses.lost, losses.attempts), (7, 17));
    assert_eq!((losses.others_lost, losses.others_attempts), (0, 10));
    insta::assert_snapshot!(losses.text(), @"Hosts were lost more often during trials of `mode=y`: in 7 of 17 attempts, and in 0 of 10 of the others: p = 0.026");
}

/// A host that ends its trials only when they must be killed.
#[derive(Clone, Default)]
struct UnresponsiveHost {
    changes: Arc<Mutex<Option<mpsc::UnboundedReceiver<HostChange>>>>,
    /// Time from the start of a trial to this order.
    killed_after: Arc<Mutex<Vec<Duration>>>,
}

impl Executor for UnresponsiveHost {
    fn run_trial(
        &self,
        _: Trial,
        mut halt: watch::Receiver<StopUrgency>,
    ) -> ExecutorFuture<Observation> {
        let killed_after = Arc::clone(&self.killed_after);
        Box::pin(async move {
            let started_at = Instant::now();
            let _ = halt.wait_for(|level| *level == StopUrgency::Now).await;
            killed_after.lock().unwrap().push(started_at.elapsed());
            Observation {
                interrupted: true,
                ..Observation::default()
            }
        })
    }

    fn keep_output(&self, _: SlotId, _: PathBuf, _: bool) -> ExecutorFuture<()> {
        Box::pin(std::future::ready(()))
    }

    fn host_changes(&self) -> Option<mpsc::UnboundedReceiver<HostChange>> {
        self.changes.lock().unwrap().take()
    }
}

#[test]
fn trials_on_hosts_are_killed_some_time_after_a_signal() {
    let settings = "on = 'ssh:node1'\nruns = 5\ntimeout = '1h'\ngrace = '6s'";
    let (_, mut state) = begin(plan(settings));
    let (sender, changes) = mpsc::unbounded_channel();
    let joined = JoinedHost {
        destination: "node1".to_owned(),
        machine: Host::default(),
        survey: Survey::default(),
        first_slot: SlotId(0),
        slots: 1,
    };
    let joined = HostChange::Joined(Box::new(joined));
    assert!(sender.send(joined).is_ok());
    let host = UnresponsiveHost::default();
    *host.changes.lock().unwrap() = Some(changes);
    let interrupt_after = Duration::from_secs(60);
    run_with(&mut state, Arc::new(host.clone()), Some(interrupt_after));
    // Both grace periods, and ten seconds.
    let expected = interrupt_after + Duration::from_secs(6 + 2 + 10);
    assert_eq!(*host.killed_after.lock().unwrap(), [expected]);
}
