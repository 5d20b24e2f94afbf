//! Reads from the kernel which processes of a trial crashed, even if their parents hide it.
//!
//! It has two sources, both invisible to the program: the kernel's events about processes that end,
//! and the kernel log. Without these sources, the ends of orphans are still known, because the slot
//! inherits them.

use provoke_model::{ContainerObservation, CrashedProcess, Ending, KernelLine, Signal};
use provoke_sys::child::WaitStatus;
use provoke_sys::engine;
use provoke_sys::exits::{ExitEvents, ThreadEvent, ThreadEventKind};
use provoke_sys::host;
use provoke_sys::kernel_log::{KernelLog, ProcessLogLine};
use rustix::event::{PollFd, PollFlags, poll};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time limit for the end of a crashed process, which takes longer only if a large core is written.
const PATIENCE: Duration = Duration::from_millis(200);

/// The sources, and their events of the present trial.
pub(super) struct CrashMonitor {
    log: Option<KernelLog>,
    /// `None` if access was denied. Opened on demand, because listening slows down the start and
    /// end of every process on the machine.
    exits: OnceCell<Option<ExitEvents>>,
    /// A trial runs, and provoke has not killed any of its processes.
    listening: bool,
    /// A crash must be reported at once.
    alert: bool,
    /// The trial has containers, so the container of each reported process must be read while the
    /// process exists.
    contained: bool,
    process_containers: BTreeMap<i32, ProcessContainer>,
    /// Ids of the trial's containers.
    containers: Vec<String>,
    /// Events since the start of the trial.
    heard: Vec<ThreadEvent>,
    orphans: Vec<CrashedProcess>,
    account: CrashFindings,
}

/// Container of a reported process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ProcessContainer {
    /// Id of the container.
    container: String,
    /// Pid inside the container.
    inside: Option<i32>,
    /// The process is the first one in the container.
    first: bool,
}

/// Evaluation of the events of a trial.
#[derive(Debug, Default, PartialEq, Eq)]
struct CrashFindings {
    crashed_children: Vec<CrashedProcess>,
    /// Process of each ended thread.
    threads: BTreeMap<i32, i32>,
    /// A process has crashed, but not ended.
    unfinished: bool,
}

impl CrashMonitor {
    pub(super) fn new() -> Self {
        Self {
            log: KernelLog::open_at_end(),
            exits: OnceCell::new(),
            listening: false,
            alert: false,
            contained: false,
            process_containers: BTreeMap::new(),
            containers: Vec::new(),
            heard: Vec::new(),
            orphans: Vec::new(),
            account: CrashFindings::default(),
        }
    }

    /// Starts a trial. Events are only requested if crashes of children count, and read at once
    /// only if a crash ends the trial.
    pub(super) fn begin_trial(&mut self, children: bool, alert: bool, contained: bool) {
        self.alert = children && alert;
        self.contained = contained;
        self.process_containers.clear();
        self.containers.clear();
        self.heard.clear();
        if children || contained {
            self.exits.get_or_init(ExitEvents::open_socket);
        }
        self.orphans.clear();
        self.account = CrashFindings::default();
        // Drop earlier events of hooks or of other slots.
        self.next_events().for_each(drop);
        self.listening = true;
    }

    /// Records the end of an orphan.
    pub(super) fn record_orphan(&mut self, pid: i32, status: WaitStatus) {
        // The tracer learns of the end of a traced process before the parent, which may never reap
        // it.
        if let WaitStatus::Signaled(signal, core) = status
            && self.listening
            && self.orphans.iter().all(|process| process.pid != pid)
        {
            self.orphans
                .push(new_crashed_child(pid, Some(signal), core));
        }
    }

    /// Returns whether provoke has not yet started to end processes of the trial.
    pub(super) fn is_listening(&self) -> bool {
        self.listening
    }

    /// Stops attributing ended processes to the trial, because provoke ends them from now on.
    pub(super) fn stop_listening(&mut self, actors: &[i32]) {
        if !std::mem::take(&mut self.listening) {
            return;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.take_events();
            self.account = account_for_trial(&self.heard, actors, std::process::id().cast_signed());
            let remaining = deadline.saturating_duration_since(Instant::now());
            if !self.account.unfinished || remaining.is_zero() {
                return;
            }
            self.wait_for_events(remaining);
        }
    }

