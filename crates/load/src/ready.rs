//! Waits until the service is ready, and checks that no other process responds.

use super::probe::Probe;
use super::target::Target;
use provoke_model::{LoadPlan, ReadyCondition, ServiceOwner};
use provoke_sys::{engine, process, sockets};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Initial and later pause between two tries.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// Time after which a service takes long to become ready.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// What a trial waits for until its service is ready.
#[derive(Clone, Debug)]
pub struct ReadyWait {
    /// What must happen: `127.0.0.1:8080 to accept connections`.
    condition: String,
    started: Instant,
    limit: Duration,
}

impl ReadyWait {
    pub(super) fn new(
        ready: &ReadyCondition,
        target: &Target,
        started: Instant,
        limit: Duration,
    ) -> Self {
        let condition = match ready {
            ReadyCondition::Connects => format!("{} to accept connections", target.display_name()),
            ReadyCondition::Http { status: None, path } => {
                format!("{} to answer `{path}`", target.display_name())
            }
            ReadyCondition::Http {
                status: Some(status),
                path,
            } => format!(
                "{} to answer `{path}` with status {status}",
                target.display_name()
            ),
            ReadyCondition::Log(pattern) => {
                format!("a line of its output that matches `{pattern}`")
            }
            ReadyCondition::After(_) => "the time of --ready".to_owned(),
        };
        Self {
            condition,
            started,
            limit,
        }
    }

    pub(super) fn is_long(&self) -> bool {
        self.started.elapsed() >= LONG_WAIT
    }

    /// Describes how long the trial has waited, and for what.
    pub fn describe_progress(&self) -> String {
        format!(
            "waiting for {}: {} s of {} s (--ready-limit)",
            self.condition,
            self.started.elapsed().as_secs(),
            self.limit.as_secs_f64()
        )
    }
}

/// Waits until the service is ready. Returns the missing condition if that takes too long or cannot
/// happen.
pub(super) async fn wait_until_ready(
    ready: &ReadyCondition,
    wait: &ReadyWait,
    probe: &Probe,
    has_said: &mut watch::Receiver<bool>,
) -> Result<(), String> {
    let ReadyWait {
        condition,
        started,
        limit,
    } = wait;
    let (started, limit) = (*started, *limit);
    let mut last = String::new();
    let checks = async {
        let mut pause = FIRST_PAUSE;
        loop {
            let attempt = match ready {
                ReadyCondition::Connects => probe.connect_only().await,
                ReadyCondition::Http { status, path } => match (probe.ask_status().await, status) {
                    (Ok(status), Some(expected)) if status != *expected => {
                        Err(format!("`{path}` returned {status}, expected {expected}").into())
                    }
                    (Ok(status), None) if status >= 500 => {
                        Err(format!("`{path}` returned {status}").into())
                    }
                    (response, _) => response.map(|_| ()),
                },
                ReadyCondition::Log(text) => {
                    if has_said.wait_for(|is_given| *is_given).await.is_err() {
                        last = format!("no line of its output matches `{text}`");
                        std::future::pending::<()>().await;
                    }
                    Ok(())
                }
                ReadyCondition::After(time) => {
                    tokio::time::sleep_until((started + *time).into()).await;
                    Ok(())
                }
            };
            match attempt {
                Ok(()) => return Ok(()),
                Err(silence) if silence.lasts => return Err(silence.why),
                Err(silence) => last = silence.why,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    if let Ok(result) = tokio::time::timeout_at((started + limit).into(), checks).await {
        return result;
    }
    let last = match ready {
        // The condition says the same.
        ReadyCondition::Log(_) => String::new(),
        _ if last.is_empty() => ": no answer".to_owned(),
        _ => format!(": {last}"),
    };
    Err(format!(
        "not ready within {limit:?} (--ready-limit), waiting for {condition}{last}"
    ))
}

/// Returns the listening sockets of a target.
fn listening_sockets(target: &Target) -> BTreeSet<u64> {
    match &target.unix {
        Some(path) => sockets::listeners_at_path(path),
        None => {
            let addresses = target.resolve_addresses().unwrap_or_default();
            addresses
                .into_iter()
                .flat_map(sockets::listening_sockets)
                .collect()
        }
    }
}

/// Names a process that listens at a target and does not belong to the service.
///
/// A service in a container may listen itself or through its engine, so every process of a
/// container or an engine is accepted: the caller has checked that no process listened before the
/// trial.
pub(super) fn name_stranger(target: &Target, service: &[i32], contained: bool) -> Option<String> {
    let holders = sockets::holder_pids(&listening_sockets(target));
    let mut strangers = holders
        .iter()
        .filter(|pid| !sockets::belongs_to(**pid, service))
        .filter(|pid| !(contained && engine::is_of_container(**pid)));
    let name = describe_process(*strangers.next()?);
    Some(format!(
        "{name} listens on {} and does not belong to the service",
        target.display_name()
    ))
}

/// Returns the process that listens at a target; of several processes, their common ancestor.
pub(super) fn find_owner(target: &Target) -> Option<i32> {
    let holders = sockets::holder_pids(&listening_sockets(target));
    let first = |pid: &&i32| {
        let other_pids: Vec<i32> = holders
            .iter()
            .copied()
            .filter(|other_pid| other_pid != *pid)
            .collect();
        !sockets::belongs_to(**pid, &other_pids)
    };
    holders.iter().find(first).or(holders.first()).copied()
}

/// Names the process that responds at a target before the service is started.
pub(super) async fn describe_listener(
    load: &LoadPlan,
    target: &Target,
    probe: &Probe,
) -> Option<String> {
    if load.owner != ServiceOwner::Provoke {
        return None; // the running service is the one to test
    }
    let listeners = listening_sockets(target);
    if listeners.is_empty() && probe.connect_only().await.is_err() {
        return None;
    }
    // The process may have workers; the first holder is usually the oldest.
    let holders = sockets::holder_pids(&listeners);
    let name = holders.first().map_or_else(
        || String::from("a process that provoke cannot see"),
        |pid| describe_process(*pid),
    );
    Some(format!(
        "{} is already in use by {name}",
        target.display_name()
    ))
}

/// Describes a process.
fn describe_process(pid: i32) -> String {
    let Some(detail) = process::process_detail(pid) else {
        return format!("process {pid}");
    };
    let words: Vec<_> = detail
        .command
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    if words.is_empty() {
        return format!("process {pid} ({})", detail.name);
    }
    format!("process {pid} (`{}`)", words.join(" "))
}