    /// Returns the descriptor that is readable when there are events, if they are needed.
    pub(super) fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        if !self.listening || !(self.alert || self.contained) {
            return None;
        }
        self.exits.get().and_then(Option::as_ref).map(AsFd::as_fd)
    }

    /// Records the containers of reported processes before the processes are gone.
    pub(super) fn note_process_containers(&mut self) {
        if self.contained && self.listening {
            self.take_events();
        }
    }

    /// Reads pending events.
    fn take_events(&mut self) {
        let events: Vec<ThreadEvent> = self.next_events().collect();
        for event in &events {
            if self.contained
                && is_inside(event)
                && self
                    .process_containers
                    .get(&event.pid)
                    .is_none_or(|container| container.inside.is_none())
                && let Some(container) = container_of_thread(event)
            {
                self.process_containers.insert(event.pid, container);
            }
        }
        self.heard.extend(events);
    }

    /// Adds a container of the trial.
    pub(super) fn add_container(&mut self, container: String) {
        self.containers.push(container);
    }

    /// Returns the reported processes of a container: those seen in it, their children, and their
    /// parents, except for monitors outside.
    fn container_members(&self, container: &str) -> BTreeSet<i32> {
        let inside = || self.heard.iter().filter(|event| is_inside(event));
        let process_containers = self
            .process_containers
            .iter()
            .filter(|(_, of_process)| of_process.container == container);
        let mut pids: BTreeSet<i32> = process_containers.map(|(pid, _)| *pid).collect();
        loop {
            let count_before = pids.len();
            let parents: BTreeSet<i32> = inside()
                .filter(|event| pids.contains(&event.pid))
                .map(|event| event.parent)
                .collect();
            let near =
                |event: &&ThreadEvent| pids.contains(&event.parent) || parents.contains(&event.pid);
            let new_pids: Vec<i32> = inside().filter(near).map(|event| event.pid).collect();
            pids.extend(new_pids);
            if pids.len() == count_before {
                return pids;
            }
        }
    }

    /// Adds how the program in a container ended, and the pid of the program.
    pub(super) fn of_container(&self, observation: &mut ContainerObservation, pid: &mut i32) {
        let members = self.container_members(&observation.id);
        let process_containers = self
            .process_containers
            .iter()
            .filter(|(_, of_process)| of_process.container == observation.id);
        let numbers = process_containers
            .clone()
            .filter_map(|(pid, of_process)| Some((of_process.inside?, *pid)));
        observation.numbers = numbers.collect();
        let first_container = process_containers
            .clone()
            .find(|(_, of_process)| of_process.first);
        let mut events = self.heard.iter();
        let top =
            events.rfind(|event| members.contains(&event.pid) && !members.contains(&event.parent));
        let first = first_container
            .map(|(pid, _)| *pid)
            .or(top.map(|event| event.pid));
        let Some(first) = first else { return };
        // The init process exits with 128+n if the program died of signal n, and usually has no
        // other child.
        let fits = |event: &&ThreadEvent| match event.kind {
            ThreadEventKind::Ended(WaitStatus::Signaled(signal, _)) => {
                signal + 128 == observation.code
            }
            ThreadEventKind::Ended(WaitStatus::Exited(code)) => code == observation.code,
            ThreadEventKind::Crashes => false,
        };
        let events = self.heard.iter().filter(fits);
        let child_event = events.clone().find(|event| event.parent == first);
        let Some(program) = child_event.or_else(|| events.clone().find(|event| event.pid == first))
        else {
            return;
        };
        *pid = program.pid;
        if let ThreadEventKind::Ended(status) = program.kind {
            observation.ended = Some(match status {
                WaitStatus::Exited(code) => Ending::Exited(code),
                WaitStatus::Signaled(signal, _) => {
                    Ending::Signaled(Signal(signal), has_dumped(&self.heard, program.pid))
                }
            });
        }
    }

    /// Returns when a process of the trial crashed that is not one of the plan's own.
    pub(super) fn saw_a_crash(&mut self, actors: &[i32]) -> Option<Duration> {
        if !self.alert || !self.listening {
            return None;
        }
        let count_before = self.heard.len();
        self.take_events();
        let crash = |signal: Option<Signal>| {
            signal.is_none_or(|signal| signal.is_crash() || signal == Signal::KILL)
        };
        let mut dead = self.orphans.clone();
        if self.heard.len() > count_before {
            let slot = std::process::id().cast_signed();
            dead.extend(account_for_trial(&self.heard, actors, slot).crashed_children);
        }
        let dead = dead.iter().filter(|process| crash(process.signal));
        dead.map(|process| self.time_of(process.pid)).min()
    }

    /// Returns when an ended process died, by the kernel's events if possible, otherwise now.
    pub(super) fn time_of(&self, pid: i32) -> Duration {
        let events = self.heard.iter().filter(|event| event.pid == pid);
        events
            .map(|event| event.time)
            .min()
            .unwrap_or_else(host::monotonic_now)
    }

    /// Returns the crashed processes and the kernel log lines of the trial with these own
    /// processes.
    pub(super) fn take_crashes(
        &mut self,
        actors: &[i32],
    ) -> (Vec<CrashedProcess>, Vec<KernelLine>) {
        self.stop_listening(actors);
        if !self.containers.is_empty() {
            // The processes of the trial's containers are known only now.
            let containers = self.containers.iter();
            let roots: Vec<i32> = containers
                .flat_map(|id| self.container_members(id))
                .collect();
            let slot = std::process::id().cast_signed();
            let root_pids = [actors, &roots[..]].concat();
            let thread_counts = account_for_trial(&self.heard, &root_pids, slot).threads;
            let dead =
                |event: &&ThreadEvent| roots.contains(&event.pid) && !actors.contains(&event.pid);
            for event in self.heard.iter().filter(dead) {
                if let ThreadEventKind::Ended(WaitStatus::Signaled(signal, _)) = event.kind
                    && self
                        .account
                        .crashed_children
                        .iter()
                        .all(|process| process.pid != event.pid)
                {
                    let core = has_dumped(&self.heard, event.pid);
                    let dead = new_crashed_child(event.pid, Some(signal), core);
                    self.account.crashed_children.push(dead);
                }
            }
            self.account.threads.extend(thread_counts);
        }
        let mut crashed_children = std::mem::take(&mut self.account.crashed_children);
        for orphan in self.orphans.drain(..) {
            let crashed = crashed_children
                .iter_mut()
                .find(|process| process.pid == orphan.pid);
            match crashed {
                Some(process) => (process.signal, process.core) = (orphan.signal, orphan.core),
                None => crashed_children.push(orphan),
            }
        }
        let lines = self
            .log
            .as_mut()
            .map(KernelLog::new_lines)
            .unwrap_or_default();
        let lines = lines_of_trial(lines, actors, &mut crashed_children, &self.account.threads);
        (crashed_children, lines)
    }

    fn next_events(&self) -> impl Iterator<Item = ThreadEvent> {
        let exits = self.exits.get().into_iter().flatten();
        exits.flat_map(|exits| std::iter::from_fn(|| exits.next_event()))
    }

    fn wait_for_events(&self, timeout: Duration) {
        let timeout = rustix::fs::Timespec::try_from(timeout).unwrap_or_default();
        let mut fds: Vec<_> = self
            .exits
            .get()
            .into_iter()
            .flatten()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        let _ = poll(&mut fds, Some(&timeout));
    }
}

/// Returns false for children of the slot: processes that it started, and orphans. Without a
/// daemon, the monitor of a container is such an orphan, and exits with the code of the container.
fn is_inside(event: &ThreadEvent) -> bool {
    event.parent != std::process::id().cast_signed()
}

/// Returns the container of a process that has ended or is about to end.
fn container_of_thread(event: &ThreadEvent) -> Option<ProcessContainer> {
    let own_container = engine::container_of(event.pid);
    let parent_container = engine::container_of(event.parent);
    let watched =
        engine::watched_by(event.parent).filter(|id| parent_container.as_ref() != Some(id));
    Some(ProcessContainer {
        first: watched.is_some(),
        container: watched.or(own_container).or(parent_container)?,
        inside: engine::number_inside(event.pid),
    })
}

fn new_crashed_child(pid: i32, signal: Option<i32>, core: bool) -> CrashedProcess {
    CrashedProcess {
        pid,
        program: String::new(),
        signal: signal.map(Signal),
        core,
    }
}

/// Returns whether the core of a process was dumped: only the thread that dumped it has this flag
/// in its status.
fn has_dumped(events: &[ThreadEvent], pid: i32) -> bool {
    let mut of_it = events.iter().filter(|event| event.pid == pid);
    of_it.any(|event| {
        matches!(
            event.kind,
            ThreadEventKind::Ended(WaitStatus::Signaled(_, true))
        )
    })
}

/// Selects the events of a trial: processes whose parent is one of its own processes, the slot, or
/// another selected process.
///
/// The kernel does not report processes that exit with 0. So a crash below such a process is
/// missed, unless the crashed process was an orphan.
fn account_for_trial(events: &[ThreadEvent], actors: &[i32], slot: i32) -> CrashFindings {
    let mut pids: BTreeSet<i32> = actors.iter().copied().chain([slot]).collect();
    // A child may end before its parent, so its event may come first.
    loop {
        let count_before = pids.len();
        let new_pids: Vec<_> = events
            .iter()
            .filter(|event| pids.contains(&event.parent))
            .map(|event| event.pid)
            .collect();
        pids.extend(new_pids);
        if pids.len() == count_before {
            break;
        }
    }
    let mut account = CrashFindings::default();
    let mut crashed = Vec::new();
    for event in events.iter().filter(|event| pids.contains(&event.pid)) {
        account.threads.insert(event.tid, event.pid);
        if actors.contains(&event.pid) {
            continue;
        }
        let is_known =
            |list: &[CrashedProcess]| list.iter().any(|process| process.pid == event.pid);
        match event.kind {
            ThreadEventKind::Crashes => crashed.push(event.pid),
            // All threads of a process die of the same signal.
            ThreadEventKind::Ended(WaitStatus::Signaled(signal, _))
                if !is_known(&account.crashed_children) =>
            {
                let dead =
                    new_crashed_child(event.pid, Some(signal), has_dumped(events, event.pid));
                account.crashed_children.push(dead);
            }
            ThreadEventKind::Ended(_) => {}
        }
    }
    for pid in crashed {
        if account
            .crashed_children
            .iter()
            .all(|process| process.pid != pid)
        {
            account.unfinished = true;
            account
                .crashed_children
                .push(new_crashed_child(pid, None, false));
        }
    }
    account
}

/// Selects the kernel log lines about processes of the trial, and adds the names in these lines to
/// the crashed processes.
fn lines_of_trial(
    lines: Vec<ProcessLogLine>,
    actors: &[i32],
    crashed_children: &mut [CrashedProcess],
    threads: &BTreeMap<i32, i32>,
) -> Vec<KernelLine> {
    let mut picked = Vec::new();
    for line in lines {
        // A line about a crash contains the thread, a line about a kill the process.
        let pid = threads.get(&line.pid).copied().unwrap_or(line.pid);
        let crashed_child = crashed_children
            .iter_mut()
            .find(|process| process.pid == pid);
        if crashed_child.is_none() && !actors.contains(&pid) {
            continue;
        }
        if let Some(crashed_child) = crashed_child
            && crashed_child.program.is_empty()
        {
            crashed_child.program = line.name;
        }
        picked.push(KernelLine {
            pid,
            text: line.text,
            function: None,
        });
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: i32 = 1;
    const ACTOR: i32 = 10;

    fn ended(pid: i32, parent: i32, status: WaitStatus) -> ThreadEvent {
        ThreadEvent {
            tid: pid,
            pid,
            parent,
            time: Duration::ZERO,
            kind: ThreadEventKind::Ended(status),
        }
    }

    fn crashes(pid: i32, tid: i32, parent: i32) -> ThreadEvent {
        ThreadEvent {
            tid,
            pid,
            parent,
            time: Duration::ZERO,
            kind: ThreadEventKind::Crashes,
        }
    }

    fn crashed_process(pid: i32) -> CrashedProcess {
        new_crashed_child(pid, Some(11), false)
    }

    const SEGV: WaitStatus = WaitStatus::Signaled(11, false);

    #[test]
    fn crashed_processes_are_found_through_failed_parents() {
        let events = [
            ended(12, 11, SEGV),
            ended(11, ACTOR, WaitStatus::Exited(2)),
            ended(13, SLOT, SEGV),
            ended(20, 19, SEGV),
            ended(ACTOR, SLOT, SEGV),
        ];
        let seen = account_for_trial(&events, &[ACTOR], SLOT);
        assert_eq!(
            seen.crashed_children,
            [crashed_process(12), crashed_process(13)]
        );
    }

    #[test]
    fn a_process_that_crashes_with_its_threads_is_one_crash() {
        let mut thread = ended(12, ACTOR, SEGV);
        thread.tid = 15;
        let events = [crashes(12, 15, ACTOR), thread, ended(12, ACTOR, SEGV)];
        let seen = account_for_trial(&events, &[ACTOR], SLOT);
        assert_eq!(seen.crashed_children, [crashed_process(12)]);
        assert_eq!(seen.threads[&15], 12);
        assert!(!seen.unfinished);
    }

    fn in_container(containers: &[(i32, bool)], events: Vec<ThreadEvent>) -> ContainerObservation {
        let container_of_process = |(pid, first): &(i32, bool)| {
            let container = ProcessContainer {
                container: "c".to_owned(),
                inside: None,
                first: *first,
            };
            (*pid, container)
        };
        let monitor = CrashMonitor {
            log: None,
            process_containers: containers.iter().map(container_of_process).collect(),
            heard: events,
            ..CrashMonitor::new()
        };
        let mut seen = ContainerObservation {
            id: "c".to_owned(),
            code: 139,
            ..ContainerObservation::default()
        };
        monitor.of_container(&mut seen, &mut 0);
        seen
    }

    #[test]
    fn a_signal_in_a_container_is_distinguished_from_an_exit_code() {
        const SHIM: i32 = 5;
        let died = || {
            vec![
                ended(21, 20, SEGV),
                ended(20, SHIM, WaitStatus::Exited(139)),
            ]
        };
        let code = || {
            let code = WaitStatus::Exited(139);
            vec![ended(21, 20, code), ended(20, SHIM, code)]
        };
        let segv = Some(Ending::Signaled(Signal::SEGV, false));
        // All combinations of processes that still existed when they were examined.
        for containers in [
            &[(20, true), (21, false)][..],
            &[(21, false)],
            &[(20, false)],
        ] {
            assert_eq!(
                in_container(containers, died()).ended,
                segv,
                "{containers:?}"
            );
            assert_eq!(
                in_container(containers, code()).ended,
                Some(Ending::Exited(139))
            );
        }
        assert_eq!(in_container(&[], died()).ended, None);
        // The events may include the monitor outside.
        let slot = std::process::id().cast_signed();
        let watched = [died(), vec![ended(SHIM, slot, WaitStatus::Exited(139))]].concat();
        assert_eq!(in_container(&[(21, false)], watched).ended, segv);
        let alone = vec![ended(20, SHIM, SEGV)];
        assert_eq!(in_container(&[(20, true)], alone).ended, segv);
        // Only the thread that dumps the core has the flag, and it may be the last.
        let mut thread = ended(21, 20, SEGV);
        thread.tid = 22;
        let dumps = ended(21, 20, WaitStatus::Signaled(11, true));
        let dumped = in_container(&[(20, true)], [vec![thread, dumps], died()].concat()).ended;
        assert_eq!(dumped, Some(Ending::Signaled(Signal::SEGV, true)));
    }

    #[test]
    fn a_crashing_process_that_has_not_ended_is_unfinished() {
        let seen = account_for_trial(&[crashes(12, 12, ACTOR)], &[ACTOR], SLOT);
        assert!(seen.unfinished);
        assert_eq!(seen.crashed_children, [new_crashed_child(12, None, false)]);
        let foreign = account_for_trial(&[crashes(12, 12, 99)], &[ACTOR], SLOT);
        assert_eq!(foreign, CrashFindings::default());
    }

    #[test]
    fn kernel_log_lines_belong_to_the_process_of_the_named_thread() {
        let line = |pid, text: &str| ProcessLogLine {
            pid,
            name: "boom".to_owned(),
            text: text.to_owned(),
        };
        let lines = vec![
            line(15, "thread"),
            line(ACTOR, "actor"),
            line(99, "foreign"),
        ];
        let mut crashed_children = [crashed_process(12)];
        let threads = BTreeMap::from([(15, 12)]);
        let picked = lines_of_trial(lines, &[ACTOR], &mut crashed_children, &threads);
        let picked: Vec<_> = picked.iter().map(|line| (line.pid, &*line.text)).collect();
        assert_eq!(picked, [(12, "thread"), (ACTOR, "actor")]);
        assert_eq!(crashed_children[0].program, "boom");
    }
}
